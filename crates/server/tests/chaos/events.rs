//! Events that happen to the server, one after the other, in random order.

use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use howdah_sys::signal::{SIGHUP, SIGKILL, SIGUSR2};

use crate::ledger::{Harm, Ledger, NEW_BINARY};
use crate::stage::{self, Stage};
use crate::support::{Client, Process};

/// Signals of Linux.
const SIGSEGV: i32 = 11;
const SIGCONT: i32 = 18;
const SIGSTOP: i32 = 19;
/// Time that the supervisor has to replace a front that hangs.
const HANG: Duration = Duration::from_secs(12);
/// Time after which the front knows that a disk has room again.
const MEASURED_AGAIN: Duration = Duration::from_millis(1_500);
/// Time for anything else.
const SOON: Duration = Duration::from_secs(20);

/// Causes events.
pub struct Events<'s> {
    stage: &'s Stage,
    ledger: &'s Ledger,
    random: u64,
}

type Cause = fn(&mut Events<'_>);

/// All events. Those that replace a whole generation are rarer than the others.
const ALL: [Cause; 23] = [
    |events| events.signal_worker("worker killed", SIGKILL),
    |events| events.signal_worker("worker killed", SIGKILL),
    |events| events.signal_worker("worker killed", SIGKILL),
    |events| events.signal_worker("worker crashed", SIGSEGV),
    |events| events.signal_worker("worker crashed", SIGSEGV),
    |events| events.stop_worker(),
    |events| events.stop_worker(),
    |events| events.kill_zygote("zygote killed", SIGKILL),
    |events| events.kill_zygote("zygote killed", SIGKILL),
    |events| events.kill_zygote("zygote crashed", SIGSEGV),
    |events| events.stop_zygote(),
    |events| events.kill_standby(),
    |events| events.kill_front("front killed", SIGKILL),
    |events| events.kill_front("front crashed", SIGSEGV),
    |events| events.stop_front(),
    |events| events.hang_thread(),
    |events| events.change("reload", SIGHUP),
    |events| events.change("reload", SIGHUP),
    |events| events.change(NEW_BINARY, SIGUSR2),
    |events| events.break_php_ini(),
    |events| events.fill_disk(),
    |events| events.fill_disk(),
    |events| events.exhaust_descriptors(),
];

impl<'s> Events<'s> {
    /// Nothing has happened yet. `CHAOS_SEED` chooses the order.
    pub fn new(stage: &'s Stage, ledger: &'s Ledger) -> Events<'s> {
        let told = std::env::var("CHAOS_SEED").ok().and_then(|text| text.parse().ok());
        let seed = told.unwrap_or_else(|| u64::from(std::process::id()));
        println!("CHAOS_SEED={seed}");
        Events { stage, ledger, random: seed }
    }

    /// Causes the next event, waits until its effects have ended, and a little longer.
    pub fn cause_one(&mut self) {
        let number = self.below(ALL.len());
        ALL[number](self);
        let pause = 200 + self.below(600) as u64;
        std::thread::sleep(Duration::from_millis(pause));
    }

    /// Puts everything right that an event may have left wrong.
    pub fn undo(&mut self) {
        self.stage.break_php_ini(false);
        self.change("reload", SIGHUP);
    }

    fn signal_worker(&mut self, name: &'static str, signal: i32) {
        let workers = self.stage.workers();
        if workers.is_empty() {
            return;
        }
        let began = Instant::now();
        workers[self.below(workers.len())].signal(signal);
        self.ledger.note(name, Harm::Workers(1), began, None);
    }

    fn stop_worker(&mut self) {
        let workers = self.stage.workers();
        if workers.is_empty() {
            return;
        }
        let worker = workers[self.below(workers.len())];
        let began = Instant::now();
        worker.signal(SIGSTOP);
        std::thread::sleep(Duration::from_millis(700));
        worker.signal(SIGCONT);
        self.ledger.note("worker stopped", Harm::Nothing, began, None);
    }

    fn kill_zygote(&mut self, name: &'static str, signal: i32) {
        let Some(zygote) = self.stage.zygote() else {
            return;
        };
        let began = Instant::now();
        zygote.signal(signal);
        until(SOON, || !zygote.lives());
        let gap = self.answered("/hello.php?n=1", began);
        self.ledger.note(name, Harm::Workers(stage::WORKERS), began, gap);
        until(SOON, || self.stage.is_staffed());
    }

    fn stop_zygote(&mut self) {
        let Some(zygote) = self.stage.zygote() else {
            return;
        };
        let began = Instant::now();
        zygote.signal(SIGSTOP);
        std::thread::sleep(Duration::from_millis(700));
        zygote.signal(SIGCONT);
        self.ledger.note("zygote stopped", Harm::Nothing, began, None);
    }

    /// Kills a zygote that stands by, or stops it, if there is one.
    fn kill_standby(&mut self) {
        let standbys = self.stage.supervisor().standbys();
        if standbys.is_empty() {
            return;
        }
        let began = Instant::now();
        let standby = standbys[self.below(standbys.len())];
        standby.signal([SIGKILL, SIGSEGV][self.below(2)]);
        self.ledger.note("standby killed", Harm::Nothing, began, None);
    }

    fn kill_front(&mut self, name: &'static str, signal: i32) {
        let Some(front) = self.stage.front() else {
            return;
        };
        let began = Instant::now();
        front.signal(signal);
        let gap = self.answered("/file.txt", began);
        self.ledger.note(name, Harm::Connections, began, gap);
        self.wait_for_successor(front);
    }

    fn stop_front(&mut self) {
        let Some(front) = self.stage.front() else {
            return;
        };
        let began = Instant::now();
        front.signal(SIGSTOP);
        let replaced = until(HANG, || !front.lives());
        front.signal(SIGCONT);
        let gap = self.answered("/file.txt", began);
        // A front that is stopped and not replaced excuses nothing.
        let harm = if replaced { Harm::Connections } else { Harm::Nothing };
        self.ledger.note("front stopped", harm, began, gap);
        if replaced {
            self.wait_for_successor(front);
        }
    }

    /// Stops one thread of the front, as a dead lock or an endless loop would.
    fn hang_thread(&mut self) {
        let Some(front) = self.stage.front() else {
            return;
        };
        let threads: Vec<u32> = fs::read_dir(format!("/proc/{}/task", front.number()))
            .into_iter()
            .flatten()
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .collect();
        if threads.is_empty() {
            return;
        }
        let thread = threads[self.below(threads.len())];
        let began = Instant::now();
        let Some(mut holder) = hold_thread(thread) else {
            return;
        };
        // A thread that serves nobody may hang: then the front goes on.
        let replaced = until(HANG, || !front.lives());
        let _ = holder.kill();
        holder.wait().unwrap();
        let harm = if replaced { Harm::Connections } else { Harm::Nothing };
        self.ledger.note("thread of front hung", harm, began, None);
        if replaced {
            self.wait_for_successor(front);
        }
    }

    fn change(&mut self, name: &'static str, signal: i32) {
        let front = self.stage.front();
        let began = Instant::now();
        self.stage.server.signal(signal);
        until(SOON, || self.stage.front().is_some() && self.stage.front() != front);
        self.ledger.note(name, Harm::Nothing, began, None);
    }

    fn break_php_ini(&mut self) {
        let front = self.stage.front();
        let began = Instant::now();
        self.stage.break_php_ini(true);
        self.stage.server.signal(SIGHUP);
        // Refused, or PHP starts with what it understands of the file.
        until(Duration::from_secs(2), || self.stage.front() != front);
        self.stage.break_php_ini(false);
        self.ledger.note("broken php.ini", Harm::Nothing, began, None);
        self.change("reload", SIGHUP);
    }

    fn fill_disk(&mut self) {
        let Some(disk) = self.stage.disk() else {
            return;
        };
        let began = Instant::now();
        let filler = disk.join("filler");
        fill(&filler);
        std::thread::sleep(Duration::from_millis(1_500));
        fs::remove_file(&filler).unwrap();
        // The front measures the free space again and again, not with each request.
        std::thread::sleep(MEASURED_AGAIN);
        self.ledger.note("full disk", Harm::Shortage, began, None);
    }

    fn exhaust_descriptors(&mut self) {
        let began = Instant::now();
        let address = self.stage.address();
        let wait = Duration::from_millis(50);
        let connections: Vec<TcpStream> = (0..stage::DESCRIPTORS)
            .map_while(|_| TcpStream::connect_timeout(&address, wait).ok())
            .collect();
        std::thread::sleep(Duration::from_millis(1_000));
        drop(connections);
        self.ledger.note("no descriptors", Harm::Shortage, began, None);
    }

    fn wait_for_successor(&self, front: Process) {
        until(SOON, || {
            self.stage.front().is_some_and(|other| other != front) && self.stage.is_staffed()
        });
    }

    /// Time from `began` to the first answer on a new connection. `None` if there is none soon.
    fn answered(&self, target: &str, began: Instant) -> Option<Duration> {
        let ask = || {
            let mut client = Client::try_connect(self.stage.address()).ok()?;
            self.ledger.count_probe();
            let response = client.try_get(target).ok()?;
            (response.status == 200).then_some(())
        };
        until(SOON, || ask().is_some()).then(|| began.elapsed())
    }

    /// A number below `limit`: Knuth's linear congruential generator.
    fn below(&mut self, limit: usize) -> usize {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) as usize % limit
    }
}

/// Stops a thread of another process with `ptrace(2)`, in a process that holds it until it is
/// killed. `None` where that is not permitted.
fn hold_thread(thread: u32) -> Option<Child> {
    let script = format!(
        "$c = FFI::cdef('long ptrace(long request, int thread, long at, long data); int \
         pause(void);'); $c->ptrace(0x4206, {thread}, 0, 0) === 0 && $c->ptrace(0x4207, {thread}, \
         0, 0) === 0 || exit(1); echo 'held'; $c->pause();"
    );
    let mut holder = Command::new("php")
        .args(["-d", "ffi.enable=1", "-r", &script])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .ok()?;
    let mut told = [0; 4];
    let output = holder.stdout.as_mut()?;
    if std::io::Read::read_exact(output, &mut told).is_ok() {
        return Some(holder);
    }
    let _ = holder.wait();
    None
}

/// Writes a file until the disk is full.
fn fill(path: &Path) {
    use std::io::Write;
    let mut file = fs::File::create(path).unwrap();
    let block = vec![0; 1 << 16];
    while file.write_all(&block).is_ok() {}
    while file.write_all(&[0; 512]).is_ok() {}
}

fn until(limit: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + limit;
    while !is_so() {
        if Instant::now() > end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    true
}
