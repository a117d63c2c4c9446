//! The scripts of a former generation are compiled before the first request.

use std::process::Command;

use howdah_ipc::control::PoolSettings;

use crate::pool::{Pool, Site};

/// Tells which scripts opcache has, and how many it did not have.
const TELL: (&str, &str) = (
    "tell.php",
    "$status = opcache_get_status(true); $names = array_map(basename(...), \
     array_keys($status['scripts'])); sort($names); echo implode(' ', $names), ' ', \
     $status['opcache_statistics']['misses'];",
);

fn settings(admin_ini: &[(&str, &str)]) -> PoolSettings {
    let pairs = |pairs: &[(&str, &str)]| {
        let pairs = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        pairs.collect()
    };
    PoolSettings {
        ini: pairs(&[("opcache.file_update_protection", "0")]),
        admin_ini: pairs(admin_ini),
        ..PoolSettings::default()
    }
}

/// A list as a former zygote writes it, of files of a site or with whole paths.
fn list(site: &Site, names: &[&str]) -> Vec<u8> {
    let path = |name: &&str| format!("{}\0", site.root.join(name).display());
    names.iter().map(path).collect::<String>().into_bytes()
}

/// Makes a pipe with a name, which nobody writes to.
fn make_fifo(site: &Site, name: &str) {
    let made = Command::new("mkfifo").arg(site.root.join(name)).status();
    assert!(made.unwrap().success());
}

#[test]
fn the_scripts_of_a_list_are_compiled_and_not_executed() {
    let leaves_a_trace = "touch(__DIR__ . '/executed'); class One extends Other {} \
                          function same() { return 'one'; } echo same();";
    let site = Site::new(&[
        TELL,
        ("one.php", leaves_a_trace),
        (
            "two.php",
            "echo early(), (new Two)->x; function same() { return 'two'; } \
                     function early() { return same(); } class Two { public $x = 2; }",
        ),
    ]);
    let mut pool =
        Pool::start_with_list(&settings(&[]), 1, &list(&site, &["one.php", "two.php", "tell.php"]));
    assert_eq!(pool.warmup.map(|warmup| warmup.scripts), Some(3));
    assert!(!site.root.join("executed").exists());
    let told = pool.get(&site, "tell.php").text();
    let misses = told
        .strip_prefix("one.php tell.php two.php ")
        .unwrap_or_else(|| panic!("{told}"));
    assert_eq!(pool.get(&site, "two.php").text(), "two2");
    let later = pool.get(&site, "tell.php").text();
    assert!(later.ends_with(&format!(" {misses}")), "{told}, then {later}");
    assert!(pool.stop().contains("notice: opcache has 3 scripts of the former generation"));
}

#[test]
fn a_list_brings_nothing_that_the_pool_may_not_read_and_breaks_nothing() {
    let site = Site::new(&[
        TELL,
        ("good.php", "class Same {} echo 'good';"),
        ("same.php", "class Same {} function f() {} echo 'same';"),
        ("twice.php", "function f() {} function f() {}"),
        ("broken.php", "this is no PHP"),
    ]);
    make_fifo(&site, "fifo.php");
    let foreign = Site::new(&[("foreign.php", "echo 'foreign';")]);
    let mut names = list(&site, &["broken.php", "twice.php", "none.php", "fifo.php", "."]);
    names.extend(list(&foreign, &["foreign.php"]));
    names.extend(b"relative.php\0/etc/passwd'); touch('/tmp/x\0\0");
    names.extend(list(&site, &["good.php", "same.php"]));
    names.extend(b"/cut");
    let root = site.root.display().to_string();
    let mut pool = Pool::start_with_list(&settings(&[("open_basedir", &root)]), 1, &names);
    assert_eq!(pool.warmup.map(|warmup| warmup.scripts), Some(2));
    let told = pool.get(&site, "tell.php").text();
    assert!(told.starts_with("good.php same.php "), "{told}");
    assert_eq!(pool.get(&site, "same.php").text(), "same");
    // Only its own request says what is wrong with a script.
    let log = pool.stop();
    assert!(!log.contains("PHP") && !log.contains("foreign"), "{log}");
}

#[test]
fn a_zygote_lists_its_scripts_those_that_were_used_most_first() {
    let site = Site::new(&[("a.php", "echo 1;"), ("b.php", "echo 2;"), ("c.php", "echo 3;")]);
    let mut pool = Pool::start(settings(&[("opcache.restrict_api", "/none")]), 1);
    assert_eq!(pool.list_scripts(), b"");
    for (name, times) in [("a.php", 2), ("b.php", 9), ("c.php", 5)] {
        for _ in 0..times {
            pool.get(&site, name);
        }
    }
    assert_eq!(pool.list_scripts(), list(&site, &["b.php", "c.php", "a.php"]));
    assert_eq!(pool.get(&site, "a.php").text(), "1");
    assert_eq!(pool.stop(), "");
}

#[test]
fn without_opcache_nothing_is_listed_or_compiled() {
    let site = Site::new(&[("a.php", "echo 1;")]);
    for ini in [("opcache.enable", "0"), ("disable_functions", "opcache_get_status")] {
        let mut pool = Pool::start_with_list(&settings(&[ini]), 1, &list(&site, &["a.php"]));
        assert_eq!(pool.warmup.map(|warmup| warmup.scripts), Some(0));
        assert_eq!(pool.get(&site, "a.php").text(), "1");
        assert_eq!(pool.list_scripts(), b"");
        assert_eq!(pool.stop(), "");
    }
}

#[test]
fn a_list_that_does_not_end_delays_the_start_for_a_moment_only() {
    let site = Site::new(&[("a.php", "echo 1;")]);
    let mut pool = Pool::start_with_open_list(settings(&[]), 1);
    assert_eq!(pool.warmup.map(|warmup| warmup.scripts), Some(0));
    assert_eq!(pool.get(&site, "a.php").text(), "1");
    assert_eq!(pool.stop(), "");
}

#[test]
fn sessions_that_start_by_themselves_are_not_started_for_the_scripts_of_a_list() {
    let site = Site::new(&[("a.php", "echo 1;"), ("b.php", "echo 2;")]);
    let folder = site.root.join("sessions");
    std::fs::create_dir(&folder).unwrap();
    let path = folder.display().to_string();
    let ini = [("session.auto_start", "1"), ("session.save_path", &path)];
    let sessions = || std::fs::read_dir(&folder).unwrap().count();
    let mut former = Pool::start(settings(&ini), 1);
    let without = sessions();
    former.stop();
    let mut pool = Pool::start_with_list(&settings(&ini), 1, &list(&site, &["a.php", "b.php"]));
    assert_eq!(pool.warmup.map(|warmup| warmup.scripts), Some(2));
    assert_eq!(sessions(), 2 * without);
    pool.get(&site, "a.php");
    assert_eq!(sessions(), 2 * without + 1);
}
