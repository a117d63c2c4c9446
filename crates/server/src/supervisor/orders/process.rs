//! The process that orders certificates, as the supervisor knows it, and the channel to it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::Instant;

use howdah_acme::message::{self, ToProcess, ToSupervisor};
use howdah_files::FolderPlace;
use howdah_sys::confinement::Confinement;
use howdah_sys::credentials::Identity;
use howdah_sys::folder;
use howdah_sys::process::{Pid, Program};
use howdah_sys::seqpacket::SeqPacket;
use howdah_sys::signal::SIGKILL;

use super::plan::OrderPlan;
use super::program::OrderStart;
use crate::supervisor::child_channel::ChildChannel;
use crate::supervisor::environment::{self, Environment};
use crate::supervisor::front_protocol::write_memory;
use crate::supervisor::state;

/// Bytes of a message: a challenge's certificate is the longest. A longer message is malformed.
const LONGEST_MESSAGE: usize = 64 * 1024;

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
    /// Prepares the state folder and starts the process.
    ///
    /// # Errors
    /// The state folder cannot be prepared, or the process cannot be started.
    pub(super) fn start(plan: &OrderPlan, environment: &Environment) -> io::Result<OrderProcess> {
        prepare(&plan.settings.state, plan.identity.as_ref(), &environment.identity)?;
        let (channel, theirs) = SeqPacket::pair()?;
        channel.set_nonblocking(true)?;
        let start = write_memory(&message::encode(&OrderStart::of(plan)))?;
        channel.send(b"start", &[start.as_fd()])?;
        Ok(OrderProcess {
            pid: program(environment, theirs)?.start()?,
            channel: ChildChannel::new(channel),
            started: Instant::now(),
            is_ending: false,
        })
    }

    /// The channel, to wait for. `None`: the channel is closed.
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

/// Returns this program as the one that orders certificates. It is executed anew: a forked child
/// would have a copy of the keys that the supervisor has in its memory.
fn program(environment: &Environment, channel: SeqPacket) -> io::Result<Program> {
    let variables = environment.variables.iter();
    let variables = variables.map(|(name, value)| environment::variable(name, value));
    Ok(Program {
        // This very program, also where another one has taken the place of its file.
        path: c"/proc/self/exe".to_owned(),
        arguments: vec![c"howdah-acme".to_owned(), c"order-certificates".to_owned()],
        environment: variables.collect::<io::Result<_>>()?,
        descriptors: vec![
            channel.into(),
            io::stdout().as_fd().try_clone_to_owned()?,
            io::stderr().as_fd().try_clone_to_owned()?,
        ],
        // The process gives up its rights itself: its user may not be able to read the program.
        identity: None,
        umask: 0o077,
        descriptor_limit: None,
        death_signal: Some(SIGKILL),
        confinement: Confinement::default(),
    })
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
    let place = FolderPlace::of(state).map_err(|error| told(state, error))?;
    let parent = state::parent(&place, owner, ours).map_err(|(path, error)| told(&path, error))?;
    let (parent, name) = (parent.as_fd(), &place.name);
    let handed_over = match identity {
        Some(_) => folder::hand_over(parent, name, owner.uid, owner.gid),
        None => Ok(()),
    };
    handed_over
        .and_then(|()| folder::make_private(parent, name, owner.uid, owner.gid))
        .map_err(|error| told(&place.real, error))?;
    Ok(())
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
            ("link/acme", "link, which belongs to user 7, is not followed"),
        ] {
            let error = prepare(&at(path), Some(&of_process), &ours).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
        assert_eq!(at("site/acme").metadata().unwrap().uid(), 0, "nothing was given away");
    }
}
