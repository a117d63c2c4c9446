//! Howdah: variants of its configuration, and single binaries.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::template::{fill, if_tls, keep_alive, version};
use rustix::process::Signal;

use crate::environment::ruled_root;
use crate::process::{StartFailed, free_port};
use crate::rules;
use crate::stack::{Running, Stack, StackEnvironment};

/// Howdah with `.htaccess` files read (the default), not read, or with a set of rules in the
/// document root.
#[derive(Debug)]
pub struct Howdah {
    name: &'static str,
    title: &'static str,
    htaccess: bool,
    /// The set of rules in the document root.
    rules: Option<&'static str>,
    /// Whether the stack is measured over HTTP/3.
    http3: bool,
    /// Whether slow pages have a lane of their own.
    lanes: bool,
    /// The binary, where it is not that of the environment.
    binary: Option<PathBuf>,
}

/// A stack of one binary, with the `howdah-php` in the same folder.
pub fn binary(name: &'static str, title: &'static str, file: &Path) -> Howdah {
    Howdah {
        binary: Some(file.to_owned()),
        ..howdah(name, title)
    }
}

fn howdah(name: &'static str, title: &'static str) -> Howdah {
    Howdah {
        name,
        title,
        htaccess: true,
        rules: None,
        http3: false,
        lanes: false,
        binary: None,
    }
}

fn ruled(rules: &'static str, howdah: Howdah) -> Howdah {
    Howdah { rules: Some(rules), ..howdah }
}

pub(super) fn all() -> [Howdah; 11] {
    [
        howdah("howdah", "Howdah"),
        Howdah {
            htaccess: false,
            ..howdah("howdah-no-htaccess", "Howdah, .htaccess off")
        },
        ruled(rules::PLAIN, howdah("howdah-plain", "Howdah without .htaccess")),
        ruled(rules::AGAIN, howdah("howdah-again", "Howdah without .htaccess, again")),
        ruled("wordpress", howdah("howdah-wordpress-rules", "Howdah, WordPress rules")),
        ruled("drupal", howdah("howdah-drupal-rules", "Howdah, Drupal rules")),
        ruled("redirects", howdah("howdah-redirects", "Howdah, 5,000 redirects")),
        ruled("bad-bots", howdah("howdah-bad-bots", "Howdah, 7,800 bad bots")),
        ruled(rules::FOLDERS, howdah("howdah-folders", "Howdah, many folders")),
        Howdah {
            http3: true,
            ..howdah("howdah-http3", "Howdah, HTTP/3")
        },
        Howdah {
            lanes: true,
            ..howdah("howdah-lanes", "Howdah, lanes")
        },
    ]
}

const CONFIGURATION: &str = "\
listen = [@listen@]
# Event-loop threads: one per core.
threads = \"auto\"
control = \"@folder@/control.sock\"

[limits]
# Like the others: no connection is closed in the middle of a measurement.
keep_alive_requests = @requests@
# As long as nginx's default.
keep_alive_timeout = \"@keep@s\"

[log]
access = \"off\"

