//! Links in the path of a document root, such as `current -> releases/7`.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use howdah_sys::stat::Stat;

/// Links in one path; a path with more leads nowhere.
const MOST_LINKS: usize = 40;

/// Returns whether a site with the document root `path` may be served from `folder`, which was
/// opened there: each link on the way belongs to root or to the owner of the folder. A link's owner
/// can otherwise publish what the server may read and the owner may not.
///
/// Returns `false`, too, where the path leads to another folder by now: what was opened was not
/// checked then.
///
/// # Errors
/// Where a part of the path cannot be looked up.
pub(crate) fn may_lead(path: &Path, folder: &Stat) -> io::Result<bool> {
    let mut here = PathBuf::from("/");
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
                if links > MOST_LINKS || found.uid() != 0 && found.uid() != folder.owner {
                    return Ok(false);
                }
                steps.append(&mut steps_of(&fs::read_link(&next)?));
            }
            Some(Component::ParentDir) => drop(here.pop()),
            Some(Component::RootDir) => here = PathBuf::from("/"),
            _ => {}
        }
    }
    let end = CString::new(here.as_os_str().as_bytes())?;
    Ok(Stat::of_path(&end)?.identity() == folder.identity())
}

/// The steps of a path, the next one last.
fn steps_of(path: &Path) -> Vec<PathBuf> {
    path.components().rev().map(|step| PathBuf::from(step.as_os_str())).collect()
}
