//! The effects of directives on scripts: variables and settings.

use std::fs;

use crate::site::Site;
use crate::support::{Client, Folder, Setup, has_php};

/// Prints the named variables, one to a line.
const DUMP: &str = "<?php foreach (explode(',', $_SERVER['HTTP_X_WANTED']) as $name) echo $name, \
    '=', $_SERVER[$name] ?? '-', \"\\n\";";

fn dump(site: &Site, target: &str, wanted: &str) -> String {
    let reply = site.ask("GET", target, &[("X-Wanted", wanted)], b"");
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.text().trim_end().replace('\n', " ")
}

#[test]
fn variables() {
    if !has_php() {
        return;
    }
    let site = Site::new(&[
        (
            ".htaccess",
            "SetEnv PLAIN value\nSetEnvIf X-Wanted \"(P[A-Z]+)\" FOUND=$1\nRewriteEngine On\n\
             RewriteCond %{REQUEST_FILENAME} !-f\nRewriteRule ^go/(.*)$ /dump.php?to=$1 \
             [E=RULE:$1,QSA]\n\
             RequestHeader set X-Made by-hand\nRequestHeader unset Accept-Language\n",
        ),
        ("dump.php", DUMP),
    ]);
    assert_eq!(
        dump(&site, "/dump.php", "PLAIN,FOUND,HTTP_X_MADE"),
        "PLAIN=value FOUND=PLAIN HTTP_X_MADE=by-hand"
    );
    let wanted = "QUERY_STRING,REQUEST_URI,SCRIPT_NAME,REDIRECT_URL,REDIRECT_STATUS,REDIRECT_QUERY_STRING,REDIRECT_RULE";
    assert_eq!(
        dump(&site, "/go/there?a=b", wanted),
        "QUERY_STRING=to=there&a=b REQUEST_URI=/go/there?a=b SCRIPT_NAME=/dump.php \
         REDIRECT_URL=/go/there REDIRECT_STATUS=200 REDIRECT_QUERY_STRING=to=there&a=b \
         REDIRECT_RULE=there"
    );
    let reply = site.ask(
        "GET",
        "/dump.php",
        &[("X-Wanted", "HTTP_ACCEPT_LANGUAGE"), ("Accept-Language", "de")],
        b"",
    );
    assert_eq!(reply.text(), "HTTP_ACCEPT_LANGUAGE=-\n");
}

#[test]
fn variables_are_no_header_fields() {
    if !has_php() {
        return;
    }
    let site = Site::new(&[
        (
            ".htaccess",
            "SetEnv HTTP_X_SET 1\nSetEnv HTTP_X_SENT other\nRewriteEngine On\n\
             RewriteRule ^fields$ /fields.php [E=HTTP_AUTHORIZATION:forged]\n\
             RewriteRule ^ - [E=HTTP_X_RULE:2]\n\
             RequestHeader set X-Made by-hand\nRequestHeader unset X-Gone\n",
        ),
        (
            "fields.php",
            "<?php $all = array_intersect_key($_SERVER, array_flip(['HTTP_X_SET', 'HTTP_X_RULE', \
                'HTTP_X_SENT']));
             echo json_encode([getallheaders(), $all]);",
        ),
    ]);
    for target in ["/fields.php", "/fields"] {
        let reply = site.ask("GET", target, &[("X-Sent", "a"), ("X-Gone", "b")], b"");
        let said = reply.json();
        let mut fields: Vec<String> = said[0].as_object().unwrap().keys().cloned().collect();
        fields.retain(|name| name != "Host" && name != "Connection");
        assert_eq!(fields, ["X-Made", "X-Sent"], "{target}");
        assert_eq!(
            said[1],
            serde_json::json!({"HTTP_X_SET": "1", "HTTP_X_RULE": "2", "HTTP_X_SENT": "a"}),
            "{target}"
        );
    }
}

#[test]
fn settings_of_php_are_gone_after_the_request() {
    if !has_php() {
        return;
    }
    let site = Site::with_php(
        &[
            (
                "a/.htaccess",
                "php_value memory_limit 77M\nphp_flag display_errors on\nphp_value precision 5\n",
            ),
            ("a/ini.php", INI),
            ("b/ini.php", INI),
        ],
        "workers = 1\nini = { memory_limit = \"99M\", display_errors = false, precision = 14 }",
    );
    for _ in 0..5 {
        assert_eq!(site.get("/a/ini.php").text(), "77M 1 5");
        assert_eq!(site.get("/b/ini.php").text(), "99M 0 14");
    }
    fs::write(site.root().join("a/.htaccess"), "php_value memory_limit 55M\n").unwrap();
    assert_eq!(site.get("/a/ini.php").text(), "55M 0 14");
    fs::write(site.root().join("a/.htaccess"), "php_admin_value memory_limit 55M\n").unwrap();
    assert_eq!(site.get("/a/ini.php").status, 500, "as Apache: not allowed here");
}

