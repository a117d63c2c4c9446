//! Fields in which proxies describe their clients: the nodes of X-Forwarded-For and of similar
//! fields, and the elements of Forwarded (RFC 7239).
//!
//! These functions read. Whether a field is believed is the caller's decision.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv6Addr};

use crate::scan::{self, decimal, is_token, is_white, trim};

/// A client or a proxy, as a proxy names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForwardedNode {
    /// An address, and the port where it is given.
    Address(IpAddr, Option<u16>),
    /// `unknown`, or a name that the proxy has made up (`_hidden`).
    Hidden,
}

/// An element of Forwarded: what one proxy says. Parameters with other names are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForwardedElement<'v> {
    /// `for`: the node that made the request to the proxy.
    pub node: Option<Cow<'v, [u8]>>,
    /// `proto`: the scheme of that request.
    pub proto: Option<Cow<'v, [u8]>>,
    /// `host`: its Host field.
    pub host: Option<Cow<'v, [u8]>>,
}

impl ForwardedNode {
    /// Reads a node (RFC 7239 §6): `192.0.2.1`, `192.0.2.1:80`, `[2001:db8::1]`,
    /// `[2001:db8::1]:80`, `unknown` and `_name`. X-Forwarded-For has IPv6 addresses without
    /// brackets as well.
    ///
    /// # Errors
    /// The text is none of these.
    pub fn read(text: &[u8]) -> Result<ForwardedNode, &'static str> {
        if let Some(address) = address(text) {
            return Ok(ForwardedNode::Address(address, None));
        }
        let (name, port) = match text {
            [b'[', ..] => {
                let end = text.iter().position(|&byte| byte == b']').ok_or(NO_ADDRESS)?;
                (&text[..=end], &text[end + 1..])
            }
            _ => {
                let colon = text.iter().position(|&byte| byte == b':');
                text.split_at(colon.unwrap_or(text.len()))
            }
        };
        let port = match port {
            [] => None,
            [b':', b'_', hidden @ ..] if is_obfuscated(hidden) => None,
            [b':', digits @ ..] => Some(read_port(digits).ok_or("a port that is no number")?),
            _ => return Err(NO_ADDRESS),
        };
        match name {
            [b'[', inner @ .., b']'] => {
                let text = std::str::from_utf8(inner).map_err(|_| NO_ADDRESS)?;
                let address = text.parse::<Ipv6Addr>().map_err(|_| NO_ADDRESS)?;
                Ok(ForwardedNode::Address(address.to_canonical(), port))
            }
            [b'_', hidden @ ..] if is_obfuscated(hidden) => Ok(ForwardedNode::Hidden),
            _ if name.eq_ignore_ascii_case(b"unknown") => Ok(ForwardedNode::Hidden),
            _ => match address(name) {
                Some(address) => Ok(ForwardedNode::Address(address, port)),
                None => Err(NO_ADDRESS),
            },
        }
    }
}

const NO_ADDRESS: &str = "a name that is no address";

/// An address without brackets and port. IPv4 in an IPv6 form becomes IPv4.
fn address(text: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(text).ok()?;
    text.parse().ok().map(|address: IpAddr| address.to_canonical())
}

/// RFC 7239 §6.3, behind the underscore.
fn is_obfuscated(name: &[u8]) -> bool {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-".contains(byte);
    !name.is_empty() && name.iter().all(plain)
}

/// Reads a port in decimal, from 1 to 65535. `None` for anything else.
pub fn read_port(digits: &[u8]) -> Option<u16> {
    let port = if digits.len() <= 5 { decimal(digits) } else { None };
    port.and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0)
}

/// Parameters of an element. RFC 7239 has four; each is compared with those before it.
const MOST_PARAMETERS: usize = 16;

