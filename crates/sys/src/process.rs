//! Child processes: forking, starting programs, and exit statuses.

mod arguments;
mod descendants;
mod exec;
mod program;

use std::ffi::CStr;
use std::fmt;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicI32, AtomicU8, Ordering};

use crate::credentials::{self, Identity};
use crate::{check, descriptor, signal};

pub use arguments::ArgumentMemory;
pub use descendants::{
    RemainingDescendants, adopt_orphans, end_descendants, kill_if, started, thread_state, user,
};
pub use exec::execute;
pub use program::Program;

/// A process id. Never 0 or 1, which have another meaning for `kill(2)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pid(libc::pid_t);

impl Pid {
    /// Converts a number; `None` if no process of this module can have it.
    pub fn from_number(number: u32) -> Option<Pid> {
        libc::pid_t::try_from(number).ok().filter(|pid| *pid > 1).map(Pid)
    }

    /// The process id as a number.
    pub fn number(self) -> u32 {
        self.0.unsigned_abs()
    }

    /// Sends a signal to the process. A process that has ended is not an error.
    ///
    /// # Errors
    /// Another error of `kill(2)`.
    pub fn signal(self, signal: i32) -> io::Result<()> {
        // SAFETY: no memory arguments.
        gone_is_fine(check(unsafe { libc::kill(self.0, signal) }))
    }

    /// Sends a signal to the process group that the process leads. An empty group is not an error.
    ///
    /// # Errors
    /// Another error of `kill(2)`.
    pub fn signal_group(self, signal: i32) -> io::Result<()> {
        // SAFETY: no memory arguments.
        gone_is_fine(check(unsafe { libc::kill(-self.0, signal) }))
    }
}

impl fmt::Display for Pid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

fn gone_is_fine(result: io::Result<libc::c_int>) -> io::Result<()> {
    match result {
        Err(error) if error.raw_os_error() != Some(libc::ESRCH) => Err(error),
        _ => Ok(()),
    }
}

/// The way a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// By itself, with this exit status.
    Status(i32),
    /// By this signal.
    Signal(i32),
}

impl Exit {
    /// Converts a status of `wait(2)`.
    pub fn from_wait(status: i32) -> Exit {
        if libc::WIFSIGNALED(status) {
            Exit::Signal(libc::WTERMSIG(status))
        } else {
            Exit::Status(libc::WEXITSTATUS(status))
        }
    }
}

impl fmt::Display for Exit {
    /// Writes the end of a sentence whose subject is the process.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Exit::Status(status) => write!(f, "ended with status {status}"),
            Exit::Signal(number) => match signal_name(*number) {
                Some(name) => write!(f, "was killed by {name}"),
                None => write!(f, "was killed by signal {number}"),
            },
        }
    }
}

/// The name of a signal that can end processes. `None` for another number.
pub fn signal_name(number: i32) -> Option<&'static str> {
    let name = match number {
        libc::SIGABRT => "SIGABRT",
        libc::SIGALRM => "SIGALRM",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGHUP => "SIGHUP",
        libc::SIGILL => "SIGILL",
        libc::SIGINT => "SIGINT",
        libc::SIGKILL => "SIGKILL",
        libc::SIGPIPE => "SIGPIPE",
        libc::SIGQUIT => "SIGQUIT",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGSYS => "SIGSYS",
        libc::SIGTERM => "SIGTERM",
        libc::SIGTRAP => "SIGTRAP",
        libc::SIGXCPU => "SIGXCPU",
        libc::SIGXFSZ => "SIGXFSZ",
        _ => return None,
    };
    Some(name)
}

/// A change of a child's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChildChange {
    /// It has ended, and was reaped.
    Ended(Exit),
    /// A signal has stopped it. Reported once for each stop.
    Stopped,
}

/// Reaps one ended child, or returns one that was stopped, if there is one.
///
/// # Errors
/// The error of `waitpid(2)`.
pub fn reap() -> io::Result<Option<(Pid, ChildChange)>> {
    let mut status = 0;
    loop {
        // SAFETY: `status` is live.
        match check(unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG | libc::WUNTRACED) })
        {
            Ok(0) => return Ok(None),
            Ok(pid) if libc::WIFSTOPPED(status) => {
                return Ok(Some((Pid(pid), ChildChange::Stopped)));
            }
            Ok(pid) => return Ok(Some((Pid(pid), ChildChange::Ended(Exit::from_wait(status))))),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.raw_os_error() == Some(libc::ECHILD) => return Ok(None),
            Err(error) => return Err(error),
        }
    }
}

