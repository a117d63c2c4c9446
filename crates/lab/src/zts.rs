//! A thread-safe PHP for Apache's worker MPM and for FrankenPHP, built from Debian's own source
//! package.
//!
//! Debian has no thread-safe PHP, and neither mod_php nor FrankenPHP can run in threads without
//! one. It is built once for each of them and kept in a cache folder. The machine's own package
//! sources are used, with `deb` read as `deb-src`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::environment;

/// Packages that the build needs.
pub const PACKAGES: &[&str] = &[
    "apache2-dev",
    "autoconf",
    "bison",
    "build-essential",
    "dpkg-dev",
    "libonig-dev",
    "pkg-config",
    "re2c",
    "zlib1g-dev",
];

/// Extensions that WordPress and the documents of the studies need.
const OPTIONS: &[&str] = &[
    "--disable-all",
    "--enable-zts",
    "--enable-opcache",
    "--enable-ctype",
    "--enable-filter",
    "--enable-mbstring",
    "--enable-session",
    "--enable-tokenizer",
    "--with-mysqli=mysqlnd",
    "--with-zlib",
    "--disable-cli",
    "--disable-cgi",
    "--disable-phpdbg",
];

/// The built module of Apache and opcache extension for this version; `None` if one is missing.
pub fn built(php: &str) -> Option<(PathBuf, PathBuf)> {
    let folder = cache(php)?;
    let (module, opcache) = (folder.join("libphp.so"), folder.join("opcache.so"));
    (module.is_file() && opcache.is_file()).then_some((module, opcache))
}

/// The folder with the built library for this version; `None` if it was not built. PHP has
/// installed `bin`, `include` and `lib/php` there. `lib/php` has the library and the opcache
/// extension.
pub fn library(php: &str) -> Option<PathBuf> {
    let folder = cache(php)?.join("library");
    let has = |name| folder.join(name).is_file();
    (has("lib/php/libphp.so") && has("lib/php/opcache.so")).then_some(folder)
}

/// Builds Apache's module. `say` receives each step, since the build takes minutes.
///
/// # Errors
///
/// A message for people: the step that failed, and where its output is.
pub fn build(php: &str, say: impl FnMut(&str)) -> Result<(), String> {
    let folder = cache(php).ok_or(NO_CACHE)?;
    let work = folder.join("build");
    let source = compile(php, &work, &["--with-apxs2=/usr/bin/apxs2"], say)?;
    for (from, to) in [("libs/libphp.so", "libphp.so"), ("modules/opcache.so", "opcache.so")] {
        keep(&source.join(from), &folder.join(to))?;
    }
    remove(&work)
}

/// Builds the library with its headers. `say` receives each step.
///
/// # Errors
///
/// The errors of [`build`].
pub fn build_library(php: &str, say: impl FnMut(&str)) -> Result<(), String> {
    let folder = cache(php).ok_or(NO_CACHE)?;
    let (work, library) = (folder.join("build-library"), folder.join("library"));
    let prefix = format!("--prefix={}", library.display());
    // Signals are Go's own: PHP's handling of them is for processes.
    let options = ["--enable-embed", "--disable-zend-signals", &prefix];
    let source = compile(php, &work, &options, say)?;
    run(Command::new("make").arg("install"), &source, "make install")?;
    keep(&source.join("modules/opcache.so"), &library.join("lib/php/opcache.so"))?;
    remove(&work)
}

/// Compiles PHP's source package in `work` and returns the folder of its source.
fn compile(
    php: &str,
    work: &Path,
    options: &[&str],
    mut say: impl FnMut(&str),
) -> Result<PathBuf, String> {
    let _ = fs::remove_dir_all(work);
    make_folder(work)?;
    say("fetching Debian's source package of PHP");
    fetch_source(php, work)?;
    let source = unpacked(work)?;
    say("configuring");
    run(Command::new("./buildconf").arg("--force"), &source, "buildconf")?;
    let mut configure = Command::new("./configure");
    configure.args(OPTIONS).args(options);
    run(&mut configure, &source, "configure")?;
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    say("compiling, which takes some minutes");
    run(Command::new("make").arg(format!("-j{jobs}")), &source, "make")?;
    Ok(source)
}

/// Copies what was built. The copy is atomic: a partial module would crash its server.
fn keep(from: &Path, to: &Path) -> Result<(), String> {
    let part = to.with_extension("part");
    let copied = fs::copy(from, &part).and_then(|_| fs::rename(&part, to));
    copied.map_err(|error| format!("{}: {error}", from.display()))
}

fn remove(work: &Path) -> Result<(), String> {
    fs::remove_dir_all(work).map_err(|error| format!("{}: {error}", work.display()))
}

const NO_CACHE: &str = "neither XDG_CACHE_HOME nor HOME says where to keep what is built";

/// The folder of this version.
fn cache(php: &str) -> Option<PathBuf> {
    cache_folder(&format!("php{php}-zts"))
}

