//! Pools of php-fpm.

mod directives;
mod ini;

use std::fmt::Write;
use std::path::{self, Path};

use self::directives::{Equal, NO_TIME_LIMIT, find};
use self::ini::{IniLine, lines};
use super::Imported;

/// The section of php-fpm's own settings.
const GLOBAL: &str = "global";

/// A file of php-fpm.
#[derive(Debug)]
pub(crate) struct FpmFile {
    pub(crate) name: String,
    pub(crate) text: String,
    /// The php.ini that php-fpm reads for the pools of this file, if it is known.
    pub(crate) php_ini: Option<String>,
}

/// A pool as far as it was read.
#[derive(Debug, Default)]
struct ImportedPool {
    name: String,
    /// The file that the pool begins in.
    file: String,
    php_ini: Option<String>,
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
    Ok(FpmFile {
        name: path.display().to_string(),
        text: super::read(path)?,
        php_ini: php_ini_of(path),
    })
}

/// Returns the php.ini of Debian's php-fpm, which is beside the folder of its pools.
fn php_ini_of(file: &Path) -> Option<String> {
    let file = path::absolute(file).ok()?;
    let folder = file.parent()?;
    let folder = if folder.ends_with("pool.d") {
        folder.parent()?
    } else {
        folder
    };
    let php_ini = folder.join("php.ini");
    php_ini.is_file().then(|| php_ini.display().to_string())
}

/// Imports files.
pub(crate) fn import(files: &[FpmFile]) -> Imported {
    let mut imported = Imported::default();
    let mut pools: Vec<ImportedPool> = Vec::new();
    for read in files {
        let FpmFile { name: file, text, .. } = read;
        let mut section = GLOBAL.to_owned();
        for (number, line) in lines(text) {
            let place = format!("{file}:{number}");
            match line {
                IniLine::Section(name) => section = name,
                IniLine::Value(key, value) if section == GLOBAL || key == "include" => {
                    imported.remarks.push(format!("{place}: {}", of_the_server(&key, &value)));
                }
                IniLine::Value(key, value) => {
                    let pool = pool_of(&mut pools, &section, read);
                    let value = value.replace("$pool", &section);
                    if let Some(remark) = pool.take(&key, &value) {
                        imported.remarks.push(format!("{place}: {remark}"));
                    }
                }
                IniLine::Unreadable(text) => {
                    imported.remarks.push(format!("{place}: `{text}` is no setting"));
                }
            }
        }
    }
    for ImportedPool { name, file, .. } in pools.iter().filter(|pool| !pool.is_timed) {
        imported.remarks.push(format!(
            "{file}: the pool {name} has no `request_terminate_timeout`: {NO_TIME_LIMIT}"
        ));
    }
    let is_only = pools.len() == 1;
    let texts: Vec<String> = pools.iter().map(|pool| pool.config(is_only)).collect();
    imported.config = texts.join("\n");
    imported
}

