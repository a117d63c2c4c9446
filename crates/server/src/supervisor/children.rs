//! Handles the messages of fronts and zygotes, and their deaths.

use std::io;
use std::time::{Duration, Instant};

use howdah_sys::process::{self, ChildChange, Exit, Pid};

use super::Supervisor;
use super::change::ChangeCause;
use super::front_protocol::{FromFront, ToFront};
use super::generation::{DrainTime, Generation, GenerationPhase, GenerationProcess, is_orderly};
use crate::log::Level;

impl Supervisor {
    pub(super) fn handle_front(&mut self, number: u64) {
        loop {
            let Some(front) =
                self.generation(number).and_then(|generation| generation.front.as_mut())
            else {
                return;
            };
            let message = match front.listen() {
                Ok(Some(message)) => message,
                Ok(None) => return,
                Err(error) => {
                    front.kill();
                    return self.say(
                        Level::Error,
                        &format!(
                            "the front was killed because its message cannot be read: {error}"
                        ),
                    );
                }
            };
            match message {
                FromFront::Ready { pools } => {
                    front.ready = Some(pools);
                    self.advance();
                }
                FromFront::Closed => front.has_closed = true,
                FromFront::Drained => {}
                FromFront::Status { id, text } => self.answer_status(id, Some(&text)),
                FromFront::Presented { id } => self.challenge_confirmed(number, id),
                FromFront::Demand(demand) => self.demand(demand),
                FromFront::StatusTaken { id } => self.forget_client(id),
                FromFront::PoolBroken { pool, zygote, reason } => {
                    self.pool_broken(number, (pool, zygote), &reason);
                }
            }
        }
    }

    pub(super) fn handle_zygote(&mut self, number: u64, position: usize) {
        let log = self.log.clone();
        let Some(generation) = self.generation(number) else {
            return;
        };
        let serving = generation.phase == GenerationPhase::Serving;
        let Some(pool) = generation.pools.get_mut(position) else {
            return;
        };
        let Some(zygote) = &mut pool.zygote else {
            return;
        };
        let was_ready = zygote.ready.is_some();
        let heard = zygote.listen();
        let (is_ready, pid, name) = (zygote.ready.is_some(), zygote.pid, pool.name.clone());
        if is_ready && !was_ready {
            // The lines that PHP has printed before.
            pool.forward_lines(&log);
        }
        if let Err(error) = heard {
            pool.kill_zygote();
            return self.say_of(
                Level::Error,
                &name,
                &format!("its zygote {pid} was killed because its message cannot be read: {error}"),
            );
        }
        if is_ready && !was_ready {
            pool.start_failure = None;
            match serving {
                true => {
                    self.say_of(Level::Notice, &name, &format!("its new zygote {pid} is ready"))
                }
                false => self.advance(),
            }
        }
    }

    fn pool_broken(&mut self, number: u64, (position, zygote): (usize, Option<u64>), reason: &str) {
        let pools = self.generation(number).into_iter().flat_map(|one| &mut one.pools);
        if let Some(pool) = pools.into_iter().find(|pool| pool.position == position)
            && pool.kill_broken(zygote)
        {
            let (name, what) =
                (pool.name.clone(), format!("its pool was killed and will be replaced: {reason}"));
            self.say_of(Level::Error, &name, &what);
        }
    }

