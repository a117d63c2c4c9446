//! Bodies: whole, buffered, cut short, unwanted.

use crate::apache::Apache;
use crate::site::{AWAIT, Options, Site};
use crate::support::{has_php, wait_until};
use crate::wire::{Framing, Wire};

fn script(code: &str) -> Site {
    Site::new(&[("index.php", &format!("<?php {code}"))])
}

#[test]
fn a_small_page_has_a_length_and_keeps_the_connection() {
    if !has_php() {
        return;
    }
    let site = script("echo 'Hello, world!';");
    let mut wire = site.connect();
    // A worker that is interrupted between the output and its end gets no length.
    let mut lengths = 0;
    wait_until("three responses have a length", || {
        let reply = wire.get("/");
        assert_eq!(reply.text(), "Hello, world!");
        lengths += usize::from(reply.framing == Framing::Length);
        lengths == 3
    });
}

#[test]
fn an_empty_page_is_empty() {
    if !has_php() {
        return;
    }
    let site = script("");
    let mut wire = site.connect();
    let reply = wire.get("/");
    assert_eq!((reply.status, reply.body.len()), (200, 0));
    assert_eq!(wire.get("/").status, 200);
}

#[test]
fn sizes_around_every_buffer_arrive_byte_for_byte() {
    if !has_php() {
        return;
    }
    let site = script(
        "mt_srand(7); $n = (int) $_GET['n']; $s = ''; for ($i = 0; $i < 1024; $i++) $s .= \
            chr(mt_rand(0, 255));
         $s = substr(str_repeat($s . 'x', intdiv($n, 1025) + 1), 0, $n); $c = (int) ($_GET['c'] \
         ?? $n + 1);
         header('X-Sum: ' . md5($s)); foreach (str_split($s, max($c, 1)) as $part) echo $part;",
    );
    let mut wire = site.connect();
    for size in [
        0, 1, 4095, 4096, 4097, 65_535, 65_536, 65_537, 131_072, 262_143, 262_144, 262_145,
        1_000_000, 5_000_000,
    ] {
        for chunk in [size + 1, 1 + size / 7] {
            let reply = wire.get(&format!("/?n={size}&c={chunk}"));
            assert_eq!(reply.body.len(), size, "{size} by {chunk}");
            assert_eq!(reply.field("x-sum"), Some(md5(&reply.body).as_str()), "{size} by {chunk}");
        }
    }
}

#[test]
fn a_page_that_is_complete_at_once_has_a_length_whatever_its_script_declared() {
    if !has_php() {
        return;
    }
    let site = script(
        "if (isset($_GET['cl'])) header('Content-Length: ' . $_GET['cl']); echo str_repeat('x', \
         $_GET['n']);",
    );
    let mut wire = site.connect();
    for size in [4096, 65_536, 65_537, 100_000] {
        for declared in ["".to_owned(), format!("&cl={}", size + 1), "&cl=1".to_owned()] {
            let reply = wire.get(&format!("/?n={size}{declared}"));
            assert_eq!(reply.body.len(), size, "{size}{declared}");
            assert_eq!(reply.framing, Framing::Length, "{size}{declared}");
        }
    }
}

#[test]
fn a_large_page_for_http_1_0_ends_with_the_connection() {
    if !has_php() {
        return;
    }
    let site = script("for ($i = 0; $i < 1000; $i++) { echo str_repeat('y', 1000); }");
    let mut wire = site.connect();
    wire.send("GET / HTTP/1.0\r\n\r\n");
    let reply = wire.reply("GET");
    assert_eq!(reply.body.len(), 1_000_000);
    assert_ne!(reply.framing, Framing::Chunked);
    wire.expect_close();
}

