//! Each thing that `Require` can ask for, and how they combine.

use super::{Asked, Site, USERS_OF, code, merged, run};
use crate::phases::access::check;
use crate::testing::try_settings;
use crate::{CompileContext, compile};

#[test]
fn what_needs_no_user() {
    run(&[
        ("Require all granted", &[("GET", 200)]),
        ("Require all denied", &[("GET", 403), ("GET ann:secret", 403)]),
        ("Require all GRANTED", &[("GET", 200)]),
        (
            "Require ip 192.0.2.1",
            &[("GET", 200), ("GET @192.0.2.2", 403), ("GET @::ffff:192.0.2.1", 200)],
        ),
        (
            "Require ip 192.0.2 2001:db8::/32",
            &[("GET @192.0.2.9", 200), ("GET @2001:db8::9", 200), ("GET @2001:db9::", 403)],
        ),
        ("Require host example.org", &[("GET", 200), ("GET @192.0.2.9", 403)]),
        ("Require host .org", &[("GET", 200)]),
        ("Require host ample.org", &[("GET", 403)]),
        // As long as the client's domain, and another one.
        ("Require host another.org", &[("GET", 403)]),
        ("Require host .com", &[("GET", 403)]),
        ("Require host CLIENT.example.ORG", &[("GET", 200)]),
        ("Require host other.example example.org", &[("GET", 200)]),
        ("Require host example.org# and more", &[("GET", 200)]),
        ("Require host other.example# example.org", &[("GET", 403)]),
        ("Require host #example.org", &[("GET", 403)]),
        ("Require forward-dns home.example", &[("GET", 200), ("GET @192.0.2.9", 403)]),
        ("Require forward-dns no.example home.example", &[("GET", 200)]),
        ("Require forward-dns no.example # home.example", &[("GET", 403)]),
        (
            "Require local",
            &[("GET @127.0.0.1", 200), ("GET @::1", 200), ("GET @192.0.2.2", 200), ("GET", 403)],
        ),
        ("Require env e1 e2", &[("GET", 403), ("GET e2=1", 200), ("GET E1=1", 200)]),
        ("Require env", &[("GET e1=1", 403)]),
        (
            "Require method GET OPTIONS",
            &[("GET", 200), ("HEAD", 200), ("OPTIONS", 200), ("POST", 403), ("FOO", 403)],
        ),
        ("Require method GET HEAD", &[("GET", 200), ("HEAD", 200), ("POST", 403)]),
        ("Require method", &[("GET", 403)]),
        ("Require ssl", &[("GET", 403), ("GET https", 200)]),
        ("Require ssl-verify-client", &[("GET", 403), ("GET https", 403)]),
    ]);
}

