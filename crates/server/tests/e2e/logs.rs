//! The logs that administrators read.

use serde_json::Value;

use crate::site::{AWAIT, Options, Site};
use crate::support::{Folder, Setup, has_php, wait_until};

#[test]
fn the_access_log_is_apaches_combined() {
    if !has_php() {
        return;
    }
    let site = Site::new(&[
        ("a.txt", "content"),
        ("p.php", "<?php echo 'four';"),
        ("e.php", "<?php http_response_code(500);"),
    ]);
    let mut wire = site.connect();
    wire.ask(
        "GET",
        "/a.txt?x=%20\"y",
        &[("Referer", "http://from.example/"), ("User-Agent", "Test \"1\"\\")],
        b"",
    );
    wire.get("/p.php");
    wire.ask("HEAD", "/a.txt", &[], b"");
    wire.get("/none");
    wire.ask("POST", "/e.php", &[], b"body");
    wire.send("GET /a.txt HTTP/1.0\r\n\r\n");
    wire.reply("GET");
    wait_until("all lines are written", || site.access_log().lines().count() == 6);
    let log = site.access_log();
    let lines: Vec<&str> = log.lines().collect();
    for line in &lines {
        assert!(line.starts_with("127.0.0.1 - - [") && line.contains(" +0000] \""), "{line}");
    }
    assert!(
        lines[0].ends_with(
            r#""GET /a.txt?x=%20\"y HTTP/1.1" 200 7 "http://from.example/" "Test \"1\"\\""#
        ),
        "{}",
        lines[0]
    );
    assert!(lines[1].ends_with(r#""GET /p.php HTTP/1.1" 200 4 "-" "-""#), "{}", lines[1]);
    assert!(lines[2].ends_with(r#""HEAD /a.txt HTTP/1.1" 200 - "-" "-""#), "{}", lines[2]);
    assert!(lines[3].contains(r#""GET /none HTTP/1.1" 404 "#), "{}", lines[3]);
    assert!(lines[4].ends_with(r#""POST /e.php HTTP/1.1" 500 - "-" "-""#), "{}", lines[4]);
    assert!(lines[5].contains(r#""GET /a.txt HTTP/1.0" 200 7"#), "{}", lines[5]);
}

#[test]
fn the_access_log_has_the_line_of_a_refused_request_as_received() {
    let site = Site::new(&[("a.txt", "content")]);
    let long = format!("GET /{} HTTP/1.1\r\nHost: x\r\n\r\n", "a".repeat(9000));
    let rows: [(&[u8], u16, &str); 9] = [
        (b"GET /a b HTTP/1.1\r\nHost: x\r\n\r\n", 400, "GET /a b HTTP/1.1"),
        (b"GET /a\x01\"\\\xff HTTP/1.1\r\n\r\n", 400, r#"GET /a\x01\"\\\xff HTTP/1.1"#),
        (b"\x16\x03\x01\x02 \r\n\r\n", 400, r"\x16\x03\x01\x02 "),
        (b"G@T /a.txt HTTP/1.1\r\nHost: x\r\n\r\n", 400, "G@T /a.txt HTTP/1.1"),
        (b"GET /a.txt HTTP/1.x\r\nHost: x\r\n\r\n", 400, "GET /a.txt HTTP/1.x"),
        (b"GET /a.txt HTTP/3.0\r\nHost: x\r\n\r\n", 505, "GET /a.txt HTTP/3.0"),
        (b"\r\nGET /a.txt HTTP/1.1\r\nBad Name: x\r\n\r\n", 400, "GET /a.txt HTTP/1.1"),
        (b"GET /%zz?q HTTP/1.1\r\nHost: x\r\n\r\n", 400, "GET /%zz?q HTTP/1.1"),
        (long.as_bytes(), 414, "GET /aaaaaaaa"),
    ];
    for (number, (bytes, status, line)) in rows.into_iter().enumerate() {
        let mut wire = site.connect();
        wire.try_send(bytes);
        assert_eq!(wire.reply("GET").status, status, "{line}");
        wait_until("it is logged", || site.access_log().lines().count() > number);
        let log = site.access_log();
        let last = log.lines().last().unwrap();
        let (start, end) = (format!("\"{line}"), format!("\" {status} "));
        assert!(last.contains(&start) && last.contains(&end), "{line} in {last}");
        if status != 414 {
            assert!(last.contains(&format!("{start}{end}")), "{line} in {last}");
        }
        assert!(last.len() < 9000 && last.is_ascii(), "{last}");
    }
}

#[test]
fn the_access_log_may_be_json() {
    if !has_php() {
        return;
    }
    let site = Site::with(
        &[("p.php", "<?php usleep(30_000); echo 'four';")],
        &Options {
            log: "format = \"json\"",
            site: "name = \"shop\"",
            ..Options::default()
        },
    );
    site.ask("GET", "/p.php?q=%C3%A4\"", &[("User-Agent", "x\ty\"")], b"");
    wait_until("the line is written", || site.access_log().ends_with('\n'));
    let line: Value = serde_json::from_str(site.access_log().trim()).unwrap();
    for (key, value) in [
        ("site", "shop"),
        ("client", "127.0.0.1"),
        ("host", "localhost"),
        ("method", "GET"),
        ("version", "HTTP/1.1"),
    ] {
        assert_eq!(line[key], value, "{line}");
    }
    assert_eq!(line["target"], "/p.php?q=%C3%A4\"");
    assert_eq!((line["status"].as_u64(), line["sent"].as_u64()), (Some(200), Some(4)), "{line}");
    assert!(line["microseconds"].as_u64().unwrap() >= 30_000, "{line}");
    assert_eq!(line["complete"], true);
}

#[test]
fn a_response_that_broke_off_is_logged_as_such() {
    if !has_php() {
        return;
    }
    let site = Site::with(
        &[(
            "half.php",
            &format!(
                "<?php {AWAIT} echo str_repeat('x', 100000); flush(); await('seen'); \
                 posix_kill(getmypid(), 9); sleep(1);"
            ),
        )],
        &Options {
            log: "format = \"json\"",
            ..Options::default()
        },
    );
    let mut wire = site.connect();
    wire.request("GET", &site.awaiting("/half.php"), &[], b"");
    assert_eq!(wire.head().0, 200);
    site.allow("seen");
    wire.rest();
    wait_until("the line is written", || site.access_log().ends_with('\n'));
    let line: Value = serde_json::from_str(site.access_log().trim()).unwrap();
    assert_eq!(line["complete"], false, "{line}");
}

#[test]
fn phps_own_messages_come_with_site_script_and_url() {
    if !has_php() {
        return;
    }
    let site = Site::with(
        &[
            (
                "log.php",
                "<?php error_log('from the script'); error_log(\"two\\nlines \\x1b[31m\"); echo \
                 'x';",
            ),
            (
                "warn.php",
                "<?php trigger_error('careful', E_USER_WARNING); echo $undefined; echo 'x';",
            ),
            ("stderr.php", "<?php file_put_contents('php://stderr', \"raw line\\n\"); echo 'x';"),
            ("long.php", "<?php error_log(str_repeat('long ', 5000)); echo 'x';"),
        ],
        &Options {
            site: "name = \"shop\"",
            php: "ini = { log_errors = true, display_errors = false, error_reporting = \"32767\", \
                html_errors = false }",
            ..Options::default()
        },
    );
    let mut wire = site.connect();
    let line_with = |words: &[&str]| {
        wait_until(&format!("a line says {words:?}"), || {
            site.server
                .log()
                .lines()
                .any(|line| words.iter().all(|word| line.contains(word)))
        });
    };
    let root = site.root().display().to_string();
    wire.get("/log.php?a=1");
    line_with(&["shop", "from the script", &format!("{root}/log.php"), "/log.php?a=1"]);
    line_with(&["shop", "two"]);
    assert!(
        !site.server.log().contains('\x1b'),
        "no escape sequences for whoever looks at the log"
    );
    wire.get("/warn.php?b=%0a");
    line_with(&["warning", "shop", "careful", &format!("{root}/warn.php"), "/warn.php?b=%0a"]);
    line_with(&["warning", "Undefined variable"]);
    wire.get("/stderr.php");
    line_with(&[" notice shop: worker ", ": raw line"]);
    wire.get("/long.php");
    line_with(&["long long long"]);
    assert!(site.server.log().lines().all(|line| line.len() < 4096));
}

#[test]
fn long_messages_of_scripts_arrive_whole_with_site_and_worker() {
    if !has_php() {
        return;
    }
    let words: String = (0..3000).map(|number| format!("w\u{f6}rd{number} ")).collect();
    let words = words.trim_end();
    let site = Site::with(
        &[
            ("words.txt", words),
            ("log.php", "<?php error_log(file_get_contents('words.txt'));"),
            (
                "raw.php",
                "<?php $text = file_get_contents('words.txt');
                 file_put_contents('php://stderr', \"$text\\n\");",
            ),
        ],
        &Options {
            site: "name = \"shop\"",
            php: "workers = 1",
            ..Options::default()
        },
    );
    assert_eq!(site.get("/log.php").status, 200);
    let worker = site.server.workers()[0].number();
    let label = format!("worker {worker}: ");
    let texts = || -> String {
        let log = site.server.log();
        let texts = log.lines().filter_map(|line| Some(line.split_once(" shop: ")?.1));
        let texts = texts.map(|text| text.strip_prefix(&label).unwrap_or(text));
        texts.map(|text| text.strip_prefix("(continued) ").unwrap_or(text)).collect()
    };
    wait_until("the message has ended", || texts().contains("/log.php"));
    let root = site.root().display().to_string();
    let message =
        format!("{words}, worker {worker}, while running {root}/log.php for GET localhost/log.php");
    assert!(texts().contains(&message), "{}", texts());
    assert_eq!(site.get("/raw.php").status, 200);
    wait_until("the script's own text is there", || texts().matches(words).count() == 2);
    assert!(site.server.log().lines().all(|line| line.len() < 4096));
}

#[test]
fn start_up_says_what_is_served() {
    if !has_php() {
        return;
    }
    let site = Site::with(
        &[("index.php", "<?php")],
        &Options {
            site: "name = \"shop\"\nhosts = [\"shop.example\", \"*\"]",
            php: "workers = 3",
            ..Options::default()
        },
    );
    site.server.wait_for_log("opcache on");
    let log = site.server.log();
    let line = log
        .lines()
        .find(|line| line.contains("shop:"))
        .unwrap_or_else(|| panic!("{log}"));
    for word in ["shop.example", "PHP 8.", "3 workers", "opcache on"] {
        assert!(line.contains(word), "no {word} in {line}");
    }
    assert!(log.contains(&site.server.address().to_string()), "{log}");
}

#[test]
fn the_address_on_standard_output_is_true_when_it_is_printed() {
    if !has_php() {
        return;
    }
    let folder = Folder::with_script("echo 'served';");
    let server = Setup::folder(&folder).start();
    assert_eq!(
        server.announcement(),
        format!("howdah: listening on http://{}\n", server.address())
    );
    assert_eq!(crate::wire::Wire::connect(server.address()).get("/").text(), "served");
}

#[test]
fn logs_may_go_to_files() {
    if !has_php() {
        return;
    }
    let site = Site::with(
        &[("index.php", "<?php error_log('to the file');")],
        &Options {
            log: "error = \"error.log\"",
            ..Options::default()
        },
    );
    site.get("/");
    let path = site.path().join("error.log");
    wait_until("the message is there", || {
        std::fs::read_to_string(&path).is_ok_and(|log| log.contains("to the file"))
    });
    assert!(!site.server.log().contains("to the file"));
}

#[test]
fn a_refused_request_has_the_right_date_and_a_line_in_the_access_log() {
    let site = without_php("combined");
    let rows = [
        ("GET /a b HTTP/1.1\r\nHost: x\r\n\r\n", 400, "\"GET /a b HTTP/1.1\" 400 "),
        ("GET /a HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", 400, "\"GET /a HTTP/1.1\" 400 "),
        ("\x16\x03\x01\r\n\r\n", 400, "\"\\x16\\x03\\x01\" 400 "),
    ];
    for (number, (request, status, line)) in rows.into_iter().enumerate() {
        let before = seconds_since_1970();
        let mut wire = site.connect();
        wire.send(request);
        let reply = wire.reply("GET");
        assert_eq!(reply.status, status, "{request:?}");
        let date = reply.fields.iter().find(|(name, _)| name == "Date").unwrap();
        let date = howdah_http::date::parse(date.1.as_bytes()).unwrap();
        assert!((before..=seconds_since_1970()).contains(&date), "{request:?}: {date}");
        wait_until("the line is written", || site.access_log().lines().count() == number + 1);
        let log = site.access_log();
        assert!(log.lines().last().unwrap().contains(line), "{log}");
    }
    let long = "a".repeat(20_000);
    let reply = site.ask("GET", &format!("/{long}"), &[], b"");
    assert_eq!(reply.status, 414);
    wait_until("the line is written", || site.access_log().contains(" 414 "));
    site.server.wait_for_log("while reading the head of a request");
    let log = site.server.log();
    assert!(!log.contains("while waiting for a request"), "{log}");
}

fn without_php(format: &str) -> Site {
    let config = format!(
        "listen = [\"127.0.0.1:0\"]\ncontrol = \"control\"\n[log]\naccess = \"access.log\"\n\
         format = \"{format}\"\n[[site]]\nroot = \"public\"\nphp = false\n"
    );
    Site::configured(&[], &config)
}

fn seconds_since_1970() -> u64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_secs()
}

#[test]
fn a_download_that_the_client_broke_off_is_logged_with_the_bytes_that_went_out() {
    let size = 64 << 20;
    let site = without_php("json");
    site.file("large.bin", vec![b'x'; size]);
    let mut wire = site.connect();
    wire.request("GET", "/large.bin", &[], b"");
    wire.read_some(4 << 20);
    drop(wire);
    wait_until("the line is written", || site.access_log().ends_with('\n'));
    let line: Value = serde_json::from_str(site.access_log().trim()).unwrap();
    let sent = line["sent"].as_u64().unwrap();
    assert!((4 << 20..size as u64).contains(&sent), "{line}");
    assert_eq!(line["complete"], false, "{line}");
}
