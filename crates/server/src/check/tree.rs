//! Finds `.htaccess` files.

use std::collections::HashSet;
use std::fs;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use howdah_sys::open;

/// Maximum bytes of a file. The server refuses larger files, too.
const MOST_BYTES: u64 = 16 << 20;

/// The content of a file, or the reason why it cannot be read.
pub(super) type FileContent = Result<Vec<u8>, String>;

/// Calls `take` with each `.htaccess` in `root` and below, and its content. Folders are visited in
/// the order of their names. Links to folders are followed; each folder is visited once, however
/// many links lead there.
pub(super) fn each_htaccess(root: &Path, mut take: impl FnMut(&Path, FileContent)) {
    let mut seen: HashSet<(u64, u64)> = HashSet::new();
    let mut waiting = vec![root.to_owned()];
    while let Some(folder) = waiting.pop() {
        let is_new = fs::metadata(&folder)
            .is_ok_and(|found| found.is_dir() && seen.insert((found.dev(), found.ino())));
        if !is_new {
            continue;
        }
        let file = folder.join(".htaccess");
        if file.symlink_metadata().is_ok() {
            take(&file, read(&file));
        }
        waiting.extend(folders(&folder));
    }
}

/// The folders in a folder, in reverse order.
fn folders(folder: &Path) -> Vec<PathBuf> {
    let is_folder = |entry: &fs::DirEntry| match entry.file_type() {
        Ok(kind) => kind.is_dir() || (kind.is_symlink() && entry.path().is_dir()),
        Err(_) => false,
    };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries.filter(is_folder).map(|entry| entry.path()).collect();
    found.sort_unstable_by(|one, other| other.cmp(one));
    found
}

fn read(file: &Path) -> FileContent {
    let cannot = |error: std::io::Error| format!("it cannot be read: {error}");
    // Reading another file could wait for a writer, or never end.
    let (file, _) = open::regular_file(file).map_err(|error| match error.kind() {
        ErrorKind::InvalidInput => error.to_string(),
        _ => cannot(error),
    })?;
    let mut content = Vec::new();
    file.take(MOST_BYTES + 1).read_to_end(&mut content).map_err(cannot)?;
    match content.len() as u64 > MOST_BYTES {
        true => Err(format!("it is larger than {} MiB", MOST_BYTES >> 20)),
        false => Ok(content),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_folder_is_seen_once_and_in_order() {
        let root = tempfile::tempdir().unwrap();
        for folder in ["b", "a/c", "d"] {
            fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        for file in ["b", "a/c", "a", "."] {
            fs::write(root.path().join(file).join(".htaccess"), file).unwrap();
        }
        fs::create_dir(root.path().join("d/.htaccess")).unwrap();
        std::os::unix::fs::symlink("..", root.path().join("a/up")).unwrap();
        let mut seen = Vec::new();
        each_htaccess(root.path(), |file, content| {
            let path = file.strip_prefix(root.path()).unwrap().display().to_string();
            seen.push((path, content.map(|content| String::from_utf8(content).unwrap())));
        });
        let read = |text: &str| Ok(text.to_owned());
        let expected = [
            (".htaccess", read(".")),
            ("a/.htaccess", read("a")),
            ("a/c/.htaccess", read("a/c")),
            ("b/.htaccess", read("b")),
            ("d/.htaccess", Err("it is not a regular file".to_owned())),
        ];
        let expected = expected.map(|(path, content)| (path.to_owned(), content));
        assert_eq!(seen, expected);
    }
}
