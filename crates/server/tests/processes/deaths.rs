//! Any process may die at any time; the rest goes on, or goes too.

use std::thread;
use std::time::Duration;

use howdah_sys::signal::{SIGHUP, SIGKILL, SIGUSR2};

use crate::support::{Client, Folder, Load, Process, Setup, has_php, is_root, wait_until};
use crate::{SLOW, WHO, assert_who, config, is_who};

#[test]
fn a_dead_front_is_replaced_by_a_new_generation() {
    if !has_php() {
        return;
    }
    let folder = Folder::with_script(WHO);
    let server = Setup::folder(&folder).start();
    let zygote = server.zygote();
    let front = server.kill_front();
    // The address is never gone: who connects meanwhile waits.
    assert_who(&server.get("/"));
    assert_ne!(server.front(), front);
    wait_until("the former zygote has ended", || !zygote.lives());
    server.wait_for_log(&format!(
        "the front {} was killed by SIGKILL; another takes its place",
        front.number()
    ));
    server.stop();
}

#[test]
fn a_dead_zygote_is_replaced_under_the_same_front() {
    if !has_php() {
        return;
    }
    let folder = Folder::with_script(WHO);
    folder.file("a.txt", "hello");
    let server = Setup::folder(&folder).start();
    let front = server.front();
    for _ in 0..2 {
        let mut client = Client::connect(server.address());
        let zygote = server.kill_zygote();
        assert_eq!(client.get("/a.txt").text(), "hello");
        // No worker has begun this request, so it waits for the next zygote.
        assert_who(&client.get("/"));
        assert_ne!(server.zygote(), zygote);
        let what = format!("default: its zygote {} was killed by SIGKILL; ", zygote.number());
        server.wait_for_log(&what);
    }
    assert_eq!(server.front(), front);
    server.stop();
}

#[test]
fn a_dead_worker_costs_its_own_request_only() {
    if !has_php() {
        return;
    }
    let folder = Folder::with_script(WHO);
    folder.file("slow.php", format!("<?php {SLOW}"));
    folder.file("crash.php", "<?php posix_kill(getmypid(), 11);");
    let server = Setup::folder(&folder).start();
    let (front, zygote) = (server.front(), server.zygote());
    let load = Load::start(server.address(), 2, "/", is_who);
    load.go_on(20);
    for _ in 0..20 {
        assert_eq!(server.get("/crash.php").status, 502);
    }
    load.go_on(20);
    load.end_without_failure();
    assert_eq!((server.front(), server.zygote()), (front, zygote));
    wait_until("there are two workers again", || server.workers().len() == 2);
    server.wait_for_log("was killed by SIGSEGV");
    server.stop();
}

#[test]
fn idle_workers_that_are_killed_are_replaced() {
    if !has_php() {
        return;
    }
    let folder = Folder::with_script(WHO);
    let server = Setup::folder(&folder).start();
    wait_until("there are two workers", || server.workers().len() == 2);
    let workers = server.workers();
    for worker in &workers {
        worker.signal(11); // SIGSEGV
    }
    wait_until("there are two others", || {
        let now = server.workers();
        now.len() == 2 && !now.iter().any(|worker| workers.contains(worker))
    });
    assert_who(&server.get("/"));
    server.stop();
}

/// As `kill -USR2 $(pidof howdah howdah-php)` does, for a new program.
#[test]
fn signals_that_mean_the_supervisor_end_no_other_process() {
    if !has_php() {
        return;
    }
    let folder = Folder::with_script(WHO);
    let server = Setup::folder(&folder).start();
    assert_who(&server.get("/"));
    wait_until("all processes are there", || server.processes().len() == 5);
    let processes = server.processes();
    for process in processes.iter().filter(|one| **one != server.supervisor()) {
        for signal in [SIGHUP, SIGUSR2] {
            process.signal(signal);
        }
    }
    // A front that takes a signal for the supervisor's death has five seconds left.
    thread::sleep(Duration::from_secs(6));
    assert_who(&server.get("/"));
    assert_eq!(server.processes(), processes, "{}", server.log());
    server.stop();
}

