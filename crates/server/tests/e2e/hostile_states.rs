//! Pools in states from which their slots do not come back by themselves.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::site::Site;
use crate::support::load::Raised;
use crate::support::{Process, has_php, is_root, wait_until};
use crate::wire::Wire;

const OK: (&str, &str) = ("ok.php", "<?php echo 'ok';");
/// `SIGSTOP` of Linux.
const STOP: i32 = 19;
/// More requests than a pool of two workers has slots.
const MORE_THAN_SLOTS: usize = 10;

/// Waits until its client is gone, writes `state` over the state word of its slot, and goes on as
/// `end` says. The word follows the words of workers and threads; the front's word that tells that
/// the client is gone is 72 bytes behind it.
const FORGE: (&str, &str) = (
    "forge.php",
    "<?php ignore_user_abort(true); while (ob_get_level()) ob_end_clean();
     foreach (file('/proc/self/maps') as $line)
         if (str_contains($line, 'howdah-pool') && preg_match('/^([0-9a-f]+)-[0-9a-f]+ rw/', \
     $line, $m)) $from = hexdec($m[1]);
     $memory = fopen('/proc/self/mem', 'r+');
     stream_set_write_buffer($memory, 0); stream_set_read_buffer($memory, 0);
     function word(int $at): int {
         fseek($GLOBALS['memory'], $at);
         return unpack('P', fread($GLOBALS['memory'], 8))[1];
     }
     for ($at = $from; $at < $from + 8192; $at += 64) {
         $state = word($at);
         $is_taken = ($state & 15) === 2 && $state >> 32 > 0 && $state >> 32 < 1000;
         // When the request was begun, and queued: nanoseconds of the machine's clock.
         if ($is_taken && word($at + 32) > 1e9 && word($at + 80) > 1e9) { $own = $at; break; }
     }
     if (!isset($own)) exit('no slot was found');
     while (!(word($own + 72) & 0xFFFFFFFF)) { echo 'x'; flush(); usleep(1000); }
     fseek($memory, $own);
     fwrite($memory, $_GET['state'] === 'queued' ? pack('P', word($own) & (-1 << 32) | 1) : \
     str_repeat(chr(255), 8));
     touch($_GET['in'] . '/forged-' . $_GET['n']);
     if ($_GET['end'] === 'dies') posix_kill(getmypid(), 9);
     for (;;) sleep(60);",
);

/// A site whose scripts may write to the memory of their processes.
fn site() -> Site {
    Site::with_php(
        &[OK, FORGE],
        "workers = 2\nqueue_timeout = \"1s\"\nrequest_timeout = \"1s\"\nsandbox = \"off\"",
    )
}

fn waits_for_the_next_pool(site: &Site, zygote: Process) {
    wait_until("the pool is given up", || {
        let _ = site.get("/ok.php");
        !zygote.lives()
    });
    wait_until("the pool serves again", || site.get("/ok.php").status == 200);
}

/// Clients leave, and scripts forge the words that would tell the front that they have ended.
#[test]
fn slots_whose_state_is_forged_after_their_clients_have_gone_cost_the_site_nothing() {
    if !has_php() {
        return;
    }
    for (state, end) in [("ones", "dies"), ("ones", "stays"), ("queued", "stays")] {
        let site = site();
        wait_until("both workers are there", || site.server.workers().len() == 2);
        let (front, zygote) = (site.server.front(), site.server.zygote());
        for n in 0..MORE_THAN_SLOTS {
            let forged = site.scratch().join(format!("forged-{n}"));
            let target = site.awaiting("/forge.php");
            let target = format!("{target}&state={state}&end={end}&n={n}");
            let mut wire = site.connect();
            wire.request("GET", &target, &[], b"");
            wait_until("a script runs, or the pool is given up", || {
                !wire.is_silent_for(Duration::from_millis(1)) || !zygote.lives()
            });
            drop(wire);
            let is_over = || !zygote.lives() || site.server.zygote() != zygote;
            // Two workers that stay are busy for ever.
            let is_busy = n > 1 && end == "stays";
            wait_until("the word is forged", || is_busy || forged.exists() || is_over());
            if is_over() {
                break;
            }
        }
        waits_for_the_next_pool(&site, zygote);
        assert_eq!(site.server.front(), front, "{state} {end}");
    }
}

