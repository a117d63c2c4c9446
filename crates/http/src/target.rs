//! The four forms of a request target (RFC 9112 §3.2).

use crate::{Method, Refusal, Request, Scheme, Status, authority::check_authority};

/// Parses `target` by the form that the request's method allows. Fills the target, and for the
/// absolute form and CONNECT the authority, which then overrules Host (RFC 9112 §3.2.2). `target`
/// has no control byte, no space and no `#`.
///
/// # Errors
/// The target is not of a form that the method allows (400).
#[inline]
pub(crate) fn read(target: &[u8], into: &mut Request) -> Result<(), Refusal> {
    if into.method == Method::Connect {
        return authority_form(target, into);
    }
    match target {
        [b'/', ..] => {
            into.target.extend_from_slice(target);
            Ok(())
        }
        b"*" if into.method == Method::Options => {
            into.target.push(b'*');
            Ok(())
        }
        b"*" => Err(Refusal::bad("the target * is for OPTIONS only")),
        _ => absolute_form(target, into),
    }
}

/// RFC 9112 §3.2.3: host and port, nothing else, and only for CONNECT.
#[cold]
fn authority_form(target: &[u8], into: &mut Request) -> Result<(), Refusal> {
    check_authority(target, &mut into.authority).map_err(Refusal::bad)?;
    if into.port().is_none() {
        return Err(Refusal::bad("CONNECT without a port"));
    }
    into.target.extend_from_slice(&into.authority);
    Ok(())
}

/// RFC 9112 §3.2.2: the form that a client sends to a proxy; a server must understand it too.
#[cold]
fn absolute_form(target: &[u8], into: &mut Request) -> Result<(), Refusal> {
    let (scheme, rest) =
        split_scheme(target).ok_or(Refusal::bad("the target has none of the four forms"))?;
    let end = rest.iter().position(|byte| b"/?".contains(byte)).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    check_authority(authority, &mut into.authority).map_err(Refusal::bad)?;
    if scheme == Scheme::Https && into.scheme == Scheme::Http {
        // RFC 9110 §4.3.3: an https resource is not served over a connection without TLS.
        return Err(Refusal {
            status: Status::MISDIRECTED_REQUEST,
            why: "https target on a connection in the clear",
        });
    }
    into.origin.extend_from_slice(&target[..target.len() - path.len()]);
    match path {
        [] if into.method == Method::Options => into.target.push(b'*'), // RFC 9112 §3.2.4
        [b'/', ..] => into.target.extend_from_slice(path),
        _ => {
            into.target.push(b'/');
            into.target.extend_from_slice(path);
        }
    }
    Ok(())
}

fn split_scheme(target: &[u8]) -> Option<(Scheme, &[u8])> {
    let after = |scheme: &[u8]| {
        let (head, rest) = target.split_at_checked(scheme.len())?;
        head.eq_ignore_ascii_case(scheme).then_some(rest)
    };
    after(b"http://")
        .map(|rest| (Scheme::Http, rest))
        .or_else(|| after(b"https://").map(|rest| (Scheme::Https, rest)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_as(method: Method, target: &str) -> Result<(String, String), &'static str> {
        let mut request = Request { method, ..Request::new() };
        read(target.as_bytes(), &mut request).map_err(|refusal| refusal.why)?;
        assert!(target.as_bytes().starts_with(&request.origin), "{target}");
        assert_eq!(request.origin.is_empty(), !target.contains("://"), "{target}");
        Ok((
            String::from_utf8(request.target).unwrap(),
            String::from_utf8(request.authority).unwrap(),
        ))
    }

    #[test]
    fn good_targets() {
        let table = [
            (Method::Get, "/", "/", ""),
            (Method::Get, "/a?b", "/a?b", ""),
            (Method::Get, "//a", "//a", ""),
            (Method::Get, "/*", "/*", ""),
            (Method::Get, "http://H.org/a?b", "/a?b", "h.org"),
            (Method::Get, "HTTP://h:81", "/", "h:81"),
            (Method::Get, "http://h?q", "/?q", "h"),
            (Method::Get, "http://[::1]:8/x", "/x", "[::1]:8"),
            (Method::Options, "*", "*", ""),
            (Method::Options, "/x", "/x", ""),
            (Method::Options, "http://h", "*", "h"),
            (Method::Options, "http://h/", "/", "h"),
            (Method::Options, "http://h?q", "/?q", "h"),
            (Method::Connect, "H.org:443", "h.org:443", "h.org:443"),
            (Method::Connect, "[::1]:443", "[::1]:443", "[::1]:443"),
        ];
        for (method, target, expected, authority) in table {
            assert_eq!(
                read_as(method, target),
                Ok((expected.into(), authority.into())),
                "{target}"
            );
        }
    }

    #[test]
    fn bad_targets() {
        let table = [
            (Method::Get, "*", "for OPTIONS only"),
            (Method::Get, "a", "four forms"),
            (Method::Get, "h:80", "four forms"),
            (Method::Get, "ftp://h/", "four forms"),
            (Method::Get, "http:/h", "four forms"),
            (Method::Get, "http://", "empty host"),
            (Method::Get, "http:///x", "empty host"),
            (Method::Get, "http://u@h/", "user information"),
            (Method::Get, "http://u:p@h/", "user information"),
            (Method::Get, "http://h\\x/", "byte in the host"),
            (Method::Get, "https://h/", "in the clear"),
            (Method::Options, "**", "four forms"),
            (Method::Connect, "h", "without a port"),
            (Method::Connect, "h:", "without a port"),
            (Method::Connect, "/", "byte in the host"),
            (Method::Connect, "u@h:80", "user information"),
            (Method::Connect, "http://h:80", "port that is not"),
        ];
        for (method, target, why) in table {
            let error = read_as(method, target).unwrap_err();
            assert!(error.contains(why), "{target}: {error}");
        }
    }

    #[test]
    fn an_https_target_is_fine_over_tls() {
        let mut request = Request { scheme: Scheme::Https, ..Request::new() };
        read(b"https://h/x", &mut request).unwrap();
        assert_eq!((&request.target[..], request.scheme), (&b"/x"[..], Scheme::Https));
    }
}
