//! From one generation to the next: prepared, started, and put in the place of the former; or
//! refused, and the former goes on.

use std::sync::Arc;
use std::time::{Duration, Instant};

use howdah_config::{AccessTarget, Config, ErrorTarget};

use super::control::{Command, Control};
use super::generation::{Generation, Phase};
use super::generation_plan::GenerationPlan;
use super::listeners::{self, Listener};
use super::{Refusal, Supervisor};
use crate::log::{ErrorLog, Level, Target};

/// The cause of a new generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// The first one.
    Start,
    /// A signal or `howdah reload`.
    Reload,
    /// The front of the former one died.
    FrontDied,
    /// This program has replaced another, whose generation goes on until now.
    TakeOver,
}

/// A change in progress.
#[derive(Debug)]
pub(super) struct Change {
    cause: Cause,
    /// Number of the generation that is starting.
    generation: u64,
    generation_plan: GenerationPlan,
    listeners: Vec<Listener>,
    control: Socket,
    log: Arc<ErrorLog>,
    access: Option<Target>,
}

/// The control socket of the new configuration.
#[derive(Debug)]
enum Socket {
    Same,
    Another(Control),
    None,
}

impl Supervisor {
    /// Starts a new generation, now or once the present change is through.
    pub(super) fn reload(&mut self) {
        if self.stopping {
            return;
        }
        if self.change.is_some() {
            self.reload_wanted = true;
            return;
        }
        self.say(Level::Notice, &format!("reloading {}", self.plan.source));
        self.begin(Cause::Reload);
    }

    /// Prepares and starts a new generation.
    pub(super) fn begin(&mut self, cause: Cause) {
        self.restart = None;
        if let Err(refusal) = self.try_to_begin(cause) {
            self.refuse(cause, refusal);
        } else {
            self.advance();
        }
    }

    fn try_to_begin(&mut self, cause: Cause) -> Result<(), Refusal> {
        let generation_plan = match &self.current {
            // Nobody asked for the present content of the file.
            Some(current) if cause == Cause::FrontDied => current.clone(),
            _ => {
                let config = self.plan.load().map_err(Refusal::Config)?;
                let found = GenerationPlan::find(config, &self.environment);
                found.map_err(|errors| Refusal::Config(errors.join("\n")))?
            }
        };
        let (listeners, left_out) =
            listeners::prepare(&generation_plan.config.listen, &self.listeners)
                .map_err(Refusal::Failed)?;
        let (log, access) = self.logs_for(&generation_plan.config).map_err(Refusal::Failed)?;
        let (control, no_control) =
            self.control_for(&generation_plan.config).map_err(Refusal::Failed)?;
        if cause != Cause::FrontDied {
            for warning in generation_plan.warnings.iter().chain(&left_out).chain(&no_control) {
                log.say(Level::Warning, None, warning);
            }
        }
        let number = self.next_number;
        self.next_number += 1;
        let logs = (log.clone(), access.clone());
        let (generation, started) =
            Generation::start(number, &generation_plan, logs, &self.environment);
        self.generations.push(generation);
        started.map_err(Refusal::Failed)?;
        let change = Change {
            cause,
            generation: number,
            generation_plan,
            listeners,
            control,
            log,
            access,
        };
        self.change = Some(change);
        Ok(())
    }

    /// The next step of the present change, if it is time for it: PHP first, then the front, then
    /// the former generation goes.
    pub(super) fn advance(&mut self) {
        let Some(change) = self.change.take() else {
            return;
        };
        let (number, run_front) = (change.generation, self.run_front);
        let Some(generation) = self.generation(number) else {
            return;
        };
        if generation.is_ready() {
            generation.phase = Phase::Serving;
            return self.commit(change);
        }
        let mut trouble = None;
        if generation.front.is_none() && generation.has_php() {
            trouble = generation
                .start_front(&change.generation_plan, &change.listeners, run_front)
                .err();
        }
        self.change = Some(change);
        if let Some(error) = trouble {
            self.abort(number, &format!("cannot start the front: {error}"));
        }
    }

