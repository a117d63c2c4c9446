//! Rewriting: rounds, variables, what it has to do with folders, index files and PATH_INFO.

use super::check;
use super::tree::Tree;

const WORDPRESS: &str = "\
# BEGIN WordPress
<IfModule mod_rewrite.c>
RewriteEngine On
RewriteRule .* - [E=HTTP_AUTHORIZATION:%{HTTP:Authorization}]
RewriteBase /
RewriteRule ^index\\.php$ - [L]
RewriteCond %{REQUEST_FILENAME} !-f
RewriteCond %{REQUEST_FILENAME} !-d
RewriteRule . /index.php [L]
</IfModule>
# END WordPress
";

const FILES: &str = "index.php a.css wp-admin/index.php wp-admin/style.css \
    wp-content/uploads/pic.jpg empty/ wp-login.php";

#[test]
fn requests_that_are_handed_on() {
    let rules = "RewriteEngine On\nRewriteRule ^app/(.*)$ http://127.0.0.1:3000/in/$1 [P]\n\
        RewriteRule ^b$ http://app/ [P]\n\
        RewriteRule ^other http://127.0.0.1:3001/ [P]\n\
        RewriteRule ^dir/(.*)$ http://127.0.0.1:3000/dir/$1 [P]\n\
        ErrorDocument 403 default\nErrorDocument 404 /app/404\n\
        Redirect /app/moved /elsewhere\n";
    let upstreams = || {
        let upstream = |socket: Option<&str>, host: &str, port| howdah_config::Upstream {
            scheme: howdah_config::UpstreamScheme::Http,
            socket: socket.map(Into::into),
            host: host.to_owned(),
            port,
        };
        vec![upstream(None, "127.0.0.1", 3000), upstream(Some("/run/a"), "app", 80)]
    };
    let htaccess = [("", rules)];
    let mut tree = Tree::with("a.txt app/x.txt dir/index.php none/", &htaccess, |site| {
        site.upstreams = upstreams();
        site.try_files =
            vec![howdah_config::TryStep::Uri, howdah_config::TryStep::Path("/a.txt".into())];
    });
    check(
        &mut tree,
        &[
            ("/app/x.txt", "proxy 0 /in/x.txt"),
            ("/app/y%20z?q=%2F", "proxy 0 /in/y%20z?q=%2F"),
            ("/b", "proxy 1 /"),
            ("/other", "403"),
            ("/app/moved", "302 http://example.org/elsewhere"),
            ("/a.txt", "file a.txt"),
            // As in Apache, mod_dir sees the folder, too: its slash, and its index file, which the
            // rule is for as well.
            ("/dir", "301 /dir/"),
            ("/dir/", "proxy 0 /dir/index.php"),
        ],
    );
    assert_eq!(tree.request("DELETE", "/app/x", ""), "proxy 0 /in/x");
}

#[test]
fn wordpress() {
    let mut tree = Tree::new(FILES, &[("", WORDPRESS)]);
    check(
        &mut tree,
        &[
            ("/", "php index.php"),
            ("/?p=1", "php index.php"),
            ("/index.php", "php index.php"),
            ("/2024/05/a-post/", "php index.php"),
            ("/2024/05/a-post", "php index.php"),
            ("/a.css", "file a.css"),
            ("/wp-admin", "301 /wp-admin/"),
            ("/wp-admin/", "php wp-admin/index.php"),
            ("/wp-login.php", "php wp-login.php"),
            ("/wp-content/uploads/pic.jpg", "file wp-content/uploads/pic.jpg"),
            ("/wp-content/uploads/none.jpg", "php index.php"),
            ("/wp-content/uploads/", "403"),
            ("/none.php", "php index.php"),
            ("/.htaccess", "403"),
            ("/a.css/x", "404"),
            ("/index.php/a/b", "php index.php + /a/b"),
        ],
    );
}

