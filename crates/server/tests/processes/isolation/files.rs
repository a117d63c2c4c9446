//! Files, folders for temporary files, and `/proc`.

use std::path::PathBuf;

use howdah_sys::signal::SIGKILL;

use super::{Sites, can_run, has_landlock, has_mounts};
use crate::support::{Folder, Process, Setup, has_own_tmp, has_php, is_root, wait_until};

const NOBODY: u32 = 65534;

/// Reads a file, and says whether it is open to this site.
pub(super) fn read(path: &str) -> String {
    format!("echo @file_get_contents('{path}') === false ? 'closed' : 'open';")
}

pub(super) fn write(path: &str) -> String {
    format!("echo @file_put_contents('{path}', 'x') === false ? 'closed' : 'open';")
}

#[test]
fn a_site_does_not_reach_another_of_the_same_user() {
    if !can_run() || !has_landlock() {
        return;
    }
    let sites = Sites::start("");
    let (one, two) = (sites.path("one"), sites.path("two"));
    let rows = [
        (read(&format!("{two}/public/index.php")), "open"),
        (read(&format!("{two}/settings")), "open"),
        (write(&format!("{two}/public/new")), "open"),
        (read("/etc/passwd"), "open"),
        (read(&format!("{one}/public/index.php")), "closed"),
        (read(&format!("{one}/settings")), "closed"),
        (write(&format!("{one}/public/new")), "closed"),
        (format!("echo @scandir('{one}') ? 'open' : 'closed';"), "closed"),
        (
            format!("echo @rename('{two}/public/new', '{one}/public/new') ? 'open' : 'closed';"),
            "closed",
        ),
        (
            format!("echo @link('{one}/settings', '{two}/public/link') ? 'open' : 'closed';"),
            "closed",
        ),
        // A symbolic link is no way around.
        (
            format!(
                "symlink('{one}/settings', '{two}/public/soft'); {}",
                read(&format!("{two}/public/soft"))
            ),
            "closed",
        ),
        // Nor are other programs.
        (format!("echo shell_exec('cat {one}/settings') ? 'open' : 'closed';"), "closed"),
        (format!("echo shell_exec('cat {two}/settings') ? 'open' : 'closed';"), "open"),
    ];
    for (code, expected) in rows {
        assert_eq!(sites.run(&code), expected, "{code}");
    }
    let state = sites.run("echo session_save_path();");
    let other = sites.run_in("one", "echo session_save_path();");
    assert_eq!(sites.run(&write(&format!("{state}/sess_x"))), "open");
    assert_eq!(sites.run(&write(&format!("{other}/sess_x"))), "closed");
    sites.server.stop();
}

#[test]
fn a_site_does_not_reach_another_where_an_ordinary_user_serves() {
    if !has_php() || !is_root() || !has_landlock() {
        return;
    }
    let sites = Sites::start_as("", "", Some(NOBODY));
    let (one, two) = (sites.path("one"), sites.path("two"));
    assert_eq!(sites.run(&read(&format!("{two}/settings"))), "open");
    assert_eq!(sites.run(&read(&format!("{one}/settings"))), "closed");
    let log = sites.server.log();
    assert!(log.contains("notice pools share /tmp with other users"), "{log}");
    assert!(log.contains("the server was not started as root"), "{log}");
    sites.server.stop();
}

#[test]
fn readable_and_writable_open_what_is_closed() {
    if !can_run() || !has_landlock() {
        return;
    }
    let sites = Sites::start("readable = [\"one/settings\"]\nwritable = [\"one/public\"]");
    let one = sites.path("one");
    assert_eq!(sites.run(&read(&format!("{one}/settings"))), "open");
    assert_eq!(sites.run(&write(&format!("{one}/settings"))), "closed");
    assert_eq!(sites.run(&write(&format!("{one}/public/new"))), "open");
    sites.server.stop();
}

