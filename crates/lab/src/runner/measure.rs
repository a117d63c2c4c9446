//! One round: a load on one stack, with the kernel's data about its processes.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::load::{AbRun, Closed, Load};
use crate::loads::{self, Measured, sample};
use crate::plan::PlannedCell;
use crate::probes::{ProcessCounters, Used, memory};
use crate::record::{Figure, Round};
use crate::stack::Running;

/// Number of answers that are checked byte for byte before and after each load.
pub(super) const SAMPLE: usize = 2;
/// Time in which a server finishes with the load's connections.
const SETTLE: Duration = Duration::from_millis(200);
/// Share of its processor above which the load generator is the limit.
const LOADER_BOUND: f64 = 0.9;

/// Puts one load on one stack.
pub(super) fn measure(planned: &PlannedCell, running: &mut Running) -> Round {
    let mut round = Round::default();
    let port = running.port;
    let roots = running.roots();
    let before = ProcessCounters::take(&roots);
    let result = sample::check(&planned.question, port, SAMPLE)
        .and_then(|()| loads::put(&planned.load, &planned.question, &running.target()))
        .and_then(|measured| {
            std::thread::sleep(SETTLE);
            let used = ProcessCounters::take(&roots).since(&before);
            round.figures.extend(memory_of(&roots));
            fill(&mut round, &measured, used);
            if planned.figure == Figure::PerCpuSecond {
                let each = round.figures.get(&Figure::CpuPerRequest).filter(|each| **each > 0.0);
                let rate = each.map(|each| (Figure::PerCpuSecond, 1e6 / each));
                round.figures.extend(rate);
            }
            match planned.load {
                // The state of the server afterwards is a figure of its own.
                Load::Ramp(ramp) if !ramp.recovery.is_zero() => Ok(()),
                _ => sample::check(&planned.question, port, SAMPLE),
            }
        });
    round.figures.values_mut().for_each(|value| *value = significant(*value));
    let points = round.series.values_mut().flatten();
    points.for_each(|point| *point = (significant(point.0), significant(point.1)));
    if let Err(wrong) = result {
        round.void = Some(if running.is_alive() {
            wrong.to_string()
        } else {
            format!("the server has died: {wrong}")
        });
    }
    round
}

fn memory_of(roots: &[u32]) -> BTreeMap<Figure, f64> {
    let Some(memory) = memory(roots) else {
        return BTreeMap::new();
    };
    let mut figures =
        BTreeMap::from([(Figure::Pss, memory.all as f64), (Figure::FrontPss, memory.front as f64)]);
    figures.extend(memory.worker().map(|kibibytes| (Figure::WorkerPss, kibibytes)));
    figures
}

fn fill(round: &mut Round, measured: &Measured, used: Used) {
    round.figures.extend(measured.figures.iter());
    round.series = measured.series.clone();
    round.loader_bound = measured.loader_share > LOADER_BOUND;
    round.figures.insert(Figure::AcceptOverflows, used.overflows as f64);
    if measured.requests > 0 {
        let requests = measured.requests as f64;
        round.figures.insert(Figure::CpuPerRequest, used.processor / requests);
        round
            .figures
            .insert(Figure::SwitchesPerRequest, used.switches as f64 / requests);
    }
}

/// Rounds to six digits, the precision of the figures.
pub(super) fn significant(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

/// The load, shortened for a warm-up; `None` for loads that need none.
pub(super) fn shortened(load: &Load, time: Duration) -> Option<Load> {
    Some(match load {
        Load::Wrk(closed) => Load::Wrk(Closed { time, ..*closed }),
        Load::H2load(closed, streams) => Load::H2load(Closed { time, ..*closed }, *streams),
        Load::Handshakes(closed, kind) => Load::Handshakes(Closed { time, ..*closed }, *kind),
        Load::Ab(bench) => Load::Ab(AbRun {
            requests: (bench.requests / 10).clamp(20, 2000),
            at_most: time,
            ..*bench
        }),
        Load::OpenLoop(_)
        | Load::Beside(..)
        | Load::Ramp(_)
        | Load::Idle(_)
        | Load::Slow(..)
        | Load::Folders(_)
        | Load::Reload(_) => return None,
    })
}
