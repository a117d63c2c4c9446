//! The recipes of docs/behind-a-proxy.md with the programs themselves.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::site::Site;
use crate::support::{free_address, wait_until};
use crate::wire::Wire;

/// The page with the recipes.
const PAGE: &str = include_str!("../../../../../docs/behind-a-proxy.md");

/// A proxy that runs until the test ends.
struct Proxy {
    child: Child,
    address: SocketAddr,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Proxy {
    /// Starts the program. Its own files go into `folder`.
    fn start(program: &Path, arguments: &[&str], folder: &Path, address: SocketAddr) -> Proxy {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .envs(["HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"].map(|name| (name, folder)))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        command.process_group(0);
        let mut proxy = Proxy { child: command.spawn().unwrap(), address };
        let child = &mut proxy.child;
        wait_until("the proxy listens", || {
            if let Some(status) = child.try_wait().unwrap() {
                let mut said = String::new();
                child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
                panic!("{} ended with {status}: {said}", program.display());
            }
            TcpStream::connect(address).is_ok()
        });
        proxy
    }
}

/// The program, or `None` with a message.
fn find(name: &str) -> Option<PathBuf> {
    let paths = ["/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin"];
    let found = paths.iter().map(|path| Path::new(path).join(name)).find(|path| path.exists());
    if found.is_none() {
        howdah_skip::skip!("no {name}; scripts/install-packages.sh test installs it");
    }
    found
}

/// The `number`th block of code below a heading of the page.
fn recipe(heading: &str, number: usize) -> &'static str {
    let section = PAGE.split("\n## ").find(|section| section.starts_with(heading)).unwrap();
    section.split("```").nth(2 * number + 1).unwrap().split_once('\n').unwrap().1
}

/// A server with the recipe's settings, and what its rules see of clients.
fn site(settings: &str, address: SocketAddr) -> Site {
    let settings = settings.replace("127.0.0.1:8080", &address.to_string());
    let settings = settings.split("[[site]]").next().unwrap();
    let config = format!(
        "{settings}\ncontrol = \"control\"\n[log]\naccess = \"access.log\"\n[[site]]\n\
         root = \"public\"\nphp = false\n\
         rules = \"Header set X-Seen \
         expr=%{{REMOTE_ADDR}}|%{{HTTPS}}|%{{SERVER_PORT}}|%{{HTTP_HOST}}\"\n"
    );
    Site::configured(&[("a.txt", "a")], &config)
}

/// Fields that a client forges.
const FORGED: [(&str, &str); 8] = [
    ("Host", "shop.example"),
    ("X-Forwarded-For", "203.0.113.66"),
    ("X-Forwarded-Proto", "https"),
    ("X-Forwarded-Host", "evil.example"),
    ("X-Forwarded-Port", "666"),
    ("Forwarded", "for=203.0.113.66;host=evil.example;proto=https"),
    ("X-Real-IP", "203.0.113.66"),
    ("CF-Connecting-IP", "203.0.113.66"),
];

/// Asks through the proxy, from 127.0.0.9, with everything forged.
fn assert_seen(site: &Site, proxy: &Proxy, expected: &str) {
    for _ in 0..2 {
        let mut wire = Wire::connect_from([127, 0, 0, 9], proxy.address);
        let reply = wire.ask("GET", "/a.txt", &FORGED, b"");
        assert_eq!((reply.status, reply.text()), (200, "a"), "{reply:?}");
        assert_eq!(reply.field("x-seen"), Some(expected), "{reply:?} {}", site.server.log());
    }
}

/// nginx in front of the site, with the page's `server`.
fn nginx(program: &Path, site: &Site, server: &str) -> Proxy {
    let address = free_address();
    let server = server.replace("listen 443 ssl;", &format!("listen {address};"));
    let server: String = server
        .lines()
        .filter(|line| !line.contains("ssl_"))
        .collect::<Vec<_>>()
        .join("\n");
    let folder = site.path().join("nginx");
    std::fs::create_dir(&folder).unwrap();
    let place = folder.display();
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|name| format!("{name}_temp_path {place}/{name};\n"))
        .concat();
    let config = format!(
        "daemon off;\nmaster_process off;\npid {place}/pid;\nerror_log {place}/error.log;\n\
         events {{}}\nhttp {{\naccess_log off;\n{temporary}{server}\n}}\n"
    );
    let file = folder.join("nginx.conf");
    std::fs::write(&file, config).unwrap();
    let log = format!("{place}/error.log");
    let arguments = ["-p", folder.to_str().unwrap(), "-e", &log, "-c", file.to_str().unwrap()];
    Proxy::start(program, &arguments, &folder, address)
}

#[test]
fn nginx_as_the_page_says() {
    let Some(program) = find("nginx") else { return };
    let own = free_address();
    let site = site(recipe("nginx", 0), own);
    let server = recipe("nginx", 1).replace("127.0.0.1:8080", &own.to_string());
    let proxy = nginx(&program, &site, &server);
    assert_seen(&site, &proxy, "127.0.0.9|off|80|shop.example");
}

