mod work;

use howdah_http::{ResponseHead, Status};

use super::*;
use crate::testing::{Nowhere, request, settings, transaction, try_settings};

/// The fields of a successful response, then those of every response, a line each.
fn sent(directives: &str, env: &[&str], head: &str, error: bool) -> Result<String, Status> {
    let request = request("/", "Accept: a\nX-Ask: 1\nX-Ask: 2");
    let mut tx = transaction(&request);
    env.iter().for_each(|name| tx.state.env.set(name.as_bytes(), b"v"));
    let mut response_head = ResponseHead::new(Status::OK);
    for line in head.lines() {
        let (name, value) = line.split_once(": ").unwrap();
        response_head.push(name.as_bytes(), value.as_bytes()).unwrap();
    }
    let settings = settings(directives);
    response(
        &mut tx,
        settings.headers.as_deref().unwrap(),
        &mut Nowhere::default(),
        &mut response_head,
        error,
    )?;
    assert!(tx.state.fields.is_empty(), "the head is given back");
    let lines = |fields: &howdah_http::Fields| -> Vec<String> {
        let line = |(name, value)| [name, &b": "[..], value].concat();
        fields.iter().map(|pair| String::from_utf8(line(pair)).unwrap()).collect()
    };
    Ok([lines(&response_head.fields), lines(&tx.state.error_fields)]
        .concat()
        .join("\n"))
}

#[test]
fn actions() {
    let table = [
        ("Header set X v", "", "X: v"),
        ("Header set X v", "X: a\nY: b\nx: c", "Y: b\nX: v"),
        ("Header set X: v", "", "X: v"),
        ("Header onsuccess set X v", "", "X: v"),
        ("HEADER SET X \"a \\\" b\"", "", "X: a \" b"),
        ("Header set X 'a b'", "", "X: a b"),
        ("Header set X ''", "", "X: "),
        ("Header setifempty X v", "X: a", "X: a"),
        ("Header setifempty X v", "", "X: v"),
        ("Header add X v", "X: a", "X: a\nX: v"),
        ("Header append X v", "", "X: v"),
        ("Header append X v", "X: a\nX: b", "X: a, v\nX: b"),
        ("Header append X v", "X: v", "X: v, v"),
        ("Header merge X v", "", "X: v"),
        ("Header merge X v", "X: a, v ,b", "X: a, v ,b, v"),
        ("Header merge X v", "X: a,v,b", "X: a,v,b"),
        ("Header merge X v", "X: a, v", "X: a, v"),
        ("Header merge X v", "X: \"a,v\"", "X: \"a,v\", v"),
        ("Header merge X v", "X: \"a,v,b\"", "X: \"a,v,b\", v"),
        ("Header merge X v", "X: \"a,b\",v", "X: \"a,b\",v"),
        ("Header unset X", "X: a\nY: b\nX: c", "Y: b"),
        ("Header unset X env=no", "X: a", "X: a"),
        ("Header unset X env=yes", "X: a", ""),
        ("Header set X v env=yes", "", "X: v"),
        ("Header set X v env=!yes", "", ""),
        ("Header set X v ENV=!no", "", "X: v"),
        ("Header set X v early", "", ""),
        ("Header echo ^X-", "", "X-Ask: 1, 2"),
        ("Header edit X a b", "", ""),
        ("Header edit X a b", "X: aa", "X: ba"),
        ("Header edit* X a b", "X: aa\nX: c", "X: bb\nX: c"),
        ("Header edit X (.)(.) $2$1%%", "X: ab\nX: c", "X: ba%\nX: c"),
        (
            "Header edit Set-Cookie ^(.*)$ $1;HttpOnly;Secure",
            "Set-Cookie: a=1",
            "Set-Cookie: a=1;HttpOnly;Secure",
        ),
        (
            "Header set X \"%D %t 100%% %{yes}e %{no}e %{HTTPS}s %{SSL_PROTOCOL}s\"",
            "",
            "X: D=42 t=1700000000000000 100% v (null) off (null)",
        ),
        ("Header set X \"a\\r\\n  b\"", "", "X: a b"),
    ];
    for (directives, head, expected) in table {
        assert_eq!(
            sent(directives, &["yes"], head, false).unwrap(),
            expected,
            "{directives} on {head}"
        );
    }
}

