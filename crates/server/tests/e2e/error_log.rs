//! Error logs that are flooded, filtered or stuck.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use howdah_sys::descriptor;
use howdah_sys::signal::{SIGHUP, SIGTERM};

use crate::site::{Site, TAKES_PROXY};
use crate::support::wait_until;

const CONFIG: &str = "listen = [\"127.0.0.1:0\"]\nthreads = 2\n\
                      [[site]]\nname = \"shop\"\nroot = \"public\"\nphp = false\n";

fn site(log: &str) -> Site {
    Site::configured(&[("a.txt", "content")], &format!("{CONFIG}[log]\n{log}\n"))
}

#[test]
fn a_flood_of_bad_requests_is_counted() {
    const REQUESTS: u64 = 10_000;
    let site = site("access = \"off\"");
    let began = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..REQUESTS / 4 {
                    let mut wire = site.connect();
                    wire.send("GET / HTTP/1.1\r\n\r\n");
                    assert_eq!(wire.reply("GET").status, 400);
                }
            });
        }
    });
    let repeats = |line: &String| -> u64 {
        let count = line.split_once("(repeated ").map(|(_, rest)| rest.split_once(' ').unwrap().0);
        count.map_or(1, |count| count.parse().unwrap())
    };
    let lines = || site.log_lines("without Host");
    wait_until("every request is accounted for", || {
        lines().iter().map(repeats).sum::<u64>() == REQUESTS
    });
    let most = 11 * windows(began);
    assert!(lines().len() <= most, "{} lines", lines().len());
}

/// Returns the most windows, within which similar lines are counted, that can have begun since
/// then.
fn windows(began: Instant) -> usize {
    began.elapsed().as_secs() as usize / 10 + 2
}

#[test]
fn the_level_decides_what_is_written() {
    for (level, expected) in [("info", true), ("notice", false), ("error", false)] {
        let site = site(&format!("access = \"off\"\nlevel = \"{level}\""));
        let mut wire = site.connect();
        wire.send("GET / HTTP/1.1\r\n\r\n");
        assert_eq!(wire.reply("GET").status, 400);
        if expected {
            site.server.wait_for_log("without Host");
        }
        site.server.signal(SIGTERM);
        wait_until("the front has ended", || site.server.supervisor().children().is_empty());
        assert_eq!(!site.log_lines("without Host").is_empty(), expected, "{level}");
        assert_eq!(!site.log_lines("stopping").is_empty(), level != "error", "{level}");
    }
}

/// A named pipe that is full and that no process reads.
fn full_pipe(path: &Path) -> File {
    let made = Command::new("mkfifo").arg(path).status().unwrap();
    assert!(made.success());
    let pipe = File::options().read(true).write(true).open(path).unwrap();
    descriptor::set_nonblocking(&pipe).unwrap();
    fill(&pipe);
    pipe
}

fn fill(mut pipe: &File) {
    for piece in [&[b'x'; 4095][..], b"\n"] {
        while pipe.write_all(piece).is_ok() {}
    }
}

/// Adds what is in the pipe to `bytes`.
fn read(mut pipe: &File, bytes: &mut Vec<u8>) {
    let mut room = vec![0; 64 << 10];
    while let Ok(length) = pipe.read(&mut room) {
        bytes.extend_from_slice(&room[..length]);
    }
}

