//! Limits, and when parsing again is worth it.

use super::*;

/// At each limit a request passes, one byte beyond it is refused, at once and byte by byte.
#[test]
fn limits() {
    let limits = Limits {
        request_line: 40,
        field_line: 50,
        fields_total: 120,
        field_count: 4,
        body: 10,
    };
    let head = |target: usize, values: &[usize]| {
        let mut head = format!("GET /{} HTTP/1.1\r\nHost: h\r\n", "t".repeat(target));
        values
            .iter()
            .for_each(|length| head += &format!("X: {}\r\n", "v".repeat(*length)));
        head + "\r\n"
    };
    // GET / HTTP/1.1 are 14 bytes, `Host: h` 9 with its CRLF, `X: ` 3 and 5 with its CRLF.
    type Row = (usize, &'static [usize], Option<(u16, &'static str)>);
    let table: [Row; 9] = [
        (26, &[], None),
        (27, &[], Some((414, "request line"))),
        (0, &[47], None),
        (0, &[48], Some((431, "field line over"))),
        (0, &[0, 0, 0], None),
        (0, &[0, 0, 0, 0], Some((431, "more field lines"))),
        (0, &[47, 47], None),
        (0, &[47, 47, 2], None),
        (0, &[47, 47, 3], Some((431, "together"))),
    ];
    for (target, values, refused) in table {
        let head = head(target, values);
        let outcome = parse_within(head.as_bytes(), &limits).map(|(progress, _)| progress);
        let bytewise = (0..=head.len())
            .map(|end| parse_within(&head.as_bytes()[..end], &limits).map(|(progress, _)| progress))
            .find(|outcome| *outcome != Ok(HeadProgress::Incomplete));
        assert_eq!(bytewise, Some(outcome), "{head}");
        match (outcome, refused) {
            (Ok(HeadProgress::Complete(_)), None) => {}
            (Err(refusal), Some((status, why))) => {
                assert_eq!(refusal.status.code(), status, "{head}");
                assert!(refusal.why.contains(why), "{head}: {refusal}");
            }
            (outcome, _) => panic!("{head}: {outcome:?}"),
        }
    }
}

#[test]
fn a_line_that_never_ends_is_refused_at_its_limit() {
    let limits = Limits {
        request_line: 40,
        field_line: 50,
        ..Limits::default()
    };
    let mut line = b"GET /".to_vec();
    line.resize(40 + 2, b'a');
    assert_eq!(parse_within(&line, &limits).unwrap_err().status.code(), 414);
    let mut name = b"GET / HTTP/1.1\r\n".to_vec();
    name.resize(16 + 50 + 2, b'a');
    assert_eq!(parse_within(&name, &limits).unwrap_err().status.code(), 431);
}

#[test]
fn parsing_again_is_worth_it_only_at_the_end_of_a_line_or_over_a_limit() {
    let limits = Limits {
        request_line: 20,
        field_line: 30,
        fields_total: 60,
        ..Limits::default()
    };
    let table: [(&[u8], usize, bool); 13] = [
        (b"GET /", 0, true),
        (b"GET / ", 5, false),
        (b"GET / HTTP/1.1\r", 5, false),
        (b"GET / HTTP/1.1\r\n", 15, true),
        (b"GET / HTTP/1.1\r\nHost: h", 16, false),
        (b"GET / HTTP/1.1\r\nHost: h\r\n\r\n", 17, true),
        (b"GET /0123456789abcde", 19, false),
        (b"GET /0123456789abcdef", 20, true),
        (b"GET / HTTP/1.1\r\nA: 0123456789abcdefg", 17, false),
        (b"GET / HTTP/1.1\r\nA: 0123456789abcdefgh", 17, true),
        (b"GET / HTTP/1.1\r\nA: 0123456789\r\nB: 0123456789\r\nC: 0123456789a", 50, false),
        (b"GET / HTTP/1.1\r\nA: 0123456789\r\nB: 0123456789\r\nC: 0123456789ab", 50, true),
        (b"a", 9, false),
    ];
    for (buf, seen, worth) in table {
        assert_eq!(worth_parsing(buf, seen, &limits), worth, "{}", buf.escape_ascii());
    }
}
