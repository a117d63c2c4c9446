//! Users and groups: the identity of a process, and how it permanently gives up rights.

use std::ffi::{CStr, CString};
use std::io;

use crate::check;
use crate::stat::Stat;

/// A user and groups that a process can run as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The user's name, or the user's number if there is no name.
    pub name: String,
    /// User id.
    pub uid: u32,
    /// Primary group id.
    pub gid: u32,
    /// All group ids, including the primary one.
    pub groups: Vec<u32>,
}

impl Identity {
    /// The identity of this process.
    ///
    /// # Errors
    /// The kernel or the user database cannot be read.
    pub fn current() -> io::Result<Identity> {
        // SAFETY: these calls have no arguments and cannot fail.
        let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
        let mut groups = vec![0; 64];
        loop {
            let room =
                libc::c_int::try_from(groups.len()).map_err(|_| io::ErrorKind::OutOfMemory)?;
            // SAFETY: `groups` has room for that many.
            match check(unsafe { libc::getgroups(room, groups.as_mut_ptr()) }) {
                Ok(count) => {
                    groups.truncate(usize::try_from(count).unwrap_or(0));
                    break;
                }
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                    groups.resize(groups.len() * 4, 0)
                }
                Err(error) => return Err(error),
            }
        }
        let name = user_name(uid)?.unwrap_or_else(|| uid.to_string());
        Ok(Identity { name, uid, gid, groups })
    }

    /// Looks up the user called `name` with the groups of the user database. `group` replaces the
    /// primary group. `Ok(None)`: there is no such user.
    ///
    /// # Errors
    /// The user database cannot be read.
    pub fn of_user(name: &str, group: Option<u32>) -> io::Result<Option<Identity>> {
        let key = CString::new(name)?;
        let Some((uid, primary)) = look_up(|record, room, length, found| {
            // SAFETY: all pointers are live for the call, `key` is NUL-terminated.
            unsafe { libc::getpwnam_r(key.as_ptr(), record, room, length, found) }
        })?
        .map(|record| (record.0.pw_uid, record.0.pw_gid)) else {
            return Ok(None);
        };
        let gid = group.unwrap_or(primary);
        Ok(Some(Identity {
            name: name.to_owned(),
            uid,
            gid,
            groups: groups_of(&key, gid)?,
        }))
    }

    /// Returns whether this is the superuser.
    pub fn is_root(&self) -> bool {
        self.uid == 0
    }

    /// Returns whether the permission bits of a file, or of a folder, give this identity `right`.
    /// Access control lists are not considered; [`Stat::has_access_list`] tells whether there is
    /// one.
    pub fn may(&self, right: FileRight, stat: &Stat) -> bool {
        let bits = match () {
            () if stat.owner == self.uid => stat.mode >> 6,
            () if stat.group == self.gid || self.groups.contains(&stat.group) => stat.mode >> 3,
            () => stat.mode,
        };
        self.is_root() || bits & right as u32 != 0
    }
}

/// A right to a file or folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileRight {
    /// To read the bytes of a file.
    Read = 4,
    /// To enter a folder.
    Enter = 1,
}

/// Looks up the id of the group called `name`. `Ok(None)`: there is no such group.
///
/// # Errors
/// The group database cannot be read.
pub fn group_number(name: &str) -> io::Result<Option<u32>> {
    let key = CString::new(name)?;
    let found = look_up(|record: *mut libc::group, room, length, found| {
        // SAFETY: all pointers are live for the call, `key` is NUL-terminated.
        unsafe { libc::getgrnam_r(key.as_ptr(), record, room, length, found) }
    })?;
    Ok(found.map(|record| record.0.gr_gid))
}

/// Returns the name of the group `gid`. `Ok(None)`: there is no such group.
///
/// # Errors
/// The group database cannot be read.
pub fn group_name(gid: u32) -> io::Result<Option<String>> {
    let found = look_up(|record: *mut libc::group, room, length, found| {
        // SAFETY: all pointers are live for the call.
        unsafe { libc::getgrgid_r(gid, record, room, length, found) }
    })?;
    Ok(found.map(|(record, _room)| {
        // SAFETY: the name is a NUL-terminated string in the room, which lives here.
        let name = unsafe { CStr::from_ptr(record.gr_name) };
        name.to_string_lossy().into_owned()
    }))
}

/// Returns the user that this process runs as.
pub fn own_user() -> u32 {
    // SAFETY: geteuid has no preconditions.
    unsafe { libc::geteuid() }
}

