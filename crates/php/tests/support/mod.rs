//! A front with one thread and one pool, and a zygote whose workers are threads.

mod worker;

use std::cell::RefCell;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use howdah_ipc::control::{AttachMessage, FromZygote, ToZygote};
use howdah_ipc::worker::Attachment;
use howdah_php::counters::{COUNTER_WORDS, Counters, PoolCounters, PoolTotals, STAFF_WORDS};
use howdah_php::{MemoryRecord, MemoryWatch, Pool, PoolEvent, PoolHandle, PoolLimits, Scaling};
use howdah_sys::memory::SharedNumbers;
use howdah_sys::seqpacket::SeqPacket;
use tokio::runtime::{Builder, LocalOptions};

use worker::live;

/// The work of a worker for a request, by the script's name.
#[derive(Debug, Clone, Copy)]
pub enum Script {
    /// A body of this number of bytes.
    Bytes(usize),
    /// Milliseconds, then an empty body.
    Sleep(u64),
    /// The worker ends with this wait status.
    Die(u64),
    /// The worker is killed, and its successor starts when the test has opened this gate.
    DieAlone(Gate),
    /// Some bytes, then a death by SIGSEGV.
    BytesThenDie(usize),
    /// An empty body, once the test has opened this gate.
    Hold(Gate),
    /// A complete response, then the gate.
    EndThenHold(Gate),
    /// Some bytes that the front is not told of, then the gate.
    PrintThenHold(Gate),
    /// The gate, then some bytes.
    HoldThenPrint(Gate),
    /// Nothing, not even a head.
    Nothing,
    /// A part of the head, then the gate, then the rest.
    HeadInTwo(Gate),
    /// A complete response, then a death with this wait status.
    EndThenDie(u64),
    /// The answers to this number of questions, each with a semicolon after it.
    Ask(u64),
    /// A complete response, then the gate, then two questions.
    EndThenAsk(Gate),
    /// The gate, then a question. The last answer is why nobody reads the response.
    HoldThenAsk(Gate),
}

impl Script {
    pub fn name(self) -> String {
        match self {
            Script::Bytes(count) => format!("bytes {count}"),
            Script::Sleep(time) => format!("sleep {time}"),
            Script::Die(status) => format!("die {status}"),
            Script::DieAlone(gate) => format!("die-alone {}", gate.0),
            Script::BytesThenDie(count) => format!("bytes-then-die {count}"),
            Script::Hold(gate) => format!("hold {}", gate.0),
            Script::EndThenHold(gate) => format!("end-then-hold {}", gate.0),
            Script::PrintThenHold(gate) => format!("print-then-hold {}", gate.0),
            Script::EndThenDie(status) => format!("end-then-die {status}"),
            Script::HoldThenPrint(gate) => format!("hold-then-print {}", gate.0),
            Script::Nothing => "nothing 0".to_owned(),
            Script::HeadInTwo(gate) => format!("head-in-two {}", gate.0),
            Script::Ask(count) => format!("ask {count}"),
            Script::EndThenAsk(gate) => format!("end-then-ask {}", gate.0),
            Script::HoldThenAsk(gate) => format!("hold-then-ask {}", gate.0),
        }
    }
}

/// A place where a script waits for the test, so that no test depends on how fast a worker is.
#[derive(Debug, Clone, Copy)]
pub struct Gate(u64);

/// The gates by number: whether a script waits there, and whether it is open.
static GATES: Mutex<Vec<(bool, bool)>> = Mutex::new(Vec::new());

impl Gate {
    /// A gate that is shut.
    pub fn new() -> Gate {
        let mut gates = GATES.lock().unwrap();
        gates.push((false, false));
        Gate(gates.len() as u64 - 1)
    }

    /// Lets the script go on.
    pub fn open(self) {
        GATES.lock().unwrap()[self.0 as usize].1 = true;
    }