#[test]
fn a_front_controller_sees_its_own_place() {
    let mut tree = Tree::new(FILES, &[("", WORDPRESS)]);
    let resolved = tree.resolved("GET", "/2024/a%20post/?x=1", "Authorization: Basic eDp5");
    let state = &resolved.ruled.as_ref().unwrap().state;
    let env = |name: &str| {
        state
            .env
            .value(name.as_bytes())
            .map(|value| String::from_utf8_lossy(value).into_owned())
    };
    assert_eq!(env("REDIRECT_STATUS").as_deref(), Some("200"));
    assert_eq!(env("HTTP_AUTHORIZATION").as_deref(), Some("Basic eDp5"));
    assert_eq!(env("REDIRECT_HTTP_AUTHORIZATION").as_deref(), Some("Basic eDp5"));
    assert_eq!(state.uri, b"/index.php");
    assert_eq!(state.args.as_deref(), Some(&b"x=1"[..]));
    assert_eq!(state.previous.as_ref().unwrap().uri, b"/2024/a post/");
}

#[test]
fn a_subfolder_has_its_own_rules_or_none() {
    let mut tree = Tree::new(
        "index.php a/index.php a/x.txt b/x.txt c/d/x.txt",
        &[
            (
                "",
                "RewriteEngine On\nRewriteRule ^(.*)none$ /index.php [L]\n\
                 RewriteRule ^b/x\\.txt$ - [F]\n",
            ),
            ("a/", "RewriteEngine On\nRewriteRule ^x\\.txt$ index.php [L]\n"),
            ("b/", "Options +Indexes\n"),
            ("c/", "RewriteEngine Off\n"),
        ],
    );
    check(
        &mut tree,
        &[
            ("/none", "php index.php"),
            ("/a/none", "404"),
            ("/a/x.txt", "php a/index.php"),
            // A file without mod_rewrite's directives changes nothing about the rules above.
            ("/b/x.txt", "403"),
            ("/b/none", "php index.php"),
            ("/c/d/none", "404"),
        ],
    );
}

#[test]
fn rounds_are_limited() {
    let mut tree = Tree::new(
        "index.php e500.html",
        &[("", "RewriteEngine On\nRewriteRule ^a(.*)$ /aa$1\nRewriteRule ^(e500.html)?$ - [L]\n")],
    );
    let resolved = tree.resolved("GET", "/a", "");
    assert_eq!(super::tree::shown(&resolved), "500");
    let complaints = &resolved.ruled.unwrap().state.complaints;
    assert!(
        complaints[0]
            .1
            .starts_with("Request exceeded the limit of 10 internal redirects"),
        "{complaints:?}"
    );
}

#[test]
fn targets_of_rules_stay_below_the_root() {
    let mut tree = Tree::new(
        "index.php secret/.htpasswd a%b.txt",
        &[(
            "",
            "RewriteEngine On\nRewriteRule ^up$ /../../etc/passwd\nRewriteRule ^abs$ /etc/passwd\n\
             RewriteRule ^pw$ secret/.htpasswd\n\
             RewriteRule ^dots$ secret/../index.php\nRewriteRule ^pc$ a%%b.txt\n\
             RewriteRule ^slash$ /a\\%2fb\n",
        )],
    );
    check(
        &mut tree,
        &[
            ("/up", "400"),
            ("/abs", "404"),
            ("/pw", "403"),
            ("/dots", "php index.php"),
            ("/slash", "404"),
        ],
    );
}

#[test]
fn path_info_and_index_with_rules() {
    let mut tree = Tree::new(
        "index.php app.php dir/home.html dir/index.html dir/home.php page.html",
        &[
            (
                "",
                "RewriteEngine On\nRewriteRule ^route/(.*)$ /app.php/$1 [L]\n\
                 RewriteRule ^page$ page.html [L]\n",
            ),
            ("dir/", "RewriteEngine On\nRewriteRule ^index\\.html$ home.php [L]\n"),
        ],
    );
    check(
        &mut tree,
        &[
            ("/route/a/b?c", "php app.php + /a/b"),
            ("/route/", "php app.php + /"),
            ("/page", "file page.html"),
            ("/page/x", "404"),
            // The index file is looked up by a sub-request, which has its own rules applied.
            ("/dir/", "php dir/home.php"),
            ("/dir", "301 /dir/"),
        ],
    );
}

