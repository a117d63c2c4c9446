//! The sockets of a generation, and the addresses that it has none for.
//!
//! An address that is taken, or that this user may not have, does not keep the others from being
//! served. It is tried again, with growing pauses; when it can be had, another generation of the
//! same configuration listens there. A reload that names a further address which cannot be had is
//! refused, and goes on without one that it knows from before.

use std::fmt::Write;
use std::io::ErrorKind;
use std::os::unix::net::UnixStream;
use std::time::Instant;

use howdah_config::{Config, ListenAddress, ListenerSettings};

use super::Supervisor;
use super::backoff::Backoff;
use super::change::ChangeCause;
use super::control::{self, ControlCommand};
use super::datagrams::{self, Datagrams};
use super::environment::Environment;
use super::generation_plan::GenerationPlan;
use super::listeners::{self, BoundListener, PreparedListeners, WantedListeners};
use crate::front::processors;
use crate::log::Level;
use crate::status::MissingListener;

/// The sockets of a generation.
#[derive(Debug, Default)]
pub(super) struct Sockets {
    pub(super) listeners: Vec<BoundListener>,
    /// The UDP sockets of listeners with HTTP/3.
    pub(super) datagrams: Datagrams,
    /// The listeners for monitors.
    pub(super) admin: Vec<BoundListener>,
    /// The addresses for visitors that the generation does not listen on.
    pub(super) missing: Vec<MissingListener>,
    /// The addresses for monitors that it does not listen on.
    pub(super) missing_admin: Vec<MissingListener>,
    /// The addresses without HTTP/3, though the configuration wants HTTP/3 there.
    pub(super) without_http3: Vec<MissingListener>,
    /// About addresses that were left out.
    pub(super) warnings: Vec<String>,
}

impl Sockets {
    /// Describes each missing address, for the log.
    pub(super) fn complaints(&self) -> impl Iterator<Item = String> {
        let all = self.missing.iter().chain(&self.missing_admin);
        all.map(|missing| {
            format!(
                "{}; the other listeners serve, and this one does as soon as it can",
                missing.reason
            )
        })
    }
}

/// The addresses that the generation that serves does not listen on, and when they are tried again.
#[derive(Debug, Default)]
pub(super) struct MissingListeners {
    addresses: Vec<String>,
    /// The listeners without HTTP/3 alone: what is missing is the UDP port.
    without_http3: Vec<String>,
    due: Option<Instant>,
    backoff: Backoff,
}

impl MissingListeners {
    /// Notes the missing addresses of a generation that serves from now on.
    pub(super) fn follow(&mut self, sockets: &Sockets, now: Instant) {
        let missing = sockets.missing.iter().chain(&sockets.missing_admin);
        let addresses: Vec<String> = missing.map(|missing| missing.address.clone()).collect();
        let without_http3: Vec<String> =
            sockets.without_http3.iter().map(|missing| missing.address.clone()).collect();
        if addresses.is_empty() && without_http3.is_empty() {
            *self = MissingListeners::default();
        } else if addresses != self.addresses || without_http3 != self.without_http3 {
            let mut backoff = Backoff::default();
            let due = Some(now + backoff.after_failure());
            *self = MissingListeners { addresses, without_http3, due, backoff };
        }
    }

    /// The time at which they are tried again. `None`: none is missing.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    fn has(&self, address: &ListenAddress) -> bool {
        self.addresses.iter().any(|missing| *missing == address.to_string())
    }
}

/// Returns the mistakes that keep a server with this configuration from starting.
pub(crate) fn mistakes(config: &Config) -> Vec<String> {
    listeners::unknown_users(&config.listen)
}

/// Returns what would keep a server that starts now from listening as `config` says. The addresses
/// of the server that runs with this configuration are left out; where it does not say which these
/// are, nothing is said about any.
pub(crate) fn obstacles(config: &Config, environment: &Environment) -> Vec<String> {
    let Some(own) = own_addresses(config, environment) else {
        return Vec::new();
    };
    let is_own = |address: &ListenAddress| own.contains(&address.to_string());
    let mut found = Vec::new();
    let wanted = WantedListeners::for_visitors(&config.listen);
    for (number, settings) in config.listen.iter().enumerate() {
        if is_own(&settings.address) {
            continue;
        }
        if let Some(why) = listeners::obstacle(number, wanted) {
            found.push(why);
        } else if let ListenAddress::Tcp(address) = settings.address
            && listeners::has_http3(settings, config)
        {
            found.extend(datagrams::obstacle(address));
        }
    }
    let admin = monitors(config);
    let others = (0..admin.len()).filter(|number| !is_own(&admin[*number].address));
    let wanted = WantedListeners::for_monitors(&admin);
    found.extend(others.filter_map(|number| listeners::obstacle(number, wanted)));
    found
}

/// The listeners for monitors. A Unix socket is for root and the server's own user, as the control
/// socket is, and for the members of `control_group`: what it tells has the visitors' URLs.
fn monitors(config: &Config) -> Vec<ListenerSettings> {
    let group = &config.control_group;
    let addresses = config.admin.iter().cloned();
    let settings = addresses.map(|address| ListenerSettings {
        group: group.clone(),
        mode: if group.is_some() { 0o660 } else { 0o600 },
        ..ListenerSettings::new(address)
    });
    settings.collect()
}

