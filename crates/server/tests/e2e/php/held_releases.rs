//! Which release is served while the one that the link leads to is not: after a reload, during a
//! probation, and during a delay.

use std::path::PathBuf;

use howdah_sys::signal::SIGUSR2;

use super::releases::{deploy, ready, release, site, told_of_release};
use crate::support::{Folder, Server, Setup, has_php, status, wait_until};

/// A page that says which release it is from and where it runs.
const INDEX: &str = "<?php require 'lib.php'; echo basename(__DIR__), lib(), basename(getcwd());";
/// A page that fails.
const FAILS: &str = "<?php http_response_code(500); echo 'broken';";

/// Two sites. That of all hosts has a preload script behind the link: release 1 is good, PHP does
/// not start with release 4, and release 3 answers with server errors.
fn preloading_site(folder: &Folder) -> Setup {
    for number in ["1", "3", "4"] {
        release(folder, number);
        folder.file(&format!("releases/{number}/index.php"), INDEX);
        folder.file(&format!("releases/{number}/preload.php"), "<?php");
    }
    folder.file("releases/3/index.php", FAILS);
    folder.file("releases/4/preload.php", "<?php throw new Exception('no start');");
    folder.file("other/index.php", "<?php echo 'other';");
    std::os::unix::fs::symlink("releases/1", folder.path().join("current")).unwrap();
    let preload = folder.path().join("current/preload.php").display().to_string();
    let config = format!(
        "listen = [\"127.0.0.1:0\"]\ncontrol = \"control\"\nprobation = \"5s\"\n[[site]]\n\
         name = \"shop\"\nhosts = [\"*\"]\nroot = \"current\"\n[site.php]\nworkers = 2\n\
         mode = \"static\"\nstate_dir = \"state/shop\"\nqueue_timeout = \"5m\"\nadmin_ini = {{ \
         \"opcache.preload\" = \"{preload}\", \"opcache.preload_user\" = \"www-data\" }}\n\
         [[site]]\nname = \"other\"\nhosts = [\"other.example\"]\nroot = \"other\"\n[site.php]\n\
         workers = 2\nstate_dir = \"state/other\"\n"
    );
    Setup::config(&folder.file("howdah.toml", config))
}

fn config_of(folder: &Folder) -> PathBuf {
    folder.path().join("howdah.toml")
}

/// Asks for a page with a relative include and for a file. Both are from this release.
fn serves_all_of(server: &Server, number: &str) {
    for _ in 0..10 {
        assert_eq!(server.get("/").text(), number.repeat(3));
        assert_eq!(server.get("/note.txt").text(), number);
    }
}

/// Asks for pages until `what` is in the log.
fn visit_until_logged(server: &Server, what: &str) {
    wait_until(what, || {
        server.get("/");
        server.log().contains(what)
    });
}

/// Visits a site until its release `failing` is given up, and waits for the former one.
fn leads_back(server: &Server, folder: &Folder, site: &str, [failing, former]: [&str; 2]) {
    visit_until_logged(server, &format!("responses of site {site}"));
    let why = || told_of_release(folder).unwrap_or_default();
    wait_until("it is held", || why().contains(&format!("releases/{failing} is not served: ")));
    assert!(why().contains(&format!("releases/{former} is served until ")), "{}", why());
    wait_until("the former one answers", || server.get("/").status == 200);
    serves_all_of(server, former);
}

#[test]
fn a_reload_does_not_mix_a_release_that_does_not_start_with_the_former_one() {
    if !has_php() {
        return;
    }
    let folder = Folder::new();
    let server = preloading_site(&folder).start();
    let file = config_of(&folder);
    wait_until("a zygote stands by", || status(&file).contains(" stands by,"));
    serves_all_of(&server, "1");
    deploy(&folder, "4");
    server.wait_for_log("the former release is kept; serving");
    for _ in 0..2 {
        // The second reload finds no zygote that stands by, perhaps.
        let arguments = ["reload", "--config", file.to_str().unwrap()];
        let (code, told, errors) = Setup::with(&arguments).run();
        assert_eq!(code, Some(0), "{told}{errors}");
        assert!(told.contains("shop"), "{told}");
        serves_all_of(&server, "1");
        let why = told_of_release(&folder).expect("a reason");
        assert!(why.contains("releases/4 is not served: ") && why.contains("no start"), "{why}");
        let (head, content) = ready(&folder);
        assert!(head.starts_with("HTTP/1.1 200 ") && content.contains(&why), "{head} {content}");
    }
    // A release that fails leads back to the one that was served.
    deploy(&folder, "3");
    leads_back(&server, &folder, "shop", ["3", "1"]);
    server.stop();
}

#[test]
fn a_new_program_goes_on_with_the_former_release_where_the_new_one_does_not_start() {
    if !has_php() {
        return;
    }
    let folder = Folder::new();
    let server = preloading_site(&folder).start();
    let file = config_of(&folder);
    wait_until("a zygote stands by", || status(&file).contains(" stands by,"));
    deploy(&folder, "4");
    server.wait_for_log("the former release is kept; serving");
    let front = server.front();
    server.signal(SIGUSR2);
    server.wait_for_log("taken over; serving");
    wait_until("the former front has ended", || !front.lives());
    serves_all_of(&server, "1");
    let why = told_of_release(&folder).expect("a reason");
    assert!(why.contains("releases/4 is not served: ") && why.contains("no start"), "{why}");
    release(&folder, "2");
    folder.file("releases/2/preload.php", "<?php");
    deploy(&folder, "2");
    wait_until("the next one is served", || told_of_release(&folder).is_none());
    wait_until("its PHP is", || server.get("/").text() == "222");
    serves_all_of(&server, "2");
    server.stop();
}

