//! The handshake: the first bytes of a connection on a listener with TLS.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use howdah_http::CertificateVariables;
use howdah_site::Sites;
use rustls::server::{Accepted, Acceptor};
use rustls::{ServerConfig, ServerConnection};
use tokio::net::TcpStream;

use super::TlsPolicy;
use super::certificates::NoCertificate;
use super::established::EstablishedTls;
use super::facts;
use super::settings;
use super::site_certificates::take_chosen;
use crate::front::FrontThread;
use crate::log::Level;
use crate::net::{DeadlineWatch, EncryptedTransport, Peer, RecordMeter, task_waker};
use crate::quic::Offer;

/// Bytes of the client's first flight that are read at once.
const ROOM: usize = 4096;
/// The type of a record with handshake messages (RFC 8446 §5.1). No method of HTTP begins with it.
const HANDSHAKE: u8 = 22;
/// The protocol of authorities that check a name (RFC 8737 §6.2).
const CHALLENGE: &[u8] = b"acme-tls/1";
/// A fatal alert, `unrecognized_name` (RFC 6066 §3).
const UNRECOGNIZED_NAME: [u8; 7] = [21, 3, 3, 0, 2, 2, 112];
/// A fatal alert, `handshake_failure` (RFC 8446 §6.2).
const HANDSHAKE_FAILURE: [u8; 7] = [21, 3, 3, 0, 2, 2, 40];
/// A fatal alert, `internal_error` (RFC 8446 §6.2).
const INTERNAL_ERROR: [u8; 7] = [21, 3, 3, 0, 2, 2, 80];
/// A fatal alert, `protocol_version` (RFC 8446 §6.2).
const PROTOCOL_VERSION: [u8; 7] = [21, 3, 3, 0, 2, 2, 70];
/// Bytes of the client's first message up to its version: the head of the record, the head of the
/// message, the version (RFC 8446 §4.1.2, §5.1).
const UP_TO_VERSION: usize = 5 + 4 + 2;
/// TLS 1.2, which later versions say there, too.
const TLS12: [u8; 2] = [3, 3];

/// The library's words where no certificate was chosen.
const NONE_CHOSEN: &str = "no server certificate chain resolved";

/// The reason why a handshake failed.
enum HandshakeFailure {
    /// The client went away before it sent a byte, as monitors do.
    Nothing,
    /// The client took too long.
    TooSlow,
    /// The handshake was an authority's, which checks a name.
    Challenge,
    NoCertificate(NoCertificate),
    /// The client's account has no room for the certificates.
    Memory,
    Tls(rustls::Error),
    Broken(io::Error),
}

impl fmt::Display for HandshakeFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HandshakeFailure::Nothing => f.write_str("the client has sent nothing"),
            HandshakeFailure::Challenge => f.write_str("it was an authority's"),
            HandshakeFailure::TooSlow => f.write_str("it took longer than `handshake_timeout`"),
            HandshakeFailure::Memory => f.write_str(
                "the client's handshakes and responses take as much memory as `client_memory` \
                 allows",
            ),
            HandshakeFailure::NoCertificate(why) => fmt::Display::fmt(why, f),
            // The site has certificates, but the client can check none of them.
            HandshakeFailure::Tls(rustls::Error::General(why)) if why == NONE_CHOSEN => f.write_str(
                "the client has no cipher suite or kind of signature for the site's certificates",
            ),
            HandshakeFailure::Tls(error) => fmt::Display::fmt(error, f),
            HandshakeFailure::Broken(error) => match error.get_ref() {
                Some(inner) if inner.is::<rustls::Error>() => fmt::Display::fmt(inner, f),
                _ => write!(f, "the connection broke ({error})"),
            },
        }
    }
}

impl From<io::Error> for HandshakeFailure {
    fn from(error: io::Error) -> HandshakeFailure {
        HandshakeFailure::Broken(error)
    }
}

/// Waits for the first byte of a connection, without taking it, and returns whether a handshake
/// begins with it. `None`: the client sent nothing.
pub(crate) async fn is_hello(thread: &FrontThread, socket: &TcpStream) -> Option<bool> {
    let watch = watch(thread).await;
    let mut first = [0];
    let length = before(&watch, async { Ok(socket.peek(&mut first).await?) }).await.ok()?;
    (length > 0).then_some(first[0] == HANDSHAKE)
}

/// Performs the handshake of a new connection. Returns the transport, and the peer with the facts
/// about the connection. `None`: the handshake failed, and the reason is logged.
///
/// A connection without a request may be closed at any time, therefore also one in its handshake.
pub(crate) async fn accept(
    thread: &Rc<FrontThread>,
    socket: TcpStream,
    peer: &Peer,
) -> Option<(EncryptedTransport, Peer)> {
    let watch = watch(thread).await;
    let remote = peer.remote;
    let result = before(&watch, perform(thread, socket, peer)).await;
    match result {
        Ok(made) => Some(made),
        Err(HandshakeFailure::Nothing | HandshakeFailure::Challenge) => None,
        Err(failure) => {
            let what = format!("the TLS handshake failed: {failure}");
            thread.shared.log.say_of_client(Level::Info, None, remote, &what);
            None
        }
    }
}

