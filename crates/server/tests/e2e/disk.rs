//! Slow readers and uploads share a disk: it never fills, and nobody else notices.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::site::far_limits;
use crate::support::{Folder, Server, Setup, has_php, is_root, status, wait_until};
use crate::wire::Wire;

/// More than the sockets of both ends hold.
const LENGTH: usize = 20_000_000;
const BIG: &str = "<?php for ($i = 0; $i < 4000; $i++) echo str_repeat(chr(97 + $i % 26), 5000);";

/// Goes on, without a reader, until there is a file `end`.
const HOLD: &str =
    "<?php ignore_user_abort(true); while (ob_get_level()) ob_end_flush(); echo 'begun'; flush();
                    while (!file_exists(__DIR__ . '/end')) { clearstatcache(); usleep(1000); }";

/// Two sites, `shop` and `blog`, each with four workers.
struct Sites {
    server: Server,
    config: PathBuf,
    folder: Folder,
}

impl Sites {
    fn start(limits: &str, shop: &str, temporary: Option<&Path>) -> Sites {
        let folder = Folder::new();
        for (name, content) in [
            ("big.php", BIG),
            ("length.php", "<?php echo strlen(file_get_contents('php://input'));"),
            ("hold.php", HOLD),
        ] {
            folder.file(&format!("public/{name}"), content);
        }
        let site = |name: &str, more: &str| {
            format!(
                "[[site]]\nname = \"{name}\"\nhosts = [\"{name}.example\"]\nroot = \"public\"\n\
                 {more}\n\
                 [site.php]\nmode = \"static\"\nworkers = 4\nstate_dir = \"state-{name}\"\n\
                 queue_timeout = \"5m\"\nrequest_timeout = \"5m\"\n\
                 ini = {{ post_max_size = \"100M\", memory_limit = \"256M\" }}\n"
            )
        };
        let text = format!(
            "listen = [\"127.0.0.1:0\"]\nthreads = 2\ncontrol = \"control\"\n[limits]\n{}{limits}\n\
             [log]\naccess = \"off\"\n{}{}",
            far_limits(limits),
            site("shop", shop),
            site("blog", "")
        );
        let config = folder.file("howdah.toml", text);
        let setup = Setup::config(&config);
        let setup = match temporary {
            Some(path) => setup.environment("TMPDIR", path.to_str().unwrap()),
            None => setup,
        };
        Sites { server: setup.start(), config, folder }
    }

    /// A client that asks `shop` for much and reads nothing.
    fn slow(&self) -> Wire {
        let mut wire = Wire::connect(self.server.address());
        wire.request("GET", "/big.php", &[("Host", "shop.example")], b"");
        wire
    }

    fn upload(&self, site: &str, length: usize) -> u16 {
        let mut wire = Wire::connect(self.server.address());
        let host = format!("{site}.example");
        // A server that refuses an upload need not read all of it.
        wire.send(format!(
            "POST /length.php HTTP/1.1\r\nHost: {host}\r\nContent-Length: {length}\r\n\r\n"
        ));
        wire.try_send(vec![b'u'; length]);
        let reply = wire.reply("POST");
        if reply.status == 200 {
            assert_eq!(reply.text(), length.to_string());
        }
        reply.status
    }

    /// The bytes of temporary files, and their limit.
    fn usage(&self) -> (u64, u64) {
        let told = status(&self.config);
        let (_, rest) = told.split_once("temporary files: ").unwrap_or_else(|| panic!("{told}"));
        let (used, rest) = rest.split_once(" of ").unwrap();
        (used.parse().unwrap(), rest.split_once(' ').unwrap().0.parse().unwrap())
    }

    fn is_returned(&self) {
        wait_until("no temporary file is left", || self.usage().0 == 0);
    }
}

fn is_complete(wire: &mut Wire) {
    let body = wire.reply("GET").body;
    assert_eq!(body.len(), LENGTH);
    let parts = body.chunks(5000).enumerate();
    let right = |(part, bytes): (usize, &[u8])| bytes.iter().all(|&b| b == 97 + (part % 26) as u8);
    assert!(parts.into_iter().all(right), "the bytes are in order");
}

#[test]
fn slow_readers_of_one_site_take_no_more_disk_than_they_may_and_nothing_is_lost() {
    if !has_php() {
        return;
    }
    let sites = Sites::start("spill_total = \"6M\"", "spill_total = \"2M\"", None);
    let mut slow: Vec<Wire> = (0..4).map(|_| sites.slow()).collect();
    sites.server.wait_for_log("warning shop: a script waits for its slow client");
    for _ in 0..20 {
        let (used, limit) = sites.usage();
        assert!(used <= 2 << 20 && limit == 6 << 20, "{used} of {limit}");
    }
    // All four workers of the site wait; the other site has its own, and its share of the disk.
    assert_eq!(sites.upload("blog", 1 << 20), 200);
    slow.iter_mut().for_each(is_complete);
    sites.is_returned();
}

#[test]
fn an_upload_beyond_the_budget_of_its_site_is_refused_and_another_sites_is_taken() {
    if !has_php() {
        return;
    }
    let sites = Sites::start("spill_total = \"64M\"", "spill_total = \"1M\"", None);
    assert_eq!(sites.upload("shop", 800_000), 200);
    assert_eq!(sites.upload("shop", 4_000_000), 507);
    sites
        .server
        .wait_for_log("the site's temporary files have as many bytes as its `spill_total`");
    assert_eq!(sites.upload("blog", 4_000_000), 200);
    sites.is_returned();
    assert_eq!(sites.upload("shop", 800_000), 200);
}

