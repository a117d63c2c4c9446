//! The twin of a zygote: a zygote for another generation, in which PHP has started as in this one.
//!
//! The supervisor asks for a twin where PHP does not start anew. A zygote runs no scripts:
//! therefore a twin is as good as a zygote that has just started. The two share opcache's memory,
//! and nothing else: the twin is a child of the supervisor, and drops what belongs to the front of
//! its original.

use std::io;
use std::os::fd::OwnedFd;

use howdah_ipc::control::FromZygote;
use howdah_ipc::worker_set::WorkerSet;
use howdah_sys::process::{adopt_orphans, set_name};
use howdah_sys::seqpacket::SeqPacket;

use super::output::{OutputKeeper, WorkerOutputs};
use super::{RegionState, RunningZygote, STANDBY};
use crate::death_count::DeathCount;
use crate::log::{self, Level};
use crate::process;
use crate::start_backoff::StartBackoff;
use crate::uploads::UploadFolder;

impl RunningZygote {
    /// Forks a twin, for which `sockets` are. Returns its socket to the supervisor in the twin, and
    /// `None` in this process. After a failure the sockets are closed, as the supervisor notices.
    pub(super) fn fork_twin(&mut self, sockets: Vec<OwnedFd>) -> Option<SeqPacket> {
        let [supervisor, front, into, from] =
            <[OwnedFd; 4]>::try_from(sockets).ok()?.map(SeqPacket::from);
        if self.ending {
            return None;
        }
        let failed = |error: io::Error| {
            let what = format!("the zygote cannot fork a twin for the next generation: {error}");
            log::write(Level::Error, what.as_bytes(), None);
        };
        match process::fork_sibling() {
            Ok(true) => {}
            Ok(false) => return None,
            Err(error) => {
                failed(error);
                return None;
            }
        }
        if let Err(error) = self.become_twin(&supervisor, front, (into, from)) {
            failed(error);
            process::exit_now(1);
        }
        Some(supervisor)
    }

    /// Drops what belongs to the original and its front, and reports as after a start of PHP.
    fn become_twin(
        &mut self,
        supervisor: &SeqPacket,
        front: SeqPacket,
        (into, from): (SeqPacket, SeqPacket),
    ) -> io::Result<()> {
        set_name(STANDBY);
        adopt_orphans()?;
        self.front = front;
        self.region = RegionState::Awaited { descriptors: Vec::new() };
        self.workers.clear();
        self.outputs = WorkerOutputs::new(Some(OutputKeeper::new(into, from)?));
        self.wanted = WorkerSet::default();
        self.backoff = StartBackoff::default();
        self.deaths = DeathCount::default();
        self.replaced.clear();
        self.deadline = None;
        let uploads = self.uploads.take();
        self.uploads = uploads.as_ref().and_then(UploadFolder::create_beside);
        let ready = FromZygote::Ready {
            php_version: self.engine.php_version(),
            opcache: self.opcache.clone(),
            settings: self.settings,
            warmup: None,
        }
        .encode();
        supervisor.send(&ready, &[])?;
        self.front.send(&ready, &[])?;
        self.uploads.iter().for_each(UploadFolder::sweep_beside);
        Ok(())
    }
}
