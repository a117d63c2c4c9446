//! System calls per request, counted by strace while a few requests are answered.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::load::{AbRun, Load, Question};
use crate::loads::{self, Wrong};
use crate::process::{find, tree};
use crate::stack::LoadTarget;

/// Requests while strace counts. Traced servers are slow, and the counts hardly vary.
const REQUESTS: u64 = 500;
/// Time in which strace attaches to all processes and writes its table.
const SETTLE: Duration = Duration::from_millis(700);

/// Counts calls per request by name, over all processes of the target.
///
/// # Errors
///
/// strace is not installed or cannot attach, or an answer is wrong.
pub fn count(question: &Question, target: &LoadTarget) -> Result<BTreeMap<String, f64>, Wrong> {
    let strace = find(&["strace"]).ok_or_else(|| {
        Wrong("strace is not installed, so system calls are not counted".to_owned())
    })?;
    let mut command = Command::new(strace);
    command.args(["-c", "-f", "-q"]);
    for pid in tree(&target.roots) {
        command.arg("-p").arg(pid.to_string());
    }
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    std::thread::sleep(SETTLE);
    let bench = AbRun {
        requests: REQUESTS,
        concurrency: 4,
        keep_alive: true,
        at_most: Duration::from_secs(60),
    };
    let asked = loads::put(&Load::Ab(bench), question, target);
    // An interrupt makes strace write its table.
    if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, Signal::INT);
    }
    let output = child.wait_with_output()?;
    let measured = asked?;
    let table = String::from_utf8_lossy(&output.stderr).into_owned();
    let counts = parse(&table);
    if counts.is_empty() {
        return Err(Wrong(format!(
            "strace could not count system calls: {}",
            table.lines().next().unwrap_or("it said nothing")
        )));
    }
    let requests = measured.requests.max(1) as f64;
    Ok(counts
        .into_iter()
        .map(|(name, count)| (name, count as f64 / requests))
        .collect())
}

/// Parses strace's table: `% time, seconds, usecs/call, calls, [errors,] syscall`.
fn parse(table: &str) -> BTreeMap<String, u64> {
    let row = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let share: f64 = words.first()?.parse().ok()?;
        let name = words.last()?;
        let calls = words.get(3)?.parse().ok()?;
        (words.len() >= 5 && share <= 100.0 && *name != "total")
            .then(|| ((*name).to_owned(), calls))
    };
    table.lines().filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_read() {
        let table = "% time     seconds  usecs/call     calls    errors syscall\n\
                     ------ ----------- ----------- --------- --------- ----------------\n \
                     61.90    0.000065           6        10           writev\n \
                     38.10    0.000040           2        20         5 openat\n\
                     ------ ----------- ----------- --------- --------- ----------------\n\
                     100.00    0.000105           3        30         5 total\n";
        let expected: BTreeMap<String, u64> =
            [("openat".to_owned(), 20), ("writev".to_owned(), 10)].into();
        assert_eq!(parse(table), expected);
    }
}