/// Returns the addresses of the server that runs with this configuration; none if no server does.
/// `None`: this user may not ask it.
fn own_addresses(config: &Config, environment: &Environment) -> Option<Vec<String>> {
    let is_root = environment.identity.is_root();
    let path = config.control_path(is_root, environment.runtime.as_deref())?;
    match UnixStream::connect(&path) {
        Ok(_) => {}
        Err(error) => {
            let is_gone =
                matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused);
            return is_gone.then(Vec::new);
        }
    }
    let status = control::ask(&path, ControlCommand::Status).ok()?;
    let address = |line: &str| {
        let url = line.strip_prefix(LISTENS).or_else(|| line.strip_prefix(ANSWERS_MONITORS))?;
        Some(url.split_once("://")?.1.to_owned())
    };
    Some(status.lines().filter_map(address).collect())
}

/// The beginning of a line of `howdah status` with a listener for visitors.
const LISTENS: &str = "listens on ";
/// The beginning of a line of `howdah status` with a listener for monitors.
const ANSWERS_MONITORS: &str = "answers monitors on ";

impl Supervisor {
    /// Makes the sockets for a generation.
    ///
    /// # Errors
    /// The reason, as text for the operator: an address must not be missing, or all are.
    pub(super) fn sockets_for(
        &self,
        cause: ChangeCause,
        generation_plan: &GenerationPlan,
    ) -> Result<Sockets, String> {
        let config = &generation_plan.config;
        let front = generation_plan.front.as_ref();
        // A start serves what it can. Where something is served, a mistake is told instead.
        let is_start = self.current.is_none() || cause == ChangeCause::FrontDied;
        let present = &self.sockets;
        // A listener that the configuration had before is no mistake of this reload: the owner of
        // a folder can remove a Unix socket, or put something else in its place.
        let is_present = |address: &ListenAddress| {
            let mut all = present.listeners.iter().chain(&present.admin);
            all.any(|listener| listener.configured == *address)
        };
        let may_miss = |address: &ListenAddress| {
            is_start || self.missing_listeners.has(address) || is_present(address)
        };
        let wanted = WantedListeners::for_visitors(&config.listen);
        let PreparedListeners { listeners, missing, mut warnings } =
            listeners::prepare(wanted, &present.listeners, front, may_miss)?.unless_empty()?;
        let threads = config.threads.resolve(processors());
        let (datagrams, without_http3) = present.datagrams.prepare(config, &listeners, threads);
        // No group but the one of the configuration: the front's may be that of pools.
        let admin = monitors(config);
        let admin = WantedListeners::for_monitors(&admin);
        let admin = listeners::prepare(admin, &present.admin, None, may_miss)?;
        warnings.extend(admin.warnings);
        Ok(Sockets {
            listeners,
            datagrams,
            admin: admin.listeners,
            missing,
            missing_admin: admin.missing,
            without_http3,
            warnings,
        })
    }

    /// Tries the missing addresses if it is time. Where one can be had, starts a generation that
    /// listens there.
    pub(super) fn look_at_missing_listeners(&mut self, now: Instant) {
        let is_due = self.missing_listeners.due.is_some_and(|due| now >= due);
        if !is_due || self.stopping || self.is_changing() {
            return;
        }
        let Some(current) = &self.current else { return };
        let missing = &mut self.missing_listeners;
        missing.due = Some(now + missing.backoff.after_failure());
        let config = &current.config;
        let all = config.listen.iter().map(|settings| &settings.address).chain(&config.admin);
        let there = all
            .filter(|address| missing.has(address) && listeners::can_bind(address))
            .map(ToString::to_string);
        let has_port = |address: &&String| {
            address.parse().is_ok_and(|address| datagrams::obstacle(address).is_none())
        };
        let with_http3 = missing.without_http3.iter().filter(has_port);
        let there: Vec<String> = there
            .chain(with_http3.map(|address| format!("the UDP port of {address}")))
            .collect();
        if !there.is_empty() {
            let what = format!("{} can be listened on now", there.join(" and "));
            self.say(Level::Notice, &what);
            self.begin(ChangeCause::ListenerFound);
        }
    }

    /// Describes the listeners, and what is missing, for `howdah status`.
    pub(super) fn describe_listeners(&self, text: &mut String) {
        let Sockets {
            listeners,
            admin,
            missing,
            missing_admin,
            without_http3,
            ..
        } = &self.sockets;
        // Writing to a String cannot fail.
        for listener in listeners {
            let _ = writeln!(text, "{LISTENS}{}", listener.url());
        }
        for listener in admin {
            let _ = writeln!(text, "{ANSWERS_MONITORS}http://{}", listener.actual);
        }
        for missing in missing.iter().chain(missing_admin).chain(without_http3) {
            let _ = writeln!(text, "{}; tried again and again", missing.reason);
        }
    }
}
