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
use crate::load::{LoadProtocol, Question};
use crate::tls;

/// A connection to the server.
pub(super) struct LoadClient {
    stream: LoadStream,
    buffer: Vec<u8>,
}

enum LoadStream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// The bytes between a client and a server, encrypted or not.
pub(super) trait LoadTransport: AsyncRead + AsyncWrite + Unpin {}
impl<S: AsyncRead + AsyncWrite + Unpin> LoadTransport for S {}

/// The result of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestResult {
    /// The right answer.
    Hit,
    /// A wrong status or body, or a connection that failed.
    Error,
    /// No whole answer in time.
    Timeout,
}

/// A request in bytes, and the expected answer.
#[derive(Clone, Debug)]
pub(super) struct PreparedRequest {
    pub(super) request: Vec<u8>,
    pub(super) body: Option<Vec<u8>>,
    pub(super) port: u16,
    /// The settings of TLS; `None` is a connection in the clear.
    tls: Option<Arc<ClientConfig>>,
}

impl PreparedRequest {
    /// Prepares a request.
    ///
    /// # Errors
    /// The TLS library does not know the protocol versions.
    pub(super) fn new(
        question: &Question,
        port: u16,
        keep_alive: bool,
    ) -> Result<PreparedRequest, Wrong> {
        let tls = match question.protocol {
            LoadProtocol::Http => None,
            LoadProtocol::Https | LoadProtocol::Http2 => Some(tls::plain_client("http/1.1")?),
        };
        Ok(PreparedRequest {
            request: sample::request(question, port, keep_alive),
            body: question.body.clone(),
            port,
            tls,
        })
    }

    /// The same over TLS with these settings.
    pub(super) fn with_tls(self, tls: Arc<ClientConfig>) -> PreparedRequest {
        PreparedRequest { tls: Some(tls), ..self }
    }
}

impl LoadClient {
    /// Opens a connection, with a handshake where the request needs TLS.
    ///
    /// # Errors
    /// The connection or the handshake fails.
    pub(super) async fn connect(prepared: &PreparedRequest) -> io::Result<LoadClient> {
        let stream = TcpStream::connect(("127.0.0.1", prepared.port)).await?;
        stream.set_nodelay(true)?;
        let stream = match &prepared.tls {
            None => LoadStream::Plain(stream),
            Some(config) => {
                let name = tls::server_name().map_err(io::Error::other)?;
                let connector = TlsConnector::from(config.clone());
                LoadStream::Tls(Box::new(connector.connect(name, stream).await?))
            }
        };
        Ok(LoadClient {
            stream,
            buffer: Vec::with_capacity(64 * 1024),
        })
    }

    /// The kind of the TLS handshake; `None` without TLS.
    pub(super) fn handshake(&self) -> Option<HandshakeKind> {
        match &self.stream {
            LoadStream::Plain(_) => None,
            LoadStream::Tls(stream) => stream.get_ref().1.handshake_kind(),
        }
    }

    /// Reads until the server has closed the connection.
    pub(super) async fn until_closed(&mut self) {
        let mut rest = [0; 256];
        while self.stream().read(&mut rest).await.is_ok_and(|count| count > 0) {}
    }

    /// Returns whether no byte of the last answer has arrived: the server had closed the connection
    /// before.
    pub(super) fn got_nothing(&self) -> bool {
        self.buffer.is_empty()
    }

    /// The connection, for slow clients.
    pub(super) fn stream(&mut self) -> &mut dyn LoadTransport {
        match &mut self.stream {
            LoadStream::Plain(stream) => stream,
            LoadStream::Tls(stream) => stream.as_mut(),
        }
    }

    /// Sends the request and reads the whole answer. The connection can be used again only after a
    /// hit.
    pub(super) async fn ask(
        &mut self,
        prepared: &PreparedRequest,
        limit: Duration,
    ) -> RequestResult {
        match timeout(limit, self.exchange(prepared)).await {
            Ok(Ok(true)) => RequestResult::Hit,
            Ok(_) => RequestResult::Error,
            Err(_) => RequestResult::Timeout,
        }
    }

    /// Reads some bytes; 0 is the end, also where TLS does not announce it.
    async fn read(&mut self) -> io::Result<usize> {
        let read = match &mut self.stream {
            LoadStream::Plain(stream) => stream.read_buf(&mut self.buffer).await,
            LoadStream::Tls(stream) => stream.read_buf(&mut self.buffer).await,
        };
        match read {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
            read => read,
        }
    }

    async fn exchange(&mut self, prepared: &PreparedRequest) -> io::Result<bool> {
        self.buffer.clear();
        self.stream().write_all(&prepared.request).await?;
        self.stream().flush().await?;
        loop {
            if let Some(answer) = AnswerPositions::parse(&self.buffer) {
                let right =
                    prepared.body.as_ref().is_none_or(|body| answer.has(&self.buffer, body));
                return Ok(answer.status == 200 && right);
            }
            if self.read().await? == 0 {
                // An answer without a length ends when the connection closes.
                let answer = AnswerPositions::parse_head(&self.buffer)
                    .filter(|answer| answer.framing == AnswerFraming::Close);
                let right = |answer: AnswerPositions| {
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
struct AnswerPositions {
    status: u16,
    start: usize,
    framing: AnswerFraming,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AnswerFraming {
    Length(usize),
    Chunked,
    Close,
}

impl AnswerPositions {
    /// Parses an answer; `None` while it is incomplete.
    fn parse(bytes: &[u8]) -> Option<AnswerPositions> {
        let answer = AnswerPositions::parse_head(bytes)?;
        let body = &bytes[answer.start..];
        let whole = match answer.framing {
            AnswerFraming::Length(length) => body.len() >= length,
            AnswerFraming::Chunked => {
                body.ends_with(b"0\r\n\r\n") && sample::unchunk(body).is_some()
            }
            AnswerFraming::Close => false,
        };
        whole.then_some(answer)
    }

    fn parse_head(bytes: &[u8]) -> Option<AnswerPositions> {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
        let head = std::str::from_utf8(&bytes[..end]).ok()?;
        let mut framing = AnswerFraming::Close;
        for line in head.split("\r\n").skip(1) {
            let (name, value) = line.split_once(':')?;
            if name.eq_ignore_ascii_case("content-length") {
                framing = AnswerFraming::Length(value.trim().parse().ok()?);
            } else if name.eq_ignore_ascii_case("transfer-encoding") {
                framing = AnswerFraming::Chunked;
            }
        }
        Some(AnswerPositions {
            status: head.split(' ').nth(1)?.parse().ok()?,
            start: end + 4,
            framing,
        })
    }

    fn has(&self, bytes: &[u8], body: &[u8]) -> bool {
        let found = &bytes[self.start..];
        match self.framing {
            AnswerFraming::Length(length) => found[..length] == *body,
            AnswerFraming::Chunked => sample::unchunk(found).is_some_and(|found| found == body),
            AnswerFraming::Close => false,
        }
    }
}
