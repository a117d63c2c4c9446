//! Certificates that the server orders by itself, from a real authority for tests.

mod account;
mod many;
mod on_demand;
mod pebble;
mod some_names;
mod under_load;
mod unreachable;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use howdah_acme::storage::date;

use self::pebble::{EXTERNAL_ACCOUNT, Habits, Pebble, Ports, has_pebble, own_certificate};
use crate::http2::client::Http2;
use crate::support::{Folder, Process, Server, Setup, free_address, is_root, wait_until};
use crate::tls::client::{TlsClient, Trust};

/// A server that orders certificates, its files and its authority's ports.
struct Site {
    folder: Folder,
    /// The document root.
    root: &'static str,
    /// Whether http is redirected.
    redirect: bool,
    ports: Ports,
}

impl Site {
    fn new() -> Site {
        let folder = Folder::new();
        folder.file("public/index.html", "a page");
        folder.file("ca.pem", own_certificate().0);
        Site {
            folder,
            root: "public",
            redirect: false,
            ports: Ports::choose(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes the configuration. `acme` are more lines of `[acme]`.
    fn configure(&self, hosts: &[&str], acme: &str) -> PathBuf {
        let directory = format!("directory = \"{}\"\n", self.ports.url());
        let directory = if acme.contains("directory =") { "" } else { &directory };
        let root = &self.root;
        let text = format!(
            "listen = [\"127.0.0.1:{}\", {{ address = \"127.0.0.1:{}\", tls = true }}]\n\
             control = \"control\"\n\
             [acme]\n{directory}terms_agreed = true\nca_file = \"ca.pem\"\nstate_dir = \"acme\"\n\
             {acme}\n\
             [[site]]\nhosts = {hosts:?}\nroot = \"{root}\"\nphp = false\n\
             tls = {{ from = \"auto\", redirect = {} }}\n",
            self.ports.http, self.ports.tls, self.redirect,
        );
        self.folder.file("howdah.toml", text)
    }

    fn start(&self, hosts: &[&str], acme: &str) -> Server {
        Setup::config(&self.configure(hosts, acme)).start()
    }

    fn ask(&self, command: &str) -> String {
        self.ask_with(&[command])
    }

    fn ask_with(&self, command: &[&str]) -> String {
        let config = self.path("howdah.toml").display().to_string();
        let (status, told, error) = Setup::with(&[command, &["--config", &config]].concat()).run();
        assert_eq!(status, Some(0), "{error}");
        told
    }

    /// Waits until `howdah status --json` has the certificates of that many names, each with the
    /// end and the next renewal that `howdah status` shows. The authority may change a renewal.
    fn wait_for_renewals(&self, count: usize) {
        wait_until("both kinds of status tell the same renewals", || {
            let (told, status) = (self.ask("status"), self.ask_with(&["status", "--json"]));
            let status: serde_json::Value = serde_json::from_str(&status).unwrap();
            let certificates = status["sites"][0]["certificates"].as_array().unwrap();
            let is_told = |one: &serde_json::Value| {
                let (name, ends) =
                    (one["names"][0].as_str().unwrap(), one["ends"].as_u64().unwrap());
                let begins = one["begins"].as_u64().unwrap();
                one["next_renewal"].as_u64().is_some_and(|next| {
                    assert!(begins < next && next < ends, "{one}");
                    let (ends, next) = (date(ends), date(next));
                    told.contains(&format!("  {name}: ends at {ends}, next renewal at {next}\n"))
                })
            };
            certificates.len() == count && certificates.iter().all(is_told)
        });
    }

    /// Waits until `howdah status` says all of `what`, and the front uses what it tells.
    fn wait_for_status(&self, what: &[&str]) -> String {
        let mut told = String::new();
        wait_until(&format!("the status says {what:?}"), || {
            told = self.ask("status");
            what.iter().all(|words| told.contains(words))
        });
        // The front may have answered before it got the certificate. The next answer comes after.
        self.ask("status");
        told
    }

    /// Where it listens for TLS.
    fn tls(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.ports.tls))
    }

    /// A client that trusts the authority that has issued the certificate of `name`.
    fn client(&self, name: &str) -> TlsClient {
        let pem = self.certificate(name).unwrap();
        // The last one of the chain is the authority's.
        let authority = pem.rfind("-----BEGIN CERTIFICATE").unwrap();
        TlsClient::trusting(&pem.as_bytes()[authority..], Trust::Tls13)
    }

    /// Returns the certificate of `name` with its key; `None` if there is none.
    fn certificate(&self, name: &str) -> Option<String> {
        let path = self.path("acme/certificates").join(name).join("certificate.pem");
        fs::read_to_string(path).ok()
    }
}

/// The process that orders certificates.
fn orders(server: &Server) -> Process {
    let mut found = None;
    wait_until("the process that orders certificates runs", || {
        let children = server.supervisor().children();
        found = children.into_iter().find(|child| child.name() == "howdah-acme");
        found.is_some()
    });
    found.unwrap()
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o777
}

#[test]
fn names_get_certificates_over_plain_http_whatever_the_site_s_rules_say() {
    if !has_pebble() {
        return;
    }
    let site = Site::new();
    site.folder.file("public/.htaccess", "Require all denied\n");
    let _pebble = Pebble::start(site.ports, Habits::default());
    let names: Vec<String> = (0..20).map(|number| format!("www{number}.example.org")).collect();
    let mut hosts: Vec<&str> = names.iter().map(String::as_str).collect();
    hosts.extend(["localhost", "*.example.net"]);
    let server = site.start(&hosts, "email = \"admin@example.org\"");
    let ready: Vec<String> = names.iter().map(|name| format!("{name}: ends at 20")).collect();
    let ready: Vec<&str> = ready.iter().map(String::as_str).collect();
    let told = site.wait_for_status(&ready);
    site.wait_for_renewals(names.len());
    assert!(told.contains("localhost: none: is no name that an authority can look up"), "{told}");
    assert!(told.contains("*.example.net: none: a certificate for a wildcard needs"), "{told}");
    for name in &names {
        let pem = site.certificate(name).unwrap();
        assert_eq!(pem.matches("BEGIN PRIVATE KEY").count(), 1, "{name}");
        assert!(pem.matches("BEGIN CERTIFICATE").count() >= 2, "{name}: the chain as well");
        let folder = site.path("acme/certificates").join(name);
        assert_eq!((mode(&folder), mode(&folder.join("certificate.pem"))), (0o700, 0o600));
        let about = fs::read_to_string(folder.join("about.json")).unwrap();
        assert!(about.contains(&site.ports.url()), "{about}");
    }
    assert!(fs::read_to_string(site.path("acme/README")).unwrap().contains("certificates"));
    assert_eq!(server.get("/").status, 403, "the site's rules hold for all others");
    let unknown = server.get("/.well-known/acme-challenge/unknown");
    assert_eq!(unknown.status, 403);
    site.ask("reload");
    site.wait_for_renewals(names.len());
    server.stop();
}

#[test]
fn an_authority_gets_the_same_answer_over_http2() {
    if !has_pebble() {
        return;
    }
    let mut site = Site::new();
    // The authority asks the test, which passes on what the server says.
    let middle = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let mut ports = site.ports;
    ports.http = middle.local_addr().unwrap().port();
    site.folder.file("public/.htaccess", "Require all denied\n");
    let _pebble = Pebble::start(ports, Habits::default());
    site.ports.http = free_address().port();
    let server = site.start(&["example.org"], "challenges = [\"http-01\"]");
    let (stream, _) = middle.accept().unwrap();
    let path = &target(&stream);
    let first = server.get(path);
    let client = Http2::with(server.address(), &h2::client::Builder::new());
    let second = client.get(path);
    assert_eq!((first.status, second.status), (200, 200));
    assert_eq!(first.body, second.body);
    assert_eq!(first.field("content-type"), second.field("content-type"));
    let token = path.rsplit('/').next().unwrap();
    assert!(second.text().starts_with(&format!("{token}.")), "{second:?}");
    let head = client.ask("HEAD", path, &[], b"");
    assert_eq!((head.status, head.text()), (200, ""));
    assert_eq!(client.ask("POST", path, &[], b"a").status, 403, "the site's rules");
    let text = second.text().to_owned();
    std::thread::spawn(move || {
        pass_on(&stream, &text);
        for stream in middle.incoming().flatten() {
            target(&stream);
            pass_on(&stream, &text);
        }
    });
    site.wait_for_status(&["example.org: ends at"]);
    server.stop();
}

/// Reads the head of a request, and returns its target.
fn target(stream: &TcpStream) -> String {
    let lines = BufReader::new(stream).lines().map(|line| line.unwrap());
    let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
    head[0].split(' ').nth(1).unwrap().to_owned()
}

fn pass_on(mut stream: &TcpStream, text: &str) {
    write!(stream, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{text}").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
}

#[test]
fn a_certificate_is_ordered_over_tls_alone_and_in_use_at_once_and_after_a_restart() {
    if !has_pebble() {
        return;
    }
    let site = Site::new();
    let _pebble = Pebble::start(site.ports, Habits::default());
    let lines = "challenges = [\"tls-alpn-01\"]";
    let server = site.start(&["example.org"], lines);
    site.wait_for_status(&["example.org: ends at"]);
    let mut client = site.client("example.org");
    // The front has got the certificate.
    assert_eq!(client.connect(site.tls(), "example.org").get("/").status, 200);
    let first = site.certificate("example.org");
    server.stop();
    let server = site.start(&["example.org"], lines);
    let reply = client.connect(site.tls(), "example.org").get("/");
    assert_eq!((reply.status, reply.text()), (200, "a page"), "from the first moment on");
    assert_eq!(site.certificate("example.org"), first);
    server.stop();
}

#[test]
fn the_process_that_orders_has_no_rights_and_no_listener() {
    if !has_pebble() || !is_root() {
        return;
    }
    let site = Site::new();
    let _pebble = Pebble::start(site.ports, Habits::default());
    let server = site.start(&["example.org"], "");
    site.wait_for_status(&["example.org: ends at"]);
    let process = orders(&server);
    assert_ne!(process.uid(), 0);
    assert_ne!(process.uid(), server.front().uid());
    assert_eq!(process.status("CapEff").unwrap().trim(), "0000000000000000");
    assert_eq!(process.status("NoNewPrivs").unwrap().trim(), "1");
    let owner = std::os::unix::fs::MetadataExt::uid(&site.path("acme").metadata().unwrap());
    assert_eq!(owner, process.uid());
    server.stop();
}

#[test]
fn a_wildcard_gets_its_certificate_by_a_hook_that_changes_the_dns() {
    if !has_pebble() {
        return;
    }
    let site = Site::new();
    let _pebble = Pebble::start(site.ports, Habits::default());
    let script = format!(
        "#!/bin/sh\nset -eu\ncase $1 in add) action=set-txt;; remove) action=clear-txt;; esac\n\
         curl -sf -d \"{{\\\"host\\\":\\\"$2.\\\",\\\"value\\\":\\\"$3\\\"}}\" \
         http://127.0.0.1:{}/$action\n",
        site.ports.dns_management
    );
    let hook = site.folder.program("hook", script);
    let lines = format!("dns_hook = [\"{}\"]\nchallenges = [\"dns-01\"]", hook.display());
    let server = site.start(&["*.example.org", "example.org"], &lines);
    site.wait_for_status(&["*.example.org: ends at", "  example.org: ends at"]);
    assert!(site.certificate("_wildcard.example.org").is_some());
    server.stop();
}

#[test]
fn an_authority_that_comes_back_is_asked_again_and_the_site_answers_meanwhile() {
    if !has_pebble() {
        return;
    }
    let site = Site::new();
    let server = site.start(&["example.org"], "");
    let told = site.wait_for_status(&["example.org: none yet, next attempt at 20", "last error"]);
    assert!(told.contains("Connection refused"), "{told}");
    assert_eq!(server.get("/").text(), "a page");
    let _pebble = Pebble::start(site.ports, Habits::default());
    site.wait_for_status(&["example.org: ends at"]);
    server.stop();
}

#[test]
fn a_second_authority_takes_over() {
    if !has_pebble() {
        return;
    }
    let site = Site::new();
    let _pebble = Pebble::start(site.ports, Habits::default());
    let lines = format!("directory = [\"https://127.0.0.1:1/dir\", \"{}\"]", site.ports.url());
    let server = site.start(&["example.org"], &lines);
    site.wait_for_status(&["example.org: ends at"]);
    assert!(server.log().contains("https://127.0.0.1:1/dir"), "the first one was tried");
    server.stop();
}

#[test]
fn an_account_that_the_authority_has_forgotten_is_replaced() {
    if !has_pebble() {
        return;
    }
    let site = Site::new();
    let pebble = Pebble::start(site.ports, Habits::default());
    let server = site.start(&["example.org"], "");
    site.wait_for_status(&["example.org: ends at"]);
    drop(pebble);
    // It keeps nothing on disk.
    let _pebble = Pebble::start(site.ports, Habits::default());
    site.configure(&["example.org", "www.example.org"], "");
    site.ask("reload");
    site.wait_for_status(&["www.example.org: ends at"]);
    let accounts = site.path("acme/accounts");
    let folder = fs::read_dir(accounts).unwrap().next().unwrap().unwrap().path();
    assert!(folder.join("account.pem").exists() && folder.join("account.pem.retired").exists());
    server.stop();
}

#[test]
fn a_process_that_dies_in_the_middle_of_an_order_begins_again() {
    if !has_pebble() {
        return;
    }
    let site = Site::new();
    let _pebble = Pebble::start(site.ports, Habits::default());
    let begun = site.path("begun");
    let open = site.path("open");
    // The first call stays in the middle of the order, until the process has died.
    let script = format!(
        "#!/bin/sh\nset -eu\n[ \"$1\" = add ] || exit 0\necho >> {}\n\
         while [ ! -e {} ]; do sleep 0.05; done\n\
         curl -sf -d \"{{\\\"host\\\":\\\"$2.\\\",\\\"value\\\":\\\"$3\\\"}}\" \
         http://127.0.0.1:{}/set-txt\n",
        begun.display(),
        open.display(),
        site.ports.dns_management
    );
    let hook = site.folder.program("hook", script);
    fs::write(&begun, "").unwrap();
    fs::set_permissions(&begun, fs::Permissions::from_mode(0o666)).unwrap();
    let lines = format!("dns_hook = \"{}\"\nchallenges = [\"dns-01\"]", hook.display());
    let config = site.configure(&["example.org"], &lines);
    let text = format!("sandbox = false\n{}", fs::read_to_string(&config).unwrap());
    fs::write(&config, text).unwrap();
    let server = Setup::config(&config).start();
    let calls = || fs::read_to_string(&begun).unwrap().lines().count();
    wait_until("the order is under way", || calls() == 1);
    let first = orders(&server);
    first.signal(howdah_sys::signal::SIGKILL);
    wait_until("another process has begun", || calls() == 2);
    assert!(site.certificate("example.org").is_none());
    assert_eq!(server.get("/").text(), "a page");
    fs::write(&open, "").unwrap();
    site.wait_for_status(&["example.org: ends at"]);
    assert_ne!(orders(&server).number(), first.number());
    server.wait_for_log("the process that orders certificates");
    server.stop();
}

#[test]
fn a_certificate_is_renewed_before_its_end_also_across_a_reload() {
    if !has_pebble() {
        return;
    }
    let site = Site::new();
    let habits = Habits { validity: 12, ..Habits::default() };
    let _pebble = Pebble::start(site.ports, habits);
    let server = site.start(&["example.org"], "");
    let mut seen = Vec::new();
    wait_until("three certificates follow each other", || {
        let pem = site.certificate("example.org");
        if pem.is_some() && seen.last() != pem.as_ref() {
            seen.extend(pem);
            site.ask("reload");
        }
        seen.len() == 3
    });
    server.stop();
}

#[test]
fn an_account_is_bound_to_the_one_that_the_authority_knows() {
    if !has_pebble() {
        return;
    }
    let site = Site::new();
    let habits = Habits {
        binds_accounts: true,
        ..Habits::default()
    };
    let _pebble = Pebble::start(site.ports, habits);
    let server = site.start(&["example.org"], "");
    site.wait_for_status(&["give `eab_kid` and `eab_hmac`"]);
    let (kid, hmac) = EXTERNAL_ACCOUNT;
    site.configure(&["example.org"], &format!("eab_kid = \"{kid}\"\neab_hmac = \"{hmac}\""));
    site.ask("reload");
    site.wait_for_status(&["example.org: ends at"]);
    server.stop();
}

#[test]
fn a_full_disk_keeps_the_old_certificate_and_says_so() {
    if !has_pebble() || !is_root() {
        return;
    }
    let site = Site::new();
    let Some(disk) = SmallDisk::mount(site.folder.folder("acme")) else {
        howdah_skip::skip!("a small disk cannot be mounted here");
        return;
    };
    let habits = Habits { validity: 30, ..Habits::default() };
    let _pebble = Pebble::start(site.ports, habits);
    let server = site.start(&["example.org"], "");
    site.wait_for_status(&["example.org: ends at"]);
    // Writes until there is no room left.
    let filler = fs::File::create(disk.0.join("filler"));
    let filled = std::io::copy(&mut std::io::repeat(b'x'), &mut filler.unwrap());
    assert!(filled.is_err());
    let before = site.certificate("example.org");
    let told = site.wait_for_status(&["last error", "its certificate could not be kept"]);
    assert!(told.contains("No space left"), "{told}");
    assert_eq!(site.certificate("example.org"), before);
    server.stop();
}

/// A file system of 256 KiB, mounted for the time of a test.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(folder: PathBuf) -> Option<SmallDisk> {
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", "size=256k,mode=700", "tmpfs"]).arg(&folder);
        command
            .status()
            .is_ok_and(|status| status.success())
            .then_some(SmallDisk(folder))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: the server of a failed test may still use it.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}
