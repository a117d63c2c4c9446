//! Landlock: what a process and everything that it starts may reach, beside the permissions of its
//! user. See landlock(7).
//!
//! A ruleset names the rights that it handles. A handled right is refused, unless a rule grants it
//! for the file, for a folder above the file, or for the port. Nothing can be granted again later.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use crate::check;
use crate::open::{self, Access};

/// Rights to files, as bits (`LANDLOCK_ACCESS_FS_…`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileRights(u64);

impl FileRights {
    /// No right.
    pub const NONE: FileRights = FileRights(0);
    /// Execute a file.
    pub const EXECUTE: FileRights = FileRights(1);
    /// Read files, and list folders.
    pub const READ: FileRights = FileRights(1 << 2 | 1 << 3);
    /// Write to files, and create, rename and remove files, folders, links, sockets and pipes; not
    /// device nodes.
    pub const WRITE: FileRights = FileRights(
        1 << 1 | 1 << 4 | 1 << 5 | 1 << 7 | 1 << 8 | 1 << 9 | 1 << 10 | 1 << 12 | 1 << 13 | 1 << 14,
    );
    /// Write to files that exist.
    pub const WRITE_EXISTING: FileRights = FileRights(1 << 1 | 1 << 14);
    /// Create device nodes.
    pub const MAKE_DEVICES: FileRights = FileRights(1 << 6 | 1 << 11);
    /// Control devices with `ioctl(2)`.
    pub const CONTROL_DEVICES: FileRights = FileRights(1 << 15);
    /// Every right.
    pub const ALL: FileRights = FileRights(0xFFFF);

    /// These rights and `more`.
    pub const fn and(self, more: FileRights) -> FileRights {
        FileRights(self.0 | more.0)
    }

    /// The rights that a kernel of this ABI knows.
    const fn known_to(self, abi: u32) -> FileRights {
        FileRights(
            self.0
                & match abi {
                    0 => 0,
                    1 => 0x1FFF,
                    2 => 0x3FFF,
                    3 | 4 => 0x7FFF,
                    _ => 0xFFFF,
                },
        )
    }

    /// The rights that a rule for a file that is no folder may grant.
    const OF_FILES: FileRights = FileRights(1 | 1 << 1 | 1 << 2 | 1 << 14 | 1 << 15);
}

/// Rights to the network, as bits (`LANDLOCK_ACCESS_NET_…`).
const BIND_TCP: u64 = 1;
const CONNECT_TCP: u64 = 2;
/// Scopes, as bits (`LANDLOCK_SCOPE_…`): abstract sockets and signals.
const ABSTRACT_SOCKETS: u64 = 1;
const SIGNALS: u64 = 2;

/// The oldest ABI that is used. The first one refuses every rename from one folder to another.
const OLDEST: u32 = 2;
/// ABIs that brought rules for TCP ports, and scopes.
const WITH_PORTS: u32 = 4;
const WITH_SCOPES: u32 = 6;

/// Landlock of the running kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Landlock {
    /// Version of the interface.
    pub abi: u32,
}

impl Landlock {
    /// Asks the kernel. `None`: it has no Landlock, Landlock is not turned on, or its version is
    /// older than Linux 5.19.
    pub fn of_kernel() -> Option<Landlock> {
        const VERSION: u32 = 1;
        // SAFETY: with this flag, the call reads no memory.
        let abi = unsafe {
            libc::syscall(
                libc::SYS_landlock_create_ruleset,
                std::ptr::null::<RulesetAttributes>(),
                0,
                VERSION,
            )
        };
        let abi = u32::try_from(abi).ok()?;
        (abi >= OLDEST).then_some(Landlock { abi })
    }

    /// Returns whether it knows rules for TCP ports (Linux 6.7).
    pub fn has_ports(self) -> bool {
        self.abi >= WITH_PORTS
    }

    /// Returns whether it can keep signals and abstract sockets within a process and its children
    /// (Linux 6.12).
    pub fn has_scopes(self) -> bool {
        self.abi >= WITH_SCOPES
    }
}

/// `struct landlock_ruleset_attr`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct RulesetAttributes {
    files: u64,
    network: u64,
    scopes: u64,
}

/// `struct landlock_path_beneath_attr`.
#[repr(C, packed)]
struct PathBeneath {
    rights: u64,
    parent: RawFd,
}

/// `struct landlock_net_port_attr`.
#[repr(C)]
struct NetPort {
    rights: u64,
    port: u64,
}

const PATH_BENEATH: libc::c_int = 1;
const NET_PORT: libc::c_int = 2;

/// A ruleset: the rights that are refused, and the exceptions. Rights that the kernel does not know
/// are left out.
#[derive(Debug, Clone)]
pub struct Ruleset {
    abi: u32,
    handled: RulesetAttributes,
    paths: Vec<PathRule>,
    ports: Vec<(u16, u64)>,
}

/// The rights to the file at a path.
#[derive(Debug, Clone)]
struct PathRule {
    path: CString,
    rights: FileRights,
    follows_links: bool,
}

impl Ruleset {
    /// A ruleset that refuses nothing.
    pub fn new(landlock: Landlock) -> Ruleset {
        Ruleset {
            abi: landlock.abi,
            handled: RulesetAttributes { files: 0, network: 0, scopes: 0 },
            paths: Vec::new(),
            ports: Vec::new(),
        }
    }

    /// Refuses these rights to files. [`Ruleset::grant`] makes exceptions.
    pub fn refuse_files(&mut self, rights: FileRights) {
        self.handled.files |= rights.known_to(self.abi).0;
    }

