//! Tests of the errors of requests.

use std::io;

use howdah_http::Version;

use super::*;
use crate::budget::BudgetUnit;

#[test]
fn the_log_says_how_a_client_has_left() {
    let address = |port| SocketAddr::from(([192, 0, 2, 1], port));
    let peer = Peer::new(address(4711), address(80));
    for (version, expected) in [
        (Version::Http10, "the client closed the connection, "),
        (Version::Http11, "the client closed the connection, "),
        (Version::Http2, "the client reset the stream, or closed the connection, "),
        (Version::Http3, "the client reset the stream, or closed the connection, "),
    ] {
        let request = Request { version, ..Request::new() };
        let situation = ErrorContext {
            peer: &peer,
            site: None,
            phase: Phase::Sending,
            request: &request,
        };
        for error in
            [RequestError::gone(situation), RequestError::body(situation, &BodyError::Closed)]
        {
            assert!(error.to_string().starts_with(expected), "{error}");
        }
    }
}

/// Visitors could undo any reload otherwise.
#[test]
fn what_has_no_room_is_no_error_of_the_sites_configuration() {
    let address = |port| SocketAddr::from(([192, 0, 2, 1], port));
    let (peer, request) = (Peer::new(address(4711), address(80)), Request::new());
    let situation = ErrorContext {
        peer: &peer,
        site: None,
        phase: Phase::Sending,
        request: &request,
    };
    let body = |error: BodyError| RequestError::body(situation, &error);
    let stored = |code| body(BodyError::Storage(io::Error::from_raw_os_error(code)));
    let refused = |error| RequestError::refused(situation, error, None);
    let content = |error| RequestError::content(situation, error).unwrap();
    let upstream =
        |no_room| RequestError::upstream(situation, &UpstreamError::without_room(no_room));
    let (bytes, connections) = (BudgetUnit::Bytes, BudgetUnit::Connections);
    let (emfile, enospc, eio) = (24, 28, 5);
    for (error, status, excuse) in [
        (RequestError::too_many_waiting(situation, ""), 503, Some(Excuse::Always)),
        (
            RequestError::too_many_tunnels(situation, TooManyTunnels::Site),
            503,
            Some(Excuse::Always),
        ),
        (body(BodyError::NoRoom(BudgetUsedUp::Site(bytes))), 507, Some(Excuse::Always)),
        (stored(enospc), 507, Some(Excuse::Always)),
        (stored(emfile), 503, Some(Excuse::Always)),
        (stored(eio), 500, None),
        (refused(DispatchError::QueueFull), 503, Some(Excuse::ScriptsEnd)),
        (refused(DispatchError::LaneFull), 503, Some(Excuse::ScriptsEnd)),
        (refused(DispatchError::QueueTimeout), 503, Some(Excuse::ScriptsEnd)),
        (refused(DispatchError::CutOff), 503, Some(Excuse::Always)),
        (refused(DispatchError::DoesNotStart), 503, None),
        (RequestError::response(situation, ExchangeError::NotBegun), 503, Some(Excuse::ScriptsEnd)),
        (RequestError::response(situation, ExchangeError::CutOff), 503, Some(Excuse::Always)),
        (RequestError::response(situation, ExchangeError::Silent), 504, None),
        (upstream(BudgetUsedUp::Site(connections)), 503, Some(Excuse::UpstreamsAnswer)),
        (upstream(BudgetUsedUp::Total(connections)), 503, Some(Excuse::Always)),
        (content(PumpError::Busy), 503, Some(Excuse::Always)),
        // Its status is 500 where the response has not begun.
        (content(PumpError::Memory), 0, Some(Excuse::Always)),
    ] {
        assert_eq!(error.status.map_or(0, Status::code), status, "{error}");
        assert_eq!(error.culprit.excuse(), excuse, "{error}");
    }
}
