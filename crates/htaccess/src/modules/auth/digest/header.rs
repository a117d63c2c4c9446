//! What a client sends in Authorization.

use howdah_http::Request;

use crate::language::is_space;

/// What a client has sent.
pub(super) enum Sent {
    Nothing,
    OtherScheme,
    /// A parameter that must be there is not.
    Invalid,
    Valid(Box<Response>),
}

/// The parameters of a Digest, quotes removed.
#[derive(Debug, Default)]
pub(super) struct Response {
    pub username: Vec<u8>,
    pub realm: Vec<u8>,
    pub nonce: Vec<u8>,
    pub uri: Vec<u8>,
    pub response: Vec<u8>,
    pub algorithm: Option<Vec<u8>>,
    pub cnonce: Option<Vec<u8>>,
    pub opaque: Option<Vec<u8>>,
    pub qop: Option<Vec<u8>>,
    pub nc: Option<Vec<u8>>,
}

impl Response {
    /// From the request as it came: internal redirects are authenticated by the client's own URL.
    pub(super) fn of(request: &Request) -> Sent {
        let Some(field) = request.fields.value(b"Authorization") else {
            return Sent::Nothing;
        };
        let end = field
            .iter()
            .position(|byte| is_space(*byte))
            .unwrap_or(field.len());
        let (scheme, parameters) = field.split_at(end);
        if !scheme.eq_ignore_ascii_case(b"digest") {
            return Sent::OtherScheme;
        }
        Response::parse(parameters).map_or(Sent::Invalid, |response| Sent::Valid(Box::new(response)))
    }

    fn parse(parameters: &[u8]) -> Option<Response> {
        let mut response = Response::default();
        let (mut username, mut realm, mut nonce, mut uri, mut digest) = (None, None, None, None, None);
        let mut rest = parameters;
        while !rest.is_empty() {
            let (name, value) = next_parameter(&mut rest);
            let place = match &name.to_ascii_lowercase()[..] {
                b"username" => &mut username,
                b"realm" => &mut realm,
                b"nonce" => &mut nonce,
                b"uri" => &mut uri,
                b"response" => &mut digest,
                b"algorithm" => &mut response.algorithm,
                b"cnonce" => &mut response.cnonce,
                b"opaque" => &mut response.opaque,
                b"qop" => &mut response.qop,
                b"nc" => &mut response.nc,
                _ => continue,
            };
            *place = Some(value);
        }
        if response.qop.is_some() && (response.cnonce.is_none() || response.nc.is_none()) {
            return None;
        }
        Some(Response {
            username: username?,
            realm: realm?,
            nonce: nonce?,
            uri: uri?,
            response: digest?,
            ..response
        })
    }

    pub(super) fn nc(&self) -> &[u8] {
        self.nc.as_deref().unwrap_or_default()
    }

    pub(super) fn cnonce(&self) -> &[u8] {
        self.cnonce.as_deref().unwrap_or_default()
    }
}

/// Whether it is a hexadecimal number other than 0, or begins with one, as Apache's are.
pub(super) fn is_opaque(opaque: &[u8]) -> bool {
    let digits = opaque.iter().take_while(|byte| byte.is_ascii_hexdigit());
    digits.copied().any(|digit| digit != b'0')
}

/// Takes a parameter and the comma behind it off `rest`. What is none has an empty name.
fn next_parameter(rest: &mut &[u8]) -> (Vec<u8>, Vec<u8>) {
    skip_space(rest);
    let name = take_while(rest, |byte| byte != b'=' && byte != b',' && !is_space(byte));
    skip_space(rest);
    let mut value = Vec::new();
    if let Some(after) = rest.strip_prefix(b"=") {
        *rest = after;
        skip_space(rest);
        value = match rest.strip_prefix(b"\"") {
            Some(after) => {
                *rest = after;
                quoted_string(rest)
            }
            None => take_while(rest, |byte| byte != b',' && !is_space(byte)),
        };
    }
    take_while(rest, |byte| byte != b',');
    *rest = rest.get(1..).unwrap_or_default();
    (name, value)
}

fn quoted_string(rest: &mut &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    while let Some((byte, after)) = rest.split_first() {
        *rest = after;
        match byte {
            b'"' => break,
            b'\\' if !rest.is_empty() => {
                text.push(rest[0]);
                *rest = &rest[1..];
            }
            byte => text.push(*byte),
        }
    }
    text
}

fn skip_space(rest: &mut &[u8]) {
    take_while(rest, is_space);
}

fn take_while(rest: &mut &[u8], is_part: impl Fn(u8) -> bool) -> Vec<u8> {
    let end = rest.iter().position(|byte| !is_part(*byte)).unwrap_or(rest.len());
    let (part, after) = rest.split_at(end);
    *rest = after;
    part.to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_read() {
        let text = br#"  username="a \"b\" c" , realm=plain,nonce="n=1,2", URI = "/x?y" ,response=r,broken, opaque="f""#;
        let response = Response::parse(text).unwrap();
        assert_eq!(response.username, b"a \"b\" c");
        assert_eq!(response.realm, b"plain");
        assert_eq!(response.nonce, b"n=1,2");
        assert_eq!(response.uri, b"/x?y");
        assert_eq!(response.response, b"r");
        assert_eq!(response.opaque.as_deref(), Some(&b"f"[..]));
    }

    #[test]
    fn what_is_missing_makes_it_invalid() {
        let whole = "username=u, realm=r, nonce=n, uri=/, response=d";
        assert!(Response::parse(whole.as_bytes()).is_some());
        for missing in ["username=u", "realm=r", "nonce=n", "uri=/", "response=d"] {
            let text = whole.replace(missing, "x=y");
            assert!(Response::parse(text.as_bytes()).is_none(), "{text}");
        }
        for (more, is_valid) in [
            ("qop=auth", false),
            ("qop=auth, nc=1", false),
            ("qop=auth, nc=1, cnonce=c", true),
        ] {
            let text = format!("{whole}, {more}");
            assert_eq!(Response::parse(text.as_bytes()).is_some(), is_valid, "{text}");
        }
        for text in ["", "=", ",,,", "\"", "username=\"", "a=\"\\"] {
            assert!(Response::parse(text.as_bytes()).is_none(), "{text}");
        }
    }

    #[test]
    fn opaque_is_a_number() {
        for (text, expected) in [
            ("1", true),
            ("0a", true),
            ("0", false),
            ("", false),
            ("x1", false),
            ("0x1", false),
        ] {
            assert_eq!(is_opaque(text.as_bytes()), expected, "{text}");
        }
    }
}