#[test]
fn what_needs_a_user() {
    let rows: &[(&str, &[(&str, u16)])] = &[
        (
            "Require valid-user",
            &[
                ("GET", 401),
                ("GET ann:secret", 200),
                ("GET ann:wrong", 401),
                ("GET odd:secret", 401),
                ("GET eve:secret", 401),
            ],
        ),
        (
            "Require user ann \"x y\"",
            &[("GET", 401), ("GET ann:secret", 200), ("GET bob:secret", 401)],
        ),
        ("Require user", &[("GET ann:secret", 401)]),
        ("Require all denied", &[("GET", 403), ("GET ann:secret", 403)]),
        ("Require group admins", &[("GET ann:secret", 200), ("GET bob:secret", 401)]),
        ("Require group STAFF", &[("GET bob:secret", 200)]),
        ("Require file-owner", &[("GET ann:secret", 200), ("GET bob:secret", 401)]),
        ("Require file-group", &[("GET ann:secret", 401), ("GET bob:secret", 200)]),
        ("AuthGroupFile /nowhere\nRequire group staff", &[("GET ann:secret", 401)]),
        (
            "AuthzSendForbiddenOnFailure On\nRequire user bob",
            &[("GET", 401), ("GET ann:secret", 403)],
        ),
        ("Require user bob\nRequire ip 192.0.2.1", &[("GET", 200)]),
        ("Require user bob\nRequire ip 192.0.2.9", &[("GET", 401)]),
        ("Require ip 192.0.2.9\nRequire user bob", &[("GET", 401), ("GET bob:secret", 200)]),
        // Both at once, in either order: without a user nobody gets in.
        (
            "<RequireAll>\nRequire all granted\nRequire valid-user\n</RequireAll>",
            &[("GET", 401), ("GET ann:secret", 200), ("GET ann:wrong", 401)],
        ),
        (
            "<RequireAll>\nRequire valid-user\nRequire all granted\n</RequireAll>",
            &[("GET", 401), ("GET ann:secret", 200), ("GET ann:wrong", 401)],
        ),
        (
            "<RequireAll>\nRequire env a\nRequire user ann\n</RequireAll>",
            &[("GET", 403), ("GET a=1", 401), ("GET ann:secret a=1", 200), ("GET ann:secret", 403)],
        ),
        (
            "<RequireAll>\nRequire user ann\nRequire env a\n</RequireAll>",
            &[("GET", 403), ("GET a=1", 401), ("GET ann:secret a=1", 200), ("GET ann:secret", 403)],
        ),
        (
            "AuthMerging And\n<RequireAny>\nRequire env a\nRequire user ann\n</RequireAny>",
            &[("GET", 401), ("GET a=1", 200), ("GET ann:secret", 200), ("GET bob:secret", 401)],
        ),
    ];
    for (text, requests) in rows {
        run(&[(&format!("{USERS_OF}{text}"), requests)]);
    }
}

#[test]
fn conditions() {
    run(&[
        ("Require expr true", &[("GET", 200)]),
        ("Require expr \"%{REQUEST_METHOD} == 'POST'\"", &[("GET", 403), ("POST", 200)]),
        (
            "Require expr %{REMOTE_ADDR} -ipmatch '192.0.2.0/24'",
            &[("GET", 200), ("GET @192.0.3.1", 403)],
        ),
    ]);
    let with_user = format!("{USERS_OF}Require expr %{{remote_user}} == 'ann'");
    run(&[(&with_user, &[("GET", 401), ("GET ann:secret", 200), ("GET bob:secret", 401)])]);
    let user_by_function = format!("{USERS_OF}Require user %{{tolower:ANN}}");
    run(&[(&user_by_function, &[("GET ann:secret", 200), ("GET bob:secret", 401)])]);
    let user_by_variable = format!("{USERS_OF}Require user %{{reqenv:who}}");
    run(&[(&user_by_variable, &[("GET ann:secret who=ann", 401)])]);
}

#[test]
fn containers() {
    run(&[
        (
            "<RequireAll>\nRequire env a\nRequire env b\n</RequireAll>",
            &[("GET a=1", 403), ("GET a=1 b=1", 200)],
        ),
        (
            "<RequireAny>\nRequire env a\nRequire env b\n</RequireAny>",
            &[("GET", 403), ("GET b=1", 200)],
        ),
        (
            "<RequireAll>\nRequire all granted\n<RequireNone>\nRequire env a\nRequire env b\n\
             </RequireNone>\n</RequireAll>",
            &[("GET", 200), ("GET b=1", 403)],
        ),
        (
            "<RequireAll>\nRequire all granted\nRequire not env a\n</RequireAll>",
            &[("GET", 200), ("GET a=1", 403)],
        ),
        ("<RequireAll>\nRequire not env a\n</RequireAll>", &[("GET", 403), ("GET a=1", 403)]),
        (
            "Require env c\n<RequireAll>\nRequire env a\n<RequireAny>\nRequire env b\n\
             Require env d\n</RequireAny>\n</RequireAll>",
            &[("GET a=1", 403), ("GET a=1 d=1", 200), ("GET c=1", 200)],
        ),
    ]);
}

