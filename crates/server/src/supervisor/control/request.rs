//! HTTP on the control socket, for programs that speak nothing else: `GET` is answered as at the
//! admin listener, `POST /reload` and `POST /stop` are commands.

use howdah_http::h1::{HeadProgress, parse_request};
use howdah_http::{Limits, Method, Request, Status};

use super::ControlCommand;
use crate::admin::{AdminAnswer, READING};

/// Maximum bytes of a request's head. Beyond it: 431.
pub(super) const LONGEST_HEAD: usize = 8 * 1024;

/// Returns whether a client that has sent these bytes speaks HTTP. Commands are lowercase words.
pub(super) fn is_http(received: &[u8]) -> bool {
    received.first().is_some_and(u8::is_ascii_uppercase)
}

/// Returns the command of a request; `None` while its head is not complete.
///
/// # Errors
/// The status of a request that is no command.
pub(super) fn command(received: &[u8]) -> Option<Result<ControlCommand, Status>> {
    let mut request = Request::new();
    Some(match parse_request(received, &Limits::default(), &mut request) {
        Ok(HeadProgress::Incomplete) if received.len() < LONGEST_HEAD => return None,
        Ok(HeadProgress::Incomplete) => Err(Status::REQUEST_HEADER_FIELDS_TOO_LARGE),
        Ok(HeadProgress::Complete(_)) => match (&request.method, request.path()) {
            (Method::Post, b"/reload") => Ok(ControlCommand::Reload),
            (Method::Post, b"/stop") => Ok(ControlCommand::Stop),
            (_, b"/reload" | b"/stop") => Err(Status::METHOD_NOT_ALLOWED),
            (Method::Get | Method::Head, _) => Ok(ControlCommand::Monitor),
            _ => Err(Status::METHOD_NOT_ALLOWED),
        },
        Err(refusal) => Err(refusal.status),
    })
}

/// Encodes the response to a client that has sent these bytes: a line of text, after which the
/// connection is closed.
pub(super) fn response(received: &[u8], status: Status, text: &str) -> Vec<u8> {
    let mut request = Request::new();
    // Of a request that is refused, or not complete, the known part counts.
    let _ = parse_request(received, &Limits::default(), &mut request);
    let allow = match request.path() {
        b"/reload" | b"/stop" => "POST",
        _ => READING,
    };
    AdminAnswer::line(status, text, allow).encode(&request)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_become_commands() {
        let asked = |line: &str| command(format!("{line}\r\nHost: howdah\r\n\r\n").as_bytes());
        for (line, expected) in [
            ("GET /status HTTP/1.1", Ok(ControlCommand::Monitor)),
            ("HEAD / HTTP/1.0", Ok(ControlCommand::Monitor)),
            ("POST /reload HTTP/1.1", Ok(ControlCommand::Reload)),
            ("POST /stop HTTP/1.1", Ok(ControlCommand::Stop)),
            ("GET /reload HTTP/1.1", Err(Status::METHOD_NOT_ALLOWED)),
            ("DELETE /status HTTP/1.1", Err(Status::METHOD_NOT_ALLOWED)),
            ("GET /a b HTTP/1.1", Err(Status::BAD_REQUEST)),
        ] {
            assert_eq!(asked(line), Some(expected), "{line}");
        }
        assert_eq!(command(b"GET /status HTTP/1.1\r\nHost:"), None);
        let long = [b"GET / HTTP/1.1\r\nX: ", &[b'x'; LONGEST_HEAD][..]].concat();
        assert!(matches!(command(&long), Some(Err(_))));
        assert!(is_http(b"G") && !is_http(b"status\n") && !is_http(b""));
    }
}
