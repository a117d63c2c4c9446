//! Isolation: what the pools and the front are kept from, beside the permissions of their users.
//!
//! ```text
//! abilities     what this machine can do
//! calls         the system calls that are refused
//! files         the files that a pool may reach
//! front         the front's own restrictions
//! leading_away  the paths that somebody's link leads into the folders of another site
//! mail          whether `mail()` works without new privileges
//! places        the folders that belong to each site
//! site_folders  the folders into which links of other sites do not lead the front
//! ```
//! The plan says what is wanted and what this machine can do. [`PoolIsolation::confinement`] makes
//! of it what the kernel is told, each time that a zygote starts: folders come and go.
//! `docs/security.md` has the table for users.

mod abilities;
mod calls;
mod files;
pub(super) mod front;
pub(super) mod leading_away;
mod mail;
mod places;
pub(crate) mod site_folders;
pub(super) mod system_folders;

use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use howdah_config::{Config, Destination, Php, Sandbox, SiteSettings};
use howdah_files::FolderPlace;
use howdah_sys::confinement::{Confinement, Resource};
use howdah_sys::credentials::Identity;
use howdah_sys::landlock::{Landlock, Ruleset};
use howdah_sys::mounts::Mounts;
use howdah_sys::remote;
use howdah_sys::shared_memory::{SharedMemory, SharedMemorySpace};

pub(crate) use self::abilities::IsolationAbilities;
use self::files::ReachableFiles;
use super::state::{StateFault, StateFolder, make_inner};
use super::survey::{SurveyAnswers, written_root};

/// The shared folders for temporary files, and the folders of a pool's state that replace them.
const TEMPORARY: [(&CStr, &CStr); 2] = [(c"/tmp", c"tmp"), (c"/var/tmp", c"var-tmp")];

/// The isolation of a pool.
#[derive(Debug, Clone)]
pub(crate) struct PoolIsolation {
    pub(crate) level: Sandbox,
    no_new_privileges: bool,
    private_tmp: bool,
    hides_processes: bool,
    /// Bytes of the pool's own `/dev/shm`; `None` if it has the machine's.
    shared_memory: Option<u64>,
    /// Whether folders of other sites are covered by mounts, and terminals are the pool's own.
    covers: bool,
    nice: Option<i32>,
    limits: Vec<(Resource, u64)>,
    /// Descriptors that a process may have open beside the pool's own.
    pub(crate) descriptors: Option<u64>,
    landlock: Option<Landlock>,
    seccomp: bool,
    reach: ReachableFiles,
    /// The pool's state folder without links, where its path could be followed, or why the link on
    /// the way is refused.
    state: Result<Option<PathBuf>, String>,
    connect: Option<Vec<Destination>>,
    /// Whether the workers have another root folder.
    changes_root: bool,
}

impl PoolIsolation {
    /// Plans the isolation of the pool of `config.sites[number]`, whose program and state folder
    /// were found. Adds to `notices` what the configuration asks for and cannot be had.
    pub(crate) fn plan(
        (config, number): (&Config, usize),
        php: &Php,
        paths: &PoolPaths<'_>,
        abilities: &IsolationAbilities,
        notices: &mut Vec<String>,
    ) -> PoolIsolation {
        let site = &config.sites[number];
        let confines = php.sandbox != Sandbox::Off;
        // The kernel takes a sandbox from those who cannot gain rights, or have all of them.
        let may_confine = php.no_new_privs || abilities.as_root;
        if confines && !may_confine {
            notices.push(format!(
                "site {}: no sandbox: with `no_new_privs = false` it needs a server that is \
                 started as root",
                site.name
            ));
        }
        let landlock = abilities.landlock.filter(|_| confines && may_confine);
        connect_notices(site, php, landlock, notices);
        if landlock.is_some() {
            notices.extend(files::left_out(site, php, paths));
        }
        let limits = &php.rlimits;
        let optional = [
            (Resource::Processes, limits.nproc),
            (Resource::FileSize, limits.fsize),
            (Resource::AddressSpace, limits.address_space),
        ];
        let has_memory = php.private_ipc && abilities.shared_memory.is_ok();
        let reach = ReachableFiles::plan((config, number), php, paths).with_memory(has_memory);
        if confines && abilities.mounts.is_err() {
            notices.extend(reach.inside().iter().map(|folder| reached(&site.name, folder)));
        }
        let given = optional.into_iter().filter_map(|(what, limit)| Some((what, limit?)));
        PoolIsolation {
            level: php.sandbox,
            no_new_privileges: php.no_new_privs,
            private_tmp: php.private_tmp
                && abilities.mounts.is_ok()
                && names_nothing_temporary(site, php, paths, notices),
            hides_processes: php.hide_processes && abilities.mounts.is_ok(),
            shared_memory: Some(php.shm_size).filter(|_| has_memory),
            covers: confines && abilities.mounts.is_ok(),
            nice: php.nice,
            limits: given.chain([(Resource::Core, limits.core)]).collect(),
            descriptors: limits.nofile,
            landlock,
            seccomp: abilities.seccomp && confines && may_confine,
            reach,
            state: planned_state(paths),
            connect: php.connect.clone(),
            changes_root: php.chroot.is_some(),
        }
    }