#[test]
fn methods() {
    run(&[
        (
            "<Limit POST PUT>\nRequire all denied\n</Limit>",
            &[("GET", 200), ("POST", 403), ("PUT", 403), ("FOO", 200)],
        ),
        (
            "<LimitExcept GET>\nRequire all denied\n</LimitExcept>",
            &[("GET", 200), ("HEAD", 200), ("POST", 403), ("FOO", 403)],
        ),
        (
            "Require all denied\n<Limit POST>\nRequire all granted\n</Limit>",
            &[("GET", 403), ("POST", 200)],
        ),
        (
            "<RequireAll>\nRequire env a\n<Limit POST>\nRequire env b\n</Limit>\n</RequireAll>",
            &[("GET a=1", 200), ("POST a=1", 403), ("POST a=1 b=1", 200), ("GET b=1", 403)],
        ),
    ]);
}

#[test]
fn merging_with_the_folders_above() {
    run(&[
        ("Require env a\n--\nRequire env b", &[("GET a=1", 403), ("GET b=1", 200)]),
        (
            "Require env a\n--\nAuthMerging Off\nRequire env b",
            &[("GET a=1", 403), ("GET b=1", 200)],
        ),
        (
            "Require env a\n--\nAuthMerging And\nRequire env b",
            &[("GET a=1", 403), ("GET b=1", 403), ("GET a=1 b=1", 200)],
        ),
        (
            "Require env a\n--\nAuthMerging Or\nRequire env b",
            &[("GET", 403), ("GET a=1", 200), ("GET b=1", 200)],
        ),
        ("Require env a\n--\nAuthMerging And", &[("GET", 403), ("GET a=1", 200)]),
        ("Require env a\n--\nAuthMerging Off", &[("GET", 200)]),
        ("Require env a\n--\nAuthzSendForbiddenOnFailure On", &[("GET", 403), ("GET a=1", 200)]),
        ("Require env a\n--\nSatisfy All", &[("GET", 403)]),
        (
            "Require env a\n--\nAuthMerging And\nRequire env b\n--\nAuthMerging And\nRequire env c",
            &[("GET a=1 b=1", 403), ("GET a=1 b=1 c=1", 200)],
        ),
        (
            "Require env a\n--\nAuthMerging And\nRequire env b\n--\nAuthMerging Or\nRequire env c",
            &[("GET a=1 b=1", 200), ("GET a=1", 403), ("GET c=1", 200)],
        ),
        // The topmost file is joined with the site's own `Require all granted`.
        ("AuthMerging And\nRequire env a", &[("GET", 403), ("GET a=1", 200)]),
        ("AuthMerging Or\nRequire env a", &[("GET", 200)]),
        (
            "AuthMerging Or\nRequire env a\n--\nAuthMerging And\nRequire env b",
            &[("GET", 403), ("GET b=1", 200)],
        ),
        ("AuthMerging Off\n--\nAuthMerging Or\nRequire env a", &[("GET", 403), ("GET a=1", 200)]),
        (
            "AuthMerging Off\n--\nAuthMerging Off\n--\nAuthMerging Or\nRequire env a",
            &[("GET", 403), ("GET a=1", 200)],
        ),
        ("AuthzSendForbiddenOnFailure On\n--\nAuthMerging Or\nRequire env a", &[("GET", 200)]),
        (
            "AuthMerging And\n<RequireAll>\nRequire not env a\n</RequireAll>",
            &[("GET", 200), ("GET a=1", 403)],
        ),
    ]);
    let cleared = format!("{USERS_OF}--\nAuthMerging Off");
    let still = format!("{cleared}\n--\nAuthMerging And");
    for (text, expected) in [(USERS_OF, 200), (&cleared, 500), (&still, 500)] {
        run(&[(text, &[("GET", expected)])]);
    }
}

