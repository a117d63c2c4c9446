//! Responses that break off: no client takes what it got for a whole one, or two for one.

use std::io::{ErrorKind, Read};
use std::time::Duration;

use crate::site::{AWAIT, Options, Site};
use crate::support::{PATIENCE, has_php, wait_until};
use crate::tls::client::{self, Authority, Trust};
use crate::wire::Wire;

/// Early hints until the client's and the server's buffers are full, and then a page.
fn hints() -> String {
    format!(
        "<?php {AWAIT} ignore_user_abort(true);
         header('Link: <' . str_repeat('a', 7000) . '>; rel=preload');
         for ($n = 0; $n < 2500; $n++) headers_send(103);
         header_remove('Link'); touch($_GET['in'] . '/sent'); await('page'); echo 'page';"
    )
}

#[test]
fn no_page_follows_a_part_of_an_early_hint() {
    if !has_php() {
        return;
    }
    let files = [("hints.php", hints())];
    let files = files.each_ref().map(|(name, script)| (*name, script.as_str()));
    let options = Options {
        limits: "send_timeout = \"1s\"",
        ..Options::default()
    };
    let site = Site::with(&files, &options);
    let mut wire = site.connect();
    wire.request("GET", &site.awaiting("/hints.php"), &[], b"");
    // The client does not read until the server has given it up.
    let sent = site.scratch().join("sent");
    wait_until("the script has sent its hints", || sent.exists());
    // Now there is room for the page.
    let mut received = wire.within(Duration::from_secs(1));
    site.allow("page");
    received.extend(wire.rest());
    let text = String::from_utf8(received).unwrap();
    assert!(text.starts_with("HTTP/1.1 103 "), "{}", &text[..20]);
    let heads = text.matches("HTTP/1.1 ").count();
    assert_eq!(heads, text.matches("HTTP/1.1 103 ").count(), "only hints");
    assert!(heads < 2500 && !text.contains("page"), "{heads}");
}

#[test]
fn a_client_that_goes_after_it_has_sent_more_is_noticed() {
    if !has_php() {
        return;
    }
    // It sends nothing more: only the connection itself tells.
    let script = "<?php ignore_user_abort(true); echo str_repeat('x', 20000); flush();
         while (!connection_aborted()) { usleep(10000); flush(); } touch($_GET['in'] . '/told');";
    let site = Site::new(&[("waits.php", script)]);
    let mut wire = site.connect();
    wire.request("GET", &site.awaiting("/waits.php"), &[], b"");
    assert!(!wire.is_silent_for(PATIENCE));
    // A part of the next request. Bytes that the client has not read make its close a reset.
    wire.send("G");
    drop(wire);
    let told = site.scratch().join("told");
    wait_until("the script is told", || told.exists());
}

/// Asks in HTTP/1.0 for a page whose end is the connection's, and reads the first part of it. Then
/// its script goes on.
fn read_first_part(site: &Site, wire: &mut Wire, script: &str) {
    let target = site.awaiting(script);
    wire.send(format!("GET {target} HTTP/1.0\r\nHost: a.example\r\n\r\n"));
    let (status, _, fields) = wire.head();
    assert_eq!(status, 200);
    assert!(!fields.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-length")));
    assert_eq!(wire.exactly(100_000), [b'x'; 100_000]);
}

#[test]
fn what_a_script_has_sent_before_it_breaks_off_reaches_a_client_that_reads_later() {
    if !has_php() {
        return;
    }
    const LENGTH: usize = 2_000_000;
    let script = format!(
        "<?php {AWAIT} echo str_repeat('x', {LENGTH}); flush(); touch($_GET['in'] . '/sent');
         await('end'); posix_kill(getmypid(), 9);"
    );
    let authority = Authority::new();
    let folder = client::files(&[("a", &authority.certify(&["a.example"]))]);
    let config = format!(
        "listen = [\"127.0.0.1:0\", {{ address = \"127.0.0.1:0\", tls = true }}]\n[[site]]\n\
         hosts = [\"a.example\"]\nroot = \"public\"\n\
         tls = {{ cert = \"{0}/a.pem\", key = \"{0}/a.key\", redirect = false }}\n\
         [site.php]\nworkers = 2\nstate_dir = \"state\"\n",
        folder.path().display()
    );
    let site = Site::configured(&[("breaks.php", &script)], &config);
    for is_encrypted in [false, true] {
        let mut wire = match is_encrypted {
            false => site.connect(),
            true => authority.connect(site.server.addresses()[1], "a.example", Trust::Tls13),
        };
        let target = site.awaiting("/breaks.php");
        wire.send(format!("GET {target} HTTP/1.0\r\nHost: a.example\r\n\r\n"));
        let sent = site.scratch().join("sent");
        wait_until("the script has sent its page", || sent.exists());
        let lines = site.log_lines("/breaks.php").len();
        site.allow("end");
        wait_until("the log tells of the end", || site.log_lines("/breaks.php").len() > lines);
        assert_eq!(wire.head().0, 200);
        assert!(wire.exactly(LENGTH).iter().all(|byte| *byte == b'x'), "{is_encrypted}");
        let end = wire.stream().read(&mut [0]);
        assert_eq!(end.map_err(|error| error.kind()), Err(ErrorKind::ConnectionReset));
        std::fs::remove_file(sent).unwrap();
        std::fs::remove_file(site.scratch().join("end")).unwrap();
    }
}

#[test]
fn a_page_of_unknown_length_that_breaks_off_has_no_clean_end() {
    if !has_php() {
        return;
    }
    let script = |end: &str| {
        format!("<?php {AWAIT} echo str_repeat('x', 100000); flush(); await('end'); {end}")
    };
    let (breaks, ends) = (script("posix_kill(getmypid(), 9);"), script("echo 'y';"));
    let authority = Authority::new();
    let folder = client::files(&[("a", &authority.certify(&["a.example"]))]);
    let config = format!(
        "listen = [\"127.0.0.1:0\", {{ address = \"127.0.0.1:0\", tls = true }}]\n[[site]]\n\
         hosts = [\"a.example\"]\nroot = \"public\"\n\
         tls = {{ cert = \"{0}/a.pem\", key = \"{0}/a.key\", redirect = false }}\n\
         [site.php]\nworkers = 4\nstate_dir = \"state\"\n",
        folder.path().display()
    );
    let site = Site::configured(&[("breaks.php", &breaks), ("ends.php", &ends)], &config);
    let encrypted = || authority.connect(site.server.addresses()[1], "a.example", Trust::Tls13);
    let mut broken = [site.connect(), encrypted()];
    let mut whole = [site.connect(), encrypted()];
    broken.iter_mut().for_each(|wire| read_first_part(&site, wire, "/breaks.php"));
    whole.iter_mut().for_each(|wire| read_first_part(&site, wire, "/ends.php"));
    site.allow("end");
    for wire in broken {
        // Not even a goodbye of TLS.
        let end = wire.stream().read(&mut [0]);
        assert_eq!(end.map_err(|error| error.kind()), Err(ErrorKind::ConnectionReset));
    }
    for mut wire in whole {
        assert_eq!(wire.exactly(1), b"y");
        wire.expect_close();
        assert_eq!(wire.stream().read(&mut [0]).unwrap(), 0);
    }
}
