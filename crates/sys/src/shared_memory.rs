//! Shared memory of a program's own: an IPC namespace, and a `/dev/shm` of bounded size.
//!
//! An IPC namespace has its own System V shared memory, semaphores and message queues, and its own
//! POSIX message queues. It lives as long as a process or a descriptor refers to it. The tmpfs at
//! `/dev/shm` holds POSIX shared memory and semaphores. A program that starts later can join both.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::sync::Arc;

use crate::mounts::{FailedStep, Mounts, mount, try_in_child};
use crate::process::Pid;
use crate::{check, check_size};

/// The place where POSIX shared memory is.
const FOLDER: &CStr = c"/dev/shm";
const PAGE: u64 = 4096;

/// Limits of an IPC namespace that do not depend on its size. The kernel's own defaults allow a
/// namespace gigabytes of the kernel's memory.
///
/// Semaphores: in one set, in all sets, operations of one call, sets.
const SEMAPHORES: &CStr = c"32000 32000 500 1024";
/// Message queues; each holds at most 16 KiB, in at most 16,384 messages.
const QUEUES: &CStr = c"64";

/// The shared memory of a program and of everything that it starts.
#[derive(Debug, Clone)]
pub struct SharedMemory {
    /// Options of the tmpfs.
    options: CString,
    /// Pages of all System V segments together.
    pages: CString,
    former: Option<Arc<SharedMemorySpace>>,
}

/// Shared memory that programs have, or had: descriptors keep it alive.
#[derive(Debug)]
pub struct SharedMemorySpace {
    ipc: OwnedFd,
    /// The mount namespace in which `folder` is mounted.
    mounts: OwnedFd,
    folder: OwnedFd,
}

impl SharedMemory {
    /// Returns the description of at most `bytes` in `/dev/shm`, in a file for each page at most,
    /// and as many again in System V segments. A program joins `former`, if given; its limits are
    /// changed.
    pub fn new(bytes: u64, former: Option<Arc<SharedMemorySpace>>) -> SharedMemory {
        let pages = bytes.div_ceil(PAGE).max(1);
        // One page is the folder's own.
        let options = format!("mode=1777,size={bytes},nr_inodes={}", pages + 1);
        let text = |text: String| CString::new(text).unwrap_or_default();
        SharedMemory {
            options: text(options),
            pages: text(pages.to_string()),
            former,
        }
    }

    /// Moves this process to the IPC namespace. Returns the tmpfs to mount, which is `None` for a
    /// new one. Needs root's rights. Async-signal-safe.
    ///
    /// # Errors
    /// The step that failed, and the error of its system call.
    pub(crate) fn enter(&self) -> Result<Option<OwnedFd>, FailedStep> {
        let former = self.former.as_deref();
        if former.is_none_or(|former| former.join_ipc().is_err()) {
            // SAFETY: no memory arguments.
            check(unsafe { libc::unshare(libc::CLONE_NEWIPC) })
                .map_err(|error| ("unshare of shared memory", error))?;
        }
        // The namespace is the program's own, also without limits. `probe_limits` tells of it.
        let _ = self.limit();
        former.map_or(Ok(None), SharedMemorySpace::copy_folder)
    }

    /// Mounts `/dev/shm` in this process's own mount namespace: `former`, or a new tmpfs.
    /// Async-signal-safe.
    ///
    /// # Errors
    /// The step that failed, and the error of `mount(2)`.
    pub(crate) fn mount(&self, former: Option<&OwnedFd>) -> Result<(), FailedStep> {
        let flags = libc::MS_NOSUID | libc::MS_NODEV;
        if let Some(former) = former
            && move_mount(former, FOLDER).is_ok()
        {
            // A size below what is in use is refused, and the former one stays.
            let _ = mount(None, FOLDER, None, flags | libc::MS_REMOUNT, Some(&self.options));
            return Ok(());
        }
        mount(Some(c"shm"), FOLDER, Some(c"tmpfs"), flags, Some(&self.options))
            .map_err(|error| ("mount of /dev/shm", error))
    }

    fn limit(&self) -> io::Result<()> {
        let proc = new_proc()?;
        write_to(&proc, c"sys/kernel/shmall", &self.pages)?;
        write_to(&proc, c"sys/kernel/sem", SEMAPHORES)?;
        write_to(&proc, c"sys/kernel/msgmni", QUEUES)
    }
}

impl SharedMemorySpace {
    /// The shared memory of a running program that was started with its own, and has not run code
    /// of others yet: the mount namespace is entered later, with this process's rights.
    ///
    /// # Errors
    /// The program's namespaces cannot be opened. Without `CAP_SYS_PTRACE` those of another user
    /// cannot.
    pub fn of(program: Pid) -> io::Result<SharedMemorySpace> {
        let open = |name: &str| File::open(format!("/proc/{program}/{name}"));
        let ipc = open("ns/ipc")?;
        if ipc.metadata()?.ino() == std::fs::metadata("/proc/self/ns/ipc")?.ino() {
            return Err(io::Error::other("the program has no shared memory of its own"));
        }
        let folder = File::options()
            .read(true)
            .custom_flags(libc::O_PATH | libc::O_DIRECTORY)
            .open(format!("/proc/{program}/root/dev/shm"))?;
        Ok(SharedMemorySpace {
            ipc: ipc.into(),
            mounts: open("ns/mnt")?.into(),
            folder: folder.into(),
        })
    }

