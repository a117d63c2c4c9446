//! Loads: who asks, how, and what came of it.

use std::time::Duration;

/// One question, to be asked many times.
#[derive(Clone, Debug, Default)]
pub struct Question {
    /// Path and query.
    pub path: String,
    /// The Host field; `None` is the address.
    pub host: Option<String>,
    /// Further request fields.
    pub fields: Vec<(String, String)>,
    /// The body that every answer must have, byte for byte; `None` is any body of 200.
    pub body: Option<Vec<u8>>,
    /// Whether all stacks must answer with the same body, where `body` is `None`: that of the
    /// group's first stack is expected from all.
    pub is_agreed: bool,
}

/// How a load is put on.
#[derive(Clone, Debug)]
pub enum Load {
    /// wrk, one thread: each connection asks again as soon as it has its answer.
    Wrk(Closed),
    /// h2load over HTTP/1.1, several threads: for machines on which one thread of wrk is too slow.
    H2load(Closed),
    /// ApacheBench, as the studies used it.
    Ab(Bench),
    /// A fixed rate, whatever the answers do; latency is counted from when a request was due (so
    /// that a server that stands still cannot hide what it makes others wait).
    OpenLoop(Open),
    /// From 1 to so many clients, evenly over the time; hits, errors and time-outs are counted.
    Ramp(Ramp),
    /// Connections that ask once and then stay open.
    Idle(Closed),
    /// Clients that are slow at something.
    Slow(Slow, Closed),
    /// A fixed rate twice: first alone, then beside connections that keep every PHP process busy
    /// with the other question.
    Beside(Open, Busy),
    /// The file in each of this many folders, over one connection, twice.
    Folders(usize),
    /// Clients that must not notice that the server takes a new configuration every second.
    Reload(Closed),
}

/// Connections that ask again and again.
#[derive(Clone, Copy, Debug)]
pub struct Closed {
    /// How many are open at once.
    pub connections: usize,
    /// For how long.
    pub time: Duration,
}

/// `ab -n requests -c concurrency [-k]`.
#[derive(Clone, Copy, Debug)]
pub struct Bench {
    /// How many requests in all.
    pub requests: u64,
    /// How many at once.
    pub concurrency: usize,
    /// Whether connections are kept.
    pub keep_alive: bool,
    /// It ends after so long, in whole seconds, however many requests are left.
    pub at_most: Duration,
}

/// Requests at fixed moments.
#[derive(Clone, Copy, Debug)]
pub struct Open {
    /// Requests per second.
    pub rate: f64,
    /// Connections that they are spread over.
    pub connections: usize,
    /// For how long.
    pub time: Duration,
}

/// What keeps PHP busy.
#[derive(Clone, Debug)]
pub struct Busy {
    /// What is asked again and again.
    pub question: Question,
    /// By how many connections at once.
    pub connections: usize,
}

/// A growing crowd, each with a connection per request.
#[derive(Clone, Copy, Debug)]
pub struct Ramp {
    /// How many there are at the end.
    pub clients: usize,
    /// How long it takes until then.
    pub time: Duration,
    /// How long a client waits for its answer.
    pub timeout: Duration,
}

/// What a slow client is slow at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slow {
    /// Its request's head.
    Head,
    /// Its request's body.
    Body,
    /// Reading the answer.
    Reader,
}

impl Load {
    /// Whether it is put on for a moment before it is measured.
    pub fn is_warmed_up(&self) -> bool {
        matches!(self, Load::Wrk(_) | Load::H2load(_) | Load::Ab(_))
    }

    /// How long it takes; of a load with a number of requests, the most that it can take.
    pub fn lasts(&self) -> Duration {
        match self {
            Load::Wrk(closed) | Load::H2load(closed) => closed.time.max(SECOND),
            Load::Ab(bench) => bench.at_most.max(SECOND),
            Load::OpenLoop(open) => open.time,
            Load::Beside(open, _) => 2 * open.time + PAUSE,
            Load::Ramp(ramp) => ramp.time + BACKLOG,
            Load::Idle(closed) => {
                closed.time + CONNECT * u32::try_from(closed.connections).unwrap_or(u32::MAX)
            }
            Load::Slow(_, closed) | Load::Reload(closed) => closed.time,
            Load::Folders(count) => 2 * FOLDER * u32::try_from(*count).unwrap_or(u32::MAX),
        }
    }
}

/// What a crowd that has gone leaves behind is still answered.
const BACKLOG: Duration = Duration::from_secs(1);
/// wrk and ab count time in these.
const SECOND: Duration = Duration::from_secs(1);
/// For PHP processes to become busy.
pub(crate) const PAUSE: Duration = Duration::from_millis(300);
/// A request for a file in a folder that was not asked for before.
const FOLDER: Duration = Duration::from_micros(350);
/// A new connection and two requests on it.
const CONNECT: Duration = Duration::from_micros(350);
