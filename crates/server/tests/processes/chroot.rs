//! Pools whose workers have another root folder, as with php-fpm's `chroot`.

use std::fs;
use std::path::PathBuf;

use crate::support::{Client, Folder, Process, Server, Setup, has_php, is_root, wait_until};

/// A script that prints its place as scripts within see it, a line for each fact.
const PLACE: &str = "<?php
    header('Content-Type: text/plain');
    session_start();
    $_SESSION['n'] = 1;
    session_write_close();
    echo implode(\"\\n\", [
        $_SERVER['DOCUMENT_ROOT'], $_SERVER['SCRIPT_FILENAME'], __FILE__, getcwd(),
        $_SERVER['SCRIPT_NAME'], $_SERVER['PATH_TRANSLATED'] ?? '-',
        implode(' ', array_diff(scandir('/'), ['.', '..'])),
        @file_get_contents('/secret'), @file_get_contents('/../../secret'),
        glob(session_save_path() . '/sess_*') ? 'session' : 'no session',
        apache_lookup_uri('/part.php')->filename, ini_get('precision'),
        FFI::cdef('int chroot(const char *path);')->chroot('/'),
        @file_put_contents('/app/public/new', 'x') === false ? 'closed' : 'open',
        @file_put_contents(sys_get_temp_dir() . '/new', 'x') === false ? 'closed' : 'open',
    ]);";

/// A site in `jail/app/public`, with `settings` in its `[site.php]`.
struct Jail {
    folder: Folder,
    server: Server,
}

impl Jail {
    /// `None` where this cannot be tried: no PHP, or not root.
    fn start(settings: &str) -> Option<Jail> {
        if !has_php() || !is_root() {
            return None;
        }
        let folder = Folder::at(PathBuf::from(format!(
            "/var/lib/howdah-chroot-{}-{}",
            std::process::id(),
            crate::support::folder::next_number()
        )));
        folder.file("secret", "outside");
        folder.file("jail/secret", "inside");
        folder.file("jail/app/lib.php", "<?php function lib() { return 'lib'; }");
        let public = "jail/app/public";
        folder.file(&format!("{public}/place.php"), PLACE);
        folder.file(&format!("{public}/.user.ini"), "precision = 9\n");
        folder.file(&format!("{public}/part.php"), "<?php echo $_SERVER['SCRIPT_FILENAME'], '|';");
        let whole = "<?php require '/app/lib.php'; echo lib(), '|'; virtual('/part.php'); echo \
                     getcwd(); register_shutdown_function(fn () => print('|' . getcwd()));";
        folder.file(&format!("{public}/whole.php"), whole);
        folder.file(&format!("{public}/file.txt"), "a file");
        for (name, path) in [("send", "/app/public/file.txt"), ("escape", "/../secret")] {
            let script = format!("<?php header('X-Sendfile: {path}');");
            folder.file(&format!("{public}/{name}.php"), script);
        }
        let upload = "<?php $of = $_FILES['file']['tmp_name'];
            echo str_starts_with($of, '/var/lib/howdah/shop/uploads/') ? 'placed ' : \"$of \";
            echo file_get_contents($of);";
        folder.file(&format!("{public}/upload.php"), upload);
        let file = folder.file(
            "howdah.toml",
            format!(
                "listen = [\"127.0.0.1:0\"]\ncontrol = \"control\"\n[log]\naccess = \"off\"\n\
                 [[site]]\nname = \"shop\"\nhosts = [\"*\"]\nroot = \"{public}\"\n\
                 sendfile = true\n[site.php]\nworkers = 1\nchroot = \"jail\"\n\
                 admin_ini = {{ \"ffi.enable\" = true, \"opcache.file_update_protection\" = 0 }}\n\
                 {settings}\n"
            ),
        );
        let server = Setup::config(&file).start();
        Some(Jail { folder, server })
    }
}

#[test]
fn scripts_see_the_folder_of_chroot_as_the_root() {
    for sandbox in ["standard", "strict", "off"] {
        let Some(jail) = Jail::start(&format!("sandbox = \"{sandbox}\"\nchdir = \"/app\"")) else {
            return;
        };
        let told = jail.server.get("/place.php/more").text().to_owned();
        let lines: Vec<&str> = told.lines().collect();
        let expected = [
            "/app/public",
            "/app/public/place.php",
            "/app/public/place.php",
            "/app/public",
            "/place.php",
            "/app/public/more",
            "app secret var",
            "inside",
            "inside",
            "session",
            "/app/public/part.php",
            "9",
            "-1",
            "closed",
            "open",
        ];
        assert_eq!(lines, expected, "sandbox {sandbox}: {told}\n{}", jail.server.log());
        let whole = jail.server.get("/whole.php").text().to_owned();
        assert_eq!(whole, "lib|/app/public/part.php|/app/public|/app", "sandbox {sandbox}");
        jail.server.stop();
    }
}

