//! Folders of other sites that are not there for a pool, control groups and terminals.

use std::os::unix::fs::PermissionsExt;

use super::{CALLS, Sites, can_run, has_mounts};

/// A script that tries on a path all that Landlock does not check: names and sizes, changes of its
/// attributes, watches.
fn attempts(path: &str) -> String {
    format!(
        "{CALLS}
        $i = FFI::cdef('int inotify_init(void); int inotify_add_watch(int, const char *, int);');
        echo @is_dir('{path}/.') ? 'found ' : '', @filesize('{path}/.') ? 'size ' : '',
            @chmod('{path}', 0700) ? 'chmod ' : '', @touch('{path}', 1) ? 'touch ' : '',
            $i->inotify_add_watch($i->inotify_init(), '{path}', 0xFFF) >= 0 ? 'watch ' : '', 'end';"
    )
}

#[test]
fn a_pool_does_not_see_the_folders_of_another_of_its_user() {
    if !can_run() || !has_mounts() {
        return;
    }
    for level in ["standard", "strict"] {
        let sandbox = format!("sandbox = \"{level}\"");
        let sites = Sites::start_as(&sandbox, &sandbox, None);
        for (own, other) in [("one", "two"), ("two", "one")] {
            // As its owner could.
            let public = sites.path(&format!("{other}/public"));
            let user = std::fs::metadata(sites.path(&format!("state/{own}"))).unwrap();
            std::os::unix::fs::chown(&public, Some(owner(&user)), None).unwrap();
            let before = std::fs::metadata(&public).unwrap();
            // The pool that was started first does not see the state of the second either.
            let folders = [other, &format!("{other}/public"), &format!("state/{other}/sessions")];
            for folder in folders {
                let told = sites.run_in(own, &attempts(&sites.path(folder)));
                assert_eq!(told, "end", "{level}: {own} {folder}");
            }
            let after = std::fs::metadata(&public).unwrap();
            assert_eq!(after.permissions().mode(), before.permissions().mode());
            assert_eq!(after.modified().unwrap(), before.modified().unwrap());
            let told = sites.run_in(own, &attempts(&sites.path(&format!("{own}/public"))));
            assert!(told.starts_with("found size ") && told.ends_with("watch end"), "{told}");
        }
        // The front sends the files.
        sites.folder.file("one/public/a.txt", "served");
        assert_eq!(sites.get("one", "/a.txt"), (200, "served".to_owned()));
        sites.server.stop();
    }
}

fn owner(found: &std::fs::Metadata) -> u32 {
    std::os::unix::fs::MetadataExt::uid(found)
}

#[test]
fn a_pool_sees_what_is_opened_to_it_in_the_folder_of_another() {
    if !can_run() || !has_mounts() {
        return;
    }
    let sites = Sites::start("readable = [\"one/settings\"]");
    let told = sites.run(&format!("echo file_get_contents('{}');", sites.path("one/settings")));
    assert_eq!(told, "secret of one");
    let told = sites.run(&attempts(&sites.path("state/one/sessions")));
    assert_eq!(told, "end");
    sites.server.stop();
}

#[test]
fn a_pool_does_not_see_the_control_groups_of_others() {
    if !can_run() || !has_mounts() {
        return;
    }
    let sites = Sites::start("");
    let server = sites.server.supervisor().number();
    let find = format!("find /sys/fs/cgroup -path '*howdah-*-{server}.*' -name cgroup.procs");
    let seen = std::process::Command::new("sh").args(["-c", &find]).output().unwrap().stdout;
    if seen.is_empty() {
        howdah_skip::skip!("there are no control groups here");
    }
    assert_eq!(sites.run(&format!("echo shell_exec(\"{find} 2>/dev/null\"), 'end';")), "end");
    sites.server.stop();
}

#[test]
fn a_pool_has_few_terminals() {
    if !can_run() || !has_mounts() {
        return;
    }
    if !std::path::Path::new("/dev/pts/ptmx").exists() {
        return howdah_skip::skip!("this machine has no file system of terminals");
    }
    let sites = Sites::start("");
    let count = "for ($n = 0; $n < 200 && $all[] = @fopen('/dev/ptmx', 'r+'); $n++); echo $n;";
    assert_eq!(sites.run(count), "64");
    let told = sites.run("echo shell_exec('script -qc \"echo a\" /dev/null </dev/null');");
    assert_eq!(told.trim(), "a");
    sites.server.stop();
}
