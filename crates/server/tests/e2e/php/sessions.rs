//! Sessions that are no longer used.

use crate::site::Site;
use crate::support::{has_php, wait_until};

/// Makes a session that was last used this many hours ago, or prints whether the session `id`
/// exists.
const OLD: (&str, &str) = (
    "old.php",
    "<?php $old = session_save_path() . '/sess_' . ($_GET['id'] ?? $_GET['hours']);
     if (isset($_GET['hours'])) touch($old, time() - 3600 * $_GET['hours']);
     echo file_exists($old) ? 'there' : 'gone';",
);
const SESSION: (&str, &str) = (
    "session.php",
    "<?php session_start(); $_SESSION['a'] = 1; echo ini_get('session.gc_probability');",
);

#[test]
fn one_request_deletes_the_old_ones_and_the_next_ones_need_not() {
    if !has_php() {
        return;
    }
    let site = Site::new(&[OLD, SESSION]);
    // None of these starts a session.
    for _ in 0..10 {
        assert_eq!(site.get("/old.php?hours=2").text(), "there");
    }
    let young = site.get("/session.php");
    let cookie = young.field("set-cookie").unwrap().split(';').next().unwrap();
    wait_until("it is deleted", || {
        assert_eq!(site.get("/session.php").status, 200);
        site.get("/old.php?id=2").text() == "gone"
    });
    let in_use = cookie.replace("PHPSESSID", "/old.php?id");
    assert_eq!(site.get(&in_use).text(), "there");

    assert_eq!(site.get("/old.php?hours=2").text(), "there");
    // A worker that had a request without a session looks again.
    std::thread::sleep(std::time::Duration::from_millis(1100));
    for _ in 0..20 {
        assert_eq!(site.get("/session.php").text(), "0", "it is done for the next minutes");
    }
    assert_eq!(site.get("/old.php?id=2").text(), "there");
}

#[test]
fn the_scripts_own_lifetime_holds() {
    if !has_php() {
        return;
    }
    let long = (
        "long.php",
        "<?php ini_set('session.gc_maxlifetime', '86400'); session_start(); session_write_close();",
    );
    let site = Site::new(&[OLD, long]);
    for hours in [2, 48] {
        assert_eq!(site.get(&format!("/old.php?hours={hours}")).text(), "there");
    }
    wait_until("what is older is deleted", || {
        assert_eq!(site.get("/long.php").status, 200);
        site.get("/old.php?id=48").text() == "gone"
    });
    assert_eq!(site.get("/old.php?id=2").text(), "there");
}

#[test]
fn a_configured_probability_is_obeyed() {
    if !has_php() {
        return;
    }
    let always = "ini = { \"session.gc_probability\" = 1, \"session.gc_divisor\" = 1 }";
    let site = Site::with_php(&[OLD, SESSION], always);
    for _ in 0..3 {
        assert_eq!(site.get("/old.php?hours=2").text(), "there");
        assert_eq!(site.get("/session.php").text(), "1");
        assert_eq!(site.get("/old.php?id=2").text(), "gone");
    }
    let rules = ("sub/.htaccess", "php_value session.gc_probability 0\n");
    let site = Site::new(&[OLD, rules, ("sub/session.php", SESSION.1)]);
    assert_eq!(site.get("/old.php?hours=2").text(), "there");
    for _ in 0..3 {
        assert_eq!(site.get("/sub/session.php").text(), "0");
    }
    assert_eq!(site.get("/old.php?id=2").text(), "there");
}
