//! Sites whose PHP takes its time to start: other sites do not wait for them. A site's owner can
//! make his preload script as slow as he likes.

use std::os::unix::fs::symlink;
use std::path::PathBuf;

use howdah_sys::signal::SIGHUP;

use crate::support::{Client, Folder, Response, Server, Setup, has_php, status, wait_until};

/// A preload script that ends when the file `hold` is gone.
const PRELOAD: &str =
    "<?php while (file_exists(__DIR__ . '/hold')) { usleep(10000); clearstatcache(); }";

/// The sites `quick` and `slow`. The latter has the preload script, and `more` in `[site.php]`.
fn configure(folder: &Folder, limit: &str, more: &str) -> PathBuf {
    let preload = folder.file("slow/preload.php", PRELOAD);
    let ini = format!(
        "admin_ini = {{ \"opcache.preload\" = \"{}\", \"opcache.preload_user\" = \"www-data\" }}",
        preload.display()
    );
    let site = |name: &str, more: &str| {
        folder.file(&format!("{name}/index.php"), "<?php echo ini_get('memory_limit');");
        format!(
            "[[site]]\nname = \"{name}\"\nhosts = [\"{name}.example\"]\nroot = \"{name}\"\n\
             [site.php]\nworkers = 1\nqueue_timeout = \"5m\"\nstate_dir = \"state/{name}\"\n\
             {more}\n"
        )
    };
    let limit = format!("ini = {{ memory_limit = \"{limit}\" }}");
    let sites = [site("quick", &limit), site("slow", &format!("{ini}\n{more}"))].concat();
    let text = format!("listen = [\"127.0.0.1:0\"]\ncontrol = \"control\"\n{sites}");
    folder.file("howdah.toml", text)
}

fn ask(server: &Server, site: &str) -> Client {
    let mut client = Client::connect(server.address());
    client.send(format!("GET / HTTP/1.1\r\nHost: {site}.example\r\n\r\n")).unwrap();
    client
}

fn get(server: &Server, site: &str) -> Response {
    ask(server, site).answer().unwrap()
}

/// Starts the server with both sites. Returns it with its folder and its configuration.
fn start(more: &str) -> (Folder, PathBuf, Server) {
    let folder = Folder::new();
    let file = configure(&folder, "100M", more);
    let server = Setup::config(&file).start();
    (folder, file, server)
}

#[test]
fn after_the_death_of_the_front_no_site_waits_for_the_php_of_another_one() {
    if !has_php() {
        return;
    }
    let (folder, file, server) = start("standby = false");
    let hold = folder.file("slow/hold", "");
    server.kill_front();
    assert_eq!(get(&server, "quick").text(), "100M");
    let told = "slow: PHP has not started; the site's requests wait for it, and are answered with \
                503 from 5 s on; the other sites are served";
    server.wait_for_log(told);
    assert!(status(&file).contains("site slow: has no PHP: PHP has not started"));
    let mut waiting = ask(&server, "slow");
    std::fs::remove_file(&hold).unwrap();
    let answer = waiting.answer().unwrap();
    // On a busy machine five seconds may be too short.
    assert!([200, 503].contains(&answer.status), "{answer:?}");
    wait_until("it is served, too", || get(&server, "slow").text() == "128M");
    let log = server.log();
    assert!(!log.contains("of the others") && !log.contains("keeps dying"), "{log}");
    server.stop();
}

#[test]
fn a_site_whose_php_hangs_is_answered_with_503_after_the_death_of_the_front() {
    if !has_php() {
        return;
    }
    let (folder, _, server) = start("standby = false");
    folder.file("slow/hold", "");
    server.kill_front();
    let refused = get(&server, "slow");
    assert_eq!(refused.status, 503, "{refused:?}");
    assert!(refused.field("retry-after").is_some(), "{refused:?}");
    assert_eq!(get(&server, "quick").text(), "100M");
    server.stop();
}

#[test]
fn a_reload_does_not_wait_for_a_site_whose_php_takes_far_longer_than_before() {
    if !has_php() {
        return;
    }
    let (folder, file, server) = start("");
    let hold = folder.file("slow/hold", "");
    let reload = || Setup::with(&["reload", "--config", file.to_str().unwrap()]).run();
    for limit in ["101M", "102M"] {
        configure(&folder, limit, "");
        let (code, told, errors) = reload();
        assert_eq!(code, Some(0), "{told}{errors}");
        let expected = "site slow: has the PHP of the former configuration: PHP does not start: \
                        it was not ready in time";
        assert!(format!("{told}{errors}").contains(expected), "{told}{errors}");
        assert_eq!(get(&server, "quick").text(), limit);
        assert_eq!(get(&server, "slow").text(), "128M");
    }
    std::fs::remove_file(&hold).unwrap();
    let (code, told, errors) = reload();
    assert_eq!(code, Some(0), "{told}{errors}");
    assert!(!format!("{told}{errors}").contains("site slow"), "{told}{errors}");
    assert_eq!(get(&server, "slow").text(), "128M");
    server.stop();
}

