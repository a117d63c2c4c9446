//! Howdah itself.

use std::path::Path;
use std::process::Command;

use super::template::{fill, version};
use rustix::process::Signal;

use crate::process::{Program, StartFailed, accepts, free_port};
use crate::stack::{Ground, Running, Stack};

/// Howdah, with `.htaccess` files read (as it comes) or not.
#[derive(Debug)]
pub(super) struct Howdah {
    htaccess: bool,
}

const CONFIGURATION: &str = "\
listen = [\"127.0.0.1:@port@\"]
# Event-loop threads: one per core.
threads = \"auto\"
@user@
control = \"@folder@/control.sock\"

[limits]
# Like the others: no connection is closed in the middle of a measurement.
keep_alive_requests = 0

[log]
access = \"off\"

[[site]]
hosts = [\"*\"]
root = \"@root@\"
index = [\"index.php\", \"index.html\"]
# The others follow links as well.
symlinks = \"follow\"
htaccess = @htaccess@

[site.php]
workers = @workers@
# Like the others: workers live on.
max_requests = 0
ini_file = \"@ini@\"
state_dir = \"@folder@/state\"
";

impl Default for Howdah {
    fn default() -> Howdah {
        Howdah { htaccess: true }
    }
}

impl Howdah {
    pub(super) fn without_htaccess() -> Howdah {
        Howdah { htaccess: false }
    }
}

impl Stack for Howdah {
    fn name(&self) -> &str {
        if self.htaccess {
            "howdah"
        } else {
            "howdah-no-htaccess"
        }
    }

    fn title(&self) -> &str {
        if self.htaccess {
            "Howdah"
        } else {
            "Howdah, .htaccess off"
        }
    }

    fn packages(&self, php: &str) -> Vec<String> {
        vec![format!("libphp{php}-embed")]
    }

    fn missing(&self, ground: &Ground) -> Option<String> {
        (!ground.howdah.is_file()).then(|| {
            format!(
                "{} is not there; build it with `make release`",
                ground.howdah.display()
            )
        })
    }

    fn version(&self, ground: &Ground) -> String {
        version(Some(&ground.howdah), "--version", "howdah ")
    }

    fn start(&self, ground: &Ground, folder: &Path) -> Result<Running, StartFailed> {
        let failed = |error| StartFailed::Execute("howdah".to_owned(), error);
        let port = free_port().map_err(failed)?;
        let workers = ground
            .settings
            .get("workers")
            .cloned()
            .unwrap_or_else(|| ground.php_processes.to_string());
        let text = fill(
            CONFIGURATION,
            &[
                ("port", &port.to_string()),
                (
                    "user",
                    &ground
                        .user
                        .as_ref()
                        .map_or(String::new(), |user| format!("user = \"{user}\"")),
                ),
                ("folder", &folder.display().to_string()),
                ("root", &ground.root.display().to_string()),
                ("htaccess", if self.htaccess { "true" } else { "false" }),
                ("workers", &workers),
                ("ini", &ground.ini.display().to_string()),
            ],
        );
        let file = folder.join("howdah.toml");
        std::fs::write(&file, &text).map_err(failed)?;
        let mut command = Command::new(&ground.howdah);
        let mut program = Program::start(
            command.args(["serve", "--config"]).arg(&file),
            &folder.join("howdah.log"),
        )?;
        program.wait_until(|| accepts(port))?;
        Ok(Running {
            port,
            programs: vec![program],
            configuration: [("howdah.toml".to_owned(), text)].into(),
            reload: vec![Some(Signal::HUP)],
        })
    }
}
