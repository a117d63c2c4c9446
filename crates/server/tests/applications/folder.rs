//! Files of applications: copied, and given to the users that need to write them.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::chown;
use std::path::Path;
use std::process::Command;

use crate::support::Process;

/// Copies `from` with everything below it. Debian links parts of an application to other packages;
/// the copy has files in their place, so that everything has one owner. Links to packages that are
/// not installed are left out, and so are files that this user may not read.
pub(crate) fn copy(from: &Path, to: &Path) {
    let Ok(metadata) = fs::metadata(from) else {
        return;
    };
    let copied = if metadata.is_dir() {
        copy_entries(from, to)
    } else {
        fs::copy(from, to).map(drop)
    };
    if let Err(error) = copied
        && error.kind() != ErrorKind::PermissionDenied
    {
        panic!("copying {}: {error}", from.display());
    }
}

fn copy_entries(from: &Path, to: &Path) -> io::Result<()> {
    let entries = fs::read_dir(from)?;
    fs::create_dir_all(to)?;
    for entry in entries {
        let entry = entry?;
        copy(&entry.path(), &to.join(entry.file_name()));
    }
    Ok(())
}

/// Returns whether this is root, and so the server runs as other users.
pub(crate) fn is_root() -> bool {
    Process::own().uid() == 0
}

/// Makes `path` and everything below it PHP's own, as an administrator does with what an
/// application writes to.
pub(crate) fn give_to_php(path: &Path) {
    if is_root() {
        give_to("www-data", path);
    }
}

/// Makes `path` and everything below it `user`'s. For root only.
pub(crate) fn give_to(user: &str, path: &Path) {
    let uid = id(&["-u", user]);
    let gid = id(&["-g", user]);
    give(path, uid, gid);
}

fn give(path: &Path, uid: u32, gid: u32) {
    chown(path, Some(uid), Some(gid)).unwrap();
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            give(&entry.unwrap().path(), uid, gid);
        }
    }
}

fn id(arguments: &[&str]) -> u32 {
    let output = Command::new("id").args(arguments).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.trim()
        .parse()
        .unwrap_or_else(|_| panic!("id {arguments:?} answered {text:?}"))
}
