//! Deployments that change a link to the document root: `current -> releases/2`.

use std::os::unix::fs::symlink;

use crate::support::{Folder, Setup, has_php, is_root, wait_until};

const INDEX: &str = "<?php require 'lib.php'; require __DIR__ . '/sub/more.php';
                     echo basename(__DIR__), lib(), more();";

fn release(folder: &Folder, number: &str) {
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

fn site(folder: &Folder, php: &str) -> Setup {
    for number in ["1", "2"] {
        release(folder, number);
    }
    symlink("releases/1", folder.path().join("current")).unwrap();
    let config = format!(
        "listen = [\"127.0.0.1:0\"]\ncontrol = \"control\"\n[[site]]\nroot = \"current\"\n\
         [site.php]\nmode = \"static\"\nworkers = 3\nstate_dir = \"state\"\n\
         queue_timeout = \"5m\"\n{php}\n"
    );
    Setup::config(&folder.file("howdah.toml", config))
}

/// Lets the link lead to another release, as `ln -sfn` and `mv -T` do.
fn deploy(folder: &Folder, number: &str) {
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
    let front = server.front();
    deploy(&folder, "2");
    server.wait_for_log("the new release is not served, and what was served goes on");
    assert!(front.lives());
    assert_eq!(server.get("/").status, 200);
    server.stop();
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
