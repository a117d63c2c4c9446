//! Users and rights of the processes.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use crate::support::{Folder, HOWDAH, Process, Setup, has_php, is_root, wait_until};
use crate::{WHO, assert_who, config};

/// `nobody` on every Linux.
const NOBODY: u32 = 65534;

fn ids(process: &Process, what: &str) -> Vec<u32> {
    process
        .status(what)
        .unwrap()
        .split_whitespace()
        .map(|id| id.parse().unwrap())
        .collect()
}

/// No trace of root.
fn assert_plain(process: &Process, uid: u32, gid: u32) {
    assert_eq!(ids(process, "Uid"), [uid; 4], "{}", process.name());
    assert_eq!(ids(process, "Gid"), [gid; 4], "{}", process.name());
    assert!(!ids(process, "Groups").contains(&0), "{}", process.name());
    for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        let capabilities = process.status(set).unwrap();
        assert!(
            capabilities.bytes().all(|digit| digit == b'0'),
            "{} {set} {capabilities}",
            process.name()
        );
    }
}

#[test]
fn root_gives_its_rights_up() {
    if !has_php() || !is_root() {
        return;
    }
    let script = "echo posix_getuid(), ' ', posix_geteuid(), ' ', posix_getgid(), ' ', \
        posix_setuid(0) ? 'root' : 'no';";
    let folder = Folder::with_script(script);
    let file = config(
        &folder,
        "user = \"daemon\"",
        "[site.php]\nuser = \"nobody\"\ngroup = \"games\"\nworkers = 1",
    );
    let server = Setup::config(&file).start();
    let games = 60;
    assert_eq!(server.get("/").text(), format!("{NOBODY} {NOBODY} {games} no"));
    assert_eq!(server.supervisor().uid(), 0);
    assert_plain(&server.front(), 1, 1);
    assert_eq!(server.front().status("NoNewPrivs").as_deref(), Some("1"));
    assert_plain(&server.zygote(), NOBODY, games);
    for worker in server.workers() {
        assert_plain(&worker, NOBODY, games);
    }
    let state = fs::metadata(folder.path().join("state/shop")).unwrap();
    assert_eq!((state.uid(), state.gid(), state.mode() & 0o777), (NOBODY, games, 0o700));
    server.stop();
}

#[test]
fn php_as_root_is_for_those_who_say_so() {
    if !has_php() || !is_root() {
        return;
    }
    let folder = Folder::with_script("echo posix_getuid();");
    let server =
        Setup::config(&config(&folder, "user = \"root\"", "[site.php]\nworkers = 1")).start();
    assert_ne!(server.get("/").text(), "0", "PHP is not root because the front is");
    server.stop();

    let folder = Folder::with_script("echo posix_getuid();");
    let server =
        Setup::config(&config(&folder, "", "[site.php]\nuser = \"root\"\nworkers = 1")).start();
    assert_eq!(server.get("/").text(), "0");
    assert_ne!(server.front().uid(), 0);
    server.wait_for_log("warning site shop: PHP runs as root");
    server.stop();
}

/// A user that may listen on ports below 1024, as with `AmbientCapabilities=` of systemd.
#[test]
fn a_capability_of_an_ordinary_user_stays_with_the_supervisor() {
    // CAP_NET_BIND_SERVICE, which a container may lack.
    let own = Process::own().status("CapEff").unwrap();
    let has_capability = u64::from_str_radix(&own, 16).unwrap() & 0x400 != 0;
    if !has_php() || !is_root() || !has_capability {
        return;
    }
    let folder = Folder::with_script(WHO);
    let path = folder.path().display().to_string();
    let capability = "+net_bind_service";
    let user = ["--reuid=65534", "--regid=65534", "--clear-groups"];
    let rights = ["--inh-caps", capability, "--ambient-caps", capability, "--", HOWDAH];
    let serve = ["serve", &path, "--listen", "127.0.0.1:0", "--workers", "2"];
    let words = [&user[..], &rights, &serve].concat();
    let server = Setup::with(&words).program(Path::new("setpriv")).start();
    assert_who(&server.get("/"));
    let supervisor = server.supervisor();
    assert_eq!(supervisor.status("CapEff").as_deref(), Some("0000000000000400"));
    wait_until("all processes are there", || server.processes().len() == 5);
    for process in server.processes() {
        if process.number() != supervisor.number() {
            assert_plain(&process, NOBODY, NOBODY);
        }
    }
    server.stop();
}

#[test]
fn an_ordinary_user_runs_everything_itself() {
    if !has_php() || !is_root() {
        return;
    }
    let folder = Folder::with_script(WHO);
    let server = Setup::folder(&folder).user(NOBODY).start();
    assert_who(&server.get("/"));
    wait_until("all processes are there", || server.processes().len() == 5);
    for process in server.processes() {
        assert_plain(&process, NOBODY, NOBODY);
    }
    server.kill_zygote();
    assert_who(&server.get("/"));
    server.kill_front();
    assert_who(&server.get("/"));
    server.stop();
}

