//! Links in the path of a document root, such as `current -> releases/7`.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use howdah_sys::credentials;
use howdah_sys::stat::Stat;

/// Links in one path; a path with more leads nowhere.
const MOST_LINKS: usize = 40;

/// Returns whether a site with the document root `path` may be served from `folder`, which was
/// opened there: each link on the way belongs to root, to the server's user or to the owner of the
/// folder. A link's owner can otherwise publish what the server may read and the owner may not.
///
/// Returns `false`, too, where the path leads to another folder by now: what was opened was not
/// checked then.
///
/// # Errors
/// Where a part of the path cannot be looked up.
pub(crate) fn may_lead(path: &Path, folder: &Stat) -> io::Result<bool> {
    let Walk { end, foreign } = walk(path, folder.owner)?;
    let end = CString::new(end.as_os_str().as_bytes())?;
    Ok(foreign.is_none() && Stat::of_path(&end)?.identity() == folder.identity())
}

/// Returns the link in the document root `path` because of which the site is not served, unless
/// its links are followed without a condition: one that belongs to none of root, the server's user
/// and the owner of the folder at the end.
///
/// # Errors
/// Where a part of the path cannot be looked up.
pub fn foreign_root_link(path: &Path) -> io::Result<Option<PathBuf>> {
    Ok(walk(path, fs::metadata(path)?.uid())?.foreign)
}

/// The end of a path, with its first link that belongs neither to root nor to the server's user nor
/// to a certain one.
struct Walk {
    end: PathBuf,
    foreign: Option<PathBuf>,
}

fn walk(path: &Path, owner: u32) -> io::Result<Walk> {
    let mut here = PathBuf::from("/");
    // The server may read no more than its own user.
    let own_user = credentials::own_user();
    let mut foreign = None;
    let mut links = 0;
    let mut steps: Vec<PathBuf> = steps_of(path);
    while let Some(step) = steps.pop() {
        match step.components().next() {
            Some(Component::Normal(name)) => {
                let next = here.join(name);
                let found = fs::symlink_metadata(&next)?;
                if !found.is_symlink() {
                    here = next;
                    continue;
                }
                links += 1;
                if links > MOST_LINKS {
                    return Err(io::Error::other("too many links follow each other"));
                }
                steps.append(&mut steps_of(&fs::read_link(&next)?));
                if ![0, owner, own_user].contains(&found.uid()) {
                    foreign.get_or_insert(next);
                }
            }
            Some(Component::ParentDir) => drop(here.pop()),
            Some(Component::RootDir) => here = PathBuf::from("/"),
            _ => {}
        }
    }
    Ok(Walk { end: here, foreign })
}

/// The steps of a path, the next one last.
fn steps_of(path: &Path) -> Vec<PathBuf> {
    path.components().rev().map(|step| PathBuf::from(step.as_os_str())).collect()
}
