//! The handler of a file: names, SetHandler, sections.

use super::check;
use super::tree::Tree;

const FILES: &str = "index.php a.txt x.html x.php5 x.phps up/evil.php up/pic.jpg run/page.html \
    run/pic.jpg cgi/a.cgi maps/a.var maps/a.map";

#[test]
fn handlers_of_folders_and_sections() {
    let mut tree = Tree::new(
        FILES,
        &[
            (
                "",
                "<Files x.html>\nSetHandler application/x-httpd-php\n</Files>\n\
                 <FilesMatch \"\\.php5$\">\nSetHandler php5-script\n</FilesMatch>\n",
            ),
            ("up/", "<FilesMatch \"\\.php$\">\nSetHandler none\n</FilesMatch>\n"),
            (
                "run/",
                "SetHandler application/x-httpd-php\n<Files *.jpg>\nSetHandler default-handler\n\
                 </Files>\n",
            ),
            ("cgi/", "SetHandler cgi-script\n"),
            ("maps/", "AddHandler type-map .var\nAddType application/x-type-map .map\n"),
        ],
    );
    check(
        &mut tree,
        &[
            ("/x.html", "php x.html"),
            ("/x.html/info", "php x.html + /info"),
            ("/x.php5", "php x.php5"),
            ("/x.phps", "403"),
            // Apache would send its source.
            ("/up/evil.php", "403"),
            ("/up/pic.jpg", "file up/pic.jpg"),
            ("/run/page.html", "php run/page.html"),
            ("/run/pic.jpg", "file run/pic.jpg"),
            ("/cgi/a.cgi", "403"),
            ("/cgi/none", "404"),
            ("/maps/a.var", "403"),
            ("/maps/a.map", "403"),
        ],
    );
}

#[test]
fn a_folders_handler_does_not_stand_before_the_names_of_scripts() {
    let mut tree = Tree::new(FILES, &[("up/", "SetHandler none\n")]);
    check(&mut tree, &[("/up/evil.php", "php up/evil.php")]);
}

#[test]
fn php_that_is_switched_off_is_not_sent_as_text() {
    let mut tree =
        Tree::new(FILES, &[("up/", "php_flag engine off\n"), ("", "php_flag engine on\n")]);
    check(
        &mut tree,
        &[
            ("/up/evil.php", "403"),
            ("/up/pic.jpg", "file up/pic.jpg"),
            ("/index.php", "php index.php"),
        ],
    );
}

#[test]
fn path_info_is_taken_as_the_folder_says() {
    let mut tree = Tree::new(
        FILES,
        &[
            ("", "AcceptPathInfo On\n"),
            ("up/", "AcceptPathInfo Off\n"),
            ("run/", "AcceptPathInfo Default\n"),
        ],
    );
    check(
        &mut tree,
        &[
            ("/a.txt/x", "file a.txt"),
            ("/index.php/x", "php index.php + /x"),
            ("/up/evil.php/x", "404"),
            ("/up/evil.php/", "404"),
            ("/run/page.html/x", "404"),
        ],
    );
}

#[test]
fn a_variant_is_chosen_for_what_is_missing() {
    let mut tree = Tree::new(
        "page.html.en page.html.de other.php sub/x.html",
        &[
            (
                "",
                "Options +MultiViews\nAddLanguage en .en\nAddLanguage de .de\n\
                 AddHandler application/x-httpd-php .php\nMultiviewsMatch Any\n",
            ),
            ("sub/", "Options -MultiViews\n"),
        ],
    );
    assert_eq!(tree.request("GET", "/page", "Accept-Language: de"), "file page.html.de");
    assert_eq!(tree.request("GET", "/page?q", "Accept-Language: en"), "file page.html.en");
    check(
        &mut tree,
        &[("/other/info", "php other.php + /info"), ("/sub/x", "404"), ("/none", "404")],
    );
}

#[test]
fn extensions_have_handlers_and_types() {
    let mut tree = Tree::new(
        "a.html b.htm c.x d.php.bak e.src",
        &[(
            "",
            "AddHandler application/x-httpd-php .html\nAddType application/x-httpd-php .htm\n\
             AddType text/x-mine .x\nAddType text/x-php .src\n",
        )],
    );
    check(
        &mut tree,
        &[
            ("/a.html", "php a.html"),
            ("/b.htm", "php b.htm"),
            ("/c.x", "file c.x"),
            ("/d.php.bak", "403"),
            // A media type is no handler, whatever it is called.
            ("/e.src", "file e.src"),
        ],
    );
    let ruled = tree.resolved("GET", "/c.x", "").ruled.unwrap();
    assert_eq!(ruled.state.content_type.as_deref(), Some(&b"text/x-mine"[..]));
}

