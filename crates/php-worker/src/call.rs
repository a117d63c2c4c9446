//! One request, between PHP and whoever wants the response: what the shim's callbacks do.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use howdah_ipc::request::{Fixed, Pairs, Request};
use howdah_ipc::response::Kind;

use crate::body::Body;
use crate::head::Head;
use crate::log::{self, About, Level};
use crate::sapi::raw;
use crate::user_ini::UserIni;

/// Nobody wants the rest of the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gone;

/// Why a head was not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeadRefused {
    /// Nobody wants it.
    Gone,
    /// It is longer than a head may be.
    TooLong,
}

/// Name and value of a header field.
pub type Field<'f> = (&'f [u8], &'f [u8]);

/// Whoever gets the response of a request.
pub trait Client {
    /// A head: any number of interim ones, then a final one before the first byte of the body.
    fn head(
        &mut self,
        kind: Kind,
        status: u16,
        reason: &[u8],
        fields: &mut dyn Iterator<Item = Field<'_>>,
    ) -> Result<(), HeadRefused>;
    /// Bytes of the body.
    fn write(&mut self, bytes: &[u8]) -> Result<(), Gone>;
    /// What was written is to reach the client now.
    fn flush(&mut self) -> Result<(), Gone>;
    /// The response is complete.
    fn end(&mut self);
}

/// What the worker that runs a request tells it about itself, in `$_SERVER`.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'f> {
    /// `HOWDAH_POOL`
    pub pool: &'f CStr,
    /// `HOWDAH_WORKER_REQUESTS`: requests that this worker has served before this one.
    pub served: u64,
}

/// A request that is about to run, or running.
pub struct Call<'c> {
    request: Request<'c>,
    body: Body<'c>,
    client: &'c mut dyn Client,
    facts: Facts<'c>,
    stage: Stage,
    begun: Instant,
    variables: Variables<'c>,
    ini: Option<Pairs<'c>>,
    served: [u8; 24],
    /// Set by the engine, which owns it and outlives the call.
    pub(crate) user_ini: Option<*mut UserIni>,
}

/// How far the response has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The final head is still to come.
    Head,
    /// The body goes out as it comes.
    Body,
    /// The head was an error of ours; the script's body is not for it.
    Discard,
    /// The client has everything it will get.
    Ended,
}

/// Where the walk through `$_SERVER` stands.
enum Variables<'c> {
    Sent(Pairs<'c>),
    Requests,
    Pool,
    Done,
}

