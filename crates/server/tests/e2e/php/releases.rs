//! Deployments that change a link to the document root: `current -> releases/2`.

use std::io::{Read, Write};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;

use howdah_sys::signal::SIGHUP;

use crate::support::{Folder, Setup, has_php, is_root, status, wait_until};

const INDEX: &str = "<?php require 'lib.php'; require __DIR__ . '/sub/more.php';
                     echo basename(__DIR__), lib(), more();";

pub(super) fn release(folder: &Folder, number: &str) {
    folder.file(&format!("releases/{number}/index.php"), INDEX);
    folder.file(
        &format!("releases/{number}/lib.php"),
        format!("<?php function lib() {{ return '{number}'; }}"),
    );
    folder.file(
        &format!("releases/{number}/sub/more.php"),
        format!("<?php function more() {{ return '{number}'; }}"),
    );
    folder.file(&format!("releases/{number}/note.txt"), number);
}

pub(super) fn site(folder: &Folder, php: &str) -> Setup {
    for number in ["1", "2"] {
        release(folder, number);
    }
    symlink("releases/1", folder.path().join("current")).unwrap();
    let config = format!(
        "listen = [\"127.0.0.1:0\"]\ncontrol = \"control\"\nprobation = \"1h\"\n[[site]]\n\
         root = \"current\"\n[site.php]\nmode = \"static\"\nworkers = 3\nstate_dir = \"state\"\n\
         queue_timeout = \"5m\"\n{php}\n"
    );
    Setup::config(&folder.file("howdah.toml", config))
}

/// Lets the link lead to another release, as `ln -sfn` and `mv -T` do.
pub(super) fn deploy(folder: &Folder, number: &str) {
    let next = folder.path().join("next");
    symlink(format!("releases/{number}"), &next).unwrap();
    std::fs::rename(next, folder.path().join("current")).unwrap();
}

#[test]
fn a_new_release_is_served_by_all_workers() {
    if !has_php() {
        return;
    }
    let folder = Folder::new();
    let server = site(&folder, "").start();
    for _ in 0..20 {
        assert_eq!(server.get("/").text(), "111");
    }
    let front = server.front();
    deploy(&folder, "2");
    // Requests are answered all the time.
    wait_until("a new generation serves", || {
        let reply = server.get("/");
        assert_eq!(reply.status, 200);
        !front.lives()
    });
    for _ in 0..20 {
        assert_eq!(server.get("/").text(), "222");
        assert_eq!(server.get("/note.txt").text(), "2");
    }
    server.wait_for_log("a new release; serving");
    server.wait_for_log("leads to");
    server.stop();
}

#[test]
fn a_release_that_does_not_start_is_not_served() {
    if !has_php() {
        return;
    }
    let folder = Folder::new();
    let preload = folder.path().join("current/preload.php").display().to_string();
    let server = site(
        &folder,
        &format!(
            "admin_ini = {{ \"opcache.preload\" = \"{preload}\", \
             \"opcache.preload_user\" = \"www-data\" }}"
        ),
    );
    folder.file("releases/1/preload.php", "<?php");
    folder.file("releases/2/preload.php", "<?php this is no PHP");
    let server = server.start();
    assert_eq!(server.get("/").text(), "111");
    let file = folder.path().join("howdah.toml");
    wait_until("a zygote stands by", || status(&file).contains(" stands by,"));
    let front = server.front();
    deploy(&folder, "2");
    server.wait_for_log("the new release is not served, and what was served goes on");
    // Nor are its files.
    server.wait_for_log("the former release is kept; serving");
    wait_until("the first front has ended", || !front.lives());
    for _ in 0..10 {
        assert_eq!(server.get("/").text(), "111");
        assert_eq!(server.get("/note.txt").text(), "1");
    }
    let why = told_of_release(&folder).expect("a reason");
    assert!(why.contains("releases/2 is not served: ") && why.contains("Parse error"), "{why}");
    let (head, content) = ready(&folder);
    assert!(head.starts_with("HTTP/1.1 200 ") && content.contains(&why), "{head} {content}");
    assert!(status(&file).contains(&why), "{}", status(&file));
    // The next release is a good one.
    release(&folder, "3");
    folder.file("releases/3/preload.php", "<?php");
    let front = server.front();
    deploy(&folder, "3");
    wait_until("a new generation serves", || !front.lives());
    assert_eq!(server.get("/").text(), "333");
    assert_eq!(server.get("/note.txt").text(), "3");
    wait_until("nothing is held", || told_of_release(&folder).is_none());
    server.stop();
}

#[test]
fn a_release_that_answers_with_server_errors_is_rolled_back() {
    if !has_php() {
        return;
    }
    let folder = Folder::new();
    let server = site(&folder, "").start();
    assert_eq!(server.get("/").text(), "111");
    folder.file("releases/2/index.php", "<?php http_response_code(500); echo 'broken';");
    deploy(&folder, "2");
    server.wait_for_log("a new release; serving");
    wait_until("the former release is served", || {
        let reply = server.get("/");
        // The first generation may answer until it has ended. For its scripts, names without a
        // folder are those of the new release by then.
        assert!(matches!(reply.text(), "111" | "121" | "broken"), "{}", reply.text());
        server.log().contains("the former release is kept; serving") && reply.text() == "111"
    });
    server.wait_for_log("responses of site default");
    wait_until("the front that failed has ended", || server.get("/note.txt").text() == "1");
    let why = told_of_release(&folder).expect("a reason");
    assert!(why.contains("releases/2 is not served: ") && why.contains("5xx"), "{why}");
    // A restart of the front changes nothing.
    let front = server.front();
    front.signal(9);
    server.wait_for_log("started anew; serving");
    assert_eq!(server.get("/").text(), "111");
    assert!(told_of_release(&folder).is_some());
    // A reload tries the release again, which is right by now.
    release(&folder, "2");
    server.signal(SIGHUP);
    wait_until("the release is served", || server.get("/").text() == "222");
    wait_until("nothing is held", || told_of_release(&folder).is_none());
    server.stop();
}

