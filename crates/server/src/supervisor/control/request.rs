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

/// Returns what is wrong with a request that got this status instead of a command.
pub(super) fn mistake(received: &[u8], status: Status) -> &'static str {
    match (status, allowed(received)) {
        (Status::METHOD_NOT_ALLOWED, COMMANDING) => "this is a command: use POST",
        (Status::METHOD_NOT_ALLOWED, _) => "this is no command: use GET",
        _ => "there is no such command",
    }
}

/// Returns the methods of the path that a client has asked for.
fn allowed(received: &[u8]) -> &'static str {
    let mut request = Request::new();
    // Of a request that is refused, or not complete, the known part counts.
    let _ = parse_request(received, &Limits::default(), &mut request);
    match request.path() {
        b"/reload" | b"/stop" => COMMANDING,
        _ => READING,
    }
}

/// The method of commands.
const COMMANDING: &str = "POST";

/// Encodes the response to a client that has sent these bytes: a line of text, after which the
/// connection is closed.
pub(super) fn response(received: &[u8], status: Status, text: &str) -> Vec<u8> {
    let mut request = Request::new();
    let _ = parse_request(received, &Limits::default(), &mut request);
    AdminAnswer::line(status, text, allowed(received)).encode(&request)
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
        for (line, expected) in [
            ("GET /reload HTTP/1.1", "this is a command: use POST"),
            ("HEAD /stop HTTP/1.1", "this is a command: use POST"),
            ("POST /status HTTP/1.1", "this is no command: use GET"),
            ("GET /a b HTTP/1.1", "there is no such command"),
        ] {
            let received = format!("{line}\r\nHost: howdah\r\n\r\n");
            let status = asked(line).unwrap().unwrap_err();
            assert_eq!(mistake(received.as_bytes(), status), expected, "{line}");
        }
        assert_eq!(command(b"GET /status HTTP/1.1\r\nHost:"), None);
        let long = [b"GET / HTTP/1.1\r\nX: ", &[b'x'; LONGEST_HEAD][..]].concat();
        assert!(matches!(command(&long), Some(Err(_))));
        assert!(is_http(b"G") && !is_http(b"status\n") && !is_http(b""));
    }
}
