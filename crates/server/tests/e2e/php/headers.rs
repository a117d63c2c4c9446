//! Status lines, fields and cookies that scripts set.

use crate::site::{AWAIT, Site};
use crate::support::has_php;

/// A site of one script.
fn script(code: &str) -> Site {
    Site::new(&[("index.php", &format!("<?php {code}"))])
}

#[test]
fn status_and_fields_are_what_the_script_says() {
    if !has_php() {
        return;
    }
    let site = Site::new(&[
        ("code.php", "<?php http_response_code(451); echo 'no';"),
        ("line.php", "<?php header('HTTP/1.1 418 I am a teapot'); echo 'tea';"),
        ("status.php", "<?php header('Status: 402 Pay First'); echo 'pay';"),
        ("switch.php", "<?php header('HTTP/1.1 101 Switching Protocols'); echo 'late';"),
        ("location.php", "<?php header('Location: /elsewhere');"),
        ("moved.php", "<?php header('Location: /x', true, 308);"),
        ("created.php", "<?php http_response_code(201); header('Location: /item/1');"),
        ("third.php", "<?php header('X-A: 1', true, 202);"),
        ("unknown.php", "<?php http_response_code(599); echo 'odd';"),
    ]);
    let mut wire = site.connect();
    for (target, status, reason, body) in [
        ("/code.php", 451, "Unavailable For Legal Reasons", "no"),
        ("/line.php", 418, "I am a teapot", "tea"),
        ("/status.php", 402, "Pay First", "pay"),
        ("/switch.php", 500, "Internal Server Error", "late"),
        ("/location.php", 302, "Found", ""),
        ("/moved.php", 308, "Permanent Redirect", ""),
        ("/created.php", 201, "Created", ""),
        ("/third.php", 202, "Accepted", ""),
        ("/unknown.php", 599, "", "odd"),
    ] {
        let reply = wire.get(target);
        assert_eq!((reply.status, reply.text()), (status, body), "{target}");
        assert!(reason.is_empty() || reply.reason == reason, "{target}: {}", reply.reason);
        assert!(reply.all("status").is_empty(), "{target}");
    }
    assert_eq!(wire.get("/location.php").field("location"), Some("/elsewhere"));
}

#[test]
fn fields_are_replaced_added_and_removed() {
    if !has_php() {
        return;
    }
    let site = script(
        "header('X-Once: 1'); header('X-Once: 2'); header('X-Many: a'); header('X-Many: b', false);
         header('X-Gone: 1'); header_remove('X-Gone'); header_remove('X-Powered-By'); \
         header('Content-Type: text/x-test');
         header('X-Empty:'); header('X-Umlaut: ä');",
    );
    let reply = site.get("/");
    assert_eq!(reply.field("x-once"), Some("2"));
    assert_eq!(reply.all("x-many"), ["a", "b"]);
    assert!(reply.all("x-gone").is_empty() && reply.all("x-powered-by").is_empty());
    assert!(reply.field("content-type").unwrap().starts_with("text/x-test"));
    assert_eq!(reply.field("x-umlaut"), Some("ä"));
}

#[test]
fn several_cookies_are_several_fields() {
    if !has_php() {
        return;
    }
    let site = script(
        "setcookie('a', '1'); setcookie('b', 'x y', ['path' => '/', 'httponly' => true, \
            'samesite' => 'Lax']);
         header('Set-Cookie: c=3', false); session_name('S'); session_start(); $_SESSION['n'] = 1;",
    );
    let cookies = site.get("/");
    let cookies = cookies.all("set-cookie");
    assert_eq!(cookies.len(), 4, "{cookies:?}");
    assert_eq!(cookies[0], "a=1");
    assert_eq!(cookies[1], "b=x%20y; path=/; HttpOnly; SameSite=Lax");
    assert_eq!(cookies[2], "c=3");
    assert!(cookies[3].starts_with("S="));
}

#[test]
fn fields_of_the_connection_are_the_servers() {
    if !has_php() {
        return;
    }
    let site = script(
        "header('Connection: upgrade'); header('Keep-Alive: 99'); header('Transfer-Encoding: \
            gzip'); header('Date: never');
         header('Upgrade: x'); echo 'body';",
    );
    let mut wire = site.connect();
    let reply = wire.get("/");
    assert_eq!(reply.text(), "body");
    assert!(reply.all("keep-alive").is_empty() && reply.all("upgrade").is_empty(), "{reply:?}");
    assert_ne!(reply.field("date"), Some("never"));
}

#[test]
fn a_script_may_ask_for_the_connections_end() {
    if !has_php() {
        return;
    }
    let site = script("header('Connection: close'); echo 'bye';");
    let mut wire = site.connect();
    assert!(wire.get("/").is_last());
    wire.expect_close();
}

