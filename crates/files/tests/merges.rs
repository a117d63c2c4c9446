//! Merging the directives of many folders is work, and an event loop does a bounded part of it.
#![allow(clippy::unwrap_used)] // A test's tools may panic as the test itself.

mod support;

use std::sync::Arc;

use howdah_config::Config;
use howdah_files::{DirectiveCache, FileStore, StoreLimits, VoidReasons};
use howdah_site::{DocumentLook, SiteHost, Sites};
use howdah_sys::open::Lookup;
use support::{Counter, Folder};

/// Folders within folders, each with as many directives of its own.
const DEPTH: usize = 12;
const OWN: usize = 60;

/// Directives that are copied where they are merged.
fn variables(folder: usize) -> String {
    (0..OWN).map(|number| format!("SetEnv v{folder}n{number} x\n")).collect()
}

#[test]
fn an_event_loop_merges_a_bounded_part_of_deep_folders() {
    let folder = Folder::new();
    let mut path = String::new();
    for depth in 0..DEPTH {
        folder.file(&format!("{path}.htaccess"), variables(depth));
        path += &format!("{depth}/");
    }
    let file = format!("{path}file.txt");
    folder.file(&file, "content");
    let text = format!("[[site]]\nroot = {:?}\nphp = false\n", folder.root().to_str().unwrap());
    let sites = Sites::compile(&Config::parse(&text, "test.toml").unwrap());
    let directives = DirectiveCache::new(&sites, 4 << 20, Box::new(|_, _| {}));
    let mut store = FileStore::with_directives(StoreLimits::default(), Arc::new(directives));
    store.tick(1000);
    let counter = Counter::with(&folder, "owner", StoreLimits::default());
    let path = counter.path(&file);
    let mut look = |steps: u64| -> (Result<DocumentLook, VoidReasons>, usize) {
        let bounds = (Lookup::Full, steps);
        let found =
            FileStore::bounded(&mut store, |store| store, bounds, |store| store.look(&path));
        (found, store.figures().copies)
    };
    let too_much = VoidReasons {
        too_many_links: true,
        ..VoidReasons::default()
    };
    // A site that was costly a moment ago has no steps at all.
    let (found, copies) = look(0);
    assert_eq!((found.err(), copies), (Some(too_much), 0));
    // In each turn some folders more are merged, and stay so.
    let mut before = 0;
    let mut turns = 0;
    loop {
        let (found, copies) = look(50);
        turns += 1;
        assert!(copies - before <= 50 * 20, "{copies} after {before}");
        before = copies;
        match found {
            Ok(look) => {
                let copied = look.rules.unwrap().copied();
                assert_eq!(copied, OWN * DEPTH, "the file has the directives of all folders");
                break;
            }
            Err(voided) => assert_eq!(voided, too_much),
        }
        assert!(turns < 2 * DEPTH, "there is no progress");
    }
    assert!(turns > 2, "{turns}");
    assert!(look(0).0.is_ok(), "what is merged is found");
}
