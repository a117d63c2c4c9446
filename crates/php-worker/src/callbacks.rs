//! The callbacks of the shim: thin wrappers around [`PhpRequest`] that stop panics and hold the
//! lifetimes.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use howdah_ipc::response::HeadKind;

use crate::children;
use crate::head::{self, ScriptHead};
use crate::log::{self, Level};
use crate::php_request::{ClientGone, PhpRequest};
use crate::sapi::{self, raw};
use crate::slow_log;
use crate::time_out;

impl AsRef<[u8]> for raw::Text {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the shim makes these of PHP's strings for the time of a callback, and they are
        // not kept any longer.
        unsafe { bytes(self.at, self.length) }
    }
}

/// The callbacks of the shim. No callback calls PHP.
pub static CALLBACKS: raw::Callbacks = raw::Callbacks {
    write: on_write,
    flush: on_flush,
    head: on_head,
    status_field: on_status_field,
    end: on_end,
    read_body: on_read_body,
    next_variable: on_next_variable,
    next_listed: on_next_listed,
    variable: on_variable,
    set_variable: on_set_variable,
    fpm_status: on_fpm_status,
    note: on_note,
    sub_request: on_sub_request,
    end_sub_request: on_end_sub_request,
    next_ini: on_next_ini,
    refuse: on_refuse,
    user_ini: on_user_ini,
    log: on_log,
    time_limit: on_time_limit,
    interrupted: on_interrupted,
    question: on_question,
    ended: on_ended,
    left: on_left,
};

/// Returns whether a callback has panicked in this process.
pub fn has_panicked() -> bool {
    PANICKED.load(Ordering::Relaxed)
}

static PANICKED: AtomicBool = AtomicBool::new(false);

/// Keeps a panic from unwinding into C. The process runs no further request after a panic.
fn barrier<T>(fallback: T, action: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(action)).unwrap_or_else(|_| {
        PANICKED.store(true, Ordering::Relaxed);
        fallback
    })
}

/// Returns the request behind a context.
///
/// # Safety
/// `context` must be the pointer that [`crate::sapi::Engine::execute`] gave to the shim, during
/// that call. The reference must not be used after the callback has returned.
unsafe fn request_of<'a>(context: *mut c_void) -> &'a mut PhpRequest<'a> {
    // SAFETY: the caller vouches for it. Callbacks do not call PHP, so there are never two of these
    // at a time.
    unsafe { &mut *context.cast::<PhpRequest<'a>>() }
}

/// # Safety
/// `at` must point to `length` readable bytes that do not change during `'a`, or be null with a
/// length of 0.
unsafe fn bytes<'a>(at: *const c_char, length: usize) -> &'a [u8] {
    if at.is_null() {
        return &[];
    }
    // SAFETY: the caller vouches for it.
    unsafe { std::slice::from_raw_parts(at.cast(), length) }
}

fn code(result: Result<(), ClientGone>) -> c_int {
    if result.is_ok() { 0 } else { -1 }
}

unsafe extern "C" fn on_write(context: *mut c_void, at: *const c_char, length: usize) -> c_int {
    barrier(-1, || {
        // SAFETY: called by the shim with bytes that PHP holds meanwhile.
        let written = unsafe { bytes(at, length) };
        if context.is_null() {
            sapi::keep_output(written);
            return 0;
        }
        // SAFETY: called by the shim during `execute`.
        code(unsafe { request_of(context) }.write(written))
    })
}