#[test]
fn two_tables() {
    let table = [
        ("Header always set X v", "X: a", false, "X: a\nX: v"),
        ("Header always unset X", "X: a", false, "X: a"),
        ("Header always set X a\nHeader set X b", "", false, "X: b\nX: a"),
        ("Header set X v", "Location: /", true, "Location: /"),
        ("Header always set X v", "Location: /", true, "Location: /\nX: v"),
        ("Header always append X v", "X: a", false, "X: a\nX: v"),
        ("Header always echo X-Ask", "", false, "X-Ask: 1, 2"),
    ];
    for (directives, head, error, expected) in table {
        assert_eq!(sent(directives, &[], head, error).unwrap(), expected, "{directives} on {head}");
    }
}

#[test]
fn the_media_type_is_kept_apart() {
    let html = "Content-Type: text/html";
    let table = [
        ("Header set Content-Type text/plain", html, "Content-Type: text/plain"),
        ("Header always set Content-Type text/plain", html, "Content-Type: text/plain"),
        ("Header setifempty Content-Type text/plain", html, "Content-Type: text/plain"),
        ("Header unset Content-Type", html, ""),
        ("Header always unset Content-Type", html, ""),
        ("Header unset Content-Type\nHeader append Content-Type a/b", html, "Content-Type: a/b"),
        (
            "Header always append Content-Type a/b\nHeader unset Content-Type",
            html,
            "Content-Type: a/b",
        ),
        (
            "Header setifempty Content-Type a/b\nHeader setifempty Content-Type c/d",
            html,
            "Content-Type: a/b",
        ),
        ("Header edit Content-Type .* ''", html, ""),
        ("Header append Content-Type x", html, html),
        ("Header append Content-Type x/y", "", "Content-Type: x/y"),
        ("Header edit Content-Type html plain", html, "Content-Type: text/plain"),
        (
            "Header always edit Content-Type $ ;charset=utf-8",
            html,
            "Content-Type: text/html;charset=utf-8",
        ),
    ];
    for (directives, head, expected) in table {
        assert_eq!(sent(directives, &[], head, false).unwrap(), expected, "{directives}");
    }
}

#[test]
fn expressions() {
    let table = [
        ("Header set X v \"expr=%{REQUEST_STATUS} == 200\"", "X: v"),
        ("Header set X v \"expr=%{REQUEST_STATUS} >= 400\"", ""),
        ("Header set X v \"expr=%{CONTENT_TYPE} =~ m#^text/html; charset#\"", "X: v"),
        ("Header set X v \"expr=resp('Y') == 'y'\"", "X: v"),
        ("Header set X \"expr=%{REQUEST_URI}-%{CONTENT_TYPE}\"", "X: /-text/html; charset=c"),
        ("Header always set X \"expr=%{resp:Y}\"", "X: y"),
    ];
    let head = "Y: y\nContent-Type: text/html; charset=c";
    for (directives, expected) in table {
        let found = sent(directives, &[], head, false).unwrap();
        let x: Vec<_> = found.lines().filter(|line| line.starts_with("X")).collect();
        assert_eq!(x.join("\n"), expected, "{directives}");
        assert!(found.contains("Content-Type: text/html; charset=c"), "{found}");
    }
}

#[test]
fn what_cannot_be_sent_is_500() {
    for directives in [
        "Header set X \"a\\nSet-Cookie: b\"",
        "Header set \"X Y\" v",
        "Header set : v",
        "Header edit Y a \"\\r\\n\"",
    ] {
        let outcome = sent(directives, &[], "Y: a", false);
        assert_eq!(outcome, Err(Status::INTERNAL_SERVER_ERROR), "{directives}");
    }
}

