//! One thread of the front: an event loop, its connections, and the state that they share.

use std::cell::{Cell, RefCell, RefMut};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use howdah_config::Config;
use howdah_files::{CompressedCache, DirectiveCache, Store};
use howdah_http::{Limits, Status};
use howdah_php::{Pool, PoolHandle, RequestEncoder};
use howdah_site::{ResolutionCache, Site, Sites};
use howdah_sys::readiness::Readable;
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::{mpsc, watch};

use super::clock::Clock;
use super::workspace::Workspace;
use crate::body::SpoolLimits;
use crate::host::{FrontHost, Passwords};
use crate::log::ErrorLog;
use crate::net::{SWEEP, Watches};
use crate::observe::{AccessLog, DirectiveMessage, RecentMessages, RequestError, RespondError};
use crate::respond::Prepared;

/// The state that all threads of the front share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: Arc<Config>,
    pub(crate) sites: Sites,
    /// The directives that have been compiled.
    pub(crate) directives: Arc<DirectiveCache>,
    pub(crate) passwords: Passwords,
    pub(crate) compressed: CompressedCache,
    /// The messages of directives that were logged within the last minute.
    pub(crate) messages: Arc<Mutex<RecentMessages>>,
    /// By site; `None` where there is no PHP.
    pub(crate) pools: Vec<Option<Arc<Pool>>>,
    /// Threads beside the first that have not ended. The first, which speaks to supervisor and
    /// zygotes, is the last to end.
    pub(crate) others: AtomicUsize,
    pub(crate) log: Arc<ErrorLog>,
    pub(crate) access: Option<crate::log::LogWriter>,
    /// Connections by thread.
    pub(crate) loads: Vec<AtomicUsize>,
    /// Where each thread takes connections that another accepted.
    pub(crate) inboxes: Vec<mpsc::UnboundedSender<Accepted>>,
}

/// The stages of a front's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    Serving,
    /// No new connections; those that are idle may send one more request.
    Draining,
    /// No new connections, and no idle ones.
    Stopping,
    /// The front ends without waiting for anything.
    Over,
}

/// A connection that was accepted: socket, remote and local address.
pub(crate) type Accepted = (TcpStream, SocketAddr, SocketAddr);

/// A listening socket and its actual address. Each thread has its own descriptor of the socket.
pub(crate) type Listener = (TcpListener, SocketAddr);

/// One thread's own state.
pub(crate) struct Thread {
    pub(crate) number: usize,
    pub(crate) shared: Arc<Shared>,
    limits: Limits,
    spool: SpoolLimits,
    store: RefCell<Store>,
    resolution_cache: RefCell<ResolutionCache<Prepared>>,
    handles: Vec<Option<Rc<PoolHandle>>>,
    encoder: RefCell<RequestEncoder>,
    watches: Watches,
    clock: Clock,
    access: Option<AccessLog>,
    /// Unused workspaces. They are boxed because they are moved with every request.
    workspaces: RefCell<Vec<Box<Workspace>>>,
    /// The number of connections that are working.
    working: Cell<usize>,
    stage: Cell<Stage>,
}

/// The most bytes of compressed content of files.
pub(crate) const MOST_COMPRESSED: usize = 32 << 20;
/// The most unused workspaces that a thread keeps.
const WORKSPACES: usize = 64;
/// The most connections of a thread that keep their buffers while they wait for the next request. A
/// connection with buffers takes a few kilobytes more than one without.
const MOST_WORKING: usize = 256;

thread_local! {
    /// The thread's state, for the event loop's hooks, which get no argument.
    static CURRENT: RefCell<Option<Rc<Thread>>> = const { RefCell::new(None) };
}

/// Runs a thread's event loop until the front is over. `control` runs beside it, on the first
/// thread only.
pub(crate) fn run<C: Future<Output = ()> + 'static>(
    shared: Arc<Shared>,
    number: usize,
    listeners: Vec<Listener>,
    inbox: mpsc::UnboundedReceiver<Accepted>,
    stage: watch::Receiver<Stage>,
    control: impl FnOnce() -> C,
) -> io::Result<()> {
    let hook = |hook: fn(&Thread)| {
        move || CURRENT.with_borrow(|current| current.as_deref().into_iter().for_each(hook))
    };
    let runtime = Builder::new_current_thread()
        .enable_all()
        .on_thread_park(hook(Thread::before_sleep))
        .on_thread_unpark(hook(Thread::woke))
        .build_local(LocalOptions::default())?;
    runtime.block_on(async {
        let thread = Rc::new(Thread::new(shared, number));
        CURRENT.set(Some(thread.clone()));
        tokio::task::spawn_local(control());
        let result = thread.serve(listeners, inbox, stage).await;
        CURRENT.set(None);
        thread.flush_access();
        if number != 0 {
            thread.shared.others.fetch_sub(1, Ordering::Release);
        }
        result
    })
}

