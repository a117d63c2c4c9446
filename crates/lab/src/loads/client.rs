//! A client that checks every answer, for our own loads.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::{ClientConfig, HandshakeKind};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::{Wrong, sample};
use crate::load::{Protocol, Question};
use crate::tls;

/// A connection to the server.
pub(super) struct Client {
    stream: Stream,
    buffer: Vec<u8>,
}

enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// The bytes between a client and a server, encrypted or not.
pub(super) trait Duplex: AsyncRead + AsyncWrite + Unpin {}
impl<S: AsyncRead + AsyncWrite + Unpin> Duplex for S {}

/// The result of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// The right answer.
    Hit,
    /// A wrong status or body, or a connection that failed.
    Error,
    /// No whole answer in time.
    Timeout,
}

/// A request in bytes, and the expected answer.
#[derive(Clone, Debug)]
pub(super) struct Prepared {
    pub(super) request: Vec<u8>,
    pub(super) body: Option<Vec<u8>>,
    pub(super) port: u16,
    /// The settings of TLS; `None` is a connection in the clear.
    tls: Option<Arc<ClientConfig>>,
}

impl Prepared {
    pub(super) fn new(question: &Question, port: u16, keep_alive: bool) -> Result<Prepared, Wrong> {
        let tls = match question.protocol {
            Protocol::Http => None,
            Protocol::Https | Protocol::Http2 => Some(tls::plain_client("http/1.1")?),
        };
        Ok(Prepared {
            request: sample::request(question, port, keep_alive),
            body: question.body.clone(),
            port,
            tls,
        })
    }

    /// The same over TLS with these settings.
    pub(super) fn with_tls(self, tls: Arc<ClientConfig>) -> Prepared {
        Prepared { tls: Some(tls), ..self }
    }
}

impl Client {
    pub(super) async fn connect(prepared: &Prepared) -> io::Result<Client> {
        let stream = TcpStream::connect(("127.0.0.1", prepared.port)).await?;
        stream.set_nodelay(true)?;
        let stream = match &prepared.tls {
            None => Stream::Plain(stream),
            Some(config) => {
                let name = tls::server_name().map_err(io::Error::other)?;
                let connector = TlsConnector::from(config.clone());
                Stream::Tls(Box::new(connector.connect(name, stream).await?))
            }
        };
        Ok(Client {
            stream,
            buffer: Vec::with_capacity(64 * 1024),
        })
    }

    /// The kind of the TLS handshake; `None` without TLS.
    pub(super) fn handshake(&self) -> Option<HandshakeKind> {
        match &self.stream {
            Stream::Plain(_) => None,
            Stream::Tls(stream) => stream.get_ref().1.handshake_kind(),
        }
    }

    /// Reads until the server has closed the connection.
    pub(super) async fn until_closed(&mut self) {
        let mut rest = [0; 256];
        while self.stream().read(&mut rest).await.is_ok_and(|count| count > 0) {}
    }

    /// Whether no byte of the last answer has arrived: the server had closed the connection before.
    pub(super) fn got_nothing(&self) -> bool {
        self.buffer.is_empty()
    }

    /// The connection, for slow clients.
    pub(super) fn stream(&mut self) -> &mut dyn Duplex {
        match &mut self.stream {
            Stream::Plain(stream) => stream,
            Stream::Tls(stream) => stream.as_mut(),
        }
    }

    /// Sends the request and reads the whole answer. The connection can be used again only after a
    /// hit.
    pub(super) async fn ask(&mut self, prepared: &Prepared, limit: Duration) -> Reply {
        match timeout(limit, self.exchange(prepared)).await {
            Ok(Ok(true)) => Reply::Hit,
            Ok(_) => Reply::Error,
            Err(_) => Reply::Timeout,
        }
    }

    /// Reads some bytes; 0 is the end, also where TLS does not announce it.
    async fn read(&mut self) -> io::Result<usize> {
        let read = match &mut self.stream {
            Stream::Plain(stream) => stream.read_buf(&mut self.buffer).await,
            Stream::Tls(stream) => stream.read_buf(&mut self.buffer).await,
        };
        match read {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
            read => read,
        }
    }

    async fn exchange(&mut self, prepared: &Prepared) -> io::Result<bool> {
        self.buffer.clear();
        self.stream().write_all(&prepared.request).await?;
        self.stream().flush().await?;
        loop {
            if let Some(answer) = Received::parse(&self.buffer) {
                let right =
                    prepared.body.as_ref().is_none_or(|body| answer.has(&self.buffer, body));
                return Ok(answer.status == 200 && right);
            }
            if self.read().await? == 0 {
                // An answer without a length ends when the connection closes.
                let answer = Received::parse_head(&self.buffer)
                    .filter(|answer| answer.framing == Framing::Close);
                let right = |answer: Received| {
                    answer.status == 200
                        && prepared
                            .body
                            .as_ref()
                            .is_none_or(|body| self.buffer[answer.start..] == **body)
                };
                return Ok(answer.is_some_and(right));
            }
        }
    }
}

/// Positions of an answer's parts in the received bytes.
#[derive(Clone, Copy, Debug)]
struct Received {
    status: u16,
    start: usize,
    framing: Framing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    Length(usize),
    Chunked,
    Close,
}

impl Received {
    /// Parses an answer; `None` while it is incomplete.
    fn parse(bytes: &[u8]) -> Option<Received> {
        let answer = Received::parse_head(bytes)?;
        let body = &bytes[answer.start..];
        let whole = match answer.framing {
            Framing::Length(length) => body.len() >= length,
            Framing::Chunked => body.ends_with(b"0\r\n\r\n") && sample::unchunk(body).is_some(),
            Framing::Close => false,
        };
        whole.then_some(answer)
    }

    fn parse_head(bytes: &[u8]) -> Option<Received> {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
        let head = std::str::from_utf8(&bytes[..end]).ok()?;
        let mut framing = Framing::Close;
        for line in head.split("\r\n").skip(1) {
            let (name, value) = line.split_once(':')?;
            if name.eq_ignore_ascii_case("content-length") {
                framing = Framing::Length(value.trim().parse().ok()?);
            } else if name.eq_ignore_ascii_case("transfer-encoding") {
                framing = Framing::Chunked;
            }
        }
        Some(Received {
            status: head.split(' ').nth(1)?.parse().ok()?,
            start: end + 4,
            framing,
        })
    }

    fn has(&self, bytes: &[u8], body: &[u8]) -> bool {
        let found = &bytes[self.start..];
        match self.framing {
            Framing::Length(length) => found[..length] == *body,
            Framing::Chunked => sample::unchunk(found).is_some_and(|found| found == body),
            Framing::Close => false,
        }
    }
}
