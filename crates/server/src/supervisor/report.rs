//! The supervisor's reports: in the log at the start, and for `howdah status`.

use std::fmt::Write;
use std::time::{Duration, Instant};

use howdah_config::{PoolMode, SiteSettings};
use howdah_sys::credentials;
use howdah_sys::process::{self, Pid};

use super::change::ChangeCause;
use super::control::ControlCommand;
use super::deadlines::STATUS_PATIENCE;
use super::front_protocol::{PoolFacts, ToFront};
use super::generation::{Generation, GenerationPhase};
use super::generation_plan::GenerationPlan;
use super::pool::PoolProcesses;
use super::pool_log::PoolLog;
use super::{NO_ANSWER, Supervisor};
use crate::log::Level;

/// Maximum number of sites that are named in the log. Of the others, their number is logged.
const MOST_SITES: usize = 50;

impl Supervisor {
    /// Logs the sites that are served, with their versions of PHP.
    pub(super) fn report_start(&self, number: u64, cause: ChangeCause) {
        let Some(current) = &self.current else { return };
        let Some(generation) =
            self.generations.iter().find(|generation| generation.number == number)
        else {
            return;
        };
        self.report_listeners(current, cause);
        let facts = generation
            .front
            .as_ref()
            .and_then(|front| front.ready.as_deref())
            .unwrap_or(&[]);
        let sites = &current.config.sites;
        for (number, site) in sites.iter().enumerate() {
            let position = current.pools.iter().position(|pool| pool.site == number);
            let pool = position.and_then(|position| generation.pools.get(position));
            let fact = position.and_then(|position| facts.get(position));
            // A pool that did not start was reported then.
            let fact = fact.filter(|facts| !facts.php_version.is_empty());
            if number < MOST_SITES {
                self.report_site(site, pool, fact);
            }
            if fact.is_some_and(|facts| facts.opcache != "on") {
                let what = "opcache is not on: every request compiles its scripts anew, which \
                    makes PHP several times slower; install the distribution's opcache package, or \
                    see `opcache.enable` in php.ini";
                self.say_of(Level::Warning, &site.name, what);
            }
        }
        if sites.len() > MOST_SITES {
            self.say(Level::Notice, &format!("and {} more sites", sites.len() - MOST_SITES));
        }
    }

    /// Logs the addresses that are served, and the reason for the change.
    fn report_listeners(&self, current: &GenerationPlan, cause: ChangeCause) {
        let what = match cause {
            ChangeCause::Start => "serving",
            ChangeCause::Reload => "reloaded; serving",
            ChangeCause::RollBack => "rolled back; serving",
            ChangeCause::NewRelease => "a new release; serving",
            ChangeCause::HeldRelease => "the former release is kept; serving",
            ChangeCause::FrontDied => "started anew; serving",
            ChangeCause::TakeOver => "taken over; serving",
            ChangeCause::ListenerFound => "a further listener; serving",
        };
        let listeners = self.sockets.listeners.iter();
        let addresses: Vec<String> =
            listeners.map(|listener| listener.actual.to_string()).collect();
        let version = env!("CARGO_PKG_VERSION");
        let front = current.front.as_ref().unwrap_or(&self.environment.identity);
        self.say(
            Level::Notice,
            &format!(
                "howdah {version}, process {}: {what} {} on {}; the front runs as {}",
                std::process::id(),
                self.plan.source,
                addresses.join(" and "),
                front.name
            ),
        );
        for listener in &self.sockets.admin {
            let what = format!("monitors are answered on http://{}", listener.actual);
            self.say(Level::Notice, &what);
        }
    }

    /// Logs a site with its PHP.
    fn report_site(
        &self,
        site: &SiteSettings,
        pool: Option<&PoolProcesses>,
        facts: Option<&PoolFacts>,
    ) {
        let php = match (pool, facts) {
            (Some(pool), Some(facts)) => {
                let PoolFacts { php_version, workers, .. } = facts;
                format!(
                    "PHP {php_version} as {} with {}, {}",
                    pool.user(&self.environment),
                    workers_of(site, *workers),
                    opcache(facts)
                )
            }
            (Some(_), None) => "PHP has not started; see the messages before".to_owned(),
            (None, _) => "without PHP".to_owned(),
        };
        let what = format!("{} from {}, {php}", hosts(site), site.root);
        self.say_of(Level::Notice, &site.name, &what);
    }

