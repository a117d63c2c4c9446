//! The field Authorization of Digest.

use howdah_http::Request;

use super::{NONCE_LENGTH, NONCE_TIME_LENGTH};
use crate::language::is_space;

/// The credentials of a request.
pub(super) enum SentCredentials {
    Nothing,
    OtherScheme,
    /// A parameter that must be there is not.
    Invalid,
    Valid(Box<DigestResponse>),
}

/// The parameters of a Digest, quotes removed.
#[derive(Debug, Default)]
pub(super) struct DigestResponse {
    pub username: Vec<u8>,
    pub realm: Vec<u8>,
    pub nonce: Vec<u8>,
    pub uri: Vec<u8>,
    pub response: Vec<u8>,
    pub cnonce: Vec<u8>,
    pub qop: Vec<u8>,
    pub nc: Vec<u8>,
    pub algorithm: Option<Vec<u8>>,
    pub opaque: Option<Vec<u8>>,
}

impl DigestResponse {
    /// Returns what the request as it came has: internal redirects are authenticated by the
    /// client's own URL.
    pub(super) fn of(request: &Request) -> SentCredentials {
        let Some(field) = request.fields.value(b"Authorization") else {
            return SentCredentials::Nothing;
        };
        let end = field.iter().position(|byte| is_space(*byte)).unwrap_or(field.len());
        let (scheme, parameters) = field.split_at(end);
        if !scheme.eq_ignore_ascii_case(b"digest") {
            return SentCredentials::OtherScheme;
        }
        let response = DigestResponse::parse(parameters).filter(DigestResponse::has_right_lengths);
        response
            .map_or(SentCredentials::Invalid, |response| SentCredentials::Valid(Box::new(response)))
    }

    fn parse(parameters: &[u8]) -> Option<DigestResponse> {
        let (mut algorithm, mut opaque) = (None, None);
        let mut required: [(&[u8], Option<Vec<u8>>); 8] = [
            (b"username", None),
            (b"realm", None),
            (b"nonce", None),
            (b"uri", None),
            (b"response", None),
            (b"cnonce", None),
            (b"qop", None),
            (b"nc", None),
        ];
        let mut rest = parameters;
        while !rest.is_empty() {
            let (name, value) = next_parameter(&mut rest);
            match required.iter_mut().find(|(known, _)| known.eq_ignore_ascii_case(&name)) {
                Some((_, place)) => *place = Some(value),
                None if name.eq_ignore_ascii_case(b"algorithm") => algorithm = Some(value),
                None if name.eq_ignore_ascii_case(b"opaque") => opaque = Some(value),
                None => {}
            }
        }
        let [username, realm, nonce, uri, response, cnonce, qop, nc] =
            required.map(|(_, value)| value);
        Some(DigestResponse {
            username: username?,
            realm: realm?,
            nonce: nonce?,
            uri: uri?,
            response: response?,
            // Whether the qop that was offered is there is asked when the user is known, as in
            // Apache.
            cnonce: if qop.is_some() { cnonce? } else { Vec::new() },
            nc: if qop.is_some() { nc? } else { Vec::new() },
            qop: qop.unwrap_or_default(),
            algorithm,
            opaque,
        })
    }
}

impl DigestResponse {
    /// Returns whether it can be an answer to a challenge of ours.
    fn has_right_lengths(&self) -> bool {
        let has_time = self.nonce.get(NONCE_TIME_LENGTH - 1) == Some(&b'=');
        has_time && self.nonce.len() == NONCE_LENGTH && self.response.len() == 2 * 16
    }
}

/// Returns whether it is a hexadecimal number other than 0, or begins with one, as Apache's are.
pub(super) fn is_opaque(opaque: &[u8]) -> bool {
    let digits = opaque.iter().take_while(|byte| byte.is_ascii_hexdigit());
    digits.copied().any(|digit| digit != b'0')
}

/// Takes a parameter and the comma after it off `rest`. Text that is no parameter has an empty
/// name.
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

    const MORE: &str = ", qop=auth, nc=1, cnonce=c";

    #[test]
    fn parameters_are_read() {
        let text = r#"  username="a \"b\" c" , realm=plain,nonce="n=1,2", URI = "/x?y" ,response=r,broken, opaque="f", other=o"#;
        let response = DigestResponse::parse(format!("{text}{MORE}").as_bytes()).unwrap();
        assert_eq!(response.username, b"a \"b\" c");
        assert_eq!(response.realm, b"plain");
        assert_eq!(response.nonce, b"n=1,2");
        assert_eq!(response.uri, b"/x?y");
        assert_eq!(response.response, b"r");
        assert_eq!(response.opaque.as_deref(), Some(&b"f"[..]));
        assert_eq!(response.algorithm, None);
        assert_eq!((&response.qop[..], &response.nc[..]), (&b"auth"[..], &b"1"[..]));
    }

    #[test]
    fn what_is_missing_makes_it_invalid() {
        let whole = format!("username=u, realm=r, nonce=n, uri=/, response=d{MORE}");
        assert!(DigestResponse::parse(whole.as_bytes()).is_some());
        for missing in whole.split(", ").filter(|parameter| *parameter != "qop=auth") {
            let text = whole.replace(missing, "x=y");
            assert!(DigestResponse::parse(text.as_bytes()).is_none(), "{text}");
        }
        for text in ["", "=", ",,,", "\"", "username=\"", "a=\"\\"] {
            assert!(DigestResponse::parse(text.as_bytes()).is_none(), "{text}");
        }
    }

    #[test]
    fn opaque_is_a_number() {
        for (text, expected) in
            [("1", true), ("0a", true), ("0", false), ("", false), ("x1", false), ("0x1", false)]
        {
            assert_eq!(is_opaque(text.as_bytes()), expected, "{text}");
        }
    }
}
