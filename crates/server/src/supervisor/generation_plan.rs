//! The plan of a generation: a configuration with the users, programs and folders that it names.

mod pairs;
mod roots;
mod users;

use std::fs::Metadata;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use howdah_config::{Config, ListenAddress, Php, Site};
use howdah_ipc::control::PoolSettings;
use howdah_sys::credentials::Identity;

use super::cgroups::PoolLimits;
use super::environment::Environment;
use super::isolation::{Abilities, PoolIsolation, PoolPaths};
use super::orders::plan::{self, OrderPlan};
use super::php_programs;
use crate::tls::{self, SitePairs, UpstreamSettings};

pub(crate) use self::pairs::{FormerFiles, UnusableFiles};

/// A configuration whose users, programs and folders were found on this machine.
#[derive(Debug, Clone)]
pub(crate) struct GenerationPlan {
    pub(crate) config: Arc<Config>,
    /// The user that the front runs as; `None` for the supervisor's user.
    pub(crate) front: Option<Identity>,
    pub(crate) pools: Vec<PoolPlan>,
    /// The process that orders certificates; `None` if no site needs one.
    pub(crate) orders: Option<OrderPlan>,
    /// The certificates and keys of the sites.
    pub(crate) certificates: Arc<SitePairs>,
    /// By site, why its certificates or the authorities of its clients cannot be used; `None` where
    /// they can be, or where there are none.
    pub(crate) closed: Vec<Option<String>>,
    /// By site, the authorities of clients in PEM; `None` where clients are asked for nothing, and
    /// where they cannot be used.
    pub(crate) client_authorities: Vec<Option<Vec<u8>>>,
    /// By site, the settings of TLS to its upstreams.
    pub(crate) upstream_tls: UpstreamSettings,
    /// Warnings for the log about probable mistakes.
    pub(crate) warnings: Vec<String>,
    /// Notices for the log about protection that this machine does not offer.
    pub(crate) notices: Vec<String>,
    /// The programs that run PHP, whether or not a site uses them.
    pub(crate) php_programs: Vec<PathBuf>,
}

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
    /// Whether a second zygote stands by.
    pub(crate) standby: bool,
    /// Whether opcache gets the scripts of the former generation before the pool serves.
    pub(crate) warms_opcache: bool,
    /// The pool's limits in its control groups; `None` if the pool gets no control groups.
    pub(crate) limits: Option<PoolLimits>,
    pub(crate) settings: PoolSettings,
}

impl GenerationPlan {
    /// Looks up everything that `config` names.
    ///
    /// # Errors
    /// All errors that were found.
    pub(crate) fn find(
        config: Config,
        environment: &Environment,
        unusable_files: UnusableFiles<'_>,
    ) -> Result<GenerationPlan, Vec<String>> {
        let abilities = Abilities::find(&environment.identity);
        let mut finder = Finder {
            environment,
            config: &config,
            states: state_folders(&config, environment),
            notices: abilities.notices(&config),
            abilities,
            unusable_files,
            closed: vec![None; config.sites.len()],
            closes_to_clients: false,
            errors: Vec::new(),
            warnings: Vec::new(),
        };
        let front = finder.front(&config);
        finder.warn_of_open_admin(&config);
        finder.tell_of_listeners_without_http3(&config);
        let sites = config.sites.iter().enumerate();
        let mut certificates: SitePairs =
            sites.map(|(number, site)| finder.pairs(number, site)).collect();
        let sites = config.sites.iter().enumerate();
        let client_authorities =
            sites.map(|(number, site)| finder.authorities(number, site)).collect();
        finder.look_for_a_site(&config);
        let upstream_tls = config.sites.iter().map(|site| finder.upstream_tls(site)).collect();
        let mut pools = Vec::new();
        for (number, site) in config.sites.iter().enumerate() {
            finder.look_at_root(site, front.as_ref());
            if let Some(php) = &site.php
                && let Some(pool) = finder.pool(number, site, php, &config, front.as_ref())
            {
                pools.push(pool);
            }
        }
        let orders = finder.orders(front.as_ref());
        for (site, pairs) in config.sites.iter().zip(&mut certificates) {
            if let Some(plan) = orders.as_ref().filter(|_| plan::is_ordered(site)) {
                let (stored, mistakes) = plan.stored(&config, site);
                *pairs = stored;
                finder.warnings.extend(mistakes);
            }
        }
        if !finder.errors.is_empty() {
            return Err(finder.errors);
        }
        let Finder { warnings, notices, closed, .. } = finder;
        Ok(GenerationPlan {
            config: Arc::new(config),
            front,
            pools,
            orders,
            certificates: Arc::new(certificates),
            closed,
            client_authorities,
            upstream_tls,
            warnings,
            notices,
            php_programs: php_programs::all(environment),
        })
    }
}

