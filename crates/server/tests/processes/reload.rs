//! SIGHUP, and `howdah reload`.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;

use howdah_sys::signal::{SIGHUP, SIGUSR1};

use crate::support::{
    Client, Folder, HOWDAH, Load, PATIENCE, Process, Response, Server, Setup, free_address,
    has_php, is_root, status, wait_until,
};
use crate::{config, is_who};

const LIMIT: &str = "echo 'worker ', getmypid(), ' ', ini_get('memory_limit');";

fn memory_limit(server: &Server) -> String {
    server.get("/").text().rsplit(' ').next().unwrap().to_owned()
}

fn with_limit(folder: &Folder, limit: &str) -> std::path::PathBuf {
    config(
        folder,
        "",
        &format!("[site.php]\nworkers = 2\nadmin_ini = {{ memory_limit = \"{limit}\" }}"),
    )
}

/// `howdah WORD` for the server of `folder`.
fn ask(folder: &Folder, word: &str) -> (Option<i32>, String, String) {
    let file = folder.path().join("howdah.toml");
    Setup::with(&[word, "--config", file.to_str().unwrap()]).run()
}

#[test]
fn no_request_is_lost_while_config_and_php_are_replaced() {
    if !has_php() {
        return;
    }
    let folder = Folder::with_script(LIMIT);
    let server = Setup::config(&with_limit(&folder, "100M")).start();
    assert_eq!(memory_limit(&server), "100M");
    let load = Load::start(server.address(), 4, "/", is_who);
    for limit in ["101M", "102M", "103M", "104M"] {
        load.go_on(50);
        let before = server.supervisor().children();
        with_limit(&folder, limit);
        server.signal(SIGHUP);
        wait_until("the former generation has gone", || !before.iter().any(Process::lives));
        assert_eq!(memory_limit(&server), limit);
    }
    load.go_on(50);
    load.end_without_failure();
    server.stop();
}

#[test]
fn no_request_is_lost_while_every_kind_of_php_ini_is_changed() {
    if !has_php() {
        return;
    }
    let says = "echo 'worker ', getmypid();
        foreach (['memory_limit', 'user_agent', 'precision'] as $name) echo ' ', ini_get($name);";
    let folder = Folder::with_script(says);
    let change = |round: u32| {
        folder.file("php.ini", format!("memory_limit = {round}M\n"));
        folder.file("conf.d/shop.ini", format!("user_agent = agent-{round}\n"));
        folder.file(".user.ini", format!("precision = {}\n", round % 10));
    };
    change(100);
    let file = config(&folder, "", "[site.php]\nworkers = 2\nini_file = \"php.ini\"");
    // The distribution's own folder, in which opcache is, and another one.
    let scanned = format!(":{}", folder.path().join("conf.d").display());
    let server = Setup::config(&file).environment("PHP_INI_SCAN_DIR", &scanned).start();
    let load = Load::start(server.address(), 4, "/", is_who);
    for round in 101..105 {
        load.go_on(50);
        let before = server.supervisor().children();
        change(round);
        server.signal(SIGHUP);
        wait_until("the former generation has gone", || !before.iter().any(Process::lives));
        let expected = format!(" {round}M agent-{round} {}", round % 10);
        let reply = server.get("/");
        let text = reply.text();
        assert!(text.ends_with(&expected), "{text:?}, not {expected:?}");
    }
    load.go_on(50);
    load.end_without_failure();
    server.stop();
}

#[test]
fn a_request_that_was_begun_is_finished_by_the_generation_that_began_it() {
    if !has_php() {
        return;
    }
    let folder = Folder::with_script(LIMIT);
    let script = "while (ob_get_level()) ob_end_flush(); echo 'begun'; flush(); while \
        (!file_exists('end')) usleep(1000); echo ' and done';";
    folder.file("slow.php", format!("<?php {script}"));
    let server = Setup::config(&with_limit(&folder, "100M")).start();
    let mut client = Client::connect(server.address());
    client.ask("/slow.php").unwrap();
    client.wait_for(b"begun");
    let front = server.front();
    with_limit(&folder, "101M");
    assert_eq!(ask(&folder, "reload").0, Some(0));
    wait_until("the new one answers", || memory_limit(&server) == "101M");
    assert!(front.lives());
    folder.file("end", "");
    assert_eq!(client.answer().unwrap().text(), "begun and done");
    drop(client);
    wait_until("the former front has gone", || !front.lives());
    server.stop();
}

/// The number of `workers` that live.
fn left(workers: &[Process]) -> usize {
    workers.iter().filter(|worker| worker.lives()).count()
}

