//! A folder for a test, with files in it.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// A number that no other folder of this test program has in its name.
pub fn next_number() -> u32 {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    COUNT.fetch_add(1, Ordering::Relaxed)
}

/// A folder that goes with its owner.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// An empty one that everybody may read.
    pub fn new() -> Folder {
        let name = format!("howdah-test-{}-{}", std::process::id(), next_number());
        Folder::at(std::env::temp_dir().join(name))
    }

    /// An empty one at `path` that everybody may read.
    pub fn at(path: PathBuf) -> Folder {
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        Folder(path)
    }

    /// An empty one that everybody may write to, as `/tmp`.
    pub fn writable() -> Folder {
        let folder = Folder::new();
        fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o1777)).unwrap();
        folder
    }

    /// One with an `index.php` of these lines, after `<?php`.
    pub fn with_script(script: &str) -> Folder {
        let folder = Folder::new();
        folder.file("index.php", format!("<?php {script}"));
        folder
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file, and the folders above it.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        path
    }

    /// Writes a program that everybody may execute; see [`write_program`].
    pub fn program(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        write_program(&path, content);
        path
    }

    /// Makes a folder in it.
    pub fn folder(&self, name: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::create_dir_all(&path).unwrap();
        path
    }
}

/// Writes a program that everybody may execute. Another process does it: a process that another
/// thread of this one forks meanwhile would have the file open for writing until it executes its
/// own program, and until then the kernel refuses to execute the file (ETXTBSY).
pub fn write_program(path: &Path, content: impl AsRef<[u8]>) {
    let mut shell = Command::new("sh")
        .args(["-c", "cat >\"$0\" && chmod 755 \"$0\""])
        .arg(path)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    shell.stdin.take().unwrap().write_all(content.as_ref()).unwrap();
    assert!(shell.wait().unwrap().success(), "writing {}", path.display());
}

/// Copies a program, as [`write_program`] writes one.
pub fn copy_program(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("--").args([from, to]).status().unwrap();
    assert!(copied.success(), "copying {} to {}", from.display(), to.display());
    // The owner of a file may change its mode without having it open.
    fs::set_permissions(to, fs::Permissions::from_mode(0o755)).unwrap();
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
