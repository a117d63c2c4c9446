//! Attempts of code in one site on the machine, on other sites and on other workers. The
//! scripts are the attackers.

mod exchanged;
mod files;
mod front;
mod full;
mod hidden;
mod hung;
mod limits;
mod links;
mod network;
mod releases;
mod retirement;
mod shared_memory;
mod system_calls;
mod system_folders;

use std::path::PathBuf;

use crate::support::{Client, Folder, Server, Setup, has_php, is_root};

/// A script that runs what the request's content says.
const RUN: &str = "<?php error_reporting(0); eval(file_get_contents('php://input'));";

/// Functions for the attackers: `call(NUMBER, …)` makes a system call and answers its result, or
/// minus its `errno`.
const CALLS: &str = "
    $c = FFI::cdef('long syscall(long n, ...); int *__errno_location(void);');
    function call(...$all) {
        global $c;
        $result = $c->syscall(...$all);
        return $result == -1 ? -$c->__errno_location()[0] : $result;
    }";

const EPERM: i32 = 1;
const ENOSYS: i32 = 38;

/// A server with the sites `one.example` and `two.example` in a folder of their own, which is not
/// below `/tmp`: a pool with a private `/tmp` does not see the machine's.
struct Sites {
    folder: Folder,
    server: Server,
}

impl Sites {
    /// Starts both sites, `two.example` with `two` in its `[site.php]`. Needs root.
    fn start(two: &str) -> Sites {
        Sites::start_as("", two, None)
    }

    /// Starts both sites like [`Sites::start`], with `one` for the first site, by a user.
    fn start_as(one: &str, two: &str, user: Option<u32>) -> Sites {
        let folder = Folder::at(PathBuf::from(format!(
            "/var/lib/howdah-isolation-{}-{}",
            std::process::id(),
            crate::support::folder::next_number()
        )));
        let mut text =
            "listen = [\"127.0.0.1:0\"]\ncontrol = \"control\"\n[log]\naccess = \"off\"\n"
                .to_owned();
        for (name, settings) in [("one", one), ("two", two)] {
            folder.file(&format!("{name}/public/index.php"), RUN);
            folder.file(&format!("{name}/settings"), format!("secret of {name}"));
            text.push_str(&format!(
                "[[site]]\nname = \"{name}\"\nhosts = [\"{name}.example\"]\n\
                 root = \"{name}/public\"\n\
                 [site.php]\nworkers = 2\nstate_dir = \"state/{name}\"\n\
                 admin_ini = {{ \"ffi.enable\" = true }}\n{settings}\n"
            ));
        }
        let file = folder.file("howdah.toml", text);
        if let Some(uid) = user {
            std::os::unix::fs::chown(folder.path(), Some(uid), Some(uid)).unwrap();
        }
        for public in ["one/public", "two/public"] {
            // Everybody may write here, as far as permissions go.
            use std::os::unix::fs::PermissionsExt;
            let path = folder.path().join(public);
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
        }
        let setup = Setup::config(&file);
        let server = match user {
            Some(uid) => setup.user(uid),
            None => setup,
        }
        .start();
        Sites { folder, server }
    }

    /// Runs PHP code in `two.example`.
    fn run(&self, code: &str) -> String {
        self.run_in("two", code)
    }

    /// Runs PHP code in a site.
    fn run_in(&self, site: &str, code: &str) -> String {
        let mut client = Client::connect(self.server.address());
        client
            .send(format!(
                "POST / HTTP/1.1\r\nHost: {site}.example\r\nContent-Length: {}\r\n\r\n{code}",
                code.len()
            ))
            .unwrap();
        client.answer().unwrap().text().to_owned()
    }

    /// The status and the content of a site's answer to a request for a file.
    fn get(&self, site: &str, path: &str) -> (u16, String) {
        let mut client = Client::connect(self.server.address());
        client
            .send(format!("GET {path} HTTP/1.1\r\nHost: {site}.example\r\n\r\n"))
            .unwrap();
        let answer = client.answer().unwrap();
        (answer.status, answer.text().to_owned())
    }

    /// Uploads a file to a site. Returns its content, as the site's script finds it.
    fn upload(&self, site: &str, content: &str) -> String {
        let script = "<?php echo file_get_contents($_FILES['file']['tmp_name']);";
        self.folder.file(&format!("{site}/public/upload.php"), script);
        let form = format!(
            "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\n\r\n\
             {content}\r\n--x--\r\n"
        );
        let mut client = Client::connect(self.server.address());
        client
            .send(format!(
                "POST /upload.php HTTP/1.1\r\nHost: {site}.example\r\n\
                 Content-Type: multipart/form-data; boundary=x\r\nContent-Length: {}\r\n\r\n{form}",
                form.len()
            ))
            .unwrap();
        client.answer().unwrap().text().to_owned()
    }

    /// Runs code that makes system calls, after [`CALLS`].
    fn call(&self, code: &str) -> String {
        self.run(&format!("{CALLS}\n{code}"))
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }
}

/// Returns whether the kernel has Landlock. If not, says so.
fn has_landlock() -> bool {
    let found = howdah_sys::landlock::Landlock::of_kernel().is_some_and(|found| found.has_scopes());
    if !found {
        howdah_skip::skip!("this kernel has no Landlock with scopes (Linux 6.12)");
    }
    found
}

/// Returns whether root may mount here, as not in every container. If not, says so.
fn has_mounts() -> bool {
    let found = is_root() && howdah_sys::mounts::probe().is_ok();
    if !found {
        howdah_skip::skip!("pools cannot have mounts of their own here");
    }
    found
}

/// Returns whether pools of several users can be started here, in a folder outside `/tmp`.
fn can_run() -> bool {
    has_php() && is_root()
}

#[test]
fn status_and_check_say_what_a_pool_is_kept_from() {
    if !can_run() {
        return;
    }
    let sites = Sites::start("sandbox = \"off\"\nprivate_tmp = false");
    let file = sites.folder.path().join("howdah.toml").display().to_string();
    let (status, told, _) = Setup::with(&["check", "--config", &file]).run();
    assert_eq!(status, Some(0), "{told}");
    let control = sites.path("control");
    let (_, state, _) = Setup::with(&["status", "--control", &control]).run();
    for text in [told, state] {
        let line = |name: &str| {
            let found = text.lines().find(|line| line.contains(&format!("pool {name}: ")));
            found.unwrap_or_else(|| panic!("{text}")).to_owned()
        };
        assert!(line("one").contains("sandbox standard ("), "{text}");
        assert!(line("one").contains("no new privileges"), "{text}");
        let memory = howdah_sys::shared_memory::probe().is_ok();
        let memory = if memory {
            "private shared memory"
        } else {
            "common shared memory"
        };
        assert!(line("one").contains(memory), "{text}");
        assert!(line("two").contains("sandbox off, no new privileges, shared /tmp"), "{text}");
    }
    sites.server.stop();
}
