//! Folders that belong to one user alone.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::Path;

/// Makes sure that `path` is a folder of user `uid` that nobody else may enter. One that is there must belong to that user
/// already, and may not be a symbolic link: who could put it there could read what is written into it.
pub fn make_private(path: &Path, uid: u32, gid: u32) -> io::Result<()> {
    let fresh = match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
        Err(error) => return Err(error),
    };
    let folder = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)?;
    if fresh && folder.metadata()?.uid() != uid {
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
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    fn place(name: &str) -> PathBuf {
        let place = std::env::temp_dir().join(format!("howdah-folder-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&place);
        fs::create_dir(&place).unwrap();
        place
    }

    #[test]
    fn makes_one_and_finds_it_again() {
        let place = place("again");
        let folder = place.join("state");
        let (uid, gid) = {
            let found = fs::metadata(&place).unwrap();
            (found.uid(), found.gid())
        };
        make_private(&folder, uid, gid).unwrap();
        make_private(&folder, uid, gid).unwrap();
        assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
        // One of another owner is refused.
        assert!(make_private(&folder, uid + 1, gid).is_err());
        fs::remove_dir_all(&place).unwrap();
    }

    #[test]
    fn a_symbolic_link_is_refused() {
        let place = place("link");
        symlink(&place, place.join("state")).unwrap();
        let uid = fs::metadata(&place).unwrap().uid();
        assert!(make_private(&place.join("state"), uid, uid).is_err());
        fs::remove_dir_all(&place).unwrap();
    }
}