#[test]
fn without_names_of_hosts_nobody_gets_in_by_one() {
    let answers = |text: &str| {
        let mut context = Site { nameless: true, ..Site::default() };
        let asked = Asked::new("GET");
        let mut tx = asked.transaction();
        let code = code(check(&mut tx, &merged(&[text]), &mut context));
        assert!(!tx.state.complaints.is_empty(), "{text}");
        code
    };
    for (text, expected) in [
        ("Require host example.org", 403),
        ("Require forward-dns home.example", 403),
        ("Require host example.org\nRequire ip 192.0.2.1", 200),
        ("<RequireAll>\nRequire all granted\nRequire not host evil.example\n</RequireAll>", 500),
        // A negation in a negation: an unknown name denies access.
        (
            "<RequireAll>\nRequire all granted\n<RequireNone>\n<RequireAll>\nRequire all granted\n\
             Require not host evil.example\n</RequireAll>\n</RequireNone>\n</RequireAll>",
            403,
        ),
        (
            "<RequireAll>\nRequire all granted\nRequire not forward-dns evil.example\n\
             </RequireAll>",
            500,
        ),
        (
            "<RequireAll>\nRequire all granted\n<RequireNone>\nRequire host evil.example\n\
             </RequireNone>\n</RequireAll>",
            500,
        ),
        ("Order allow,deny\nAllow from example.org", 403),
        ("Order allow,deny\nAllow from all\nDeny from evil.example", 500),
        ("Order deny,allow\nDeny from all\nAllow from example.org", 403),
    ] {
        assert_eq!(answers(text), expected, "{text}");
    }
}

#[test]
fn what_apache_does_not_take() {
    for (text, part) in [
        ("Require", "there is no provider"),
        ("Require not", "there is no provider"),
        ("Require nonsense", "there is no provider"),
        ("Require All granted", "there is no provider"),
        ("Require all", "granted or denied"),
        ("Require all granted x", "granted or denied"),
        ("Require all \"granted\"", "granted or denied"),
        ("Require ip", "takes addresses"),
        ("Require ip 10.1/16", "neither an address"),
        ("Require ip example.org", "neither an address"),
        ("Require ip 10.+1", "neither an address"),
        ("Require method FOO", "no method"),
        ("Require ssl x", "there is no provider"),
        ("Require ssl-verify-client x", "there is no provider"),
        ("Require not all denied", "no effect in <RequireAny>"),
        ("<RequireAny>\nRequire not all denied\n</RequireAny>", "no effect in <RequireAny>"),
        ("<RequireNone>\nRequire not all denied\n</RequireNone>", "no effect in <RequireNone>"),
        (
            "<RequireNone>\nRequire all denied\n</RequireNone>",
            "<RequireNone> has no effect in <RequireAny>",
        ),
        ("<RequireAll>\n</RequireAll>", "<RequireAll> holds no Require"),
        ("AuthMerging x", "Off, And or Or"),
        ("AuthzSendForbiddenOnFailure x", "On or Off"),
    ] {
        let complaint = try_settings(text).expect_err(text);
        assert!(complaint.message.contains(part), "{text}: {complaint:?}");
    }
}

#[test]
fn what_apache_has_and_howdah_has_not_is_refused() {
    for text in [
        "Require ldap-user ann",
        "Require dbm-group x",
        "AuthBasicProvider ldap",
        "AuthDigestProvider dbd",
        "AuthDigestNcCheck On",
        "AuthDigestNonceLifetime 0",
        "SSLRequire true",
        "SSLVerifyClient require",
        "SSLOptions +FakeBasicAuth",
    ] {
        let compiled = compile(text.as_bytes(), &CompileContext::new("test", b"/srv/"));
        assert!(compiled.settings.refused.is_some(), "{text}");
    }
}

#[test]
fn the_file_of_groups_is_read_once_for_a_request() {
    let lines: String = (0..1000).map(|number| format!("Require group g{number}\n")).collect();
    let settings = merged(&[USERS_OF, &lines]);
    let asked = Asked::new("GET ann:secret");
    let mut site = Site::default();
    let found = check(&mut asked.transaction(), &settings, &mut site);
    assert_eq!(code(found), 401);
    assert_eq!(site.reads_of_groups, 1);
    // The names of the lines are compared with those of the user's groups.
    let lines = "Require group other\nRequire group staff";
    let found = check(&mut asked.transaction(), &merged(&[USERS_OF, lines]), &mut site);
    assert_eq!(code(found), 200);
}
