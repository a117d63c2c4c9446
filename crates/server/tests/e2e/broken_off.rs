//! Responses that break off: no client takes what it got for a whole one, or two for one.

use std::time::Duration;

use crate::site::{AWAIT, Options, Site};
use crate::support::{has_php, wait_until};

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
