use howdah_http::Status;
use md5::{Digest, Md5};

use super::basic::hexadecimal;
use super::*;
use crate::ClientRequest;
use crate::phases::access::check;
use crate::phases::access::tests::{Asked, Site, USERS_OF, code, merged, run};
use crate::testing::try_settings;

/// The answer to a request with that Authorization: the status and the challenge.
fn answer(folders: &[&str], authorization: &str) -> (u16, String) {
    let asked = Asked::new("GET").field("Authorization", authorization);
    let mut tx = asked.transaction();
    let code = code(check(&mut tx, &merged(folders), &mut Site::default()));
    let challenge = tx.state.error_fields.value(b"WWW-Authenticate").unwrap_or_default();
    (code, String::from_utf8_lossy(challenge).into_owned())
}

#[test]
fn what_basic_takes_for_credentials() {
    let settings = format!("{USERS_OF}Require valid-user");
    for (value, expected) in [
        ("Basic YW5uOnNlY3JldA==", 200),
        ("bASIC YW5uOnNlY3JldA==", 200),
        ("Basic   YW5uOnNlY3JldA", 200),
        ("Basic \tYW5uOnNlY3JldA== and more", 200),
        ("Basic", 401),
        ("Basic ", 401),
        ("Basic !", 401),
        ("BasicYW5uOnNlY3JldA==", 401),
        ("Bearer YW5uOnNlY3JldA==", 401),
        ("Basic YW5u", 401),
        ("", 401),
    ] {
        let (code, challenge) = answer(&[&settings], value);
        assert_eq!(code, expected, "{value}");
        assert_eq!(challenge, if code == 401 { "Basic realm=\"Realm\"" } else { "" }, "{value}");
    }
}

#[test]
fn the_user_that_php_takes_from_basic() {
    for (value, expected) in [
        ("Basic YW5uOnNlY3JldA==", Some("ann")),
        ("bASIC YW5uOnNlY3JldA==", Some("ann")),
        ("Basic OnNlY3JldA==", Some("")),
        ("Basic YW5u", None),
        ("Basic", None),
        ("Basic ", None),
        ("Bearer YW5uOnNlY3JldA==", None),
    ] {
        let expected = expected.map(|user| user.as_bytes().to_vec());
        assert_eq!(super::named_user(value.as_bytes()), expected, "{value}");
    }
}

#[test]
fn results_of_configurations_of_basic() {
    let with = |lines: &str| format!("{USERS_OF}Require valid-user\n{lines}");
    let rows = [
        (with("AuthType None"), 500, 500),
        (with("AuthType Form"), 500, 500),
        (with("AuthUserFile /nowhere"), 401, 500),
        (with("AuthUserFile users"), 401, 500),
        (with("AuthBasicProvider file"), 401, 200),
        (with("AuthBasicProvider file file"), 401, 200),
        (with("AuthType BASIC"), 401, 200),
        (with("AuthBasicUseDigestAlgorithm MD5\nAuthUserFile /digests"), 401, 200),
        (with("AuthBasicUseDigestAlgorithm Off"), 401, 200),
        ("AuthType Basic\nAuthUserFile /users\nRequire valid-user".into(), 500, 500),
        ("AuthType Basic\nAuthName x\nRequire valid-user".into(), 401, 500),
        ("AuthName x\nAuthUserFile /users\nRequire valid-user".into(), 500, 500),
    ];
    for (text, without, with) in &rows {
        run(&[(text, &[("GET", *without), ("GET ann:secret", *with)])]);
    }
    let digests = with("AuthBasicUseDigestAlgorithm MD5\nAuthUserFile /digests");
    run(&[
        (&format!("{digests}\n--\nAuthType Basic"), &[("GET ann:secret", 200)]),
        (
            &format!("{digests}\n--\nAuthBasicUseDigestAlgorithm Off\nAuthUserFile /users"),
            &[("GET ann:secret", 200)],
        ),
    ]);
    for spelling in ["Basic", "basic", "BASIC"] {
        let asked = Asked::new("GET ann:secret");
        let mut tx = asked.transaction();
        let settings = merged(&[&with(&format!("AuthType {spelling}"))]);
        assert_eq!(code(check(&mut tx, &settings, &mut Site::default())), 200, "{spelling}");
        assert_eq!(tx.state.auth_type, Some(spelling));
    }
    let elsewhere = with("AuthBasicAuthoritative Off");
    run(&[(
        &elsewhere,
        &[("GET", 401), ("GET ann:secret", 200), ("GET ann:wrong", 401), ("GET eve:secret", 500)],
    )]);
    // No other provider is there that could tell.
    let unreadable = with("AuthUserFile /nowhere");
    run(&[(&unreadable, &[("GET", 401), ("GET ann:secret", 500)])]);
    let unreadable = with("AuthUserFile /nowhere\nAuthBasicAuthoritative Off");
    run(&[(&unreadable, &[("GET", 401), ("GET ann:secret", 500)])]);
}