    /// Handles every child that has ended.
    ///
    /// # Errors
    /// The error of `waitpid(2)`.
    pub(super) fn reap(&mut self) -> io::Result<()> {
        // Orphans of scripts end here as well, perhaps faster than they can be reaped.
        for _ in 0..MOST_REAPED {
            let (pid, exit) = match process::reap()? {
                Some((pid, ChildChange::Ended(exit))) => (pid, exit),
                Some((pid, ChildChange::Stopped)) => {
                    self.note_stop(pid);
                    continue;
                }
                None => return Ok(()),
            };
            if self.check.as_mut().is_some_and(|check| check.ended(pid, exit)) {
                continue;
            }
            if self.orders_ended(pid, exit) {
                continue;
            }
            let found = self.generations.iter().find_map(|one| Some((one.number, one.part(pid)?)));
            match found {
                Some((number, GenerationProcess::Front)) => self.front_died(number, pid, exit),
                Some((number, GenerationProcess::Zygote(position))) => {
                    self.zygote_died(number, position, pid, exit)
                }
                Some((number, GenerationProcess::Standby(position))) => {
                    self.standby_died(number, position, pid, exit)
                }
                // A process that a script had started, or any orphan if this is process 1 of a
                // container.
                None => self.output_readers.retain(|(reader, _)| *reader != pid),
            }
        }
        Ok(())
    }

    fn front_died(&mut self, number: u64, pid: Pid, exit: Exit) {
        // Messages that the front sent before its end.
        self.handle_front(number);
        let time = DrainTime::Configured(self.usual_drain());
        let serves =
            |one: &Generation| one.number == number && one.phase == GenerationPhase::Serving;
        if self.generations.iter().any(serves) {
            self.abandon_change();
        }
        let is_changing = self.is_changing() || self.stopping;
        let Some(generation) = self.generation(number) else {
            return;
        };
        let lived = generation.front.take().map_or(Duration::ZERO, |front| front.started.elapsed());
        match generation.phase {
            GenerationPhase::Starting { .. } => {
                self.abort(number, &format!("the front {pid} {exit} while it started"))
            }
            GenerationPhase::Serving => {
                // The region of shared memory ended with the front, therefore the pools are
                // useless.
                let wait = self.backoff.after_death(lived);
                let is_now = wait.is_zero() && !is_changing;
                let generation = self.generation(number).filter(|_| is_now);
                let spares = generation.map(Generation::take_spares);
                if let Some(generation) = self.generation(number) {
                    generation.drain(false, time);
                }
                self.restart = Some(Instant::now() + wait);
                self.say(Level::Error, &format!("the front {pid} {exit}; {}", another(wait)));
                match spares {
                    Some(spares) => self.begin_with(ChangeCause::FrontDied, spares),
                    None => self.hurry_change(),
                }
            }
            GenerationPhase::Draining { .. } => {
                // All requests have finished. A pool must not take any time for its end.
                generation.limit_drain(time);
                generation.stop_pools();
                if !is_orderly(exit) {
                    self.say(
                        Level::Error,
                        &format!("the front {pid} {exit} before all its requests had finished"),
                    );
                }
            }
            GenerationPhase::Ending { .. } => {}
        }
    }

    fn zygote_died(&mut self, number: u64, position: usize, pid: Pid, exit: Exit) {
        self.handle_zygote(number, position);
        self.orphans.expect(Instant::now());
        let log = self.log.clone();
        let Some(generation) = self.generation(number) else {
            return;
        };
        let phase = generation.phase;
        let Some(pool) = generation.pools.get_mut(position) else {
            return;
        };
        pool.forward_lines(&log);
        let failed = pool.zygote.as_mut().and_then(|zygote| zygote.failed.take());
        let why_not = pool.why_not_started(failed.as_deref(), (pid, exit));
        let had_started = pool.zygote.as_ref().is_some_and(|zygote| zygote.ready.is_some());
        let name = pool.name.clone();
        let now = Instant::now();
        let reader = pool.zygote_died(now);
        self.output_readers.extend(reader.map(|reader| (reader, now + LONGEST_READING)));
        let Some(generation) = self.generation(number) else {
            return;
        };
        let Some(pool) = generation.pools.get_mut(position) else {
            return;
        };
        match phase {
            GenerationPhase::Starting { .. } => {
                let gone = had_started.then(|| format!("its zygote {pid} {exit}"));
                self.zygote_died_at_start(number, position, &why_not, gone);
            }
            GenerationPhase::Serving if pool.can_start() => {
                let wait = pool.due.map_or(Duration::ZERO, |due| due - now);
                let what = match had_started {
                    true => format!("its zygote {pid} {exit}; {}", another(wait)),
                    false => format!("{why_not}; {}", another(wait)),
                };
                if !had_started {
                    pool.start_failure = Some(why_not);
                }
                self.say_of(Level::Error, &name, &what);
            }
            // The new generation that replaces this one is already starting.
            GenerationPhase::Serving
            | GenerationPhase::Draining { .. }
            | GenerationPhase::Ending { .. } => {
                pool.due = None;
                if phase == GenerationPhase::Serving
                    || (matches!(phase, GenerationPhase::Draining { .. }) && !is_orderly(exit))
                {
                    self.say_of(
                        Level::Error,
                        &name,
                        &format!("its zygote {pid} {exit} before its workers had finished"),
                    );
                }
            }
        }
    }

