//! The users that the front and the pools run as.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::Path;

use howdah_config::{Config, FRONT_USER, POOL_USER, Php, SiteSettings};
use howdah_sys::credentials::{self, Identity};

use super::{PlanFinder, PoolPlan};

impl PlanFinder<'_> {
    /// Returns the user of the front. `None`: the front runs as the supervisor's user, or the user
    /// is not known, which is among the errors.
    pub(super) fn front(&mut self, config: &Config) -> Option<Identity> {
        if !self.environment.identity.is_root() {
            return None;
        }
        let identity = match config.user.as_deref() {
            Some(name) => self.look_up(name, config.group.as_deref(), ["`user`", "`group`"]),
            None => self.default_front(config.group.as_deref()),
        };
        if identity.as_ref().is_some_and(Identity::is_root) {
            let warning = "the front runs as root, as `user` asks for: whoever breaks into it owns \
                this machine";
            self.warnings.push(warning.to_owned());
        }
        identity
    }

    /// The user [`FRONT_USER`], or a number without a user, with the groups of [`POOL_USER`]: the
    /// front reads the files that web servers on Debian may read. `None`: there is no such user,
    /// which is among the errors.
    pub(super) fn default_front(&mut self, group: Option<&str>) -> Option<Identity> {
        let readers = self.known(Identity::of_user(POOL_USER, None), POOL_USER)?;
        let gid = match group {
            Some(group) => Some(self.look_up_group(group, "`group`")?),
            None => readers.as_ref().map(|readers| readers.gid),
        };
        let mut identity = match self.known(Identity::of_user(FRONT_USER, gid), FRONT_USER)? {
            Some(identity) => identity,
            None => self.front_without_user(gid)?,
        };
        for group in readers.iter().flat_map(|readers| &readers.groups) {
            if !identity.groups.contains(group) {
                identity.groups.push(*group);
            }
        }
        Some(identity)
    }

    /// Returns a user number without a user for the front, and warns of it. `None`: there is no
    /// free number, which is among the errors.
    pub(super) fn front_without_user(&mut self, gid: Option<u32>) -> Option<Identity> {
        let uid = match self.environment.spare_user() {
            Ok(uid) => uid,
            Err(error) => {
                self.errors.push(format!(
                    "there is no user {FRONT_USER} for the front, and no other: {error}; \
                     {CREATE_USER}"
                ));
                return None;
            }
        };
        self.warnings.push(format!(
            "there is no user {FRONT_USER} on this machine, therefore the front runs as user \
             number {uid}; {CREATE_USER}"
        ));
        let gid = gid.unwrap_or(uid);
        Some(Identity {
            name: format!("user number {uid}"),
            uid,
            gid,
            groups: vec![gid],
        })
    }

    /// Returns the user of a site's pool. `None`: the user is not known or may not be used, which
    /// is among the errors.
    pub(super) fn pool_identity(
        &mut self,
        site: &SiteSettings,
        php: &Php,
        config: &Config,
        front: &Identity,
    ) -> Option<Identity> {
        let name = &site.name;
        let keys = ["user", "group"].map(|key| format!("site {name}: `php.{key}`"));
        let keys = keys.each_ref().map(String::as_str);
        let group = php.group.as_deref();
        let identity = match php.user.as_deref() {
            Some(user) => self.look_up(user, group, keys)?,
            None => match self.known(Identity::of_user(POOL_USER, None), POOL_USER)? {
                Some(_) => self.look_up(POOL_USER, group, keys)?,
                None => self.look_up(NOBODY, group, keys)?,
            },
        };
        if identity.uid == front.uid {
            self.refuse_user_of_front(site, php, config, &identity);
            return None;
        }
        let mut identity = identity;
        for group in &php.supplementary_groups {
            let what = format!("site {name}: `php.supplementary_groups`");
            identity.groups.push(self.look_up_group(group, &what)?);
        }
        if identity.is_root() {
            let warning = format!(
                "site {name}: PHP runs as root because of `php.user`: every script can change \
                 everything on this machine"
            );
            self.warnings.push(warning);
        } else if identity.gid == 0 || identity.groups.contains(&0) {
            self.warnings.push(format!(
                "site {name}: PHP runs in root's group because of `php.group`, \
                 `php.supplementary_groups` or the groups of {}: every script can read and change \
                 what that group may",
                identity.name
            ));
        }
        Some(identity)
    }

    /// The check of the names in the configuration does not find two names of one user number.
    pub(super) fn refuse_user_of_front(
        &mut self,
        site: &SiteSettings,
        php: &Php,
        config: &Config,
        pool: &Identity,
    ) {
        let (named, advice) = match (&php.user, &config.user) {
            (Some(user), _) => (Some(user), "name another user"),
            (None, user) => (user.as_ref(), "leave `user` out, or set `user` in [site.php]"),
        };
        let place = named.and_then(|user| user.place());
        self.errors.push(format!(
            "{}site {}: its pool would run as {} with the user number {}, which is the front's: a \
             script could stop the front; {advice}",
            place.map(|place| format!("{place}: ")).unwrap_or_default(),
            site.name,
            pool.name,
            pool.uid,
        ));
    }

    /// Tells which pools have the same user, although the server could give each its own.
    pub(super) fn tell_of_shared_users(&mut self, pools: &[PoolPlan]) {
        let mut by_user: BTreeMap<u32, (&str, Vec<&str>)> = BTreeMap::new();
        for pool in pools {
            let Some(identity) = &pool.identity else {
                continue;
            };
            let (_, names) = by_user.entry(identity.uid).or_insert((&identity.name, Vec::new()));
            names.push(&pool.settings.pool);
        }
        let shared = by_user.values().filter(|(_, names)| names.len() > 1);
        let shared: Vec<String> = shared
            .map(|(user, names)| {
                let named = names.iter().take(MOST_NAMED).copied().collect::<Vec<_>>().join(", ");
                match names.len().saturating_sub(MOST_NAMED) {
                    0 => format!("the sites {named} run as {user}"),
                    more => format!("the sites {named} and {more} more run as {user}"),
                }
            })
            .collect();
        if !shared.is_empty() {
            self.notices.push(format!(
                "{}: only the sandbox keeps them apart, and permissions of files do not; give \
                 each a `user` of its own in [site.php], see docs/security.md",
                shared.join(", ")
            ));
        }
    }

    /// Warns of state folders that are, or are in, the folder of another user's pool.
    pub(super) fn warn_of_shared_folders(&mut self, pools: &[PoolPlan]) {
        let mut by_folder: HashMap<&Path, Vec<&PoolPlan>> = HashMap::new();
        for pool in pools {
            by_folder.entry(folder(pool)).or_default().push(pool);
        }
        for pool in pools {
            let own = folder(pool);
            let around = own.ancestors().filter_map(|folder| by_folder.get(folder)).flatten();
            let mut others = around.filter(|other| user(other) != user(pool));
            // Of two pools with one folder, the second one is told.
            let other = others.find(|other| folder(other) != own || other.site < pool.site);
            let Some((other, owner)) = other.and_then(|it| Some((it, &it.identity.as_ref()?.name)))
            else {
                continue;
            };
            let harm = match folder(other) == own {
                true => "PHP of one of them does not start".to_owned(),
                false => format!("{owner} can put another folder in its place"),
            };
            let (name, other) = (&pool.settings.pool, &other.settings.pool);
            self.warnings.push(format!(
                "site {name}: `php.state_dir`: {} is a folder of the site {other}, which runs as \
                 {owner}: {harm}; give each site a folder of its own",
                own.display()
            ));
        }
    }

    /// Looks up a user with another group, if there is one. The messages name the place of each.
    /// `None`: there is no such user or group, which is among the errors.
    pub(super) fn look_up(
        &mut self,
        user: &str,
        group: Option<&str>,
        [user_key, group_key]: [&str; 2],
    ) -> Option<Identity> {
        let group = match group {
            None => None,
            Some(group) => Some(self.look_up_group(group, group_key)?),
        };
        let found = self.known(Identity::of_user(user, group), user)?;
        if found.is_none() {
            self.errors.push(format!(
                "{user_key}: there is no user {user} on this machine; create it, or name another"
            ));
        }
        found
    }

    /// Looks up the number of a group; `what` is the key that names the group. `None`: there is no
    /// such group, which is among the errors.
    pub(super) fn look_up_group(&mut self, group: &str, what: &str) -> Option<u32> {
        let found = self.known(credentials::group_number(group), group)?;
        if found.is_none() {
            self.errors.push(format!(
                "{what}: there is no group {group} on this machine; create it, or name another"
            ));
        }
        found
    }

    /// Records a failed look-up, whose result is `None`.
    pub(super) fn known<Found>(&mut self, found: io::Result<Found>, name: &str) -> Option<Found> {
        let failed = |error| self.errors.push(format!("cannot look up {name}: {error}"));
        found.map_err(failed).ok()
    }
}

/// The number of the pool's user; `None` for the supervisor's.
fn user(pool: &PoolPlan) -> Option<u32> {
    pool.identity.as_ref().map(|user| user.uid)
}

/// The pool's state folder.
fn folder(pool: &PoolPlan) -> &Path {
    Path::new(&pool.settings.state_dir)
}

/// The sites of one user that a notice names. Of the others it says how many they are.
const MOST_NAMED: usize = 8;
/// The user of pools without a `user` where there is no [`POOL_USER`].
const NOBODY: &str = "nobody";
const CREATE_USER: &str =
    "create it with `adduser --system --group --no-create-home --home /nonexistent howdah`";
