//! Messages to the service manager (systemd): the protocol of sd_notify(3).

use std::fs;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;

use howdah_sys::signal::{SIGHUP, SIGTERM, SIGUSR2};

use crate::config;
use crate::support::folder::copy_program;
use crate::support::{Folder, HOWDAH, PATIENCE, Server, Setup, has_php, wait_until};

/// The manager's end of the protocol.
struct Manager(UnixDatagram);

impl Manager {
    fn at(path: &Path) -> Manager {
        Manager::of(UnixDatagram::bind(path).unwrap())
    }

    fn of(socket: UnixDatagram) -> Manager {
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Manager(socket)
    }

    /// The next message that is not the watchdog's.
    fn next(&self) -> String {
        loop {
            let message = self.receive();
            if message != "WATCHDOG=1" {
                return message;
            }
        }
    }

    fn receive(&self) -> String {
        let mut buffer = [0; 4096];
        let length = self.0.recv(&mut buffer).expect("the server sends a message");
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    }

    /// All messages that have arrived.
    fn arrived(&self) -> Vec<String> {
        self.0.set_nonblocking(true).unwrap();
        let mut buffer = [0; 4096];
        let mut messages = Vec::new();
        while let Ok(length) = self.0.recv(&mut buffer) {
            messages.push(String::from_utf8(buffer[..length].to_vec()).unwrap());
        }
        self.0.set_nonblocking(false).unwrap();
        messages
    }

    /// Fails unless the next message has the lines, and a status of one line with `status`.
    fn expect(&self, lines: &[&str], status: &str) -> String {
        let message = self.next();
        let found: Vec<&str> = message.lines().collect();
        assert_eq!(found[..lines.len().min(found.len())], *lines, "{message}");
        let last = found.last().unwrap().strip_prefix("STATUS=").expect("a status");
        assert!(last.contains(status), "{message}");
        message
    }
}

/// Adds a mistake to a configuration, or removes it.
fn spoil(file: &Path, is_spoilt: bool) {
    let text = fs::read_to_string(file).unwrap().replace("no_such_key = 1\n", "");
    let mistake = if is_spoilt { "no_such_key = 1\n" } else { "" };
    fs::write(file, format!("{mistake}{text}")).unwrap();
}

#[test]
fn systemd_hears_of_start_reloads_and_stop() {
    let (folder, run) = (Folder::new(), Folder::new());
    folder.file("a.txt", "hello");
    let socket = run.path().join("notify");
    let manager = Manager::at(&socket);
    let file = config(&folder, "[limits]\ndrain_timeout = \"100s\"", "php = false");
    let mut server = Setup::config(&file)
        .environment("NOTIFY_SOCKET", socket.to_str().unwrap())
        .start();
    let serves = "serves ";
    let ready = manager.expect(&["READY=1"], serves);
    assert!(ready.contains("generation 1 ") && ready.contains("sites 1, of which"), "{ready}");

    server.signal(SIGHUP);
    let reloading = manager.expect(&["RELOADING=1"], "reloading");
    let time = reloading.lines().find_map(|line| line.strip_prefix("MONOTONIC_USEC="));
    let now = howdah_sys::usage::monotonic() / 1000;
    assert!((1..=now).contains(&time.unwrap().parse().unwrap()), "{reloading} {now}");
    assert!(manager.expect(&["READY=1"], serves).contains("generation 2 "));

    // A reload that is refused ends as well.
    spoil(&file, true);
    server.signal(SIGHUP);
    manager.expect(&["RELOADING=1"], "reloading");
    manager.expect(&["READY=1"], "the reload is refused, and what was served goes on: ");

    // An upgrade that is refused.
    server.signal(SIGUSR2);
    manager.expect(&["RELOADING=1"], "upgrade: ");
    manager.expect(&["READY=1"], "the server was not upgraded: ");
    spoil(&file, false);

    server.signal(SIGTERM);
    manager.expect(&["STOPPING=1", "EXTEND_TIMEOUT_USEC=120000000"], "are finished");
    assert!(server.wait().success());
    assert_eq!(manager.arrived(), Vec::<String>::new());
}