/// Returns the name of the user `uid`. `Ok(None)`: there is no such user.
///
/// # Errors
/// The user database cannot be read.
pub fn user_name(uid: u32) -> io::Result<Option<String>> {
    Ok(user_entry(uid)?.map(|(name, _)| name))
}

/// Returns the name and the home of the user `uid`. `Ok(None)`: there is no such user.
///
/// # Errors
/// The user database cannot be read.
pub fn user_entry(uid: u32) -> io::Result<Option<(String, String)>> {
    let found = look_up(|record: *mut libc::passwd, room, length, found| {
        // SAFETY: all pointers are live for the call.
        unsafe { libc::getpwuid_r(uid, record, room, length, found) }
    })?;
    let found = found.map(|(record, _buffer)| {
        [record.pw_name, record.pw_dir].map(|text| {
            // SAFETY: the text is NUL-terminated and points into the buffer, which lives as long as
            // this block.
            unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
        })
    });
    Ok(found.map(|[name, home]| (name, home)))
}

/// Calls a function of the `get…_r` family with a buffer that grows until it is large enough. The
/// record points into the returned buffer.
fn look_up<Record>(
    call: impl Fn(*mut Record, *mut libc::c_char, usize, *mut *mut Record) -> libc::c_int,
) -> io::Result<Option<(Record, Vec<libc::c_char>)>> {
    let mut room = vec![0; 4096];
    loop {
        // SAFETY: `passwd` and `group` are plain C structs for which all-zero is valid.
        let mut record: Record = unsafe { std::mem::zeroed() };
        let mut found = std::ptr::null_mut();
        match call(&raw mut record, room.as_mut_ptr(), room.len(), &raw mut found) {
            0 if found.is_null() => return Ok(None),
            0 => return Ok(Some((record, room))),
            libc::ERANGE if room.len() < 1 << 24 => room.resize(room.len() * 4, 0),
            libc::EINTR => {}
            // Some databases return these errors for a missing entry.
            libc::ENOENT | libc::ESRCH | libc::EBADF | libc::EPERM => return Ok(None),
            error => return Err(io::Error::from_raw_os_error(error)),
        }
    }
}

fn groups_of(user: &CStr, primary: u32) -> io::Result<Vec<u32>> {
    let mut groups = vec![0; 64];
    loop {
        let mut count =
            libc::c_int::try_from(groups.len()).map_err(|_| io::ErrorKind::OutOfMemory)?;
        // SAFETY: `groups` has room for `count` numbers.
        let result = unsafe {
            libc::getgrouplist(user.as_ptr(), primary, groups.as_mut_ptr(), &raw mut count)
        };
        let count = usize::try_from(count).unwrap_or(0);
        if result >= 0 {
            groups.truncate(count);
            return Ok(groups);
        }
        groups.resize(count.max(groups.len() * 2), 0);
    }
}

/// Changes this process to `identity` permanently: supplementary groups first, the user last,
/// because only root may change the groups. Verifies afterwards that there is no way back.
///
/// Async-signal-safe. The error names the failed step.
///
/// # Errors
/// The system call that failed, and its error; `PermissionDenied` where there is a way back to
/// root's rights.
pub(crate) fn assume(identity: &Identity) -> Result<(), (&'static str, io::Error)> {
    let Identity { uid, gid, groups, .. } = identity;
    // SAFETY: `groups` is a live array of that length.
    check(unsafe { libc::setgroups(groups.len(), groups.as_ptr()) })
        .map_err(|error| ("setgroups", error))?;
    // SAFETY: no memory arguments.
    check(unsafe { libc::setresgid(*gid, *gid, *gid) }).map_err(|error| ("setgid", error))?;
    // SAFETY: no memory arguments.
    check(unsafe { libc::setresuid(*uid, *uid, *uid) }).map_err(|error| ("setuid", error))?;
    let (mut users, mut our_groups) = ([u32::MAX; 3], [u32::MAX; 3]);
    let [real, effective, saved] = &mut users;
    // SAFETY: three live numbers.
    check(unsafe { libc::getresuid(real, effective, saved) })
        .map_err(|error| ("getresuid", error))?;
    let [real, effective, saved] = &mut our_groups;
    // SAFETY: three live numbers.
    check(unsafe { libc::getresgid(real, effective, saved) })
        .map_err(|error| ("getresgid", error))?;
    // SAFETY: no memory arguments; it must fail, and nothing relies on it.
    let way_back = *uid != 0 && unsafe { libc::setuid(0) } == 0;
    if users != [*uid; 3] || our_groups != [*gid; 3] || way_back {
        return Err(("giving up root's rights", io::ErrorKind::PermissionDenied.into()));
    }
    Ok(())
}

