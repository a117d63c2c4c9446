//! Pools of php-fpm.

mod directives;
mod folder;
mod ini;
mod site;
#[cfg(test)]
mod tests;

use std::fmt::Write;
use std::path::Path;

use howdah_config::Config;

use self::directives::{FpmEqual, NO_TIME_LIMIT, find};
use self::folder::{folder_of, php_ini_in, scanned_in, sessions_in, usual_sessions};
use self::ini::{IniLine, IniText, lines};
use super::{Imported, NO_CHARACTER};

/// The section of php-fpm's own settings.
const GLOBAL: &str = "global";

/// A file of php-fpm.
#[derive(Debug)]
pub(crate) struct FpmFile {
    pub(crate) name: String,
    pub(crate) text: String,
    /// The php.ini that php-fpm reads for the pools of this file, if it is known.
    pub(crate) php_ini: Option<String>,
    /// The place of sessions that this php.ini names, or that of Debian's PHP where it names none.
    pub(crate) sessions: Option<String>,
    /// Further files that php-fpm reads after its php.ini, and Howdah does not.
    pub(crate) scanned: Vec<String>,
}

/// A pool as far as it was read.
#[derive(Debug, Default)]
struct ImportedPool {
    name: String,
    /// The file that the pool begins in.
    file: String,
    php_ini: Option<String>,
    sessions: Option<String>,
    /// Whether `request_terminate_timeout` is there.
    is_timed: bool,
    /// Lines of `[site.php]`, in the order of the file.
    php: Vec<(&'static str, String)>,
    /// Values of tables, as TOML: `ini`, `admin_ini`, `env`, `rlimits`.
    tables: Vec<(&'static str, String, String)>,
    /// Variables of the server's own environment that scripts see.
    passed: Vec<String>,
    /// The folder that `chroot` names.
    cage: Option<String>,
    /// The working directory, as a path below `chroot`.
    folder: Option<String>,
}

/// Reads a file of php-fpm.
///
/// # Errors
/// The reason, as text for the operator.
pub(crate) fn read(path: &Path) -> Result<FpmFile, String> {
    let folder = folder_of(path);
    let php_ini = folder.as_deref().and_then(php_ini_in);
    // One that cannot be read is reported by `howdah check`.
    let settings = php_ini.as_deref().and_then(|file| super::read(Path::new(file)).ok());
    let usual = || usual_sessions(folder.as_deref()?);
    Ok(FpmFile {
        name: path.display().to_string(),
        text: super::read(path)?,
        php_ini,
        sessions: settings.as_deref().and_then(sessions_in).or_else(usual),
        scanned: folder.as_deref().map(scanned_in).unwrap_or_default(),
    })
}

/// Imports files.
pub(crate) fn import(files: &[FpmFile]) -> Imported {
    let mut imported = Imported::default();
    let mut pools: Vec<ImportedPool> = Vec::new();
    let mut scanned: Vec<&String> = Vec::new();
    for read in files {
        let FpmFile { name: file, text, .. } = read;
        scanned.extend(&read.scanned);
        let mut section = GLOBAL.to_owned();
        for (number, line) in lines(text) {
            let place = format!("{file}:{number}");
            let remark = match line {
                IniLine::Section(name) => {
                    section = name;
                    None
                }
                IniLine::Value(key, IniText { written, .. })
                    if section.eq_ignore_ascii_case(GLOBAL) || key == "include" =>
                {
                    Some(of_the_server(&key, &written))
                }
                IniLine::Value(key, text) => pool_of(&mut pools, &section, read).take(&key, text),
                IniLine::Unreadable(text) => Some(format!("`{text}` is no setting")),
            };
            imported.remarks.extend(remark.map(|remark| format!("{place}: {remark}")));
        }
    }
    scanned.sort_unstable();
    scanned.dedup();
    imported.remarks.extend(remarks_on(&pools, &scanned));
    let is_only = pools.len() == 1;
    let texts: Vec<String> = pools.iter().map(|pool| pool.config(is_only)).collect();
    imported.config = texts.join("\n");
    // The settings of one pool may contradict those of another.
    let mistakes = Config::parse(&imported.config, "").err().filter(|_| !pools.is_empty());
    for mistake in mistakes.map(|mistakes| mistakes.0).unwrap_or_default() {
        let line = mistake.place.map(|place| format!("line {}: ", place.line)).unwrap_or_default();
        imported.remarks.push(format!("the configuration, {line}{}", mistake.message));
    }
    imported
}

/// Returns remarks on the pools as a whole, and on the files of settings that php-fpm reads beside
/// php.ini.
fn remarks_on(pools: &[ImportedPool], scanned: &[&String]) -> Vec<String> {
    let mut remarks = Vec::new();
    for ImportedPool { name, file, .. } in pools.iter().filter(|pool| !pool.is_timed) {
        remarks.push(format!(
            "{file}: the pool {name} has no `request_terminate_timeout`: {NO_TIME_LIMIT}"
        ));
    }
    for pool in pools.iter().filter(|pool| !pool.has("mode")) {
        let without_effect = pool.php.iter().filter(|(key, _)| !pool.has_effect(key));
        remarks.extend(without_effect.map(|(key, value)| {
            let (file, name) = (&pool.file, &pool.name);
            format!(
                "{file}: the pool {name} has no `pm` that is understood: `{key} = {value}` is left \
                 out"
            )
        }));
    }
    let has = |pool: &ImportedPool, entry: &str| pool.tables.iter().any(|(_, it, _)| it == entry);
    for pool in pools.iter().filter(|pool| has(pool, "TMPDIR") && !has(pool, "sys_temp_dir")) {
        let (file, name) = (&pool.file, &pool.name);
        remarks.push(format!(
            "{file}: the pool {name} has `env[TMPDIR]`, which does not move the temporary files of \
             PHP itself: Howdah's pools have a folder each for them; set `sys_temp_dir` in \
             `[site.php.ini]` for another one"
        ));
    }
    remarks.extend(scanned.iter().map(|file| {
        format!("{file} is not read: Howdah's PHP reads the folder `embed/conf.d` beside `fpm`")
    }));
    for pool in pools.iter().filter(|pool| pool.site_name() != pool.name) {
        let (name, site) = (&pool.name, pool.site_name());
        remarks.push(format!("{}: the pool {name} is the site {site}", pool.file));
    }
    remarks
}

/// Returns the mistake in lines of `[site.php]`, or of a table below it.
fn mistake_in(table: &str, line: &str) -> Option<String> {
    let config = format!("[[site]]\nroot = \"/\"\n[site.php{table}]\n{line}\n");
    let mistakes = Config::parse(&config, "").err()?;
    let first = mistakes.0.into_iter().next()?;
    Some(
        first
            .help
            .map_or(first.message.clone(), |help| format!("{}; {help}", first.message)),
    )
}

fn pool_of<'p>(
    pools: &'p mut Vec<ImportedPool>,
    name: &str,
    file: &FpmFile,
) -> &'p mut ImportedPool {
    let known = pools.iter().position(|pool| pool.name.eq_ignore_ascii_case(name));
    let position = known.unwrap_or_else(|| {
        pools.push(ImportedPool {
            name: name.to_owned(),
            file: file.name.clone(),
            php_ini: file.php_ini.clone(),
            sessions: file.sessions.clone(),
            ..ImportedPool::default()
        });
        pools.len() - 1
    });
    &mut pools[position]
}