#[test]
fn files_go_in_and_out_of_a_chroot() {
    let Some(jail) = Jail::start("") else { return };
    assert_eq!(jail.server.get("/send.php").text(), "a file");
    let escape = jail.server.get("/escape.php");
    assert_eq!(escape.status, 403, "{}", escape.text());
    let form = "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\n\r\n\
                uploaded\r\n--x--\r\n";
    let mut client = Client::connect(jail.server.address());
    client
        .send(format!(
            "POST /upload.php HTTP/1.1\r\nHost: a\r\nContent-Type: multipart/form-data; \
             boundary=x\r\nContent-Length: {}\r\n\r\n{form}",
            form.len()
        ))
        .unwrap();
    assert_eq!(client.answer().unwrap().text(), "placed uploaded");
    jail.server.stop();
}

/// The zygote stays outside, and only it may change its root.
#[test]
fn a_worker_in_a_chroot_has_no_right_to_leave_it() {
    let Some(jail) = Jail::start("sandbox = \"off\"\nmode = \"static\"") else {
        return;
    };
    jail.server.get("/part.php");
    let folder = jail.folder.path().join("jail");
    let rights = |process: &Process| {
        process.status("CapPrm").unwrap_or_default() + &process.status("CapEff").unwrap_or_default()
    };
    let root = |number: u32| fs::read_link(format!("/proc/{number}/root")).unwrap();
    let workers = jail.server.workers();
    assert!(!workers.is_empty());
    for worker in workers {
        assert_eq!(root(worker.number()), folder);
        assert_eq!(rights(&worker), "0".repeat(32));
    }
    let zygote = jail.server.zygote();
    assert_eq!(root(zygote.number()), PathBuf::from("/"));
    assert_eq!(rights(&zygote), format!("0000000000040000{}", "0".repeat(16)));
    // Programs of the scripts inherit nothing.
    for set in ["CapInh", "CapAmb"] {
        assert_eq!(zygote.status(set).unwrap(), "0".repeat(16), "{set}");
    }
    jail.server.stop();
}

#[test]
fn a_reload_compiles_the_scripts_of_a_chroot() {
    let Some(jail) = Jail::start("") else { return };
    jail.server.get("/whole.php");
    jail.server.get("/part.php");
    let file = jail.folder.path().join("howdah.toml").display().to_string();
    let (code, told, errors) = Setup::with(&["reload", "--config", &file]).run();
    assert_eq!(code, Some(0), "{told}{errors}");
    jail.server.wait_for_log("opcache has 3 scripts of the former generation");
    // A worker measures its memory, for which it needs `/proc`.
    wait_until("the worker has measured its memory", || {
        jail.server.get("/part.php");
        let (_, told, _) = Setup::with(&["status", "--json", "--config", &file]).run();
        let measured = told
            .split_once("\"pss\":")
            .map(|(_, rest)| rest.starts_with(|c| matches!(c, '1'..='9')));
        measured == Some(true)
    });
    jail.server.stop();
}

#[test]
fn a_chroot_that_cannot_be_had_is_said() {
    let Some(jail) = Jail::start("") else { return };
    let path = jail.folder.path().to_owned();
    let config = |text: &str| jail.folder.file("other.toml", text).display().to_string();
    let site = |name: &str, settings: &str| {
        format!(
            "[[site]]\nname = \"{name}\"\nhosts = [\"{name}.example\"]\nroot = \"{name}/public\"\n\
             [site.php]\nworkers = 1\n{settings}\n"
        )
    };
    // Root's scripts could leave it.
    let file = config(&site("one", "chroot = \"one\"\nuser = \"root\""));
    let (code, _, told) = Setup::with(&["check", "--config", &file]).run();
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("site one: `php.chroot`: scripts of root can leave it"), "{told}");
    // A folder that is missing, or a link of the site's owner, keeps no other site from serving.
    for (name, what) in [("gone", "No such file"), ("linked", "belongs neither to root")] {
        jail.folder.file(&format!("{name}-real/public/index.php"), "<?php echo 1;");
        if name == "linked" {
            let link = path.join("linked");
            std::os::unix::fs::symlink(path.join("linked-real"), &link).unwrap();
            std::os::unix::fs::lchown(&link, Some(12345), None).unwrap();
        }
        jail.folder.file("well/public/index.php", "<?php echo 'well';");
        let text = format!(
            "listen = [\"127.0.0.1:0\"]\ncontrol = \"other-{name}\"\n[log]\naccess = \"off\"\n{}{}",
            site("well", ""),
            site(name, &format!("chroot = \"{name}\"\nstate_dir = \"{name}/state\""))
        );
        let server = Setup::config(&PathBuf::from(config(&text))).start();
        let mut client = Client::connect(server.address());
        client.send("GET / HTTP/1.1\r\nHost: well.example\r\n\r\n").unwrap();
        assert_eq!(client.answer().unwrap().text(), "well", "{}", server.log());
        let log = server.log();
        assert!(log.contains(name) && log.contains(what), "{name}: {log}");
        server.stop();
    }
    jail.server.stop();
}
