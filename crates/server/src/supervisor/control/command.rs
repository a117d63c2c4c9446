//! The commands of the control socket, and the way to give one to a server.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// The commands of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ControlCommand {
    /// Report the state of the server.
    Status,
    /// Report the state of the server as JSON.
    StatusJson,
    /// Read the configuration again, and start a new generation.
    Reload,
    /// Finish all requests, and end.
    Stop,
    /// Answer a request of HTTP as at the admin listener.
    Monitor,
}

impl ControlCommand {
    /// The command as it is sent and as it is written on the command line.
    pub(crate) fn word(self) -> &'static str {
        match self {
            ControlCommand::Status => "status",
            ControlCommand::StatusJson => "status-json",
            ControlCommand::Reload => "reload",
            ControlCommand::Stop => "stop",
            ControlCommand::Monitor => "a GET request",
        }
    }

    /// Returns the command that a line names. `None`: the line names none.
    pub(super) fn of_line(line: &[u8]) -> Option<ControlCommand> {
        [
            ControlCommand::Status,
            ControlCommand::StatusJson,
            ControlCommand::Reload,
            ControlCommand::Stop,
        ]
        .into_iter()
        .find(|command| command.word().as_bytes() == line)
    }

    /// Returns whether the command leaves the server as it is.
    pub(super) fn is_question(self) -> bool {
        !matches!(self, ControlCommand::Reload | ControlCommand::Stop)
    }
}

/// Time that `status` and `reload` wait for an answer. A reload starts PHP, which may take a
/// minute, and waits for the end of a short probation.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(120);

/// Client side: sends `command` to the server at `path` and returns the answer.
///
/// # Errors
/// The reason, as text for the operator.
pub(crate) fn ask(path: &Path, command: ControlCommand) -> Result<String, String> {
    let place = path.display();
    let mut stream = UnixStream::connect(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            format!(
                "no howdah runs with the control socket {place}; name its configuration with \
                 --config, or its socket with --control"
            )
        }
        _ => format!("cannot reach the control socket {place}: {error}"),
    })?;
    let lost =
        |error: io::Error| format!("the connection to the server at {place} was lost: {error}");
    if command != ControlCommand::Stop {
        stream.set_read_timeout(Some(ANSWER_TIMEOUT)).map_err(lost)?;
    }
    stream.write_all(format!("{}\n", command.word()).as_bytes()).map_err(lost)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(lost)?;
    match answer.split_once('\n') {
        Some(("ok", text)) => Ok(text.trim_end().to_owned()),
        Some(("refused", text)) => Err(text.trim_end().to_owned()),
        _ => Err(format!(
            "the server at {place} closed the connection without an answer; see its log"
        )),
    }
}