#[test]
fn a_script_whose_handler_is_taken_away_is_neither_run_nor_sent() {
    let mut tree = Tree::new(
        "index.php up/evil.php up/evil.phtml up/again/x.php type/evil.php",
        &[
            ("up/", "RemoveHandler .php .phtml\n"),
            ("up/again/", "AddHandler application/x-httpd-php .php\n"),
            ("type/", "RemoveType .php\n"),
        ],
    );
    check(
        &mut tree,
        &[
            ("/index.php", "php index.php"),
            ("/up/evil.php", "403"),
            ("/up/evil.phtml", "403"),
            ("/up/again/x.php", "php up/again/x.php"),
            ("/type/evil.php", "403"),
        ],
    );
}

#[test]
fn values_that_switch_php_off() {
    for (line, expected) in [
        ("php_flag engine off", "403"),
        ("php_flag engine 0", "403"),
        ("php_value engine none", "403"),
        ("php_value engine No", "403"),
        ("php_value engine FALSE", "403"),
        ("php_value engine 1", "php up/evil.php"),
        ("php_value other off", "php up/evil.php"),
    ] {
        let mut tree = Tree::new(FILES, &[("up/", line)]);
        assert_eq!(tree.get("/up/evil.php"), expected, "{line}");
    }
}

/// Rules are kept for a script where they tell it something beside the request itself.
#[test]
fn what_directives_tell_a_script_is_kept_for_it() {
    let user = "AuthType Basic\nAuthName N\nAuthUserFile /users\nRequire valid-user";
    for (lines, expected) in [
        ("Options -Indexes", false),
        ("RewriteEngine On\nRewriteRule ^none - [E=A:1]", false),
        ("RewriteEngine On\nRewriteRule ^ - [E=A:1]", true),
        ("RewriteEngine On\nRewriteRule ^ - [CO=a:b:example.org]", true),
        ("RewriteEngine On\nRewriteRule ^ - [T=text/x]", true),
        ("SetEnvIf Remote_Addr . HTTPS=on", true),
        ("RequestHeader set X-A 1", true),
        ("AuthBasicFake ann secret", true),
        (user, true),
    ] {
        let mut tree = Tree::new(FILES, &[("", lines)]);
        tree.put("/users", "ann:secret\n");
        let fields = "Authorization: Basic YW5uOnNlY3JldA==";
        let resolved = tree.resolved("GET", "/index.php?q", fields);
        assert_eq!(super::tree::shown(&resolved), "php index.php", "{lines}");
        assert_eq!(resolved.ruled.is_some(), expected, "{lines}");
    }
}

/// Keeps that a rule has led to a file, and the messages for the log.
#[test]
fn the_way_to_a_file_is_kept() {
    for (lines, target, expected) in [
        ("RewriteEngine On\nRewriteRule ^x$ /a.txt", "/a.txt", false),
        ("RewriteEngine On\nRewriteRule ^x$ /a.txt", "/x", true),
        ("Require all granted", "/a.txt", false),
        ("Require forward-dns a.example\nRequire all granted", "/a.txt", true),
    ] {
        let mut tree = Tree::new(FILES, &[("", lines)]);
        let resolved = tree.resolved("GET", target, "");
        assert_eq!(super::tree::shown(&resolved), "file a.txt", "{lines}");
        assert_eq!(resolved.ruled.is_some(), expected, "{lines} {target}");
    }
}

/// Without anything about the answer, nothing of the directives is kept for it.
#[test]
fn directives_about_the_answer_are_kept_for_it() {
    let rows = [
        ("# nothing", false),
        ("Options -Indexes", false),
        ("DirectoryIndex a", false),
        ("RewriteEngine On", false),
        ("AcceptPathInfo On", false),
        ("Header set A b", true),
        ("ExpiresActive On", true),
        ("AddOutputFilterByType DEFLATE text/plain", true),
        ("Substitute s/a/b/", true),
        ("AddType text/x .y", true),
        ("php_value a b", true),
        ("SSLOptions +ExportCertData", true),
        ("AddDefaultCharset utf-8", true),
        ("SetOutputFilter DEFLATE", true),
        ("SetInputFilter DEFLATE", true),
        ("ErrorDocument 404 x", true),
        ("LimitRequestBody 5", true),
        ("FileETag None", true),
        ("ServerSignature Off", true),
        ("CGIVar REQUEST_URI current-uri", true),
        ("QualifyRedirectURL On", true),
    ];
    for (line, expected) in rows {
        let mut tree = Tree::new("a.txt", &[("", line)]);
        let resolved = tree.resolved("GET", "/a.txt", "");
        assert_eq!(super::tree::shown(&resolved), "file a.txt", "{line}");
        assert_eq!(resolved.ruled.is_some(), expected, "{line}");
    }
}
