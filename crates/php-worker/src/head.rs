//! Converts the header lines that a script has set to the head of a response.
//!
//! The status is the one that was set last: with `http_response_code()`, a status line, a `Status:`
//! field as in CGI (RFC 3875 §6.3), or by PHP for a `Location`. A field that follows a status line
//! does nothing unless the line's code is 200, as with Apache's module and with php-fpm. A script
//! removes the Content-Type with `header('Content-Type:')`. A 304 keeps it up to the front, where
//! directives depend on it.
//!
//! With a status of 1xx the lines are an interim response, such as 103 (Early Hints, RFC 8297).
//! Another response follows, with the same lines and those that the script adds.

/// The response head that a script has set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScriptHead<'h, L> {
    /// Status code, not checked.
    pub status: u16,
    /// Reason phrase, empty for the standard one.
    pub reason: &'h [u8],
    lines: &'h [L],
    is_interim: bool,
}

/// Returns whether a response with this code is an interim one. A 101 is no response of a script's.
pub fn is_interim(code: i32) -> bool {
    (100..200).contains(&code) && code != 101
}

impl<'h, L: AsRef<[u8]>> ScriptHead<'h, L> {
    /// Interprets PHP's response code, the status line if the script has set one, and the header
    /// lines.
    pub fn interpret(
        code: i32,
        status_line: Option<&'h [u8]>,
        lines: &'h [L],
    ) -> ScriptHead<'h, L> {
        let status = u16::try_from(code).unwrap_or(500);
        let from_field = || lines.iter().find_map(|line| of_field(line.as_ref()));
        // A line with another number was there before the code was set.
        let is_last = |found: &(u16, &[u8])| found.0 == status;
        let found = status_line.and_then(of_line).filter(is_last);
        let found = found.or_else(|| from_field().filter(is_last));
        let (_, reason) = found.unwrap_or((status, b""));
        ScriptHead { status, reason, lines, is_interim: false }
    }

    /// An informational head. Its code is `code`, whatever the header lines say about the final
    /// response. It has no content, thus no type of content.
    pub fn interim(code: i32, lines: &'h [L]) -> ScriptHead<'h, L> {
        ScriptHead {
            status: u16::try_from(code).unwrap_or(103),
            reason: b"",
            lines,
            is_interim: true,
        }
    }

    /// Name and value of each field line, in order.
    pub fn fields(&self) -> impl Iterator<Item = (&'h [u8], &'h [u8])> + use<'h, L> {
        let is_interim = self.is_interim;
        let is_sent = move |&(name, value): &(&[u8], &[u8])| {
            let is_type = name.eq_ignore_ascii_case(b"Content-Type");
            let is_length = name.eq_ignore_ascii_case(b"Content-Length");
            !(name.eq_ignore_ascii_case(b"Status")
                || is_type && value.is_empty()
                || is_interim && (is_type || is_length))
        };
        self.lines.iter().filter_map(|line| field(line.as_ref())).filter(is_sent)
    }
}

/// The status that a `Status:` field has set, so that it goes with the field.
#[derive(Debug, Clone, Copy, Default)]
pub struct StatusField {
    /// The code before the field, and the one that the field has set.
    codes: Option<(i32, i32)>,
}

impl StatusField {
    /// Returns the response code after a header line was added, which was `code` before.
    pub fn added(&mut self, line: &[u8], code: i32, status_line: Option<&[u8]>) -> i32 {
        let Some((number, _)) = of_field(line) else {
            return code;
        };
        if code != 200
            && status_line.and_then(of_line).is_some_and(|(found, _)| i32::from(found) == code)
        {
            return code;
        }
        let before = self.codes.filter(|(_, set)| *set == code).map_or(code, |(before, _)| before);
        self.codes = Some((before, number.into()));
        number.into()
    }

    /// Returns the response code after the fields of this name, or all of them, were removed.
    pub fn removed(&mut self, name: Option<&[u8]>, code: i32) -> i32 {
        if name.is_some_and(|name| !name.eq_ignore_ascii_case(b"Status")) {
            return code;
        }
        self.codes
            .take()
            .filter(|(_, set)| *set == code)
            .map_or(code, |(before, _)| before)
    }
}

/// Number and reason of a status line.
fn of_line(line: &[u8]) -> Option<(u16, &[u8])> {
    let (version, rest) = line.split_at_checked(line.iter().position(|&byte| byte == b' ')?)?;
    version
        .get(..5)?
        .eq_ignore_ascii_case(b"HTTP/")
        .then(|| number_and_reason(rest))?
}

/// Number and reason of a `Status:` field; `None` for another field.
fn of_field(line: &[u8]) -> Option<(u16, &[u8])> {
    let (name, value) = field(line)?;
    name.eq_ignore_ascii_case(b"Status").then(|| number_and_reason(value))?
}

