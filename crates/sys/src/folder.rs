//! Folders: listing names, creating folders that belong to one user alone, and files in them.

use std::ffi::{CStr, CString};
use std::fs;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::Path;

use crate::check;
use crate::credentials::own_user;
use crate::open::{self, Access, Lookup};

/// Lists at most `most` names in an open folder, in no order, without `.` and `..`. The folder may
/// be opened with `O_PATH`.
///
/// # Errors
/// The folder cannot be read.
pub fn names(folder: BorrowedFd<'_>, most: usize) -> io::Result<Vec<Box<[u8]>>> {
    names_of(folder, most, |_| true)
}

/// Returns the [`names`] only of folders and symbolic links, and of what the file system does not
/// tell the type of.
///
/// # Errors
/// The folder cannot be read.
pub fn names_of_folders(folder: BorrowedFd<'_>, most: usize) -> io::Result<Vec<Box<[u8]>>> {
    let wanted = [libc::DT_DIR, libc::DT_LNK, libc::DT_UNKNOWN];
    names_of(folder, most, |kind| wanted.contains(&kind))
}

/// Lists at most `most` names of entries whose type, as `readdir(3)` tells it, `is_wanted`.
fn names_of(
    folder: BorrowedFd<'_>,
    most: usize,
    is_wanted: impl Fn(u8) -> bool,
) -> io::Result<Vec<Box<[u8]>>> {
    let again = open::step(folder, c".", Access::Read, Lookup::Full)?;
    // SAFETY: a fresh descriptor, which belongs to the stream from here on.
    let stream = unsafe { libc::fdopendir(again.as_raw_fd()) };
    if stream.is_null() {
        return Err(io::Error::last_os_error());
    }
    let _ = again.into_raw_fd();
    let mut names = Vec::new();
    while names.len() < most {
        // SAFETY: the stream is open and used by nobody else.
        let entry = unsafe { libc::readdir(stream) };
        if entry.is_null() {
            break;
        }
        // SAFETY: an entry is good until the next call, and its name ends in NUL.
        let (name, kind) =
            unsafe { (CStr::from_ptr((*entry).d_name.as_ptr()).to_bytes(), (*entry).d_type) };
        if name != b"." && name != b".." && is_wanted(kind) {
            names.push(name.into());
        }
    }
    // SAFETY: opened above, closed once.
    unsafe { libc::closedir(stream) };
    Ok(names)
}

/// Returns whether the file or folder at `path` has the extended attribute `name`.
pub fn has_attribute(path: &Path, name: &str) -> bool {
    let (Ok(path), Ok(name)) = (CString::new(path.as_os_str().as_bytes()), CString::new(name))
    else {
        return false;
    };
    // SAFETY: both texts are NUL-terminated. Without a buffer only the length is returned.
    unsafe { libc::getxattr(path.as_ptr(), name.as_ptr(), std::ptr::null_mut(), 0) >= 0 }
}

/// Opens the folder `name` in `parent`. Creates it with mode 0755 where it is missing.
///
/// # Errors
/// The folder cannot be created, or something else has that name, such as a symbolic link.
pub fn make_shared(parent: BorrowedFd<'_>, name: &CStr) -> io::Result<OwnedFd> {
    make(parent, name, 0o755)?;
    open::step(parent, name, Access::Folder, Lookup::Full)
}

/// Opens the folder `name` in `parent`, which belongs to user `uid` and which no other user may
/// enter. Creates it where it is missing. An existing folder must belong to that user, and must not
/// be a symbolic link: whoever created it could otherwise read the files in it.
///
/// # Errors
/// The folder cannot be created, or belongs to another user.
pub fn make_private(
    parent: BorrowedFd<'_>,
    name: &CStr,
    uid: u32,
    gid: u32,
) -> io::Result<OwnedFd> {
    let is_made = make(parent, name, 0o700)?;
    let folder = open::step(parent, name, Access::Folder, Lookup::Full)?;
    let folder = fs::File::from(open::step(folder.as_fd(), c".", Access::Read, Lookup::Full)?);
    let owner = folder.metadata()?.uid();
    // The owner of `parent` could have put another folder of this process's user in the place of
    // the new one. Only an empty folder is given away.
    if is_made && owner == own_user() && owner != uid && names(folder.as_fd(), 1)?.is_empty() {
        fchown(&folder, Some(uid), Some(gid))?;
    }
    let found = folder.metadata()?;
    if found.uid() != uid {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!("it belongs to user {}, not to user {uid}", found.uid()),
        ));
    }
    if found.mode() & 0o777 != 0o700 {
        folder.set_permissions(fs::Permissions::from_mode(0o700))?;
    }
    Ok(folder.into())
}

