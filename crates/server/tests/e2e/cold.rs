//! Files that are on the disk only: they are read by threads that may wait for the disk.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;

use howdah_sys::page_cache;

use crate::site::Site;
use crate::support::{is_root, wait_until};

const CONFIG: &str = "listen = [\"127.0.0.1:0\"]\nthreads = 2\ncontrol = \"control\"\n\
                      [log]\naccess = \"off\"\n[[site]]\nroot = \"public\"\nphp = false\n";

#[test]
fn files_on_the_disk_only_are_read_by_threads_that_may_wait() {
    if !is_root() {
        return;
    }
    let site = Site::configured(&[("warm.txt", "warm")], CONFIG);
    // Others may read what a test has just written, or keep it from being removed from memory.
    for (kind, length, threads) in [("small", 10_000, "files-"), ("large", 3_000_000, "front-disk")]
    {
        let content: String = ('a'..='z').cycle().take(length).collect();
        let mut attempts = 0;
        wait_until("another thread has read a cold file", || {
            attempts += 1;
            let name = format!("{kind}-{attempts}.txt");
            let path = site.root().join(&name);
            std::fs::write(&path, &content).unwrap();
            if !is_cold(&path) {
                howdah_skip::skip!("a file system in memory has nothing on the disk only");
                return true;
            }
            let before = read_by(&site, threads);
            assert_eq!(site.get(&format!("/{name}")).text(), content);
            assert_eq!(site.get("/warm.txt").text(), "warm");
            std::fs::remove_file(path).unwrap();
            // The kernel reads ahead, so the threads read the beginning at least.
            read_by(&site, threads) > before
        });
    }
}

/// Removes a file from the kernel's memory. `false` where that has no effect.
fn is_cold(path: &Path) -> bool {
    let is_removed = |path: &Path| {
        let file = File::open(path).unwrap();
        page_cache::remove(file.as_fd()).unwrap();
        file
    };
    is_removed(path);
    // The file itself is not asked: that would begin to read it.
    let canary = path.with_extension("canary");
    std::fs::write(&canary, [7; 10_000]).unwrap();
    page_cache::lacks(is_removed(&canary).as_fd(), 5000)
}

/// Bytes that the front's threads with that name have read.
fn read_by(site: &Site, name: &str) -> u64 {
    let front = site.server.front();
    front
        .bytes_read_by_threads(|thread| thread.starts_with(name))
        .expect("root may see it")
}
