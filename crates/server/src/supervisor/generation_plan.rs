//! The plan of a generation: a configuration with the users, programs and folders that it names.

mod descriptors;
mod pairs;
mod pools;
mod roots;
mod upstream_ports;
mod users;

use std::path::PathBuf;
use std::sync::Arc;

use howdah_config::{Config, ListenAddress, SiteSettings};
use howdah_files::SiteFolders;
use howdah_sys::credentials::Identity;

use super::environment::Environment;
use super::held_releases::HeldRelease;
use super::isolation::{IsolationAbilities, leading_away, site_folders};
use super::orders::plan::{self, OrderPlan};
use super::php_programs;
use super::survey::{self, FolderRights, SurveyAnswers};
use crate::tls::{self, SitePairs, UpstreamSettings};

pub(crate) use self::descriptors::of_pool as descriptors_of_pool;
pub(crate) use self::pairs::{FormerFiles, UnusableFiles};
pub(crate) use self::pools::PoolPlan;
pub(super) use self::pools::is_program;
use self::pools::state_folders;

/// A configuration whose users, programs and folders were found on this machine.
#[derive(Debug, Clone)]
pub(crate) struct GenerationPlan {
    pub(crate) config: Arc<Config>,
    /// The user that the front runs as; `None` for the supervisor's user.
    pub(crate) front: Option<Identity>,
    pub(crate) pools: Vec<PoolPlan>,
    /// The process that orders certificates; `None` if no site needs one.
    pub(crate) orders: Option<OrderPlan>,
    /// The folders of the sites, where links of others must not lead.
    pub(crate) site_folders: SiteFolders,
    /// The certificates and keys of the sites.
    pub(crate) certificates: Arc<SitePairs>,
    /// By site, why its certificates or the authorities of its clients cannot be used; `None` where
    /// they can be, or where there are none.
    pub(crate) closed: Vec<Option<String>>,
    /// By site, why the former content of such files stays in use, or a pair is left out; `None`
    /// where the files are used.
    pub(crate) kept_files: Vec<Option<String>>,
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
    /// The answers about the paths of the configuration.
    pub(crate) answers: Arc<SurveyAnswers>,
    /// The releases that are not served.
    pub(crate) held: Vec<HeldRelease>,
}

impl GenerationPlan {
    /// The paths that have to be known before [`GenerationPlan::find`].
    pub(crate) fn paths(config: &Config, environment: &Environment) -> Vec<PathBuf> {
        survey::paths_of(config, &state_folders(config, environment))
    }

    /// Looks up everything that `config` names. `answers` are those about its
    /// [`GenerationPlan::paths`].
    ///
    /// # Errors
    /// All errors that were found.
    pub(crate) fn find(
        config: Config,
        environment: &Environment,
        unusable_files: UnusableFiles<'_>,
        answers: Arc<SurveyAnswers>,
    ) -> Result<GenerationPlan, Vec<String>> {
        let abilities = IsolationAbilities::find(&environment.identity);
        let mut answers = answers;
        let states = state_folders(&config, environment);
        leading_away::note(&config, &states, Arc::make_mut(&mut answers));
        let mut finder = PlanFinder {
            environment,
            config: &config,
            states,
            answers: &answers,
            notices: abilities.notices(&config),
            abilities,
            unusable_files,
            closed: vec![None; config.sites.len()],
            kept_files: vec![None; config.sites.len()],
            closes_to_clients: false,
            errors: Vec::new(),
            warnings: Vec::new(),
        };
        let front = finder.front(&config);
        if let Some(group) = &config.control_group {
            finder.look_up_group(group, "`control_group`");
        }
        finder.look_at_open_files();
        finder.warn_of_open_admin(&config);
        finder.tell_of_listeners_without_http3(&config);
        finder.tell_of_upstream_ports(&config);
        let sites = config.sites.iter().enumerate();
        let mut certificates: SitePairs =
            sites.map(|(number, site)| finder.pairs(number, site)).collect();
        let sites = config.sites.iter().enumerate();
        let client_authorities =
            sites.map(|(number, site)| finder.authorities(number, site)).collect();
        finder.look_for_a_site(&config);
        let upstream_tls = config.sites.iter().map(|site| finder.upstream_tls(site)).collect();
        let pools = finder.pools(&config, front.as_ref());
        let site_folders = site_folders::of(&config, &finder.states, &answers);
        let orders = finder.orders(front.as_ref());
        if let Some(plan) = &orders {
            finder.use_stored(plan, &mut certificates);
        }
        if !finder.errors.is_empty() {
            return Err(finder.errors);
        }
        let PlanFinder {
            warnings, notices, closed, kept_files, ..
        } = finder;
        Ok(GenerationPlan {
            config: Arc::new(config),
            front,
            pools,
            orders,
            site_folders,
            certificates: Arc::new(certificates),
            closed,
            kept_files,
            client_authorities,
            upstream_tls,
            warnings,
            notices,
            php_programs: php_programs::all(environment),
            answers,
            held: Vec::new(),
        })
    }
}

