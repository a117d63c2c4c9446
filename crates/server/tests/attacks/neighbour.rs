//! Innocent visitors of a site, who ask at a fixed rate and know every byte of the answers.
//!
//! The moment of each request is fixed beforehand, and its latency is counted from that moment. A
//! request that has to wait for the previous one of the same visitor therefore counts with its
//! whole wait.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::scene::secret;
use crate::support::turns::stand_apart;
use crate::support::{Client, Response};

/// Visitors, each on a kept connection of its own.
const VISITORS: u32 = 6;
/// Time between two requests of one visitor: 90 requests per second in all.
const PAUSE: Duration = Duration::from_micros(66_667);

/// The scripts that visitors ask for, and one that an attack asks for. The files of both sites.
pub const FILES: [(&str, &str); 5] = [
    ("hello.php", "<?php echo 'the answer to ', $_GET['n'], \"\\n\";"),
    (
        "echo.php",
        "<?php $body = file_get_contents('php://input'); echo strlen($body), ' ', md5($body), ' ', \
         $_SERVER['HTTP_X_TOKEN'];",
    ),
    (
        "session.php",
        "<?php session_start(); $_SESSION['n'] = ($_SESSION['n'] ?? 0) + 1; echo session_id(), ' \
         ', $_SESSION['n'];",
    ),
    (
        "large.php",
        "<?php for ($i = 0; $i < 100; $i++) echo str_repeat(chr(65 + ($i + $_GET['n']) % 26), \
         2000);",
    ),
    ("shared.php", SHARED),
];

/// The targets of a visitor, by the number of the request.
const PATHS: [&str; 5] = ["/file.txt", "/hello.php", "/large.php", "/echo.php", "/session.php"];

/// Makes one of each kind of shared memory that nobody else must have made, and removes it.
const SHARED: &str = "<?php
    $number = (int) $_GET['n'];
    $key = 700_000 + $number;
    $segment = @shmop_open($key, 'n', 0600, 1 << 16);
    $semaphore = @sem_get($key, 1, 0600);
    $queue = msg_queue_exists($key) ? false : @msg_get_queue($key, 0600);
    $file = \"/dev/shm/$number\";
    $made = [
        'segment' => $segment && shmop_write($segment, 'text', 0) === 4
            && shmop_read($segment, 0, 4) === 'text' && shmop_delete($segment),
        'semaphore' => $semaphore && sem_acquire($semaphore, true) && sem_remove($semaphore),
        'queue' => $queue && msg_send($queue, 1, 'text') && msg_remove_queue($queue),
        'file' => !file_exists($file) && @file_put_contents($file, 'x') === 1 && unlink($file),
    ];
    echo implode(' ', array_keys(array_filter($made))), \" of $number\\n\";";

/// The content of `file.txt`, the file that visitors ask for.
pub fn file() -> Vec<u8> {
    (0..20_000_u32).flat_map(|number| format!("{number}\n").into_bytes()).collect()
}

/// Visitors that ask until they are told to stop.
#[derive(Debug)]
pub struct Visitors {
    over: Arc<AtomicBool>,
    visitors: Vec<JoinHandle<Seen>>,
}

/// The answers that visitors saw.
#[derive(Debug, Default)]
pub struct Seen {
    /// Right answers.
    pub right: usize,
    /// Descriptions of whole answers with other content than expected.
    pub wrong: Vec<String>,
    /// Descriptions of missing answers, and of answers that report a failure.
    pub lost: Vec<String>,
    /// Each request's latency, and its number among those of its visitor.
    latencies: Vec<(Duration, u32)>,
}

impl Visitors {
    /// Starts visitors of the site with the host name `host` at `address`.
    pub fn start(address: SocketAddr, host: &'static str) -> Visitors {
        let over = Arc::new(AtomicBool::new(false));
        let ready = Arc::new(Barrier::new(VISITORS as usize));
        let visitors = (0..VISITORS)
            .map(|number| {
                let (over, ready) = (over.clone(), ready.clone());
                std::thread::spawn(move || {
                    stand_apart();
                    // This takes time on a busy machine, which is not the server's.
                    ready.wait();
                    let due = Instant::now() + PAUSE * number / VISITORS;
                    let visitor = Visitor {
                        address,
                        host,
                        client: None,
                        session: None,
                    };
                    visit(visitor, number, due, &over)
                })
            })
            .collect();
        Visitors { over, visitors }
    }

    /// Stops them, and returns what they saw.
    pub fn stop(self) -> Seen {
        self.over.store(true, Ordering::Release);
        let mut all = Seen::default();
        for visitor in self.visitors {
            let seen = visitor.join().unwrap();
            all.right += seen.right;
            all.wrong.extend(seen.wrong);
            all.lost.extend(seen.lost);
            all.latencies.extend(seen.latencies);
        }
        all.latencies.sort();
        all
    }
}

impl Seen {
    /// The latency that 99 of 100 requests do not exceed.
    pub fn p99(&self) -> Duration {
        let rank = (self.latencies.len() * 99).div_ceil(100);
        self.latencies
            .get(rank.saturating_sub(1))
            .map_or(Duration::ZERO, |found| found.0)
    }