fn pool_of<'p>(
    pools: &'p mut Vec<ImportedPool>,
    name: &str,
    file: &FpmFile,
) -> &'p mut ImportedPool {
    let known = pools.iter().position(|pool| pool.name == name);
    let position = known.unwrap_or_else(|| {
        pools.push(ImportedPool {
            name: name.to_owned(),
            file: file.name.clone(),
            php_ini: file.php_ini.clone(),
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
        "process.priority" | "log_limit" | "log_buffering" | "syslog.facility" | "syslog.ident"
        | "events.mechanism" | "systemd_interval" => "has no equal, and needs none",
        _ => "is not known as a setting of php-fpm",
    };
    format!("`{key} = {value}` {advice}")
}

impl ImportedPool {
    /// Takes a directive. Returns what is to be said about it.
    fn take(&mut self, key: &str, value: &str) -> Option<String> {
        let (name, entry) = match key.strip_suffix(']').and_then(|key| key.split_once('[')) {
            Some((name, entry)) => (name, entry),
            None => (key, ""),
        };
        let Some(directive) = find(name) else {
            return Some(format!("`{key}` is not known as a directive of php-fpm"));
        };
        self.is_timed |= name == "request_terminate_timeout";
        match (directive.equal)(value) {
            Equal::Key(key, value) => {
                self.set(key, value);
                None
            }
            // A script that shows no sign of life has as much time as any other.
            Equal::Time(time) => {
                self.set("request_timeout", time.clone());
                self.set("request_terminate_timeout", time);
                None
            }
            Equal::Entry(table, value) if !entry.is_empty() => {
                self.put(table, entry, value);
                None
            }
            Equal::Entry(..) => Some(format!("`{key}` names no setting")),
            Equal::Limit(name, value) => {
                self.put("rlimits", name, value);
                None
            }
            Equal::Folder(folder) => {
                self.folder = Some(folder);
                None
            }
            Equal::Cage(cage) => {
                let remark = format!(
                    "`{key} = {value}` has no equal: scripts see the machine's paths, so write \
                     {value} before the paths of this pool; `sandbox = \"strict\"` refuses all \
                     files but the site's and the system's"
                );
                self.cage = Some(cage);
                Some(remark)
            }
            Equal::Passed(variable) if variable == entry => {
                self.passed.push(variable);
                None
            }
            Equal::Passed(_) => Some(format!(
                "`{key} = {value}` has no equal: `pass_env` keeps names; give the value in `env`"
            )),
            Equal::Default => None,
            Equal::None(reason) => Some(format!("`{key} = {value}` has no equal: {reason}")),
        }
    }

    fn set(&mut self, key: &'static str, value: String) {
        self.php.retain(|(known, _)| *known != key);
        self.php.push((key, value));
    }

    fn put(&mut self, table: &'static str, entry: &str, value: String) {
        self.tables.retain(|(known, name, _)| (*known, name.as_str()) != (table, entry));
        self.tables.push((table, entry.to_owned(), value));
    }

    /// Whether the pool's mode uses the key. php-fpm ignores the directives of other modes.
    fn has_effect(&self, key: &str) -> bool {
        let mode = self.php.iter().find(|(known, _)| *known == "mode");
        let is_mode = |name: &str| mode.is_some_and(|(_, mode)| *mode == toml_text(name));
        match key {
            "start_workers" | "min_spare_workers" | "max_spare_workers" => is_mode("dynamic"),
            "idle_timeout" => is_mode("ondemand"),
            _ => true,
        }
    }

    /// The site's part of the configuration.
    fn config(&self, is_only: bool) -> String {
        let hosts = match is_only {
            true => "*".to_owned(),
            false => self.name.clone(),
        };
        let mut text = format!("# The pool {} of {}.\n[[site]]\n", self.name, self.file);
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "name = {}\n# The web server's configuration has the names and the document root.\n\
             hosts = [{}]\nroot = \"/var/www/html\"\n\n[site.php]\n\
             # Scripts find the name that they knew.\n\
             sapi = \"fpm-fcgi\"\n",
            toml_text(&self.name),
            toml_text(&hosts)
        );
        if let Some(file) = &self.php_ini {
            let _ = writeln!(text, "ini_file = {}", toml_text(file));
        }
        for (key, value) in self.php.iter().filter(|(key, _)| self.has_effect(key)) {
            let _ = writeln!(text, "{key} = {value}");
        }
        if let Some(folder) = &self.folder {
            let cage = self.cage.as_deref().unwrap_or_default().trim_end_matches('/');
            let _ = writeln!(text, "chdir = {}", toml_text(&format!("{cage}{folder}")));
        }
        // `PATH` is always there.
        let passed = self.passed.iter().filter(|name| *name != "PATH");
        let passed: Vec<String> = passed.map(|name| toml_text(name)).collect();
        if !passed.is_empty() {
            let _ = writeln!(text, "pass_env = [{}]", passed.join(", "));
        }
        for table in ["ini", "admin_ini", "env", "rlimits"] {
            let mut entries = self.tables.iter().filter(|(known, ..)| *known == table).peekable();
            if entries.peek().is_some() {
                let _ = writeln!(text, "\n[site.php.{table}]");
            }
            for (_, name, value) in entries {
                let _ = writeln!(text, "{} = {value}", toml_key(name));
            }
        }
        text
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

#[cfg(test)]
mod tests {
    use super::*;

    fn imported(text: &str) -> Imported {
        import(&[FpmFile {
            name: "www.conf".to_owned(),
            text: text.to_owned(),
            php_ini: Some("/etc/php/fpm/php.ini".to_owned()),
        }])
    }

    /// A pool without it has a remark.
    const LIMIT: &str = "request_terminate_timeout = 60\n";

    #[test]
    fn what_has_an_equal_is_written() {
        let text = "[blog]\nuser = $pool\ngroup = \"www-data\"\nlisten = /run/php/$pool.sock\n\
                    pm = dynamic\npm.max_children = 7 ; as many\npm.max_requests = 500\n\
                    pm.start_servers = 3\npm.min_spare_servers = 2\npm.max_spare_servers = 4\n\
                    pm.process_idle_timeout = 10s\n\
                    request_terminate_timeout = 2m\nrequest_slowlog_timeout = 5\n\
                    request_slowlog_trace_depth = 30\n\
                    pm.status_path = /fpm\nsecurity.limit_extensions = .php .php5\n\
                    rlimit_files = 2048\nenv[TMP] = /tmp\n\
                    env[HOSTNAME] = $HOSTNAME\nenv[PATH] = $PATH\nprocess.priority = -5\n\
                    php_flag[display_errors] = off\n\
                    php_admin_value[opcache.memory_consumption] = 128\n";
        let Imported { config, remarks } = imported(text);
        for line in [
            "name = \"blog\"",
            "user = \"blog\"",
            "group = \"www-data\"",
            "mode = \"dynamic\"",
            "workers = 7",
            "start_workers = 3",
            "min_spare_workers = 2",
            "max_spare_workers = 4",
            "max_requests = 500",
            "request_timeout = \"2m\"",
            "request_terminate_timeout = \"2m\"",
            "ini_file = \"/etc/php/fpm/php.ini\"",
            "slow_after = \"5s\"",
            "slow_trace_depth = 30",
            "status_path = \"/fpm\"",
            "extensions = [\".php\", \".php5\"]",
            "nofile = 2048",
            "TMP = \"/tmp\"",
            "pass_env = [\"HOSTNAME\"]",
            "nice = -5",
            "display_errors = \"0\"",
            "\"opcache.memory_consumption\" = \"128\"",
        ] {
            assert!(config.lines().any(|found| found == line), "{line} in\n{config}");
        }
        assert!(!config.contains("idle_timeout"), "php-fpm ignores it in\n{config}");
        howdah_config::Config::parse(&config, "x.toml").unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(remarks.len(), 1, "{remarks:?}");
        assert!(remarks[0].starts_with("www.conf:4: `listen = /run/php/blog.sock` has no equal"));
    }

    #[test]
    fn directives_of_another_mode_are_left_out() {
        for (mode, kept, left) in [
            ("ondemand", &["idle_timeout = \"20s\""][..], &["start_workers", "spare_workers"][..]),
            ("static", &[], &["idle_timeout", "start_workers", "spare_workers"]),
        ] {
            let text = format!(
                "[a]\n{LIMIT}pm.process_idle_timeout = 20\npm = {mode}\npm.max_children = 4\n\
                 pm.start_servers = 2\npm.min_spare_servers = 1\npm.max_spare_servers = 3\n"
            );
            let Imported { config, remarks } = imported(&text);
            assert!(config.contains(&format!("mode = \"{mode}\"\n")), "{config}");
            assert!(kept.iter().all(|line| config.contains(line)), "{config}");
            assert!(!left.iter().any(|key| config.contains(key)), "{config}");
            howdah_config::Config::parse(&config, "x.toml")
                .unwrap_or_else(|error| panic!("{error}"));
            assert!(remarks.is_empty(), "{remarks:?}");
        }
    }

    #[test]
    fn what_has_no_equal_is_said_with_its_line() {
        let text = "[global]\npid = /run/x\n[a]\nchroot = /srv/\nlisten.acl_users = x\n\
            nonsense = 1\n\
            what\nclear_env = no\nrequest_terminate_timeout = 0\n[b]\npm = static\n";
        let Imported { remarks, .. } = imported(text);
        for (remark, part) in remarks.iter().zip([
            "www.conf:2: `pid = /run/x` is `pid_file` at the top",
            "www.conf:4: `chroot = /srv/` has no equal: scripts see the machine's paths",
            "www.conf:5: `listen.acl_users = x` has no equal",
            "www.conf:6: `nonsense` is not known",
            "www.conf:7: `what` is no setting",
            "www.conf:8: `clear_env = no` has no equal",
            "www.conf:9: `request_terminate_timeout = 0` has no equal: a script without a sign",
            "www.conf: the pool b has no `request_terminate_timeout`: a script without a sign",
        ]) {
            assert!(remark.starts_with(part), "{remark}");
        }
        assert_eq!(remarks.len(), 8, "{remarks:?}");
    }

    #[test]
    fn a_working_directory_below_a_chroot_becomes_one_of_the_machine() {
        for (text, line) in [
            ("[a]\nchdir = /srv/app\n", "chdir = \"/srv/app\""),
            ("[a]\nchdir = /app\nchroot = /srv/\n", "chdir = \"/srv/app\""),
            ("[a]\nchroot = /srv\nchdir = /\n", "chdir = \"/srv/\""),
        ] {
            let Imported { config, remarks } = imported(&format!("{text}{LIMIT}"));
            assert!(config.lines().any(|found| found == line), "{line} in\n{config}");
            howdah_config::Config::parse(&config, "x.toml")
                .unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(remarks.len(), usize::from(text.contains("chroot")), "{remarks:?}");
        }
    }

    #[test]
    fn several_pools_become_several_sites() {
        let Imported { config, .. } = imported("[a]\nuser = a\n[b]\nuser = b\n");
        let config = howdah_config::Config::parse(&config, "x.toml").unwrap();
        let names: Vec<_> = config.sites.iter().map(|site| site.name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
    }

    #[test]
    fn values_of_every_kind_are_valid_toml() {
        let text = "[a]\nphp_value[x] = \"a\\b\"\nphp_value[error_reporting] = E_ALL & ~E_NOTICE\n";
        let Imported { config, .. } = imported(text);
        let config = howdah_config::Config::parse(&config, "x.toml").unwrap();
        let php = config.sites[0].php.as_ref().unwrap();
        for (name, value) in [("x", "a\\b"), ("error_reporting", "E_ALL & ~E_NOTICE")] {
            assert!(php.ini.contains(&(name.into(), value.into())), "{:?}", php.ini);
        }
    }
}