#[test]
fn mistakes() {
    let table = [
        "Header",
        "Header set",
        "Header set X",
        "Header put X v",
        "Header set X a b c",
        "Header set X Mozilla 5.0",
        "Header set X v env=",
        "Header set X v env=!",
        "Header set X 50% env=a b",
        "Header set X \"50% off\"",
        "Header set X %{a}x",
        "Header unset X v env=a",
        "Header unset X v",
        "Header edit X a",
        "Header edit X ( b",
        "Header edit X a b env=a more",
        "Header echo (",
        "RequestHeader echo X",
        "RequestHeader note X n",
        "RequestHeader always set X v",
    ];
    for line in table {
        assert!(try_settings(line).is_err(), "{line}");
    }
}

#[test]
fn request_fields() {
    let table = [
        ("RequestHeader set X v", "X: v"),
        ("RequestHeader unset Accept", ""),
        ("RequestHeader append Accept b", "Accept: a, b"),
        ("RequestHeader edit Accept a b", "Accept: b"),
        ("RequestHeader set Accept v env=no", "Accept: a"),
    ];
    for (directives, expected) in table {
        let request = request("/", "Accept: a");
        let mut tx = transaction(&request);
        let settings = settings(directives);
        request_fixup(&mut tx, settings.headers.as_deref().unwrap(), &mut Nowhere::default())
            .unwrap();
        let found: Vec<_> = tx
            .request_fields()
            .iter()
            .filter(|(name, _)| directives.contains(&*String::from_utf8_lossy(name)))
            .map(|(name, value)| String::from_utf8([name, &b": "[..], value].concat()).unwrap())
            .collect();
        assert_eq!(found.join("\n"), expected, "{directives}");
        let unchanged = directives.contains("env=no");
        assert_eq!(tx.state.request_fields.is_none(), unchanged, "{directives}");
    }
}

#[test]
fn the_media_type_of_a_response_is_no_field_of_the_request() {
    for line in ["set Content-Type a/b", "unset Content-Type", "edit Content-Type x y"] {
        let request = request("/", "Content-Type: x/x");
        let mut tx = transaction(&request);
        tx.state.content_type = Some(b"text/x".to_vec());
        let settings = settings(&format!("RequestHeader {line}"));
        let config = settings.headers.as_deref().unwrap();
        request_fixup(&mut tx, config, &mut Nowhere::default()).unwrap();
        assert_eq!(tx.state.content_type.as_deref(), Some(&b"text/x"[..]), "{line}");
        assert_ne!(tx.request_field(b"Content-Type"), Some(&b"x/x"[..]), "{line}");
    }
}

#[test]
fn a_note() {
    let request = request("/", "");
    let mut tx = transaction(&request);
    let settings = settings("Header note X kept\nHeader note Y none");
    let mut head = ResponseHead::new(Status::OK);
    head.fields.push(b"X", b"v");
    let config = settings.headers.as_deref().unwrap();
    response(&mut tx, config, &mut Nowhere::default(), &mut head, false).unwrap();
    assert_eq!(tx.state.notes.value(b"kept"), Some(&b"v"[..]));
    assert!(!tx.state.notes.contains(b"none"));
}

#[test]
fn constant_rules() {
    let is_constant = |text: &str| settings(text).headers.unwrap().is_constant();
    for (text, expected) in [
        ("Header append X a\nHeader edit Y a b", true),
        ("Header set X a env=b", false),
        ("Header set X %t", false),
        ("Header set X expr=%{REQUEST_URI}", false),
        ("Header echo X", false),
        ("Header always echo X", false),
        ("Header note X n", false),
        ("Header always set X v expr=true", false),
        ("Header set X v early", true),
    ] {
        assert_eq!(is_constant(text), expected, "{text}");
    }
}

#[test]
fn the_closer_folder_comes_last() {
    let merged = settings("Header set X a\nHeader set Y a").merge(&settings("Header set X b"));
    let mut head = ResponseHead::new(Status::OK);
    assert!(merged.headers.unwrap().apply_plainly(&mut head, false));
    let lines: Vec<_> = head.fields.iter().collect();
    assert_eq!(lines, [(&b"Y"[..], &b"a"[..]), (b"X", b"b")]);
}

