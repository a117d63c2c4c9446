//! A pool, and the test as its supervisor and front.

use std::fs::File;
use std::io::{PipeReader, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use howdah_ipc::control::{FromZygote, MOST_BYTES, OpcacheWarmup, PoolSettings, ToZygote};
use howdah_ipc::flow_control::AbortReason;
use howdah_ipc::front::{FrontRegion, Slot};
use howdah_ipc::request::RequestEncoder;
use howdah_ipc::response::{DecodedHead, HeadKind, PREFIX, decode_prefix};
use howdah_ipc::worker_set::WorkerSet;
use howdah_ipc::{Geometry, SlotPhase};
use howdah_sys::poll;
use howdah_sys::process::Pid;
use howdah_sys::seqpacket::SeqPacket;

use crate::launch::{Launched, launch};

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(240);
/// Microseconds after which a zygote may have left scripts of its list to its requests.
const MOST_WARMUP: u64 = 3_000_000;

/// A folder of scripts, removed at the end of the test.
pub struct Site {
    pub root: PathBuf,
}

impl Site {
    /// Each script is given without its `<?php`.
    pub fn new(scripts: &[(&str, &str)]) -> Site {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let root =
            std::env::temp_dir().join(format!("howdah-pool-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&root).unwrap();
        for (name, php) in scripts {
            std::fs::write(root.join(name), format!("<?php {php}")).unwrap();
        }
        Site { root }
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.root);
    }
}

/// A running zygote with its workers.
pub struct Pool {
    zygote: Pid,
    ended: bool,
    supervisor: Option<SeqPacket>,
    front_socket: Option<SeqPacket>,
    front: FrontRegion,
    log: PipeReader,
    workers: Vec<Option<u64>>,
    encoder: RequestEncoder,
    /// Ini values for the next requests.
    pub ini: Vec<(&'static str, String)>,
    pub php_version: String,
    pub opcache: String,
    pub warmup: Option<OpcacheWarmup>,
}

/// A response that has arrived.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

impl Pool {
    /// Starts a zygote and `workers` workers, all of them alive.
    pub fn start(settings: PoolSettings, workers: usize) -> Pool {
        Pool::begin(settings, workers, None).ready()
    }

    /// Starts a pool like [`Pool::start`], with a list of scripts that the zygote compiles first. A
    /// zygote that was too slow for its time limit shows nothing, and another one is started.
    pub fn start_with_list(settings: &PoolSettings, workers: usize, list: &[u8]) -> Pool {
        let begun = Instant::now();
        loop {
            let (reader, mut writer) = std::io::pipe().unwrap();
            writer.write_all(list).unwrap();
            drop(writer);
            let pool = Pool::begin(settings.clone(), workers, Some(reader.into())).ready();
            let took = pool.warmup.map_or(0, |warmup| warmup.microseconds);
            if took < MOST_WARMUP || begun.elapsed() > PATIENCE {
                return pool;
            }
        }
    }

    /// Starts a pool like [`Pool::start_with_list`], with a list that nobody writes.
    pub fn start_with_open_list(settings: PoolSettings, workers: usize) -> Pool {
        let (reader, writer) = std::io::pipe().unwrap();
        let pool = Pool::begin(settings, workers, Some(reader.into())).ready();
        drop(writer);
        pool
    }

    fn ready(self) -> Pool {
        let mut pool = self;
        let ready = pool.expect(|message| matches!(message, FromZygote::Ready { .. }));
        let FromZygote::Ready { php_version, opcache, warmup, .. } = ready else {
            unreachable!()
        };
        (pool.php_version, pool.opcache, pool.warmup) = (php_version, opcache, warmup);
        for worker in 0..pool.workers.len() {
            pool.worker_pid(worker);
        }
        pool
    }

    /// Returns the list of the scripts that the pool has used.
    pub fn list_scripts(&self) -> Vec<u8> {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let supervisor = self.supervisor.as_ref().unwrap();
        supervisor.send(&ToZygote::ListScripts.encode(), &[writer.as_fd()]).unwrap();
        drop(writer);
        let mut list = Vec::new();
        reader.read_to_end(&mut list).unwrap();
        list
    }

    /// Starts a zygote that cannot start PHP; its reason.
    pub fn start_in_vain(settings: PoolSettings) -> String {
        let mut pool = Pool::begin(settings, 1, None);
        let mut room = vec![0; MOST_BYTES];
        let received = pool.supervisor.as_ref().unwrap().receive(&mut room).unwrap();
        let message = FromZygote::decode(&room[..received.length]).unwrap();
        let FromZygote::Failed { reason } = message else {
            panic!("{message:?}")
        };
        pool.wait_for_end();
        reason
    }

    fn begin(mut settings: PoolSettings, workers: usize, list: Option<OwnedFd>) -> Pool {
        settings.pool = "test".to_owned();
        let Launched { zygote, supervisor, front_socket, log } =
            launch(&ToZygote::Settings(Box::new(settings)).encode(), list);
        let (front, attach) = FrontRegion::create(Geometry::for_pool(workers, 1)).unwrap();
        let keep = ToZygote::Keep(WorkerSet::first(workers)).encode();
        let sent = attach.send(&front_socket).and_then(|_| front_socket.send(&keep, &[]));
        if let Err(error) = sent {
            // One whose settings cannot work may have ended already.
            assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe, "{error}");
        }
        Pool {
            zygote,
            ended: false,
            supervisor: Some(supervisor),
            front_socket: Some(front_socket),
            front,
            log,
            workers: vec![None; workers],
            encoder: RequestEncoder::default(),
            ini: Vec::new(),
            php_version: String::new(),
            opcache: String::new(),
            warmup: None,
        }
    }

    /// Runs a script to its end; `script` may have a query.
    pub fn get(&mut self, site: &Site, script: &str) -> Answer {
        let slot = self.submit(site, script);
        self.finish(slot)
    }

    /// Runs a script with content.
    pub fn post(&mut self, site: &Site, script: &str, content: &[u8], as_file: bool) -> Answer {
        let slot =
            self.submit_with(site, script, "POST", "application/octet-stream", content, as_file);
        self.finish(slot)
    }

    /// Runs a script with an encoded form.
    pub fn post_form(&mut self, site: &Site, script: &str, content: &[u8]) -> Answer {
        let slot = self.submit_with(
            site,
            script,
            "POST",
            "application/x-www-form-urlencoded",
            content,
            true,
        );
        self.finish(slot)
    }

    /// Begins a request.
    pub fn submit(&mut self, site: &Site, script: &str) -> Slot {
        self.submit_with(site, script, "GET", "", b"", false)
    }

    fn submit_with(
        &mut self,
        site: &Site,
        script: &str,
        method: &str,
        content_type: &str,
        content: &[u8],
        as_file: bool,
    ) -> Slot {
        let (path, query) = script
            .split_once('?')
            .map_or((script, None), |(path, query)| (path, Some(query)));
        let uri = format!("/{script}");
        let file = site.root.join(path).display().to_string();
        let root = site.root.display().to_string();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let query = query.map(str::as_bytes);
        self.encoder.begin(
            now.as_micros() as u64,
            [
                Some(method.as_bytes()),
                Some(file.as_bytes()),
                Some(uri.as_bytes()),
                query,
                Some(content_type.as_bytes()),
                None,
                None,
                Some(root.as_bytes()),
                None,
            ],
        );
        let entries = self.encoder.entries();
        entries.variable(b"HTTP_HOST", b"a.example");
        for (name, value) in &self.ini {
            entries.ini(name.as_bytes(), value.as_bytes());
        }
        let body = as_file.then(|| {
            let path = site.root.join("content");
            let mut file = File::options()
                .read(true)
                .write(true)
                .create(true)
                .truncate(true)
                .open(&path)
                .unwrap();
            file.write_all(content).unwrap();
            std::fs::remove_file(path).unwrap();
            file
        });
        let encoded = match &body {
            Some(_) => self.encoder.finish_file(content.len() as u64),
            None => self.encoder.finish_inline(content),
        };
        let slot = self.front.checkout().unwrap();
        self.front.submit(&slot, 0, encoded, body.as_ref().map(AsFd::as_fd)).unwrap();
        slot
    }

    /// Waits for the end of a request. Status 0: there was no head.
    pub fn finish(&mut self, slot: Slot) -> Answer {
        split(&self.finish_raw(slot))
    }

    /// Waits for the end of a request; what was not read yet.
    pub fn finish_raw(&mut self, mut slot: Slot) -> Vec<u8> {
        let begun = Instant::now();
        let mut received = Vec::new();
        loop {
            // The state first: what is there when it says Done is all.
            let phase = self.front.slot_status(&mut slot).unwrap().phase;
            let length = self.take(&mut slot, &mut received);
            if length == 0 && phase == SlotPhase::Done {
                break;
            }
            self.pause(begun, length);
        }
        if let Some(cleaning) = self.front.release(slot) {
            let message = ToZygote::Clean(cleaning).encode();
            self.front_socket.as_ref().unwrap().send(&message, &[]).unwrap();
        }
        received
    }

    /// Waits until what came ends with `end`.
    pub fn read_some(&mut self, slot: &mut Slot, end: &[u8]) -> Vec<u8> {
        let begun = Instant::now();
        let mut received = Vec::new();
        while !received.ends_with(end) {
            self.front.slot_status(slot).unwrap();
            let length = self.take(slot, &mut received);
            self.pause(begun, length);
        }
        received
    }

    /// Waits for the end of the response; the script still runs.
    pub fn wait_for_response_end(&mut self, slot: &mut Slot) {
        wait_until(|| self.front.slot_status(slot).unwrap().ended);
        assert_eq!(self.front.slot_status(slot).unwrap().phase, SlotPhase::Taken);
    }

    /// The client is gone.
    pub fn abort(&self, slot: &Slot) {
        self.front.abort(slot, AbortReason::Unread);
    }

    fn take(&mut self, slot: &mut Slot, received: &mut Vec<u8>) -> usize {
        let mut room = vec![0; 65536];
        let length = self.front.copy(slot, 0, &mut room);
        received.extend_from_slice(&room[..length]);
        self.front.consume(slot, length as u64);
        length
    }

    fn pause(&mut self, begun: Instant, length: usize) {
        self.note_news(Duration::ZERO);
        assert!(begun.elapsed() < PATIENCE, "no answer; the log: {}", self.read_log());
        if length == 0 {
            std::thread::sleep(Duration::from_micros(100));
        }
    }

    /// The process of a worker, once it has been started.
    pub fn worker_pid(&mut self, worker: usize) -> u64 {
        let begun = Instant::now();
        loop {
            if let Some(pid) = self.workers[worker] {
                return pid;
            }
            assert!(
                begun.elapsed() < PATIENCE,
                "worker {worker} was not started; the log: {}",
                self.read_log()
            );
            self.note_news(Duration::from_millis(10));
        }
    }

    /// Speaks to the zygote, as the front.
    pub fn send(&self, message: &ToZygote) {
        self.front_socket.as_ref().unwrap().send(&message.encode(), &[]).unwrap();
    }

    /// The next message to the front that is of interest.
    pub fn expect(&mut self, wanted: impl Fn(&FromZygote) -> bool) -> FromZygote {
        let begun = Instant::now();
        loop {
            match self.note_news(Duration::from_millis(10)) {
                Some(message) if wanted(&message) => return message,
                _ => {
                    assert!(begun.elapsed() < PATIENCE, "no message; the log: {}", self.read_log())
                }
            }
        }
    }

    /// Takes one message to the front, if there is one.
    fn note_news(&mut self, patience: Duration) -> Option<FromZygote> {
        let socket = self.front_socket.as_ref()?;
        if !poll::readable(&[socket.as_fd()], Some(patience)).unwrap()[0] {
            return None;
        }
        let mut room = vec![0; MOST_BYTES];
        // A zygote that is gone may not have read everything.
        let received = socket.receive(&mut room).ok().filter(|received| received.length > 0)?;
        let message = FromZygote::decode(&room[..received.length]).unwrap();
        match message {
            FromZygote::Started { worker, pid } => self.workers[worker as usize] = Some(pid),
            FromZygote::Died { worker, .. } => {
                self.workers[worker as usize] = None;
                self.front.worker_died(worker as usize).unwrap();
            }
            FromZygote::Cleaned { slot } => assert!(self.front.cleaned(slot as usize)),
            _ => {}
        }
        Some(message)
    }

    pub fn close_front(&mut self) {
        self.front_socket = None;
    }

    pub fn close_supervisor(&mut self) {
        self.supervisor = None;
    }

    pub fn kill_zygote(&mut self) {
        self.zygote.signal(9).unwrap();
        self.wait_for_end();
    }

    /// Ends the pool in order; what was logged.
    pub fn stop(&mut self) -> String {
        self.send(&ToZygote::Stop);
        self.wait_for_end();
        self.read_log()
    }

    pub fn wait_for_end(&mut self) {
        wait_until(|| {
            self.note_news(Duration::ZERO);
            !runs(self.zygote.number().into())
        });
        self.ended = true;
    }

    /// Returns the log so far, without waiting.
    fn read_log(&mut self) -> String {
        let mut log = Vec::new();
        let mut room = [0; 65536];
        while poll::readable(&[self.log.as_fd()], Some(Duration::ZERO)).unwrap()[0] {
            match self.log.read(&mut room).unwrap() {
                0 => break,
                length => log.extend_from_slice(&room[..length]),
            }
        }
        String::from_utf8_lossy(&log).into_owned()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if !self.ended {
            let _ = self.zygote.signal_group(9);
        }
    }
}

/// Heads and body of what came through the ring.
fn split(mut received: &[u8]) -> Answer {
    loop {
        let Some((prefix, rest)) = received.split_first_chunk::<PREFIX>() else {
            return Answer { status: 0, body: Vec::new() };
        };
        let (kind, length) = decode_prefix(*prefix).unwrap();
        let (head, rest) = rest.split_at(length);
        let head = DecodedHead::decode(head).unwrap();
        if matches!(kind, HeadKind::Final | HeadKind::Refused) {
            return Answer { status: head.status, body: rest.to_vec() };
        }
        received = rest;
    }
}

/// Returns whether a process is there and not just waiting to be ended.
pub fn runs(pid: u64) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

/// Waits for something to become true.
pub fn wait_until(mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "it took longer than {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
