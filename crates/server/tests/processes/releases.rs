//! Sites that change the link to their release, and what becomes of their neighbours.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use howdah_sys::signal::SIGHUP;

use crate::support::{Folder, Server, Setup, has_php, status, wait_until};

/// The pause that the server has between releases of a site.
const RELEASE_PAUSE: Duration = Duration::from_secs(5);

/// Lets the link lead to another release, as `ln -sfn` and `mv -T` do.
fn deploy(folder: &Folder, number: &str) {
    let next = folder.path().join("next");
    symlink(format!("releases/{number}"), &next).unwrap();
    std::fs::rename(next, folder.path().join("current")).unwrap();
}

/// Two sites: the release of `one` is behind a link, `two` has pages that take their time. A
/// request of the former generation has a second after a reload.
fn site_with_neighbour(folder: &Folder) -> Setup {
    for number in ["1", "2", "3", "4"] {
        folder.file(&format!("releases/{number}/index.php"), format!("<?php echo '{number}';"));
    }
    symlink("releases/1", folder.path().join("current")).unwrap();
    folder.file(
        "two/slow.php",
        "<?php set_time_limit(0); while (ob_get_level()) ob_end_flush();
         echo 'begun by ', posix_getppid(), ';'; flush();
         while (!file_exists('end')) usleep(1000); echo ' and done';",
    );
    let site = |name: &str, root: &str| {
        format!(
            "[[site]]\nname = \"{name}\"\nhosts = [\"{name}.example\"]\nroot = \"{root}\"\n\
             [site.php]\nmode = \"static\"\nworkers = 8\nstate_dir = \"state/{name}\"\n\
             queue_timeout = \"5m\"\nrequest_timeout = \"10m\"\n"
        )
    };
    let config = format!(
        "listen = [\"127.0.0.1:0\"]\ncontrol = \"control\"\nprobation = \"1ms\"\n[limits]\n\
         drain_timeout = \"1s\"\n{}{}",
        site("one", "current"),
        site("two", "two")
    );
    Setup::config(&folder.file("howdah.toml", config))
}

/// A request of a page of site `two` that takes its time.
struct SlowRequest {
    stream: TcpStream,
    answer: Vec<u8>,
}

impl SlowRequest {
    /// Begins the request. Also returns the zygote of the worker that has it.
    fn begin(server: &Server) -> (SlowRequest, String) {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        let request = "GET /slow.php HTTP/1.1\r\nHost: two.example\r\nConnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        loop {
            let text = String::from_utf8_lossy(&answer);
            let told = text.split_once("begun by ").and_then(|(_, rest)| rest.split_once(';'));
            if let Some((zygote, _)) = told {
                let zygote = zygote.to_owned();
                return (SlowRequest { stream, answer }, zygote);
            }
            let mut room = [0; 1024];
            let length = stream.read(&mut room).unwrap();
            assert!(length > 0, "{text}");
            answer.extend_from_slice(&room[..length]);
        }
    }

    /// Returns the whole answer.
    fn finish(mut self) -> String {
        self.stream.read_to_end(&mut self.answer).unwrap();
        String::from_utf8_lossy(&self.answer).into_owned()
    }
}

/// Begins requests until the generation `number`, which serves, has one: the former front may take
/// a connection for a moment yet.
fn begin_slow(server: &Server, file: &Path, number: &str) -> Vec<SlowRequest> {
    let serving = format!("generation {number} is serving");
    wait_until("it is served", || status(file).contains(&serving));
    let told = status(file);
    let (_, rest) = told.split_once(&serving).unwrap();
    let (_, rest) = rest.split_once("pool two: zygote ").unwrap();
    let expected = rest.split_once(',').unwrap().0;
    let mut requests = Vec::new();
    loop {
        let (request, zygote) = SlowRequest::begin(server);
        requests.push(request);
        if zygote == expected {
            return requests;
        }
    }
}

#[test]
fn a_site_that_changes_its_link_cuts_off_no_request_of_another_one() {
    if !has_php() {
        return;
    }
    let folder = Folder::new();
    let server = site_with_neighbour(&folder).start();
    let file = folder.path().join("howdah.toml");
    let mut slow = begin_slow(&server, &file, "1");
    // As many changes as are served at once.
    for number in ["2", "3", "4"] {
        deploy(&folder, number);
        slow.extend(begin_slow(&server, &file, number));
        // A release that follows sooner has a generation that keeps the former one before it.
        // `drain_timeout` is over then, too.
        std::thread::sleep(RELEASE_PAUSE);
    }
    assert!(status(&file).contains(" is draining after a new release of one; "));
    // One further generation keeps release 4, and no other one is started for the site. The
    // administrator may have one.
    deploy(&folder, "1");
    server.wait_for_log("releases/1 now: it waits until a former generation has ended");
    server.wait_for_log("the former release is kept; serving");
    wait_until("it is kept", || status(&file).contains("generation 5 is serving"));
    deploy(&folder, "2");
    deploy(&folder, "1");
    std::thread::sleep(Duration::from_secs(3));
    let told = status(&file);
    assert!(told.contains("site one: "), "{told}");
    assert!(told.contains("releases/1 now: it waits until"), "{told}");
    assert_eq!(told.matches("generation ").count(), 5 + 1, "{told}");
    folder.file("two/end", "");
    for request in slow {
        let answer = request.finish();
        assert!(answer.contains(" and done"), "{answer}");
    }
    wait_until("the former ones end", || status(&file).matches(" is draining").count() == 0);
    server.signal(SIGHUP);
    wait_until("it is served", || !status(&file).contains("generation 5 is serving"));
    assert!(!status(&file).contains("releases/1 now: "));
    server.stop();
}

#[test]
fn a_reload_gives_the_generations_that_releases_have_retired_their_time_limit() {
    if !has_php() {
        return;
    }
    let folder = Folder::new();
    let server = site_with_neighbour(&folder).start();
    let file = folder.path().join("howdah.toml");
    let _slow = begin_slow(&server, &file, "1");
    let front = server.front();
    deploy(&folder, "2");
    wait_until("it is served", || status(&file).contains("generation 2 is serving"));
    std::thread::sleep(Duration::from_secs(2));
    assert!(front.lives());
    server.signal(SIGHUP);
    server.wait_for_log("`drain_timeout` is over");
    wait_until("the first front has ended", || !front.lives());
    server.stop();
}
