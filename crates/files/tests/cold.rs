//! A store that must not wait for the disk.

mod support;

use std::ffi::CString;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

use howdah_files::{FileBody, FileStore, StoreLimits};
use howdah_htaccess::host::ProbeKind;
use howdah_http::{Method, Request};
use howdah_site::{DirectiveHost, FileHandle, PathKind, SiteHost};
use howdah_sys::open::{self, Lookup};
use howdah_sys::page_cache;

use self::support::{Counter, Folder, Seen};

/// Asks as an event loop does: without waiting for the disk, and where that does not do, once more.
/// Also returns whether the disk had to be waited for.
fn ask<R>(counter: &mut Counter, question: impl Fn(&mut Counter) -> R) -> (R, bool) {
    let bounds = (Lookup::Cached, u64::MAX);
    match FileStore::bounded(counter, |counter| &mut counter.store, bounds, &question) {
        Ok(answer) => (answer, false),
        Err(voided) => (question(counter), voided.cold),
    }
}

fn get(counter: &mut Counter, name: &str) -> (Seen, bool) {
    counter.store.drain_events();
    ask(counter, |counter| counter.request(Method::Get, name, &[]))
}

#[test]
fn what_is_on_the_disk_only_is_not_waited_for() {
    let folder = Folder::new();
    let path = folder.file("page.html", "content");
    let file = File::open(path).unwrap();
    let mut counter = Counter::new(&folder);
    let is_cold = |counter: &mut Counter| {
        let path = counter.path("page.html");
        let bounds = (Lookup::Cached, u64::MAX);
        FileStore::bounded(&mut counter.store, |store| store, bounds, |store| store.kind(&path))
    };
    page_cache::remove(file.as_fd()).unwrap();
    match is_cold(&mut counter) {
        Err(voided) => assert!(voided.cold, "{voided:?}"),
        // A file system in memory, or one that cannot tell, has nothing on the disk only.
        Ok(kind) => assert_eq!(kind, PathKind::File),
    }
    assert_eq!(counter.get("page.html").brief(), (200, "content"));
    assert_eq!(is_cold(&mut counter), Ok(PathKind::File), "it is in memory now");
}

#[test]
fn short_content_is_in_memory_after_it_was_fetched() {
    let folder = Folder::new();
    let path = folder.file("page.html", vec![7; 100_000]);
    let file = File::open(path).unwrap();
    file.sync_all().unwrap();
    let mut counter = Counter::new(&folder);
    let path = counter.path("page.html");
    let answer = counter.store.answer(&Request::new(), &path, FileHandle::NONE).unwrap();
    let FileBody::File { file: open, .. } = &answer.body else {
        panic!("{answer:?}")
    };
    page_cache::remove(file.as_fd()).unwrap();
    // On a file system in memory nothing is cold, neither before nor afterwards.
    let _is_cold = open.is_cold(&(0..100_000));
    answer.fetch_short();
    assert!(!open.is_cold(&(0..100_000)));
}

#[test]
fn folders_that_are_kept_for_a_second_hide_nothing_that_is_new() {
    let folder = Folder::new();
    folder.file("a/b/page.html", "one");
    let limits = StoreLimits {
        folders: 0,
        passing_folders: 3,
        ..StoreLimits::default()
    };
    let mut counter = Counter::with(&folder, "owner", limits);
    for (name, status) in
        [("a/b/page.html", 200), ("a/c/page.html", 404), ("d/page.html", 404), ("e/f.html", 404)]
    {
        assert_eq!(counter.get_deaf(name).status, status, "{name}");
    }
    for name in ["a/c/page.html", "d/page.html", "e/f.html"] {
        folder.file(name, "new");
        assert_eq!(counter.get_deaf(name).text(), "new", "in the same second");
    }
    std::fs::remove_dir_all(folder.at("a/b")).unwrap();
    assert_eq!(counter.get_deaf("a/b/page.html").status, 404);
    assert_eq!(counter.store.figures().watched, 0);
}

