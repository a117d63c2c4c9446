//! The folders for the pools' temporary files, uploads and sessions.

use std::ffi::{CStr, OsStr};
use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use howdah_files::FolderPlace;
use howdah_sys::credentials::Identity;
use howdah_sys::stat::Stat;
use howdah_sys::{folder, open};

/// A state folder that exists and belongs to its owner.
#[derive(Debug)]
pub(crate) struct StateFolder {
    /// The path without symbolic links.
    pub(crate) real: PathBuf,
    pub(crate) folder: OwnedFd,
}

/// A pool's state folder as the starts of its zygotes have found it.
#[derive(Debug, Default)]
pub(super) struct StateRecord {
    /// The fault at the last start.
    pub(super) fault: Option<StateFault>,
    /// The folder at the first start; `None` before it, and if another program has started the
    /// zygote.
    pub(super) folder: Option<FolderIdentity>,
}

/// A folder, whatever its name is: its device and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FolderIdentity {
    device: u64,
    inode: u64,
}

impl StateRecord {
    /// Notes the result of [`prepare`].
    pub(super) fn note(&mut self, prepared: &Result<StateFolder, String>) {
        self.fault = prepared.is_err().then_some(StateFault::Refused);
        let found = prepared.as_ref().ok().and_then(|state| Stat::of(state.folder.as_fd()).ok());
        self.folder = self
            .folder
            .or(found.map(|found| FolderIdentity { device: found.device, inode: found.inode }));
    }
}

/// The reason why a pool has no state folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StateFault {
    /// [`prepare`] has refused what is in its place.
    Refused,
    /// A folder in it could not be made, and the owner may have kept it from being made.
    Contested,
}

impl StateFault {
    /// Returns the fault that an error of [`make_inner`] is; `None` where no owner of a state
    /// folder causes such an error: the disk is full, or the system has no descriptors.
    pub(super) fn of_inner(error: &io::Error) -> Option<StateFault> {
        use io::ErrorKind::{QuotaExceeded, TooManyLinks};
        let is_owners = is_passing(error) || [QuotaExceeded, TooManyLinks].contains(&error.kind());
        is_owners.then_some(StateFault::Contested)
    }
}

/// Makes sure that a folder of `owner`, which no other user may enter, is at `place`. Changes of
/// the owner to the folders in it are undone: he must not keep a new configuration from coming into
/// force. `ours` is this process's user.
///
/// # Errors
/// The reason, as text for the operator.
pub(super) fn prepare(
    place: FolderPlace,
    owner: &Identity,
    ours: &Identity,
) -> Result<StateFolder, String> {
    let refused = |path: &Path, error: &io::Error| {
        format!(
            "the state folder {}: {error}; remove it, give it to {}, or set `php.state_dir`",
            path.display(),
            owner.name
        )
    };
    let parent = parent(&place, owner, ours).map_err(|(path, error)| refused(&path, &error))?;
    let folder = folder::make_private(parent.as_fd(), &place.name, owner.uid, owner.gid)
        .map_err(|error| refused(&place.real, &error))?;
    // Where the server runs as the same user, it is the administrator who has done it.
    for name in FOLDERS.into_iter().filter(|_| is_anothers(owner, ours)) {
        // The owner can put something there again: the zygote does the rest, and goes on without
        // the folder.
        let _ = cleared(folder.as_fd(), name, owner);
    }
    Ok(StateFolder { real: place.real, folder })
}

/// Returns whether the state folder of `owner` belongs to a site's owner, and not to the
/// administrator. `ours` is this process's user.
pub(super) fn is_anothers(owner: &Identity, ours: &Identity) -> bool {
    owner.uid != ours.uid
}

/// Opens the folder `name` in a state folder of `owner`, made where it is missing. A file that
/// `owner` puts in its place meanwhile is removed, [`ATTEMPTS`] times.
///
/// # Errors
/// The folder cannot be made, or is in the way again and again.
pub(super) fn make_inner(
    state: BorrowedFd<'_>,
    name: &CStr,
    owner: &Identity,
    ours: &Identity,
) -> io::Result<OwnedFd> {
    let make = || folder::make_private(state, name, owner.uid, owner.gid);
    let mut made = make();
    for _ in 1..ATTEMPTS {
        match &made {
            Err(error) if is_anothers(owner, ours) && is_passing(error) => {
                let _ = cleared(state, name, owner);
                made = make();
            }
            _ => break,
        }
    }
    made
}

/// Returns whether an error may come from what the owner has just put there or taken away.
fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{AlreadyExists, NotADirectory, NotFound, PermissionDenied};
    [AlreadyExists, NotADirectory, NotFound, PermissionDenied].contains(&error.kind())
        || open::is_link_refused(error)
}

