//! The front: the process that speaks to clients. It runs no PHP, holds no privilege, and outlives
//! any worker.

mod challenges;
mod clock;
mod control;
mod crews;
mod demands;
mod keys;
pub(crate) mod lanes;
pub(crate) mod media_types;
mod memory;
mod memory_return;
mod most_connections;
mod open_file_limits;
pub(crate) mod pulse;
mod renewals;
mod retirement;
mod scaling;
mod shared;
mod site_pools;
mod site_reasons;
mod thread;
mod watch_limits;
mod workspace;

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use howdah_config::{Config, FRONT_USER, ListenAddress, RootTemplate};
use howdah_files::{CompressedCache, DirectiveCache, DirectiveFlaw, SiteFolders};
use howdah_htaccess::modules::auth::password;
use howdah_site::{Site, Sites};
use howdah_sys::open::{self, Lookup};
use howdah_sys::seqpacket::SeqPacket;
use tokio::sync::{Notify, mpsc, watch};

use self::challenges::Challenges;
pub(crate) use self::clock::WallTime;
use self::control::Control;
use self::crews::{evaluator_threads, evaluators, readers};
pub(crate) use self::demands::Demands;
pub(crate) use self::media_types::use_media_types;
use self::open_file_limits::OpenFileLimits;
use self::pulse::Pulse;
use self::renewals::Renewals;
use self::retirement::PoolRetirement;
pub(crate) use self::retirement::{ArrivingRequest, time_before_end};
pub(crate) use self::shared::{FrontShared, FrontStage};
use self::site_pools::{SitePools, keep_measurements, site_pools};
pub(crate) use self::site_reasons::ReasonTopic;
use self::site_reasons::SiteReasons;
pub(crate) use self::thread::{FrontThread, look_for_responses};
use self::watch_limits::WatchLimits;
pub(crate) use self::workspace::Workspace;
use crate::admin;
use crate::body::{Storage, StorageLimits, StorageRefusal};
use crate::descriptor_needs::DescriptorNeeds;
use crate::host::Passwords;
use crate::log::{self, ErrorLog, Level, LogWriter, SiteLogs};
use crate::net::{AcceptErrors, AcceptedConnection, Clients, Listener};
#[cfg(test)]
use crate::observe::Ledger;
use crate::observe::{FrontCounters, LoggedMessages};
use crate::pipeline;
#[cfg(test)]
use crate::protocols;
use crate::quic::PacketExchange;
use crate::respond::UpstreamNames;
use crate::status::ServerFacts;
use crate::supervisor::front_protocol::{FromFront, FrontStart};
use crate::tls::{TlsPolicy, TlsStart, UpstreamSettings};

/// Runs the front until it has drained. Called in a fresh process without privileges, threads or
/// event loop.
pub(crate) fn run(start: FrontStart) -> ExitCode {
    let threads = start.config.threads.resolve(processors());
    let (log, access) = match log_threads(&start) {
        Ok(logs) => logs,
        Err(error) => {
            let what = format!("the front cannot start: no thread for its logs: {error}");
            start.log.say(Level::Error, None, &what);
            return ExitCode::FAILURE;
        }
    };
    let result = serve(start, log.clone(), access.clone(), threads);
    if let Err(error) = &result {
        log.say(Level::Error, None, &format!("the front cannot go on: {error}"));
    }
    access.all().for_each(LogWriter::finish);
    log.finish();
    if result.is_ok() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Starts the threads that write the logs.
fn log_threads(start: &FrontStart) -> io::Result<(Arc<ErrorLog>, SiteLogs<LogWriter>)> {
    let log = Arc::new(start.log.on_thread()?);
    let access = start.access.clone().try_map(|target| log::access_log(target, &log))?;
    Ok((log, access))
}

/// Makes what all threads share, starts the threads, and serves until the front has drained.
fn serve(
    start: FrontStart,
    log: Arc<ErrorLog>,
    access: SiteLogs<LogWriter>,
    threads: usize,
) -> io::Result<()> {
    let FrontStart {
        config,
        site_folders,
        listeners,
        channel,
        pools: pool_channels,
        pulse,
        answers,
        admin,
        counters,
        worker_memory,
        facts,
        tls,
        quic,
        ..
    } = start;
    let upstream_tls = tls.upstreams.clone();
    let tls = tls_policy(&config, &tls, &listeners, &channel)?;
    let (pools, users) = site_pools(&config, &pool_channels, threads)?;
    keep_measurements(&pools, &worker_memory);
    warn_of_unreadable_roots(&config, &log);
    if let Err(warning) = use_media_types(&config) {
        log.say(Level::Warning, None, &warning);
    }
    let (shared, mut receivers) = share(
        (config, site_folders),
        (pools.clone(), users),
        (log, access),
        (tls, upstream_tls, quic.and_then(|quic| PacketExchange::new(quic, threads)).map(Arc::new)),
        (threads, pulse),
        (counters, facts),
    )?;
    // Confirmed when the channel to the supervisor is read.
    for (id, answer) in &answers {
        shared.challenges.present(*id, answer);
    }
    let (stages, stage) = watch::channel(FrontStage::Serving);
    let questions = admin::start(Arc::clone(&shared), admin, stage.clone())?;
    let own_inbox = receivers.remove(0);
    let others = start_others(&shared, &listeners, receivers, &stage)?;
    let channel = Rc::new(channel);
    let control = Control::new(channel.clone(), pools, shared, questions, stages);
    let run = thread::run(control.shared.clone(), 0, listeners, own_inbox, stage, || {
        Rc::new(control).run(pool_channels)
    });
    let result = join(others, run);
    // A supervisor that is gone needs no message.
    let _ = channel.send_now(&FromFront::Drained.encode(), &[]);
    result
}

/// Waits for the other threads. Returns the first error, `first` before theirs.
fn join(others: Vec<JoinHandle<io::Result<()>>>, first: io::Result<()>) -> io::Result<()> {
    let mut result = first;
    for other in others {
        let ended = other
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("a thread of it panicked")));
        result = result.and(ended);
    }
    result
}