[[site]]
hosts = [\"*\"]
root = \"@root@\"
index = [\"index.php\", \"index.html\"]
# The others follow links as well.
symlinks = \"follow\"
htaccess = @htaccess@
@tls@
[site.php]
@user@
@workers@# Like the others: workers live on.
max_requests = 0
ini_file = \"@ini@\"
state_dir = \"@folder@/state\"
@lanes@";

/// Half of the workers are for other pages.
const LANES: &str = "
[[site.php.lane]]
name = \"slow\"
path = [\"/wait.php\", \"/compute.php\"]
workers = @lane@
";

/// Nothing is set that has a default.
const AS_INSTALLED: &str = "\
listen = [@listen@]
control = \"@folder@/control.sock\"

[log]
# Like the others.
access = \"off\"

[[site]]
hosts = [\"*\"]
root = \"@root@\"

[site.php]
@user@
ini_file = \"@ini@\"
state_dir = \"@folder@/state\"
";

/// HTTP/2, HTTP/3 and tickets are on by default.
const TLS: &str = "tls = { cert = \"@certificate@\", key = \"@key@\" }\n";

impl Howdah {
    fn binary<'a>(&'a self, environment: &'a StackEnvironment) -> &'a Path {
        self.binary.as_deref().unwrap_or(&environment.howdah)
    }

    /// The lines about workers: a number that a study sets is kept. Two binaries are compared with
    /// their defaults, which may differ.
    fn workers(&self, environment: &StackEnvironment) -> String {
        match environment.settings.get("workers") {
            Some(workers) => format!("mode = \"static\"\nworkers = {workers}\n"),
            None if self.binary.is_some() => String::new(),
            None => format!("workers = {}\n", environment.php_processes),
        }
    }

    fn root(&self, environment: &StackEnvironment) -> PathBuf {
        self.rules
            .map_or_else(|| environment.root.clone(), |rules| ruled_root(&environment.root, rules))
    }
}

impl Stack for Howdah {
    fn name(&self) -> &str {
        self.name
    }

    fn title(&self) -> &str {
        self.title
    }

    fn packages(&self, php: &str) -> Vec<String> {
        vec![format!("libphp{php}-embed")]
    }

    fn missing(&self, environment: &StackEnvironment) -> Option<String> {
        let binary = self.binary(environment);
        for file in [binary, &binary.with_file_name("howdah-php")] {
            if !file.is_file() {
                let file = file.display();
                return Some(format!("{file} does not exist; build it with `make release`"));
            }
        }
        if self.http3 && environment.tls.is_none() && !environment.root.as_os_str().is_empty() {
            return Some("HTTP/3 is always encrypted; this run is not".to_owned());
        }
        // Before a run the root is unknown.
        let is_prepared =
            environment.root.as_os_str().is_empty() || self.root(environment).is_dir();
        (!is_prepared).then(|| "serves the laboratory's own documents only".to_owned())
    }

    fn version(&self, environment: &StackEnvironment) -> String {
        let version = version(Some(self.binary(environment)), "--version", "howdah ");
        // The version does not distinguish two builds; their checksums do.
        let Some(binary) = &self.binary else {
            return version;
        };
        let php = binary.with_file_name("howdah-php");
        let output = Command::new("sha256sum").args([binary, &php]).output();
        let sums = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        let sums = sums.unwrap_or_default();
        let sums: Vec<&str> = sums.lines().filter_map(|line| line.get(..12)).collect();
        format!("{version}; SHA-256 of howdah and howdah-php: {}", sums.join(", "))
    }

    fn start(&self, environment: &StackEnvironment, folder: &Path) -> Result<Running, StartFailed> {
        let failed = |error| StartFailed::Execute("howdah".to_owned(), error);
        let port = free_port().map_err(failed)?;
        let listen = if environment.tls.is_some() {
            format!("{{ address = \"127.0.0.1:{port}\", tls = true }}")
        } else {
            format!("\"127.0.0.1:{port}\"")
        };
        let kept = keep_alive(environment, 75, 30);
        let text = fill(
            if environment.is_as_installed() {
                AS_INSTALLED
            } else {
                CONFIGURATION
            },
            &[
                ("requests", if kept == 0 { "1" } else { "0" }),
                ("keep", &kept.max(1).to_string()),
                ("lanes", if self.lanes { LANES } else { "" }),
                ("lane", &(environment.php_processes / 2).max(1).to_string()),
                ("listen", &listen),
                ("tls", &if_tls(environment, TLS)),
                (
                    "user",
                    &environment
                        .user
                        .as_ref()
                        .map_or(String::new(), |user| format!("user = \"{user}\"")),
                ),
                ("folder", &folder.display().to_string()),
                ("root", &self.root(environment).display().to_string()),
                ("htaccess", if self.htaccess { "true" } else { "false" }),
                ("workers", &self.workers(environment)),
                ("ini", &environment.ini.display().to_string()),
            ],
        );
        let file = folder.join("howdah.toml");
        std::fs::write(&file, &text).map_err(failed)?;
        let mut command = Command::new(self.binary(environment));
        let stack = Running::without_programs(port).start(
            command.args(["serve", "--config"]).arg(&file),
            &folder.join("howdah.log"),
            ("howdah.toml", text),
            Some(Signal::HUP),
        )?;
        Ok(Running { http3: self.http3, ..stack })
    }
}