/// Returns the advice for a setting of php-fpm as a whole.
fn of_the_server(key: &str, value: &str) -> String {
    let advice = match key {
        "include" => "is not followed; name the files of the pools themselves",
        "error_log" => "is `error` in `[log]`, for the whole server",
        "log_level" => "is `level` in `[log]`, for the whole server",
        "pid" => "is `pid_file` at the top",
        "process_control_timeout" => "is `drain_timeout` in `[limits]`",
        "rlimit_files" | "rlimit_core" => "is a key of each site: `[site.php.rlimits]`",
        "daemonize" => "has no equal: howdah stays in the foreground, as service managers want it",
        "emergency_restart_threshold" | "emergency_restart_interval" => {
            "has no equal: processes that keep dying are started again more and more slowly"
        }
        "process.max" => "has no equal: each site has its own `workers`",
        "process.priority" => "is `nice` in `[site.php]` of each site",
        "syslog.facility" | "syslog.ident" => {
            "is a part of `error` in `[log]`: `\"syslog:FACILITY:TAG\"`"
        }
        "log_limit" | "log_buffering" | "events.mechanism" | "systemd_interval" => {
            "has no equal, and needs none"
        }
        _ => "is not known as a setting of php-fpm",
    };
    format!("`{key} = {value}` {advice}")
}

impl ImportedPool {
    /// Takes a directive. Returns what is to be said about it.
    fn take(&mut self, key: &str, text: IniText) -> Option<String> {
        let (name, entry) = match key.strip_suffix(']').and_then(|key| key.split_once('[')) {
            Some(parts) => parts,
            None => (key, ""),
        };
        let Some(directive) = find(name) else {
            return Some(format!("`{key}` is not known as a directive of php-fpm"));
        };
        self.is_timed |= name == "request_terminate_timeout";
        let written = text.written.replace("$pool", &self.name);
        if written.contains(NO_CHARACTER) {
            return Some(format!("`{key} = {written}` is not UTF-8 text; write it yourself"));
        }
        let reason = match text.read.or_else(|| calculated(name, entry, &written)) {
            Some(value) => {
                let value = value.replace("$pool", &self.name);
                self.take_equal(entry, (directive.equal)(&value))
            }
            None => Some(COMPUTED.to_owned()),
        };
        reason.map(|reason| format!("`{key} = {written}` has no equal: {reason}"))
    }