impl std::fmt::Debug for Thread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Thread")
            .field("number", &self.number)
            .field("stage", &self.stage)
            .finish_non_exhaustive()
    }
}

impl Thread {
    /// The state of thread `number`.
    pub(super) fn new(shared: Arc<Shared>, number: usize) -> Thread {
        let config = &shared.config;
        let limits = Limits {
            request_line: config.limits.request_line,
            field_line: config.limits.field_line,
            fields_total: config.limits.fields_total,
            field_count: config.limits.field_count,
            body: config.limits.body,
        };
        let spool = SpoolLimits {
            memory: config.limits.spill_memory,
            file: config.limits.spill_file,
        };
        let handles = shared
            .pools
            .iter()
            .map(|pool| pool.clone().map(|pool| PoolHandle::new(pool, number)))
            .collect();
        let access = shared.access.clone().map(|log| AccessLog::new(config.log.format, log));
        Thread {
            number,
            limits,
            spool,
            store: RefCell::new(Store::with_directives(
                howdah_files::Limits::default(),
                Arc::clone(&shared.directives),
            )),
            resolution_cache: RefCell::default(),
            handles,
            encoder: RefCell::new(RequestEncoder::default()),
            watches: Watches::new(),
            clock: Clock::new(),
            access,
            workspaces: RefCell::new(Vec::new()),
            working: Cell::new(0),
            stage: Cell::new(Stage::Serving),
            shared,
        }
    }

    pub(crate) fn config(&self) -> &Config {
        &self.shared.config
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    pub(crate) fn spool_limits(&self) -> SpoolLimits {
        self.spool
    }

    pub(crate) fn sites(&self) -> &Sites {
        &self.shared.sites
    }

    pub(crate) fn store(&self) -> RefMut<'_, Store> {
        self.store.borrow_mut()
    }

