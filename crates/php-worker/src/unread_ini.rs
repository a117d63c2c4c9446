//! Files of settings that PHP leaves out without a word, because its user may not read them.
//! php-fpm reads its own as root.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::log::{self, Level};

/// The environment variable with PHP's folders of further ini files. An empty one among them stands
/// for the folder that PHP was built with.
pub const SCAN_FOLDERS: &str = "PHP_INI_SCAN_DIR";

/// Logs the ini files that this process may not read in the folders of [`SCAN_FOLDERS`]; `None` for
/// `built_in`, the folder that PHP was built with.
pub fn tell(built_in: &str, folders: Option<&str>) {
    let folders = folders.unwrap_or_default().split(':');
    let folders = folders.map(|folder| if folder.is_empty() { built_in } else { folder });
    for (path, error) in folders.flat_map(|folder| unread_in(Path::new(folder))) {
        let what = format!(
            "PHP has not read {}: {error}; its settings have no effect; let the pool's user read \
             it",
            path.display()
        );
        log::write(Level::Warning, what.as_bytes(), None);
    }
}

/// The files of a folder, or the folder, that this process may not read.
fn unread_in(folder: &Path) -> Vec<(PathBuf, io::Error)> {
    let is_refused = |error: &io::Error| error.kind() == io::ErrorKind::PermissionDenied;
    let files = match fs::read_dir(folder) {
        Ok(entries) => entries.flatten().map(|entry| entry.path()),
        Err(error) if is_refused(&error) => return vec![(folder.to_owned(), error)],
        Err(_) => return Vec::new(),
    };
    let mut files: Vec<PathBuf> = files
        .filter(|path| path.extension().is_some_and(|ending| ending == "ini"))
        .collect();
    files.sort();
    let unread = |path: PathBuf| {
        let error = File::open(&path).err().filter(is_refused)?;
        Some((path, error))
    };
    files.into_iter().filter_map(unread).collect()
}
