//! An edit that has returned is what the next request gets.

mod support;

use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt};

use howdah_files::StoreLimits;
use howdah_http::Method;
use howdah_site::{FileHandle, PathKind};
use support::{Counter, Folder, age, append};

const LARGE: usize = 100_000;

#[test]
fn nothing_changes_and_the_disk_is_not_asked() {
    let folder = Folder::new();
    folder.file("a/b/c.txt", "x");
    folder.file("a/large.bin", vec![0; LARGE]);
    let mut counter = Counter::new(&folder);
    std::thread::sleep(std::time::Duration::from_millis(30));
    let names = ["a/b/c.txt", "a/large.bin", "a/b", "none", "a/b/none", "no/such/folder"];
    let first: Vec<_> = names.map(|name| counter.get(name)).into();
    let before = support::findings(&counter.store);
    for _ in 0..100 {
        assert_eq!(names.map(|name| counter.get(name)).to_vec(), first);
    }
    assert_eq!(support::findings(&counter.store), before);
}

#[test]
fn every_way_to_change_a_file() {
    let folder = Folder::new();
    let mut counter = Counter::new(&folder);
    for (name, start) in [("a/small.txt", 1), ("a/large.txt", LARGE)] {
        let path = folder.file(name, "a".repeat(start));
        assert_eq!(counter.get(name).content.len(), start);
        let tag = |counter: &mut Counter| counter.get(name).field("etag").map(str::to_owned);

        let before = tag(&mut counter);
        fs::write(&path, "b".repeat(start)).unwrap();
        assert_eq!(counter.get(name).text(), "b".repeat(start), "written again");
        assert_ne!(tag(&mut counter), before);

        append(&path, "c");
        assert_eq!(counter.get(name).text(), "b".repeat(start) + "c", "appended to");

        fs::File::options().write(true).open(&path).unwrap().write_at(b"d", 0).unwrap();
        assert!(counter.get(name).text().starts_with('d'), "written into");

        fs::File::options().write(true).open(&path).unwrap().set_len(1).unwrap();
        assert_eq!(counter.get(name).text(), "d", "cut");

        fs::write(folder.outside("new"), "renamed").unwrap();
        fs::rename(folder.outside("new"), &path).unwrap();
        assert_eq!(counter.get(name).text(), "renamed", "renamed over");

        let held = fs::File::options().write(true).open(&path).unwrap();
        held.write_at(b"R", 0).unwrap();
        assert_eq!(counter.get(name).text(), "Renamed", "written to and not closed");

        let date = counter.get(name).field("last-modified").unwrap().to_owned();
        age(&path, 86_400);
        assert_ne!(counter.get(name).field("last-modified"), Some(&*date), "touched");

        fs::remove_file(&path).unwrap();
        assert_eq!(counter.get(name).status, 404, "removed");
        fs::write(&path, "back").unwrap();
        assert_eq!(counter.get(name).brief(), (200, "back"), "made again");
    }
}

#[test]
fn a_missing_file_appears() {
    let folder = Folder::new();
    let mut counter = Counter::new(&folder);
    for name in ["a.txt", "b/a.txt", "c/d/e/a.txt"] {
        assert_eq!(counter.get(name).status, 404);
        assert_eq!(counter.get(name).status, 404);
    }
    for name in ["a.txt", "b/a.txt", "c/d/e/a.txt"] {
        folder.file(name, name);
        assert_eq!(counter.get(name).brief(), (200, name));
    }
    // A folder that is moved to where one was missing.
    assert_eq!(counter.get("x/y/a.txt").status, 404);
    fs::create_dir_all(folder.outside("x/y")).unwrap();
    fs::write(folder.outside("x/y/a.txt"), "moved").unwrap();
    fs::rename(folder.outside("x"), folder.at("x")).unwrap();
    assert_eq!(counter.get("x/y/a.txt").brief(), (200, "moved"));
    // A file becomes a folder.
    assert_eq!(counter.get("a.txt/x").status, 404);
    fs::remove_file(folder.at("a.txt")).unwrap();
    folder.file("a.txt/x", "deep");
    assert_eq!(counter.get("a.txt/x").brief(), (200, "deep"));
    assert_eq!(counter.kind("a.txt"), PathKind::Directory);
}