#[test]
fn exit_and_die_end_the_script_not_the_page() {
    if !has_php() {
        return;
    }
    let site = Site::new(&[
        ("exit.php", "<?php echo 'a'; exit; echo 'b';"),
        ("text.php", "<?php echo 'a'; exit('b');"),
        ("status.php", "<?php echo 'a'; exit(3);"),
        ("die.php", "<?php ob_start(); echo 'a'; function f() { die('b'); } f();"),
        ("nested.php", "<?php include 'text.php'; echo 'c';"),
        ("head.php", "<?php header('X-A: 1'); exit;"),
    ]);
    let mut wire = site.connect();
    for (target, body) in [
        ("/exit.php", "a"),
        ("/text.php", "ab"),
        ("/status.php", "a"),
        ("/die.php", "ab"),
        ("/nested.php", "ab"),
        ("/head.php", ""),
    ] {
        let reply = wire.get(target);
        assert_eq!((reply.status, reply.text()), (200, body), "{target}");
    }
}

#[test]
fn output_buffers_are_honoured() {
    if !has_php() {
        return;
    }
    let site = Site::new(&[
        ("callback.php", "<?php ob_start(fn($text) => strtoupper($text)); echo 'loud';"),
        ("clean.php", "<?php ob_start(); echo 'gone'; ob_end_clean(); echo 'kept';"),
        (
            "late.php",
            "<?php ob_start(); echo str_repeat('x', 100000); header('X-Late: yes'); \
             ob_end_flush();",
        ),
        (
            "nested.php",
            "<?php ob_start(); echo 'a'; ob_start(); echo 'b'; $b = ob_get_clean(); echo \
             strrev('c' . $b);",
        ),
        ("gzip.php", "<?php ob_start('ob_gzhandler'); echo 'squeezed';"),
    ]);
    let mut wire = site.connect();
    assert_eq!(wire.get("/callback.php").text(), "LOUD");
    assert_eq!(wire.get("/clean.php").text(), "kept");
    let late = wire.get("/late.php");
    assert_eq!((late.field("x-late"), late.body.len()), (Some("yes"), 100_000));
    assert_eq!(wire.get("/nested.php").text(), "abc");
    let gzip = wire.ask("GET", "/gzip.php", &[("Accept-Encoding", "gzip")], b"");
    assert_eq!(gzip.field("content-encoding"), Some("gzip"));
    assert_eq!(gzip.body[..2], [0x1F, 0x8B]);
}

#[test]
fn the_scripts_own_length_is_believed_when_it_is_right() {
    if !has_php() {
        return;
    }
    let site =
        script("$s = str_repeat('z', 300000); header('Content-Length: ' . strlen($s)); echo $s;");
    let mut wire = site.connect();
    let reply = wire.get("/");
    assert_eq!((reply.framing, reply.body.len()), (Framing::Length, 300_000));
    assert_eq!(wire.get("/").body.len(), 300_000);
}

#[test]
fn a_script_that_sends_more_than_it_said_does_not_reach_into_the_next_response() {
    if !has_php() {
        return;
    }
    let site = Site::new(&[
        ("small.php", "<?php header('Content-Length: 5'); echo 'Hello, world'; flush();"),
        (
            "large.php",
            "<?php header('Content-Length: 5'); echo 'Hello'; flush(); for ($i = 0; $i < 100; \
             $i++) echo str_repeat('x', 10000);",
        ),
        ("next.php", "<?php echo 'next';"),
    ]);
    for target in ["/small.php", "/large.php"] {
        let mut wire = site.connect();
        let reply = wire.get(target);
        assert!(reply.text().starts_with("Hello"), "{target}");
        if reply.field("content-length") == Some("5") {
            assert_eq!(reply.text(), "Hello");
        }
        if !reply.is_last() {
            assert_eq!(wire.get("/next.php").text(), "next", "{target}");
        }
    }
    assert_eq!(site.get("/next.php").text(), "next");
}

#[test]
fn a_script_that_sends_less_than_it_said_is_seen_to_break_off() {
    if !has_php() {
        return;
    }
    let site = script("header('Content-Length: 10'); echo 'Hello'; flush(); usleep(100_000);");
    let mut wire = site.connect();
    wire.request("GET", "/", &[], b"");
    let (status, _, fields) = wire.head();
    assert_eq!(status, 200);
    if fields
        .iter()
        .any(|(name, value)| name.eq_ignore_ascii_case("content-length") && value == "10")
    {
        assert_eq!(wire.rest(), b"Hello", "and then the end of the connection");
        site.server.wait_for_log("Content-Length");
    }
}

