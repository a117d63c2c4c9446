use howdah_http::{ResponseHead, Status};

use super::*;
use crate::DirectiveSettings;
use crate::testing::{Nowhere, request, settings, transaction, try_settings};

/// Cache-Control and Expires of a response to a request at 22:13:20 for a file changed an hour
/// before.
fn sent(settings: &DirectiveSettings, head: &str, status: u16) -> String {
    let request = request("/", "");
    let mut tx = transaction(&request);
    let mut response_head = ResponseHead::new(Status::new(status).unwrap());
    for line in head.lines() {
        let (name, value) = line.split_once(": ").unwrap();
        response_head.fields.push(name.as_bytes(), value.as_bytes());
    }
    let modified = Some((1_700_000_000 - 3600) * 1_000_000);
    response(
        &mut tx,
        settings.expires.as_deref().unwrap(),
        &mut Nowhere::default(),
        &mut response_head,
        modified,
    );
    let fields = &response_head.fields;
    let text = |name: &str| {
        String::from_utf8_lossy(fields.value(name.as_bytes()).unwrap_or(b"-")).into_owned()
    };
    format!("{} {}", text("cache-control"), text("expires"))
}

#[test]
fn responses() {
    let on = "ExpiresActive on\nExpiresDefault A60\nExpiresByType text/html A120\n\
        ExpiresByType image/* M7200";
    let at = |seconds: u64| {
        let day = date::format(1_700_000_000 + seconds);
        String::from_utf8(day.to_vec()).unwrap()
    };
    let table = [
        ("Content-Type: text/html", 200, format!("max-age=120 {}", at(120))),
        ("Content-Type: TEXT/HTML; charset=x", 200, format!("max-age=120 {}", at(120))),
        ("Content-Type: text/plain", 200, format!("max-age=60 {}", at(60))),
        ("Content-Type: image/png", 200, format!("max-age=3600 {}", at(3600))),
        ("X: y", 200, format!("max-age=60 {}", at(60))),
        ("Content-Type: text/html", 301, format!("max-age=120 {}", at(120))),
        ("Content-Type: text/html", 399, format!("max-age=120 {}", at(120))),
        ("Content-Type: text/html", 400, "- -".to_owned()),
        ("Content-Type: text/html", 404, "- -".to_owned()),
        ("Expires: 0", 200, "- 0".to_owned()),
        ("Cache-Control: public", 200, format!("public, max-age=60 {}", at(60))),
    ];
    let settings = settings(on);
    for (head, status, expected) in table {
        assert_eq!(sent(&settings, head, status), expected, "{head} {status}");
    }
}

#[test]
fn what_is_past_is_now() {
    let settings = settings("ExpiresActive on\nExpiresDefault M60");
    let now = String::from_utf8(date::format(1_700_000_000).to_vec()).unwrap();
    assert_eq!(sent(&settings, "", 200), format!("max-age=0 {now}"));
}

#[test]
fn a_redirect_is_dated_by_what_is_there() {
    let settings = settings("ExpiresActive on\nExpiresDefault \"modification plus 60 years\"");
    let age = |filename: &[u8]| {
        let request = request("/", "");
        let mut tx = transaction(&request);
        tx.state.filename = filename.to_vec();
        let mut head = ResponseHead::new(Status::MOVED_PERMANENTLY);
        let mut context = Nowhere { names: vec!["dir"] };
        response(&mut tx, settings.expires.as_deref().unwrap(), &mut context, &mut head, None);
        head.fields.value(b"cache-control").map(<[u8]>::to_vec)
    };
    let left = 60 * 365 * 24 * 3600 - 1_700_000_000;
    assert_eq!(age(b"/s/dir"), Some(format!("max-age={left}").into_bytes()));
    assert_eq!(age(b"/s/none"), None);
}

#[test]
fn a_response_that_has_its_expiry_or_is_part_of_another_gets_none() {
    let settings = settings("ExpiresActive on\nExpiresDefault A60");
    let edits: [fn(&mut crate::RequestState); 3] = [
        |_| (),
        |state| state.error_fields.push(b"Expires", b"0"),
        |state| state.is_subrequest = true,
    ];
    for (number, edit) in edits.iter().enumerate() {
        let request = request("/", "");
        let mut tx = transaction(&request);
        edit(&mut tx.state);
        let mut head = ResponseHead::new(Status::OK);
        let config = settings.expires.as_deref().unwrap();
        response(&mut tx, config, &mut Nowhere::default(), &mut head, None);
        assert_eq!(head.fields.contains(b"Expires"), number == 0, "{number}");
    }
}

#[test]
fn more_than_one_type_has_a_wildcard() {
    let settings = settings("ExpiresActive on\nExpiresByType image/* A2\nExpiresByType text/* A3");
    assert!(sent(&settings, "Content-Type: image/png", 200).starts_with("max-age=2 "));
    assert!(sent(&settings, "Content-Type: text/css", 200).starts_with("max-age=3 "));
}

#[test]
fn media_types_have_a_limit() {
    let lines = |count: usize| -> String {
        (0..count).map(|number| format!("ExpiresByType a/{number} A1\n")).collect()
    };
    assert!(try_settings(&lines(2000)).is_ok());
    assert!(try_settings(&lines(2001)).is_err());
}

#[test]
fn off_and_without_rules() {
    for lines in ["ExpiresActive on", "ExpiresDefault A60", "ExpiresActive off\nExpiresDefault A60"]
    {
        assert_eq!(sent(&settings(lines), "", 200), "- -", "{lines}");
    }
}

#[test]
fn merging() {
    let base =
        settings("ExpiresActive on\nExpiresDefault A1\nExpiresByType a/b A2\nExpiresByType c/* A3");
    let age = |add: &str, media_type: &str| {
        let head = format!("Content-Type: {media_type}");
        let sent = sent(&base.merge(&settings(add)), &head, 200);
        sent.split(' ').next().unwrap().to_owned()
    };
    assert_eq!(age("ExpiresByType a/b A9", "a/b"), "max-age=9");
    assert_eq!(age("ExpiresByType x/y A9", "a/b"), "max-age=2");
    assert_eq!(age("ExpiresDefault A9", "x/y"), "max-age=9");
    assert_eq!(age("ExpiresActive off", "x/y"), "-");
    // Apache forgets that there were wildcards.
    assert_eq!(age("ExpiresByType x/y A9", "c/d"), "max-age=1");
    assert_eq!(age("ExpiresByType x/* A9", "c/d"), "max-age=3");
}

#[test]
fn mistakes() {
    for line in ["ExpiresByType text A1", "ExpiresByType text/html soon", "ExpiresDefault 3600"] {
        assert!(try_settings(line).is_err(), "{line}");
    }
}