    /// Tells the slowest requests: milliseconds and path.
    pub fn slowest(&self) -> String {
        let tell = |(latency, turn): &(Duration, u32)| {
            format!("{:.1} {}", latency.as_secs_f64() * 1000.0, PATHS[*turn as usize % 5])
        };
        self.latencies
            .iter()
            .rev()
            .take(8)
            .map(tell)
            .collect::<Vec<String>>()
            .join(", ")
    }
}

fn visit(mut visitor: Visitor, number: u32, mut due: Instant, over: &AtomicBool) -> Seen {
    let mut seen = Seen::default();
    let mut turn = number;
    while !over.load(Ordering::Acquire) {
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        turn += 1;
        match visitor.ask(turn) {
            Ok(()) => seen.right += 1,
            Err(Unexpected::Wrong(what)) => seen.wrong.push(what),
            Err(Unexpected::Lost(what)) => {
                visitor.session = None;
                seen.lost.push(what);
            }
        }
        seen.latencies.push((due.elapsed(), turn));
        due += PAUSE;
    }
    seen
}

/// An answer that is not the expected one, described.
enum Unexpected {
    Wrong(String),
    Lost(String),
}

struct Visitor {
    address: SocketAddr,
    host: &'static str,
    client: Option<Client>,
    /// The session's identifier and the number of its last answer.
    session: Option<(String, u32)>,
}

impl Visitor {
    /// Asks for something that depends on `turn`.
    ///
    /// # Errors
    /// The answer is missing or wrong.
    fn ask(&mut self, turn: u32) -> Result<(), Unexpected> {
        let (target, expected) = match turn % 5 {
            0 => ("/file.txt".to_owned(), file()),
            1 => (format!("/hello.php?n={turn}"), format!("the answer to {turn}\n").into_bytes()),
            2 => {
                let letter = |line| b'A' + ((line + turn) % 26) as u8;
                let body = (0..100).flat_map(|line| vec![letter(line); 2000]).collect();
                (format!("/large.php?n={turn}"), body)
            }
            3 => return self.post(turn),
            _ => return self.count(),
        };
        let response = self.exchange("GET", &target, "", b"")?;
        compare(&target, &response, &expected)
    }

    fn post(&mut self, turn: u32) -> Result<(), Unexpected> {
        // Some bodies fit into a slot, others go through a file.
        let length = if turn.is_multiple_of(2) { 1_000 } else { 150_000 };
        let body = vec![b'a' + (turn % 26) as u8; length];
        let field = format!("X-Token: {turn}\r\n");
        let response = self.exchange("POST", "/echo.php", &field, &body)?;
        let expected = format!("{length} {} {turn}", md5(&body));
        compare("/echo.php", &response, expected.as_bytes())
    }

    fn count(&mut self) -> Result<(), Unexpected> {
        let field = match &self.session {
            Some((name, _)) => format!("Cookie: PHPSESSID={name}\r\n"),
            None => String::new(),
        };
        let response = self.exchange("GET", "/session.php", &field, b"")?;
        let text = String::from_utf8_lossy(&response.body).into_owned();
        let told = text
            .split_once(' ')
            .and_then(|(name, count)| Some((name.to_owned(), count.parse::<u32>().ok()?)));
        let former = std::mem::replace(&mut self.session, told);
        let right = match (&former, &self.session) {
            (None, Some((_, count))) => *count == 1,
            (Some((name, last)), Some((told, count))) => name == told && *count == last + 1,
            _ => false,
        };
        if response.status == 200 && right {
            return Ok(());
        }
        let what = format!("/session.php: {} {text:?} after {former:?}", response.status);
        Err(unexpected(response.status, what))
    }

    fn exchange(
        &mut self,
        method: &str,
        target: &str,
        field: &str,
        body: &[u8],
    ) -> Result<Response, Unexpected> {
        let mut exchange = || -> io::Result<Response> {
            let mut client = match self.client.take() {
                Some(client) => client,
                None => Client::try_connect(self.address)?,
            };
            let length = match method {
                "POST" => format!("Content-Length: {}\r\n", body.len()),
                _ => String::new(),
            };
            let host = self.host;
            let secret = if host == "b.example" {
                format!("X-Secret: {}\r\n", secret("request"))
            } else {
                String::new()
            };
            let head = format!(
                "{method} {target} HTTP/1.1\r\nHost: {host}\r\n{secret}{field}{length}\r\n"
            );
            client.send([head.as_bytes(), body].concat())?;
            let response = client.answer()?;
            if !response.is_last() {
                self.client = Some(client);
            }
            Ok(response)
        };
        exchange().map_err(|error| Unexpected::Lost(format!("{target}: {error}")))
    }
}

fn compare(target: &str, response: &Response, expected: &[u8]) -> Result<(), Unexpected> {
    if response.status == 200 && response.body == expected {
        return Ok(());
    }
    let shown = &response.body[..response.body.len().min(200)];
    let (length, shown) = (response.body.len(), String::from_utf8_lossy(shown).into_owned());
    let what = format!("{target}: {}, {length} bytes: {shown:?}", response.status);
    Err(unexpected(response.status, what))
}

/// An answer with an error status is a lost one; it was told to the visitor.
fn unexpected(status: u16, what: String) -> Unexpected {
    match status {
        500.. => Unexpected::Lost(what),
        _ => Unexpected::Wrong(what),
    }
}

fn md5(bytes: &[u8]) -> String {
    use md5::Digest;
    md5::Md5::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