/// Gives the folder `name` in `parent` the mode 0700 again, if it belongs to user `uid`. Never
/// follows a link, and does nothing if something else, or nothing, has that name.
///
/// # Errors
/// The mode cannot be changed.
pub fn repair_mode(parent: BorrowedFd<'_>, name: &CStr, uid: u32) -> io::Result<()> {
    let Some((point, found)) = owned_by(parent, name, uid)? else {
        return Ok(());
    };
    if !found.is_dir() || found.mode() & 0o7777 == 0o700 {
        return Ok(());
    }
    // The folder itself, which perhaps nobody may open, by a name that is no other's.
    let same = format!("/proc/self/fd/{}", point.as_raw_fd());
    fs::set_permissions(same, fs::Permissions::from_mode(0o700))
}

/// Removes a file or a link of user `uid` that is in the place of the folder `name` in `parent`.
///
/// # Errors
/// It cannot be removed.
pub fn clear_way(parent: BorrowedFd<'_>, name: &CStr, uid: u32) -> io::Result<()> {
    match owned_by(parent, name, uid)? {
        Some((_, found)) if !found.is_dir() => {
            // A folder that has taken the place meanwhile stays.
            // SAFETY: NUL-terminated.
            check(unsafe { libc::unlinkat(parent.as_raw_fd(), name.as_ptr(), 0) }).map(drop)
        }
        _ => Ok(()),
    }
}

/// Writes a file as a whole: under another name, which then becomes `name` in `folder`. A full disk
/// or a crash leaves what was there. Never follows a link.
///
/// # Errors
/// The file cannot be written.
pub fn replace_file(
    folder: BorrowedFd<'_>,
    name: &CStr,
    mode: u32,
    bytes: &[u8],
) -> io::Result<()> {
    let ending = format!(".{}.new", std::process::id());
    let fresh = CString::new([name.to_bytes(), ending.as_bytes()].concat())?;
    // One that a process of the same number has left.
    // SAFETY: NUL-terminated.
    unsafe { libc::unlinkat(folder.as_raw_fd(), fresh.as_ptr(), 0) };
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    // SAFETY: NUL-terminated, and the last argument is what `O_CREAT` asks for.
    let made = check(unsafe { libc::openat(folder.as_raw_fd(), fresh.as_ptr(), flags, mode) })?;
    // SAFETY: fresh descriptor, owned by nobody else.
    let mut file = fs::File::from(unsafe { OwnedFd::from_raw_fd(made) });
    file.write_all(bytes)?;
    file.sync_all()?;
    let folder = folder.as_raw_fd();
    // SAFETY: both NUL-terminated.
    check(unsafe { libc::renameat(folder, fresh.as_ptr(), folder, name.as_ptr()) }).map(drop)
}