struct Finder<'s> {
    environment: &'s Environment,
    config: &'s Config,
    /// State folders of the pools, by site.
    states: Vec<Option<PathBuf>>,
    abilities: Abilities,
    unusable_files: UnusableFiles<'s>,
    /// By site, why it is closed.
    closed: Vec<Option<String>>,
    /// Whether a site is closed because the authorities of its clients cannot be used.
    closes_to_clients: bool,
    errors: Vec<String>,
    warnings: Vec<String>,
    notices: Vec<String>,
}

impl Finder<'_> {
    /// Names the listeners with TLS that have no HTTP/3 because of the PROXY protocol.
    fn tell_of_listeners_without_http3(&mut self, config: &Config) {
        let has_sites = config.sites.iter().any(|site| site.tls.is_on());
        if !config.http3.enabled || !has_sites {
            return;
        }
        for listener in config.listen.iter().filter(|own| own.tls && own.proxy_protocol) {
            self.notices.push(format!(
                "no HTTP/3 on {}, because of `proxy_protocol`: packets of UDP carry no such \
                 header; clients use HTTP/1 and HTTP/2 there",
                listener.address
            ));
        }
    }

    /// Warns of an admin listener that other machines can reach.
    fn warn_of_open_admin(&mut self, config: &Config) {
        for address in &config.admin {
            if let ListenAddress::Tcp(address) = address
                && !address.ip().is_loopback()
            {
                self.warnings.push(format!(
                    "`admin` listens on {address}, where other machines may reach it and see the \
                     URLs of all sites; name a loopback address or a Unix socket, or let a \
                     firewall protect the port"
                ));
            }
        }
    }

    fn orders(&mut self, front: Option<&Identity>) -> Option<OrderPlan> {
        let found = OrderPlan::find(self.config, self.environment, front);
        let plan = found.map_err(|error| self.errors.push(error)).ok().flatten()?;
        for (name, reason) in &plan.left_out {
            self.notices.push(format!("{name} gets no certificate: {reason}"));
        }
        for name in &plan.on_demand {
            self.notices.push(format!("certificates for {name}: {}", plan.about_demand()));
        }
        Some(plan)
    }

    /// Makes the settings of TLS to a site's upstreams.
    fn upstream_tls(&mut self, site: &Site) -> Option<Arc<rustls::ClientConfig>> {
        let made = tls::upstream_settings(site)?;
        made.map_err(|why| self.errors.push(format!("site {}: {why}", site.name))).ok()
    }

    fn pool(
        &mut self,
        number: usize,
        site: &Site,
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
            ini_folders: &self.environment.ini_folders(),
        };
        let isolation = PoolIsolation::plan(
            (self.config, number),
            php,
            &paths,
            &self.abilities,
            &mut self.notices,
        );
        let limits = PoolLimits {
            memory: php.memory,
            pids: php.pids,
            cpu_weight: php.cpu_weight,
        };
        self.look_at_limits(site, (workers, php.slow_after().is_some()), limits);
        self.look_at_priority(site, php);
        Some(PoolPlan {
            site: number,
            program,
            identity,
            workers,
            umask: php.umask,
            standby: php.standby,
            warms_opcache: php.opcache_warmup,
            limits: config.cgroups.then_some(limits),
            settings: PoolSettings {
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
                state_dir: self.text(site, "state_dir", &state_dir)?,
                working_directory: self.text(
                    site,
                    "chdir",
                    php.chdir.as_deref().unwrap_or(Path::new("")),
                )?,
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
                processor_seconds: php
                    .rlimits
                    .cpu
                    .map_or(0, |time| time.as_secs_f64().ceil() as u64),
            },
            isolation,
        })
    }

    /// Refuses limits with which PHP could not even start.
    fn look_at_limits(
        &mut self,
        site: &Site,
        (workers, has_slow_log): (usize, bool),
        limits: PoolLimits,
    ) {
        let name = &site.name;
        // Each worker has a thread for its slow scripts.
        let each = if has_slow_log { 2 } else { 1 };
        let needed = workers as u64 * each + ZYGOTES;
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
    fn look_at_priority(&mut self, site: &Site, php: &Php) {
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

    fn program(&mut self, site: &Site, php: &Php) -> Option<PathBuf> {
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

    fn text(&mut self, site: &Site, key: &str, path: &Path) -> Option<String> {
        let text = path.to_str().map(str::to_owned);
        if text.is_none() {
            let error = format!("site {}: `php.{key}`: {} is not UTF-8", site.name, path.display());
            self.errors.push(error);
        }
        text
    }
}

/// The folder of each site's pool for its state; `None` for a site without PHP.
fn state_folders(config: &Config, environment: &Environment) -> Vec<Option<PathBuf>> {
    let of_site = |site: &Site| {
        let php = site.php.as_ref()?;
        Some(match &environment.state {
            Some(folder) if php.state_dir.is_none() => folder.join(&site.name),
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

pub(super) fn is_program(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// Checks the mode bits. Access control lists may grant other rights, therefore the result is used
/// for a warning only.
fn may_enter(who: &Identity, folder: &Metadata) -> bool {
    let shift = match () {
        () if who.is_root() => return true,
        () if folder.uid() == who.uid => 6,
        () if who.groups.contains(&folder.gid()) || who.gid == folder.gid() => 3,
        () => 0,
    };
    folder.mode() >> shift & 1 != 0
}

/// The zygotes that a pool has at most.
const ZYGOTES: u64 = 2;
/// Bytes that PHP with the usual extensions takes before any script runs.
const LEAST_MEMORY: u64 = 32 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use howdah_config::DirectoryOptions;

    fn find(config: Config, environment: &Environment) -> Result<GenerationPlan, Vec<String>> {
        GenerationPlan::find(config, environment, UnusableFiles::Refuse)
    }

    fn as_user(uid: u32) -> Environment {
        Environment {
            identity: Identity {
                name: "somebody".into(),
                uid,
                gid: uid,
                groups: vec![uid],
            },
            executable: "/no/such/bin/howdah".into(),
            temporary: "/tmp".into(),
            path: "/usr/local/bin:/bin".into(),
            runtime: None,
            processors: 2,
            descriptor_limit: (1024, 4096),
            state: None,
            variables: Vec::new(),
            for_manager: Vec::new(),
            spare_user: std::cell::OnceCell::new(),
            cgroups: None,
            pool_memory: Default::default(),
        }
    }

    fn config(php: &str) -> Config {
        let text = format!(
            "[[site]]\nname = \"shop\"\nroot = \"/tmp\"\n[site.php]\nprogram = \"/bin/sh\"\n{php}"
        );
        Config::parse(&text, "howdah.toml").unwrap()
    }

    #[test]
    fn an_ordinary_user_runs_everything_itself() {
        let found = find(config("user = \"root\"\n"), &as_user(1000)).unwrap();
        assert_eq!(found.front, None);
        assert_eq!(found.pools[0].identity, None);
        assert_eq!(found.pools[0].settings.state_dir, "/tmp/howdah-1000/shop");
        assert_eq!(found.pools[0].workers, 8);
    }

    #[test]
    fn root_hands_over_to_two_users() {
        let found = find(config(""), &as_user(0)).unwrap();
        let front = found.front.unwrap();
        let pool = found.pools[0].identity.as_ref().unwrap();
        assert!(["www-data", "nobody"].contains(&pool.name.as_str()));
        assert_ne!(front.uid, pool.uid);
        assert!(!front.is_root());
        let is_system_user = front.name == "howdah";
        let warned = found.warnings.iter().any(|warning| warning.contains("create it with"));
        assert_ne!(is_system_user, warned, "{front:?} {:?}", found.warnings);
        assert!(is_system_user || (61184..=65519).contains(&front.uid), "{front:?}");
        if pool.name == "www-data" {
            assert_eq!(front.gid, pool.gid);
            assert!(pool.groups.iter().all(|group| front.groups.contains(group)), "{front:?}");
        }
        assert_eq!(found.pools[0].settings.state_dir, "/var/lib/howdah/shop");
    }

    #[test]
    fn the_user_of_the_front_is_no_pool_s() {
        let mut named = config("");
        named.user = Some("daemon".into());
        named.sites[0].php.as_mut().unwrap().user = Some("daemon".into());
        let errors = find(named, &as_user(0)).unwrap_err();
        assert!(errors[0].contains("site shop: its pool would run as daemon"), "{errors:?}");
        // The check of the names is the configuration's. This is the same user by number.
        let text = "user = \"root\"\n[[site]]\nname = \"shop\"\nroot = \"/tmp\"\n[site.php]\n\
            user = \"daemon\"\n";
        let mut found = Config::parse(text, "howdah.toml").unwrap();
        found.user = Some("daemon".into());
        let errors = find(found, &as_user(0)).unwrap_err();
        assert!(errors[0].starts_with("howdah.toml:6:8: site shop: its pool"), "{errors:?}");
    }

    #[test]
    fn php_as_root_is_warned_of() {
        let found = find(config("user = \"root\"\n"), &as_user(0)).unwrap();
        assert!(
            found.warnings.iter().any(|warning| warning.contains("PHP runs as root")),
            "{:?}",
            found.warnings
        );
    }

    #[test]
    fn every_error_is_told() {
        let mut wrong = config("user = \"no-such-user\"\n");
        wrong.group = Some("no-such-group".into());
        wrong.user = Some("daemon".into());
        let errors = find(wrong, &as_user(0)).unwrap_err();
        assert!(errors[0].contains("no group no-such-group"), "{errors:?}");

        let mut wrong = config("user = \"no-such-user\"\n");
        wrong.sites[0].php.as_mut().unwrap().program = Some("/etc/passwd".into());
        let errors = find(wrong.clone(), &as_user(0)).unwrap_err();
        assert!(errors[0].contains("no user no-such-user"), "{errors:?}");
        let errors = find(wrong, &as_user(1)).unwrap_err();
        assert!(errors[0].contains("/etc/passwd is not an executable"), "{errors:?}");
    }

    #[test]
    fn limits_that_leave_no_room_for_php_are_refused() {
        let found = find(config("pids = 10\nmemory = \"32M\"\n"), &as_user(1000));
        let limits = found.unwrap().pools[0].limits.unwrap();
        assert_eq!((limits.pids, limits.memory), (Some(10), Some(32 << 20)));
        let found = find(config("pids = 9\nmemory = \"31M\"\n"), &as_user(1000));
        let errors = found.unwrap_err();
        assert!(errors[0].contains("too few for 8 workers and 2 zygotes"), "{errors:?}");
        assert!(errors[1].contains("give at least \"32M\""), "{errors:?}");
    }

    #[test]
    fn says_where_it_looked_for_php() {
        let config = Config::for_directory(Path::new("/tmp"), DirectoryOptions::default());
        let errors = find(config, &as_user(1)).unwrap_err();
        assert!(
            errors[0]
                .contains("none of /no/such/bin, /no/such/libexec/howdah, /usr/local/bin, /bin"),
            "{errors:?}"
        );
    }

    #[test]
    fn mode_bits() {
        let folder = std::env::temp_dir().join(format!("howdah-mode-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o710)).unwrap();
        let found = folder.metadata().unwrap();
        let who = |uid, gid| Identity {
            name: String::new(),
            uid,
            gid,
            groups: vec![gid],
        };
        assert!(may_enter(&who(found.uid(), 77), &found));
        assert!(may_enter(&who(found.uid() + 1, found.gid()), &found));
        assert!(!may_enter(&who(found.uid() + 1, found.gid() + 1), &found));
        assert!(may_enter(&who(0, 77), &found));
        std::fs::remove_dir(&folder).unwrap();
    }
}