#[test]
fn a_start_that_fails_tells_systemd_why() {
    let (folder, run) = (Folder::new(), Folder::new());
    let socket = run.path().join("notify");
    let manager = Manager::at(&socket);
    let file = config(&folder, "", "php = false");
    spoil(&file, true);
    let setup = Setup::config(&file).environment("NOTIFY_SOCKET", socket.to_str().unwrap());
    assert_eq!(setup.run().0, Some(2));
    manager.expect(&[], "no_such_key");
    assert_eq!(manager.arrived(), Vec::<String>::new());
}

#[test]
fn an_upgrade_keeps_the_manager_and_scripts_never_learn_of_it() {
    if !has_php() {
        return;
    }
    let folder = Folder::with_script("echo json_encode(getenv()), json_encode($_SERVER);");
    let name = format!("howdah-test-{}-notify", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let manager = Manager::of(UnixDatagram::bind_addr(&address).unwrap());
    let site = "[site.php]\nworkers = 1\nstandby = false\n\
                pass_env = [\"NOTIFY_SOCKET\", \"WATCHDOG_USEC\", \"KNOWN\"]";
    let server = Setup::config(&config(&folder, "", site))
        .environment("NOTIFY_SOCKET", &format!("@{name}"))
        .environment("WATCHDOG_USEC", "300000000")
        .environment("KNOWN", "to scripts")
        .start();
    manager.expect(&["READY=1"], "of which with PHP 1");
    let learns_nothing = |server: &Server| {
        let page = server.get("/").text().to_owned();
        assert!(page.contains("\"KNOWN\":\"to scripts\""), "{page}");
        assert!(!page.contains("NOTIFY_SOCKET") && !page.contains("WATCHDOG"), "{page}");
    };
    learns_nothing(&server);
    let number = server.supervisor();
    server.signal(SIGUSR2);
    manager.expect(&["RELOADING=1"], "upgrade: ");
    manager.expect(&["READY=1"], "generation 2 serves");
    assert_eq!(server.supervisor(), number);
    server.wait_for_log("taken over; serving");
    learns_nothing(&server);
    server.signal(SIGHUP);
    manager.expect(&["RELOADING=1"], "reloading");
    manager.expect(&["READY=1"], "generation 3 serves");
    server.stop();
}

#[test]
fn the_watchdog_is_silent_while_no_front_serves() {
    if !has_php() {
        return;
    }
    let (folder, run) = (Folder::with_script("echo 'hello';"), Folder::new());
    let socket = run.path().join("notify");
    let manager = Manager::at(&socket);
    // PHP that can be taken away.
    let program = run.path().join("howdah-php");
    let works = |is_so: bool| {
        let php = Path::new(HOWDAH).with_file_name("howdah-php");
        match is_so {
            true => copy_program(&php, &program),
            false => fs::remove_file(&program).unwrap(),
        }
    };
    works(true);
    let site =
        format!("[site.php]\nworkers = 1\nstandby = false\nprogram = \"{}\"", program.display());
    let server = Setup::config(&config(&folder, "", &site))
        .environment("NOTIFY_SOCKET", socket.to_str().unwrap())
        .environment("WATCHDOG_USEC", "100000")
        .start();
    let lives = || wait_until("the watchdog is fed", || manager.receive() == "WATCHDOG=1");
    lives();
    works(false);
    server.kill_front();
    let attempts = || server.log().matches("there is no front").count();
    wait_until("no front can be started", || attempts() > 0);
    manager.arrived();
    let before = attempts();
    wait_until("two more attempts fail", || attempts() > before + 1);
    let heard = manager.arrived();
    assert!(
        heard.iter().all(|message| message.starts_with("STATUS=there is no front")),
        "{heard:?}"
    );
    assert!(!heard.is_empty());
    works(true);
    lives();
    assert_eq!(server.get("/").text(), "hello");
    server.stop();
}