async fn perform(
    thread: &FrontThread,
    socket: TcpStream,
    peer: &Peer,
) -> Result<(EncryptedTransport, Peer), HandshakeFailure> {
    let (accepted, rest, records) = hello(thread, &socket).await?;
    if let Some(settings) = challenge(thread, &accepted) {
        let (session, _) = begin(accepted, settings, &socket, &rest)?;
        let mut transport = EncryptedTransport::new(socket, session, records);
        finish(thread, &mut transport).await?;
        // The authority has seen the certificate, and closes the connection.
        return Err(HandshakeFailure::Challenge);
    }
    let (site, settings) = match settings(thread, peer, accepted.client_hello().server_name()) {
        Ok(found) => found,
        Err(why) => {
            // Nothing was sent yet, so the few bytes fit. A client that is gone needs none.
            let _ = socket.try_write(&UNRECOGNIZED_NAME);
            return Err(HandshakeFailure::NoCertificate(why));
        }
    };
    // A client that reads nothing leaves the certificates in memory. A proxy has many clients.
    let mut held = thread.held_memory(peer);
    if !peer.is_proxy && !held.hold_many(longest_chain(thread, site)) {
        let _ = socket.try_write(&INTERNAL_ERROR);
        return Err(HandshakeFailure::Memory);
    }
    let (session, certificate) = begin(accepted, settings, &socket, &rest)?;
    let mut transport = EncryptedTransport::new(socket, session, records);
    finish(thread, &mut transport).await?;
    let tls = EstablishedTls {
        facts: transport.facts(|session| facts::of(session, certificate)),
        site,
        alternative: alternative(thread, peer),
    };
    let peer = Peer {
        scheme: howdah_http::Scheme::Https,
        tls: Some(Arc::new(tls)),
        ..peer.clone()
    };
    Ok((transport, peer))
}

/// Returns the settings for an authority that checks a name (RFC 8737); `None` for other clients.
fn challenge(thread: &FrontThread, accepted: &Accepted) -> Option<Arc<ServerConfig>> {
    let challenges = thread.challenges();
    if challenges.is_empty() {
        return None;
    }
    let hello = accepted.client_hello();
    let mut protocols = hello.alpn()?;
    let is_alone = protocols.next() == Some(CHALLENGE) && protocols.next().is_none();
    let (certificate, key) = challenges.tls(hello.server_name().filter(|_| is_alone)?)?;
    settings::for_challenge(&certificate, &key, CHALLENGE).map(Arc::new)
}

/// Reads the client's first message. Returns it with the bytes that came behind it, and the place
/// of all of them among the client's records. The message's last part has waited for its turn.
async fn hello(
    thread: &FrontThread,
    socket: &TcpStream,
) -> Result<(Accepted, Vec<u8>, RecordMeter), HandshakeFailure> {
    let mut acceptor = Acceptor::default();
    let mut records = RecordMeter::default();
    let mut received = 0;
    let mut is_old = false;
    loop {
        socket.readable().await?;
        thread.handshake_turns().take().await;
        let mut room = [0; ROOM];
        let mut bytes = match socket.try_read(&mut room) {
            Ok(0) if received == 0 => return Err(HandshakeFailure::Nothing),
            Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            Ok(count) => &room[..count],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(error) => return Err(error.into()),
        };
        if received == 0 {
            is_old = is_older_than_tls12(bytes);
        }
        received += bytes.len();
        records.read(bytes);
        while !bytes.is_empty() {
            acceptor.read_tls(&mut bytes)?;
            match acceptor.accept() {
                Ok(Some(accepted)) => return Ok((accepted, bytes.to_vec(), records)),
                Ok(None) => {}
                // The library misses extensions of TLS 1.2 before it looks at the version.
                Err((error, _)) if is_old => {
                    let _ = socket.try_write(&PROTOCOL_VERSION);
                    return Err(HandshakeFailure::Tls(error));
                }
                Err((error, mut alert)) => {
                    let _ = alert.write_all(&mut AlertSocket(socket));
                    return Err(HandshakeFailure::Tls(error));
                }
            }
        }
    }
}

/// Whether a client begins with a message of TLS 1.1 or an older version.
fn is_older_than_tls12(start: &[u8]) -> bool {
    let version = start.get(UP_TO_VERSION - TLS12.len()..UP_TO_VERSION);
    version.is_some_and(|version| *version < TLS12[..])
}

