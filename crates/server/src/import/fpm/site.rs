//! A pool of php-fpm as a site of Howdah's configuration.

use std::fmt::Write;

use howdah_config::Config;

use super::{ImportedPool, SESSIONS, toml_key, toml_text};

impl ImportedPool {
    /// Returns whether the pool's mode uses the key. php-fpm ignores the directives of other modes.
    pub(super) fn has_effect(&self, key: &str) -> bool {
        let mode = self.php.iter().find(|(known, _)| *known == "mode");
        let is_mode = |name: &str| mode.is_some_and(|(_, mode)| *mode == toml_text(name));
        match key {
            "start_workers" | "min_spare_workers" | "max_spare_workers" => is_mode("dynamic"),
            "idle_timeout" => is_mode("ondemand"),
            _ => true,
        }
    }

    /// The name of the site: that of the pool, with other characters in place of those that no
    /// host has.
    pub(super) fn site_name(&self) -> String {
        let is_host = |name: &str| {
            let site = format!("[[site]]\nname = \"{name}\"\nhosts = [\"{name}\"]\nroot = \"/\"\n");
            Config::parse(&site, "").is_ok()
        };
        let with = |kept: &[char]| -> String {
            let is_kept = |one: &char| one.is_ascii_alphanumeric() || kept.contains(one);
            self.name.chars().map(|one| if is_kept(&one) { one } else { '_' }).collect()
        };
        Some(with(&['.', '-', '_']))
            .filter(|name| is_host(name))
            .unwrap_or_else(|| with(&['_']))
    }

    /// The site's part of the configuration.
    pub(super) fn config(&self, is_only: bool) -> String {
        let name = self.site_name();
        let hosts = match is_only {
            true => "*",
            false => &name,
        };
        let cage = self.cage.as_deref().unwrap_or_default().trim_end_matches('/');
        let mut text = format!("# The pool {} of {}.\n[[site]]\n", self.name, self.file);
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "name = {}\n# The web server's configuration has the names and the document root.\n\
             hosts = [{}]\nroot = {}\n\n[site.php]\n\
             # Scripts find the name that they knew.\n\
             sapi = \"fpm-fcgi\"\n",
            toml_text(&name),
            toml_text(hosts),
            toml_text(&format!("{cage}/var/www/html"))
        );
        if let Some(cage) = &self.cage {
            let _ = writeln!(
                text,
                "# `root` is the machine's path, with this folder before that of scripts.\n\
                 chroot = {}",
                toml_text(cage)
            );
        }
        if let Some(file) = &self.php_ini {
            let _ = writeln!(text, "ini_file = {}", toml_text(file));
        }
        if !self.has("extensions") {
            let _ = writeln!(text, "extensions = {PHP_FPM_EXTENSIONS}");
        }
        for (key, value) in self.php.iter().filter(|(key, _)| self.has_effect(key)) {
            let _ = writeln!(text, "{key} = {value}");
        }
        if let Some(folder) = &self.folder {
            let _ = writeln!(text, "chdir = {}", toml_text(folder));
        }
        // `PATH` is always there.
        let passed = self.passed.iter().filter(|name| *name != "PATH");
        let passed: Vec<String> = passed.map(|name| toml_text(name)).collect();
        if !passed.is_empty() {
            let _ = writeln!(text, "pass_env = [{}]", passed.join(", "));
        }
        for table in ["ini", "admin_ini", "env", "rlimits"] {
            self.add_table(&mut text, table);
        }
        text
    }

    /// Adds one of the tables below `[site.php]`, unless it is empty.
    fn add_table(&self, text: &mut String, table: &str) {
        let mut entries = self.tables.iter().filter(|(known, ..)| *known == table).peekable();
        let sets_sessions = self.tables.iter().any(|(_, name, _)| name == SESSIONS);
        let tells_of_sessions = table == "ini" && !sets_sessions && self.sessions.is_some();
        // Writing to a String cannot fail.
        if entries.peek().is_some() || tells_of_sessions {
            let _ = writeln!(text, "\n[site.php.{table}]");
        }
        if let Some(place) = self.sessions.as_ref().filter(|_| tells_of_sessions) {
            let _ = writeln!(
                text,
                "# Howdah's pools have a folder each for sessions. This line keeps php-fpm's, so \
                 that nobody\n# has to log in again:\n{} = {}",
                toml_key(SESSIONS),
                toml_text(place)
            );
        }
        for (_, name, value) in entries {
            let _ = writeln!(text, "{} = {value}", toml_key(name));
        }
    }
}

/// The names of files that php-fpm runs by default. Others are not run, whatever the web server
/// says.
const PHP_FPM_EXTENSIONS: &str = "[\".php\", \".phar\"]";
