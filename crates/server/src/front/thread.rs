//! One thread of the front: an event loop, its connections, and the state that they share.

mod admission;
mod upkeep;

use std::cell::{Cell, RefCell, RefMut};
use std::io;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use howdah_config::Config;
use howdah_files::{CompressedCache, FileStore};
use howdah_http::Limits;
use howdah_php::{Pool, PoolHandle, RequestEncoder};
use howdah_site::{ResolutionCache, Site, Sites};
use howdah_sys::credentials::Identity;
use howdah_sys::readiness::Readable;
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::futures::Notified;
use tokio::sync::{Notify, Semaphore, mpsc, watch};

use super::challenges::Challenges;
use super::clock::Clock;
use super::most_connections::MostConnections;
use super::pulse::ThreadPhase;
use super::retirement::ThreadRequests;
use super::shared::{FrontShared, FrontStage};
use super::workspace::Workspace;
use crate::body::{FilterPlace, SpoolLimits};
use crate::host::{ComparedPasswords, FrontHost, Passwords, user_of};
use crate::net::{
    AcceptTurn, AcceptedConnection, Clients, DeadlineWatches, HANDSHAKE_STEPS, Listener, Peer,
    SWEEP, TurnSteps,
};
use crate::observe::{AccessLog, AccessLogs, DirectiveMessage, RequestError, ThreadCounters};
use crate::pipeline::{CostlySites, answers};
use crate::respond::{KeptConnections, PreparedResponse};

/// One thread's own state.
pub(crate) struct FrontThread {
    pub(crate) number: usize,
    pub(crate) shared: Arc<FrontShared>,
    limits: Limits,
    /// By site. The last one is for responses of no site.
    spool: Box<[SpoolLimits]>,
    store: RefCell<FileStore>,
    resolution_cache: RefCell<ResolutionCache<PreparedResponse>>,
    costly_sites: CostlySites,
    /// Counts the times that a connection's task has run.
    turns: Cell<u32>,
    /// The turn of the one response whose filters work.
    filter_turns: Arc<Semaphore>,
    handles: Vec<Option<Rc<PoolHandle>>>,
    counters: ThreadCounters,
    encoder: RefCell<RequestEncoder>,
    watches: DeadlineWatches,
    handshake_turns: TurnSteps,
    long_head_turns: TurnSteps,
    kept: KeptConnections,
    clock: Clock,
    access: AccessLogs,
    /// Unused workspaces. They are boxed because they are moved with every request.
    workspaces: RefCell<Vec<Box<Workspace>>>,
    /// The number of connections that are working.
    working: Cell<usize>,
    /// The requests that may still need a pool.
    pub(super) requests: ThreadRequests,
    stage: Cell<FrontStage>,
    most_connections: MostConnections,
    /// Evictions of directives that the resolution cache has followed.
    evictions: Cell<u64>,
    /// Tells connections that carry several requests at once that the stage has changed.
    stage_changes: Notify,
}

/// Runs of connections' tasks after which a thread looks for responses of workers.
const LOOK: u32 = 4;
/// The most unused workspaces that a thread keeps.
const WORKSPACES: usize = 64;

thread_local! {
    /// The thread's state, for the event loop's hooks, which get no argument.
    static CURRENT: RefCell<Option<Rc<FrontThread>>> = const { RefCell::new(None) };
}

/// Runs a thread's event loop until the front is over. `control` runs beside it, on the first
/// thread only.
///
/// # Errors
/// The event loop cannot be made, or a listener cannot be watched.
pub(crate) fn run<C: Future<Output = ()> + 'static>(
    shared: Arc<FrontShared>,
    number: usize,
    listeners: Vec<Listener>,
    inbox: mpsc::UnboundedReceiver<AcceptedConnection>,
    stage: watch::Receiver<FrontStage>,
    control: impl FnOnce() -> C,
) -> io::Result<()> {
    let hook = |hook: fn(&FrontThread)| {
        move || CURRENT.with_borrow(|current| current.as_deref().into_iter().for_each(hook))
    };
    let runtime = Builder::new_current_thread()
        .enable_all()
        .on_thread_park(hook(FrontThread::before_sleep))
        .on_thread_unpark(hook(FrontThread::woke))
        .build_local(LocalOptions::default())?;
    runtime.block_on(async {
        let is_shared = shared.config.sites.len() > 1;
        howdah_files::bound_write_watches(shared.watches.sent, is_shared);
        let thread = Rc::new(FrontThread::new(shared, number));
        for (site, handle) in thread.handles.iter().enumerate() {
            let thread = || Rc::downgrade(&thread);
            handle.iter().for_each(|handle| handle.answer_with(answers(thread(), site)));
        }
        thread.shared.pulse.begin(number);
        CURRENT.set(Some(thread.clone()));
        tokio::task::spawn_local(control());
        let result = thread.serve(listeners, inbox, stage).await;
        CURRENT.set(None);
        thread.shared.pulse.enter(number, ThreadPhase::Off);
        thread.flush_access();
        thread.shared.retirement.note_end(number);
        if number != 0 {
            thread.shared.others.fetch_sub(1, Ordering::Release);
        }
        result
    })
}

