//! Scripts that include another URI of their site with `virtual()`, as with Apache's module.

use std::net::SocketAddr;

use crate::apache::Apache;
use crate::site::{Options, Site};
use crate::support::{Client, Folder, has_php};

/// Includes what the query names, between two lines of its own. 64: slashes are not escaped.
const PAGE: (&str, &str) = (
    "page.php",
    "<?php header('X-Page: 1'); $local = 1; ob_start(); echo \"before\\n\"; \
     $result = virtual($_GET['uri']); \
     echo \"\\nafter \", json_encode([$result, $set ?? null, ob_get_level(), \
     getenv('SCRIPT_NAME'), \
     error_get_last()['message'] ?? ''], 64);",
);

fn failed(uri: &str, reason: &str) -> String {
    let message = format!("virtual(): Unable to include '{uri}' - {reason}");
    serde_json::json!([false, null, 1, "/page.php", message]).to_string()
}

#[test]
fn a_page_includes_files_and_scripts_of_its_site() {
    if !has_php() {
        return;
    }
    let included = "<?php $set = $local + 1; echo json_encode([getcwd(), \
                    getenv('QUERY_STRING'), $_SERVER['SCRIPT_NAME'], \
                    $_SERVER['PHP_SELF'], getenv('PATH_INFO'), \
                    getenv('REDIRECT_URL'), getenv('REQUEST_METHOD'), headers_sent()], 64);";
    // One worker: a script that is included needs no other one.
    let site = Site::with_php(
        &[
            PAGE,
            ("plain.txt", "plain"),
            ("in/part.php", included),
            ("exit.php", "<?php echo 'gone'; exit;"),
            (".htaccess", "RewriteEngine On\nRewriteRule ^nice$ /in/part.php?by=rule [L]\n"),
        ],
        "workers = 1\nini = { output_buffering = \"0\" }",
    );
    let root = site.root().display().to_string();
    let part = |query: &str, info: Option<&str>, from: Option<&str>| {
        let info = serde_json::json!(info.map_or(serde_json::json!(false), |info| info.into()));
        let from = serde_json::json!(from.map_or(serde_json::json!(false), |from| from.into()));
        let name = format!("/in/part.php{}", info.as_str().unwrap_or_default());
        serde_json::json!([root, query, name, name, info, from, "GET", true]).to_string()
    };
    let good = |set: Option<u8>| serde_json::json!([true, set, 0, "/page.php", ""]).to_string();
    let cases = [
        ("/plain.txt", "plain".to_owned(), good(None)),
        ("plain.txt", "plain".to_owned(), good(None)),
        ("/in/part.php%3Fa=1", part("a=1", None, None), good(Some(2))),
        ("/in/../in/part.php/more", part("", Some("/more"), None), good(Some(2))),
        ("/nice", part("by=rule", None, Some("/nice")), good(Some(2))),
        ("/exit.php", "gone".to_owned(), good(None)),
    ];
    for (uri, content, after) in cases {
        let reply = site.get(&format!("/page.php?uri={uri}"));
        assert_eq!(reply.text(), format!("before\n{content}\nafter {after}"), "{uri}");
        assert_eq!((reply.status, reply.field("x-page")), (200, Some("1")), "{uri}");
    }
    // A client of HTTP/1.0 need not name a host.
    let mut wire = site.connect();
    wire.send("GET /page.php?uri=/plain.txt HTTP/1.0\r\n\r\n");
    assert_eq!(wire.reply("GET").text(), format!("before\nplain\nafter {}", good(None)));
}

#[test]
fn a_page_for_errors_is_not_included_in_place_of_what_is_missing() {
    if !has_php() {
        return;
    }
    let directives = "ErrorDocument 404 /error.php\nErrorDocument 403 /error.php\n\
                      <Files closed.txt>\nRequire all denied\n</Files>\n";
    let files = [
        PAGE,
        ("error.php", "<?php echo 'the page for errors';"),
        ("closed.txt", "closed"),
        (".htaccess", directives),
    ];
    let site = Site::with_php(&files, "ini = { output_buffering = \"0\" }");
    assert_eq!(site.get("/none").text(), "the page for errors");
    for (uri, reason) in
        [("/none", "request execution failed"), ("/closed.txt", "error finding URI")]
    {
        let reply = site.get(&format!("/page.php?uri={uri}"));
        assert_eq!(reply.text(), format!("before\n\nafter {}", failed(uri, reason)), "{uri}");
    }
}