    /// Makes the folders that the pool's mounts need. `owner` is the user of the pool, `ours` this
    /// process's.
    ///
    /// # Errors
    /// One of them cannot be made; with the fault of the state folder, if that is the reason.
    pub(super) fn make_folders(
        &self,
        state: &StateFolder,
        (owner, ours): (&Identity, &Identity),
    ) -> Result<(), (io::Error, Option<StateFault>)> {
        for (shared, name) in TEMPORARY.iter().filter(|_| self.private_tmp) {
            make_inner(state.folder.as_fd(), name, owner, ours).map_err(|error| {
                let told = format!(
                    "the folder {} for its {}: {error}; remove it, or set `private_tmp = false`",
                    within(state, name).display(),
                    shared.to_string_lossy()
                );
                (io::Error::new(error.kind(), told), StateFault::of_inner(&error))
            })?;
        }
        Ok(())
    }

    /// Returns what the kernel is told when the zygote starts, after
    /// [`make_folders`](PoolIsolation::make_folders). `former` is the shared memory of the zygotes
    /// before, `groups` the folders with the control groups of all pools.
    ///
    /// # Errors
    /// A path has a NUL byte, or the system has no descriptors.
    pub(crate) fn confinement(
        &self,
        state: &StateFolder,
        owner: &Identity,
        former: Option<Arc<SharedMemorySpace>>,
        groups: &[PathBuf],
    ) -> io::Result<Confinement> {
        let mut mounts = Mounts::default();
        for (shared, name) in TEMPORARY.iter().filter(|_| self.private_tmp) {
            mounts.show(text(&within(state, name))?, CString::from(*shared), owner.uid);
        }
        if self.covers {
            // A start never waits for another machine. Landlock looks at no folder of others.
            let local = self.reach.to_cover().filter(|folder| remote::is_local_folder(folder));
            for folder in local.chain(groups.iter().map(PathBuf::as_path)) {
                mounts.cover(text(folder)?);
            }
            mounts.own_terminals();
        }
        if let Some(bytes) = self.shared_memory {
            mounts.own_shared_memory(SharedMemory::new(bytes, former));
        }
        if self.hides_processes {
            mounts.hide_processes();
        }
        Ok(Confinement {
            mounts,
            nice: self.nice,
            limits: self.limits.clone(),
            no_new_privileges: self.no_new_privileges,
            may_change_root: self.changes_root,
            landlock: self.ruleset()?,
            filter: self.seccomp.then(|| {
                let calls = calls::of_pool(self.level, self.connect.as_deref());
                // Workers give the right up before their first request.
                let calls = if self.changes_root {
                    calls::with_chroot(calls)
                } else {
                    calls
                };
                calls.compile()
            }),
        })
    }

    /// Returns the limits that PHP may meet while it starts, but for that of the user's processes.
    pub(crate) fn limits_of_start(&self) -> Vec<(Resource, u64)> {
        let is_own = |(what, _): &&(Resource, u64)| *what != Resource::Processes;
        self.limits.iter().filter(is_own).copied().collect()
    }

    /// Returns the place of the pool's state folder.
    ///
    /// # Errors
    /// A link on the way is not the administrator's, or leads to a folder of another user or site,
    /// or to another place than when this was planned.
    pub(crate) fn state_place(&self, state: &Path) -> io::Result<FolderPlace> {
        let planned = self.state.as_ref().map_err(|why| io::Error::other(why.clone()))?;
        let place = FolderPlace::of(state)?;
        match planned.as_ref().is_none_or(|planned| *planned == place.real) {
            true => Ok(place),
            false => Err(io::Error::other("a link on the way was exchanged; reload")),
        }
    }

    fn ruleset(&self) -> io::Result<Option<Ruleset>> {
        let Some(landlock) = self.landlock else {
            return Ok(None);
        };
        let mut ruleset = Ruleset::new(landlock);
        for (path, rights) in self.reach.rules(&mut ruleset) {
            ruleset.grant_unlinked(text(&path)?, rights);
        }
        ruleset.refuse_signals();
        ruleset.refuse_abstract_sockets();
        if self.level == Sandbox::Strict {
            ruleset.refuse_to_listen();
        }
        if let Some(destinations) = &self.connect {
            ruleset.refuse_to_connect(destinations.iter().filter_map(Destination::port));
        }
        Ok(Some(ruleset))
    }

    /// Returns whether the pool's processes may not be looked into by others of the same user.
    pub(crate) fn is_opaque(&self) -> bool {
        let dumps = self.limits.iter().any(|&(what, limit)| what == Resource::Core && limit > 0);
        self.level != Sandbox::Off && !dumps
    }

    /// Returns whether each worker keeps its signals to itself and its children.
    pub(crate) fn separates_workers(&self) -> bool {
        self.level == Sandbox::Strict
            && self.no_new_privileges
            && self.landlock.is_some_and(Landlock::has_scopes)
    }

