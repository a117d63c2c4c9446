//! The folder that a pool's workers see as `/`, and the paths within it.
//!
//! The zygote stays outside: PHP starts there, and a worker needs `/proc` until its first request.
//! The front, which knows nothing of it, sends paths of the machine.

use std::borrow::Cow;
use std::io;
use std::path::Path;

use howdah_ipc::control::PoolSettings;
use howdah_sys::chroot::{self, RootFolder};

/// The root folder of a pool's workers.
#[derive(Debug)]
pub struct PoolRoot {
    /// Its path as other paths begin, without a slash at the end.
    path: String,
    folder: RootFolder,
}

/// The variables whose values are paths of the machine.
const PATHS: [&[u8]; 4] =
    [b"SCRIPT_FILENAME", b"DOCUMENT_ROOT", b"CONTEXT_DOCUMENT_ROOT", b"PATH_TRANSLATED"];

impl PoolRoot {
    /// Opens the folder of a pool that has one, and puts the right to enter it aside.
    ///
    /// # Errors
    /// The reason, as text for a person.
    pub fn of(settings: &PoolSettings) -> Result<Option<PoolRoot>, String> {
        let PoolSettings { chroot: path, chroot_folder, .. } = settings;
        if path.is_empty() && chroot_folder.is_empty() {
            return Ok(None);
        }
        let told = |error: io::Error| {
            format!(
                "cannot use the folder {chroot_folder} of `chroot`: {error}; it must be there, \
                 without links of other users in its path, and the pool's user must be able to \
                 enter every folder above it"
            )
        };
        let folder = RootFolder::open(Path::new(chroot_folder)).map_err(told)?;
        chroot::put_right_aside().map_err(told)?;
        Ok(Some(PoolRoot { path: path.clone(), folder }))
    }

    /// Makes the folder the root of this process, which must have one thread. There is no way back.
    ///
    /// # Errors
    /// The process still has its former root.
    pub fn enter(&self) -> io::Result<()> {
        let path = &self.path;
        self.folder.enter().map_err(|error| {
            let what = format!(
                "cannot enter the folder {path}/ of `chroot`: {error}; let the pool's user enter it"
            );
            io::Error::new(error.kind(), what)
        })
    }

    /// Enters as [`PoolRoot::enter`] does, then enters the pool's working directory, if there is
    /// one.
    ///
    /// # Errors
    /// One of them cannot be entered.
    pub fn enter_with(&self, working_directory: Option<&Path>) -> io::Result<()> {
        self.enter()?;
        let Some(folder) = working_directory else {
            return Ok(());
        };
        std::env::set_current_dir(folder).map_err(|error| {
            let what = format!(
                "cannot enter the folder {} of `chdir` below `chroot`: {error}; create it there, \
                 or let the pool's user enter it and every folder above it",
                folder.display()
            );
            io::Error::new(error.kind(), what)
        })
    }

    /// The path within the folder of a path of the machine. A NUL after the path is one after the
    /// result. A path outside, which no process within can reach, stays as it is.
    pub fn inside<'p>(&self, path: &'p [u8]) -> &'p [u8] {
        match path.strip_prefix(self.path.as_bytes()) {
            Some(rest) if rest.starts_with(b"/") => rest,
            Some(b"") => c"/".to_bytes(),
            _ => path,
        }
    }
}

/// The path of a file as the pool's processes see it.
pub fn inside<'p>(root: Option<&PoolRoot>, path: &'p [u8]) -> &'p [u8] {
    root.map_or(path, |root| root.inside(path))
}

/// Returns the path of a file as the pool's processes see it, as text.
pub fn inside_text<'p>(root: Option<&PoolRoot>, path: &'p str) -> Cow<'p, str> {
    String::from_utf8_lossy(inside(root, path.as_bytes()))
}

/// The value of a variable as a script gets it.
pub fn variable<'v>(root: Option<&PoolRoot>, name: &[u8], value: &'v [u8]) -> &'v [u8] {
    match root {
        Some(root) if PATHS.contains(&name) => root.inside(value),
        _ => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lose_the_folder_and_nothing_else() {
        let root = |path: &str| PoolRoot {
            path: path.to_owned(),
            folder: RootFolder::open(Path::new("/")).unwrap(),
        };
        for (folder, path, expected) in [
            ("/srv/jail", "/srv/jail/app/a.php", "/app/a.php"),
            ("/srv/jail", "/srv/jail", "/"),
            ("/srv/jail", "/srv/jail/", "/"),
            ("/srv/jail", "/srv/jailed/a.php", "/srv/jailed/a.php"),
            ("/srv/jail", "/srv/a.php", "/srv/a.php"),
            ("", "/srv/a.php", "/srv/a.php"),
        ] {
            let root = root(folder);
            assert_eq!(inside_text(Some(&root), path), expected, "{folder} {path}");
            let value = |name: &[u8]| variable(Some(&root), name, path.as_bytes());
            assert_eq!(value(b"DOCUMENT_ROOT"), expected.as_bytes());
            assert_eq!(value(b"HTTP_X_FILE"), path.as_bytes(), "a client's own text");
        }
        assert_eq!(inside_text(None, "/srv/a.php"), "/srv/a.php");
    }
}
