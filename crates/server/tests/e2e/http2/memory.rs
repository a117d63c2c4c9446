//! The memory of the front while clients read nothing.

use super::client::Http2;
use super::frames::{
    DATA, END_HEADERS, END_STREAM, Frames, GOAWAY, HEADERS, RST_STREAM, SETTINGS, WINDOW_UPDATE,
    field, frame, get, head,
};
use crate::site::{Options, Site, TAKES_PROXY, far_limits};
use crate::support::{has_php, wait_until};
use crate::wire::Wire;

/// Bytes of each response: one that its worker is rid of at once.
const LENGTH: u32 = 60_000;
const CONNECTIONS: usize = 4;
/// Requests of each connection.
const STREAMS: u32 = 250;
/// Bytes that the front may take for these responses, which have 60 MB together. It takes a fourth
/// of that in a debug build.
const MOST: u64 = 30 << 20;

/// Returns the bytes of memory that the front has for itself, without those of its program.
fn memory(site: &Site) -> u64 {
    let told = site.server.front().status("RssAnon").expect("the front lives");
    let kilobytes: u64 = told.split(' ').next().unwrap().parse().unwrap();
    kilobytes * 1024
}

#[test]
fn responses_that_a_client_does_not_take_are_in_files_beyond_its_share_of_memory() {
    if !has_php() {
        return;
    }
    let script = format!("<?php echo str_repeat(chr(97 + $_GET['n'] % 26), {LENGTH});");
    let limits = "send_timeout = \"1h\"\nclient_memory = \"1M\"\n[http2]\nstreams = 1000";
    let options = Options {
        limits,
        php: "queue = 10000",
        ..Options::default()
    };
    let site = Site::with(&[("a.php", &script)], &options);
    assert_eq!(site.get("/a.php?n=0").body.len(), LENGTH as usize);
    let before = memory(&site);
    let mut clients: Vec<Frames> = (0..CONNECTIONS)
        .map(|_| {
            // No response has a window.
            let mut frames = Frames::connect(&site, &[(4, 0)]);
            for number in 0..STREAMS {
                frames.send_get(2 * number + 1, &format!("/a.php?n={number}"));
            }
            frames
        })
        .collect();
    for frames in &mut clients {
        for _ in 0..STREAMS {
            frames.next_of(HEADERS).expect("a head");
        }
    }
    wait_until("the responses are in files", || memory(&site) < before + MOST);
    // Each is whole, whether the client takes it in one go or in pieces.
    for frames in &mut clients {
        frames.send(WINDOW_UPDATE, 0, 0, &(1_u32 << 30).to_be_bytes());
        for (number, window) in [(0, LENGTH), (STREAMS - 2, 7000), (STREAMS - 1, LENGTH)] {
            let stream = 2 * number + 1;
            let mut content = Vec::new();
            let mut is_over = false;
            while !is_over {
                frames.send(WINDOW_UPDATE, 0, stream, &window.to_be_bytes());
                let until = content.len() + window as usize;
                while !is_over && content.len() < until.min(LENGTH as usize) {
                    let frame = frames.next_of(DATA).expect("content");
                    is_over = frame.flags & END_STREAM != 0;
                    content.extend_from_slice(&frame.payload);
                }
                is_over |= content.len() == LENGTH as usize;
            }
            let byte = b'a' + (number % 26) as u8;
            assert!(content == vec![byte; LENGTH as usize], "{} bytes", content.len());
        }
    }
}

