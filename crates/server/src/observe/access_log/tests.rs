use howdah_php::ScriptRun;

use super::*;

fn lines(
    format: impl Fn(&mut LineBuffer, &RequestRecord<'_>),
    request: &Request,
    sent: u64,
) -> String {
    let peer = Peer::new(([192, 0, 2, 7], 4000).into(), ([192, 0, 2, 1], 8080).into());
    let mut head = ResponseHead::new(Status::NOT_FOUND);
    head.fields.push(b"Content-Type", b"text/html; charset=utf-8");
    head.fields.push(b"X-Own", b"a\tb");
    let mut notes = ResolutionNotes {
        file: b"/srv/a".to_vec(),
        handler: b"application/x-httpd-php".to_vec(),
        run: RunReport::default(),
        first_byte: Some(Duration::from_micros(1234)),
        ..ResolutionNotes::default()
    };
    notes.notes.push(b"Cart", b"full\n");
    notes.run.set(Some(ScriptRun {
        worker: 4711,
        waited: 20_000,
        took: Some(1_300_999),
        peak: Some(2 << 20),
        processor: None,
    }));
    notes.environment.push(b"SEEN", b"first");
    notes.environment.push(b"SEEN", b"");
    notes.environment.push(b"KIND", b"robot");
    let record = RequestRecord {
        site: "shop",
        encoded_slashes: EncodedSlashes::Refuse,
        peer: &peer,
        began: WallTime { microseconds: 784_111_777_000_000 },
        took: Duration::from_micros(1500),
        request,
        response: RecordedResponse {
            head: &head,
            excuse: None,
            is_made: false,
            length: Some(sent),
            user: None,
            notes: Some(&notes),
        },
        sent,
        complete: true,
        connection: ConnectionFacts {
            received: 100,
            sent: sent + 200,
            earlier: 2,
            persists: true,
        },
    };
    let mut out = LineBuffer::default();
    format(&mut out, &record);
    String::from_utf8(out.bytes).unwrap()
}

fn request() -> Request {
    let mut request = Request {
        target: b"/a?b=1".to_vec(),
        authority: b"a.example".to_vec(),
        ..Request::new()
    };
    request.fields.push(b"User-Agent", b"x\"y\\\xff\n");
    request.fields.push(b"Cookie", b"a=1; b = two ;c");
    request
}

#[test]
fn combined_is_what_apache_writes() {
    let expected = "192.0.2.7 - - [06/Nov/1994:08:49:37 +0000] \"GET /a?b=1 HTTP/1.1\" 404 12 \
        \"-\" \"x\\\"y\\\\\\xff\\n\"\n";
    assert_eq!(lines(combined, &request(), 12), expected);
    assert!(lines(combined, &request(), 0).contains(" 404 - "));
}

#[test]
fn no_value_of_a_client_makes_a_long_line() {
    let mut request = request();
    request.target = format!("/{}", "a".repeat(8189)).into_bytes();
    request.fields.push(b"Referer", &b"\xff".repeat(60_000));
    request.fields.push(b"X-Long", b"b".repeat(LONGEST_VALUE).as_slice());
    (0..100).for_each(|_| request.fields.push(b"X-Many", &b"b".repeat(4000)));
    let line = lines(combined, &request, 12);
    assert!(line.contains(&format!("GET /{} HTTP/1.1", "a".repeat(8189))), "a usual one is whole");
    assert!(line.contains(r#"\xff..." "x\"y"#), "{line}");
    assert!(line.len() < 2 * LONGEST_VALUE + 200, "{}", line.len());
    let line = lines(json::line, &request, 12);
    assert!(line.contains(r#"\\xff...","user_agent":"x\"y"#), "{line}");
    assert!(line.len() < 2 * LONGEST_VALUE + 600, "{}", line.len());
    let own = |format: &str| {
        let text = format!("[log]\nformat = \"{format}\"\n[[site]]\nroot = \"/srv\"");
        let config = howdah_config::Config::parse(&text, "x.toml").expect("a right format");
        let format = config.log.format.own().cloned().expect("a format of one's own");
        lines(|out, record| own::line(out, &format, record, 0), &request, 12)
    };
    assert_eq!(own("%{X-Long}i"), format!("{}\n", "b".repeat(LONGEST_VALUE)));
    let many = own("%{X-Many}i");
    assert!(many.ends_with("...\n") && many.len() < LONGEST_VALUE + 20, "{}", many.len());
}

#[test]
fn many_long_values_of_a_client_make_no_long_line() {
    let mut request = request();
    let long = b"\xff".repeat(60_000);
    request.target = [b"/", &long[..]].concat();
    request.authority.clone_from(&long);
    request.fields = Fields::new();
    request.fields.push(b"Referer", &long);
    request.fields.push(b"User-Agent", &long);
    let line = lines(combined, &request, 12);
    assert!(line.ends_with("...\"\n") && line.len() < 17 * 1024, "{}", line.len());
    let line = lines(json::line, &request, 12);
    assert!(serde_json::from_str::<serde_json::Value>(&line).is_ok(), "{line}");
    assert!(line.len() < 18 * 1024, "{}", line.len());
}

#[test]
fn json_is_one_valid_object() {
    let line = lines(json::line, &request(), 12);
    assert!(
        line.contains("\"status\":404,\"sent\":12,\"complete\":true,\"microseconds\":1500"),
        "{line}"
    );
    assert!(line.contains(r#""user_agent":"x\"y\\\\xff\u000a""#), "{line}");
    let of_script = "\"php_microseconds\":1300,\"queue_microseconds\":20,\
        \"cpu_microseconds\":null,\"peak_memory\":2097152,\"worker\":4711}";
    assert!(line.contains(of_script), "{line}");
    assert!(serde_json::from_str::<serde_json::Value>(&line).is_ok(), "{line}");
    assert_eq!(line.matches('\n').count(), 1);
}

#[test]
fn no_byte_beyond_ascii_gets_into_a_line() {
    let mut request = Request {
        target: b"/\xe9\xc3\xa9\xf0\x9f\x90\x98?\x80".to_vec(),
        ..Request::new()
    };
    request.fields.push(b"Referer", b"\xc3\xa9");
    let line = lines(json::line, &request, 1);
    let expected = r#""target":"/\\xe9\u00e9\ud83d\udc18?\\x80""#;
    assert!(line.contains(expected) && line.is_ascii(), "{line}");
    let line = lines(combined, &request, 1);
    let expected = r#""GET /\xe9\xc3\xa9\xf0\x9f\x90\x98?\x80 HTTP/1.1""#;
    assert!(line.contains(expected) && line.is_ascii(), "{line}");
}

#[test]
fn formats_of_ones_own() {
    let own = |format: &str, request: &Request| {
        let format = format.replace('\\', "\\\\").replace('"', "\\\"");
        let text = format!("[log]\nformat = \"{format}\"\n[[site]]\nroot = \"/srv\"");
        let config = howdah_config::Config::parse(&text, "x.toml").expect("a right format");
        let AccessFormat::Own(format) = config.log.format else {
            panic!("{text}");
        };
        lines(|out, record| own::line(out, &format, record, 0), request, 12)
    };
    let combined_of_ones_own = r#"%h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i""#;
    assert_eq!(own(combined_of_ones_own, &request()), lines(combined, &request(), 12));
    let rows = [
        ("common", "192.0.2.7 - - [06/Nov/1994:08:49:37 +0000] \"GET /a?b=1 HTTP/1.1\" 404 12"),
        ("%v:%p %V %{canonical}p", "shop:8080 a.example 8080"),
        ("%{local}p %{remote}p %A %{c}a", "8080 4000 192.0.2.1 192.0.2.7"),
        ("%m %U %q %H", "GET /a ?b=1 HTTP/1.1"),
        ("%D %T %{ms}T %B %X", "1500 0 1 12 +"),
        ("%I %O %S %k", "100 212 312 2"),
        ("%{content-type}o %{Content-Length}o %{x-own}o %{None}o", "text/html 12 a\\tb -"),
        ("%f %R [%{SEEN}e] %{KIND}e %{NONE}e", "/srv/a application/x-httpd-php [] robot -"),
        ("%{a}C %{B}C %{c}C", "1 two -"),
        ("%^pt %^pq %^pm %^pc %^pw", "1300 20 2097152 - 4711"),
        ("%{sec}t %{msec}t %{usec}t", "784111777 784111777000 784111777000000"),
        ("100%% %{user-agent}i", "100% x\\\"y\\\\\\xff\\n"),
        ("%{begin}t %{end:msec_frac}t", "[06/Nov/1994:08:49:37 +0000] 001"),
        ("%{%F %T}t.%{usec_frac}t", "1994-11-06 08:49:37.000000"),
        ("%{end:usec}t %{end:usec_frac}t", "784111777001500 001500"),
        ("%400,404{X-Own}o %!404{X-Own}o %!200,304b %200b", "a\\tb - 12 -"),
        ("%^FB %{cart}n %{none}n %L %{X}^to", "1234 full\\n - - -"),
        ("%{SSL_PROTOCOL}x %{cipher}c %{HTTPS}x", "- - off"),
    ];
    for (format, expected) in rows {
        assert_eq!(own(format, &request()), format!("{expected}\n"), "{format}");
    }
    let threads = own("%{tid}P %{hextid}P", &request());
    let (decimal, hexadecimal) = threads.trim().split_once(' ').unwrap();
    let thread = decimal.parse::<u64>().expect("a number");
    assert_eq!(u64::from_str_radix(hexadecimal, 16), Ok(thread));
    // A head that could not be read.
    assert_eq!(own("\"%r\" %U%q %V %{a}i", &Request::new()), "\"-\" - - -\n");
}

#[test]
fn only_variables_that_the_format_tells_are_held_and_long_ones_are_cut() {
    let mut set = Fields::new();
    let long = vec![b'x'; 3 * LONGEST_VALUE];
    for (name, value) in [(&b"KIND"[..], &b"first"[..]), (b"kind", b"last"), (b"Other", b"o")] {
        set.push(name, value);
    }
    set.push(b"LONG", &long);
    let mut told = Fields::new();
    add_told(["KIND", "LONG", "MISSING"].into_iter(), &set, &mut told);
    assert_eq!(told.values(b"KIND").collect::<Vec<_>>(), [b"last"]);
    assert_eq!(told.value(b"LONG").map(<[u8]>::len), Some(LONGEST_VALUE + 1));
    assert_eq!(told.len(), 2);
}