    /// Waits until a script has reached the gate.
    pub async fn is_reached(self) {
        let end = Instant::now() + PATIENCE;
        while !GATES.lock().unwrap()[self.0 as usize].0 {
            assert!(Instant::now() < end, "no worker has begun the script");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Whether a script has reached the gate.
    pub fn was_reached(self) -> bool {
        GATES.lock().unwrap()[self.0 as usize].0
    }

    /// Whether the script behind the gate could print.
    pub fn was_printed(self) -> bool {
        worker::answers(self.0) == [Some(Vec::new())]
    }

    /// The answers to the script behind the gate, whose response nobody reads.
    pub fn answers(self) -> Vec<Option<Vec<u8>>> {
        worker::answers(self.0)
    }

    /// The script's side.
    fn pass(number: u64) {
        GATES.lock().unwrap()[number as usize].0 = true;
        while !GATES.lock().unwrap()[number as usize].1 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// The time limit for steps that must happen.
pub const PATIENCE: Duration = Duration::from_secs(240);

pub fn limits() -> PoolLimits {
    PoolLimits {
        workers: 1,
        queue: 100,
        queue_timeout: Duration::from_secs(300),
        request_timeout: Duration::from_secs(300),
        meters_processor: false,
        scaling: Scaling::Static,
        request_terminate_timeout: Duration::from_secs(600),
        slow_after: None,
    }
}

/// The pool's numbers, those of its workers, and those of a lane.
const NUMBERS: usize = 2 * COUNTER_WORDS + STAFF_WORDS;

/// Numbers for the counters of another thread.
pub fn numbers() -> Arc<SharedNumbers> {
    Arc::new(SharedNumbers::new(NUMBERS).unwrap())
}

/// Returns what `read` finds in the counters of the pool, and in those of its lane.
pub fn counted<T>(numbers: &SharedNumbers, read: impl Fn(PoolTotals<'_>) -> T) -> [T; 2] {
    let words: Vec<u64> = (0..NUMBERS).map(|index| numbers.load(index)).collect();
    let (all, rest) = words.split_at(COUNTER_WORDS);
    let (staff, lane) = rest.split_at(STAFF_WORDS);
    [all, lane].map(|words| read(PoolTotals::new(words, staff)))
}

pub fn counters(numbers: &Arc<SharedNumbers>) -> PoolCounters {
    let from = |first| Counters::new(numbers.clone(), first);
    PoolCounters {
        all: from(0),
        lanes: Rc::new([from(COUNTER_WORDS + STAFF_WORDS)]),
        staff: from(COUNTER_WORDS),
    }
}

/// A front's thread with its handle.
pub struct Front {
    workers: usize,
    limits: PoolLimits,
    sweeps: Duration,
    record: Option<MemoryRecord>,
    /// The zygote signals no worker.
    is_deaf: bool,
}

/// The worker as a test sees it.
pub struct Stage {
    pool: Arc<Pool>,
    memory: Arc<MemoryWatch>,
    handle: Rc<PoolHandle>,
    numbers: Arc<SharedNumbers>,
    zygote: RefCell<Zygote>,
    events: Rc<RefCell<Vec<PoolEvent>>>,
}

thread_local! {
    static HANDLE: RefCell<Option<Rc<PoolHandle>>> = const { RefCell::new(None) };
}

impl Front {
    pub fn new(workers: usize, limits: PoolLimits) -> Front {
        Front {
            workers,
            limits: PoolLimits { workers, ..limits },
            sweeps: Duration::from_millis(50),
            record: None,
            is_deaf: false,
        }
    }

    /// The pool has that many workers at its start.
    pub fn with_first(self, workers: usize) -> Front {
        Front { workers, ..self }
    }

    /// Time limits are enforced so seldom that a sweep cannot take the place of a wake-up.
    pub fn sweeping_every(self, sweeps: Duration) -> Front {
        Front { sweeps, ..self }
    }

    /// The pool knows what was measured before.
    pub fn remembering(self, record: MemoryRecord) -> Front {
        Front { record: Some(record), ..self }
    }

    /// The zygote hears that it should signal a worker, and does not.
    pub fn with_deaf_zygote(self) -> Front {
        Front { is_deaf: true, ..self }
    }

    /// Runs `test` once all workers are there.
    pub fn run(self, test: impl AsyncFnOnce(&Stage)) {
        let hook = |hook: fn(&PoolHandle)| {
            move || HANDLE.with_borrow(|handle| handle.as_deref().into_iter().for_each(hook))
        };
        let runtime = Builder::new_current_thread()
            .enable_all()
            .on_thread_park(hook(PoolHandle::before_sleep))
            .on_thread_unpark(hook(PoolHandle::woke))
            .build_local(LocalOptions::default())
            .unwrap();
        runtime.block_on(async {
            let memory = Arc::default();
            let pool = Pool::new("test".into(), (self.limits, Vec::new()), 1, Arc::clone(&memory));
            let numbers = numbers();
            self.record.into_iter().for_each(|record| pool.remember(record));
            let handle = PoolHandle::new(pool.clone(), 0, counters(&numbers));
            HANDLE.set(Some(handle.clone()));
            let events = Rc::default();
            let zygote = Zygote::start(self.is_deaf);
            let stage = Stage {
                pool,
                memory,
                handle: handle.clone(),
                numbers,
                zygote: RefCell::new(zygote),
                events,
            };
            stage.follow();
            tokio::task::spawn_local(async move {
                loop {
                    tokio::time::sleep(self.sweeps).await;
                    handle.sweep(Instant::now());
                }
            });
            while stage.pool.worker_count() < self.workers {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            test(&stage).await;
            HANDLE.set(None);
        });
    }
}

impl Stage {
    pub fn handle(&self) -> &Rc<PoolHandle> {
        &self.handle
    }

    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// The memory that the pool is told of.
    pub fn memory(&self) -> &MemoryWatch {
        &self.memory
    }

    pub fn events(&self) -> Vec<PoolEvent> {
        self.events.borrow().clone()
    }

    /// Returns what `read` finds in the counters of the pool, and in those of its lane.
    pub fn counted<T>(&self, read: impl Fn(PoolTotals<'_>) -> T) -> [T; 2] {
        counted(&self.numbers, read)
    }

    /// Signals that the zygote was asked to send.
    pub fn signals(&self) -> Vec<u64> {
        self.zygote.borrow().signals.lock().unwrap().clone()
    }

    /// How many slots the zygote was asked to clean.
    pub fn cleans(&self) -> u64 {
        self.zygote.borrow().told.cleans.load(Ordering::Relaxed)
    }

    /// How often the zygote was told to end.
    pub fn stops(&self) -> u64 {
        self.zygote.borrow().told.stops.load(Ordering::Relaxed)
    }

    pub fn first_pid(&self) -> u64 {
        FIRST_PID
    }

    /// Waits until no slot is out any more.
    pub async fn expect_idle(&self) {
        let end = Instant::now() + PATIENCE;
        while !self.handle.is_idle() {
            assert!(Instant::now() < end, "a slot is still out");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// The zygote's socket closes, as when it dies; another takes its place.
    pub fn replace_zygote(&self) {
        self.lose_zygote();
        self.bring_zygote();
    }

    /// The zygote's socket closes, as when it dies.
    pub fn lose_zygote(&self) {
        self.zygote.borrow().die();
    }

    /// Another zygote takes the place of the one that died.
    pub fn bring_zygote(&self) {
        *self.zygote.borrow_mut() = Zygote::start(false);
        self.follow();
    }

    fn follow(&self) {
        let (pool, events) = (self.pool.clone(), self.events.clone());
        let socket = self.zygote.borrow_mut().front_end.take().unwrap();
        tokio::task::spawn_local(async move {
            let _ = pool.follow(socket, |event| events.borrow_mut().push(event)).await;
        });
    }
}

const FIRST_PID: u64 = 1000;

struct Zygote {
    front_end: Option<SeqPacket>,
    /// The zygote's own end, to close it by hand.
    own_end: Arc<SeqPacket>,
    signals: Arc<Mutex<Vec<u64>>>,
    told: Arc<Told>,
}

/// The orders that the zygote got, beside signals.
#[derive(Default)]
struct Told {
    /// Slots to clean.
    cleans: AtomicU64,
    /// Whether to end, as a number.
    stops: AtomicU64,
}

impl Zygote {
    fn start(is_deaf: bool) -> Zygote {
        let (front_end, own_end) = SeqPacket::pair().unwrap();
        let own_end = Arc::new(own_end);
        let signals = Arc::new(Mutex::new(Vec::new()));
        let zygote = Zygote {
            front_end: Some(front_end),
            own_end: own_end.clone(),
            signals: signals.clone(),
            told: Arc::default(),
        };
        let told = zygote.told.clone();
        std::thread::spawn(move || obey(&own_end, &signals, &told, is_deaf));
        zygote
    }

    fn die(&self) {
        let socket: OwnedFd = self.own_end.as_fd().try_clone_to_owned().unwrap();
        std::os::unix::net::UnixStream::from(socket)
            .shutdown(std::net::Shutdown::Both)
            .unwrap();
    }
}

/// The zygote's loop: workers are threads, whose deaths are only told.
fn obey(socket: &Arc<SeqPacket>, signals: &Mutex<Vec<u64>>, told: &Told, is_deaf: bool) {
    let mut room = vec![0; 65536];
    let mut descriptors = Vec::new();
    let mut attach = None;
    let staff = Arc::new(Staff {
        pids: AtomicU64::new(FIRST_PID),
        sleepers: Mutex::default(),
    });
    while let Ok(received) = socket.receive(&mut room) {
        if received.length == 0 {
            return;
        }
        match ToZygote::decode(&room[..received.length]).unwrap() {
            ToZygote::Attach { geometry, total } => {
                descriptors.extend(received.descriptors);
                if descriptors.len() as u64 == total {
                    attach = Some(AttachMessage {
                        geometry,
                        descriptors: std::mem::take(&mut descriptors),
                    });
                }
            }
            // The first; workers that are not needed any more stay, as if they were busy.
            ToZygote::Keep(workers) if attach.is_some() => {
                let Some(attach) = attach.take() else {
                    continue;
                };
                let ready = FromZygote::Ready {
                    php_version: "8.2.29".to_owned(),
                    opcache: "on".to_owned(),
                    settings: 7,
                    warmup: None,
                };
                let _ = socket.send(&ready.encode(), &[]);
                let places = 0..attach.geometry.workers;
                for worker in places.filter(|worker| workers.has(*worker)) {
                    let copy = copy(&attach);
                    let (socket, staff) = (socket.clone(), staff.clone());
                    let first = buried(&copy, worker, 0);
                    std::thread::spawn(move || live(&copy, first, worker, &socket, &staff));
                }
            }
            ToZygote::Kill { worker, pid, signal } => {
                signals.lock().unwrap().push(signal);
                if signal == 9 && !is_deaf {
                    // The thread sleeps on; its slot is never touched again.
                    let sleeper = staff.sleeper();
                    let successor = sleeper.map(|copy| (buried(&copy, worker as usize, 1), copy));
                    let died = FromZygote::Died { worker, pid, status: 9, processor: 0 };
                    let _ = socket.send(&died.encode(), &[]);
                    if let Some((attachment, attach)) = successor {
                        let (socket, staff) = (socket.clone(), staff.clone());
                        std::thread::spawn(move || {
                            live(&attach, attachment, worker as usize, &socket, &staff)
                        });
                    }
                }
            }
            ToZygote::Clean(_) => _ = told.cleans.fetch_add(1, Ordering::Relaxed),
            ToZygote::Stop => _ = told.stops.fetch_add(1, Ordering::Relaxed),
            _ => {}
        }
    }
}

/// The things that the workers of a zygote have in common.
struct Staff {
    /// The process of the next worker.
    pids: AtomicU64,
    /// Attachments of workers that sleep for a long time, for the successor of one that is killed
    /// meanwhile.
    sleepers: Mutex<Vec<AttachMessage>>,
}

impl Staff {
    /// Takes the attachment of the worker that is killed. The worker may not have come to its
    /// sleep yet.
    fn sleeper(&self) -> Option<AttachMessage> {
        let end = Instant::now() + PATIENCE;
        loop {
            let sleeper = self.sleepers.lock().unwrap().pop();
            if sleeper.is_some() || Instant::now() > end {
                return sleeper;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

fn copy(attach: &AttachMessage) -> AttachMessage {
    let descriptors = attach.descriptors.iter().map(|fd| fd.try_clone().unwrap()).collect();
    AttachMessage { geometry: attach.geometry, descriptors }
}

/// The region for a worker in whose place `deaths` others have died.
fn buried(attach: &AttachMessage, worker: usize, deaths: usize) -> Attachment {
    let attachment = Attachment::new(copy(attach)).unwrap();
    (0..deaths).for_each(|_| attachment.record_death(worker));
    attachment
}
