//! The front has a user of its own when root starts the server.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use howdah_sys::credentials::{Identity, group_number};
use howdah_sys::signal::{SIGHUP, SIGUSR1};

use crate::support::{Folder, Setup, has_php, is_root, wait_until};
use crate::{WHO, assert_who, config};

/// A script that sends the signal `n` to the process `p` and shows the result.
const KILL: &str = "echo posix_kill((int) $_GET['p'], (int) $_GET['n']) ? 'sent' : \
    posix_strerror(posix_get_last_error());";

#[test]
fn a_script_of_a_site_without_a_user_cannot_stop_the_front() {
    if !has_php() || !is_root() {
        return;
    }
    let folder = Folder::with_script(KILL);
    folder.file("a.txt", "hello");
    let server = Setup::folder(&folder).start();
    let front = server.front();
    let (stop, kill, probe) = (19, 9, 0);
    for signal in [stop, kill, probe] {
        let response = server.get(&format!("/?p={}&n={signal}", front.number()));
        assert_eq!(response.text(), "Operation not permitted", "signal {signal}");
    }
    assert_eq!(server.get("/a.txt").text(), "hello");
    assert_ne!(front.uid(), server.zygote().uid());
    assert_eq!(server.front(), front);
    server.stop();
}

#[test]
fn the_front_cannot_be_inspected_by_its_own_user() {
    let folder = Folder::new();
    folder.file("a.txt", "hello");
    let server = Setup::folder(&folder).and(&["--no-php"]).start();
    // The kernel gives the files of a process that cannot be dumped to root.
    let files = fs::metadata(format!("/proc/{}/environ", server.front().number())).unwrap();
    assert_eq!(std::os::unix::fs::MetadataExt::uid(&files), 0);
    assert_eq!(server.get("/a.txt").text(), "hello");
    server.stop();
}

