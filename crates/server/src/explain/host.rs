//! The host's answers to the questions of resolving, with the rights of the site's user.

use std::cell::RefCell;
use std::time::Instant;

use howdah_config::POOL_USER;
use howdah_files::FileStore;
use howdah_site::Site;
use howdah_sys::credentials::{self, Identity};

use super::resolving::now;
use crate::host::{ComparedPasswords, FrontHost, Passwords, user_of};

/// Returns the host for resolving the request, as the server has it.
pub(super) fn front_host<'b>(
    site: &'b Site,
    (store, passwords): (&'b RefCell<FileStore>, &'b Passwords),
    (compared, pool_user): (&'b ComparedPasswords, &'b Option<Identity>),
) -> FrontHost<'b> {
    let mut store = store.borrow_mut();
    store.tick(now() / 1_000_000);
    FrontHost {
        store,
        passwords,
        site,
        compared,
        since: Instant::now(),
        pool: None,
        user: user_of(site, pool_user.as_ref()),
    }
}

/// Returns the user of the site's pool; `None` for that of this process.
pub(super) fn pool_user(site: &Site) -> Option<Identity> {
    let php = site.config().php.as_ref().filter(|_| credentials::own_user() == 0)?;
    let number = |name: &String| credentials::group_number(name).ok().flatten();
    let user = php.user.as_deref().unwrap_or(POOL_USER);
    let mut identity = Identity::of_user(user, php.group.as_ref().and_then(number)).ok()??;
    identity.groups.extend(php.supplementary_groups.iter().filter_map(number));
    Some(identity)
}