/// Runs `task` on a thread of its own, which has the rights of `identity`. The other threads keep
/// theirs. Only root may take another identity.
///
/// # Errors
/// There is no thread, or the kernel refuses.
pub fn with_rights_of<T: Send>(
    identity: &Identity,
    task: impl FnOnce() -> T + Send,
) -> io::Result<T> {
    std::thread::scope(|scope| {
        let run = || {
            assume_in_thread(identity)?;
            Ok(task())
        };
        let thread = std::thread::Builder::new().spawn_scoped(scope, run)?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Changes this thread to `identity` permanently. The calls of the C library would change all
/// threads; those of the kernel change one.
fn assume_in_thread(identity: &Identity) -> io::Result<()> {
    let Identity { uid, gid, groups, .. } = identity;
    // SAFETY: `groups` is a live array of that length.
    check_long(unsafe { libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()) })?;
    // SAFETY: no memory arguments.
    check_long(unsafe { libc::syscall(libc::SYS_setresgid, *gid, *gid, *gid) })?;
    // SAFETY: no memory arguments.
    check_long(unsafe { libc::syscall(libc::SYS_setresuid, *uid, *uid, *uid) })
}

fn check_long(result: libc::c_long) -> io::Result<()> {
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_root() {
        let root = Identity::of_user("root", None).unwrap().unwrap();
        assert_eq!((root.uid, root.gid, root.is_root()), (0, 0, true));
        assert!(root.groups.contains(&0));
        assert_eq!(user_name(0).unwrap().as_deref(), Some("root"));
    }

    #[test]
    fn a_group_replaces_the_primary_one() {
        let daemon = group_number("daemon").unwrap().unwrap();
        let root = Identity::of_user("root", Some(daemon)).unwrap().unwrap();
        assert_eq!(root.gid, daemon);
        assert!(root.groups.contains(&daemon));
    }

    #[test]
    fn the_first_class_that_fits_decides() {
        let time = crate::stat::FileTime { seconds: 0, nanoseconds: 0 };
        let stat = |mode, owner, group| Stat {
            device: 0,
            inode: 0,
            mode: libc::S_IFREG | mode,
            owner,
            group,
            size: 0,
            modified: time,
            changed: time,
        };
        let who = Identity {
            name: String::new(),
            uid: 10,
            gid: 20,
            groups: vec![20, 30],
        };
        let rows = [
            (0o400, 10, 1, FileRight::Read, true),
            (0o044, 10, 20, FileRight::Read, false), // The owner is no part of the group.
            (0o040, 1, 20, FileRight::Read, true),
            (0o040, 1, 30, FileRight::Read, true),
            (0o404, 1, 30, FileRight::Read, false),
            (0o004, 1, 1, FileRight::Read, true),
            (0o440, 1, 1, FileRight::Read, false),
            (0o006, 1, 1, FileRight::Enter, false),
            (0o001, 1, 1, FileRight::Enter, true),
        ];
        for (mode, owner, group, right, expected) in rows {
            assert_eq!(who.may(right, &stat(mode, owner, group)), expected, "{mode:o}");
        }
        let root = Identity { uid: 0, ..who };
        assert!(root.may(FileRight::Read, &stat(0, 1, 1)));
    }

    #[test]
    fn nobody_of_that_name() {
        assert_eq!(Identity::of_user("no-such-user-here", None).unwrap(), None);
        assert_eq!(group_number("no-such-group-here").unwrap(), None);
    }

    #[test]
    fn one_thread_has_the_rights_of_another_user() {
        let own = Identity::current().unwrap();
        if !own.is_root() {
            return;
        }
        let place = std::env::temp_dir().join(format!("howdah-rights-{}", std::process::id()));
        std::fs::write(&place, "secret").unwrap();
        std::os::unix::fs::chown(&place, Some(0), Some(11)).unwrap();
        let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o640);
        std::fs::set_permissions(&place, permissions).unwrap();
        let who = |groups: &[u32]| Identity {
            name: String::new(),
            uid: 10,
            gid: 10,
            groups: groups.to_vec(),
        };
        let read = || std::fs::read(&place).is_ok();
        assert!(!with_rights_of(&who(&[10]), read).unwrap());
        assert!(with_rights_of(&who(&[10, 11]), read).unwrap());
        assert!(read(), "this thread is root's");
        assert_eq!(Identity::current().unwrap(), own);
        std::fs::remove_file(&place).unwrap();
    }

    #[test]
    fn this_process_is_somebody() {
        // SAFETY: no arguments.
        assert_eq!(Identity::current().unwrap().uid, unsafe { libc::geteuid() });
    }
}
