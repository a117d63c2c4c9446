//! The pools of a plan: programs, folders, limits and settings.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use howdah_config::{Config, EncodedSlashes, Php, SiteSettings};
use howdah_ipc::control::PoolSettings;
use howdah_sys::credentials::Identity;

use super::PlanFinder;
use crate::supervisor::cgroups::GroupLimits;
use crate::supervisor::environment::Environment;
use crate::supervisor::isolation::{PoolIsolation, PoolPaths};
use crate::supervisor::php_programs;
use crate::supervisor::state::{self, StateFolder};
use crate::supervisor::survey::{self, PathState, written_root};

/// The parameters for starting a pool.
#[derive(Debug, Clone)]
pub(crate) struct PoolPlan {
    /// Index of the pool's site in the configuration.
    pub(crate) site: usize,
    pub(crate) program: PathBuf,
    /// The user that the zygote runs as; `None` for the supervisor's user.
    pub(crate) identity: Option<Identity>,
    pub(crate) workers: usize,
    pub(crate) isolation: PoolIsolation,
    /// File mode creation mask.
    pub(crate) umask: u32,
    /// The reason why no zygote can be started: the file system of the site's root hangs. `None`
    /// otherwise.
    pub(crate) silence: Option<String>,
    /// Whether a second zygote stands by.
    pub(crate) standby: bool,
    /// Whether opcache gets the scripts of the former generation before the pool serves.
    pub(crate) warms_opcache: bool,
    /// The pool's limits in its control groups; `None` if the pool gets no control groups.
    pub(crate) limits: Option<GroupLimits>,
    pub(crate) settings: PoolSettings,
}

impl PoolPlan {
    /// The user that the zygote runs as.
    pub(crate) fn owner<'p>(&'p self, environment: &'p Environment) -> &'p Identity {
        self.identity.as_ref().unwrap_or(&environment.identity)
    }

    /// Makes sure that the pool's state folder is there.
    ///
    /// # Errors
    /// The reason, as text for the operator.
    pub(crate) fn prepare_state(&self, environment: &Environment) -> Result<StateFolder, String> {
        let folder: &Path = self.settings.state_dir.as_ref();
        let place = self.isolation.state_place(folder);
        let place =
            place.map_err(|error| format!("the state folder {}: {error}", folder.display()))?;
        state::prepare(place, self.owner(environment), &environment.identity)
    }
}