#[test]
fn statuses_and_redirects() {
    let mut tree = Tree::new(
        "index.php e.html dir/",
        &[(
            "",
            "ErrorDocument 403 /e.html\nErrorDocument 410 \"gone for good\"\nRewriteEngine On\n\
             RewriteRule ^f$ - [F]\nRewriteRule ^g$ - [G]\n\
             RewriteRule ^r$ /index.php [R=301]\nRewriteRule ^x$ http://other.example/y [R]\n\
             RewriteRule ^t$ - [R=404]\n\
             RewriteRule ^dir$ /index.php\n",
        )],
    );
    check(
        &mut tree,
        &[
            ("/f", "403 file e.html"),
            ("/g", "410 page gone for good"),
            ("/r?q", "301 http://example.org/index.php?q"),
            ("/x", "302 http://other.example/y"),
            ("/t", "404"),
            // DirectorySlash comes before a rule's result for a folder's URL.
            ("/dir", "301 /dir/"),
        ],
    );
}

#[test]
fn look_aheads() {
    let mut tree = Tree::new(
        "index.php a.txt there.txt",
        &[(
            "",
            "RewriteEngine On\nRewriteCond %{LA-U:REQUEST_FILENAME} a\\.txt$\n\
             RewriteRule ^b$ there.txt [L]\nRewriteRule ^b$ - [F]\n\
             RewriteCond /a.txt -U\nRewriteRule ^u$ there.txt [L]\nRewriteCond /.htpasswd -U\n\
             RewriteRule ^v$ there.txt [L]\n\
             RewriteCond %{LA-U:REQUEST_URI} x\nRewriteRule ^loop index.php [L]\n",
        )],
    );
    check(&mut tree, &[("/b", "403"), ("/u", "file there.txt"), ("/v", "404"), ("/loop", "404")]);
}

/// `/s<n>` reaches its end after n internal redirects.
fn steps(end: &str) -> String {
    let steps = (1..=12).map(|number| match number {
        1 => format!("RewriteRule ^s1$ {end} [L]\n"),
        _ => format!("RewriteRule ^s{number}$ /s{} [L]\n", number - 1),
    });
    "RewriteEngine On\n".to_owned() + &steps.collect::<String>()
}

#[test]
fn ten_internal_redirects_and_no_more() {
    let rules = steps("/end.txt");
    let mut tree = Tree::new("end.txt", &[("", &rules)]);
    let rows = [("/s1", "file end.txt"), ("/s9", "file end.txt"), ("/s10", "file end.txt")];
    check(&mut tree, &rows);
    check(&mut tree, &[("/s11", "500"), ("/s12", "500")]);
}

#[test]
fn after_the_last_internal_redirect_nothing_is_looked_up() {
    let rules = steps("/dir/");
    let mut tree = Tree::new("dir/index.php", &[("", &rules)]);
    check(&mut tree, &[("/dir/", "php dir/index.php"), ("/s9", "php dir/index.php")]);
    check(&mut tree, &[("/s10", "500"), ("/s11", "500")]);
}

#[test]
fn rules_act_only_where_links_may_be_followed() {
    for (options, expected) in [
        ("-FollowSymLinks", "403"),
        ("FollowSymLinks", "file a.txt"),
        ("SymLinksIfOwnerMatch", "file a.txt"),
    ] {
        let rules = format!("Options {options}\nRewriteEngine On\nRewriteRule ^x$ /a.txt\n");
        assert_eq!(Tree::new("a.txt", &[("", &rules)]).get("/x"), expected, "{options}");
    }
}

#[test]
fn a_type_leaves_the_file_and_a_handler_beside_another_path_does_not() {
    let rules = "RewriteEngine On\nRewriteRule ^t\\.txt$ t.txt [T=text/x]\n\
                 RewriteRule ^h\\.txt$ /y [H=application/x-httpd-php]\n";
    let mut tree = Tree::new("t.txt h.txt", &[("", rules)]);
    check(&mut tree, &[("/t.txt", "file t.txt"), ("/h.txt", "404")]);
}
