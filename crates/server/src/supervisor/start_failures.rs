//! The reasons why PHP does not start in a pool, for the log and for the front.

use howdah_sys::process::{Exit, Pid};

use super::Supervisor;
use super::front_protocol::ToFront;
use super::pool::PoolProcesses;
use crate::front::ReasonTopic;

impl PoolProcesses {
    /// Says why PHP has not started in the pool's zygote, which has ended: with what it has
    /// `reported`, or else with its last line in the log. Call this function before the zygote is
    /// forgotten.
    pub(super) fn why_not_started(
        &self,
        reported: Option<&str>,
        (pid, exit): (Pid, Exit),
    ) -> String {
        let started = self.zygote.as_ref().map(|zygote| zygote.started);
        let last = self.lines.as_ref().zip(started);
        match (reported, last.and_then(|(lines, started)| lines.last_since(started))) {
            (Some(reason), _) => format!("PHP does not start: {reason}"),
            (None, Some(line)) => {
                format!("the zygote {pid} {exit} while PHP started; its last message: {line}")
            }
            (None, None) => format!("the zygote {pid} {exit} while PHP started"),
        }
    }
}

impl Supervisor {
    /// Tells the front of the generation at `position`, which serves, in which pools PHP does not
    /// start, and why, as far as that has changed.
    pub(super) fn tell_start_failures(&mut self, position: usize) {
        let Some(current) = &self.current else { return };
        let generation = &mut self.generations[position];
        let Some(front) = &generation.front else {
            return;
        };
        for pool in &mut generation.pools {
            if pool.start_failure == pool.told_failure {
                continue;
            }
            pool.told_failure.clone_from(&pool.start_failure);
            let site = current.config.sites.iter().position(|site| site.name == pool.name);
            let why = pool.told_failure.as_deref().map(|why| why.replace('\n', "; "));
            let message = site.map(|site| ToFront::Reason {
                topic: ReasonTopic::StartFailure,
                site,
                why,
            });
            // A front that does not read is replaced.
            let _ = message.map(|message| front.tell(&message, &[]));
        }
    }
}