/// Starts all threads but the first, which has the control. Each has an inbox.
fn start_others(
    shared: &Arc<FrontShared>,
    listeners: &[Listener],
    inboxes: Vec<Inbox>,
    stage: &watch::Receiver<FrontStage>,
) -> io::Result<Vec<JoinHandle<io::Result<()>>>> {
    let mut others = Vec::new();
    for (number, inbox) in (1..).zip(inboxes) {
        let (shared, stage) = (Arc::clone(shared), stage.clone());
        let listeners: io::Result<_> = listeners.iter().map(Listener::try_clone).collect();
        let listeners = listeners?;
        let builder = std::thread::Builder::new().name(format!("front-{number}"));
        let run = move || thread::run(shared, number, listeners, inbox, stage, || async {});
        others.push(builder.spawn(run)?);
    }
    Ok(others)
}

/// Makes the settings of TLS of every site. `None`: no site has a certificate.
fn tls_policy(
    config: &Config,
    start: &TlsStart,
    listeners: &[Listener],
    channel: &SeqPacket,
) -> io::Result<Option<TlsPolicy>> {
    let policy = TlsPolicy::of(config, start, &ports(config, listeners));
    let mut policy = policy.map_err(io::Error::other)?;
    if let Some(policy) = &mut policy {
        policy.demands = Demands::start(config, channel)?;
    }
    Ok(policy)
}

/// Returns the actual port of each listener of the configuration; `None` for a Unix socket.
fn ports(config: &Config, listeners: &[Listener]) -> Vec<Option<u16>> {
    let mut ports = vec![None; config.listen.len()];
    for listener in listeners {
        if let (ListenAddress::Tcp(address), Some(port)) =
            (&listener.address, ports.get_mut(listener.number))
        {
            *port = Some(address.port());
        }
    }
    ports
}

/// Connections that other threads accepted for one thread.
type Inbox = mpsc::UnboundedReceiver<AcceptedConnection>;

/// Makes the state that all threads share, and the inbox of each thread.
fn share(
    (config, site_folders): (Arc<Config>, SiteFolders),
    (pools, pool_users): SitePools,
    (log, access): (Arc<ErrorLog>, SiteLogs<LogWriter>),
    (tls, upstream_tls, quic): (Option<TlsPolicy>, UpstreamSettings, Option<Arc<PacketExchange>>),
    (threads, pulse): (usize, Arc<Pulse>),
    (counters, facts): (Arc<FrontCounters>, ServerFacts),
) -> io::Result<(Arc<FrontShared>, Vec<Inbox>)> {
    let (inboxes, receivers) = (0..threads).map(|_| mpsc::unbounded_channel()).unzip();
    let sites = Sites::compile(&config);
    let needs = DescriptorNeeds::of(&config, processors());
    let open_files = OpenFileLimits::of(&config, needs, howdah_sys::process::descriptor_limit());
    if let Some(warning) = open_files.warning(&config) {
        log.say(Level::Warning, None, &warning);
    }
    let messages = Arc::default();
    let directives = directives(&sites, &config, &log, &messages);
    let directives = Arc::new(directives.with_site_folders(site_folders));
    memory_return::start(&directives)?;
    let most = howdah_sys::inotify::most_watches();
    let watches = WatchLimits::of(most, threads, evaluator_threads());
    let shared = FrontShared {
        directives: Arc::clone(&directives),
        messages,
        passwords: Passwords::start(password::fits, processors().div_ceil(2))?,
        evaluators: evaluators(Arc::clone(&directives), watches.of_evaluator)?,
        readers: readers(Arc::clone(&directives))?,
        compressed: CompressedCache::new(shared::MOST_COMPRESSED),
        storage: Arc::new(storage(&config, &log, open_files)),
        sent_files: Arc::new(open_files.sent_files(&config)),
        clients: Arc::new(Clients::new(&config)),
        challenges: Challenges::default(),
        renewals: Renewals::default(),
        reasons: SiteReasons::default(),
        cached_descriptors: open_files.cached,
        watches,
        most_connections: open_files.connections,
        accept_errors: AcceptErrors::default(),
        room_wanted: (0..threads).map(|_| Notify::new()).collect(),
        sites,
        has_upstreams: config.sites.iter().any(|site| !site.upstreams.is_empty()),
        upstream_names: UpstreamNames::start(&config, &log)?,
        variables: pipeline::variables_budget(config.sites.len()),
        upstream_places: Arc::new(open_files.upstream_places(&config)),
        config,
        pools,
        pool_users,
        others: AtomicUsize::new(threads - 1),
        keeps_tunnels: AtomicBool::new(false),
        retirement: PoolRetirement::new(threads),
        closed: Notify::new(),
        log,
        access,
        loads: (0..threads).map(|_| AtomicUsize::new(0)).collect(),
        stores: (0..threads).map(|_| Mutex::default()).collect(),
        inboxes,
        pulse,
        has_started: watch::Sender::new(false),
        counters,
        facts,
        tls,
        quic,
        upstream_tls,
    };
    Ok((Arc::new(shared), receivers))
}