    /// Grants rights to a file, or to a folder and everything below it. A path that does not exist
    /// when the ruleset is enforced is skipped.
    pub fn grant(&mut self, path: CString, rights: FileRights) {
        self.paths.push(PathRule { path, rights, follows_links: true });
    }

    /// Grants as [`Ruleset::grant`] does. A path is also skipped if a part of it is a symbolic link
    /// when the ruleset is enforced: somebody has put the link there after the path was resolved.
    pub fn grant_unlinked(&mut self, path: CString, rights: FileRights) {
        self.paths.push(PathRule { path, rights, follows_links: false });
    }

    /// Refuses to accept TCP connections on new sockets.
    pub fn refuse_to_listen(&mut self) {
        if self.abi >= WITH_PORTS {
            self.handled.network |= BIND_TCP;
        }
    }

    /// Refuses TCP connections, except to `ports` of any address.
    pub fn refuse_to_connect(&mut self, ports: impl IntoIterator<Item = u16>) {
        if self.abi >= WITH_PORTS {
            self.handled.network |= CONNECT_TCP;
            self.ports.extend(ports.into_iter().map(|port| (port, CONNECT_TCP)));
        }
    }

    /// Refuses signals to processes outside.
    pub fn refuse_signals(&mut self) {
        if self.abi >= WITH_SCOPES {
            self.handled.scopes |= SIGNALS;
        }
    }

    /// Refuses connections to abstract sockets of processes outside.
    pub fn refuse_abstract_sockets(&mut self) {
        if self.abi >= WITH_SCOPES {
            self.handled.scopes |= ABSTRACT_SOCKETS;
        }
    }

    /// Enforces the ruleset for this thread and for all threads and processes that it creates from
    /// now on. The thread must have `no_new_privs` set, or the capability `CAP_SYS_ADMIN`.
    ///
    /// Async-signal-safe.
    ///
    /// # Errors
    /// The error of a system call.
    pub fn enforce(&self) -> io::Result<()> {
        let RulesetAttributes { files, network, scopes } = self.handled;
        if (files, network, scopes) == (0, 0, 0) {
            return Ok(());
        }
        let ruleset = self.create()?;
        for rule in &self.paths {
            self.add_path(&ruleset, rule)?;
        }
        for &(port, rights) in &self.ports {
            let rule = NetPort { rights, port: port.into() };
            // SAFETY: the kernel reads one `struct landlock_net_port_attr`.
            unsafe { add_rule(&ruleset, NET_PORT, (&raw const rule).cast()) }?;
        }
        // SAFETY: no memory arguments.
        let result =
            unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0) };
        check(i32::try_from(result).unwrap_or(-1))?;
        Ok(())
    }

    fn create(&self) -> io::Result<OwnedFd> {
        // An older kernel knows the structure's beginning.
        let size = match self.abi {
            ..WITH_PORTS => 8,
            WITH_PORTS..WITH_SCOPES => 16,
            _ => 24,
        };
        // SAFETY: the kernel reads `size` bytes of a live structure.
        let fd = unsafe {
            libc::syscall(
                libc::SYS_landlock_create_ruleset,
                &raw const self.handled,
                size as libc::size_t,
                0,
            )
        };
        let fd = check(i32::try_from(fd).unwrap_or(-1))?;
        // SAFETY: fresh descriptor, owned by nobody else.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }

    fn add_path(&self, ruleset: &OwnedFd, rule: &PathRule) -> io::Result<()> {
        let opened = match rule.follows_links {
            true => open::linked(&rule.path, Access::Point),
            false => open::unlinked(&rule.path, Access::Point),
        };
        let Ok(parent) = opened else {
            return Ok(()); // There is nothing to grant.
        };
        // SAFETY: an all-zero `statx` is a valid value of that plain C struct.
        let mut stat: libc::statx = unsafe { std::mem::zeroed() };
        let (file, kind) = (parent.as_raw_fd(), libc::STATX_TYPE);
        // As the kernel has it in memory: a file system that hangs is not waited for.
        let flags = libc::AT_EMPTY_PATH | libc::AT_STATX_DONT_SYNC;
        // SAFETY: the name is NUL-terminated, and `stat` is live.
        check(unsafe { libc::statx(file, c"".as_ptr(), flags, kind, &raw mut stat) })?;
        let mut rights = rule.rights.0 & self.handled.files;
        if u32::from(stat.stx_mode) & libc::S_IFMT != libc::S_IFDIR {
            rights &= FileRights::OF_FILES.0;
        }
        if rights == 0 {
            return Ok(());
        }
        let rule = PathBeneath { rights, parent: parent.as_raw_fd() };
        // SAFETY: the kernel reads one `struct landlock_path_beneath_attr`.
        match unsafe { add_rule(ruleset, PATH_BENEATH, (&raw const rule).cast()) } {
            // Files of the kernel's own, such as sockets and namespaces, take no rules.
            Err(error) if error.raw_os_error() == Some(libc::EBADFD) => Ok(()),
            result => result,
        }
    }
}

/// # Safety
/// `rule` points to the structure that `kind` means.
unsafe fn add_rule(
    ruleset: &OwnedFd,
    kind: libc::c_int,
    rule: *const libc::c_void,
) -> io::Result<()> {
    // SAFETY: as the caller vouches.
    let result =
        unsafe { libc::syscall(libc::SYS_landlock_add_rule, ruleset.as_raw_fd(), kind, rule, 0) };
    check(i32::try_from(result).unwrap_or(-1))?;
    Ok(())
}