struct PlanFinder<'s> {
    environment: &'s Environment,
    config: &'s Config,
    /// State folders of the pools, by site.
    states: Vec<Option<PathBuf>>,
    /// The answers about those paths.
    answers: &'s SurveyAnswers,
    abilities: IsolationAbilities,
    unusable_files: UnusableFiles<'s>,
    /// By site, why it is closed.
    closed: Vec<Option<String>>,
    /// The value of [`GenerationPlan::kept_files`].
    kept_files: Vec<Option<String>>,
    /// Whether a site is closed because the authorities of its clients cannot be used.
    closes_to_clients: bool,
    errors: Vec<String>,
    warnings: Vec<String>,
    notices: Vec<String>,
}

impl PlanFinder<'_> {
    /// Plans the pools of all sites.
    fn pools(&mut self, config: &Config, front: Option<&Identity>) -> Vec<PoolPlan> {
        let mut pools = Vec::new();
        for (number, site) in config.sites.iter().enumerate() {
            self.look_at_root(site, front);
            let state = self.states.get(number).cloned().flatten();
            self.look_for_system_folders(site, state.as_deref());
            if let Some(php) = &site.php
                && let Some(pool) = self.pool(number, site, php, config, front)
            {
                pools.push(pool);
            }
        }
        self.tell_of_shared_users(&pools);
        self.warn_of_shared_folders(&pools);
        pools
    }

    /// Puts the stored certificates of sites that order theirs among `certificates`.
    fn use_stored(&mut self, plan: &OrderPlan, certificates: &mut SitePairs) {
        for (site, pairs) in self.config.sites.iter().zip(certificates) {
            if plan::is_ordered(site) {
                let (stored, mistakes) = plan.stored(self.config, site);
                *pairs = stored;
                self.warnings.extend(mistakes);
            }
        }
    }

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
        if let Err(why) = &plan.settings.roots {
            match self.unusable_files {
                UnusableFiles::CloseSite => {
                    self.warnings.push(format!("no certificates are ordered: {why}"));
                }
                UnusableFiles::Refuse | UnusableFiles::KeepFormer(_) => {
                    self.errors.push(why.clone());
                }
            }
        }
        if let Err(why) = plan.look_at_hook() {
            match self.unusable_files {
                UnusableFiles::Refuse => self.errors.push(why),
                UnusableFiles::CloseSite | UnusableFiles::KeepFormer(_) => self.warnings.push(why),
            }
        }
        for (name, reason) in &plan.left_out {
            self.notices.push(format!("{name} gets no certificate: {reason}"));
        }
        for name in &plan.on_demand {
            self.notices.push(format!("certificates for {name}: {}", plan.about_demand()));
        }
        Some(plan)
    }

    /// Makes the settings of TLS to a site's upstreams.
    fn upstream_tls(&mut self, site: &SiteSettings) -> Option<Arc<rustls::ClientConfig>> {
        let made = tls::upstream_settings(site)?;
        made.map_err(|why| self.errors.push(format!("site {}: {why}", site.name))).ok()
    }
}

