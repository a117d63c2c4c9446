use std::collections::BTreeMap;

use super::*;
use crate::DirectiveHost;
use crate::documents::{PathKind, SiteHost};
use crate::path::{DocumentPath, Scratch};
use crate::resolution::Resolution;
use crate::sites::Sites;
use howdah_config::{Config, RootTemplate, SiteSettings, TryStep};
use howdah_http::Method;

struct OnlyScripts;

impl DirectiveHost for OnlyScripts {}

impl SiteHost for OnlyScripts {
    fn kind(&mut self, path: &DocumentPath) -> PathKind {
        if path.relative().ends_with(b".php") {
            PathKind::File
        } else {
            PathKind::Missing
        }
    }
}

fn variables(root: &str, request: &Request) -> BTreeMap<String, String> {
    let site = SiteSettings {
        root: RootTemplate::Fixed(root.into()),
        try_files: vec![TryStep::Uri, TryStep::Path("/index.php".into())],
        ..SiteSettings::default()
    };
    let sites = Sites::compile(&Config { sites: vec![site], ..Config::default() });
    let client = ClientRequest::new(
        request,
        "[::ffff:192.0.2.7]:41000".parse().unwrap(),
        "[2001:db8::1]:8080".parse().unwrap(),
        0,
    );
    let found = crate::resolve(
        sites.find(b"").unwrap(),
        &client,
        &mut OnlyScripts,
        &mut Scratch::default(),
    );
    let Resolution::Php(script) = found.resolution else {
        panic!("no script: {found:?}")
    };
    let mut all = BTreeMap::new();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    server_variables(&client, &script, None, &mut |name, value| {
        assert!(all.insert(text(name), text(value)).is_none(), "{} twice", text(name));
    });
    all
}

fn request(target: &str, authority: &str, fields: &[(&str, &str)]) -> Request {
    let mut request = Request {
        target: target.into(),
        authority: authority.into(),
        ..Request::default()
    };
    for (name, value) in fields {
        request.fields.push(name.as_bytes(), value.as_bytes());
    }
    request
}

/// Each row a name and what it must be; an absent variable is written `-`.
fn check(found: &BTreeMap<String, String>, rows: &[(&str, &str)]) {
    for (name, value) in rows {
        assert_eq!(found.get(*name).map_or("-", String::as_str), *value, "{name} in {found:#?}");
    }
}

#[test]
fn a_script_with_path_info() {
    let mut post = request(
        "/dump.php/a//b%20c/../d?x=1&y",
        "foo.example:1234",
        &[("Host", "Foo.Example:1234"), ("Content-Type", "text/plain"), ("Content-Length", "3")],
    );
    post.method = Method::Post;
    post.content = Content::Length(3);
    check(
        &variables("/srv/www", &post),
        &[
            ("DOCUMENT_ROOT", "/srv/www"),
            ("CONTEXT_DOCUMENT_ROOT", "/srv/www"),
            ("CONTEXT_PREFIX", ""),
            ("SCRIPT_FILENAME", "/srv/www/dump.php"),
            ("SCRIPT_NAME", "/dump.php"),
            ("PATH_INFO", "/a/d"),
            ("PATH_TRANSLATED", "/srv/www/a/d"),
            ("REQUEST_URI", "/dump.php/a//b%20c/../d?x=1&y"),
            ("QUERY_STRING", "x=1&y"),
            ("REQUEST_METHOD", "POST"),
            ("SERVER_PROTOCOL", "HTTP/1.1"),
            ("GATEWAY_INTERFACE", "CGI/1.1"),
            ("REQUEST_SCHEME", "http"),
            ("HTTPS", "-"),
            ("HTTP_HOST", "Foo.Example:1234"),
            ("SERVER_NAME", "foo.example"),
            ("SERVER_PORT", "1234"),
            ("SERVER_ADDR", "2001:db8::1"),
            ("REMOTE_ADDR", "192.0.2.7"),
            ("REMOTE_PORT", "41000"),
            ("SERVER_SIGNATURE", ""),
            ("CONTENT_TYPE", "text/plain"),
            ("CONTENT_LENGTH", "3"),
            ("HTTP_CONTENT_TYPE", "-"),
            ("HTTP_CONTENT_LENGTH", "-"),
            ("REDIRECT_STATUS", "-"),
            ("REDIRECT_URL", "-"),
            ("PHP_SELF", "-"),
            ("AUTH_TYPE", "-"),
        ],
    );
}

#[test]
fn a_front_controller() {
    check(
        &variables("/srv/www", &request("/no/such%20x/?z=1", "h", &[])),
        &[
            ("SCRIPT_NAME", "/index.php"),
            ("SCRIPT_FILENAME", "/srv/www/index.php"),
            ("PATH_INFO", "-"),
            ("PATH_TRANSLATED", "-"),
            ("QUERY_STRING", "z=1"),
            ("REQUEST_URI", "/no/such%20x/?z=1"),
            ("REDIRECT_STATUS", "200"),
            ("REDIRECT_URL", "/no/such x/"),
            ("REDIRECT_QUERY_STRING", "z=1"),
            ("CONTENT_TYPE", "-"),
            ("CONTENT_LENGTH", "-"),
        ],
    );
    check(
        &variables("/srv/www", &request("/no", "h", &[])),
        &[("QUERY_STRING", ""), ("REDIRECT_QUERY_STRING", "-")],
    );
}