/// Opens what has the name `name` in `parent`, a link itself, if it belongs to user `uid`.
fn owned_by(
    parent: BorrowedFd<'_>,
    name: &CStr,
    uid: u32,
) -> io::Result<Option<(fs::File, fs::Metadata)>> {
    let point = match open::step(parent, name, Access::Point, Lookup::Full) {
        Ok(point) => fs::File::from(point),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let found = point.metadata()?;
    Ok((found.uid() == uid).then_some((point, found)))
}

/// Creates the folder `name` in `parent`. Returns `false` if something has that name.
fn make(parent: BorrowedFd<'_>, name: &CStr, mode: libc::mode_t) -> io::Result<bool> {
    // SAFETY: NUL-terminated.
    match check(unsafe { libc::mkdirat(parent.as_raw_fd(), name.as_ptr(), mode) }) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}

/// Gives the folder `name` in `parent`, and all files and folders in it, to user `uid` and group
/// `gid`. Never follows a link, and leaves files out that have a second name elsewhere. Does
/// nothing if there is no folder, or if it belongs to that user. No process of the present owner
/// may run.
///
/// # Errors
/// The owner cannot be changed, or there are too many levels of folders.
pub fn hand_over(parent: BorrowedFd<'_>, name: &CStr, uid: u32, gid: u32) -> io::Result<()> {
    let folder = match open::step(parent, name, Access::Folder, Lookup::Full) {
        Ok(folder) => folder,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let folder = fs::File::from(open::step(folder.as_fd(), c".", Access::Read, Lookup::Full)?);
    if folder.metadata()?.uid() == uid {
        return Ok(());
    }
    hand_over_content(folder.as_fd(), uid, gid, DEEPEST)?;
    // The folder is the last one: an interrupted run begins again.
    fchown(&folder, Some(uid), Some(gid))
}

/// Levels of folders that [`hand_over`] enters. It fails at a deeper folder.
const DEEPEST: u32 = 8;

fn hand_over_content(folder: BorrowedFd<'_>, uid: u32, gid: u32, levels: u32) -> io::Result<()> {
    if levels == 0 {
        return Err(io::Error::other("it has too many levels of folders"));
    }
    for name in names(folder, usize::MAX)? {
        let name = CString::new(name)?;
        let one = fs::File::from(match open::step(folder, &name, Access::Read, Lookup::Full) {
            Ok(one) => one,
            // A link, or a file that has gone.
            Err(_) => continue,
        });
        let found = one.metadata()?;
        if found.is_dir() {
            hand_over_content(one.as_fd(), uid, gid, levels - 1)?;
        } else if !found.is_file() || found.nlink() != 1 {
            continue;
        }
        fchown(&one, Some(uid), Some(gid))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    fn place(name: &str) -> PathBuf {
        let place =
            std::env::temp_dir().join(format!("howdah-folder-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&place);
        fs::create_dir(&place).unwrap();
        place
    }

    #[test]
    fn names_of_a_folder() {
        let place = place("names");
        for name in ["a", "b", ".c"] {
            fs::write(place.join(name), "").unwrap();
        }
        let folder = fs::File::open(&place).unwrap();
        let mut found = names(std::os::fd::AsFd::as_fd(&folder), 10).unwrap();
        found.sort();
        assert_eq!(found, [&b".c"[..], b"a", b"b"].map(Box::from));
        assert_eq!(names(std::os::fd::AsFd::as_fd(&folder), 2).unwrap().len(), 2);
        let file = fs::File::open(place.join("a")).unwrap();
        assert!(names(std::os::fd::AsFd::as_fd(&file), 10).is_err());
        fs::remove_dir_all(place).unwrap();
    }

    #[test]
    fn hands_a_folder_over_but_nothing_that_links_lead_to() {
        // SAFETY: no arguments.
        if unsafe { libc::geteuid() } != 0 {
            howdah_skip::skip!("only root can give files away");
            return;
        }
        let place = place("over");
        let folder = place.join("state");
        fs::create_dir_all(folder.join("a/b")).unwrap();
        for file in ["secret", "state/file", "state/a/b/file", "linked"] {
            fs::write(place.join(file), "").unwrap();
        }
        symlink(place.join("secret"), folder.join("link")).unwrap();
        fs::hard_link(place.join("linked"), folder.join("hard")).unwrap();
        let at = fs::File::open(&place).unwrap();
        hand_over(at.as_fd(), c"state", 61_200, 61_201).unwrap();
        let owner = |path: &str| fs::metadata(place.join(path)).map(|found| found.uid()).unwrap();
        for path in ["state", "state/file", "state/a", "state/a/b/file"] {
            assert_eq!(owner(path), 61_200, "{path}");
        }
        for path in ["secret", "linked", "state/hard"] {
            assert_eq!(owner(path), 0, "{path}");
        }
        hand_over(at.as_fd(), c"none", 1, 1).unwrap();
        symlink("state", place.join("other")).unwrap();
        assert!(hand_over(at.as_fd(), c"other", 1, 1).is_err());
        fs::remove_dir_all(place).unwrap();
    }

    #[test]
    fn makes_one_and_finds_it_again() {
        let place = place("again");
        let at = fs::File::open(&place).unwrap();
        let made = |uid, gid| make_private(at.as_fd(), c"state", uid, gid);
        let (uid, gid) = {
            let found = at.metadata().unwrap();
            (found.uid(), found.gid())
        };
        made(uid, gid).unwrap();
        made(uid, gid).unwrap();
        assert_eq!(fs::metadata(place.join("state")).unwrap().mode() & 0o777, 0o700);
        // One of another owner is refused.
        assert!(made(uid + 1, gid).is_err());
        fs::remove_dir_all(&place).unwrap();
    }

    #[test]
    fn repairs_what_its_owner_has_done_and_nothing_else() {
        let place = place("repair");
        let at = fs::File::open(&place).unwrap();
        let uid = at.metadata().unwrap().uid();
        let mode = |name: &str| fs::metadata(place.join(name)).unwrap().mode() & 0o7777;
        for name in ["own", "led-to", "other"] {
            fs::create_dir(place.join(name)).unwrap();
            fs::set_permissions(place.join(name), fs::Permissions::from_mode(0o0)).unwrap();
        }
        fs::write(place.join("file"), "").unwrap();
        symlink("led-to", place.join("link")).unwrap();
        for name in [c"own", c"file", c"link", c"none"] {
            repair_mode(at.as_fd(), name, uid).unwrap();
        }
        repair_mode(at.as_fd(), c"other", uid + 1).unwrap();
        assert_eq!(["own", "led-to", "other"].map(mode), [0o700, 0, 0]);
        for name in [c"file", c"link"] {
            clear_way(at.as_fd(), name, uid + 1).unwrap();
            assert_eq!(names(at.as_fd(), 10).unwrap().len(), 5);
        }
        for name in [c"own", c"file", c"link", c"none"] {
            clear_way(at.as_fd(), name, uid).unwrap();
        }
        assert_eq!(names(at.as_fd(), 10).unwrap().len(), 3, "the folders are left");
        fs::remove_dir_all(&place).unwrap();
    }

    #[test]
    fn replaces_a_file_and_nothing_that_a_link_leads_to() {
        let place = place("file");
        let at = fs::File::open(&place).unwrap();
        let write = |text: &str| replace_file(at.as_fd(), c"file", 0o600, text.as_bytes()).unwrap();
        let read = |name: &str| fs::read_to_string(place.join(name)).unwrap();
        write("one");
        write("two");
        assert_eq!((read("file").as_str(), names(at.as_fd(), 10).unwrap().len()), ("two", 1));
        assert_eq!(fs::metadata(place.join("file")).unwrap().mode() & 0o777, 0o600);
        fs::rename(place.join("file"), place.join("other")).unwrap();
        symlink("other", place.join("file")).unwrap();
        symlink("other", place.join(format!("file.{}.new", std::process::id()))).unwrap();
        write("three");
        assert_eq!((read("file").as_str(), read("other").as_str()), ("three", "two"));
        assert!(place.join("file").symlink_metadata().unwrap().is_file());
        assert!(replace_file(at.as_fd(), c"none/file", 0o600, b"").is_err());
        fs::remove_dir_all(&place).unwrap();
    }

    #[test]
    fn a_symbolic_link_is_refused() {
        let place = place("link");
        symlink(&place, place.join("state")).unwrap();
        let at = fs::File::open(&place).unwrap();
        let uid = at.metadata().unwrap().uid();
        assert!(make_private(at.as_fd(), c"state", uid, uid).is_err());
        assert!(make_shared(at.as_fd(), c"state").is_err());
        assert!(make_shared(at.as_fd(), c"a/b").is_err());
        fs::remove_dir_all(&place).unwrap();
    }
}