#[test]
fn the_answers_are_those_of_a_store_that_waits() {
    let folder = Folder::new();
    folder.file("page.html", "content");
    folder.file("deep/er/page.html", "deep");
    folder.file("large.bin", vec![7; 100_000]);
    folder.file("script.php", "<?php");
    folder.link("deep/er", "inside");
    folder.link("/etc", "outside");
    folder.link("nowhere", "broken");
    folder.link("loop", "loop");
    for symlinks in ["inside", "owner", "follow"] {
        let limits = StoreLimits::default();
        let mut waiting = Counter::with(&folder, symlinks, limits);
        let mut loop_ = Counter::with(&folder, symlinks, limits);
        for second in 0..3 {
            for name in [
                "page.html",
                "deep/er/page.html",
                "deep/none.html",
                "none/at/all.html",
                "page.html/below",
                "large.bin",
                "inside/page.html",
                "inside/none",
                "outside/hostname",
                "outside/none",
                "broken",
                "broken/x",
                "loop",
            ] {
                let (seen, _) = get(&mut loop_, name);
                assert_eq!(seen, waiting.get(name), "{symlinks}, {name}, second {second}");
                let (kind, _) = ask(&mut loop_, |counter| counter.kind(name));
                assert_eq!(kind, waiting.kind(name), "{symlinks}, {name}, second {second}");
            }
            waiting.wait(1);
            loop_.wait(1);
        }
    }
}

#[test]
fn a_change_is_seen_without_waiting() {
    let folder = Folder::new();
    folder.file("page.html", "one");
    let mut counter = Counter::new(&folder);
    assert_eq!(get(&mut counter, "page.html").0.text(), "one");
    folder.file("page.html", "another");
    assert_eq!(get(&mut counter, "page.html").0.text(), "another");
    std::fs::remove_file(folder.at("page.html")).unwrap();
    assert_eq!(get(&mut counter, "page.html").0.status, 404);
    std::fs::rename(folder.root(), folder.outside("moved")).unwrap();
    std::fs::create_dir(folder.root()).unwrap();
    folder.file("page.html", "elsewhere");
    counter.wait(1);
    assert_eq!(get(&mut counter, "page.html").0.text(), "elsewhere");
}

#[test]
fn what_directives_name_anywhere_is_not_waited_for() {
    let folder = Folder::new();
    let far = folder.outside("far");
    std::fs::create_dir(&far).unwrap();
    std::fs::write(far.join("list"), "content").unwrap();
    std::os::unix::fs::symlink("list", far.join("link")).unwrap();
    let mut counter = Counter::new(&folder);
    let bytes = |name: &str| far.join(name).as_os_str().as_bytes().to_vec();
    // Nobody has asked for these names, so the kernel cannot know that they are missing.
    let missing = [bytes("none-1"), bytes("none-2"), bytes("none-3")];
    let tells = open::stat(&CString::new(bytes("none-0")).unwrap(), true, Lookup::Cached)
        .is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock);
    let probed = ask(&mut counter, |counter| counter.store.probe(&missing[0]));
    let linked = ask(&mut counter, |counter| counter.store.probe_link(&missing[1]));
    let read = ask(&mut counter, |counter| counter.store.read(&missing[2]));
    assert_eq!((probed.0, linked.0, read.0), (None, None, None));
    assert_eq!([probed.1, linked.1, read.1].contains(&true), tells);
    // Files that others have just written are in memory.
    for name in ["list", "link"] {
        let found = warm(&mut counter, |counter| counter.store.probe(&bytes(name)));
        assert_eq!(found.map(|probe| probe.size), Some(7), "{name}");
        let link = warm(&mut counter, |counter| counter.store.probe_link(&bytes(name)));
        let is_link = link.is_some_and(|probe| probe.kind == ProbeKind::Link);
        assert_eq!(is_link, name == "link", "{name}");
        // The kernel does not follow every link in memory alone to open a file.
        let (text, _) = ask(&mut counter, |counter| counter.store.read(&bytes(name)));
        assert_eq!(text.as_deref(), Some(&b"content"[..]), "{name}");
    }
    let text = warm(&mut counter, |counter| counter.store.read(&bytes("list")));
    assert_eq!(text.as_deref(), Some(&b"content"[..]));
    assert_eq!(warm(&mut counter, |counter| counter.store.entries(&bytes(""))).len(), 2);
    std::fs::write(far.join("list"), "changed!").unwrap();
    let (text, _) = ask(&mut counter, |counter| counter.store.read(&bytes("list")));
    assert_eq!(text.as_deref(), Some(&b"changed!"[..]));
}

/// Asks until nothing has to be waited for: another process that renames something may keep the
/// kernel from answering from memory.
fn warm<R>(counter: &mut Counter, question: impl Fn(&mut Counter) -> R) -> R {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let (answer, is_cold) = ask(counter, &question);
        if !is_cold {
            return answer;
        }
        assert!(Instant::now() < until, "it is never in memory");
    }
}