#[test]
fn no_field_splits_a_response() {
    if !has_php() {
        return;
    }
    let site = script(
        "ini_set('display_errors', '0'); header(\"X-A: 1\\r\\nX-Forged: 1\"); header(\"X-B: \
         1\\nX-Forged: 2\"); echo 'ok';",
    );
    let reply = site.get("/");
    assert!(reply.all("x-forged").is_empty(), "{reply:?}");
    assert_eq!(reply.text(), "ok");
}

#[test]
fn many_and_long_fields_arrive() {
    if !has_php() {
        return;
    }
    let site = script(
        "for ($i = 0; $i < 200; $i++) header(\"X-$i: \" . str_repeat('v', 200)); echo 'ok';",
    );
    let reply = site.get("/");
    assert_eq!(
        reply
            .fields
            .iter()
            .filter(|(name, value)| name.starts_with("X-") && value.len() == 200)
            .count(),
        200
    );
}

#[test]
fn a_head_beyond_all_measure_is_an_error_of_the_script() {
    if !has_php() {
        return;
    }
    let site = script(
        "for ($i = 0; $i < 50; $i++) header(\"X-$i: \" . str_repeat('v', 40_000)); echo 'ok';",
    );
    let reply = site.get("/");
    assert_eq!(reply.status, 500);
    site.server.wait_for_log("/index.php");
    assert_eq!(site.get("/").status, 500, "and the worker lives");
}

#[test]
fn early_hints_come_before_the_page() {
    if !has_php() {
        return;
    }
    let site = script(&format!(
        "{AWAIT} header('Link: </a.css>; rel=preload', false); headers_send(103); await('hints'); \
         echo 'page';"
    ));
    let mut wire = site.connect();
    wire.request("GET", &site.awaiting("/"), &[], b"");
    let (status, _, fields) = wire.head();
    assert_eq!(status, 103);
    site.allow("hints");
    assert!(fields.contains(&("Link".into(), "</a.css>; rel=preload".into())), "{fields:?}");
    let reply = wire.reply("GET");
    assert_eq!((reply.status, reply.text()), (200, "page"));
    assert_eq!(reply.field("link"), Some("</a.css>; rel=preload"));
    // HTTP/1.0 has no interim responses.
    wire.send(format!("GET {} HTTP/1.0\r\n\r\n", site.awaiting("/")));
    assert_eq!(wire.head().0, 200);
}

/// How scripts send hints that know no function for them.
#[test]
fn a_flush_with_status_103_sends_early_hints() {
    if !has_php() {
        return;
    }
    for set in ["http_response_code(103);", "header('HTTP/1.1 103 Early Hints');"] {
        let site = script(&format!(
            "{AWAIT} {set} header('Link: </a.css>; rel=preload'); flush(); await('hints'); \
             http_response_code(404); header('X-A: 1'); echo 'page';"
        ));
        let mut wire = site.connect();
        wire.request("GET", &site.awaiting("/"), &[], b"");
        let (status, reason, fields) = wire.head();
        assert_eq!((status, &*reason), (103, "Early Hints"));
        assert!(fields.contains(&("Link".into(), "</a.css>; rel=preload".into())), "{fields:?}");
        site.allow("hints");
        let reply = wire.reply("GET");
        assert_eq!((reply.status, reply.text(), reply.field("x-a")), (404, "page", Some("1")));
        // HTTP/1.0 has no interim responses.
        wire.send(format!("GET {} HTTP/1.0\r\n\r\n", site.awaiting("/")));
        assert_eq!(wire.head().0, 404);
    }
    let reply = script("http_response_code(103); header('Link: </a.css>'); echo 'page';").get("/");
    assert_eq!((reply.status, reply.text(), reply.interim[0].0), (200, "page", 103));
}

#[test]
fn functions_that_apache_has() {
    if !has_php() {
        return;
    }
    let site = script(
        "header('X-A: 1'); header('X-B: 2'); apache_setenv('NOTE', 'n'); header('Content-Type: \
            application/json');
         echo json_encode([apache_request_headers()['X-Q'], apache_response_headers(), \
         apache_getenv('NOTE'), PHP_SAPI]);",
    );
    let said = site.ask("GET", "/", &[("X-Q", "q")], b"").json();
    assert_eq!(said[0], "q");
    assert_eq!((&said[1]["X-A"], &said[1]["X-B"]), (&"1".into(), &"2".into()));
    assert_eq!(said[2], "n");
}

