//! Processes that scripts start may outlive the request, but never the pool.

use std::fs;

use howdah_sys::signal::{SIGHUP, SIGKILL};

use crate::support::{Folder, Process, Server, Setup, has_php, is_root, status, wait_until};
use crate::{WHO, assert_who, config};

/// `nobody` on every Linux.
const NOBODY: u32 = 65534;

/// Starts a `sleep` of `for` seconds in each way in which a script can leave a process behind.
const START: &str = "
    $sleep = 'sleep ' . (int) $_GET['for'];
    exec(\"$sleep >/dev/null 2>&1 &\");
    exec(\"nohup $sleep >/dev/null 2>&1 &\");
    exec(\"setsid $sleep >/dev/null 2>&1 &\");
    exec(\"sh -c '(setsid sh -c \\\"$sleep & exit\\\" >/dev/null 2>&1 &) &'\");
    $null = ['file', '/dev/null', 'r+'];
    proc_open([\"sleep\", $_GET['for']], [$null, $null, $null], $pipes);
    $odd = sys_get_temp_dir() . \"/odd\\xff)\";
    @symlink('/bin/sleep', $odd);
    exec(\"bash -c \\\"exec -a sleep '$odd' {$_GET['for']}\\\" >/dev/null 2>&1 &\");
    echo 'started';
    posix_kill(getmypid(), (int) ($_GET['signal'] ?? 0));
";
/// The processes that [`START`] leaves behind.
const STARTED: usize = 6;

/// The processes that sleep so long.
fn sleepers(seconds: u64) -> Vec<Process> {
    let all = fs::read_dir("/proc").unwrap().flatten();
    all.filter_map(|entry| Some(Process::new(entry.file_name().to_str()?.parse().ok()?)))
        .filter(|process| process.arguments() == format!("sleep {seconds}") && process.lives())
        .collect()
}

/// A number of seconds that no other test uses.
fn seconds(case: usize) -> u64 {
    100_000 + u64::from(std::process::id()) * 100 + case as u64
}

/// Leaves processes behind, which live on after the request and after their worker.
fn leave_behind(server: &Server, case: usize) -> u64 {
    let seconds = seconds(case);
    for signal in [0, SIGKILL] {
        let response = server.get(&format!("/start.php?for={seconds}&signal={signal}"));
        assert_eq!(response.status, if signal == 0 { 200 } else { 502 });
    }
    wait_until("they sleep", || sleepers(seconds).len() == 2 * STARTED);
    assert_who(&server.get("/"));
    std::thread::sleep(std::time::Duration::from_millis(100));
    assert_eq!(sleepers(seconds).len(), 2 * STARTED, "they outlive request and worker");
    seconds
}

fn folder() -> Folder {
    let folder = Folder::with_script(WHO);
    folder.file("start.php", format!("<?php {START}"));
    folder
}

/// The ways of finding them: through control groups, and without.
fn settings() -> [&'static str; 2] {
    ["cgroups = true", "cgroups = false"]
}

#[test]
fn nothing_that_a_script_has_started_outlives_the_pool() {
    if !has_php() {
        return;
    }
    for (round, setting) in settings().into_iter().enumerate() {
        let folder = folder();
        let server = Setup::config(&config(&folder, setting, "[site.php]\nworkers = 2")).start();
        let gone = |seconds: u64, what: &str| {
            wait_until(&format!("{setting}: none is left after {what}"), || {
                sleepers(seconds).is_empty()
            });
            assert_who(&server.get("/"));
        };
        let seconds = leave_behind(&server, round * 10);
        server.kill_zygote();
        gone(seconds, "the zygote's death");

        let seconds = leave_behind(&server, round * 10 + 1);
        let front = server.front();
        server.signal(SIGHUP);
        wait_until("another front serves", || !front.lives());
        gone(seconds, "a reload");

        let seconds = leave_behind(&server, round * 10 + 2);
        server.kill_front();
        gone(seconds, "the front's death");

        let seconds = leave_behind(&server, round * 10 + 3);
        server.stop();
        assert_eq!(sleepers(seconds), [], "{setting}");
    }
}

#[test]
fn nothing_that_a_script_of_an_ordinary_user_has_started_outlives_the_pool() {
    if !has_php() || !is_root() {
        return;
    }
    let folder = folder();
    let server = Setup::folder(&folder).user(NOBODY).start();
    let seconds = leave_behind(&server, 30);
    server.kill_zygote();
    wait_until("none is left", || sleepers(seconds).is_empty());
    let seconds = leave_behind(&server, 31);
    server.stop();
    assert_eq!(sleepers(seconds), []);
}

#[test]
fn nothing_that_a_script_has_started_outlives_a_killed_supervisor() {
    if !has_php() {
        return;
    }
    for (case, setting) in (40..).zip(settings()) {
        let folder = folder();
        let file = config(&folder, setting, "[site.php]\nworkers = 2");
        let mut server = Setup::config(&file).start();
        let seconds = leave_behind(&server, case);
        let groups = control_groups(server.supervisor());
        assert!(setting != "cgroups = false" || groups.is_empty(), "{groups:?}");
        server.signal(SIGKILL);
        server.wait();
        wait_until("none is left", || sleepers(seconds).is_empty());

        // The next server removes the folders of the one that was killed.
        let server = Setup::config(&file).start();
        wait_until("the groups are gone", || !groups.iter().any(|group| group.exists()));
        server.stop();
    }
}

#[test]
fn processes_that_fork_all_the_time_are_ended() {
    // Each process starts two others and ends at once, so that no list of processes is ever right.
    const BOMB: &str = "#!/bin/sh\n\"$0\" & \"$0\" &\n";
    if !has_php() || !is_root() {
        return;
    }
    for (name, setting) in ["groups", "ancestry"].into_iter().zip(settings()) {
        let folder = Folder::with_script(WHO);
        let bomb = folder.program(&format!("bomb-{}-{name}", std::process::id()), BOMB);
        let text = format!(
            "<?php exec('bash -c \"ulimit -u 60; exec setsid {} >/dev/null 2>&1\" &'); echo 'lit';",
            bomb.display()
        );
        folder.file("bomb.php", text);
        // A user that nothing else runs as, because the limit counts all processes of a user.
        let file = config(&folder, setting, "[site.php]\nworkers = 2\nuser = \"backup\"");
        let server = Setup::config(&file).start();
        assert_eq!(server.get("/bomb.php").text(), "lit");
        let bombs = || {
            let all = fs::read_dir("/proc").unwrap().flatten();
            all.filter_map(|entry| Some(Process::new(entry.file_name().to_str()?.parse().ok()?)))
                .filter(|process| process.arguments().contains(bomb.to_str().unwrap()))
                .count()
        };
        let goes_off = || {
            let count = bombs();
            if count == 0 {
                assert_eq!(server.get("/bomb.php").text(), "lit"); // The limit has ended it.
            }
            count > 20
        };
        wait_until("it goes off", goes_off);
        server.kill_zygote();
        wait_until(&format!("{setting}: it is over"), || bombs() == 0);
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert_eq!(bombs(), 0, "{setting}");
        assert_who(&server.get("/"));
        wait_until("it goes off again", goes_off);
        server.stop();
        assert_eq!(bombs(), 0, "{setting}");
    }
}

#[test]
fn a_pool_is_in_a_control_group_with_its_limits() {
    if !has_php() || !is_root() {
        return;
    }
    let folder = Folder::with_script(WHO);
    folder.file(
        "more.php",
        "<?php for ($i = 0; $i < 40; $i++) { $null = ['file', '/dev/null', 'r+'];
         $all[] = @proc_open(['sleep', '600'], [$null, $null, $null], $pipes); }
         echo count($all = array_filter($all));
         foreach ($all as $process) proc_terminate($process, 9);",
    );
    folder.file(
        "large.php",
        "<?php ini_set('memory_limit', -1); echo strlen(str_repeat('x', 200 << 20));",
    );
    let limits = "memory = \"100M\"\npids = 20\ncpu_weight = 200";
    let file = config(&folder, "", &format!("[site.php]\nworkers = 2\n{limits}"));
    let server = Setup::config(&file).start();
    let groups = control_groups(server.supervisor());
    if groups.is_empty() {
        server.wait_for_log("`memory`, `pids`, `cpu_weight` without effect");
        server.stop();
        return howdah_skip::skip!("this machine permits no control groups");
    }
    let log = server.log();
    let works = |key: &str| !log.contains(&format!("`{key}` has no effect"));
    if works("pids") {
        let started: usize = server.get("/more.php").text().parse().unwrap();
        assert!((1..20).contains(&started), "{started}");
    }
    if works("memory") {
        assert_eq!(server.get("/large.php").status, 502);
        server.wait_for_log("was killed by SIGKILL, because memory ran out");
    }
    assert_who(&server.get("/"));
    let told = status(&file);
    assert!(told.contains("in a control group"), "{told}");
    assert!(!works("pids") || told.contains("pids 20"), "{told}");
    server.stop();
    assert!(!groups.iter().any(|group| group.exists()), "{groups:?}");
}

#[test]
fn a_pool_that_does_not_start_leaves_no_control_group() {
    if !has_php() || !is_root() {
        return;
    }
    let folder = Folder::with_script(WHO);
    let server = Setup::config(&config(&folder, "", "[site.php]\nworkers = 1")).start();
    let groups = control_groups(server.supervisor());
    if groups.is_empty() {
        server.stop();
        return howdah_skip::skip!("this machine permits no control groups");
    }
    let pools = || -> usize {
        groups
            .iter()
            .map(|group| fs::read_dir(group).unwrap().flatten())
            .map(|entries| entries.filter(|entry| entry.file_type().unwrap().is_dir()).count())
            .sum()
    };
    let before = pools();
    // The kernel does not execute this.
    let program = folder.program("no-program", "text");
    let broken = format!("[site.php]\nworkers = 1\nprogram = \"{}\"", program.display());
    config(&folder, "", &broken);
    server.signal(SIGHUP);
    server.wait_for_log("cannot start its pool");
    wait_until("its groups are gone", || pools() == before);
    server.stop();
    assert!(!groups.iter().any(|group| group.exists()), "{groups:?}");
}

#[test]
fn workers_are_ended_first_when_memory_is_short() {
    if !has_php() {
        return;
    }
    let folder = Folder::with_script(
        "echo @file_put_contents('/proc/self/oom_score_adj', '-1') ? 'protected' : 'no';",
    );
    let server = Setup::folder(&folder).start();
    let value = |process: Process| -> i32 {
        let path = format!("/proc/{}/oom_score_adj", process.number());
        fs::read_to_string(path).unwrap().trim().parse().unwrap()
    };
    for worker in server.workers() {
        wait_until("the worker has marked itself", || value(worker) == 300);
    }
    assert_eq!(server.get("/").text(), "no");
    let (supervisor, front, zygote) =
        (value(server.supervisor()), value(server.front()), value(server.zygote()));
    assert!(zygote < 300 && front < 300 && supervisor < 300);
    if supervisor == -800 {
        assert!(front == -700 && (-700..-500).contains(&zygote), "{front} {zygote}");
    } else {
        howdah_skip::skip!("this process may not lower oom_score_adj");
    }
    server.stop();
}

/// The folders of the supervisor's control groups.
fn control_groups(supervisor: Process) -> Vec<std::path::PathBuf> {
    let places = fs::read_to_string(format!("/proc/{}/mountinfo", supervisor.number())).unwrap();
    let mut found = Vec::new();
    for line in places.lines().filter(|line| line.contains(" - cgroup")) {
        let mut folders = vec![std::path::PathBuf::from(line.split(' ').nth(4).unwrap())];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                let name = entry.file_name().into_string().unwrap_or_default();
                if name.contains(&format!("-{}.", supervisor.number())) {
                    found.push(entry.path());
                } else if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    folders.push(entry.path());
                }
            }
        }
    }
    found
}
