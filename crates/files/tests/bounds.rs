//! However many files there are, the store holds on to a bounded part, and answers for all.

mod support;

use howdah_files::StoreLimits;
use support::{Counter, Folder};

#[test]
fn entries() {
    let folder = Folder::new();
    (0..50).for_each(|number| drop(folder.file(&format!("{number}.txt"), number.to_string())));
    let mut counter =
        Counter::with(&folder, "owner", StoreLimits { entries: 10, ..StoreLimits::default() });
    for _ in 0..3 {
        for number in 0..50 {
            assert_eq!(counter.get(&format!("{number}.txt")).text(), number.to_string());
            assert!(counter.store.figures().entries <= 10);
        }
    }
}

#[test]
fn used_entries_are_kept() {
    let folder = Folder::new();
    (0..50).for_each(|number| drop(folder.file(&format!("{number}.txt"), number.to_string())));
    let mut counter =
        Counter::with(&folder, "owner", StoreLimits { entries: 10, ..StoreLimits::default() });
    counter.get("0.txt");
    for number in 1..50 {
        counter.get(&format!("{number}.txt"));
        counter.get(&format!("none-{number}.txt"));
        let before = counter.store.figures().loads;
        assert_eq!(counter.get("0.txt").text(), "0");
        assert_eq!(counter.store.figures().loads, before, "after {number} others");
    }
}

#[test]
fn descriptors() {
    let folder = Folder::new();
    (0..30).for_each(|number| drop(folder.file(&format!("{number}.bin"), vec![number; 100_000])));
    let mut counter =
        Counter::with(&folder, "owner", StoreLimits { descriptors: 4, ..StoreLimits::default() });
    let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let mut most = 0;
    for _ in 0..2 {
        for number in 0..30u8 {
            assert!(counter.get(&format!("{number}.bin")).content == vec![number; 100_000]);
            assert!(counter.store.figures().descriptors <= 4);
            most = most.max(open());
        }
    }
    // Other tests of this file run beside this one and open some, too.
    assert!(most < 30, "{most} descriptors");
}

#[test]
fn memory() {
    let folder = Folder::new();
    (0..30).for_each(|number| {
        drop(folder.file(&format!("{number}.txt"), vec![b'a' + number % 26; 10_000]))
    });
    let mut counter =
        Counter::with(&folder, "owner", StoreLimits { memory: 35_000, ..StoreLimits::default() });
    for _ in 0..2 {
        for number in 0..30u8 {
            assert!(
                counter.get(&format!("{number}.txt")).content == vec![b'a' + number % 26; 10_000]
            );
            assert!(counter.store.figures().memory <= 35_000);
        }
    }
    // Nothing at all may be kept, and yet all is answered.
    let nothing = StoreLimits {
        entries: 0,
        descriptors: 0,
        memory: 0,
        small: 0,
        folders: 0,
        passing_folders: 0,
        roots: 0,
        copies: 0,
    };
    let mut counter = Counter::with(&folder, "owner", nothing);
    for number in 0..30u8 {
        assert_eq!(counter.get(&format!("{number}.txt")).content.len(), 10_000);
    }
    assert!(counter.store.figures().entries <= 1);
}

#[test]
fn roots() {
    let folder = Folder::new();
    (0..10).for_each(|number| {
        drop(folder.file(&format!("site{number}.example/a.txt"), number.to_string()))
    });
    let text = format!(
        "[[site]]\nhosts = [\"*.example\"]\nroot = \"{}/{{host}}\"\nphp = false\n",
        folder.root().display()
    );
    let config = howdah_config::Config::parse(&text, "test.toml").unwrap();
    let sites = howdah_site::Sites::compile(&config);
    let mut store =
        howdah_files::FileStore::new(StoreLimits { roots: 3, ..StoreLimits::default() });
    for round in 0..3 {
        for number in 0..10 {
            store.tick(1000 + round * 10 + number);
            let mut request = howdah_http::Request::new();
            request.authority = format!("site{number}.example").into_bytes();
            request.target = b"/a.txt".to_vec();
            let site = sites.find(&request.authority).unwrap();
            let scratch = &mut howdah_site::Scratch::default();
            let howdah_site::Resolution::File { path, file } =
                howdah_site::resolve(site, &support::client(&request), &mut store, scratch)
                    .resolution
            else {
                panic!()
            };
            let seen = support::Seen::of(store.answer(&request, &path, file));
            assert_eq!(seen.text(), number.to_string());
            assert!(store.figures().entries <= 3);
        }
    }
}

#[test]
fn folders_without_entries_make_room() {
    let folder = Folder::new();
    for number in 0..40 {
        folder.file(&format!("{number}/deep/a.txt"), number.to_string());
    }
    // The root and the two folders of each of four files, and of the one that comes.
    let limits = StoreLimits {
        entries: 4,
        folders: 12,
        ..StoreLimits::default()
    };
    let mut counter = Counter::with(&folder, "owner", limits);
    for number in 0..40 {
        counter.wait(1);
        let name = format!("{number}/deep/a.txt");
        assert_eq!(counter.get(&name).text(), number.to_string());
        let figures = counter.store.figures();
        assert!(figures.folders <= 12 && figures.watched <= 12, "{figures:?}");
        // The newest is watched: a second request finds it without a look at the disk.
        counter.get(&name);
        let after = counter.store.figures();
        assert_eq!((after.loads, after.checks), (figures.loads, figures.checks), "{name}");
    }
}
