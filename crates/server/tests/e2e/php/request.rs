//! The data of a request in a script.

use serde_json::{Value, json};

use crate::site::Site;
use crate::support::has_php;

/// Prints all data of the request that scripts use.
const ECHO: &str = "<?php
    header('Content-Type: application/json');
    $input = file_get_contents('php://input');
    echo json_encode(['method' => $_SERVER['REQUEST_METHOD'], 'get' => $_GET, 'post' => $_POST, \
    'cookie' => $_COOKIE,
        'input' => $input, 'again' => file_get_contents('php://input') === $input, 'server' => \
        $_SERVER,
        'headers' => getallheaders()], JSON_INVALID_UTF8_SUBSTITUTE);";

fn echo_site() -> Site {
    Site::new(&[("echo.php", ECHO), ("index.php", ECHO), ("sub dir/é.php", ECHO)])
}

#[test]
fn every_method_reaches_the_script_with_its_content() {
    if !has_php() {
        return;
    }
    let site = echo_site();
    let mut wire = site.connect();
    for method in ["GET", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "PROPFIND", "PURGE"] {
        let body = if method == "GET" { "" } else { "{\"a\":[1,2]}" };
        let reply = wire.ask(
            method,
            "/echo.php?q=1",
            &[("Content-Type", "application/json")],
            body.as_bytes(),
        );
        assert_eq!(reply.status, 200, "{method}");
        let said = reply.json();
        assert_eq!(said["method"], method);
        assert_eq!(said["input"], body, "{method}");
        assert_eq!(said["again"], true, "{method}");
        assert_eq!(said["post"], json!([]), "{method}");
        assert_eq!(said["get"]["q"], "1", "{method}");
    }
}

#[test]
fn trace_and_connect_do_not_reach_the_script() {
    if !has_php() {
        return;
    }
    let site = echo_site();
    assert_eq!(site.ask("TRACE", "/echo.php", &[], b"").status, 405);
    let mut wire = site.connect();
    wire.send("CONNECT localhost:80 HTTP/1.1\r\nHost: localhost:80\r\n\r\n");
    let reply = wire.reply("GET");
    assert!(matches!(reply.status, 400 | 405 | 501), "{reply:?}");
}

#[test]
fn a_form_becomes_post_variables() {
    if !has_php() {
        return;
    }
    let form = [("Content-Type", "application/x-www-form-urlencoded")];
    let body = b"name=J%C3%B6rg+M&tags%5B%5D=a&tags%5B%5D=b&deep[x][y]=1&empty=";
    let said = echo_site().ask("POST", "/echo.php?name=get", &form, body).json();
    let post =
        json!({"name": "Jörg M", "tags": ["a", "b"], "deep": {"x": {"y": "1"}}, "empty": ""});
    assert_eq!(said["post"], post);
    assert_eq!(said["get"], json!({"name": "get"}));
    assert_eq!(said["input"], std::str::from_utf8(body).unwrap());
}

#[test]
fn raw_json_is_read_from_the_input_stream() {
    if !has_php() {
        return;
    }
    let site = echo_site();
    let body = format!("{{\"text\":\"{}\"}}", "ü".repeat(100_000));
    let said = site
        .ask(
            "POST",
            "/echo.php",
            &[("Content-Type", "application/json; charset=utf-8")],
            body.as_bytes(),
        )
        .json();
    assert_eq!(said["input"], body);
    assert_eq!(said["server"]["CONTENT_TYPE"], "application/json; charset=utf-8");
    assert_eq!(said["server"]["CONTENT_LENGTH"], body.len().to_string());
}

#[test]
fn a_chunked_body_is_put_together() {
    if !has_php() {
        return;
    }
    let site = echo_site();
    let mut wire = site.connect();
    wire.send(
        "POST /echo.php HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\
         Content-Type: application/x-www-form-urlencoded\r\n\r\n",
    );
    wire.send("4\r\na=1&\r\n5;name=\"va;lue\"\r\nb=two\r\n");
    std::thread::sleep(std::time::Duration::from_millis(30));
    wire.send("00\r\nChecksum: 7\r\n\r\n");
    let said = wire.reply("POST").json();
    assert_eq!(said["post"], json!({"a": "1", "b": "two"}));
    assert_eq!(said["server"]["CONTENT_LENGTH"], "9");
    assert_eq!(said["server"]["HTTP_CHECKSUM"], Value::Null, "trailers are no header fields");
    // Chunks of one byte each, and the next request behind them in the same packet.
    let body: String = "c=345".chars().map(|byte| format!("1\r\n{byte}\r\n")).collect();
    wire.send(format!(
        "PUT /echo.php HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n\
         {body}0\r\n\r\n\
         GET /echo.php?second HTTP/1.1\r\nHost: localhost\r\n\r\n"
    ));
    assert_eq!(wire.reply("PUT").json()["input"], "c=345");
    assert_eq!(wire.reply("GET").json()["get"], json!({"second": ""}));
}