/// Content that a client does not send to its end waits, and was counted nowhere.
#[test]
fn content_that_a_client_does_not_end_is_in_files_beyond_its_share_of_memory() {
    const CONNECTIONS: u32 = 60;
    // A connection sends no more than `connection_window` with them.
    const STREAMS: u32 = 4;
    if !has_php() {
        return;
    }
    let options = Options {
        limits: "client_memory = \"1M\"",
        ..Options::default()
    };
    let script = "<?php echo crc32(file_get_contents('php://input'));";
    let site = Site::with(&[("a.php", script)], &options);
    let content = |number: u32| vec![b'a' + (number % 26) as u8; LENGTH as usize];
    let before = memory(&site);
    let mut clients: Vec<Frames> = (0..CONNECTIONS)
        .map(|_| {
            let mut frames = Frames::connect(&site, &[]);
            frames.next_of(WINDOW_UPDATE).expect("the connection's window");
            for number in 0..STREAMS {
                let stream = 2 * number + 1;
                frames.send(HEADERS, END_HEADERS, stream, &head("POST", "/a.php"));
                for piece in content(number)[1..].chunks(16_000) {
                    frames.send(DATA, 0, stream, piece);
                }
            }
            frames
        })
        .collect();
    wait_until("the content is received", || {
        let told = site.try_status(&["--json"]).unwrap();
        let status: serde_json::Value = serde_json::from_str(&told).unwrap();
        let all = u64::from(CONNECTIONS * STREAMS * LENGTH);
        status["temporary_files"]["bytes"].as_u64().unwrap() > all * 4 / 5
    });
    wait_until("little of it is in memory", || memory(&site) < before + (10 << 20));
    for frames in &mut clients {
        for number in [0, STREAMS - 1] {
            frames.send(DATA, END_STREAM, 2 * number + 1, &content(number)[..1]);
            let sum = frames.next_of(DATA).expect("the sum").payload;
            let expected = site.ask("POST", "/a.php", &[], &content(number)).body;
            assert_eq!(sum, expected, "{number}");
        }
    }
}

