//! The `.htaccess` files in force are those that are there at this moment.
#![allow(clippy::unwrap_used)] // A test's tools may panic as the test itself.

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::rc::Rc;
use std::sync::{Arc, Mutex, Weak};
use std::time::SystemTime;

use howdah_config::Config;
use howdah_files::{DirectiveCache, FileStore, StoreLimits};
use howdah_htaccess::Compiled;
use howdah_site::{DocumentLook, PathKind, Rules, SiteHost, Sites};
use support::{Counter, Folder, age};

/// A store that knows of directives, and what was told of them.
struct Reader {
    store: FileStore,
    /// Makes paths.
    counter: Counter,
    told: Arc<Mutex<Vec<String>>>,
    now: u64,
}

impl Reader {
    fn new(folder: &Folder) -> Reader {
        Reader::with(folder, "", StoreLimits::default())
    }

    fn with(folder: &Folder, site: &str, limits: StoreLimits) -> Reader {
        let root = folder.root();
        let text =
            format!("[[site]]\nroot = {:?}\nphp = false\n{site}", root.display().to_string());
        let sites = Sites::compile(&Config::parse(&text, "test.toml").unwrap());
        let told: Arc<Mutex<Vec<String>>> = Arc::default();
        let tell = Arc::clone(&told);
        let directives = DirectiveCache::new(
            &sites,
            4 << 20,
            Box::new(move |_, what| tell.lock().unwrap().push(what.to_string())),
        );
        let mut store = FileStore::with_directives(limits, Arc::new(directives));
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
        store.tick(now);
        Reader {
            store,
            counter: Counter::with(folder, "owner", limits),
            told,
            now,
        }
    }

    /// Looks at a path after the events have been read, as the event loop does.
    fn look(&mut self, name: &str) -> DocumentLook {
        self.store.drain_events();
        self.store.look(&self.counter.path(name))
    }

    /// The first index file that is in force, which tells which files are; `-` where there are no
    /// rules.
    fn index(&mut self, name: &str) -> String {
        self.look(name).rules.map_or("-".to_owned(), |rules| index_of(&rules))
    }

    fn told(&self) -> Vec<String> {
        std::mem::take(&mut self.told.lock().unwrap())
    }

    fn wait(&mut self, seconds: u64) {
        self.now += seconds;
        self.store.tick(self.now);
    }
}

fn index(name: &str) -> String {
    format!("DirectoryIndex {name}\n")
}

fn index_of(rules: &Rules) -> String {
    let index = rules.settings().dir.as_ref().and_then(|dir| dir.index.as_ref()?.first());
    index.map_or("none".to_owned(), |index| String::from_utf8_lossy(index).into_owned())
}

fn rules(look: DocumentLook) -> Option<Rc<Rules>> {
    look.rules
}

#[test]
fn the_closest_folder_that_is_there() {
    let folder = Folder::new();
    folder.file(".htaccess", index("root"));
    folder.file("a/.htaccess", index("a"));
    folder.file("a/b/file.txt", "");
    folder.file("a/b/c/.htaccess", index("c"));
    folder.file("d/file.txt", "");
    let mut reader = Reader::new(&folder);
    let rows = [
        ("file.txt", "root"),
        ("a", "a"),
        ("a/none", "a"),
        ("a/b/file.txt", "a"),
        ("a/b/file.txt/info", "a"),
        ("a/b/c", "c"),
        ("a/b/c/none/none", "c"),
        ("d/file.txt", "root"),
        ("none/none/none", "root"),
    ];
    for round in 0..3 {
        for (name, expected) in rows {
            assert_eq!(reader.index(name), expected, "{name}, round {round}");
        }
        reader.wait(1);
    }
    assert_eq!(reader.told(), [""; 0]);
}

#[test]
fn without_any_there_are_none() {
    let folder = Folder::new();
    folder.file("a/file.txt", "");
    let mut reader = Reader::new(&folder);
    for name in ["a/file.txt", "a", "none"] {
        assert!(rules(reader.look(name)).is_none());
    }
}

