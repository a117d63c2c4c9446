//! FrankenPHP's library with a small server around it, built from its Go module: Debian has no
//! package of it.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::process::find;
use crate::zts::{self, cache_folder, make_folder, run};

/// The files of the server: a Go module that requires FrankenPHP's.
const FILES: [(&str, &str); 3] = [
    ("go.mod", include_str!("frankenphp/go.mod")),
    ("go.sum", include_str!("frankenphp/go.sum")),
    ("main.go", include_str!("frankenphp/main.go")),
];

/// The built program; `None` if it was not built.
pub fn built() -> Option<PathBuf> {
    Some(cache_folder("frankenphp")?.join("frankenphp-library")).filter(|file| file.is_file())
}

/// The version of FrankenPHP that is built.
pub fn version() -> &'static str {
    let line = FILES[0].1.lines().find_map(|line| line.strip_prefix("require "));
    line.and_then(|line| line.split_once(" v")).map_or("", |(_, version)| version)
}

/// Builds the program from Go's module proxy, with the library of the thread-safe PHP. `say`
/// receives each step.
///
/// # Errors
///
/// The message says which step failed, such as a module that cannot be fetched.
pub fn build(php: &str, mut say: impl FnMut(&str)) -> Result<(), String> {
    let go = find(&["go"]).ok_or("FrankenPHP needs Go 1.25 or newer, and there is no `go`")?;
    if zts::library(php).is_none() {
        zts::build_library(php, &mut say)?;
    }
    let library = zts::library(php).ok_or("the library of PHP is not where it was built")?;
    let folder = cache_folder("frankenphp").ok_or("no folder to keep FrankenPHP in")?;
    let work = folder.join("build");
    let _ = fs::remove_dir_all(&work);
    make_folder(&work)?;
    for (name, text) in FILES {
        fs::write(work.join(name), text).map_err(|error| format!("{name}: {error}"))?;
    }
    say("compiling FrankenPHP");
    let lib = library.join("lib/php");
    let includes = Command::new(library.join("bin/php-config")).arg("--includes").output();
    let includes = includes.map_err(|error| format!("php-config: {error}"))?.stdout;
    let includes = String::from_utf8_lossy(&includes).trim().to_owned();
    let mut command = Command::new(go);
    command
        // The watcher of files needs a library of its own. It restarts workers, which are not used.
        .args(["build", "-trimpath", "-tags", "nowatcher", "-o"])
        .arg(folder.join("frankenphp-library"))
        .arg(".")
        .env("CGO_ENABLED", "1")
        .env("CGO_CFLAGS", includes)
        .env("CGO_LDFLAGS", format!("-L{0} -Wl,-rpath,{0}", lib.display()));
    run(&mut command, &work, "go build").map_err(|why| format!("FrankenPHP is left out: {why}"))?;
    fs::remove_dir_all(&work).map_err(|error| format!("{}: {error}", work.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_the_one_of_the_module() {
        let version = version();
        assert!(version.starts_with(|digit: char| digit.is_ascii_digit()), "{version}");
        assert!(FILES[1].1.contains(&format!("github.com/dunglas/frankenphp v{version} h1:")));
    }
}
