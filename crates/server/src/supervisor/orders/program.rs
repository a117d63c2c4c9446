//! The program of the process that orders certificates.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;

use howdah_acme::AcmeSettings;
use howdah_acme::message::{self, ToSupervisor};
use howdah_sys::credentials::Identity;
use howdah_sys::landlock::{FileRights, Landlock, Ruleset};
use howdah_sys::process;
use howdah_sys::seqpacket::SeqPacket;
use serde::{Deserialize, Serialize};

use super::plan::OrderPlan;
use crate::supervisor::front_protocol::read_memory;
use crate::supervisor::unprivileged;

const NAME: &CStr = c"howdah-acme";
/// Seconds that the process may go on after the supervisor has died.
const ORPHAN_SECONDS: u8 = 5;

/// The first message to the process.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct OrderStart {
    settings: AcmeSettings,
    /// Name, number, group and groups of the user; `None` for the supervisor's.
    identity: Option<(String, u32, u32, Vec<u32>)>,
    is_confined: bool,
    /// The number of the supervisor's process.
    parent: u32,
}

impl OrderStart {
    pub(super) fn of(plan: &OrderPlan) -> OrderStart {
        let identity = plan.identity.clone();
        OrderStart {
            settings: plan.settings.clone(),
            identity: identity.map(|Identity { name, uid, gid, groups }| (name, uid, gid, groups)),
            is_confined: plan.is_confined,
            parent: process::own_pid().number(),
        }
    }
}

/// Orders certificates until the supervisor ends. Standard input is the channel to it.
///
/// # Errors
/// The supervisor has not started this process.
pub(crate) fn run() -> Result<(), String> {
    process::set_name(NAME);
    let (channel, start) = begin().map_err(|error| {
        format!("a running server orders certificates by itself; nobody else can ({error})")
    })?;
    let log = |text: String| {
        let line = message::encode(&ToSupervisor::Log { is_error: true, text: text.clone() });
        // A supervisor that is gone needs no message.
        let _ = channel.send(&line, &[]);
        text
    };
    let copy = settle(&start).and_then(|()| channel.duplicate()).map_err(|error| {
        log(format!("cannot start the process that orders certificates: {error}"))
    })?;
    howdah_acme::run(start.settings, copy)
        .map_err(|error| log(format!("the process that orders certificates cannot go on: {error}")))
}

/// Receives what the process starts with.
fn begin() -> io::Result<(SeqPacket, OrderStart)> {
    let channel = SeqPacket::from(io::stdin().as_fd().try_clone_to_owned()?);
    let memory = channel.receive(&mut [0; 16])?.descriptors.pop();
    let memory = memory.ok_or(io::ErrorKind::UnexpectedEof)?;
    Ok((channel, message::decode(&read_memory(memory)?)?))
}

/// Sets the user, the signal handling and the limits of the process.
fn settle(start: &OrderStart) -> io::Result<()> {
    let parent = process::parent_pid();
    if parent.number() != start.parent {
        return Err(io::Error::other("the parent process is gone"));
    }
    let identity =
        start
            .identity
            .clone()
            .map(|(name, uid, gid, groups)| Identity { name, uid, gid, groups });
    unprivileged::leave_signals_to_supervisor()?;
    unprivileged::give_up_rights(identity.as_ref(), parent, ORPHAN_SECONDS)?;
    match Landlock::of_kernel() {
        Some(landlock) if start.is_confined => ruleset(landlock, &start.settings)?.enforce(),
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