#[test]
fn a_root_behind_a_link_is_served_by_a_server_that_was_started_in_a_closed_folder() {
    let (folder, closed) = (Folder::new(), Folder::new());
    folder.file("release/a.txt", "hello");
    symlink("release", folder.path().join("current")).unwrap();
    fs::set_permissions(closed.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let current = folder.path().join("current").display().to_string();
    let arguments = ["serve", &current, "--listen", "127.0.0.1:0", "--no-php"];
    let server = Setup::with(&arguments).current_folder(closed.path()).start();
    assert_eq!(server.get("/a.txt").text(), "hello");
    server.stop();
}

#[test]
fn a_pool_with_the_user_of_the_front_is_refused() {
    if !has_php() {
        return;
    }
    let folder = Folder::with_script(WHO);
    let good = || config(&folder, "", "[site.php]\nworkers = 1");
    let file = good();
    let path = file.display().to_string();
    let server = Setup::config(&file).start();
    let front = server.front();

    config(&folder, "user = \"daemon\"", "[site.php]\nworkers = 1\nuser = \"daemon\"");
    let place = format!("{path}:12:8: the pool of site shop would run as daemon");
    for (command, expected) in [("check", 1), ("serve", 2)] {
        let (status, _, told) = Setup::with(&[command, "--config", &path]).run();
        assert_eq!(status, Some(expected), "{told}");
        assert!(told.contains(&place), "{told}");
    }
    server.signal(SIGHUP);
    server.wait_for_log("the reload is refused");
    server.wait_for_log(&place);
    assert_eq!(server.front(), front);
    assert_who(&server.get("/"));
    good();
    server.stop();
}

#[test]
fn a_second_name_of_the_user_of_the_front_is_refused() {
    if !has_php() || !is_root() {
        return;
    }
    let folder = Folder::with_script(WHO);
    let users = "root:x:0:0::/:/bin/sh\nann:x:4711:4711::/:/bin/sh\nannie:x:4711:4711::/:/bin/sh\n";
    let Some(program) = with_users(&folder, users) else {
        return;
    };
    let file = config(&folder, "user = \"ann\"", "[site.php]\nworkers = 1\nuser = \"annie\"");
    for (command, expected) in [("check", 1), ("serve", 2)] {
        let (status, _, told) = Setup::with(&[command, "--config", file.to_str().unwrap()])
            .program(&program)
            .run();
        assert_eq!(status, Some(expected), "{told}");
        let place =
            format!("howdah: {}:12:8: site shop: its pool would run as annie", file.display());
        assert!(told.contains(&place), "{told}");
    }
}

#[test]
fn without_a_user_howdah_the_front_takes_a_number_that_is_no_user_s() {
    if !has_php() || !is_root() {
        return;
    }
    let folder = Folder::with_script(WHO);
    let users = "root:x:0:0::/:/bin/sh\nwww-data:x:33:33::/:/bin/sh\n";
    let Some(program) = with_users(&folder, users) else {
        return;
    };
    let server = Setup::folder(&folder).program(&program).start();
    assert_who(&server.get("/"));
    let (front, pool) = (server.front(), server.zygote());
    assert!((61184..=65519).contains(&front.uid()), "{}", front.uid());
    assert_eq!((pool.uid(), front.status("Gid"), true), (33, pool.status("Gid"), true));
    server.wait_for_log("there is no user howdah");
    server.wait_for_log("adduser --system");
    let uid = front.uid();
    server.kill_front();
    assert_who(&server.get("/"));
    assert_eq!(server.front().uid(), uid);
    server.stop();
}

#[test]
fn the_user_howdah_is_the_front_s() {
    if !has_php() || !is_root() {
        return;
    }
    let folder = Folder::with_script(WHO);
    let users =
        "root:x:0:0::/:/bin/sh\nwww-data:x:33:33::/:/bin/sh\nhowdah:x:4711:4711::/:/bin/sh\n";
    let Some(program) = with_users(&folder, users) else {
        return;
    };
    let server = Setup::folder(&folder).program(&program).start();
    assert_who(&server.get("/"));
    assert_eq!((server.front().uid(), server.zygote().uid()), (4711, 33));
    assert!(!server.log().contains("there is no user"), "{}", server.log());
    server.stop();
}

#[test]
fn the_front_reads_what_web_servers_may_read() {
    let Some(readers) = group_number("www-data").unwrap() else {
        return howdah_skip::skip!("this machine has no group www-data");
    };
    if !is_root() {
        return;
    }
    let folder = Folder::new();
    let root = folder.folder("site");
    folder.file("site/a.txt", "hello");
    folder.file("site/closed/.htaccess", "Require all denied\n");
    folder.file("site/closed/a.txt", "closed");
    symlink("a.txt", root.join("link.txt")).unwrap();
    for (name, mode) in [("", 0o750), ("a.txt", 0o640), ("closed", 0o750)] {
        give_to_group(&root.join(name), readers, mode);
    }
    give_to_group(&root.join("closed/.htaccess"), readers, 0o640);
    give_to_group(&root.join("closed/a.txt"), readers, 0o640);
    let text = format!(
        "listen = [\"127.0.0.1:0\"]\ncontrol = \"control\"\n[log]\naccess = \"logs/access\"\n\
         error = \"logs/error\"\n\
         [[site]]\nroot = {root:?}\nphp = false\n"
    );
    let logs = folder.folder("logs");
    fs::set_permissions(&logs, fs::Permissions::from_mode(0o700)).unwrap();
    let server = Setup::config(&folder.file("howdah.toml", text)).start();
    assert_eq!(server.get("/a.txt").text(), "hello");
    assert_eq!(server.get("/link.txt").text(), "hello");
    assert_eq!(server.get("/closed/a.txt").status, 403);

    // Changes are seen, in files and in rules.
    fs::write(root.join("a.txt"), "changed").unwrap();
    wait_until("the new content is served", || server.get("/a.txt").text() == "changed");
    fs::write(root.join("closed/.htaccess"), "# open\n").unwrap();
    wait_until("the new rules apply", || server.get("/closed/a.txt").text() == "closed");

    // The logs are in a folder that only root may enter.
    let lines = |name: &str| fs::read_to_string(logs.join(name)).unwrap_or_default();
    wait_until("the log has the requests", || lines("access").contains("GET /a.txt"));
    fs::rename(logs.join("access"), logs.join("access.1")).unwrap();
    server.signal(SIGUSR1);
    wait_until("the new log has requests", || {
        server.get("/a.txt");
        lines("access").contains("GET /a.txt")
    });
    server.stop();
}

#[test]
fn the_front_has_the_groups_that_an_administrator_gave_to_www_data() {
    if !has_php() || !is_root() {
        return;
    }
    let readers = Identity::of_user("www-data", None).unwrap();
    let Some(readers) = readers else {
        return howdah_skip::skip!("this machine has no user www-data");
    };
    let folder = Folder::with_script(WHO);
    let server = Setup::folder(&folder).start();
    let groups = server.front().status("Groups").unwrap();
    let groups: Vec<u32> = groups.split_whitespace().map(|group| group.parse().unwrap()).collect();
    assert!(readers.groups.iter().all(|group| groups.contains(group)), "{groups:?}");
    assert!(!groups.contains(&0), "{groups:?}");
    server.stop();
}

fn give_to_group(path: &Path, group: u32, mode: u32) {
    chown(path, Some(0), Some(group)).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// A program that executes howdah where these are all users. `None`, with the reason printed, where
/// mounts are not permitted.
fn with_users(folder: &Folder, users: &str) -> Option<PathBuf> {
    let list = folder.file("users", users);
    let text = format!(
        "#!/bin/sh\nexec unshare --mount sh -c 'mount --bind {} /etc/passwd && exec \"$@\"' sh {} \
         \"$@\"\n",
        list.display(),
        crate::support::HOWDAH,
    );
    let program = folder.program("howdah-with-users", text);
    let works = Command::new(&program).arg("--version").output();
    if works.is_ok_and(|output| output.status.success()) {
        return Some(program);
    }
    howdah_skip::skip!("this machine permits no mount in a namespace of its own");
    None
}