#[test]
fn a_failing_release_leads_back_to_the_last_one_that_has_served_well() {
    if !has_php() {
        return;
    }
    let folder = Folder::new();
    let server = site(&folder, "").start();
    release(&folder, "3");
    folder.file("releases/3/index.php", FAILS);
    for number in ["1", "2", "3"] {
        folder.file(&format!("releases/{number}/x.php"), "<?php http_response_code(500);");
    }
    let front = server.front();
    deploy(&folder, "2");
    wait_until("the release is served", || !front.lives());
    // It is on probation, and has no errors but one.
    serves_all_of(&server, "2");
    server.get("/x.php");
    deploy(&folder, "3");
    leads_back(&server, &folder, "default", ["3", "2"]);
    server.stop();
}

#[test]
fn a_failing_release_does_not_lead_back_to_one_that_has_failed_a_few_times() {
    if !has_php() {
        return;
    }
    let folder = Folder::new();
    let server = site(&folder, "").start();
    release(&folder, "3");
    for number in ["2", "3"] {
        folder.file(&format!("releases/{number}/index.php"), FAILS);
    }
    let front = server.front();
    deploy(&folder, "2");
    wait_until("the release is served", || !front.lives());
    // Too few for a judgement. The next requests are in another generation: the next release waits.
    for _ in 0..3 {
        assert_eq!(server.get("/").status, 500);
    }
    deploy(&folder, "3");
    server.wait_for_log("releases/3 now, no longer to");
    leads_back(&server, &folder, "default", ["3", "1"]);
    server.stop();
}

#[test]
fn a_reload_that_serves_a_failing_release_leads_back_to_the_former_one() {
    if !has_php() {
        return;
    }
    let folder = Folder::new();
    let server = site(&folder, "").start();
    let file = config_of(&folder);
    release(&folder, "3");
    folder.file("releases/3/index.php", FAILS);
    let front = server.front();
    deploy(&folder, "2");
    wait_until("the release is served", || !front.lives());
    deploy(&folder, "1");
    wait_until("it is served again", || {
        server.log().matches("a new release; serving").count() == 2
    });
    // The release may wait: the reload serves it at once.
    deploy(&folder, "3");
    let (code, told, errors) = Setup::with(&["reload", "--config", file.to_str().unwrap()]).run();
    assert_eq!(code, Some(0), "{told}{errors}");
    leads_back(&server, &folder, "default", ["3", "1"]);
    server.stop();
}

#[test]
fn the_former_release_is_served_whole_while_a_further_one_has_to_wait() {
    if !has_php() {
        return;
    }
    let folder = Folder::new();
    let server = site(&folder, "").start();
    let file = config_of(&folder);
    release(&folder, "3");
    // As many as are served at once.
    for number in ["2", "3", "1"] {
        let front = server.front();
        deploy(&folder, number);
        wait_until("the release is served", || {
            !front.lives() && server.get("/note.txt").text() == number
        });
    }
    deploy(&folder, "2");
    let wait = "releases/2 now: it is served in ";
    server.wait_for_log(wait);
    wait_until("the former release is kept", || server.get("/note.txt").text() == "1");
    wait_until("its PHP is, too", || server.get("/").text() == "111");
    for _ in 0..20 {
        serves_all_of(&server, "1");
        assert!(status(&file).contains(wait), "{}", status(&file));
    }
    // It is no error.
    assert_eq!(told_of_release(&folder), None);
    let front = server.front();
    let (code, told, errors) = Setup::with(&["reload", "--config", file.to_str().unwrap()]).run();
    assert_eq!(code, Some(0), "{told}{errors}");
    wait_until("the release is served", || !front.lives());
    serves_all_of(&server, "2");
    assert!(!status(&file).contains(wait), "{}", status(&file));
    server.stop();
}

#[test]
fn a_former_release_has_its_own_preload_script_also_where_the_link_names_it() {
    if !has_php() {
        return;
    }
    let folder = Folder::new();
    let link = folder.path().join("current").display().to_string();
    let php = format!(
        "admin_ini = {{ \"opcache.preload\" = \"{link}/preload.php\", \
         \"opcache.preload_user\" = \"www-data\", open_basedir = \"{link}\" }}"
    );
    let server = site(&folder, &php);
    for number in ["1", "2"] {
        let preload = format!("<?php class Release {{ const NUMBER = '{number}'; }}");
        folder.file(&format!("releases/{number}/preload.php"), preload);
        folder.file(&format!("releases/{number}/number.php"), "<?php echo Release::NUMBER;");
    }
    folder.file("releases/2/index.php", FAILS);
    let server = server.start();
    let file = config_of(&folder);
    wait_until("a zygote stands by", || status(&file).contains(" stands by,"));
    deploy(&folder, "2");
    server.wait_for_log("a new release; serving");
    leads_back(&server, &folder, "default", ["2", "1"]);
    for _ in 0..2 {
        // The next zygote has started while the release is held.
        wait_until("a zygote stands by", || status(&file).contains(" stands by,"));
        server.kill_zygote();
        assert_eq!(server.get("/number.php").text(), "1");
        serves_all_of(&server, "1");
    }
    server.stop();
}