#[test]
fn folders_move() {
    let folder = Folder::new();
    let mut counter = Counter::new(&folder);
    folder.file("one/deep/a.txt", "one");
    folder.file("two/deep/a.txt", "two");
    assert_eq!(counter.get("one/deep/a.txt").text(), "one");
    assert_eq!(counter.get("three/deep/a.txt").status, 404);
    fs::rename(folder.at("one"), folder.at("three")).unwrap();
    assert_eq!(counter.get("one/deep/a.txt").status, 404);
    assert_eq!(counter.get("three/deep/a.txt").text(), "one");
    fs::rename(folder.at("two"), folder.at("one")).unwrap();
    assert_eq!(counter.get("one/deep/a.txt").text(), "two");
    // And the moved folder is still watched, under its new name.
    fs::write(folder.at("three/deep/a.txt"), "three").unwrap();
    assert_eq!(counter.get("three/deep/a.txt").text(), "three");
    fs::remove_dir_all(folder.at("three")).unwrap();
    assert_eq!(counter.get("three/deep/a.txt").status, 404);
    // Out of the root, and changed there.
    fs::rename(folder.at("one"), folder.outside("one")).unwrap();
    assert_eq!(counter.get("one/deep/a.txt").status, 404);
    fs::rename(folder.outside("one"), folder.at("one")).unwrap();
    assert_eq!(counter.get("one/deep/a.txt").text(), "two");
}

#[test]
fn links_are_swapped() {
    let folder = Folder::new();
    for release in ["1", "2", "3"] {
        folder.file(&format!("releases/{release}/css/a.css"), release);
    }
    folder.link("releases/1", "current");
    folder.link("current", "latest"); // a link to a link
    folder.link("latest/css/a.css", "a.css"); // a file through both
    let mut counter = Counter::new(&folder);
    let names = ["current/css/a.css", "latest/css/a.css", "a.css"];
    names.iter().for_each(|name| assert_eq!(counter.get(name).text(), "1"));
    folder.swap_link("releases/2", "current");
    names
        .iter()
        .for_each(|name| assert_eq!(counter.get(name).text(), "2", "{name}"));
    fs::write(folder.at("releases/2/css/a.css"), "2b").unwrap();
    names
        .iter()
        .for_each(|name| assert_eq!(counter.get(name).text(), "2b", "{name}"));
    folder.swap_link("releases/3", "latest");
    assert_eq!(names.map(|name| counter.get(name).text().to_owned()), ["2b", "3", "3"]);
    fs::rename(folder.at("releases/3"), folder.at("releases/4")).unwrap();
    assert_eq!(names.map(|name| counter.get(name).status), [200, 404, 404]);
    fs::remove_file(folder.at("current")).unwrap();
    assert_eq!(counter.get("current/css/a.css").status, 404);
}

#[test]
fn a_link_on_the_way_outside_is_swapped() {
    let folder = Folder::new();
    for release in ["1", "2"] {
        fs::create_dir_all(folder.outside(&format!("releases/{release}"))).unwrap();
        fs::write(folder.outside(&format!("releases/{release}/a.css")), release).unwrap();
    }
    let way = folder.outside("way");
    std::os::unix::fs::symlink("releases/1", &way).unwrap();
    folder.link(&way, "app");
    let mut counter = Counter::with(&folder, "follow", StoreLimits::default());
    assert_eq!(counter.get("app/a.css").text(), "1");
    fs::remove_file(&way).unwrap();
    assert_eq!(counter.get("app/a.css").status, 404);
    std::os::unix::fs::symlink("releases/2", &way).unwrap();
    assert_eq!(counter.get("app/a.css").text(), "2");
    fs::rename(folder.outside("releases"), folder.outside("old")).unwrap();
    assert_eq!(counter.get("app/a.css").status, 404);
}

#[test]
fn two_edits_of_one_moment_have_two_tags() {
    let folder = Folder::new();
    let path = folder.file("a.txt", "x");
    let mut counter = Counter::new(&folder);
    let stamp = std::time::SystemTime::now() - std::time::Duration::from_secs(60);
    let mut tags = std::collections::HashSet::new();
    for number in 0..50 {
        // Equal in length and, by force, in time: only the bytes differ.
        fs::write(&path, format!("{number:02}")).unwrap();
        fs::File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_modified(stamp)
            .unwrap();
        tags.insert(counter.get("a.txt").field("etag").unwrap().to_owned());
    }
    assert_eq!(tags.len(), 50);
}