#[test]
fn logs_that_take_nothing_stop_no_request() {
    const REQUESTS: usize = 400;
    let folder = crate::support::Folder::new();
    let (errors, access) = (folder.path().join("errors"), folder.path().join("access"));
    let pipes = [full_pipe(&errors), full_pipe(&access)];
    let site =
        site(&format!("error = \"{}\"\naccess = \"{}\"", errors.display(), access.display()));
    let mut wire = site.connect();
    // Together more than the server keeps for a log.
    let long = "y".repeat(7000);
    for number in 0..REQUESTS {
        // A request that waited for a log would wait until the pipe is read.
        assert_eq!(wire.get(&format!("/a.txt?{number}-{long}")).text(), "content");
    }
    let mut bad = site.connect();
    bad.send("GET / HTTP/1.1\r\n\r\n");
    assert_eq!(bad.reply("GET").status, 400);

    // Once somebody reads, lines flow again, and those that were lost are counted.
    let (mut errors, mut access) = (Vec::new(), Vec::new());
    let lost = |errors: &[u8]| -> Option<usize> {
        let errors = String::from_utf8_lossy(errors);
        let (_, rest) = errors.split_once("the access log lost ")?;
        rest.split_once(" lines")?.0.parse().ok()
    };
    wait_until("every line is there or counted", || {
        read(&pipes[0], &mut errors);
        read(&pipes[1], &mut access);
        let there = String::from_utf8_lossy(&access).matches("GET /a.txt?").count();
        lost(&errors).is_some_and(|lost| lost > 50 && there + lost == REQUESTS)
    });
    wait_until("the error log goes on", || {
        read(&pipes[0], &mut errors);
        String::from_utf8_lossy(&errors).contains("without Host")
    });

    // Nor do they stop a reload. The supervisor's lines are lost, which the next one tells.
    let former = site.server.supervisor().children();
    pipes.iter().for_each(fill);
    site.server.signal(SIGHUP);
    wait_until("the former front has ended", || !former.iter().any(|process| process.lives()));
    read(&pipes[0], &mut errors);
    site.server.signal(SIGHUP);
    wait_until("the loss is told", || {
        read(&pipes[0], &mut errors);
        String::from_utf8_lossy(&errors).contains("the error log lost ")
    });
}

/// Two sites with PHP: `shop` does what it can to fill the log, `blog` has one thing to say.
fn two_sites(flood: &str) -> Site {
    let site = |name: &str| {
        format!(
            "[[site]]\nname = \"{name}\"\nhosts = [\"{name}.example\"]\nroot = \"public\"\n\
             [site.php]\nworkers = 2\nstate_dir = \"state-{name}\"\n"
        )
    };
    let config = format!(
        "listen = [\"127.0.0.1:0\", {TAKES_PROXY}]\nthreads = 2\n[log]\naccess = \"off\"\n{}{}",
        site("shop"),
        site("blog")
    );
    let files = [
        ("flood.php", flood),
        ("once.php", "<?php error_log('said once'); echo 'x';"),
        ("die.php", "<?php posix_kill(getmypid(), 9);"),
    ];
    Site::configured(&files, &config)
}

const SHOP: (&str, &str) = ("Host", "shop.example");
const BLOG: (&str, &str) = ("Host", "blog.example");

/// The lines of the other site arrive, whatever the first one does.
fn blog_is_heard(site: &Site) {
    assert_eq!(site.ask("GET", "/once.php", &[BLOG], b"").text(), "x");
    wait_until("the other site's line arrives", || {
        site.log_lines(" blog: ").iter().any(|line| line.contains("said once"))
    });
    assert_eq!(site.ask("GET", "/die.php", &[BLOG], b"").status, 502);
    wait_until("the line about the other site arrives", || {
        site.log_lines(" blog: ").iter().any(|line| line.contains("SIGKILL"))
    });
}

#[test]
fn a_site_whose_workers_die_all_the_time_fills_no_log() {
    if !crate::support::has_php() {
        return;
    }
    let site = two_sites("<?php posix_kill(getmypid(), 9);");
    let began = Instant::now();
    let mut methods = (0..200).map(|number| {
        let letter = |shift: u32| char::from(b'A' + (number >> shift & 15) as u8);
        format!("X{}{}", letter(0), letter(4))
    });
    std::thread::scope(|scope| {
        let all: Vec<String> = methods.by_ref().collect();
        for part in all.chunks(50) {
            let (site, part) = (&site, part.to_vec());
            scope.spawn(move || {
                for method in part {
                    // A word of each own, so that the lines differ.
                    site.ask(&method, "/flood.php", &[SHOP], b"");
                }
            });
        }
    });
    blog_is_heard(&site);
    let lines = site.log_lines(" shop: ");
    assert!(lines.len() < 700 || windows(began) > 2, "{} lines", lines.len());
}

