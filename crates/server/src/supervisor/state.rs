//! The folders for the pools' temporary files, uploads and sessions.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use howdah_files::LinkedPath;
use howdah_sys::credentials::Identity;
use howdah_sys::folder;

/// Makes sure that `path` is a folder of `owner` that no other user may enter. `ours` is this
/// process's user.
///
/// # Errors
/// The reason, as text for the operator.
pub(super) fn prepare(path: &Path, owner: &Identity, ours: &Identity) -> Result<(), String> {
    let refused = |path: &Path, error: &io::Error| {
        format!(
            "the state folder {}: {error}; remove it, give it to {}, or set `php.state_dir`",
            path.display(),
            owner.name
        )
    };
    let path = place(path, owner, ours).map_err(|(path, error)| refused(&path, &error))?;
    folder::make_private(&path, owner.uid, owner.gid).map_err(|error| refused(&path, &error))
}

/// Creates the folders above a folder of `owner`, and returns its path without links. `ours` is
/// this process's user.
///
/// # Errors
/// The folder that is in the way, and why: another user could put a folder of his own there.
pub(super) fn place(
    path: &Path,
    owner: &Identity,
    ours: &Identity,
) -> Result<PathBuf, (PathBuf, io::Error)> {
    let real = without_foreign_link(path).map_err(|error| (path.to_owned(), error))?;
    if let Some(parent) = real.parent() {
        let refused = |error| (parent.to_owned(), error);
        let shared = DirBuilder::new().recursive(true).mode(0o755).create(parent);
        shared.map_err(refused)?;
        let found = fs::symlink_metadata(parent).map_err(refused)?;
        // The owner of the parent folder can replace the folder at any time.
        if ![0, ours.uid, owner.uid].contains(&found.uid()) {
            let error = io::Error::other(format!("it belongs to user {}", found.uid()));
            return Err(refused(error));
        }
    }
    Ok(real)
}

/// Returns the path without links. A state folder is made with this process's rights, so that
/// nobody else may choose the place.
///
/// # Errors
/// Somebody's link leads the path to a folder of another user.
pub(super) fn without_foreign_link(path: &Path) -> io::Result<PathBuf> {
    let found = LinkedPath::of(path)?;
    match found.foreign_link {
        None => Ok(found.real),
        Some(link) => Err(io::Error::other(format!(
            "the link {} belongs neither to root nor to the owner of the folder that it leads to",
            link.display()
        ))),
    }
}

/// Returns whether `owner` has made something of the state folder `path`, of a folder in it or of
/// the way to it that keeps the pool from starting. `ours` is this process's user. `false` where
/// that is the owner, too: then its folders are the administrator's own.
pub(super) fn is_spoilt(path: &Path, owner: &Identity, ours: &Identity) -> bool {
    if owner.is_root() || owner.uid == ours.uid {
        return false;
    }
    let is_of_owner = |at: &Path| fs::symlink_metadata(at).is_ok_and(|it| it.uid() == owner.uid);
    let is_unusable = |at: &Path| {
        fs::symlink_metadata(at).is_ok_and(|it| !it.is_dir() || it.mode() & 0o700 != 0o700)
    };
    let is_folder = |at: &Path| fs::symlink_metadata(at).is_ok_and(|it| it.is_dir());
    let is_blocked = path.ancestors().any(|at| is_of_owner(at) && is_unusable(at));
    // The folder itself is always the owner's. Above it, the owner can put anything in its place.
    let is_replaced = !is_folder(path) && path.ancestors().skip(1).any(is_of_owner);
    let in_it = FOLDERS.iter().map(|name| path.join(name));
    is_blocked || is_replaced || is_of_owner(path) && in_it.into_iter().any(|at| is_unusable(&at))
}

/// The folders that a zygote makes in the state folder.
const FOLDERS: [&str; 4] = ["tmp", "var-tmp", "uploads", "sessions"];

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

    use super::*;

    #[test]
    fn an_owner_has_spoilt_what_it_can_change() {
        let ours = Identity::current().unwrap();
        if !ours.is_root() {
            return;
        }
        let owner = Identity {
            uid: 7,
            gid: 7,
            name: "seven".into(),
            groups: vec![7],
        };
        let folder = fresh(&std::env::temp_dir()).unwrap();
        let state = folder.join("own/pool");
        let spoilt = || is_spoilt(&state, &owner, &ours);
        let give = |path: &Path| std::os::unix::fs::lchown(path, Some(7), Some(7)).unwrap();
        let link = |to: &str, path: &Path| std::os::unix::fs::symlink(to, path).unwrap();
        fs::create_dir(folder.join("own")).unwrap();
        assert!(!spoilt(), "nothing is there, and nobody but root could change it");
        fs::write(&state, "").unwrap();
        assert!(!spoilt(), "root has put a file there");
        fs::remove_file(&state).unwrap();
        prepare(&state, &owner, &ours).unwrap();
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
        link("/etc", &state);
        give(&state);
        assert!(spoilt());
        assert!(!is_spoilt(&state, &owner, &owner), "the server is the owner's own");
        assert!(!is_spoilt(&state, &ours, &ours));
        fs::remove_file(&state).unwrap();
        fs::remove_dir(folder.join("own")).unwrap();
        link("/nowhere", &folder.join("own"));
        give(&folder.join("own"));
        assert!(spoilt());
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn made_below_a_folder_that_is_ours() {
        let ours = Identity::current().unwrap();
        let folder = fresh(&std::env::temp_dir()).unwrap();
        let state = folder.join("pools/shop");
        prepare(&state, &ours, &ours).unwrap();
        prepare(&state, &ours, &ours).unwrap();
        assert_eq!(fs::metadata(&state).unwrap().mode() & 0o777, 0o700);

        let stranger = Identity {
            uid: ours.uid + 1,
            name: "stranger".into(),
            ..ours.clone()
        };
        let error = prepare(&state, &stranger, &ours).unwrap_err();
        assert!(error.contains("give it to stranger"), "{error}");
        // A link of another user.
        if ours.uid == 0 {
            let link = folder.join("link");
            std::os::unix::fs::symlink(folder.join("pools"), &link).unwrap();
            std::os::unix::fs::lchown(&link, Some(7), None).unwrap();
            let error = prepare(&link.join("state"), &stranger, &ours).unwrap_err();
            assert!(error.contains("belongs neither to root"), "{error}");
            assert!(!folder.join("pools/state").exists());
        }
        // A parent folder that another user could replace.
        let made = prepare(&state.join("deeper"), &stranger, &stranger);
        assert_eq!(made.is_err(), ours.uid != 0, "{made:?}");
        fs::remove_dir_all(&folder).unwrap();
    }
}