#[test]
fn a_front_that_dies_during_a_reload_is_replaced_before_the_reload_goes_on() {
    if !has_php() {
        return;
    }
    let (folder, _, server) = start("");
    let hold = folder.file("slow/hold", "");
    // Changed keys: the reload waits for the site.
    configure(&folder, "101M", "standby = false");
    server.signal(SIGHUP);
    wait_until("the zygotes of the reload are there", || {
        server.log().contains("reloading ") && server.supervisor().standbys().len() >= 2
    });
    server.kill_front();
    assert_eq!(get(&server, "quick").text(), "100M");
    std::fs::remove_file(&hold).unwrap();
    wait_until("the reload goes on", || get(&server, "quick").text() == "101M");
    wait_until("it is served, too", || get(&server, "slow").text() == "128M");
    server.stop();
}

/// The sites `quick` and `slow`, of which the latter is behind a link to a release. PHP hangs with
/// the second release, as long as the file `hold` is there.
fn configure_releases(folder: &Folder, limit: &str) -> PathBuf {
    for (release, preload) in [("1", "<?php"), ("2", PRELOAD)] {
        folder.file(&format!("releases/{release}/preload.php"), preload);
        folder.file(&format!("releases/{release}/index.php"), format!("<?php echo {release};"));
    }
    folder.file("releases/2/hold", "");
    folder.file("quick/index.php", "<?php echo ini_get('memory_limit');");
    let preload = folder.path().join("current/preload.php").display().to_string();
    let site = |name: &str, root: &str, more: String| {
        format!(
            "[[site]]\nname = \"{name}\"\nhosts = [\"{name}.example\"]\nroot = \"{root}\"\n\
             [site.php]\nworkers = 1\nqueue_timeout = \"5m\"\nstate_dir = \"state/{name}\"\n\
             {more}\n"
        )
    };
    let quick = site("quick", "quick", format!("ini = {{ memory_limit = \"{limit}\" }}"));
    let ini = format!(
        "admin_ini = {{ \"opcache.preload\" = \"{preload}\", \"opcache.preload_user\" = \
         \"www-data\" }}"
    );
    let slow = site("slow", "current", ini);
    let text = format!("listen = [\"127.0.0.1:0\"]\ncontrol = \"control\"\n{quick}{slow}");
    folder.file("howdah.toml", text)
}

/// Lets the link of `slow` lead to a release.
fn deploy(folder: &Folder, release: &str) {
    let next = folder.path().join("next");
    symlink(format!("releases/{release}"), &next).unwrap();
    std::fs::rename(next, folder.path().join("current")).unwrap();
}

/// A site's owner changes the link to his document root right before a reload, or so long before
/// that a generation for the new release starts already.
#[test]
fn a_reload_does_not_wait_for_a_new_release_with_which_php_hangs() {
    if !has_php() {
        return;
    }
    for is_noticed in [false, true] {
        let folder = Folder::new();
        deploy(&folder, "1");
        let file = configure_releases(&folder, "100M");
        let server = Setup::config(&file).start();
        assert_eq!(get(&server, "slow").text(), "1");
        configure_releases(&folder, "101M");
        deploy(&folder, "2");
        if is_noticed {
            server.wait_for_log("leads to");
        }
        let (code, told, errors) =
            Setup::with(&["reload", "--config", file.to_str().unwrap()]).run();
        assert_eq!(code, Some(0), "{told}{errors}");
        let log = server.log();
        assert!(log.contains("it was not ready in time ("), "{log}");
        assert!(!log.contains("it was not ready in time (60 s)"), "{log}");
        assert!(!log.contains("PHP for site slow was not ready in time"), "{log}");
        assert_eq!(get(&server, "quick").text(), "101M");
        assert_eq!(get(&server, "slow").text(), "1", "the former release goes on");
        // The release is tried again.
        std::fs::remove_file(folder.path().join("releases/2/hold")).unwrap();
        let (code, told, errors) =
            Setup::with(&["reload", "--config", file.to_str().unwrap()]).run();
        assert_eq!(code, Some(0), "{told}{errors}");
        wait_until("the new release is served", || get(&server, "slow").text() == "2");
        server.stop();
    }
}
