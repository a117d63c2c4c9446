//! Owners of sites who spoil the state folders of their pools.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use crate::support::{
    Client, Folder, Setup, faster_than, has_own_tmp, has_php, is_root, wait_until,
};

/// `nobody` on every Linux.
const NOBODY: u32 = 65534;

/// A configuration with the sites `one`, which has those lines, and `two`, whose user has the
/// folder of its state folder. `limit` is in both pools; `patience` is the time that requests of
/// `two` wait for a worker.
fn configure(
    folder: &Folder,
    one: Option<&str>,
    limit: &str,
    patience: &str,
) -> std::path::PathBuf {
    let site = |name: &str, php: &str| {
        format!(
            "[[site]]\nname = \"{name}\"\nhosts = [\"{name}.example\"]\nroot = \"{name}\"\n{php}\n"
        )
    };
    let php = |user: &str, state: &str, patience: &str| {
        format!(
            "[site.php]\nworkers = 1\nuser = \"{user}\"\nstate_dir = \"{state}\"\n\
             queue_timeout = \"{patience}\"\nini = {{ memory_limit = \"{limit}\" }}"
        )
    };
    let first = one.map_or_else(|| php("daemon", "state/one", "5m"), str::to_owned);
    let sites = [site("one", &first), site("two", &php("nobody", "home/state", patience))].concat();
    let server = "listen = [\"127.0.0.1:0\"]\ncontrol = \"control\"\n[log]\naccess = \"off\"\n";
    folder.file("howdah.toml", server.to_owned() + &sites)
}

/// The folder above the state folder is often the owner's home.
#[test]
fn a_link_in_place_of_a_state_folder_keeps_no_other_site_from_a_reload() {
    if !has_php() || !is_root() {
        return;
    }
    let folder = Folder::new();
    let home = folder.folder("home");
    lchown(&home, Some(NOBODY), None).unwrap();
    for name in ["one", "two"] {
        folder.file(&format!("{name}/index.php"), "<?php echo ini_get('memory_limit');");
        folder.file(&format!("{name}/a.txt"), "content");
    }
    let file = configure(&folder, None, "100M", "5m");
    let server = Setup::config(&file).start();
    let get = |name: &str, target: &str| {
        let mut client = Client::connect(server.address());
        client
            .send(format!("GET {target} HTTP/1.1\r\nHost: {name}.example\r\n\r\n"))
            .unwrap();
        let answer = client.answer().unwrap();
        (answer.status, answer.text().to_owned())
    };
    let reload = || Setup::with(&["reload", "--config", file.to_str().unwrap()]).run();
    for name in ["one", "two"] {
        assert_eq!(get(name, "/index.php"), (200, "100M".to_owned()));
    }
    fs::rename(home.join("state"), home.join("aside")).unwrap();
    symlink("/etc", home.join("state")).unwrap();
    lchown(home.join("state"), Some(NOBODY), None).unwrap();
    // The administrator changes the pools of all sites.
    configure(&folder, None, "101M", "1s");
    let (status, told, why) = reload();
    assert_eq!(status, Some(0), "{told}{why}");
    assert!((told.clone() + &why).contains("site two: has no PHP"), "{told}{why}");
    assert_eq!(get("one", "/index.php"), (200, "101M".to_owned()));
    assert_eq!((get("two", "/index.php").0, get("two", "/a.txt").0), (503, 200));
    // No other pool starts.
    configure(&folder, Some("php = false"), "102M", "1s");
    let (status, told, why) = reload();
    assert_eq!(status, Some(0), "{told}{why}");
    assert_eq!((get("one", "/a.txt").0, get("two", "/index.php").0), (200, 503));
    // A link to a folder of the same user could be exchanged for another one at any moment.
    fs::remove_file(home.join("state")).unwrap();
    symlink("aside", home.join("state")).unwrap();
    lchown(home.join("state"), Some(NOBODY), None).unwrap();
    let (status, told, why) = reload();
    assert_eq!(status, Some(0), "{told}{why}");
    let link = format!("{}, which belongs to user {NOBODY}, is not", home.join("state").display());
    assert!((told.clone() + &why).contains(&link), "{told}{why}");
    let check = Setup::with(&["check", "--config", file.to_str().unwrap()]).run();
    assert!(check.2.contains("PHP does not start"), "{check:?}");
    fs::remove_file(home.join("state")).unwrap();
    fs::rename(home.join("aside"), home.join("state")).unwrap();
    configure(&folder, None, "103M", "5m");
    let (status, told, why) = reload();
    assert_eq!(status, Some(0), "{told}{why}");
    for name in ["one", "two"] {
        assert_eq!(get(name, "/index.php"), (200, "103M".to_owned()));
    }
    server.stop();
}

