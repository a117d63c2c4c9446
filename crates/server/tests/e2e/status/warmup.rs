//! After a reload the first visitors find opcache filled: `opcache_warmup` in `[site.php]`.

use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use howdah_sys::signal::{SIGHUP, SIGUSR2};
use serde_json::Value;

use super::{TOP, json_status, monitor, named, status};
use crate::site::Site;
use crate::support::{Client, Folder, HOWDAH, Process, Setup, has_php, is_root, wait_until};

/// Files that the page includes.
const PARTS: usize = 40;
const PAGE: &str = "<?php $sum = 0; for ($i = 0; $i < 40; $i++) \
                    $sum += include __DIR__ . \"/parts/$i.php\"; echo $sum;";
/// Tells the files that opcache has, and how often a file was not there.
const TELL: &str = "<?php $status = opcache_get_status(true); echo json_encode(['files' => \
                    array_keys($status['scripts']), 'misses' => \
                    $status['opcache_statistics']['misses']]);";

fn config(php: &str) -> String {
    format!(
        "{TOP}[[site]]\nname = \"shop\"\nroot = \"public\"\n[site.php]\nworkers = 2\n\
         state_dir = \"state\"\nqueue_timeout = \"5m\"\nrequest_timeout = \"5m\"\n\
         ini = {{ opcache.file_update_protection = 0 }}\n{php}\n"
    )
}

fn site(php: &str) -> Site {
    let site = Site::configured(&[("page.php", PAGE), ("tell.php", TELL)], &config(php));
    for number in 0..PARTS {
        site.file(&format!("parts/{number}.php"), format!("<?php return {number};"));
    }
    site
}

/// Visits the page and the files of opcache.
fn visit(site: &Site) -> Value {
    assert_eq!(site.get("/page.php").text(), "780");
    tell(site)
}

fn tell(site: &Site) -> Value {
    serde_json::from_str(site.get("/tell.php").text()).unwrap()
}

/// Number of parts among the files of opcache.
fn parts(told: &Value) -> usize {
    let files = told["files"].as_array().unwrap().iter();
    files.filter(|file| file.as_str().unwrap().contains("/parts/")).count()
}

/// The most time that a zygote compiles, in seconds.
const MOST_TIME: f64 = 3.0;

/// Reloads after `prepare`, waits until the former generation has gone, and returns what the new
/// one has compiled. A machine that was too slow for the time limit does it again.
fn reload(site: &Site, prepare: impl Fn()) -> Value {
    replace(site, SIGHUP, prepare)
}

/// Makes a new generation like [`reload`], by this signal.
fn replace(site: &Site, signal: i32, prepare: impl Fn()) -> Value {
    let mut warmup = Value::Null;
    wait_until("a new generation has the time for its scripts", || {
        prepare();
        let front = site.server.front();
        site.server.signal(signal);
        wait_until_gone(front);
        warmup = named(&status(site), "shop")["pool"]["opcache_warmup"].clone();
        warmup["seconds"].as_f64().is_none_or(|seconds| seconds < MOST_TIME)
    });
    warmup
}

fn wait_until_gone(front: Process) {
    wait_until("the former generation has gone", || !front.lives());
}

#[test]
fn the_first_visitor_after_a_reload_finds_all_files_in_opcache() {
    if !has_php() {
        return;
    }
    let site = site("");
    let warmup = reload(&site, || assert_eq!(parts(&visit(&site)), PARTS));
    let before = tell(&site);
    assert_eq!(parts(&before), PARTS, "{before}");
    assert_eq!(visit(&site)["misses"], before["misses"]);
    assert_eq!(warmup["scripts"], PARTS + 2, "{warmup}");
    assert!(warmup["seconds"].as_f64() > Some(0.0), "{warmup}");
    site.server
        .wait_for_log("notice shop: opcache has 42 scripts of the former generation");
    let metrics = monitor(&site, "/metrics", &[]);
    let line = "howdah_pool_opcache_warmup_scripts{site=\"shop\"} 42";
    assert!(metrics.text().lines().any(|found| found == line), "{}", metrics.text());
}

#[test]
fn a_new_binary_begins_with_the_scripts_of_the_former_one() {
    if !has_php() {
        return;
    }
    let site = site("");
    let warmup = replace(&site, SIGUSR2, || assert_eq!(parts(&visit(&site)), PARTS));
    assert_eq!((parts(&tell(&site)), &warmup["scripts"]), (PARTS, &(PARTS + 2).into()));
}

#[test]
fn a_pool_of_another_user_gets_no_list() {
    if !has_php() || !is_root() {
        return;
    }
    let site = site("user = \"www-data\"");
    assert_eq!(parts(&visit(&site)), PARTS);
    let config = config("user = \"nobody\"").replace("\"state\"", "\"state-nobody\"");
    let warmup =
        reload(&site, || std::fs::write(site.path().join("howdah.toml"), &config).unwrap());
    assert_eq!((parts(&tell(&site)), warmup), (0, Value::Null));
}