#[test]
fn realms() {
    let rows = [
        ("AuthName \"a b\"", "Basic realm=\"a b\""),
        ("AuthName 'a \"b\" c'", "Basic realm=\"a \\\"b\\\" c\""),
        ("AuthName %{REQUEST_METHOD}", "Basic realm=\"GET\""),
    ];
    for (line, expected) in rows {
        let settings = format!("{USERS_OF}Require valid-user\n{line}");
        assert_eq!(answer(&[&settings], "").1, expected, "{line}");
        assert_eq!(
            answer(&[&format!("{USERS_OF}Require valid-user"), line], "").1,
            expected,
            "{line}"
        );
    }
    assert_eq!(quoted(b"a \"c\\\" \\"), b"a \\\"c\\\" \\");
    // A backslash and a `b` are what C takes them for, which no field can hold.
    let unsendable = format!("{USERS_OF}Require valid-user\nAuthName \"a\\\\b\"");
    run(&[(&unsendable, &[("GET", 500), ("GET ann:wrong", 500), ("GET ann:secret", 200)])]);
}

#[test]
fn a_missing_field() {
    let rows = [
        ("AuthBasicFake ann secret", Some("Basic YW5uOnNlY3JldA==")),
        ("AuthBasicFake ann", Some("Basic YW5uOnBhc3N3b3Jk")),
        ("AuthBasicFake %{REMOTE_USER} x", None),
        ("AuthBasicFake ann secret\nAuthBasicFake off", Some("sent")),
        ("AuthBasicAuthoritative On", Some("sent")),
    ];
    for (line, expected) in rows {
        let asked = Asked::new("GET").field("Authorization", "sent");
        let mut tx = asked.transaction();
        let settings = merged(&[line]);
        fixup(&mut tx, settings.auth.as_ref().unwrap(), &mut Site::default()).unwrap();
        let found = tx.request_field(b"Authorization").map(String::from_utf8_lossy);
        assert_eq!(found.as_deref(), expected, "{line}");
    }
}

const DIGEST: &str = "AuthType Digest\nAuthName Realm\nAuthUserFile /digests\nRequire valid-user\n";

/// The response of a client to a challenge, with some parameters replaced.
fn response(challenge: &str, replaced: &[(&str, &str)]) -> String {
    let parameter = |name: &'static str, default: String| {
        let found = replaced.iter().find(|(other, _)| *other == name);
        found.map_or(default, |(_, value)| (*value).to_owned())
    };
    let md5 = |text: String| String::from_utf8(hexadecimal(&Md5::digest(text.as_bytes()))).unwrap();
    let nonce = challenge.split("nonce=\"").nth(1).and_then(|rest| rest.split('"').next());
    let nonce = parameter("nonce", nonce.unwrap_or_default().into());
    let (uri, qop) = (parameter("uri", "/x".into()), parameter("qop", "auth".into()));
    let realm = parameter("realm", "Realm".into());
    let user = parameter("username", "ann".into());
    let secret = md5(format!("ann:Realm:{}", parameter("password", "secret".into())));
    let digest = md5(format!("{secret}:{nonce}:00000001:c:{qop}:{}", md5(format!("GET:{uri}"))));
    let digest = parameter("response", digest);
    let more = parameter("more", String::new());
    format!(
        "Digest username=\"{user}\", realm=\"{realm}\", nonce=\"{nonce}\", uri=\"{uri}\", \
         response={digest}, qop={qop}, nc=00000001, cnonce=\"c\"{more}"
    )
}

#[test]
fn a_digest_answers_a_challenge() {
    let (code, challenge) = answer(&[DIGEST], "");
    assert_eq!(code, 401);
    assert!(challenge.starts_with("Digest realm=\"Realm\", nonce=\""), "{challenge}");
    assert!(challenge.ends_with("\", algorithm=MD5, qop=\"auth\""), "{challenge}");
    let rows: &[(&[(&str, &str)], u16)] = &[
        (&[], 200),
        (&[("more", ", algorithm=md5")], 200),
        (&[("qop", "AUTH")], 200),
        (&[("uri", "/%78")], 200),
        (&[("uri", "/y")], 400),
        (&[("uri", "/x?query")], 400),
        (&[("uri", "http://elsewhere.example/x")], 400),
        (&[("password", "wrong")], 401),
        (&[("username", "bob")], 401),
        (&[("realm", "other")], 401),
        (&[("qop", "auth-int")], 401),
        (&[("response", "0123456789abcdef")], 401),
        (&[("nonce", "abc")], 401),
        (&[("more", ", algorithm=SHA-256")], 401),
        (&[("more", ", opaque=\"\"")], 401),
        (&[("more", ", opaque=\"1f\"")], 401),
    ];
    for (replaced, expected) in rows {
        let value = response(&challenge, replaced);
        assert_eq!(answer(&[DIGEST], &value).0, *expected, "{value}");
    }
    assert_eq!(answer(&[DIGEST], "Basic YW5uOnNlY3JldA==").0, 401);
    assert_eq!(answer(&[DIGEST, "AuthName Other"], &response(&challenge, &[])).0, 401);
}

