//! Starting and ending.

use std::time::{Duration, Instant};

use howdah_sys::signal::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use crate::support::{Client, Folder, Process, Server, Setup, has_php, status, wait_until};
use crate::{SLOW, WHO, config, is_who};

/// A page that takes far longer than a test.
const ENDLESS: &str = "touch($_GET['mark']); sleep(600);";

/// Starts a request to [`SLOW`] and waits until the script runs.
fn slow_request(server: &Server, folder: &Folder) -> Client {
    let mark = folder.path().join(format!("mark-{}", Instant::now().elapsed().as_nanos()));
    // The pool may run as another user.
    let file = std::fs::File::create(&mark).unwrap();
    file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    std::fs::set_permissions(&mark, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
    let written = || std::fs::metadata(&mark).unwrap().modified().unwrap();
    let before = written();
    let mut client = Client::connect(server.address());
    client.ask(&format!("/index.php?mark={}", mark.display())).unwrap();
    wait_until("the slow script runs", || written() != before);
    client
}

/// Starts a server whose one worker runs a script without end, which a stop waits for.
fn with_endless_script() -> (Folder, Server) {
    let folder = Folder::with_script(ENDLESS);
    let site = "[site.php]\nworkers = 1\nrequest_timeout = \"10m\"";
    let file = config(&folder, "[limits]\ndrain_timeout = \"10m\"", site);
    let server = Setup::config(&file).start();
    (folder, server)
}

#[test]
fn it_listens_when_it_says_so_and_not_before() {
    if !has_php() {
        return;
    }
    let folder = Folder::with_script(WHO);
    let server = Setup::folder(&folder).start();
    let response = server.get("/");
    assert!(is_who(&response), "{response:?}");
    assert!(server.announcement().starts_with("howdah: listening on http://127.0.0.1:"));
    server.wait_for_log("serving ");
    server.wait_for_log("with at most 2 workers (auto), opcache on");
    server.stop();
}

#[test]
fn every_process_says_what_it_is() {
    if !has_php() {
        return;
    }
    let folder = Folder::with_script(WHO);
    let server = Setup::folder(&folder).start();
    assert!(is_who(&server.get("/")));
    let said = |process: Process| (process.name(), process.arguments());
    let expected = |name: &str, arguments: &str| (name.to_owned(), arguments.to_owned());
    assert_eq!(server.front().name(), "howdah-front");
    assert_eq!(said(server.zygote()), expected("howdah-zygote", "howdah-php zygote default"));
    let worker = || server.workers().into_iter().map(said).next();
    wait_until("a worker has its name", || {
        worker() == Some(expected("howdah-php", "howdah-php worker default"))
    });
    server.stop();
}

#[test]
fn it_serves_files_without_php() {
    let folder = Folder::new();
    folder.file("a.txt", "hello");
    let server = Setup::folder(&folder).and(&["--no-php"]).start();
    assert_eq!(server.get("/a.txt").text(), "hello");
    assert!(server.zygotes().is_empty());
    server.stop();
}

#[test]
fn a_signal_to_stop_finishes_the_request_in_flight() {
    if !has_php() {
        return;
    }
    let folder = Folder::with_script(SLOW);
    for signal in [SIGTERM, SIGINT, SIGQUIT] {
        let mut server = Setup::folder(&folder).start();
        let processes = server.processes();
        let mut client = slow_request(&server, &folder);
        let mut idle = Client::connect(server.address());
        server.signal(signal);
        wait_until("no connection is accepted any more", || {
            Client::try_connect(server.address()).is_err()
        });
        assert_eq!(client.answer().unwrap().text(), "slow but whole");
        assert!(idle.is_closed());
        assert_eq!(server.wait().code(), Some(0));
        assert!(!processes.iter().any(Process::lives), "{processes:?}");
    }
}

#[test]
fn told_twice_it_does_not_wait() {
    if !has_php() {
        return;
    }
    let (folder, mut server) = with_endless_script();
    let processes = server.processes();
    let mut client = slow_request(&server, &folder);
    server.signal(SIGTERM);
    server.wait_for_log("requests in flight are finished");
    server.signal(SIGTERM);
    assert_eq!(server.wait().code(), Some(0));
    // The front may have had the time to say that the worker died.
    assert!(client.answer().map_or(true, |response| response.status == 502));
    assert!(!processes.iter().any(Process::lives), "{processes:?}");
}

#[test]
fn requests_that_a_stop_or_a_reload_cuts_off_are_answered_and_logged() {
    if !has_php() {
        return;
    }
    for signal in [SIGTERM, SIGHUP] {
        // On a machine that stands still the front is ended before the requests: then another try.
        wait_until("the requests end in order", || ends_in_order(signal));
    }
}

/// Whether requests end in order when a signal has a front end that has three: one without a
/// response, one with a part of it, and one that waits for a worker.
fn ends_in_order(signal: i32) -> bool {
    let script = "if (isset($_GET['part'])) { echo 'a part'; @ob_flush(); flush(); } \
                  else { touch($_GET['mark']); } sleep(600);";
    let folder = Folder::with_script(script);
    let site = "access_log = \"access.log\"\n[site.php]\nmode = \"static\"\nworkers = 2\n\
                request_timeout = \"10m\"";
    let file = config(&folder, "[limits]\ndrain_timeout = \"8s\"", site);
    let mut server = Setup::config(&file).start();
    let front = server.front();
    let mut silent = slow_request(&server, &folder);
    let mut partial = Client::connect(server.address());
    partial.ask("/index.php?part=1").unwrap();
    partial.wait_for(b"a part");
    let mut waiting = Client::connect(server.address());
    waiting.ask("/index.php?mark=none").unwrap();
    wait_until("a request waits", || status(&file).contains("1 requests waiting"));

    server.signal(signal);
    wait_until("the former front has ended", || !front.lives());
    let answers = [silent.answer(), waiting.answer()];
    let is_cut = partial.answer().is_err();
    if signal == SIGTERM {
        assert_eq!(server.wait().code(), Some(0));
    }
    if server.log().contains("killed: front") {
        return false;
    }
    for answer in answers {
        let answer = answer.unwrap();
        assert_eq!(answer.status, 503, "{answer:?}");
        assert_eq!(answer.field("retry-after"), Some("2"), "{answer:?}");
        assert_eq!(answer.field("connection"), Some("close"), "{answer:?}");
    }
    assert!(is_cut);
    let log = server.log();
    let cut_off = "`drain_timeout` is over after a reload or a stop";
    let script = format!("{}: {cut_off}", folder.path().join("index.php").display());
    for expected in [
        format!(
            "{script}, and it is ended, while waiting for the response to GET http://localhost/"
        ),
        format!(
            ": {cut_off}, and it is ended, while sending the response to GET http://localhost/"
        ),
        format!(
            "503: {cut_off}, while waiting for a worker for GET http://localhost/index.php?mark=none"
        ),
    ] {
        assert!(log.contains(&expected), "{expected} in {log}");
    }
    let lines = std::fs::read_to_string(folder.path().join("access.log")).unwrap();
    assert_eq!((lines.matches(" 503 ").count(), lines.lines().count()), (2, 3), "{lines}");
    true
}

#[test]
fn unfinished_requests_are_cut_off_after_the_drain_timeout() {
    if !has_php() {
        return;
    }
    let folder = Folder::with_script(ENDLESS);
    let site = "[site.php]\nworkers = 1\nrequest_timeout = \"10m\"";
    let file = config(&folder, "[limits]\ndrain_timeout = \"500ms\"", site);
    let mut server = Setup::config(&file).start();
    let processes = server.processes();
    let _client = slow_request(&server, &folder);
    let began = Instant::now();
    server.signal(SIGTERM);
    assert_eq!(server.wait().code(), Some(0));
    // Without the reserve for ending requests in order.
    assert!(began.elapsed() >= Duration::from_millis(375), "{:?}", began.elapsed());
    server.wait_for_log("`drain_timeout` is over");
    assert!(!processes.iter().any(Process::lives), "{processes:?}");
}

#[test]
fn nothing_is_left_on_the_disk() {
    if !has_php() {
        return;
    }
    let folder =
        Folder::with_script("session_start(); $_SESSION['a'] = 1; echo session_save_path();");
    let temporary = Folder::writable();
    let pid_file = folder.path().join("pid");
    let server = Setup::folder(&folder)
        .environment("TMPDIR", temporary.path().to_str().unwrap())
        .start();
    let sessions = server.get("/").text().to_owned();
    assert!(sessions.starts_with(temporary.path().to_str().unwrap()), "{sessions}");
    server.stop();
    let left: Vec<_> = std::fs::read_dir(temporary.path()).unwrap().flatten().collect();
    assert!(left.is_empty(), "{left:?}");

    let file = config(&folder, "pid_file = \"pid\"", "");
    let server = Setup::config(&file).start();
    let number = std::fs::read_to_string(&pid_file).unwrap();
    assert_eq!(number.trim(), server.supervisor().number().to_string());
    assert!(folder.path().join("control").exists());
    server.stop();
    assert!(!pid_file.exists() && !folder.path().join("control").exists());
}

#[test]
fn clients_are_refused_and_another_server_can_listen_while_a_long_script_keeps_a_stop_waiting() {
    if !has_php() {
        return;
    }
    let (folder, mut server) = with_endless_script();
    let _client = slow_request(&server, &folder);
    server.signal(SIGTERM);
    wait_until("another server can listen", || {
        std::net::TcpListener::bind(server.address()).is_ok()
    });
    assert!(Client::try_connect(server.address()).is_err());
    assert!(server.front().lives(), "the script goes on");
    server.signal(SIGTERM);
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn a_site_whose_php_takes_its_time_to_start_keeps_no_other_one_waiting() {
    if !has_php() {
        return;
    }
    let folder = Folder::new();
    let preload = folder.file(
        "slow/preload.php",
        "<?php while (!file_exists(__DIR__ . '/go')) { usleep(10000); clearstatcache(); }",
    );
    for name in ["quick", "slow"] {
        folder.file(&format!("{name}/index.php"), format!("<?php echo '{name}';"));
    }
    let site = |name: &str, ini: &str| {
        format!(
            "[[site]]\nname = \"{name}\"\nhosts = [\"{name}.example\"]\nroot = \"{name}\"\n\
             [site.php]\nworkers = 1\nqueue_timeout = \"5m\"\nstate_dir = \"state/{name}\"\n{ini}\n"
        )
    };
    let ini = format!(
        "admin_ini = {{ \"opcache.preload\" = \"{}\", \"opcache.preload_user\" = \"www-data\" }}",
        preload.display()
    );
    let sites = [site("quick", ""), site("slow", &ini)].concat();
    let text = format!("listen = [\"127.0.0.1:0\"]\ncontrol = \"control\"\n{sites}");
    let file = folder.file("howdah.toml", text);
    let server = Setup::config(&file).start();
    server.wait_for_log("slow: PHP has not started within 5 s of the others");
    let get = |name: &str| {
        let mut client = Client::connect(server.address());
        client.send(format!("GET / HTTP/1.1\r\nHost: {name}.example\r\n\r\n")).unwrap();
        client.answer().unwrap()
    };
    assert_eq!(get("quick").text(), "quick");
    let refused = get("slow");
    assert_eq!(refused.status, 503, "{refused:?}");
    assert!(refused.field("retry-after").is_some(), "{refused:?}");
    assert!(status(&file).contains("site slow: has no PHP: PHP has not started"));
    folder.file("slow/go", "");
    wait_until("it is served, too", || get("slow").text() == "slow");
    wait_until("nothing is told any more", || !status(&file).contains("has no PHP"));
    // The same zygote has gone on with its start.
    server.wait_for_log("slow: its new zygote");
    assert!(!server.log().contains("keeps dying"), "{}", server.log());
    server.stop();
}

#[test]
fn a_stop_of_hundreds_of_idle_workers_is_no_error() {
    if !has_php() {
        return;
    }
    let folder = Folder::with_script(WHO);
    let site = "[site.php]\nmode = \"static\"\nworkers = 200";
    let mut server = Setup::config(&config(&folder, "", site)).start();
    wait_until("all workers are there", || server.workers().len() == 200);
    assert!(is_who(&server.get("/")));
    server.signal(SIGTERM);
    assert_eq!(server.wait().code(), Some(0));
    for words in ["die faster", "have died", "cut off", " error "] {
        assert!(!server.log().contains(words), "{}", server.log());
    }
}
