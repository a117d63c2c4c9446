//! Output of the commands.

use std::io::{self, Write};

use howdah_watch::printed::visible_lines;

/// Prints text for people. Files and folders of the sites' owners are in it, which must not control
/// the terminal.
pub(super) fn say(text: &str) {
    say_as_is(&visible_lines(text));
}

/// Prints text for programs. A closed pipe is not an error: a reader such as `head` has read
/// enough.
pub(super) fn say_as_is(text: &str) {
    let _ = writeln!(io::stdout(), "{text}");
}

/// Prints an error or a warning, as [`say`] does.
pub(super) fn complain(text: &str) {
    eprintln!("howdah: {}", visible_lines(text));
}