    /// Takes the equal of a directive with this part in brackets. Returns the reason why it has
    /// none.
    fn take_equal(&mut self, entry: &str, equal: FpmEqual) -> Option<String> {
        match equal {
            FpmEqual::Key(key, value) => self.set(key, value),
            // A script that shows no sign of life has as much time as any other.
            FpmEqual::Time(time) => self
                .set("request_timeout", time.clone())
                .or_else(|| self.set("request_terminate_timeout", time)),
            FpmEqual::Entry(table, value) => self.put(table, entry, value),
            FpmEqual::Limit(name, value) => self.put("rlimits", name, value),
            FpmEqual::Folder(folder) if !folder.starts_with('/') => {
                Some("it depends on php-fpm's `prefix`; write the whole path as `chdir`".to_owned())
            }
            FpmEqual::Folder(folder) => {
                self.folder = Some(folder);
                None
            }
            FpmEqual::Cage(cage) if !cage.starts_with('/') => Some(
                "it depends on php-fpm's `prefix`; write the whole path as `chroot`".to_owned(),
            ),
            FpmEqual::Cage(cage) => {
                self.cage = Some(cage);
                None
            }
            FpmEqual::Passed(variable) if variable == entry => {
                self.passed.push(variable);
                None
            }
            FpmEqual::Passed(_) => {
                Some("`pass_env` keeps names; give the value in `env`".to_owned())
            }
            FpmEqual::Default => None,
            FpmEqual::None(reason) => Some(reason.to_owned()),
        }
    }

    /// Sets a key of `[site.php]`. Returns the reason why the key cannot have the value.
    fn set(&mut self, key: &'static str, value: String) -> Option<String> {
        // Those depend on other keys.
        let is_number_of_workers = key.ends_with("_workers") || key == "idle_timeout";
        let why = mistake_in("", &format!("{key} = {value}")).filter(|_| !is_number_of_workers);
        if why.is_none() {
            self.php.retain(|(known, _)| *known != key);
            self.php.push((key, value));
        }
        why
    }

    /// Sets an entry of a table of `[site.php]`. Returns the reason why it cannot have the value.
    fn put(&mut self, table: &'static str, entry: &str, value: String) -> Option<String> {
        let line = format!("{} = {value}", toml_key(entry));
        if let Some(why) = mistake_in(&format!(".{table}"), &line) {
            return Some(why);
        }
        let known = self
            .tables
            .iter_mut()
            .find(|(known, name, _)| (*known, name.as_str()) == (table, entry));
        match known {
            None => self.tables.push((table, entry.to_owned(), value)),
            // php-fpm adds to these lists.
            Some((_, _, list)) if matches!(entry, "disable_functions" | "disable_classes") => {
                list.pop();
                list.push(',');
                list.push_str(&value[1..]);
            }
            Some(_) => return Some("the pool has it already, and the first one counts".to_owned()),
        }
        None
    }

    fn has(&self, key: &str) -> bool {
        self.php.iter().any(|(known, _)| *known == key)
    }
}

/// PHP's setting for the place of sessions.
const SESSIONS: &str = "session.save_path";

const COMPUTED: &str = "php-fpm calculates it, or takes it from its environment; write the value \
    itself there, and import the file again";

/// The value of a directive that is not one as it is written, where Howdah has an equal for it.
fn calculated(name: &str, entry: &str, written: &str) -> Option<String> {
    let variable = written.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
    match variable {
        // PHP calculates this one setting from its text.
        None if entry == "error_reporting" && !written.contains("${") => Some(written.to_owned()),
        Some(variable) if name == "env" => Some(format!("${variable}")),
        _ => None,
    }
}

/// A key of a table: without quotes where TOML needs none.
fn toml_key(name: &str) -> String {
    let is_bare = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    match !name.is_empty() && name.bytes().all(is_bare) {
        true => name.to_owned(),
        false => toml_text(name),
    }
}

/// A TOML string.
fn toml_text(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            control if control.is_control() => {
                let _ = write!(quoted, "\\u{:04X}", u32::from(control));
            }
            plain => quoted.push(plain),
        }
    }
    quoted.push('"');
    quoted
}
