//! The files beside those of pools: php.ini, and further settings.

use std::ffi::OsString;
use std::fs;
use std::path::{self, Path, PathBuf};

use super::SESSIONS;
use super::ini::{IniLine, lines};

/// The place of sessions that Debian's PHP has without a setting.
const USUAL_SESSIONS: &str = "/var/lib/php/sessions";

/// Returns the folder of Debian's php-fpm, which has the folder of its pools.
pub(super) fn folder_of(file: &Path) -> Option<PathBuf> {
    let file = path::absolute(file).ok()?;
    let folder = file.parent()?;
    let folder = if folder.ends_with("pool.d") {
        folder.parent()?
    } else {
        folder
    };
    Some(folder.to_owned())
}

pub(super) fn php_ini_in(folder: &Path) -> Option<String> {
    let php_ini = folder.join("php.ini");
    php_ini.is_file().then(|| php_ini.display().to_string())
}

/// Returns the place of sessions that a php.ini names.
pub(super) fn sessions_in(php_ini: &str) -> Option<String> {
    let found = lines(php_ini).filter_map(|(_, line)| match line {
        IniLine::Value(key, text) if key == SESSIONS => text.read,
        _ => None,
    });
    found.last().filter(|place| !place.is_empty())
}

/// Returns the place of sessions that Debian's PHP has without a setting, if `folder` has the form
/// of Debian's and the place is there.
pub(super) fn usual_sessions(folder: &Path) -> Option<String> {
    let is_debian = php_ini_in(folder).is_some() && Path::new(USUAL_SESSIONS).is_dir();
    is_debian.then(|| USUAL_SESSIONS.to_owned())
}

/// Returns the settings of php-fpm alone: files in its `conf.d` that are not in that of the embed
/// interface, which Howdah's PHP reads.
pub(super) fn scanned_in(folder: &Path) -> Vec<String> {
    let own = folder.join("conf.d");
    let read = folder.join("../embed/conf.d");
    let names = fs::read_dir(&own)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name());
    let is_left_out = |name: &OsString| {
        Path::new(name).extension().is_some_and(|ending| ending == "ini")
            && !read.join(name).exists()
    };
    let mut left_out: Vec<_> = names.filter(is_left_out).collect();
    left_out.sort();
    left_out.iter().map(|name| own.join(name).display().to_string()).collect()
}
