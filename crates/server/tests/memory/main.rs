//! A limit of memory that becomes smaller while the server runs. Nothing runs beside this program:
//! where processors are short, workers measure themselves and end too late to tell anything.

#![allow(clippy::unwrap_used)] // Whatever is not as a test expects makes it fail.

#[path = "../support/mod.rs"]
#[allow(unused_imports)] // Of what other test programs use.
mod support;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use howdah_sys::control_groups::MountedHierarchy;

use support::folder::next_number;
use support::{Client, Folder, HOWDAH, Server, Setup, has_php, is_root, wait_until};

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
        howdah_skip::skip!("this process cannot make a control group for memory");
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

/// Sends `count` requests at once. Fails unless each of them gets its page.
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
    let text = format!(
        "listen = [\"127.0.0.1:0\"]\ncontrol = \"control\"\n[log]\naccess = \"off\"\n[[site]]\n\
         name = \"shop\"\nroot = \"{}\"\n[site.php]\nstate_dir = \"state/shop\"\n\
         mode = \"auto\"\nworkers = 64\nqueue = 500\nqueue_timeout = \"5m\"\n",
        folder.path().display()
    );
    let server = Setup::config(&folder.file("howdah.toml", text))
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
