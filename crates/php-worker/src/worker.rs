//! A worker: takes one request at a time out of the pool's shared memory, runs it in PHP, and
//! writes the response back.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;

use howdah_ipc::figures::CacheNumbers;
use howdah_ipc::request::{BodyLocation, DecodedRequest};
use howdah_ipc::response::HeadKind;
use howdah_ipc::worker::{Attachment, ResponseWriter, Worker, WorkerJob};
use howdah_sys::landlock::{Landlock, Ruleset};
use howdah_sys::memory::SharedNumbers;
use howdah_sys::usage::OwnMemoryMeter;

use crate::body::BodyReader;
use crate::caches;
use crate::children;
use crate::chroot::{self, PoolRoot};
use crate::ini;
use crate::log::{self, Level};
use crate::lookup::EncodedSlashMeaning;
use crate::php_request::{ClientGone, Field, HeadError, PhpRequest, ResponseSink, WorkerFacts};
use crate::process::{self, RawPid, SignalState};
use crate::running::RUNNING;
use crate::sapi::{self, Engine, RequestOutcome};
use crate::session_gc::SessionGc;
use crate::slow_log::{self, SlowLog};
use crate::time_out;
use crate::uploads::UploadFolder;

/// The zygote's parameters for a worker.
#[derive(Debug, Clone, Copy)]
pub struct WorkerOrders<'z> {
    /// Index of the worker in the pool.
    pub index: usize,
    /// The pool's name.
    pub pool: &'z CStr,
    /// Number of requests after which the worker ends; 0: never.
    pub max_requests: u64,
    /// Bytes of its own memory beyond which the worker ends, after its request; 0: any.
    pub max_memory: u64,
    /// Whether the worker may send signals only to itself and its children.
    pub separates_workers: bool,
    /// Processor time after which the worker ends, in seconds; 0: never.
    pub processor_seconds: u64,
    /// The root folder of the worker; `None` for the zygote's.
    pub root: Option<&'z PoolRoot>,
    /// Working directory outside of scripts; `None` for any.
    pub working_directory: Option<&'z Path>,
    /// Folder of the pool's sessions, if the workers delete old ones.
    pub sessions: Option<&'z Path>,
    /// The folders of uploaded files, if they are the pool's own.
    pub uploads: Option<&'z UploadFolder>,
    /// Scripts have the functions of `pcntl`.
    pub has_pcntl: bool,
    /// See [`WorkerFacts::modules`].
    pub modules: &'z str,
    /// See [`WorkerFacts::slashes`].
    pub slashes: EncodedSlashMeaning,
    /// Slow scripts are logged.
    pub slow_log: Option<SlowLog>,
    /// For each worker: whether the zygote has read the beginning of a line of its output. `None`
    /// where the workers' output has no pipes of its own.
    pub unfinished: Option<&'z SharedNumbers>,
    /// Process of the zygote.
    pub parent: RawPid,
}

/// Runs requests until the worker is told to stop. Called in a process that the zygote just forked.
pub fn main(mut engine: Engine, attachment: Attachment, orders: WorkerOrders<'_>) -> ! {
    let prepared = process::die_with(orders.parent).and_then(|()| process::unblock_signals());
    if prepared.is_err() {
        process::exit_now(1); // The zygote is gone; nobody would ever end us.
    }
    process::offer_to_the_oom_killer();
    if let Some(uploads) = orders.uploads {
        place_uploads(&mut engine, uploads, orders);
    }
    let served = confine(orders)
        .and_then(|()| children::prepare(attachment.descriptors()))
        .and_then(|()| Ok((attachment.worker(orders.index)?, memory_meter(orders)?)))
        .and_then(|(mut worker, memory)| {
            if let Some(root) = orders.root {
                worker.open_meters();
                // Before there is a second thread, which would keep the right to do the same.
                root.enter_with(orders.working_directory)?;
            }
            Ok((worker, memory))
        })
        .inspect(|_| watch(orders))
        .and_then(|(worker, memory)| serve(&mut engine, worker, memory, orders));
    match served {
        Ok(RequestOutcome::Ready | RequestOutcome::Collected) => {
            engine.stop();
            std::process::exit(0)
        }
        // PHP's own shutdown needs a consistent state, which PHP does not have any more.
        Ok(RequestOutcome::Broken) => process::exit_now(1),
        Err(error) => {
            log::write(
                Level::Error,
                format!("worker {} ends and will be replaced: {error}", orders.index).as_bytes(),
                None,
            );
            process::exit_now(1)
        }
    }
}

/// Gives this worker a folder of its own for uploaded files. Without it, uploads go to the folder
/// that PHP was started with.
fn place_uploads(engine: &mut Engine, uploads: &UploadFolder, orders: WorkerOrders<'_>) {
    let placed = uploads.of_worker(orders.index).map_err(|error| error.to_string());
    let placed = placed.and_then(|folder| {
        let folder = folder.as_os_str().as_encoded_bytes();
        engine.set_ini(ini::UPLOADS_SETTING, chroot::inside(orders.root, folder))
    });
    if let Err(error) = placed {
        let what = format!("uploads of a worker that dies will not be deleted: {error}");
        log::write(Level::Warning, what.as_bytes(), None);
    }
}

/// Sets the restrictions that each worker has for itself.
fn confine(orders: WorkerOrders<'_>) -> io::Result<()> {
    if orders.processor_seconds > 0 {
        process::limit_processor_time(orders.processor_seconds)?;
    }
    if orders.separates_workers
        && let Some(landlock) = Landlock::of_kernel()
    {
        let mut ruleset = Ruleset::new(landlock);
        ruleset.refuse_signals();
        ruleset.enforce()?;
    }
    Ok(())
}

