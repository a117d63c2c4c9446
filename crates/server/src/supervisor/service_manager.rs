//! Reports to the service manager, such as systemd, by its notification protocol; see sd_notify(3).
//!
//! ```text
//! start      READY=1 when the first generation serves
//! reload     RELOADING=1 … READY=1, also when the former generation goes on
//! take-over  as a reload; the process, and thus the manager's main process, stays the same
//! stop       STOPPING=1
//! watchdog   WATCHDOG=1 twice in the manager's interval, while a front serves and is heard
//! ```
//! The supervisor alone has the address: fronts, zygotes and workers get none of the variables.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::process;
use std::time::{Duration, Instant};

use howdah_sys::usage;

use super::Supervisor;
use super::generation::GenerationPhase;
use crate::log::Level;

/// The environment variables of the protocol.
pub(super) const VARIABLES: [&str; 3] = [ADDRESS, "WATCHDOG_USEC", "WATCHDOG_PID"];
const ADDRESS: &str = "NOTIFY_SOCKET";
/// The delay before a message is sent again that the manager's full queue did not take.
const RETRY: Duration = Duration::from_millis(100);
/// Time for the end of killed processes, after `drain_timeout`.
const END_OF_KILLED: Duration = Duration::from_secs(20);

/// The service manager that has started this process, if there is one.
#[derive(Debug, Default)]
pub(super) struct ServiceManager {
    socket: Option<(UnixDatagram, SocketAddr)>,
    /// The latest message that the manager's full queue did not take, and when it is sent again.
    unsent: Option<(String, Instant)>,
    watchdog: Option<Watchdog>,
}

#[derive(Debug)]
struct Watchdog {
    /// The manager ends the service if it hears nothing for this time.
    interval: Duration,
    due: Instant,
}

/// A change that the service manager learns of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ServiceEvent {
    /// A generation serves, and no change is in progress.
    Ready,
    /// A reload or an upgrade has begun.
    Reloading,
    /// The server finishes its requests, for at most this time.
    Stopping(Duration),
    /// Only the line of status is new.
    Status,
}

impl ServiceManager {
    /// The manager that `variables` name.
    ///
    /// # Errors
    /// The address cannot be used. There is no manager then.
    pub(super) fn of(variables: &[(OsString, OsString)]) -> Result<ServiceManager, String> {
        let value = |name: &str| {
            let found = variables.iter().find(|(known, _)| known == name);
            found.map(|(_, value)| value.as_os_str()).filter(|value| !value.is_empty())
        };
        let Some(named) = value(ADDRESS) else {
            return Ok(ServiceManager::default());
        };
        let failed =
            |error: io::Error| format!("cannot report to {ADDRESS} {}: {error}", named.display());
        let address = address(named).map_err(failed)?;
        let socket = UnixDatagram::unbound().map_err(failed)?;
        socket.set_nonblocking(true).map_err(failed)?;
        let number = |name| value(name)?.to_str()?.parse::<u64>().ok();
        let is_ours = value("WATCHDOG_PID").is_none()
            || number("WATCHDOG_PID") == Some(u64::from(process::id()));
        let interval = number("WATCHDOG_USEC").filter(|&interval| interval > 0 && is_ours);
        let watchdog = interval.map(|interval| Watchdog {
            interval: Duration::from_micros(interval),
            due: Instant::now(),
        });
        Ok(ServiceManager {
            socket: Some((socket, address)),
            unsent: None,
            watchdog,
        })
    }

    /// The next time at which something is sent. `None`: there is nothing to send.
    pub(super) fn due(&self) -> Option<Instant> {
        let unsent = self.unsent.as_ref().map(|(_, due)| *due);
        unsent
            .into_iter()
            .chain(self.watchdog.as_ref().map(|watchdog| watchdog.due))
            .min()
    }

    /// Sends `message`. A full queue of the manager is no error: the message is sent again later,
    /// unless another takes its place.
    fn tell(&mut self, message: String, now: Instant) -> io::Result<()> {
        self.unsent = None;
        match self.send(&message) {
            Err(error) if is_full(&error) => {
                self.unsent = Some((message, now + RETRY));
                Ok(())
            }
            result => result,
        }
    }

    fn send(&self, message: &str) -> io::Result<()> {
        let Some((socket, address)) = &self.socket else {
            return Ok(());
        };
        socket.send_to_addr(message.as_bytes(), address).map(drop)
    }

    /// Sends what is due. The manager hears of a living service only if `is_healthy`.
    fn keep_time(&mut self, is_healthy: bool, now: Instant) -> io::Result<()> {
        if let Some((message, _)) = self.unsent.take_if(|(_, due)| now >= *due) {
            self.tell(message, now)?;
        }
        let Some(watchdog) = self.watchdog.as_mut().filter(|watchdog| now >= watchdog.due) else {
            return Ok(());
        };
        let parts = if is_healthy { 2 } else { 10 };
        watchdog.due = now + watchdog.interval / parts;
        match is_healthy.then(|| self.send("WATCHDOG=1")) {
            // The next one comes in time.
            Some(Err(error)) if is_full(&error) => Ok(()),
            Some(result) => result,
            None => Ok(()),
        }
    }
}

/// A path, or a name in the abstract namespace after `@`.
fn address(named: &OsStr) -> io::Result<SocketAddr> {
    match named.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        [b'/', ..] => SocketAddr::from_pathname(named),
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "neither a path nor an abstract name; unset it",
        )),
    }
}

/// `EAGAIN`, or `ENOBUFS`.
fn is_full(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock || error.raw_os_error() == Some(105)
}

