//! What a zygote and its workers need of the kernel that nobody else does: forking, and signals
//! that a script can live with.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::sapi;

/// Number of a process.
pub type Pid = libc::pid_t;

/// The signal that asks a worker to end its script with a fatal error. SIGKILL follows if it does
/// not help.
pub const TIME_OUT: i32 = libc::SIGUSR1;

/// Set by SIGTERM: end before the next request.
pub static STOP: AtomicBool = AtomicBool::new(false);

/// Who one is after [`fork`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fork {
    /// The parent, and its child.
    Parent(Pid),
    /// The child.
    Child,
}

/// Makes a child process.
///
/// Only for a process with one thread: the child may then do whatever its parent could.
pub fn fork() -> io::Result<Fork> {
    // SAFETY: this program never starts a second thread, so no lock can be held by one that the
    // child lacks.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Fork::Child),
        child => Ok(Fork::Parent(child)),
    }
}

/// This process.
pub fn id() -> Pid {
    // SAFETY: no arguments, cannot fail.
    unsafe { libc::getpid() }
}

/// In a fresh child: be killed when `parent` dies, even if that has happened by now.
pub fn die_with(parent: Pid) -> io::Result<()> {
    // SAFETY: no memory arguments.
    if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: no arguments, cannot fail.
    if unsafe { libc::getppid() } == parent {
        Ok(())
    } else {
        Err(io::ErrorKind::BrokenPipe.into())
    }
}

/// Sends a signal to a child that was not reaped yet.
pub fn kill(child: Pid, signal: i32) {
    // SAFETY: no memory arguments. A child that is dead already does not mind.
    unsafe { libc::kill(child, signal) };
}

/// A child that ended, and how as `wait(2)` gives it; `None` when none is left to reap.
pub fn reap() -> Option<(Pid, i32)> {
    let mut status = 0;
    // SAFETY: `status` is a live number.
    let child = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) };
    (child > 0).then_some((child, status))
}

/// Whether a status of [`reap`] is that of a process which exited with 0.
pub fn is_success(status: i32) -> bool {
    libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
}

/// Ends this process without a word to anybody: no destructor, no exit handler.
pub fn exit_now(code: i32) -> ! {
    // SAFETY: does not return.
    unsafe { libc::_exit(code) }
}

/// Installs what signals do in the zygote's workers. Before PHP starts: PHP takes over what it
/// finds then.
///
/// - SIGTERM sets [`STOP`]; a script that runs does not notice (system calls are restarted).
/// - [`TIME_OUT`] reaches the script, and interrupts the system call that it may be waiting in.
/// - SIGINT and SIGHUP do nothing: a terminal sends them to every process, and it is the supervisor
///   who decides. They are not ignored, because what a script executes would inherit that.
/// - SIGSEGV and SIGBUS end the process and say so to whoever waits for it: the handlers that
///   Rust's runtime has for them swallow one that was sent, and turn a stack that PHP has
///   overflowed into an abort.
pub fn install_handlers() -> io::Result<()> {
    for signal in [libc::SIGSEGV, libc::SIGBUS] {
        disposition(signal, libc::SIG_DFL, 0)?;
    }
    handle(libc::SIGTERM, on_terminate, libc::SA_RESTART)?;
    handle(TIME_OUT, on_time_out, 0)?;
    handle(libc::SIGINT, on_nothing, libc::SA_RESTART)?;
    handle(libc::SIGHUP, on_nothing, libc::SA_RESTART)
}

/// In a fresh worker: no signal is held back any more.
pub fn unblock_signals() -> io::Result<()> {
    // SAFETY: an all-zero sigset is valid memory; `sigemptyset` initialises it.
    let mut none: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: `none` is live and initialised by the first call; the old mask is not asked for.
    let result = unsafe {
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut())
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Makes the environment just `variables`.
pub fn replace_environment(variables: &[(String, String)]) {
    let names: Vec<_> = std::env::vars_os().map(|(name, _)| name).collect();
    for name in names {
        // SAFETY: this process has one thread.
        unsafe { std::env::remove_var(name) };
    }
    for (name, value) in variables {
        let is_name = !name.is_empty() && !name.contains(['=', '\0']);
        if is_name && !value.contains('\0') {
            // SAFETY: this process has one thread; what `set_var` would panic on was ruled out.
            unsafe { std::env::set_var(name, value) };
        }
    }
}

/// Processor time of this process so far, in seconds.
pub fn processor_time() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is live.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn handle(signal: i32, handler: extern "C" fn(i32), flags: i32) -> io::Result<()> {
    disposition(signal, handler as *const () as libc::sighandler_t, flags)
}

fn disposition(signal: i32, handler: libc::sighandler_t, flags: i32) -> io::Result<()> {
    // SAFETY: an all-zero `sigaction` is valid: no flags, empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler;
    action.sa_flags = flags;
    // SAFETY: `action` is initialised, and the handlers below are async-signal-safe: they only
    // store to flags.
    let result = unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

extern "C" fn on_terminate(_signal: i32) {
    STOP.store(true, Ordering::Release);
}

extern "C" fn on_time_out(_signal: i32) {
    sapi::time_out();
}

extern "C" fn on_nothing(_signal: i32) {}