/// Checks the mode bits. Access control lists may grant other rights, therefore the result is used
/// for a warning only.
fn may_enter(who: &Identity, folder: FolderRights) -> bool {
    let shift = match () {
        () if who.is_root() => return true,
        () if folder.uid == who.uid => 6,
        () if who.groups.contains(&folder.gid) || who.gid == folder.gid => 3,
        () => 0,
    };
    folder.mode >> shift & 1 != 0
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use howdah_config::DirectoryOptions;

    fn find(config: Config, environment: &Environment) -> Result<GenerationPlan, Vec<String>> {
        let answers = SurveyAnswers::ask(&GenerationPlan::paths(&config, environment));
        GenerationPlan::find(config, environment, UnusableFiles::Refuse, answers.into())
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
    fn paths_that_are_not_there_are_told() {
        for (lines, expected) in [
            ("chdir = \"/tmp\"\n", None),
            ("chdir = \"/no/such/folder\"\n", Some("`php.chdir`: /no/such/folder: ")),
            ("chdir = \"/dev/null\"\n", Some("`php.chdir`: /dev/null: it is no folder")),
            ("ini_file = \"/etc/passwd\"\n", None),
            ("ini_file = \"/no/such.ini\"\n", Some("`php.ini_file`: /no/such.ini: ")),
            ("ini_file = \"/tmp\"\n", Some("`php.ini_file`: /tmp: it is a folder")),
            ("user = \"daemon\"\nchroot = \"/tmp\"\nchdir = \"/\"\n", None),
            (
                "user = \"daemon\"\nchroot = \"/tmp\"\nchdir = \"/no/such/folder\"\n",
                Some("`php.chdir`: /tmp/no/such/folder: "),
            ),
        ] {
            let found = find(config(lines), &as_user(0)).unwrap();
            let told: Vec<_> = found
                .warnings
                .iter()
                .filter(|warning| warning.contains("PHP does not"))
                .collect();
            let is_told = told.iter().any(|told| expected.is_some_and(|it| told.contains(it)));
            assert_eq!(
                (told.len(), is_told),
                (expected.iter().count(), expected.is_some()),
                "{lines}"
            );
        }
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
        let mut wrong = config("");
        wrong.group = Some("no-such-group".into());
        wrong.user = Some("daemon".into());
        let errors = find(wrong, &as_user(0)).unwrap_err();
        assert!(errors[0].starts_with("`group`: there is no group no-such-group "), "{errors:?}");
        let errors = find(config("group = \"no-group\"\n"), &as_user(0)).unwrap_err();
        let expected = "site shop: `php.group`: there is no group no-group ";
        assert!(errors[0].starts_with(expected), "{errors:?}");

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
        assert_eq!(limits.usual_pids, None);
        let found = find(config("pids = 9\nmemory = \"31M\"\n"), &as_user(1000));
        let errors = found.unwrap_err();
        assert!(errors[0].contains("too few for 8 workers and 2 zygotes"), "{errors:?}");
        assert!(errors[1].contains("give at least \"32M\""), "{errors:?}");
    }

    #[test]
    fn processes_have_a_limit_unless_the_configuration_wants_none() {
        for (lines, expected) in [
            ("", (None, Some(1024))),
            ("workers = 300\n", (None, Some(4 * 302))),
            ("pids = 0\nworkers = 300\n", (None, None)),
            ("pids = 20\n", (Some(20), None)),
        ] {
            let found = find(config(lines), &as_user(1000)).unwrap();
            let limits = found.pools[0].limits.unwrap();
            assert_eq!((limits.pids, limits.usual_pids), expected, "{lines}");
        }
    }

    #[test]
    fn sites_of_one_user_are_named_in_one_line() {
        let site = |number: usize, lines: &str| {
            format!(
                "[[site]]\nname = \"s{number}\"\nhosts = [\"s{number}.example\"]\n\
                 root = \"/tmp\"\n[site.php]\nprogram = \"/bin/true\"\n{lines}"
            )
        };
        let told = |users: &[&str], user: u32| -> Vec<String> {
            let sites = users.iter().enumerate();
            let text: String = sites.map(|(number, lines)| site(number, lines)).collect();
            let config = Config::parse(&text, "howdah.toml").unwrap();
            let notices = find(config, &as_user(user)).unwrap().notices;
            notices.into_iter().filter(|notice| notice.contains(" run as ")).collect()
        };
        let (daemon, games) = ("user = \"daemon\"\n", "user = \"games\"\n");
        assert_eq!(told(&[daemon, games], 0), [""; 0]);
        assert_eq!(told(&[daemon, daemon], 1000), [""; 0]);
        let both = told(&[daemon, games, daemon, games], 0);
        let users = "the sites s0, s2 run as daemon, the sites s1, s3 run as games: only";
        assert!(both.len() == 1 && both[0].starts_with(users), "{both:?}");
        let many = told(&[daemon; 10], 0);
        let users = "the sites s0, s1, s2, s3, s4, s5, s6, s7 and 2 more run as daemon: ";
        assert!(many.len() == 1 && many[0].starts_with(users), "{many:?}");
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
        let found = FolderRights { uid: 7, gid: 8, mode: 0o040_710 };
        let who = |uid, gid| Identity {
            name: String::new(),
            uid,
            gid,
            groups: vec![gid],
        };
        assert!(may_enter(&who(7, 77), found));
        assert!(may_enter(&who(9, 8), found));
        assert!(!may_enter(&who(9, 9), found));
        assert!(may_enter(&who(0, 77), found));
    }
}
