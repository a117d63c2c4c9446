//! Disks that are full, or have no room for another file, while the server serves.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use howdah_sys::signal::SIGKILL;

use super::{RUN, Sites, can_run, has_mounts};
use crate::support::{Folder, Process, Setup, wait_until};

/// A small disk of its own at a folder.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(folder: PathBuf) -> SmallDisk {
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=1m,nr_inodes=100,mode=755", "small"])
            .arg(&folder)
            .status();
        assert!(mounted.unwrap().success());
        SmallDisk(folder)
    }

    /// Takes all files that the disk has left, then all bytes.
    fn fill(&self) {
        let folder = self.0.join("fill");
        fs::create_dir(&folder).unwrap();
        let files =
            (0..1000).map_while(|number| File::create(folder.join(number.to_string())).ok());
        let mut last = files.last().unwrap();
        while last.write_all(&[0; 512]).is_ok() {}
    }

    fn free(&self) {
        fs::remove_dir_all(self.0.join("fill")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg("-l").arg(&self.0).status();
        assert!(unmounted.unwrap().success());
    }
}

#[test]
fn full_disks_for_state_and_logs_stop_no_site() {
    if !can_run() || !has_mounts() {
        return;
    }
    let folder = Folder::at(PathBuf::from(format!("/var/lib/howdah-full-{}", std::process::id())));
    let state = SmallDisk::mount(folder.folder("state/two"));
    let logs = SmallDisk::mount(folder.folder("logs"));
    let mut text = "listen = [\"127.0.0.1:0\"]\ncontrol = \"control\"\n\
                    [log]\naccess = \"logs/access\"\nerror = \"logs/errors\"\n"
        .to_owned();
    for name in ["one", "two"] {
        folder.file(&format!("{name}/public/index.php"), RUN);
        text.push_str(&format!(
            "[[site]]\nname = \"{name}\"\nhosts = [\"{name}.example\"]\nroot = \"{name}/public\"\n\
             [site.php]\nworkers = 2\nstate_dir = \"state/{name}/pool\"\n"
        ));
    }
    let file = folder.file("howdah.toml", text);
    let server = Setup::config(&file).start();
    let sites = Sites { folder, server };
    let works = || {
        for site in ["one", "two"] {
            for _ in 0..10 {
                assert_eq!(sites.run_in(site, "error_log('a line'); echo 'fine';"), "fine");
            }
        }
        let session = "echo @session_start() ? 'session' : 'none'; $_SESSION['a'] = 1;";
        assert_eq!(sites.run_in("one", session), "session");
    };
    works();
    let access = |logs: &Path| fs::read_to_string(logs.join("access")).unwrap_or_default();
    wait_until("requests are logged", || !access(&logs.0).is_empty());

    state.fill();
    logs.fill();
    works();
    let write =
        "echo @file_put_contents(ini_get('session.save_path') . '/a', 'x') ? 'written' : 'full';";
    assert_eq!((sites.run(write), sites.run_in("one", write)), ("full".into(), "written".into()));
    let zygotes = sites.server.zygotes();
    zygotes.iter().for_each(|zygote| zygote.signal(SIGKILL));
    wait_until("the zygotes are gone", || !zygotes.iter().any(Process::lives));
    works();
    let front = sites.server.kill_front();
    wait_until("the front is gone", || !front.lives());
    works();
    let (code, told, errors) = Setup::with(&["reload", "--config", file.to_str().unwrap()]).run();
    assert_eq!(code, Some(0), "{told}{errors}");
    works();

    logs.free();
    state.free();
    let before = access(&logs.0).len();
    wait_until("requests are logged again", || {
        works();
        access(&logs.0).len() > before
    });
    assert_eq!(sites.run(write), "written");
    sites.server.stop();
    // Before their folder is removed.
    drop((state, logs));
}
