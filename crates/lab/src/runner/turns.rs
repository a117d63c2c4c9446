//! Loads that take turns: each for a tenth of a second, then the next, again and again.
//!
//! A disturbance of a shared machine lasts longer than a turn and affects all stacks alike. A load
//! is stopped (SIGSTOP) outside of its turn. A turn lasts until the server has finished with the
//! requests of its load.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::measure::{SAMPLE, significant};
use crate::environment::Temporary;
use crate::load::{Closed, Load};
use crate::loads::external::{wrk_command, wrk_measured};
use crate::loads::{Wrong, is_aborted, sample};
use crate::plan::PlannedCell;
use crate::probes::processor_time;
use crate::process::{signal, tree};
use crate::record::{Figure, Round};
use crate::stack::Running;

const TURN: Duration = Duration::from_millis(100);
/// Time without work after which a server has finished with a stopped load's requests.
const IDLE: Duration = Duration::from_millis(10);
/// Share of one processor up to which a server counts as idle.
const IDLE_SHARE: f64 = 0.1;
/// Upper limit of the time for finishing.
const MOST_IDLING: Duration = Duration::from_secs(5);

/// Measures one round of one cell: the loads of all stacks in turns, each for the load's time in
/// total.
///
/// # Errors
///
/// The cell's load is not one of wrk, or wrk cannot be started.
pub(super) fn measure(
    planned: &PlannedCell,
    stacks: &mut [&mut Running],
) -> Result<Vec<Round>, Wrong> {
    let Load::Wrk(closed) = planned.load else {
        return Err(Wrong(format!("{}: only loads of wrk can take turns", planned.name)));
    };
    let time = closed.time * u32::try_from(stacks.len()).unwrap_or(1);
    let closed = Closed { time, ..closed };
    let started = stacks.iter().map(|running| PausedLoad::new(planned, closed, running));
    let mut loads = started.collect::<Result<Vec<PausedLoad>, Wrong>>()?;
    let deadline = Instant::now() + time;
    let mut number = 0;
    while Instant::now() < deadline && !is_aborted() {
        // No load always follows the same one.
        let offset = number % loads.len().max(1);
        loads.rotate_left(offset);
        let turned = loads.iter_mut().try_for_each(PausedLoad::turn);
        loads.rotate_right(offset);
        turned?;
        number += 1;
    }
    Ok(loads.into_iter().map(|load| load.end(planned, closed)).collect())
}

/// A wrk that runs only in its turns. Dropping it ends the program.
struct PausedLoad {
    command: Command,
    /// Holds wrk's script.
    _folder: Temporary,
    child: Option<Child>,
    port: u16,
    /// The server's processes.
    pids: Vec<u32>,
    time: Duration,
    /// Microseconds of processor time.
    processor: f64,
    sampled: Result<(), Wrong>,
}

impl PausedLoad {
    fn new(planned: &PlannedCell, closed: Closed, running: &Running) -> Result<PausedLoad, Wrong> {
        let (command, folder) = wrk_command(closed, &planned.question, running.port)?;
        Ok(PausedLoad {
            command,
            _folder: folder,
            child: None,
            port: running.port,
            pids: tree(&running.roots()),
            time: Duration::ZERO,
            processor: 0.0,
            sampled: sample::check(&planned.question, running.port, SAMPLE),
        })
    }

    fn turn(&mut self) -> Result<(), Wrong> {
        let (began, before) = (Instant::now(), processor_time(&self.pids));
        match &self.child {
            Some(child) => signal(child.id(), Signal::CONT),
            None => {
                let command = self.command.stdin(Stdio::null()).stdout(Stdio::piped());
                self.child = Some(command.stderr(Stdio::piped()).spawn()?);
            }
        }
        std::thread::sleep(TURN);
        if let Some(child) = &self.child {
            signal(child.id(), Signal::STOP);
        }
        let stopped = Instant::now();
        let (mut ended, mut used) = (stopped, processor_time(&self.pids));
        while stopped.elapsed() < MOST_IDLING {
            std::thread::sleep(IDLE);
            let earlier = std::mem::replace(&mut used, processor_time(&self.pids));
            if used - earlier < IDLE.as_micros() as f64 * IDLE_SHARE {
                break;
            }
            ended = Instant::now();
        }
        self.time += ended - began;
        self.processor += used - before;
        Ok(())
    }

    /// The last turn, to the end of the load.
    fn end(mut self, planned: &PlannedCell, closed: Closed) -> Round {
        let mut round = Round::default();
        match self.finish(planned, closed) {
            Ok(figures) => round.figures.extend(figures),
            Err(wrong) => round.void = Some(wrong.to_string()),
        }
        round
    }

    fn finish(
        &mut self,
        planned: &PlannedCell,
        closed: Closed,
    ) -> Result<[(Figure, f64); 2], Wrong> {
        let question = &planned.question;
        std::mem::replace(&mut self.sampled, Ok(()))?;
        let (began, before) = (Instant::now(), processor_time(&self.pids));
        let Some(child) = self.child.take() else {
            return Err(Wrong("the load had no turn".to_owned()));
        };
        signal(child.id(), Signal::CONT);
        if is_aborted() {
            // wrk prints what it has when it is interrupted.
            signal(child.id(), Signal::INT);
        }
        let output = child.wait_with_output()?;
        let seconds = (self.time + began.elapsed()).as_secs_f64();
        let processor = self.processor + processor_time(&self.pids) - before;
        let output = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        let measured = wrk_measured(&output, closed, question)?;
        sample::check(question, self.port, SAMPLE)?;
        let requests = measured.requests as f64;
        Ok([
            (Figure::RequestsPerSecond, significant(requests / seconds)),
            (Figure::CpuPerRequest, significant(processor / requests)),
        ])
    }
}

impl Drop for PausedLoad {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
