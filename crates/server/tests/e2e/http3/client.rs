//! A client of HTTP/3: the client of the `h3` crate over `quinn`.

use std::future::{Future, poll_fn};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;

use bytes::{Buf, Bytes};
use h3::client::{RequestStream, SendRequest};
use h3::error::{ConnectionError, StreamError};
use h3_quinn::{BidiStream, OpenStreams};
use http::{Request, Response};
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ClientConfig, Endpoint, TransportConfig};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{RootCertStore, version};
use tokio::runtime::Runtime;
use tokio::time::timeout;

use crate::support::PATIENCE;
use crate::tls::client::Authority;

/// The port of a test's server is on 127.0.0.1: clients elsewhere leave all of them free.
const OWN_ADDRESS: &str = "127.0.0.2:0";

/// One connection. Its methods run both sides of the protocol until they have what they want.
pub struct Http3 {
    pub runtime: Runtime,
    pub endpoint: Endpoint,
    pub connection: quinn::Connection,
    sender: SendRequest<OpenStreams, Bytes>,
    driver: tokio::task::JoinHandle<ConnectionError>,
    pub settings: ClientConfig,
    server: SocketAddr,
    name: String,
}

/// A stream of a request.
pub type Stream = RequestStream<BidiStream<Bytes>, Bytes>;

/// A response.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub fields: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// The content broke off.
    pub is_broken: bool,
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

impl Http3 {
    pub fn connect(server: SocketAddr, authority: &Authority) -> Http3 {
        Http3::with(server, authority, TransportConfig::default())
    }

    /// A connection with windows of the client's own.
    pub fn with(server: SocketAddr, authority: &Authority, transport: TransportConfig) -> Http3 {
        Http3::trusting_as(server, "a.example", authority.pem().as_bytes(), transport)
    }

    /// A connection to the site of that name, of a client that trusts the authority in this PEM.
    pub fn trusting_as(
        server: SocketAddr,
        name: &str,
        authority: &[u8],
        transport: TransportConfig,
    ) -> Http3 {
        Http3::with_settings(server, name, settings(authority), transport)
    }

    /// A connection to the site of that name, of a client with these settings.
    pub fn with_settings(
        server: SocketAddr,
        name: &str,
        mut settings: ClientConfig,
        mut transport: TransportConfig,
    ) -> Http3 {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        // A client that a test does not run for a while is still there.
        transport.max_idle_timeout(None);
        settings.transport_config(Arc::new(transport));
        let (endpoint, connection, sender, driver) = runtime.block_on(async {
            let endpoint = Endpoint::client(OWN_ADDRESS.parse().unwrap()).unwrap();
            let mut connection = handshake(&endpoint, &settings, server, name).await;
            // A slow machine may exceed a test's `handshake_timeout`.
            for _ in 0..20 {
                if connection.is_err() {
                    connection = handshake(&endpoint, &settings, server, name).await;
                }
            }
            let connection = connection.expect("a connection");
            let (sender, driver) = begin(&connection).await;
            (endpoint, connection, sender, driver)
        });
        Http3 {
            runtime,
            endpoint,
            connection,
            sender,
            driver,
            settings,
            server,
            name: name.to_owned(),
        }
    }

    /// Opens another connection of the same client, which continues its session.
    pub fn reconnect(&mut self) {
        let (connection, sender, driver) = self.run(async {
            let connection =
                handshake(&self.endpoint, &self.settings, self.server, &self.name).await;
            let connection = connection.expect("a connection");
            let (sender, driver) = begin(&connection).await;
            (connection, sender, driver)
        });
        (self.connection, self.sender, self.driver) = (connection, sender, driver);
    }

    /// Opens another connection that sends before the end of its handshake. `None`: the client has
    /// no session that allows that. `server` may be a relay. Called within [`run`](Http3::run).
    pub fn begin_early(&self, server: SocketAddr) -> Option<quinn::Connection> {
        let connecting = self.endpoint.connect_with(self.settings.clone(), server, &self.name);
        connecting.unwrap().into_0rtt().ok().map(|(connection, _)| connection)
    }

    /// Moves the client to another port.
    pub fn move_away(&self) -> SocketAddr {
        let socket = UdpSocket::bind(OWN_ADDRESS).unwrap();
        let address = socket.local_addr().unwrap();
        self.run(async { self.endpoint.rebind(socket).unwrap() });
        address
    }

    /// Moves the client to another address of this machine.
    pub fn move_to(&self, address: &str) {
        let socket = UdpSocket::bind((address, 0)).unwrap();
        self.run(async { self.endpoint.rebind(socket).unwrap() });
    }

    /// Forgets what the server has given the client to prove its address with.
    pub fn forget_tokens(&mut self) {
        self.settings.token_store(Arc::new(quinn::NoneTokenStore));
    }

    /// Runs a test's steps, at most for [`PATIENCE`].
    pub fn run<T>(&self, steps: impl Future<Output = T>) -> T {
        self.runtime
            .block_on(async { timeout(PATIENCE, steps).await.expect("the step ends") })
    }

