//! Workers that are killed at random while the server is busy.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use howdah_sys::signal::SIGKILL;

use crate::site::Site;
use crate::support::load::Raised;
use crate::support::{PATIENCE, Process, has_php, wait_until};

/// The least number of kills.
const KILLS: usize = 220;
const CLIENTS: usize = 6;
/// Kills after which at least one request has to be answered before the next kill. On a slow
/// machine all workers would die before their first request, again and again, and nothing would be
/// answered.
const KILLS_WITHOUT_ANSWER: usize = 3;
/// The signal of a crash.
const SIGSEGV: i32 = 11;

/// The result of a client's request.
#[derive(Debug, Default)]
struct Seen {
    whole: usize,
    /// 502, or a body that broke off: the request's own worker was killed.
    killed: usize,
    wrong: Vec<String>,
}

/// No request may fail but those whose own worker was killed, at most one for each kill; and
/// afterwards everything is as before: as many workers, processes and descriptors, and every slot
/// free.
#[test]
fn killing_workers_under_load_harms_only_their_own_requests() {
    if !has_php() {
        return;
    }
    let site = Site::with_php(
        &[
            ("tiny.php", "<?php echo 'tiny';"),
            (
                "work.php",
                "<?php for ($i = 0, $s = ''; $i < 300; $i++) $s = md5($s . $i); echo 'worked';",
            ),
            ("big.php", "<?php for ($i = 0; $i < 60; $i++) echo str_repeat('b', 10000);"),
            ("sleep.php", "<?php usleep(3000); echo 'slept';"),
            ("post.php", "<?php echo strlen(file_get_contents('php://input'));"),
        ],
        "mode = \"static\"\nworkers = 4",
    );
    let address = site.server.address();
    // Every thread of the front has opened what it needs, and every worker has worked.
    ask_at_once(&site, 100);
    wait_until("the pool is complete", || site.server.workers().len() == 4);
    // The supervisor has two sockets for it.
    wait_until("a zygote stands by", || site.server.supervisor().standbys().len() == 1);
    let before = census_at_rest(&site);

    let over = AtomicBool::new(false);
    let (kills, answers) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let seen: Vec<Seen> = std::thread::scope(|scope| {
        let _end = Raised(&over);
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| {
                scope.spawn({
                    let (over, answers) = (&over, &answers);
                    move || client(address, number, over, answers)
                })
            })
            .collect();
        kill_workers(&site, &kills, &answers);
        wait_until("far more requests are answered than killed", || {
            answers.load(Ordering::Relaxed) > 2 * KILLS
        });
        over.store(true, Ordering::Release);
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });

    let wrong: Vec<&String> = seen.iter().flat_map(|seen| &seen.wrong).collect();
    assert!(
        wrong.is_empty(),
        "{} requests failed otherwise: {:#?}",
        wrong.len(),
        &wrong[..wrong.len().min(10)]
    );
    let (whole, killed) = seen
        .iter()
        .fold((0, 0), |(whole, killed), seen| (whole + seen.whole, killed + seen.killed));
    let kills = kills.into_inner();
    assert!(kills >= KILLS && whole > kills, "{kills} kills, {whole} answers");
    assert!(killed <= kills, "{killed} requests were hit by {kills} kills");
    eprintln!("{kills} workers killed, {whole} requests answered, {killed} hit");

    wait_until("the pool is complete again", || site.server.workers().len() == 4);
    nothing_is_left_over(&site, &before);
    // More at once than there are slots: none is lost.
    ask_at_once(&site, 30);
    wait_until("no zombie is left", || {
        let parents = [site.server.supervisor(), site.server.zygote()];
        parents.iter().all(|parent| parent.zombies().is_empty())
    });
}

fn ask_at_once(site: &Site, connections: usize) {
    let replies = site.ask_at_once("/sleep.php", connections);
    assert!(replies.iter().all(|reply| reply.text() == "slept"));
}

/// The processes of the server, and the open descriptors of those that stay.
#[derive(Debug, PartialEq, Eq)]
struct Census {
    processes: usize,
    /// In order, without the numbers of sockets and pipes.
    descriptors: Vec<String>,
}

fn census(site: &Site) -> Census {
    let staying: [Process; 3] =
        [site.server.supervisor(), site.server.front(), site.server.zygote()];
    let of_process = |process: &Process| -> Vec<String> {
        let kind = |target: String| target.split(":[").next().unwrap_or_default().to_owned();
        let name = process.name();
        process
            .descriptors()
            .into_iter()
            .map(|target| format!("{name}: {}", kind(target)))
            .collect()
    };
    let mut descriptors: Vec<String> = staying.iter().flat_map(of_process).collect();
    descriptors.sort();
    Census {
        processes: site.server.processes().len(),
        descriptors,
    }
}

/// The census of the server once its clients have left. The front closes connections, and the
/// supervisor its copies of a new zygote's sockets, a moment after others see that it will.
fn census_at_rest(site: &Site) -> Census {
    wait_until("the front has closed all connections", || site.connections() == 0);
    let (mut last, mut same) = (census(site), 0);
    wait_until("the census stays the same", || {
        let now = census(site);
        same = if now == last { same + 1 } else { 0 };
        last = now;
        same == 20
    });
    last
}