#[test]
fn an_unreported_change_is_seen_after_a_second() {
    let folder = Folder::new();
    let path = folder.file("a.txt", "one");
    folder.file("gone.txt", "x");
    let mut counter = Counter::new(&folder);
    assert_eq!(counter.get("a.txt").text(), "one");
    assert_eq!(counter.get("new/b.txt").status, 404);
    assert_eq!(counter.get("gone.txt").status, 200);
    // Through another name outside, which is not watched.
    fs::hard_link(&path, folder.outside("other")).unwrap();
    counter.get("a.txt");
    fs::write(folder.outside("other"), "two").unwrap();
    assert_eq!(counter.get("a.txt").text(), "one");
    counter.wait(1);
    assert_eq!(counter.get("a.txt").text(), "two");
    // As though the events were lost.
    folder.file("new/b.txt", "b");
    fs::remove_file(folder.at("gone.txt")).unwrap();
    counter.wait(1);
    assert_eq!(counter.get_deaf("new/b.txt").text(), "b");
    assert_eq!(counter.get_deaf("gone.txt").status, 404);
}

#[test]
fn the_root_itself_is_replaced() {
    let folder = Folder::new();
    folder.file("a.txt", "one");
    let mut counter = Counter::new(&folder);
    assert_eq!(counter.get("a.txt").text(), "one");
    fs::rename(folder.root(), folder.outside("old")).unwrap();
    assert_eq!(counter.get("a.txt").status, 404);
    folder.file("a.txt", "two");
    assert_eq!(counter.get("a.txt").text(), "two");
}

#[test]
fn a_link_above_the_root_is_swapped() {
    let folder = Folder::new();
    for release in ["1", "2"] {
        folder.file(&format!("{release}/a.txt"), release);
    }
    folder.link("1", "current");
    let mut counter = Counter::at(&folder.at("current"), "owner", StoreLimits::default());
    assert_eq!(counter.get("a.txt").text(), "1");
    folder.swap_link("2", "current");
    counter.wait(1);
    assert_eq!(counter.get("a.txt").text(), "2");
}

#[test]
fn without_watches_every_request_asks() {
    let folder = Folder::new();
    let path = folder.file("a/b.txt", "one");
    folder.file("a/large.txt", "1".repeat(LARGE));
    folder.file("releases/1/a.txt", "1");
    folder.file("releases/2/a.txt", "2");
    folder.link("releases/1", "current");
    let limits = StoreLimits { folders: 0, ..StoreLimits::default() };
    let mut counter = Counter::with(&folder, "owner", limits);
    assert_eq!(counter.get("a/b.txt").text(), "one");
    assert_eq!(counter.get("a/large.txt").content.len(), LARGE);
    assert_eq!(counter.get("none.txt").status, 404);
    assert_eq!(counter.get("current/a.txt").text(), "1");
    assert_eq!(counter.store.figures().watched, 0);
    fs::write(&path, "two").unwrap();
    fs::write(folder.at("a/large.txt"), "2".repeat(LARGE)).unwrap();
    folder.file("none.txt", "there");
    folder.swap_link("releases/2", "current");
    assert_eq!(counter.get_deaf("a/b.txt").text(), "two");
    assert_eq!(counter.get_deaf("a/large.txt").text(), "2".repeat(LARGE));
    assert_eq!(counter.get_deaf("none.txt").text(), "there");
    assert_eq!(counter.get_deaf("current/a.txt").text(), "2");
    fs::remove_file(&path).unwrap();
    assert_eq!(counter.get_deaf("a/b.txt").status, 404);
}

