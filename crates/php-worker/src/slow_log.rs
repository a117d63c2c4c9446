//! The slow log: a thread of a worker that logs each script which runs for `slow_after`, once, with
//! its backtrace.
//!
//! The thread asks the script first: PHP calls [`answer`] at the script's next safe point, and the
//! script's own thread writes the line. A script that waits in a function of PHP's, for example in
//! `sleep()` or for a database, does not reach a safe point. Then the thread reads the stack
//! beside it, and the script, if it goes on, waits at the next safe point, or at its end, until the
//! stack is read. Its end is that of its functions for shutdown, destructors and session handlers.
//! No signal is sent: one would cut `sleep()` and `stream_select()` short.
//!
//! A request costs no system call while scripts are quick. The thread sleeps until the request that
//! it has seen would be slow. Where the worker had nothing to do, it sleeps until it is woken.

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::thread;
use std::time::Duration;

use howdah_sys::futex;
use howdah_sys::usage;

use crate::children;
use crate::process;
use crate::running::{BacktraceReason, RUNNING};
use crate::sapi;

/// The settings of a pool's slow log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlowLog {
    /// Time after which a script is slow.
    pub after: Duration,
    /// Frames of a backtrace.
    pub depth: usize,
}

/// Frames of a backtrace where no slow log says how many.
const USUAL_DEPTH: usize = 20;
/// The time in which a script has to reach a safe point. Scripts that compute reach one in
/// microseconds.
const SAFE_POINT: Duration = Duration::from_millis(20);
/// Bytes of the thread's stack.
const STACK: usize = 64 * 1024;

static SETTINGS: OnceLock<SlowLog> = OnceLock::new();

/// The state of the question for a backtrace: one of the constants below.
static QUESTION: AtomicU32 = AtomicU32::new(NONE);
const NONE: u32 = 0;
/// The script is to log itself.
const ASKED: u32 = 1;
/// The script's thread writes the line.
const ANSWERED: u32 = 2;
/// The other thread reads the stack. The script's own thread must not go on.
const READING: u32 = 3;

/// 1 while the thread sleeps until a request begins.
static PARKED: AtomicU32 = AtomicU32::new(0);

/// Starts the thread. Call this function in a worker, once.
///
/// # Errors
/// The system has no resources for a thread.
pub fn start(slow_log: SlowLog) -> io::Result<()> {
    SETTINGS.get_or_init(|| slow_log);
    // Signals are for the script's thread.
    let former = process::block_signals()?;
    let started = thread::Builder::new()
        .name("howdah-slow".to_owned())
        .stack_size(STACK)
        .spawn(move || watch(slow_log));
    process::set_signal_mask(&former);
    started.map(drop)
}

/// Frames of a backtrace.
pub fn depth() -> usize {
    SETTINGS.get().map_or(USUAL_DEPTH, |slow_log| slow_log.depth)
}

/// Tells the thread that a request has begun. Called after [`RUNNING`] has it.
#[inline]
pub fn request_begun() {
    if SETTINGS.get().is_none() {
        return;
    }
    // Either this thread sees that the other one is parked, or that one sees the request.
    fence(Ordering::SeqCst);
    if PARKED.load(Ordering::Relaxed) == 1 && PARKED.swap(0, Ordering::AcqRel) == 1 {
        futex::wake(&PARKED);
    }
}

/// Waits until nobody reads the stack of the script. Called where the script's last function has
/// ended, as those of its shutdown, before PHP removes what is left of the script.
#[inline]
pub fn script_left() {
    RUNNING.leave_script();
    wait_for_the_reader();
}

/// Notes that the request has ended. Waits until nobody writes of it.
#[inline]
pub fn request_ended() {
    RUNNING.end();
    wait_for_the_reader();
}

/// Waits for the other thread. The caller has noted a change in [`RUNNING`].
#[inline]
fn wait_for_the_reader() {
    if SETTINGS.get().is_some() && children::is_worker() {
        // Either this thread sees that the other one reads, or that one sees the change.
        fence(Ordering::SeqCst);
        wait_while_reading();
    }
}

/// Answers the question for a backtrace. Called at a safe point of the script.
pub fn answer() {
    if !children::is_worker() {
        return;
    }
    let asked = QUESTION.compare_exchange(ASKED, ANSWERED, Ordering::AcqRel, Ordering::Acquire);
    match asked {
        Ok(_) => {
            if RUNNING.present().is_some() {
                // SAFETY: this is the worker's own thread, and the request runs.
                unsafe { RUNNING.log(BacktraceReason::Slow, depth()) };
            }
            settle();
        }
        Err(READING) => wait_while_reading(),
        Err(_) => {}
    }
}

fn wait_while_reading() {
    while QUESTION.load(Ordering::Acquire) == READING {
        let _ = futex::wait(&QUESTION, READING, None);
    }
}

/// Takes the question back, and wakes the thread that waits for that.
fn settle() {
    QUESTION.store(NONE, Ordering::Release);
    futex::wake(&QUESTION);
}

/// Runs in the thread.
fn watch(slow_log: SlowLog) {
    let after = u64::try_from(slow_log.after.as_nanos()).unwrap_or(u64::MAX);
    let mut logged = None;
    loop {
        let Some((number, began)) = RUNNING.present().filter(|(number, _)| Some(*number) != logged)
        else {
            park(logged);
            continue;
        };
        let due = began.saturating_add(after);
        match due.saturating_sub(usage::monotonic()) {
            0 => {
                log(number, slow_log.depth);
                logged = Some(number);
            }
            left => thread::sleep(Duration::from_nanos(left)),
        }
    }
}

/// Sleeps until a request begins that is not `logged`.
fn park(logged: Option<u64>) {
    PARKED.store(1, Ordering::SeqCst);
    fence(Ordering::SeqCst);
    let present = RUNNING.present().map(|(number, _)| number);
    if present.is_none() || present == logged {
        let _ = futex::wait(&PARKED, 1, None);
    }
    PARKED.store(0, Ordering::Relaxed);
}

/// Logs the request of this number, unless it has ended.
fn log(number: u64, depth: usize) {
    QUESTION.store(ASKED, Ordering::SeqCst);
    sapi::interrupt();
    let _ = futex::wait(&QUESTION, ASKED, Some(SAFE_POINT));
    while QUESTION.load(Ordering::Acquire) == ANSWERED {
        let _ = futex::wait(&QUESTION, ANSWERED, None);
    }
    let taken = QUESTION.compare_exchange(ASKED, READING, Ordering::SeqCst, Ordering::SeqCst);
    if taken.is_err() {
        return; // The script has logged itself.
    }
    fence(Ordering::SeqCst);
    if RUNNING.present().is_some_and(|(present, _)| present == number) {
        let frames = if RUNNING.is_in_script() { depth } else { 0 };
        // SAFETY: the request has not ended, and its thread waits for the answer: where its script
        // reaches a safe point, where nothing of the script is left to run, and at the end of the
        // request.
        unsafe { RUNNING.log(BacktraceReason::Slow, frames) };
    }
    settle();
}