impl<'c> Call<'c> {
    /// A request with its content, and who gets the response.
    pub fn new(
        request: Request<'c>,
        body: Body<'c>,
        client: &'c mut dyn Client,
        facts: Facts<'c>,
    ) -> Call<'c> {
        Call {
            request,
            body,
            client,
            facts,
            stage: Stage::Head,
            begun: Instant::now(),
            variables: Variables::Done,
            ini: None,
            served: [0; 24],
            user_ini: None,
        }
    }

    /// For the shim; the context is left to the caller.
    pub(crate) fn raw_request(&self) -> raw::Request {
        let text = |which| {
            self.request
                .fixed(which)
                .map_or(ptr::null(), |text: &[u8]| text.as_ptr().cast())
        };
        raw::Request {
            context: ptr::null_mut(),
            method: text(Fixed::Method),
            script: text(Fixed::Script),
            uri: text(Fixed::RequestUri),
            query_string: text(Fixed::QueryString),
            content_type: text(Fixed::ContentType),
            cookie: text(Fixed::Cookie),
            authorization: text(Fixed::Authorization),
            content_length: i64::try_from(self.request.body_length).unwrap_or(i64::MAX),
            time: self.request.time as f64 / 1e6,
            has_ini: self.request.ini().next().is_some().into(),
        }
    }

    fn log(&self, level: Level, message: &[u8]) {
        let text = |which| self.request.fixed(which).unwrap_or_default();
        let about = About {
            script: text(Fixed::Script),
            method: text(Fixed::Method),
            host: self.variable(b"HTTP_HOST").unwrap_or_default(),
            uri: text(Fixed::RequestUri),
        };
        log::write(level, message, Some(about));
    }

    fn variable(&self, wanted: &[u8]) -> Option<&'c [u8]> {
        self.request
            .variables()
            .find(|(name, _)| *name == wanted)
            .map(|(_, value)| value)
    }

    fn head(&mut self, kind: Kind, head: &Head<'_, raw::Text>) -> Result<(), Gone> {
        if self.stage != Stage::Head {
            return Err(Gone);
        }
        match self
            .client
            .head(kind, head.status, head.reason, &mut head.fields())
        {
            Ok(()) if kind == Kind::Interim => Ok(()),
            Ok(()) => {
                self.stage = Stage::Body;
                Ok(())
            }
            Err(HeadRefused::Gone) => Err(Gone),
            Err(HeadRefused::TooLong) => {
                self.log(Level::Error, b"the script's header fields are too long");
                if kind == Kind::Final {
                    self.stage = Stage::Discard;
                    let _ = self.client.head(kind, 500, b"", &mut std::iter::empty());
                }
                Ok(())
            }
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Gone> {
        match self.stage {
            Stage::Body => self.client.write(bytes),
            // php-fpm lets a script go on after fastcgi_finish_request() as long as it prints a little, and then ends it
            // in the middle. Nobody can want the second half of that.
            Stage::Discard | Stage::Ended => Ok(()),
            Stage::Head => Err(Gone),
        }
    }

    fn flush(&mut self) -> Result<(), Gone> {
        if self.stage == Stage::Ended {
            Ok(())
        } else {
            self.client.flush()
        }
    }

    /// Whether the response was not complete before.
    fn end(&mut self) -> bool {
        if self.stage == Stage::Ended {
            return false;
        }
        self.stage = Stage::Ended;
        self.client.end();
        true
    }

    fn next_variable(&mut self, first: bool) -> Option<raw::Pair> {
        if first {
            self.variables = Variables::Sent(self.request.variables());
        }
        if let Variables::Sent(pairs) = &mut self.variables {
            if let Some(pair) = pairs.next() {
                return Some(raw_pair(pair));
            }
            self.variables = Variables::Requests;
        }
        match self.variables {
            Variables::Requests => {
                self.variables = Variables::Pool;
                let length = write_number(&mut self.served, self.facts.served);
                let value = raw::Text {
                    at: self.served.as_ptr().cast(),
                    length,
                };
                Some(raw::Pair {
                    name: raw_text(c"HOWDAH_WORKER_REQUESTS"),
                    value,
                })
            }
            Variables::Pool => {
                self.variables = Variables::Done;
                Some(raw::Pair {
                    name: raw_text(c"HOWDAH_POOL"),
                    value: raw_text(self.facts.pool),
                })
            }
            Variables::Sent(_) | Variables::Done => None,
        }
    }

    fn next_ini(&mut self, first: bool) -> Option<raw::Pair> {
        if first {
            self.ini = Some(self.request.ini());
        }
        self.ini.as_mut()?.next().map(raw_pair)
    }

    fn plan_user_ini(&mut self, seconds_to_live: i64) -> Option<raw::UserIni> {
        let script = self.request.fixed(Fixed::Script)?;
        let root = self.request.fixed(Fixed::DocumentRoot).unwrap_or_default();
        let now = self.request.time / 1_000_000;
        // SAFETY: the engine set it to its own field for the time of this request, and does not touch it meanwhile.
        let user_ini = unsafe { &mut *self.user_ini? };
        let plan = user_ini.plan(root, script, now, u64::try_from(seconds_to_live).unwrap_or(0))?;
        Some(raw::UserIni {
            table: plan.table,
            directories: plan.directories,
            directory_count: plan.count,
        })
    }
}

impl AsRef<[u8]> for raw::Text {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the shim makes these of PHP's strings for the time of a callback, and they are not kept any longer.
        unsafe { bytes(self.at, self.length) }
    }
}

