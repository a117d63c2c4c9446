//! A second zygote stands by, so that a death costs little time.

use howdah_sys::signal::{SIGHUP, SIGKILL, SIGSTOP};

use crate::support::{Folder, Load, Process, Server, Setup, has_php, status, wait_until};
use crate::{WHO, assert_who, config, is_who};

/// Waits until a zygote stands by, and PHP has started in it.
pub(crate) fn standby(server: &Server, folder: &Folder) -> Process {
    let file = folder.path().join("howdah.toml");
    wait_until("a zygote stands by", || {
        let standbys = server.supervisor().standbys();
        standbys.len() == 1
            && status(&file).contains(&format!("{} stands by", standbys[0].number()))
    });
    let standby = server.supervisor().standbys()[0];
    // It has told that PHP has started, and waits for messages a moment later. Only root sees that
    // of such a process; others see a zero.
    wait_until("it waits for messages", || {
        let wait = std::fs::read_to_string(format!("/proc/{}/wchan", standby.number()));
        let is_hidden = |wait: &str| wait == "0" && !crate::support::is_root();
        wait.is_ok_and(|wait| wait.contains("poll") || is_hidden(&wait))
            || standby.sleeps().is_none()
    });
    standby
}

fn start(folder: &Folder) -> Server {
    Setup::config(&config(folder, "", "[site.php]\nworkers = 2")).start()
}

#[test]
fn the_zygote_that_stands_by_replaces_one_that_died() {
    if !has_php() {
        return;
    }
    let folder = Folder::with_script(WHO);
    let server = start(&folder);
    for _ in 0..4 {
        let standby = standby(&server, &folder);
        let zygote = server.kill_zygote();
        assert_who(&server.get("/"));
        assert_eq!(server.zygote(), standby);
        wait_until("both workers are there", || server.workers().len() == 2);
        server.wait_for_log(&format!("its new zygote {} is ready", standby.number()));
        assert!(!zygote.lives());
    }
    let log = server.log();
    assert!(!log.contains("because it keeps dying"), "none had to wait for its successor: {log}");
    server.stop();
}

#[test]
fn a_pool_in_which_php_does_not_start_keeps_no_other_from_a_second_zygote() {
    if !has_php() {
        return;
    }
    let folder = Folder::with_script(WHO);
    let php = std::path::Path::new(crate::support::HOWDAH).with_file_name("howdah-php");
    let (marks, php) = (folder.folder("marks"), php.display().to_string());
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(&marks, open).unwrap();
    // PHP starts once, and never again.
    let program = folder.program(
        "php-once",
        format!(
            "#!/bin/sh\n[ \"$1\" = zygote ] || exec {php} \"$@\"\n\
             if mkdir {}/begun; then exec {php} \"$@\"; fi\nexec sleep 1000\n",
            marks.display()
        ),
    );
    let site = |name: &str, more: &str| {
        format!(
            "[[site]]\nname = \"{name}\"\nhosts = [\"{name}.example\"]\nroot = \"{}\"\n\
             [site.php]\nworkers = 1\nstate_dir = \"state/{name}\"\nsandbox = \"off\"\n{more}\n",
            folder.path().display()
        )
    };
    let text = format!(
        "listen = [\"127.0.0.1:0\"]\ncontrol = \"control\"\n[log]\naccess = \"off\"\n{}{}",
        site("broken", &format!("program = {:?}", program.display().to_string())),
        site("shop", "")
    );
    let file = folder.file("howdah.toml", text);
    let server = Setup::config(&file).start();
    wait_until("a zygote of the other pool stands by", || {
        let state = status(&file);
        let (_, shop) = state.split_once("pool shop:").unwrap_or_default();
        shop.lines().next().is_some_and(|pool| pool.contains("stands by"))
    });
    server.stop();
}

