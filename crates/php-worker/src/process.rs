//! Process functions that only zygotes and workers need: forking, and signals that interrupt
//! scripts safely.

use std::io;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use howdah_ipc::control::OVERTIME;
use howdah_sys::process::end_descendants;

use crate::children;
use crate::time_out;

/// A process id.
pub type RawPid = libc::pid_t;

/// The signal that makes a worker end its script with a fatal error. The front sends SIGKILL if the
/// script continues.
pub const TIME_OUT: i32 = libc::SIGUSR1;

/// Set by SIGTERM: the worker ends before its next request.
pub static STOP: AtomicBool = AtomicBool::new(false);

/// The two results of [`fork`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fork {
    /// This process is the parent. Contains the child's process id.
    Parent(RawPid),
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
        -1 => Err(with_limits(io::Error::last_os_error())),
        0 => Ok(Fork::Child),
        child => Ok(Fork::Parent(child)),
    }
}

/// Adds to an error of a fork which keys of the site may be its reason.
fn with_limits(error: io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(libc::EAGAIN) => io::Error::new(
            error.kind(),
            format!("{error}: there are too many processes; see `pids` and `rlimits.nproc`"),
        ),
        _ => error,
    }
}

/// Creates a process that is not a descendant of this one, but a child of this process's parent,
/// in a session of its own. The kernel sends SIGTERM to it when the parent dies. Returns whether
/// this is the new process.
///
/// The parent must have called [`adopt_orphans`](howdah_sys::process::adopt_orphans): the new
/// process is the orphan of one in between. Call it only while the process has one thread.
///
/// # Errors
/// The error of a system call. There is no new process, or it ends at once.
pub fn fork_sibling() -> io::Result<bool> {
    // SAFETY: no arguments, cannot fail.
    let parent = unsafe { libc::getppid() };
    set_adopts_orphans(false)?;
    match fork() {
        Ok(Fork::Child) => {}
        forked => {
            let ended = forked.and_then(|forked| match forked {
                Fork::Parent(between) => wait_for_success(between),
                Fork::Child => Ok(()),
            });
            set_adopts_orphans(true)?;
            return ended.map(|()| false);
        }
    }
    let between = id();
    match fork() {
        Ok(Fork::Child) => {}
        Ok(Fork::Parent(_)) => exit_now(0),
        Err(_) => exit_now(1),
    }
    if become_child_of(parent, between).is_err() {
        exit_now(1);
    }
    Ok(true)
}

/// The sibling's part of [`fork_sibling`]: waits for its new parent.
fn become_child_of(parent: RawPid, between: RawPid) -> io::Result<()> {
    let mut present = between;
    while present == between {
        // SAFETY: no arguments, cannot fail.
        present = unsafe { libc::getppid() };
        std::thread::sleep(Duration::from_micros(100));
    }
    // SAFETY: no arguments.
    if unsafe { libc::setsid() } == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: no memory arguments.
    if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) } == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: no arguments, cannot fail.
    match unsafe { libc::getppid() } == parent {
        true => Ok(()),
        false => Err(io::ErrorKind::BrokenPipe.into()),
    }
}

/// Returns whether orphaned descendants of this process become its children, as after
/// [`adopt_orphans`](howdah_sys::process::adopt_orphans).
fn set_adopts_orphans(adopts: bool) -> io::Result<()> {
    let adopts = libc::c_ulong::from(adopts);
    // SAFETY: no memory arguments.
    match unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, adopts, 0, 0, 0) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Waits for the end of a child that ends at once.
fn wait_for_success(child: RawPid) -> io::Result<()> {
    let mut status = 0;
    loop {
        // SAFETY: `status` is a live number.
        match unsafe { libc::waitpid(child, &raw mut status, 0) } {
            -1 if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
            -1 => return Err(io::Error::last_os_error()),
            _ if is_success(status) => return Ok(()),
            // It could not fork, as this process could.
            _ => return Err(io::ErrorKind::WouldBlock.into()),
        }
    }
}

/// Id of this process.
pub fn id() -> RawPid {
    // SAFETY: no arguments, cannot fail.
    unsafe { libc::getpid() }
}

