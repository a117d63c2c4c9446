//! A file system that never answers, as when a file server or a program of FUSE hangs.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use howdah_sys::signal::SIGKILL;

use super::{RUN, can_run};
use crate::support::folder::next_number;
use crate::support::{Client, Folder, Server, Setup, wait_until};

/// A file system at a folder that answers nothing until this is dropped. Then it answers errors.
struct HungFolder {
    folder: PathBuf,
    /// The device on which the kernel waits for answers.
    device: Option<File>,
}

impl HungFolder {
    /// `None` where nothing can be mounted here; says so.
    fn mount(folder: PathBuf) -> Option<HungFolder> {
        let device = File::options().read(true).write(true).open("/dev/fuse").ok();
        let mounted = device.as_ref().is_some_and(|device| {
            Command::new("mount")
                .args(["-i", "-t", "fuse", "-o"])
                .arg("fd=0,rootmode=40000,user_id=0,group_id=0,allow_other")
                .arg("hung")
                .arg(&folder)
                .stdin(Stdio::from(device.try_clone().unwrap()))
                .status()
                .is_ok_and(|status| status.success())
        });
        if !mounted {
            howdah_skip::skip!("no file system of FUSE can be mounted here");
            return None;
        }
        Some(HungFolder { folder, device })
    }
}

impl Drop for HungFolder {
    fn drop(&mut self) {
        drop(self.device.take());
        let unmounted = Command::new("umount").arg("-l").arg(&self.folder).status();
        assert!(unmounted.unwrap().success());
    }
}

#[test]
fn a_site_on_a_file_system_that_hangs_holds_up_no_other() {
    a_folder_that_hangs_holds_up_no_other_site("");
}

#[test]
fn a_file_system_that_hangs_below_a_local_root_holds_up_no_other_site() {
    a_folder_that_hangs_holds_up_no_other_site("mounted/");
}

/// `below` is the folder in the document root, with a slash at its end; empty for the root itself.
fn a_folder_that_hangs_holds_up_no_other_site(below: &str) {
    if !can_run() {
        return;
    }
    let folder = folder();
    for name in ["one", "two"] {
        folder.file(&format!("{name}/index.php"), RUN);
        for number in 0..20 {
            folder.file(&format!("{name}/{number}.txt"), name);
            folder.file(&format!("{name}/{below}{number}.txt"), name);
        }
    }
    let server = start(&folder, "");
    let get = |site: &str, path: &str| get(&server, site, path);
    let first = format!("{below}0.txt");
    assert_eq!((get("one", "0.txt"), get("two", &first)), ("one".to_owned(), "two".to_owned()));
    let Some(hung) = HungFolder::mount(folder.path().join("two").join(below)) else {
        return;
    };
    // More than there are threads for files.
    let mut paths: Vec<String> = (0..20).map(|number| format!("{below}{number}.txt")).collect();
    paths.push(below.to_owned());
    paths.push(format!("{below}missing/"));
    let waiting: Vec<Client> = paths.iter().map(|path| ask(&server, "two", path)).collect();
    for number in 0..20 {
        assert_eq!(get("one", &format!("{number}.txt")), "one");
    }
    assert!(!get("one", "missing.txt").is_empty());
    let fine = "echo 'fine';";
    let mut client = Client::connect(server.address());
    let head = format!("POST / HTTP/1.1\r\nHost: one.example\r\nContent-Length: {}", fine.len());
    client.send(format!("{head}\r\n\r\n{fine}")).unwrap();
    assert_eq!(client.answer().unwrap().text(), "fine");
    // A front that starts while the file system hangs serves the others, too.
    server.front().signal(SIGKILL);
    drop(waiting);
    wait_until("another front serves", || {
        let answer = ask(&server, "one", "1.txt").answer();
        answer.is_ok_and(|answer| answer.text() == "one")
    });
    drop(hung);
    wait_until("the site is served again", || get("two", &paths[1]) == "two");
    server.stop();
}

#[test]
fn a_root_that_hangs_holds_up_no_start_and_no_reload_of_other_sites() {
    if !can_run() {
        return;
    }
    let folder = folder();
    for name in ["one", "two"] {
        folder.file(&format!("{name}/index.php"), RUN);
        folder.file(&format!("{name}/a.txt"), name);
    }
    let mount = || HungFolder::mount(folder.path().join("two"));
    let Some(hung) = mount() else {
        return;
    };
    let server = start(&folder, "");
    let run = |site: &str, code: &str| {
        let mut client = Client::connect(server.address());
        let head = format!("POST / HTTP/1.1\r\nHost: {site}.example\r\nContent-Length: ");
        client.send(format!("{head}{}\r\n\r\n{code}", code.len())).unwrap();
        client.answer().is_ok_and(|answer| answer.text() == "fine")
    };
    let works = |site: &str| run(site, "echo 'fine';");
    let file = folder.path().join("howdah.toml");
    let reload = || Setup::with(&["reload", "--config", file.to_str().unwrap()]).run();
    assert!(works("one") && get(&server, "one", "a.txt") == "one");
    let log = server.log();
    assert!(log.contains("site two: its root"), "{log}");
    assert!(log.contains("/two has not answered within 5 s: its file system hangs"), "{log}");
    assert_eq!(reload().0, Some(0));
    assert!(works("one"));
    // The site comes back by itself.
    drop(hung);
    wait_until("the site is served", || works("two"));
    assert_eq!(get(&server, "two", "a.txt"), "two");
    // Its PHP goes on when the root hangs at a reload.
    let Some(hung) = mount() else {
        return;
    };
    assert_eq!(reload().0, Some(0));
    assert!(works("one"));
    server.front().signal(SIGKILL);
    wait_until("another front serves", || works("one"));
    drop(hung);
    wait_until("the site is served again", || works("two"));
    server.stop();
}

