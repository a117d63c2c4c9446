//! The ini values of a request: those that it brings, and those of `.user.ini` files.

use super::{PhpRequest, raw_pair};
use crate::sapi::raw;

impl PhpRequest<'_> {
    /// Returns the next ini value of the request, with `first` the first one. `None` behind the
    /// last one.
    pub(crate) fn next_ini(&mut self, first: bool) -> Option<raw::Pair> {
        if first {
            self.ini = Some(self.request.ini());
        }
        self.ini.as_mut()?.next().map(raw_pair)
    }

    /// Returns the tables of the `.user.ini` files that apply to the script, and the folders whose
    /// files have to be read. `None` if the request names no script, or one without a folder.
    pub(crate) fn plan_user_ini(&mut self, seconds_to_live: i64) -> Option<raw::UserIni> {
        let (script, root) = (self.script()?, self.document_root());
        let now = self.request.time / 1_000_000;
        // SAFETY: the engine set it to its own field for the time of this request, and does not
        // touch it meanwhile.
        let user_ini = unsafe { &mut *self.user_ini? };
        let plan = user_ini.plan(root, script, now, u64::try_from(seconds_to_live).unwrap_or(0))?;
        Some(raw::UserIni {
            table: plan.table,
            directories: plan.directories,
            directory_count: plan.count,
        })
    }
}