    /// Returns the host for resolving a request for `site` that arrived at `since`.
    pub(crate) fn host(&self, site: &Site, since: Instant) -> FrontHost<'_> {
        FrontHost {
            store: self.store(),
            passwords: &self.shared.passwords,
            since,
            pool: self.shared.pools.get(site.number()).and_then(Option::as_deref),
        }
    }

    /// The resolution cache.
    pub(crate) fn resolution_cache(&self) -> RefMut<'_, ResolutionCache<Prepared>> {
        self.resolution_cache.borrow_mut()
    }

    /// The compressed content of files, which all threads share.
    pub(crate) fn compressed_cache(&self) -> &CompressedCache {
        &self.shared.compressed
    }

    pub(crate) fn passwords(&self) -> &Passwords {
        &self.shared.passwords
    }

    /// Returns whether the message was not logged within the last minute.
    pub(crate) fn is_news(&self, message: &DirectiveMessage, now: Instant) -> bool {
        let messages = self.shared.messages.lock();
        messages.unwrap_or_else(PoisonError::into_inner).is_news(message, now)
    }

    pub(crate) fn pool_handle(&self, site: usize) -> Option<&Rc<PoolHandle>> {
        self.handles.get(site)?.as_ref()
    }

    pub(crate) fn encoder(&self) -> &RefCell<RequestEncoder> {
        &self.encoder
    }

    pub(crate) fn watches(&self) -> &Watches {
        &self.watches
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Returns the value of a Date field.
    pub(crate) fn date(&self) -> [u8; 29] {
        self.clock.date(self.clock.last())
    }

    /// Whether connections end with their present response.
    pub(crate) fn is_draining(&self) -> bool {
        self.stage.get() != Stage::Serving
    }

    /// Whether idle connections are closed.
    pub(crate) fn closes_idle(&self) -> bool {
        matches!(self.stage.get(), Stage::Stopping | Stage::Over)
    }

    /// Counts a connection as working until the guard is dropped.
    pub(crate) fn working(self: Rc<Self>) -> Working {
        self.working.set(self.working.get() + 1);
        Working(self)
    }

    /// Returns whether more than [`MOST_WORKING`] connections are working: then connections without
    /// a request should release their buffers.
    pub(crate) fn is_over_working_limit(&self) -> bool {
        self.working.get() > MOST_WORKING
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

    /// Logs an error.
    pub(crate) fn report(&self, error: &RequestError) {
        self.shared.log.say(error.level(), error.site.as_deref(), &error.to_string());
    }

    /// Logs why there is no response, where there is something to log and a client to answer.
    /// Returns the status for the client; `None` if it is gone.
    pub(crate) fn report_failed(&self, failed: &RespondError) -> Option<Status> {
        let status = failed.status()?;
        if let RespondError::Error(error) = failed {
            self.report(error);
        }
        Some(status)
    }

    /// The access log, where there is one.
    #[inline]
    pub(crate) fn access_log(&self) -> Option<&AccessLog> {
        self.access.as_ref()
    }

    fn flush_access(&self) {
        self.access.iter().for_each(AccessLog::flush);
    }

    fn before_sleep(&self) {
        self.flush_access();
        for handle in self.handles.iter().flatten() {
            handle.before_sleep();
        }
    }

    fn woke(&self) {
        for handle in self.handles.iter().flatten() {
            handle.woke();
        }
    }

    /// Accepts and serves connections until [`Stage::Over`], or, while draining, until every
    /// connection and request has ended.
    async fn serve(
        self: &Rc<Self>,
        listeners: Vec<Listener>,
        mut inbox: mpsc::UnboundedReceiver<Accepted>,
        mut stage: watch::Receiver<Stage>,
    ) -> io::Result<()> {
        let listeners: Vec<Rc<Listener>> = listeners.into_iter().map(Rc::new).collect();
        let mut acceptors: Vec<_> = listeners
            .iter()
            .map(|listener| tokio::task::spawn_local(self.clone().accept(listener.clone())))
            .collect();
        let mut listeners = Some(listeners);
        // Without inotify the store compares its entries with the disk.
        if let Some(changes) = self.store().changes().map(Readable::new).transpose()? {
            tokio::task::spawn_local(self.clone().follow_changes(changes));
        }
        let mut sweep = tokio::time::interval(SWEEP);
        loop {
            tokio::select! {
                Some((stream, remote, local)) = inbox.recv() => self.spawn(stream, remote, local),
                changed = stage.changed() => {
                    self.stage.set(if changed.is_ok() { *stage.borrow_and_update() } else { Stage::Over });
                    let acceptors = std::mem::take(&mut acceptors);
                    self.close(acceptors, listeners.take().unwrap_or_default()).await;
                    if self.closes_idle() {
                        self.watches.expire_idle();
                    }
                }
                _ = sweep.tick() => self.sweep(),
            }
            let done = self.is_draining() && self.is_idle();
            let last = self.number != 0 || self.shared.others.load(Ordering::Acquire) == 0;
            if self.stage.get() == Stage::Over {
                return Ok(());
            }
            if done && last {
                // Once the inbox is closed, other threads serve the connections that they accept
                // themselves.
                inbox.close();
                match inbox.recv().await {
                    Some((stream, remote, local)) => self.spawn(stream, remote, local),
                    None => return Ok(()),
                }
            }
        }
    }

    fn sweep(&self) {
        let now = Instant::now();
        self.watches.sweep(now);
        if self.number == 0 {
            self.shared.log.report_repeats(now);
        }
        for handle in self.handles.iter().flatten() {
            handle.sweep(now);
        }
    }

    fn is_idle(&self) -> bool {
        self.load().load(Ordering::Relaxed) == 0
            && self.handles.iter().flatten().all(|handle| handle.is_idle())
    }

    pub(crate) fn load(&self) -> &AtomicUsize {
        &self.shared.loads[self.number]
    }

    /// Handles changes of files before the requests that follow them.
    async fn follow_changes(self: Rc<Self>, changes: Readable) {
        while let Ok(mut ready) = changes.ready().await {
            ready.clear_ready();
            self.store().drain_events();
        }
    }
}

/// Counts a connection as working until dropped.
#[derive(Debug)]
pub(crate) struct Working(Rc<Thread>);

impl Drop for Working {
    fn drop(&mut self) {
        self.0.working.set(self.0.working.get() - 1);
    }
}
