//! FrankenPHP: PHP's threads in one process of Go.
//!
//! Debian has no package of it. A program `frankenphp` on the search path is used, such as the one
//! of its own releases, which has Caddy around the library. Otherwise the laboratory's own program
//! is, which has Go's net/http around it.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::caddy;
use super::template::{fill, version};
use crate::environment::{load_opcache, own_ini};
use crate::process::{StartFailed, find, free_port};
use crate::stack::{Running, Stack, StackEnvironment};
use crate::{frankenphp, zts};

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

/// The program that is run.
#[derive(Debug, PartialEq)]
enum Program {
    /// One with Caddy's command line.
    Caddy(PathBuf),
    /// The one that the laboratory builds around the library.
    Library(PathBuf),
}

fn program() -> Option<Program> {
    let caddy = find(&["frankenphp"]).map(Program::Caddy);
    caddy.or_else(|| frankenphp::built().map(Program::Library))
}

fn configuration(environment: &StackEnvironment, port: u16) -> String {
    let text = caddy::filled(CONFIGURATION, environment, port);
    fill(&text, &[("threads", &environment.php_processes.to_string())])
}

/// Returns the reason why a run has no FrankenPHP, if there is no program.
fn missing(program: Option<&Program>) -> Option<String> {
    program.is_none().then(|| {
        "Debian has no FrankenPHP; `howdah-lab setup --frankenphp` builds its library, or a \
         program `frankenphp` on the search path is used"
            .to_owned()
    })
}

/// Starts the laboratory's own program around the library.
fn start_library(
    file: &Path,
    environment: &StackEnvironment,
    folder: &Path,
) -> Result<Running, StartFailed> {
    let failed = |error| StartFailed::Execute(file.display().to_string(), error);
    let port = free_port().map_err(failed)?;
    let ini = own_ini(environment, folder)?;
    let opcache = zts::library(&environment.php).unwrap_or_default().join("lib/php/opcache.so");
    load_opcache(&ini, &opcache)?;
    let mut command = Command::new(file);
    command
        .arg(format!("-listen=127.0.0.1:{port}"))
        .arg(format!("-root={}", environment.root.display()))
        .arg(format!("-threads={}", environment.php_processes))
        .env("PHPRC", &ini);
    if let Some(tls) = &environment.tls {
        command
            .arg(format!("-certificate={}", tls.certificate.display()))
            .arg(format!("-key={}", tls.key.display()));
    }
    let text = format!("{command:?}\n");
    let log = folder.join("frankenphp.log");
    Running::without_programs(port).start(&mut command, &log, ("command", text), None)
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
        missing(program().as_ref())
    }

    fn version(&self, environment: &StackEnvironment) -> String {
        match program() {
            Some(Program::Caddy(file)) => {
                let version = |prefix: &str| version(Some(&file), "version", prefix);
                format!("{}, {}", version("FrankenPHP "), version("PHP 8"))
            }
            _ => format!(
                "{} (library, with Go's net/http), PHP {} ZTS",
                frankenphp::version(),
                environment.php
            ),
        }
    }

    fn start(&self, environment: &StackEnvironment, folder: &Path) -> Result<Running, StartFailed> {
        let file = match program() {
            Some(Program::Library(file)) => return start_library(&file, environment, folder),
            Some(Program::Caddy(file)) => file,
            None => "frankenphp".into(),
        };
        let failed = |error| StartFailed::Execute("frankenphp".to_owned(), error);
        let port = free_port().map_err(failed)?;
        let text = configuration(environment, port);
        let mut command = Command::new(file);
        command.env("PHPRC", own_ini(environment, folder)?);
        caddy::run(command, folder, port, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_without_the_program_says_what_is_missing() {
        assert!(missing(None).unwrap().contains("setup --frankenphp"));
        assert_eq!(missing(Some(&Program::Caddy("/usr/bin/frankenphp".into()))), None);
        assert_eq!(missing(Some(&Program::Library("/var/cache/frankenphp".into()))), None);
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