/// Appends the elements of one line of Forwarded to `elements`.
///
/// # Errors
/// The line is malformed: no grammar tells which parts of it a proxy has written.
pub fn elements<'v>(
    value: &'v [u8],
    elements: &mut Vec<ForwardedElement<'v>>,
) -> Result<(), &'static str> {
    let mut rest = value;
    loop {
        let mut element = ForwardedElement::default();
        let mut seen: Vec<&[u8]> = Vec::new();
        // RFC 7239 §4: element = [ pair ] *( ";" [ pair ] ); lists may have empty members.
        loop {
            rest = skip_white(rest);
            if let Some((name, value, after)) = pair(rest)? {
                if seen.iter().any(|former| former.eq_ignore_ascii_case(name)) {
                    return Err("a parameter twice in an element of Forwarded");
                }
                if seen.len() == MOST_PARAMETERS {
                    return Err("an element of Forwarded with more than 16 parameters");
                }
                seen.push(name);
                element.note(name, value);
                rest = skip_white(after);
            }
            match rest {
                [b';', after @ ..] => rest = after,
                _ => break,
            }
        }
        if !seen.is_empty() {
            elements.push(element);
        }
        match rest {
            [] => return Ok(()),
            [b',', after @ ..] => rest = after,
            _ => return Err("a byte in Forwarded that fits no element"),
        }
    }
}

impl<'v> ForwardedElement<'v> {
    fn note(&mut self, name: &[u8], value: Cow<'v, [u8]>) {
        let place = match name.len() {
            3 if name.eq_ignore_ascii_case(b"for") => &mut self.node,
            5 if name.eq_ignore_ascii_case(b"proto") => &mut self.proto,
            4 if name.eq_ignore_ascii_case(b"host") => &mut self.host,
            _ => return,
        };
        *place = Some(value);
    }
}

type ForwardedPair<'v> = (&'v [u8], Cow<'v, [u8]>, &'v [u8]);

/// Reads `token=value`, where `value` is a token or a quoted string, and returns name, value and
/// what follows. `None` where there is no pair.
fn pair(bytes: &[u8]) -> Result<Option<ForwardedPair<'_>>, &'static str> {
    let name = scan::token_run(bytes);
    if name == 0 {
        return Ok(None);
    }
    let (name, rest) = bytes.split_at(name);
    match rest {
        [b'=', b'"', quoted @ ..] => {
            let (value, after) = unquoted(quoted)?;
            Ok(Some((name, value, after)))
        }
        [b'=', rest @ ..] => {
            // Addresses with brackets or a port should be quoted and often are not.
            let plain = |byte: &u8| !b";,\"".contains(byte) && !is_white(*byte);
            let end = rest.iter().position(|byte| !plain(byte)).unwrap_or(rest.len());
            let (value, after) = rest.split_at(end);
            if value.is_empty()
                || !value.iter().all(|byte| is_token(&[*byte]) || b":[]".contains(byte))
            {
                return Err("a value in Forwarded that is neither a token nor quoted");
            }
            Ok(Some((name, Cow::Borrowed(value), after)))
        }
        _ => Err("a name in Forwarded without a value"),
    }
}