#[test]
fn nothing_changes_and_the_disk_is_not_asked() {
    let folder = Folder::new();
    folder.file(".htaccess", index("root"));
    folder.file("a/b/.htaccess", index("b"));
    folder.file("a/b/file.txt", "");
    // A file changed within the last tick of the kernel's clock is read again.
    std::thread::sleep(std::time::Duration::from_millis(30));
    let mut reader = Reader::new(&folder);
    let names = ["a/b/file.txt", "a/b/none", "a", "none/none"];
    let ask = |reader: &mut Reader| {
        names.map(|name| rules(reader.look(name)).map(|rules| Rc::as_ptr(&rules)))
    };
    ask(&mut reader);
    let (before, known) = (support::findings(&reader.store), ask(&mut reader));
    for _ in 0..100 {
        assert_eq!(ask(&mut reader), known);
    }
    assert_eq!(support::findings(&reader.store), before);
    // In another second the disk is asked once for each file, and nothing is merged again.
    reader.wait(1);
    assert_eq!(ask(&mut reader), known);
    let checked = support::findings(&reader.store);
    assert_eq!(checked.loads, before.loads);
    assert!(checked.checks > before.checks);
    assert_eq!(ask(&mut reader), known);
    assert_eq!(support::findings(&reader.store), checked);
}

#[test]
fn every_way_to_change_one_is_seen_at_once() {
    let folder = Folder::new();
    folder.file("a/b/file.txt", "");
    let mut reader = Reader::new(&folder);
    let name = "a/b/file.txt";
    assert_eq!(reader.index(name), "-");

    let path = folder.at("a/.htaccess");
    for round in 0..200 {
        fs::write(&path, index(&format!("{round:03}"))).unwrap();
        assert_eq!(reader.index(name), format!("{round:03}"), "same size, same second");
    }
    fs::write(folder.outside("new"), index("renamed")).unwrap();
    fs::rename(folder.outside("new"), &path).unwrap();
    assert_eq!(reader.index(name), "renamed");

    fs::write(folder.at("a/b/.htaccess"), index("closer")).unwrap();
    assert_eq!(reader.index(name), "closer");
    fs::remove_file(folder.at("a/b/.htaccess")).unwrap();
    assert_eq!(reader.index(name), "renamed");

    fs::rename(&path, folder.at("a/htaccess.off")).unwrap();
    assert_eq!(reader.index(name), "-");
    fs::rename(folder.at("a/htaccess.off"), &path).unwrap();
    assert_eq!(reader.index(name), "renamed");

    fs::rename(folder.at("a"), folder.at("moved")).unwrap();
    assert_eq!(reader.index(name), "-");
    assert_eq!(reader.index("moved/b/file.txt"), "renamed");
    fs::create_dir_all(folder.at("a/b")).unwrap();
    fs::write(folder.at("a/.htaccess"), index("fresh")).unwrap();
    assert_eq!(reader.index(name), "fresh");
}

#[test]
fn a_release_that_is_swapped() {
    let folder = Folder::new();
    for release in ["1", "2"] {
        folder.file(&format!("releases/{release}/.htaccess"), index(release));
        folder.file(&format!("releases/{release}/file.txt"), release);
    }
    folder.link("releases/1", "current");
    let mut reader = Reader::new(&folder);
    for release in ["1", "2", "1", "2"] {
        folder.swap_link(format!("releases/{release}"), "current");
        assert_eq!(reader.index("current/file.txt"), release);
        assert_eq!(reader.index("current/none"), release);
    }
    // The file itself may be a link as well.
    folder.link("releases/1/.htaccess", ".htaccess");
    assert_eq!(reader.index("none"), "1");
    folder.swap_link("releases/2/.htaccess", ".htaccess");
    assert_eq!(reader.index("none"), "2");
}