#[test]
fn without_watches_a_request_asks_once() {
    let folder = Folder::new();
    folder.file("a.txt", "one");
    let mut counter =
        Counter::with(&folder, "owner", StoreLimits { folders: 0, ..StoreLimits::default() });
    counter.get("a.txt");
    std::thread::sleep(std::time::Duration::from_millis(30)); // the file is settled
    counter.get("a.txt");
    let before = counter.store.figures();
    (0..10).for_each(|_| drop(counter.get("a.txt")));
    let after = counter.store.figures();
    assert_eq!((after.checks - before.checks, after.loads - before.loads), (10, 0));
    // Without a look, `answer` asks itself.
    let path = counter.path("a.txt");
    fs::write(folder.at("a.txt"), "two").unwrap();
    let answer = counter
        .store
        .answer(&howdah_http::Request::new(), &path, FileHandle::NONE)
        .unwrap();
    assert_eq!(support::content(&answer.body), b"two");
}

#[test]
fn when_watches_run_out_the_rest_is_asked_for() {
    let folder = Folder::new();
    for number in 0..10 {
        folder.file(&format!("{number}/a.txt"), "one");
    }
    // The root and three of the ten.
    let limits = StoreLimits { folders: 4, ..StoreLimits::default() };
    let mut counter = Counter::with(&folder, "owner", limits);
    let names: Vec<String> = (0..10).map(|number| format!("{number}/a.txt")).collect();
    for _ in 0..2 {
        names.iter().for_each(|name| assert_eq!(counter.get(name).text(), "one"));
    }
    assert_eq!(counter.store.figures().watched, 4);
    for name in &names {
        fs::write(folder.at(name), "two").unwrap();
        assert_eq!(counter.get(name).text(), "two", "{name}");
    }
}

#[test]
fn watches_go_to_the_folders_that_are_used() {
    let folder = Folder::new();
    for number in 0..100 {
        folder.file(&format!("{number}/a.txt"), "one");
    }
    let limits = StoreLimits {
        folders: 10,
        entries: 5,
        ..StoreLimits::default()
    };
    let mut counter = Counter::with(&folder, "owner", limits);
    for number in 0..100 {
        counter.wait(1);
        assert_eq!(counter.get(&format!("{number}/a.txt")).text(), "one");
        assert!(counter.store.figures().watched <= 10);
        assert!(counter.store.figures().folders <= 10);
    }
    counter.wait(1);
    counter.get("99/a.txt");
    let before = support::findings(&counter.store);
    counter.get("99/a.txt");
    assert_eq!(support::findings(&counter.store), before, "the last one is watched");
}

#[test]
fn more_events_than_the_kernel_keeps() {
    let folder = Folder::new();
    folder.file("a.txt", "one");
    let mut counter = Counter::new(&folder);
    assert_eq!(counter.get("a.txt").text(), "one");
    let most: u32 = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events")
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    for number in 0..most / 2 + 10 {
        let noise = folder.at(&format!("noise-{}", number % 2));
        fs::File::create(&noise).unwrap();
        fs::remove_file(noise).unwrap();
    }
    fs::write(folder.at("a.txt"), "two").unwrap();
    assert_eq!(counter.get("a.txt").text(), "two");
    fs::write(folder.at("a.txt"), "three").unwrap();
    assert_eq!(counter.get("a.txt").text(), "three");
}

#[test]
fn a_site_that_changes_much_at_once_costs_another_nothing() {
    let folder = Folder::new();
    folder.file("calm/a.txt", "calm");
    let wild =
        || (0..100).for_each(|number| drop(folder.file(&format!("wild/{number}/a.txt"), "")));
    wild();
    let site = |name: &str| {
        let root = folder.at(name).display().to_string();
        format!("[[site]]\nhosts = [\"{name}\"]\nroot = {root:?}\nphp = false\n")
    };
    let text = format!("{}{}", site("calm"), site("wild"));
    let mut counter = Counter::of(&text, StoreLimits::default());
    let ask_wild = |counter: &mut Counter| {
        counter.host = "wild";
        let all: Vec<_> = (0..100).map(|number| counter.get(&format!("{number}/a.txt"))).collect();
        counter.host = "calm";
        all
    };
    // A file that was just written is read again.
    std::thread::sleep(std::time::Duration::from_millis(30));
    counter.host = "calm";
    assert_eq!(counter.get("a.txt").text(), "calm");
    let rounds: [&dyn Fn(); 3] = [
        // More folders than are forgotten one by one.
        &|| fs::remove_dir_all(folder.at("wild")).unwrap(),
        &wild,
        // More changes than are kept.
        &|| {
            for number in 0..11_000 {
                std::os::unix::fs::symlink("none", folder.at(&format!("wild/7/{number}"))).unwrap();
            }
        },
    ];
    for change in rounds {
        ask_wild(&mut counter);
        change();
        let before = counter.store.figures().loads;
        assert_eq!(counter.get("a.txt").text(), "calm");
        assert_eq!(counter.store.figures().loads, before, "nothing of the other site is forgotten");
        let is_there = folder.at("wild/7/a.txt").exists();
        let status = if is_there { 200 } else { 404 };
        assert!(ask_wild(&mut counter).iter().all(|seen| seen.status == status));
    }
}

