//! The plan of a generation: a configuration with the users, programs and folders that it names.

use std::fs::Metadata;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use howdah_config::{Config, Php, RootTemplate, Site};
use howdah_ipc::control::PoolSettings;
use howdah_sys::credentials::{self, Identity};

use super::environment::Environment;

/// A configuration whose users, programs and folders were found on this machine.
#[derive(Debug, Clone)]
pub(crate) struct GenerationPlan {
    pub(crate) config: Arc<Config>,
    /// The user that the front runs as; `None` for the supervisor's user.
    pub(crate) front: Option<Identity>,
    pub(crate) pools: Vec<PoolPlan>,
    /// Warnings for the log about probable mistakes.
    pub(crate) warnings: Vec<String>,
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
    ) -> Result<GenerationPlan, Vec<String>> {
        let mut finder = Finder {
            environment,
            errors: Vec::new(),
            warnings: Vec::new(),
        };
        let front = finder.front(&config);
        let mut pools = Vec::new();
        for (number, site) in config.sites.iter().enumerate() {
            finder.look_at_root(site, front.as_ref());
            if let Some(php) = &site.php
                && let Some(pool) = finder.pool(number, site, php, front.as_ref())
            {
                pools.push(pool);
            }
        }
        if !finder.errors.is_empty() {
            return Err(finder.errors);
        }
        let warnings = finder.warnings;
        Ok(GenerationPlan {
            config: Arc::new(config),
            front,
            pools,
            warnings,
        })
    }
}

struct Finder<'s> {
    environment: &'s Environment,
    errors: Vec<String>,
    warnings: Vec<String>,
}

impl Finder<'_> {
    fn front(&mut self, config: &Config) -> Option<Identity> {
        if !self.environment.identity.is_root() {
            return None;
        }
        let usual = Config::default().user;
        let name = config.user.as_deref().or(usual.as_deref()).unwrap_or(NOBODY);
        let known = self.look_up(name, config.group.as_deref(), "`user`");
        let identity = match known {
            // The configuration does not name this user, therefore another default is tried.
            None if config.user == usual && self.errors.pop().is_some() => {
                self.look_up(NOBODY, config.group.as_deref(), "`user`")
            }
            known => known,
        };
        if identity.as_ref().is_some_and(Identity::is_root) {
            let warning = "the front runs as root, as `user` asks for: whoever breaks into it owns this machine";
            self.warnings.push(warning.to_owned());
        }
        identity
    }

    fn pool(
        &mut self,
        number: usize,
        site: &Site,
        php: &Php,
        front: Option<&Identity>,
    ) -> Option<PoolPlan> {
        let identity = match front {
            None => None,
            Some(front) => Some(self.pool_identity(site, php, front)?),
        };
        let program = self.program(site, php)?;
        let uid = identity.as_ref().unwrap_or(&self.environment.identity).uid;
        let state_dir = match &self.environment.state {
            Some(folder) if php.state_dir.is_none() => folder.join(&site.name),
            _ => site.state_dir(
                self.environment.identity.is_root(),
                uid,
                &self.environment.temporary,
            ),
        };
        let workers = php.worker_count(self.environment.processors);
        Some(PoolPlan {
            site: number,
            program,
            identity,
            workers,
            settings: PoolSettings {
                pool: site.name.clone(),
                ini_file: self.text(
                    site,
                    "ini_file",
                    php.ini_file.as_deref().unwrap_or(Path::new("")),
                )?,
                max_requests: php.max_requests,
                ini: php.ini.clone(),
                admin_ini: php.admin_ini.clone(),
                environment: self.environment.script_environment(&php.env),
                state_dir: self.text(site, "state_dir", &state_dir)?,
            },
        })
    }

    fn pool_identity(&mut self, site: &Site, php: &Php, front: &Identity) -> Option<Identity> {
        let name = &site.name;
        let identity = match (&php.user, &php.group) {
            (None, None) => front.clone(),
            (user, group) => {
                let user = user.as_deref().unwrap_or(&front.name);
                self.look_up(user, group.as_deref(), &format!("site {name}: `php.user`"))?
            }
        };
        if identity.is_root() {
            if php.user.is_none() {
                let error = format!(
                    "site {name}: PHP would run as root, as the front does; set `user` in [site.php]"
                );
                self.errors.push(error);
                return None;
            }
            let warning = format!(
                "site {name}: PHP runs as root because of `php.user`: every script can change everything on this machine"
            );
            self.warnings.push(warning);
        }
        Some(identity)
    }

    fn look_up(&mut self, user: &str, group: Option<&str>, what: &str) -> Option<Identity> {
        let group = match group {
            None => None,
            Some(group) => match credentials::group_number(group) {
                Ok(Some(number)) => Some(number),
                Ok(None) => {
                    self.errors.push(format!(
                        "{what}: there is no group {group} on this machine; create it, or name another"
                    ));
                    return None;
                }
                Err(error) => {
                    self.errors.push(format!("{what}: cannot look up the group {group}: {error}"));
                    return None;
                }
            },
        };
        match Identity::of_user(user, group) {
            Ok(Some(identity)) => return Some(identity),
            Ok(None) => self.errors.push(format!(
                "{what}: there is no user {user} on this machine; create it, or name another"
            )),
            Err(error) => {
                self.errors.push(format!("{what}: cannot look up the user {user}: {error}"))
            }
        }
        None
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
        let places = self.environment.places_of("howdah-php");
        let found = places.iter().find(|place| is_program(place)).cloned();
        if found.is_none() {
            let folders: Vec<String> = places
                .iter()
                .filter_map(|place| Some(place.parent()?.display().to_string()))
                .collect();
            self.errors.push(format!(
                "site {name}: howdah-php, which runs PHP, is in none of {}; install it there, set `php.program`, or serve \
                 without PHP (`php = false`, --no-php)",
                folders.join(", ")
            ));
        }
        found
    }

    fn text(&mut self, site: &Site, key: &str, path: &Path) -> Option<String> {
        let text = path.to_str().map(str::to_owned);
        if text.is_none() {
            let error = format!("site {}: `php.{key}`: {} is not UTF-8", site.name, path.display());
            self.errors.push(error);
        }
        text
    }

    /// Warns about a root that is missing or that the front may not enter. Such a site answers with
    /// 404 or 403.
    fn look_at_root(&mut self, site: &Site, front: Option<&Identity>) {
        let RootTemplate::Fixed(root) = &site.root else {
            return;
        };
        let name = &site.name;
        match root.metadata() {
            Ok(found) if found.is_dir() => {}
            Ok(_) => {
                return self
                    .warnings
                    .push(format!("site {name}: its root {} is not a folder", root.display()));
            }
            Err(error) => {
                return self
                    .warnings
                    .push(format!("site {name}: its root {}: {error}", root.display()));
            }
        }
        let Some(front) = front else { return };
        let real = root.canonicalize().unwrap_or_else(|_| root.clone());
        let closed = real
            .ancestors()
            .find(|folder| folder.metadata().is_ok_and(|found| !may_enter(front, &found)));
        if let Some(closed) = closed {
            let who = &front.name;
            self.warnings.push(format!(
                "site {name}: {who}, as whom the front runs, may not enter {}: requests for files of the site will be refused; \
                 `chmod a+x` it, or serve from elsewhere",
                closed.display()
            ));
        }
    }
}

