//! h2o, for files only.

use std::path::Path;
use std::process::Command;

use super::template::{fill, if_tls, places, version};
use rustix::process::Signal;

use crate::process::{StartFailed, find, free_port};
use crate::stack::{Running, Stack, StackEnvironment};

/// h2o, for files only.
#[derive(Debug)]
pub(super) struct H2o;

const CONFIGURATION: &str = "\
@user@
num-threads: @cores@
# Of all threads together; the default of 1024 would keep a crowd waiting.
max-connections: @all@
error-log: @folder@/error.log
pid-file: @folder@/h2o.pid
server-name: h2o
# A connection that nothing is asked on is kept as long as by the others.
http1-request-timeout: 75
http2-idle-timeout: 75
hosts:
  default:
    listen:
      host: 127.0.0.1
      port: @port@
@tls@    paths:
      /:
        file.dir: @root@
        file.index: [ 'index.html' ]
        # Answers are sent as the file is; compression is off for all.
        file.send-compressed: OFF
";

const TLS: &str = "      ssl:
        certificate-file: @certificate@
        key-file: @key@
        minimum-version: TLSv1.2
        # As the others: the client chooses among ciphers that are all good.
        cipher-preference: client
";

impl Stack for H2o {
    fn name(&self) -> &str {
        "h2o"
    }

    fn title(&self) -> &str {
        "h2o (files only)"
    }

    fn serves_php(&self) -> bool {
        false
    }

    fn renews_tickets(&self) -> bool {
        false
    }

    fn packages(&self, _php: &str) -> Vec<String> {
        vec!["h2o".to_owned()]
    }

    fn missing(&self, _ground: &StackEnvironment) -> Option<String> {
        find(&["h2o"]).is_none().then(|| "h2o is not installed".to_owned())
    }

    fn version(&self, _ground: &StackEnvironment) -> String {
        version(find(&["h2o"]).as_deref(), "-v", "h2o version ")
    }

    fn start(&self, environment: &StackEnvironment, folder: &Path) -> Result<Running, StartFailed> {
        let failed = |error| StartFailed::Execute("h2o".to_owned(), error);
        let port = free_port().map_err(failed)?;
        let text = fill(
            CONFIGURATION,
            &[
                (
                    "user",
                    &environment
                        .user
                        .as_ref()
                        .map_or(String::new(), |user| format!("user: {user}")),
                ),
                ("cores", &environment.cores.to_string()),
                ("folder", &folder.display().to_string()),
                ("all", &(2 * places(environment)).to_string()),
                ("port", &port.to_string()),
                ("tls", &if_tls(environment, TLS)),
                ("root", &environment.root.display().to_string()),
            ],
        );
        let file = folder.join("h2o.conf");
        std::fs::write(&file, &text).map_err(failed)?;
        let mut command = Command::new(find(&["h2o"]).unwrap_or_else(|| "h2o".into()));
        Running::without_programs(port).start(
            command.args(["-m", "worker", "-c"]).arg(&file),
            &folder.join("h2o.log"),
            ("h2o.conf", text),
            Some(Signal::HUP),
        )
    }
}