#[test]
fn a_new_front_takes_the_zygotes_that_stand_by() {
    if !has_php() {
        return;
    }
    let folder =
        Folder::with_script("error_log('from ' . getmypid()); echo 'worker ', getmypid();");
    let server = start(&folder);
    let standby = standby(&server, &folder);
    let former = server.zygote();
    server.kill_front();
    assert_who(&server.get("/"));
    wait_until("the former zygote has ended", || !former.lives());
    assert_eq!(server.zygote(), standby);
    // Its log is still read.
    let worker = server.get("/").text().replace("worker ", "from ");
    server.wait_for_log(&worker);
    // It is looked after as any other.
    let workers = server.workers();
    workers[0].signal(SIGKILL);
    wait_until("the worker is replaced", || {
        let now = server.workers();
        now.len() == 2 && !now.contains(&workers[0])
    });
    server.stop();
}

#[test]
fn requests_of_other_connections_survive_the_death_of_front_and_zygote() {
    if !has_php() {
        return;
    }
    let folder = Folder::with_script(WHO);
    folder.file("a.txt", "hello");
    let server = start(&folder);
    let load = Load::start(server.address(), 2, "/a.txt", |response| response.text() == "hello");
    for _ in 0..2 {
        load.go_on(20);
        standby(&server, &folder);
        server.kill_zygote();
        assert_who(&server.get("/"));
        load.go_on(20);
    }
    load.end_without_failure();
    let load = Load::start(server.address(), 2, "/", is_who);
    load.go_on(20);
    load.end_without_failure();
    server.stop();
}

#[test]
fn a_zygote_that_stands_by_dies_with_its_generation_and_is_replaced_alone() {
    if !has_php() {
        return;
    }
    let folder = Folder::with_script(WHO);
    let server = start(&folder);
    let first = standby(&server, &folder);
    let (front, zygote) = (server.front(), server.zygote());
    first.signal(SIGKILL);
    wait_until("it has gone", || !first.lives());
    let second = standby(&server, &folder);
    assert_ne!(first, second);
    server.wait_for_log("that stood by was killed by SIGKILL");
    assert_eq!((server.front(), server.zygote()), (front, zygote));

    server.signal(SIGHUP);
    wait_until("it goes with its generation", || !front.lives() && !second.lives());
    let third = standby(&server, &folder);
    assert_who(&server.get("/"));
    server.stop();
    assert!(!third.lives());
}

#[test]
fn a_zygote_that_a_script_has_stopped_goes_on() {
    if !has_php() {
        return;
    }
    let folder = Folder::with_script(WHO);
    folder.file("stop.php", "<?php echo posix_kill((int) $_GET['pid'], 19) ? 'stopped' : 'no';");
    let server = start(&folder);
    let (zygote, standby) = (server.zygote(), standby(&server, &folder));
    let told = server.get(&format!("/stop.php?pid={}", zygote.number()));
    assert_eq!(told.text(), "stopped");
    // Kernels that know scopes keep the script from this one; other processes of the user are not.
    standby.signal(SIGSTOP);
    for number in [zygote.number(), standby.number()] {
        server.wait_for_log(&format!("its zygote {number} was stopped by a signal, and goes on"));
    }
    // Workers that end are replaced, by the same zygote.
    let worker = server.workers()[0];
    worker.signal(SIGKILL);
    wait_until("the worker is replaced", || {
        let now = server.workers();
        now.len() == 2 && !now.contains(&worker)
    });
    assert_eq!(server.zygote(), zygote);
    server.kill_zygote();
    assert_who(&server.get("/"));
    assert_eq!(server.zygote(), standby);
    server.stop();
}

