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
fn a_folder_that_has_a_handler_or_a_rule_is_left_to_it() {
    for (rules, target, expected) in [
        ("SetHandler x", "/dir/", "file dir/index.html"),
        ("SetHandler x\nDirectoryCheckHandler On", "/dir/", "404"),
        ("DirectoryCheckHandler On", "/dir/", "file dir/index.html"),
        ("SetHandler x\nOptions +Indexes", "/empty/", "404"),
        ("SetHandler httpd/unix-directory\nOptions +Indexes", "/empty/", "listing empty"),
        ("RewriteEngine On\nRewriteRule ^dir/$ /a.txt", "/dir/", "file a.txt"),
    ] {
        let mut tree = Tree::new(FILES, &[("", rules)]);
        assert_eq!(tree.get(target), expected, "{rules}");
    }
    let careful = "SetEnvIf User-Agent Old redirect-carefully\n";
    let mut tree = Tree::new(FILES, &[("", careful)]);
    for (method, agent, expected) in
        [("GET", "Old", "301 /dir/"), ("HEAD", "New", "301 /dir/"), ("HEAD", "Old", "403")]
    {
        let fields = format!("User-Agent: {agent}");
        assert_eq!(tree.request(method, "/dir", &fields), expected, "{method} {agent}");
    }
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
    for resource in ["/empty/", "/none"] {
        let rules = format!("<Files x>\nFallbackResource {resource}\n</Files>\n");
        assert_eq!(Tree::new(FILES, &[("", &rules)]).get("/x"), "404", "{resource}");
    }
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
        "l.txt@ d/@ d/x.txt off/l.txt@ off/x.txt off/d/@ off/d/x.txt off/own/l.txt@ off/on/l.txt@ \
         off/e/@ off/e/x.txt",
        &[
            ("off/", "Options -FollowSymLinks\nErrorDocument 403 no\n"),
            ("off/e/", "Options FollowSymLinks\n"),
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
            // The folder that a link leads to has no say in whether the link is followed.
            ("/off/e/x.txt", "403 page no"),
        ],
    );
}

#[test]
fn an_index_that_may_not_be_served_is_no_reason_for_a_listing() {
    let denied = "<Files a.html>\nRequire all denied\n</Files>\n";
    let user = "AuthType Basic\nAuthName N\nAuthUserFile /none\n<Files a.html>\n\
                Require valid-user\n</Files>\n";
    for (rules, names, expected) in [
        (denied, "a.html", "403"),
        (denied, "a.html b.html", "file i/b.html"),
        (denied, "none.html a.html", "403"),
        (denied, "a.html none.html", "403"),
        (denied, "none.html", "listing i"),
        (user, "a.html", "401"),
        (user, "a.html b.html", "file i/b.html"),
        (user, "a.html none.html", "401"),
    ] {
        let rules = format!("Options +Indexes\nDirectoryIndex {names}\n{rules}");
        let mut tree = Tree::new("i/a.html i/b.html", &[("", &rules)]);
        assert_eq!(tree.get("/i/"), expected, "{rules}");
        if names.ends_with("a.html") && expected == "401" {
            let ruled = tree.resolved("GET", "/i/", "").ruled.unwrap();
            assert!(ruled.state.error_fields.contains(b"WWW-Authenticate"), "{rules}");
        }
    }
}

#[test]
fn an_index_file_that_is_missing_may_lead_elsewhere() {
    for (rules, expected) in [
        ("", "403"),
        ("RewriteEngine On\nRewriteRule ^index\\.html$ - [G]\n", "410"),
        ("Redirect /i/index.html /a.txt\n", "302 http://example.org/a.txt"),
        ("Options +MultiViews\nAddLanguage en .en\n", "file i/index.html.en"),
        ("FallbackResource /i/a.txt\n", "file i/a.txt"),
        (
            "<Files index.html>\nAuthType Basic\nAuthName N\nAuthUserFile /n\n\
             Require valid-user\n</Files>\n",
            "401",
        ),
        ("<If \"%{REQUEST_URI} =~ /index/\">\nRedirect 410 /\n</If>\n", "410"),
        ("DirectoryIndex a.txt?q\n", "file i/a.txt"),
        ("DirectoryIndex a%2etxt\n", "file i/a.txt"),
        ("DirectoryIndex .hidden\n", "file i/.hidden"),
    ] {
        let files = "i/a.txt i/index.html.en i/.hidden";
        let mut tree = Tree::new(files, &[("i/", rules)]);
        assert_eq!(tree.get("/i/"), expected, "{rules}");
    }
}

#[test]
fn a_step_does_not_lead_to_a_file_that_may_not_be_served() {
    for step in [TryStep::UriSuffix(".html".into()), TryStep::Path("/a.html".into())] {
        let rules = "<Files a.html>\nRequire all denied\n</Files>\n";
        let mut tree = Tree::with("a.html b.txt", &[("", rules)], |site| {
            site.try_files = vec![TryStep::Uri, step.clone(), TryStep::Path("/b.txt".into())];
        });
        assert_eq!(tree.get("/a"), "403", "{step:?}");
    }
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
