//! Access logs of sites, formats in Apache's words, and the system's log.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;

use howdah_sys::signal::SIGUSR1;

use crate::apache::Apache;
use crate::site::{Options, Site};
use crate::support::{Client, Folder, PATIENCE, Setup, has_php, is_root, wait_until};
use crate::wire::Wire;

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

const SITES: &str = "listen = [\"127.0.0.1:0\"]\ncontrol = \"control\"\nstrict_hosts = true\n\
    [log]\n\
    access = \"access.log\"\n[[site]]\nhosts = [\"a.example\"]\nroot = \"public\"\nphp = false\n\
    access_log = \"a.log\"\naccess_log_format = \"%v %U %>s\"\n[[site]]\nhosts = [\"b.example\"]\n\
    root = \"public\"\nphp = false\naccess_log = \"a.log\"\naccess_log_format = \"json\"\n\
    [[site]]\n\
    hosts = [\"c.example\"]\nroot = \"public\"\nphp = false\n[[site]]\nhosts = [\"d.example\"]\n\
    root = \"public\"\nphp = false\naccess_log = \"off\"\n";

fn ask(site: &Site, host: &str, target: &str) {
    site.ask("GET", target, &[("Host", host)], b"");
}

#[test]
fn each_site_has_its_own_access_log() {
    let site = Site::configured(&[("x.txt", "content")], SITES);
    for host in ["a.example", "b.example", "c.example", "d.example", "e.example"] {
        ask(&site, host, "/x.txt");
    }
    let own = site.path().join("a.log");
    wait_until("all lines are written", || {
        read(&own).lines().count() == 2 && site.access_log().lines().count() == 2
    });
    let (own_log, common) = (read(&own), site.access_log());
    let lines: Vec<&str> = own_log.lines().collect();
    assert!(lines.contains(&"a.example /x.txt 200"), "{own_log}");
    assert!(lines.iter().any(|line| line.contains("\"site\":\"b.example\"")), "{own_log}");
    assert!(common.contains("\"GET /x.txt HTTP/1.1\" 200 7 ") && common.contains(" 421 "));
    // Others of this machine cannot read who visits.
    let mode = fs::metadata(&own).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o640);
}

#[test]
fn a_head_that_cannot_be_read_has_neither_method_nor_version() {
    for (format, expected) in [
        ("%m %H %r %>s", "- - \\x16\\x03\\x01 no request 400"),
        ("json", "\"method\":null,\"target\":\"\",\"version\":null"),
    ] {
        let config = format!(
            "listen = [\"127.0.0.1:0\"]\ncontrol = \"control\"\n[log]\naccess = \"access.log\"\n\
             format = \"{format}\"\n[[site]]\nroot = \"public\"\nphp = false\n"
        );
        let site = Site::configured(&[("x.txt", "content")], &config);
        let mut wire = site.connect();
        wire.send("\x16\x03\x01 no request\r\n\r\n");
        wire.reply("GET");
        wait_until("the line is written", || site.access_log().ends_with('\n'));
        assert!(site.access_log().contains(expected), "{}", site.access_log());
    }
}

#[test]
fn the_logs_of_all_sites_are_opened_again_by_sigusr1() {
    let site = Site::configured(&[("x.txt", "content")], SITES);
    let names = ["a.log", "access.log"];
    let path = |name: &str| site.path().join(name);
    let ask_all = || ["a.example", "c.example"].map(|host| ask(&site, host, "/x.txt"));
    ask_all();
    wait_until("lines are written", || names.iter().all(|name| !read(&path(name)).is_empty()));
    for name in names {
        fs::rename(path(name), path(&format!("{name}.1"))).unwrap();
    }
    site.server.signal(SIGUSR1);
    wait_until("new files are there", || names.iter().all(|name| path(name).exists()));
    site.server.wait_for_log("logs were opened again");
    let lines = |name: &str| read(&path(name)).lines().count();
    wait_until("lines go to the new files", || {
        ask_all();
        names.iter().all(|name| lines(name) > 0)
    });
    let before = names.map(|name| lines(&format!("{name}.1")));
    ask_all();
    wait_until("lines go to the new files", || names.iter().all(|name| lines(name) > 1));
    assert_eq!(names.map(|name| lines(&format!("{name}.1"))), before);
}

