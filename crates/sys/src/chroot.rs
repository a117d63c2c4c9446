//! `chroot(2)` for a process without root's user.
//!
//! A parent with root's rights starts a program with the capability for the call
//! ([`Confinement::may_change_root`](crate::confinement::Confinement::may_change_root)). The
//! program puts it aside at once ([`put_right_aside`]), so that no program which it executes has
//! it. A child that runs untrusted code changes its root folder first, and thereby gives the
//! capability up ([`RootFolder::enter`]).

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::check;
use crate::open::{self, Access};

/// The number of the capability (`CAP_SYS_CHROOT`).
const CHANGE_ROOT: u32 = 18;

/// Keeps the capability over the next change of user, and no other one.
///
/// Async-signal-safe.
///
/// # Errors
/// The error of `prctl(2)`.
pub(crate) fn keep_over_change_of_user() -> io::Result<()> {
    // SAFETY: no memory arguments.
    check(unsafe { libc::prctl(libc::PR_SET_KEEPCAPS, 1, 0, 0, 0) })?;
    Ok(())
}

/// Gives the program that this process executes next the capability, and no other one. Called after
/// the change of user.
///
/// Async-signal-safe.
///
/// # Errors
/// The error of `capset(2)` or `prctl(2)`, such as `EPERM` where the process does not have the
/// capability.
pub(crate) fn pass_on() -> io::Result<()> {
    let own = 1 << CHANGE_ROOT;
    set(Capabilities {
        effective: 0,
        permitted: own,
        inheritable: own,
    })?;
    let raise = libc::PR_CAP_AMBIENT_RAISE as libc::c_ulong;
    // SAFETY: no memory arguments.
    check(unsafe {
        libc::prctl(libc::PR_CAP_AMBIENT, raise, libc::c_ulong::from(CHANGE_ROOT), 0, 0)
    })?;
    Ok(())
}

/// Takes the capability out of effect, and from programs that this process executes.
/// [`RootFolder::enter`] uses it.
///
/// # Errors
/// This process does not have it.
pub fn put_right_aside() -> io::Result<()> {
    // Without inheriting it, no program has it: the ambient set follows.
    set(Capabilities {
        effective: 0,
        permitted: 1 << CHANGE_ROOT,
        inheritable: 0,
    })
}

/// A folder to be the root folder of processes.
#[derive(Debug)]
pub struct RootFolder(OwnedFd);

impl RootFolder {
    /// Opens the folder at `path`, which must have no symbolic link: its owner could replace it.
    ///
    /// # Errors
    /// The error of `openat2(2)`, `ELOOP` for a link.
    pub fn open(path: &Path) -> io::Result<RootFolder> {
        let path = CString::new(path.as_os_str().as_bytes())?;
        open::unlinked(&path, Access::Folder).map(RootFolder)
    }

    /// Makes the folder the root and the working directory of this process, which must have one
    /// thread, and gives up all capabilities.
    ///
    /// # Errors
    /// The process did not have the capability, or the folder cannot be entered. The process still
    /// has its former root folder.
    pub fn enter(&self) -> io::Result<()> {
        let own = 1 << CHANGE_ROOT;
        set(Capabilities {
            effective: own,
            permitted: own,
            inheritable: 0,
        })?;
        // SAFETY: the descriptor is open.
        check(unsafe { libc::fchdir(self.0.as_raw_fd()) })?;
        // SAFETY: a NUL-terminated string.
        check(unsafe { libc::chroot(c".".as_ptr()) })?;
        set(Capabilities::default())
    }
}

/// Sets of capabilities below 32, as bits.
#[derive(Debug, Clone, Copy, Default)]
struct Capabilities {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// Sets the capabilities of this thread.
fn set(wanted: Capabilities) -> io::Result<()> {
    let Capabilities { effective, permitted, inheritable } = wanted;
    // The second three are the capabilities above.
    crate::process::set_capabilities(&[effective, permitted, inheritable, 0, 0, 0])
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::io::Read;

    use super::*;
    use crate::confinement::Confinement;
    use crate::credentials::Identity;
    use crate::process::{Program, wait};

    fn capabilities() -> String {
        let status = fs::read_to_string("/proc/thread-self/status").unwrap();
        let lines = status.lines().filter(|line| line.starts_with("Cap") && !line.contains("Bnd"));
        lines.map(|line| line.trim_start_matches(char::is_alphabetic)).collect()
    }

    /// The capability is passed to the program, and to nothing that the program executes after it
    /// was put aside.
    #[test]
    fn a_program_of_another_user_may_change_its_root_once() {
        if !Identity::current().unwrap().is_root() {
            howdah_skip::skip!("needs root");
            return;
        }
        let (mut reader, writer) = io::pipe().unwrap();
        let writer = OwnedFd::from(writer);
        let program = Program {
            path: c"/bin/sh".to_owned(),
            arguments: vec![
                c"sh".to_owned(),
                c"-c".to_owned(),
                c"id -u; grep -E 'Cap(Prm|Eff)' /proc/self/status | cut -f2".to_owned(),
            ],
            environment: vec![c"PATH=/usr/bin:/bin".to_owned()],
            descriptors: vec![
                File::open("/dev/null").unwrap().into(),
                writer.try_clone().unwrap(),
                writer,
            ],
            identity: Identity::of_user("nobody", None).unwrap(),
            umask: 0o022,
            descriptor_limit: None,
            death_signal: None,
            confinement: Confinement {
                no_new_privileges: true,
                may_change_root: true,
                ..Confinement::default()
            },
        };
        let pid = program.start().unwrap();
        drop(program);
        let mut told = String::new();
        reader.read_to_string(&mut told).unwrap();
        wait(pid).unwrap();
        let uid = Identity::of_user("nobody", None).unwrap().unwrap().uid;
        assert_eq!(told, format!("{uid}\n{0}\n{0}\n", "0000000000040000"));
    }

    #[test]
    fn a_process_without_the_right_keeps_its_root() {
        if Identity::current().unwrap().is_root() {
            // In a thread of its own: capabilities belong to threads.
            let had = std::thread::spawn(|| {
                set(Capabilities::default()).unwrap();
                assert!(capabilities().chars().all(|one| "0: \t".contains(one)));
                put_right_aside().is_ok()
            });
            assert!(!had.join().unwrap());
        }
        let link = std::env::temp_dir().join(format!("howdah-chroot-{}", std::process::id()));
        let _ = fs::remove_file(&link);
        std::os::unix::fs::symlink("/", &link).unwrap();
        let refused = RootFolder::open(&link).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::ELOOP));
        fs::remove_file(&link).unwrap();
    }
}