const INI: &str = "<?php echo ini_get('memory_limit'), ' ', (int) ini_get('display_errors'), ' ', \
    ini_get('precision');";

#[test]
fn fields_of_a_response() {
    if !has_php() {
        return;
    }
    let site = Site::new(&[
        (
            ".htaccess",
            "Header always set X-Always yes\nHeader set X-Ok yes\nHeader unset X-Script\n\
             Header append Vary Cookie\n",
        ),
        ("ok.php", "<?php header('X-Script: 1'); header('Vary: Accept'); echo 'ok';"),
        ("error.php", "<?php http_response_code(500); echo 'its own page';"),
    ]);
    let reply = site.get("/ok.php");
    let seen = |name| reply.all(name);
    assert_eq!(
        (seen("x-always"), seen("x-ok"), seen("x-script")),
        (vec!["yes"], vec!["yes"], vec![])
    );
    assert_eq!(seen("vary").join(", "), "Accept,Cookie");
    let reply = site.get("/error.php");
    assert_eq!((reply.field("x-always"), reply.field("x-ok")), (Some("yes"), Some("yes")));
    let reply = site.get("/none");
    assert_eq!((reply.field("x-always"), reply.field("x-ok")), (Some("yes"), None));
}

#[test]
fn a_front_controller_with_pretty_addresses() {
    if !has_php() {
        return;
    }
    let site = Site::new(&[
        (
            ".htaccess",
            "<IfModule mod_rewrite.c>\nRewriteEngine On\nRewriteBase /\n\
             RewriteRule ^index\\.php$ - [L]\n\
             RewriteCond %{REQUEST_FILENAME} !-f\nRewriteCond %{REQUEST_FILENAME} !-d\n\
             RewriteRule . /index.php [L]\n</IfModule>\n",
        ),
        (
            "index.php",
            "<?php echo 'front ', $_SERVER['REQUEST_URI'], ' ', $_SERVER['REQUEST_METHOD'], ' ', \
             file_get_contents('php://input');",
        ),
        ("style.css", "p {}"),
        ("folder/index.html", "folder"),
    ]);
    let mut wire = site.connect();
    assert_eq!(wire.get("/2024/05/a-post/?page=2").text(), "front /2024/05/a-post/?page=2 GET ");
    assert_eq!(wire.ask("POST", "/wp-json/x", &[], b"body").text(), "front /wp-json/x POST body");
    assert_eq!(wire.get("/style.css").text(), "p {}");
    assert_eq!(wire.get("/folder/").text(), "folder");
    assert_eq!(wire.get("/").text(), "front / GET ");
    fs::write(site.root().join("2024"), "a file now").unwrap();
    assert_eq!(wire.get("/2024").text(), "a file now");
}

/// The server's own environment may hold secrets: rules see what `pass_env` names, as scripts do.
#[test]
fn rules_see_of_the_servers_environment_what_the_site_is_passed() {
    if !has_php() {
        return;
    }
    let folder = Folder::new();
    let rules = "PassEnv SECRET GIVEN PATH\nRewriteEngine On\n\
        RewriteRule ^dump.php$ - [E=RULE:%{ENV:SECRET}-%{ENV:GIVEN}]\n\
        Header set X-Function \"expr=%{osenv:SECRET}-%{osenv:GIVEN}\"\n\
        Header set X-Variable \"%{SECRET}e\"\n\
        <If \"osenv('SECRET') == 'known'\">\nHeader set X-If seen\n</If>\n";
    for name in ["a", "b"] {
        folder.file(&format!("{name}/.htaccess"), rules);
        folder.file(&format!("{name}/dump.php"), DUMP);
    }
    let site = |name: &str, php: &str| {
        format!(
            "[[site]]\nhosts = [\"{name}.example\"]\nroot = \"{name}\"\n[site.php]\n\
             workers = 1\n{php}\n"
        )
    };
    let config = format!(
        "listen = [\"127.0.0.1:0\"]\n{}{}",
        site("a", "pass_env = [\"GIVEN\"]"),
        site("b", "pass_env = [\"SECRET\"]")
    );
    let setup = Setup::config(&folder.file("howdah.toml", config));
    let server = setup.environment("SECRET", "known").environment("GIVEN", "given").start();
    for (host, secret, given) in [("a", "-", "given"), ("b", "known", "-")] {
        let mut client = Client::connect(server.address());
        let head = format!(
            "GET /dump.php HTTP/1.1\r\nHost: {host}.example\r\nX-Wanted: SECRET,GIVEN,RULE\r\n\r\n"
        );
        client.send(head).unwrap();
        let reply = client.answer().unwrap();
        let both = format!("{secret}-{given}").replace("--", "-");
        assert_eq!(reply.text(), format!("SECRET={secret}\nGIVEN={given}\nRULE={both}\n"));
        assert_eq!(reply.field("x-function"), Some(&*both));
        assert_eq!(reply.field("x-if").is_some(), host == "b");
    }
}
