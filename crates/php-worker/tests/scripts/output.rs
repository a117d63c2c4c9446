//! Heads and bodies.

use crate::script::{Script, assert_contains};

#[test]
fn a_plain_page() {
    let response = Script::new("echo 'Hello';").response();
    assert_eq!(
        (response.status, response.reason.as_str(), response.body.as_str()),
        (200, "", "Hello")
    );
    assert_eq!(response.field("Content-Type"), ["text/html; charset=UTF-8"]);
    assert_eq!(response.log, "");
}

#[test]
fn a_status_can_be_set_in_every_way() {
    let cases: [(&str, u16, &str); 8] = [
        ("header('HTTP/1.1 404 Nope');", 404, "Nope"),
        ("header('Status: 410 Gone for good');", 410, "Gone for good"),
        ("http_response_code(418);", 418, ""),
        ("header('X-A: b', true, 503);", 503, ""),
        ("header('Location: /elsewhere');", 302, ""),
        ("header('Location: /elsewhere', true, 301);", 301, ""),
        ("http_response_code(201); header('Location: /new');", 201, ""),
        ("header('WWW-Authenticate: Basic');", 401, ""),
    ];
    for (php, status, reason) in cases {
        let response = Script::new(&format!("{php} echo 'x';")).response();
        assert_eq!((response.status, response.reason.as_str()), (status, reason), "{php}");
        assert!(response.field("Status").is_empty());
        assert_eq!(response.body, "x");
    }
}

#[test]
fn every_cookie_gets_its_line() {
    let response = Script::new(
        "setcookie('a', '1'); setcookie('b', '2'); header('X-A: 1'); header('X-A: 2');",
    )
    .response();
    assert_eq!(response.field("Set-Cookie"), ["a=1", "b=2"]);
    assert_eq!(response.field("X-A"), ["2"]);
}

#[test]
fn fields_can_be_removed_and_replaced() {
    let php = "header('X-A: 1'); header('X-A: 2', false); header_remove('X-Powered-By'); \
        header('Content-Type: text/plain');";
    let response = Script::new(php).with(&["-d", "expose_php=1"]).response();
    assert_eq!(response.field("X-A"), ["1", "2"]);
    assert!(response.field("X-Powered-By").is_empty());
    assert_eq!(response.field("Content-Type"), ["text/plain;charset=UTF-8"]);
}

#[test]
fn a_head_request_gets_no_body() {
    let response = Script::new("header('X-A: 1'); echo 'body'; error_log('went on');")
        .with(&["--method", "HEAD"])
        .response();
    assert_eq!((response.status, response.body.as_str()), (200, ""));
    assert_eq!(response.field("X-A"), ["1"]);
}

#[test]
fn content_length_by_the_script_is_passed_on() {
    let response = Script::new("header('Content-Length: 5'); echo 'Hello';").response();
    assert_eq!(response.field("Content-Length"), ["5"]);
    assert_eq!(response.body, "Hello");
}

#[test]
fn a_304_tells_the_front_its_content_type() {
    let response = Script::new("http_response_code(304); header('ETag: \"a\"');").response();
    assert_eq!((response.status, response.field("ETag")), (304, vec!["\"a\""]));
    // Directives depend on it. The front does not send it.
    assert_eq!(response.field("Content-Type"), ["text/html; charset=UTF-8"]);
}

#[test]
fn many_fields_fit() {
    let response = Script::new("for ($i = 0; $i < 200; $i++) header(\"X-$i: $i\");").response();
    assert_eq!(response.fields.len(), 201);
    assert_eq!(response.field("X-199"), ["199"]);
}

#[test]
fn output_buffers_and_callbacks() {
    let php = "ob_start(fn($text) => strtoupper($text)); echo 'abc'; ob_end_flush(); ob_start(); \
        echo 'gone'; ob_end_clean();
        header_register_callback(function () { header('X-Late: 1'); }); echo 'd';";
    let response = Script::new(php).response();
    assert_eq!(response.body, "ABCd");
    assert_eq!(response.field("X-Late"), ["1"]);
}

#[test]
fn a_large_body_arrives_whole() {
    let script = Script::new(
        "$line = str_repeat('0123456789', 100); for ($i = 0; $i < 5000; $i++) echo $line; echo \
         'end';",
    );
    let body = script.body();
    assert_eq!(body.len(), 5_000_003);
    assert!(body.ends_with("789end"));
}

