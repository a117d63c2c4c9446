//! Process functions that only zygotes and workers need: forking, and signals that interrupt
//! scripts safely.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::sapi;

/// A process id.
pub type Pid = libc::pid_t;

/// The signal that makes a worker end its script with a fatal error. The front sends SIGKILL if the
/// script continues.
pub const TIME_OUT: i32 = libc::SIGUSR1;

/// Set by SIGTERM: the worker ends before its next request.
pub static STOP: AtomicBool = AtomicBool::new(false);

/// The two results of [`fork`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fork {
    /// This process is the parent. Contains the child's process id.
    Parent(Pid),
    /// This process is the child.
    Child,
}

/// Creates a child process.
///
/// Call it only while the process has one thread. The child may then do everything that its parent
/// could do.
///
/// # Errors
/// The error of `fork(2)`.
pub fn fork() -> io::Result<Fork> {
    // SAFETY: this program never starts a second thread, so no lock can be held by one that the
    // child lacks.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Fork::Child),
        child => Ok(Fork::Parent(child)),
    }
}

/// Id of this process.
pub fn id() -> Pid {
    // SAFETY: no arguments, cannot fail.
    unsafe { libc::getpid() }
}

/// Makes the kernel kill this process when `parent` dies. Call it in the child after the fork.
///
/// # Errors
/// The error of `prctl(2)`.
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

/// Reaps an ended child. Returns its process id and its `wait(2)` status; `None` if no child has
/// ended.
pub fn reap() -> Option<(Pid, i32)> {
    let mut status = 0;
    // SAFETY: `status` is a live number.
    let child = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) };
    (child > 0).then_some((child, status))
}

/// Returns whether a status of [`reap`] means exit with 0.
pub fn is_success(status: i32) -> bool {
    libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
}

/// Ends this process at once, without destructors and exit handlers.
pub fn exit_now(code: i32) -> ! {
    // SAFETY: does not return.
    unsafe { libc::_exit(code) }
}

/// Installs the signal handlers of the zygote's workers. Call it before PHP starts, because PHP
/// keeps the handlers that it finds then.
///
/// - SIGTERM sets [`STOP`]. It does not disturb a running script, because system calls are
///   restarted.
/// - [`TIME_OUT`] reaches the script and interrupts a blocking system call.
/// - SIGINT and SIGHUP have no effect. A terminal sends them to every process, and only the
///   supervisor acts on them. They are not ignored, because programs that a script executes would
///   inherit that.
/// - SIGSEGV and SIGBUS end the process with the signal as its exit status. The handlers of Rust's
///   runtime would swallow a signal that was sent, and would turn a stack overflow of PHP into an
///   abort.
///
/// # Errors
/// The error of `sigaction(2)`.
pub fn install_handlers() -> io::Result<()> {
    for signal in [libc::SIGSEGV, libc::SIGBUS] {
        disposition(signal, libc::SIG_DFL, 0)?;
    }
    handle(libc::SIGTERM, on_terminate, libc::SA_RESTART)?;
    handle(TIME_OUT, on_time_out, 0)?;
    handle(libc::SIGINT, on_nothing, libc::SA_RESTART)?;
    handle(libc::SIGHUP, on_nothing, libc::SA_RESTART)
}

/// Unblocks all signals. Call it in the worker after the fork.
///
/// # Errors
/// The error of `sigprocmask(2)`.
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

/// Replaces the environment by `variables`.
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

/// Processor time that this process has used, in seconds.
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