unsafe extern "C" fn on_flush(context: *mut c_void) -> c_int {
    // SAFETY: called by the shim during `execute`.
    barrier(-1, || unsafe { code(request_of(context).flush()) })
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
        let status_line =
            (!status_line.is_null()).then(|| unsafe { CStr::from_ptr(status_line) }.to_bytes());
        // SAFETY: `lines` has `count` entries; called by the shim during `execute`.
        let (call, lines) =
            unsafe { (request_of(context), std::slice::from_raw_parts(lines, count)) };
        let mut hints = |status| call.head(HeadKind::Interim, &ScriptHead::interim(status, lines));
        if interim != 0 {
            return code(hints(interim));
        }
        // Output follows a status of 1xx that the script has not flushed. It belongs to the
        // response after the interim one.
        let final_head = match head::is_interim(status) {
            true if hints(status).is_err() => return -1,
            true => ScriptHead::interpret(200, None, lines),
            false => ScriptHead::interpret(status, status_line, lines),
        };
        code(call.head(HeadKind::Final, &final_head))
    })
}

unsafe extern "C" fn on_status_field(
    context: *mut c_void,
    is_added: c_int,
    line: *const c_char,
    code: c_int,
    status_line: *const c_char,
) -> c_int {
    barrier(code, || {
        // SAFETY: NUL-terminated texts or null.
        let text =
            |at: *const c_char| (!at.is_null()).then(|| unsafe { CStr::from_ptr(at) }.to_bytes());
        // SAFETY: called by the shim during `execute`.
        let field = unsafe { request_of(context) }.status_field();
        if is_added == 0 {
            field.removed(text(line), code)
        } else {
            field.added(text(line).unwrap_or_default(), code, text(status_line))
        }
    })
}

unsafe extern "C" fn on_end(context: *mut c_void) -> c_int {
    // SAFETY: called by the shim during `execute`.
    barrier(0, || unsafe { request_of(context).end() }.into())
}

unsafe extern "C" fn on_read_body(context: *mut c_void, into: *mut c_char, length: usize) -> usize {
    barrier(0, || {
        // SAFETY: called by the shim during `execute`.
        let call = unsafe { request_of(context) };
        // SAFETY: PHP gives a buffer of that length, which it does not read before it was told how
        // much is filled. It may be uninitialised, so it is zeroed before a reference to it is
        // made.
        let into = unsafe {
            ptr::write_bytes(into, 0, length);
            std::slice::from_raw_parts_mut(into.cast::<u8>(), length)
        };
        call.read_body(into)
    })
}

unsafe extern "C" fn on_next_variable(
    context: *mut c_void,
    first: c_int,
    pair: *mut raw::Pair,
) -> c_int {
    // SAFETY: called by the shim during `execute`, with into for a pair.
    barrier(0, || unsafe { store(request_of(context).next_variable(first != 0), pair) })
}

unsafe extern "C" fn on_next_listed(
    context: *mut c_void,
    list: c_int,
    about: raw::Text,
    first: c_int,
    pair: *mut raw::Pair,
) -> c_int {
    barrier(0, || {
        let first = (first != 0).then(|| about.as_ref());
        // SAFETY: called by the shim during `execute`, with room for a pair.
        unsafe { store(request_of(context).next_listed(list, first), pair) }
    })
}

unsafe extern "C" fn on_set_variable(context: *mut c_void, name: raw::Text, value: raw::Text) {
    // SAFETY: called by the shim during `execute`.
    barrier((), || unsafe { request_of(context).set_variable(name.as_ref(), value.as_ref()) });
}

unsafe extern "C" fn on_fpm_status(context: *mut c_void, into: *mut raw::Text) -> c_int {
    // SAFETY: called by the shim during `execute`, with room for a text.
    barrier(0, || unsafe { store(request_of(context).fpm_status(), into) })
}

unsafe extern "C" fn on_note(
    context: *mut c_void,
    name: raw::Text,
    value: raw::Text,
    former: *mut raw::Text,
) -> c_int {
    barrier(0, || {
        let new = (!value.at.is_null()).then(|| value.as_ref());
        // SAFETY: called by the shim during `execute`, with room for a text.
        unsafe { store(request_of(context).note(name.as_ref(), new), former) }
    })
}

