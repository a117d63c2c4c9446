//! Questions of directives about paths. The answers are as fresh as the served files.

mod support;

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use howdah_files::FileStore;
use howdah_htaccess::host::{Probe, ProbeKind};
use howdah_site::{DirectiveHost, PathKind, SiteHost};
use howdah_sys::open::Lookup;
use support::{Counter, Folder, age};

fn probe(counter: &mut Counter, path: impl AsRef<Path>) -> Option<(ProbeKind, u64)> {
    let mut below = counter.path("any");
    let found: Option<Probe> =
        counter.store.probe_absolute(&mut below, path.as_ref().as_os_str().as_bytes());
    found.map(|probe| (probe.kind, probe.size))
}

/// A file that takes another one's place after the look is read as the site's files are sent.
#[test]
fn a_document_is_read_by_the_rule_for_links() {
    let folder = Folder::new();
    folder.file("a.txt", "own");
    folder.link("a.txt", "inner");
    let out = folder.link("/etc/passwd", "out");
    // A link of root's would be followed.
    let _ = std::os::unix::fs::lchown(&out, Some(7), None);
    let mut counter = Counter::new(&folder);
    for (name, expected) in [("a.txt", "own"), ("inner", "own"), ("out", ""), ("none", "")] {
        let path = counter.path(name);
        let found = counter.store.read_document(&path).unwrap_or_default();
        assert_eq!(*found, *expected.as_bytes(), "{name}");
    }
    assert_eq!(counter.kind("a.txt"), PathKind::File);
    let path = counter.path("a.txt");
    fs::remove_file(folder.at("a.txt")).unwrap();
    fs::rename(&out, folder.at("a.txt")).unwrap();
    assert!(counter.store.read(folder.at("a.txt").as_os_str().as_bytes()).is_some());
    assert_eq!(counter.store.read_document(&path), None);
}

/// An event loop reads a folder of few names itself, and leaves one of many to another thread.
#[test]
fn the_names_of_a_folder_count_as_steps() {
    let folder = Folder::new();
    for number in 0..100 {
        folder.file(&format!("few/{number}"), "");
    }
    for number in 0..900 {
        folder.file(&format!("many/{number}"), "");
    }
    let mut counter = Counter::new(&folder);
    let mut bounded = |name: &str, steps| {
        let path = folder.at(name);
        let names = |store: &mut FileStore| store.entries(path.as_os_str().as_bytes()).len();
        let bounds = (Lookup::Cached, steps);
        let found = FileStore::bounded(
            &mut counter.store,
            |store| store,
            bounds,
            |store| [names(store), names(store)],
        );
        found.map_err(|voided| voided.too_many_links)
    };
    assert_eq!(bounded("few", 50), Ok([100, 100]));
    assert_eq!(bounded("many", 50), Err(true));
    assert_eq!(bounded("many", 0), Err(true));
    assert_eq!(bounded("many", 300), Ok([900, 900]));
    assert_eq!(bounded("many", 120), Err(true), "the second look is one too many");
    assert_eq!(bounded("many", u64::MAX), Ok([900, 900]), "the bounds have an end");
}

#[test]
fn anything_below_the_root_and_elsewhere() {
    let folder = Folder::new();
    folder.file("a/file.txt", "1234");
    folder.link("/etc/passwd", "out");
    folder.link("a", "inner");
    fs::write(folder.outside("secret"), "12").unwrap();
    let mut counter = Counter::new(&folder);
    assert_eq!(counter.kind("a/file.txt"), PathKind::File);
    let slash = |name: &str| folder.root().join(name).display().to_string() + "/";
    let rows = [
        (folder.at("a/file.txt"), Some(ProbeKind::File)),
        (folder.at("a"), Some(ProbeKind::Directory)),
        (slash("a").into(), Some(ProbeKind::Directory)),
        (slash("a/file.txt").into(), None),
        (folder.at("a/none"), None),
        (folder.at("none/none"), None),
        (folder.at("inner/file.txt"), Some(ProbeKind::File)),
        (folder.at("a/../a/file.txt"), Some(ProbeKind::File)),
        // The site's rule for links is about what is sent, not about what a condition looks at.
        (folder.at("out"), Some(ProbeKind::File)),
        (folder.root(), Some(ProbeKind::Directory)),
        (folder.outside("secret"), Some(ProbeKind::File)),
        ("/no/such".into(), None),
        ("relative".into(), None),
        ("/dev/null".into(), Some(ProbeKind::Special)),
    ];
    for (path, expected) in rows {
        let found = probe(&mut counter, &path).map(|found| found.0);
        assert_eq!(found, expected, "{}", path.display());
    }
    assert_eq!(probe(&mut counter, folder.at("a/file.txt")), Some((ProbeKind::File, 4)));
    let link = |counter: &mut Counter, path: &Path| {
        let found = counter.store.probe_link(path.as_os_str().as_bytes());
        found.map(|probe| probe.kind)
    };
    assert_eq!(link(&mut counter, &folder.at("inner")), Some(ProbeKind::Link));
    assert_eq!(link(&mut counter, &folder.at("a")), Some(ProbeKind::Directory));
}