#[test]
fn early_hints_go_before_the_response() {
    let php = "header('Link: </a.css>; rel=preload'); var_dump(headers_send(103)); header('X-A: \
        1'); echo 'x';";
    let response = Script::new(php).response();
    assert_eq!(
        response.interim,
        [(103, vec![("Link".to_owned(), "</a.css>; rel=preload".to_owned())])]
    );
    assert_eq!(response.status, 200);
    assert_eq!(response.field("Link").len(), 1);
    assert_eq!(response.field("X-A"), ["1"]);
    assert_contains(&response.body, "int(1)");
}

/// With php-fpm nothing leaves at such a flush, and the response that the script sets afterwards is
/// what the client gets. With Apache's module, and where a script sets no other status, the client
/// takes the page for a part of an interim response.
#[test]
fn a_flush_with_a_status_of_1xx_sends_an_interim_response() {
    let line = "header('HTTP/1.1 103 Early Hints');";
    for (set, after, status) in [
        ("http_response_code(103);", "http_response_code(404);", 404),
        ("http_response_code(103);", "", 200),
        (line, "header('HTTP/1.1 201 Made');", 201),
        (line, "", 200),
        ("header('Status: 103');", "", 200),
        ("header('X-B: 1', true, 103);", "header('X-C: 1', true, 202);", 202),
    ] {
        let php = format!(
            "{set} header('Link: </a.css>; rel=preload'); flush(); \
             var_dump(headers_sent(), http_response_code()); {after} header('X-A: 1'); echo 'x';"
        );
        let response = Script::new(&php).response();
        let [(103, fields)] = &response.interim[..] else {
            panic!("{php}: {:?}", response.interim);
        };
        let link = ("Link".to_owned(), "</a.css>; rel=preload".to_owned());
        assert!(fields.contains(&link), "{php}: {fields:?}");
        assert!(!fields.iter().any(|(name, _)| name == "Content-type"), "{php}: {fields:?}");
        assert_eq!(response.status, status, "{php}");
        assert_eq!((response.field("Link").len(), response.field("X-A")), (1, vec!["1"]), "{php}");
        assert_contains(&response.body, "bool(false)\nint(200)\nx");
    }
}

#[test]
fn output_after_a_status_of_1xx_belongs_to_the_next_response() {
    let php = "http_response_code(103); header('Link: </a.css>; rel=preload'); echo 'page';";
    let response = Script::new(php).response();
    let link = ("Link".to_owned(), "</a.css>; rel=preload".to_owned());
    assert_eq!(response.interim, [(103, vec![link])]);
    assert_eq!((response.status, response.body.as_str()), (200, "page"));
    assert_eq!(response.field("Link").len(), 1);
    assert!(!response.field("Content-type").is_empty());
}

#[test]
fn headers_send_sends_the_head_and_refuses_nonsense() {
    let php = "var_dump(headers_sent()); headers_send(202); var_dump(headers_sent());
        try { headers_send(42); } catch (ValueError $error) { echo get_class($error); }";
    let response = Script::new(php).response();
    assert_eq!(response.status, 202);
    assert_contains(&response.body, "bool(true)\nValueError");
}

#[test]
fn a_client_that_goes_away_ends_the_script() {
    let php = "register_shutdown_function(function () { file_put_contents('done', \
        connection_status()); });
        for ($i = 0; $i < 100; $i++) { echo 'xxxxxxxxxx'; flush(); } file_put_contents('never', \
        '');";
    let script = Script::new(php).with(&["--close-after", "55", "-d", "output_buffering=0"]);
    let response = script.response();
    assert_eq!(response.body.len(), 55);
    assert_eq!(std::fs::read_to_string(script.at("done")).unwrap(), "1");
    assert!(!script.at("never").exists());
}

#[test]
fn ignore_user_abort_lets_the_script_go_on() {
    let php =
        "ignore_user_abort(true); for ($i = 0; $i < 100; $i++) { echo 'xxxxxxxxxx'; flush(); }
        file_put_contents('done', (int) connection_aborted());";
    let script = Script::new(php).with(&["--close-after", "55", "-d", "output_buffering=0"]);
    assert_eq!(script.response().body.len(), 55);
    assert_eq!(std::fs::read_to_string(script.at("done")).unwrap(), "1");
}

#[test]
fn the_response_ends_where_fastcgi_finish_request_says() {
    let php = "echo 'sent'; var_dump(fastcgi_finish_request()); echo 'not sent'; flush(); \
        header('X-A: 1');
        file_put_contents('after', var_export(fastcgi_finish_request(), true));";
    let script = Script::new(php);
    let response = script.response();
    assert_eq!(response.body, "sent");
    assert_eq!(std::fs::read_to_string(script.at("after")).unwrap(), "false");
}