/// Reads a quoted string (RFC 9110 §5.6.4) behind its first quote. Returns the text and what
/// follows.
fn unquoted(bytes: &[u8]) -> Result<(Cow<'_, [u8]>, &[u8]), &'static str> {
    let mut text = Vec::new();
    let mut rest = bytes.iter().enumerate();
    while let Some((at, &byte)) = rest.next() {
        match byte {
            b'"' if text.len() == at => {
                return Ok((Cow::Borrowed(&bytes[..at]), &bytes[at + 1..]));
            }
            b'"' => return Ok((Cow::Owned(text), &bytes[at + 1..])),
            b'\\' => match rest.next() {
                Some((_, &escaped)) => text.push(escaped),
                None => break,
            },
            _ => text.push(byte),
        }
    }
    Err("a quoted string in Forwarded that does not end")
}

fn skip_white(bytes: &[u8]) -> &[u8] {
    let skipped = bytes.iter().take_while(|byte| is_white(**byte)).count();
    &bytes[skipped..]
}

/// Returns the members of a list of nodes over several lines, the last one first. Empty members are
/// skipped.
pub fn members_from_the_end<'v>(lines: &[&'v [u8]]) -> impl Iterator<Item = &'v [u8]> {
    lines
        .iter()
        .rev()
        .flat_map(|line| line.rsplit(|&byte| byte == b','))
        .map(trim)
        .filter(|member| !member.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes() {
        type Row = (&'static str, Option<(&'static str, Option<u16>)>);
        let rows: [Row; 12] = [
            ("192.0.2.1", Some(("192.0.2.1", None))),
            ("192.0.2.1:80", Some(("192.0.2.1", Some(80)))),
            ("192.0.2.1:_x", Some(("192.0.2.1", None))),
            ("2001:db8::1", Some(("2001:db8::1", None))),
            ("[2001:DB8::1]", Some(("2001:db8::1", None))),
            ("[2001:db8::1]:65535", Some(("2001:db8::1", Some(65535)))),
            ("::ffff:192.0.2.1", Some(("192.0.2.1", None))),
            ("[::ffff:192.0.2.1]:1", Some(("192.0.2.1", Some(1)))),
            ("unknown", None),
            ("UNKNOWN:80", None),
            ("_hidden", None),
            ("_a.b-c_d:_e", None),
        ];
        for (text, expected) in rows {
            let expected = expected.map_or(ForwardedNode::Hidden, |(address, port)| {
                ForwardedNode::Address(address.parse().unwrap(), port)
            });
            assert_eq!(ForwardedNode::read(text.as_bytes()), Ok(expected), "{text}");
        }
        for text in [
            "",
            " ",
            "localhost",
            "a.example",
            "192.0.2",
            "192.0.2.1:",
            "192.0.2.1:0",
            "192.0.2.1:65536",
            "192.0.2.1:000080",
            "192.0.2.1:+80",
            "192.0.2.1:x",
            "192.0.2.256",
            "0192.0.2.1",
            "[::1",
            "[::1]x",
            "[::1]:",
            "::1]",
            "[192.0.2.1]",
            "_",
            "_a b",
            "unknown:",
            "192.0.2.1, 192.0.2.2",
            "fe80::1%eth0",
            "\"192.0.2.1\"",
            "192.0.2.1:_",
            "\u{661}92.0.2.1",
        ] {
            assert!(ForwardedNode::read(text.as_bytes()).is_err(), "{text}");
        }
    }

    fn shown(value: &str) -> Result<Vec<String>, &'static str> {
        let mut found = Vec::new();
        elements(value.as_bytes(), &mut found)?;
        let text = |part: &Option<Cow<'_, [u8]>>| {
            part.as_ref()
                .map_or("-".into(), |part| String::from_utf8_lossy(part).into_owned())
        };
        let shown = |element: &ForwardedElement<'_>| {
            [&element.node, &element.proto, &element.host].map(text).join(" ")
        };
        Ok(found.iter().map(shown).collect())
    }

    #[test]
    fn forwarded_elements() {
        let rows: [(&str, &[&str]); 13] = [
            ("", &[]),
            (" , ,;;,", &[]),
            ("for=192.0.2.1", &["192.0.2.1 - -"]),
            ("For=\"[2001:db8::1]:47\";PROTO=https", &["[2001:db8::1]:47 https -"]),
            ("for=192.0.2.1:80 ; proto=http ;by=x", &["192.0.2.1:80 http -"]),
            ("for=a, for=b;host=\"a.example:8080\"", &["a - -", "b - a.example:8080"]),
            ("for=\"a\\\"b\\\\c\"", &["a\"b\\c - -"]),
            ("for=\"a,b;c\"", &["a,b;c - -"]),
            ("by=x;secret=\"y\"", &["- - -"]),
            ("host=a.example:8080", &["- - a.example:8080"]),
            ("for=\"\"", &[" - -"]),
            ("for=_x;;proto=https;", &["_x https -"]),
            ("for=4;proto=5;host=6;far=1;prato=2;hast=3", &["4 5 6"]),
        ];
        for (value, expected) in rows {
            assert_eq!(shown(value).unwrap(), expected, "{value}");
        }
        for value in [
            "for",
            "for=",
            "=a",
            "for=a b",
            "for=\"a",
            "for=\"a\\",
            "for=\"a\"b",
            "for = a",
            "for=a;for=b",
            "for=a;FOR=b",
            "for=a=b",
            "for=a/b",
            "\"a\"",
            "for=a,b",
        ] {
            assert!(shown(value).is_err(), "{value}");
        }
    }

    #[test]
    fn an_element_has_at_most_16_parameters() {
        let parameters = |count: usize| {
            let all: Vec<String> = (0..count).map(|number| format!("p{number}=x")).collect();
            shown(&format!("for=a,{}", all.join(";"))).map(|found| found.len())
        };
        assert_eq!(parameters(16), Ok(2));
        assert!(parameters(17).is_err());
    }

    #[test]
    fn lists_are_read_from_their_end() {
        let lines: [&[u8]; 3] = [b"a, b", b"", b" ,c ,, d,"];
        let found: Vec<&[u8]> = members_from_the_end(&lines).collect();
        assert_eq!(found, [b"d", b"c", b"b", b"a"]);
    }
}