/// Makes the kernel kill this process when `parent` dies. Call it in the child after the fork.
///
/// # Errors
/// The error of `prctl(2)`.
pub fn die_with(parent: RawPid) -> io::Result<()> {
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

/// Limits the processor time of this process. After `seconds` the worker ends before its next
/// request. The kernel kills it [`OVERTIME`] later, and a program that it executes at once.
///
/// # Errors
/// The error of `setrlimit(2)`.
pub fn limit_processor_time(seconds: u64) -> io::Result<()> {
    handle(libc::SIGXCPU, on_terminate, libc::SA_RESTART)?;
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is live.
    if unsafe { libc::getrlimit(libc::RLIMIT_CPU, &raw mut limit) } == -1 {
        return Err(io::Error::last_os_error());
    }
    limit.rlim_max = limit.rlim_max.min(seconds.saturating_add(OVERTIME));
    limit.rlim_cur = limit.rlim_max.min(seconds);
    // SAFETY: `limit` is live.
    if unsafe { libc::setrlimit(libc::RLIMIT_CPU, &raw const limit) } == -1 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Sends a signal to a child that was not reaped yet.
pub fn kill(child: RawPid, signal: i32) {
    // SAFETY: no memory arguments. A child that is dead already does not mind.
    unsafe { libc::kill(child, signal) };
}

/// A child that has ended.
#[derive(Debug, Clone, Copy)]
pub struct EndedChild {
    /// Its process id.
    pub pid: RawPid,
    /// Its `wait(2)` status.
    pub status: i32,
    /// The time on a processor of the child, and of the processes that it has waited for.
    pub processor: Duration,
}

/// Reaps an ended child. Returns `None` if no child has ended.
pub fn reap() -> Option<EndedChild> {
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `status` is a live number, and `usage` has room for what the call writes.
    let pid = unsafe { libc::wait4(-1, &raw mut status, libc::WNOHANG, usage.as_mut_ptr()) };
    if pid <= 0 {
        return None;
    }
    // SAFETY: the structure consists of numbers, for which zero is a value.
    let usage = unsafe { usage.assume_init() };
    let duration = |time: libc::timeval| {
        let [seconds, microseconds] = [time.tv_sec, time.tv_usec].map(|part| part.unsigned_abs());
        Duration::from_secs(seconds) + Duration::from_micros(microseconds)
    };
    let processor = duration(usage.ru_utime) + duration(usage.ru_stime);
    Some(EndedChild { pid, status, processor })
}

/// Ends the processes that scripts have started and that outlived their workers. The supervisor
/// does it as well, unless it has died.
pub fn end_orphans() {
    let began = Instant::now();
    while began.elapsed() < LONGEST_SEARCH {
        while began.elapsed() < LONGEST_SEARCH && reap().is_some() {}
        match end_descendants(|_| false) {
            Ok(remaining) if remaining.killed > 0 => {}
            // A child that cannot be killed runs with other rights, and this process cannot end it.
            _ => return,
        }
    }
}

/// The most time of [`end_orphans`]. Processes that fork faster than they are found are left to the
/// supervisor.
const LONGEST_SEARCH: Duration = Duration::from_millis(500);

/// Makes this worker, and the programs that its scripts start, the first to be ended when memory is
/// short: as if they took 30 % of the memory more. See proc_pid_oom_score_adj(5).
pub fn offer_to_the_oom_killer() {
    const FILE: &str = "/proc/self/oom_score_adj";
    const VALUE: &str = "300";
    if std::fs::write(FILE, VALUE).is_ok() {
        return;
    }
    // The file belongs to root while the process cannot be dumped.
    // SAFETY: no memory arguments.
    let former = unsafe { libc::prctl(libc::PR_GET_DUMPABLE, 0, 0, 0, 0) };
    // SAFETY: no memory arguments.
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0) };
    // It fails without `/proc`. The worker then has its zygote's value.
    let _ = std::fs::write(FILE, VALUE);
    // SAFETY: no memory arguments.
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, former, 0, 0, 0) };
}

/// Returns whether a status of [`reap`] means exit with 0.
pub fn is_success(status: i32) -> bool {
    libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
}

