//! A copy of the workspace in which the sources of one crate are rewritten, and its build.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::Numbers;
use crate::find::Source;
use crate::rewrite::{self, Rewritten};

/// The parts of the workspace that the build and the tests of a crate can need.
const COPIED: [&str; 4] = ["Cargo.toml", "Cargo.lock", "crates", "docs"];

/// The copy. It is below `target/mutants` and is made anew by each run.
pub struct Tree {
    name: String,
    folder: PathBuf,
    target: PathBuf,
    /// The folder for the temporary files of tests.
    pub scratch: PathBuf,
}

impl Tree {
    /// Copies the workspace. Files keep their times, so that other crates are not built again.
    pub fn copy(root: &Path, name: &str) -> Result<Tree, String> {
        let target =
            std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
        let base =
            std::path::absolute(target.join("mutants")).map_err(|error| error.to_string())?;
        let tree = Tree {
            name: name.into(),
            folder: base.join(name),
            target: base.join("build"),
            scratch: base.join(format!("{name}-tmp")),
        };
        let mut git = Command::new("git");
        git.current_dir(root)
            .args(["ls-files", "-z", "-co", "--exclude-standard", "--"]);
        let listed = output(git.args(COPIED))?;
        let _ = fs::remove_dir_all(&tree.folder);
        for path in String::from_utf8_lossy(&listed.stdout).split_terminator('\0') {
            let (from, to) = (root.join(path), tree.folder.join(path));
            if from.is_file() {
                copy(&from, &to).map_err(|error| format!("{}: {error}", to.display()))?;
            }
        }
        Ok(tree)
    }

    /// The folder of the crate, where its tests run.
    pub fn package(&self) -> PathBuf {
        self.folder.join("crates").join(&self.name)
    }

    /// Writes the rewritten sources. Returns them.
    fn write(&self, sources: &[Source], unbuilt: &Numbers) -> Result<Vec<Rewritten>, String> {
        let count = sources.iter().flat_map(Source::mutants).count();
        let mut all = Vec::new();
        for source in sources {
            let rewritten = Rewritten::new(source, unbuilt);
            let mut text = rewritten.text.clone();
            if source.path.ends_with("src/lib.rs") {
                text.push_str(&rewrite::module(count));
            }
            let path = self.folder.join(&source.path);
            fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
            all.push(rewritten);
        }
        Ok(all)
    }

    fn compile(&self) -> Result<Output, String> {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.current_dir(&self.folder).env("RUSTFLAGS", "--cap-lints=allow");
        cargo.args(["test", "--locked", "--lib", "--tests", "--no-run", "--message-format=short"]);
        cargo.args(["--package", &format!("howdah-{}", self.name), "--target-dir"]);
        cargo.arg(&self.target).output().map_err(|error| format!("cargo: {error}"))
    }
}

/// Builds the tests with all mutants that compile. Returns the programs of the tests, and the
/// mutants that do not compile: each round finds some more, as the compiler looks for types first.
pub fn build(tree: &Tree, sources: &[Source]) -> Result<(Vec<PathBuf>, Numbers), String> {
    let mut unbuilt = Numbers::new();
    loop {
        let rewritten = tree.write(sources, &unbuilt)?;
        let built = tree.compile()?;
        let messages = String::from_utf8_lossy(&built.stderr);
        if built.status.success() {
            return Ok((messages.lines().filter_map(program).collect(), unbuilt));
        }
        let before = unbuilt.len();
        for (path, line) in messages.lines().filter_map(error_place) {
            let files = sources.iter().zip(&rewritten);
            let guilty = files
                .filter(|(source, _)| source.path == path)
                .find_map(|(_, rewritten)| rewritten.mutants_at(line));
            unbuilt.extend(guilty.into_iter().flatten());
        }
        if unbuilt.len() == before {
            return Err(format!("the rewritten crate does not compile:\n{messages}"));
        }
        eprintln!("mutants: {} do not compile; building without them", unbuilt.len());
    }
}

/// Reads `PATH:LINE:COLUMN: error…`; `None` for other lines.
fn error_place(message: &str) -> Option<(&Path, usize)> {
    let (place, rest) = message.split_once(": error")?;
    let mut parts = place.rsplitn(3, ':');
    let (_column, line, path) = (parts.next()?, parts.next()?, parts.next()?);
    (rest.starts_with([':', '['])).then_some((Path::new(path), line.parse().ok()?))
}

/// Reads `Executable … (PATH)`; `None` for other lines.
fn program(message: &str) -> Option<PathBuf> {
    let (_, path) = message.trim().strip_prefix("Executable ")?.rsplit_once('(')?;
    Some(path.strip_suffix(')')?.into())
}

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::copy(from, to)?;
    fs::File::options()
        .write(true)
        .open(to)?
        .set_modified(fs::metadata(from)?.modified()?)
}

/// Runs a program that has to succeed.
pub fn output(command: &mut Command) -> Result<Output, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    match command.output() {
        Ok(output) if output.status.success() => Ok(output),
        Ok(output) => Err(format!("{program}: {}", String::from_utf8_lossy(&output.stderr))),
        Err(error) => Err(format!("{program}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_cargo_are_read() {
        let error = "crates/php/src/pool.rs:12:5: error[E0308]: mismatched types: error";
        assert_eq!(error_place(error), Some((Path::new("crates/php/src/pool.rs"), 12)));
        assert_eq!(error_place("error: could not compile `howdah-php` (lib)"), None);
        assert_eq!(error_place("a.rs:1:2: warning: errors are ignored"), None);
        let line = "  Executable unittests src/lib.rs (/t/debug/deps/howdah_php-1)";
        assert_eq!(program(line), Some("/t/debug/deps/howdah_php-1".into()));
        assert_eq!(program("    Finished `test` profile (1)"), None);
    }
}