/// The owner of a site often has the folder of its log.
#[test]
fn a_log_that_its_owner_has_spoilt_keeps_no_other_site_from_being_served() {
    if !is_root() {
        return;
    }
    let folder = Folder::new();
    folder.file("public/x.txt", "content");
    let logs = folder.folder("logs");
    std::os::unix::fs::chown(&logs, Some(7), Some(7)).unwrap();
    let site = |name: &str, log: &str| {
        format!(
            "[[site]]\nhosts = [\"{name}.example\"]\nroot = \"public\"\nphp = false\n\
             access_log = \"{log}\"\n"
        )
    };
    let text = |own: &str| {
        let head = "listen = [\"127.0.0.1:0\"]\ncontrol = \"control\"\n";
        format!("{head}{}{}", site("a", "logs/a.log"), site("b", own))
    };
    let file = folder.file("howdah.toml", text("b.log"));
    let spoilt = folder.folder("logs/a.log");
    let server = Setup::config(&file).start();
    server.wait_for_log("its requests are not logged until a reload can open it");
    let get = |host: &str| {
        let mut client = Client::connect(server.address());
        let request = format!("GET /x.txt HTTP/1.1\r\nHost: {host}.example\r\n\r\n");
        client.send(request).unwrap();
        assert_eq!(client.answer().unwrap().text(), "content", "{host}");
    };
    get("a");
    get("b");
    fs::remove_dir(&spoilt).unwrap();
    let reload = || Setup::with(&["reload", "--config", file.to_str().unwrap()]).run();
    assert_eq!(reload().0, Some(0));
    get("a");
    for log in [spoilt, folder.path().join("b.log")] {
        wait_until("the log has a line", || read(&log).contains("/x.txt"));
    }
    // A folder of the operator's own: a mistake of the configuration.
    folder.file("howdah.toml", text("none/b.log"));
    let (status, _, told) = reload();
    assert!(status != Some(0) && told.contains("create its folder"), "{told}");
    server.stop();
}