#[test]
fn pools_keep_out_of_each_other_s_state() {
    if !has_php() || !is_root() {
        return;
    }
    let folder = Folder::new();
    let script = "<?php session_start(); echo session_save_path(), ' ', sys_get_temp_dir(), ' ', \
        ini_get('upload_tmp_dir'), ' ', is_readable($_GET['of'] ?? '') ? 'open' : 'closed';";
    let state = folder.folder("state");
    let mut sites = String::new();
    for (name, user) in [("one", "daemon"), ("two", "nobody")] {
        folder.file(&format!("{name}/index.php"), script);
        let root = folder.path().join(name);
        sites.push_str(&format!(
            "[[site]]\nname = \"{name}\"\nhosts = [\"{name}.example\"]\nroot = \"{}\"\n\
             [site.php]\nworkers = 1\nuser = \"{user}\"\n\
             state_dir = \"{}\"\n",
            root.display(),
            state.join(name).display()
        ));
    }
    let text = format!(
        "listen = [\"127.0.0.1:0\"]\ncontrol = \"control\"\n[log]\naccess = \"off\"\n{sites}"
    );
    let server = Setup::config(&folder.file("howdah.toml", text)).start();
    let get = |name: &str, of: &str| {
        let mut client = crate::support::Client::connect(server.address());
        client
            .send(format!("GET /?of={of} HTTP/1.1\r\nHost: {name}.example\r\n\r\n"))
            .unwrap();
        client.answer().unwrap().text().to_owned()
    };
    for (name, other) in [("one", "two"), ("two", "one")] {
        let own = state.join(name).display().to_string();
        let told = get(name, &format!("{own}/sessions"));
        let (folders, open) = told.rsplit_once(' ').unwrap();
        assert!(folders.split(' ').all(|folder| folder.starts_with(&own)), "{told}");
        assert_eq!(open, "open");
        assert!(
            get(name, &format!("{}/sessions", state.join(other).display())).ends_with(" closed")
        );
    }
    server.stop();
}

#[test]
fn the_front_lends_its_rights_to_no_script() {
    if !has_php() || !is_root() {
        return;
    }
    let folder = Folder::with_script("header('X-Sendfile: ' . $_GET['f']);");
    let file = config(
        &folder,
        "user = \"daemon\"",
        "sendfile = true\nsendfile_roots = [\"files\"]\n[site.php]\nuser = \"nobody\"\nworkers = 1",
    );
    // The front is in the group `daemon`, the pool is not.
    let set = |name: &str, mode: u32, owner: u32, group: u32| {
        let path = folder.path().join(name);
        std::os::unix::fs::chown(&path, Some(owner), Some(group)).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    };
    for name in ["open.txt", "files/open.txt", "files/front.txt", "files/pool.txt", "shut/a.txt"] {
        folder.file(name, "content");
    }
    set("files/front.txt", 0o640, 0, 1);
    set("files/pool.txt", 0o400, NOBODY, 0);
    set("shut", 0o750, 0, 1);
    let server = Setup::config(&file).start();
    for (name, status) in [
        ("open.txt", 200),
        ("files/open.txt", 200),
        ("files/front.txt", 403),
        ("shut/a.txt", 403),
        ("files/pool.txt", 403), // The front must be able to read the file, too.
    ] {
        assert_eq!(server.get(&format!("/?f={name}")).status, status, "{name}");
    }
    // Readable by its bits, but a list says otherwise.
    let list = folder.path().join("files/open.txt");
    let mut command = std::process::Command::new("setfacl");
    match command.args(["-m", "u:nobody:---"]).arg(&list).status() {
        Ok(status) if status.success() => {
            assert_eq!(server.get("/?f=files/open.txt").status, 403);
        }
        _ => howdah_skip::skip!("setfacl is missing, or the folder keeps no lists"),
    }
    server.stop();
}

#[test]
fn scripts_see_nothing_of_the_environment_but_the_path() {
    if !has_php() {
        return;
    }
    let folder = Folder::with_script("echo implode(' ', array_keys(getenv(null)));");
    let file = config(&folder, "", "[site.php]\nworkers = 1\nenv = { DATABASE = \"x\" }");
    let server = Setup::config(&file).environment("SECRET", "hidden").start();
    let response = server.get("/");
    let mut names: Vec<_> = response.text().split(' ').collect();
    names.retain(|name| !name.contains(|other: char| other.is_ascii_lowercase()));
    assert!(names.contains(&"PATH") && names.contains(&"DATABASE"), "{names:?}");
    assert!(!response.text().contains("SECRET"), "{names:?}");
    server.stop();
}

