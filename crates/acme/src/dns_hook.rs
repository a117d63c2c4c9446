//! The program that adds and removes DNS records for DNS-01.
//!
//! It is called with `add NAME VALUE` or `remove NAME VALUE` after its own arguments, as in
//! `hook add _acme-challenge.example.org gfj9Xq…Rg85nM`, and ends with status 0 when the DNS
//! servers of the domain give the new answer.

use std::io::{PipeReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use howdah_sys::process::Pid;
use howdah_sys::signal::SIGKILL;

/// The time after which the program is killed.
const PATIENCE: Duration = Duration::from_secs(300);
/// Interval at which its end is checked.
const TURN: Duration = Duration::from_millis(20);
/// Time in which its messages must arrive after its end. Later ones are left out.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Bytes of its messages that are shown. The rest is left out.
const LONGEST_MESSAGE: u64 = 2000;

/// Adds the TXT record `name` with `value`. Waits for the program.
///
/// # Errors
/// The reason why the record was not added, for the operator.
pub(crate) fn add(hook: &[String], name: &str, value: &str) -> Result<(), String> {
    run(hook, ["add", name, value], PATIENCE)
}

/// Removes the TXT record `name` with `value`. Waits for the program.
///
/// # Errors
/// The reason why the record was not removed, for the operator.
pub(crate) fn remove(hook: &[String], name: &str, value: &str) -> Result<(), String> {
    run(hook, ["remove", name, value], PATIENCE)
}

fn run(hook: &[String], arguments: [&str; 3], patience: Duration) -> Result<(), String> {
    let Some((program, own)) = hook.split_first() else {
        return Err("`dns_hook` is empty".to_owned());
    };
    let [what, name, _] = arguments;
    let told = |reason: String| format!("the DNS hook `{program} {what} {name}` {reason}");
    let failed = |error: std::io::Error| told(format!("cannot be run: {error}"));
    let (output, writer) = std::io::pipe().map_err(failed)?;
    let mut command = Command::new(program);
    command.args(own).args(arguments).stdin(Stdio::null());
    command.stdout(writer.try_clone().map_err(failed)?).stderr(writer);
    command.process_group(0);
    let mut child = command.spawn().map_err(failed)?;
    // The writing ends in this process are closed with the command.
    drop(command);
    let said = listen(output);
    let status = wait(&mut child, patience).map_err(failed)?;
    // A program that goes on in the background may keep the pipe open.
    let said = said.recv_timeout(LAST_WORDS).unwrap_or_default();
    match status {
        Some(status) if status.success() => Ok(()),
        Some(status) => Err(told(format!("failed ({status}): {said}"))),
        None => Err(told(format!("was killed after {} s: {said}", patience.as_secs()))),
    }
}

/// Reads everything that the program says, on a thread, and keeps the beginning.
fn listen(mut output: PipeReader) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        // Without its words the status alone is told.
        let _ = output.by_ref().take(LONGEST_MESSAGE).read_to_end(&mut kept);
        let text = String::from_utf8_lossy(&kept).trim().replace(|one: char| one.is_control(), " ");
        let _ = sender.send(text);
        let _ = std::io::copy(&mut output, &mut std::io::sink());
    });
    receiver
}

/// Waits for the program; `None` if it was killed because it took too long.
fn wait(child: &mut Child, patience: Duration) -> std::io::Result<Option<ExitStatus>> {
    let until = Instant::now() + patience;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= until {
            // The group: a shell script's programs as well.
            if let Some(pid) = Pid::from_number(child.id()) {
                let _ = pid.signal_group(SIGKILL);
            }
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(TURN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Vec<String> {
        ["/bin/sh", "-c", script, "hook"].map(str::to_owned).to_vec()
    }

    #[test]
    fn the_program_gets_action_name_and_value() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("calls");
        let hook = shell(&format!("echo \"$@\" >> {}", file.display()));
        add(&hook, "_acme-challenge.example.org", "a b").unwrap();
        remove(&hook, "_acme-challenge.example.org", "a b").unwrap();
        let calls = std::fs::read_to_string(file).unwrap();
        assert_eq!(
            calls,
            "add _acme-challenge.example.org a b\nremove _acme-challenge.example.org a b\n"
        );
    }

    #[test]
    fn a_failure_tells_what_the_program_said() {
        let error = add(&shell("echo no such zone >&2; exit 3"), "n", "v").unwrap_err();
        assert!(error.contains("add n") && error.contains("no such zone"), "{error}");
        let error = add(&["/no/such/hook".to_owned()], "n", "v").unwrap_err();
        assert!(error.contains("cannot be run"), "{error}");
    }

    #[test]
    fn a_program_that_does_not_end_is_killed_with_its_children() {
        let hook = shell("sleep 1000 & sleep 1000");
        let error = run(&hook, ["add", "n", "v"], Duration::from_millis(50)).unwrap_err();
        assert!(error.contains("was killed"), "{error}");
    }
}