#[test]
fn logs_may_go_to_the_system_s_log() {
    let config = "listen = [\"127.0.0.1:0\"]\ncontrol = \"control\"\n[log]\n\
        access = \"syslog:local3:shop\"\n\
        error = \"journald:howdah-test\"\nsyslog_socket = \"log\"\njournald_socket = \"journal\"\n\
        [[site]]\nroot = \"public\"\nphp = false\n";
    let site = Site::configured(&[("x.txt", "content")], config);
    // Nobody listens yet: that stops nothing.
    assert_eq!(site.get("/x.txt").status, 200);
    let daemon = |name: &str| {
        let path = site.path().join(name);
        let daemon = UnixDatagram::bind(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        daemon.set_read_timeout(Some(PATIENCE)).unwrap();
        daemon
    };
    let (syslog, journal) = (daemon("log"), daemon("journal"));
    let message = |daemon: &UnixDatagram| {
        let mut room = [0; 16 << 10];
        let count = daemon.recv(&mut room).unwrap();
        String::from_utf8(room[..count].to_vec()).unwrap()
    };
    // No client forges a line: everything it sends is escaped.
    site.ask("GET", "/x.txt?\"", &[("User-Agent", "a\t<13>\"b\u{e4}")], b"");
    // local3 is 19, a line about a request is informational.
    let tag = format!(" shop[{}]: 127.0.0.1 - - [", site.server.front().number());
    let end = "\"GET /x.txt?\\\" HTTP/1.1\" 200 7 \"-\" \"a\\t<13>\\\"b\\xc3\\xa4\"";
    loop {
        let line = message(&syslog);
        assert!(line.starts_with("<158>") && line.contains(&tag), "{line}");
        if line.contains("/x.txt?") {
            assert!(line.ends_with(end), "{line}");
            break;
        }
    }
    let mut wire = site.connect();
    wire.send("GET /a b HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_eq!(wire.reply("GET").status, 400);
    loop {
        let entry = message(&journal);
        let start = "SYSLOG_FACILITY=23\nSYSLOG_IDENTIFIER=howdah-test\nMESSAGE=";
        let (priority, text) = entry.split_once(start).unwrap();
        assert!(text.ends_with('\n') && text.lines().count() == 1, "{entry}");
        if text.starts_with("[client 127.0.0.1:") {
            assert_eq!(priority, "PRIORITY=6\n", "{entry}");
            break;
        }
    }
}

/// Where a line differs from Apache's: words, and the beginning of the request.
const DIFFERENCES: &[(&[&str], &str)] = &[
    // The server's own page has another text.
    (&["%b", "%B", "%{Content-Length}o"], "GET /moved"),
    // Apache does not count the last request of a connection.
    (&["%k"], "GET /x.txt HTTP/1.0"),
];

/// Words whose values do not depend on the server that writes them.
const WORDS: &[&str] = &[
    "%h",
    "%a",
    "%l",
    "%u",
    "%r",
    "%s",
    "%>s",
    "%b",
    "%B",
    "%H",
    "%m",
    "%q",
    "%U",
    "%v",
    "%V",
    "%k",
    "%X",
    "%f",
    "%{Referer}i",
    "%{x-two}i",
    "%{X-Empty}i",
    "%{None}i",
    "%{X-Own}o",
    "%{Content-Type}o",
    "%{Content-Length}o",
    "%{Location}o",
    "%{None}o",
    "%{sid}C",
    "%{SID}C",
    "%{none}C",
    "%{KIND}e",
    "%{EMPTY}e",
    "%{NONE}e",
    "%%",
    "%{page}n",
    "%{none}n",
    "%L",
    "%{X}^to",
    "%{%%,%q}t",
    "%404,501{Cookie}i",
    "%!200,304,302{User-Agent}i",
    "%200b",
    "%!404>s",
];

#[test]
fn formats_give_the_lines_that_apache_writes() {
    if !has_php() || !Apache::is_here() {
        return;
    }
    let format = WORDS.join(" | ");
    let own =
        format!("name = \"logs.test\"\nhosts = [\"logs.test\"]\naccess_log_format = '{format}'");
    let rules = "RewriteEngine On\nRewriteRule ^moved$ /x.txt [R=301,L]\n\
        RewriteRule ^inner$ /x.txt [L]\n\
        SetEnvIf User-Agent robot KIND=a\\ \"robot\"\nSetEnv EMPTY \"\"\n\
        Header set X-Own \"a b\"\nErrorDocument 404 /missing.html\n";
    let script = "<?php header('Content-Type: text/plain; charset=utf-8'); header('X-Own: \
        \"script\"');
                  http_response_code((int) ($_GET['s'] ?? 200));
                  if (isset($_GET['k'])) apache_setenv('kind', $_GET['k']);
                  if (isset($_GET['n'])) {
                      apache_note('PAGE', 'x');
                      apache_note('page', $_GET['n']);
                  }
                  if (!isset($_GET['e'])) echo 'four';";
    let site = Site::with(
        &[
            ("x.txt", "content"),
            ("p.php", script),
            (".htaccess", rules),
            ("dir/index.html", "x"),
            ("missing.html", "nothing here"),
        ],
        &Options { site: &own, ..Options::default() },
    );
    let apache = Apache::start(&site.path().join("apache"), &site.root(), &format);
    let requests = [
        "GET /x.txt HTTP/1.1\r\nHost: logs.test\r\n\r\n",
        "GET /x.txt?a=%20b&\"c HTTP/1.1\r\nHost: LOGS.test:8080\r\nReferer: http://from/\"x\\\r\n\
         \r\n",
        "HEAD /x.txt HTTP/1.1\r\nHost: logs.test\r\nX-Empty:\r\n\r\n",
        "GET /none HTTP/1.1\r\nHost: logs.test\r\nCookie: a=1; sid = two words ; b=3\r\n\r\n",
        "GET /moved HTTP/1.1\r\nHost: logs.test\r\nCookie: Sid=\"q\"\r\n\r\n",
        "GET /inner?x HTTP/1.1\r\nHost: logs.test\r\nUser-Agent: a robot\r\n\r\n",
        "GET /dir/ HTTP/1.1\r\nHost: logs.test\r\nX-Two: a\r\nX-Two: b\tc\r\n\r\n",
        "GET /p.php HTTP/1.1\r\nHost: logs.test\r\nReferer: \u{e4}\r\n\r\n",
        "POST /p.php?s=404 HTTP/1.1\r\nHost: logs.test\r\nContent-Length: 9\r\n\r\n123456789",
        "GET /p.php?s=204&e HTTP/1.1\r\nHost: logs.test\r\n\r\n",
        "GET /p.php?k=of%0Athe%22script HTTP/1.1\r\nHost: logs.test\r\n\r\n",
        "GET /p.php?s=404&n=of%0Athe%22script HTTP/1.1\r\nHost: logs.test\r\n\r\n",
        "GET /p.php?k= HTTP/1.1\r\nHost: logs.test\r\nUser-Agent: a robot\r\n\r\n",
        "GET /x.txt HTTP/1.0\r\nHost: logs.test\r\n\r\n",
    ];
    let ask_all = |address| {
        let mut wire = Wire::connect(address);
        for request in requests {
            wire.send(request);
            wire.reply(request.split(' ').next().unwrap());
        }
    };
    ask_all(site.server.address());
    ask_all(apache.address());
    let lines = |log: String| log.lines().map(str::to_owned).collect::<Vec<_>>();
    let ours = || lines(site.access_log());
    let theirs = || lines(apache.access_log());
    wait_until("all lines are written", || {
        [ours().len(), theirs().len()].iter().all(|count| *count == requests.len())
    });
    let mut differences = Vec::new();
    for ((request, ours), theirs) in requests.iter().zip(ours()).zip(theirs()) {
        let values = ours.split(" | ").zip(theirs.split(" | "));
        for (word, (ours, theirs)) in WORDS.iter().zip(values) {
            let is_known = DIFFERENCES
                .iter()
                .any(|(words, start)| words.contains(word) && request.starts_with(start));
            assert!(!is_known || ours != theirs, "{word} of {request:?} no longer differs");
            if ours != theirs && !is_known {
                differences.push(format!("{word} of {request:?}: {ours:?}, Apache: {theirs:?}"));
            }
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// Requests whose path, user or file a log must tell: the target, the method, the credentials.
const TOLD: [(&str, &str, &str); 36] = [
    ("/x.txt?q", "GET", ""),
    ("/dir/../%78.txt", "GET", ""),
    ("//x.txt", "GET", ""),
    ("/x.txt", "HEAD", ""),
    ("/x.txt", "OPTIONS", ""),
    ("/x.txt", "PUT", ""),
    ("/dir", "GET", ""),
    ("/dir?q", "GET", ""),
    ("/none/at/all", "GET", ""),
    ("/x.txt/behind", "GET", ""),
    ("/a%20b%22%5c", "GET", ""),
    ("/a%0ab%1b%7f%C3%A4", "GET", ""),
    ("/a%2fb", "GET", ""),
    ("/a%zz", "GET", ""),
    ("/p.php/a%20b//c/", "GET", ""),
    ("/shut/x.txt", "GET", ""),
    ("/shut/none/x", "GET", ""),
    ("/plain/none", "GET", ""),
    ("/plain/dir", "GET", ""),
    ("/rw/inner", "GET", ""),
    ("/rw/old", "GET", ""),
    ("/shut", "GET", ""),
    ("/own/x.txt", "GET", ""),
    ("/own/x.txt", "GET", "Basic am9lOnB3"),
    ("/own/x.txt", "GET", "Basic am9lOm5v"),
    ("/own/x.txt", "GET", "Basic bm9ib2R5Om5v"),
    ("/own/x.txt", "GET", "Basic Om5v"),
    ("/own/x.txt", "GET", "Basic !!!"),
    ("/own/x.txt", "GET", "Basic YQoiXBt/OnB3"),
    ("/own/x.txt", "GET", "Bearer am9lOnB3"),
    ("/own", "GET", "Basic am9lOnB3"),
    ("/own/none", "GET", "Basic am9lOnB3"),
    ("/x.txt", "GET", "Basic am9lOnB3"),
    ("/p.php", "GET", "Basic am9lOnB3"),
    ("/p.php", "GET", "Bearer am9lOnB3"),
    ("/p.php?401", "GET", "Basic YQoiXBt/OnB3"),
];

#[test]
fn paths_users_files_and_ports_are_logged_as_apache_does() {
    if !has_php() || !Apache::is_here() {
        return;
    }
    // The number puts the lines in order: those of different connections may change places.
    let format = "%{N}i|%>s|%m|%U|%u|%f|%p|%{canonical}p|%{local}p";
    let (folder, script) =
        (Folder::new(), "<?php http_response_code($_SERVER['QUERY_STRING'] ? 401 : 200); echo 1;");
    // `joe` with the password `pw`.
    let users = folder.file("users", "joe:{SHA}GpHWL3ymc5liWkNopqtdSjuqYHM=\n");
    let own = format!(
        "AuthType Basic\nAuthName x\nAuthUserFile {}\nRequire valid-user\n",
        users.display()
    );
    let files = [
        ("x.txt", "content"),
        ("p.php", script),
        ("dir/index.html", "x"),
        ("plain/dir/x.txt", "x"),
        ("shut/.htaccess", "Require all denied\n"),
        ("shut/x.txt", "x"),
        ("own/.htaccess", &own),
        ("own/x.txt", "x"),
        ("rw/.htaccess", "RewriteEngine On\nRewriteRule ^inner$ /x.txt\nRedirect /rw/old /x\n"),
    ];
    let site = Site::with(
        &files,
        &Options {
            site: &format!("name = \"logs.test\"\naccess_log_format = '{format}'"),
            ..Options::default()
        },
    );
    let modules = ["alias", "authn_core", "authn_file", "auth_basic", "authz_user"];
    let virtual_host = format!(
        "<VirtualHost *:PORT_OF_APACHE>\nServerName logs.test:PORT_OF_APACHE\nDocumentRoot {}\n\
         CustomLog {}/apache/access.log '{format}'\n</VirtualHost>\n",
        site.root().display(),
        site.path().display()
    );
    let apache = Apache::with(&site.path().join("apache"), &site.root(), &modules, &virtual_host);
    let ask_all = |address| {
        for (number, (target, method, credentials)) in TOLD.iter().enumerate() {
            let mut wire = Wire::connect(address);
            let number = format!("{number:02}");
            let fields = [("Host", "logs.test"), ("N", &number), ("Authorization", credentials)];
            let count = if credentials.is_empty() { 2 } else { 3 };
            wire.ask(method, target, &fields[..count], b"");
        }
    };
    ask_all(site.server.address());
    ask_all(apache.address());
    let lines = |log: String, address: std::net::SocketAddr| {
        let log = log.replace(&format!("|{}", address.port()), "|PORT");
        let mut lines: Vec<_> = log.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let ours = || lines(site.access_log(), site.server.address());
    let theirs = || lines(apache.access_log(), apache.address());
    wait_until("all lines are written", || {
        [ours().len(), theirs().len()].iter().all(|count| *count == TOLD.len())
    });
    let mut differences = Vec::new();
    for ((asked, ours), theirs) in TOLD.iter().zip(ours()).zip(theirs()) {
        assert!(ours.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{ours:?}");
        if ours != theirs {
            differences.push(format!("{asked:?}:\n  ours   {ours}\n  theirs {theirs}"));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn the_bytes_of_whole_requests_and_responses_are_counted() {
    let config = "listen = [\"127.0.0.1:0\"]\ncontrol = \"control\"\n[log]\n\
        access = \"access.log\"\n\
        format = \"%I %O %B\"\n[[site]]\nroot = \"public\"\nphp = false\n";
    let site = Site::configured(&[("x.txt", &"x".repeat(100_000))], config);
    let request = "GET /x.txt HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let mut wire = site.connect();
    wire.send(request);
    let sent = wire.rest().len();
    wait_until("the line is written", || site.access_log().ends_with('\n'));
    assert_eq!(site.access_log(), format!("{} {sent} 100000\n", request.len()));
}