/// Returns whether the process is a child of this one that was not reaped yet.
pub fn is_child(pid: Pid) -> bool {
    // SAFETY: an all-zero `siginfo_t` is valid memory.
    let mut state: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: `state` is live. Nothing is reaped.
    unsafe { libc::waitid(libc::P_PID, pid.number(), &raw mut state, options) == 0 }
}

/// Returns whether the process has begun a session of its own. Then it leads a process group, which
/// it can never leave, and [`Pid::signal_group`] reaches it.
pub fn leads_session(pid: Pid) -> bool {
    // SAFETY: no memory arguments.
    unsafe { libc::getsid(pid.0) == pid.0 }
}

/// Waits until a child has ended, and reaps it.
///
/// # Errors
/// The error of `waitpid(2)`.
pub fn wait(child: Pid) -> io::Result<Exit> {
    let mut status = 0;
    loop {
        // SAFETY: `status` is live.
        match check(unsafe { libc::waitpid(child.0, &raw mut status, 0) }) {
            Ok(_) => return Ok(Exit::from_wait(status)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Forks. The child runs `child` in its own session and process group, without a controlling
/// terminal, with default signals, no terminal on its standard input, and only the standard
/// descriptors and `keep` open. Its exit status is the result of `child`. No destructor and no exit
/// handler of the parent's runs there: values of the parent, in its frames and in variables of its
/// thread, own descriptors that the child has not got, and whose numbers may be others' by then.
///
/// `child` must neither use nor drop a descriptor that is not in `keep`.
///
/// # Errors
/// This process has several threads, whose locks could stay locked forever in the child; or the
/// error of `fork(2)`.
pub fn fork(keep: &[RawFd], child: impl FnOnce() -> u8) -> io::Result<Pid> {
    if std::fs::read_dir("/proc/self/task")?.count() != 1 {
        return Err(io::Error::other("a process of several threads cannot fork"));
    }
    // SAFETY: there is one thread, so the child is whole.
    let pid = check(unsafe { libc::fork() })?;
    if pid != 0 {
        return Ok(Pid(pid));
    }
    let run = std::panic::AssertUnwindSafe(|| {
        // SAFETY: this is the child, the parent's frames below never run in it, and `child` keeps
        // to its own.
        unsafe { descriptor::close_all_but(keep) };
        // SAFETY: no arguments. It cannot fail for a fresh child.
        unsafe { libc::setsid() };
        match signal::reset().and_then(|()| null_input()) {
            Ok(()) => child(),
            Err(_) => 70,
        }
    });
    // Unwinding must not reach the parent's frames. A panicking Rust program exits with 101.
    let status = std::panic::catch_unwind(run).unwrap_or(101);
    // A reader that is gone misses nothing.
    let _ = io::stdout().flush();
    // SAFETY: does not return.
    unsafe { libc::_exit(status.into()) }
}

fn null_input() -> io::Result<()> {
    let null = std::fs::File::open("/dev/null")?;
    // SAFETY: both descriptors are open; standard input has no owner.
    check(unsafe { libc::dup2(null.as_raw_fd(), libc::STDIN_FILENO) })?;
    Ok(())
}

/// Changes this process to `identity` permanently, and verifies the change.
///
/// # Errors
/// The failed step and its error.
pub fn become_for_good(identity: &Identity) -> io::Result<()> {
    credentials::assume(identity)
        .map_err(|(step, error)| io::Error::new(error.kind(), format!("{step}: {error}")))
}

/// Makes sure that no program that this process executes gets more rights, whatever its set-id bits
/// are.
///
/// # Errors
/// The error of `prctl(2)`.
pub fn refuse_new_privileges() -> io::Result<()> {
    // SAFETY: no memory arguments.
    check(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) })?;
    Ok(())
}

/// Gives up the capabilities that a process without root's user may have, such as the one for ports
/// below 1024. A program that this process executes has none of them either. A process of root
/// keeps its own, which a change of user takes away.
///
/// Async-signal-safe.
///
/// # Errors
/// The error of `capset(2)`.
pub fn drop_capabilities_of_user() -> io::Result<()> {
    // SAFETY: no arguments.
    if unsafe { libc::geteuid() } == 0 {
        return Ok(());
    }
    set_capabilities(&[0; 6])
}

/// Sets the capabilities of this thread: those in effect, those permitted and those inherited, of
/// the first 32 and of the others.
///
/// Async-signal-safe.
///
/// # Errors
/// The error of `capset(2)`: `EPERM` for a capability that the thread is not permitted.
pub(crate) fn set_capabilities(sets: &[u32; 6]) -> io::Result<()> {
    /// `struct __user_cap_header_struct` of the kernel.
    #[repr(C)]
    struct Header {
        version: u32,
        /// 0 is this thread.
        pid: libc::c_int,
    }
    /// `_LINUX_CAPABILITY_VERSION_3`, whose sets have two parts of three words each.
    const VERSION: u32 = 0x2008_0522;
    let header = Header { version: VERSION, pid: 0 };
    // SAFETY: both arguments are live, and as long as this version says.
    let result = unsafe { libc::syscall(libc::SYS_capset, &raw const header, sets.as_ptr()) };
    match result {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Sets whether other processes of the same user may look into this process and its children: trace
/// them, read their memory, take their descriptors. An opaque process writes no core dump, and its
/// files in `/proc` belong to root. A change of user and `execve(2)` reset the setting.
///
/// # Errors
/// The error of `prctl(2)`.
pub fn set_opaque(is_opaque: bool) -> io::Result<()> {
    let dumpable = libc::c_ulong::from(!is_opaque);
    // SAFETY: no memory arguments.
    check(unsafe { libc::prctl(libc::PR_SET_DUMPABLE, dumpable, 0, 0, 0) })?;
    Ok(())
}

/// Limits the life of this process to `seconds` after the death of `parent`.
///
/// Uses SIGALRM, and a signal that no administrator sends: SIGUSR2 has a meaning for the server,
/// and some send it to all processes of that name. Call it after a change of user, which resets the
/// setting in the kernel.
///
/// # Errors
/// `parent` is dead already, or the error of a system call.
pub fn outlive_parent_by(parent: Pid, seconds: u8) -> io::Result<()> {
    GRACE.store(seconds, Ordering::Relaxed);
    PARENT.store(parent.0, Ordering::Relaxed);
    let handler = start_the_alarm as extern "C" fn(libc::c_int);
    let signal = libc::SIGRTMAX() - 1;
    signal::disposition(signal, handler as libc::sighandler_t)?;
    // SAFETY: no memory arguments.
    check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, signal, 0, 0, 0) })?;
    // SAFETY: no arguments.
    if unsafe { libc::getppid() } != parent.0 {
        return Err(io::Error::other("the parent process is gone"));
    }
    Ok(())
}

static GRACE: AtomicU8 = AtomicU8::new(0);
static PARENT: AtomicI32 = AtomicI32::new(0);

extern "C" fn start_the_alarm(_signal: libc::c_int) {
    // The kernel gives the process its new parent first. Otherwise another process sent the signal.
    // SAFETY: async-signal-safe, no arguments.
    if unsafe { libc::getppid() } == PARENT.load(Ordering::Relaxed) {
        return;
    }
    let seconds = GRACE.load(Ordering::Relaxed);
    // SAFETY: async-signal-safe, no memory arguments. SIGALRM ends the process.
    unsafe { libc::alarm(seconds.into()) };
}

/// Sets the name that `ps` and `top` show. The kernel cuts it to 15 bytes.
pub fn set_name(name: &CStr) {
    // SAFETY: a NUL-terminated string. It cannot fail.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
}

/// Sets the mode bits that new files of this process do not get. Returns the former ones.
pub fn set_umask(mask: u32) -> u32 {
    // SAFETY: no memory arguments. It cannot fail.
    unsafe { libc::umask(mask) }
}

/// The id of this process.
pub fn own_pid() -> Pid {
    // SAFETY: no arguments.
    Pid(unsafe { libc::getpid() })
}

/// The id of this process's parent.
pub fn parent_pid() -> Pid {
    // SAFETY: no arguments.
    Pid(unsafe { libc::getppid() })
}

/// The id of this thread, as in `/proc/PID/task`.
pub fn thread_id() -> u64 {
    // SAFETY: no arguments. It cannot fail.
    unsafe { libc::gettid() }.unsigned_abs().into()
}

/// Returns the soft and the hard limit of open descriptors.
///
/// # Errors
/// The error of `getrlimit(2)`.
pub fn descriptor_limit() -> io::Result<(u64, u64)> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is live.
    check(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) })?;
    Ok((limit.rlim_cur, limit.rlim_max))
}

