//! Existing paths, index files, slashes, FallbackResource, the site's own steps.

use howdah_config::{Symlinks, TryStep};

use super::check;
use super::tree::Tree;
use crate::resolution::Resolution;

const FILES: &str = "index.php a.txt dir/index.html dir/b.txt empty/ multi/second.html app/x.php \
    app/deep/y.txt locked!";

#[test]
fn without_effect_a_file_changes_nothing() {
    let mut bare = Tree::new(FILES, &[]);
    let mut ruled = Tree::new(FILES, &[("", "# nothing\n")]);
    for target in [
        "/",
        "/a.txt",
        "/a.txt/",
        "/a.txt/x",
        "/dir",
        "/dir?q",
        "/dir/",
        "/empty/",
        "/empty",
        "/none",
        "/none/",
        "/none/x",
        "/index.php/info",
        "/app/x.php/a/b",
        "/app/deep/none/x",
        "/.htaccess",
        "/.git/config",
        "/.hidden",
        "/locked",
        "/%2e%2e/",
        "/a%2fb",
        "/app/x.php/.htaccess",
        "//a.txt",
        "/dir//b.txt",
    ] {
        let bare = bare.get(target).replace("folder empty", "403");
        assert_eq!(ruled.get(target), bare, "{target}");
    }
}

#[test]
fn the_index_is_what_the_folder_says() {
    let mut tree = Tree::new(
        FILES,
        &[
            ("", "DirectoryIndex none.html index.php\n"),
            ("multi/", "DirectoryIndex first.html second.html\n"),
            ("empty/", "DirectoryIndex /a.txt\n"),
            ("dir/", "DirectoryIndex disabled\n"),
        ],
    );
    check(
        &mut tree,
        &[
            ("/", "php index.php"),
            ("/multi/", "file multi/second.html"),
            ("/empty/", "file a.txt"),
            ("/dir/", "403"),
            ("/multi", "301 /multi/"),
        ],
    );
}

#[test]
fn slashes_and_listings() {
    let mut tree = Tree::new(
        FILES,
        &[
            ("empty/", "DirectorySlash Off\nOptions +Indexes\n"),
            ("dir/", "DirectoryIndexRedirect permanent\n"),
        ],
    );
    check(
        &mut tree,
        &[
            ("/empty", "listing empty"),
            ("/empty/", "listing empty"),
            ("/dir/", "301 /dir/index.html"),
            ("/dir", "301 /dir/"),
        ],
    );
    assert_eq!(tree.request("POST", "/empty/", ""), "404");
}

#[test]
fn a_fallback_answers_for_missing_files() {
    let mut tree = Tree::new(
        FILES,
        &[("", "FallbackResource /index.php\n"), ("app/", "FallbackResource disabled\n")],
    );
    check(
        &mut tree,
        &[
            ("/none", "php index.php"),
            ("/none/x?y", "php index.php"),
            ("/a.txt", "file a.txt"),
            // A missing script has a handler.
            ("/none.php", "404"),
            ("/app/none", "404"),
            // None of the index files is there, and what has no handler falls back.
            ("/empty/", "php index.php"),
        ],
    );
    let mut circle = Tree::new("a.txt", &[("", "FallbackResource /none\n")]);
    check(&mut circle, &[("/x", "500")]);
}

#[test]
fn the_sites_own_steps_come_last() {
    let steps =
        vec![TryStep::Uri, TryStep::UriSuffix(".html".into()), TryStep::Path("/index.php".into())];
    let mut tree =
        Tree::with(FILES, &[("", "# nothing\n"), ("app/", "FallbackResource /a.txt\n")], |site| {
            site.try_files = steps;
        });
    check(
        &mut tree,
        &[
            ("/none", "php index.php"),
            ("/none.php", "php index.php"),
            ("/dir/index", "file dir/index.html"),
            ("/app/none", "file a.txt"),
            ("/a.txt/x", "php index.php"),
            ("/empty/", "php index.php"),
            ("/dir/", "file dir/index.html"),
        ],
    );
}

#[test]
fn options_other_than_get() {
    let mut tree = Tree::new(FILES, &[("", "# nothing\n")]);
    let rows = [
        ("HEAD", "/a.txt", "file a.txt"),
        ("POST", "/a.txt", "file a.txt"),
        ("PUT", "/a.txt", "405"),
        ("PUT", "/none", "405"),
        ("OPTIONS", "/a.txt", "200"),
        ("OPTIONS", "/none", "200"),
        ("POST", "/none", "404"),
        ("TRACE", "/a.txt", "405"),
        ("DELETE", "/index.php", "php index.php"),
        ("POST", "/", "php index.php"),
    ];
    for (method, target, expected) in rows {
        assert_eq!(tree.request(method, target, ""), expected, "{method} {target}");
    }
}

#[test]
fn links_are_followed_as_the_options_say() {
    let mut tree = Tree::new(
        "l.txt@ d/@ d/x.txt off/l.txt@ off/x.txt off/d/@ off/d/x.txt off/own/l.txt@ off/on/l.txt@",
        &[
            ("off/", "Options -FollowSymLinks\nErrorDocument 403 no\n"),
            ("off/own/", "Options SymLinksIfOwnerMatch\n"),
            ("off/on/", "Options FollowSymLinks\n"),
        ],
    );
    check(
        &mut tree,
        &[
            ("/l.txt", "file l.txt"),
            ("/d/x.txt", "file d/x.txt"),
            ("/off/x.txt", "file off/x.txt"),
            ("/off/l.txt", "403 page no"),
            ("/off/d/x.txt", "403 page no"),
            ("/off/d/", "403 page no"),
            ("/off/own/l.txt", "file off/own/l.txt"),
            ("/off/on/l.txt", "file off/on/l.txt"),
        ],
    );
}

#[test]
fn a_fallback_that_may_not_be_served_is_not() {
    let rules = "FallbackResource /secret.txt\n<Files secret.txt>\nRequire all denied\n</Files>\n";
    let mut tree = Tree::new("secret.txt", &[("", rules)]);
    check(&mut tree, &[("/none", "403")]);
}

#[test]
fn a_step_for_folders_is_for_folders() {
    let mut tree = Tree::with(FILES, &[("", "# nothing\n")], |site| {
        site.try_files = vec![TryStep::UriDirectory, TryStep::Path("/index.php".into())];
    });
    check(
        &mut tree,
        &[("/empty/", "403"), ("/none", "php index.php"), ("/a.txt", "php index.php")],
    );
}

#[test]
fn a_site_that_follows_all_links_asks_for_their_owner_where_options_do() {
    for (rule, options, expected) in [
        (Symlinks::Follow, "FollowSymLinks", Symlinks::Follow),
        (Symlinks::Follow, "SymLinksIfOwnerMatch", Symlinks::Owner),
        (Symlinks::Inside, "SymLinksIfOwnerMatch", Symlinks::Inside),
    ] {
        let options = format!("Options {options}\n");
        let mut tree = Tree::with(FILES, &[("", &options)], |site| site.symlinks = rule);
        let resolved = tree.resolved("GET", "/a.txt", "");
        let Resolution::File { path, .. } = resolved.resolution else {
            panic!("a file was expected");
        };
        assert_eq!(path.symlinks(), expected, "{rule:?} {options}");
    }
}
