//! Compressed responses that break off: the client gets what the script has put out before, as
//! without compression, and no end.

use super::unpack::readable;
use super::{COMPRESSED, Http2, Served, Site, Special};
use crate::support::has_php;

/// Lines that do not compress well, more than Brotli compresses at once.
const LINES: usize = 600;

/// A script that dies right behind its output, and one whose time is over.
fn scripts() -> [(&'static str, String); 2] {
    let output = format!(
        "<?php header('Content-Type: text/plain'); while (ob_get_level()) ob_end_flush();
         for ($n = 0; $n < {LINES}; $n++) echo md5($n), \"\\n\"; flush();"
    );
    [
        ("dies.php", format!("{output} posix_kill(getmypid(), 9); sleep(60);")),
        ("late.php", format!("{output} while (true) sleep(1);")),
    ]
}

const TIMES: &str = "workers = 2\nrequest_timeout = \"1h\"\nrequest_terminate_timeout = \"1s\"\n";

/// The text is that of all lines, and has no end.
fn is_all_but_the_end((text, is_whole): (String, bool), of: &str) {
    assert_eq!(text.lines().count(), LINES, "{of}: {} bytes", text.len());
    assert!(text.ends_with('\n') && !is_whole, "{of}");
}

fn plain(coding: &str, content: &[u8]) -> (String, bool) {
    match coding {
        "identity" => (String::from_utf8(content.to_vec()).unwrap(), false),
        _ => readable(coding, content),
    }
}

const CODINGS: [&str; 4] = ["identity", "gzip", "br", "zstd"];

#[test]
fn a_client_of_http_1_and_2_gets_what_was_put_out_before_a_break() {
    if !has_php() {
        return;
    }
    let scripts = scripts();
    let files = scripts.each_ref().map(|(name, script)| (*name, script.as_str()));
    let options = crate::site::Options { php: TIMES, ..COMPRESSED };
    let site = Site::with(&files, &options);
    for (target, coding) in ["/dies.php", "/late.php"]
        .into_iter()
        .flat_map(|target| CODINGS.map(|coding| (target, coding)))
    {
        let accept = [("Accept-Encoding", coding)];
        let mut wire = site.connect();
        wire.request("GET", target, &accept, b"");
        let (status, _, fields) = wire.head();
        assert_eq!(status, 200, "{fields:?}");
        let rest = wire.rest();
        assert!(!rest.ends_with(b"0\r\n\r\n"), "{target} {coding}");
        let content = unchunked(&rest);
        is_all_but_the_end(plain(coding, &content), &format!("HTTP/1.1 {target} {coding}"));

        let accept = [("accept-encoding", coding)];
        let reply = Http2::connect(&site).ask("GET", target, &accept, b"");
        let of = format!("HTTP/2 {target} {coding}");
        assert_eq!((reply.status, reply.reset), (200, Some(h2::Reason::INTERNAL_ERROR)), "{of}");
        is_all_but_the_end(plain(coding, &reply.body), &of);
    }
}

#[test]
fn a_client_of_http_3_gets_what_was_put_out_before_a_break() {
    if !has_php() {
        return;
    }
    let scripts = scripts();
    let files = scripts.each_ref().map(|(name, script)| (*name, script.as_str()));
    let special = Special {
        site: COMPRESSED.site,
        php: TIMES,
        ..Special::default()
    };
    let served = Served::with(&files, &special);
    for coding in CODINGS {
        let client = served.connect();
        let reply = client.ask("GET", "/dies.php", &[("accept-encoding", coding)], b"");
        assert_eq!((reply.status, reply.is_broken), (200, true));
        is_all_but_the_end(plain(coding, &reply.body), &format!("HTTP/3 {coding}"));
    }
}

/// The content of chunks, of which the last one may be cut.
fn unchunked(mut rest: &[u8]) -> Vec<u8> {
    let mut content = Vec::new();
    while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
        let size = std::str::from_utf8(&rest[..end]).unwrap().trim();
        let size = usize::from_str_radix(size, 16).unwrap();
        let chunk = &rest[end + 1..];
        content.extend_from_slice(&chunk[..size.min(chunk.len())]);
        rest = chunk.get(size + 2..).unwrap_or_default();
    }
    content
}