#[test]
fn a_strict_site_has_its_root_and_the_system_only() {
    if !can_run() || !has_landlock() {
        return;
    }
    let sites = Sites::start("sandbox = \"strict\"\nuser = \"root\"");
    let two = sites.path("two");
    let program = format!("{two}/public/program");
    let rows = [
        (read(&format!("{two}/public/index.php")), "open"),
        (write(&format!("{two}/public/new")), "open"),
        (read(&format!("{two}/settings")), "closed"),
        (read("/var/lib/dpkg/status"), "closed"),
        (read("/etc/passwd"), "open"),
        (write("/etc/howdah-isolation-test"), "closed"),
        (write("/usr/howdah-isolation-test"), "closed"),
        ("echo shell_exec('id -u') === null ? 'closed' : 'open';".to_owned(), "open"),
        // A site cannot execute files that it can write.
        (
            format!(
                "copy('/usr/bin/id', '{program}'); chmod('{program}', 0755); \
                 echo shell_exec('{program} -u 2>/dev/null') ? 'open' : 'closed';"
            ),
            "closed",
        ),
        (
            "$a = @stream_socket_server('tcp://127.0.0.1:0'); echo $a ? 'open' : 'closed';"
                .to_owned(),
            "closed",
        ),
        // A socket without an address gets one.
        (
            "$s = socket_create(AF_INET, SOCK_STREAM, 0); echo @socket_listen($s) ? 'open' : \
             'closed';"
                .to_owned(),
            "closed",
        ),
        ("echo mt_srand() ?? bin2hex(random_bytes(2)) ? 'open' : 'closed';".to_owned(), "open"),
        (write("/dev/null"), "open"),
    ];
    for (code, expected) in rows {
        assert_eq!(sites.run(&code), expected, "{code}");
    }
    sites.server.stop();
}

/// Exchanges the root of `two.example` for a link of its owner to `target`, and reloads. The folder
/// comes back afterwards, and so do the answers.
fn reload_with_link(sites: &Sites, target: &str) {
    let (public, kept) = (sites.path("two/public"), sites.path("two/kept"));
    std::fs::rename(&public, &kept).unwrap();
    std::os::unix::fs::symlink(target, &public).unwrap();
    std::os::unix::fs::lchown(&public, Some(NOBODY), None).unwrap();
    let front = sites.server.front();
    sites.server.signal(howdah_sys::signal::SIGHUP);
    wait_until("another generation serves", || !front.lives());
    let front = sites.server.front();
    std::fs::remove_file(&public).unwrap();
    std::fs::rename(&kept, &public).unwrap();
    // Until the generation that met the link has ended, either may answer.
    wait_until("a generation serves the folder", || !front.lives());
    wait_until("the folder is served again", || sites.run("echo 'fine';") == "fine");
}

/// A pool's user owns the folder in which the document root is, and may exchange the root for a
/// link to the root of another site.
#[test]
fn a_link_in_place_of_a_root_opens_no_other_root() {
    if !can_run() || !has_landlock() || !is_root() {
        return;
    }
    for level in ["standard", "strict"] {
        let sites = Sites::start(&format!("user = \"nobody\"\nsandbox = \"{level}\""));
        let one = sites.path("one/public");
        let attempt = read(&format!("{one}/index.php"));
        assert_eq!(sites.run(&attempt), "closed");
        reload_with_link(&sites, &one);
        assert_eq!(sites.run(&attempt), "closed", "{level}");
        assert_eq!(sites.run(&write(&format!("{one}/new"))), "closed", "{level}");
        assert_eq!(sites.run_in("one", "echo 'fine';"), "fine");
        sites.server.stop();
    }
}

#[test]
fn a_link_in_place_of_a_root_closes_nothing_to_other_sites() {
    if !can_run() || !has_landlock() || !is_root() {
        return;
    }
    let sites = Sites::start("user = \"nobody\"");
    reload_with_link(&sites, "/usr");
    assert_eq!(sites.run_in("one", &read("/usr/bin/env")), "open");
    assert_eq!(sites.run_in("one", "echo shell_exec('id') ? 'open' : 'closed';"), "open");
    sites.server.stop();
}