/// Returns the storage for content that does not fit into memory.
fn storage(config: &Arc<Config>, log: &Arc<ErrorLog>, open_files: OpenFileLimits) -> Storage {
    let limits = StorageLimits {
        total: config.limits.spill_total,
        sites: config.sites.iter().map(|site| site.spill_total).collect(),
        files: Some(open_files.stored as u64),
    };
    let (config, log) = (Arc::clone(config), Arc::clone(log));
    let report = move |site: usize, refusal: &StorageRefusal| {
        let level = match refusal {
            StorageRefusal::Budget(_) => Level::Warning,
            StorageRefusal::Disk(_) => Level::Error,
        };
        let name = config.sites.get(site).map(|site| site.name.as_str());
        let what = format!("a script waits for its slow client: {refusal}");
        log.say(level, name, &what);
    };
    Storage::new(limits, Box::new(report))
}

/// Returns the number of processors that the front may use.
pub(crate) fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Returns the cache of directives for all sites. Mistakes in directives are logged when the
/// directives are compiled.
fn directives(
    sites: &Sites,
    config: &Config,
    log: &Arc<ErrorLog>,
    messages: &Arc<Mutex<LoggedMessages>>,
) -> DirectiveCache {
    let (log, messages) = (Arc::clone(log), Arc::clone(messages));
    let tell = move |site: &Site, flaw: &DirectiveFlaw| {
        if let DirectiveFlaw::Mistake(mistake) = flaw {
            // The requests that fail because of the mistake do not repeat its message.
            let complaint = (Some(Arc::new(mistake.place.clone())), mistake.message.clone());
            let mut messages = messages.lock().unwrap_or_else(PoisonError::into_inner);
            messages.note(site.number(), complaint, Instant::now());
        }
        log.say(Level::Error, Some(site.name()), &flaw.to_string());
    };
    DirectiveCache::new(sites, config.limits.htaccess_size, Box::new(tell))
        .in_memory(memory::limit().unwrap_or_default())
}

/// Logs a warning for each site whose document root the front's user cannot read: such a site
/// answers only errors. A file system that may hang is not asked: the front must start without it.
fn warn_of_unreadable_roots(config: &Config, log: &ErrorLog) {
    for site in &config.sites {
        let RootTemplate::Fixed(root) = &site.root else {
            continue;
        };
        let path = CString::new(root.as_os_str().as_bytes()).unwrap_or_default();
        let opened = open::folder(&path, Lookup::Cached);
        if opened.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
            continue;
        }
        if let Err(error) = std::fs::read_dir(root) {
            let user = config.user.as_deref().unwrap_or(FRONT_USER);
            let what = format!(
                "the document root {} cannot be read: {error}; if the server was started as root, \
                 {user} needs the right to read it and to enter every folder above it",
                root.display(),
            );
            log.say(Level::Warning, Some(&site.name), &what);
        }
    }
}

/// Returns a thread of a front without PHP, for tests of the pipeline. Must be called within that
/// thread's event loop.
///
/// # Errors
/// The error of a system call.
#[cfg(test)]
pub(crate) fn thread_for_tests(config: Config) -> io::Result<Rc<FrontThread>> {
    let pools = (vec![None; config.sites.len()], vec![None; config.sites.len()]);
    let log = Arc::new(ErrorLog::new(crate::log::LogTarget::stderr()?, Level::Error));
    let pulse = Arc::new(Pulse::new(1)?);
    let sites = vec![Default::default(); config.sites.len()];
    let counters = Arc::new(FrontCounters::new(1, sites, protocols::counted_limits())?);
    let facts = ServerFacts {
        supervisor: std::process::id(),
        began: std::time::SystemTime::now(),
        generation: 1,
        ledger: Ledger::default(),
        missing_listeners: Vec::new(),
        missing_admin: Vec::new(),
        without_http3: Vec::new(),
    };
    let (shared, _) = share(
        (Arc::new(config), SiteFolders::default()),
        pools,
        (log, SiteLogs::default()),
        (None, Vec::new(), None),
        (1, pulse),
        (counters, facts),
    )?;
    Ok(Rc::new(FrontThread::new(shared, 0)))
}