    /// The answer to `howdah reload`, with the sites that do not have the new configuration, and
    /// the warnings about it.
    pub(super) fn describe_success(&self, number: u64) -> String {
        let mut text = format!("generation {number} serves {}", self.plan.source);
        let generation = self.generations.iter().find(|one| one.number == number);
        for pool in generation.into_iter().flat_map(|generation| &generation.pools) {
            if let Some(failure) = pool.describe_start_failure() {
                // Writing to a String cannot fail.
                let _ = write!(text, "\n{failure}");
            }
            if let Some(mistake) = pool.lines.as_ref().and_then(PoolLog::ini_mistake) {
                let _ = write!(text, "\nwarning: site {}: {mistake}", pool.name);
            }
        }
        for held in self.describe_held() {
            let _ = write!(text, "\n{held}");
        }
        let warnings = self.current.as_ref().map_or(&[][..], |current| &current.warnings);
        for warning in warnings.iter().take(MOST_WARNINGS) {
            let _ = write!(text, "\nwarning: {warning}");
        }
        if let Some(more @ 1..) = warnings.len().checked_sub(MOST_WARNINGS) {
            let _ = write!(text, "\n{more} more warnings are in the error log");
        }
        text
    }

    /// Asks the front for its status. [`Supervisor::answer_status`] is called when the answer
    /// arrives or the time is over. The front itself answers a question for JSON, and HTTP.
    pub(super) fn ask_front_for_status(&mut self, command: ControlCommand, client: u64) {
        let serving = self
            .generations
            .iter()
            .find(|generation| generation.phase == GenerationPhase::Serving);
        let front = serving
            .and_then(|generation| generation.front.as_ref())
            .filter(|front| front.channel.awaited().is_some());
        let connection = self.control.as_ref().map(|control| control.connection(client));
        let asked = match (front, command, connection) {
            (Some(front), ControlCommand::StatusJson, Some(Ok(connection))) => {
                Some(front.tell(&ToFront::StatusJson { id: client }, &[connection]))
            }
            (Some(front), ControlCommand::Monitor, Some(Ok(connection))) => {
                let control = self.control.as_ref();
                let received = control.map_or(&[][..], |control| control.received(client));
                let received = received.to_vec();
                Some(front.tell(&ToFront::Monitor { id: client, received }, &[connection]))
            }
            (Some(front), ControlCommand::Status, _) => {
                Some(front.tell(&ToFront::Status { id: client }, &[]))
            }
            _ => None,
        };
        match (asked, command) {
            (Some(Ok(())), _) => {}
            // The one that is starting is asked when it serves.
            (None, ControlCommand::StatusJson | ControlCommand::Monitor)
                if self.replaces_front() => {}
            (_, ControlCommand::StatusJson | ControlCommand::Monitor) => {
                self.answer(client, Err(NO_ANSWER))
            }
            _ => self.answer_status(client, None),
        }
    }

    /// Asks a new front what the former one was asked and has not taken before its death.
    pub(super) fn ask_new_front(&mut self) {
        for command in [ControlCommand::StatusJson, ControlCommand::Monitor] {
            let control = self.control.as_ref();
            let clients = control.map(|one| one.overdue(command, Instant::now(), Duration::ZERO));
            for client in clients.unwrap_or_default() {
                self.ask_front_for_status(command, client);
            }
        }
    }

    /// Returns whether no front serves, and another one starts or is going to.
    fn replaces_front(&self) -> bool {
        let mut generations = self.generations.iter();
        let serves = generations.any(|one| one.phase == GenerationPhase::Serving);
        !serves && !self.stopping && (self.restart.is_some() || self.is_changing())
    }

    /// Forgets a client that the front answers.
    pub(super) fn forget_client(&mut self, client: u64) {
        if let Some(control) = &mut self.control {
            control.forget(client);
        }
    }

    /// Sends the state of the server to a client.
    pub(super) fn answer_status(&mut self, client: u64, front: Option<&str>) {
        let text = self.status(front);
        self.answer(client, Ok(&text));
    }

    fn status(&self, front: Option<&str>) -> String {
        let mut text = format!(
            "howdah {}, process {}, up {}\n",
            env!("CARGO_PKG_VERSION"),
            std::process::id(),
            duration(self.began.elapsed())
        );
        // Writing to a String cannot fail.
        let _ = writeln!(text, "serves {}", self.plan.source);
        self.describe_listeners(&mut text);
        for generation in &self.generations {
            self.describe(generation, &mut text);
        }
        if let Some(told) = self.describe_probation() {
            let _ = writeln!(text, "{told}");
        }
        for waits in self.describe_waiting_releases() {
            let _ = writeln!(text, "{waits}");
        }
        for held in self.describe_held() {
            let _ = writeln!(text, "{held}");
        }
        let serving = self.generations.iter().filter(|one| one.phase == GenerationPhase::Serving);
        for failure in serving
            .flat_map(|one| &one.pools)
            .filter_map(PoolProcesses::describe_start_failure)
        {
            let _ = writeln!(text, "{failure}");
        }
        for closed in self.current.iter().flat_map(GenerationPlan::closed_sites) {
            let _ = writeln!(text, "{closed}");
        }
        for told in self.describe_reasons() {
            let _ = writeln!(text, "{told}");
        }
        self.orders.describe(&mut text);
        match front {
            Some(front) => text.push_str(front),
            None => {
                let _ = write!(
                    text,
                    "the front has not answered within {} s",
                    STATUS_PATIENCE.as_secs()
                );
            }
        }
        text
    }