    /// A zygote of a generation that starts has died. `why_not` is the reason not to start the
    /// pool, `gone` the message where PHP had started in the zygote.
    fn zygote_died_at_start(
        &mut self,
        number: u64,
        position: usize,
        why_not: &str,
        gone: Option<String>,
    ) {
        let ours = self.environment.identity.clone();
        let Some(generation) = self.generation(number) else {
            return;
        };
        let name = generation.pools[position].name.clone();
        if generation.leave_out(position, why_not, &ours) {
            self.go_on_without(number, position);
        } else if let Some(gone) = gone {
            generation.replace_later(position);
            self.say_of(Level::Error, &name, &format!("{gone}; another takes its place"));
            self.advance();
        } else {
            self.abort(number, &format!("site {name}: {why_not}"));
        }
    }

    /// Goes on with the start of a generation one of whose pools was left out.
    fn go_on_without(&mut self, number: u64, position: usize) {
        if let Some(change) = self.change.take() {
            self.settle_left_out(number, Some(position), change.plan());
            self.change = Some(change);
        }
        self.advance();
    }

    /// Starts the zygotes that are due, and sends their sockets to the front.
    pub(super) fn replace_zygotes(&mut self, number: u64, now: Instant) {
        let environment = self.environment.clone();
        let Some(generation) = self.generations.iter_mut().find(|one| one.number == number) else {
            return;
        };
        let (mut errors, mut ready) = (Vec::new(), Vec::new());
        for pool in &mut generation.pools {
            if pool.due.is_none_or(|due| now < due) {
                continue;
            }
            let stood_by = pool.standby.pid();
            let told = pool.start_zygote(&environment).and_then(|(zygote, socket)| {
                let message = ToFront::PoolReplaced { pool: pool.position, zygote };
                let front = generation.front.as_ref();
                front.map_or(Ok(()), |front| front.tell(&message, &[socket.into()]))
            });
            if let Err(error) = told {
                pool.kill();
                pool.start_failed(now);
                let what = format!("its zygote cannot be started: {error}");
                pool.start_failure = Some(what.clone());
                errors.push((pool.name.clone(), what));
            } else if let Some(pid) = stood_by
                && pool.zygote.as_ref().is_some_and(|zygote| zygote.ready.is_some())
            {
                pool.start_failure = None;
                ready.push((pool.name.clone(), format!("its new zygote {pid} is ready")));
            }
        }
        for (name, what) in errors {
            self.say_of(Level::Error, &name, &what);
        }
        for (name, what) in ready {
            self.say_of(Level::Notice, &name, &what);
        }
    }
}

/// Children that are reaped before the supervisor turns to its messages. Further ones are reaped
/// after the next event.
const MOST_REAPED: usize = 1000;

/// Time that a process has for logging what a dead zygote's workers have written. Then it is ended.
const LONGEST_READING: Duration = Duration::from_secs(5);

/// Returns the end of a message about a process that died.
fn another(wait: Duration) -> String {
    match wait {
        Duration::ZERO => "another takes its place".to_owned(),
        wait => format!("another one starts in {} s, because it keeps dying", wait.as_secs_f32()),
    }
}