#[test]
fn head_has_the_fields_and_no_body() {
    if !has_php() {
        return;
    }
    let site = Site::new(&[
        ("small.php", "<?php header('X-Method: ' . $_SERVER['REQUEST_METHOD']); echo 'body';"),
        (
            "large.php",
            "<?php for ($i = 0; $i < 500; $i++) { echo str_repeat('x', 10000); flush(); }",
        ),
        ("length.php", "<?php header('Content-Length: 12345');"),
    ]);
    let mut wire = site.connect();
    for _ in 0..3 {
        let reply = wire.ask("HEAD", "/small.php", &[], b"");
        assert_eq!((reply.status, reply.field("x-method")), (200, Some("HEAD")));
        assert_eq!(wire.ask("HEAD", "/large.php", &[], b"").status, 200);
        assert_eq!(
            wire.ask("HEAD", "/length.php", &[], b"").field("content-length"),
            Some("12345")
        );
        assert_eq!(wire.get("/small.php").text(), "body");
    }
}

#[test]
fn statuses_without_a_body_have_none() {
    if !has_php() {
        return;
    }
    let site = script("http_response_code((int) $_GET['s']); echo 'must not be seen';");
    let mut wire = site.connect();
    for status in [204, 304, 204, 205] {
        let reply = wire.get(&format!("/?s={status}"));
        assert_eq!(reply.status, status);
        if status == 205 {
            continue; // May have content that the client ignores.
        }
        assert!(reply.body.is_empty());
        assert_eq!(reply.field("content-type"), None, "{status}");
    }
    assert_eq!(wire.get("/?s=200").text(), "must not be seen");
}