/// The workers of the pool that has given this answer of [`LIMIT`].
fn workers_beside(server: &Server, answer: &Response) -> Vec<Process> {
    let pid = answer.text().split(' ').nth(1).unwrap().parse().unwrap();
    let pools = server.zygotes().into_iter().map(|zygote| zygote.children());
    pools.into_iter().find(|workers| workers.contains(&Process::new(pid))).unwrap()
}

#[test]
fn a_former_generation_keeps_no_workers_but_those_with_a_request() {
    if !has_php() {
        return;
    }
    for mode in ["static", "dynamic", "auto"] {
        let folder = Folder::with_script(LIMIT);
        let script = "while (ob_get_level()) ob_end_flush(); echo 'begun'; flush(); while \
            (!file_exists('end')) usleep(1000); echo ' and done';";
        folder.file("slow.php", format!("<?php {script}"));
        let site = format!("[site.php]\nmode = \"{mode}\"\nworkers = 6");
        let server = Setup::config(&config(&folder, "probation = \"0s\"", &site)).start();
        let mut formers = Vec::new();
        for _ in 0..3 {
            let mut long = Client::connect(server.address());
            long.ask("/slow.php").unwrap();
            long.wait_for(b"begun");
            let mut kept = Client::connect(server.address());
            let workers = workers_beside(&server, &kept.get("/"));
            assert!(workers.len() >= 2, "{mode}: {workers:?}");
            let (status, _, told) = ask(&folder, "reload");
            assert_eq!(status, Some(0), "{told}");
            wait_until("one worker is left", || left(&workers) == 1);
            // A connection of before brings one more request.
            assert!(is_who(&kept.get("/")), "{mode}");
            formers.push((long, workers));
        }
        wait_until("one worker is left of each", || {
            formers.iter().all(|(_, workers)| left(workers) == 1)
        });
        folder.file("end", "");
        for (long, _) in &mut formers {
            assert_eq!(long.answer().unwrap().text(), "begun and done", "{mode}");
        }
        server.stop();
    }
}

#[test]
fn a_connection_after_the_answer_to_a_reload_meets_the_new_configuration() {
    if !has_php() {
        return;
    }
    let folder = Folder::with_script(LIMIT);
    let server = Setup::config(&with_limit(&folder, "100M")).and(&["--threads", "4"]).start();
    let load = Load::start(server.address(), 4, "/", is_who);
    for round in 101..113 {
        let limit = format!("{round}M");
        with_limit(&folder, &limit);
        let (status, _, told) = ask(&folder, "reload");
        assert_eq!(status, Some(0), "{told}");
        for _ in 0..4 {
            assert_eq!(memory_limit(&server), limit);
        }
    }
    load.end_without_failure();
    server.stop();
}

#[test]
fn a_reload_that_is_asked_for_during_another_is_answered_for_itself() {
    if !has_php() {
        return;
    }
    let folder = Folder::with_script(LIMIT);
    let server = Setup::config(&with_limit(&folder, "100M")).start();
    // The pool's user makes a file there.
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    folder.file(
        "preload.php",
        "<?php touch(__DIR__ . '/begun');
        for ($turn = 0; $turn < 20000 && !file_exists(__DIR__ . '/end'); $turn++) {
            usleep(1000);
            clearstatcache();
        }",
    );
    let preload = folder.path().join("preload.php");
    let preload = format!("\"opcache.preload\" = \"{}\"", preload.display());
    let slow = format!("[site.php]\nworkers = 2\nadmin_ini = {{ {preload} }}");
    let file = config(&folder, "", &slow);
    let control = folder.path().join("control");
    let command = || {
        let mut stream = UnixStream::connect(&control).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(b"reload\n").unwrap();
        stream
    };
    let answer = |mut stream: UnixStream| {
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    };
    let first = command();
    wait_until("the first reload has begun", || folder.path().join("begun").exists());
    fs::write(&file, "listne = [\":80\"]\n").unwrap();
    let second = command();
    // The supervisor takes commands one after the other.
    let asked = ["status", "--control", control.to_str().unwrap()];
    assert_eq!(Setup::with(&asked).run().0, Some(0));
    folder.file("end", "");
    let told = answer(first);
    assert!(told.starts_with("ok\n"), "{told}");
    let told = answer(second);
    assert!(told.starts_with("refused\n") && told.contains("unknown key `listne`"), "{told}");
    server.stop();
}

