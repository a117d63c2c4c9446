//! A closed loop over HTTP/3: Debian's h2load has none.

use std::future::poll_fn;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes};
use h3::client::SendRequest;
use h3_quinn::OpenStreams;
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ClientConfig, Endpoint};
use tokio::time::{Instant, timeout};

use super::{Measured, Wrong, http2, on_a_loop};
use crate::load::{Closed, Question};
use crate::record::Figure;
use crate::tls::{self, Signature};

/// Time-out of an answer.
const LIMIT: Duration = Duration::from_secs(30);
/// H3_NO_ERROR (RFC 9114 §8.1).
const NO_ERROR: quinn::VarInt = quinn::VarInt::from_u32(0x100);

/// Asks with this many streams at once on each connection. Every status and every body is checked.
///
/// # Errors
/// A connection fails, or an answer is wrong.
pub(super) fn put(
    closed: Closed,
    streams: usize,
    question: &Question,
    port: u16,
) -> Result<Measured, Wrong> {
    on_a_loop(async move {
        let settings = settings()?;
        let question = Rc::new(question.clone());
        let mut connections = Vec::with_capacity(closed.connections);
        for _ in 0..closed.connections {
            connections.push(connect(&settings, port).await?);
        }
        let began = Instant::now();
        let end = began + closed.time;
        let tasks: Vec<_> = connections
            .iter()
            .flat_map(|connection| std::iter::repeat_n(connection, streams))
            .map(|connection| {
                let sender = connection.sender.clone();
                tokio::task::spawn_local(ask_always(sender, question.clone(), port, end))
            })
            .collect();
        let mut count = 0;
        for task in tasks {
            count += task.await.map_err(|error| Wrong(error.to_string()))??;
        }
        let seconds = began.elapsed().as_secs_f64();
        for connection in connections {
            connection.close().await;
        }
        Ok(Measured {
            requests: count,
            seconds,
            figures: [(Figure::RequestsPerSecond, count as f64 / seconds)].into(),
            ..Measured::default()
        })
    })
}

struct Connection {
    sender: SendRequest<OpenStreams, Bytes>,
    connection: quinn::Connection,
    endpoint: Endpoint,
}

impl Connection {
    /// Tells the server that the connection has ended.
    async fn close(self) {
        self.connection.close(NO_ERROR, b"");
        let _ = timeout(LIMIT, self.endpoint.wait_idle()).await;
    }
}

fn settings() -> Result<ClientConfig, Wrong> {
    let config = QuicClientConfig::try_from(tls::client("h3", Signature::Checked)?);
    let config = config.map_err(|error| Wrong(format!("HTTP/3: {error}")))?;
    Ok(ClientConfig::new(Arc::new(config)))
}

/// Connects from a socket of its own, as a browser does.
async fn connect(settings: &ClientConfig, port: u16) -> Result<Connection, Wrong> {
    let wrong = |error: &dyn std::fmt::Display| Wrong(format!("HTTP/3: {error}"));
    let endpoint = Endpoint::client(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
    let server = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let connecting = endpoint
        .connect_with(settings.clone(), server, tls::HOST)
        .map_err(|error| wrong(&error))?;
    let connection = timeout(LIMIT, connecting)
        .await
        .map_err(|_| Wrong("HTTP/3: no handshake in time".to_owned()))?
        .map_err(|error| wrong(&error))?;
    let (mut driver, sender) = h3::client::new(h3_quinn::Connection::new(connection.clone()))
        .await
        .map_err(|error| wrong(&error))?;
    tokio::task::spawn_local(async move {
        // The requests themselves tell of a connection that has ended.
        let _ = poll_fn(|context| driver.poll_close(context)).await;
    });
    Ok(Connection { sender, connection, endpoint })
}

/// Asks until the end; returns the number of right answers.
async fn ask_always(
    mut sender: SendRequest<OpenStreams, Bytes>,
    question: Rc<Question>,
    port: u16,
    end: Instant,
) -> Result<u64, Wrong> {
    let mut count = 0;
    while Instant::now() < end {
        match timeout(LIMIT, ask(&mut sender, &question, port)).await {
            Ok(answered) => answered?,
            Err(_) => return Err(Wrong("HTTP/3: no answer in time".to_owned())),
        }
        count += 1;
    }
    Ok(count)
}

async fn ask(
    sender: &mut SendRequest<OpenStreams, Bytes>,
    question: &Question,
    port: u16,
) -> Result<(), Wrong> {
    let wrong = |error: h3::error::StreamError| Wrong(format!("HTTP/3: {error}"));
    let mut stream = sender.send_request(http2::request(question, port)?).await.map_err(wrong)?;
    stream.finish().await.map_err(wrong)?;
    let head = stream.recv_response().await.map_err(wrong)?;
    if head.status() != 200 {
        return Err(Wrong(format!("HTTP/3: status {}", head.status().as_u16())));
    }
    let mut body = Vec::new();
    while let Some(mut part) = stream.recv_data().await.map_err(wrong)? {
        while part.has_remaining() {
            let bytes = part.chunk();
            body.extend_from_slice(bytes);
            let length = bytes.len();
            part.advance(length);
        }
    }
    match &question.body {
        Some(expected) if *expected != body => {
            Err(Wrong(format!("HTTP/3: a wrong body of {} bytes", body.len())))
        }
        _ => Ok(()),
    }
}
