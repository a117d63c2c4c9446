//! Shared memory: System V segments, message queues, and `/dev/shm`.

use std::path::Path;

use howdah_sys::signal::{SIGHUP, SIGKILL, SIGUSR2};

use super::{Sites, can_run};
use crate::support::wait_until;

/// Returns whether pools can have shared memory of their own here. If not, says so.
fn has_own_memory() -> bool {
    use howdah_sys::shared_memory::{probe, probe_limits};
    let found = probe().is_ok() && probe_limits().is_ok();
    if !found {
        howdah_skip::skip!("pools cannot have shared memory of their own here");
    }
    found
}

/// A key that no other test uses.
fn key(number: u32) -> u32 {
    std::process::id() * 1000 + number
}

fn read(path: &str) -> String {
    format!("echo is_readable('{path}') ? file_get_contents('{path}') : 'closed';")
}

#[test]
fn another_site_neither_reads_nor_uses_up_shared_memory() {
    if !can_run() || !has_own_memory() {
        return;
    }
    // Both run as the same user.
    let sites = Sites::start("shm_size = \"1M\"");
    let (segment, queue) = (key(0), key(1));
    let leave = format!(
        "$s = shmop_open({segment}, 'c', 0666, 100); echo shmop_write($s, 'secret', 0);
        echo msg_send(msg_get_queue({queue}, 0666), 1, 'secret') ? 'sent' : 'not sent';"
    );
    assert_eq!(sites.run(&leave), "6sent");
    let look = format!(
        "$s = @shmop_open({segment}, 'a', 0, 0); echo $s ? shmop_read($s, 0, 6) : 'closed';
        echo msg_queue_exists({queue}) ? 'a queue' : 'no queue';"
    );
    assert_eq!(sites.run(&look), "secreta queue");
    assert_eq!(sites.run_in("one", &look), "closedno queue");

    let path = format!("/dev/shm/howdah-isolation-{}", std::process::id());
    assert_eq!(sites.run(&format!("echo file_put_contents('{path}', 'secret');")), "6");
    assert_eq!(sites.run(&read(&path)), "secret");
    assert_eq!(sites.run_in("one", &read(&path)), "closed");
    assert!(!Path::new(&path).exists());

    let fill = "@file_put_contents('/dev/shm/fill', str_repeat('x', 4 << 20));
        echo filesize('/dev/shm/fill') < 1 << 20 ? 'full' : 'endless';";
    assert_eq!(sites.run(fill), "full");
    let files = "for ($n = 0; $n < 1000 && @touch(\"/dev/shm/$n\"); $n++); echo $n < 256;";
    assert_eq!(sites.run(files), "1");
    let segments = |bytes: u32| {
        format!(
            "for ($n = 10; $n < 20 && @shmop_open({} + $n, 'n', 0600, {bytes}); $n++);
            echo $n - 10;",
            key(0)
        )
    };
    assert_eq!(sites.run(&segments(300_000)), "3");
    // The other site has its room.
    let room = "echo file_put_contents('/dev/shm/mine', str_repeat('x', 8 << 20));";
    assert_eq!(sites.run_in("one", room), "8388608");
    assert_eq!(sites.run_in("one", &segments(1 << 20)), "10");
    sites.server.stop();
}

#[test]
fn a_strict_pool_has_its_own_shared_memory() {
    if !can_run() || !has_own_memory() {
        return;
    }
    let sites = Sites::start("sandbox = \"strict\"");
    let path = format!("/dev/shm/howdah-strict-{}", std::process::id());
    assert_eq!(sites.run(&format!("echo file_put_contents('{path}', 'mine');")), "4");
    assert_eq!(sites.run(&read(&path)), "mine");
    assert!(!Path::new(&path).exists());
    sites.server.stop();
    // The machine's own stays closed.
    let sites = Sites::start("sandbox = \"strict\"\nprivate_ipc = false");
    assert_eq!(
        sites.run(&format!("echo @file_put_contents('{path}', 'x') ? 'open' : 'no';")),
        "no"
    );
    sites.server.stop();
}

#[test]
fn shared_memory_outlives_a_crash_a_reload_and_a_new_program() {
    if !can_run() || !has_own_memory() {
        return;
    }
    let sites = Sites::start("");
    let (server, path) = (&sites.server, "/dev/shm/kept");
    let leave = format!(
        "$s = shm_attach({}, 10000, 0600); echo shm_put_var($s, 1, 'kept');
        echo file_put_contents('{path}', 'kept');",
        key(100)
    );
    assert_eq!(sites.run(&leave), "14");
    let look = format!(
        "$s = shm_attach({}, 10000, 0600); echo shm_has_var($s, 1) ? shm_get_var($s, 1) : 'lost';
        {}",
        key(100),
        read(path)
    );
    let zygotes = server.zygotes();
    zygotes.iter().for_each(|zygote| zygote.signal(SIGKILL));
    wait_until("the zygotes are gone", || !zygotes.iter().any(crate::support::Process::lives));
    assert_eq!(sites.run(&look), "keptkept", "after a crash");

    for (signal, done) in [(SIGHUP, "reloaded; serving"), (SIGUSR2, "taken over; serving")] {
        let zygotes = server.zygotes();
        server.signal(signal);
        server.wait_for_log(done);
        wait_until("the former zygotes are gone", || {
            !zygotes.iter().any(crate::support::Process::lives)
        });
        assert_eq!(sites.run(&look), "keptkept", "{done}");
        assert_eq!(sites.run_in("one", &read(path)), "closed", "{done}");
    }
    sites.server.stop();
}

#[test]
fn common_shared_memory_can_be_asked_for() {
    if !can_run() || !has_own_memory() {
        return;
    }
    let sites = Sites::start_as("private_ipc = false", "private_ipc = false", None);
    let path = format!("/dev/shm/howdah-common-{}", std::process::id());
    assert_eq!(sites.run(&format!("echo file_put_contents('{path}', 'x');")), "1");
    assert_eq!(sites.run_in("one", &read(&path)), "x");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "x");
    std::fs::remove_file(&path).unwrap();
    let leave = format!(
        "$s = shmop_open({0}, 'c', 0666, 100); echo shmop_write($s, 'shared', 0);",
        key(200)
    );
    assert_eq!(sites.run(&leave), "6");
    let take = format!(
        "$s = shmop_open({0}, 'w', 0, 0); echo shmop_read($s, 0, 6); shmop_delete($s);",
        key(200)
    );
    assert_eq!(sites.run_in("one", &take), "shared");
    let told = crate::support::status(&sites.folder.path().join("howdah.toml"));
    assert!(told.contains("common shared memory"), "{told}");
    sites.server.stop();
}
