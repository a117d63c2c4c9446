//! nginx Unit, built by the laboratory: Debian has no package of it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::template::{fill, version};
use crate::environment::own_ini;
use crate::load::Question;
use crate::loads::sample;
use crate::process::{StackProgram, StartFailed, accepts, find, free_port};
use crate::stack::{Running, Stack, StackEnvironment};
use crate::unit;

/// nginx Unit with its PHP processes.
#[derive(Debug)]
pub(super) struct Unit;

/// The file in Unit's state folder that it starts with.
const CONFIGURATION: &str = r#"{
    "listeners": { "127.0.0.1:@port@": { "pass": "routes" } },
    "settings": { "http": { "idle_timeout": 75 } },
    "routes": [
        {
            "match": { "uri": ["*.php", "*.php/*", "*/"] },
            "action": { "pass": "applications/php" }
        },
        { "action": { "share": "@root@$uri" } }
    ],
    "applications": {
        "php": {
            "type": "php",
            "processes": @processes@,
            @user@
            "root": "@root@",
            "options": { "file": "@ini@" }
        }
    }
}
"#;

fn binary() -> Option<PathBuf> {
    unit::built().or_else(|| find(&["unitd"]))
}

/// Returns whether PHP answers. Now and then, Unit leaves its first request to PHP without an
/// answer and logs "get_port_handler: port not found" (4 of 300 starts on a busy machine). It
/// answers the next one.
fn answers(port: u16) -> bool {
    let question = Question {
        path: "/no-such-script.php".to_owned(),
        ..Question::default()
    };
    sample::ask_within(Duration::from_secs(5), &question, port).is_ok()
}

impl Stack for Unit {
    fn name(&self) -> &str {
        "nginx-unit"
    }

    fn title(&self) -> &str {
        "nginx Unit"
    }

    fn unequal(&self) -> Option<&str> {
        Some("built by the laboratory from its public source")
    }

    fn packages(&self, _php: &str) -> Vec<String> {
        // `setup --unit` builds it and has packages of its own.
        Vec::new()
    }

    fn missing(&self, environment: &StackEnvironment) -> Option<String> {
        if environment.tls.is_some() {
            return Some("is built without TLS".to_owned());
        }
        binary()
            .is_none()
            .then(|| "Debian has no nginx Unit; `howdah-lab setup --unit` builds it".to_owned())
    }

    fn version(&self, environment: &StackEnvironment) -> String {
        let unit = version(binary().as_deref(), "--version", "unit version: ");
        format!("{unit}, PHP {}", environment.php)
    }

    fn start(&self, environment: &StackEnvironment, folder: &Path) -> Result<Running, StartFailed> {
        let failed = |error| StartFailed::Execute("unitd".to_owned(), error);
        let port = free_port().map_err(failed)?;
        let user = environment
            .user
            .as_ref()
            .map_or(String::new(), |user| format!("\"user\": \"{user}\", \"group\": \"{user}\","));
        let text = fill(
            CONFIGURATION,
            &[
                ("port", &port.to_string()),
                ("root", &environment.root.display().to_string()),
                ("processes", &environment.php_processes.to_string()),
                ("user", &user),
                ("ini", &own_ini(environment, folder)?.display().to_string()),
            ],
        );
        let state = folder.join("state");
        std::fs::create_dir_all(&state).map_err(failed)?;
        std::fs::write(state.join("conf.json"), &text).map_err(failed)?;
        let mut command = Command::new(binary().unwrap_or_else(|| "unitd".into()));
        command
            .args(["--no-daemon", "--statedir"])
            .arg(&state)
            .arg("--tmpdir")
            .arg(folder)
            .arg("--pid")
            .arg(folder.join("unit.pid"))
            .arg("--log")
            .arg(folder.join("unit.log"))
            .arg("--control")
            .arg(format!("unix:{}", folder.join("control.sock").display()));
        if let Some(modules) = unit::modules() {
            command.arg("--modulesdir").arg(modules);
        }
        if let Some(user) = &environment.user {
            // Its router and controller run as this user.
            command.args(["--user", user, "--group", user]);
        }
        let mut program = StackProgram::start(&mut command, &folder.join("unitd.log"))?;
        program.wait_until(|| accepts(port) && answers(port))?;
        let mut running = Running::without_programs(port);
        running.add(program, ("conf.json", text), None);
        Ok(running)
    }
}