/// Splits a header line into name and value; `None` for a line without a colon or without a name.
fn field(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = line.iter().position(|&byte| byte == b':').filter(|&colon| colon > 0)?;
    Some((&line[..colon], line[colon + 1..].trim_ascii()))
}

/// Splits `404 Not Found` into 404 and `Not Found`.
fn number_and_reason(text: &[u8]) -> Option<(u16, &[u8])> {
    let text = text.trim_ascii();
    let (number, reason) = text.split_at_checked(3)?;
    let number: u16 = std::str::from_utf8(number).ok()?.parse().ok()?;
    let reason_begins = reason.first().is_none_or(|&byte| byte == b' ');
    ((100..=999).contains(&number) && reason_begins).then(|| (number, reason.trim_ascii()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_comes_from_line_field_or_code() {
        type Case = (i32, Option<&'static str>, &'static [&'static str], u16, &'static str);
        let cases: [Case; 13] = [
            (200, None, &[], 200, ""),
            (404, None, &[], 404, ""),
            (404, Some("HTTP/1.1 404 Nope"), &[], 404, "Nope"),
            (404, Some("HTTP/1.1 404"), &[], 404, ""),
            (200, Some("HTTP/1.0 200 Fine"), &[], 200, "Fine"),
            (418, None, &["Status: 418 Teapot"], 418, "Teapot"),
            (404, None, &["Location: /", "status:  404  Not Found"], 404, "Not Found"),
            (
                500,
                Some("HTTP/1.0 500 Internal Server Error"),
                &["Status: 404"],
                500,
                "Internal Server Error",
            ),
            (404, Some("HTTP/1.1 200 OK"), &["Status: 404"], 404, ""),
            // Lines that were set before the code.
            (410, Some("HTTP/1.1 404 Nope"), &[], 410, ""),
            (302, Some("HTTP/1.1 200 OK"), &["Status: 404 Nope", "Location: /"], 302, ""),
            (200, Some("HTTP/1.1 huh"), &["Status: huh"], 200, ""),
            (99_999, None, &[], 500, ""),
        ];
        for (code, line, lines, status, reason) in cases {
            let head = ScriptHead::interpret(code, line.map(str::as_bytes), lines);
            assert_eq!(
                (head.status, head.reason),
                (status, reason.as_bytes()),
                "{code} {line:?} {lines:?}"
            );
        }
    }

    #[test]
    fn a_status_field_goes_as_it_came() {
        let mut field = StatusField::default();
        let nope = Some(&b"HTTP/1.1 404 Nope"[..]);
        assert_eq!(field.added(b"Status: huh", 200, None), 200);
        assert_eq!(field.added(b"Status-Code: 503", 200, None), 200);
        assert_eq!(field.added(b"Status: 503 Busy", 404, nope), 404);
        assert_eq!(field.removed(None, 404), 404);
        assert_eq!(field.added(b"status:503", 410, nope), 503);
        assert_eq!(field.added(b"Status: 502 Bad", 503, None), 502);
        assert_eq!(field.removed(Some(b"State"), 502), 502);
        assert_eq!(field.removed(Some(b"status"), 502), 410);
        assert_eq!(field.removed(None, 410), 410);
        field.added(b"Status: 503", 200, None);
        assert_eq!(field.removed(None, 302), 302);
    }

    #[test]
    fn fields_are_the_lines_that_are_fields() {
        let lines = [
            "X-A: 1",
            "Set-Cookie:a=1",
            "Set-Cookie: b=2 ",
            "junk",
            ": x",
            "Status: 404 X",
            "Empty:",
        ];
        let fields: Vec<_> = ScriptHead::interpret(200, None, &lines).fields().collect();
        let expected: [(&[u8], &[u8]); 4] =
            [(b"X-A", b"1"), (b"Set-Cookie", b"a=1"), (b"Set-Cookie", b"b=2"), (b"Empty", b"")];
        assert_eq!(fields, expected);
    }

    #[test]
    fn an_interim_head_says_nothing_about_content() {
        let lines =
            ["Content-type: text/html", "content-length: 5", "Link: </a.css>", "Status: 103"];
        let head = ScriptHead::interim(103, &lines);
        assert_eq!((head.status, head.reason), (103, &b""[..]));
        let fields: Vec<_> = head.fields().collect();
        assert_eq!(fields, [(&b"Link"[..], &b"</a.css>"[..])]);
        let codes = [99, 100, 101, 102, 103, 199, 200, 404];
        let interim: Vec<_> = codes.into_iter().filter(|code| is_interim(*code)).collect();
        assert_eq!(interim, [100, 102, 103, 199]);
    }

    #[test]
    fn an_empty_content_type_is_none() {
        assert_eq!(ScriptHead::interpret(200, None, &["Content-Type:"]).fields().count(), 0);
    }
}