/// A folder for built programs, below /var/cache as root, otherwise in the user's cache. `None`:
/// the environment names no home folder.
pub(crate) fn cache_folder(name: &str) -> Option<PathBuf> {
    let top = if environment::user().is_some() {
        PathBuf::from("/var/cache")
    } else {
        let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
        std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home)?
    };
    Some(top.join("howdah-lab").join(name))
}

/// The machine's package sources as sources of source packages, in lists of our own.
fn fetch_source(php: &str, work: &Path) -> Result<(), String> {
    let (parts, lists) = (work.join("sources"), work.join("lists"));
    make_folder(&parts)?;
    make_folder(&lists.join("partial"))?;
    let files = fs::read_dir("/etc/apt/sources.list.d")
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path());
    for file in files.chain([PathBuf::from("/etc/apt/sources.list")]) {
        let name = file
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default();
        if let Some(text) = fs::read_to_string(&file)
            .ok()
            .filter(|_| name.ends_with(".list") || name.ends_with(".sources"))
        {
            fs::write(parts.join(&name), as_source_packages(&text))
                .map_err(|error| format!("{name}: {error}"))?;
        }
    }
    let options = |program: &str| {
        let mut command = Command::new(program);
        command.args(["-o", "Dir::Etc::SourceList=/dev/null", "-o"]);
        command.arg(format!("Dir::Etc::SourceParts={}", parts.display()));
        command.arg("-o").arg(format!("Dir::State::Lists={}", lists.display()));
        // apt's download user may not enter the folder and does not need to.
        command.args(["-o", "APT::Sandbox::User=root"]);
        command
    };
    run(options("apt-get").args(["-q", "update"]), work, "apt-get update")?;
    let known = options("apt-cache").args(["showsrc", &format!("php{php}")]).output();
    let known = known.map_err(|error| format!("apt-cache: {error}"))?;
    let versions = versions(&String::from_utf8_lossy(&known.stdout));
    // Not every mirror has the newest version's source.
    let mut result = Err(format!("no source package php{php} is known to apt"));
    for version in versions.iter().rev() {
        let package = format!("php{php}={version}");
        result = run(
            options("apt-get").args(["-q", "source", "--download-only", &package]),
            work,
            "apt-get source",
        );
        if result.is_ok() {
            break;
        }
    }
    result?;
    let description = find(work, ".dsc")?;
    run(
        Command::new("dpkg-source")
            .args(["--no-check", "-x"])
            .arg(&description)
            .arg("php"),
        work,
        "dpkg-source",
    )
}

/// The versions that `apt-cache showsrc` lists, oldest first.
fn versions(text: &str) -> Vec<String> {
    text.lines()
        .filter_map(|line| line.strip_prefix("Version: "))
        .map(str::to_owned)
        .collect()
}

fn as_source_packages(text: &str) -> String {
    let line = |line: &str| {
        let line = line
            .strip_prefix("deb ")
            .map_or_else(|| line.to_owned(), |rest| format!("deb-src {rest}"));
        if line.starts_with("Types:") {
            "Types: deb-src".to_owned()
        } else {
            line
        }
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n") + "\n"
}

fn unpacked(work: &Path) -> Result<PathBuf, String> {
    let folder = work.join("php");
    if folder.join("buildconf").is_file() {
        Ok(folder)
    } else {
        Err("the source package holds no buildconf".to_owned())
    }
}

fn find(folder: &Path, ending: &str) -> Result<PathBuf, String> {
    let mut entries = fs::read_dir(folder)
        .map_err(|error| error.to_string())?
        .flatten()
        .map(|entry| entry.path());
    entries
        .find(|path| path.to_string_lossy().ends_with(ending))
        .ok_or_else(|| format!("no {ending} file was downloaded"))
}

/// Makes a folder and those above it.
///
/// # Errors
/// A message for people: the folder cannot be made.
pub(crate) fn make_folder(path: &Path) -> Result<(), String> {
    fs::create_dir_all(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Runs a step of a build.
///
/// # Errors
/// The step fails: a message with the end of its output.
pub(crate) fn run(command: &mut Command, folder: &Path, what: &str) -> Result<(), String> {
    let output = command.current_dir(folder).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{what}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    Err(format!("{what} failed:\n{}", lines[lines.len().saturating_sub(15)..].join("\n")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_of_packages_become_sources_of_source_packages() {
        for (given, expected) in [
            (
                "deb http://example.org/debian stable main\n",
                "deb-src http://example.org/debian stable main\n",
            ),
            (
                "Types: deb\nURIs: http://example.org/debian\n",
                "Types: deb-src\nURIs: http://example.org/debian\n",
            ),
            ("# a remark\ndeb-src x\n", "# a remark\ndeb-src x\n"),
        ] {
            assert_eq!(as_source_packages(given), expected);
        }
    }
}
