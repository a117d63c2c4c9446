//! ErrorDocument, broken files, names that are not served.

use howdah_http::{Content, Method, Request};

use super::check;
use super::tree::{Tree, client, shown};
use crate::path::Scratch;
use crate::resolution::Resolution;

const FILES: &str = "index.php a.txt e404.html e403.php dir/b.txt dir/.git/config sub/x.txt";

#[test]
fn an_error_is_answered_with_its_document() {
    let mut tree = Tree::new(
        FILES,
        &[
            (
                "",
                "ErrorDocument 404 /e404.html\nErrorDocument 403 /e403.php\n\
                 ErrorDocument 405 \"No such method\"\n",
            ),
            ("dir/", "ErrorDocument 404 default\nErrorDocument 403 http://elsewhere.example/\n"),
            ("sub/", "ErrorDocument 404 /none-either\n"),
        ],
    );
    check(
        &mut tree,
        &[
            ("/none", "404 file e404.html"),
            ("/a.txt/x", "404 file e404.html"),
            ("/.git/config", "403 php e403.php"),
            ("/.hidden", "404 file e404.html"),
            ("/dir/none", "404"),
            ("/dir/.git/config", "302 http://elsewhere.example/"),
            ("/dir/", "302 http://elsewhere.example/"),
            ("/sub/none", "404"),
        ],
    );
    assert_eq!(tree.request("PUT", "/a.txt", ""), "405 page No such method");
    let allow = |tree: &mut Tree, method: &str, target: &str| {
        let ruled = tree.resolved(method, target, "").ruled.unwrap();
        ruled.state.error_fields.value(b"Allow").map(<[u8]>::to_vec)
    };
    assert_eq!(allow(&mut tree, "PUT", "/a.txt"), Some(b"GET,POST,OPTIONS,HEAD".to_vec()));
    assert_eq!(allow(&mut tree, "GET", "/none"), None);
    let mut bare = Tree::new(FILES, &[("", "# nothing\n")]);
    for (method, target, expected) in
        [("PUT", "/a.txt", true), ("GET", "/none", false), ("GET", "/dir/.git/config", false)]
    {
        let resolved = bare.resolved(method, target, "");
        let has_methods = matches!(resolved.resolution, Resolution::Allow { .. });
        assert_eq!(has_methods, expected, "{method} {target} {resolved:?}");
    }
}

#[test]
fn a_refusal_is_known_whatever_page_answers() {
    let rules = "ErrorDocument 403 /e404.html\nErrorDocument 404 /index.php\n";
    let mut tree = Tree::new(FILES, &[("", rules)]);
    let mut bare = Tree::new("a.txt dir/b", &[]);
    for (target, expected) in
        [("/a.txt", false), ("/.git/config", true), ("/dir/", true), ("/none", false)]
    {
        for tree in [&mut tree, &mut bare] {
            let resolved = tree.resolved("GET", target, "");
            assert_eq!(resolved.is_forbidden(), expected, "{target} {resolved:?}");
        }
    }
}

#[test]
fn an_error_document_sees_what_failed() {
    let mut tree = Tree::new(FILES, &[("", "ErrorDocument 404 /e403.php?from=here\n")]);
    let resolved = tree.resolved("POST", "/none?q=1", "");
    let ruled = resolved.ruled.unwrap();
    let state = &ruled.state;
    let env = |name: &str| {
        state
            .env
            .value(name.as_bytes())
            .map(|value| String::from_utf8_lossy(value).into_owned())
    };
    assert_eq!(env("REDIRECT_STATUS").as_deref(), Some("404"));
    assert_eq!(env("REDIRECT_REQUEST_METHOD").as_deref(), Some("POST"));
    assert_eq!(state.method.as_str(), "GET");
    assert_eq!(state.args.as_deref(), Some(&b"from=here"[..]));
    assert_eq!(state.previous.as_ref().unwrap().uri, b"/none");
}

#[test]
fn a_broken_file_breaks_what_it_covers() {
    let mut tree = Tree::new(
        FILES,
        &[("", "ErrorDocument 500 /e404.html\n"), ("dir/", "NoSuchDirective on\n")],
    );
    check(
        &mut tree,
        &[
            ("/a.txt", "file a.txt"),
            ("/dir/b.txt", "500"),
            ("/dir/none", "500"),
            ("/dir/", "500"),
            ("/sub/x.txt", "file sub/x.txt"),
        ],
    );
    let ruled = tree.resolved("GET", "/dir/b.txt", "").ruled.unwrap();
    let (place, text) = &ruled.state.complaints[0];
    assert!(text.contains("NoSuchDirective"), "{text}");
    assert_eq!(place.as_ref().unwrap().line, 1);
}

#[test]
fn errors_that_are_found_later() {
    let mut tree =
        Tree::new(FILES, &[("", "ErrorDocument 502 /e404.html\nErrorDocument 404 /index.php\n")]);
    for (target, status, expected) in
        [("/a.txt", 502, "502 file e404.html"), ("/none", 502, "404"), ("/a.txt", 413, "413")]
    {
        let resolved = tree.resolved("GET", target, "");
        let ruled = resolved.ruled.or_else(|| panic!("rules apply to {target}"));
        assert_eq!(tree.later(target, ruled, status), expected, "{target} {status}");
    }
}

#[test]
fn content_that_is_discarded_has_a_limit() {
    let rules = "LimitRequestBody 4\nErrorDocument 403 no\nErrorDocument 413 long\n\
                 RewriteEngine On\nRewriteRule ^f$ - [F]\nRewriteRule ^e$ - [R=500]\n";
    let mut tree = Tree::new(FILES, &[("", rules), ("sub/", "LimitRequestBody 0\n")]);
    let rows = [
        ("/a.txt", Content::None, "file a.txt"),
        ("/a.txt", Content::Length(4), "file a.txt"),
        ("/a.txt", Content::Length(5), "413 page long"),
        ("/a.txt", Content::Unknown, "discard 4"),
        ("/none", Content::Length(5), "413 page long"),
        ("/sub/x.txt", Content::Length(5), "file sub/x.txt"),
        // The script decides about its content.
        ("/index.php", Content::Length(5), "php index.php"),
        // An error discards the content as well, unless the connection ends with it.
        ("/f", Content::Length(4), "403 page no"),
        ("/f", Content::Length(5), "413"),
        ("/f", Content::Unknown, "discard 4"),
        ("/e", Content::Length(5), "500"),
    ];
    for (target, content, expected) in rows {
        let request = Request {
            method: Method::Post,
            target: target.into(),
            content,
            ..Request::default()
        };
        let sites = tree.sites.clone();
        let site = sites.iter().next().unwrap();
        let found = crate::resolve(site, &client(&request), &mut tree, &mut Scratch::default());
        assert_eq!(shown(&found), expected, "{target} {content:?}");
    }
}
