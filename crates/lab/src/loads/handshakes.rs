//! TLS handshakes: a new connection for each request.

use std::sync::Arc;
use std::time::Duration;

use rustls::HandshakeKind;
use rustls::client::Resumption;
use tokio::time::{Instant, timeout};

use super::client::{LoadClient, PreparedRequest, RequestResult};
use super::{Measured, Wrong, on_a_loop};
use crate::load::{Closed, Question, TlsHandshake};
use crate::record::Figure;
use crate::tls::{self, Signature};

/// Time-out of a handshake, and of the answer after it.
const LIMIT: Duration = Duration::from_secs(30);

/// Counts handshakes. Each connection asks once and is closed by the server. Every handshake must
/// be of the wanted kind.
///
/// # Errors
/// A handshake fails or is of another kind, or an answer is wrong.
pub(super) fn put(
    closed: Closed,
    kind: TlsHandshake,
    question: &Question,
    port: u16,
) -> Result<Measured, Wrong> {
    on_a_loop(async move {
        let began = Instant::now();
        let end = began + closed.time;
        let prepared = PreparedRequest::new(question, port, false)?;
        let clients: Result<Vec<_>, Wrong> =
            (0..closed.connections).map(|_| with_tickets_for(kind, &prepared)).collect();
        let tasks: Vec<_> = clients?
            .into_iter()
            .map(|prepared| tokio::task::spawn_local(shake_hands(prepared, kind, end)))
            .collect();
        let mut count = 0;
        for task in tasks {
            count += task.await.map_err(|error| Wrong(error.to_string()))??;
        }
        let seconds = began.elapsed().as_secs_f64();
        Ok(Measured {
            requests: count,
            seconds,
            figures: [(Figure::RequestsPerSecond, count as f64 / seconds)].into(),
            ..Measured::default()
        })
    })
}

/// A client with a store of tickets for itself where connections are resumed: no other client uses
/// up its tickets.
fn with_tickets_for(
    kind: TlsHandshake,
    prepared: &PreparedRequest,
) -> Result<PreparedRequest, Wrong> {
    let mut config = tls::client("http/1.1", Signature::Ignored)?;
    if kind == TlsHandshake::Full {
        config.resumption = Resumption::disabled();
    }
    Ok(prepared.clone().with_tls(Arc::new(config)))
}

/// Connects again and again; returns the number of connections of the wanted kind.
async fn shake_hands(
    prepared: PreparedRequest,
    kind: TlsHandshake,
    end: Instant,
) -> Result<u64, Wrong> {
    if kind == TlsHandshake::Resumed {
        // The first connection brings the ticket for the second.
        connect(&prepared).await?;
    }
    let mut count = 0;
    while Instant::now() < end {
        let found = connect(&prepared).await?;
        let is_wanted = match kind {
            TlsHandshake::Full => found == Some(HandshakeKind::Full),
            TlsHandshake::Resumed => found == Some(HandshakeKind::Resumed),
        };
        if !is_wanted {
            return Err(Wrong(format!("a handshake of kind {found:?} instead of {kind:?}")));
        }
        count += 1;
    }
    Ok(count)
}

async fn connect(prepared: &PreparedRequest) -> Result<Option<HandshakeKind>, Wrong> {
    let connected = timeout(LIMIT, LoadClient::connect(prepared)).await;
    let mut client = connected.map_err(|_| Wrong("no handshake in time".to_owned()))??;
    match client.ask(prepared, LIMIT).await {
        RequestResult::Hit => {}
        RequestResult::Error => return Err(Wrong("a wrong answer after a handshake".to_owned())),
        RequestResult::Timeout => {
            return Err(Wrong("no answer in time after a handshake".to_owned()));
        }
    }
    let kind = client.handshake();
    // The server closes first, so that its port and not ours waits (TIME_WAIT).
    let _ = timeout(LIMIT, client.until_closed()).await;
    Ok(kind)
}
