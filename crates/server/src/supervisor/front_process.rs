//! The supervisor's side of a front: a forked child and the channel to it.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::process::ExitCode;
use std::time::Instant;

use howdah_config::Config;
use howdah_sys::credentials::Identity;
use howdah_sys::descriptor;
use howdah_sys::process::{self, Pid};
use howdah_sys::seqpacket::SeqPacket;
use howdah_sys::signal::SIGKILL;

use super::child_channel::ChildChannel;
use super::front_protocol::{FromFront, FrontStart, PoolFacts, ToFront};
use super::heart::HeartMonitor;
use super::isolation;
use super::{oom, unprivileged};
use crate::descriptor_needs::DescriptorNeeds;
use crate::log::Level;
use crate::quic::QuicStart;

/// Maximum bytes of a front's message. A longer one is malformed.
const MOST_BYTES: usize = 256 * 1024;
/// Seconds that the front may continue after the supervisor has died: the time that the front
/// allows for requests, plus one.
const ORPHAN_SECONDS: u8 = 6;
const NAME: &CStr = c"howdah-front";

/// The main function of a front.
pub(crate) type RunFront = fn(FrontStart) -> ExitCode;

/// A running front.
#[derive(Debug)]
pub(super) struct FrontProcess {
    pub(super) pid: Pid,
    pub(super) channel: ChildChannel,
    pub(super) started: Instant,
    /// Facts about the front's pools, once the front serves.
    pub(super) ready: Option<Vec<PoolFacts>>,
    /// The front has said that it accepts no more connections.
    pub(super) has_closed: bool,
    /// `None` for a front that another program started.
    pub(super) heart: Option<HeartMonitor>,
}

impl FrontProcess {
    /// Forks the front. `start.channel` is the front's end of the channel, `channel` is the
    /// supervisor's.
    ///
    /// # Errors
    /// The error of a system call: the process cannot be forked.
    pub(super) fn fork(
        start: FrontStart,
        channel: SeqPacket,
        identity: Option<Identity>,
        run: RunFront,
    ) -> io::Result<FrontProcess> {
        channel.set_nonblocking(true)?;
        let parent = process::own_pid();
        let heart = HeartMonitor::new(start.pulse.clone());
        let keep = descriptors_of(&start);
        let pid = process::fork(&keep, move || child(start, identity.as_ref(), parent, run))?;
        Ok(FrontProcess {
            pid,
            channel: ChildChannel::new(channel),
            started: Instant::now(),
            ready: None,
            has_closed: false,
            heart: Some(heart),
        })
    }

    /// A front that another program started.
    pub(super) fn adopt(pid: Pid, channel: SeqPacket) -> FrontProcess {
        FrontProcess {
            pid,
            channel: ChildChannel::new(channel),
            started: Instant::now(),
            ready: None,
            has_closed: false,
            heart: None,
        }
    }

    /// Sends a message. A front that has closed its end gets none.
    ///
    /// # Errors
    /// The channel is full because the front does not read.
    pub(super) fn tell(&self, message: &ToFront, descriptors: &[OwnedFd]) -> io::Result<()> {
        self.channel.send(&message.encode(), descriptors)
    }

    /// Receives the next message. `None` if there is none.
    ///
    /// # Errors
    /// The message is malformed.
    pub(super) fn listen(&mut self) -> io::Result<Option<FromFront>> {
        self.channel
            .receive(MOST_BYTES)
            .map(|packet| FromFront::decode(&packet))
            .transpose()
    }

    /// Kills the front.
    pub(super) fn kill(&self) {
        // The front was not reaped yet, therefore no other process has its id. A failure changes
        // nothing.
        let _ = self.pid.signal_group(SIGKILL);
    }
}

fn descriptors_of(start: &FrontStart) -> Vec<RawFd> {
    let listeners = start.listeners.iter().chain(&start.admin).map(AsRawFd::as_raw_fd);
    let zygotes = start.pools.iter().filter_map(|pool| Some(pool.zygote.as_ref()?.as_raw_fd()));
    let logs = [start.log.target()].into_iter().chain(start.access.all());
    let logs = logs.map(|target| target.as_fd().as_raw_fd());
    let quic = start.quic.iter().flat_map(QuicStart::descriptors);
    listeners
        .chain(quic)
        .chain(zygotes)
        .chain(logs)
        .chain([start.channel.as_raw_fd()])
        .collect()
}

/// Runs the front in the child.
fn child(start: FrontStart, identity: Option<&Identity>, parent: Pid, run: RunFront) -> u8 {
    let log = start.log.clone();
    process::set_name(NAME);
    if let Err(error) = settle(&start, identity, parent) {
        log.say(Level::Error, None, &format!("cannot start the front: {error}"));
        return 1;
    }
    u8::from(run(start) != ExitCode::SUCCESS)
}

/// Sets the limits, the user and the signal handling of the front's process.
fn settle(start: &FrontStart, identity: Option<&Identity>, parent: Pid) -> io::Result<()> {
    unprivileged::leave_signals_to_supervisor()?;
    // The front says where the limit is too low for what is configured.
    let wanted = descriptors_for(&start.config);
    let limit = process::raise_descriptor_limit(wanted)?;
    // Later, with threads, many new connections at once would stop all event loops for
    // milliseconds. Without memory for the table, the kernel tries again when there are that many.
    let _ = descriptor::make_room(&start.channel, wanted.min(limit));
    // While the process still may.
    oom::protect_front();
    unprivileged::give_up_rights(identity, parent, ORPHAN_SECONDS)?;
    if start.config.sandbox {
        isolation::front::confine(&start.config).map_err(|error| {
            io::Error::new(
                error.kind(),
                format!("its sandbox: {error}; `sandbox = false` starts it without one"),
            )
        })?;
    }
    Ok(())
}

/// Descriptors for cached files beside what a front needs at least.
const CACHED_FILES: u64 = 1024;

/// A connection has its socket, and at times a file. Where sites have upstreams, a connection may
/// have one to an upstream besides.
fn descriptors_for(config: &Config) -> u64 {
    let needs = DescriptorNeeds::of(config, crate::front::processors());
    let has_upstreams = config.sites.iter().any(|site| !site.upstreams.is_empty());
    (config.limits.connections as u64)
        .saturating_mul(if has_upstreams { 3 } else { 2 })
        .saturating_add(needs.front())
        .saturating_add(CACHED_FILES)
}
