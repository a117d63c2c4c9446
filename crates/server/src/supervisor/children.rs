//! What front and zygotes say, and what happens when one of them dies.

use std::io;
use std::time::{Duration, Instant};

use howdah_sys::process::{self, Exit, Pid};

use super::Supervisor;
use super::front_protocol::{FromFront, ToFront};
use super::generation::{Part, Phase, is_orderly};
use crate::log::Level;

impl Supervisor {
    pub(super) fn hear_front(&mut self, number: u64) {
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
                    return self.say(Level::Error, &format!("the front is ended: {error}"));
                }
            };
            match message {
                FromFront::Ready { pools } => {
                    front.ready = Some(pools);
                    self.advance();
                }
                FromFront::Drained => {}
                FromFront::Status { id, text } => self.answer_status(id, Some(&text)),
                FromFront::PoolBroken { pool, reason } => self.pool_broken(number, pool, &reason),
            }
        }
    }

    pub(super) fn hear_zygote(&mut self, number: u64, position: usize) {
        let Some(generation) = self.generation(number) else {
            return;
        };
        let serving = generation.phase == Phase::Serving;
        let Some(pool) = generation.pools.get_mut(position) else {
            return;
        };
        let Some(zygote) = &mut pool.zygote else {
            return;
        };
        let was_ready = zygote.ready.is_some();
        let heard = zygote.listen();
        let (is_ready, pid, name) = (zygote.ready.is_some(), zygote.pid, pool.name.clone());
        if let Err(error) = heard {
            pool.kill();
            return self.say_of(
                Level::Error,
                &name,
                &format!("its zygote {pid} is ended: {error}"),
            );
        }
        if is_ready && !was_ready {
            match serving {
                true => {
                    self.say_of(Level::Notice, &name, &format!("its new zygote {pid} is ready"))
                }
                false => self.advance(),
            }
        }
    }

    fn pool_broken(&mut self, number: u64, position: usize, reason: &str) {
        let pool = self
            .generation(number)
            .and_then(|generation| generation.pools.get_mut(position));
        if let Some(pool) = pool {
            pool.kill();
            let (name, what) =
                (pool.name.clone(), format!("its pool is ended and replaced: {reason}"));
            self.say_of(Level::Error, &name, &what);
        }
    }

    /// Looks at every child that has ended.
    pub(super) fn reap(&mut self) -> io::Result<()> {
        while let Some((pid, exit)) = process::reap()? {
            if self.check.as_mut().is_some_and(|check| check.ended(pid, exit)) {
                continue;
            }
            let found = self.generations.iter().find_map(|one| Some((one.number, one.part(pid)?)));
            match found {
                Some((number, Part::Front)) => self.front_died(number, pid, exit),
                Some((number, Part::Zygote(position))) => {
                    self.zygote_died(number, position, pid, exit)
                }
                // Somebody's grandchild, if we are the first process of a container.
                None => {}
            }
        }
        Ok(())
    }

    fn front_died(&mut self, number: u64, pid: Pid, exit: Exit) {
        // What it said last.
        self.hear_front(number);
        let fallback = self.usual_drain();
        let Some(generation) = self.generation(number) else {
            return;
        };
        let lived = generation.front.take().map_or(Duration::ZERO, |front| front.started.elapsed());
        match generation.phase {
            Phase::Starting { .. } => {
                self.abort(number, &format!("the front {pid} {exit} while it started"))
            }
            Phase::Serving => {
                // Its region is gone with it, so the pools have nothing to serve.
                generation.drain(false, fallback);
                let wait = self.backoff.after_death(lived);
                self.restart = Some(Instant::now() + wait);
                self.say(Level::Error, &format!("the front {pid} {exit}; {}", another(wait)));
            }
            Phase::Draining { .. } => {
                generation.stop_pools();
                if !is_orderly(exit) {
                    self.say(
                        Level::Error,
                        &format!("the front {pid} {exit} before it had drained"),
                    );
                }
            }
            Phase::Ending { .. } => {}
        }
    }

    fn zygote_died(&mut self, number: u64, position: usize, pid: Pid, exit: Exit) {
        self.hear_zygote(number, position);
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
        let name = pool.name.clone();
        let now = Instant::now();
        pool.zygote_died(now);
        match phase {
            Phase::Starting { .. } => {
                let what = match failed {
                    Some(reason) => format!("site {name}: PHP does not start: {reason}"),
                    None => format!("site {name}: the zygote {pid} {exit} while PHP started"),
                };
                self.abort(number, &what);
            }
            Phase::Serving if pool.can_start() => {
                let wait = pool.due.map_or(Duration::ZERO, |due| due - now);
                let what = match failed {
                    Some(reason) => format!("PHP does not start: {reason}; {}", another(wait)),
                    None => format!("its zygote {pid} {exit}; {}", another(wait)),
                };
                self.say_of(Level::Error, &name, &what);
            }
            // The generation that replaces this one is on its way.
            Phase::Serving | Phase::Draining { .. } | Phase::Ending { .. } => {
                pool.due = None;
                if phase == Phase::Serving
                    || (matches!(phase, Phase::Draining { .. }) && !is_orderly(exit))
                {
                    self.say_of(
                        Level::Error,
                        &name,
                        &format!("its zygote {pid} {exit} before it was done"),
                    );
                }
            }
        }
    }

    /// Starts the zygotes that are due, and tells the front of them.
    pub(super) fn replace_zygotes(&mut self, number: u64, now: Instant) {
        let environment = self.environment.clone();
        let Some(generation) = self.generations.iter_mut().find(|one| one.number == number) else {
            return;
        };
        let mut troubles = Vec::new();
        for (position, pool) in generation.pools.iter_mut().enumerate() {
            if pool.due.is_none_or(|due| now < due) {
                continue;
            }
            let told = pool.start_zygote(&environment).and_then(|socket| match &generation.front {
                Some(front) => {
                    front.tell(&ToFront::PoolReplaced { pool: position }, &[socket.into()])
                }
                None => Ok(()),
            });
            if let Err(error) = told {
                pool.kill();
                pool.start_failed(now);
                troubles
                    .push((pool.name.clone(), format!("its zygote cannot be started: {error}")));
            }
        }
        for (name, what) in troubles {
            self.say_of(Level::Error, &name, &what);
        }
    }
}

/// The end of a message on something that died.
fn another(wait: Duration) -> String {
    match wait {
        Duration::ZERO => "another takes its place".to_owned(),
        wait => format!("it keeps dying, so another is started in {} s only", wait.as_secs_f32()),
    }
}