#[test]
fn a_bad_config_is_refused_and_the_old_one_goes_on() {
    if !has_php() {
        return;
    }
    let folder = Folder::with_script(LIMIT);
    let file = with_limit(&folder, "100M");
    let server = Setup::config(&file).start();
    let children = server.supervisor().children();
    fs::write(&file, "listne = [\":80\"]\n").unwrap();
    let (status, _, told) = ask(&folder, "reload");
    // The client reads the same file, to find the socket.
    assert_eq!(status, Some(2), "{told}");
    let control = folder.path().join("control");
    let (status, _, told) = Setup::with(&["reload", "--control", control.to_str().unwrap()]).run();
    assert_eq!(status, Some(1));
    assert!(told.contains("howdah.toml:1:1: unknown key `listne`"), "{told}");
    server.wait_for_log("the reload is refused, and what was served goes on");
    server.wait_for_log("howdah.toml:1:1: unknown key `listne`");

    // Valid, but PHP does not start.
    config(&folder, "", "[site.php]\nini_file = \"/no/such/php.ini\"");
    let (status, _, told) = ask(&folder, "reload");
    assert_eq!(status, Some(1));
    assert!(told.contains("PHP does not start") && told.contains("/no/such/php.ini"), "{told}");
    wait_until("nothing of it is left", || server.supervisor().children() == children);
    assert_eq!(memory_limit(&server), "100M");

    with_limit(&folder, "101M");
    let (status, told, _) = ask(&folder, "reload");
    assert_eq!(status, Some(0));
    assert!(told.contains("serves"), "{told}");
    wait_until("the new one answers", || memory_limit(&server) == "101M");
    server.stop();
}

#[test]
fn addresses_come_and_go() {
    let folder = Folder::new();
    folder.file("a.txt", "hello");
    let (first, second) = (free_address(), free_address());
    let listen = |addresses: &[std::net::SocketAddr]| {
        let file = config(&folder, "", "php = false");
        let text = fs::read_to_string(&file).unwrap();
        let list: Vec<String> = addresses.iter().map(|address| format!("\"{address}\"")).collect();
        fs::write(&file, text.replace("\"127.0.0.1:0\"", &list.join(", "))).unwrap();
        file
    };
    let server = Setup::config(&listen(&[first])).start();
    let asks =
        |address| Client::try_connect(address).map(|mut client| client.get("/a.txt").status).ok();
    assert_eq!((asks(first), asks(second)), (Some(200), None));
    listen(&[first, second]);
    assert_eq!(ask(&folder, "reload").0, Some(0));
    assert_eq!((asks(first), asks(second)), (Some(200), Some(200)));
    listen(&[second]);
    assert_eq!(ask(&folder, "reload").0, Some(0));
    wait_until("the first address is closed", || asks(first).is_none());
    assert_eq!(asks(second), Some(200));

    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listen(&[second, taken.local_addr().unwrap()]);
    let (status, _, told) = ask(&folder, "reload");
    assert_eq!(status, Some(1));
    assert!(told.contains("another program listens there"), "{told}");
    assert_eq!(asks(second), Some(200));
    server.stop();
}

#[test]
fn status_reload_and_stop() {
    if !has_php() {
        return;
    }
    let folder = Folder::with_script(LIMIT);
    let file = with_limit(&folder, "100M");
    let mut server = Setup::config(&file).start();
    let told = status(&file);
    for part in [
        format!("process {}", server.supervisor().number()),
        format!("listens on http://{}", server.address()),
        format!("generation 1 is serving; front: process {}", server.front().number()),
        format!("pool shop: zygote {}, PHP ", server.zygote().number()),
        "2 workers".to_owned(),
    ] {
        assert!(told.contains(&part), "{part:?} is not in {told}");
    }
    assert_eq!(ask(&folder, "reload").0, Some(0));
    let (status, told, _) = ask(&folder, "stop");
    assert_eq!((status, told.trim()), (Some(0), "stopped"));
    assert_eq!(server.wait().code(), Some(0));
    let (status, _, told) = ask(&folder, "status");
    assert_eq!(status, Some(1));
    assert!(told.starts_with("howdah: no howdah runs with the control socket "), "{told}");
}

#[test]
fn a_stopped_front_does_not_stop_status() {
    let folder = Folder::new();
    let server = Setup::config(&config(&folder, "", "php = false")).start();
    // A front that is stopped for long is replaced, and the next one answers.
    wait_until("the supervisor answers alone", || {
        let front = server.front();
        front.signal(19); // SIGSTOP
        let (status, told, _) = ask(&folder, "status");
        front.signal(18); // SIGCONT
        status == Some(0) && told.contains("the front has not answered")
    });
    server.stop();
}