#[test]
fn unwatched_files_are_compared_every_time() {
    let folder = Folder::new();
    folder.file(".htaccess", index("root"));
    folder.file("a/file.txt", "");
    let limits = StoreLimits { folders: 0, ..StoreLimits::default() };
    let mut reader = Reader::with(&folder, "", limits);
    assert_eq!(reader.index("a/file.txt"), "root");
    for round in 0..20 {
        fs::write(folder.at("a/.htaccess"), index(&format!("{round:03}"))).unwrap();
        assert_eq!(reader.index("a/file.txt"), format!("{round:03}"));
        assert_eq!(reader.index("a/none"), format!("{round:03}"));
        fs::remove_file(folder.at("a/.htaccess")).unwrap();
        assert_eq!(reader.index("a/file.txt"), "root");
    }
}

#[test]
fn rules_of_many_folders_copy_a_bounded_part() {
    let folder = Folder::new();
    let variables: String = (0..90).map(|number| format!("SetEnv v{number} x\n")).collect();
    folder.file(".htaccess", variables);
    for number in 0..60 {
        folder.file(&format!("{number}/.htaccess"), format!("SetEnv a b\n{}", index("own")));
    }
    let limits = StoreLimits { copies: 1000, ..StoreLimits::default() };
    let mut reader = Reader::with(&folder, "", limits);
    for round in 0..3 {
        for number in 0..60 {
            assert_eq!(reader.index(&number.to_string()), "own");
            let figures = reader.store.figures();
            assert!((91..1100).contains(&figures.copies), "{figures:?}");
        }
        assert!(reader.store.evictions() > 4 * round, "{}", reader.store.evictions());
        reader.wait(1);
    }
}

#[test]
fn many_folders_in_little_room() {
    let folder = Folder::new();
    folder.file(".htaccess", index("root"));
    for number in 0..60 {
        folder.file(&format!("{number}/.htaccess"), index(&number.to_string()));
        folder.file(&format!("{number}/file.txt"), "");
    }
    let limits = StoreLimits {
        entries: 10,
        folders: 8,
        ..StoreLimits::default()
    };
    let mut reader = Reader::with(&folder, "", limits);
    for round in 0..3 {
        for number in 0..60 {
            let name = format!("{number}/file.txt");
            assert_eq!(reader.index(&name), number.to_string());
            let fresh = format!("{number}-{round}");
            fs::write(folder.at(&format!("{number}/.htaccess")), index(&fresh)).unwrap();
            assert_eq!(reader.index(&name), fresh);
            fs::write(folder.at(&format!("{number}/.htaccess")), index(&number.to_string()))
                .unwrap();
            let figures = reader.store.figures();
            assert!(figures.entries <= 10 && figures.watched <= 8, "{figures:?}");
        }
        reader.wait(1);
    }
}

#[test]
fn an_unreadable_file_closes_all_that_it_covers() {
    let folder = Folder::new();
    folder.file(".htaccess", index("root"));
    folder.file("a/file.txt", "");
    folder.file("a/b/file.txt", "");
    let mut reader = Reader::new(&folder);
    let path = folder.at("a/.htaccess");
    let forbidden = |reader: &mut Reader| {
        let look = reader.look("a/b/file.txt");
        assert_eq!(
            reader.index("a/none"),
            "root",
            "what is known is still told, for its ErrorDocument"
        );
        assert_eq!(reader.look("file.txt").kind, PathKind::Missing);
        look.kind == PathKind::Forbidden && reader.look("a/none").kind == PathKind::Forbidden
    };
    assert_eq!(reader.look("a/b/file.txt").kind, PathKind::File);

    fs::create_dir(&path).unwrap();
    assert!(forbidden(&mut reader), "a folder");
    fs::remove_dir(&path).unwrap();
    assert_eq!(reader.look("a/b/file.txt").kind, PathKind::File);

    let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
    assert!(made.success());
    assert!(forbidden(&mut reader), "a pipe");
    fs::remove_file(&path).unwrap();

    std::os::unix::fs::symlink(".htaccess", &path).unwrap();
    assert!(forbidden(&mut reader), "a link to itself");
    fs::remove_file(&path).unwrap();
    assert_eq!(reader.look("a/b/file.txt").kind, PathKind::File);

    let told = reader.told();
    assert!(
        told.len() >= 3 && told.iter().all(|line| line.contains("a/.htaccess: it cannot be read")),
        "{told:?}"
    );
    if !support::is_root() {
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
        assert!(forbidden(&mut reader), "no right to read it");
        assert_eq!(reader.told().len(), 1);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(reader.look("a/b/file.txt").kind, PathKind::File);
    }
}

