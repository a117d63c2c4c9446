//! Paths that lead to forbidden places.

use crate::site::{Options, Site};
use crate::support::{Folder, has_php};

/// There is a secret outside of the root. None of these names leads to it.
#[test]
fn no_path_leads_out_of_the_root() {
    if !has_php() {
        return;
    }
    let site = Site::with(
        &[("index.html", "the page"), ("index.php", "<?php echo 'ran';"), ("sub/x.txt", "x")],
        &Options {
            site: "index = [\"index.html\"]",
            ..Options::default()
        },
    );
    std::fs::write(site.path().join("secret.txt"), "the secret").unwrap();
    let public = site.root();
    std::os::unix::fs::symlink("/etc/passwd", public.join("passwd")).unwrap();
    let mut paths: Vec<String> = [
        "/../secret.txt",
        "/sub/../../secret.txt",
        "/%2e%2e/secret.txt",
        "/sub/%2e%2e/%2E%2e/secret.txt",
        "/..%2fsecret.txt",
        "/sub/..%2f..%2fsecret.txt",
        "/%2e%2e%2fsecret.txt",
        "/..%5csecret.txt",
        "/..\\secret.txt",
        "/.%2e/secret.txt",
        "//../secret.txt",
        "/sub//..//../secret.txt",
        "/%252e%252e/secret.txt",
        "/..;/secret.txt",
        "/%c0%ae%c0%ae/secret.txt",
        "/%c0%af../secret.txt",
        "/index.html/../../secret.txt",
        "/index.php/../../secret.txt",
        "/..%00/secret.txt",
        "/secret.txt%00.html",
        "/%00",
        "/index.html%00.php",
        "/proc/self/environ",
        "/etc/passwd",
    ]
    .map(str::to_owned)
    .into();
    paths.push(format!("/{}", "../".repeat(50)));
    paths.push(format!("{}/secret.txt", site.path().display()));
    for path in &paths {
        let reply = site.get(path);
        let text = String::from_utf8_lossy(&reply.body).into_owned();
        assert!(!text.contains("the secret") && !text.contains("root:"), "{path}: {reply:?}");
        // A path with enough dots that are undone again, or a script's PATH_INFO, is an ordinary
        // one.
        let inside = matches!(reply.status, 200 | 301) && !path.contains("secret");
        assert!(inside || matches!(reply.status, 400 | 403 | 404), "{path}: {}", reply.status);
    }
    // Absolute form, where the target has a scheme and a host of its own.
    let mut wire = site.connect();
    wire.send("GET http://localhost/../secret.txt HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(matches!(wire.reply("GET").status, 400 | 404));
}

#[test]
fn links_out_of_the_root_are_followed_only_where_allowed() {
    for (setting, allowed) in [("owner", false), ("inside", false), ("follow", true)] {
        let site = Site::with(
            &[("a.txt", "a")],
            &Options {
                site: &format!("symlinks = \"{setting}\""),
                ..Options::default()
            },
        );
        let outside = Folder::new();
        outside.file("x.txt", "outside");
        let public = site.root();
        std::os::unix::fs::symlink(outside.path(), public.join("folder")).unwrap();
        std::os::unix::fs::symlink(outside.path().join("x.txt"), public.join("file.txt")).unwrap();
        std::os::unix::fs::symlink("a.txt", public.join("inner.txt")).unwrap();
        std::os::unix::fs::symlink("loop", public.join("loop")).unwrap();
        assert_eq!(site.get("/inner.txt").text(), "a", "{setting}");
        for target in ["/folder/x.txt", "/file.txt"] {
            // The owner of link and target is the same here, so `owner` follows as well.
            let expected = allowed || setting == "owner";
            let reply = site.get(target);
            assert_eq!(reply.status == 200, expected, "{setting} {target}: {}", reply.status);
            assert!(
                expected || matches!(reply.status, 403 | 404),
                "{setting} {target}: {}",
                reply.status
            );
        }
        assert!(matches!(site.get("/loop").status, 403 | 404), "{setting}");
    }
}

#[test]
fn another_owners_file_behind_a_link_is_not_served() {
    if !crate::support::is_root() {
        return;
    }
    use std::os::unix::fs::{chown, lchown, symlink};
    let site = Site::new(&[("mine.txt", "mine")]);
    let outside = Folder::new();
    let script = outside.file("p.php", "<?php echo 'theirs';");
    let file = outside.file("x.txt", "theirs");
    for path in [&script, &file] {
        chown(path, Some(12_345), None).unwrap();
    }
    // Link, where it leads, its owner, whether it is followed. Targets of links from inside are
    // inside anyway, and root's links are the administrator's.
    for (link, target, owner, followed) in [
        ("same.txt", &file, 12_345, true),
        ("other.txt", &file, 12_346, false),
        ("same.php", &script, 12_345, true),
        ("other.php", &script, 12_346, false),
        ("root.txt", &file, 0, true),
    ] {
        let link_path = site.root().join(link);
        symlink(target, &link_path).unwrap();
        lchown(&link_path, Some(owner), None).unwrap();
        let reply = site.get(&format!("/{link}"));
        assert_eq!(reply.status == 200, followed, "{link}: {}", reply.status);
        assert!(followed || matches!(reply.status, 403 | 404), "{link}: {}", reply.status);
    }
}

#[test]
fn names_that_hold_secrets_are_not_served() {
    let names = [
        ".htaccess",
        ".htpasswd",
        ".user.ini",
        ".env",
        ".env.local",
        ".git/config",
        ".gitignore",
        ".svn/entries",
        ".DS_Store",
        "sub/.htaccess",
        "sub/.hidden/x.txt",
    ];
    // A comment, so that directives are none the worse for it.
    let mut files: Vec<(&str, &str)> = names.iter().map(|name| (*name, "# the secret")).collect();
    files.push((".well-known/security.txt", "Contact: us"));
    let site = Site::new(&files);
    let mut wire = site.connect();
    for name in names {
        for path in
            [format!("/{name}"), format!("/{}", name.replace('.', "%2e")), format!("/x/../{name}")]
        {
            let reply = wire.get(&path);
            assert!(matches!(reply.status, 403 | 404), "{path}: {}", reply.status);
            assert!(!reply.text().contains("the secret"), "{path}");
        }
    }
    assert_eq!(wire.get("/.well-known/security.txt").text(), "Contact: us");
}

#[test]
fn an_unreadable_file_and_a_special_one_are_not_served() {
    use std::os::unix::fs::PermissionsExt;
    let site = Site::new(&[
        ("locked.txt", "locked"),
        ("locked/x.txt", "x"),
        ("locked.php", "<?php echo 1;"),
    ]);
    let public = site.root();
    if crate::support::is_root() {
        for name in ["locked.txt", "locked", "locked.php"] {
            std::fs::set_permissions(public.join(name), std::fs::Permissions::from_mode(0o600))
                .unwrap();
        }
        for target in ["/locked.txt", "/locked/x.txt", "/locked.php"] {
            let reply = site.get(target);
            assert!(matches!(reply.status, 403 | 404), "{target}: {}", reply.status);
        }
    }
    let fifo = public.join("pipe.txt");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let _socket = std::os::unix::net::UnixListener::bind(public.join("socket.txt")).unwrap();
    for target in ["/pipe.txt", "/socket.txt"] {
        let reply = site.get(target);
        assert!(matches!(reply.status, 403 | 404), "{target}: {}", reply.status);
    }
}
