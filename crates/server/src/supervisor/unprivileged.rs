//! The rights that a child of the supervisor gives up before it works: the front, and the process
//! that orders certificates.

use std::io;

use howdah_sys::credentials::Identity;
use howdah_sys::process::{self, Pid};
use howdah_sys::signal::{self, SIGHUP, SIGINT, SIGPIPE, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};

/// Ignores the signals that service managers, terminals and administrators send to all processes:
/// only the supervisor acts on them.
///
/// # Errors
/// The system refuses.
pub(super) fn leave_signals_to_supervisor() -> io::Result<()> {
    [SIGPIPE, SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2]
        .into_iter()
        .try_for_each(signal::ignore)
}

/// Gives up this process's rights for good. It becomes `identity` if there is one, keeps no
/// capability of its user and gets none later, and no other process of that user can look into it.
/// It ends at most `orphan_seconds` after `parent`.
///
/// # Errors
/// The system refuses. The process must end then.
pub(super) fn give_up_rights(
    identity: Option<&Identity>,
    parent: Pid,
    orphan_seconds: u8,
) -> io::Result<()> {
    if let Some(identity) = identity {
        process::become_for_good(identity)?;
    }
    process::refuse_new_privileges()?;
    process::drop_capabilities_of_user()?;
    process::set_opaque(true)?;
    process::set_umask(0o077);
    process::outlive_parent_by(parent, orphan_seconds)
}