fn is_program(path: &Path) -> bool {
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

const NOBODY: &str = "nobody";

#[cfg(test)]
mod tests {
    use super::*;
    use howdah_config::DirectoryOptions;

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
        let found = GenerationPlan::find(config("user = \"root\"\n"), &as_user(1000)).unwrap();
        assert_eq!(found.front, None);
        assert_eq!(found.pools[0].identity, None);
        assert_eq!(found.pools[0].settings.state_dir, "/tmp/howdah-1000/shop");
        assert_eq!(found.pools[0].workers, 8);
    }

    #[test]
    fn root_hands_over_to_the_web_server_s_user() {
        let found = GenerationPlan::find(config(""), &as_user(0)).unwrap();
        let front = found.front.unwrap();
        assert!(["www-data", "nobody"].contains(&front.name.as_str()));
        assert_eq!(found.pools[0].identity, Some(front));
        assert_eq!(found.pools[0].settings.state_dir, "/var/lib/howdah/shop");
    }

    #[test]
    fn php_as_root_must_be_asked_for() {
        let mut by_accident = config("");
        by_accident.user = Some("root".into());
        let errors = GenerationPlan::find(by_accident, &as_user(0)).unwrap_err();
        assert!(errors[0].contains("PHP would run as root"), "{errors:?}");

        let found = GenerationPlan::find(config("user = \"root\"\n"), &as_user(0)).unwrap();
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
        let errors = GenerationPlan::find(wrong, &as_user(0)).unwrap_err();
        assert!(errors[0].contains("no group no-such-group"), "{errors:?}");

        let mut wrong = config("user = \"no-such-user\"\n");
        wrong.sites[0].php.as_mut().unwrap().program = Some("/etc/passwd".into());
        let errors = GenerationPlan::find(wrong.clone(), &as_user(0)).unwrap_err();
        assert!(errors[0].contains("no user no-such-user"), "{errors:?}");
        let errors = GenerationPlan::find(wrong, &as_user(1)).unwrap_err();
        assert!(errors[0].contains("/etc/passwd is not an executable"), "{errors:?}");
    }

    #[test]
    fn says_where_it_looked_for_php() {
        let config = Config::for_directory(Path::new("/tmp"), DirectoryOptions::default());
        let errors = GenerationPlan::find(config, &as_user(1)).unwrap_err();
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