/// The folder that has the hosts' folders has another site's folder in it, too.
#[test]
fn a_site_inside_the_folder_of_many_hosts_is_closed_to_them() {
    if !can_run() || !has_landlock() || !has_mounts() {
        return;
    }
    let folder = Folder::at(PathBuf::from(format!("/var/lib/howdah-hosts-{}", std::process::id())));
    for host in ["one", "two"] {
        folder.file(&format!("hosts/{host}.example/public/index.php"), super::RUN);
        folder.file(&format!("hosts/{host}.example/settings"), "secret");
    }
    let site = |name: &str, hosts: &str, place: &str| {
        format!(
            "[[site]]\nname = \"{name}\"\nhosts = [\"{hosts}\"]\n\
             root = \"hosts/{place}/public\"\n[site.php]\nworkers = 1\nstandby = false\n\
             state_dir = \"state/{name}\"\n"
        )
    };
    let text = format!(
        "listen = [\"127.0.0.1:0\"]\ncontrol = \"control\"\n[log]\naccess = \"off\"\n{}{}",
        site("many", "*", "{host}"),
        site("two", "two.example", "two.example")
    );
    let server = Setup::config(&folder.file("howdah.toml", text)).start();
    let sites = Sites { folder, server };
    let settings = |host: &str| read(&sites.path(&format!("hosts/{host}.example/settings")));
    assert_eq!(sites.run_in("one", &settings("one")), "open");
    assert_eq!(sites.run_in("one", &settings("two")), "closed");
    let new = sites.path("hosts/two.example/public/new");
    assert_eq!(sites.run_in("one", &write(&new)), "closed");
    assert_eq!(sites.run(&settings("two")), "open");
    assert_eq!(sites.run(&settings("one")), "closed");
    // A host that comes later is served without a reload.
    sites.folder.file("hosts/new.example/public/index.php", super::RUN);
    sites.folder.file("hosts/new.example/settings", "secret");
    assert_eq!(sites.run_in("new", &settings("new")), "open");
    assert_eq!(sites.run_in("new", &settings("two")), "closed");
    sites.server.stop();
}

/// A zygote that is started later gets rules for the same paths.
#[test]
fn a_link_in_place_of_a_root_opens_no_other_root_to_the_next_zygote() {
    if !can_run() || !has_landlock() || !is_root() {
        return;
    }
    let sites = Sites::start("user = \"nobody\"\nstandby = false\nwritable = [\"two/data\"]");
    let (one, two) = (sites.path("one/public"), sites.path("two"));
    for name in ["public", "data"] {
        let place = format!("{two}/{name}");
        let _ = std::fs::rename(&place, format!("{two}/kept-{name}"));
        std::os::unix::fs::symlink(&one, &place).unwrap();
        std::os::unix::fs::lchown(&place, Some(NOBODY), None).unwrap();
    }
    let zygote = |sites: &Sites| {
        let all = sites.server.zygotes();
        all.into_iter().find(|zygote| zygote.arguments().ends_with(" two"))
    };
    let former = zygote(&sites).unwrap();
    former.signal(howdah_sys::signal::SIGKILL);
    wait_until("another zygote has workers", || {
        zygote(&sites).is_some_and(|now| now != former && now.children().len() == 2)
    });
    std::fs::remove_file(format!("{two}/public")).unwrap();
    std::fs::rename(format!("{two}/kept-public"), format!("{two}/public")).unwrap();
    wait_until("the folder is served again", || sites.run("echo 'fine';") == "fine");
    assert_eq!(sites.run(&read(&format!("{one}/index.php"))), "closed");
    assert_eq!(sites.run(&write(&format!("{one}/new"))), "closed");
    sites.server.stop();
}

/// The pool's user owns its state folder, without which PHP does not start.
#[test]
fn a_pool_that_does_not_start_keeps_no_other_site_from_serving() {
    if !can_run() {
        return;
    }
    let Sites { folder, server } = Sites::start("user = \"nobody\"");
    server.stop();
    let sessions = folder.path().join("state/two/sessions");
    std::fs::remove_dir_all(&sessions).unwrap();
    std::fs::write(&sessions, "").unwrap();
    let server = Setup::config(&folder.path().join("howdah.toml")).start();
    let sites = Sites { folder, server };
    assert_eq!(sites.run_in("one", "echo 'fine';"), "fine");
    sites.server.wait_for_log("cannot create the folder");
    assert!(sites.server.log().contains("this pool is started again and again"));
    sites.server.kill_front();
    assert_eq!(sites.run_in("one", "echo 'fine';"), "fine");
    // Nor from a reload, which makes it no worse.
    let front = sites.server.front();
    sites.server.signal(howdah_sys::signal::SIGHUP);
    wait_until("another generation serves", || !front.lives());
    assert_eq!(sites.run_in("one", "echo 'fine';"), "fine");
    std::fs::remove_file(&sessions).unwrap();
    sites.server.wait_for_log("two: its new zygote");
    assert_eq!(sites.run("echo 'fine';"), "fine");
    sites.server.stop();
}