#[test]
fn logs_are_opened_again_where_only_root_may_write() {
    let folder = Folder::new();
    folder.file("a.txt", "hello");
    let logs = folder.folder("logs");
    let (access, errors) = (logs.join("access"), logs.join("errors"));
    fs::set_permissions(&logs, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let file = config(&folder, "", "php = false");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(
        &file,
        text.replace("access = \"off\"", "access = \"logs/access\"\nerror = \"logs/errors\""),
    )
    .unwrap();
    let server = Setup::config(&file).start();
    let read = |path: &std::path::Path| fs::read_to_string(path).unwrap_or_default();
    let is_visible = is_root_or_own(&server);
    for round in 0..3 {
        let ask = || server.get(&format!("/a.txt?round={round}"));
        ask();
        wait_until("the request is logged", || {
            // Where nobody sees when the front has the new log, the first line may be in the old
            // one.
            if !is_visible {
                ask();
            }
            read(&access).contains(&format!("round={round}"))
        });
        assert!(!is_visible || read(&access).lines().count() == 1, "{}", read(&access));
        fs::rename(&access, logs.join("access.1")).unwrap();
        fs::rename(&errors, logs.join("errors.1")).unwrap();
        server.signal(SIGUSR1);
        wait_until("the logs are there again", || read(&errors).contains("logs were opened again"));
        // The front hears of it a little later than the supervisor.
        let empty = |target: &String| target.ends_with("/access.1");
        wait_until("the front has the new log", || {
            !is_visible || !server.front().descriptors().iter().any(empty)
        });
    }
    server.stop();
}

/// Returns whether this process may look at the front's descriptors: the kernel hides those of a
/// process that gave up rights.
fn is_root_or_own(server: &Server) -> bool {
    is_root() || fs::read_dir(format!("/proc/{}/fd", server.front().number())).is_ok()
}

#[test]
fn a_terminal_that_hangs_up_ends_the_server() {
    // `script` gives it a terminal of its own, which goes when `script` is killed.
    let folder = Folder::new();
    let program = std::path::Path::new("/usr/bin/script");
    if !program.exists() {
        howdah_skip::skip!("no {}", program.display());
        return;
    }
    let file = config(&folder, "pid_file = \"pid\"", "php = false");
    let command = format!("exec {HOWDAH} serve --config {}", file.display());
    let mut terminal = std::process::Command::new(program)
        .args(["-q", "-c", &command, "/dev/null"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let number = || fs::read_to_string(folder.path().join("pid")).ok()?.trim().parse().ok();
    wait_until("it runs", || number().is_some());
    let supervisor = Process::new(number().unwrap());
    wait_until("it has a front", || !supervisor.children().is_empty());
    terminal.kill().unwrap();
    terminal.wait().unwrap();
    wait_until("it has ended", || !supervisor.lives());
}

/// A reload that succeeds may not be what the administrator meant.
#[test]
fn a_reload_tells_its_warnings() {
    if !has_php() {
        return;
    }
    let folder = Folder::new();
    folder.file("a.txt", "hello");
    let ini = folder.file("php.ini", "memory_limit = 100M\n");
    let site = format!("[site.php]\nini_file = \"{}\"", ini.display());
    let file = config(&folder, "", &site);
    let server = Setup::config(&file).start();
    let (status, told, _) = ask(&folder, "reload");
    assert_eq!(status, Some(0), "{told}");
    assert!(!told.contains("syntax error") && !told.contains("its root"), "{told}");
    fs::write(&ini, "memory_limit = \"100M\n").unwrap();
    let root = folder.path().display().to_string();
    let text = fs::read_to_string(&file).unwrap();
    let missing = format!("root = \"{root}/missing\"");
    fs::write(&file, text.replace(&format!("root = \"{root}\""), &missing)).unwrap();
    let (status, told, _) = ask(&folder, "reload");
    assert_eq!(status, Some(0), "{told}");
    let told_of_ini = "warning: site shop: PHP:  syntax error, unexpected end of file";
    assert!(told.contains(told_of_ini), "{told}");
    let told_of_root = format!("warning: site shop: its root {root}/missing: ");
    assert!(told.contains(&told_of_root) && told.contains("answered with 404"), "{told}");
    server.wait_for_log("warning shop: PHP:  syntax error, unexpected end of file");
    let file = file.to_str().unwrap();
    let (status, _, warned) = Setup::with(&["check", "--config", file]).run();
    assert_eq!(status, Some(0), "{warned}");
    assert!(warned.contains(&told_of_root), "{warned}");
    assert!(warned.contains(told_of_ini), "{warned}");
    server.stop();
}