    fn describe(&self, generation: &Generation, text: &mut String) {
        let phase = match generation.phase {
            GenerationPhase::Starting { .. } => "starting",
            GenerationPhase::Serving => "serving",
            GenerationPhase::Draining { .. } => "draining",
            GenerationPhase::Ending { .. } => "ending",
        };
        let front = generation
            .front
            .as_ref()
            .map_or("gone".to_owned(), |front| format!("process {}{}", front.pid, user(front.pid)));
        let _ = writeln!(
            text,
            "generation {} is {phase}{}; front: {front}",
            generation.number,
            generation.describe_retirement()
        );
        for pool in &generation.pools {
            let state = match &pool.zygote {
                None if pool.start_failure.is_some() => "it has no PHP, see below".to_owned(),
                None if phase == "draining" => "its zygote has ended".to_owned(),
                None => "its zygote is dead".to_owned(),
                Some(zygote) => match &zygote.ready {
                    None => format!("zygote {}", zygote.pid),
                    Some((version, opcache)) => {
                        format!("zygote {}, PHP {version}, opcache {opcache}", zygote.pid)
                    }
                },
            };
            let isolation = pool.isolation().map_or(String::new(), |told| format!("; {told}"));
            let standby =
                pool.standby
                    .pid()
                    .map_or(String::new(), |pid| match pool.standby.is_starting() {
                        true => format!(", {pid} starts to stand by"),
                        false => format!(", {pid} stands by"),
                    });
            let _ = writeln!(
                text,
                "  pool {}: {state}{standby}, as {}, {}{isolation}",
                pool.name,
                pool.user(&self.environment),
                pool.containment()
            );
        }
    }
}

/// Warnings about the configuration in the answer to `howdah reload`. The log has all.
const MOST_WARNINGS: usize = 10;

/// The user of a process, as the end of its description.
fn user(pid: Pid) -> String {
    let Some(uid) = process::user(pid) else {
        return String::new();
    };
    match credentials::user_name(uid) {
        Ok(Some(name)) => format!(", as {name}"),
        // The number is all that there is, or the database cannot be read.
        Ok(None) | Err(_) => format!(", as user number {uid}"),
    }
}

fn opcache(facts: &PoolFacts) -> String {
    match facts.opcache.as_str() {
        told if told.starts_with("on") || told.starts_with("off") => format!("opcache {told}"),
        reason => format!("opcache off: {reason}"),
    }
}

/// The number of a pool's workers.
fn workers_of(site: &SiteSettings, workers: usize) -> String {
    match site.php.as_ref().map(|php| php.mode) {
        None | Some(PoolMode::Static) => format!("{workers} workers"),
        Some(mode) => format!("at most {workers} workers ({})", mode.name()),
    }
}

fn hosts(site: &SiteSettings) -> String {
    let named: Vec<String> = site.hosts.iter().take(5).map(ToString::to_string).collect();
    match site.hosts.len() {
        more @ 6.. => format!("{} and {} more names", named.join(", "), more - 5),
        _ => named.join(", "),
    }
}

fn duration(time: Duration) -> String {
    let seconds = time.as_secs();
    match (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60, seconds % 60) {
        (0, 0, 0, seconds) => format!("{seconds} s"),
        (0, 0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (0, hours, minutes, _) => format!("{hours} h {minutes} min"),
        (days, hours, _, _) => format!("{days} d {hours} h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (seconds, text) in
            [(0, "0 s"), (61, "1 min 1 s"), (3600, "1 h 0 min"), (90_000, "1 d 1 h")]
        {
            assert_eq!(duration(Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn the_state_of_opcache() {
        let facts = |opcache: &str| PoolFacts {
            php_version: String::new(),
            opcache: opcache.into(),
            workers: 1,
        };
        assert_eq!(opcache(&facts("on")), "opcache on");
        assert_eq!(opcache(&facts("off: it is not installed")), "opcache off: it is not installed");
        assert_eq!(opcache(&facts("it is not installed")), "opcache off: it is not installed");
    }
}
