//! Determines the `.user.ini` files that apply to a script, and when to read them again.
//!
//! The rules are those of php-fpm and php-cgi. The files in the document root and in every folder
//! down to the script's folder apply. If the script is outside the document root, only the file in
//! its own folder applies. Files are read again after `user_ini.cache_ttl` seconds.

use std::collections::HashMap;
use std::ffi::{CString, c_char, c_void};
use std::ptr;

/// Maximum number of folders whose tables are cached. At the limit the cache is emptied.
const MOST_FOLDERS: usize = 4096;

/// The cache of the tables read from `.user.ini` files, one per folder.
#[derive(Debug)]
pub struct UserIniCache {
    folders: HashMap<Box<[u8]>, CachedFolder>,
    /// Folders of the last plan. The shim reads them before it asks for another plan.
    directories: Vec<CString>,
    pointers: Vec<*const c_char>,
    free: fn(*mut c_void),
}

#[derive(Debug)]
struct CachedFolder {
    /// The shim's table of the values that it has read.
    table: Box<*mut c_void>,
    expires: u64,
}

/// Work for the shim to do before it applies the table.
#[derive(Debug)]
pub struct ReadPlan {
    /// Location of the shim's pointer to the table.
    pub table: *mut *mut c_void,
    /// Folders to read, outermost first.
    pub directories: *const *const c_char,
    /// Number of folders; 0 if the table is fresh.
    pub count: usize,
}

impl UserIniCache {
    /// Creates an empty cache. `free` returns a table to the shim.
    pub fn new(free: fn(*mut c_void)) -> UserIniCache {
        UserIniCache {
            folders: HashMap::new(),
            directories: Vec::new(),
            pointers: Vec::new(),
            free,
        }
    }

    /// Returns the plan for `script` at time `now` (seconds since 1970). The plan is valid until
    /// the next call. `None` for a script whose path has no slash.
    pub fn plan(
        &mut self,
        document_root: &[u8],
        script: &[u8],
        now: u64,
        seconds_to_live: u64,
    ) -> Option<ReadPlan> {
        let slash = script.iter().rposition(|&byte| byte == b'/')?;
        let folder = &script[..slash];
        if !self.folders.contains_key(folder) {
            if self.folders.len() >= MOST_FOLDERS {
                self.forget();
            }
            self.folders.insert(
                folder.into(),
                CachedFolder {
                    table: Box::new(ptr::null_mut()),
                    expires: 0,
                },
            );
        }
        let known = self.folders.get_mut(folder)?;
        let mut count = 0;
        if now >= known.expires {
            known.expires = now.saturating_add(seconds_to_live.max(1));
            self.directories = directories(document_root, folder)
                .filter_map(|path| CString::new(path).ok())
                .collect();
            self.pointers = self.directories.iter().map(|path| path.as_ptr()).collect();
            count = self.pointers.len();
        }
        Some(ReadPlan {
            table: &raw mut *known.table,
            directories: self.pointers.as_ptr(),
            count,
        })
    }

    fn forget(&mut self) {
        for (_, folder) in self.folders.drain() {
            if !folder.table.is_null() {
                (self.free)(*folder.table);
            }
        }
    }
}

impl Drop for UserIniCache {
    fn drop(&mut self) {
        self.forget();
    }
}

/// Returns the document root and every folder from there to `folder`, or only `folder` if it is
/// outside the document root.
fn directories<'p>(document_root: &[u8], folder: &'p [u8]) -> impl Iterator<Item = &'p [u8]> {
    let root = document_root.strip_suffix(b"/").unwrap_or(document_root);
    let inside =
        folder.starts_with(root) && folder.get(root.len()).is_none_or(|&byte| byte == b'/');
    let first = if inside { root.len() } else { folder.len() };
    let slashes = (first..folder.len()).filter(|&at| folder[at] == b'/');
    slashes
        .chain([folder.len()])
        .map(|end| if end == 0 { &b"/"[..] } else { &folder[..end] })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn from_the_root_down_to_the_script() {
        let cases: [(&str, &str, &[&str]); 6] = [
            ("/srv/www", "/srv/www", &["/srv/www"]),
            ("/srv/www/", "/srv/www/a/b", &["/srv/www", "/srv/www/a", "/srv/www/a/b"]),
            ("/srv/www", "/srv/www2/a", &["/srv/www2/a"]),
            ("/srv/www", "/opt", &["/opt"]),
            ("/", "/a", &["/", "/a"]),
            ("/", "", &["/"]),
        ];
        for (root, folder, expected) in cases {
            let found: Vec<_> = directories(root.as_bytes(), folder.as_bytes()).collect();
            let expected: Vec<_> = expected.iter().map(|path| path.as_bytes()).collect();
            assert_eq!(found, expected, "{root} {folder}");
        }
    }

    #[test]
    fn a_folder_is_read_again_after_its_time() {
        let mut ini = UserIniCache::new(|_| ());
        let mut count = |now| ini.plan(b"/srv", b"/srv/a/b.php", now, 300).map(|plan| plan.count);
        assert_eq!(count(1000), Some(2));
        assert_eq!(count(1299), Some(0));
        assert_eq!(count(1300), Some(2));
        assert!(ini.plan(b"/srv", b"b.php", 1300, 300).is_none());
    }

    #[test]
    fn the_memory_is_bounded() {
        let mut ini = UserIniCache::new(|_| ());
        for folder in 0..3 * MOST_FOLDERS {
            ini.plan(b"/", format!("/{folder}/x.php").as_bytes(), 1, 300);
            assert!(ini.folders.len() <= MOST_FOLDERS);
        }
    }
}