/// Returns how a process with that status of [`reap`] has ended: the name of a signal, or the
/// status of its exit.
pub fn cause_of_death(status: i32) -> String {
    match libc::WIFSIGNALED(status) {
        true => {
            let signal = libc::WTERMSIG(status);
            let name = howdah_sys::process::signal_name(signal).map(str::to_owned);
            name.unwrap_or_else(|| format!("signal {signal}"))
        }
        false => format!("exit status {}", libc::WEXITSTATUS(status)),
    }
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
/// - SIGINT, SIGQUIT, SIGHUP and SIGUSR2 have no effect. A terminal, or an administrator who means
///   the server, sends them to every process, and only the supervisor acts on them. They are not
///   ignored, because programs that a script executes would inherit that.
/// - SIGALRM and SIGVTALRM have no effect. A timer that a script or a library has started may
///   expire after its request.
/// - In a child process that a script has forked, SIGTERM and [`TIME_OUT`] end the process.
/// - SIGXFSZ has no effect: writing beyond the limit of a file's size fails, and PHP says so.
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
    handle(libc::SIGXFSZ, on_nothing, libc::SA_RESTART)?;
    handle(libc::SIGINT, on_nothing, libc::SA_RESTART)?;
    handle(libc::SIGQUIT, on_nothing, libc::SA_RESTART)?;
    handle(libc::SIGHUP, on_nothing, libc::SA_RESTART)?;
    handle(libc::SIGUSR2, on_nothing, libc::SA_RESTART)?;
    handle(libc::SIGALRM, on_nothing, libc::SA_RESTART)?;
    handle(libc::SIGVTALRM, on_nothing, libc::SA_RESTART)
}

/// The signal handlers of a process, and the signals that can have one.
pub struct SignalState(Vec<(i32, libc::sigaction)>);

impl SignalState {
    /// Reads the handlers of this process.
    pub fn of_this_process() -> SignalState {
        let handlers = (1..=libc::SIGRTMAX()).filter_map(|signal| {
            // SAFETY: an all-zero `sigaction` is valid memory.
            let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
            // SAFETY: `action` is live; no handler is set.
            let result = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) };
            let is_fixed = matches!(signal, libc::SIGKILL | libc::SIGSTOP);
            (result == 0 && !is_fixed).then_some((signal, action))
        });
        SignalState(handlers.collect())
    }

    /// Stops this process's timers, sets its handlers as they were, and unblocks all signals.
    /// Takes about 70 system calls.
    pub fn restore(&self) {
        // SAFETY: an all-zero `itimerval` is valid, and means no timer.
        let never: libc::itimerval = unsafe { std::mem::zeroed() };
        for timer in [libc::ITIMER_REAL, libc::ITIMER_VIRTUAL] {
            // SAFETY: `never` is live; the former value is not asked for.
            unsafe { libc::setitimer(timer, &raw const never, std::ptr::null_mut()) };
        }
        for (signal, action) in &self.0 {
            // SAFETY: `action` is as the kernel gave it, and its handler still exists.
            unsafe { libc::sigaction(*signal, action, std::ptr::null_mut()) };
        }
        // It fails for no mask.
        let _ = unblock_signals();
    }
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

/// A set of signals.
pub struct SignalMask(libc::sigset_t);

/// Blocks all signals in this thread, and in those that it starts. Returns the former mask.
///
/// # Errors
/// The error of `sigprocmask(2)`.
pub fn block_signals() -> io::Result<SignalMask> {
    // SAFETY: an all-zero sigset is valid memory; `sigfillset` initialises it.
    let mut all: libc::sigset_t = unsafe { std::mem::zeroed() };
    let mut former = all;
    // SAFETY: both sets are live.
    let result = unsafe {
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut former)
    };
    match result {
        0 => Ok(SignalMask(former)),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// Sets a mask that [`block_signals`] has returned.
pub fn set_signal_mask(mask: &SignalMask) {
    // SAFETY: the set is live and initialised. Such a call fails for no mask.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const mask.0, std::ptr::null_mut()) };
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

extern "C" fn on_terminate(signal: i32) {
    if children::is_worker() {
        STOP.store(true, Ordering::Release);
    } else {
        end_by(signal);
    }
}

extern "C" fn on_time_out(signal: i32) {
    if !children::is_worker() {
        return end_by(signal);
    }
    // SAFETY: the address of this thread's own number, which the script may be about to read.
    let number = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let former = unsafe { *number };
    time_out::signalled();
    // SAFETY: as above.
    unsafe { *number = former };
}

/// Ends this process by `signal` when the handler returns. Async-signal-safe.
fn end_by(signal: i32) {
    // SAFETY: no memory arguments.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

extern "C" fn on_nothing(_signal: i32) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_for_want_of_processes_names_the_keys_of_the_limits() {
        let told = |number| with_limits(io::Error::from_raw_os_error(number)).to_string();
        assert!(told(libc::EAGAIN).ends_with("see `pids` and `rlimits.nproc`"));
        assert!(!told(libc::ENOMEM).contains("rlimits"));
    }
}