#[test]
fn callbacks_that_include_leave_what_the_page_includes() {
    if !has_php() {
        return;
    }
    // The callback runs while the page's own include sends the fields.
    let page = "<?php header_register_callback(function () {
                    foreach (explode(',', $_GET['callback']) as $uri) virtual($uri);
                });
                if (isset($_GET['buffer'])) { ob_start(); echo '('; }
                echo json_encode(virtual($_GET['uri'])), ')';";
    let long = "a-name-that-is-long-enough-for-a-place-of-its-own";
    let site = Site::with_php(
        &[
            ("page.php", page),
            ("one.php", "<?php echo 'one';"),
            ("two.txt", "two"),
            (&format!("{long}.php"), "<?php echo 'long';"),
            ("three.txt", "three"),
        ],
        "workers = 1\nini = { output_buffering = \"0\" }",
    );
    let long = format!("/{long}.php");
    for (uri, text) in [("/one.php", "one"), ("/three.txt", "three"), (&*long, "long")] {
        for (callback, before) in [
            ("/two.txt", "two"),
            ("/one.php", "one"),
            (&*format!("{long},/two.txt,/missing,{long}"), "longtwolong"),
        ] {
            for (buffer, mark) in [("", ""), ("&buffer", "(")] {
                let target = format!("/page.php?uri={uri}&callback={callback}{buffer}");
                let reply = site.get(&target);
                let text = format!("{before}{mark}{text}true)");
                assert_eq!((reply.status, reply.text()), (200, &*text), "{target}");
            }
        }
    }
}

#[test]
fn what_an_included_script_sets_ends_with_it() {
    if !has_php() {
        return;
    }
    let site = Site::with_php(
        &[
            (
                "page.php",
                "<?php apache_setenv('BOTH', 'page'); apache_note('note', 'page'); \
                 virtual('/outer.php'); echo json_encode([getenv('BOTH'), getenv('OUTER'), \
                 apache_note('note'), getenv('SCRIPT_NAME')], 64);",
            ),
            (
                "outer.php",
                "<?php echo json_encode([getenv('BOTH'), apache_note('note')]); \
                 apache_setenv('BOTH', 'outer'); apache_setenv('OUTER', 1); \
                 apache_note('note', 'outer'); virtual('/inner.php');",
            ),
            (
                "inner.php",
                "<?php echo json_encode([getenv('BOTH'), getenv('OUTER'), apache_note('note'), \
                 getenv('SCRIPT_NAME')], 64); apache_setenv('BOTH', 'inner');",
            ),
        ],
        "workers = 1",
    );
    let expected = "[\"page\",false][\"outer\",\"1\",false,\"/inner.php\"]\
                    [\"page\",false,\"page\",\"/page.php\"]";
    for _ in 0..2 {
        assert_eq!(site.get("/page.php").text(), expected);
    }
}

/// Tells what a script finds that another one includes.
const TOLD: &str = "<?php apache_setenv('SET_BY_TOLD', 'told');
    $names = ['SET_BY_PAGE', 'SET_BY_TOLD', 'SET_BY_RULE', 'PATH_INFO', 'PATH_TRANSLATED',
        'SCRIPT_NAME', 'SCRIPT_FILENAME', 'PHP_SELF', 'QUERY_STRING', 'REQUEST_URI',
        'REQUEST_METHOD', 'DOCUMENT_ROOT', 'REDIRECT_URL', 'REDIRECT_STATUS',
        'REDIRECT_QUERY_STRING', 'HTTP_HOST', 'HTTP_X', 'GATEWAY_INTERFACE', 'SERVER_PROTOCOL'];
    $of = fn ($get) => array_filter(array_combine($names, array_map($get, $names)),
        fn ($value) => $value !== null && $value !== false);
    echo json_encode(['server' => $of(fn ($name) => $_SERVER[$name] ?? null),
        'environment' => $of('getenv'), 'get' => $_GET, 'request' => $_REQUEST,
        'note' => apache_note('note'), 'folder' => getcwd()], 64);";

