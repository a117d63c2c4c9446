//! Caddy, for files only.

use std::path::Path;
use std::process::Command;

use super::template::{fill, if_tls, version};
use crate::process::{StartFailed, find, free_port};
use crate::stack::{Running, Stack, StackEnvironment};

/// Caddy, for files only.
#[derive(Debug)]
pub(super) struct Caddy;

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
}
@scheme@://:@port@ {
    bind 127.0.0.1
@tls@    root * @root@
    file_server
}
";

impl Stack for Caddy {
    fn name(&self) -> &str {
        "caddy"
    }

    fn title(&self) -> &str {
        "Caddy (files only)"
    }

    fn serves_php(&self) -> bool {
        false
    }

    fn unequal(&self) -> Option<&str> {
        Some("runs as the user who runs the laboratory: it drops no privileges itself")
    }

    fn packages(&self, _php: &str) -> Vec<String> {
        vec!["caddy".to_owned()]
    }

    fn missing(&self, _ground: &StackEnvironment) -> Option<String> {
        find(&["caddy"]).is_none().then(|| "caddy is not installed".to_owned())
    }

    fn version(&self, _ground: &StackEnvironment) -> String {
        "Caddy ".to_owned() + &version(find(&["caddy"]).as_deref(), "version", "v")
    }

    fn start(&self, environment: &StackEnvironment, folder: &Path) -> Result<Running, StartFailed> {
        let failed = |error| StartFailed::Execute("caddy".to_owned(), error);
        let port = free_port().map_err(failed)?;
        let text = filled(CONFIGURATION, environment, port);
        let command = Command::new(find(&["caddy"]).unwrap_or_else(|| "caddy".into()));
        run(command, folder, port, text)
    }
}

/// Fills the parts of a configuration in Caddy's language that all stacks have.
pub(super) fn filled(template: &str, environment: &StackEnvironment, port: u16) -> String {
    let is_encrypted = environment.tls.is_some();
    fill(
        template,
        &[
            ("port", &port.to_string()),
            ("root", &environment.root.display().to_string()),
            ("protocols", if is_encrypted { "h1 h2" } else { "h1" }),
            ("scheme", if is_encrypted { "https" } else { "http" }),
            ("tls", &if_tls(environment, "    tls @certificate@ @key@\n")),
        ],
    )
}

/// Runs a program with Caddy's command line and the configuration `text`, which has it listen on
/// `port`. All that it keeps is in `folder`.
///
/// # Errors
/// The configuration cannot be written, or the program does not start.
pub(super) fn run(
    mut command: Command,
    folder: &Path,
    port: u16,
    text: String,
) -> Result<Running, StartFailed> {
    let file = folder.join("Caddyfile");
    let name = command.get_program().to_string_lossy().into_owned();
    std::fs::write(&file, &text).map_err(|error| StartFailed::Execute(name, error))?;
    command
        .args(["run", "--adapter", "caddyfile", "--config"])
        .arg(&file)
        .env("XDG_DATA_HOME", folder)
        .env("XDG_CONFIG_HOME", folder)
        .env("HOME", folder);
    let log = folder.join("caddy.log");
    Running::without_programs(port).start(&mut command, &log, ("Caddyfile", text), None)
}