#[test]
fn shutdown_functions_and_sessions_come_after_the_page() {
    if !has_php() {
        return;
    }
    let site = Site::new(&[
        (
            "index.php",
            "<?php session_start(); $n = $_SESSION['n'] ?? 0;
             register_shutdown_function(function () { $_SESSION['n'] = ($_SESSION['n'] ?? 0) + 1; \
             echo ' shut'; });
             echo $n; if (isset($_GET['exit'])) exit;",
        ),
        ("destroy.php", "<?php session_start(); session_destroy(); echo 'gone';"),
    ]);
    let first = site.get("/");
    assert_eq!(first.text(), "0 shut");
    let cookie = first.field("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    let fields = [("Cookie", cookie.as_str())];
    assert_eq!(site.ask("GET", "/", &fields, b"").text(), "1 shut");
    assert_eq!(site.ask("GET", "/?exit", &fields, b"").text(), "2 shut");
    assert_eq!(site.ask("GET", "/destroy.php", &fields, b"").text(), "gone");
    assert_eq!(site.ask("GET", "/", &fields, b"").text(), "0 shut");
}

/// Returns the text of PHP's `md5`.
fn md5(bytes: &[u8]) -> String {
    use std::io::Write;
    let mut child = std::process::Command::new("md5sum")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(bytes).unwrap();
    let output = child.wait_with_output().unwrap();
    String::from_utf8(output.stdout[..32].to_vec()).unwrap()
}

#[test]
fn a_response_without_content_has_no_media_type() {
    if !has_php() {
        return;
    }
    let files =
        [("status.php", "<?php http_response_code((int) $_GET['s']); header('X-Own: yes');")];
    for rules in ["", "rules = \"RewriteRule ^none$ - [R=204]\"\n"] {
        let rules = rules.replace("Rewrite", "RewriteEngine On\\nRewrite");
        let site = Site::with(&files, &Options { site: &rules, ..Options::default() });
        let mut wire = site.connect();
        for status in [204, 304] {
            let reply = wire.get(&format!("/status.php?s={status}"));
            assert_eq!((reply.status, reply.field("content-type")), (status, None), "{rules}");
            assert_eq!(reply.field("x-own"), Some("yes"));
        }
        assert!(wire.get("/status.php?s=200").field("content-type").is_some());
        if !rules.is_empty() {
            let reply = wire.get("/none");
            assert_eq!((reply.status, reply.field("content-type")), (204, None));
        }
    }
}

#[test]
fn output_that_a_script_does_not_flush_comes_while_it_goes_on() {
    if !has_php() {
        return;
    }
    // It sleeps or computes; a flush has come before, or not.
    let script = format!(
        "<?php {AWAIT} while (ob_get_level()) ob_end_flush();
         function pause($step) {{
             if (isset($_GET['sleep'])) await($_GET['name'] . $step);
             while (!file_exists($_GET['in'] . '/' . $_GET['name'] . $step));
         }}
         if (isset($_GET['flush'])) {{ echo 'zero '; flush(); }}
         echo 'first '; pause(1); echo 'second '; pause(2); echo 'third';"
    );
    let site = Site::new(&[("index.php", &script)]);
    for (name, more) in
        [("a", "sleep"), ("b", "compute"), ("c", "sleep&flush"), ("d", "compute&flush")]
    {
        let mut wire = site.connect();
        let target = format!("{}&name={name}&{more}", site.awaiting("/"));
        wire.request("GET", &target, &[], b"");
        wire.until("first ");
        site.allow(&format!("{name}1"));
        wire.until("second ");
        site.allow(&format!("{name}2"));
        wire.until("third");
    }
}

#[test]
fn a_script_that_writes_chunks_itself_gives_the_client_their_content() {
    if !has_php() || !Apache::is_here() {
        return;
    }
    let begin = "<?php while (ob_get_level()) ob_end_flush(); header('Transfer-Encoding: chunked');
        header('Content-Type: text/plain');
        function chunk($text) { printf(\"%x\\r\\n%s\\r\\n\", strlen($text), $text); flush(); }";
    let chunks = format!("{begin} foreach (['one ', 'two ', ''] as $text) chunk($text);");
    let large = format!(
        "{begin} for ($i = 0; $i < 300; $i++) chunk(str_repeat(chr(97 + $i % 26), 7001)); \
         chunk('');"
    );
    let held = format!("{begin} {AWAIT} chunk('first '); await('go'); chunk('second'); chunk('');");
    let text = format!("{begin} echo 'no chunks at all';");
    let broken = format!("{begin} chunk('good '); echo '<b>bad</b>';");
    let trailer = format!("{begin} chunk('good'); echo \"0\\r\\nno field\\r\\n\\r\\n\";");
    let files = [
        ("chunks.php", chunks.as_str()),
        ("large.php", &large),
        ("held.php", &held),
        ("text.php", &text),
        ("broken.php", &broken),
        ("trailer.php", &trailer),
    ];
    let site = Site::new(&files);
    let apache = Apache::with(&site.path().join("apache"), &site.root(), &[], "");
    for path in ["/chunks.php", "/large.php"] {
        let theirs = Wire::connect(apache.address()).get(path);
        let mut wire = site.connect();
        let own = wire.get(path);
        assert_eq!((own.status, &own.body), (200, &theirs.body), "{path}");
        assert!(!own.body.is_empty() && own.all("transfer-encoding").len() < 2, "{path}");
        // The connection goes on behind it.
        assert_eq!(wire.ask("HEAD", path, &[], b"").status, 200);
        // HTTP/1.0 knows no chunks.
        wire.send(format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n"));
        assert_eq!(wire.reply("GET").body, own.body, "{path}");
    }
    // Apache sends these as chunks, which they are not: browsers show an error.
    let mut wire = site.connect();
    assert_eq!(wire.get("/text.php").text(), "no chunks at all");
    assert_eq!(wire.get("/broken.php").text(), "good <b>bad</b>");
    site.server
        .wait_for_log("broken.php: its output is not in valid chunks, and the rest is");
    assert_eq!(wire.get("/trailer.php").text(), "good");
    site.server
        .wait_for_log("trailer.php: the fields behind the last chunk of its output are");
    // Each chunk is sent when it is written.
    wire.request("GET", &site.awaiting("/held.php"), &[], b"");
    wire.until("first ");
    site.allow("go");
    wire.until("second");
}
