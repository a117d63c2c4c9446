//! One site takes the watches and open roots of another one neither with many folders nor with many
//! hosts.

mod support;

use std::fs;
use std::sync::Arc;

use howdah_config::Config;
use howdah_files::{DirectiveCache, FileStore, StoreLimits};
use howdah_site::{SiteHost, Sites};
use support::Folder;

/// A store for the sites `blog.example` and `shop.example`, with a root each, and all hosts of
/// `customers.example`, with a root for each host.
struct Shared {
    folder: Folder,
    sites: Sites,
    store: FileStore,
    now: u64,
}

impl Shared {
    fn new(limits: StoreLimits) -> Shared {
        let folder = Folder::new();
        let root = folder.root().display().to_string();
        let site = |hosts: &str, root: &str| {
            format!("[[site]]\nhosts = [\"{hosts}\"]\nroot = \"{root}\"\nphp = false\n")
        };
        let text = [
            site("blog.example", &format!("{root}/blog")),
            site("shop.example", &format!("{root}/shop")),
            site("*.customers.example", &format!("{root}/customers/{{host}}")),
        ];
        let config = Config::parse(&text.concat(), "test.toml").expect("it is right");
        let sites = Sites::compile(&config);
        let directives = DirectiveCache::new(&sites, 4 << 20, Box::new(|_, _| {}));
        let mut store = FileStore::with_directives(limits, Arc::new(directives));
        store.tick(1);
        Shared { folder, sites, store, now: 1 }
    }

    fn wait(&mut self, seconds: u64) {
        self.now += seconds;
        self.store.tick(self.now);
    }

    fn look(&mut self, host: &str, name: &str) {
        self.store.drain_events();
        let path = support::path_on(&self.sites, host.as_bytes(), name);
        self.store.look(&path);
    }

    /// Returns whether a second look at a file of `host` asks nothing of the disk.
    fn is_watched(&mut self, host: &str, name: &str) -> bool {
        self.look(host, name);
        let before = support::findings(&self.store);
        self.look(host, name);
        support::findings(&self.store) == before
    }
}

#[test]
fn a_site_with_thousands_of_folders_leaves_watches_to_others() {
    let mut shared = Shared::new(StoreLimits { folders: 90, ..StoreLimits::default() });
    for number in 0..200 {
        shared
            .folder
            .file(&format!("blog/{number}/.htaccess"), "DirectoryIndex a.html\n");
        shared.folder.file(&format!("blog/{number}/a.txt"), "");
    }
    let inner = shared.folder.file("shop/a/b/c.txt", "one");
    for _ in 0..2 {
        (0..200).for_each(|number| shared.look("blog.example", &format!("{number}/a.txt")));
        let figures = shared.store.figures();
        // The three folders of the other site are known the second time.
        assert!(figures.watched <= 33 && figures.folders <= 33, "{figures:?}");
        assert!(figures.unwatched > 0, "{figures:?}");
        assert!(shared.is_watched("shop.example", "a/b/c.txt"));
        shared.wait(1);
    }
    assert!(shared.is_watched("blog.example", "0/a.txt"), "it keeps those that it had first");
    assert!(!shared.is_watched("blog.example", "199/a.txt"));
    // Beyond the share the disk is looked at.
    fs::remove_file(shared.folder.at("blog/199/.htaccess")).unwrap();
    let path = support::path_on(&shared.sites, b"blog.example", "199/a.txt");
    let rules = shared.store.look(&path).rules;
    assert!(rules.is_none_or(|rules| rules.settings().dir.is_none()));
    fs::write(inner, "two").unwrap();
    shared.look("shop.example", "a/b/c.txt");
    assert!(shared.store.figures().changes > 0);
}

#[test]
fn the_hosts_of_one_site_have_one_share_of_watches_and_roots() {
    let limits = StoreLimits {
        folders: 90,
        roots: 20,
        ..StoreLimits::default()
    };
    let mut shared = Shared::new(limits);
    for host in 0..200 {
        shared.folder.file(&format!("customers/{host}.customers.example/a/b.txt"), "");
    }
    shared.folder.file("shop/a/b.txt", "");
    assert!(shared.is_watched("shop.example", "a/b.txt"));
    let before = shared.store.figures();
    for host in 0..200 {
        shared.look(&format!("{host}.customers.example"), "a/b.txt");
        shared.look(&format!("none{host}.customers.example"), "a/b.txt");
        let figures = shared.store.figures();
        assert!(figures.watched - before.watched <= 30, "{host}: {figures:?}");
    }
    let loads = shared.store.figures().loads;
    shared.look("shop.example", "a/b.txt");
    assert_eq!(shared.store.figures().loads, loads, "the other site's root is still open");
    assert!(shared.is_watched("shop.example", "a/b.txt"));
}
