//! The links that are followed, and the files that are refused on every way to them.
#![allow(clippy::unwrap_used)] // A test's tools may panic as the test itself.

mod support;

use std::fs;
use std::os::unix::fs::lchown;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use howdah_files::StoreLimits;
use howdah_site::PathKind;
use support::{Counter, Folder};

fn counters(folder: &Folder) -> [(&'static str, Counter); 3] {
    ["inside", "owner", "follow"]
        .map(|rule| (rule, Counter::with(folder, rule, StoreLimits::default())))
}

/// Gives everything below `path` to a user, links themselves.
fn give(path: &Path, owner: u32) {
    lchown(path, Some(owner), Some(owner)).unwrap();
    if path.is_dir() && !path.is_symlink() {
        fs::read_dir(path)
            .unwrap()
            .for_each(|entry| give(&entry.unwrap().path(), owner));
    }
}

#[test]
fn a_link_that_stays_inside_is_followed() {
    let folder = Folder::new();
    folder.file("real/deep/a.txt", "inside");
    folder.link("real/deep/a.txt", "file.txt");
    folder.link("real", "folder");
    folder.link("../real/deep", "real/up");
    folder.link(folder.at("real"), "absolute");
    folder.link("../www/real", "out-and-in");
    folder.link("real/./deep/../deep//a.txt", "crooked");
    for (rule, mut counter) in counters(&folder) {
        for name in [
            "file.txt",
            "folder/deep/a.txt",
            "real/up/a.txt",
            "absolute/deep/a.txt",
            "out-and-in/deep/a.txt",
            "crooked",
            "folder/up/a.txt",
        ] {
            for _ in 0..2 {
                assert_eq!(counter.get(name).brief(), (200, "inside"), "{rule} {name}");
            }
        }
        assert_eq!(counter.kind("folder/deep"), PathKind::Directory);
        assert_eq!(counter.kind("folder/none"), PathKind::Missing);
        assert_eq!(counter.kind("file.txt/none"), PathKind::Missing);
        assert_eq!(counter.kind("folder"), PathKind::Directory);
    }
}

#[test]
fn a_link_that_leaves_the_root() {
    let folder = Folder::new();
    fs::create_dir_all(folder.outside("private/deep")).unwrap();
    fs::write(folder.outside("private/a.txt"), "outside").unwrap();
    fs::write(folder.outside("private/deep/a.txt"), "outside").unwrap();
    folder.link(folder.outside("private/a.txt"), "file.txt");
    folder.link("../private", "folder");
    folder.link("../../../../../../../../../../etc/passwd", "passwd");
    let names = ["file.txt", "folder/a.txt", "folder/deep/a.txt"];
    let expect = |owner: u16| {
        for (rule, mut counter) in counters(&folder) {
            let status = match rule {
                "inside" => 403,
                "owner" => owner,
                _ => 200,
            };
            for name in names {
                for _ in 0..2 {
                    assert_eq!(counter.get(name).status, status, "{rule} {name}");
                    assert_eq!(counter.kind(name) == PathKind::Forbidden, status == 403);
                }
            }
        }
    };
    // Links and targets belong to whoever runs the test.
    expect(200);
    if !support::is_root() {
        howdah_skip::skip!("only root can give files away");
        return;
    }
    give(&folder.root(), 1001);
    give(&folder.outside("private"), 1002);
    expect(403);
    assert_eq!(Counter::new(&folder).get("passwd").status, 403);
    give(&folder.outside("private"), 1001);
    expect(200);
    // Root's own links are the administrator's word.
    give(&folder.outside("private"), 1002);
    lchown(folder.at("file.txt"), Some(0), Some(0)).unwrap();
    lchown(folder.at("folder"), Some(0), Some(0)).unwrap();
    expect(200);
    // A folder of one owner must not give access to another owner's file.
    give(&folder.outside("private"), 1001);
    give(&folder.at("folder"), 1001);
    fs::remove_file(folder.outside("private/a.txt")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", folder.outside("private/a.txt")).unwrap();
    lchown(folder.outside("private/a.txt"), Some(1001), Some(1001)).unwrap();
    let mut counter = Counter::new(&folder);
    assert_eq!(counter.get("folder/a.txt").status, 403);
    assert_eq!(counter.get("folder/deep/a.txt").status, 200);
    // Nor by way of a link of root's.
    fs::remove_file(folder.outside("private/a.txt")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", folder.outside("roots-link")).unwrap();
    std::os::unix::fs::symlink(folder.outside("roots-link"), folder.outside("private/a.txt"))
        .unwrap();
    lchown(folder.outside("private/a.txt"), Some(1001), Some(1001)).unwrap();
    assert_eq!(counter.get("folder/a.txt").status, 403);
}

#[test]
fn a_change_of_owner_is_seen_on_either_end() {
    if !support::is_root() {
        howdah_skip::skip!("only root can give files away");
        return;
    }
    let folder = Folder::new();
    fs::write(folder.outside("a.txt"), "outside").unwrap();
    folder.link("../a.txt", "a.txt");
    let mut counter = Counter::new(&folder);
    assert_eq!(counter.get("a.txt").status, 200);
    lchown(folder.at("a.txt"), Some(1001), Some(1001)).unwrap();
    assert_eq!(counter.get("a.txt").status, 403);
    lchown(folder.outside("a.txt"), Some(1001), Some(1001)).unwrap();
    assert_eq!(counter.get("a.txt").status, 200);
}

#[test]
fn links_that_lead_nowhere() {
    let folder = Folder::new();
    folder.link("none", "broken");
    folder.link("loop", "loop");
    folder.link("pong", "ping");
    folder.link("ping", "pong");
    folder.link("/proc/self/root/etc/passwd", "magic");
    folder.link("/proc/self/fd/0", "descriptor");
    for (rule, mut counter) in counters(&folder) {
        assert_eq!(counter.get("broken").status, 404, "{rule}");
        assert_eq!(counter.get("broken/x").status, 404, "{rule}");
        assert_eq!(counter.get("loop").status, 403, "{rule}");
        assert_eq!(counter.get("ping/x").status, 403, "{rule}");
        assert_ne!(counter.get("descriptor").status, 200, "{rule}");
    }
    let mut counter = Counter::new(&folder);
    assert_eq!(counter.get("broken").status, 404);
    folder.file("none", "there");
    assert_eq!(counter.get("broken").brief(), (200, "there"));
}

#[test]
fn pipes_devices_and_sockets_are_refused_at_once() {
    let folder = Folder::new();
    let made = std::process::Command::new("mkfifo").arg(folder.at("pipe")).status().unwrap();
    assert!(made.success());
    let _socket = std::os::unix::net::UnixListener::bind(folder.at("socket")).unwrap();
    folder.link("/dev/zero", "zero");
    folder.link("/dev/tty", "terminal");
    let mut counter = Counter::with(&folder, "follow", StoreLimits::default());
    for name in ["pipe", "socket", "zero", "terminal"] {
        for _ in 0..2 {
            assert_eq!(
                (counter.kind(name), counter.get(name).status),
                (PathKind::Forbidden, 403),
                "{name}"
            );
        }
        counter.wait(1);
    }
    // A file takes the pipe's place.
    fs::remove_file(folder.at("pipe")).unwrap();
    folder.file("pipe", "a file");
    assert_eq!(counter.get("pipe").brief(), (200, "a file"));
}

#[test]
fn a_link_that_is_swapped_all_the_time_never_leads_out() {
    let folder = Folder::new();
    folder.file("real/a.txt", "inside");
    fs::create_dir(folder.outside("private")).unwrap();
    fs::write(folder.outside("private/a.txt"), "secret").unwrap();
    folder.link("real", "turning");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                folder.swap_link("../private", "turning");
                folder.swap_link("real", "turning");
            }
        });
        let _stop = AtEnd(&stop);
        let mut counter = Counter::with(&folder, "inside", StoreLimits::default());
        let mut seen = [0; 2];
        for _ in 0..5000 {
            let answer = counter.get("turning/a.txt");
            match answer.brief() {
                (200, "inside") => seen[0] += 1,
                (403, "") => seen[1] += 1,
                // Between two states of the disk.
                (404 | 503, "") => {}
                other => panic!("{other:?}"),
            }
        }
        assert!(seen[0] > 0, "{seen:?}");
    });
}

/// Stops the other thread, also when the test fails.
struct AtEnd<'a>(&'a AtomicBool);

impl Drop for AtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