#[test]
fn the_name_and_port_of_the_server() {
    let mut secure = request("/a.php", "h", &[]);
    secure.scheme = Scheme::Https;
    check(
        &variables("/", &secure),
        &[("HTTPS", "on"), ("REQUEST_SCHEME", "https"), ("SERVER_PORT", "443")],
    );
    check(&variables("/", &secure), &[("DOCUMENT_ROOT", "/"), ("SCRIPT_FILENAME", "/a.php")]);
    check(&variables("/", &request("/a.php/b", "h", &[])), &[("PATH_TRANSLATED", "/b")]);
    let without_host = request("/a.php", "", &[]);
    check(
        &variables("/s", &without_host),
        &[("SERVER_NAME", "2001:db8::1"), ("HTTP_HOST", "-"), ("SERVER_PORT", "8080")],
    );
    // The target in absolute form wins over a Host that says something else.
    let forged = request("/a.php", "real.example", &[("Host", "forged.example")]);
    check(
        &variables("/s", &forged),
        &[("SERVER_NAME", "real.example"), ("HTTP_HOST", "real.example")],
    );
    let dotted = request("/a.php", "real.example", &[("Host", "REAL.example.")]);
    check(
        &variables("/s", &dotted),
        &[("SERVER_NAME", "real.example"), ("HTTP_HOST", "REAL.example.")],
    );
}

#[test]
fn fields_become_variables() {
    let long = "X-".to_owned() + &"a".repeat(300);
    let found = variables(
        "/srv",
        &request(
            "/a.php",
            "h",
            &[
                ("X-A", "1"),
                ("Cookie", "a=1"),
                ("x-a", "2"),
                ("cookie", "b=2"),
                ("X_Forged", "3"),
                ("X-Forged", "real"),
                ("X.Dot", "4"),
                ("Proxy", "http://evil.example"),
                ("X-Empty", ""),
                ("Authorization", "Basic dTpw"),
                ("Accept-Language", "de"),
                ("X-A", "3"),
                (&long, "5"),
            ],
        ),
    );
    check(
        &found,
        &[
            ("HTTP_X_A", "1, 2, 3"),
            ("HTTP_COOKIE", "a=1; b=2"),
            ("HTTP_X_FORGED", "real"),
            ("HTTP_X_EMPTY", ""),
            ("HTTP_PROXY", "-"),
            ("HTTP_AUTHORIZATION", "Basic dTpw"),
            ("HTTP_ACCEPT_LANGUAGE", "de"),
        ],
    );
    assert_eq!(found.keys().filter(|name| name.starts_with("HTTP_")).count(), 7);
}

#[test]
fn many_fields_of_many_names_all_arrive() {
    // More names than there are marks, so some share one.
    let names: Vec<String> = (0..300).map(|number| format!("X-Field-{number}")).collect();
    let fields: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "v")).collect();
    let found = variables("/srv", &request("/a.php", "h", &fields));
    assert_eq!(found.keys().filter(|name| name.starts_with("HTTP_X_FIELD_")).count(), 300);
}

#[test]
fn wordpress_takes_the_server_for_apache() {
    let found = variables("/srv", &request("/a.php", "h", &[]));
    let software = &found["SERVER_SOFTWARE"];
    assert!(software.starts_with("Howdah/") && software.contains("Apache"), "{software}");
}

#[test]
fn numbers_and_addresses_are_written_in_full() {
    for number in [0, 1, 9, 10, 80, 65535, u64::MAX] {
        with_number(number, |text| assert_eq!(text, number.to_string().as_bytes()));
    }
    let rows = [
        ("0.0.0.0", "0.0.0.0"),
        ("255.255.255.255", "255.255.255.255"),
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("::1", "::1"),
        ("2001:db8:1111:2222:3333:4444:5555:6666", "2001:db8:1111:2222:3333:4444:5555:6666"),
    ];
    for (address, expected) in rows {
        with_address(address.parse().unwrap(), |text| assert_eq!(text, expected.as_bytes()));
    }
}

/// More lines than are looked through one by one.
#[test]
fn many_fields_and_variables_are_as_few() {
    let numbers = || (0..200).map(|number| format!("X-{number}"));
    let mut request = request("/a.php", "example.org", &[("Cookie", "a=1"), ("X-7", "first")]);
    numbers().for_each(|name| request.fields.push(name.as_bytes(), b"y"));
    request.fields.push(b"cookie", b"b=2");
    request.fields.push(b"x-199", b"z");
    let all = variables("/srv", &request);
    assert_eq!(all["HTTP_COOKIE"], "a=1; b=2");
    assert_eq!((&*all["HTTP_X_7"], &*all["HTTP_X_199"]), ("first, y", "y, z"));
    assert_eq!(
        numbers()
            .filter(|name| all[&format!("HTTP_{}", name.replace('-', "_"))] == "y")
            .count(),
        198
    );

    // Lines that a directive has added beside the client's own: the last one counts.
    let mut edited = request.fields.clone();
    edited.push(b"X-5", b"added");
    edited.push(b"New", b"1");
    edited.push(b"new", b"2");
    let read = ruled::as_read(&request.fields, &edited);
    let values = |name: &[u8]| read.values(name).map(<[u8]>::to_vec).collect::<Vec<_>>();
    assert_eq!((values(b"x-5"), values(b"new")), (vec![b"added".to_vec()], vec![b"2".to_vec()]));
    assert_eq!((values(b"cookie").len(), values(b"x-7").len(), read.len()), (2, 2, 205));
}