#[test]
fn a_user_who_is_known_and_not_allowed_is_asked_again() {
    let (_, challenge) = answer(&[DIGEST], "");
    let value = response(&challenge, &[]);
    let (code, again) = answer(&[DIGEST, "Require user bob"], &value);
    assert_eq!(code, 401);
    assert!(again.starts_with("Digest realm=\"Realm\", nonce=\""), "{again}");
    assert!(!again.contains("stale=true"), "{again}");
}

#[test]
fn nonces_end() {
    let (_, challenge) = answer(&[DIGEST], "");
    let value = response(&challenge, &[]);
    let later = |lines: &str, seconds: i64| {
        let asked = Asked::new("GET").field("Authorization", &value);
        let mut tx = asked.transaction();
        let (client, time) = (tx.client, tx.client.time());
        let time = time.checked_add_signed(seconds * 1_000_000).unwrap();
        tx.client = ClientRequest::new(client.request(), client.remote(), client.local(), time);
        let code = code(check(&mut tx, &merged(&[DIGEST, lines]), &mut Site::default()));
        let info = tx.state.fields.value(b"Authentication-Info").unwrap_or_default();
        let challenge = tx.state.error_fields.value(b"WWW-Authenticate").unwrap_or_default();
        let has = |text: &[u8], part: &[u8]| text.windows(part.len()).any(|window| window == part);
        (code, has(challenge, b"stale=true"), has(info, b"nextnonce="))
    };
    assert_eq!(later("", 0), (200, false, false));
    assert_eq!(later("", 270), (200, false, false));
    assert_eq!(later("", 271), (200, false, true));
    assert_eq!(later("", 300), (200, false, true));
    assert_eq!(later("", 301), (401, true, false));
    assert_eq!(later("", -1), (401, true, false));
    assert_eq!(later("AuthDigestNonceLifetime 600", 301), (200, false, false));
    assert_eq!(later("AuthDigestNonceLifetime -1", 1_000_000), (200, false, false));
}

#[test]
fn a_nonce_of_another_server_is_stale() {
    let (_, challenge) = answer(&[DIGEST], "");
    let nonce = challenge.split('"').nth(3).unwrap();
    let (time, digest) = nonce.split_at(12);
    let other: String = digest.chars().rev().collect();
    let (code, again) = answer(&[DIGEST], &response("", &[("nonce", &format!("{time}{other}"))]));
    assert_eq!(code, 401);
    assert!(again.contains("stale=true"), "{again}");
}

#[test]
fn without_a_secret_there_is_no_digest() {
    let asked = Asked::new("GET");
    let outcome = check(
        &mut asked.transaction(),
        &merged(&[DIGEST]),
        &mut crate::testing::Nowhere::default(),
    );
    assert_eq!(outcome, Err(Denial::Status(Status::INTERNAL_SERVER_ERROR)));
}

#[test]
fn urls_with_the_same_users_are_named() {
    let challenge = answer(&[DIGEST, "AuthDigestDomain /a\nAuthDigestDomain /b http://c/"], "").1;
    assert!(challenge.contains(", domain=\"/a /b http://c/\", qop"), "{challenge}");
    let challenge = answer(&[DIGEST, "AuthDigestDomain /a", "AuthDigestDomain /b"], "").1;
    assert!(challenge.contains(", domain=\"/b\""), "{challenge}");
    for (below, stays) in [
        ("AuthName Other", true),
        ("AuthDigestQop auth", false),
        ("AuthDigestProvider file", false),
    ] {
        let challenge = answer(&[DIGEST, "AuthDigestDomain /a", below], "").1;
        assert_eq!(challenge.contains("domain"), stays, "{below}: {challenge}");
    }
}

#[test]
fn what_apache_does_not_take() {
    for text in [
        "AuthBasicProvider other",
        "AuthBasicProvider File",
        "AuthBasicUseDigestAlgorithm SHA",
        "AuthDigestProvider anon",
        "AuthDigestQop none",
        "AuthDigestQop auth-int",
        "AuthDigestAlgorithm SHA-256",
        "AuthDigestNonceLifetime x",
        "AuthDigestNonceLifetime 10s",
        "AuthDigestNonceLifetime \"\"",
        "AuthName a b",
        "AuthType",
        "AuthUserFile",
    ] {
        try_settings(text).expect_err(text);
    }
    for text in ["AuthDigestAlgorithm MD5", "AuthDigestNcCheck Off"] {
        assert!(try_settings(text).expect(text).refused.is_none(), "{text}");
    }
}