#[test]
fn below_the_root_an_answer_is_remembered_until_something_changes() {
    let folder = Folder::new();
    folder.file("index.html", "x");
    let mut counter = Counter::new(&folder);
    counter.get("index.html");
    let (there, missing) = (folder.file("cache/page.html", "123"), folder.at("cache/other.html"));
    let ask = |counter: &mut Counter| (probe(counter, &there), probe(counter, &missing));
    assert_eq!(ask(&mut counter), (Some((ProbeKind::File, 3)), None));
    counter.store.drain_events();
    ask(&mut counter);
    let before = support::findings(&counter.store);
    for _ in 0..100 {
        ask(&mut counter);
    }
    assert_eq!(support::findings(&counter.store), before);
    fs::write(&there, "12345").unwrap();
    fs::write(&missing, "1").unwrap();
    counter.store.drain_events();
    let (file, size) = (ProbeKind::File, 5);
    assert_eq!(ask(&mut counter), (Some((file, size)), Some((file, 1))));
    fs::remove_dir_all(folder.at("cache")).unwrap();
    counter.store.drain_events();
    assert_eq!(ask(&mut counter), (None, None));
}

#[test]
fn a_file_is_read_as_it_is() {
    let folder = Folder::new();
    let mut counter = Counter::new(&folder);
    let path = folder.outside("users");
    let mut read = || {
        let content = counter.store.read(path.as_os_str().as_bytes());
        content.map(|content| String::from_utf8(content.to_vec()).unwrap())
    };
    assert_eq!(read(), None);
    for round in 0..100 {
        let content = format!("user:{round:04}");
        fs::write(&path, &content).unwrap();
        assert_eq!(read().as_deref(), Some(content.as_str()));
        assert_eq!(read().as_deref(), Some(content.as_str()));
    }
    age(&path, 100);
    assert_eq!(read().as_deref(), Some("user:0099"));
    fs::remove_file(&path).unwrap();
    assert_eq!(read(), None);
    fs::create_dir(&path).unwrap();
    assert_eq!(read(), None);
}

#[test]
fn entries_of_a_listing() {
    let folder = Folder::new();
    folder.file("a/one.txt", "1");
    folder.file("a/sub/two.txt", "22");
    folder.link("/etc/passwd", "a/passwd");
    folder.link("one.txt", "a/link");
    fs::write(folder.outside("secret"), "12").unwrap();
    folder.link(folder.outside("secret"), "a/own");
    for (symlinks, expected) in [
        ("follow", &["link", "one.txt", "own", "passwd", "sub"][..]),
        ("inside", &["link", "one.txt", "sub"]),
    ] {
        let mut counter = Counter::with(&folder, symlinks, howdah_files::StoreLimits::default());
        let path = counter.path("a");
        let mut listed = counter.store.list(&path).unwrap();
        listed.sort_by(|one, other| one.name.cmp(&other.name));
        let names: Vec<&str> =
            listed.iter().map(|listed| std::str::from_utf8(&listed.name).unwrap()).collect();
        assert_eq!(names, expected, "{symlinks}");
        let sub = listed.iter().find(|listed| *listed.name == *b"sub").unwrap();
        assert_eq!(sub.probe.kind, ProbeKind::Directory);
        let path = counter.path("a/one.txt");
        assert_eq!(counter.store.list(&path), None, "a file is not listed");
        let path = counter.path("none");
        assert_eq!(counter.store.list(&path), None);
    }
}
