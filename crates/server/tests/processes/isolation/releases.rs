//! A site with releases, `current -> releases/7`, beside another site of the same user.

use std::os::unix::fs::{lchown, symlink};

use super::exchanged::{give_to_pools, reload};
use super::files::{read, write};
use super::{RUN, Sites, can_run, has_landlock};

#[test]
fn what_the_releases_of_a_site_share_is_closed_to_another_site_of_the_user() {
    if !can_run() || !has_landlock() {
        return;
    }
    for (level, owner) in [("standard", None), ("strict", None), ("standard", Some(0))] {
        let sites = Sites::start(&format!("sandbox = \"{level}\""));
        for release in [6, 7] {
            sites.folder.file(&format!("one/releases/{release}/public/index.php"), RUN);
        }
        sites.folder.file("one/shared/.env", "secret of one");
        sites.folder.file("one/shared/storage/a.txt", "secret of one");
        let user = give_to_pools(&sites);
        let link = |name: &str, target: &str, owner: u32| {
            symlink(target, sites.path(name)).unwrap();
            lchown(sites.path(name), Some(owner), None).unwrap();
        };
        link("one/current", "releases/7", owner.unwrap_or(user));
        link("one/releases/7/.env", "../../shared/.env", user);
        let file = sites.folder.path().join("howdah.toml");
        let text = std::fs::read_to_string(&file).unwrap();
        let text = text.replace("\"one/public\"", "\"one/current/public\"");
        std::fs::write(&file, text).unwrap();
        reload(&sites);

        let (one, two) = (sites.path("one"), sites.path("two/public"));
        let attempts = [
            (read(&format!("{one}/shared/.env")), "open"),
            (read(&format!("{one}/current/../../shared/.env")), "open"),
            (read(&format!("{one}/releases/7/.env")), "open"),
            (read(&format!("{one}/releases/6/public/index.php")), "open"),
            (write(&format!("{one}/shared/storage/c.php")), "open"),
            (write(&format!("{one}/releases/6/public/new.php")), "open"),
            (read(&format!("{two}/index.php")), "closed"),
        ];
        for (attempt, of_one) in attempts {
            let of_two = if of_one == "open" { "closed" } else { "open" };
            assert_eq!(sites.run(&attempt), of_two, "{level} {owner:?}: {attempt}");
            assert_eq!(sites.run_in("one", &attempt), of_one, "{level} {owner:?}: {attempt}");
        }
        let secret = format!("{one}/shared/.env");
        link("two/public/env.txt", &secret, user);
        link("two/public/shared", &format!("{one}/shared"), user);
        link("one/releases/7/public/env.txt", &secret, user);
        for path in ["/env.txt", "/shared/storage/a.txt"] {
            let (status, text) = sites.get("two", path);
            assert_eq!(status, 403, "{level} {owner:?} {path}: {text}");
        }
        assert_eq!(sites.get("one", "/env.txt"), (200, "secret of one".to_owned()));
        sites.server.stop();
    }
}