/// The text of a message. `status` becomes one line.
fn message(event: ServiceEvent, status: &str) -> String {
    let state = match event {
        ServiceEvent::Ready => "READY=1\n".to_owned(),
        ServiceEvent::Reloading => {
            format!("RELOADING=1\nMONOTONIC_USEC={}\n", usage::monotonic() / 1000)
        }
        ServiceEvent::Stopping(within) => {
            format!("STOPPING=1\nEXTEND_TIMEOUT_USEC={}\n", within.as_micros())
        }
        ServiceEvent::Status => String::new(),
    };
    let status: Vec<&str> = status.lines().collect();
    format!("{state}STATUS={}", status.join("; "))
}

impl Supervisor {
    /// Tells the service manager of `event`.
    pub(super) fn tell_manager(&mut self, event: ServiceEvent, status: &str) {
        if self.stopping && !matches!(event, ServiceEvent::Stopping(_) | ServiceEvent::Status) {
            return;
        }
        let told = self.manager.tell(message(event, status), Instant::now());
        self.report_deaf_manager(told);
    }

    /// Tells the service manager that `generation` serves.
    pub(super) fn tell_manager_of(&mut self, generation: u64) {
        let Some(current) = &self.current else { return };
        let mut status = format!(
            "generation {generation} serves {}: sites {}, of which with PHP {}",
            self.plan.source,
            current.config.sites.len(),
            current.pools.len()
        );
        for missing in &self.sockets.missing {
            status.push_str(&format!("; not listening on {}", missing.address));
        }
        self.tell_manager(ServiceEvent::Ready, &status);
        if let Some(watchdog) = &mut self.manager.watchdog {
            watchdog.due = Instant::now();
        }
    }

    /// Tells the service manager that the server finishes its requests.
    pub(super) fn tell_manager_of_stop(&mut self) {
        let within = self.usual_drain() + END_OF_KILLED;
        self.tell_manager(ServiceEvent::Stopping(within), "requests in flight are finished");
    }

    /// Sends the service manager what is due.
    pub(super) fn keep_manager_informed(&mut self, now: Instant) {
        let is_healthy = self.stopping || self.hears_front();
        let told = self.manager.keep_time(is_healthy, now);
        self.report_deaf_manager(told);
    }

    /// Returns whether a front serves that was not found to hang. A front that another program has
    /// started has no heartbeat here, and is heard while it lives.
    fn hears_front(&self) -> bool {
        let serving = |phase| phase == GenerationPhase::Serving;
        self.generations
            .iter()
            .filter(|generation| serving(generation.phase))
            .filter_map(|generation| generation.front.as_ref())
            .any(|front| front.heart.as_ref().is_none_or(|heart| !heart.has_stopped()))
    }

    fn report_deaf_manager(&mut self, told: io::Result<()>) {
        if let Err(error) = told {
            let what = format!(
                "cannot report to the service manager: {error}; it hears nothing more of this \
                 process"
            );
            self.say(Level::Warning, &what);
            self.manager = ServiceManager::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(all: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
        all.iter().map(|&(name, value)| (name.into(), value.into())).collect()
    }

    #[test]
    fn addresses() {
        assert!(address(OsStr::new("/run/notify")).unwrap().as_pathname().is_some());
        let name = address(OsStr::new("@name")).unwrap();
        assert_eq!(name.as_abstract_name(), Some(&b"name"[..]));
        for wrong in ["vsock:2:1", "notify", "@"] {
            let refused = ServiceManager::of(&variables(&[(ADDRESS, wrong)]));
            assert_eq!(refused.is_err(), wrong != "@", "{wrong}: {refused:?}");
        }
    }

    #[test]
    fn the_watchdog_is_for_this_process_only() {
        let own = process::id().to_string();
        for (interval, pid, expected) in [
            (Some("1000000"), None, true),
            (Some("1000000"), Some(own.as_str()), true),
            (Some("1000000"), Some("1"), false),
            (Some("0"), None, false),
            (Some("soon"), None, false),
            (None, None, false),
        ] {
            let mut all = vec![(ADDRESS, "@name")];
            all.extend(interval.map(|interval| ("WATCHDOG_USEC", interval)));
            all.extend(pid.map(|pid| ("WATCHDOG_PID", pid)));
            let manager = ServiceManager::of(&variables(&all)).unwrap();
            assert_eq!(manager.watchdog.is_some(), expected, "{all:?}");
        }
    }

    #[test]
    fn a_full_queue_gets_the_latest_message_later() {
        let folder = std::env::temp_dir().join(format!("howdah-notify-{}", process::id()));
        let receiver = UnixDatagram::bind(&folder).unwrap();
        receiver.set_nonblocking(true).unwrap();
        let all = [(ADDRESS, folder.to_str().unwrap())];
        let mut manager = ServiceManager::of(&variables(&all)).unwrap();
        let mut now = Instant::now();
        for number in 0.. {
            manager.tell(number.to_string(), now).unwrap();
            if manager.unsent.is_some() {
                break;
            }
        }
        manager.tell("latest".to_owned(), now).unwrap();
        let mut received = Vec::new();
        while received.last().is_none_or(|last| last != "latest") {
            let mut buffer = [0; 64];
            while let Ok(length) = receiver.recv(&mut buffer) {
                received.push(String::from_utf8(buffer[..length].to_vec()).unwrap());
            }
            now = manager.due().unwrap_or(now);
            manager.keep_time(false, now).unwrap();
        }
        assert!(manager.unsent.is_none());
        std::fs::remove_file(&folder).unwrap();
    }

    #[test]
    fn a_status_is_one_line() {
        assert_eq!(message(ServiceEvent::Status, "a\nb"), "STATUS=a; b");
        assert_eq!(message(ServiceEvent::Ready, "x"), "READY=1\nSTATUS=x");
    }
}
