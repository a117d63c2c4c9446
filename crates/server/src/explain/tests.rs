use std::path::PathBuf;

use howdah_config::DirectoryOptions;
use howdah_http::Status;

use super::*;

struct Tree(PathBuf);

impl Tree {
    fn new(name: &str, files: &[(&str, &str)]) -> Tree {
        let path =
            std::env::temp_dir().join(format!("howdah-explain-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        for (name, content) in files {
            let file = path.join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, content).unwrap();
        }
        Tree(path.canonicalize().unwrap())
    }

    fn ask(&self, method: &str, url: &str, fields: &[&str]) -> Explanation {
        let config = Config::for_directory(&self.0, DirectoryOptions::default());
        let question = ExplainRequest {
            method: method.to_owned(),
            url: url.to_owned(),
            fields: fields.iter().map(|field| (*field).to_owned()).collect(),
            from: [192, 0, 2, 7].into(),
        };
        explain(&config, &question).unwrap()
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const RULES: &str = "RewriteEngine On\n\
                     RewriteCond %{REQUEST_FILENAME} !-f\n\
                     RewriteRule ^(\\w+)/(\\d+)$ /index.php?page=$1&id=$2 [L]\n\
                     <Files \"*.css\">\n\
                     Header set Cache-Control \"max-age=100\"\n\
                     </Files>\n\
                     ErrorDocument 403 \"stay out\"\n\
                     php_value memory_limit 77M\n";

fn tree(name: &str) -> Tree {
    let files = [
        (".htaccess", RULES),
        ("index.php", "<?php echo 1;"),
        ("a.css", "p {}"),
        ("secret/.htaccess", "Require all denied\n"),
        ("secret/a.txt", "secret"),
        ("broken/.htaccess", "\n  NoSuchDirective on\n"),
    ];
    Tree::new(name, &files)
}

/// A request for `url` without fields of its own.
fn get(url: &str) -> ExplainRequest {
    ExplainRequest {
        method: "GET".to_owned(),
        url: url.to_owned(),
        fields: Vec::new(),
        from: [192, 0, 2, 7].into(),
    }
}

#[test]
fn events_are_shown_in_order_with_their_lines() {
    let tree = tree("order");
    let page = text(&tree.ask("GET", "/item/7", &[]));
    let mut rest = page.as_str();
    for expected in [
        "GET http://localhost/item/7, site default in ",
        "round 1: /item/7\n",
        "file: ",
        ".htaccess:3  RewriteRule ^(\\w+)/(\\d+)$ /index.php?page=$1&id=$2 [L]  → matches\n",
        "$1: item",
        "$2: 7",
        ".htaccess:2    RewriteCond %{REQUEST_FILENAME} !-f  → holds\n",
        "round 2: /index.php?page=item&id=7\n",
        "200 OK: the output of ",
        "QUERY_STRING = page=item&id=7\n",
        "memory_limit = 77M\n",
    ] {
        let at = rest
            .find(expected)
            .unwrap_or_else(|| panic!("{expected:?} is missing from {rest}\nin {page}"));
        rest = &rest[at + expected.len()..];
    }
}

#[test]
fn outcomes_of_requests() {
    let tree = tree("outcome");
    let css = tree.ask("GET", "/a.css", &[]);
    assert!(matches!(&css.outcome, ExplainedOutcome::File(path) if path.ends_with("/a.css")));
    assert_eq!(css.head.fields.value(b"cache-control"), Some(&b"max-age=100"[..]));

    let denied = tree.ask("GET", "http://localhost/secret/a.txt", &[]);
    assert_eq!((denied.head.status.code(), denied.complaints.len()), (403, 1));
    assert!(matches!(denied.outcome, ExplainedOutcome::Page));

    let broken = tree.ask("GET", "/broken/", &[]);
    assert_eq!(broken.head.status.code(), 500);
    assert!(broken.complaints[0].contains("broken/.htaccess:2:3: "), "{:?}", broken.complaints);

    let posted = tree.ask("POST", "/item/7", &["Content-Type: text/plain"]);
    assert_eq!(posted.request.method.as_str(), "POST");
    assert!(matches!(posted.outcome, ExplainedOutcome::Script { .. }));

    let secure = tree.ask("GET", "https://localhost/item/7", &[]);
    let ExplainedOutcome::Script { variables, .. } = secure.outcome else {
        panic!()
    };
    assert!(variables.contains(&("HTTPS".to_owned(), "on".to_owned())));
}

#[test]
fn the_file_of_an_error_page_gets_the_fields_of_a_file() {
    let files = [
        (".htaccess", "ErrorDocument 404 /gone.html\nHeader set X-A b\n"),
        ("gone.html", "<h1>gone"),
    ];
    let tree = Tree::new("error-page", &files);
    let explanation = tree.ask("GET", "/nope", &[]);
    assert_eq!(explanation.head.status, Status::NOT_FOUND);
    assert_eq!(explanation.head.fields.value(b"x-a"), Some(&b"b"[..]), "{}", text(&explanation));
}

#[test]
fn json_is_one_object() {
    let tree = tree("json");
    let page: serde_json::Value =
        serde_json::from_str(&json(&tree.ask("GET", "/item/7", &[]))).unwrap();
    assert_eq!(page["request"]["target"], "/item/7");
    assert_eq!(page["outcome"]["kind"], "script");
    assert_eq!(page["outcome"]["variables"]["QUERY_STRING"], "page=item&id=7");
    assert_eq!(page["outcome"]["settings"]["memory_limit"], "77M");
    assert_eq!(page["response"]["status"], 200);
    let condition = page["events"]
        .as_array()
        .unwrap()
        .iter()
        .find(|event| event["step"] == "condition");
    assert_eq!(condition.unwrap()["place"]["line"], 2);
}

#[test]
fn the_server_itself_takes_options() {
    let tree = Tree::new("options", &[("a.txt", "a")]);
    let found = tree.ask("OPTIONS", "*", &[]);
    assert_eq!(found.head.status, Status::OK);
    assert!(found.head.fields.contains(b"allow"), "{}", text(&found));
}

#[test]
fn questions_without_an_answer() {
    let config = Config::parse(
        "strict_hosts = true\n[[site]]\nhosts = \"a.example\"\nroot = \"/tmp\"",
        "x.toml",
    )
    .unwrap();
    for (method, url, fields, why) in [
        ("GET", "http://b.example/", &[][..], "421"),
        ("GE T", "/", &[], "refused with 400"),
        ("GET", "/\r\nX: y", &[], "refused"),
        ("GET", "/", &["no colon"], "refused with 400"),
        ("GET", "/", &["A: b\r\n\r\nGET / HTTP/1.1"], "line break"),
    ] {
        let question = ExplainRequest {
            method: method.to_owned(),
            url: url.to_owned(),
            fields: fields.iter().map(|field: &&str| (*field).to_owned()).collect(),
            from: [127, 0, 0, 1].into(),
        };
        let refusal = explain(&config, &question).map(|found| text(&found)).unwrap_err();
        assert!(refusal.contains(why), "{method} {url}: {refusal}");
    }
}

#[test]
fn files_cannot_write_to_the_terminal() {
    let tree = Tree::new(
        "terminal",
        &[(".htaccess", "ErrorDocument 404 \"\x1b[31m\"\nHeader set X \"\x1b[2J\"\n")],
    );
    let page = text(&tree.ask("GET", "/none", &[]));
    assert!(!page.contains('\x1b'), "{page:?}");
}

#[test]
fn a_redirect_to_https_is_told() {
    let tree = Tree::new("https", &[("a.txt", "x")]);
    let text = format!(
        "listen = [\":443\"]\n[[site]]\nhosts = [\"a.example\"]\nroot = {:?}\ntls = \"internal\"\n",
        tree.0
    );
    let config = Config::parse(&text, "howdah.toml").unwrap();
    for (url, is_redirected) in [
        ("http://a.example/a.txt", true),
        ("https://a.example/a.txt", false),
        ("http://a.example/.well-known/acme-challenge/x", false),
    ] {
        let question = get(url);
        let explanation = explain(&config, &question).unwrap();
        let location = explanation.head.fields.value(b"location");
        let expected = is_redirected.then_some(&b"https://a.example/a.txt"[..]);
        let status = explanation.head.status.code();
        assert_eq!((status == 301, location), (is_redirected, expected), "{url}");
        assert_eq!(
            (explanation.notes.len() == 1, explanation.complaints.len()),
            (is_redirected, 0)
        );
    }
    let text = text.replace("\"internal\"", "false")
        + "[[site]]\nhosts = [\"b.example\"]\n\
        root = \"/srv\"\ntls = \"internal\"\n";
    let config = Config::parse(&text, "howdah.toml").unwrap();
    let question = ExplainRequest {
        method: "GET".to_owned(),
        url: "https://nosuch.example/".to_owned(),
        fields: Vec::new(),
        from: [192, 0, 2, 7].into(),
    };
    let refused = explain(&config, &question).unwrap_err();
    assert!(refused.contains("unrecognized_name"), "{refused}");
}

#[test]
fn the_listeners_that_a_request_arrives_on_are_told() {
    let tree = Tree::new("arrival", &[("a.txt", "x")]);
    let site = |name: &str, listen: &str| {
        format!(
            "[[site]]\nname = \"{name}\"\nhosts = [\"{name}.example\"]\nroot = {:?}\n\
             php = false\n{listen}",
            tree.0
        )
    };
    let written = format!(
        "listen = [\"127.0.0.1:80\", \"[::1]:80\", \"127.0.0.1:8080\", \"unix:/run/s\"]\n{}{}",
        site("shop", "listen = [\"127.0.0.1:80\", \"[::1]:80\", \"unix:/run/s\"]\n"),
        site("blog", "listen = [\"127.0.0.1:8080\"]\n")
    );
    let config = Config::parse(&written, "howdah.toml").unwrap();
    let both = "arrives on 127.0.0.1:80 (http), [::1]:80 (http)\n";
    let all = "arrives on 127.0.0.1:80 (http), [::1]:80 (http), unix:/run/s (http)\n";
    let note = "note: no listener has port 443 for https, so the request arrives on none; the site \
                answers on 127.0.0.1:80 (http), [::1]:80 (http), unix:/run/s (http). ";
    for (url, name, expected) in [
        ("http://shop.example/a.txt", "shop", both),
        ("shop.example:80/a.txt", "shop", both),
        ("/a.txt", "shop", all),
        ("http://blog.example:8080/a.txt", "blog", "arrives on 127.0.0.1:8080 (http)\n"),
        // On this listener another site answers for the name.
        ("http://shop.example:8080/a.txt", "blog", "arrives on 127.0.0.1:8080 (http)\n"),
        ("https://shop.example/a.txt", "shop", note),
        ("http://shop.example:81/a.txt", "shop", "note: no listener has port 81 for http, "),
    ] {
        let question = get(url);
        let explanation = explain(&config, &question).unwrap();
        let page = text(&explanation);
        assert_eq!(explanation.site, name, "{url}");
        assert!(page.contains(expected), "{expected} for {url} in {page}");
        assert_eq!(page.contains("\narrives on "), expected.starts_with("arrives on"), "{page}");
        let told: serde_json::Value = serde_json::from_str(&json(&explanation)).unwrap();
        assert_eq!(told["listeners"][0].is_string(), expected.starts_with("arrives on"));
    }
}

#[test]
fn a_certificate_on_demand_is_told() {
    let tree = Tree::new("on-demand", &[("a.example.org/a.txt", "x")]);
    let told = |url: &str, acme: &str| {
        let text = format!(
            "listen = [\":443\"]\n[acme]\nterms_agreed = true\n{acme}\n[[site]]\n\
             hosts = [\"*.example.org\", \"www.example.net\"]\nroot = \"{}/{{host}}\"\n",
            tree.0.display()
        );
        let question = get(url);
        let config = Config::parse(&text, "howdah.toml").unwrap();
        explain(&config, &question).unwrap().notes.join("; ")
    };
    let ask = "ask = \"http://127.0.0.1:1/may\"";
    for (url, acme, expected) in [
        ("https://a.example.org/", "", "exists, so the first visit of a.example.org orders"),
        ("https://b.example.org/", "", "does not exist, so b.example.org gets no certificate"),
        ("https://b.example.org/", ask, "so http://127.0.0.1:1/may decides whether b.example.org"),
    ] {
        let found = told(url, acme);
        assert!(found.contains(expected), "{url} {acme}: {found}");
    }
    assert!(!told("https://www.example.net/", "").contains("on demand"));
    assert!(!told("https://a.example.org/", "on_demand_per_hour = 0").contains("on demand"));
}

#[test]
fn a_trusted_proxy_names_the_client() {
    let tree = tree("proxied");
    let text =
        format!("trusted_proxies = \"127.0.0.1\"\n[[site]]\nroot = {:?}", tree.0.to_str().unwrap());
    let config = Config::parse(&text, "x.toml").unwrap();
    let asked = |from: [u8; 4], value: &str| {
        let question = ExplainRequest {
            method: "GET".to_owned(),
            url: "/item/7".to_owned(),
            fields: vec![
                format!("X-Forwarded-For: {value}"),
                "X-Forwarded-Proto: https".to_owned(),
            ],
            from: from.into(),
        };
        explain(&config, &question).map(|explanation| match explanation.outcome {
            ExplainedOutcome::Script { variables, .. } => {
                let value = |name: &str| {
                    let found = variables.iter().find(|(known, _)| known == name);
                    found.map_or("-".to_owned(), |(_, value)| value.clone())
                };
                format!("{} {}", value("REMOTE_ADDR"), value("HTTPS"))
            }
            other => panic!("{other:?}"),
        })
    };
    assert_eq!(asked([127, 0, 0, 1], "192.0.2.7").as_deref(), Ok("192.0.2.7 on"));
    assert_eq!(asked([127, 0, 0, 2], "192.0.2.7").as_deref(), Ok("127.0.0.2 -"));
    assert!(asked([127, 0, 0, 1], "rubbish").unwrap_err().contains("refused with 400"));
}

#[test]
fn the_pages_of_a_pool_are_explained_as_they_are_answered() {
    let tree = Tree::new("pool-pages", &[("index.php", "<?php echo 1;"), ("a.txt", "a")]);
    let text = format!(
        "[[site]]\nroot = \"{}\"\ntry = [\"$uri\", \"/index.php\"]\n[site.php]\n\
         status_path = \"/fpm\"\nping_path = \"/ping\"\nstatus_allow = [\"192.0.2.5\"]\n",
        tree.0.display()
    );
    let config = Config::parse(&text, "howdah.toml").unwrap();
    let ask = |url: &str, last: u8| {
        let question = ExplainRequest {
            method: "GET".to_owned(),
            url: url.to_owned(),
            fields: Vec::new(),
            from: [192, 0, 2, last].into(),
        };
        let told = explain(&config, &question).unwrap();
        let what = match told.outcome {
            ExplainedOutcome::PoolPage(key) => key,
            ExplainedOutcome::Script { .. } => "script",
            _ => "other",
        };
        let kind = told.head.fields.value(b"Content-Type").map(<[u8]>::to_vec);
        (told.head.status.code(), what, kind.unwrap_or_default(), told.notes)
    };
    let (status, what, kind, _) = ask("/fpm?json&full", 5);
    assert_eq!((status, what, &kind[..]), (200, "status_path", &b"application/json"[..]));
    let (status, what, kind, _) = ask("/ping", 5);
    assert_eq!((status, what, &kind[..]), (200, "ping_path", &b"text/plain;charset=UTF-8"[..]));
    let (status, what, _, notes) = ask("/fpm", 7);
    assert_eq!((status, what), (403, "other"));
    assert!(notes[0].contains("`status_allow` keeps 192.0.2.7 from"), "{notes:?}");
    assert_eq!(ask("/fpm/more", 5).1, "script");
}