/// A folder for both sites that is not below `/tmp`.
fn folder() -> Folder {
    Folder::at(PathBuf::from(format!(
        "/var/lib/howdah-hung-{}-{}",
        std::process::id(),
        next_number()
    )))
}

/// Starts the sites `one.example` and `two.example`, both with `keys`, on one thread.
fn start(folder: &Folder, keys: &str) -> Server {
    let mut text = "listen = [\"127.0.0.1:0\"]\ncontrol = \"control\"\nthreads = 1\n\
                    [log]\naccess = \"off\"\n"
        .to_owned();
    for name in ["one", "two"] {
        text.push_str(&format!(
            "[[site]]\nname = \"{name}\"\nhosts = [\"{name}.example\"]\nroot = \"{name}\"\n\
             {keys}\n[site.php]\nworkers = 1\nstate_dir = \"state/{name}\"\n"
        ));
    }
    Setup::config(&folder.file("howdah.toml", text)).start()
}

/// A client that has sent a request to a site.
fn ask(server: &Server, site: &str, path: &str) -> Client {
    let mut client = Client::connect(server.address());
    client
        .send(format!("GET /{path} HTTP/1.1\r\nHost: {site}.example\r\n\r\n"))
        .unwrap();
    client
}

/// The content of a site's answer.
fn get(server: &Server, site: &str, path: &str) -> String {
    ask(server, site, path).answer().unwrap().text().to_owned()
}

/// The site's own root answers, but what its directives and scripts name does not.
#[test]
fn error_pages_conditions_and_named_files_that_hang_hold_up_no_other_site() {
    if !can_run() {
        return;
    }
    let folder = folder();
    folder.file("one/fine.txt", "fine");
    for (name, content) in [
        ("mounted/page.txt", "page"),
        ("error/.htaccess", "ErrorDocument 502 /mounted/page.txt"),
        ("error/index.php", "<?php posix_kill(getmypid(), 9);"),
        (
            "condition/.htaccess",
            "RewriteEngine On\nRewriteCond %{DOCUMENT_ROOT}/mounted -d\n\
             RewriteRule ^never - [F]\n",
        ),
        ("condition/never.txt", "never"),
        ("header/.htaccess", "Header set X-Found yes \"expr=-d '%{DOCUMENT_ROOT}/mounted'\""),
        ("header/a.txt", "a"),
        ("section/a.txt", "a"),
        ("send.php", "<?php header('X-Sendfile: ' . __DIR__ . '/mounted/page.txt');"),
    ] {
        folder.file(&format!("two/{name}"), content);
    }
    let section = format!(
        "<IfFile \"{}/two/mounted\">\nHeader set X-Found yes\n</IfFile>",
        folder.path().display()
    );
    folder.file("two/section/.htaccess", section);
    let server = start(&folder, "sendfile = true");
    let rows = ["error/", "condition/never.txt", "header/a.txt", "send.php", "section/a.txt"];
    let answers = rows.map(|path| ask(&server, "two", path).answer().unwrap());
    assert_eq!(answers.each_ref().map(|answer| answer.status), [502, 403, 200, 200, 200]);
    assert_eq!((answers[0].text(), answers[3].text()), ("page", "page"));
    assert_eq!(answers[2].field("x-found"), Some("yes"));
    assert_eq!(answers[4].field("x-found"), Some("yes"));
    let Some(hung) = HungFolder::mount(folder.path().join("two/mounted")) else {
        return;
    };
    let mut waiting = Vec::new();
    for path in rows {
        let started = server.log().matches("another takes its place").count();
        waiting.push(ask(&server, "two", path));
        if path == "error/" {
            wait_until("the script has failed", || {
                server.log().matches("another takes its place").count() > started
            });
        }
        for _ in 0..10 {
            assert_eq!(get(&server, "one", "fine.txt"), "fine", "{path}");
        }
    }
    drop(hung);
    for (path, mut client) in rows.into_iter().zip(waiting) {
        assert!(client.answer().is_ok(), "{path}");
    }
    wait_until("the error page is there again", || get(&server, "two", "error/") == "page");
    server.stop();
}