    /// The space of [`SharedMemorySpace::descriptors`], which were handed over by another program.
    pub fn from_descriptors([ipc, mounts, folder]: [OwnedFd; 3]) -> SharedMemorySpace {
        SharedMemorySpace { ipc, mounts, folder }
    }

    /// The descriptors that keep the memory alive.
    pub fn descriptors(&self) -> [BorrowedFd<'_>; 3] {
        [self.ipc.as_fd(), self.mounts.as_fd(), self.folder.as_fd()]
    }

    fn join_ipc(&self) -> io::Result<()> {
        join(&self.ipc, libc::CLONE_NEWIPC)
    }

    /// Returns a mount of the folder that is in no namespace; `None` if that cannot be had. The
    /// kernel copies mounts of the present namespace only, which is therefore left and entered
    /// again.
    ///
    /// # Errors
    /// The way back has failed.
    fn copy_folder(&self) -> Result<Option<OwnedFd>, FailedStep> {
        let places =
            [open(c"/proc/self/ns/mnt", 0), open(c"/", FOLDER_ONLY), open(c".", FOLDER_ONLY)];
        let [Ok(own), Ok(root), Ok(here)] = places else {
            return Ok(None);
        };
        if join(&self.mounts, libc::CLONE_NEWNS).is_err() {
            return Ok(None);
        }
        let copy = copy_mount(&self.folder).ok();
        let back = || {
            join(&own, libc::CLONE_NEWNS)?;
            // SAFETY: no memory arguments but a NUL-terminated string.
            unsafe {
                check(libc::fchdir(root.as_raw_fd()))?;
                // This process may be within a `chroot`, which the namespace does not know.
                check(libc::chroot(c".".as_ptr()))?;
                check(libc::fchdir(here.as_raw_fd()))
            }
        };
        back().map_err(|error| ("return to the mounts", error))?;
        Ok(copy)
    }
}

/// Tries in a child process whether a program can have shared memory of its own.
///
/// # Errors
/// The error of the kernel. A container without `CAP_SYS_ADMIN` and an ordinary user get one.
pub fn probe() -> io::Result<()> {
    let mut mounts = Mounts::default();
    mounts.own_shared_memory(SharedMemory::new(PAGE, None));
    try_in_child(|| mounts.enter())
}

/// Tries in a child process whether the System V shared memory of a program can be limited.
///
/// # Errors
/// The errors of [`probe`], or the settings of the kernel cannot be written.
pub fn probe_limits() -> io::Result<()> {
    let memory = SharedMemory::new(PAGE, None);
    try_in_child(|| {
        memory.enter()?;
        memory.limit().map_err(|error| ("limits of shared memory", error))
    })
}

const FOLDER_ONLY: libc::c_int = libc::O_PATH | libc::O_DIRECTORY;

/// Opens a file without allocating memory.
fn open(path: &CStr, flags: libc::c_int) -> io::Result<OwnedFd> {
    open_at(libc::AT_FDCWD, path, flags)
}

fn open_at(folder: RawFd, path: &CStr, flags: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: a NUL-terminated string.
    let opened = check(unsafe { libc::openat(folder, path.as_ptr(), flags | libc::O_CLOEXEC) })?;
    // SAFETY: fresh descriptor, owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(opened) })
}

fn write_to(folder: &OwnedFd, path: &CStr, text: &CStr) -> io::Result<()> {
    let file = open_at(folder.as_raw_fd(), path, libc::O_WRONLY)?;
    let bytes = text.to_bytes();
    // SAFETY: the bytes are live.
    let written = unsafe { libc::write(file.as_raw_fd(), bytes.as_ptr().cast(), bytes.len()) };
    check_size(written).map(drop)
}

/// Enters the namespace of this kind.
fn join(namespace: &OwnedFd, kind: libc::c_int) -> io::Result<()> {
    // SAFETY: no memory arguments.
    check(unsafe { libc::setns(namespace.as_raw_fd(), kind) }).map(drop)
}

/// Returns a `/proc` that is mounted nowhere: containers and service managers make the settings in
/// the machine's read-only. Before Linux 5.2, the machine's.
fn new_proc() -> io::Result<OwnedFd> {
    const CLOSE_ON_EXEC: libc::c_uint = 1;
    const CREATE: libc::c_uint = 6;
    let none = std::ptr::null::<libc::c_char>();
    let fresh = || -> io::Result<OwnedFd> {
        // SAFETY: NUL-terminated strings and null pointers where the calls allow them.
        unsafe {
            let context =
                descriptor(libc::syscall(libc::SYS_fsopen, c"proc".as_ptr(), CLOSE_ON_EXEC))?;
            let fd = context.as_raw_fd();
            let made = libc::syscall(libc::SYS_fsconfig, fd, CREATE, none, none, 0);
            if made == -1 {
                return Err(io::Error::last_os_error());
            }
            descriptor(libc::syscall(libc::SYS_fsmount, fd, CLOSE_ON_EXEC, 0))
        }
    };
    fresh().or_else(|_| open(c"/proc", FOLDER_ONLY))
}

