use super::*;
use crate::testing::{Nowhere, request, settings, transaction};
use crate::transaction::RequestState;
use crate::work::WorkBudget;

/// The head that is sent, a line each.
fn sent(
    directives: &str,
    status: u16,
    head: &str,
    about: ResponseProperties,
    edit: impl Fn(&mut RequestState),
) -> String {
    let request = request("/", "Accept-Encoding: gzip");
    let mut tx = transaction(&request);
    edit(&mut tx.state);
    let mut response_head = ResponseHead::new(Status::new(status).unwrap());
    for line in head.lines() {
        let (name, value) = line.split_once(": ").unwrap();
        response_head.fields.push(name.as_bytes(), value.as_bytes());
    }
    let mut plain = response_head.clone();
    let settings = settings(directives);
    let is_plain = respond_plainly(&tx.state, &settings, &mut plain, about.is_error);
    let (given, is_left_alone) = (response_head.clone(), is_left_alone(&tx.state, &settings));
    let (mut part, mut by_part) = (tx.state.clone(), response_head.clone());
    std::mem::swap(&mut part, &mut tx.state);
    tx.state = part_for_response(&part, &settings);
    respond(&mut tx, &settings, &mut Nowhere::default(), &mut by_part, about).unwrap();
    tx.state = part;
    respond(&mut tx, &settings, &mut Nowhere::default(), &mut response_head, about).unwrap();
    assert_eq!(by_part.fields, response_head.fields, "by a part of the state: {directives}");
    if is_left_alone {
        assert_eq!(given.fields, response_head.fields, "left alone: {directives}");
    }
    if is_plain {
        assert_eq!(plain.fields, response_head.fields, "{directives}");
    }
    let line = |(name, value)| String::from_utf8([name, &b": "[..], value].concat()).unwrap();
    response_head.fields.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn nothing(_: &mut RequestState) {}

const ERROR: ResponseProperties = ResponseProperties {
    is_error: true,
    modified: None,
    content: ContentProperties {
        length: None,
        memory: None,
        is_known: false,
    },
};

#[test]
fn both_tables_become_one() {
    let set = |state: &mut RequestState| {
        state.fields.push(b"X", b"module");
        state.error_fields.push(b"Y", b"every");
    };
    let about = ResponseProperties::default();
    assert_eq!(sent("", 200, "Z: script", about, set), "Z: script\nX: module\nY: every");
    assert_eq!(sent("", 200, "X: script", about, set), "X: script\nY: every");
    assert_eq!(sent("", 404, "Z: page", ERROR, set), "Z: page\nY: every");
    // The fields of every response are out of reach of `always` once the response is an error.
    assert_eq!(sent("Header always unset Y", 200, "", about, set), "X: module");
    assert_eq!(sent("Header always unset Y", 404, "", ERROR, set), "Y: every");
}

#[test]
fn directives_that_change_no_response_are_known() {
    let request = request("/", "");
    for (directives, expected) in [
        ("", true),
        ("RequestHeader set X v", true),
        ("AddDefaultCharset Off", true),
        ("ExpiresActive on", true),
        ("ExpiresDefault A60", true),
        ("ExpiresActive on\nExpiresDefault A60", false),
        ("Header set X v", false),
        ("Header always set X v", false),
        ("AddDefaultCharset utf-8", false),
        ("SetOutputFilter DEFLATE", false),
    ] {
        let tx = transaction(&request);
        assert_eq!(is_left_alone(&tx.state, &settings(directives)), expected, "{directives}");
    }
    let edits: [fn(&mut RequestState); 5] = [
        |state| state.fields.push(b"X", b"v"),
        |state| state.error_fields.push(b"X", b"v"),
        |state| state.encoding = Some(b"gzip".to_vec()),
        |state| state.languages.push(b"en".to_vec()),
        |state| state.output_filters.push((*b"DEFLATE").into()),
    ];
    for (number, edit) in edits.iter().enumerate() {
        let mut tx = transaction(&request);
        edit(&mut tx.state);
        assert!(!is_left_alone(&tx.state, &settings("")), "{number}");
    }
}

#[test]
fn responses_that_may_take_long_are_known() {
    for (directives, expected) in [
        ("", false),
        ("Header set X v\nHeader unset Y\nHeader set Z %t", false),
        ("Header set X v expr=true", true),
        ("Header always set X expr=%{REQUEST_URI}", true),
        ("Header edit X ^(a|b)+(c|d)$ e", true),
        ("Header always echo ^(a|b)+(c|d)$", true),
        ("RequestHeader set X v expr=true", false),
        ("Header set X %{A}e", true),
        ("Header set X %{SSL_PROTOCOL}s", true),
        ("Header set X \"%t %t %t\"", false),
        ("Header set X %t%t%t%t%t%t%t%t%t%t%t%t%t%t%t%t%t", true),
        ("Header edit X ^(.*)$ $1$1$1", true),
        ("Header always edit* X a b", true),
        ("Header echo ^X", true),
        ("Header append X v\nHeader merge Y v\nHeader note Z n", false),
        ("Header set X v env=A\nHeader setifempty X v\nHeader add Y v", false),
    ] {
        let state = RequestState::default();
        let mut head = ResponseHead::new(Status::OK);
        head.fields.push(b"X", b"v");
        assert_eq!(may_take_long(&state, &settings(directives), &head), expected, "{directives}");
    }
}

/// Every rule looks through and copies the fields that a script sends or that rules have set
/// before.
#[test]
fn rules_for_many_or_long_fields_may_take_long() {
    type Change = fn(&mut RequestState, &mut ResponseHead);
    let many: [Change; 4] = [
        |state, _| (0..9_000).for_each(|_| state.env.push(b"A", b"")),
        |state, _| (0..9_000).for_each(|_| state.fields.push(b"A", b"")),
        |state, _| (0..9_000).for_each(|_| state.error_fields.push(b"A", b"")),
        |_, head| (0..9_000).for_each(|_| head.fields.push(b"A", b"")),
    ];
    let rules = |line: &str| settings(&line.repeat(3));
    for (number, change) in many.iter().enumerate() {
        let (mut state, mut head) = (RequestState::default(), ResponseHead::new(Status::OK));
        change(&mut state, &mut head);
        assert!(may_take_long(&state, &rules("Header always unset X env=Y\n"), &head), "{number}");
    }
    let long: [(bool, Change); 3] = [
        (false, |state, _| state.fields.push(b"X", &[b'x'; 100_000])),
        (false, |state, _| state.error_fields.push(b"X", &[b'x'; 100_000])),
        (true, |_, head| head.fields.push(b"X", &[b'x'; 100_000])),
    ];
    for (number, (is_long, change)) in long.iter().enumerate() {
        let (mut state, mut head) = (RequestState::default(), ResponseHead::new(Status::OK));
        change(&mut state, &mut head);
        assert_eq!(may_take_long(&state, &rules("Header set X v\n"), &head), *is_long, "{number}");
        for action in ["append", "merge", "note"] {
            let rules = rules(&format!("Header {action} X v\n"));
            assert!(may_take_long(&state, &rules, &head), "{number} {action}");
        }
    }
    let value = "v".repeat(8_000);
    let (state, head) = (RequestState::default(), ResponseHead::new(Status::OK));
    let append = |times| settings(&format!("Header append X {value}\n").repeat(times));
    assert!(!may_take_long(&state, &append(5), &head));
    assert!(may_take_long(&state, &append(6), &head));
}

/// A list of thousands of names is looked through with a budget, and the response refused beyond.
#[test]
fn the_names_of_a_long_list_are_counted() {
    let request = request("/", "");
    let budget = WorkBudget::new(100_000);
    let mut tx = transaction(&request);
    tx.client = tx.client.within(&budget);
    let mut head = ResponseHead::new(Status::OK);
    head.push(b"Vary", "a,".repeat(15_000).as_bytes()).unwrap();
    let settings = settings("Header set X v");
    assert!(!respond_plainly(&tx.state, &settings, &mut head, false));
    let about = ResponseProperties::default();
    let sent = respond(&mut tx, &settings, &mut Nowhere::default(), &mut head, about);
    assert_eq!(sent.unwrap_err(), Status::INTERNAL_SERVER_ERROR);
    assert!(tx.state.complaints[0].1.contains("100000 steps"), "{:?}", tx.state.complaints);
}

#[test]
fn cookies_that_several_rules_set_are_all_sent() {
    let set = |state: &mut RequestState| {
        state.error_fields.push(b"Set-Cookie", b"a=1");
        state.error_fields.push(b"Set-Cookie", b"b=2");
    };
    let expected = "Set-Cookie: a=1\nSet-Cookie: b=2";
    assert_eq!(sent("", 200, "", ResponseProperties::default(), set), expected);
    assert_eq!(sent("", 302, "", ERROR, set), expected);
}

/// A script may send tens of thousands of names.
#[test]
fn each_of_many_names_is_told_once() {
    let names: Vec<String> = (0..100).map(|number| format!("X{}", number % 40)).collect();
    let lower: Vec<String> = names.iter().map(|name| name.to_lowercase()).collect();
    let all = names.iter().chain(&lower).map(String::as_bytes);
    assert_eq!(distinct(all), names[..40].iter().map(String::as_bytes).collect::<Vec<_>>());
}

#[test]
fn vary_is_one_line() {
    let table = [
        ("Header append Vary A", "Vary: a", "Vary: a"),
        ("Header append Vary B", "Vary: A", "Vary: A,B"),
        ("Header add Vary B", "Vary: A", "Vary: A,B"),
        ("Header always set Vary B", "Vary: A", "Vary: A,B"),
        ("SetOutputFilter DEFLATE", "Vary: Cookie", "Vary: Cookie,Accept-Encoding"),
    ];
    for (directives, head, expected) in table {
        let all = sent(directives, 200, head, ResponseProperties::default(), nothing);
        let vary: Vec<_> = all.lines().filter(|line| line.starts_with("Vary")).collect();
        assert_eq!(vary.join("\n"), expected, "{directives}");
    }
}

#[test]
fn the_default_charset() {
    let table = [
        ("AddDefaultCharset utf-8", "text/html", "text/html; charset=utf-8"),
        ("AddDefaultCharset utf-8", "text/plain", "text/plain; charset=utf-8"),
        ("AddDefaultCharset utf-8", "text/css", "text/css"),
        ("AddDefaultCharset utf-8", "text/html; charset=x", "text/html; charset=x"),
        ("AddDefaultCharset On", "text/html", "text/html; charset=iso-8859-1"),
        ("AddDefaultCharset Off", "text/html", "text/html"),
        (
            "AddDefaultCharset a\nHeader set Content-Type text/html",
            "image/png",
            "text/html; charset=a",
        ),
    ];
    for (directives, media_type, expected) in table {
        let head = format!("Content-Type: {media_type}");
        let found = sent(directives, 200, &head, ResponseProperties::default(), nothing);
        assert_eq!(found.to_lowercase(), format!("content-type: {expected}"), "{directives}");
    }
}

#[test]
fn encoding_and_languages() {
    let set = |state: &mut RequestState| {
        state.encoding = Some(b"x-gzip".to_vec());
        state.languages = vec![b"en".to_vec(), b"de".to_vec()];
    };
    let about = ResponseProperties::default();
    let both = "Content-Encoding: x-gzip\nContent-Language: en,de";
    assert_eq!(sent("", 200, "", about, set), both);
    assert_eq!(sent("Header unset Content-Encoding", 200, "", about, set), both);
    assert_eq!(
        sent("", 200, "Content-Language: DE, fr", about, set),
        "Content-Encoding: x-gzip\nContent-Language: en,de,fr"
    );
    assert_eq!(sent("", 404, "", ERROR, set), "");
    assert_eq!(sent("", 304, "Content-Type: a/b\nETag: x", about, set), "ETag: x");
}

#[test]
fn in_apaches_order() {
    let directives = "SetOutputFilter DEFLATE\nExpiresActive on\nExpiresDefault A60\n\
        Header unset Vary\n\
        Header edit Cache-Control max-age=60 max-age=61\nHeader unset ETag";
    let found = sent(directives, 200, "ETag: \"a\"", ResponseProperties::default(), nothing);
    let expected =
        "Content-Encoding: gzip\nExpires: Tue, 14 Nov 2023 22:14:20 GMT\nCache-Control: max-age=61";
    assert_eq!(found, expected);
}

#[test]
fn a_redirect_gets_expires_and_what_is_for_all() {
    let directives =
        "ExpiresActive on\nExpiresByType text/html A60\nHeader set A 1\nHeader always set B 2";
    let head = "Location: /x\nContent-Type: text/html; charset=iso-8859-1";
    let found = sent(directives, 301, head, ERROR, nothing);
    assert!(found.contains("Cache-Control: max-age=60"), "{found}");
    assert!(found.ends_with("B: 2") && !found.contains("A: 1"), "{found}");
}

#[test]
fn the_plain_way_leads_to_the_same() {
    let rows = [
        ("Header set A b\nHeader always set B c\nHeader unset C", true),
        ("Header set Vary B\nHeader always set Vary C", true),
        ("Header always unset C\nHeader set a d", true),
        ("Header set X y early", true),
        ("Header always set B c\nHeader always set b d", false),
        ("Header always set B c\nHeader always unset B", false),
        ("Header append A b", false),
        ("Header set A b env=x", false),
        ("Header set A %t", false),
        ("Header set Content-Type a/b", false),
        ("Header set A b\nAddDefaultCharset utf-8", false),
        ("Header set A b\nExpiresActive On\nExpiresDefault A60", false),
        ("Header set A b\nSetOutputFilter DEFLATE", false),
    ];
    let heads = ["", "A: x\nB: y\nC: z\na: w", "Vary: A\nVary: a, B"];
    for (directives, expected) in rows {
        for (status, about) in [
            (200, ResponseProperties::default()),
            (304, ResponseProperties::default()),
            (404, ERROR),
        ] {
            for head in heads {
                sent(
                    directives,
                    status,
                    &format!("Content-Type: text/html\n{head}"),
                    about,
                    nothing,
                );
            }
        }
        let mut head = ResponseHead::new(Status::OK);
        let request = request("/", "");
        let state = transaction(&request).state;
        assert_eq!(
            respond_plainly(&state, &settings(directives), &mut head, false),
            expected,
            "{directives}"
        );
    }
    // Fields that modules have set before need the full treatment.
    let request = request("/", "");
    let mut state = transaction(&request).state;
    state.error_fields.push(b"Set-Cookie", b"a=b");
    let mut head = ResponseHead::new(Status::OK);
    assert!(!respond_plainly(&state, &settings("Header set A b"), &mut head, false));
}

#[test]
fn only_a_bare_response_is_made_plainly() {
    let settings = settings("Header set X y");
    type Change = fn(&mut RequestState);
    let changes: [(bool, Change); 6] = [
        (true, |_| {}),
        (false, |state| state.fields.push(b"A", b"b")),
        (false, |state| state.error_fields.push(b"A", b"b")),
        (false, |state| state.encoding = Some(b"gzip".to_vec())),
        (false, |state| state.languages.push(b"en".to_vec())),
        (false, |state| state.trace = Some(Box::default())),
    ];
    for (number, (expected, change)) in changes.into_iter().enumerate() {
        let mut state = RequestState::default();
        change(&mut state);
        let mut head = ResponseHead::new(Status::OK);
        let is_plain = respond_plainly(&state, &settings, &mut head, false);
        assert_eq!((is_plain, head.fields.contains(b"x")), (expected, expected), "{number}");
    }
}

#[test]
fn a_field_that_may_be_there_once_is_the_handlers() {
    let set = |state: &mut RequestState| {
        for (name, value) in [("Allow", "GET"), ("X", "module")] {
            state.error_fields.push(name.as_bytes(), value.as_bytes());
        }
    };
    let about = ResponseProperties::default();
    let own = sent("", 200, "Allow: PUT\nX: script", about, set);
    assert_eq!(own, "Allow: PUT\nX: script\nX: module");
    assert_eq!(sent("", 200, "X: script", about, set), "X: script\nAllow: GET\nX: module");
}
