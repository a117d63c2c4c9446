//! `probation`: a reload after which a site answers with server errors is undone.

use std::path::PathBuf;

use howdah_sys::signal::SIGHUP;

use crate::standby::standby;
use crate::support::{
    Client, Folder, Load, Process, Response, Server, Setup, has_php, status, wait_until,
};
use crate::{config, is_who};

/// A page that fails where the memory limit is below 100 MB.
const FAILS: &str = "if ((int) ini_get('memory_limit') < 100) http_response_code(500); \
                     echo 'worker ', getmypid(), ' ', ini_get('memory_limit');";

/// An answer that a client got whole, whether or not the page has failed.
fn is_whole(response: &Response) -> bool {
    matches!(response.status, 200 | 500) && response.body.starts_with(b"worker ")
}

/// A configuration with that probation, and with that memory limit in the pool's php.ini.
fn with_limit(folder: &Folder, probation: &str, limit: &str) -> PathBuf {
    folder.file("php.ini", format!("memory_limit = {limit}\n"));
    let site = "[site.php]\nworkers = 2\nini_file = \"php.ini\"";
    config(folder, &format!("probation = \"{probation}\""), site)
}

/// Waits until the generation with that memory limit answers. The former front may accept a last
/// connection when the next one serves.
fn wait_for_limit(server: &Server, limit: &str) {
    wait_until(limit, || server.get("/").text().ends_with(limit));
}

/// `howdah reload` for the server of `folder`: whether it succeeded, and what it says.
fn reload(folder: &Folder) -> (bool, String) {
    let file = folder.path().join("howdah.toml");
    let (code, told, errors) = Setup::with(&["reload", "--config", file.to_str().unwrap()]).run();
    (code == Some(0), told + &errors)
}

#[test]
fn a_reload_after_which_a_site_fails_is_undone_without_a_lost_request() {
    if !has_php() {
        return;
    }
    let folder = Folder::with_script(FAILS);
    let file = with_limit(&folder, "30s", "200M");
    let server = Setup::config(&file).start();
    let kept = standby(&server, &folder);
    let load = Load::start(server.address(), 4, "/", is_whole);
    load.go_on(50);
    with_limit(&folder, "30s", "50M");
    let (succeeded, told) = reload(&folder);
    assert!(!succeeded, "{told}");
    for part in [
        "generation 2 is rolled back to generation 1",
        "responses of site shop were server errors (5xx), more than 50 % (`probation_errors`)",
    ] {
        assert!(told.contains(part), "{part:?} is not in {told}");
        server.wait_for_log(part);
        assert!(status(&file).contains(part), "{}", status(&file));
    }
    // PHP stood by there with the former php.ini, which is gone.
    wait_for_limit(&server, "200M");
    assert!(status(&file).contains("generation 3 is serving"), "{}", status(&file));
    assert_eq!(server.zygote(), kept);
    load.go_on(50);
    load.end_without_failure();

    with_limit(&folder, "1s", "300M");
    let (succeeded, told) = reload(&folder);
    assert!(succeeded && told.contains("its probation is over"), "{told}");
    wait_for_limit(&server, "300M");
    assert!(!status(&file).contains("rolled back"), "{}", status(&file));
    server.stop();
}

/// Most responses of a site are files, which go on where its application fails.
#[test]
fn files_do_not_make_good_what_scripts_answer() {
    if !has_php() {
        return;
    }
    let folder = Folder::with_script(FAILS);
    folder.file("style.css", "body {}");
    let file = with_limit(&folder, "30s", "200M");
    let server = Setup::config(&file).start();
    standby(&server, &folder);
    let pages = Load::start(server.address(), 1, "/", is_whole);
    let files = Load::start(server.address(), 6, "/style.css", |file| file.body == b"body {}");
    pages.go_on(20);
    files.go_on(200);
    with_limit(&folder, "30s", "50M");
    let (succeeded, told) = reload(&folder);
    assert!(!succeeded && told.contains("generation 2 is rolled back to generation 1"), "{told}");
    assert!(told.contains(" responses of site shop by scripts and upstreams were "), "{told}");
    wait_for_limit(&server, "200M");
    pages.end_without_failure();
    files.end_without_failure();
    server.stop();
}

/// Waits for the end of the probation of generation 2, and returns whether the generation was kept.
fn is_kept(server: &Server) -> bool {
    let is_told = |what: &str| server.log().contains(what);
    wait_until("the probation has ended", || {
        is_told("the probation of generation 2 is over") || is_told("generation 2 is rolled back")
    });
    !is_told("generation 2 is rolled back")
}

#[test]
fn visitors_who_list_too_many_folders_undo_no_reload() {
    let folder = Folder::new();
    for number in 0..1000 {
        folder.file(&format!("many/{number}.txt"), "");
    }
    config(&folder, "probation = \"2s\"", "php = false\nlisting = true");
    let server = Setup::config(&folder.path().join("howdah.toml")).start();
    assert_eq!(server.get("/many/").status, 200);
    server.signal(SIGHUP);
    server.wait_for_log("reloaded; serving");
    // More than may wait for one client.
    let answer = |response: &Response| matches!(response.status, 200 | 503);
    let load = Load::start(server.address(), 100, "/many/", answer);
    let is_kept = is_kept(&server);
    load.end_without_failure();
    let refused = "503: too many requests of the client or the site wait for directives that take";
    assert!(server.log().contains(refused), "{}", server.log());
    assert!(is_kept, "{}", server.log());
    server.stop();
}