/// Looks for responses of workers, if this thread has an event loop. Workers wake a thread that
/// sleeps; one that never sleeps would not notice their responses otherwise.
pub(crate) fn look_for_responses() {
    CURRENT.with_borrow(|current| {
        let handles = current.iter().flat_map(|thread| thread.handles.iter().flatten());
        handles.for_each(|handle| handle.look());
    });
}

impl std::fmt::Debug for FrontThread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FrontThread")
            .field("number", &self.number)
            .field("stage", &self.stage)
            .finish_non_exhaustive()
    }
}

impl FrontThread {
    /// The state of thread `number`.
    pub(super) fn new(shared: Arc<FrontShared>, number: usize) -> FrontThread {
        let config = &shared.config;
        let limits = Limits {
            request_line: config.limits.request_line,
            field_line: config.limits.field_line,
            fields_total: config.limits.fields_total,
            field_count: config.limits.field_count,
            body: config.limits.body,
        };
        let spool = |site| SpoolLimits {
            memory: config.limits.spill_memory,
            file: config.limits.spill_file,
            storage: Arc::clone(&shared.storage),
            site,
        };
        let spool = (0..=config.sites.len()).map(spool).collect();
        let counters = shared.counters.thread(number);
        let handle = |(site, pool): (usize, &Option<Arc<Pool>>)| {
            Some(PoolHandle::new(pool.clone()?, number, counters.pool(site).clone()))
        };
        let handles = shared.pools.iter().enumerate().map(handle).collect();
        let access = AccessLogs::new(config, &shared.access);
        FrontThread {
            number,
            limits,
            spool,
            store: RefCell::new(
                FileStore::with_directives(store_limits(&shared), Arc::clone(&shared.directives))
                    .postponing(),
            ),
            resolution_cache: RefCell::default(),
            costly_sites: CostlySites::default(),
            turns: Cell::new(0),
            filter_turns: Arc::new(Semaphore::new(1)),
            handles,
            counters,
            encoder: RefCell::new(RequestEncoder::default()),
            watches: DeadlineWatches::new(),
            handshake_turns: TurnSteps::of(HANDSHAKE_STEPS),
            long_head_turns: TurnSteps::of(1),
            kept: KeptConnections::default(),
            clock: Clock::new(),
            access,
            workspaces: RefCell::new(Vec::new()),
            working: Cell::new(0),
            requests: ThreadRequests::new(shared.pools.len()),
            stage: Cell::new(FrontStage::Serving),
            most_connections: MostConnections::default(),
            evictions: Cell::new(0),
            stage_changes: Notify::new(),
            shared,
        }
    }

    pub(crate) fn config(&self) -> &Config {
        &self.shared.config
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Returns the bounds of content that waits on its way to or from `site`.
    pub(crate) fn spool_limits(&self, site: Option<&Site>) -> &SpoolLimits {
        let last = self.spool.len() - 1;
        &self.spool[site.map_or(last, |site| site.number().min(last))]
    }

    /// Returns the place where the filters of a response of `site` to `peer` work.
    pub(crate) fn filter_place(&self, site: Option<&Site>, peer: &Peer) -> FilterPlace<'_> {
        FilterPlace {
            turns: &self.filter_turns,
            crew: &self.shared.evaluators,
            // A number that no site has stands for responses of no site.
            site: site.map_or(usize::MAX, Site::number),
            clients: &self.shared.clients,
            client: peer.remote.ip(),
        }
    }