/// `release_error` of the site.
pub(super) fn told_of_release(folder: &Folder) -> Option<String> {
    let file = folder.path().join("howdah.toml").display().to_string();
    let (code, told, errors) = Setup::with(&["status", "--json", "--config", &file]).run();
    assert_eq!(code, Some(0), "{errors}");
    let status: serde_json::Value = serde_json::from_str(&told).unwrap();
    status["sites"][0]["release_error"].as_str().map(str::to_owned)
}

/// The head and the content of `/readyz`.
pub(super) fn ready(folder: &Folder) -> (String, String) {
    let mut stream = UnixStream::connect(folder.path().join("control")).unwrap();
    stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: howdah\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, content) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), content.to_owned())
}

/// The server may read more than the owner of a site: other sites, for example.
#[test]
fn an_owner_publishes_no_other_owners_files_with_a_link_to_the_document_root() {
    if !is_root() {
        return;
    }
    let folder = Folder::new();
    for (name, owner) in [("own", 4001), ("other", 4002)] {
        let root = folder.folder(name);
        folder.file(&format!("{name}/note.txt"), name);
        std::os::unix::fs::chown(root, Some(owner), None).unwrap();
    }
    let lead_to = |name: &str, owner: u32| {
        let next = folder.path().join("next");
        symlink(name, &next).unwrap();
        std::os::unix::fs::lchown(&next, Some(owner), None).unwrap();
        std::fs::rename(next, folder.path().join("current")).unwrap();
    };
    lead_to("own", 4001);
    let file = |rule: &str| {
        let text = format!(
            "listen = [\"127.0.0.1:0\"]\ncontrol = \"control\"\n[[site]]\nroot = \"current\"\n\
             php = false\n{rule}\n"
        );
        folder.file("howdah.toml", text)
    };
    let server = Setup::config(&file("")).start();
    assert_eq!(server.get("/note.txt").text(), "own");
    lead_to("other", 4001);
    wait_until("the link is seen", || {
        let reply = server.get("/note.txt");
        assert_ne!(reply.text(), "other");
        reply.status == 403
    });
    // The administrator's links lead anywhere.
    lead_to("other", 0);
    wait_until("the link is seen", || server.get("/note.txt").text() == "other");
    drop(server);
    lead_to("other", 4001);
    let config = file("").display().to_string();
    let (_, _, told) = Setup::with(&["check", "--config", &config]).run();
    assert!(told.contains("current belongs neither to root nor to the owner"), "{told}");
    let server = Setup::config(&file("symlinks = \"follow\"")).start();
    assert_eq!(server.get("/note.txt").text(), "other");
}

#[test]
fn a_link_that_leads_nowhere_is_told_until_it_leads_to_a_release() {
    if !has_php() {
        return;
    }
    let folder = Folder::new();
    let server = site(&folder, "").start();
    let file = folder.path().join("howdah.toml");
    assert_eq!(server.get("/").text(), "111");
    let place = folder.path().display();
    let missing = format!("site default: its root {place}/current leads to {place}/releases/9: ");
    let wait_until_told = || {
        wait_until("it is told", || status(&file).contains(&missing));
        let (head, content) = ready(&folder);
        assert!(head.starts_with("HTTP/1.1 503 "), "{head}");
        assert!(content.contains("site default is not ready: its root "), "{content}");
        assert!(content.contains("let the link lead to one"), "{content}");
        assert!(root_error(&file).is_some_and(|why| why.contains("/releases/9: ")));
        for url in ["/note.txt", "/"] {
            wait_until("visitors get 404", || server.get(url).status == 404);
        }
    };
    deploy(&folder, "9");
    server.wait_for_log(&missing.replace("site default: ", ""));
    wait_until_told();
    let front = server.front();
    deploy(&folder, "1");
    server.wait_for_log("current is there again");
    wait_until("nothing is told any more", || ready(&folder).0.starts_with("HTTP/1.1 200 "));
    assert!(!status(&file).contains(&missing) && root_error(&file).is_none());
    assert_eq!((server.get("/").text(), server.front()), ("111", front));
    // A reload finds it as well.
    deploy(&folder, "9");
    server.signal(SIGHUP);
    server.wait_for_log("reloaded; serving");
    wait_until_told();
    release(&folder, "3");
    deploy(&folder, "3");
    wait_until("the release is served", || server.get("/").text() == "333");
    wait_until("it is ready", || ready(&folder).0.starts_with("HTTP/1.1 200 "));
    assert_eq!(root_error(&file), None);
    server.stop();
}

fn root_error(config: &std::path::Path) -> Option<String> {
    let told = Setup::with(&["status", "--json", "--config", config.to_str().unwrap()]).run().1;
    let status: serde_json::Value = serde_json::from_str(&told).unwrap();
    status["sites"][0]["root_error"].as_str().map(str::to_owned)
}
