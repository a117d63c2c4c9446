//! A visitor that speaks HTTP/3 alone, and keeps cookies.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes};
use http::{HeaderMap, Request};
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ClientConfig, Endpoint};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use url::Url;

/// The port of the server is on 127.0.0.1: clients elsewhere leave all of them free.
const OWN_ADDRESS: &str = "127.0.0.2:0";
/// The time that a page may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);

/// A browser on `https://localhost`.
pub(crate) struct Http3 {
    settings: ClientConfig,
    port: u16,
    cookies: RefCell<BTreeMap<String, String>>,
}

/// The last response to a request, redirects followed.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) redirects: usize,
    pub(crate) url: String,
    /// The heads of all responses.
    pub(crate) heads: String,
    pub(crate) content: Vec<u8>,
}

impl Http3 {
    /// A browser that trusts this certificate.
    pub(crate) fn new(port: u16, certificate: &str) -> Http3 {
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap())
            .unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        tls.alpn_protocols = vec![b"h3".to_vec()];
        Http3 {
            settings: ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).unwrap())),
            port,
            cookies: RefCell::default(),
        }
    }

    /// Asks for `url` with the content of a form and its type, or without any. Follows at most five
    /// redirects.
    pub(crate) fn ask(&self, url: &str, mut content: Option<(&str, &[u8])>) -> Answer {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (mut url, mut heads) = (Url::parse(url).unwrap(), String::new());
        for redirects in 0..=5 {
            let asked = self.ask_once(&url, content.take());
            let (status, fields, body) = runtime
                .block_on(async { tokio::time::timeout(PATIENCE, asked).await.expect("a page") });
            for (name, value) in &fields {
                heads += &format!("{name}: {}\n", String::from_utf8_lossy(value.as_bytes()));
            }
            self.keep_cookies(&fields);
            match fields.get("location").filter(|_| (300..400).contains(&status)) {
                Some(to) => url = url.join(to.to_str().unwrap()).unwrap(),
                None => {
                    let url = url.to_string();
                    return Answer {
                        status,
                        redirects,
                        url,
                        heads,
                        content: body,
                    };
                }
            }
        }
        panic!("more than five redirects, at last to {url}\n{heads}");
    }

    /// Asks on a connection of its own, as after a pause.
    async fn ask_once(
        &self,
        url: &Url,
        content: Option<(&str, &[u8])>,
    ) -> (u16, HeaderMap, Vec<u8>) {
        let method = if content.is_some() { "POST" } else { "GET" };
        let mut request = Request::builder().method(method).uri(url.as_str());
        let cookies: Vec<String> = self
            .cookies
            .borrow()
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        if !cookies.is_empty() {
            request = request.header("cookie", cookies.join("; "));
        }
        if let Some((kind, _)) = content {
            request = request.header("content-type", kind);
        }
        let endpoint = Endpoint::client(OWN_ADDRESS.parse().unwrap()).unwrap();
        let server = ([127, 0, 0, 1], self.port).into();
        let connecting = endpoint.connect_with(self.settings.clone(), server, "localhost");
        let connection = connecting.unwrap().await.expect("a connection over QUIC");
        let (mut driver, mut sender) =
            h3::client::new(h3_quinn::Connection::new(connection)).await.expect("HTTP/3");
        let exchange = async {
            let mut stream = sender.send_request(request.body(()).unwrap()).await.unwrap();
            if let Some((_, bytes)) = content {
                stream.send_data(Bytes::copy_from_slice(bytes)).await.unwrap();
            }
            stream.finish().await.unwrap();
            let head = stream.recv_response().await.unwrap();
            let mut body = Vec::new();
            while let Some(mut part) = stream.recv_data().await.unwrap() {
                body.extend_from_slice(&part.copy_to_bytes(part.remaining()));
            }
            (head.status().as_u16(), head.headers().clone(), body)
        };
        tokio::select! {
            answer = exchange => answer,
            error = poll_fn(|context| driver.poll_close(context)) => panic!("{url}: {error}"),
        }
    }

    fn keep_cookies(&self, fields: &HeaderMap) {
        let mut cookies = self.cookies.borrow_mut();
        for cookie in fields.get_all("set-cookie") {
            let cookie = cookie.to_str().unwrap();
            let (pair, attributes) = cookie.split_once(';').unwrap_or((cookie, ""));
            let (name, value) = pair.split_once('=').unwrap();
            match attributes.contains("Max-Age=0") {
                true => cookies.remove(name),
                false => cookies.insert(name.to_owned(), value.to_owned()),
            };
        }
    }
}
