//! Mount namespaces: a process and its children see other mounts than the rest of the machine.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use crate::check;
use crate::open::{self, Access};
use crate::shared_memory::SharedMemory;

/// The options of the file system of terminals (`pty(7)`): a terminal belongs to who opens it, and
/// processes of one namespace may have 64 open. The kernel refuses further ones.
const TERMINALS: &CStr = c"mode=600,ptmxmode=666,max=64";

/// The step that failed, and its error.
pub(crate) type FailedStep = (&'static str, io::Error);

/// The mounts of a new namespace.
#[derive(Debug, Clone, Default)]
pub struct Mounts {
    folders: Vec<Bind>,
    covered: Vec<CString>,
    own_processes_only: bool,
    own_terminals: bool,
    shared_memory: Option<SharedMemory>,
}

#[derive(Debug, Clone)]
struct Bind {
    source: CString,
    target: CString,
    owner: u32,
}

impl Mounts {
    /// Shows the folder `source` at the folder `target`. `source` must belong to `owner`, and its
    /// path must have no symbolic link: its owner could replace a link, and the mount would pass
    /// the folders above the link's target, which the owner perhaps may not enter.
    pub fn show(&mut self, source: CString, target: CString, owner: u32) {
        self.folders.push(Bind { source, target, owner });
    }

    /// Shows an empty folder, which nobody may enter, at the folder `target`. Nothing is done where
    /// there is no such folder, or a part of its path is a symbolic link.
    pub fn cover(&mut self, target: CString) {
        self.covered.push(target);
    }

    /// Gives the process terminals of its own, at most 64: the machine has some thousand for
    /// all users. Nothing is done where `/dev/pts` cannot be mounted.
    pub fn own_terminals(&mut self) {
        self.own_terminals = true;
    }

    /// Shows in `/proc` only the processes that the reader might trace (`hidepid=invisible`). The
    /// rest of `/proc` stays as it is.
    pub fn hide_processes(&mut self) {
        self.own_processes_only = true;
    }

    /// Gives the process shared memory of its own, which is at `/dev/shm` and in an IPC namespace.
    pub fn own_shared_memory(&mut self, memory: SharedMemory) {
        self.shared_memory = Some(memory);
    }

    /// Returns whether there is nothing to mount.
    pub fn is_empty(&self) -> bool {
        self.folders.is_empty()
            && self.covered.is_empty()
            && !self.own_processes_only
            && !self.own_terminals
            && self.shared_memory.is_none()
    }

    /// Moves this process to a new namespace with these mounts. Later mounts of the machine appear
    /// in it, and its own mounts nowhere else. Needs the capability `CAP_SYS_ADMIN`.
    ///
    /// Async-signal-safe.
    ///
    /// # Errors
    /// The step that failed, and the error of its system call.
    pub(crate) fn enter(&self) -> Result<(), FailedStep> {
        if self.is_empty() {
            return Ok(());
        }
        let failed = |step: &'static str| move |error: io::Error| (step, error);
        // With the mounts of the parent, which it needs.
        let former = self.shared_memory.as_ref().map_or(Ok(None), SharedMemory::enter)?;
        // SAFETY: no memory arguments.
        check(unsafe { libc::unshare(libc::CLONE_NEWNS) }).map_err(failed("unshare"))?;
        mount(None, c"/", None, libc::MS_REC | libc::MS_SLAVE, None)
            .map_err(failed("mount propagation"))?;
        for bind in &self.folders {
            bind.mount()?;
        }
        let mut empty = None;
        for folder in &self.covered {
            cover(folder, &mut empty)?;
        }
        if self.own_terminals {
            let flags = libc::MS_NOSUID | libc::MS_NOEXEC;
            let _ = mount(Some(c"devpts"), c"/dev/pts", Some(c"devpts"), flags, Some(TERMINALS));
        }
        if let Some(memory) = &self.shared_memory {
            memory.mount(former.as_ref())?;
        }
        if self.own_processes_only {
            let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
            // The number is known to all kernels, the name `invisible` since Linux 5.8.
            mount(Some(c"proc"), c"/proc", Some(c"proc"), flags, Some(c"hidepid=2"))
                .map_err(failed("mount /proc"))?;
        }
        Ok(())
    }
}

impl Bind {
    fn mount(&self) -> Result<(), FailedStep> {
        let folder = self.open().map_err(|error| ("open of a private folder", error))?;
        // A path leads to the folder that was opened, and to no other, through its descriptor.
        let mut path = *b"/proc/self/fd/\0\0\0\0\0\0\0\0\0\0\0";
        let path = descriptor_path(folder.as_raw_fd(), &mut path);
        let flags = libc::MS_BIND | libc::MS_NOSUID | libc::MS_NODEV;
        mount(Some(path), &self.target, None, libc::MS_BIND, None)
            // A bind mount takes its flags in a second step.
            .and_then(|()| mount(None, &self.target, None, flags | libc::MS_REMOUNT, None))
            .map_err(|error| ("mount of a private folder", error))
    }

    /// Opens the folder in the new namespace: only its own mounts can be bound.
    fn open(&self) -> io::Result<OwnedFd> {
        let folder = open::unlinked(&self.source, Access::Folder)?;
        // SAFETY: an all-zero `stat` is a valid value of that plain C struct.
        let mut stat: libc::stat = unsafe { std::mem::zeroed() };
        // SAFETY: `stat` is live.
        check(unsafe { libc::fstat(folder.as_raw_fd(), &raw mut stat) })?;
        if stat.st_uid == self.owner {
            Ok(folder)
        } else {
            Err(io::ErrorKind::PermissionDenied.into())
        }
    }
}

/// Mounts an empty folder at a folder, if there is one. `empty` is that folder, from the first call
/// on: all are one file system.
fn cover(target: &CStr, empty: &mut Option<OwnedFd>) -> Result<(), FailedStep> {
    let failed = |error| ("mount over another site's folder", error);
    let Ok(folder) = open::unlinked(target, Access::Folder) else {
        return Ok(());
    };
    let mut path = *b"/proc/self/fd/\0\0\0\0\0\0\0\0\0\0\0";
    let path = descriptor_path(folder.as_raw_fd(), &mut path);
    if let Some(empty) = empty {
        let mut source = *b"/proc/self/fd/\0\0\0\0\0\0\0\0\0\0\0";
        let source = descriptor_path(empty.as_raw_fd(), &mut source);
        // The mount takes over the flags of the first one.
        return mount(Some(source), path, None, libc::MS_BIND, None).map_err(failed);
    }
    let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC | libc::MS_RDONLY;
    mount(Some(c"covered"), path, Some(c"tmpfs"), flags, Some(c"mode=0,nr_inodes=2,size=4k"))
        .map_err(failed)?;
    *empty = Some(open::unlinked(target, Access::Folder).map_err(failed)?);
    Ok(())
}

/// Tries in a child process whether this process may make a namespace with its own `/proc`.
///
/// # Errors
/// The failed step and its error, as text for a person. In a container without `CAP_SYS_ADMIN`, or
/// as an ordinary user, the kernel refuses.
pub fn probe() -> io::Result<()> {
    let mut mounts = Mounts::default();
    mounts.hide_processes();
    try_in_child(|| mounts.enter())
}

/// Returns the result of `attempt` in a child process. `attempt` makes async-signal-safe calls
/// only.
///
/// # Errors
/// The error of `attempt`, of `fork(2)` or of `waitpid(2)`.
pub(crate) fn try_in_child(attempt: impl FnOnce() -> Result<(), FailedStep>) -> io::Result<()> {
    // SAFETY: the child only makes async-signal-safe calls on memory that was prepared above.
    let pid = check(unsafe { libc::fork() })?;
    if pid == 0 {
        let errno = match attempt() {
            Ok(()) => 0,
            Err((_, error)) => error.raw_os_error().unwrap_or(libc::EPERM),
        };
        // SAFETY: ends the child, which runs nothing of the parent's.
        unsafe { libc::_exit(errno & 0xFF) };
    }
    let mut status = 0;
    loop {
        // SAFETY: `status` is live.
        match check(unsafe { libc::waitpid(pid, &raw mut status, 0) }) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
            Ok(_) if !libc::WIFEXITED(status) => return Err(io::ErrorKind::Other.into()),
            Ok(_) => match libc::WEXITSTATUS(status) {
                0 => return Ok(()),
                errno => return Err(io::Error::from_raw_os_error(errno)),
            },
        }
    }
}