impl PlanFinder<'_> {
    /// Returns the parameters of a site's pool; `None` after an error.
    pub(super) fn pool(
        &mut self,
        number: usize,
        site: &SiteSettings,
        php: &Php,
        config: &Config,
        front: Option<&Identity>,
    ) -> Option<PoolPlan> {
        let identity = match front {
            None => None,
            Some(front) => Some(self.pool_identity(site, php, config, front)?),
        };
        let program = self.program(site, php)?;
        let state_dir = self.states.get(number).cloned().flatten()?;
        let workers = php.worker_count(self.environment.processors);
        let paths = PoolPaths {
            program: &program,
            state: &state_dir,
            states: &self.states,
            answers: self.answers,
            ini_folders: &self.environment.ini_folders(),
        };
        let isolation = PoolIsolation::plan(
            (self.config, number),
            php,
            &paths,
            &self.abilities,
            &mut self.notices,
        );
        let own = own_processes(workers, php);
        let limits = group_limits(php, own);
        self.look_at_limits(site, (workers, own), limits);
        self.look_at_nofile(site, php, workers);
        self.look_at_priority(site, php);
        self.look_at_chroot(site, php, identity.as_ref());
        self.look_for_folders(site, php);
        self.look_for_ini_file(site, php);
        self.look_at_state_links(site, &state_dir);
        let chroot = php.chroot.as_deref().unwrap_or(Path::new(""));
        let chroot_folder = self.chroot_folder(chroot);
        let folders = (&*state_dir, chroot, &*chroot_folder);
        let settings = self.pool_settings(site, php, folders, (&isolation, identity.as_ref()))?;
        Some(PoolPlan {
            site: number,
            program,
            identity,
            workers,
            umask: php.umask,
            silence: self.answers.silence(written_root(site)),
            standby: php.standby,
            warms_opcache: php.opcache_warmup,
            limits: config.cgroups.then_some(limits),
            settings,
            isolation,
        })
    }

    /// Returns the folder that `chroot` names. A link of another user, or of nobody yet, is left as
    /// it is: the zygote refuses it.
    fn chroot_folder(&self, chroot: &Path) -> PathBuf {
        let found = self.answers.of(chroot).filter(|found| found.refused_link().is_none());
        found.map_or(chroot, |found| &found.real).to_owned()
    }

    /// Returns the settings that a pool's zygote needs before PHP starts; `None` after an error.
    fn pool_settings(
        &mut self,
        site: &SiteSettings,
        php: &Php,
        (state_dir, chroot, chroot_folder): (&Path, &Path, &Path),
        (isolation, user): (&PoolIsolation, Option<&Identity>),
    ) -> Option<PoolSettings> {
        let ours = &self.environment.identity;
        Some(PoolSettings {
            pool: site.name.clone(),
            ini_file: self.text(
                site,
                "ini_file",
                php.ini_file.as_deref().unwrap_or(Path::new("")),
            )?,
            max_requests: php.max_requests,
            max_memory: php.max_memory.unwrap_or(0),
            ini: php.ini.clone(),
            admin_ini: admin_ini(php),
            environment: self.environment.script_environment(&php.env, &php.pass_env),
            state_dir: self.text(site, "state_dir", state_dir)?,
            repairs_state: user.is_some_and(|user| state::is_anothers(user, ours)),
            allows_encoded_slashes: site.encoded_slashes != EncodedSlashes::Refuse,
            decodes_encoded_slashes: site.encoded_slashes == EncodedSlashes::Decode,
            working_directory: self.text(
                site,
                "chdir",
                php.chdir.as_deref().unwrap_or(Path::new("")),
            )?,
            chroot: self.text(site, "chroot", chroot)?.trim_end_matches('/').to_owned(),
            chroot_folder: self.text(site, "chroot", chroot_folder)?,
            // A reload sets them.
            former_release: String::new(),
            release: String::new(),
            pcntl: php.pcntl,
            sapi: php.sapi.name().to_owned(),
            modules: {
                let chosen: Vec<Box<str>> =
                    site.modules.iter().map(|name| name.as_str().into()).collect();
                howdah_htaccess::compile::module_names(&chosen)
            },
            is_opaque: isolation.is_opaque(),
            separates_workers: isolation.separates_workers(),
            slow_milliseconds: php
                .slow_after()
                .map_or(0, |after| u64::try_from(after.as_millis()).unwrap_or(u64::MAX)),
            slow_trace_depth: php.slow_trace_depth,
            php_version: php.version.clone().unwrap_or_default(),
            processor_seconds: php.rlimits.cpu.map_or(0, |time| time.as_secs_f64().ceil() as u64),
        })
    }

    /// Refuses limits with which PHP could not even start.
    fn look_at_limits(
        &mut self,
        site: &SiteSettings,
        (workers, needed): (usize, u64),
        limits: GroupLimits,
    ) {
        let name = &site.name;
        if let Some(pids) = limits.pids.filter(|pids| *pids < needed) {
            self.errors.push(format!(
                "site {name}: `php.pids` = {pids} is too few for {workers} workers and {ZYGOTES} \
                 zygotes; give at least {needed}, or fewer `workers`"
            ));
        }
        if limits.memory.is_some_and(|memory| memory < LEAST_MEMORY) {
            let least = LEAST_MEMORY >> 20;
            self.errors.push(format!(
                "site {name}: `php.memory` is too little for PHP itself; give at least \"{least}M\""
            ));
        }
    }

    /// Refuses a priority that only root may give.
    fn look_at_priority(&mut self, site: &SiteSettings, php: &Php) {
        if let Some(nice) = php.nice.filter(|nice| *nice < 0)
            && !self.environment.identity.is_root()
        {
            self.errors.push(format!(
                "site {}: `php.nice` = {nice} needs a server that is started as root; give 0 or \
                 more",
                site.name
            ));
        }
    }

    /// Refuses another root folder where it would be no protection, or cannot be had.
    fn look_at_chroot(&mut self, site: &SiteSettings, php: &Php, identity: Option<&Identity>) {
        if php.chroot.is_none() || identity.is_some_and(|identity| !identity.is_root()) {
            return;
        }
        let why = match identity {
            Some(_) => "scripts of root can leave it; name another `user` in [site.php]",
            None => "it needs a server that is started as root",
        };
        self.errors.push(format!("site {}: `php.chroot`: {why}", site.name));
    }

    /// Warns of folders that are not there: the pool will not start.
    fn look_for_folders(&mut self, site: &SiteSettings, php: &Php) {
        let folders = [("chroot", php.chroot.clone()), ("chdir", survey::working_directory(php))];
        for (key, folder) in folders {
            let Some(folder) = folder else { continue };
            let why = match self.answers.of(&folder).map(|found| &found.state) {
                Some(PathState::Missing(why) | PathState::Failed(why)) => why.as_str(),
                Some(PathState::Other) => "it is no folder",
                Some(PathState::Folder | PathState::Silent) | None => continue,
            };
            self.warnings.push(format!(
                "site {}: `php.{key}`: {}: {why}; PHP does not start without the folder",
                site.name,
                folder.display()
            ));
        }
    }

    /// Warns of a php.ini that is not there: the pool will not start.
    fn look_for_ini_file(&mut self, site: &SiteSettings, php: &Php) {
        let Some(file) = &php.ini_file else { return };
        let why = match self.answers.of(file).map(|found| &found.state) {
            Some(PathState::Missing(why) | PathState::Failed(why)) => why.as_str(),
            Some(PathState::Folder) => "it is a folder",
            Some(PathState::Other | PathState::Silent) | None => return,
        };
        self.warnings.push(format!(
            "site {}: `php.ini_file`: {}: {why}; PHP does not start without the file",
            site.name,
            file.display()
        ));
    }

    /// Warns of a link that root does not follow to the state folder: the pool will not start.
    fn look_at_state_links(&mut self, site: &SiteSettings, state: &Path) {
        if self.environment.identity.is_root()
            && let Some(link) = self.answers.of(state).and_then(|found| found.first_link.as_ref())
        {
            self.warnings.push(format!(
                "site {}: `php.state_dir`: the link {} is not root's; PHP does not start behind \
                 it; give the path without the link",
                site.name,
                link.display()
            ));
        }
    }

    fn program(&mut self, site: &SiteSettings, php: &Php) -> Option<PathBuf> {
        let name = &site.name;
        if let Some(program) = &php.program {
            if is_program(program) {
                return Some(program.clone());
            }
            let error = format!(
                "site {name}: `php.program`: {} is not an executable file",
                program.display()
            );
            self.errors.push(error);
            return None;
        }
        let found = php_programs::find(php.version.as_deref(), self.environment);
        found.map_err(|error| self.errors.push(format!("site {name}: {error}"))).ok()
    }

    fn text(&mut self, site: &SiteSettings, key: &str, path: &Path) -> Option<String> {
        let text = path.to_str().map(str::to_owned);
        if text.is_none() {
            let error = format!("site {}: `php.{key}`: {} is not UTF-8", site.name, path.display());
            self.errors.push(error);
        }
        text
    }
}