/// What the shim calls. Each entry is a leaf: it does not call PHP.
pub static CALLBACKS: raw::Callbacks = raw::Callbacks {
    write: on_write,
    flush: on_flush,
    head: on_head,
    end: on_end,
    read_body: on_read_body,
    next_variable: on_next_variable,
    variable: on_variable,
    next_ini: on_next_ini,
    user_ini: on_user_ini,
    log: on_log,
    is_overdue: on_is_overdue,
};

/// Whether a callback has ever panicked in this process.
pub fn has_panicked() -> bool {
    PANICKED.load(Ordering::Relaxed)
}

static PANICKED: AtomicBool = AtomicBool::new(false);

/// A request younger than this is not the one that the front has lost patience with: the signal came late, and was meant
/// for the request before.
const YOUNGEST_OVERDUE: Duration = Duration::from_millis(100);

/// Keeps a panic from unwinding into C. The process is then not used for another request.
fn barrier<T>(fallback: T, action: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(action)).unwrap_or_else(|_| {
        PANICKED.store(true, Ordering::Relaxed);
        fallback
    })
}

/// The request behind a context.
///
/// # Safety
/// `context` must be what [`crate::sapi::Engine::execute`] gave the shim, during that call, and the reference must be gone
/// when the callback returns.
unsafe fn call_of<'a>(context: *mut c_void) -> &'a mut Call<'a> {
    // SAFETY: the caller vouches for it. Callbacks do not call PHP, so there are never two of these at a time.
    unsafe { &mut *context.cast::<Call<'a>>() }
}

/// # Safety
/// `at` must point to `length` readable bytes that do not change for `'a`, or be null with a length of 0.
unsafe fn bytes<'a>(at: *const c_char, length: usize) -> &'a [u8] {
    if at.is_null() {
        return &[];
    }
    // SAFETY: the caller vouches for it.
    unsafe { std::slice::from_raw_parts(at.cast(), length) }
}

fn code(result: Result<(), Gone>) -> c_int {
    if result.is_ok() { 0 } else { -1 }
}

unsafe extern "C" fn on_write(context: *mut c_void, at: *const c_char, length: usize) -> c_int {
    // SAFETY: called by the shim during `execute`, with bytes that PHP holds meanwhile.
    barrier(-1, || unsafe { code(call_of(context).write(bytes(at, length))) })
}

unsafe extern "C" fn on_flush(context: *mut c_void) -> c_int {
    // SAFETY: called by the shim during `execute`.
    barrier(-1, || unsafe { code(call_of(context).flush()) })
}

unsafe extern "C" fn on_head(
    context: *mut c_void,
    interim: c_int,
    status: c_int,
    status_line: *const c_char,
    lines: *const raw::Text,
    count: usize,
) -> c_int {
    barrier(-1, || {
        // SAFETY: a NUL-terminated text or null.
        let status_line = (!status_line.is_null()).then(|| unsafe { CStr::from_ptr(status_line) }.to_bytes());
        // SAFETY: `lines` has `count` entries; called by the shim during `execute`.
        let (call, lines) = unsafe { (call_of(context), std::slice::from_raw_parts(lines, count)) };
        code(if interim == 0 {
            call.head(Kind::Final, &Head::interpret(status, status_line, lines))
        } else {
            call.head(Kind::Interim, &Head::interim(status, lines))
        })
    })
}

unsafe extern "C" fn on_end(context: *mut c_void) -> c_int {
    // SAFETY: called by the shim during `execute`.
    barrier(0, || unsafe { call_of(context).end() }.into())
}

