//! The programs that run PHP: `howdah-php`, and one for each version of PHP beside it.

use std::path::{Path, PathBuf};

use super::environment::Environment;
use super::generation_plan::is_program;

/// The program of the version that Howdah was built for.
const PROGRAM: &str = "howdah-php";

/// Returns the program for a version of PHP; for `None` the usual one, or if that is missing, the
/// one of the newest version.
///
/// # Errors
/// There is none, and what to do.
pub(super) fn find(version: Option<&str>, environment: &Environment) -> Result<PathBuf, String> {
    let name = format!("{PROGRAM}{}", version.unwrap_or_default());
    let places = environment.places_of(&name);
    if let Some(found) = places.iter().find(|place| is_program(place)) {
        return Ok(found.clone());
    }
    let mut others = all(environment);
    if version.is_none()
        && let Some(newest) = others.pop()
    {
        return Ok(newest);
    }
    let mut folders: Vec<String> = places
        .iter()
        .filter_map(|place| Some(place.parent()?.display().to_string()))
        .collect();
    folders.dedup();
    let folders = folders.join(", ");
    Err(match version {
        None => format!(
            "{PROGRAM}, which runs PHP, is in none of {folders}; install it there, set \
             `php.program`, or serve without PHP (`php = false`, --no-php)"
        ),
        Some(version) => {
            let others: Vec<_> = others.iter().map(|path| path.display().to_string()).collect();
            let found = match others.is_empty() {
                true => "there is no other".to_owned(),
                false => format!("there are {}", others.join(", ")),
            };
            format!(
                "`php.version`: {name}, which runs PHP {version}, is in none of {folders}; \
                 {found}. Install the package {name}, or give another version"
            )
        }
    })
}

/// Returns the programs that run PHP, the one without a version first, then by version.
pub(super) fn all(environment: &Environment) -> Vec<PathBuf> {
    let mut found: Vec<((u32, u32), PathBuf)> = Vec::new();
    for place in environment.places_of(PROGRAM) {
        let Some(folder) = place.parent() else {
            continue;
        };
        // A folder that cannot be read has none.
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            if let Some(version) = version_of(&entry.path())
                && !found.iter().any(|(known, _)| *known == version)
                && is_program(&entry.path())
            {
                found.push((version, entry.path()));
            }
        }
    }
    found.sort();
    found.into_iter().map(|(_, path)| path).collect()
}

/// Returns the version in the name of a program; 0.0 for the one without. `None`: it does not run
/// PHP.
fn version_of(program: &Path) -> Option<(u32, u32)> {
    let version = program.file_name()?.to_str()?.strip_prefix(PROGRAM)?;
    if version.is_empty() {
        return Some((0, 0));
    }
    let (major, minor) = version.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_the_version() {
        for (name, version) in [
            ("howdah-php", Some((0, 0))),
            ("howdah-php8.2", Some((8, 2))),
            ("howdah-php8.10", Some((8, 10))),
            ("howdah-php8.2.old", None),
            ("howdah-php8", None),
            ("howdah", None),
        ] {
            assert_eq!(version_of(&Path::new("/usr/bin").join(name)), version, "{name}");
        }
    }
}