#[test]
fn rights_are_taken_and_given() {
    // As root nothing is refused, so the test runs itself again as somebody else.
    if support::is_root() {
        use std::os::unix::process::CommandExt;
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "rights_are_taken_and_given", "--nocapture"])
            .uid(65_534)
            .gid(65_534)
            .output();
        match output {
            Ok(output) => {
                assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            }
            Err(error) => howdah_skip::skip!("the test cannot be run as another user: {error}"),
        }
        return;
    }
    let folder = Folder::new();
    let mut counter = Counter::new(&folder);
    let allow = |name: &str, mode| {
        fs::set_permissions(folder.at(name), fs::Permissions::from_mode(mode)).unwrap()
    };
    for (name, length) in [("a/small.txt", 10), ("a/large.txt", LARGE)] {
        folder.file(name, "x".repeat(length));
        assert_eq!(counter.get(name).status, 200);
        allow(name, 0o000);
        assert_eq!((counter.get(name).status, counter.kind(name)), (403, PathKind::Forbidden));
        allow(name, 0o400);
        assert_eq!(counter.get(name).status, 200);
        allow("a", 0o000);
        assert_eq!(counter.get(name).status, 403, "the folder may not be entered");
        allow("a", 0o700);
        assert_eq!(counter.get(name).status, 200);
        allow("a", 0o100);
        assert_eq!(
            counter.get(name).status,
            200,
            "the folder may be entered, yet not be read or watched"
        );
        fs::set_permissions(folder.at(name), fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(folder.at(name), "new").unwrap();
        assert_eq!(counter.get_deaf(name).text(), "new");
        assert_eq!(counter.kind("a"), PathKind::Directory);
        allow("a", 0o700);
    }
    folder.file("a.php", "<?php");
    allow("a.php", 0o000);
    assert_eq!(counter.kind("a.php"), PathKind::File, "a script need not be readable for us");
}

#[test]
fn a_file_that_is_cut_while_it_is_sent() {
    let folder = Folder::new();
    let path = folder.file("large.bin", vec![1; 1_000_000]);
    let mut counter = Counter::new(&folder);
    let document = counter.path("large.bin");
    let request = howdah_http::Request {
        method: Method::Get,
        ..howdah_http::Request::new()
    };
    let answer = counter.store.answer(&request, &document, FileHandle::NONE).unwrap();
    let howdah_files::FileBody::File { file, offset: 0, length: 1_000_000 } = &answer.body else {
        panic!()
    };
    fs::File::options().write(true).open(&path).unwrap().set_len(10).unwrap();
    let (ours, _theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    let socket = std::os::fd::AsFd::as_fd(&ours);
    assert_eq!(file.send(socket, 0, 1_000_000).unwrap(), 10);
    assert_eq!(file.send(socket, 10, 999_990).unwrap(), 0);
    assert_eq!(file.read_at(&mut [0; 10], 10).unwrap(), 0);
}

#[test]
fn an_answer_keeps_what_it_promised_when_the_file_is_replaced() {
    let folder = Folder::new();
    let path = folder.file("large.bin", "1".repeat(LARGE));
    let mut counter = Counter::new(&folder);
    let document = counter.path("large.bin");
    let answer = counter
        .store
        .answer(&howdah_http::Request::new(), &document, FileHandle::NONE)
        .unwrap();
    fs::write(folder.outside("new"), "2").unwrap();
    fs::rename(folder.outside("new"), &path).unwrap();
    assert_eq!(counter.get("large.bin").text(), "2");
    assert!(support::content(&answer.body) == "1".repeat(LARGE).into_bytes());
}