/// The same fault while the site is served: PHP does not start anew.
#[test]
fn a_pool_that_does_not_start_again_keeps_no_other_site_from_a_reload() {
    if !can_run() {
        return;
    }
    let sites = Sites::start_as("ini = { user_agent = \"former\" }", "user = \"nobody\"", None);
    let file = sites.folder.path().join("howdah.toml");
    let agent = "echo ini_get('user_agent');";
    wait_until("a zygote stands by for each site", || {
        crate::support::status(&file).matches(" stands by, as").count() == 2
    });
    let sessions = sites.folder.path().join("state/two/sessions");
    std::fs::remove_dir_all(&sessions).unwrap();
    std::fs::write(&sessions, "").unwrap();
    let change = |agent: &str| {
        let text = std::fs::read_to_string(&file).unwrap();
        let (before, rest) = text.split_once("user_agent = \"").unwrap();
        let (_, after) = rest.split_once('"').unwrap();
        std::fs::write(&file, format!("{before}user_agent = \"{agent}\"{after}")).unwrap();
    };
    let reload = || Setup::with(&["reload", "--config", file.to_str().unwrap()]).run();

    // The former front may take a connection for a moment yet.
    let serves = |expected: &str| {
        wait_until("the configuration is served", || sites.run_in("one", agent) == expected);
    };

    change("second");
    let (code, told, _) = reload();
    let state = "site two: has the PHP of the former configuration: ";
    assert!(code == Some(0) && told.contains(state), "{told}");
    assert!(told.contains("cannot create the folder"), "{told}");
    serves("second");
    assert_eq!(sites.run("echo 'fine';"), "fine");
    assert!(crate::support::status(&file).contains(state));

    // No zygote stands by any more. The one that serves forks the next one.
    for agent in ["third", "fourth", "fifth"] {
        let former = sites.server.zygotes();
        change(agent);
        let (code, told, _) = reload();
        assert!(code == Some(0) && told.contains(state), "{told}");
        serves(agent);
        assert_eq!(sites.run("echo ini_get('upload_max_filesize') ? 'fine' : '';"), "fine");
        wait_until("the former zygotes are gone", || !former.iter().any(Process::lives));
        assert_eq!(sites.run("echo 'fine';"), "fine");
        assert_eq!(sites.upload("two", "content of a file"), "content of a file");
    }

    // Nothing can fork a zygote any more.
    let is_of_site = |zygote: &&Process| zygote.arguments().ends_with(" two");
    wait_until("its zygotes are gone", || {
        let mut zygotes = sites.server.supervisor().standbys();
        zygotes.append(&mut sites.server.zygotes());
        zygotes.iter().filter(is_of_site).for_each(|zygote| zygote.signal(SIGKILL));
        !zygotes.iter().any(|zygote| is_of_site(&zygote))
    });
    change("sixth");
    let (code, told, _) = reload();
    assert!(code == Some(0) && told.contains("site two: has no PHP: "), "{told}");
    serves("sixth");

    // A path that the administrator has changed may be the administrator's mistake.
    std::fs::remove_file(&sessions).unwrap();
    wait_until("the site has PHP again", || sites.run("echo 'fine';") == "fine");
    assert!(!crate::support::status(&file).contains("has no PHP"));
    change("seventh\", \"date.timezone\" = \"UTC");
    let text = std::fs::read_to_string(&file).unwrap();
    let mistake = text.replace("user = \"nobody\"", "user = \"nobody\"\nini_file = \"/no/such\"");
    std::fs::write(&file, mistake).unwrap();
    let (code, _, told) = reload();
    assert!(code == Some(1) && told.contains("/no/such"), "{told}");
    serves("sixth");
    std::fs::write(&file, text).unwrap();
    let (code, told, _) = reload();
    assert!(code == Some(0) && !told.contains("site two"), "{told}");
    serves("seventh");
    sites.server.stop();
}