#[test]
fn visitors_who_fill_the_room_for_uploads_undo_no_reload() {
    if !has_php() {
        return;
    }
    let folder = Folder::with_script("echo 'here';");
    config(&folder, "probation = \"2s\"", "spill_total = \"1M\"\n[site.php]\nworkers = 1");
    let server = Setup::config(&folder.path().join("howdah.toml")).start();
    assert_eq!(server.get("/").text(), "here");
    server.signal(SIGHUP);
    server.wait_for_log("reloaded; serving");
    wait_until("the new generation has no room twenty times", || {
        let content = vec![b'x'; 2_000_000];
        let mut client = Client::connect(server.address());
        client
            .send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2000000\r\n\r\n")
            .unwrap();
        // The server answers before it has read everything, and closes the connection.
        let _ = client.send(&content);
        assert!(client.answer().is_ok_and(|response| response.status == 507));
        server.log().matches("its content cannot be stored").count() >= 20
    });
    assert!(is_kept(&server), "{}", server.log());
    server.stop();
}

#[test]
fn requests_that_find_no_free_descriptor_undo_no_reload() {
    let folder = Folder::new();
    (0..30).for_each(|number| drop(folder.file(&format!("{number}.txt"), "content")));
    config(&folder, "probation = \"3s\"\nthreads = 1", "php = false");
    let server = Setup::config(&folder.path().join("howdah.toml")).start();
    server.signal(SIGHUP);
    server.wait_for_log("reloaded; serving");
    // The only one: the former front has ended.
    let front = server.front();
    let mut client = Client::connect(server.address());
    assert_eq!(client.get("/0.txt").status, 200);
    if !front.limit_open_files(3) {
        return howdah_skip::skip!("prlimit of util-linux cannot limit the front's open files");
    }
    for number in 1..30 {
        assert_eq!(client.get(&format!("/{number}.txt")).status, 503);
    }
    assert!(front.limit_open_files(1000));
    assert!(is_kept(&server), "{}", server.log());
    assert_eq!(client.get("/1.txt").status, 200);
    server.stop();
}

/// The queue is full because no script ends, not because visitors ask for too much.
#[test]
fn a_reload_after_which_scripts_hang_is_undone() {
    if !has_php() {
        return;
    }
    let hangs = "if ((int) ini_get('memory_limit') < 100) sleep(1000); \
                 echo 'worker ', getmypid(), ' ', ini_get('memory_limit');";
    let folder = Folder::with_script(hangs);
    let with_limit = |limit: &str| {
        folder.file("php.ini", format!("memory_limit = {limit}\n"));
        let site = "[site.php]\nworkers = 1\nqueue = 0\nini_file = \"php.ini\"";
        config(&folder, "probation = \"30s\"", site)
    };
    let server = Setup::config(&with_limit("200M")).start();
    standby(&server, &folder);
    wait_for_limit(&server, "200M");
    with_limit("50M");
    server.signal(SIGHUP);
    server.wait_for_log("reloaded; serving");
    let mut held = Vec::new();
    wait_until("the queue is full", || {
        let mut client = Client::connect(server.address());
        client.ask("/").unwrap();
        held.push(client);
        server.log().contains("all workers are busy and the queue is full")
    });
    let mut refused = 0;
    wait_until("the reload is undone", || {
        refused += u64::from(server.get("/").status == 503);
        server.log().contains("generation 2 is rolled back to generation 1")
    });
    assert!(refused >= 10, "{refused}");
    wait_for_limit(&server, "200M");
}

#[test]
fn a_probation_ends_and_leaves_nothing_of_the_former_generation() {
    if !has_php() {
        return;
    }
    let folder = Folder::with_script(FAILS);
    let file = with_limit(&folder, "1s", "200M");
    let server = Setup::config(&file).start();
    let kept = standby(&server, &folder);
    let before = server.supervisor().children();
    let load = Load::start(server.address(), 2, "/", is_who);
    with_limit(&folder, "1s", "201M");
    server.signal(SIGHUP);
    server.wait_for_log("the probation of generation 2 is over");
    wait_until("the former generation has gone", || !before.iter().any(Process::lives));
    wait_until("no zygote is kept", || !kept.lives());
    wait_for_limit(&server, "201M");
    load.go_on(20);
    load.end_without_failure();
    server.stop();
}

#[test]
fn a_reload_during_a_probation_is_undone_to_what_has_passed_its_own() {
    if !has_php() {
        return;
    }
    let folder = Folder::with_script(FAILS);
    let file = with_limit(&folder, "1h", "200M");
    let server = Setup::config(&file).start();
    standby(&server, &folder);
    for limit in ["51M", "52M"] {
        with_limit(&folder, "1h", limit);
        // Nobody waits for an hour.
        let (succeeded, told) = reload(&folder);
        assert!(succeeded, "{told}");
    }
    assert!(status(&file).contains("generation 3 is on probation for "), "{}", status(&file));
    wait_for_limit(&server, "200M");
    server.wait_for_log("generation 3 is rolled back to generation 1");
    server.stop();
}

#[test]
fn a_server_stops_during_a_probation() {
    if !has_php() {
        return;
    }
    let folder = Folder::with_script(FAILS);
    let server = Setup::config(&with_limit(&folder, "1h", "200M")).start();
    let kept = standby(&server, &folder);
    with_limit(&folder, "1h", "201M");
    assert!(reload(&folder).0);
    wait_for_limit(&server, "201M");
    assert!(kept.lives(), "it is kept for a return");
    server.stop();
    wait_until("nothing is left", || !kept.lives());
}
