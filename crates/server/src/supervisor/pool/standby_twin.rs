//! The twin that stands by: where PHP does not start anew, the zygote that serves forks the zygote
//! that is to take its place. The site outlives the deaths of zygotes and fronts that way.

use std::collections::HashSet;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use howdah_sys::process::Pid;
use howdah_sys::seqpacket::SeqPacket;

use super::super::Supervisor;
use super::standby::{Standby, without_standby};
use super::twin::AwaitedTwin;
use super::{PoolProcesses, ReadyZygote};
use crate::log::Level;

/// The time that a zygote has for forking its twin. A stopped one goes on within it. Orphans are
/// not searched for meanwhile.
const PATIENCE: Duration = Duration::from_secs(10);

/// A twin that has not reported yet.
#[derive(Debug)]
pub(super) struct StandbyTwin {
    twin: AwaitedTwin,
    /// The front's end of the twin's socket.
    front: SeqPacket,
    until: Instant,
    /// The reason why no zygote was started.
    why: String,
}

impl Standby {
    /// Returns whether the pool's zygote is forking its twin.
    pub(super) fn awaits_twin(&self) -> bool {
        self.twin.is_some()
    }

    /// The socket to watch for the twin's report. `None`: no twin is awaited.
    pub(in crate::supervisor) fn awaited_twin(&self) -> Option<BorrowedFd<'_>> {
        self.twin.as_ref().map(|awaited| awaited.twin.as_fd())
    }

    /// The time at which the wait for the twin is over. `None`: no twin is awaited.
    pub(in crate::supervisor) fn twin_deadline(&self) -> Option<Instant> {
        self.twin.as_ref().map(|awaited| awaited.until)
    }

    /// Ends the wait for a twin that is late.
    fn give_up_twin(&self, now: Instant) {
        if let Some(awaited) = self.twin.as_ref().filter(|awaited| now >= awaited.until) {
            awaited.twin.give_up();
        }
    }
}

impl PoolProcesses {
    /// Asks the pool's zygote for a twin that is to stand by, because no zygote was started, and
    /// `why`. Returns `false` where there will be none.
    pub(super) fn ask_for_standby(&mut self, now: Instant, why: &str) -> bool {
        let Some((twin, front)) = self.ask_for_twin() else {
            return false;
        };
        let (until, why) = (now + PATIENCE, why.to_owned());
        self.standby.twin = Some(StandbyTwin { twin, front, until, why });
        true
    }

    /// Reads the report of the twin, which then stands by. Returns its process, `None` before the
    /// report, and why no zygote was started.
    ///
    /// # Errors
    /// There will be no twin, and why.
    fn hear_standby(&mut self, known: &HashSet<Pid>) -> Result<Option<(Pid, String)>, String> {
        let report = match &self.standby.twin {
            Some(awaited) => awaited.twin.report(known),
            None => Ok(None),
        };
        if matches!(report, Ok(None)) {
            return Ok(None);
        }
        let Some(StandbyTwin { twin, front, why, .. }) = self.standby.twin.take() else {
            return Ok(None);
        };
        let failed = |error: io::Error| format!("{why}; the zygote that serves: {error}");
        let Some(report) = report.map_err(failed)? else {
            return Ok(None);
        };
        let pid = report.pid;
        let zygote = self.adopt_twin(twin, report).map_err(failed)?;
        self.standby.put(ReadyZygote { zygote, front });
        Ok(Some((pid, why)))
    }
}

impl Supervisor {
    /// Reads the report of a twin that is to stand by.
    pub(in crate::supervisor) fn handle_standby_twin(&mut self, number: u64, position: usize) {
        let known = self.known_children();
        let Some(generation) = self.generation(number) else {
            return;
        };
        let Some(pool) = generation.pools.get_mut(position) else {
            return;
        };
        let name = pool.name.clone();
        let what = match pool.hear_standby(&known) {
            Ok(None) => return,
            Ok(Some((pid, why))) => {
                format!("{why}; {pid}, a twin of the zygote that serves, stands by")
            }
            Err(why) => {
                let now = Instant::now();
                pool.standby.try_again(now, Duration::ZERO);
                // A process that has reported and is no twin may live.
                self.orphans.expect(now);
                without_standby(&why)
            }
        };
        self.say_of(Level::Warning, &name, &what);
    }

    /// Ends the wait for twins that are late.
    pub(in crate::supervisor) fn give_up_late_twins(&mut self, number: u64, now: Instant) {
        let generation = self.generation(number);
        let pools = generation.iter().flat_map(|generation| &generation.pools);
        pools.for_each(|pool| pool.standby.give_up_twin(now));
    }
}
