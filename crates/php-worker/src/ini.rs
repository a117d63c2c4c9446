//! Translates a pool's ini settings for PHP.

/// Name and value of an ini setting, as configured.
pub type IniPair = (String, String);

/// Ini settings to apply before PHP starts, and settings to apply after the start.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct PoolIni {
    /// Text in the syntax of php.ini that precedes php.ini's own values.
    pub entries: Vec<u8>,
    /// Settings that must exist. A warning is logged for each that does not.
    pub expected: Vec<String>,
    /// Settings that scripts must not change.
    pub protected: Vec<String>,
    /// Functions added to `disable_functions` of php.ini, as php-fpm does.
    pub disabled_functions: Vec<String>,
    /// Classes added to `disable_classes`.
    pub disabled_classes: Vec<String>,
}

impl PoolIni {
    /// Sorts the settings `ini`, which scripts may change as far as PHP permits, and `admin_ini`,
    /// which they may not.
    pub fn new(ini: &[IniPair], admin_ini: &[IniPair]) -> PoolIni {
        let mut pool = PoolIni::default();
        for (name, value) in ini {
            pool.add(name, value);
        }
        for (name, value) in admin_ini {
            pool.add(name, value);
            if !is_loader(name) {
                pool.protected.push(name.clone());
            }
        }
        pool
    }

    fn add(&mut self, name: &str, value: &str) {
        match name {
            "disable_functions" => self.disabled_functions.push(value.to_owned()),
            "disable_classes" => self.disabled_classes.push(value.to_owned()),
            _ => write_entry(&mut self.entries, name, value),
        }
        if !is_loader(name) {
            self.expected.push(name.to_owned());
        }
    }
}

/// Returns the settings whose values PHP has not taken: name, value, and the value that `present`
/// knows instead. `present` returns `None` for a setting that PHP does not know: such a setting is
/// not among the results. Of lists with the same setting the last one counts.
pub fn refused<'g>(
    given: &[&'g [IniPair]],
    present: impl Fn(&str) -> Option<String>,
) -> Vec<(&'g str, &'g str, String)> {
    // PHP calculates the first one; the others are lists that are added to.
    let is_other = |name: &str| {
        matches!(name, "error_reporting" | "disable_functions" | "disable_classes")
            || is_loader(name)
    };
    let mut refused = Vec::new();
    for (index, pairs) in given.iter().enumerate() {
        for (name, value) in pairs.iter().filter(|(name, _)| !is_other(name)) {
            let is_last = is_open(name, &given[index + 1..]);
            let kept = present(name).filter(|kept| is_last && kept != value);
            refused.extend(kept.map(|kept| (name.as_str(), value.as_str(), kept)));
        }
    }
    refused
}

/// Returns whether `given` does not contain the setting.
fn is_open(name: &str, given: &[&[IniPair]]) -> bool {
    !given.iter().any(|pairs| pairs.iter().any(|(known, _)| known == name))
}

/// Returns the folder of the pool's sessions. `None` if the pool has no folder of its own for them,
/// or if the configuration says when old sessions are deleted.
pub fn own_sessions(state_dir: &str, given: &[&[IniPair]]) -> Option<String> {
    let own = ["session.save_path", "session.gc_probability"]
        .iter()
        .all(|name| is_open(name, given));
    (own && !state_dir.is_empty()).then(|| format!("{state_dir}/{SESSIONS}"))
}

/// Returns the folder of uploaded files. `None` if the pool has no folder of its own for them.
pub fn own_uploads(state_dir: &str, given: &[&[IniPair]]) -> Option<String> {
    let own = is_open(UPLOADS_SETTING, given) && !state_dir.is_empty();
    own.then(|| format!("{state_dir}/{UPLOADS}"))
}

/// Ini settings that place temporary files into the pool's own folders, unless `given` contains the
/// setting.
pub fn folders(state_dir: &str, given: &[&[IniPair]]) -> Vec<IniPair> {
    let mut pairs = Vec::new();
    for (name, folder) in
        [("sys_temp_dir", "tmp"), (UPLOADS_SETTING, UPLOADS), ("session.save_path", SESSIONS)]
    {
        if is_open(name, given) {
            pairs.push((name.to_owned(), format!("{state_dir}/{folder}")));
        }
    }
    if own_sessions(state_dir, given).is_some() {
        pairs.push(("session.gc_probability".to_owned(), "0".to_owned()));
    }
    pairs
}

/// Returns the pool's own folders among the values of [`folders`], in the form of `open_basedir`.
/// Such a list cannot have a folder with `:`.
pub fn own_folders(state_dir: &str, folders: &[IniPair]) -> String {
    let values = folders.iter().map(|(_, value)| value.as_str());
    let own = values.filter(|value| value.starts_with(state_dir) && !value.contains(':'));
    own.collect::<Vec<_>>().join(":")
}