/// Waits until there are as many processes as `before`, and no descriptors that were not there.
fn nothing_is_left_over(site: &Site, before: &Census) {
    let until = Instant::now() + PATIENCE;
    // A thread of the front opens the document root and watches it with its first request, which
    // may come after the census.
    let is_of_thread =
        |descriptor: &&String| descriptor.ends_with("/public") || descriptor.ends_with("inotify");
    let later: Vec<&String> = before.descriptors.iter().filter(is_of_thread).collect();
    loop {
        let now = census(site);
        let mut more = now.descriptors;
        for descriptor in before.descriptors.iter().chain(later.iter().copied()) {
            if let Some(at) = more.iter().position(|other| other == descriptor) {
                more.remove(at);
            }
        }
        if more.is_empty() && now.processes == before.processes {
            return;
        }
        assert!(
            Instant::now() < until,
            "{} processes, before {}; descriptors that were not there: {more:?}",
            now.processes,
            before.processes
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn kill_workers(site: &Site, kills: &AtomicUsize, answers: &AtomicUsize) {
    let zygote = site.server.zygote();
    let until = Instant::now() + 4 * PATIENCE;
    let mut state = 1_u64;
    let (mut answered, mut without_answer) = (0, 0);
    while kills.load(Ordering::Relaxed) < KILLS {
        assert!(Instant::now() < until, "only {} kills", kills.load(Ordering::Relaxed));
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let random = (state >> 33) as usize;
        std::thread::sleep(Duration::from_micros(2_000 + random as u64 % 40_000));
        let now = answers.load(Ordering::Relaxed);
        if now > answered {
            (answered, without_answer) = (now, 0);
        } else if without_answer == KILLS_WITHOUT_ANSWER {
            continue;
        }
        let workers: Vec<Process> = zygote.children().into_iter().filter(Process::lives).collect();
        if let Some(worker) = workers.get(random % workers.len().max(1)) {
            worker.signal(if random.is_multiple_of(3) { SIGSEGV } else { SIGKILL });
            kills.fetch_add(1, Ordering::Relaxed);
            without_answer += 1;
        }
    }
}

fn client(address: SocketAddr, number: usize, over: &AtomicBool, answers: &AtomicUsize) -> Seen {
    let mut seen = Seen::default();
    let mut stream = None;
    let mut turn = number;
    while !over.load(Ordering::Acquire) {
        turn += 1;
        let (target, body, expected) = match turn % 6 {
            0 => ("/work.php", 0, b"worked".to_vec()),
            1 => ("/big.php", 0, vec![b'b'; 600_000]),
            2 => ("/sleep.php", 0, b"slept".to_vec()),
            3 => ("/post.php", 200_000, b"200000".to_vec()),
            4 => ("/post.php", 100, b"100".to_vec()),
            _ => ("/tiny.php", 0, b"tiny".to_vec()),
        };
        match exchange(&mut stream, address, target, body) {
            Ok((200, answer)) if answer == expected => {
                seen.whole += 1;
                answers.fetch_add(1, Ordering::Relaxed);
            }
            Ok((502, _)) => seen.killed += 1,
            // Broken off in the middle, and seen to be: its worker was killed while it sent.
            Err(Broken::Body) => {
                seen.killed += 1;
                stream = None;
            }
            Ok((status, answer)) => {
                seen.wrong.push(format!("{target}: {status}, {} bytes", answer.len()))
            }
            Err(broken) => {
                seen.wrong.push(format!("{target}: {broken:?}"));
                stream = None;
            }
        }
    }
    seen
}

#[derive(Debug)]
enum Broken {
    /// Before the head was whole.
    #[allow(dead_code)] // Shown.
    Head(String),
    /// After it.
    Body,
}

/// One request and its answer, on a connection that is kept if the server keeps it.
fn exchange(
    kept: &mut Option<TcpStream>,
    address: SocketAddr,
    target: &str,
    body: usize,
) -> Result<(u16, Vec<u8>), Broken> {
    let head_broken = |error: std::io::Error| Broken::Head(error.to_string());
    let mut stream = match kept.take() {
        Some(stream) => stream,
        None => TcpStream::connect(address).map_err(head_broken)?,
    };
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let head =
        format!("POST {target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {body}\r\n\r\n");
    stream
        .write_all(&[head.as_bytes(), &vec![b'x'; body]].concat())
        .map_err(head_broken)?;
    let mut input = Vec::new();
    let mut room = vec![0; 64 * 1024];
    let end = loop {
        if let Some(end) = input.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
        match stream.read(&mut room).map_err(head_broken)? {
            0 => {
                return Err(Broken::Head(format!(
                    "the connection ended after {} bytes",
                    input.len()
                )));
            }
            count => input.extend_from_slice(&room[..count]),
        }
    };
    let head = String::from_utf8_lossy(&input[..end]).to_ascii_lowercase();
    let mut input = input.split_off(end);
    let status = head[9..12].parse().unwrap();
    let mut more = |input: &mut Vec<u8>| match stream.read(&mut room) {
        Ok(count) if count > 0 => {
            input.extend_from_slice(&room[..count]);
            Ok(())
        }
        _ => Err(Broken::Body),
    };
    let mut answer = Vec::new();
    if let Some(length) = head.lines().find_map(|line| line.strip_prefix("content-length: ")) {
        let length = length.parse().unwrap();
        while input.len() < length {
            more(&mut input)?;
        }
        answer = input;
    } else {
        assert!(head.contains("transfer-encoding: chunked"), "{head}");
        loop {
            let Some(end) = input.windows(2).position(|window| window == b"\r\n") else {
                more(&mut input)?;
                continue;
            };
            let size =
                usize::from_str_radix(std::str::from_utf8(&input[..end]).unwrap(), 16).unwrap();
            while input.len() < end + 2 + size + 2 {
                more(&mut input)?;
            }
            answer.extend_from_slice(&input[end + 2..end + 2 + size]);
            input.drain(..end + 2 + size + 2);
            if size == 0 {
                break;
            }
        }
    }
    if !head.contains("connection: close") {
        *kept = Some(stream);
    }
    Ok((status, answer))
}