#[test]
fn everything_goes_with_the_supervisor() {
    if !has_php() {
        return;
    }
    let folder = Folder::with_script(WHO);
    folder.file("endless.php", "<?php sleep(600);");
    let mut server = Setup::folder(&folder).start();
    assert_who(&server.get("/"));
    wait_until("all processes are there", || server.processes().len() == 5);
    let processes = server.processes();
    Client::connect(server.address()).ask("/endless.php").unwrap();
    server.signal(SIGKILL);
    assert_eq!(server.wait().code(), None);
    wait_until("all others have gone", || !processes.iter().any(Process::lives));
    assert!(Client::try_connect(server.address()).is_err());
}

#[test]
fn a_supervisor_that_is_killed_lets_the_front_finish() {
    let folder = Folder::new();
    // More than the kernel takes for a client that does not read.
    folder.file("large", vec![b'x'; 32 << 20]);
    // The front has a few seconds for that. A busy machine may need more, and the next attempt
    // less.
    wait_until("a client gets all of its answer", || {
        let mut server = Setup::folder(&folder).and(&["--no-php"]).start();
        let front = server.front();
        let mut client = Client::connect(server.address());
        client.ask("/large").unwrap();
        client.wait_for(b"xxx");
        server.signal(SIGKILL);
        server.wait();
        let answer = client.answer();
        wait_until("the front has gone", || !front.lives());
        answer.is_ok_and(|response| response.body.len() == 32 << 20)
    });
}

#[test]
fn the_supervisor_leaves_no_zombies_and_leaks_no_descriptors() {
    if !has_php() {
        return;
    }
    let folder = Folder::with_script(WHO);
    // With a control socket of its own, which no other test can be in the way of.
    let site = "[site.php]\nworkers = 2\nstandby = false";
    let server = Setup::config(&config(&folder, "", site)).start();
    let supervisor = server.supervisor();
    let before = supervisor.settled_descriptors();
    for round in 0..6 {
        match round % 3 {
            0 => {
                server.kill_front();
            }
            1 => {
                server.kill_zygote();
            }
            _ => {
                let front = server.front();
                supervisor.signal(SIGHUP);
                wait_until("another front serves", || !front.lives());
            }
        }
        assert_who(&server.get("/"));
        wait_until("one front and one zygote are left", || supervisor.children().len() == 2);
    }
    wait_until("all is as before", || supervisor.descriptors().len() <= before.len());
    wait_until("no zombie is left", || {
        supervisor.zombies().is_empty() && server.zygote().zombies().is_empty()
    });

    // Each process holds only its own descriptors: the front one end of each socket, a zygote its
    // seven, a worker no way to either. They show them to root alone.
    if !is_root() {
        return server.stop();
    }
    let front = server.front().descriptors();
    assert!(!front.iter().any(|target| target.contains("signalfd")), "{front:?}");
    let zygote = server.zygote();
    let sockets = |process: &Process| {
        process
            .descriptors()
            .iter()
            .filter(|target| target.starts_with("socket:"))
            .count()
    };
    let slots = 8;
    // Two of its own, and both ends of the one for the workers' output.
    assert_eq!(sockets(&zygote), 2 + 2 + slots, "{:?}", zygote.descriptors());
    for worker in zygote.children() {
        assert!(sockets(&worker) <= slots, "{:?}", worker.descriptors());
    }
    server.stop();
}

#[test]
fn many_deaths_of_workers_in_a_short_time_are_one_error_with_their_number() {
    if !has_php() {
        return;
    }
    let folder = Folder::with_script(WHO);
    folder.file("crash.php", "<?php posix_kill(getmypid(), 11);");
    let server = Setup::config(&config(
        &folder,
        "",
        "[site.php]\nmode = \"static\"\nworkers = 4\nstandby = false",
    ))
    .start();
    for _ in 0..25 {
        assert_eq!(server.get("/crash.php").status, 502);
    }
    assert!(is_who(&server.get("/")));
    server.wait_for_log("10 workers have died within ");
    let log = server.log();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("have died within")).collect();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains(" error ") && lines[0].contains("(10 by SIGSEGV)"), "{lines:?}");
    server.stop();
}
