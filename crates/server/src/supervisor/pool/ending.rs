//! Ends the processes of a pool: in order, or at once.

use std::time::Duration;

use howdah_ipc::control::ToZygote;
use howdah_sys::signal::SIGKILL;

use super::super::cgroups::{PoolGroup, ZygoteGroup};
use super::zygote_process::ZygoteProcess;
use super::{AwaitedTwin, PoolProcesses};

impl PoolProcesses {
    /// Tells the workers to finish and end. The zygote that stands by ends, too, unless it is kept.
    pub(in crate::supervisor) fn stop(&mut self, keeps_standby: bool) {
        self.due = None;
        if let Some(ZygoteProcess { socket: Some(socket), .. }) = &self.zygote {
            // A zygote that does not read is ending already, or will be killed.
            let _ = socket.send_now(&ToZygote::Stop.encode(), &[]);
        }
        if !keeps_standby {
            self.standby.end();
        }
    }

    /// Kills the zygote, its workers and their children.
    pub(in crate::supervisor) fn kill(&mut self) {
        (self.due, self.twin) = (None, None);
        if let Some(zygote) = &self.zygote {
            // The zygote was not reaped yet, therefore no other process has its id. A failure
            // changes nothing.
            let _ = zygote.pid.signal_group(SIGKILL);
        }
        self.standby.end();
        self.group.iter().for_each(PoolGroup::kill);
    }

    /// Kills the zygote, its workers and their children, but not the zygote that stands by.
    pub(in crate::supervisor) fn kill_zygote(&mut self) {
        self.twin.iter().for_each(AwaitedTwin::give_up);
        if let Some(zygote) = &self.zygote {
            // As in `kill`.
            let _ = zygote.pid.signal_group(SIGKILL);
            zygote.group.iter().for_each(ZygoteGroup::kill);
        }
    }

    /// Kills the zygote, in which PHP has not started within `time`.
    pub(in crate::supervisor) fn give_up_start(&mut self, time: Duration) {
        if let Some(zygote) = &mut self.zygote {
            let why = || format!("it was not ready in time ({} s)", time.as_secs());
            zygote.failed.get_or_insert_with(why);
        }
        self.kill_zygote();
    }

    /// Kills the zygote with this number, which the front has found broken. Returns `false` if that
    /// zygote has ended already: its successor is well.
    ///
    /// Where the front names no zygote, or a former program has not told the number, the complaint
    /// is about the zygote that there is.
    pub(in crate::supervisor) fn kill_broken(&mut self, zygote: Option<u64>) -> bool {
        let is_meant = self.number.zip(zygote).is_none_or(|(own, meant)| own == meant);
        let is_present = is_meant && self.zygote.is_some();
        if is_present {
            self.kill_zygote();
        }
        is_present
    }

    /// Ends the zygote that stands by.
    pub(in crate::supervisor) fn end_standby(&mut self) {
        self.standby.end();
    }
}