fn cleared(state: BorrowedFd<'_>, name: &CStr, owner: &Identity) -> io::Result<()> {
    folder::clear_way(state, name, owner.uid)?;
    folder::repair_mode(state, name, owner.uid)
}

/// Attempts at making a folder whose owner may put something else in its place.
const ATTEMPTS: u32 = 100;

/// Creates the folders above a folder of `owner`, and opens the last one. `ours` is this process's
/// user.
///
/// # Errors
/// The folder that is in the way, and why: another user could put a folder of his own there.
pub(super) fn parent(
    place: &FolderPlace,
    owner: &Identity,
    ours: &Identity,
) -> Result<OwnedFd, (PathBuf, io::Error)> {
    let refused = |error| (place.real.parent().unwrap_or(&place.real).to_owned(), error);
    let parent = place.parent().map_err(refused)?;
    let found = Stat::of(parent.as_fd()).map_err(refused)?;
    // The owner of the parent folder can replace the folder at any time.
    match [0, ours.uid, owner.uid].contains(&found.owner) {
        true => Ok(parent),
        false => Err(refused(io::Error::other(format!("it belongs to user {}", found.owner)))),
    }
}

/// Opens the folder at `path`, which belongs to this process's user, `ours`, and which no other
/// user may enter. Creates it, and those above, where they are missing.
///
/// # Errors
/// The folder that is in the way, and why.
pub(super) fn own_folder(path: &Path, ours: &Identity) -> Result<OwnedFd, (PathBuf, io::Error)> {
    let place = FolderPlace::of(path).map_err(|error| (path.to_owned(), error))?;
    let parent = parent(&place, ours, ours)?;
    folder::make_private(parent.as_fd(), &place.name, ours.uid, ours.gid)
        .map_err(|error| (place.real, error))
}

/// Returns whether `owner` has made something of the state folder `path`, of a folder in it or of
/// the way to it that keeps the pool from starting. `fault` is what the last start has met, and the
/// owner may have put things right since. `ours` is this process's user. `false` where that is the
/// owner, too: then its folders are the administrator's own.
pub(super) fn is_spoilt(
    path: &Path,
    fault: Option<StateFault>,
    owner: &Identity,
    ours: &Identity,
) -> bool {
    if owner.is_root() || !is_anothers(owner, ours) {
        return false;
    }
    let is_of_owner = |at: &Path| fs::symlink_metadata(at).is_ok_and(|it| it.uid() == owner.uid);
    let is_unusable = |at: &Path| {
        fs::symlink_metadata(at).is_ok_and(|it| !it.is_dir() || it.mode() & 0o700 != 0o700)
    };
    let is_folder = |at: &Path| fs::symlink_metadata(at).is_ok_and(|it| it.is_dir());
    let is_blocked = path.ancestors().any(|at| is_of_owner(at) && is_unusable(at));
    // The folder itself is always the owner's. Above it, the owner can put anything in its place.
    let is_missing = fault == Some(StateFault::Refused) || !is_folder(path);
    let is_replaced = is_missing && path.ancestors().skip(1).any(is_of_owner);
    let in_it = FOLDERS.iter().map(|name| path.join(text(name)));
    let is_contested = fault == Some(StateFault::Contested);
    is_contested
        || is_blocked
        || is_replaced
        || is_of_owner(path) && in_it.into_iter().any(|at| is_unusable(&at))
}

/// Returns whether PHP does not start since `owner` has put something else in the place of the
/// state folder `path`, or keeps folders in it from being made. `former` is the folder with which
/// PHP has started before, `None` if that is not known; `record` is of the start that has failed.
/// `ours` is this process's user. `false` where that is the owner, too.
pub(super) fn is_replaced(
    path: &Path,
    former: Option<FolderIdentity>,
    record: &StateRecord,
    owner: &Identity,
    ours: &Identity,
) -> bool {
    if owner.is_root() || !is_anothers(owner, ours) {
        return false;
    }
    let present = fs::symlink_metadata(path).ok().filter(fs::Metadata::is_dir);
    let present = present.map(|it| FolderIdentity { device: it.dev(), inode: it.ino() });
    // The owner may have put the former folder there again since, or not yet at the start.
    let is_other = former.is_some() && (record.folder != former || present != former);
    let is_of_owner = |at: &Path| fs::symlink_metadata(at).is_ok_and(|it| it.uid() == owner.uid);
    match record.fault {
        Some(StateFault::Contested) => true,
        Some(StateFault::Refused) => path.ancestors().skip(1).any(is_of_owner),
        None => is_other && path.ancestors().skip(1).any(is_of_owner),
    }
}

/// The folders that a zygote makes in the state folder.
const FOLDERS: [&CStr; 4] = [c"tmp", c"var-tmp", c"uploads", c"sessions"];

fn text(name: &CStr) -> &OsStr {
    OsStr::from_bytes(name.to_bytes())
}

