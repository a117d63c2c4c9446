//! Measures what a signature in another process costs beside a TLS handshake: processor time, as
//! other programs may run meanwhile.
//!
//! ```sh
//! cargo run --release -p howdah-server --example signer_cost
//! ```

use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_RSA_SHA256};
use rustls::client::Resumption;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::server::NoServerSessionStorage;
use rustls::sign::{CertifiedKey, Signer, SigningKey, SingleCertAndKey};
use rustls::{
    ClientConfig, ClientConnection, Error, RootCertStore, ServerConfig, ServerConnection,
    SignatureAlgorithm, SignatureScheme,
};

/// Handshakes of a round, and rounds of each kind, one kind after the other.
const HANDSHAKES: usize = 400;
const ROUNDS: usize = 9;

fn main() {
    if std::env::args().nth(1).as_deref() == Some("sign") {
        return sign_for_parent();
    }
    let kinds = [("ECDSA P-256", &PKCS_ECDSA_P256_SHA256), ("RSA 2048", &PKCS_RSA_SHA256)];
    println!("processor time of the server's side of a full handshake with TLS 1.3, in µs;");
    println!("the median of {ROUNDS} rounds of {HANDSHAKES} handshakes (least to most)");
    for (name, algorithm) in kinds {
        let pair = KeyPair::generate_for(algorithm).expect("a key");
        let params = CertificateParams::new(["a.example".to_owned()]).expect("parameters");
        let certificate = params.self_signed(&pair).expect("a certificate").der().clone();
        let key = pair.serialize_der();
        let process = SignerProcess::start(&key);
        let own = load(&key);
        let other: Arc<dyn SigningKey> = Arc::new(OtherKey {
            inner: Arc::clone(&own),
            socket: Arc::clone(&process.socket),
        });
        let (mut own_times, mut other_times) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            own_times.push(round(&certificate, &own, None));
            other_times.push(round(&certificate, &other, Some(&process)));
        }
        let (own, other) = (Figures::of(own_times), Figures::of(other_times));
        let more = (other.median / own.median - 1.0) * 100.0;
        println!("{name}: key in the process {own}; in another one {other}; {more:+.1} %");
    }
}

/// Times in µs.
struct Figures {
    least: f64,
    median: f64,
    most: f64,
}

impl Figures {
    fn of(mut times: Vec<f64>) -> Figures {
        times.sort_by(f64::total_cmp);
        Figures {
            least: times[0],
            median: times[times.len() / 2],
            most: times[times.len() - 1],
        }
    }
}

impl std::fmt::Display for Figures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.1} ({:.1} to {:.1})", self.median, self.least, self.most)
    }
}

/// Performs the handshakes, and returns the time of one in µs, with that of the other process.
fn round(
    certificate: &CertificateDer<'static>,
    key: &Arc<dyn SigningKey>,
    process: Option<&SignerProcess>,
) -> f64 {
    let (server, client) = settings(certificate, key);
    let (ours, theirs): (Vec<UnixStream>, Vec<UnixStream>) =
        (0..HANDSHAKES).map(|_| UnixStream::pair().expect("sockets")).unzip();
    let clients = thread::spawn(move || {
        for mut socket in theirs {
            let name = ServerName::try_from("a.example").expect("a name");
            let mut session = ClientConnection::new(Arc::clone(&client), name).expect("a session");
            shake(|| session.complete_io(&mut socket).map(|_| session.is_handshaking()));
        }
    });
    let elsewhere = || process.map_or(0, SignerProcess::time);
    let before = time("/proc/thread-self/schedstat") + elsewhere();
    for mut socket in ours {
        let mut session = ServerConnection::new(Arc::clone(&server)).expect("a session");
        shake(|| session.complete_io(&mut socket).map(|_| session.is_handshaking()));
    }
    let after = time("/proc/thread-self/schedstat") + elsewhere();
    clients.join().expect("clients");
    (after - before) as f64 / 1000.0 / HANDSHAKES as f64
}

fn shake(mut turn: impl FnMut() -> io::Result<bool>) {
    while turn().expect("a handshake") {}
}

