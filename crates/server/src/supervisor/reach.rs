//! Checks that the front and the pools can enter the folder that they are to serve.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use howdah_sys::credentials::Identity;
use howdah_sys::process::{self, Exit};

use super::generation_plan::GenerationPlan;

/// Makes sure that the server's users can enter `folder`, the only one that is served. A server
/// that answers every request with 403 is of no use.
///
/// # Errors
/// The folder that is closed, and advice, as text for the operator.
pub(super) fn check(folder: &Path, plan: &GenerationPlan) -> Result<(), String> {
    let front = plan.front.iter().map(|front| (front, "the front"));
    let pools = plan.pools.iter().filter_map(|pool| pool.identity.as_ref());
    for (user, what) in front.chain(pools.map(|user| (user, "PHP"))) {
        match can_enter(user, folder) {
            Ok(true) => {}
            Ok(false) => return Err(refusal(user, what, folder)),
            Err(error) => {
                return Err(format!(
                    "cannot find out whether {} can enter {}: {error}",
                    user.name,
                    folder.display()
                ));
            }
        }
    }
    Ok(())
}

/// Tries as the user: access control lists and mounts decide as well as permissions. This process
/// has one thread, so that it may fork.
fn can_enter(user: &Identity, folder: &Path) -> io::Result<bool> {
    let child = process::fork(&[], || {
        let entered = process::become_for_good(user).and_then(|()| fs::metadata(folder.join(".")));
        match entered {
            Ok(_) => 0,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => CLOSED,
            // Other faults of the folder are found elsewhere.
            Err(_) => 0,
        }
    })?;
    Ok(process::wait(child)? != Exit::Status(CLOSED.into()))
}

/// The status of a child that could not enter.
const CLOSED: u8 = 9;

fn refusal(user: &Identity, what: &str, folder: &Path) -> String {
    let real = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let folders: Vec<&Path> = real.ancestors().collect();
    let is_closed = |folder: &&&Path| folder.metadata().is_ok_and(|found| found.mode() & 1 == 0);
    let closed = folders.iter().rev().find(is_closed).copied().unwrap_or(&real);
    let (name, folder, closed) = (&user.name, folder.display(), closed.display());
    format!(
        "cannot serve {folder}: {name}, as whom {what} runs, may not enter {closed}; serve a \
         folder that other users may enter, such as one below /srv, or allow it with `chmod a+x \
         {closed}`"
    )
}
