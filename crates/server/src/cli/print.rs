//! Output of the commands.

use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;
use std::sync::OnceLock;

use howdah_watch::printed::visible_lines;

/// Prints text for people. Files and folders of the sites' owners are in it, which must not control
/// the terminal.
pub(super) fn say(text: &str) {
    say_as_is(&visible_lines(text));
}

/// Prints text for programs. [`exit_code`] tells of an error at the end of the program.
pub(super) fn say_as_is(text: &str) {
    let mut output = io::stdout();
    if FAILURE.get().is_some() {
        return;
    }
    if let Err(error) = writeln!(output, "{text}").and_then(|()| output.flush()) {
        // This is the first one, as no other thread prints.
        let _ = FAILURE.set(error);
    }
}

/// The exit status of the program: `usual`, unless its output could not be written. A closed pipe
/// is not an error: a reader such as `head` has read enough.
pub(super) fn exit_code(usual: ExitCode) -> ExitCode {
    match FAILURE.get() {
        Some(error) if error.kind() != ErrorKind::BrokenPipe => {
            complain(&format!("the output is incomplete: it cannot be written: {error}"));
            ExitCode::FAILURE
        }
        _ => usual,
    }
}

/// The error with which the output has ended.
static FAILURE: OnceLock<io::Error> = OnceLock::new();

/// Prints an error or a warning, as [`say`] does.
pub(super) fn complain(text: &str) {
    eprintln!("howdah: {}", visible_lines(text));
}