#[test]
fn a_site_has_its_own_tmp() {
    if !can_run() || !has_mounts() || !has_own_tmp() {
        return;
    }
    let sites = Sites::start("");
    let name = format!("howdah-isolation-{}", std::process::id());
    let script = |path: &str| {
        format!("file_put_contents('{path}', 'mine'); echo file_get_contents('{path}');")
    };
    for folder in ["/tmp", "/var/tmp"] {
        let path = format!("{folder}/{name}");
        assert_eq!(sites.run(&script(&path)), "mine");
        // It is where PHP's own temporary files are, and where the site's programs look.
        assert_eq!(sites.run(&format!("echo shell_exec('cat {path}');")), "mine");
        assert_eq!(sites.run_in("one", &read(&path)), "closed");
        assert!(!std::path::Path::new(&path).exists(), "{path}");
    }
    assert_eq!(
        sites.run(&format!("echo file_get_contents(sys_get_temp_dir() . '/{name}');")),
        "mine"
    );
    // It outlives the zygote, as the machine's outlives a process.
    for zygote in sites.server.zygotes() {
        zygote.signal(howdah_sys::signal::SIGKILL);
        crate::support::wait_until("the zygote is gone", || !zygote.lives());
    }
    assert_eq!(sites.run(&format!("echo file_get_contents('/tmp/{name}');")), "mine");
    sites.server.stop();
}

/// The pool's user owns the folder that becomes its `/tmp`, and could replace it by a link to a
/// folder that it may not enter.
#[test]
fn a_link_in_place_of_the_own_tmp_is_removed_and_not_followed() {
    if !can_run() || !has_mounts() || !has_own_tmp() {
        return;
    }
    let sites = Sites::start("user = \"nobody\"");
    let hidden = sites.folder.folder("hidden/inner");
    sites.folder.file("hidden/inner/secret", "secret");
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(hidden.parent().unwrap(), std::fs::Permissions::from_mode(0o700))
        .unwrap();
    let tmp = sites.path("state/two/tmp");
    let code = format!(
        "rename('{tmp}', '{tmp}-old'); echo symlink('{}', '{tmp}') ? 'linked' : 'not';",
        hidden.display()
    );
    assert_eq!(sites.run(&code), "linked");
    let zygotes = sites.server.zygotes();
    let two = zygotes.iter().find(|zygote| zygote.arguments().ends_with(" two")).unwrap();
    two.signal(howdah_sys::signal::SIGKILL);
    wait_until("a folder is there again", || {
        std::fs::symlink_metadata(&tmp).is_ok_and(|found| found.is_dir())
    });
    assert_eq!(sites.run_in("one", "echo 'fine';"), "fine");
    assert!(hidden.join("secret").exists());
    assert_eq!(sites.run(&read("/tmp/secret")), "closed");
    sites.server.stop();
}

#[test]
fn other_processes_are_not_in_proc() {
    if !can_run() || !has_mounts() {
        return;
    }
    let sites = Sites::start("");
    let seen = sites.run("echo implode(' ', array_filter(scandir('/proc'), is_numeric(...)));");
    let own = sites.run("echo getmypid();");
    let two = sites.server.zygotes();
    let of_two: Vec<Process> = two
        .iter()
        .filter(|zygote| zygote.arguments().ends_with(" two"))
        .flat_map(Process::children)
        .collect();
    assert!(of_two.iter().any(|worker| worker.number().to_string() == own), "{own}");
    for number in seen.split(' ') {
        let number: u32 = number.parse().unwrap();
        assert!(of_two.iter().any(|worker| worker.number() == number), "{number} of {seen}");
    }
    for process in sites.server.processes() {
        let path = format!("/proc/{}/cmdline", process.number());
        let is_one_of_two = of_two.contains(&process);
        let found = sites.run(&read(&path));
        assert!(found == "closed" || is_one_of_two, "{} {found}", process.arguments());
    }
    // The machine's files that programs of the web read are there.
    for path in
        ["/proc/self/status", "/proc/cpuinfo", "/proc/meminfo", "/proc/loadavg", "/proc/self/fd/1"]
    {
        let found = sites.run(&format!("echo file_exists('{path}') ? 'there' : 'missing';"));
        assert_eq!(found, "there", "{path}");
    }
    sites.server.stop();
}

#[test]
fn visible_processes_and_a_shared_tmp_can_be_asked_for() {
    if !can_run() {
        return;
    }
    let sites = Sites::start("private_tmp = false\nhide_processes = false");
    let name = format!("/tmp/howdah-isolation-{}", std::process::id());
    assert_eq!(sites.run(&format!("echo file_put_contents('{name}', 'x');")), "1");
    assert_eq!(std::fs::read_to_string(&name).unwrap(), "x");
    std::fs::remove_file(&name).unwrap();
    let test = format!("/proc/{}/cmdline", std::process::id());
    assert_eq!(sites.run(&read(&test)), "open");
    sites.server.stop();
}