/// The folders in a state folder belong to the pool's user.
#[test]
fn a_site_that_closes_its_own_folders_does_not_keep_its_former_php() {
    if !has_php() || !is_root() {
        return;
    }
    let folder = Folder::with_script("session_start(); echo ini_get('memory_limit');");
    let php_ini = |limit: &str| folder.file("php.ini", format!("memory_limit = {limit}\n"));
    php_ini("100M");
    let site = "[site.php]\nworkers = 1\nuser = \"nobody\"\nprivate_tmp = true\n\
                ini_file = \"php.ini\"";
    let file = crate::config(&folder, "probation = \"0s\"", site);
    let server = Setup::config(&file).start();
    let state = folder.path().join("state/shop");
    assert_eq!(server.get("/").text(), "100M");
    let close = |name: &str| {
        fs::set_permissions(state.join(name), fs::Permissions::from_mode(0o0)).unwrap();
    };
    let put = |name: &str| {
        fs::remove_dir_all(state.join(name)).unwrap();
        symlink("/etc", state.join(name)).unwrap();
        lchown(state.join(name), Some(NOBODY), None).unwrap();
    };
    let spoil: [&dyn Fn(); 4] = [
        &|| ["uploads", "sessions", "tmp", "."].iter().for_each(|name| close(name)),
        &|| put("tmp"),
        &|| put("uploads"),
        &|| {
            fs::remove_dir_all(state.join("uploads")).unwrap();
            fs::write(state.join("uploads"), "").unwrap();
            lchown(state.join("uploads"), Some(NOBODY), None).unwrap();
        },
    ];
    for (number, spoil) in spoil.into_iter().enumerate() {
        spoil();
        let limit = format!("{}M", 101 + number);
        php_ini(&limit);
        let (status, told, why) =
            Setup::with(&["reload", "--config", file.to_str().unwrap()]).run();
        assert_eq!(status, Some(0), "{told}{why}");
        assert!(!(told.clone() + &why).contains("former configuration"), "{told}{why}");
        assert_eq!(server.get("/").text(), limit, "{told}{why}");
    }
    assert!(fs::read_dir("/etc").unwrap().count() > 5);
    server.stop();
}

/// The owner of the folder above can put anything in the place of the state folder. A refused file
/// there is not repaired.
#[test]
fn a_site_that_replaces_its_state_folder_does_not_keep_its_former_php() {
    if !has_php() || !is_root() {
        return;
    }
    let folder = Folder::with_script("echo ini_get('memory_limit');");
    let home = folder.folder("home");
    lchown(&home, Some(NOBODY), None).unwrap();
    let php_ini = |limit: &str| folder.file("php.ini", format!("memory_limit = {limit}\n"));
    php_ini("100M");
    let site = "[site.php]\nworkers = 1\nuser = \"nobody\"\nini_file = \"php.ini\"";
    let file = crate::config(&folder, "probation = \"0s\"", site);
    let text = fs::read_to_string(&file).unwrap();
    let text = text.replace("state/shop", "home/state").replace("\"5m\"", "\"1s\"");
    fs::write(&file, text).unwrap();
    let server = Setup::config(&file).start();
    let reload = || Setup::with(&["reload", "--config", file.to_str().unwrap()]).run();
    assert_eq!(server.get("/").text(), "100M");
    let (state, aside) = (home.join("state"), home.join("aside"));
    let rounds: [(&str, &dyn Fn()); 2] = [
        ("50M", &|| symlink("/etc", &state).unwrap()),
        ("40M", &|| fs::write(&state, "").unwrap()),
    ];
    for (limit, replace) in rounds {
        fs::rename(&state, &aside).unwrap();
        replace();
        lchown(&state, Some(NOBODY), None).unwrap();
        php_ini(limit);
        let (status, told, why) = reload();
        assert_eq!(status, Some(0), "{told}{why}");
        assert!((told.clone() + &why).contains("site shop: has no PHP"), "{told}{why}");
        assert_eq!(server.get("/").status, 503, "{told}{why}");
        fs::remove_file(&state).unwrap();
        fs::rename(&aside, &state).unwrap();
        let (status, told, why) = reload();
        assert_eq!(status, Some(0), "{told}{why}");
        assert_eq!(server.get("/").text(), limit, "{told}{why}");
    }
    server.stop();
}