/// Settings of both sides, without sessions to continue.
fn settings(
    certificate: &CertificateDer<'static>,
    key: &Arc<dyn SigningKey>,
) -> (Arc<ServerConfig>, Arc<ClientConfig>) {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let certified = CertifiedKey::new(vec![certificate.clone()], Arc::clone(key));
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
    let builder = builder.with_safe_default_protocol_versions().expect("versions");
    let resolver = Arc::new(SingleCertAndKey::from(certified));
    let mut server = builder.with_no_client_auth().with_cert_resolver(resolver);
    server.session_storage = Arc::new(NoServerSessionStorage {});
    server.send_tls13_tickets = 0;
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).expect("a root");
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().expect("versions");
    let mut client = builder.with_root_certificates(roots).with_no_client_auth();
    client.resumption = Resumption::disabled();
    (Arc::new(server), Arc::new(client))
}

fn load(key: &[u8]) -> Arc<dyn SigningKey> {
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.to_vec()));
    aws_lc_rs::sign::any_supported_type(&key).expect("a usable key")
}

/// The nanoseconds that a thread has run.
fn time(path: &str) -> u64 {
    let text = std::fs::read_to_string(path).expect("the kernel's scheduler statistics");
    text.split(' ').next().and_then(|text| text.parse().ok()).expect("nanoseconds")
}

/// The other process.
struct SignerProcess {
    process: Child,
    socket: Arc<Mutex<UnixStream>>,
}

impl SignerProcess {
    fn start(key: &[u8]) -> SignerProcess {
        let (mut ours, theirs) = UnixStream::pair().expect("sockets");
        let process = Command::new(std::env::current_exe().expect("this program"))
            .arg("sign")
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .spawn()
            .expect("a process");
        send(&mut ours, key).expect("a signer");
        let socket = Arc::new(Mutex::new(ours));
        SignerProcess { process, socket }
    }

    fn time(&self) -> u64 {
        time(&format!("/proc/{}/schedstat", self.process.id()))
    }
}

impl Drop for SignerProcess {
    fn drop(&mut self) {
        // It has nothing to finish.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A key whose signatures the other process makes.
#[derive(Debug)]
struct OtherKey {
    /// Tells the schemes alone.
    inner: Arc<dyn SigningKey>,
    socket: Arc<Mutex<UnixStream>>,
}

#[derive(Debug)]
struct OtherSigner {
    scheme: SignatureScheme,
    socket: Arc<Mutex<UnixStream>>,
}

impl SigningKey for OtherKey {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        let scheme = self.inner.choose_scheme(offered)?.scheme();
        let socket = Arc::clone(&self.socket);
        Some(Box::new(OtherSigner { scheme, socket }))
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        self.inner.algorithm()
    }
}

impl Signer for OtherSigner {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        let mut socket = self.socket.lock().expect("no other thread has panicked");
        let question = [&u16::from(self.scheme).to_be_bytes(), message].concat();
        let answer = send(&mut socket, &question).and_then(|()| receive(&mut socket));
        answer.map_err(|error| Error::General(error.to_string()))
    }

    fn scheme(&self) -> SignatureScheme {
        self.scheme
    }
}

/// Signs what comes on the standard input, which is a socket.
fn sign_for_parent() {
    let input = io::stdin();
    let descriptor = std::os::fd::AsFd::as_fd(&input).try_clone_to_owned().expect("a socket");
    let mut socket = UnixStream::from(descriptor);
    let key = load(&receive(&mut socket).expect("a key"));
    while let Ok(question) = receive(&mut socket) {
        let (scheme, message) = question.split_first_chunk().expect("a scheme");
        let scheme = SignatureScheme::from(u16::from_be_bytes(*scheme));
        let signer = key.choose_scheme(&[scheme]).expect("a scheme of the key");
        let signature = signer.sign(message).expect("a signature");
        if send(&mut socket, &signature).is_err() {
            return;
        }
    }
}

fn send(socket: &mut UnixStream, bytes: &[u8]) -> io::Result<()> {
    let length = u32::try_from(bytes.len()).expect("short messages").to_ne_bytes();
    socket.write_all(&[&length, bytes].concat())
}

fn receive(socket: &mut UnixStream) -> io::Result<Vec<u8>> {
    let mut room = [0; 4096];
    let mut held = 0;
    // One call is usual: the other side sends one message at a time.
    loop {
        let count = socket.read(&mut room[held..])?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        held += count;
        if let Some((length, rest)) = room[..held].split_first_chunk()
            && let Some(message) = rest.get(..u32::from_ne_bytes(*length) as usize)
        {
            return Ok(message.to_vec());
        }
    }
}