/// The folder of each site's pool for its state; `None` for a site without PHP.
pub(super) fn state_folders(config: &Config, environment: &Environment) -> Vec<Option<PathBuf>> {
    let of_site = |site: &SiteSettings| {
        let php = site.php.as_ref()?;
        Some(match &environment.state {
            Some(folder) if php.state_dir.is_none() && php.chroot.is_none() => {
                folder.join(&site.name)
            }
            _ => site.state_dir(
                environment.identity.is_root(),
                environment.identity.uid,
                &environment.temporary,
            ),
        })
    };
    config.sites.iter().map(of_site).collect()
}

/// The settings that scripts cannot change, with the functions that are turned off.
fn admin_ini(php: &Php) -> Vec<(String, String)> {
    let mut settings = php.admin_ini.clone();
    if !php.disable_functions.is_empty() {
        settings.push(("disable_functions".to_owned(), php.disable_functions.join(",")));
    }
    settings
}

pub(in crate::supervisor) fn is_program(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// The processes and threads of a pool without those that scripts start.
fn own_processes(workers: usize, php: &Php) -> u64 {
    // Each worker has a thread for its slow scripts.
    let each = if php.slow_after().is_some() { 2 } else { 1 };
    (workers as u64).saturating_mul(each).saturating_add(ZYGOTES)
}

/// Returns the limits of a pool's control group. `own`: its [`own_processes`].
fn group_limits(php: &Php, own: u64) -> GroupLimits {
    GroupLimits {
        memory: php.memory,
        pids: php.pids.filter(|pids| *pids > 0),
        usual_pids: php.pids.is_none().then(|| own.saturating_mul(4).max(USUAL_PIDS)),
        cpu_weight: php.cpu_weight,
    }
}

/// Processes and threads of a pool where `pids` is unset. Beyond them starting one fails.
const USUAL_PIDS: u64 = 1024;
/// The zygotes that a pool has at most.
const ZYGOTES: u64 = 2;
/// Bytes that PHP with the usual extensions takes before any script runs.
const LEAST_MEMORY: u64 = 32 << 20;

// The configuration refuses what a pool's shared memory has no room for.
const _: () = assert!(howdah_config::MOST_WORKERS == howdah_ipc::layout::MOST_WORKERS);