/// A process of the site's user that puts a file in the place of a folder again and again.
struct Spoiler(Child);

impl Spoiler {
    fn start(path: &Path) -> Spoiler {
        let program = "while (1) { rmdir $ARGV[0]; open(F, '>', $ARGV[0]) && close(F); \
                       unlink $ARGV[0] if rand() < 0.5; }";
        let mut command = Command::new("perl");
        command.args(["-e", program]).arg(path).uid(NOBODY).gid(NOBODY);
        Spoiler(command.spawn().unwrap())
    }
}

impl Drop for Spoiler {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Everybody who may write in the state folder can do so while the server starts PHP.
#[test]
fn a_site_that_spoils_its_folders_without_pause_does_not_keep_its_former_php() {
    if !has_php() || !is_root() {
        return;
    }
    let folder = Folder::with_script("echo ini_get('memory_limit');");
    let php_ini = |limit: &str| folder.file("php.ini", format!("memory_limit = {limit}\n"));
    php_ini("100M");
    for (number, name) in ["sessions", "uploads", "tmp"].into_iter().enumerate() {
        let site = format!(
            "[site.php]\nworkers = 1\nuser = \"nobody\"\nprivate_tmp = false\n\
             ini_file = \"php.ini\"\nini = {{ user_agent = \"{name}\" }}"
        );
        let file = crate::config(&folder, "probation = \"0s\"", &site);
        let server = Setup::config(&file).start();
        let state = folder.path().join("state/shop");
        server.get("/");
        let spoilers = [0; 2].map(|_| Spoiler::start(&state.join(name)));
        for round in 0..10 {
            let limit = format!("{}M", 101 + 10 * number + round);
            php_ini(&limit);
            let (status, told, why) =
                Setup::with(&["reload", "--config", file.to_str().unwrap()]).run();
            assert_eq!(status, Some(0), "{name}: {told}{why}");
            assert!(!(told.clone() + &why).contains("former configuration"), "{name}: {told}{why}");
            assert_eq!(server.get("/").text(), limit, "{name}: {told}{why}");
        }
        drop(spoilers);
        server.stop();
    }
}

/// A quota that the site's owner has used up, or a disk that is full.
#[test]
fn a_site_without_room_for_its_folders_has_its_new_php() {
    if !has_php() || !is_root() {
        return;
    }
    let folder = Folder::with_script("echo ini_get('memory_limit');");
    let php_ini = |limit: &str| folder.file("php.ini", format!("memory_limit = {limit}\n"));
    php_ini("100M");
    let file = on_small_disk(&folder, false);
    let Some(disk) = SmallDisk::mount(&folder) else {
        return;
    };
    let server = Setup::config(&file).start();
    assert_eq!(server.get("/").text(), "100M");
    let state = disk.0.join("state");
    fs::remove_dir_all(state.join("sessions")).unwrap();
    disk.fill();
    php_ini("101M");
    let (status, told, why) = Setup::with(&["reload", "--config", file.to_str().unwrap()]).run();
    assert_eq!(status, Some(0), "{told}{why}");
    assert_eq!(server.get("/").text(), "101M", "{told}{why}");
    let folder_of_sessions = state.join("sessions").display().to_string();
    let message = format!(
        "cannot create the folder {folder_of_sessions}: No space left on device (os error 28); PHP \
         starts without it, and its scripts have no such folder until the next start"
    );
    server.wait_for_log(&message);
    server.stop();
}

/// The disk of all sites is full, and their owners are not to blame.
#[test]
fn a_reload_while_the_disk_is_full_leaves_the_former_php() {
    if !has_php() || !is_root() || !has_own_tmp() {
        return;
    }
    // Not in /tmp: such a site shares /tmp with others.
    let place = format!("/var/lib/howdah-full-disk-{}", std::process::id());
    let folder = Folder::at(PathBuf::from(place));
    folder.file("index.php", "<?php echo ini_get('memory_limit');");
    let php_ini = |limit: &str| folder.file("php.ini", format!("memory_limit = {limit}\n"));
    php_ini("100M");
    let file = on_small_disk(&folder, true);
    let Some(disk) = SmallDisk::mount(&folder) else {
        return;
    };
    let server = Setup::config(&file).start();
    assert_eq!(server.get("/").text(), "100M");
    let reload = || Setup::with(&["reload", "--config", file.to_str().unwrap()]).run();
    let tmp = disk.0.join("state/tmp");
    fs::remove_dir_all(&tmp).unwrap();
    disk.fill();
    php_ini("101M");
    let (status, told, why) = reload();
    assert_eq!(status, Some(1), "{told}{why}");
    assert!(
        (told + &why).contains(&format!("the folder {} for its /tmp: No space", tmp.display()))
    );
    assert_eq!(server.get("/").text(), "100M");
    disk.empty();
    let (status, told, why) = reload();
    assert_eq!(status, Some(0), "{told}{why}");
    assert_eq!(server.get("/").text(), "101M");
    server.stop();
}

/// The configuration of a site whose state folder is on a [`SmallDisk`].
fn on_small_disk(folder: &Folder, private_tmp: bool) -> PathBuf {
    let site = format!(
        "[site.php]\nworkers = 1\nuser = \"nobody\"\nprivate_tmp = {private_tmp}\n\
         state_dir = \"small/state\"\nini_file = \"php.ini\""
    );
    let file = crate::config(folder, "probation = \"0s\"", &site);
    let text = fs::read_to_string(&file).unwrap().replace("state_dir = \"state/shop\"\n", "");
    fs::write(&file, text).unwrap();
    file
}

/// A small file system. Unmounted with the test.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// `None` where none can be mounted.
    fn mount(folder: &Folder) -> Option<SmallDisk> {
        let small = folder.folder("small");
        let disk = ["-t", "tmpfs", "-o", "size=64k,nr_inodes=12,mode=755", "small"];
        let mounted = Command::new("mount").args(disk).arg(&small).status().unwrap();
        if !mounted.success() {
            howdah_skip::skip!("no tmpfs can be mounted");
        }
        mounted.success().then_some(SmallDisk(small))
    }

