//! nginx Unit, built from its public source: Debian has no package of it.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::zts::{cache_folder, make_folder, run};

/// The repository with the source.
pub const SOURCE: &str = "https://github.com/nginx/unit";
/// The version that is built.
const VERSION: &str = "1.35.0";

/// Packages that the build needs.
pub fn packages(php: &str) -> Vec<String> {
    let php = [format!("php{php}-dev"), format!("libphp{php}-embed")];
    let others = ["build-essential", "git", "libpcre2-dev"].map(str::to_owned);
    [&php[..], &others].concat()
}

/// The built program; `None` if it was not built.
pub fn built() -> Option<PathBuf> {
    Some(cache_folder("unit")?.join("sbin/unitd")).filter(|file| file.is_file())
}

/// The folder of the built modules; `None` if the program was not built.
pub fn modules() -> Option<PathBuf> {
    built().and_then(|_| Some(cache_folder("unit")?.join("modules")))
}

/// Builds Unit with its PHP module from a repository. `say` receives each step.
///
/// # Errors
///
/// The message says which step failed, such as a repository that cannot be reached.
pub fn build(php: &str, source: &str, mut say: impl FnMut(&str)) -> Result<(), String> {
    let folder =
        cache_folder("unit").ok_or("neither XDG_CACHE_HOME nor HOME says where to keep Unit")?;
    build_in(&folder, php, source, &mut say)
}

fn build_in(
    folder: &Path,
    php: &str,
    source: &str,
    say: &mut dyn FnMut(&str),
) -> Result<(), String> {
    let work = folder.join("build");
    let _ = std::fs::remove_dir_all(&work);
    make_folder(folder)?;
    say("fetching the source of nginx Unit");
    let mut clone = Command::new("git");
    clone
        .args(["clone", "--quiet", "--depth", "1", "--branch", VERSION, source])
        .arg(&work);
    // A repository that is not there must not ask for a name.
    clone.env("GIT_TERMINAL_PROMPT", "0");
    run(&mut clone, folder, "git clone")
        .map_err(|why| format!("nginx Unit is left out: {source} cannot be fetched: {why}"))?;
    say("compiling nginx Unit");
    compile(php, folder, &work)?;
    std::fs::remove_dir_all(&work).map_err(|error| format!("{}: {error}", work.display()))
}

fn compile(php: &str, folder: &Path, work: &Path) -> Result<(), String> {
    let mut configure = Command::new("./configure");
    configure
        .arg(format!("--prefix={}", folder.display()))
        .arg(format!("--modulesdir={}", folder.join("modules").display()));
    run(&mut configure, work, "configure")?;
    let mut module = Command::new("./configure");
    module.args(["php", &format!("--module=php{php}"), &format!("--config=php-config{php}")]);
    run(&mut module, work, "configure php")?;
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    run(Command::new("make").arg(format!("-j{jobs}")), work, "make")?;
    run(Command::new("make").arg("install"), work, "make install")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_that_cannot_be_reached_is_named() {
        let folder = crate::environment::Temporary::new().unwrap();
        let error = build_in(folder.path(), "8.2", "/nonexistent/unit", &mut |_| {}).unwrap_err();
        assert!(error.contains("/nonexistent/unit cannot be fetched"), "{error}");
    }
}