#[test]
fn a_mistake_is_told_once() {
    let folder = Folder::new();
    let path = folder.file(".htaccess", "\n  NoSuchDirective on\n");
    folder.file("a/file.txt", "");
    let mut reader = Reader::new(&folder);
    for _ in 0..5 {
        let rules = rules(reader.look("a/file.txt")).unwrap();
        assert!(rules.own().mistake.is_some());
        reader.wait(1);
    }
    let told = reader.told();
    let place = format!("{}:2:3: ", path.display());
    assert!(told.len() == 1 && told[0].starts_with(&place), "{told:?}");

    fs::write(&path, vec![b'#'; (4 << 20) + 1]).unwrap();
    let rules = rules(reader.look("a/file.txt")).unwrap();
    assert!(rules.own().mistake.is_some());
    let told = reader.told();
    assert!(told.len() == 1 && told[0].contains("`htaccess_size`"), "{told:?}");
}

#[test]
fn directives_of_the_configuration() {
    let folder = Folder::new();
    folder.file(".htaccess", index("file"));
    folder.file("a/b.txt", "");
    age(&folder.at("a/b.txt"), 100);
    let rows = [
        ("", "file"),
        ("htaccess = false", "-"),
        ("allow_override = \"None\"", "-"),
        ("allow_override = \"Indexes\"", "file"),
        ("allow_override = \"None\"\nallow_override_list = [\"DirectoryIndex\"]", "file"),
        ("rules = \"DirectoryIndex inline\"", "file"),
        ("rules = \"DirectoryIndex inline\"\nhtaccess = false", "inline"),
    ];
    for (site, expected) in rows {
        let mut reader = Reader::with(&folder, site, StoreLimits::default());
        assert_eq!(reader.index("a/b.txt"), expected, "{site}");
        reader.wait(1);
        assert_eq!(reader.index("a/b.txt"), expected, "{site}");
        assert_eq!(reader.told(), [""; 0]);
    }
    let mut reader = Reader::with(&folder, "allow_override = \"Limit\"", StoreLimits::default());
    assert!(rules(reader.look("a/b.txt")).unwrap().own().mistake.is_some());
}

#[test]
fn a_file_that_a_section_asks_for_comes_and_goes() {
    let folder = Folder::new();
    let flag = folder.root().join("flags/maintenance");
    let section =
        |not, name| format!("<IfFile {not}{}>\n{}</IfFile>\n", flag.display(), index(name));
    folder.file(".htaccess", section("", "closed") + &section("!", "open"));
    folder.file("a/file.txt", "");
    let mut reader = Reader::new(&folder);
    assert_eq!(reader.index("a/file.txt"), "open");
    for expected in ["closed", "open", "closed"] {
        match expected {
            "closed" => {
                folder.file("flags/maintenance", "");
            }
            _ => fs::remove_file(&flag).unwrap(),
        }
        reader.wait(1);
        assert_eq!(reader.index("a/file.txt"), expected);
    }
}

