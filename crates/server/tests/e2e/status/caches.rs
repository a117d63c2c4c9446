//! The use of opcache and APCu in `howdah status`.

use serde_json::Value;

use super::{TOP, monitor, named, status};
use crate::site::Site;
use crate::support::{has_php, wait_until};

fn shop(files: &[(&str, &str)], php: &str) -> Site {
    let config = format!(
        "{TOP}[[site]]\nname = \"shop\"\nroot = \"public\"\n[site.php]\nworkers = 2\n\
         state_dir = \"state\"\n{php}"
    );
    Site::configured(files, &config)
}

fn pool(site: &Site) -> Value {
    named(&status(site), "shop")["pool"].clone()
}

#[test]
fn the_use_of_opcache_is_shown_and_the_pages_do_not_notice() {
    if !has_php() {
        return;
    }
    let page = "<?php set_error_handler(function ($_, $what) { echo $what; }); session_start(); \
        echo 'page';";
    let files = [("page.php", page), ("other.php", "<?php echo 'other';")];
    let site = shop(&files, "ini = { opcache.file_update_protection = 0 }");
    wait_until("opcache has had scripts", || {
        assert_eq!(site.get("/page.php").text(), "page");
        assert_eq!(site.get("/other.php").text(), "other");
        pool(&site)["opcache_use"]["hits"].as_u64() > Some(0)
    });
    let found = pool(&site)["opcache_use"].clone();
    let number = |name: &str| found[name].as_u64().unwrap_or_else(|| panic!("{name} in {found:#}"));
    assert!(number("scripts") >= 1 && number("misses") >= 1, "{found:#}");
    assert!(number("used") > 1 << 20 && number("free") > 1 << 20, "{found:#}");
    let rate = number("hits") as f64 / (number("hits") + number("misses")) as f64;
    assert!((found["hit_rate"].as_f64().unwrap() - rate).abs() < 1e-9, "{found:#}");
    assert_eq!(found["full"], false);
    let metrics = monitor(&site, "/metrics", &[]);
    for line in [
        "howdah_pool_opcache_hits_total{site=\"shop\"} ",
        "howdah_pool_opcache_memory_bytes{site=\"shop\",state=\"free\"} ",
    ] {
        assert!(metrics.text().lines().any(|found| found.starts_with(line)), "{metrics:?}");
    }
}

#[test]
fn an_opcache_that_answers_other_scripts_only_is_not_asked() {
    if !has_php() {
        return;
    }
    let site = shop(
        &[("page.php", "<?php echo 'page';")],
        "ini = { opcache.restrict_api = \"/none\", display_errors = 1 }",
    );
    for _ in 0..4 {
        assert_eq!(site.get("/page.php").text(), "page");
    }
    assert_eq!(pool(&site)["opcache_use"], Value::Null);
    assert!(!site.server.log().contains("restricted"));
}

#[test]
fn a_full_opcache_has_a_line_in_the_log() {
    if !has_php() {
        return;
    }
    // More files than the cache has places.
    let fills = "<?php for ($i = 0; $i < 300; $i++) { $file = sys_get_temp_dir() . \"/$i.php\";
        file_put_contents($file, \"<?php return $i;\"); include $file; } echo 'filled';";
    let site = shop(
        &[("fills.php", fills), ("page.php", "<?php echo 'page';")],
        "ini = { opcache.max_accelerated_files = 200, opcache.file_update_protection = 0 }",
    );
    assert_eq!(site.get("/fills.php").text(), "filled");
    let full = "warning shop: opcache is full: ";
    wait_until("the log says it", || {
        assert_eq!(site.get("/page.php").text(), "page");
        site.server.log().contains(full)
    });
    assert_eq!(pool(&site)["opcache_use"]["full"], true);
    assert!(site.server.log().contains("raise opcache.memory_consumption"));
    assert_eq!(site.server.log().matches(full).count(), 1);
}

#[test]
fn the_use_of_apcu_is_shown_where_it_is_there() {
    if !has_php() {
        return;
    }
    let page = "<?php if (!function_exists('apcu_enabled') || !apcu_enabled()) die('none');
        apcu_store('a', str_repeat('x', 100_000)); apcu_fetch('a'); apcu_fetch('b'); echo 'page';";
    let site = shop(&[("page.php", page)], "");
    if site.get("/page.php").text() == "none" {
        howdah_skip::skip!("PHP has no APCu; its package is php-apcu");
        return;
    }
    wait_until("APCu has had entries", || {
        assert_eq!(site.get("/page.php").text(), "page");
        pool(&site)["apcu"]["hits"].as_u64() > Some(0)
    });
    let found = pool(&site)["apcu"].clone();
    assert!(
        found["misses"].as_u64() > Some(0) && found["size"].as_u64() > Some(1 << 20),
        "{found:#}"
    );
    assert!(found["free"].as_u64() < found["size"].as_u64(), "{found:#}");
}

#[test]
fn a_site_with_many_folders_leaves_watches_to_others_and_the_figures_say_so() {
    let entry = |name: &str| {
        format!(
            "[[site]]\nname = \"{name}\"\nhosts = [\"{name}.example\"]\nroot = \"public/{name}\"\n\
             php = false\n"
        )
    };
    let config = format!("{TOP}{}{}", entry("blog"), entry("shop"));
    let site = Site::configured(&[("shop/a/b.txt", "shop")], &config);
    const FOLDERS: usize = 1600;
    for number in 0..FOLDERS {
        site.file(&format!("blog/{number}/.htaccess"), "Header set X-Number 1\n");
        site.file(&format!("blog/{number}/a.txt"), "blog");
    }
    // One connection is one thread's.
    let mut wire = site.connect();
    let mut ask = |host: &str, target: &str| wire.ask("GET", target, &[("Host", host)], b"");
    for number in 0..FOLDERS {
        let reply = ask("blog.example", &format!("/{number}/a.txt"));
        assert_eq!((reply.text(), reply.field("x-number")), ("blog", Some("1")));
    }
    assert_eq!(ask("shop.example", "/a/b.txt").text(), "shop");
    let mut status = Value::Null;
    wait_until("the figures are those of all requests", || {
        status = super::status(&site);
        status["file_cache"]["lookups"].as_u64() > Some(2 * FOLDERS as u64)
    });
    let cache = &status["file_cache"];
    let number = |name: &str| cache[name].as_u64().unwrap_or_else(|| panic!("{name} in {cache:#}"));
    let of_a_thread = number("watched_limit") / 2;
    assert!(number("watched") > 1 && number("watched") <= of_a_thread / 3 + 3, "{cache:#}");
    assert!(number("unwatched") > 0 && number("watched_files_limit") > 0, "{cache:#}");
    // A folder without a watch is looked at.
    site.file(&format!("blog/{}/.htaccess", FOLDERS - 1), "Header set X-Number 2\n");
    let reply = ask("blog.example", &format!("/{}/a.txt", FOLDERS - 1));
    assert_eq!(reply.field("x-number"), Some("2"));
    let metrics = monitor(&site, "/metrics", &[]);
    let line = "howdah_file_cache_watched_folders_limit ";
    assert!(metrics.text().lines().any(|found| found.starts_with(line)), "{metrics:?}");
}
