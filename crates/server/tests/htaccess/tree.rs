//! The standard tree, and those of the cases.

use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::case::{Entry, Tree};

/// When every file was last changed, in seconds since 1970.
pub const MODIFIED: u64 = 1_577_880_000; // Wed, 01 Jan 2020 12:00:00 GMT

/// Scripts of the standard tree. All say what PHP sees.
const SCRIPTS: &[&str] = &[
    "index.php",
    "dump.php",
    "dir/index.php",
    "dir/dump.php",
    "secret/index.php",
    "deep/er/est/index.php",
];

/// Files of the standard tree, each of which contains its own name.
const FILES: &[&str] = &[
    "a.txt",
    "b.txt",
    "page.html",
    "style.css",
    "app.js",
    "data.json",
    "feed.xml",
    "image.png",
    "image.gif",
    "archive.zip",
    "README",
    "notes.unknown",
    "s p.txt",
    "ü.txt",
    "dir/a.txt",
    "dir/page.html",
    "html/index.html",
    "html/b.txt",
    "files/one.txt",
    "files/two.html",
    "files/sub/x.txt",
    "secret/s.txt",
    "deep/a.txt",
    "deep/er/a.txt",
    "deep/er/est/a.txt",
];

/// Folders without anything in them.
const EMPTY: &[&str] = &["empty"];

/// Symbolic links.
const LINKS: &[(&str, &str)] = &[("link.txt", "a.txt"), ("linkdir", "dir")];

/// The code of every script. The query can change the output with `_status`, `_field[]` and
/// `_body`.
const DUMP: &str = r#"<?php
if (isset($_GET['_status'])) http_response_code((int) $_GET['_status']);
foreach ((array) ($_GET['_field'] ?? []) as $field) header($field, false);
if (isset($_GET['_body'])) { echo $_GET['_body']; return; }
$ini = [];
foreach (ini_get_all() as $name => $value) {
    $local = $value['local_value'];
    if ($local !== $value['global_value']) $ini[$name] = (string) $local;
}
$getenv = [];
foreach ((array) ($_GET['_getenv'] ?? []) as $name) {
    $getenv[$name] = var_export(getenv($name), true);
}
echo json_encode([
    'php' => get_included_files()[0],
    'server' => array_filter($_SERVER, 'is_scalar'),
    'headers' => getallheaders(),
    'ini' => $ini,
    'getenv' => $getenv,
    'input' => file_get_contents('php://input'),
    'get' => http_build_query($_GET),
], JSON_INVALID_UTF8_SUBSTITUTE | JSON_UNESCAPED_SLASHES | JSON_UNESCAPED_UNICODE);
"#;

/// A folder of trees, one for each host name.
pub struct Forest {
    folder: PathBuf,
}

impl Forest {
    /// Writes the standard tree, of which the others are made.
    pub fn plant(folder: &Path) -> Forest {
        let forest = Forest { folder: folder.to_owned() };
        let dump = folder.join("dump.inc");
        write(&dump, DUMP);
        let standard = forest.standard();
        for name in SCRIPTS {
            write(&standard.join(name), &format!("<?php require '{}';\n", dump.display()));
        }
        for name in FILES {
            let content = match name.rsplit_once('.') {
                Some((_, "html")) => format!("<title>{name}</title>\n<p>{name}</p>\n"),
                _ => format!("{name}\n"),
            };
            write(&standard.join(name), &content);
        }
        write(
            &standard.join("big.txt"),
            &"The quick brown fox jumps over the lazy dog.\n".repeat(200),
        );
        forest
    }

    fn standard(&self) -> PathBuf {
        self.folder.join("standard")
    }

    /// The document root of a host.
    pub fn root(&self, host: &str) -> PathBuf {
        self.folder.join("sites").join(host)
    }

    /// Makes the tree of a host.
    pub fn grow(&self, host: &str, tree: &Tree) {
        let root = self.root(host);
        let standard = self.standard();
        for name in SCRIPTS.iter().chain(FILES).chain(&["big.txt"]) {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::hard_link(standard.join(name), path).unwrap();
        }
        for name in EMPTY {
            fs::create_dir_all(root.join(name)).unwrap();
        }
        for (name, target) in LINKS {
            symlink(target, root.join(name)).unwrap();
        }
        for (name, entry) in &tree.entries {
            self.set(&root.join(name), entry, &root);
        }
        settle(&root);
    }

    /// Puts the entries of another tree into one that has grown.
    pub fn overwrite(&self, host: &str, tree: &Tree) {
        let root = self.root(host);
        for (name, entry) in &tree.entries {
            self.set(&root.join(name), entry, &root);
        }
    }

    /// Puts an entry at a path, whatever was there.
    fn set(&self, path: &Path, entry: &Entry, root: &Path) {
        if path.is_dir() && !path.is_symlink() && *entry != Entry::Folder {
            fs::remove_dir_all(path).unwrap();
        } else if *entry != Entry::Folder {
            let _ = fs::remove_file(path); // A hard link: writing would change every tree.
        }
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        match entry {
            Entry::File(content) => {
                write(path, &content.replace("{{root}}", &root.display().to_string()))
            }
            Entry::Link(target) => symlink(target, path).unwrap(),
            Entry::Script => fs::hard_link(self.standard().join("index.php"), path).unwrap(),
            Entry::Folder => fs::create_dir_all(path).unwrap(),
            Entry::Removed => {}
        }
    }
}

/// Writes a file for everybody to read.
pub fn write(path: &Path, content: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
    let file = File::options().write(true).open(path).unwrap();
    file.set_modified(modified()).unwrap();
}

/// Makes folders as old as the files in them: listings show it.
fn settle(folder: &Path) {
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap()) {
        if entry.file_type().unwrap().is_dir() {
            settle(&entry.path());
        }
    }
    File::open(folder).unwrap().set_modified(modified()).unwrap();
}

fn modified() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(MODIFIED)
}
