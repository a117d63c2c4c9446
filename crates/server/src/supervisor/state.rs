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
    use super::*;

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
