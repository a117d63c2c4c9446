//! The control socket of the next generation.

use howdah_config::Config;

use super::super::Supervisor;
use super::super::control::ControlSocket;

/// The control socket after the change.
#[derive(Debug)]
pub(super) enum NextSocket {
    Same,
    Another(ControlSocket),
    None,
}

impl Supervisor {
    /// Binds the control socket of the new configuration. Also returns a warning if there is no
    /// control socket although none was refused by the configuration.
    ///
    /// # Errors
    /// The socket of the configuration cannot be bound; the text is for the operator.
    pub(super) fn control_for(
        &self,
        config: &Config,
    ) -> Result<(NextSocket, Option<String>), String> {
        let Some(path) = config
            .control_path(self.environment.identity.is_root(), self.environment.runtime.as_deref())
        else {
            return Ok((NextSocket::None, None));
        };
        let group = config.control_group.as_deref();
        if let Some(control) = self.control.as_ref().filter(|control| control.path == path) {
            control.open_to(group)?;
            return Ok((NextSocket::Same, None));
        }
        let bound = ControlSocket::bind(&path);
        match bound.and_then(|control| control.open_to(group).map(|()| control)) {
            Ok(control) => Ok((NextSocket::Another(control), None)),
            Err(error) if config.control.is_some() => Err(error),
            // The path is a default, therefore the failure is a warning.
            Err(error) => Ok((NextSocket::None, Some(format!("no control socket: {error}")))),
        }
    }

    /// Uses the control socket of the new configuration from now on.
    pub(super) fn use_control(&mut self, next: NextSocket) {
        match next {
            NextSocket::Same => {}
            NextSocket::None => self.control = None,
            NextSocket::Another(mut another) => {
                if let Some(former) = self.control.take() {
                    another.succeed(former);
                }
                self.control = Some(another);
            }
        }
    }
}
