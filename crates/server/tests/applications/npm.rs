//! Packages of the npm registry, fetched once and kept in the build's folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A package at a version; both are part of a folder's name below `target`.
pub(crate) struct Package {
    pub(crate) name: &'static str,
    pub(crate) version: &'static str,
}

impl Package {
    /// Returns the folder that `arrange` fills from the package's contents: `arrange` gets the
    /// unpacked `members` and the folder. `Err`: the reason why the package is not available.
    pub(crate) fn fetched(
        &self,
        members: &[&str],
        arrange: fn(&Path, &Path),
    ) -> Result<PathBuf, String> {
        let cache = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let kept = cache.join(format!("{}-{}", self.name.replace(['@', '/'], "-"), self.version));
        if kept.exists() {
            return Ok(kept);
        }
        fs::create_dir_all(cache).unwrap();
        // A failed installation is not kept, and another test run may be at work, too.
        let work = tempfile::tempdir_in(cache).unwrap();
        let package = format!("{}@{}", self.name, self.version);
        let pack =
            ["pack", &package, "--loglevel=error", "--fetch-retries=0", "--pack-destination", "."];
        run(Command::new("npm").args(pack), work.path())?;
        let files = fs::read_dir(work.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let archive = files.into_iter().find(|name| name.to_string_lossy().ends_with(".tgz"));
        let archive = archive.ok_or_else(|| format!("npm pack {package} made no archive"))?;
        run(Command::new("tar").arg("-xzf").arg(archive).args(members), work.path())?;
        let arranged = work.path().join("arranged");
        fs::create_dir(&arranged).unwrap();
        arrange(&work.path().join("package"), &arranged);
        match fs::rename(&arranged, &kept) {
            Err(error) if !kept.exists() => Err(error.to_string()),
            _ => Ok(kept),
        }
    }
}

/// Unpacks the zip `archive` below `folder`.
pub(crate) fn unzip(archive: &Path, folder: &Path) {
    run(Command::new("python3").args(["-m", "zipfile", "-e"]).arg(archive).arg(folder), folder)
        .unwrap();
}

fn run(command: &mut Command, folder: &Path) -> Result<(), String> {
    let output = command.current_dir(folder).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{:?}: {error}", command.get_program()))?;
    if output.status.success() {
        return Ok(());
    }
    let told = String::from_utf8_lossy(&output.stderr);
    Err(format!("{command:?} ended with {}: {}", output.status, told.trim()))
}