    /// Waits for the end of the connection, and returns its reason.
    pub fn ended(&self) -> String {
        self.run(async { self.connection.closed().await.to_string() })
    }

    pub fn get(&self, target: &str) -> Reply {
        self.ask("GET", target, &[], b"")
    }

    /// Sends a request with its whole body, and waits for the whole response.
    pub fn ask(&self, method: &str, target: &str, fields: &[(&str, &str)], body: &[u8]) -> Reply {
        self.try_ask(method, target, fields, body).expect("a response")
    }

    /// Asks for a page like [`get`](Http3::get), on a new connection if the present one takes no
    /// more requests. A request that was begun there must be answered. Returns whether there was a
    /// new connection.
    pub fn ask_again(&mut self, target: &str) -> (Reply, bool) {
        let begun = self.run(async { self.begin_get(target).await });
        if let Ok(stream) = begun {
            match self.run(reply(stream)) {
                Ok(reply) => return (reply, false),
                // Refused before it was begun.
                Err(error) if is_refusal(&error.to_string()) => {}
                Err(error) => panic!("{error:?}"),
            }
        }
        self.reconnect();
        (self.get(target), true)
    }

    /// Sends a request like [`ask`](Http3::ask), on a connection that may have ended.
    pub fn try_ask(
        &self,
        method: &str,
        target: &str,
        fields: &[(&str, &str)],
        body: &[u8],
    ) -> Result<Reply, StreamError> {
        let request = self.request(method, target, fields);
        self.run(async {
            let stream = self.begin(request).await?;
            let (mut send, receive) = stream.split();
            let sending = async {
                let _ = send.send_data(Bytes::copy_from_slice(body)).await;
                let _ = send.finish().await;
            };
            tokio::join!(reply(receive), sending).0
        })
    }

    /// A request to the connection's site.
    pub fn request(&self, method: &str, target: &str, fields: &[(&str, &str)]) -> Request<()> {
        let uri = format!("https://{}{target}", self.name);
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap()
    }

    /// Opens a stream, and sends the head of the request.
    pub async fn begin(&self, request: Request<()>) -> Result<Stream, StreamError> {
        self.sender.clone().send_request(request).await
    }

    /// Opens a stream for a GET.
    pub async fn begin_get(&self, target: &str) -> Result<Stream, StreamError> {
        let mut stream = self.begin(self.request("GET", target, &[])).await?;
        stream.finish().await?;
        Ok(stream)
    }
}

/// The settings of a client that trusts the authority in this PEM.
pub fn settings(authority: &[u8]) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&version::TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    settings_with(tls)
}

/// The settings of a client with these settings of TLS.
pub fn settings_with(mut tls: rustls::ClientConfig) -> ClientConfig {
    tls.alpn_protocols = vec![b"h3".to_vec()];
    ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).unwrap()))
}

/// Makes a connection of QUIC.
pub async fn handshake(
    endpoint: &Endpoint,
    settings: &ClientConfig,
    server: SocketAddr,
    name: &str,
) -> Result<quinn::Connection, quinn::ConnectionError> {
    let connecting = endpoint.connect_with(settings.clone(), server, name).unwrap();
    timeout(PATIENCE, connecting).await.expect("the handshake ends")
}

/// The sender of requests of a connection, and the task that drives it.
pub type Begun = (SendRequest<OpenStreams, Bytes>, tokio::task::JoinHandle<ConnectionError>);

/// Speaks HTTP/3 on a connection.
pub async fn begin(connection: &quinn::Connection) -> Begun {
    let transport = h3_quinn::Connection::new(connection.clone());
    let (mut driver, sender) =
        h3::client::builder().send_grease(true).build(transport).await.expect("HTTP/3");
    let driver = tokio::spawn(async move { poll_fn(|context| driver.poll_close(context)).await });
    (sender, driver)
}

/// Receives the response of a stream whose request was sent.
pub async fn reply<S>(mut stream: RequestStream<S, Bytes>) -> Result<Reply, StreamError>
where
    S: h3::quic::RecvStream,
{
    let mut interim = Vec::new();
    let head = loop {
        let head = stream.recv_response().await?;
        match head.status().is_informational() {
            true => interim.push((head.status().as_u16(), fields(&head))),
            false => break head,
        }
    };
    let (mut body, mut is_broken) = (Vec::new(), false);
    loop {
        match stream.recv_data().await {
            Ok(Some(mut part)) => body.extend_from_slice(&part.copy_to_bytes(part.remaining())),
            Ok(None) => break,
            Err(_) => {
                is_broken = true;
                break;
            }
        }
    }
    Ok(Reply {
        status: head.status().as_u16(),
        fields: fields(&head),
        body,
        is_broken,
    })
}

fn is_refusal(error: &str) -> bool {
    error.contains("H3_REQUEST_REJECTED") || error.contains("H3_NO_ERROR")
}

fn fields(head: &Response<()>) -> Vec<(String, String)> {
    let text = |value: &http::HeaderValue| value.to_str().unwrap().to_owned();
    let fields = head.headers().iter();
    fields.map(|(name, value)| (name.to_string(), text(value))).collect()
}