#[test]
fn threads_share_what_is_compiled() {
    let folder = Folder::new();
    let path = folder.file(".htaccess", index("x"));
    let text = format!("[[site]]\nroot = {:?}\n", folder.root().display().to_string());
    let sites = Sites::compile(&Config::parse(&text, "test.toml").unwrap());
    let directives = Arc::new(DirectiveCache::new(&sites, 4 << 20, Box::new(|_, _| {})));
    let mut stores = [(); 2]
        .map(|()| FileStore::with_directives(StoreLimits::default(), Arc::clone(&directives)));
    let asked = Counter::new(&folder).path("file.txt");
    let own = |stores: &mut [FileStore; 2], at: usize| {
        stores[at].drain_events();
        Arc::clone(stores[at].look(&asked).rules.unwrap().own())
    };
    let first = own(&mut stores, 0);
    assert!(Arc::ptr_eq(&first, &own(&mut stores, 1)));
    fs::write(&path, index("y")).unwrap();
    let second = own(&mut stores, 1);
    assert!(!Arc::ptr_eq(&first, &second));
    assert!(Arc::ptr_eq(&second, &own(&mut stores, 0)));
}

#[test]
fn sites_with_other_directives_share_nothing() {
    let folder = Folder::new();
    folder.file(".htaccess", index("file"));
    let root = folder.root().display().to_string();
    let text = format!(
        "[[site]]\nhosts = \"a\"\nroot = {root:?}\n\
         [[site]]\nhosts = \"b\"\nroot = {root:?}\nhtaccess = false\n\
         [[site]]\nhosts = \"c\"\nroot = {root:?}\nrules = \"DirectoryIndex inline\"\n\
         allow_override = \"None\"\n"
    );
    let sites = Sites::compile(&Config::parse(&text, "test.toml").unwrap());
    let directives = Arc::new(DirectiveCache::new(&sites, 4 << 20, Box::new(|_, _| {})));
    let mut store = FileStore::with_directives(StoreLimits::default(), directives);
    let asked = [b"a", b"b", b"c"].map(|host| support::path_on(&sites, host, "none.txt"));
    for _ in 0..3 {
        let found = asked
            .each_ref()
            .map(|path| store.look(path).rules.map(|rules| index_of(&rules)));
        assert_eq!(found, [Some("file".to_owned()), None, Some("inline".to_owned())]);
    }
}

#[test]
fn a_site_whose_directives_need_much_memory_keeps_none_and_takes_none_of_another_site() {
    const LARGE: usize = 12;
    let folder = Folder::new();
    folder.file("b/.htaccess", index("b"));
    // Lines that are no longer than a line may be.
    let large = format!("#{}\n", "x".repeat(8000)).repeat(500);
    for number in 0..LARGE {
        folder.file(&format!("a/{number}/.htaccess"), large.as_str());
    }
    let root = folder.root().display().to_string();
    let text = format!(
        "[[site]]\nhosts = \"a\"\nroot = \"{root}/a\"\n\
         [[site]]\nhosts = \"b\"\nroot = \"{root}/b\"\n"
    );
    let sites = Sites::compile(&Config::parse(&text, "test.toml").unwrap());
    let directives = Arc::new(DirectiveCache::new(&sites, 4 << 20, Box::new(|_, _| {})));
    let mut stores = [(); 2]
        .map(|()| FileStore::with_directives(StoreLimits::default(), Arc::clone(&directives)));
    let ask = |store: &mut FileStore, host: &[u8], file: &str| {
        let path = support::path_on(&sites, host, file);
        Arc::downgrade(store.look(&path).rules.unwrap().own())
    };
    let of_b = stores.each_mut().map(|store| ask(store, b"b", "none.txt"));
    let mut of_a = Vec::new();
    for number in 0..LARGE {
        for store in &mut stores {
            of_a.push(ask(store, b"a", &format!("{number}/none.txt")));
        }
    }
    let are_kept =
        |rules: &[Weak<Compiled>]| rules.iter().filter(|rules| rules.strong_count() > 0).count();
    assert_eq!(are_kept(&of_a), 2 * LARGE, "the entries of the stores have them");
    for store in &mut stores {
        store.tick(1);
    }
    // As the thread for it does.
    directives.free_removed();
    // 8 MB each.
    assert!((1..=2 * 8).contains(&are_kept(&of_a)), "{}", are_kept(&of_a));
    assert_eq!(are_kept(&of_b), 2);
    ask(&mut stores[0], b"a", "0/none.txt");
}
