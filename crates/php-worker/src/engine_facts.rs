//! Facts about PHP: opcache, folders of ini files, settings.

use std::ffi::CStr;
use std::hash::{DefaultHasher, Hasher};

use crate::sapi::Engine;

/// Facts that PHP knows about itself.
#[derive(Debug, PartialEq, Eq)]
pub struct EngineFacts {
    /// `on`, or the reason why opcache is off.
    pub opcache: String,
    /// The folder of further ini files that PHP was built with.
    pub ini_folder: String,
    /// A number of PHP's version, its extensions and all its settings: another one where these
    /// differ. 0 where the functions are disabled that list them.
    pub settings: u64,
}

/// 1 while opcache caches scripts, and 0 where it does not. Prints the folder of ini files that PHP
/// was built with, a NUL, and what the number of the settings is made of.
const FACTS: &CStr = c"[print(PHP_CONFIG_FILE_SCAN_DIR . \"\\0\"), \
    function_exists('ini_get_all') && function_exists('get_loaded_extensions') \
    && function_exists('serialize') \
    ? print(serialize([PHP_VERSION, get_loaded_extensions(), ini_get_all(null, false)])) : 0, \
    function_exists('opcache_get_status') ? \
    (int) (opcache_get_status(false)['opcache_enabled'] ?? false) : -1][2]";
const OPCACHE_MISSING: i64 = -1;

impl Engine {
    /// Asks PHP for these facts. Runs a request that has no client.
    pub fn facts(&mut self) -> EngineFacts {
        let (state, printed) = self.print(FACTS, OPCACHE_MISSING);
        let end = printed.iter().position(|byte| *byte == 0).unwrap_or(printed.len());
        let (folder, settings) = printed.split_at(end);
        let opcache = match state {
            1 => "on",
            OPCACHE_MISSING => "off: the extension is not loaded",
            _ if self.ini_value("opcache.enable").as_deref() != Some("1") => {
                "off: opcache.enable is off"
            }
            _ => "off: it did not start; see the log for its messages",
        };
        EngineFacts {
            opcache: opcache.to_owned(),
            ini_folder: String::from_utf8_lossy(folder).into_owned(),
            settings: number_of(settings.get(1..).unwrap_or_default()),
        }
    }
}

/// Returns a number of these bytes, 0 without any. A build with another compiler may have another
/// number for them.
pub fn number_of(bytes: &[u8]) -> u64 {
    if bytes.is_empty() {
        return 0;
    }
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish().max(1)
}