/// Creates a new folder in `temporary` that other users can traverse but not list.
///
/// # Errors
/// The error of `mkdir(2)`.
pub(crate) fn fresh(temporary: &Path) -> io::Result<PathBuf> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut number = since.as_nanos() & 0xFFFF_FFFF;
    loop {
        let path = temporary.join(format!("howdah-{}-{number:08x}", std::process::id()));
        match DirBuilder::new().mode(0o711).create(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            result => return result.map(|()| path),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    use rustix::fs::{CWD, RenameFlags, renameat_with};

    use super::*;

    fn prepared(path: &Path, owner: &Identity, ours: &Identity) -> Result<StateFolder, String> {
        let place = FolderPlace::of(path).map_err(|error| error.to_string())?;
        prepare(place, owner, ours)
    }

    fn seven() -> Identity {
        Identity {
            uid: 7,
            gid: 7,
            name: "seven".into(),
            groups: vec![7],
        }
    }

    /// The folder `site` of user 7, `site/var` in it with a link beside it, and the folder of user
    /// 8 that the link leads to.
    fn site_with_victim(top: &Path) -> (PathBuf, PathBuf, PathBuf) {
        let (var, link, victim) =
            (top.join("site/var"), top.join("site/link"), top.join("victim/public"));
        fs::create_dir_all(&var).unwrap();
        fs::create_dir_all(&victim).unwrap();
        std::os::unix::fs::symlink("../victim/public", &link).unwrap();
        for (path, user) in [(&*top.join("site"), 7), (&var, 7), (&link, 7), (&victim, 8)] {
            std::os::unix::fs::lchown(path, Some(user), Some(user)).unwrap();
        }
        (var, link, victim)
    }

    #[test]
    fn nothing_is_made_behind_a_link_that_comes_after_the_check() {
        let ours = Identity::current().unwrap();
        if !ours.is_root() {
            return;
        }
        let top = fresh(&std::env::temp_dir()).unwrap();
        let (var, link, victim) = site_with_victim(&top);
        let place = FolderPlace::of(&var.join("pools/state")).unwrap();
        exchange(&var, &link);
        prepare(place, &seven(), &ours).unwrap();
        exchange(&var, &link);
        assert!(var.join("pools/state").is_dir());
        // A folder that is missing is replaced before it is made.
        let place = FolderPlace::of(&var.join("other/state")).unwrap();
        std::os::unix::fs::symlink(&victim, var.join("other")).unwrap();
        prepare(place, &seven(), &ours).unwrap_err();
        assert_eq!(fs::read_dir(&victim).unwrap().count(), 0);
        fs::remove_dir_all(&top).unwrap();
    }

    #[test]
    fn nothing_is_made_behind_a_link_that_is_exchanged_without_pause() {
        let ours = Identity::current().unwrap();
        if !ours.is_root() {
            return;
        }
        let top = fresh(&std::env::temp_dir()).unwrap();
        let (var, link, victim) = site_with_victim(&top);
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Relaxed) {
                    exchange(&var, &link);
                }
            });
            for number in 0..500 {
                let _ = prepared(&var.join(format!("state{number}")), &seven(), &ours);
            }
            is_over.store(true, Relaxed);
        });
        assert_eq!(fs::read_dir(&victim).unwrap().count(), 0);
        fs::remove_dir_all(&top).unwrap();
    }

    fn exchange(one: &Path, other: &Path) {
        renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).unwrap();
    }

    #[test]
    fn an_owner_has_spoilt_what_it_can_change() {
        let ours = Identity::current().unwrap();
        if !ours.is_root() {
            return;
        }
        let owner = seven();
        let folder = fresh(&std::env::temp_dir()).unwrap();
        let state = folder.join("own/pool");
        let spoilt = || is_spoilt(&state, None, &owner, &ours);
        let give = |path: &Path| std::os::unix::fs::lchown(path, Some(7), Some(7)).unwrap();
        let link = |to: &str, path: &Path| std::os::unix::fs::symlink(to, path).unwrap();
        fs::create_dir(folder.join("own")).unwrap();
        assert!(!spoilt(), "nothing is there, and nobody but root could change it");
        fs::write(&state, "").unwrap();
        assert!(!spoilt(), "root has put a file there");
        fs::remove_file(&state).unwrap();
        prepared(&state, &owner, &ours).unwrap();
        assert!(!spoilt());
        fs::create_dir(state.join("tmp")).unwrap();
        fs::set_permissions(state.join("tmp"), Permissions::from_mode(0o700)).unwrap();
        assert!(!spoilt());
        fs::set_permissions(state.join("tmp"), Permissions::from_mode(0o0)).unwrap();
        assert!(spoilt());
        fs::remove_dir(state.join("tmp")).unwrap();
        link("/etc", &state.join("sessions"));
        assert!(spoilt());
        fs::remove_dir_all(&state).unwrap();
        give(&folder.join("own"));
        fs::create_dir(&state).unwrap();
        assert!(!spoilt());
        assert!(
            is_spoilt(&state, Some(StateFault::Refused), &owner, &ours),
            "what was refused is no longer there"
        );
        fs::remove_dir(&state).unwrap();
        link("/etc", &state);
        give(&state);
        assert!(spoilt());
        assert!(!is_spoilt(&state, None, &owner, &owner), "the server is the owner's own");
        assert!(!is_spoilt(&state, None, &ours, &ours));
        fs::remove_file(&state).unwrap();
        fs::remove_dir(folder.join("own")).unwrap();
        link("/nowhere", &folder.join("own"));
        give(&folder.join("own"));
        assert!(spoilt());
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn an_owner_who_has_the_folder_above_can_replace_the_state_folder() {
        let ours = Identity::current().unwrap();
        if !ours.is_root() {
            return;
        }
        let (owner, top) = (seven(), fresh(&std::env::temp_dir()).unwrap());
        let (own, state) = (top.join("own"), top.join("own/pool"));
        fs::create_dir(&own).unwrap();
        let start = || {
            let mut record = StateRecord::default();
            record.note(&prepared(&state, &owner, &ours));
            record
        };
        let former = start().folder;
        assert!(former.is_some());
        let replaced = |record: &StateRecord| is_replaced(&state, former, record, &owner, &ours);
        assert!(!replaced(&start()), "it is the same folder");
        fs::rename(&state, own.join("former")).unwrap();
        let other = start();
        assert!(other.fault.is_none() && !replaced(&other), "root has taken the former one away");
        for path in [&own, &state] {
            std::os::unix::fs::lchown(path, Some(7), Some(7)).unwrap();
        }
        assert!(replaced(&other));
        assert!(!is_replaced(&state, None, &other, &owner, &ours), "the former is not known");
        assert!(!is_replaced(&state, former, &other, &owner, &owner), "its own server");
        // The former folder is there again when somebody looks.
        fs::remove_dir(&state).unwrap();
        fs::rename(own.join("former"), &state).unwrap();
        assert!(replaced(&other) && !replaced(&start()));
        fs::rename(&state, own.join("former")).unwrap();
        std::os::unix::fs::symlink("former", &state).unwrap();
        std::os::unix::fs::lchown(&state, Some(7), Some(7)).unwrap();
        let refused = start();
        assert_eq!(refused.fault, Some(StateFault::Refused));
        assert!(replaced(&refused) && is_replaced(&state, None, &refused, &owner, &ours));
        fs::remove_dir_all(&top).unwrap();
    }

    #[test]
    fn an_owner_is_not_to_blame_for_a_full_disk() {
        use rustix::io::Errno;

        for (number, is_owners) in [
            (Errno::EXIST, true),
            (Errno::NOTDIR, true),
            (Errno::NOENT, true),
            (Errno::LOOP, true),
            (Errno::ACCESS, true),
            (Errno::DQUOT, true),
            (Errno::MLINK, true),
            (Errno::NOSPC, false),
            (Errno::MFILE, false),
            (Errno::NFILE, false),
            (Errno::NOMEM, false),
            (Errno::ROFS, false),
            (Errno::IO, false),
        ] {
            let fault = StateFault::of_inner(&number.into());
            assert_eq!(fault, is_owners.then_some(StateFault::Contested), "{number}");
        }
    }

    #[test]
    fn made_below_a_folder_that_is_ours() {
        let ours = Identity::current().unwrap();
        let folder = fresh(&std::env::temp_dir()).unwrap();
        let state = folder.join("pools/shop");
        prepared(&state, &ours, &ours).unwrap();
        prepared(&state, &ours, &ours).unwrap();
        assert_eq!(fs::metadata(&state).unwrap().mode() & 0o777, 0o700);

        let stranger = Identity {
            uid: ours.uid + 1,
            name: "stranger".into(),
            ..ours.clone()
        };
        let error = prepared(&state, &stranger, &ours).unwrap_err();
        assert!(error.contains("give it to stranger"), "{error}");
        // A link of another user.
        if ours.uid == 0 {
            let link = folder.join("link");
            std::os::unix::fs::symlink(folder.join("pools"), &link).unwrap();
            std::os::unix::fs::lchown(&link, Some(7), None).unwrap();
            let error = prepared(&link.join("state"), &stranger, &ours).unwrap_err();
            assert!(error.contains("which belongs to user 7, is not followed"), "{error}");
            assert!(!folder.join("pools/state").exists());
        }
        // A parent folder that another user could replace.
        let made = prepared(&state.join("deeper"), &stranger, &stranger);
        assert_eq!(made.is_err(), ours.uid != 0, "{made:?}");
        fs::remove_dir_all(&folder).unwrap();
    }
}
