//! The `rules` of the site's configuration: they act before every `.htaccess` file.

use super::check;
use super::tree::Tree;

const FILES: &str = "index.php a.txt new.txt app/x.txt app/index.php dir/b.txt .hidden .git/config";

fn tree(rules: &str, htaccess: &[(&str, &str)]) -> Tree {
    Tree::with(FILES, htaccess, |site| {
        site.rules = Some(rules.to_owned());
        site.upstreams = vec![howdah_config::Upstream {
            scheme: howdah_config::UpstreamScheme::Http,
            socket: None,
            host: "127.0.0.1".to_owned(),
            port: 3000,
        }];
    })
}

#[test]
fn no_file_switches_them_off() {
    let rules = "RewriteEngine On\nRewriteRule ^old\\.txt$ /new.txt\nRewriteRule ^/gone - [G]\n\
                 RewriteRule ^/api/(.*)$ http://127.0.0.1:3000/$1 [P]\nRedirect /moved /a.txt\n";
    let files = [
        "",
        "RewriteEngine On\nRewriteRule ^none$ /x\n",
        "RewriteEngine Off\n",
        "RewriteEngine On\nRewriteRule ^ /index.php [END]\nRedirect /moved /elsewhere\n",
        "RewriteOptions IgnoreInherit\nRewriteEngine Off\n",
        "<If \"true\">\nRewriteEngine Off\n</If>\n",
    ];
    for text in files {
        let htaccess = [("", text)];
        let mut tree = tree(rules, if text.is_empty() { &[] } else { &htaccess });
        let rows = [
            ("/gone/x", "410"),
            ("/api/y%20z?q", "proxy 0 /y%20z?q"),
            ("/moved/x?q", "302 http://example.org/a.txt/x?q"),
        ];
        check(&mut tree, &rows);
        let old = if text.contains("END") {
            "php index.php"
        } else {
            "file new.txt"
        };
        assert_eq!(tree.get("/old.txt"), old, "{text}");
    }
}

#[test]
fn a_rule_comes_before_a_redirect_as_in_a_virtual_host() {
    let rules = "RewriteEngine On\nRewriteRule ^/both$ /a.txt [L]\nRewriteRule ^/seen$ - [L]\n\
        RewriteRule ^/to$ /moved\nRewriteRule ^/through$ /moved [PT]\n\
        RewriteRule ^/api/(.*)$ http://127.0.0.1:3000/$1 [P]\n\
        Redirect 302 /both /other\nRedirect 302 /seen /other\nRedirect 302 /moved /other\n\
        Redirect 302 /api /other\n";
    let rows = [
        ("/both", "file a.txt"),
        ("/both/x", "302 http://example.org/other/x"),
        ("/seen", "302 http://example.org/other"),
        ("/to", "404"),
        ("/through", "302 http://example.org/other"),
        ("/moved", "302 http://example.org/other"),
        ("/api/y", "proxy 0 /y"),
    ];
    check(&mut tree(rules, &[]), &rows);
}

#[test]
fn they_act_before_everything_in_a_folder() {
    let rules = "RewriteEngine On\nRewriteCond %{HTTP_HOST} !^www\n\
        RewriteRule ^/closed(.*) https://www.example.org/closed$1 [R=301]\n\
        RewriteRule ^/broken/ok$ /a.txt\n";
    let htaccess = [
        ("closed/", "AuthType Basic\nAuthName x\nAuthUserFile /none\nRequire valid-user\n"),
        ("broken/", "Nonsense\n"),
    ];
    check(
        &mut tree(rules, &htaccess),
        &[
            ("/closed/x", "301 https://www.example.org/closed/x"),
            ("/broken/ok", "file a.txt"),
            ("/broken/x", "500"),
        ],
    );
}

#[test]
fn patterns_with_and_without_the_first_slash() {
    let rows = [
        ("^/a\\.txt$", "/a.txt", true),
        ("^a\\.txt$", "/a.txt", true),
        ("^/?a\\.txt$", "/a.txt", true),
        ("/b", "/b", true),
        ("/b", "/dir/b", true),
        ("b", "/dir/b", true),
        ("^b", "/dir/b", false),
        ("^(/dir)", "/dir/b", true),
        ("^(?:/x|/dir)", "/dir/b", true),
        ("^/", "/", true),
        ("^$", "/", true),
        ("!^/a", "/b", true),
        ("!^/b", "/b", false),
        ("^/dir/b/c$", "/dir/b/c", true),
    ];
    for (pattern, path, matches) in rows {
        for others in [0, 30] {
            // With many rules an index finds those that may match.
            let more: String =
                (0..others).map(|number| format!("RewriteRule ^/n{number}$ - [F]\n")).collect();
            let rules = format!("RewriteEngine On\n{more}RewriteRule {pattern} - [R=410]\n");
            let found = tree(&rules, &[]).get(path);
            assert_eq!(found == "410", matches, "{pattern} {path} {others}: {found}");
        }
    }
}

