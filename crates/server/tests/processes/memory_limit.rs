//! The memory of workers: a limit that becomes smaller while the server runs, and what a former
//! generation has measured.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use howdah_sys::control_groups::MountedHierarchy;

use crate::config;
use crate::support::folder::next_number;
use crate::support::{Client, Folder, HOWDAH, Server, Setup, has_php, is_root, status, wait_until};

const MIB: u64 = 1 << 20;

/// A control group for a server, with a limit of memory. Removed with the test.
struct MemoryGroup {
    folder: PathBuf,
    limit: &'static str,
}

impl MemoryGroup {
    /// `None` where this machine gives no such group.
    fn new(bytes: u64) -> Option<MemoryGroup> {
        let hierarchies = MountedHierarchy::of_this_process().unwrap();
        for hierarchy in hierarchies {
            let name = format!("howdah-test-{}-{}", std::process::id(), next_number());
            let folder = hierarchy.own.join(name);
            if fs::create_dir(&folder).is_err() {
                continue;
            }
            let limits = ["memory.limit_in_bytes", "memory.max"];
            match limits.into_iter().find(|limit| folder.join(limit).exists()) {
                Some(limit) => {
                    let group = MemoryGroup { folder, limit };
                    group.set_limit(bytes);
                    return Some(group);
                }
                None => fs::remove_dir(&folder).unwrap(),
            }
        }
        eprintln!("skipped: this process cannot make a control group for memory");
        None
    }

    fn set_limit(&self, bytes: u64) {
        fs::write(self.folder.join(self.limit), bytes.to_string()).unwrap();
    }

    /// A program that starts howdah in the group.
    fn howdah(&self, folder: &Folder) -> PathBuf {
        let group = self.folder.join("cgroup.procs");
        let script = format!("#!/bin/sh\necho $$ > {}\nexec {HOWDAH} \"$@\"\n", group.display());
        folder.program("howdah-in-group", script)
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        wait_until("the group is empty", || fs::remove_dir(&self.folder).is_ok());
    }
}

/// Sends so many requests at once. Fails unless each of them gets its page.
fn all_get_pages(server: &Server, count: usize) {
    let client = |_| {
        let mut client = Client::connect(server.address());
        client.ask("/").unwrap();
        client
    };
    let mut clients: Vec<Client> = (0..count).map(client).collect();
    let statuses = clients.iter_mut().map(|client| client.answer().unwrap().status);
    let failed: Vec<u16> = statuses.filter(|status| *status != 200).collect();
    assert!(failed.is_empty(), "{} of {count} requests failed: {failed:?}", failed.len());
}

#[test]
fn requests_after_a_rest_in_which_the_memory_limit_was_halved_are_not_lost() {
    if !has_php() || !is_root() {
        return;
    }
    let script = "$text = str_repeat('x', 12 << 20); usleep(300000); echo strlen($text);";
    let folder = Folder::with_script(script);
    let Some(group) = MemoryGroup::new(512 * MIB) else {
        return;
    };
    let site = "[site.php]\nmode = \"auto\"\nworkers = 64\nqueue = 500";
    let server = Setup::config(&config(&folder, "", site))
        .program(&group.howdah(&folder))
        .start();
    let workers = || server.workers().len();
    wait_until("as many workers as the memory has room for", || {
        all_get_pages(&server, 60);
        workers() >= 20
    });
    // Workers measure themselves when they have rested for a second.
    std::thread::sleep(Duration::from_secs(3));
    group.set_limit(256 * MIB);
    all_get_pages(&server, 60);
    wait_until("the workers that are too many have ended", || workers() <= 16);
    server.stop();
}

/// The sum of memory of the pool.
fn memory_sum(file: &Path) -> serde_json::Value {
    let (_, told, errors) =
        Setup::with(&["status", "--json", "--config", &file.display().to_string()]).run();
    let all: serde_json::Value = serde_json::from_str(&told).expect(&errors);
    let sites = all["sites"].as_array().unwrap();
    let shop = sites.iter().find(|site| site["name"] == "shop").unwrap();
    shop["pool"]["memory_sum"].clone()
}

#[test]
fn a_new_generation_knows_what_the_former_one_has_measured_of_its_workers() {
    if !has_php() {
        return;
    }
    let folder = Folder::with_script("$text = str_repeat('x', 6 << 20); echo 'page';");
    let with = |precision: u32| {
        let site = format!("[site.php]\nini = {{ precision = {precision} }}");
        config(&folder, "probation = \"0s\"", &site)
    };
    let file = with(7);
    let server = Setup::config(&file).start();
    let each = || memory_sum(&file)["per_worker"].as_u64().unwrap() / MIB;
    let reload = || {
        let (status, _, told) =
            Setup::with(&["reload", "--config", &file.display().to_string()]).run();
        assert_eq!(status, Some(0), "{told}");
        wait_until("the new one has looked", || memory_sum(&file)["is_former"].is_boolean());
    };
    assert_eq!(memory_sum(&file)["is_former"], false);
    assert_eq!(server.get("/").text(), "page");
    wait_until("a worker has measured itself", || (7..32).contains(&each()));
    reload();
    assert_eq!(memory_sum(&file)["is_former"], true, "{}", memory_sum(&file));
    assert!((7..32).contains(&each()), "{}", memory_sum(&file));
    assert!(status(&file).contains(" each, as measured before\n"), "{}", status(&file));
    assert_eq!(server.get("/").text(), "page");
    wait_until("its own script counts", || memory_sum(&file)["is_former"] == false);
    // No reload: the zygote has died.
    server.kill_zygote();
    wait_until("the next one has looked", || memory_sum(&file)["is_former"] == true);
    assert!(status(&file).contains(" each, as measured before\n"), "{}", status(&file));
    assert_eq!(server.get("/").text(), "page");
    wait_until("its own script counts", || memory_sum(&file)["is_former"] == false);
    // With another ini the scripts may need anything.
    with(8);
    reload();
    assert_eq!((&memory_sum(&file)["is_former"], each()), (&false.into(), 64));
    server.stop();
}
