//! PHP's version, extensions and settings in each stack: stacks are comparable where these are the
//! same.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use crate::environment::INI;
use crate::load::{LoadProtocol, Question};
use crate::loads::sample;

/// The script that reports them, in every document root of the laboratory.
pub const SCRIPT: &str = r#"<?php
header('Content-Type: application/json');
$status = function_exists('opcache_get_status') ? opcache_get_status(false) : false;
$ini = [];
foreach (explode(',', $_GET['ini'] ?? '') as $key) {
    $ini[$key] = ini_get($key);
}
echo json_encode([
    'version' => PHP_VERSION,
    'thread_safe' => (bool) PHP_ZTS,
    'opcache' => is_array($status) && $status['opcache_enabled'],
    'extensions' => array_map('strtolower', get_loaded_extensions()),
    'ini' => $ini,
]);
"#;

/// Each SAPI counts itself as an extension.
const SAPI_NAMES: [&str; 5] = ["apache2handler", "cgi-fcgi", "core", "embed", "howdah"];

/// PHP's version, extensions and settings.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct PhpFacts {
    version: String,
    thread_safe: bool,
    opcache: bool,
    extensions: BTreeSet<String>,
    /// `None` where PHP does not know the setting.
    ini: BTreeMap<String, Option<IniValue>>,
}

/// `ini_get` answers `false` for settings that do not exist.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
enum IniValue {
    Unknown(bool),
    Value(String),
}

/// Asks the stack on that port; `None` where it does not have the script or does not answer.
pub fn of(port: u16, protocol: LoadProtocol) -> Option<PhpFacts> {
    let keys: Vec<&str> = INI.iter().map(|(key, _)| *key).collect();
    let question = Question {
        path: format!("/facts.php?ini={}", keys.join(",")),
        protocol,
        ..Question::default()
    };
    let answer = sample::ask(&question, port).ok().filter(|answer| answer.status == 200)?;
    serde_json::from_slice(&answer.body).ok()
}

/// Describes the differences of each stack to the first one, and stacks with a wrong state of
/// opcache.
pub fn differences(all: &[(&str, PhpFacts)], opcache: bool) -> Vec<String> {
    let mut notes = Vec::new();
    let Some((first_title, first)) = all.first() else {
        return notes;
    };
    for (title, one) in all {
        if one.opcache != opcache {
            notes.push(format!("{title}: opcache is {}", if opcache { "off" } else { "on" }));
        }
        if one.version != first.version {
            notes.push(format!(
                "{title}: PHP is {}, that of {first_title} is {}",
                one.version, first.version
            ));
        }
        if one.thread_safe != first.thread_safe {
            let is = if one.thread_safe { "is" } else { "is not" };
            notes.push(format!("{title}: PHP {is} thread-safe, unlike that of {first_title}"));
        }
        for (key, value) in
            one.ini.iter().filter(|(key, value)| first.ini.get(*key) != Some(*value))
        {
            notes.push(format!("{title}: {key} is {value:?}, unlike that of {first_title}"));
        }
        let unlike: Vec<&str> = one
            .extensions
            .symmetric_difference(&first.extensions)
            .map(String::as_str)
            .filter(|name| !SAPI_NAMES.contains(name))
            .collect();
        if !unlike.is_empty() {
            let unlike = unlike.join(", ");
            notes.push(format!("{title}: extensions unlike those of {first_title}: {unlike}"));
        }
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(json: &str) -> PhpFacts {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn only_differences_are_told() {
        let one = r#"{"version":"8.2.1","thread_safe":false,"opcache":true,"extensions":["core","date"],"ini":{"a":"1","b":false}}"#;
        let other = one.replace("8.2.1", "8.3.0").replace("\"date\"", "\"date\",\"gd\"");
        let other = other.replace("\"a\":\"1\"", "\"a\":\"2\"");
        let all = [("A", facts(one)), ("B", facts(one)), ("C", facts(&other))];
        let notes = differences(&all, true);
        assert_eq!(notes.len(), 3, "{notes:?}");
        assert!(notes.iter().all(|note| note.starts_with("C: ")), "{notes:?}");
        assert!(notes[2].ends_with("unlike those of A: gd"), "{notes:?}");
        assert_eq!(differences(&all[..1], false), ["A: opcache is on"]);
        assert_eq!(differences(&[], true), Vec::<String>::new());
    }
}