/// Raises the soft limit of open descriptors to `wanted`, and the hard limit if this process may.
/// Never lowers a limit. Returns the present soft limit.
///
/// # Errors
/// The error of `getrlimit(2)` or `setrlimit(2)`.
pub fn raise_descriptor_limit(wanted: u64) -> io::Result<u64> {
    let (soft, hard) = descriptor_limit()?;
    if soft >= wanted {
        return Ok(soft);
    }
    if wanted > hard && set_descriptor_limit(wanted, wanted).is_ok() {
        return Ok(wanted);
    }
    let soft = wanted.min(hard);
    set_descriptor_limit(soft, hard)?;
    Ok(soft)
}

/// Async-signal-safe.
fn set_descriptor_limit(soft: u64, hard: u64) -> io::Result<()> {
    let limit = libc::rlimit { rlim_cur: soft, rlim_max: hard };
    // SAFETY: `limit` is live.
    check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the result of `check` in a copy of this process, which has one thread.
    fn in_copy(check: impl FnOnce() -> bool) -> Exit {
        // SAFETY: the C library's allocator can be used after a fork, and the copy needs no other
        // lock that another thread of the parent's could have.
        match unsafe { libc::fork() } {
            0 => {
                let check = std::panic::AssertUnwindSafe(check);
                let is_right = std::panic::catch_unwind(check).unwrap_or(false);
                // SAFETY: does not return.
                unsafe { libc::_exit(i32::from(!is_right)) }
            }
            copy => wait(Pid(copy)).unwrap(),
        }
    }

    #[test]
    fn a_child_drops_no_descriptor_of_its_parent() {
        use std::cell::RefCell;
        use std::os::fd::OwnedFd;
        thread_local! {
            static OWNED: RefCell<Vec<OwnedFd>> = const { RefCell::new(Vec::new()) };
        }
        let ended = in_copy(|| {
            let (reader, writer) = io::pipe().unwrap();
            OWNED.with_borrow_mut(|owned| owned.push(reader.into()));
            let child = fork(&[writer.as_raw_fd()], || 7).unwrap();
            wait(child).unwrap() == Exit::Status(7)
        });
        assert_eq!(ended, Exit::Status(0));
    }

    #[test]
    fn a_process_of_several_threads_does_not_fork() {
        std::thread::scope(|scope| {
            let (done, wait) = std::sync::mpsc::channel::<()>();
            scope.spawn(move || wait.recv());
            assert!(fork(&[], || 0).is_err());
            drop(done);
        });
    }

    #[test]
    fn a_child_is_one_until_it_is_reaped() {
        let mut child = std::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let pid = Pid::from_number(child.id()).unwrap();
        assert!(is_child(pid) && is_child(pid));
        assert!(!is_child(own_pid()));
        assert!(child.wait().unwrap().success());
        assert!(!is_child(pid));
    }

    #[test]
    fn pids_that_mean_something_else_are_none() {
        assert_eq!(Pid::from_number(0), None);
        assert_eq!(Pid::from_number(1), None);
        assert_eq!(Pid::from_number(u32::MAX), None);
        assert_eq!(Pid::from_number(7).unwrap().number(), 7);
    }

    #[test]
    fn says_how_a_process_ended() {
        assert_eq!(Exit::from_wait(9).to_string(), "was killed by SIGKILL");
        assert_eq!(Exit::from_wait(2 << 8).to_string(), "ended with status 2");
    }
}
