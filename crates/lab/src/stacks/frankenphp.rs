//! FrankenPHP: Caddy with PHP's threads in one process.
//!
//! Debian has no package of it. A program of that name on the search path is used, such as the one
//! of its own releases.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::caddy;
use super::template::{fill, if_tls, version};
use crate::environment::own_ini;
use crate::process::{StartFailed, find, free_port};
use crate::stack::{Running, Stack, StackEnvironment};

/// FrankenPHP without its worker mode: each request starts its script anew, as everywhere else.
#[derive(Debug)]
pub(super) struct FrankenPhp;

const CONFIGURATION: &str = "\
{
    admin off
    # Nothing is asked of the outside: no certificates.
    auto_https off
    log {
        level ERROR
    }
    servers {
        protocols @protocols@
    }
    frankenphp {
        # As many as the processes of the other stacks.
        num_threads @threads@
    }
}
@scheme@://:@port@ {
    bind 127.0.0.1
@tls@    root * @root@
    # In a route of its own, the handler needs no place in Caddy's order.
    route {
        php_server
    }
}
";

fn binary() -> Option<PathBuf> {
    find(&["frankenphp"])
}

fn configuration(environment: &StackEnvironment, port: u16) -> String {
    let is_encrypted = environment.tls.is_some();
    let values = [
        ("port", &*port.to_string()),
        ("root", &environment.root.display().to_string()),
        ("threads", &environment.php_processes.to_string()),
        ("protocols", if is_encrypted { "h1 h2" } else { "h1" }),
        ("scheme", if is_encrypted { "https" } else { "http" }),
        ("tls", &if_tls(environment, "    tls @certificate@ @key@\n")),
    ];
    fill(CONFIGURATION, &values)
}

/// Returns the reason why a run has no FrankenPHP, if there is no program.
fn missing(binary: Option<&Path>) -> Option<String> {
    binary.is_none().then(|| {
        "Debian has no FrankenPHP; it needs a program `frankenphp` on the search path, such as the \
         one of its releases"
            .to_owned()
    })
}

impl Stack for FrankenPhp {
    fn name(&self) -> &str {
        "frankenphp"
    }

    fn title(&self) -> &str {
        "FrankenPHP"
    }

    fn unequal(&self) -> Option<&str> {
        Some(
            "has a PHP of its own in the place of Debian's, and runs as the user who runs the \
             laboratory",
        )
    }

    fn packages(&self, _php: &str) -> Vec<String> {
        Vec::new()
    }

    fn missing(&self, _environment: &StackEnvironment) -> Option<String> {
        missing(binary().as_deref())
    }

    fn version(&self, _environment: &StackEnvironment) -> String {
        let binary = binary();
        let version = |prefix: &str| version(binary.as_deref(), "version", prefix);
        format!("{}, {}", version("FrankenPHP "), version("PHP 8"))
    }

    fn start(&self, environment: &StackEnvironment, folder: &Path) -> Result<Running, StartFailed> {
        let failed = |error| StartFailed::Execute("frankenphp".to_owned(), error);
        let port = free_port().map_err(failed)?;
        let text = configuration(environment, port);
        let mut command = Command::new(binary().unwrap_or_else(|| "frankenphp".into()));
        command.env("PHPRC", own_ini(environment, folder)?);
        caddy::run(command, folder, port, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_without_the_program_says_what_is_missing() {
        assert!(missing(None).unwrap().contains("`frankenphp` on the search path"));
        assert_eq!(missing(Some(Path::new("/usr/bin/frankenphp"))), None);
    }

    #[test]
    fn the_configuration_has_as_many_threads_as_other_stacks_have_processes() {
        let environment = StackEnvironment {
            root: "/srv/site".into(),
            ini: "/srv/php.ini".into(),
            php: "8.2".to_owned(),
            php_processes: 7,
            connections: 4,
            cores: 2,
            user: None,
            opcache: true,
            howdah: "howdah".into(),
            tls: None,
            settings: Default::default(),
        };
        let text = configuration(&environment, 8123);
        for line in ["num_threads 7", "http://:8123 {", "root * /srv/site", "protocols h1\n"] {
            assert!(text.contains(line), "{line}: {text}");
        }
        assert!(!text.contains('@'), "{text}");
    }
}