    pub(crate) fn sites(&self) -> &Sites {
        &self.shared.sites
    }

    pub(crate) fn store(&self) -> RefMut<'_, FileStore> {
        self.store.borrow_mut()
    }

    /// Returns the host for resolving a request for `site` that arrived at `since`, with the
    /// passwords that were compared for the request.
    pub(crate) fn host<'h>(
        &'h self,
        site: &'h Site,
        since: Instant,
        compared: &'h ComparedPasswords,
    ) -> FrontHost<'h> {
        FrontHost {
            store: self.store(),
            passwords: &self.shared.passwords,
            site,
            compared,
            since,
            pool: self.shared.pools.get(site.number()).and_then(Option::as_deref),
            user: user_of(site, self.pool_user(site.number())),
        }
    }

    /// The resolution cache.
    pub(crate) fn resolution_cache(&self) -> RefMut<'_, ResolutionCache<PreparedResponse>> {
        self.resolution_cache.borrow_mut()
    }

    /// The compressed content of files, which all threads share.
    pub(crate) fn compressed_cache(&self) -> &CompressedCache {
        &self.shared.compressed
    }

    /// The sites whose directives were costly a moment ago.
    pub(crate) fn costly_sites(&self) -> &CostlySites {
        &self.costly_sites
    }

    pub(crate) fn passwords(&self) -> &Passwords {
        &self.shared.passwords
    }

    /// Returns whether the message was not logged within the last minute.
    pub(crate) fn is_news(&self, site: usize, message: &DirectiveMessage, now: Instant) -> bool {
        let messages = self.shared.messages.lock();
        messages.unwrap_or_else(PoisonError::into_inner).is_news(site, message, now)
    }

    /// Returns this thread's access to the pool of a site. `None` for a site without PHP.
    pub(crate) fn pool_handle(&self, site: usize) -> Option<&Rc<PoolHandle>> {
        self.handles.get(site)?.as_ref()
    }

    /// Returns the user that the site's pool runs as; `None` for the user of the front.
    pub(crate) fn pool_user(&self, site: usize) -> Option<&Identity> {
        self.shared.pool_users.get(site)?.as_deref()
    }

    pub(crate) fn encoder(&self) -> &RefCell<RequestEncoder> {
        &self.encoder
    }

    pub(crate) fn watches(&self) -> &DeadlineWatches {
        &self.watches
    }

    /// The handshakes' turns.
    pub(crate) fn handshake_turns(&self) -> &TurnSteps {
        &self.handshake_turns
    }

    /// The turns in which heads with many fields are encoded for HTTP/2 and HTTP/3: one takes some
    /// milliseconds.
    pub(crate) fn long_head_turns(&self) -> &TurnSteps {
        &self.long_head_turns
    }

    /// The connections to upstreams that wait for their next request.
    pub(crate) fn kept(&self) -> &KeptConnections {
        &self.kept
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Returns the value of a Date field.
    pub(crate) fn date(&self) -> [u8; 29] {
        self.clock.date(self.clock.last())
    }

    /// Returns whether connections end with their present response.
    pub(crate) fn is_draining(&self) -> bool {
        self.stage.get() != FrontStage::Serving
    }

    /// Waits until connections should end, if they do not yet.
    pub(crate) fn drains(&self) -> Notified<'_> {
        self.stage_changes.notified()
    }

    /// The accounts of all clients.
    pub(crate) fn clients(&self) -> &Clients {
        &self.shared.clients
    }

    /// The challenges of authorities for certificates that are answered.
    #[inline]
    pub(crate) fn challenges(&self) -> &Challenges {
        &self.shared.challenges
    }

    /// Returns whether idle connections are closed.
    pub(crate) fn closes_idle(&self) -> bool {
        matches!(self.stage.get(), FrontStage::Stopping | FrontStage::Over)
    }

    /// Lends buffers to a connection that has something to do.
    pub(crate) fn lend(&self) -> Box<Workspace> {
        self.workspaces.borrow_mut().pop().unwrap_or_default()
    }

    /// Takes buffers back.
    pub(crate) fn give_back(&self, mut workspace: Box<Workspace>) {
        workspace.clean();
        let mut workspaces = self.workspaces.borrow_mut();
        if workspaces.len() < WORKSPACES {
            workspaces.push(workspace);
        }
    }

    /// Logs an error. One that decides about the response is reported to its
    /// [`RequestContext`](crate::pipeline::RequestContext).
    pub(crate) fn report(&self, error: &RequestError) {
        error.log(&self.shared.log);
    }

    /// This thread's counters.
    #[inline]
    pub(crate) fn counters(&self) -> &ThreadCounters {
        &self.counters
    }

    /// The access log of a site, or of requests of no site. `None`: it is off.
    #[inline]
    pub(crate) fn access_log(&self, site: Option<&Site>) -> Option<AccessLog<'_>> {
        self.access.of(site.map(Site::number))
    }

    fn flush_access(&self) {
        self.access.flush();
    }

    /// Looks for responses of workers, once in a while. Workers wake a thread that sleeps; one that
    /// always has something to do would not notice their responses otherwise.
    #[inline]
    pub(crate) fn look_for_responses(&self) {
        let turns = self.turns.get().wrapping_add(1);
        self.turns.set(turns);
        if turns.is_multiple_of(LOOK) {
            for handle in self.handles.iter().flatten() {
                handle.look();
            }
        }
    }

    fn before_sleep(&self) {
        self.flush_access();
        for handle in self.handles.iter().flatten() {
            handle.before_sleep();
        }
        self.shared.pulse.enter(self.number, ThreadPhase::Waiting);
    }

    fn woke(&self) {
        self.shared.pulse.enter(self.number, ThreadPhase::Working);
        for handle in self.handles.iter().flatten() {
            handle.woke();
        }
    }

    /// Accepts and serves connections until [`FrontStage::Over`], or, while draining, until every
    /// connection and request has ended.
    async fn serve(
        self: &Rc<Self>,
        listeners: Vec<Listener>,
        mut inbox: mpsc::UnboundedReceiver<AcceptedConnection>,
        mut stage: watch::Receiver<FrontStage>,
    ) -> io::Result<()> {
        let listeners: Vec<Rc<Listener>> = listeners.into_iter().map(Rc::new).collect();
        let acceptors: Vec<_> = listeners
            .iter()
            .map(|listener| tokio::task::spawn_local(self.clone().accept(listener.clone())))
            .collect();
        let mut accepting = Some((acceptors, listeners));
        self.serve_quic();
        // Without inotify the store compares its entries with the disk.
        if let Some(changes) = self.store().changes().map(Readable::new).transpose()? {
            tokio::task::spawn_local(self.clone().follow_changes(changes));
        }
        let mut sweep = tokio::time::interval(SWEEP);
        let mut turn = AcceptTurn::default();
        loop {
            tokio::select! {
                Some(accepted) = inbox.recv() => {
                    self.spawn(accepted);
                    turn.take().await;
                }
                changed = stage.changed() => {
                    self.stage.set(match changed {
                        Ok(()) => *stage.borrow_and_update(),
                        Err(_) => FrontStage::Over,
                    });
                    self.shared.quic.iter().for_each(|quic| quic.set_reading(false));
                    if let Some((acceptors, listeners)) = accepting.take() {
                        self.close(acceptors, listeners).await;
                    }
                    self.begin_draining();
                }
                _ = sweep.tick() => self.sweep(),
                () = self.shared.room_wanted[self.number].notified() => {
                    self.close_longest_idle();
                }
            }
            let done = self.is_draining() && self.is_idle();
            let last = self.number != 0 || self.shared.others.load(Ordering::Acquire) == 0;
            if self.stage.get() == FrontStage::Over {
                return Ok(());
            }
            if done && last {
                // Once the inbox is closed, other threads serve the connections that they accept
                // themselves.
                inbox.close();
                match inbox.recv().await {
                    Some(accepted) => self.spawn(accepted),
                    None => return Ok(()),
                }
            }
        }
    }

    fn is_idle(&self) -> bool {
        self.load().load(Ordering::Relaxed) == 0
            && self.handles.iter().flatten().all(|handle| handle.is_idle())
    }

    pub(crate) fn load(&self) -> &AtomicUsize {
        &self.shared.loads[self.number]
    }
}

fn store_limits(shared: &FrontShared) -> howdah_files::StoreLimits {
    howdah_files::StoreLimits {
        descriptors: shared.cached_descriptors,
        folders: shared.watches.folders,
        ..howdah_files::StoreLimits::default()
    }
}