#[test]
fn a_site_that_logs_without_end_is_cut_short_and_no_other_is() {
    if !crate::support::has_php() {
        return;
    }
    let site = two_sites(
        "<?php for ($i = 0; $i < 5000; $i++) error_log(str_shuffle('abcdefghijkl') . str_repeat(' \
         word', 400));",
    );
    let began = Instant::now();
    for _ in 0..2 {
        site.ask("GET", "/flood.php", &[SHOP], b"");
    }
    blog_is_heard(&site);
    let length: usize = site.log_lines(" shop: ").iter().map(String::len).sum();
    // 20 MB were written; half a megabyte at once may pass, and 50 KB per second.
    let most = 1_000_000 + 100_000 * began.elapsed().as_secs() as usize;
    assert!(length < most, "{length} bytes");
    wait_until("the rest is counted", || {
        site.ask("GET", "/once.php", &[SHOP], b"");
        !site.log_lines("lines were dropped").is_empty()
    });
}

#[test]
fn refusals_of_one_client_hide_neither_another_client_nor_a_site() {
    if !crate::support::has_php() {
        return;
    }
    let site = two_sites("");
    let began = Instant::now();
    for number in 0..300 {
        let mut wire = site.connect();
        let word = "x".repeat(1 + number);
        wire.send(format!("{word} / HTTP/1.1\r\nHost: shop.example\r\nHost: again\r\n\r\n"));
        wire.reply("GET");
    }
    blog_is_heard(&site);
    let mut other = site.connect_as([192, 0, 2, 9]);
    other.send("GET / HTTP/1.1\r\n\r\n");
    assert_eq!(other.reply("GET").status, 400);
    wait_until("the other client's line arrives", || {
        !site.log_lines("[client 192.0.2.9:").is_empty()
    });
    // Of 128 kinds of lines at most 200 are written within a window, and each may be counted.
    let lines = site.log_lines("[client 127.0.0.1:").len();
    assert!(lines < 300 || windows(began) > 2, "{lines} lines");
}

/// Sites with the same settings share the directives that are compiled.
#[test]
fn a_site_with_many_mistakes_takes_no_line_of_another() {
    let site = |name: &str| {
        format!(
            "[[site]]\nname = \"{name}\"\nhosts = [\"{name}.example\"]\n\
             root = \"public/{name}\"\nphp = false\n"
        )
    };
    let server = "listen = [\"127.0.0.1:0\"]\nthreads = 2\n[log]\naccess = \"off\"\n";
    let config = format!("{server}{}{}", site("shop"), site("blog"));
    let word = |number: usize| {
        let letters = [number / 26 % 26, number % 26].map(|one| char::from(b'a' + one as u8));
        format!("Bogus{}{}", letters[0], letters[1])
    };
    let mut files = vec![("shop/.htaccess".to_owned(), "Mistaken".to_owned())];
    files.extend((0..80).map(|number| (format!("blog/{number}/.htaccess"), word(number))));
    let files: Vec<_> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let tested = Site::configured(&files, &config);
    let ask = |host: &str, target: &str| {
        assert_eq!(tested.ask("GET", target, &[("Host", host)], b"").status, 500, "{target}");
    };
    for number in 0..80 {
        ask("blog.example", &format!("/{number}/"));
    }
    ask("shop.example", "/");
    tested.server.wait_for_log("Invalid command 'Mistaken'");
    let own = tested.log_lines("Invalid command 'Mistaken'");
    assert!(own.iter().all(|line| line.contains(" error shop: ")), "{own:?}");
    let others = tested.log_lines("Invalid command 'Bogus");
    assert!(!others.is_empty(), "{}", tested.server.log());
    assert!(others.iter().all(|line| line.contains(" error blog: ")), "{others:?}");
}