#[test]
fn the_new_path_belongs_to_the_same_request() {
    // Without an end in `.htaccess`: as in <VirtualHost>, the rules do not see their own result.
    let rules = "RewriteEngine On\nRewriteRule ^/(.*)$ /app/$1 [L,QSA]\n";
    check(
        &mut tree(rules, &[("app/", "Header set X-A 1\n")]),
        &[
            ("/x.txt", "file app/x.txt"),
            ("/", "php app/index.php"),
            ("/100%25", "404"),
            // Names with a dot that the client sends stay refused.
            ("/.hidden", "404"),
            ("/.git/config", "403"),
        ],
    );
    let rules = "RewriteEngine On\nRewriteRule ^/see$ /.hidden\nRewriteRule ^/git$ /.git/config\n\
                 RewriteCond %{QUERY_STRING} ^p=(.*)\nRewriteRule ^/up$ /app/%1\n\
                 RewriteRule ^relative$ dir/b.txt\n";
    check(
        &mut tree(rules, &[]),
        &[
            ("/see", "file .hidden"),
            ("/git", "403"),
            ("/up?p=../../../etc/passwd", "400"),
            ("/up?p=../a.txt", "file a.txt"),
            ("/relative", "file dir/b.txt"),
        ],
    );
}

#[test]
fn conditions_know_the_file_and_variables() {
    let rules = "SetEnvIf Request_URI ^/flag flagged\nRewriteEngine On\n\
                 RewriteCond %{ENV:flagged} 1\nRewriteRule ^ - [F]\n\
                 RewriteCond %{REQUEST_FILENAME} !-f\nRewriteCond %{REQUEST_FILENAME} !-d\n\
                 RewriteRule ^ index.php [L]\n";
    check(
        &mut tree(rules, &[("", "RewriteEngine Off\n")]),
        &[
            ("/a.txt", "file a.txt"),
            ("/dir/b.txt", "file dir/b.txt"),
            ("/pretty/url", "php index.php"),
            ("/flagged", "403"),
        ],
    );
}

#[test]
fn types_and_handlers_that_they_force() {
    let rules = "RewriteEngine On\nRewriteRule ^/a\\.txt$ - [H=application/x-httpd-php]\n\
                 RewriteRule ^/run$ /new.txt [H=application/x-httpd-php]\n";
    check(
        &mut tree(rules, &[("", "Header set A 1\n")]),
        &[("/a.txt", "php a.txt"), ("/run", "php new.txt"), ("/new.txt", "file new.txt")],
    );
}

#[test]
fn the_configuration_alone_decides_how_its_errors_look() {
    let rules = "RewriteEngine On\nRewriteRule ^/no - [F]\nErrorDocument 403 ours\n";
    let mut tree = tree(
        rules,
        &[("", "ErrorDocument 403 theirs\n<Files a.txt>\nRequire all denied\n</Files>\n")],
    );
    check(&mut tree, &[("/no", "403 page ours"), ("/a.txt", "403 page theirs")]);
    let mut tree = self::tree("ErrorDocument 400 ours\n", &[("", "ErrorDocument 400 theirs\n")]);
    check(&mut tree, &[("/a%00", "400 page ours"), ("/../a", "400 page ours")]);
}

#[test]
fn a_request_is_changed_on_its_way_to_a_script_or_an_upstream() {
    let rules = "RewriteEngine On\nRewriteRule ^/api/ http://127.0.0.1:3000/ [P]\n";
    let changes = "RequestHeader set X-A 1\nAuthBasicFake ann secret\nSetEnv V w\n";
    let mut tree = tree(rules, &[("", changes)]);
    for target in ["/index.php", "/api/x"] {
        let ruled = tree.resolved("GET", target, "").ruled.unwrap();
        let sent = ruled.state.request_fields.as_ref().unwrap();
        assert_eq!(sent.value(b"X-A"), Some(&b"1"[..]), "{target}");
        let expected = Some(&b"Basic YW5uOnNlY3JldA=="[..]);
        assert_eq!(sent.value(b"Authorization"), expected, "{target}");
        assert_eq!(ruled.state.env.value(b"V"), Some(&b"w"[..]), "{target}");
    }
}

#[test]
fn nothing_acts_before_what_cannot_be_understood() {
    let mut tree = tree("Redirect /moved /a.txt\nNonsense\n", &[]);
    check(&mut tree, &[("/moved", "500"), ("/a.txt", "500")]);
}