/// The meter of this worker's own memory, if that is limited.
fn memory_meter(orders: WorkerOrders<'_>) -> io::Result<Option<OwnMemoryMeter>> {
    (orders.max_memory > 0).then(OwnMemoryMeter::of_this_process).transpose()
}

/// Starts the slow log, if the pool has one.
fn watch(orders: WorkerOrders<'_>) {
    let Some(Err(error)) = orders.slow_log.map(slow_log::start) else {
        return;
    };
    let what = format!(
        "slow scripts of worker {} will not be logged, because their thread did not start: \
         {error}; check `pids` and `rlimits.nproc`",
        orders.index
    );
    log::write(Level::Warning, what.as_bytes(), None);
}

fn serve(
    engine: &mut Engine,
    mut worker: Worker,
    memory: Option<OwnMemoryMeter>,
    orders: WorkerOrders<'_>,
) -> io::Result<RequestOutcome> {
    let mut served = 0;
    let mut session_gc = SessionGc::new(orders.sessions);
    // Without pcntl, scripts cannot change it.
    let signals = orders.has_pcntl.then(SignalState::of_this_process);
    loop {
        let Some(job) = worker.next(&process::STOP)? else {
            return Ok(RequestOutcome::Ready);
        };
        let facts = WorkerFacts {
            pool: orders.pool,
            served,
            collects_sessions: session_gc.is_due(),
            asks_caches: job.asks_caches,
            modules: orders.modules,
            slashes: orders.slashes,
            root: orders.root,
            working_directory: orders.working_directory,
        };
        let outcome = run(engine, job, facts);
        signals.iter().for_each(SignalState::restore);
        orders
            .unfinished
            .iter()
            .for_each(|lines| log::end_output_lines(lines, orders.index));
        if facts.collects_sessions {
            session_gc.tried(outcome == RequestOutcome::Collected);
        }
        served += 1;
        worker.publish_requests(served);
        worker.offer_spare_memory(engine.keeps_memory().then_some(sapi::give_memory_back));
        // A worker that has used its processor time gets no signal while it waits, unlike one that
        // the zygote dismisses.
        let is_large = memory
            .as_ref()
            .is_some_and(|meter| meter.read().is_ok_and(|bytes| bytes > orders.max_memory));
        let is_worn =
            process::STOP.load(Ordering::Acquire) || served == orders.max_requests || is_large;
        if outcome == RequestOutcome::Broken || is_worn {
            return Ok(outcome);
        }
    }
}

/// Runs one request. If the worker sends no head, the front answers with an error.
fn run(engine: &mut Engine, job: WorkerJob<'_>, facts: WorkerFacts<'_>) -> RequestOutcome {
    let WorkerJob { request: encoded, mut writer, .. } = job;
    let Some(request) = DecodedRequest::decode(encoded) else {
        log::write(
            Level::Error,
            b"a request was not run: its encoding in the shared memory is malformed",
            None,
        );
        return RequestOutcome::Ready;
    };
    let body = match request.body {
        BodyLocation::None | BodyLocation::Inline => BodyReader::Inline(request.inline_body()),
        BodyLocation::File => match writer.take_body() {
            Ok(file) => BodyReader::File { file: File::from(file), position: 0 },
            Err(error) => {
                log::write(Level::Error, error.to_string().as_bytes(), None);
                return RequestOutcome::Ready;
            }
        },
    };
    time_out::request_begins();
    RUNNING.begin(facts.served + 1, encoded, writer.times());
    slow_log::request_begun();
    let outcome = engine.execute(PhpRequest::new(request, body, &mut writer, facts));
    slow_log::request_ended();
    outcome
}

impl ResponseSink for ResponseWriter<'_> {
    fn head(
        &mut self,
        kind: HeadKind,
        status: u16,
        reason: &[u8],
        fields: &mut dyn Iterator<Item = Field<'_>>,
    ) -> Result<(), HeadError> {
        self.send_head(kind, status, reason, fields).map_err(|refused| match refused {
            Some(_) => HeadError::ClientGone,
            None => HeadError::TooLong,
        })
    }

    fn tell(
        &mut self,
        kind: HeadKind,
        texts: &mut dyn Iterator<Item = Field<'_>>,
    ) -> Result<(), HeadError> {
        ResponseSink::head(self, kind, 0, b"", texts)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), ClientGone> {
        ResponseWriter::write(self, bytes).map_err(|_| ClientGone)
    }

    fn flush(&mut self) -> Result<(), ClientGone> {
        ResponseWriter::flush(self);
        if self.is_aborted() { Err(ClientGone) } else { Ok(()) }
    }

    fn is_late(&self) -> bool {
        ResponseWriter::is_late(self)
    }

    fn end(&mut self) {
        ResponseWriter::end(self);
    }

    fn note_peak(&mut self, bytes: u64) {
        ResponseWriter::note_peak(self, bytes);
    }

    fn note_caches(&mut self, caches: &CacheNumbers) {
        let former = ResponseWriter::note_caches(self, caches);
        caches::warn(&former, caches);
    }

    fn ask(&mut self, question: &[u8]) -> Option<Vec<u8>> {
        ResponseWriter::ask(self, question)
    }

    fn show_life(&mut self) {
        ResponseWriter::show_life(self);
    }

    fn time_limit(&mut self, seconds: i64) {
        self.grant(seconds);
    }
}
