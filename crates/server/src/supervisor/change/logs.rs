//! The logs of a new generation.

use std::path::PathBuf;
use std::sync::Arc;

use howdah_config::{Config, ErrorTarget};

use super::super::Supervisor;
use crate::log::{self, ErrorLog, Level, LineKind, LogTarget, SiteLogs};

impl Supervisor {
    /// Opens the logs of `config`, those that are open already apart.
    ///
    /// # Errors
    /// The reason, as text for the operator.
    pub(super) fn logs_for(
        &self,
        config: &Config,
    ) -> Result<(Arc<ErrorLog>, SiteLogs<LogTarget>), String> {
        let failed = |error: std::io::Error| format!("cannot write a log: {error}");
        let log = match &config.log.error {
            ErrorTarget::File(path) if self.log.target().path() == Some(path) => {
                self.log.target().clone()
            }
            ErrorTarget::File(path) => log::open_file(path)?,
            ErrorTarget::Stderr => LogTarget::stderr().map_err(failed)?,
            ErrorTarget::System(log) => {
                let socket = config.log.daemon_socket(log.daemon);
                LogTarget::system(log, &socket, LineKind::Error).map_err(failed)?
            }
        };
        let log = Arc::new(ErrorLog::new(log, config.log.level));
        let mut missing: Vec<PathBuf> =
            config.log.daemon_sockets(&config.sites).map(|(_, socket)| socket).collect();
        missing.retain(|socket| !socket.exists());
        missing.sort();
        missing.dedup();
        for socket in missing {
            let socket = socket.display();
            let what = format!(
                "the system's log does not listen at {socket}; until it does, lines for it are lost"
            );
            log.say(Level::Warning, None, &what);
        }
        let (access, left_out) = SiteLogs::open(config, &self.access)?;
        for why in left_out {
            let what = format!("{why}; its requests are not logged until a reload can open it");
            log.say(Level::Error, None, &what);
        }
        Ok((log, access))
    }
}