#[test]
fn the_budget_is_returned_when_readers_vanish_workers_die_and_the_server_reloads() {
    if !has_php() {
        return;
    }
    let sites = Sites::start("spill_total = \"32M\"\nspill_file = \"1M\"", "", None);
    let used = || sites.usage().0;
    let slow = [sites.slow(), sites.slow()];
    wait_until("something is spooled", || used() > 1_000_000);
    drop(slow);
    sites.is_returned();

    let slow = [sites.slow(), sites.slow()];
    wait_until("something is spooled", || used() > 1_000_000);
    for zygote in sites.server.zygotes() {
        for worker in zygote.children() {
            worker.signal(howdah_sys::signal::SIGKILL);
        }
    }
    drop(slow);
    sites.is_returned();

    wait_until("workers are there", || {
        sites.server.zygotes().iter().all(|zygote| zygote.children().len() == 4)
    });
    let mut slow = sites.slow();
    wait_until("something is spooled", || used() > 500_000);
    sites.server.signal(howdah_sys::signal::SIGHUP);
    sites.server.wait_for_log("reload");
    is_complete(&mut slow);
    sites.is_returned();
}

/// A small file system of its own.
struct SmallDisk(Folder);

impl SmallDisk {
    fn mount(size: &str) -> Option<SmallDisk> {
        let folder = Folder::writable();
        let options = format!("size={size},mode=1777");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "howdah-test"])
            .arg(folder.path())
            .status()
            .unwrap();
        if !mounted.success() {
            howdah_skip::skip!("a file system cannot be mounted here");
            return None;
        }
        Some(SmallDisk(folder))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.0.path()).status();
    }
}

#[test]
fn a_full_disk_makes_scripts_wait_and_refuses_uploads_and_loses_nothing() {
    if !has_php() || !is_root() {
        return;
    }
    let Some(disk) = SmallDisk::mount("3M") else {
        return;
    };
    let sites = Sites::start("spill_total = \"1G\"", "spill_total = \"1G\"", Some(disk.0.path()));
    let mut slow: Vec<Wire> = (0..3).map(|_| sites.slow()).collect();
    sites.server.wait_for_log("a script waits for its slow client");
    sites.server.wait_for_log("No space left on device");
    // A write that finds no room counts until it has failed.
    wait_until("only what is on the disk is counted", || sites.usage().0 <= 3 << 20);
    assert_eq!(sites.upload("blog", 10_000_000), 507);
    assert_eq!(sites.upload("blog", 10_000), 200);
    slow.iter_mut().for_each(is_complete);
    sites.is_returned();
    drop(slow);
    assert_eq!(sites.upload("blog", 1_000_000), 200);
}

#[test]
fn without_a_setting_half_of_the_free_disk_is_enough() {
    if !has_php() || !is_root() {
        return;
    }
    let Some(disk) = SmallDisk::mount("8M") else {
        return;
    };
    let sites = Sites::start("", "", Some(disk.0.path()));
    let mut slow: Vec<Wire> = (0..2).map(|_| sites.slow()).collect();
    sites.server.wait_for_log("a script waits for its slow client");
    let (used, limit) = sites.usage();
    // Half of the disk, and of what was counted and not yet written when the disk was asked.
    assert!(used <= limit && limit <= 5 << 20, "{used} of {limit}");
    assert_eq!(sites.upload("blog", 500_000), 200);
    slow.iter_mut().for_each(is_complete);
    sites.is_returned();
}

#[test]
fn a_disk_that_was_full_takes_uploads_again() {
    if !has_php() || !is_root() {
        return;
    }
    let Some(disk) = SmallDisk::mount("8M") else {
        return;
    };
    let filler = disk.0.path().join("filler");
    // `fs::write` fails where the disk is full, and leaves the file.
    assert!(std::fs::write(&filler, vec![0; 9 << 20]).is_err());
    let sites = Sites::start("", "", Some(disk.0.path()));
    assert_eq!(sites.upload("blog", 500_000), 507);
    std::fs::remove_file(filler).unwrap();
    wait_until("there is room again", || sites.upload("blog", 500_000) == 200);
    sites.is_returned();
}

#[test]
fn an_upload_counts_for_as_long_as_its_script_has_it_even_if_the_client_is_gone() {
    if !has_php() {
        return;
    }
    let sites = Sites::start("spill_total = \"32M\"", "", None);
    let mut wire = Wire::connect(sites.server.address());
    wire.request("POST", "/hold.php", &[("Host", "shop.example")], &vec![b'u'; 1_000_000]);
    // The rest of the response stays unread, so that the kernel resets the connection.
    wait_until("the script has begun", || {
        let mut room = [0; 4096];
        let count = wire.stream().peek(&mut room).unwrap();
        room[..count].windows(5).any(|part| part == b"begun")
    });
    drop(wire);
    wait_until("the client is gone", || status(&sites.config).contains("connections 0 + 0"));
    for _ in 0..20 {
        assert!(sites.usage().0 >= 1_000_000, "{:?}", sites.usage());
    }
    sites.folder.file("public/end", "");
    sites.is_returned();
}
