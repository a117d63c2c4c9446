//! Debian's Apache, for tests that compare with it.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

pub const PROGRAM: &str = "/usr/sbin/apache2";
pub const MODULES: &str = "/usr/lib/apache2/modules";

/// Starts Apache with a file of configuration. Its messages go to `stderr` before it has a log.
/// It is in a process group of its own, because in the foreground it ends all of its group; and it
/// is ended with this process, however that ends.
pub fn start(configuration: &Path, stderr: &Path) -> Child {
    Command::new("setpriv")
        .args(["--pdeathsig", "TERM", PROGRAM, "-D", "FOREGROUND", "-f"])
        .arg(configuration)
        .env_clear()
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(File::create(stderr).unwrap())
        .spawn()
        .unwrap()
}

/// The file of mod_php; `None` if it is not installed.
pub fn php_module() -> Option<PathBuf> {
    let entries = fs::read_dir(MODULES).ok()?;
    let mut paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    paths.find(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("libphp") && name.ends_with(".so")
    })
}
