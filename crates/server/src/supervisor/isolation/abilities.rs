//! The means of isolation that this machine has.

use std::io;
use std::path::Path;

use howdah_config::{Config, Sandbox};
use howdah_sys::credentials::Identity;
use howdah_sys::landlock::Landlock;
use howdah_sys::mounts;
use howdah_sys::seccomp;
use howdah_sys::shared_memory;

use super::mail;

/// The means of isolation that this machine and the supervisor's user allow.
#[derive(Debug, Clone)]
pub(crate) struct IsolationAbilities {
    pub(crate) landlock: Option<Landlock>,
    pub(crate) seccomp: bool,
    /// Whether pools can have mounts of their own, or why not.
    pub(crate) mounts: Result<(), String>,
    /// Whether pools can have shared memory of their own, or why not.
    pub(crate) shared_memory: Result<(), String>,
    /// Whether System V shared memory can be limited, or why not.
    pub(crate) shared_memory_limits: Result<(), String>,
    pub(super) as_root: bool,
}

impl IsolationAbilities {
    /// Asks the kernel.
    pub(crate) fn find(identity: &Identity) -> IsolationAbilities {
        let tried = |what: &str, probe: fn() -> io::Result<()>| {
            if !identity.is_root() {
                return Err("the server was not started as root".to_owned());
            }
            probe().map_err(|error| {
                format!(
                    "the kernel refuses {what} ({error}); a container needs CAP_SYS_ADMIN for them"
                )
            })
        };
        let mounts = tried("mounts", mounts::probe);
        let shared_memory = mounts
            .clone()
            .and_then(|()| tried("namespaces of shared memory", shared_memory::probe));
        IsolationAbilities {
            landlock: Landlock::of_kernel(),
            seccomp: seccomp::is_available(),
            mounts,
            shared_memory_limits: shared_memory
                .clone()
                .and_then(|()| tried("limits of shared memory", shared_memory::probe_limits)),
            shared_memory,
            as_root: identity.is_root(),
        }
    }

    /// Describes what is missing on this machine and concerns this configuration.
    pub(crate) fn notices(&self, config: &Config) -> Vec<String> {
        let pools = || config.sites.iter().filter_map(|site| site.php.as_ref());
        let confines = config.sandbox || pools().any(|php| php.sandbox != Sandbox::Off);
        let mut notices = Vec::new();
        if confines {
            match self.landlock {
                None => notices.push(
                    "this kernel has no Landlock, or one older than Linux 5.19: the sandbox keeps \
                     pools and front from no files, ports and signals; add `landlock` to the \
                     kernel's `lsm=` setting"
                        .to_owned(),
                ),
                Some(landlock) if !landlock.has_scopes() => notices.push(
                    "this kernel's Landlock is older than Linux 6.12: the sandbox does not keep \
                     pools of the same user from sending each other signals"
                        .to_owned(),
                ),
                Some(_) => {}
            }
            if !self.seccomp {
                notices.push(
                    "this kernel has no seccomp filters: the sandbox refuses no system calls"
                        .to_owned(),
                );
            }
        }
        if let Err(why) = &self.mounts
            && pools().any(|php| php.private_tmp || php.hide_processes)
        {
            notices.push(format!(
                "pools share /tmp with other users and see their processes (`private_tmp`, \
                 `hide_processes`): {why}"
            ));
        }
        let has_own_memory = || pools().any(|php| php.private_ipc);
        match (&self.shared_memory, &self.shared_memory_limits) {
            (Err(why), _) if has_own_memory() => notices.push(format!(
                "pools share /dev/shm and System V shared memory with other users \
                 (`private_ipc`): {why}"
            )),
            (Ok(()), Err(why)) if has_own_memory() => notices
                .push(format!("a pool's System V shared memory has no limit (`shm_size`): {why}")),
            _ => {}
        }
        notices.extend(mail::notice(config, &mail::PROGRAMS.map(Path::new)));
        notices
    }
}