    /// Takes all the room there is.
    fn fill(&self) {
        let taken = (0..100).map_while(|number| fs::File::create(self.file(number)).ok());
        assert!(taken.count() > 0);
    }

    /// Gives the room back.
    fn empty(&self) {
        (0..100).for_each(|number| _ = fs::remove_file(self.file(number)));
    }

    fn file(&self, number: u32) -> PathBuf {
        self.0.join(number.to_string())
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg("-l").arg(&self.0).status();
        assert!(unmounted.unwrap().success());
    }
}

/// The folder of a zygote that was killed, as a script could make it.
#[test]
fn a_site_that_fills_its_folder_for_uploads_delays_no_start() {
    if !has_php() {
        return;
    }
    let folder = Folder::with_script("echo 'served';");
    let file = crate::config(&folder, "", "[site.php]\nworkers = 1");
    Setup::config(&file).start().stop();
    let full = folder.path().join("state/shop/uploads/zygote-1-0");
    let owner = fs::metadata(full.parent().unwrap()).unwrap();
    let (was_there, server) = faster_than(Duration::from_millis(1500), || {
        fs::create_dir_all(full.join("3")).unwrap();
        for number in 0..1_000 {
            fs::write(full.join(format!("3/{number}")), "").unwrap();
        }
        for folder in [full.clone(), full.join("3")] {
            lchown(folder, Some(owner.uid()), None).unwrap();
        }
        let server = Setup::config(&file).start();
        (server.get("/").text() == "served" && full.join("3").exists(), server)
    });
    assert!(was_there, "it was emptied before the first request");
    wait_until("it is emptied beside the requests", || !full.exists());
    server.stop();
}
