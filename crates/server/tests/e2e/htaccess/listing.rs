//! Folders that are listed, and those that are not.

use crate::site::Site;

#[test]
fn only_where_it_is_asked_for() {
    let site = Site::new(&[
        ("closed/a.txt", "a"),
        (
            "open/.htaccess",
            "Options +Indexes\nIndexIgnore *.bak\nReadmeName about.html\nHeader set X-Tag listed\n",
        ),
        ("open/a.txt", "0123456789"),
        ("open/b & c.html", "b"),
        ("open/\u{fc}ber.txt", "u"),
        ("open/old.bak", "old"),
        ("open/about.html", "<b>about</b>"),
        ("open/.hidden", "hidden"),
        ("open/.env", "secret"),
        ("open/sub/x.txt", "x"),
        ("open/secret/.htaccess", "Require all denied\n"),
        ("open/secret/x.txt", "x"),
        ("open/indexed/index.html", "the index"),
    ]);
    assert_eq!(site.get("/closed/").status, 403);
    let reply = site.get("/open/");
    let page = reply.text();
    assert_eq!((reply.status, reply.field("x-tag")), (200, Some("listed")));
    assert_eq!(reply.field("content-type"), Some("text/html;charset=UTF-8"));
    for shown in [
        "a.txt",
        "b%20&amp;%20c.html",
        "b &amp; c.html",
        "\u{fc}ber.txt",
        "sub/",
        "indexed/",
        "<b>about</b>",
        "Index of /open",
    ] {
        assert!(page.contains(shown), "{shown} is missing in {page}");
    }
    for hidden in ["old.bak", ".hidden", ".env", "secret", ".htaccess"] {
        assert!(!page.contains(hidden), "{hidden} is in {page}");
    }
    assert_eq!(site.get("/open/indexed/").text(), "the index");
    assert_eq!(site.get("/open/secret/").status, 403);
    let head = site.ask("HEAD", "/open/", &[], b"");
    assert_eq!((head.status, head.body.len()), (200, 0));
    let by_size = site.get("/open/?C=S;O=D");
    assert_eq!(by_size.status, 200);
    // Escapes: nothing above the root, nothing of another folder.
    for target in ["/open/../", "/open/%2e%2e/", "/open/sub/../../"] {
        assert!(matches!(site.get(target).status, 400 | 403 | 404), "{target}");
    }
}