#[test]
fn variables_of_the_server_are_passed_on_by_name() {
    if !has_php() {
        return;
    }
    let folder = Folder::with_script(
        "echo json_encode([getenv('ZONE'), getenv('MADE'), getenv('MISSING'), getenv('SECRET')]);",
    );
    let keys = "pass_env = [\"ZONE\", \"MADE\", \"MISSING\"]\nenv = { MADE = \"here\" }";
    let file = config(&folder, "", &format!("[site.php]\nworkers = 1\n{keys}"));
    let setup = Setup::config(&file).environment("ZONE", "a=b").environment("MADE", "outside");
    let server = setup.environment("SECRET", "hidden").start();
    assert_eq!(server.get("/").text(), "[\"a=b\",\"here\",false,false]");
    server.stop();
}

#[test]
fn a_pool_has_the_umask_and_the_priority_that_it_is_given() {
    if !has_php() {
        return;
    }
    // Field 19, behind the name of the program, which has no spaces here.
    let script = "$nice = explode(' ', file_get_contents('/proc/self/stat'))[18];
                  printf('%04o %s', umask(), $nice);";
    let folder = Folder::with_script(script);
    let usual = config(&folder, "", "[site.php]\nworkers = 1");
    let server = Setup::config(&usual).start();
    let text = server.get("/").text().to_owned();
    assert!(text.starts_with("0022 "), "{text}");
    server.stop();
    let keys = "[site.php]\nworkers = 1\numask = \"0007\"\nnice = 19";
    let server = Setup::config(&config(&folder, "", keys)).start();
    assert_eq!(server.get("/").text(), "0007 19");
    server.stop();
}

#[test]
fn a_pool_has_the_groups_that_it_is_given_besides_those_of_its_user() {
    if !has_php() || !is_root() {
        return howdah_skip::skip!("needs root and PHP");
    }
    let Ok(Some(games)) = howdah_sys::credentials::group_number("games") else {
        return howdah_skip::skip!("there is no group `games`");
    };
    let folder = Folder::with_script("echo 'here';");
    let keys = "[site.php]\nworkers = 1\nsupplementary_groups = [\"games\"]";
    let server = Setup::config(&config(&folder, "", keys)).start();
    assert_eq!(server.get("/").text(), "here");
    let groups = server.workers()[0].status("Groups").unwrap();
    assert!(groups.split_whitespace().any(|group| group == games.to_string()), "{groups}");
    server.stop();
    let keys = "[site.php]\nsupplementary_groups = [\"no-such-group\"]";
    let file = config(&folder, "", keys);
    let (code, told, errors) = Setup::with(&["check", "--config", file.to_str().unwrap()]).run();
    assert_eq!(code, Some(1), "{told}{errors}");
    assert!(
        errors.contains("`php.supplementary_groups`: there is no group no-such-group"),
        "{errors}"
    );
}

/// A folder that only root may enter, such as /root of Debian.
fn closed_folder() -> Folder {
    let folder = Folder::new();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
    folder
}

#[test]
fn a_folder_that_the_front_may_not_enter_is_refused_at_once() {
    if !is_root() {
        return;
    }
    let folder = closed_folder();
    folder.file("public/index.html", "page");
    let public = folder.path().join("public");
    let (status, _, said) =
        Setup::with(&["serve", public.to_str().unwrap(), "--listen", "127.0.0.1:0", "--no-php"])
            .run();
    assert_eq!(status, Some(2), "{said}");
    let closed =
        format!("may not enter {}; serve a folder that other users", folder.path().display());
    assert!(said.contains(&closed), "{said}");
}

#[test]
fn the_demo_is_served_from_a_folder_that_only_root_may_enter() {
    if !has_php() || !is_root() {
        return;
    }
    let folder = closed_folder();
    let place = folder.path();
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let copy = |from: &str, to: &str| {
        let copied =
            std::process::Command::new("cp").args(["-R", from]).arg(place.join(to)).status();
        assert!(copied.unwrap().success());
    };
    copy(&format!("{root}/demo"), "demo");
    folder.folder("scripts");
    folder.folder("programs");
    copy(&format!("{root}/scripts/serve-demo"), "scripts/serve-demo");
    let programs = std::path::Path::new(env!("CARGO_BIN_EXE_howdah")).parent().unwrap();
    for program in ["howdah", "howdah-php"] {
        copy(programs.join(program).to_str().unwrap(), &format!("programs/{program}"));
    }
    let script = place.join("scripts/serve-demo");
    let programs = place.join("programs").display().to_string();
    let temporary = Folder::writable();
    let mut server = Setup::with(&[&programs, "127.0.0.1:0"])
        .program(&script)
        .environment("TMPDIR", temporary.path().to_str().unwrap())
        .start();
    let page = server.get("/");
    assert_eq!(page.status, 200, "{page:?}");
    assert!(page.text().contains("Howdah"), "{page:?}");
    server.signal(15);
    assert!(server.wait().success());
    let left: Vec<_> = fs::read_dir(temporary.path()).unwrap().flatten().collect();
    assert!(left.is_empty(), "the copy is removed: {left:?}");
}