    /// Returns whether the pool has an IPC namespace and a `/dev/shm` of its own.
    pub(crate) fn has_own_shared_memory(&self) -> bool {
        self.shared_memory.is_some()
    }

    /// Describes the isolation in a few words.
    pub(crate) fn summary(&self) -> String {
        let mut parts = vec![format!("sandbox {}", self.level.name())];
        if self.level != Sandbox::Off {
            let by = [
                self.landlock.map(|landlock| format!("Landlock {}", landlock.abi)),
                self.seccomp.then(|| "seccomp".to_owned()),
            ];
            let by: Vec<String> = by.into_iter().flatten().collect();
            let by = if by.is_empty() {
                "not enforced".to_owned()
            } else {
                by.join(", ")
            };
            parts[0].push_str(&format!(" ({by})"));
        }
        if self.changes_root {
            parts.push("own root folder".to_owned());
        }
        for (is_so, yes, no) in [
            (self.no_new_privileges, "no new privileges", "new privileges"),
            (self.private_tmp, "private /tmp", "shared /tmp"),
            (self.has_own_shared_memory(), "private shared memory", "common shared memory"),
            (self.hides_processes, "hidden processes", "visible processes"),
        ] {
            parts.push(if is_so { yes } else { no }.to_owned());
        }
        parts.join(", ")
    }
}

/// Paths of a pool that the plan of its generation found.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PoolPaths<'p> {
    pub(crate) program: &'p Path,
    pub(crate) state: &'p Path,
    /// State folders of all pools, by site.
    pub(crate) states: &'p [Option<PathBuf>],
    /// The answers about the paths of the configuration.
    pub(crate) answers: &'p SurveyAnswers,
    /// Folders with further ini files, from the environment.
    pub(crate) ini_folders: &'p [PathBuf],
}

/// Returns the value for [`PoolIsolation::state`].
fn planned_state(paths: &PoolPaths<'_>) -> Result<Option<PathBuf>, String> {
    let Some(found) = paths.answers.of(paths.state).filter(|found| found.is_found()) else {
        return Ok(None);
    };
    match found.refused_link() {
        Some((link, why)) => Err(format!("the link {} {why}", link.display())),
        None => Ok(Some(found.real.clone())),
    }
}

/// Returns the notice that a pool reaches a folder of another site.
fn reached(site: &str, folder: &Path) -> String {
    format!(
        "site {site} reaches {}, which belongs to another site, because of `{{host}}` in its root; \
         keep that site elsewhere",
        folder.display()
    )
}

/// Says where `connect` is enforced less than it reads.
fn connect_notices(
    site: &SiteSettings,
    php: &Php,
    landlock: Option<Landlock>,
    notices: &mut Vec<String>,
) {
    let Some(destinations) = &php.connect else {
        return;
    };
    let name = &site.name;
    let ports: Vec<String> = destinations
        .iter()
        .filter(|destination| matches!(destination, Destination::Tcp(_)))
        .filter_map(|destination| destination.port().map(|port| port.to_string()))
        .collect();
    let has_port = destinations.iter().any(|destination| destination.port().is_some());
    if has_port && !landlock.is_some_and(Landlock::has_ports) {
        notices.push(format!(
            "site {name}: `connect` allows all TCP ports, because this kernel's Landlock cannot \
             compare them (Linux 6.7 can)"
        ));
    } else if !ports.is_empty() {
        notices.push(format!(
            "site {name}: `connect` allows port {} of every address, because the kernel compares \
             ports alone",
            ports.join(", ")
        ));
    }
}

/// Returns whether the pool needs nothing below the shared folders for temporary files.
fn names_nothing_temporary(
    site: &SiteSettings,
    php: &Php,
    paths: &PoolPaths<'_>,
    notices: &mut Vec<String>,
) -> bool {
    let sockets = php.connect.iter().flatten().filter_map(|destination| match destination {
        Destination::Unix(path) => Some(path.as_path()),
        _ => None,
    });
    let named = [written_root(site), paths.state]
        .into_iter()
        .chain(php.ini_file.as_deref())
        .chain(php.readable.iter().map(PathBuf::as_path))
        .chain(php.writable.iter().map(PathBuf::as_path))
        .chain(sockets)
        .map(|path| (path, paths.answers.of(path).map_or(path, |answer| &answer.real)));
    let program = files::real(paths.program);
    for (path, real) in named.chain([(paths.program, program.as_path())]) {
        if TEMPORARY
            .iter()
            .any(|(shared, _)| real.starts_with(OsStr::from_bytes(shared.to_bytes())))
        {
            notices.push(format!(
                "site {} shares /tmp and /var/tmp with other users, because its {} is there",
                site.name,
                path.display()
            ));
            return false;
        }
    }
    true
}

/// The path of a folder in a state folder.
fn within(state: &StateFolder, name: &CStr) -> PathBuf {
    state.real.join(OsStr::from_bytes(name.to_bytes()))
}

fn text(path: &Path) -> io::Result<CString> {
    Ok(CString::new(path.as_os_str().as_bytes())?)
}

#[cfg(test)]
mod tests;
