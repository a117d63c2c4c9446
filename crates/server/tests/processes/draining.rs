//! Generations that drain: what they keep for the requests that they still have.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use crate::support::{Client, Folder, Process, Server, Setup, has_php, wait_until};
use crate::{WHO, assert_who};

/// Says when it begins, and has no output before it may end.
const LONG: &str = "touch($_GET['in'] . '/begun'); \
    while (!file_exists($_GET['in'] . '/end')) usleep(1000); echo 'done';";

/// A response that begins at once, and ends when it may.
const STREAM: &str = "while (ob_get_level()) ob_end_flush(); echo 'begun '; flush(); \
    while (!file_exists($_GET['end'])) { usleep(1000); clearstatcache(); } echo 'done';";

/// Two sites with PHP, `shop` and `other`.
struct TwoSites {
    folder: Folder,
    file: PathBuf,
    server: Server,
}

impl TwoSites {
    fn start() -> TwoSites {
        let folder = Folder::with_script(WHO);
        folder.file("long.php", format!("<?php {LONG}"));
        let site = |name: &str| {
            format!(
                "[[site]]\nname = \"{name}\"\nhosts = [\"{name}.example\"]\nroot = \"{}\"\n\
                 [site.php]\nworkers = 2\nstate_dir = \"state/{name}\"\nqueue_timeout = \"5m\"\n\
                 request_timeout = \"5m\"\n",
                folder.path().display()
            )
        };
        let text = format!(
            "listen = [\"127.0.0.1:0\"]\ncontrol = \"control\"\nprobation = \"0s\"\nthreads = 2\n\
             [limits]\nkeep_alive_timeout = \"5m\"\nhead_timeout = \"5m\"\nbody_timeout = \"5m\"\n\
             drain_timeout = \"10m\"\n[log]\naccess = \"off\"\n{}{}",
            site("shop"),
            site("other")
        );
        let file = folder.file("howdah.toml", text);
        let server = Setup::config(&file).start();
        TwoSites { folder, file, server }
    }

    /// The zygote of a site, of the only generation.
    fn zygote(&self, site: &str) -> Process {
        let is_its = |zygote: &Process| zygote.arguments().ends_with(site);
        self.server.zygotes().into_iter().find(is_its).unwrap()
    }

    /// A connection on which the `shop` runs [`LONG`].
    fn long_request(&self) -> Client {
        let mut client = Client::connect(self.server.address());
        let scratch = self.folder.folder("scratch");
        fs::set_permissions(&scratch, fs::Permissions::from_mode(0o777)).unwrap();
        let target = format!("/long.php?in={}", scratch.display());
        client
            .send(format!("GET {target} HTTP/1.1\r\nHost: shop.example\r\n\r\n"))
            .unwrap();
        wait_until("the script has begun", || scratch.join("begun").exists());
        client
    }

    fn end_long_request(&self, mut client: Client) {
        self.folder.file("scratch/end", "");
        assert_eq!(client.answer().unwrap().text(), "done");
    }

    fn reload(&self) {
        let file = self.file.display().to_string();
        let (status, _, told) = Setup::with(&["reload", "--config", &file]).run();
        assert_eq!(status, Some(0), "{told}");
    }
}

#[test]
fn a_former_generation_keeps_no_php_of_a_site_without_a_request() {
    if !has_php() {
        return;
    }
    let sites = TwoSites::start();
    let [shop, other] = ["shop", "other"].map(|site| sites.zygote(site));
    let front = sites.server.front();
    let long = sites.long_request();
    sites.reload();
    wait_until("the other site's zygote has ended", || !other.lives());
    assert!(shop.lives() && front.lives());
    sites.end_long_request(long);
    wait_until("the former generation has ended", || !shop.lives() && !front.lives());
    let log = sites.server.log();
    assert!(!log.contains("before its workers had finished"), "{log}");
    sites.server.stop();
}

#[test]
fn a_former_generation_keeps_php_for_requests_that_are_still_to_come() {
    if !has_php() {
        return;
    }
    let sites = TwoSites::start();
    let other = sites.zygote("other");
    let connect = || Client::connect(sites.server.address());
    let get = "GET / HTTP/1.1\r\nHost: other.example\r\n";
    let long = sites.long_request();
    let mut kept = connect();
    kept.send(format!("{get}\r\n")).unwrap();
    assert_who(&kept.answer().unwrap());
    let mut half_a_head = connect();
    half_a_head.send(get).unwrap();
    let mut upload = connect();
    let head = "POST / HTTP/1.1\r\nHost: other.example\r\nContent-Length: 6\r\n\r\n";
    upload.send(format!("{head}abc")).unwrap();
    sites.reload();
    // Longer than a zygote stays that is not needed.
    let rest = || {
        std::thread::sleep(Duration::from_millis(2500));
        assert!(other.lives());
    };
    rest();
    kept.send(format!("{get}\r\n")).unwrap();
    let last = kept.answer().unwrap();
    assert_who(&last);
    assert!(last.is_last(), "{last:?}");
    rest();
    half_a_head.send("\r\n").unwrap();
    assert_who(&half_a_head.answer().unwrap());
    rest();
    upload.send("def").unwrap();
    assert_who(&upload.answer().unwrap());
    wait_until("the other site's zygote has ended", || !other.lives());
    sites.end_long_request(long);
    sites.server.stop();
}

#[test]
fn a_response_that_began_before_a_reload_keeps_php_until_its_end() {
    if !has_php() {
        return;
    }
    let sites = TwoSites::start();
    sites.folder.file("stream.php", format!("<?php {STREAM}"));
    let end = sites.folder.path().join("end");
    let (shop, other, front) = (sites.zygote("shop"), sites.zygote("other"), sites.server.front());
    let begun = || {
        let mut client = Client::connect(sites.server.address());
        let target = format!("/stream.php?end={}", end.display());
        client
            .send(format!("GET {target} HTTP/1.1\r\nHost: shop.example\r\n\r\n"))
            .unwrap();
        client.wait_for(b"begun");
        client
    };
    let mut clients = [begun(), begun()];
    sites.reload();
    sites.folder.file("end", "");
    for client in &mut clients {
        let answer = client.answer().unwrap();
        assert_eq!(answer.text(), "begun done");
        assert!(!answer.is_last(), "{answer:?}");
    }
    // The other client keeps its connection, and sends nothing.
    let next = clients[0].send("GET / HTTP/1.1\r\nHost: other.example\r\n\r\n");
    // On a busy machine it may come too late.
    if let Ok(answer) = next.and_then(|()| clients[0].answer()) {
        assert_who(&answer);
    }
    wait_until("the former generation has ended", || {
        !shop.lives() && !other.lives() && !front.lives()
    });
    sites.server.stop();
}