#[test]
fn a_client_that_waits_for_100_is_told_to_go_on() {
    if !has_php() {
        return;
    }
    let site = echo_site();
    let mut wire = site.connect();
    wire.send(
        "POST /echo.php HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n\
         Content-Length: 3\r\n\r\n",
    );
    let (status, _, fields) = wire.head();
    assert_eq!((status, fields), (100, vec![]));
    wire.send("abc");
    let reply = wire.reply("POST");
    assert!(reply.interim.is_empty());
    assert_eq!(reply.json()["input"], "abc");
}

#[test]
fn path_info_and_its_relatives() {
    if !has_php() {
        return;
    }
    let site = echo_site();
    let root = site.root().display().to_string();
    let mut wire = site.connect();
    // Target, SCRIPT_NAME, PATH_INFO, PHP_SELF, QUERY_STRING
    for (target, script, info, own, query) in [
        ("/echo.php", "/echo.php", None, "/echo.php", ""),
        ("/echo.php/a/b?x=1&y", "/echo.php", Some("/a/b"), "/echo.php/a/b", "x=1&y"),
        ("/echo.php/", "/echo.php", Some("/"), "/echo.php/", ""),
        ("/?", "/index.php", None, "/index.php", ""),
        ("/echo.php/%C3%BC%20x%2By", "/echo.php", Some("/ü x+y"), "/echo.php/ü x+y", ""),
        ("/sub%20dir/%c3%a9.php?%20+", "/sub dir/é.php", None, "/sub dir/é.php", "%20+"),
        ("/x/../echo.php/./q", "/echo.php", Some("/q"), "/echo.php/q", ""),
    ] {
        let said = wire.get(target).json();
        let server = &said["server"];
        assert_eq!(server["SCRIPT_NAME"], script, "{target}");
        assert_eq!(server["SCRIPT_FILENAME"], format!("{root}{script}"), "{target}");
        assert_eq!(server.get("PATH_INFO"), info.map(Value::from).as_ref(), "{target}");
        assert_eq!(server["PHP_SELF"], own, "{target}");
        assert_eq!(server["QUERY_STRING"], query, "{target}");
        assert_eq!(server["REQUEST_URI"], target);
        assert_eq!(server["DOCUMENT_ROOT"], root.as_str());
    }
}

#[test]
fn the_connection_and_the_protocol_are_told() {
    if !has_php() {
        return;
    }
    let site = echo_site();
    let mut wire = site.connect();
    let said = wire.ask("GET", "/echo.php", &[("Host", "Shop.Example:81")], b"").json();
    let server = &said["server"];
    assert_eq!(server["REMOTE_ADDR"], "127.0.0.1");
    assert_eq!(server["REMOTE_PORT"], wire.port().to_string());
    assert_eq!(server["SERVER_ADDR"], "127.0.0.1");
    assert_eq!(server["SERVER_NAME"], "shop.example");
    assert_eq!(server["HTTP_HOST"], "Shop.Example:81");
    assert_eq!(server["SERVER_PROTOCOL"], "HTTP/1.1");
    assert_eq!(server["GATEWAY_INTERFACE"], "CGI/1.1");
    assert_eq!(server["SERVER_ADMIN"], "[no address given]");
    assert_eq!(server["REQUEST_SCHEME"], "http");
    assert_eq!(server.get("HTTPS"), None);
    let port = server["SERVER_PORT"].as_str().unwrap();
    assert_eq!(port, "81");
    assert!(server["REQUEST_TIME"].as_u64().unwrap() > 1_700_000_000);
    assert!(
        server["SERVER_SOFTWARE"].as_str().unwrap().contains("Apache"),
        "WordPress asks for it"
    );
}

