//! The process that orders certificates: a forked child without privileges, and the channel to it.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Instant;

use howdah_acme::AcmeSettings;
use howdah_acme::message::{self, ToProcess, ToSupervisor};
use howdah_sys::credentials::Identity;
use howdah_sys::folder;
use howdah_sys::landlock::{FileRights, Landlock, Ruleset};
use howdah_sys::process::{self, Pid};
use howdah_sys::seqpacket::SeqPacket;
use howdah_sys::signal::SIGKILL;

use super::plan::OrderPlan;
use crate::supervisor::child_channel::ChildChannel;
use crate::supervisor::{state, unprivileged};

const NAME: &CStr = c"howdah-acme";
/// Bytes of a message: a challenge's certificate is the longest.
const LONGEST_MESSAGE: usize = 64 * 1024;
/// Seconds that the process may go on after the supervisor has died.
const ORPHAN_SECONDS: u8 = 5;

/// The running process.
#[derive(Debug)]
pub(super) struct OrderProcess {
    pub(super) pid: Pid,
    channel: ChildChannel,
    pub(super) started: Instant,
    /// The process was told to end.
    pub(super) is_ending: bool,
}

impl OrderProcess {
    /// Prepares the state folder and forks the process. `ours` is this process's user.
    ///
    /// # Errors
    /// The state folder cannot be prepared, or the process cannot be forked.
    pub(super) fn start(plan: &OrderPlan, ours: &Identity) -> io::Result<OrderProcess> {
        prepare(&plan.settings.state, plan.identity.as_ref(), ours)?;
        let (channel, theirs) = SeqPacket::pair()?;
        channel.set_nonblocking(true)?;
        let parent = process::own_pid();
        let plan = plan.clone();
        let keep = [theirs.as_raw_fd()];
        let pid = process::fork(&keep, move || child(plan, theirs, parent))?;
        Ok(OrderProcess {
            pid,
            channel: ChildChannel::new(channel),
            started: Instant::now(),
            is_ending: false,
        })
    }

    /// The channel, to wait for.
    pub(super) fn awaited(&self) -> Option<BorrowedFd<'_>> {
        self.channel.awaited()
    }

    /// Receives the next message. `None` if there is none.
    ///
    /// # Errors
    /// The message is malformed.
    pub(super) fn listen(&mut self) -> io::Result<Option<ToSupervisor>> {
        let packet = self.channel.receive(LONGEST_MESSAGE);
        packet.map(|packet| message::decode(&packet)).transpose()
    }

    /// Sends a message. Without it the order fails, and is repeated later.
    pub(super) fn tell(&self, message: &ToProcess) {
        let _ = self.channel.send(&message::encode(message), &[]);
    }

    /// Kills the process, which has nothing to finish: files are written whole or not at all.
    pub(super) fn end(&mut self) {
        self.is_ending = true;
        self.kill();
    }

    /// Kills the process and the programs that it runs.
    pub(super) fn kill(&self) {
        // The process was not reaped yet, therefore no other process has its id.
        let _ = self.pid.signal_group(SIGKILL);
    }
}

/// Makes sure that the state folder belongs to the user of the process: `identity`, or this
/// process's user, `ours`.
fn prepare(state: &Path, identity: Option<&Identity>, ours: &Identity) -> io::Result<()> {
    let told = |path: &Path, error: io::Error| {
        let path = path.display();
        io::Error::new(
            error.kind(),
            format!("the folder {path}: {error}; set `state_dir` in [acme]"),
        )
    };
    let owner = identity.unwrap_or(ours);
    let state = state::place(state, owner, ours).map_err(|(path, error)| told(&path, error))?;
    if identity.is_some() {
        folder::hand_over(&state, owner.uid, owner.gid).map_err(|error| told(&state, error))?;
    }
    folder::make_private(&state, owner.uid, owner.gid).map_err(|error| told(&state, error))
}

/// Runs the process in the child.
fn child(plan: OrderPlan, channel: SeqPacket, parent: Pid) -> u8 {
    process::set_name(NAME);
    let log = |text: String| {
        let line = message::encode(&ToSupervisor::Log { is_error: true, text });
        // A supervisor that is gone needs no message.
        let _ = channel.send(&line, &[]);
    };
    if let Err(error) = settle(&plan, parent) {
        log(format!("cannot start the process that orders certificates: {error}"));
        return 1;
    }
    let copy = match channel.duplicate() {
        Ok(copy) => copy,
        Err(error) => {
            log(format!("cannot start the process that orders certificates: {error}"));
            return 1;
        }
    };
    match howdah_acme::run(plan.settings, copy) {
        Ok(()) => 0,
        Err(error) => {
            log(format!("the process that orders certificates cannot go on: {error}"));
            1
        }
    }
}

/// Sets the user, the signal handling and the limits of the process.
fn settle(plan: &OrderPlan, parent: Pid) -> io::Result<()> {
    unprivileged::leave_signals_to_supervisor()?;
    unprivileged::give_up_rights(plan.identity.as_ref(), parent, ORPHAN_SECONDS)?;
    match Landlock::of_kernel() {
        Some(landlock) if plan.is_confined => ruleset(landlock, &plan.settings)?.enforce(),
        _ => Ok(()),
    }
}

/// Writes in the state folder alone, and executes nothing but the DNS hook. The hook is the
/// operator's choice: it may write temporary files.
fn ruleset(landlock: Landlock, settings: &AcmeSettings) -> io::Result<Ruleset> {
    let mut ruleset = Ruleset::new(landlock);
    let refused = FileRights::WRITE.and(FileRights::MAKE_DEVICES);
    let has_hook = !settings.dns_hook.is_empty();
    ruleset.refuse_files(if has_hook {
        refused
    } else {
        refused.and(FileRights::EXECUTE)
    });
    ruleset.grant(CString::new(settings.state.as_os_str().as_bytes())?, FileRights::WRITE);
    if has_hook {
        let temporary = std::env::temp_dir();
        ruleset.grant(CString::new(temporary.as_os_str().as_bytes())?, FileRights::WRITE);
    }
    ruleset.grant(c"/dev/null".to_owned(), FileRights::WRITE_EXISTING);
    ruleset.refuse_to_listen();
    Ok(ruleset)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, lchown, symlink};

    use super::*;

    #[test]
    fn nobody_else_can_put_a_folder_in_the_place_of_the_state_folder() {
        let ours = Identity::current().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        prepare(&at("new/acme"), None, &ours).unwrap();
        assert_eq!(at("new/acme").metadata().unwrap().mode() & 0o777, 0o700);
        if ours.uid != 0 {
            return;
        }
        let of_process = Identity { uid: 65_533, gid: 65_533, ..ours.clone() };
        prepare(&at("new/acme"), Some(&of_process), &ours).unwrap();
        assert_eq!(at("new/acme").metadata().unwrap().uid(), of_process.uid);
        // A site's user has the folder above, or a link on the way.
        fs::create_dir_all(at("site/acme")).unwrap();
        lchown(at("site"), Some(7), Some(7)).unwrap();
        symlink(at("new"), at("link")).unwrap();
        lchown(at("link"), Some(7), Some(7)).unwrap();
        for (path, why) in [
            ("site/acme", "site: it belongs to user 7; set `state_dir` in [acme]"),
            ("link/acme", "belongs neither to root nor to the owner"),
        ] {
            let error = prepare(&at(path), Some(&of_process), &ours).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
        assert_eq!(at("site/acme").metadata().unwrap().uid(), 0, "nothing was given away");
    }
}