#[test]
fn an_included_script_finds_what_it_finds_with_apache() {
    if !has_php() || !Apache::is_here() {
        return;
    }
    let page = |more: &str| {
        format!(
            "<?php apache_setenv('SET_BY_PAGE', 'page'); apache_note('note', 'page'); {more} \
             virtual($_GET['uri']);"
        )
    };
    let files = [
        ("page.php", page("")),
        ("own.php", page("$own = $_SERVER['SCRIPT_NAME'];")),
        ("outer.php", "<?php virtual('/in/told.php/deep?of=outer');".to_owned()),
        ("in/told.php", TOLD.to_owned()),
        (
            "set.php",
            "<?php apache_setenv('SET_BY_PAGE', 'page'); include 'in/told.php';".to_owned(),
        ),
        ("in/.htaccess", "SetEnv SET_BY_RULE rule\n".to_owned()),
    ];
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (*name, &**text)).collect();
    let site = Site::with_php(&files, "workers = 1\nini = { output_buffering = \"0\" }");
    let state = Folder::new();
    let apache = Apache::with(state.path(), &site.root(), &[], "");
    let told = |address: SocketAddr, target: &str| -> serde_json::Value {
        let mut client = Client::connect(address);
        let head = format!("GET {target} HTTP/1.1\r\nHost: a.example\r\nX: 1\r\n\r\n");
        client.send(head).unwrap();
        let reply = client.answer().unwrap();
        serde_json::from_str(reply.text()).unwrap_or_else(|_| reply.text().into())
    };
    let mut differences = Vec::new();
    for target in [
        "/set.php",
        "/set.php/own",
        "/page.php?uri=/in/told.php",
        "/page.php?uri=/in/told.php/x",
        "/page.php?uri=/in/told.php/x/y%3Fa=1",
        "/page.php?uri=in/told.php/x",
        "/page.php/own?uri=/in/told.php",
        "/page.php/own?uri=/in/told.php/x",
        "/page.php?uri=/outer.php",
        "/page.php/own?uri=/outer.php",
        "/own.php/own?uri=/in/told.php/x",
        "/own.php?uri=/outer.php/x",
    ] {
        let [ours, theirs] = [site.server.address(), apache.address()].map(|at| told(at, target));
        if ours != theirs {
            differences.push(format!("{target}\n  Howdah {ours}\n  Apache {theirs}"));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn a_page_cannot_include_what_the_directives_close() {
    if !has_php() {
        return;
    }
    let files = [
        PAGE,
        ("closed/secret.txt", "secret"),
        ("closed/.htaccess", "Require all denied\n"),
        ("local/near.txt", "near"),
        ("local/.htaccess", "Require ip 192.0.2.0/24\n"),
        (
            ".htaccess",
            "RewriteEngine On\nRewriteRule ^away$ /plain [R]\nRewriteRule ^up$ http://127.0.0.1:9/ \
             [P]\n",
        ),
        (
            "nest.php",
            "<?php echo 'n'; if (!virtual('/nest.php')) echo error_get_last()['message'];",
        ),
        (
            "flood.php",
            "<?php for ($i = 1; $i <= 1001; $i++) { $read = @virtual('/empty.txt'); if (!$read) \
             break; } echo $i, error_get_last()['message'];",
        ),
        ("empty.txt", ""),
    ];
    let site = Site::with(
        &files,
        &Options {
            site: "listing = true\nupstreams = [\"http://127.0.0.1:9\"]",
            php: "ini = { display_errors = \"0\", output_buffering = \"0\" }",
            ..Options::default()
        },
    );
    let refused = [
        ("/closed/secret.txt", "error finding URI"),
        // The client is asked about, not the server.
        ("/local/near.txt", "error finding URI"),
        ("/.htaccess", "error finding URI"),
        ("/a%2500", "error finding URI"),
        ("/none.txt", "request execution failed"),
        ("/away", "request execution failed"),
        ("/up", "a page of an upstream or a list of files cannot be included"),
        ("/local/..", "a page of an upstream or a list of files cannot be included"),
    ];
    for (uri, reason) in refused {
        let reply = site.get(&format!("/page.php?uri={uri}"));
        let sent = uri.replace("%25", "%");
        assert_eq!(reply.text(), format!("before\n\nafter {}", failed(&sent, reason)), "{uri}");
    }
    let flood = "1001virtual(): Unable to include '/empty.txt' - the server gives no answer";
    assert_eq!(site.get("/flood.php").text(), flood);
    let nested = site.get("/nest.php");
    let reason = "virtual(): Unable to include '/nest.php' - 10 pages are included within one \
                  another already";
    assert_eq!(nested.text(), format!("{}{reason}", "n".repeat(11)));
}

#[test]
fn a_page_that_the_client_does_not_wait_for_includes_nothing() {
    if !has_php() {
        return;
    }
    let site = Site::with_php(
        &[
            (
                "finish.php",
                "<?php echo 'done'; fastcgi_finish_request(); $result = @virtual('/plain.txt'); \
                 file_put_contents($_GET['in'] . '/result', json_encode([$result, \
                 error_get_last()['message']]));",
            ),
            ("plain.txt", "plain"),
        ],
        "",
    );
    assert_eq!(site.get(&site.awaiting("/finish.php")).text(), "done");
    let reason = "virtual(): Unable to include '\\/plain.txt' - the server gives no answer";
    assert_eq!(result(&site), format!("[false,\"{reason}\"]"));
}

#[test]
fn a_page_that_is_asked_for_its_head_alone_includes_as_before() {
    if !has_php() {
        return;
    }
    let site = Site::with_php(
        &[
            (
                "page.php",
                "<?php $read = []; for ($i = 0; $i < 3; $i++) { $read[] = virtual('/plain.txt'); } \
                 file_put_contents($_GET['in'] . '/result', json_encode($read));",
            ),
            ("plain.txt", "plain"),
        ],
        "",
    );
    let target = site.awaiting("/page.php");
    assert_eq!(site.connect().ask("HEAD", &target, &[], b"").status, 200);
    assert_eq!(result(&site), "[true,true,true]");
}

/// Waits for the list that a script writes.
fn result(site: &Site) -> String {
    let file = site.scratch().join("result");
    let read = || std::fs::read_to_string(&file).unwrap_or_default();
    crate::support::wait_until("the script has ended", || read().ends_with(']'));
    read()
}
