//! Child processes that a script forks: with `pcntl_fork()`, through FFI, or in a library.
//!
//! A child is not the worker. It runs the rest of the script and its shutdown functions, then it
//! ends. Its output is discarded, because only the worker answers the request. It does not have the
//! pool's shared memory: [`howdah_ipc::worker::Attachment::worker`] keeps the memory from children.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::sync::OnceLock;

use howdah_sys::memory::ProcessMark;

static WORKER: OnceLock<ProcessMark> = OnceLock::new();
static TO_CLOSE: OnceLock<Vec<RawFd>> = OnceLock::new();

/// Prepares this process for scripts that fork. `descriptors` lead out of the worker; children
/// close them. Call this function once, before the first script.
///
/// # Errors
/// The error of a system call.
pub fn prepare<'d>(descriptors: impl Iterator<Item = BorrowedFd<'d>>) -> io::Result<()> {
    let mark = ProcessMark::new()?;
    WORKER.get_or_init(|| mark);
    TO_CLOSE.get_or_init(|| descriptors.map(|descriptor| descriptor.as_raw_fd()).collect());
    // SAFETY: the handler is async-signal-safe: it reads memory that was written above, and closes
    // descriptors.
    match unsafe { libc::pthread_atfork(None, None, Some(close_in_child)) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// Returns whether this process is the worker itself, and not a child that a script has forked.
/// Costs a few instructions.
#[inline]
pub fn is_worker() -> bool {
    WORKER.get().is_none_or(ProcessMark::is_here)
}

/// Runs in the child, before `fork(3)` returns there. A child that a raw system call has created
/// keeps the descriptors. It can do no harm with them that its worker could not do.
unsafe extern "C" fn close_in_child() {
    for &descriptor in TO_CLOSE.get().into_iter().flatten() {
        // SAFETY: no memory arguments. The owner of the descriptor is never dropped in a child: the
        // child ends with `_exit(2)`.
        unsafe { libc::close(descriptor) };
    }
}
