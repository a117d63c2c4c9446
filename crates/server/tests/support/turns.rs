//! The turns that a thread of a test gets on the processors.

use std::fs;
use std::process::Command;

/// Gives this thread the processor whenever it can run: a visitor's machine is not the one that is
/// attacked. Where that is not permitted, the visitor's own waiting counts as the server's.
pub fn stand_apart() {
    change(&["--fifo", "--pid", "1"]);
}

/// Gives this thread the processors when nothing else wants them: an attacker's work is done on
/// another machine.
pub fn stand_back() {
    change(&["--idle", "--pid", "0"]);
}

fn change(how: &[&str]) {
    let thread = fs::read_link("/proc/thread-self").unwrap();
    let number = thread.file_name().unwrap();
    let _ = Command::new("chrt").args(how).arg(number).output();
}
