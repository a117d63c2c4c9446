//! Finds `.htaccess` files.

use std::collections::HashSet;
use std::path::Path;

use howdah_config::Symlinks;
use howdah_files::DocumentTree;

/// The folders of a document root that have a `.htaccess` file.
#[derive(Debug, Default)]
pub(super) struct FoundFolders {
    /// Their paths below the root, in order.
    pub(super) folders: Vec<Vec<u8>>,
    /// There are more, which were not looked for.
    pub(super) is_cut: bool,
}

/// Finds the folders with a `.htaccess` file in `root` and below. Folders are visited in the order
/// of their names. Links are followed as the site's rule says; each folder is visited once, however
/// many links lead there.
pub(super) fn find(root: &Path, symlinks: Symlinks) -> FoundFolders {
    let Some(tree) = DocumentTree::open(root, symlinks) else {
        return FoundFolders::default();
    };
    let mut seen: HashSet<(u64, u64)> = HashSet::new();
    let mut found = FoundFolders::default();
    let mut waiting = vec![Vec::new()];
    let mut room = MOST_BYTES;
    while let Some(path) = waiting.pop() {
        room += size(&path);
        let Some(folder) = tree.folder(&path).filter(|folder| seen.insert(folder.identity)) else {
            continue;
        };
        let mut names = folder.folders(MOST_NAMES);
        found.is_cut |= names.len() == MOST_NAMES;
        names.sort_unstable_by(|one, other| other.cmp(one));
        let below = names.iter().map(|name| below(&path, name));
        let is_taken = tree.has(&htaccess(&path));
        let mut more: Vec<_> = below.collect();
        if is_taken {
            more.push(path);
        }
        let wanted: usize = more.iter().map(|path| size(path)).sum();
        if wanted > room || seen.len() > MOST_FOLDERS {
            found.is_cut = true;
            break;
        }
        room -= wanted;
        if is_taken {
            found.folders.extend(more.pop());
        }
        waiting.append(&mut more);
    }
    found
}

/// The path of the file of directives in a folder.
pub(super) fn htaccess(folder: &[u8]) -> Vec<u8> {
    below(folder, b".htaccess")
}

fn below(folder: &[u8], name: &[u8]) -> Vec<u8> {
    match folder {
        b"" => name.to_vec(),
        _ => [folder, b"/", name].concat(),
    }
}

/// Bytes of memory that a path takes, about.
fn size(path: &[u8]) -> usize {
    path.len() + 32
}

/// Bytes of memory of the paths at a time, those that were found and those that are to be looked
/// at. Beyond, the rest is left out.
const MOST_BYTES: usize = 128 << 20;

/// Folders of a document root that are visited. Beyond, the rest is left out.
const MOST_FOLDERS: usize = 2_000_000;

/// Folders in a folder that are visited. Beyond, the rest is left out.
const MOST_NAMES: usize = 100_000;

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn every_folder_is_seen_once_and_in_order() {
        let root = tempfile::tempdir().unwrap();
        for folder in ["b", "a/c", "d", "e"] {
            fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        for file in ["b", "a/c", "a", "."] {
            fs::write(root.path().join(file).join(".htaccess"), file).unwrap();
        }
        fs::create_dir(root.path().join("d/.htaccess")).unwrap();
        std::os::unix::fs::symlink("..", root.path().join("a/up")).unwrap();
        let found = find(root.path(), Symlinks::Owner);
        let expected: [&[u8]; 5] = [b"", b"a", b"a/c", b"b", b"d"];
        assert_eq!((found.folders, found.is_cut), (expected.map(<[u8]>::to_vec).to_vec(), false));
    }

    #[test]
    fn a_link_that_the_server_does_not_follow_is_not_followed_here() {
        let (root, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(other.path().join(".htaccess"), "").unwrap();
        std::os::unix::fs::symlink(other.path(), root.path().join("out")).unwrap();
        let folders = |symlinks| find(root.path(), symlinks).folders;
        assert_eq!(folders(Symlinks::Inside), Vec::<Vec<u8>>::new());
        assert_eq!(folders(Symlinks::Follow), [b"out".to_vec()]);
    }
}