unsafe extern "C" fn on_sub_request(
    context: *mut c_void,
    uri: raw::Text,
    about: *mut raw::Text,
) -> c_int {
    barrier(raw::NOTHING, || {
        // SAFETY: called by the shim during `execute`, with room for a text.
        unsafe {
            about.write(raw::Text { at: c"".as_ptr(), length: 0 });
            let (found, text) = request_of(context).sub_request(uri.as_ref());
            about.write(text);
            found
        }
    })
}

unsafe extern "C" fn on_end_sub_request(context: *mut c_void, found: c_int) -> c_int {
    // SAFETY: called by the shim during `execute`.
    barrier(-1, || unsafe { code(request_of(context).end_sub_request(found)) })
}

unsafe extern "C" fn on_variable(
    context: *mut c_void,
    name: *const c_char,
    length: usize,
) -> *const c_char {
    barrier(ptr::null(), || {
        // SAFETY: called by the shim during `execute`, with a text that PHP holds meanwhile.
        let value = unsafe { request_of(context).environment(bytes(name, length)) };
        value.map_or(ptr::null(), |value| value.as_ptr().cast())
    })
}

unsafe extern "C" fn on_next_ini(
    context: *mut c_void,
    first: c_int,
    pair: *mut raw::Pair,
) -> c_int {
    // SAFETY: called by the shim during `execute`, with into for a pair.
    barrier(0, || unsafe { store(request_of(context).next_ini(first != 0), pair) })
}

unsafe extern "C" fn on_refuse(context: *mut c_void, page: *mut *const c_char) -> c_int {
    barrier(500, || {
        // SAFETY: called by the shim during `execute`, with room for a pointer.
        unsafe {
            page.write(c"".as_ptr());
            let (status, content) = request_of(context).refuse();
            page.write(content.as_ptr());
            status
        }
    })
}

unsafe extern "C" fn on_user_ini(
    context: *mut c_void,
    seconds_to_live: i64,
    plan: *mut raw::UserIni,
) -> c_int {
    // SAFETY: called by the shim during `execute`, with into for a plan.
    barrier(0, || unsafe { store(request_of(context).plan_user_ini(seconds_to_live), plan) })
}

unsafe extern "C" fn on_log(context: *mut c_void, level: c_int, message: *const c_char) {
    barrier((), || {
        // SAFETY: a NUL-terminated text.
        let message = unsafe { CStr::from_ptr(message) }.to_bytes();
        let level = Level::from_syslog(level);
        if context.is_null() {
            log::write(level, &log::without_entities(message), None);
        } else {
            // SAFETY: called by the shim during `execute`.
            unsafe { request_of(context) }.log(level, message);
        }
    });
}

unsafe extern "C" fn on_time_limit(context: *mut c_void, seconds: i64) {
    // SAFETY: called by the shim during `execute`.
    barrier((), || unsafe { request_of(context).time_limit(seconds) });
}

unsafe extern "C" fn on_interrupted(context: *mut c_void) -> c_int {
    barrier(0, || {
        slow_log::answer();
        (!context.is_null() && time_out::is_asked()).into()
    })
}

unsafe extern "C" fn on_question(context: *mut c_void, answer: i64) -> *const c_char {
    barrier(ptr::null(), || {
        // SAFETY: called by the shim during `execute`.
        let question = unsafe { request_of(context).question(answer) };
        question.map_or(ptr::null(), CStr::as_ptr)
    })
}

unsafe extern "C" fn on_ended(context: *mut c_void) -> c_int {
    // SAFETY: called by the shim during `execute`.
    barrier((), || unsafe { request_of(context).ended() });
    (!children::is_worker()).into()
}

unsafe extern "C" fn on_left() {
    barrier((), slow_log::script_left);
}

/// # Safety
/// `into` must be valid for a write of a `T`.
unsafe fn store<T>(value: Option<T>, into: *mut T) -> c_int {
    let Some(value) = value else { return 0 };
    // SAFETY: the caller vouches for it.
    unsafe { into.write(value) };
    1
}
