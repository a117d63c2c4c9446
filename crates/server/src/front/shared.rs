//! The state that all threads of the front share.

use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex};

use howdah_config::Config;
use howdah_files::{CompressedCache, DirectiveCache, FileStore, StoreFigures};
use howdah_php::Pool;
use howdah_site::Sites;
use howdah_sys::credentials::Identity;
use tokio::sync::{Notify, mpsc, watch};

use super::challenges::Challenges;
use super::pulse::Pulse;
use super::renewals::Renewals;
use super::retirement::PoolRetirement;
use super::site_reasons::SiteReasons;
use super::watch_limits::WatchLimits;
use crate::body::{SentFiles, Storage};
use crate::budget::Budget;
use crate::crew::Crew;
use crate::host::Passwords;
use crate::log::{ErrorLog, LogWriter, SiteLogs};
use crate::net::{AcceptErrors, AcceptedConnection, Clients};
use crate::observe::{FrontCounters, LoggedMessages};
use crate::quic::PacketExchange;
use crate::respond::UpstreamNames;
use crate::status::ServerFacts;
use crate::tls::{TlsPolicy, UpstreamSettings};

/// The state that all threads of the front share.
#[derive(Debug)]
pub(crate) struct FrontShared {
    pub(crate) config: Arc<Config>,
    pub(crate) sites: Sites,
    /// The directives that have been compiled.
    pub(crate) directives: Arc<DirectiveCache>,
    pub(crate) passwords: Passwords,
    /// The threads that evaluate costly directives.
    pub(crate) evaluators: Crew<FileStore>,
    /// Ask the disk where an event loop would have to wait for it.
    pub(crate) readers: Crew<FileStore>,
    pub(crate) compressed: CompressedCache,
    /// Content that does not fit into memory.
    pub(crate) storage: Arc<Storage>,
    /// The places of files that are being sent.
    pub(crate) sent_files: Arc<SentFiles>,
    /// The messages of directives that were logged within the last minute.
    pub(crate) messages: Arc<Mutex<LoggedMessages>>,
    /// By site; `None` where there is no PHP.
    pub(crate) pools: Vec<Option<Arc<Pool>>>,
    /// By site, the user that the pool runs as; `None` for the user of the front.
    pub(crate) pool_users: Vec<Option<Arc<Identity>>>,
    /// Threads beside the first that have not ended. The first, which speaks to supervisor and
    /// zygotes, is the last to end.
    pub(crate) others: AtomicUsize,
    /// Whether tunnels may outlive `drain_timeout` while the front drains.
    pub(crate) keeps_tunnels: AtomicBool,
    /// Whether a draining front still needs its pools.
    pub(super) retirement: PoolRetirement,
    pub(crate) log: Arc<ErrorLog>,
    pub(crate) access: SiteLogs<LogWriter>,
    /// The connections and requests of each client.
    pub(crate) clients: Arc<Clients>,
    /// The challenges of authorities for certificates that are answered.
    pub(crate) challenges: Challenges,
    /// The next renewals of certificates that are ordered.
    pub(crate) renewals: Renewals,
    /// The reasons why something of a site is not as it should be.
    pub(crate) reasons: SiteReasons,
    /// Files that each thread's store may keep open.
    pub(crate) cached_descriptors: usize,
    /// The watches of inotify of each thread.
    pub(crate) watches: WatchLimits,
    /// Connections that may be open at once.
    pub(crate) most_connections: usize,
    /// The errors of accepting connections.
    pub(crate) accept_errors: AcceptErrors,
    /// By thread: notified when another one needs room for a connection.
    pub(crate) room_wanted: Vec<Notify>,
    /// Connections by thread.
    pub(crate) loads: Vec<AtomicUsize>,
    /// By thread: the contents of its file store, at most a second old.
    pub(crate) stores: Vec<Mutex<StoreFigures>>,
    /// By thread: the connections that another one accepted for it.
    pub(crate) inboxes: Vec<mpsc::UnboundedSender<AcceptedConnection>>,
    /// Notified when no thread accepts connections any more.
    pub(crate) closed: Notify,
    pub(crate) pulse: Arc<Pulse>,
    /// Whether the first workers of all pools have started.
    pub(crate) has_started: watch::Sender<bool>,
    /// This front's counters.
    pub(crate) counters: Arc<FrontCounters>,
    /// The server, with the counters of all fronts.
    pub(crate) facts: ServerFacts,
    /// Certificates; `None` if no listener is for TLS.
    pub(crate) tls: Option<TlsPolicy>,
    /// Whether any site has upstreams.
    pub(crate) has_upstreams: bool,
    /// The endpoints of HTTP/3; `None` if no listener has it.
    pub(crate) quic: Option<Arc<PacketExchange>>,
    /// By site, the settings of TLS to its upstreams.
    pub(crate) upstream_tls: UpstreamSettings,
    /// The memory of what directives set for requests.
    pub(crate) variables: Budget,
    /// The places of connections to upstreams.
    pub(crate) upstream_places: Arc<Budget>,
    /// The addresses of upstreams that have names.
    pub(crate) upstream_names: UpstreamNames,
}

/// The stages of a front's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FrontStage {
    Serving,
    /// No new connections; those that are idle may send one more request.
    Draining,
    /// No new connections, and no idle ones.
    Stopping,
    /// The front ends without waiting for anything.
    Over,
}

/// The most bytes of compressed content of files. Beyond it, content of the site that has the most
/// is dropped.
pub(crate) const MOST_COMPRESSED: usize = 32 << 20;
