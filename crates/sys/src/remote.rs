//! File systems that another machine or another process answers for, and that may hang.

use std::collections::HashMap;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::check;
use crate::open::{self, Lookup};

/// Time for which the kind of a file system is believed: its number may be another's later.
const BELIEVED: Duration = Duration::from_secs(10);
/// Kinds that are remembered. Beyond, the one that was found out first is forgotten: a folder may
/// have any number of file systems below it, such as subvolumes of btrfs.
const MOST_KNOWN: usize = 256;

/// By device: whether its file system may hang, and until when that is believed.
static KNOWN: Mutex<Option<HashMap<Device, (bool, Instant)>>> = Mutex::new(None);

/// Major and minor number.
type Device = (u32, u32);

/// Returns whether a question about `file` may have to wait for another machine or process. Never
/// waits itself. `false` where that cannot be found out.
pub fn may_hang(file: BorrowedFd<'_>) -> bool {
    match device(file) {
        // Local file systems on disks. The others have numbers without a device.
        Ok((major, _)) if major != 0 => false,
        Ok(device) => is_remote(device, Instant::now()),
        Err(_) => false,
    }
}

/// Returns whether there is a folder at an absolute path without links, all of whose parts are on
/// file systems that do not hang. Never waits for another machine or process, from Linux 5.12 on.
pub fn is_local_folder(path: &Path) -> bool {
    find_local(path).is_ok()
}

fn find_local(path: &Path) -> io::Result<()> {
    let mut at = open::folder(c"/", Lookup::Full)?;
    for part in path.components() {
        let name = match part {
            Component::Normal(name) => CString::new(name.as_bytes())?,
            Component::RootDir | Component::CurDir => continue,
            _ => return Err(io::ErrorKind::InvalidInput.into()),
        };
        at = open::local_step(at.as_fd(), &name)?;
    }
    Ok(())
}

/// The device of the file's file system, as the kernel has it in memory.
fn device(file: BorrowedFd<'_>) -> io::Result<Device> {
    let flags = libc::AT_EMPTY_PATH | libc::AT_STATX_DONT_SYNC;
    // SAFETY: an all-zero `statx` is a valid value of that plain C struct.
    let mut found: libc::statx = unsafe { std::mem::zeroed() };
    // SAFETY: the name is NUL-terminated, and `found` is live.
    check(unsafe { libc::statx(file.as_raw_fd(), c"".as_ptr(), flags, 0, &raw mut found) })?;
    Ok((found.stx_dev_major, found.stx_dev_minor))
}

fn is_remote(device: Device, now: Instant) -> bool {
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let known = known.get_or_insert_default();
    if let Some((is_remote, until)) = known.get(&device)
        && now < *until
    {
        return *is_remote;
    }
    if known.len() >= MOST_KNOWN
        && let Some((&first, _)) = known.iter().min_by_key(|(_, (_, until))| *until)
    {
        known.remove(&first);
    }
    // The kernel answers without asking any file system.
    let mounts = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
    // A mount's folder may have a name of any bytes.
    let mounts = String::from_utf8_lossy(&mounts);
    let is_remote = mounts.lines().any(|line| line_has(line, device));
    known.insert(device, (is_remote, now + BELIEVED));
    is_remote
}

/// Returns whether a line of `/proc/self/mountinfo` is that of a remote file system with this
/// device. See proc_pid_mountinfo(5).
fn line_has(line: &str, (major, minor): Device) -> bool {
    let number = format!("{major}:{minor}");
    let kind = line.split_once(" - ").and_then(|(_, rest)| rest.split(' ').next());
    line.split(' ').nth(2) == Some(number.as_str()) && kind.is_some_and(is_remote_kind)
}

fn is_remote_kind(kind: &str) -> bool {
    const KINDS: [&str; 18] = [
        "9p", "afs", "autofs", "beegfs", "ceph", "cifs", "coda", "fuse", "gfs2", "lustre", "ncpfs",
        "nfs", "nfs4", "ocfs2", "orangefs", "smb3", "smbfs", "virtiofs",
    ];
    KINDS.contains(&kind) || kind.starts_with("fuse.")
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn kinds_of_file_systems() {
        let line = |device: &str, kind: &str| {
            format!("97 35 {device} / /srv/a rw,noatime shared:65 master:1 - {kind} host:/a rw")
        };
        for (device, kind, expected) in [
            ("0:52", "nfs4", true),
            ("0:52", "fuse.sshfs", true),
            ("0:52", "overlay", false),
            ("0:5", "nfs4", false),
            ("8:52", "nfs4", false),
        ] {
            assert_eq!(line_has(&line(device, kind), (0, 52)), expected, "{device} {kind}");
        }
        assert!(!line_has("", (0, 52)));
    }

    #[test]
    fn folders_of_this_machine() {
        let folder = std::env::temp_dir().canonicalize().unwrap();
        let folder = folder.join(format!("howdah-remote-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("in")).unwrap();
        std::os::unix::fs::symlink("in", folder.join("link")).unwrap();
        std::fs::write(folder.join("file"), "").unwrap();
        for (name, expected) in
            [("in", true), (".", true), ("link", false), ("file", false), ("none", false)]
        {
            assert_eq!(is_local_folder(&folder.join(name)), expected, "{name}");
        }
        // Something else is mounted at the second one.
        assert!(is_local_folder(Path::new("/")) && is_local_folder(Path::new("/proc")));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_folder_with_many_file_systems_makes_no_others_forgotten() {
        let (now, number) = (Instant::now(), |minor: usize| (0, 1_000_000 + minor as u32));
        for minor in 0..=MOST_KNOWN {
            is_remote(number(minor), now + Duration::from_millis(minor as u64));
        }
        let known = KNOWN.lock().unwrap();
        let known = known.as_ref().unwrap();
        assert!((MOST_KNOWN / 2..MOST_KNOWN).all(|minor| known.contains_key(&number(minor))));
        assert!(known.len() <= MOST_KNOWN);
    }

    #[test]
    fn what_the_kernel_makes_up_never_hangs() {
        assert!(!may_hang(File::open("/proc").unwrap().as_fd()));
    }
}