/// Webhooks and APIs look for names in the client's spelling.
#[test]
fn all_request_headers_have_their_names_as_the_client_sent_them() {
    if !has_php() {
        return;
    }
    let site = Site::new(&[
        (
            "index.php",
            "<?php echo json_encode([getallheaders(), getallheaders() == \
             apache_request_headers()]);",
        ),
        ("ruled/.htaccess", "RequestHeader set X-Added yes\nRequestHeader unset X-API-KEY\n"),
        ("ruled/index.php", "<?php echo json_encode([getallheaders(), true]);"),
    ]);
    let fields = [
        ("X-GitHub-Event", "push"),
        ("X-API-KEY", "k"),
        ("X_Y", "under"),
        ("x-lower", "l"),
        ("proxy", "p"),
        ("Authorization", "Bearer t"),
        ("Content-Type", "text/x"),
        ("Accept", "a"),
        ("ACCEPT", "b"),
        ("Cookie", "c=1"),
        ("Cookie", "d=2"),
        ("X-Empty", ""),
        ("Host", "localhost"),
    ];
    let said = site.ask("POST", "/", &fields, b"body").json();
    let expected = serde_json::json!({
        "X-GitHub-Event": "push", "X-API-KEY": "k", "X_Y": "under", "x-lower": "l", "proxy": "p",
        "Authorization": "Bearer t", "Content-Type": "text/x", "Accept": "a, b",
        "Cookie": "c=1; d=2", "X-Empty": "",
        "Host": "localhost", "Content-Length": "4",
    });
    assert_eq!((&said[0], &said[1]), (&expected, &true.into()));
    let said = site.ask("GET", "/ruled/", &fields[..3], b"").json();
    assert_eq!(
        (&said[0]["X-Added"], &said[0]["X-API-KEY"], &said[0]["X-GitHub-Event"]),
        (&"yes".into(), &serde_json::Value::Null, &"push".into())
    );
}

/// Thousands of fields are sent; beyond the limit there is a page for the visitor and a message in
/// the log.
#[test]
fn a_script_may_send_thousands_of_fields() {
    if !has_php() {
        return;
    }
    let site = script(
        "for ($i = 0; $i < $_GET['n']; $i++)
             header(isset($_GET['short']) ? \"f$i:\" : \"X-Field-$i: \" . str_repeat('v', 60));
         echo 'done';",
    );
    let reply = site.get("/?n=4000");
    assert_eq!((reply.status, reply.text()), (200, "done"));
    assert_eq!(reply.field("x-field-3999").map(str::len), Some(60));
    let reply = site.get("/?n=9000");
    assert_eq!(reply.status, 500);
    assert!(reply.text().contains("500 Internal Server Error"), "{}", reply.text());
    site.server.wait_for_log("more than 512 KB");
    // One more, Content-Type, is PHP's own.
    for (number, status) in [(7_999, 200), (8_000, 500)] {
        assert_eq!(site.get(&format!("/?short&n={number}")).status, status, "{number}");
    }
    site.server.wait_for_log("or are more than 8000; send fewer");
}

#[test]
fn the_status_that_is_set_last_counts() {
    if !has_php() {
        return;
    }
    let script = "<?php $steps = [
            'line' => fn () => header('HTTP/1.1 404 Nope'),
            'fine' => fn () => header('HTTP/1.1 200 Fine'),
            'code' => fn () => http_response_code(410),
            'good' => fn () => http_response_code(200),
            'field' => fn () => header('Status: 503 Busy'),
            'unset' => fn () => header_remove('Status'),
            'empty' => fn () => header_remove(),
            'location' => fn () => header('Location: /other'),
            'moved' => fn () => header('Location: /other', true, 301),
        ];
        foreach (explode('-', $_GET['steps']) as $step) $steps[$step]();
        echo http_response_code();";
    let site = Site::new(&[("index.php", script)]);
    let mut wire = site.connect();
    for (steps, status, reason) in [
        ("line", 404, "Nope"),
        ("fine", 200, "Fine"),
        ("line-code", 410, "Gone"),
        ("line-good", 200, "OK"),
        ("fine-code", 410, "Gone"),
        ("line-code-good", 200, "OK"),
        ("code-line", 404, "Nope"),
        ("good-line", 404, "Nope"),
        ("line-location", 302, "Found"),
        ("location-line", 404, "Nope"),
        ("location-line-good", 200, "OK"),
        ("moved-code", 410, "Gone"),
        ("code-moved", 301, "Moved Permanently"),
        ("field", 503, "Busy"),
        ("code-field", 503, "Busy"),
        ("fine-field", 503, "Busy"),
        ("location-field", 503, "Busy"),
        ("field-code", 410, "Gone"),
        ("field-good", 200, "OK"),
        ("field-fine", 200, "Fine"),
        ("field-line", 404, "Nope"),
        ("field-moved", 301, "Moved Permanently"),
        // Apache's module and php-fpm agree.
        ("line-field", 404, "Nope"),
        ("field-unset", 200, "OK"),
        ("code-field-empty", 410, "Gone"),
    ] {
        let reply = wire.get(&format!("/?steps={steps}"));
        assert_eq!((reply.status, &*reply.reason), (status, reason), "{steps}");
        assert_eq!(reply.text(), status.to_string(), "{steps}");
        assert!(reply.all("status").is_empty(), "{steps}");
    }
}
