//! A worker: one request at a time, out of the pool's shared memory, through PHP, and back.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::path::Path;

use howdah_ipc::request::{Body as Place, Request};
use howdah_ipc::response::HeadKind;
use howdah_ipc::worker::{Attachment, Job, Line, Worker};

use crate::body::Body;
use crate::call::{Call, Client, Facts, Field, Gone, HeadRefused};
use crate::log::{self, Level};
use crate::process::{self, Pid};
use crate::sapi::{Engine, Outcome};
use crate::session_gc::SessionGc;

/// What a worker is told by its zygote.
#[derive(Debug, Clone, Copy)]
pub struct Orders<'z> {
    /// Which worker of the pool this is.
    pub index: usize,
    /// The pool's name.
    pub pool: &'z CStr,
    /// End after so many requests; 0: never.
    pub max_requests: u64,
    /// Where the pool's sessions are, if old ones are to be deleted.
    pub sessions: Option<&'z Path>,
    /// The zygote.
    pub parent: Pid,
}

/// A worker's life, in a process that the zygote just forked.
pub fn main(mut engine: Engine, attachment: Attachment, orders: Orders<'_>) -> ! {
    let prepared = process::die_with(orders.parent).and_then(|()| process::unblock_signals());
    if prepared.is_err() {
        process::exit_now(1); // The zygote is gone; nobody would ever end us.
    }
    match serve(&mut engine, attachment.worker(orders.index), orders) {
        Ok(Outcome::Ready | Outcome::Collected) => {
            engine.stop();
            std::process::exit(0)
        }
        // Whatever PHP would do to end in order relies on a state that is not.
        Ok(Outcome::Broken) => process::exit_now(1),
        Err(error) => {
            log::write(
                Level::Error,
                format!("worker {} ends: {error}", orders.index).as_bytes(),
                None,
            );
            process::exit_now(1)
        }
    }
}

fn serve(engine: &mut Engine, mut worker: Worker, orders: Orders<'_>) -> io::Result<Outcome> {
    let mut served = 0;
    let mut session_gc = SessionGc::new(orders.sessions);
    loop {
        let Some(job) = worker.next(&process::STOP)? else {
            return Ok(Outcome::Ready);
        };
        let facts = Facts {
            pool: orders.pool,
            served,
            collects_sessions: session_gc.is_due(),
        };
        let outcome = run(engine, job, facts);
        if facts.collects_sessions {
            session_gc.tried(outcome == Outcome::Collected);
        }
        served += 1;
        worker.publish_requests(served);
        if outcome == Outcome::Broken || served == orders.max_requests {
            return Ok(outcome);
        }
    }
}

/// Runs one request. A response without a head tells the front that something went wrong here.
fn run(engine: &mut Engine, job: Job<'_>, facts: Facts<'_>) -> Outcome {
    let Job { request, mut line } = job;
    let Some(request) = Request::decode(request) else {
        log::write(Level::Error, b"a request in the shared memory contradicts itself", None);
        return Outcome::Ready;
    };
    let body = match request.body {
        Place::None | Place::Inline => Body::Inline(request.inline_body()),
        Place::File => match line.take_body() {
            Ok(file) => Body::File { file: File::from(file), position: 0 },
            Err(error) => {
                log::write(Level::Error, error.to_string().as_bytes(), None);
                return Outcome::Ready;
            }
        },
    };
    engine.execute(Call::new(request, body, &mut line, facts))
}

impl Client for Line<'_> {
    fn head(
        &mut self,
        kind: HeadKind,
        status: u16,
        reason: &[u8],
        fields: &mut dyn Iterator<Item = Field<'_>>,
    ) -> Result<(), HeadRefused> {
        self.send_head(kind, status, reason, fields).map_err(|refused| match refused {
            Some(_) => HeadRefused::Gone,
            None => HeadRefused::TooLong,
        })
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Gone> {
        Line::write(self, bytes).map_err(|_| Gone)
    }

    fn flush(&mut self) -> Result<(), Gone> {
        Line::flush(self);
        if self.is_aborted() { Err(Gone) } else { Ok(()) }
    }

    fn end(&mut self) {
        Line::end(self);
    }
}
