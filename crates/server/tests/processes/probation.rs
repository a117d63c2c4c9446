//! `probation`: a reload after which a site answers with server errors is undone.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

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
        "responses of site shop, all to one client, were server errors (5xx): ",
        " %, more than 50 % (`probation_errors`)",
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
    assert!(
        told.contains(" responses of site shop by scripts and upstreams, all to one "),
        "{told}"
    );
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

/// A page that fails as [`FAILS`], and by a mistake of its own for an unexpected query.
const PROVOKED: &str = "http_response_code(isset($_GET['q']) ? 500 : 200); \
                        if ((int) ini_get('memory_limit') < 100) http_response_code(500); \
                        echo 'worker ', getmypid(), ' ', ini_get('memory_limit');";

/// A configuration with that memory limit, whose clients are those that this machine names.
fn behind_proxy(folder: &Folder, probation: &str, limit: &str) -> PathBuf {
    folder.file("php.ini", format!("memory_limit = {limit}\n"));
    let settings = format!("probation = \"{probation}\"\ntrusted_proxies = [\"127.0.0.1\"]");
    config(folder, &settings, "[site.php]\nworkers = 2\nini_file = \"php.ini\"")
}

/// Clients that take turns to ask for the same, until dropped.
struct Visits {
    over: Arc<AtomicBool>,
    /// Responses, and those of them with the status 500.
    counted: Arc<[AtomicU64; 2]>,
    thread: Option<JoinHandle<()>>,
}

impl Visits {
    /// As many clients as `clients` says, of networks of their own from 192.0.2.`first` on. They
    /// rest for `pause` after each request.
    fn start(
        address: SocketAddr,
        (first, clients): (u8, u8),
        target: &'static str,
        pause: Duration,
    ) -> Visits {
        let (over, counted) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let (raised, numbers): (_, Arc<[AtomicU64; 2]>) = (over.clone(), Arc::clone(&counted));
        let thread = std::thread::spawn(move || {
            for client in (first..first + clients).cycle() {
                if raised.load(Ordering::Relaxed) {
                    return;
                }
                if let Ok(response) = ask_as(address, client, target) {
                    numbers[0].fetch_add(1, Ordering::Relaxed);
                    let is_error = response.status == 500;
                    numbers[1].fetch_add(u64::from(is_error), Ordering::Relaxed);
                }
                std::thread::sleep(pause);
            }
        });
        Visits { over, counted, thread: Some(thread) }
    }

    fn responses(&self) -> u64 {
        self.counted[0].load(Ordering::Relaxed)
    }

    fn errors(&self) -> u64 {
        self.counted[1].load(Ordering::Relaxed)
    }

    fn go_on(&self, requests: u64) {
        let goal = self.responses() + requests;
        wait_until("more requests are answered", || self.responses() >= goal);
    }
}

impl Drop for Visits {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The response for a client that the proxy names.
fn ask_as(address: SocketAddr, client: u8, target: &str) -> io::Result<Response> {
    let mut proxy = Client::try_connect(address)?;
    proxy.send(format!(
        "GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\
         X-Forwarded-For: 192.0.2.{client}\r\n\r\n"
    ))?;
    proxy.answer()
}

#[test]
fn a_client_that_provokes_errors_undoes_no_reload() {
    if !has_php() {
        return;
    }
    let folder = Folder::with_script(PROVOKED);
    behind_proxy(&folder, "3s", "200M");
    let server = Setup::config(&folder.path().join("howdah.toml")).start();
    let visitors = Visits::start(server.address(), (10, 8), "/", Duration::from_millis(20));
    visitors.go_on(20);
    behind_proxy(&folder, "3s", "201M");
    server.signal(SIGHUP);
    server.wait_for_log("reloaded; serving");
    let (well, none) = (visitors.responses(), Duration::ZERO);
    let attackers = [(); 3].map(|()| Visits::start(server.address(), (1, 1), "/?q=1", none));
    let is_kept = is_kept(&server);
    let provoked: u64 = attackers.iter().map(Visits::errors).sum();
    let well = visitors.responses() - well;
    assert!(provoked > 2 * well && well > 10, "{provoked} errors beside {well}");
    assert!(is_kept, "{}", server.log());
    assert_eq!(visitors.errors(), 0);
    drop((attackers, visitors));
    server.stop();
}

#[test]
fn a_client_that_provokes_errors_all_the_time_saves_no_reload_that_fails() {
    if !has_php() {
        return;
    }
    let folder = Folder::with_script(PROVOKED);
    behind_proxy(&folder, "30s", "200M");
    let server = Setup::config(&folder.path().join("howdah.toml")).start();
    standby(&server, &folder);
    let visitors = Visits::start(server.address(), (10, 8), "/", Duration::from_millis(20));
    let none = Duration::ZERO;
    let attackers = [(); 3].map(|()| Visits::start(server.address(), (1, 1), "/?q=1", none));
    visitors.go_on(20);
    let provoked: u64 = attackers.iter().map(Visits::errors).sum();
    assert!(provoked > 40, "most responses are errors: {provoked}");
    behind_proxy(&folder, "30s", "50M");
    let (succeeded, told) = reload(&folder);
    assert!(!succeeded && told.contains("generation 2 is rolled back to generation 1"), "{told}");
    assert!(told.contains(" clients: on average 100 % of a client's responses, more "), "{told}");
    wait_for_limit(&server, "200M");
    drop((attackers, visitors));
    server.stop();
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