/// A site's owner can break what PHP needs for its start. The zygote that serves forks the one that
/// takes its place.
#[test]
fn a_site_whose_php_does_not_start_any_more_outlives_zygotes_and_fronts() {
    if !has_php() {
        return;
    }
    let folder = Folder::with_script(WHO);
    let server = start(&folder);
    standby(&server, &folder);
    let sessions = folder.path().join("state/shop/sessions");
    std::fs::remove_dir_all(&sessions).unwrap();
    std::fs::write(&sessions, "").unwrap();
    // The zygote that stood by started before.
    server.kill_front();
    assert_who(&server.get("/"));
    let twin = standby(&server, &folder);
    let told = format!("{}, a twin of the zygote that serves, stands by", twin.number());
    server.wait_for_log(&told);
    assert!(server.log().contains("PHP does not start: cannot create the folder"));
    server.kill_front();
    assert_who(&server.get("/"));
    assert_eq!(server.zygote(), twin);
    let twin = standby(&server, &folder);
    server.kill_zygote();
    assert_who(&server.get("/"));
    assert_eq!(server.zygote(), twin);
    wait_until("both workers are there", || server.workers().len() == 2);

    std::fs::remove_file(&sessions).unwrap();
    server.signal(SIGHUP);
    wait_until("PHP has started anew", || !twin.lives());
    assert_who(&server.get("/"));
    server.stop();
}

/// Includes ten files, and tells how many of them opcache had, and has.
const INCLUDES: &str =
    "$of = fn () => count(array_filter(array_keys(opcache_get_status()['scripts']), \
    fn ($path) => str_contains($path, '/parts/')));
    $before = $of(); for ($i = 0; $i < 10; $i++) include __DIR__ . \"/parts/$i.php\";
    echo $before, ' ', $of();";

/// A server whose supervisor has the list of the ten files that opcache has.
fn with_list(folder: &Folder) -> Server {
    for number in 0..10 {
        folder.file(&format!("parts/{number}.php"), "<?php");
    }
    let site = "[site.php]\nworkers = 2\nini = { opcache.file_update_protection = 0 }";
    let server = Setup::config(&config(folder, "", site)).start();
    assert!(server.get("/").text().ends_with(" 10"));
    let kept = format!("/proc/{}/fd", server.supervisor().number());
    wait_until("the supervisor has the list", || {
        let files = std::fs::read_dir(&kept).unwrap().map(|entry| entry.unwrap().path());
        let is_list = |file: &std::path::PathBuf| {
            let target = std::fs::read_link(file).unwrap_or_default();
            target.to_string_lossy().contains("memfd:howdah-scripts")
        };
        let mut lists = files.filter(is_list).map(|file| std::fs::read(file).unwrap_or_default());
        lists.any(|list| {
            (0..10).all(|number| {
                String::from_utf8_lossy(&list).contains(&format!("/parts/{number}.php\0"))
            })
        })
    });
    server
}

#[test]
fn a_zygote_that_replaces_a_dead_one_compiles_its_files_before_visitors_come() {
    if !has_php() {
        return;
    }
    let folder = Folder::with_script(INCLUDES);
    let server = with_list(&folder);
    server.kill_zygote();
    server.wait_for_log("opcache has 11 scripts of the former zygote, compiled in");
    assert_eq!(server.get("/").text(), "10 10");
    server.stop();
}

#[test]
fn after_the_death_of_the_front_files_are_compiled_before_visitors_come() {
    if !has_php() {
        return;
    }
    let folder = Folder::with_script(INCLUDES);
    let server = with_list(&folder);
    standby(&server, &folder);
    server.kill_front();
    server.wait_for_log("opcache has 11 scripts of the former zygote, compiled in");
    assert_eq!(server.get("/").text(), "10 10");
    server.stop();
}

#[test]
fn no_zygote_stands_by_where_none_is_wanted() {
    if !has_php() {
        return;
    }
    let folder = Folder::with_script(WHO);
    let site = "[site.php]\nworkers = 1\nstandby = false";
    let server = Setup::config(&config(&folder, "", site)).start();
    std::thread::sleep(std::time::Duration::from_millis(1500));
    assert!(server.supervisor().standbys().is_empty());
    server.kill_zygote();
    assert_who(&server.get("/"));
    server.stop();
}