/// A compressor takes up to 2.5 MiB, whatever the client takes of its output.
#[test]
fn content_is_not_compressed_where_the_client_s_share_of_memory_is_used_up() {
    // Long enough not to be compressed before its head.
    let styles: String = (0..80_000_u32).map(|number| format!("a{{order:{number}}}\n")).collect();
    assert!(styles.len() > 1 << 20);
    let options = Options {
        limits: "send_timeout = \"1h\"\nclient_memory = \"8M\"",
        ..Options::default()
    };
    let directives = "AddOutputFilterByType BROTLI_COMPRESS text/css\n";
    let site = Site::with(&[("a.css", &styles), (".htaccess", directives)], &options);
    let ask = || site.ask("GET", "/a.css", &[("Accept-Encoding", "br")], b"");
    let packed = ask();
    assert_eq!(packed.field("content-encoding"), Some("br"));
    assert!(packed.body.len() < styles.len() / 2);
    let tag = site.ask("GET", "/a.css", &[], b"").field("etag").map(str::to_owned);
    let before = memory(&site);
    let head = |number| [get(&format!("/a.css?{number}")), field("accept-encoding", "br")].concat();
    let clients: Vec<Frames> = (0..2)
        .map(|_| {
            let mut frames = Frames::connect(&site, &[(4, 0)]);
            for number in 0..100 {
                let flags = END_STREAM | END_HEADERS;
                frames.send(HEADERS, flags, 2 * number + 1, &head(number));
            }
            for _ in 0..100 {
                frames.next_of(HEADERS).expect("a head");
            }
            frames
        })
        .collect();
    for _ in 0..20 {
        let grown = memory(&site).saturating_sub(before);
        assert!(grown < 48 << 20, "{grown} bytes for 200 streams");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let plain = ask();
    assert_eq!((plain.field("content-encoding"), plain.field("etag")), (None, tag.as_deref()));
    assert_eq!(plain.field("vary"), Some("Accept-Encoding"));
    assert!(plain.body == styles.as_bytes());
    // When they are gone, there is room.
    drop(clients);
    wait_until("there is room again", || ask().body == packed.body);
}

/// Requests that one client may have open by default, beside one of each connection.
const MOST_OPEN: usize = 1024;

#[test]
fn requests_that_a_client_leaves_open_are_refused_where_its_share_of_memory_is_used_up() {
    let large = "x".repeat(300_000);
    let limits = "send_timeout = \"1h\"\n[http2]\nstreams = 1000";
    let options = Options { limits, ..Options::default() };
    let site = Site::with(&[("large.txt", &large), ("a.txt", "hello")], &options);
    // No response has a window.
    let mut clients: Vec<Frames> = (0..3).map(|_| Frames::connect(&site, &[(4, 0)])).collect();
    for number in 0..400 {
        for frames in &mut clients {
            frames.send_get(2 * number + 1, "/large.txt");
        }
    }
    let mut refused = 0;
    for frames in &mut clients {
        for _ in 0..400 {
            let mut frame = frames.next().expect("an answer");
            while ![HEADERS, RST_STREAM].contains(&frame.kind) {
                frame = frames.next().expect("an answer");
            }
            if frame.kind == RST_STREAM {
                assert_eq!(frame.payload, 7_u32.to_be_bytes(), "REFUSED_STREAM");
                refused += 1;
            }
        }
    }
    assert_eq!(refused, 3 * 400 - MOST_OPEN - 3);
    assert_eq!(site.limits_met("http2", "client_memory"), refused as u64);
    site.server.wait_for_log("as many requests open as `client_memory` allows");
    assert_eq!(site.get("/a.txt").text(), "hello", "one request on a connection");
    assert_eq!(Http2::connect(&site).get("/a.txt").text(), "hello", "one over HTTP/2");
    drop(clients);
    wait_until("there is room again", || {
        let mut frames = Frames::connect(&site, &[(4, 0)]);
        (0..10).for_each(|number| _ = frames.send_get(2 * number + 1, "/large.txt"));
        (0..10).all(|_| {
            loop {
                match frames.next().expect("an answer").kind {
                    HEADERS => return true,
                    RST_STREAM => return false,
                    _ => {}
                }
            }
        })
    });
}

/// Connections of one client that fit into the memory of its connections, and of a few more.
const FITTING: usize = 1365;
const FURTHER: usize = 200;

#[test]
fn a_client_with_very_many_connections_loses_those_that_are_idle_for_longest() {
    let config = format!(
        "listen = [\"127.0.0.1:0\", {TAKES_PROXY}]\ncontrol = \"control\"\nthreads = 1\n[limits]\n\
         client_memory = \"16M\"\nkeep_alive_timeout = \"1h\"\nhead_timeout = \"1h\"\n{}\
         [log]\naccess = \"off\"\n[[site]]\nroot = \"public\"\nphp = false\n",
        far_limits("keep_alive_timeout head_timeout")
    );
    let site = Site::configured(&[("a.txt", "content")], &config);
    // Another client's connection.
    let mut other = site.connect_as([192, 0, 2, 9]);
    let ask_as_other = |other: &mut Wire, stream| {
        let request = frame(HEADERS, END_STREAM | END_HEADERS, stream, &get("/a.txt"));
        other.send(request);
        assert!(other.until("content").ends_with(b"content"));
    };
    other.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    other.send(frame(SETTINGS, 0, 0, b""));
    ask_as_other(&mut other, 1);
    let connect = |number: usize| {
        let mut frames = Frames::connect(&site, &[]);
        assert!(frames.next_of(SETTINGS).is_some(), "number {number}: {}", site.server.log());
        frames
    };
    let mut many: Vec<Frames> = (0..FITTING).map(connect).collect();
    assert_eq!(site.connections(), FITTING + 1);
    // None that is idle only for a moment is closed.
    std::thread::sleep(std::time::Duration::from_millis(200));
    many.extend((0..FURTHER).map(connect));
    wait_until("the first ones are closed", || site.connections() <= FITTING + 1);
    assert!(many[0].next_of(GOAWAY).is_some());
    let last = many.last_mut().unwrap();
    last.send_get(1, "/a.txt");
    assert!(last.next_of(HEADERS).is_some());
    ask_as_other(&mut other, 3);
    // Those that are left stay: half of a sixty-fourth has ended beyond what was needed.
    assert!(site.connections() > FITTING - 64, "{}", site.connections());
    drop(many);
    wait_until("all have ended", || site.connections() == 1);
}