/// Calls `mount(2)`. Async-signal-safe.
///
/// # Errors
/// The error of `mount(2)`.
pub(crate) fn mount(
    source: Option<&CStr>,
    target: &CStr,
    kind: Option<&CStr>,
    flags: libc::c_ulong,
    options: Option<&CStr>,
) -> io::Result<()> {
    let pointer = |text: Option<&CStr>| text.map_or(std::ptr::null(), CStr::as_ptr);
    // SAFETY: NUL-terminated strings or null pointers, all of which `mount(2)` accepts.
    check(unsafe {
        libc::mount(pointer(source), target.as_ptr(), pointer(kind), flags, pointer(options).cast())
    })?;
    Ok(())
}

/// Writes the number of a descriptor to the end of `/proc/self/fd/`. Allocates no memory.
fn descriptor_path(fd: i32, path: &mut [u8; 25]) -> &CStr {
    const PREFIX: usize = 14;
    let (mut digits, mut rest, mut count) = ([0u8; 10], fd.unsigned_abs(), 0);
    loop {
        digits[count] = b'0' + (rest % 10) as u8;
        rest /= 10;
        count += 1;
        if rest == 0 {
            break;
        }
    }
    for (place, digit) in path[PREFIX..].iter_mut().zip(digits[..count].iter().rev()) {
        *place = *digit;
    }
    CStr::from_bytes_until_nul(path).unwrap_or(c"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_descriptors() {
        for fd in [0, 7, 10, 1234567, i32::MAX] {
            let mut path = *b"/proc/self/fd/\0\0\0\0\0\0\0\0\0\0\0";
            let path = descriptor_path(fd, &mut path);
            assert_eq!(path.to_str().unwrap(), format!("/proc/self/fd/{fd}"));
        }
    }
}
