//! Upstreams over TLS: whose certificates are trusted, and what the log says of the others.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, mpsc};

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::upstream::{Upstream, close, connect, echo, open, read_head};
use crate::site::Site;
use crate::support::{Folder, PATIENCE, Setup};
use crate::tls::client::{Authority, Certified};

type Encrypted = StreamOwned<ServerConnection, TcpStream>;

/// An upstream with this certificate. The receiver gets the server name of each handshake.
fn upstream(
    pair: &Certified,
    serve: impl Fn(Encrypted) + Send + Sync + 'static,
) -> (Upstream, mpsc::Receiver<Option<String>>) {
    let chain = CertificateDer::pem_slice_iter(pair.certificate.as_bytes());
    let chain = chain.collect::<Result<Vec<_>, _>>().unwrap();
    let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap();
    let builder = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let config = Arc::new(builder.with_single_cert(chain, key).unwrap());
    let (sender, names) = mpsc::channel();
    let sender = std::sync::Mutex::new(sender);
    let mut upstream = Upstream::with(move |stream| {
        let session = ServerConnection::new(Arc::clone(&config)).unwrap();
        let mut stream = StreamOwned::new(session, stream);
        while stream.conn.is_handshaking() {
            if stream.conn.complete_io(&mut stream.sock).is_err() {
                return;
            }
        }
        let _ = sender.lock().unwrap().send(stream.conn.server_name().map(str::to_owned));
        serve(stream);
    });
    upstream.url = upstream.url.replacen("http", "https", 1);
    (upstream, names)
}

fn answer(mut stream: Encrypted) {
    read_head(&mut stream);
    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
    let _ = stream.flush();
    let _ = stream.read(&mut [0]);
}

/// The authority's certificate in a file.
fn file(authority: &Authority) -> (Folder, String) {
    let folder = Folder::new();
    let path = folder.file("authority.pem", authority.pem());
    let key = format!("upstream_ca_file = \"{}\"", path.display());
    (folder, key)
}

#[test]
fn requests_and_messages_pass_over_tls() {
    let authority = Authority::new();
    let (_folder, trust) = file(&authority);
    let pair = authority.certify(&["127.0.0.1"]);
    let (sockets, _) = upstream(&pair, |stream| {
        let Ok(mut socket) = tungstenite::accept(stream) else {
            return;
        };
        while let Ok(message) = socket.read() {
            let is_data = message.is_text() || message.is_binary();
            if is_data && socket.send(message).is_err() {
                return;
            }
        }
    });
    let site = sockets.site(&trust);
    let mut socket = open(connect(&site), "/ws/chat");
    echo(&mut socket);
    close(socket);

    let pair = authority.certify(&["up.example"]);
    let (upstream, names) = upstream(&pair, answer);
    let site = upstream.site(&format!("{trust}\nupstream_tls_name = \"up.example\""));
    assert_eq!(site.get("/ws/plain").text(), "hello");
    assert_eq!(names.recv_timeout(PATIENCE).unwrap().as_deref(), Some("up.example"));
}

#[test]
fn an_upstream_that_cannot_be_trusted_is_not_spoken_to() {
    let authority = Authority::new();
    let (_folder, trust) = file(&authority);
    let refused = |site: Site, advice: &str| {
        assert_eq!(site.get("/ws/plain").status, 502, "{advice}");
        site.server.wait_for_log(advice);
    };
    let (other, _) = upstream(&Authority::new().certify(&["127.0.0.1"]), answer);
    refused(other.site(&trust), "as `upstream_ca_file`");
    let (named, _) = upstream(&authority.certify(&["up.example"]), answer);
    refused(named.site(&trust), "as `upstream_tls_name`");
    let (old, _) = upstream(&authority.certify_expired(&["127.0.0.1"]), answer);
    refused(old.site(&trust), "has expired");
    let mut plain = Upstream::with(|mut stream| {
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        let _ = stream.read(&mut [0]);
    });
    plain.url = plain.url.replacen("http", "https", 1);
    refused(plain.site(&trust), "does not speak TLS");
}

#[test]
fn authorities_that_cannot_be_read_are_a_mistake_of_the_configuration() {
    let folder = Folder::new();
    folder.folder("public");
    folder.file("empty.pem", "nothing\n");
    for (key, what) in [
        ("upstream_ca_file = \"none.pem\"", "none.pem"),
        ("upstream_ca_file = \"empty.pem\"", "empty.pem"),
        ("upstream_tls_name = \"a..b\"", "`upstream_tls_name`"),
    ] {
        let text = format!(
            "listen = [\"127.0.0.1:0\"]\n[[site]]\nroot = \"public\"\nphp = false\n\
             upstreams = [\"https://127.0.0.1:3443\"]\n{key}\n"
        );
        let file = folder.file("howdah.toml", text);
        let (code, told, errors) =
            Setup::with(&["check", "--config", &file.display().to_string()]).run();
        assert_eq!(code, Some(1), "{key}: {told}{errors}");
        assert!(errors.contains(what) || told.contains(what), "{key}: {told}{errors}");
    }
}
