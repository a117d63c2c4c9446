//! Signals as messages (`signalfd(2)`), and the signal handling of child processes.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd};

use crate::check;

pub use libc::{
    SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGKILL, SIGPIPE, SIGQUIT, SIGSTOP, SIGTERM, SIGUSR1, SIGUSR2,
};

/// A received signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceivedSignal {
    /// Number of the signal.
    pub signal: i32,
    /// The kernel sent the signal, for example SIGHUP when the terminal is closed. Otherwise a
    /// process sent it.
    pub by_kernel: bool,
}

/// Receives blocked signals one by one.
#[derive(Debug)]
pub struct Signals(File);

impl Signals {
    /// Blocks `signals` in this thread and receives them here instead. Several pending signals of
    /// one kind count as one.
    ///
    /// # Errors
    /// The error of a system call.
    pub fn block(signals: &[i32]) -> io::Result<Signals> {
        let set = set_of(signals)?;
        // SAFETY: `set` is initialised; the old mask is not asked for.
        check(unsafe { libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) })?;
        let flags = libc::SFD_NONBLOCK | libc::SFD_CLOEXEC;
        // SAFETY: `set` is initialised.
        let fd = check(unsafe { libc::signalfd(-1, &raw const set, flags) })?;
        // SAFETY: fresh descriptor, owned by nobody else.
        Ok(Signals(unsafe { File::from_raw_fd(fd) }))
    }

    /// Returns the next signal, or `None`.
    ///
    /// # Errors
    /// The error of `read(2)`.
    pub fn take(&self) -> io::Result<Option<ReceivedSignal>> {
        let mut room = [0; size_of::<libc::signalfd_siginfo>()];
        match (&self.0).read_exact(&mut room) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error),
        }
        // SAFETY: the kernel filled the whole struct, whose fields are plain numbers; the read
        // makes no demand on alignment.
        let info: libc::signalfd_siginfo =
            unsafe { std::ptr::read_unaligned(room.as_ptr().cast()) };
        Ok(Some(ReceivedSignal {
            signal: i32::try_from(info.ssi_signo).map_err(|_| io::ErrorKind::InvalidData)?,
            by_kernel: info.ssi_code == libc::SI_KERNEL,
        }))
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Ignores a signal. Programs that are executed later ignore it as well.
///
/// # Errors
/// The error of `sigaction(2)`.
pub fn ignore(signal: i32) -> io::Result<()> {
    disposition(signal, libc::SIG_IGN)
}

/// Keeps SIGCHLD for children that end. A child could otherwise be stopped and continued without
/// pause, and wake this process each time.
///
/// # Errors
/// The error of `sigaction(2)`.
pub fn ignore_stopped_children() -> io::Result<()> {
    action(SIGCHLD, libc::SIG_DFL, libc::SA_RESTART | libc::SA_NOCLDSTOP)
}

/// Restores the default action of a signal.
///
/// # Errors
/// The error of `sigaction(2)`.
pub fn restore(signal: i32) -> io::Result<()> {
    disposition(signal, libc::SIG_DFL)
}

/// Unblocks all signals and restores their default actions.
///
/// # Errors
/// The error of `sigprocmask(2)`.
pub(crate) fn reset() -> io::Result<()> {
    // 64 is SIGRTMAX. The calls for SIGKILL, SIGSTOP and libc's own signals fail, which is
    // harmless.
    for signal in 1..=64 {
        let _ = disposition(signal, libc::SIG_DFL);
    }
    let set = set_of(&[])?;
    // SAFETY: `set` is initialised.
    check(unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut()) })?;
    Ok(())
}

/// Sets the action of a signal.
///
/// # Errors
/// The error of `sigaction(2)`, such as `EINVAL` for a signal that cannot be handled.
pub(crate) fn disposition(signal: i32, handler: libc::sighandler_t) -> io::Result<()> {
    action(signal, handler, libc::SA_RESTART)
}

fn action(signal: i32, handler: libc::sighandler_t, flags: libc::c_int) -> io::Result<()> {
    // SAFETY: an all-zero `sigaction` is valid: no flags, empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler;
    action.sa_flags = flags;
    // SAFETY: `action` is initialised; the handlers given by this crate are async-signal-safe.
    check(unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) })?;
    Ok(())
}

fn set_of(signals: &[i32]) -> io::Result<libc::sigset_t> {
    // SAFETY: an all-zero sigset is valid memory, and is initialised by the next call.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` is live.
    check(unsafe { libc::sigemptyset(&raw mut set) })?;
    for &signal in signals {
        // SAFETY: `set` is initialised.
        check(unsafe { libc::sigaddset(&raw mut set, signal) })?;
    }
    Ok(set)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blocked_signal_arrives_as_a_message() {
        let signals = Signals::block(&[libc::SIGWINCH]).unwrap();
        assert_eq!(signals.take().unwrap(), None);
        // SAFETY: the signal goes to this thread, which blocks it.
        unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGWINCH) };
        let arrived = signals.take().unwrap().unwrap();
        assert_eq!((arrived.signal, arrived.by_kernel), (libc::SIGWINCH, false));
    }
}