#[test]
fn a_field_without_a_proper_name_is_not_set_the_short_way() {
    let config = settings("Header set \"X Y\" v").headers.unwrap();
    let mut head = ResponseHead::new(Status::OK);
    assert!(!config.apply_plainly(&mut head, false));
    assert_eq!(head.fields.iter().count(), 0);
}

#[test]
fn each_change_is_told() {
    let request = request("/", "");
    let mut tx = transaction(&request);
    tx.state.trace = Some(Box::default());
    let settings = settings("Header set X v\nHeader set Y v env=no");
    let mut head = ResponseHead::new(Status::OK);
    let config = settings.headers.as_deref().unwrap();
    response(&mut tx, config, &mut Nowhere::default(), &mut head, false).unwrap();
    let events = &tx.state.trace.as_ref().unwrap().events;
    let told: Vec<_> = events.iter().map(|event| (&event.text[..], &event.outcome[..])).collect();
    let expected = [
        ("Header set X v", "changed"),
        ("Header set Y v env=no", "does not apply: the variable is not set"),
    ];
    assert_eq!(told, expected);
}

/// Each rule is compared with each field, so neither may be many where the work is not counted.
#[test]
fn many_rules_or_fields_are_not_changed_the_short_way() {
    let rules = |number: usize| -> String {
        (0..number).map(|number| format!("Header set X{number} v\n")).collect()
    };
    for (number, fields, expected) in
        [(1, 10, true), (100, 100, true), (200, 0, false), (1, 40_000, false)]
    {
        let config = settings(&rules(number)).headers.unwrap();
        let mut head = ResponseHead::new(Status::OK);
        (0..fields).for_each(|_| head.fields.push(b"Set-Cookie", b"a"));
        let is_short = config.apply_plainly(&mut head, false);
        assert_eq!(is_short, expected, "{number} rules, {fields} fields");
        let extent = HeadExtent { names: fields, bytes: 7 * fields };
        assert_eq!(config.response_may_take_long(extent), !is_short, "{number}, {fields}");
    }
}

#[test]
fn a_head_of_half_a_megabyte_is_the_longest() {
    let value = "v".repeat(8000);
    for action in ["set X% ", "add X ", "append X ", "merge X %"] {
        for (number, expected) in [(65, None), (66, Some(500))] {
            let line = |number: usize| {
                format!("Header {}{value}\n", action.replace('%', &number.to_string()))
            };
            let lines: String = (0..number).map(line).collect();
            let failed = sent(&lines, &[], "", false).err().map(|status| status.code());
            assert_eq!(failed, expected, "{number} times {action}");
        }
    }
}

#[test]
fn notes_are_as_long_as_variables_at_most() {
    let field = format!("Header set A {}\n", "v".repeat(8000));
    for (number, expected) in [(24, None), (25, Some(500))] {
        let notes: String = (0..number).map(|n| format!("Header note A w{n}\n")).collect();
        let failed = sent(&format!("{field}{notes}"), &[], "", false).err();
        assert_eq!(failed.map(|status| status.code()), expected, "{number}");
    }
}

/// Fields that the client has sent do not count.
#[test]
fn as_much_is_added_to_a_request_as_a_script_can_be_given() {
    let value = "v".repeat(8000);
    let sent = format!("Y: {}", "y".repeat(100_000));
    for (action, value, most) in [
        ("set X% '", &*value, 24),
        ("add X '", &value, 24),
        ("append X '", &value, 24),
        ("merge X '%", &value, 24),
        ("add X '", "", 5_957),
    ] {
        for (number, expected) in [(most, None), (most + 1, Some(500))] {
            let line = |number: usize| {
                let action = action.replace('%', &number.to_string());
                format!("RequestHeader {action}{value}'\n")
            };
            let lines: String = (0..number).map(line).collect();
            let request = request("/", &sent);
            let mut tx = transaction(&request);
            let config = settings(&lines).headers.unwrap();
            let answer = request_fixup(&mut tx, &config, &mut Nowhere::default());
            assert_eq!(answer.err().map(|status| status.code()), expected, "{number} {action}");
        }
    }
}
