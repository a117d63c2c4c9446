//! Loads: the requests that a stack is measured with.

use std::time::Duration;

/// A request that is repeated, and the answer that it must get.
#[derive(Clone, Debug, Default)]
pub struct Question {
    /// Path and query.
    pub path: String,
    /// The protocol that the request is sent by.
    pub protocol: LoadProtocol,
    /// The Host field; `None`: address and port, or [`tls::HOST`](crate::tls::HOST) over TLS.
    pub host: Option<String>,
    /// Further request fields.
    pub fields: Vec<(String, String)>,
    /// The body that every answer must have, byte for byte. `None`: any body of an answer with
    /// status 200.
    pub body: Option<Vec<u8>>,
    /// Whether all stacks must give the same body, where `body` is `None`. The answer of the
    /// group's first stack is then expected from all.
    pub is_agreed: bool,
}

/// A protocol between client and server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LoadProtocol {
    /// HTTP/1.1 in the clear.
    #[default]
    Http,
    /// HTTP/1.1 over TLS.
    Https,
    /// HTTP/2 over TLS. Stacks that are asked over HTTP/3 get the same load over QUIC.
    Http2,
}

/// A kind of load with its parameters.
#[derive(Clone, Debug)]
pub enum Load {
    /// wrk with one thread: each connection asks again as soon as it has its answer.
    Wrk(Closed),
    /// h2load with this many requests at once on each connection: 1, or more over HTTP/2.
    H2load(Closed, usize),
    /// TLS handshakes, each on a new connection, with one request after it.
    Handshakes(Closed, TlsHandshake),
    /// ApacheBench, as the studies used it.
    Ab(AbRun),
    /// A fixed rate that does not depend on the answers. Latency is counted from the moment at
    /// which a request was due, so that a stalled server cannot hide the waiting time.
    OpenLoop(Open),
    /// A number of clients that grows evenly from 1; hits, errors and time-outs are counted.
    Ramp(Ramp),
    /// Connections that ask once and stay open.
    Idle(Closed),
    /// Clients that are slow at something.
    Slow(Slow, Closed),
    /// A fixed rate twice: first alone, then beside connections that keep every PHP process busy
    /// with the other question.
    Beside(Open, Busy),
    /// The file in each of this many folders, over one connection, twice.
    Folders(usize),
    /// Clients that ask while the server reloads its configuration every second.
    Reload(Closed),
}

/// Connections that ask again and again.
#[derive(Clone, Copy, Debug)]
pub struct Closed {
    /// Connections that are open at once.
    pub connections: usize,
    /// Duration.
    pub time: Duration,
}

/// `ab -n requests -c concurrency [-k]`.
#[derive(Clone, Copy, Debug)]
pub struct AbRun {
    /// Requests in all.
    pub requests: u64,
    /// Requests at once.
    pub concurrency: usize,
    /// Whether connections are kept.
    pub keep_alive: bool,
    /// Upper limit of the duration, in whole seconds.
    pub at_most: Duration,
}

/// Requests at fixed moments.
#[derive(Clone, Copy, Debug)]
pub struct Open {
    /// Requests per second.
    pub rate: f64,
    /// Connections that they are spread over.
    pub connections: usize,
    /// Duration.
    pub time: Duration,
}

/// A load that keeps PHP processes busy.
#[derive(Clone, Debug)]
pub struct Busy {
    /// The question that is repeated.
    pub question: Question,
    /// Connections that ask at once.
    pub connections: usize,
}

/// A growing number of clients.
#[derive(Clone, Copy, Debug)]
pub struct Ramp {
    /// Whether a client keeps its connection for as long as the server does. Otherwise each request
    /// uses a new one.
    pub keeps: bool,
    /// Time that a client reads a page before it asks for the next.
    pub reads: Duration,
    /// Upper limit of the time after the ramp in which the server is to answer again; zero: nobody
    /// looks.
    pub recovery: Duration,
    /// Clients at the end.
    pub clients: usize,
    /// Time until then.
    pub time: Duration,
    /// Time that a client waits for an answer.
    pub timeout: Duration,
}

/// A kind of TLS handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsHandshake {
    /// With the certificate and its signature.
    Full,
    /// With the ticket of an earlier connection.
    Resumed,
}

/// The part of the exchange that a slow client delays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slow {
    /// Sending the head.
    Head,
    /// Sending the body.
    Body,
    /// Reading the answer.
    Reader,
}

impl Load {
    /// Returns whether the load warms a stack up before it is measured.
    pub fn is_warmed_up(&self) -> bool {
        matches!(self, Load::Wrk(_) | Load::H2load(..) | Load::Ab(_) | Load::Handshakes(..))
    }

    /// Duration of the load; its upper limit where the load has a number of requests.
    pub fn lasts(&self) -> Duration {
        match self {
            Load::Wrk(closed) | Load::H2load(closed, _) | Load::Handshakes(closed, _) => {
                closed.time.max(SECOND)
            }
            Load::Ab(bench) => bench.at_most.max(SECOND),
            Load::OpenLoop(open) => open.time,
            Load::Beside(open, _) => 2 * open.time + PAUSE,
            Load::Ramp(ramp) => ramp.time + BACKLOG.max(ramp.recovery / 10),
            Load::Idle(closed) => {
                closed.time + CONNECT * u32::try_from(closed.connections).unwrap_or(u32::MAX)
            }
            Load::Slow(_, closed) | Load::Reload(closed) => closed.time,
            Load::Folders(count) => 2 * FOLDER * u32::try_from(*count).unwrap_or(u32::MAX),
        }
    }
}

/// Time in which requests of the last clients are still answered.
const BACKLOG: Duration = Duration::from_secs(1);
/// The unit of time of wrk and ab.
const SECOND: Duration = Duration::from_secs(1);
/// Time in which PHP processes become busy.
pub(crate) const PAUSE: Duration = Duration::from_millis(300);
/// Time of a request for a file in a folder that was not asked for before.
const FOLDER: Duration = Duration::from_micros(350);
/// Time of a new connection and two requests on it.
const CONNECT: Duration = Duration::from_micros(350);