/// Returns a copy of the mount of `folder`, which is mounted nowhere (Linux 5.2).
fn copy_mount(folder: &OwnedFd) -> io::Result<OwnedFd> {
    const CLONE: libc::c_uint = 1;
    let flags = CLONE | libc::O_CLOEXEC as libc::c_uint | libc::AT_EMPTY_PATH as libc::c_uint;
    // SAFETY: a NUL-terminated string.
    descriptor(unsafe {
        libc::syscall(libc::SYS_open_tree, folder.as_raw_fd(), c"".as_ptr(), flags)
    })
}

/// Mounts a mount that is mounted nowhere at a path.
fn move_mount(tree: &OwnedFd, target: &CStr) -> io::Result<()> {
    const FROM_DESCRIPTOR: libc::c_uint = 4;
    const FOLLOW_LINKS: libc::c_uint = 0x10;
    // SAFETY: NUL-terminated strings.
    let moved = unsafe {
        libc::syscall(
            libc::SYS_move_mount,
            tree.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_FDCWD,
            target.as_ptr(),
            FROM_DESCRIPTOR | FOLLOW_LINKS,
        )
    };
    if moved == -1 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// The descriptor that a system call has returned.
fn descriptor(result: libc::c_long) -> io::Result<OwnedFd> {
    let number = RawFd::try_from(result).ok().filter(|number| *number >= 0);
    let number = number.ok_or_else(io::Error::last_os_error)?;
    // SAFETY: fresh descriptor, owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;
    use crate::confinement::Confinement;
    use crate::process::{Program, wait};

    /// Starts a shell script with shared memory of its own. Returns its output, which it has
    /// finished, and the memory.
    fn run(script: &str, memory: SharedMemory) -> (String, SharedMemorySpace) {
        let (mut reader, writer) = io::pipe().unwrap();
        let (end, hold) = io::pipe().unwrap();
        let mut mounts = Mounts::default();
        mounts.own_shared_memory(memory);
        let program = Program {
            path: c"/bin/sh".to_owned(),
            arguments: vec![
                c"sh".to_owned(),
                c"-c".to_owned(),
                // The script begins when the memory was found.
                CString::new(format!("read line; {{ {script}; }} 2>&1")).unwrap(),
            ],
            environment: vec![c"PATH=/usr/bin:/bin".to_owned()],
            descriptors: vec![end.into(), writer.try_clone().unwrap().into(), writer.into()],
            identity: None,
            umask: 0o022,
            descriptor_limit: None,
            death_signal: None,
            confinement: Confinement { mounts, ..Confinement::default() },
        };
        let pid = program.start().unwrap();
        let space = SharedMemorySpace::of(pid).unwrap();
        drop((program, hold));
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        wait(pid).unwrap();
        (text, space)
    }

    fn can_have_own() -> bool {
        let found = probe().is_ok() && probe_limits().is_ok();
        if !found {
            howdah_skip::skip!("this process may not have shared memory of its own");
        }
        found
    }

    #[test]
    fn shared_memory_is_bounded_and_outlives_its_program() {
        if !can_have_own() {
            return;
        }
        let script = "ipcmk -M 4096 >/dev/null && echo made; \
                      ipcmk -M 1048576 >/dev/null 2>&1 || echo refused; echo mine > /dev/shm/a; \
                      head -c 1000000 /dev/zero 2>/dev/null > /dev/shm/b; stat -c %s /dev/shm/b";
        let (told, first) = run(script, SharedMemory::new(16 * PAGE, None));
        // One page is the first file's.
        assert_eq!(told, format!("made\nrefused\n{}\n", 15 * PAGE));
        let script = "cat /dev/shm/a; ipcs -m | grep -c 4096; \
                      head -c 1000000 /dev/zero 2>/dev/null > /dev/shm/c; stat -c %s /dev/shm/c";
        let first = Arc::new(first);
        let (told, _) = run(script, SharedMemory::new(64 * PAGE, Some(first.clone())));
        assert_eq!(told, format!("mine\n1\n{}\n", 48 * PAGE));
        let (told, _) = run("ls /dev/shm | wc -l; pwd", SharedMemory::new(PAGE, None));
        let here = std::env::current_dir().unwrap();
        assert_eq!(told, format!("0\n{}\n", here.display()));
        // The place of a program that has joined is that of its parent.
        let (told, _) = run("pwd", SharedMemory::new(PAGE, Some(first)));
        assert_eq!(told, format!("{}\n", here.display()));
    }
}
