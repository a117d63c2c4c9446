//! A document root that its site exchanges for a link to folders of another site of the same user.

use std::os::unix::fs::{MetadataExt, chown, lchown, symlink};
use std::path::Path;

use howdah_sys::signal::SIGHUP;

use super::files::read;
use super::links::walk;
use super::{RUN, Sites, can_run, has_landlock};
use crate::support::wait_until;

/// Gives everything in the folder of the sites to the user of their pools. Returns the user.
pub(super) fn give_to_pools(sites: &Sites) -> u32 {
    let user = std::fs::metadata(sites.path("state/one")).unwrap().uid();
    for found in walk(sites.folder.path()) {
        if !found.ends_with("howdah.toml") && !found.ends_with("control") {
            chown(found, Some(user), None).unwrap();
        }
    }
    user
}

/// Puts a link of `owner` in the place of `name`, which is kept as `name-kept`.
fn exchange(sites: &Sites, name: &str, target: &str, owner: u32) {
    let path = sites.path(name);
    if Path::new(&path).symlink_metadata().unwrap().is_symlink() {
        std::fs::remove_file(&path).unwrap();
    } else {
        std::fs::rename(&path, format!("{path}-kept")).unwrap();
    }
    symlink(target, &path).unwrap();
    lchown(&path, Some(owner), None).unwrap();
}

fn give_back(sites: &Sites, name: &str) {
    let path = sites.path(name);
    std::fs::remove_file(&path).unwrap();
    std::fs::rename(format!("{path}-kept"), path).unwrap();
}

/// Starts another generation.
pub(super) fn reload(sites: &Sites) {
    let front = sites.server.front();
    sites.server.signal(SIGHUP);
    wait_until("another generation serves", || !front.lives());
}

#[test]
fn a_root_that_its_site_exchanges_opens_no_folder_of_another_site() {
    if !can_run() || !has_landlock() {
        return;
    }
    // Another site's root, a folder in it, its folder, one in that, its state, what is above all
    // of them, and the own state, beside which the states of others are.
    let targets =
        ["one/public", "one/public/inner", "one", "one/data", "state/one", ".", "state/two"];
    for level in ["standard", "strict"] {
        let sites = Sites::start(&format!("sandbox = \"{level}\""));
        sites.folder.file("one/data/a.txt", "secret of one");
        sites.folder.file("one/public/inner/a.txt", "secret of one");
        sites.folder.file("state/one/a.txt", "secret of one");
        for target in targets {
            sites.folder.file(&format!("{target}/index.php"), RUN);
        }
        let user = give_to_pools(&sites);
        let secrets =
            ["one/settings", "one/data/a.txt", "one/public/inner/a.txt", "state/one/a.txt"]
                .map(|name| sites.path(name));
        for target in targets {
            exchange(&sites, "two/public", &sites.path(target), user);
            reload(&sites);
            assert_ne!(sites.run("echo 'fine';"), "fine", "{level} {target}");
            let look = || {
                for secret in &secrets {
                    assert_ne!(sites.run(&read(secret)), "open", "{level} {target} {secret}");
                }
            };
            look();
            for secret in &secrets {
                assert_eq!(sites.run_in("one", &read(secret)), "open", "{level} {target} {secret}");
            }
            give_back(&sites, "two/public");
            wait_until("the root is served again", || sites.run("echo 'fine';") == "fine");
            look();
        }
        sites.server.stop();
    }
}

#[test]
fn the_front_serves_no_folder_of_another_site_as_a_root() {
    if !can_run() {
        return;
    }
    let sites = Sites::start("");
    for folder in ["one/public", "one/public/inner", "one", "one/data"] {
        sites.folder.file(&format!("{folder}/a.txt"), "text of one");
    }
    sites.folder.file("two/next/a.txt", "next text of two");
    let user = give_to_pools(&sites);
    for (target, path) in [
        ("one/public", "/a.txt"),
        ("one/public/inner", "/a.txt"),
        ("one", "/a.txt"),
        ("one/data", "/a.txt"),
        (".", "/one/public/a.txt"),
        (".", "/one/data/a.txt"),
    ] {
        exchange(&sites, "two/public", "next", user);
        wait_until("the site's own release is served", || {
            sites.get("two", "/a.txt") == (200, "next text of two".to_owned())
        });
        exchange(&sites, "two/public", &sites.path(target), user);
        for when in ["before", "after"] {
            wait_until("the root is closed", || {
                let (status, text) = sites.get("two", path);
                assert_ne!(text, "text of one", "{target}{path}, {when} a reload");
                status == 403
            });
            for _ in 0..3 {
                assert_ne!(sites.get("two", path).1, "text of one", "{target}{path}, {when}");
            }
            reload(&sites);
        }
        give_back(&sites, "two/public");
    }
    sites.server.stop();
}

#[test]
fn a_folder_of_another_site_is_not_kept_as_the_former_release() {
    if !can_run() {
        return;
    }
    let sites = Sites::start("");
    sites.folder.file("one/a.txt", "text of one");
    sites.folder.file("two/next/a.txt", "next text of two");
    let user = give_to_pools(&sites);
    exchange(&sites, "two/public", "next", user);
    reload(&sites);
    // As many as are served at once. The last one is refused.
    for (number, target) in ["one/public", "one/data", "one"].into_iter().enumerate() {
        sites.folder.folder(target);
        exchange(&sites, "two/public", &sites.path(target), user);
        wait_until("the link is noticed", || {
            sites.server.log().matches("a new release; serving").count() > number
        });
    }
    exchange(&sites, "two/public", "next", user);
    sites.server.wait_for_log("two/next now: it is served in ");
    for _ in 0..40 {
        assert_ne!(sites.get("two", "/a.txt").1, "text of one");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    give_back(&sites, "two/public");
    sites.server.stop();
}

#[test]
fn folders_that_a_site_exchanges_open_no_folder_of_another_site() {
    if !can_run() || !has_landlock() {
        return;
    }
    let sites = Sites::start("writable = [\"two/data\"]\nreadable = [\"two/lists/current\"]");
    sites.folder.file("two/data/a.txt", "own");
    sites.folder.file("two/lists/1/a.txt", "own");
    sites.folder.file("elsewhere/a.txt", "of nobody");
    symlink("1", sites.path("two/lists/current")).unwrap();
    let user = give_to_pools(&sites);
    lchown(sites.path("two/lists/current"), Some(user), None).unwrap();
    let attempts = || {
        let files = ["one/settings", "one/public/index.php"];
        files.map(|file| sites.run(&read(&sites.path(file))))
    };
    reload(&sites);
    assert_eq!(sites.run(&read(&sites.path("two/lists/current/a.txt"))), "open");
    for target in ["one", "one/public", "state/one", "."] {
        exchange(&sites, "two/data", &sites.path(target), user);
        exchange(&sites, "two/lists/current", &sites.path(target), user);
        reload(&sites);
        assert_eq!(attempts(), ["closed"; 2], "{target}");
        assert_eq!(sites.run_in("one", "echo 'fine';"), "fine");
        give_back(&sites, "two/data");
    }
    let log = sites.server.log();
    assert!(log.contains("two/data: the link "), "{log}");
    assert!(log.contains(" leads to folders of site one; make root the link's owner"), "{log}");
    sites.server.stop();
}
