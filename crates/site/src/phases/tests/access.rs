//! Access control, and the order of folders, `<Files>` and `<If>`.

use super::check;
use super::tree::Tree;
use crate::resolution::Resolution;

const FILES: &str = "index.php a.txt secret.txt wp-config.php in/index.php in/a.txt in/deep/b.txt \
    open/a.txt e.html";

#[test]
fn folders_inherit_and_open_again() {
    let mut tree = Tree::new(
        FILES,
        &[
            (
                "",
                "<Files secret.txt>\nRequire all denied\n</Files>\n\
                 <FilesMatch \"^wp-config\\.php$\">\nOrder allow,deny\nDeny from all\n\
                 </FilesMatch>\n",
            ),
            ("in/", "Require all denied\n"),
            ("in/deep/", "Require all granted\n"),
        ],
    );
    check(
        &mut tree,
        &[
            ("/a.txt", "file a.txt"),
            ("/secret.txt", "403"),
            ("/wp-config.php", "403"),
            ("/wp-config.php/x", "403"),
            ("/in/a.txt", "403"),
            ("/in/none", "403"),
            ("/in/", "403"),
            // The slash is a fixup, and access comes first.
            ("/in", "403"),
            ("/in/deep/b.txt", "file in/deep/b.txt"),
            ("/in/deep", "301 /in/deep/"),
        ],
    );
}

#[test]
fn later_sections_stand_before_earlier_ones() {
    let mut tree = Tree::new(
        FILES,
        &[(
            "",
            "<Files *.txt>\nRequire all denied\n</Files>\n<FilesMatch ^a>\nRequire all granted\n\
             </FilesMatch>\n<Files s*>\n</Files>\n",
        )],
    );
    check(&mut tree, &[("/a.txt", "file a.txt"), ("/secret.txt", "403")]);
}

#[test]
fn passwords() {
    let mut tree = Tree::new(
        FILES,
        &[(
            "in/",
            "AuthType Basic\nAuthName \"in here\"\nAuthUserFile /srv/passwords\n\
             Require valid-user\nErrorDocument 401 /e.html\n",
        )],
    );
    tree.put("/srv/passwords", "joe:secret\n");
    assert_eq!(tree.get("/in/a.txt"), "401 file e.html");
    let ruled = tree.resolved("GET", "/in/a.txt", "").ruled.unwrap();
    let challenge = ruled.state.error_fields.value(b"WWW-Authenticate").unwrap();
    assert_eq!(challenge, b"Basic realm=\"in here\"");
    // joe:secret
    assert_eq!(
        tree.request("GET", "/in/a.txt", "Authorization: Basic am9lOnNlY3JldA=="),
        "file in/a.txt"
    );
    let ruled = tree
        .resolved("GET", "/in/", "Authorization: Basic am9lOnNlY3JldA==")
        .ruled
        .unwrap();
    assert_eq!(ruled.state.user.as_deref(), Some(&b"joe"[..]));
    assert_eq!(
        tree.request("GET", "/in/a.txt", "Authorization: Basic am9lOndyb25n"),
        "401 file e.html"
    );
}

#[test]
fn a_password_that_is_still_to_be_compared_puts_the_answer_off() {
    let user = "AuthType Basic\nAuthName N\nAuthUserFile /srv/passwords\nRequire valid-user\n";
    let index = format!("<Files index.php>\n{user}</Files>\nErrorDocument 401 /e.html\n");
    let rules = format!(
        "<Files secret.txt>\n{user}</Files>\nRewriteEngine On\n\
         RewriteCond %{{LA-U:/secret.txt}} ^ [OR]\nRewriteCond %{{LA-U:REMOTE_USER}} .\n\
         RewriteCond /secret.txt -U\nRewriteRule ^a - [G]\n"
    );
    for (folder, rules, target) in
        [("in/", user, "/in/a.txt"), ("in/", &index, "/in/"), ("", &rules, "/a.txt")]
    {
        let mut tree = Tree::new(FILES, &[(folder, rules)]);
        tree.put("/srv/passwords", "joe:secret\n");
        tree.is_slow = true;
        let resolved = tree.resolved("GET", target, "Authorization: Basic am9lOnNlY3JldA==");
        let Resolution::Verify { hash, password } = &resolved.resolution else {
            panic!("{target}: {}", super::tree::shown(&resolved));
        };
        assert_eq!((&hash[..], &password[..]), (&b"secret"[..], &b"secret"[..]), "{target}");
    }
}

#[test]
fn files_whose_rules_cannot_be_honoured_are_not_served() {
    let mut tree =
        Tree::new(FILES, &[("", "<Files secret.txt>\nRequire ldap-group cn=x\n</Files>\n")]);
    check(&mut tree, &[("/a.txt", "file a.txt"), ("/secret.txt", "500")]);
}

#[test]
fn variables_are_set_before_access_and_by_setenv_only_after_it() {
    let mut tree = Tree::new(
        FILES,
        &[
            (
                "",
                "SetEnvIf Request_URI secret locked\nSetEnv locked late\nOrder allow,deny\n\
                 Allow from all\nDeny from env=locked\n\
                 RewriteEngine On\nRewriteCond %{ENV:locked} late\nRewriteRule ^ - [G]\n",
            ),
            ("in/", "SetEnvIf X-In-Vain . a\nSetEnvIfExpr \"reqenv('a') == ''\" locked\n"),
            ("open/", "SetEnvIf Request_URI (.)$ locked !locked\nRewriteEngine Off\n"),
        ],
    );
    check(
        &mut tree,
        &[
            ("/a.txt", "file a.txt"),
            ("/secret.txt", "403"),
            ("/in/a.txt", "403"),
            ("/open/a.txt", "file open/a.txt"),
        ],
    );
}

#[test]
fn a_script_has_rules_of_its_own() {
    let password = "AuthType Basic\nAuthName N\nAuthUserFile /srv/passwords\nRequire valid-user\n";
    let page = format!("{password}ErrorDocument 401 /e.html\n");
    let script = format!("{password}ErrorDocument 401 /index.php\n");
    // An ErrorDocument in the same folder is let through where it is under the same rules as what
    // failed.
    assert_eq!(Tree::new(FILES, &[("", &page)]).get("/a.txt"), "401 file e.html");
    assert_eq!(Tree::new(FILES, &[("", &script)]).get("/a.txt"), "401");
}

#[test]
fn names_with_a_dot_are_hidden_from_clients_and_passwords_from_rules_as_well() {
    let rules = "RewriteEngine On\nRewriteRule ^in/(.*)$ /.hid/$1\n";
    let mut tree = Tree::new(".hidden .hid/f .hid/.htpasswd .hid/.env", &[("", rules)]);
    check(
        &mut tree,
        &[
            ("/.hidden", "404"),
            ("/.hid/f", "404"),
            ("/in/f", "file .hid/f"),
            ("/in/.htpasswd", "403"),
            ("/in/.env", "403"),
        ],
    );
}

#[test]
fn a_folder_that_is_named_like_a_script_is_one_without_its_slash() {
    let tree = |page: &str| {
        let rules = format!(
            "AuthType Basic\nAuthName N\nAuthUserFile /srv/passwords\nRequire valid-user\n\
             ErrorDocument 401 {page}\n"
        );
        Tree::new("index.php e.html d.php/x.txt", &[("", &rules)])
    };
    check(&mut tree("/e.html"), &[("/d.php/", "401 file e.html"), ("/d.php", "401")]);
    check(
        &mut tree("/index.php"),
        &[
            ("/d.php/", "401"),
            ("/d.php", "401 php index.php"),
            ("/index.php/", "401 php index.php"),
        ],
    );
}
