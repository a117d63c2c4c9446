//! The front's own restrictions, which it takes on after its start.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;

use howdah_config::Config;
use howdah_sys::landlock::{FileRights, Landlock, Ruleset};
use howdah_sys::seccomp;

use super::calls;

/// The port of name servers.
const DNS: u16 = 53;

/// Confines this process and the threads that it will start. It must have `no_new_privs` set.
///
/// Rules that the kernel does not know are left out; the supervisor has said so.
///
/// # Errors
/// The kernel refuses.
pub(in super::super) fn confine(config: &Config) -> io::Result<()> {
    if let Some(landlock) = Landlock::of_kernel() {
        ruleset(landlock, config)?.enforce()?;
    }
    if seccomp::is_available() {
        calls::of_front().compile().install()?;
    }
    Ok(())
}

/// Executes nothing, writes temporary files only (logs are open already), connects to upstreams
/// only, sends no signals.
///
/// Reading stays with the permissions of the front's user: document roots may be links, and lists
/// of passwords lie anywhere.
fn ruleset(landlock: Landlock, config: &Config) -> io::Result<Ruleset> {
    let mut ruleset = Ruleset::new(landlock);
    ruleset.refuse_files(
        FileRights::EXECUTE
            .and(FileRights::WRITE)
            .and(FileRights::MAKE_DEVICES)
            .and(FileRights::CONTROL_DEVICES),
    );
    let temporary = CString::new(std::env::temp_dir().as_os_str().as_bytes())?;
    ruleset.grant(temporary, FileRights::WRITE);
    ruleset.grant(c"/dev/null".to_owned(), FileRights::WRITE_EXISTING);
    ruleset.refuse_to_listen();
    let upstreams = config.sites.iter().flat_map(|site| &site.upstreams);
    let ports = upstreams.clone().filter(|upstream| upstream.socket.is_none());
    // Answers that are too long for a packet come over TCP.
    let names = upstreams.filter(|upstream| upstream.name().is_some()).map(|_| DNS);
    ruleset.refuse_to_connect(ports.map(|upstream| upstream.port).chain(names));
    ruleset.refuse_signals();
    ruleset.refuse_abstract_sockets();
    Ok(ruleset)
}
