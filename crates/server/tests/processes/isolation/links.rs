//! Links of one site into the folders of another one of the same user, for the front to follow.

use std::os::unix::fs::{MetadataExt, chown, lchown, symlink};

use super::{Sites, can_run};
use crate::support::wait_until;

#[test]
fn the_front_follows_no_link_into_the_folder_of_another_site() {
    if !can_run() {
        return;
    }
    let sites = Sites::start("");
    let user = std::fs::metadata(sites.path("state/one")).unwrap().uid();
    sites.folder.file("one/public/a.txt", "text of one");
    sites.folder.file("two/public/a.txt", "text of two");
    sites.folder.file("elsewhere/a.txt", "text of nobody");
    for name in ["one", "two", "elsewhere", "state"] {
        for found in walk(&sites.folder.path().join(name)) {
            chown(found, Some(user), None).unwrap();
        }
    }
    chown(sites.folder.path(), Some(user), None).unwrap();
    let link = |target: &str, name: &str, owner: u32| {
        let link = sites.path(&format!("one/public/{name}"));
        let _ = std::fs::remove_file(&link);
        symlink(target, &link).unwrap();
        lchown(&link, Some(owner), None).unwrap();
    };
    let session = std::path::Path::new(&sites.path("state/two/sessions")).join("sess_x");
    std::fs::write(&session, "session of two").unwrap();
    chown(&session, Some(user), None).unwrap();
    let rows = [
        (sites.path("two/settings"), "l.txt", user, 403),
        (sites.path("two/public/a.txt"), "a2.txt", user, 403),
        (sites.path("two/public"), "folder/a.txt", user, 403),
        ("../../two/settings".to_owned(), "relative.txt", user, 403),
        (session.display().to_string(), "session.txt", user, 403),
        // A link to a link.
        (sites.path("one/public/l.txt"), "chain.txt", user, 403),
        // A link to what is above the folder of the other site.
        (sites.path("."), "above/two/public/a.txt", user, 403),
        (sites.path("."), "above/two/settings", user, 403),
        (sites.path("."), "above/state/two/sessions/sess_x", user, 403),
        (sites.path("."), "above/elsewhere/a.txt", user, 200),
        (sites.path("."), "above/one/public/a.txt", user, 200),
        (sites.path("."), "roots/two/settings", 0, 200),
        // The site's own files, others that belong to no site, and what root has linked.
        (sites.path("one/settings"), "own.txt", user, 200),
        (sites.path("one/public/a.txt"), "inside.txt", user, 200),
        (sites.path("elsewhere/a.txt"), "elsewhere.txt", user, 200),
        (sites.path("two/settings"), "root.txt", 0, 200),
    ];
    for (target, name, owner, expected) in &rows {
        link(target, name.split('/').next().unwrap(), *owner);
        // Also from what the front has in memory.
        for _ in 0..3 {
            let (status, text) = sites.get("one", &format!("/{name}"));
            assert_eq!(status, *expected, "{name} {target}: {text}");
        }
    }
    sites
        .server
        .wait_for_log("l.txt: a symbolic link on the way leads into a folder of another");
    assert!(sites.server.log().contains("make root the link's owner with `chown -h root`"));
    // A link that is exchanged.
    for (target, expected) in [("one/settings", 200), ("two/settings", 403), ("one/settings", 200)]
    {
        link(&sites.path(target), "l.txt", user);
        wait_until("the other link is followed", || sites.get("one", "/l.txt").0 == expected);
    }
    assert_eq!(sites.get("two", "/a.txt"), (200, "text of two".to_owned()));
    sites.server.stop();
}

#[test]
fn a_root_that_becomes_a_link_to_another_site_is_not_served() {
    if !can_run() {
        return;
    }
    let sites = Sites::start("");
    let user = std::fs::metadata(sites.path("state/one")).unwrap().uid();
    sites.folder.file("two/public/a.txt", "text of two");
    sites.folder.file("one/public/a.txt", "text of one");
    sites.folder.file("one/next/a.txt", "next text of one");
    for name in ["one", "two"] {
        walk(&sites.folder.path().join(name))
            .into_iter()
            .for_each(|found| chown(found, Some(user), None).unwrap());
    }
    let public = sites.path("one/public");
    assert_eq!(sites.get("one", "/a.txt").0, 200);
    std::fs::rename(&public, sites.path("one/former")).unwrap();
    let link = |target: &str, owner: u32| {
        let _ = std::fs::remove_file(&public);
        symlink(sites.path(target), &public).unwrap();
        lchown(&public, Some(owner), None).unwrap();
    };
    for (target, owner, expected) in [
        ("one/next", user, (200, "next text of one")),
        ("two/public", 0, (200, "text of two")),
        ("one/next", user, (200, "next text of one")),
    ] {
        link(target, owner);
        wait_until("the root is another one", || {
            sites.get("one", "/a.txt") == (expected.0, expected.1.to_owned())
        });
    }
    link("two/public", user);
    wait_until("the root is closed", || sites.get("one", "/a.txt").0 == 403);
    sites.server.stop();
}

/// A folder and everything in it.
pub(super) fn walk(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut found = vec![folder.to_owned()];
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        match entry.file_type().unwrap().is_dir() {
            true => found.extend(walk(&entry.path())),
            false => found.push(entry.path()),
        }
    }
    found
}