    fn commit(&mut self, change: Change) {
        let Change {
            cause,
            generation,
            generation_plan,
            listeners,
            control,
            log,
            access,
        } = change;
        let fallback = self.usual_drain();
        // An address that is served no longer must have no owner left but the former front, which
        // closes it.
        self.listeners = listeners;
        for former in &mut self.generations {
            if former.phase == Phase::Serving && former.number != generation {
                former.drain(true, fallback);
            }
        }
        match control {
            Socket::Same => {}
            Socket::None => self.control = None,
            Socket::Another(mut another) => {
                if let Some(former) = self.control.take() {
                    another.succeed(former);
                }
                self.control = Some(another);
            }
        }
        self.log.finish();
        (self.log, self.access) = (log, access);
        self.restart = None;
        self.write_pid_file(generation_plan.config.pid_file.as_deref());
        self.current = Some(generation_plan);
        self.report_start(generation, cause);
        if !std::mem::replace(&mut self.announced, true) {
            self.announce();
        }
        let done = format!("generation {generation} serves {}", self.plan.source);
        self.answer_all(Command::Reload, Ok(&done));
        self.change_is_over();
    }

    /// The generation that is starting will not do.
    pub(super) fn abort(&mut self, number: u64, reason: &str) {
        if let Some(generation) = self.generation(number) {
            generation.kill();
        }
        if let Some(change) = self.change.take_if(|change| change.generation == number) {
            self.refuse(change.cause, Refusal::Failed(reason.to_owned()));
        }
    }

    fn refuse(&mut self, cause: Cause, refusal: Refusal) {
        let reason = refusal.to_string();
        match cause {
            Cause::Start => {
                self.failure = Some(refusal);
                self.stopping = true;
            }
            Cause::Reload => {
                self.say_lines("the reload is refused, and what was served goes on", &reason);
                self.answer_all(Command::Reload, Err(&reason));
            }
            Cause::TakeOver => self.say_lines("what the former program serves goes on", &reason),
            Cause::FrontDied => self.say_lines("there is no front", &reason),
        }
        self.change_is_over();
    }

    fn change_is_over(&mut self) {
        if self.stopping {
            return;
        }
        if std::mem::take(&mut self.reload_wanted) {
            self.reload();
        } else if std::mem::take(&mut self.upgrade_wanted) {
            self.upgrade();
        }
    }

    /// Starts a new generation if none serves.
    pub(super) fn keep_time_of_changes(&mut self, now: Instant) {
        self.keep_time_of_upgrade(now);
        if self.stopping || self.change.is_some() {
            return;
        }
        match self.restart {
            Some(due) if now >= due => self.begin(Cause::FrontDied),
            Some(_) => {}
            None => {
                if !self.generations.iter().any(|generation| generation.phase == Phase::Serving) {
                    self.restart = Some(now + self.backoff.after_death(Duration::ZERO));
                }
            }
        }
    }

    fn logs_for(&self, config: &Config) -> Result<(Arc<ErrorLog>, Option<Target>), String> {
        let file = |path: &std::path::Path| {
            Target::file(path).map_err(|error| {
                format!("cannot open the log {}: {error}; make its folder", path.display())
            })
        };
        let stream = |error: std::io::Error| format!("cannot write a log: {error}");
        let log = match &config.log.error {
            ErrorTarget::File(path) if self.log.target().path() == Some(path) => {
                self.log.target().clone()
            }
            ErrorTarget::File(path) => file(path)?,
            ErrorTarget::Stderr => Target::stderr().map_err(stream)?,
        };
        let log = Arc::new(ErrorLog::new(log, config.log.level));
        let present = self.access.as_ref();
        let access = match &config.log.access {
            AccessTarget::Off => None,
            AccessTarget::Stdout => Some(Target::stdout().map_err(stream)?),
            AccessTarget::File(path) => {
                Some(match present.filter(|target| target.path() == Some(path)) {
                    Some(present) => present.clone(),
                    None => file(path)?,
                })
            }
        };
        Ok((log, access))
    }

    /// The control socket, and why there is none although there could be.
    fn control_for(&self, config: &Config) -> Result<(Socket, Option<String>), String> {
        let Some(path) = config
            .control_path(self.environment.identity.is_root(), self.environment.runtime.as_deref())
        else {
            return Ok((Socket::None, None));
        };
        if self.control.as_ref().is_some_and(|control| control.path == path) {
            return Ok((Socket::Same, None));
        }
        match Control::bind(&path) {
            Ok(control) => Ok((Socket::Another(control), None)),
            Err(error) if config.control.is_some() => Err(error),
            // It was nobody's wish to have it just there.
            Err(error) => Ok((Socket::None, Some(format!("no control socket: {error}")))),
        }
    }

    fn say_lines(&self, what: &str, lines: &str) {
        for line in lines.lines() {
            self.say(Level::Error, line);
        }
        self.say(Level::Error, what);
    }
}