#[test]
fn nginx_over_a_unix_socket_as_the_page_says() {
    let Some(program) = find("nginx") else { return };
    // The test may have another user than nginx has as a service, and needs a port to be told that
    // the server listens.
    let settings = recipe("nginx", 2)
        .replace("unix:/run/howdah/web.sock", "unix:web.sock")
        .replace(", group = \"www-data\"", "")
        .replace("listen = [", "listen = [\"127.0.0.1:0\", ");
    let site = site(&settings, free_address());
    let to_socket = recipe("nginx", 3)
        .replace("/run/howdah/web.sock", &site.path().join("web.sock").display().to_string());
    let server = recipe("nginx", 1);
    let (before, rest) = server.split_once("proxy_pass").unwrap();
    let (_, after) = rest.split_once(';').unwrap();
    let proxy = nginx(&program, &site, &format!("{before}{}{after}", to_socket.trim()));
    assert_seen(&site, &proxy, "127.0.0.9|off|80|shop.example");
}

#[test]
fn caddy_as_the_page_says() {
    let Some(program) = find("caddy") else { return };
    let own = free_address();
    let site = site(recipe("Caddy", 0), own);
    let address = free_address();
    // The name alone would make Caddy order a certificate. Caddy adds a Server field of its own to
    // that of the site.
    let server = recipe("Caddy", 1)
        .replace("example.org {", &format!("http://:{} {{\nbind 127.0.0.1", address.port()))
        .replace("127.0.0.1:8080", &format!("{own} {{\nheader_down -Server\n}}"));
    let file = site.path().join("Caddyfile");
    std::fs::write(&file, format!("{{\nadmin off\nauto_https off\n}}\n{server}")).unwrap();
    let arguments = ["run", "--adapter", "caddyfile", "--config", file.to_str().unwrap()];
    let proxy = Proxy::start(&program, &arguments, site.path(), address);
    assert_seen(&site, &proxy, "127.0.0.9|off|80|shop.example");
}

#[test]
fn cloudflares_fields_as_the_page_says() {
    let recipe = recipe("Cloudflare", 0).replace("\":80\"", "\"127.0.0.1:0\"");
    for (is_cloudflare, expected) in
        [(true, "203.0.113.66|on|443|shop.example"), (false, "127.0.0.1|off|80|shop.example")]
    {
        let (own, with_own) = ("trusted_proxies = [", "trusted_proxies = [\"127.0.0.1\",");
        let settings = if is_cloudflare {
            recipe.replace(own, with_own)
        } else {
            recipe.clone()
        };
        let site = site(&settings, free_address());
        let reply = site.ask("GET", "/a.txt", &FORGED, b"");
        assert_eq!(reply.field("x-seen"), Some(expected), "{reply:?} {}", site.server.log());
    }
}

#[test]
fn haproxy_as_the_page_says() {
    let Some(program) = find("haproxy") else {
        return;
    };
    for (settings, sections, expected) in
        [(0, 1, "127.0.0.9|off|80|shop.example"), (2, 3, "127.0.0.9|off|80|shop.example")]
    {
        let own = free_address();
        let site = site(recipe("HAProxy", settings), own);
        let address = free_address();
        let text = recipe("HAProxy", sections)
            .replace("bind :443 ssl crt /etc/haproxy/example.org.pem", &format!("bind {address}"))
            .replace("127.0.0.1:8080", &own.to_string());
        let config = format!(
            "defaults\n  timeout connect 5s\n  timeout client 20s\n  timeout server 20s\n{text}\n"
        );
        let file = site.path().join("haproxy.cfg");
        std::fs::write(&file, config).unwrap();
        let proxy =
            Proxy::start(&program, &["-db", "-f", file.to_str().unwrap()], site.path(), address);
        assert_seen(&site, &proxy, expected);
    }
}

/// `option httpchk` without arguments asks with OPTIONS for `/`.
#[test]
fn haproxy_finds_the_admin_listener_healthy_by_default() {
    let Some(program) = find("haproxy") else {
        return;
    };
    for (check, expected) in [
        ("option httpchk", "L7OK"),
        ("option httpchk /readyz", "L7OK"),
        ("option httpchk /readyz?site=none", "L7STS"),
    ] {
        let (own, admin) = (free_address(), free_address());
        let site = site(&format!("admin = \"{admin}\"\n{}", recipe("HAProxy", 0)), own);
        let address = free_address();
        let config = format!(
            "defaults\n  mode http\n  timeout connect 5s\n  timeout client 20s\n\
             \x20 timeout server 20s\nfrontend web\n  bind {address}\n\
             \x20 stats enable\n  stats uri /stats\n\
             backend howdah\n  {check}\n\
             \x20 server howdah {own} check port {} inter 100ms\n",
            admin.port()
        );
        let file = site.path().join("haproxy.cfg");
        std::fs::write(&file, config).unwrap();
        let arguments = ["-db", "-f", file.to_str().unwrap()];
        let proxy = Proxy::start(&program, &arguments, site.path(), address);
        wait_until(&format!("the result of `{check}` is {expected}"), || {
            let mut stream = TcpStream::connect(proxy.address).unwrap();
            stream.write_all(b"GET /stats;csv HTTP/1.0\r\n\r\n").unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            let mut servers = answer.lines().filter(|line| line.starts_with("howdah,howdah,"));
            servers.any(|line| line.split(',').any(|field| field == expected))
        });
    }
}