#[test]
fn header_fields_are_told_and_none_is_forged() {
    if !has_php() {
        return;
    }
    let site = echo_site();
    let fields = [
        ("X-One", "1"),
        ("x-two", "a"),
        ("X-Two", "b"),
        ("Cookie", "a=1; b=2"),
        ("Cookie", "c=3"),
        ("Proxy", "http://evil.example"),
        ("Accept-Language", "de"),
        ("X_Under_Score", "forged"),
    ];
    let said = site.ask("GET", "/echo.php", &fields, b"").json();
    let server = &said["server"];
    assert_eq!(server["HTTP_X_ONE"], "1");
    assert_eq!(server["HTTP_X_TWO"], "a, b");
    assert_eq!(server["HTTP_ACCEPT_LANGUAGE"], "de");
    assert_eq!(server.get("HTTP_PROXY"), None, "httpoxy");
    assert_eq!(server.get("HTTP_X_UNDER_SCORE"), None, "it would be X-Under-Score");
    assert_eq!(said["cookie"], json!({"a": "1", "b": "2", "c": "3"}));
    assert_eq!(said["headers"]["X-One"], "1");
    assert_eq!(said["headers"]["Accept-Language"], "de");
}

#[test]
fn basic_credentials_are_taken_apart() {
    if !has_php() {
        return;
    }
    let said = echo_site()
        .ask("GET", "/echo.php", &[("Authorization", "Basic am9lOnM6ZWNyZXQ=")], b"")
        .json();
    assert_eq!(said["server"]["PHP_AUTH_USER"], "joe");
    assert_eq!(said["server"]["PHP_AUTH_PW"], "s:ecret");
    let said = echo_site()
        .ask("GET", "/echo.php", &[("Authorization", "Bearer abc.def")], b"")
        .json();
    assert_eq!(said["headers"]["Authorization"], "Bearer abc.def");
    assert_eq!(said["server"].get("PHP_AUTH_USER"), None);
}

#[test]
fn nothing_of_one_request_is_left_for_the_next() {
    if !has_php() {
        return;
    }
    let site = Site::with_php(&[("echo.php", ECHO)], "workers = 1");
    let mut wire = site.connect();
    let fields = [
        ("X-Secret", "1"),
        ("Cookie", "s=1"),
        ("Authorization", "Basic am9lOng="),
        ("Content-Type", "text/x"),
    ];
    wire.ask("POST", "/echo.php/info?a=1", &fields, b"secret");
    let said = wire.get("/echo.php").json();
    for key in [
        "HTTP_X_SECRET",
        "HTTP_COOKIE",
        "PHP_AUTH_USER",
        "HTTP_AUTHORIZATION",
        "CONTENT_TYPE",
        "CONTENT_LENGTH",
        "PATH_INFO",
    ] {
        assert_eq!(said["server"].get(key), None, "{key}");
    }
    assert_eq!(
        (&said["get"], &said["cookie"], &said["input"]),
        (&json!([]), &json!([]), &json!(""))
    );
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    if !has_php() {
        return;
    }
    let site = echo_site();
    let mut wire = site.connect();
    let many: String = (0..40)
        .map(|n| format!("GET /echo.php?n={n} HTTP/1.1\r\nHost: localhost\r\n\r\n"))
        .collect();
    wire.send(many);
    for n in 0..40 {
        assert_eq!(wire.reply("GET").json()["get"]["n"], n.to_string());
    }
}

#[test]
fn a_slow_head_and_a_slow_body_arrive_whole() {
    if !has_php() {
        return;
    }
    let site = echo_site();
    let mut wire = site.connect();
    let request =
        "POST /echo.php?slow HTTP/1.1\r\nHost: localhost\r\nContent-Length: 12\r\n\r\nHello, world";
    for byte in request.as_bytes() {
        wire.send([*byte]);
    }
    assert_eq!(wire.reply("POST").json()["input"], "Hello, world");
}

#[test]
fn http_1_0_is_understood() {
    if !has_php() {
        return;
    }
    let site = echo_site();
    let mut wire = site.connect();
    wire.send("GET /echo.php HTTP/1.0\r\n\r\n");
    let reply = wire.reply("GET");
    assert_eq!(reply.json()["server"]["SERVER_PROTOCOL"], "HTTP/1.0");
    wire.expect_close();
    let mut wire = site.connect();
    for _ in 0..2 {
        wire.send("GET /echo.php HTTP/1.0\r\nHost: localhost\r\nConnection: keep-alive\r\n\r\n");
        let reply = wire.reply("GET");
        assert_eq!(
            reply.field("connection").map(str::to_ascii_lowercase),
            Some("keep-alive".into())
        );
    }
}
