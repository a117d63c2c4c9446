//! A client of HTTP/2 with prior knowledge: the client of the `h2` crate.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use h2::client::{Builder, SendRequest};
use h2::{Reason, RecvStream, SendStream};
use http::Request;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::site::Site;
use crate::support::PATIENCE;

/// One connection. Its methods run both sides of the protocol until they have what they want.
pub struct Http2 {
    runtime: Runtime,
    sender: SendRequest<Bytes>,
    authority: String,
    scheme: &'static str,
    connection: tokio::task::JoinHandle<Result<(), h2::Error>>,
}

/// A response.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub fields: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// Status and fields of the interim responses before it.
    pub interim: Vec<(u16, Vec<(String, String)>)>,
    /// The reason for which the stream was reset.
    pub reset: Option<Reason>,
}

impl Reply {
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

impl Http2 {
    pub fn connect(site: &Site) -> Http2 {
        Http2::with(site.server.address(), &Builder::new())
    }

    /// A connection with settings of the client's own.
    pub fn with(address: SocketAddr, builder: &Builder) -> Http2 {
        Http2::over(address, builder, async |stream| stream)
    }

    /// A connection over TLS that asks for `name`.
    pub fn encrypted(address: SocketAddr, mut tls: ClientConfig, name: &str) -> Http2 {
        tls.alpn_protocols = vec![b"h2".to_vec()];
        let name = ServerName::try_from(name.to_owned()).unwrap();
        Http2::over(address, &Builder::new(), async |stream| {
            TlsConnector::from(Arc::new(tls)).connect(name, stream).await.unwrap()
        })
    }

    /// A connection like [`encrypted`](Http2::encrypted). Its requests are for that host, too.
    pub fn encrypted_as(address: SocketAddr, tls: ClientConfig, name: &str) -> Http2 {
        let client = Http2::encrypted(address, tls, name);
        Http2 {
            authority: name.to_owned(),
            scheme: "https",
            ..client
        }
    }

    /// A connection over what `wrap` makes of the socket.
    fn over<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(
        address: SocketAddr,
        builder: &Builder,
        wrap: impl AsyncFnOnce(TcpStream) -> S,
    ) -> Http2 {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (sender, connection) = runtime.block_on(async {
            let stream = TcpStream::connect(address).await.unwrap();
            stream.set_nodelay(true).unwrap();
            let stream = wrap(stream).await;
            let (sender, connection) =
                builder.handshake::<_, Bytes>(stream).await.expect("the server speaks HTTP/2");
            (sender, tokio::spawn(connection))
        });
        Http2 {
            runtime,
            sender,
            authority: address.to_string(),
            scheme: "http",
            connection,
        }
    }

    /// Returns whether the server takes WebSockets. Its settings have come.
    pub fn takes_websockets(&self) -> bool {
        self.sender.is_extended_connect_protocol_enabled()
    }

    /// Runs a test's steps, at most for [`PATIENCE`].
    pub fn run<T>(&self, steps: impl Future<Output = T>) -> T {
        self.runtime
            .block_on(async { timeout(PATIENCE, steps).await.expect("the step ends") })
    }

    pub fn get(&self, target: &str) -> Reply {
        self.ask("GET", target, &[], b"")
    }

    /// Asks for a page like [`get`](Http2::get). `None`: the connection takes no more requests.
    pub fn try_get(&self, target: &str) -> Option<Reply> {
        self.run(async {
            let mut sender = self.sender.clone().ready().await.ok()?;
            let (pending, _) = sender.send_request(self.request("GET", target, &[]), true).ok()?;
            let reply = reply(pending).await;
            // A request that the server refuses before it begins may be sent again.
            let is_refused = matches!(reply.reset, Some(Reason::NO_ERROR | Reason::REFUSED_STREAM));
            (reply.status != 0 || !is_refused).then_some(reply)
        })
    }