unsafe extern "C" fn on_read_body(context: *mut c_void, room: *mut c_char, length: usize) -> usize {
    barrier(0, || {
        // SAFETY: called by the shim during `execute`.
        let call = unsafe { call_of(context) };
        // SAFETY: PHP gives a buffer of that length, which it does not read before it was told how much is filled. It may
        // be uninitialised, so it is zeroed before a reference to it is made.
        let room = unsafe {
            ptr::write_bytes(room, 0, length);
            std::slice::from_raw_parts_mut(room.cast::<u8>(), length)
        };
        call.body.read(room).unwrap_or_else(|error| {
            call.log(
                Level::Error,
                format!("cannot read the request's content: {error}").as_bytes(),
            );
            0
        })
    })
}

unsafe extern "C" fn on_next_variable(context: *mut c_void, first: c_int, pair: *mut raw::Pair) -> c_int {
    // SAFETY: called by the shim during `execute`, with room for a pair.
    barrier(0, || unsafe {
        store(call_of(context).next_variable(first != 0), pair)
    })
}

unsafe extern "C" fn on_variable(context: *mut c_void, name: *const c_char, length: usize) -> *const c_char {
    barrier(ptr::null(), || {
        // SAFETY: called by the shim during `execute`, with a text that PHP holds meanwhile.
        let value = unsafe { call_of(context).variable(bytes(name, length)) };
        value.map_or(ptr::null(), |value| value.as_ptr().cast())
    })
}

unsafe extern "C" fn on_next_ini(context: *mut c_void, first: c_int, pair: *mut raw::Pair) -> c_int {
    // SAFETY: called by the shim during `execute`, with room for a pair.
    barrier(0, || unsafe {
        store(call_of(context).next_ini(first != 0), pair)
    })
}

unsafe extern "C" fn on_user_ini(
    context: *mut c_void,
    seconds_to_live: i64,
    plan: *mut raw::UserIni,
) -> c_int {
    // SAFETY: called by the shim during `execute`, with room for a plan.
    barrier(0, || unsafe {
        store(call_of(context).plan_user_ini(seconds_to_live), plan)
    })
}

unsafe extern "C" fn on_log(context: *mut c_void, level: c_int, message: *const c_char) {
    barrier((), || {
        // SAFETY: a NUL-terminated text.
        let message = unsafe { CStr::from_ptr(message) }.to_bytes();
        let level = Level::from_syslog(level);
        if context.is_null() {
            log::write(level, message, None);
        } else {
            // SAFETY: called by the shim during `execute`.
            unsafe { call_of(context) }.log(level, message);
        }
    });
}

unsafe extern "C" fn on_is_overdue(context: *mut c_void) -> c_int {
    // SAFETY: called by the shim during `execute`.
    barrier(0, || {
        (unsafe { call_of(context) }.begun.elapsed() >= YOUNGEST_OVERDUE).into()
    })
}

/// # Safety
/// `room` must be good for a write of a `T`.
unsafe fn store<T>(value: Option<T>, room: *mut T) -> c_int {
    let Some(value) = value else { return 0 };
    // SAFETY: the caller vouches for it.
    unsafe { room.write(value) };
    1
}

fn raw_pair((name, value): (&[u8], &[u8])) -> raw::Pair {
    let text = |text: &[u8]| raw::Text {
        at: text.as_ptr().cast(),
        length: text.len(),
    };
    raw::Pair {
        name: text(name),
        value: text(value),
    }
}

fn raw_text(text: &CStr) -> raw::Text {
    raw::Text {
        at: text.as_ptr(),
        length: text.count_bytes(),
    }
}

/// Writes `number` and a NUL; says how many digits there are.
fn write_number(room: &mut [u8; 24], mut number: u64) -> usize {
    let mut digits = [0; 20];
    let mut first = digits.len();
    loop {
        first -= 1;
        digits[first] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    let length = digits.len() - first;
    room[..length].copy_from_slice(&digits[first..]);
    room[length] = 0;
    length
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_with_their_nul() {
        for number in [0, 7, 10, 1234, u64::MAX] {
            let mut room = [b'x'; 24];
            let length = write_number(&mut room, number);
            assert_eq!(&room[..length], number.to_string().as_bytes());
            assert_eq!(room[length], 0);
        }
    }
}