#[test]
fn a_file_that_is_broken_or_gone_at_the_reload_harms_no_other() {
    if !has_php() {
        return;
    }
    let site = site("");
    reload(&site, || {
        site.file("parts/3.php", "<?php return 3;");
        site.file("parts/4.php", "<?php return 4;");
        visit(&site);
        site.file("parts/3.php", "<?php this is no PHP");
        std::fs::remove_file(site.root().join("parts/4.php")).unwrap();
    });
    assert_eq!(parts(&tell(&site)), PARTS - 2);
    assert!(!site.server.log().contains("parts/3.php"), "nobody has asked for it");
    assert_eq!(site.get("/page.php").status, 500);
    site.server.wait_for_log("parts/3.php");
}

/// Starts the program of a zygote as soon as those of both sites were started.
const TOGETHER: &str = "#!/bin/sh\necho >>STARTS\n\
    while [ $(( $(wc -l <STARTS) % 2 )) = 1 ]; do sleep 0.05; done\nexec PROGRAM \"$@\"\n";

#[test]
fn the_pools_of_a_reload_start_and_compile_side_by_side() {
    if !has_php() {
        return;
    }
    let folder = Folder::new();
    folder.file("public/page.php", "<?php echo 1;");
    let starts = folder.file("starts/all", "");
    let program = Path::new(HOWDAH).with_file_name("howdah-php");
    let text = TOGETHER
        .replace("STARTS", starts.to_str().unwrap())
        .replace("PROGRAM", program.to_str().unwrap());
    let together = folder.program("together", text);
    std::fs::set_permissions(&starts, Permissions::from_mode(0o666)).unwrap();
    let site = |name: &str| {
        format!(
            "[[site]]\nname = \"{name}\"\nhosts = [\"{name}.example\"]\nroot = \"public\"\n\
             [site.php]\nworkers = 1\nstandby = false\nprogram = \"{}\"\n\
             state_dir = \"state-{name}\"\nini = {{ opcache.file_update_protection = 0 }}\n",
            together.display()
        )
    };
    let names = ["one", "two"];
    let config = folder.file("howdah.toml", format!("{TOP}{}{}", site("one"), site("two")));
    let server = Setup::config(&config).start();
    let has_compiled = |name: &&str| {
        let status = json_status(&config);
        let warmup = named(&status, name)["pool"]["opcache_warmup"].clone();
        warmup["scripts"] == 1
    };
    // A machine that was too slow for the time limit does it again.
    wait_until("both have the time for their script", || {
        for name in names {
            let mut client = Client::connect(server.address());
            let request = format!("GET /page.php HTTP/1.1\r\nHost: {name}.example\r\n\r\n");
            client.send(request).unwrap();
            assert_eq!(client.answer().unwrap().text(), "1");
        }
        let front = server.front();
        server.signal(SIGHUP);
        wait_until_gone(front);
        names.iter().all(has_compiled)
    });
    server.stop();
}

#[test]
fn without_opcache_warmup_a_new_generation_begins_empty() {
    if !has_php() {
        return;
    }
    let site = site("opcache_warmup = false");
    let warmup = reload(&site, || assert_eq!(parts(&visit(&site)), PARTS));
    assert_eq!((parts(&tell(&site)), warmup), (0, Value::Null));
}

#[test]
fn a_new_release_is_compiled_and_the_former_one_is_not() {
    if !has_php() {
        return;
    }
    let mut files = String::new();
    wait_until("the new release has the time for its scripts", || {
        let (told, seconds) = deploy();
        files = told;
        seconds < MOST_TIME
    });
    for (file, is_there) in [
        ("/releases/8/lib.php", true),
        ("/releases/8/public/index.php", true),
        ("/releases/7/", false),
    ] {
        assert_eq!(files.contains(file), is_there, "{file} in {files}");
    }
}

/// Visits a release, replaces it by another one, and returns the files that opcache has before the
/// first visit, and the seconds that compiling them took.
fn deploy() -> (String, f64) {
    let folder = Folder::new();
    for number in ["7", "8"] {
        folder.file(
            &format!("releases/{number}/public/index.php"),
            "<?php require __DIR__ . '/../lib.php';",
        );
        folder.file(&format!("releases/{number}/lib.php"), format!("<?php echo {number};"));
        folder.file(&format!("releases/{number}/public/tell.php"), TELL);
    }
    let link = folder.path().join("current");
    symlink("releases/7", &link).unwrap();
    let config = format!(
        "{TOP}[[site]]\nname = \"shop\"\nroot = \"current/public\"\n[site.php]\nworkers = 1\n\
         state_dir = \"state\"\nqueue_timeout = \"5m\"\n\
         ini = {{ opcache.file_update_protection = 0 }}\n"
    );
    let file = folder.file("howdah.toml", config);
    let server = Setup::config(&file).start();
    assert_eq!(server.get("/").text(), "7");
    server.get("/tell.php");
    let front = server.front();
    symlink("releases/8", folder.path().join("next")).unwrap();
    std::fs::rename(folder.path().join("next"), link).unwrap();
    wait_until_gone(front);
    let told: Value = serde_json::from_str(server.get("/tell.php").text()).unwrap();
    assert_eq!(server.get("/").text(), "8");
    let status = json_status(&file);
    let warmup = &named(&status, "shop")["pool"]["opcache_warmup"];
    server.stop();
    (told["files"].to_string(), warmup["seconds"].as_f64().unwrap())
}