    /// Sends a request with its whole body, and waits for the whole response.
    pub fn ask(&self, method: &str, target: &str, fields: &[(&str, &str)], body: &[u8]) -> Reply {
        let request = self.request(method, target, fields);
        self.run(async {
            let (pending, stream) = self.begin(request, body.is_empty()).await;
            let sending = async {
                if !body.is_empty() {
                    send(stream, body).await;
                }
            };
            tokio::join!(reply(pending), sending).0
        })
    }

    /// A request with a body of its own length.
    pub fn request(&self, method: &str, target: &str, fields: &[(&str, &str)]) -> Request<()> {
        let uri = format!("{}://{}{target}", self.scheme, self.authority);
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap()
    }

    /// Opens a stream.
    pub async fn begin(
        &self,
        request: Request<()>,
        ends: bool,
    ) -> (h2::client::ResponseFuture, SendStream<Bytes>) {
        let mut sender = self.sender.clone().ready().await.expect("a stream can be opened");
        sender.send_request(request, ends).expect("a stream is opened")
    }

    /// Opens a stream for a GET.
    pub async fn begin_get(&self, target: &str) -> h2::client::ResponseFuture {
        self.begin(self.request("GET", target, &[]), true).await.0
    }

    /// Waits for the whole response to a GET beside other steps.
    pub fn spawn_get(&self, target: &str) -> tokio::task::JoinHandle<Reply> {
        let pending = self.run(self.begin_get(target));
        self.runtime.spawn(reply(pending))
    }

    /// Returns whether the connection may carry another request, after a look at what has come.
    pub fn is_open(&self) -> bool {
        self.run(async {
            tokio::time::sleep(Duration::from_millis(5)).await;
            self.sender.clone().ready().await.is_ok()
        })
    }

    /// Waits for the end of the connection.
    pub fn ended(mut self) -> Result<(), h2::Error> {
        let connection = &mut self.connection;
        drop(self.sender);
        self.runtime.block_on(async {
            timeout(PATIENCE, connection)
                .await
                .expect("it ends")
                .expect("it does not panic")
        })
    }
}

/// Sends a body as the windows allow. The rest is not sent if the server does not want it.
pub async fn send(mut stream: SendStream<Bytes>, body: &[u8]) {
    let mut rest = Bytes::copy_from_slice(body);
    while !rest.is_empty() {
        stream.reserve_capacity(rest.len());
        let room = std::future::poll_fn(|context| stream.poll_capacity(context)).await;
        let Some(Ok(room)) = room else { return };
        let part = rest.split_to(room.min(rest.len()));
        if stream.send_data(part, rest.is_empty()).is_err() {
            return;
        }
    }
}

/// Waits for a whole response.
pub async fn reply(mut pending: h2::client::ResponseFuture) -> Reply {
    let mut interim = Vec::new();
    let head = std::future::poll_fn(|context| {
        while let std::task::Poll::Ready(Some(Ok(head))) = pending.poll_informational(context) {
            interim.push((head.status().as_u16(), lines(head.headers())));
        }
        std::pin::Pin::new(&mut pending).poll(context)
    })
    .await;
    let response = match head {
        Ok(response) => response,
        Err(error) => {
            return Reply {
                status: 0,
                fields: Vec::new(),
                body: Vec::new(),
                interim,
                reset: error.reason(),
            };
        }
    };
    let (head, mut content) = response.into_parts();
    let (body, reset) = body(&mut content).await;
    Reply {
        status: head.status.as_u16(),
        fields: lines(&head.headers),
        body,
        interim,
        reset,
    }
}

/// Receives content to its end, and lets the server send more as it comes.
pub async fn body(content: &mut RecvStream) -> (Vec<u8>, Option<Reason>) {
    let mut body = Vec::new();
    while let Some(part) = content.data().await {
        match part {
            Ok(part) => {
                content.flow_control().release_capacity(part.len()).unwrap();
                body.extend_from_slice(&part);
            }
            Err(error) => return (body, error.reason()),
        }
    }
    (body, None)
}

fn lines(fields: &http::HeaderMap) -> Vec<(String, String)> {
    let line = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
        (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned())
    };
    fields.iter().map(line).collect()
}