/// The ini setting for the folder of uploaded files.
pub const UPLOADS_SETTING: &str = "upload_tmp_dir";
/// Name of the folder for uploaded files within the pool's own folder.
const UPLOADS: &str = "uploads";
/// Name of the folder for sessions within the pool's own folder.
const SESSIONS: &str = "sessions";

/// Returns whether the setting loads a library. Such a setting does not exist after PHP's start.
fn is_loader(name: &str) -> bool {
    matches!(name, "extension" | "zend_extension")
}

/// Writes `name=value` in a form that PHP's ini parser reads back as exactly `value`. An exception
/// is `error_reporting`, which may use PHP's constants.
fn write_entry(out: &mut Vec<u8>, name: &str, value: &str) {
    let is_expression = |byte: u8| {
        byte.is_ascii_uppercase() || byte.is_ascii_digit() || b"_ &|~^()".contains(&byte)
    };
    out.extend_from_slice(name.as_bytes());
    out.push(b'=');
    if name == "error_reporting" && value.bytes().all(is_expression) {
        out.extend_from_slice(value.as_bytes());
    } else if value.is_empty() {
        out.extend_from_slice(b"\"\"");
    } else {
        // The ini parser takes text in single quotes literally, and joins adjacent quoted texts. A
        // NUL would end the whole text.
        for (index, part) in value.replace('\0', "").split('\'').enumerate() {
            if index > 0 {
                out.extend_from_slice(b"\"'\"");
            }
            if !part.is_empty() {
                out.push(b'\'');
                out.extend_from_slice(part.as_bytes());
                out.push(b'\'');
            }
        }
    }
    out.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(name: &str, value: &str) -> IniPair {
        (name.to_owned(), value.to_owned())
    }

    #[test]
    fn values_are_quoted() {
        let cases = [
            ("memory_limit", "64M", "memory_limit='64M'\n"),
            ("a", "", "a=\"\"\n"),
            ("a", "it's ${HOME}; \"x\"", "a='it'\"'\"'s ${HOME}; \"x\"'\n"),
            ("a", "'", "a=\"'\"\n"),
            ("error_reporting", "E_ALL & ~E_NOTICE", "error_reporting=E_ALL & ~E_NOTICE\n"),
            ("error_reporting", "1;x", "error_reporting='1;x'\n"),
        ];
        for (name, value, expected) in cases {
            let mut out = Vec::new();
            write_entry(&mut out, name, value);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }

    #[test]
    fn admin_values_are_protected_and_lists_are_added() {
        let ini = [pair("memory_limit", "64M"), pair("extension", "gd")];
        let admin = [pair("disable_functions", "exec"), pair("open_basedir", "/srv")];
        let pool = PoolIni::new(&ini, &admin);
        assert_eq!(pool.entries, b"memory_limit='64M'\nextension='gd'\nopen_basedir='/srv'\n");
        assert_eq!(pool.protected, ["disable_functions", "open_basedir"]);
        assert_eq!(pool.expected, ["memory_limit", "disable_functions", "open_basedir"]);
        assert_eq!(pool.disabled_functions, ["exec"]);
    }

    #[test]
    fn values_that_php_did_not_take_are_found() {
        let ini = [
            pair("session.save_handler", "user"),
            pair("memory_limit", "1M"),
            pair("precision", "3"),
            pair("error_reporting", "E_ALL"),
            pair("no.such", "1"),
        ];
        let admin = [pair("memory_limit", "64M"), pair("disable_functions", "exec")];
        let present = |name: &str| {
            let value = match name {
                "session.save_handler" => "files",
                "memory_limit" => "64M",
                "precision" => "3",
                "no.such" => return None,
                _ => "other",
            };
            Some(value.to_owned())
        };
        let expected = vec![("session.save_handler", "user", "files".to_owned())];
        assert_eq!(refused(&[&ini, &admin], present), expected);
    }

    #[test]
    fn folders_yield_to_what_is_given() {
        let given = [pair("session.save_path", "tcp://cache")];
        let names: Vec<_> = folders("/x", &[&given]).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["sys_temp_dir", "upload_tmp_dir"]);
        assert_eq!(own_sessions("/x", &[&given]), None);
        assert_eq!(own_sessions("/x", &[&[pair("session.gc_probability", "5")]]), None);
        assert_eq!(own_sessions("", &[]), None);
        assert_eq!(own_sessions("/x", &[]).as_deref(), Some("/x/sessions"));
        assert_eq!(folders("/x", &[]).len(), 4);
        assert_eq!(folders("/x", &[])[0].1, "/x/tmp");
        assert_eq!(own_folders("/x", &folders("/x", &[])), "/x/tmp:/x/uploads:/x/sessions");
        assert_eq!(own_folders("/x", &folders("/x", &[&given])), "/x/tmp:/x/uploads");
        assert_eq!(own_folders("/x:y", &folders("/x:y", &[])), "");
    }
}