/// The zygote cleans the slots of requests that were taken back with their content. Without an
/// answer of the zygote there is no slot in the end, and no request whose time limit would show it.
#[test]
fn a_pool_that_is_stopped_while_uploads_are_taken_back_is_replaced() {
    if !has_php() {
        return;
    }
    let site = site();
    wait_until("both workers are there", || site.server.workers().len() == 2);
    assert_eq!(site.get("/ok.php").text(), "ok");
    let (front, zygote) = (site.server.front(), site.server.zygote());
    let stopped: Vec<Process> = site.server.workers().into_iter().chain([zygote]).collect();
    stopped.iter().for_each(|process| process.signal(STOP));
    let is_stopped =
        |process: &Process| process.status("State").is_some_and(|state| state.starts_with('T'));
    wait_until("all are stopped", || stopped.iter().all(is_stopped));
    let content = vec![b'x'; 2 << 20];
    let uploads: Vec<Wire> = (0..MORE_THAN_SLOTS)
        .map(|_| {
            let mut wire = site.connect();
            wire.request("POST", "/ok.php", &[], &content);
            wire
        })
        .collect();
    // Each is refused after `queue_timeout`, or has left before.
    for mut wire in uploads {
        assert_ne!(wire.reply("POST").status, 200);
    }
    waits_for_the_next_pool(&site, zygote);
    assert_eq!(site.server.front(), front);
}

/// The words of the queue say that requests are taken all the time, as a hostile thread of a worker
/// can make them say. Nobody is answered.
#[test]
fn a_pool_that_takes_requests_and_answers_none_is_replaced() {
    if !has_php() || !is_root() {
        return;
    }
    let site = site();
    wait_until("both workers are there", || site.server.workers().len() == 2);
    assert_eq!(site.get("/ok.php").text(), "ok");
    let (front, zygote) = (site.server.front(), site.server.zygote());
    let workers = site.server.workers();
    let queue = Queue::of(workers[0]);
    workers.iter().for_each(|worker| worker.signal(STOP));
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _end = Raised(&is_over);
        // Requests come and go all the time, so that the words move between any two looks.
        for number in 0..24 {
            let is_over = &is_over;
            let site = &site;
            scope.spawn(move || {
                std::thread::sleep(number * Duration::from_millis(110));
                while !is_over.load(Ordering::Relaxed) {
                    let _ = site.get("/ok.php");
                }
            });
        }
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) && queue.take_all() {
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        wait_until("the pool is given up", || !zygote.lives());
        is_over.store(true, Ordering::Relaxed);
    });
    wait_until("the pool serves again", || site.get("/ok.php").status == 200);
    assert_eq!(site.server.front(), front);
}

/// The queue of a pool's region, seen from outside.
struct Queue {
    memory: File,
    /// The place of the number of entries taken.
    head: u64,
}

impl Queue {
    /// The place of the number of entries put in, after `head`.
    const TAIL: u64 = 64;

    /// The queue that a worker has mapped.
    fn of(worker: Process) -> Queue {
        let folder = format!("/proc/{}", worker.number());
        let maps = fs::read_to_string(format!("{folder}/maps")).unwrap();
        let line = maps.lines().find(|line| line.contains("howdah-pool")).expect("the region");
        let start = line.split('-').next().unwrap();
        let memory = File::options().read(true).write(true).open(format!("{folder}/mem")).unwrap();
        Queue {
            memory,
            head: u64::from_str_radix(start, 16).unwrap(),
        }
    }

    /// Makes the queue say that all entries were taken. Returns `false` if the worker is gone.
    fn take_all(&self) -> bool {
        let mut tail = [0; 4];
        self.memory.read_exact_at(&mut tail, self.head + Queue::TAIL).is_ok()
            && self.memory.write_all_at(&tail, self.head).is_ok()
    }
}