/// Begins a session with the client's first message, and returns it with the variables of the
/// certificate that was chosen meanwhile.
fn begin(
    accepted: Accepted,
    settings: Arc<ServerConfig>,
    socket: &TcpStream,
    mut rest: &[u8],
) -> Result<(ServerConnection, Option<Arc<CertificateVariables>>), HandshakeFailure> {
    let mut session = accepted.into_connection(settings).map_err(|(error, mut alert)| {
        let _ = match &error {
            // The library says `access_denied`.
            rustls::Error::General(why) if why == NONE_CHOSEN => {
                socket.try_write(&HANDSHAKE_FAILURE).map(drop)
            }
            _ => alert.write_all(&mut AlertSocket(socket)),
        };
        HandshakeFailure::Tls(error)
    })?;
    let certificate = take_chosen();
    // The first message may have brought early data with it.
    loop {
        if let Err(error) = session.process_new_packets() {
            let _ = session.write_tls(&mut AlertSocket(socket));
            return Err(HandshakeFailure::Tls(error));
        }
        if rest.is_empty() {
            return Ok((session, certificate));
        }
        session.read_tls(&mut rest)?;
    }
}

/// Goes on with a handshake until its end. Each message of the client waits for its turn: also the
/// second one may take a key exchange.
async fn finish(thread: &FrontThread, transport: &mut EncryptedTransport) -> io::Result<()> {
    loop {
        let mut is_woken = false;
        let ended = poll_fn(|context| match is_woken {
            true => Poll::Ready(None),
            false => {
                is_woken = true;
                transport.poll_handshake(context).map(Some)
            }
        });
        if let Some(result) = ended.await {
            return result;
        }
        thread.handshake_turns().take().await;
    }
}

/// Returns the site for a client that asks for `name`, and its settings: the site that has the
/// name, if the site has a certificate for it or lists the name itself.
fn settings(
    thread: &FrontThread,
    peer: &Peer,
    name: Option<&str>,
) -> Result<(usize, Arc<ServerConfig>), NoCertificate> {
    let none = || no_certificate(name);
    let tls = thread.shared.tls.as_ref().ok_or_else(none)?;
    let number = site_for(thread.sites(), tls, peer.listener, peer.local.ip(), name)?;
    let settings = tls.settings(number);
    settings.map(|settings| (number, settings)).ok_or_else(none)
}

/// Returns the bytes of certificates that a handshake with the site sends at most.
fn longest_chain(thread: &FrontThread, site: usize) -> usize {
    let tls = thread.shared.tls.as_ref();
    tls.map_or(0, |tls| tls.certificates.longest_chain(site))
}

/// Returns the number of the site for a client that asks for `name` at `address` of the listener
/// with that number.
///
/// # Errors
/// No site has the name, or the site has no certificate for it.
pub(super) fn site_for(
    sites: &Sites,
    tls: &TlsPolicy,
    listener: usize,
    address: IpAddr,
    name: Option<&str>,
) -> Result<usize, NoCertificate> {
    let none = || no_certificate(name);
    let address = address.to_canonical().to_string();
    let host = name.map_or(address, str::to_ascii_lowercase);
    let site = sites.find_on(listener, host.as_bytes()).ok_or_else(none)?;
    if tls.is_closed(site.number()) {
        return Err(none());
    }
    let has_one = match name {
        Some(_) => tls.answers(site, &host),
        None => tls.certificates.count(site.number()) > 0,
    };
    has_one.then_some(site.number()).ok_or_else(none)
}

fn no_certificate(name: Option<&str>) -> NoCertificate {
    let name = name.map(str::to_ascii_lowercase);
    name.map_or(NoCertificate::NoName, NoCertificate::Name)
}

/// Returns the offer of HTTP/3; `None`: HTTP/3 does not serve the same.
fn alternative(thread: &FrontThread, peer: &Peer) -> Option<Offer> {
    let offer = thread.shared.quic.as_ref()?.offer(peer.listener)?;
    (!peer.is_proxy).then(|| offer.clone())
}

/// Sends an alert to a client to which nothing was sent yet.
struct AlertSocket<'s>(&'s TcpStream);

impl io::Write for AlertSocket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns a watch with the deadline of a handshake.
async fn watch(thread: &FrontThread) -> Rc<DeadlineWatch> {
    let waker = task_waker().await;
    let watch = thread.watches().add(waker);
    watch.arm(thread.config().limits.handshake_timeout);
    watch.set_idle(true);
    watch
}

/// Waits for `work`, at most until the deadline of `watch`.
async fn before<R>(
    watch: &DeadlineWatch,
    work: impl Future<Output = Result<R, HandshakeFailure>>,
) -> Result<R, HandshakeFailure> {
    let mut work = std::pin::pin!(work);
    poll_fn(|context| match work.as_mut().poll(context) {
        Poll::Pending if watch.is_expired() => Poll::Ready(Err(HandshakeFailure::TooSlow)),
        other => other,
    })
    .await
}
