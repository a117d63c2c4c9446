//! The turns that a thread of a test gets on the processors.

use std::fs;
use std::process::Command;

/// Gives this thread the processor whenever it can run: a visitor's machine is not the one that is
/// attacked. Where that is not permitted, the visitor's own waiting counts as the server's.
pub fn stand_apart() {
    change("chrt", &["--fifo", "--pid", "1"]);
}

/// Gives this thread the processors that hardly anything else wants: an attacker's work is done on
/// another machine. It gets a small share whatever happens, since others may wait for a lock that
/// it holds.
pub fn stand_back() {
    change("renice", &["-n", "19", "-p"]);
}

/// As [`stand_back`], for the session of this process. Linux shares processors between sessions
/// first, and only then between the threads of each (`sched_autogroup_enabled`): without it the
/// attackers together would weigh as much as the server.
pub fn stand_back_as_session() {
    let _ = fs::write("/proc/self/autogroup", "19");
}

fn change(program: &str, how: &[&str]) {
    let thread = fs::read_link("/proc/thread-self").unwrap();
    let number = thread.file_name().unwrap();
    let _ = Command::new(program).args(how).arg(number).output();
}
