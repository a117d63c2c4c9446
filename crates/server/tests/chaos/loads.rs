//! The visitors: ten kinds of requests, each with an answer that is known byte for byte.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::ledger::{Fate, Ledger};
use crate::stage::Stage;
use crate::support::{Client, PATIENCE, Response};

/// The site's scripts.
pub const SCRIPTS: [(&str, &str); 9] = [
    ("hello.php", "<?php echo 'hello ', $_GET['n'];"),
    ("slow.php", "<?php usleep(150_000); echo 'slow ', $_GET['n'];"),
    (
        "large.php",
        "<?php for ($i = 0; $i < 128; $i++) echo str_repeat(chr(65 + ($i + $_GET['n']) % 26), \
         8192);",
    ),
    (
        "upload.php",
        "<?php $file = $_FILES['f']; if ($file['error']) { http_response_code(507); exit; } echo \
         $_POST['n'], ' ', $file['size'], ' ', md5_file($file['tmp_name']);",
    ),
    (
        "session.php",
        "<?php session_start(); $_SESSION['n'] = ($_SESSION['n'] ?? 0) + 1; echo session_id(), ' \
         ', $_SESSION['n'];",
    ),
    (
        "events.php",
        "<?php header('Content-Type: text/event-stream'); for ($i = 0; $i < 15; $i++) { echo \
         \"data: $_GET[n] $i\\n\\n\"; flush(); usleep(40_000); }",
    ),
    (
        "fork.php",
        "<?php $child = pcntl_fork(); if ($child === 0) { posix_kill(getmypid(), SIGKILL); } \
         pcntl_waitpid($child, $status); echo 'child of ', $_GET['n'], ': ', shell_exec('echo \
         one'), pcntl_wtermsig($status);",
    ),
    (
        "endless.php",
        "<?php for ($i = 0; $i < 400; $i++) { echo str_repeat('z', 20_000); usleep(1_000); }",
    ),
    ("failing.php", "<?php http_response_code(503); echo 'failed';"),
];

/// The content of `file.txt`.
pub fn file() -> Vec<u8> {
    (0..30_000_u32).flat_map(|number| format!("{number}\n").into_bytes()).collect()
}

/// A kind of visitor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Load {
    File,
    Hello,
    Slow,
    Large,
    Upload,
    Session,
    Events,
    Fork,
    Vanishing,
    SlowReader,
}

impl Load {
    /// All of them.
    pub const ALL: [Load; 10] = [
        Load::File,
        Load::Hello,
        Load::Slow,
        Load::Large,
        Load::Upload,
        Load::Session,
        Load::Events,
        Load::Fork,
        Load::Vanishing,
        Load::SlowReader,
    ];

    /// All that wait for their answers.
    pub fn patient() -> Vec<Load> {
        Load::ALL.into_iter().filter(|load| *load != Load::Vanishing).collect()
    }

    /// Time between the end of a request and the next one, so that no load takes the machine.
    fn pause(self) -> Duration {
        Duration::from_millis(match self {
            Load::File | Load::Hello => 4,
            Load::Slow | Load::Events => 0,
            _ => 20,
        })
    }
}

/// Visitors of each kind: one on a kept connection, one on a new connection for each request.
pub struct Visitors<'s> {
    over: Arc<AtomicBool>,
    threads: Vec<std::thread::JoinHandle<Vec<Seen>>>,
    ledger: &'s Ledger,
}

/// A finished request.
#[derive(Debug)]
pub struct Seen {
    pub load: Load,
    /// When its connection was opened.
    pub opened: Instant,
    pub began: Instant,
    pub ended: Instant,
    pub fate: Fate,
}

impl<'s> Visitors<'s> {
    /// Starts two visitors of each kind.
    pub fn start(stage: &Stage, ledger: &'s Ledger, loads: &[Load]) -> Visitors<'s> {
        let over = Arc::new(AtomicBool::new(false));
        let address = stage.address();
        let mut threads = Vec::new();
        for &load in loads {
            for keeps in [true, false] {
                let over = over.clone();
                let visitor = Visitor {
                    load,
                    address,
                    keeps,
                    kept: None,
                    session: None,
                };
                threads.push(std::thread::spawn(move || visitor.visit(&over)));
            }
        }
        Visitors { over, threads, ledger }
    }

    /// Lets them go on for a time, stops them, and enters what they saw into the ledger.
    pub fn visit_for(self, time: Duration) {
        std::thread::sleep(time);
        self.over.store(true, Ordering::Release);
        for thread in self.threads {
            self.ledger.enter(thread.join().unwrap());
        }
    }
}

struct Visitor {
    load: Load,
    address: SocketAddr,
    keeps: bool,
    kept: Option<(Client, Instant)>,
    /// The session's name and the number of its last answer.
    session: Option<(String, u32)>,
}

impl Visitor {
    fn visit(mut self, over: &AtomicBool) -> Vec<Seen> {
        let mut seen = Vec::new();
        let mut turn = 0;
        while !over.load(Ordering::Acquire) {
            turn += 1;
            let began = Instant::now();
            let mut opened = self.kept.as_ref().map_or(began, |(_, opened)| *opened);
            let fate = self
                .ask(turn, &mut opened)
                .unwrap_or_else(|error| Fate::Lost(error.to_string()));
            if !matches!(fate, Fate::Right) {
                self.session = None;
            }
            seen.push(Seen {
                load: self.load,
                opened,
                began,
                ended: Instant::now(),
                fate,
            });
            std::thread::sleep(self.load.pause());
        }
        seen
    }

    fn ask(&mut self, turn: u32, opened: &mut Instant) -> io::Result<Fate> {
        match self.load {
            Load::File => self.get("/file.txt", &file(), opened),
            Load::Hello => {
                let expected = format!("hello {turn}");
                self.get(&format!("/hello.php?n={turn}"), expected.as_bytes(), opened)
            }
            Load::Slow => {
                let expected = format!("slow {turn}");
                self.get(&format!("/slow.php?n={turn}"), expected.as_bytes(), opened)
            }
            Load::Large => self.get(&format!("/large.php?n={turn}"), &large(turn), opened),
            Load::Events => {
                let event = |number| format!("data: {turn} {number}\n\n");
                let expected: String = (0..15).map(event).collect();
                self.get(&format!("/events.php?n={turn}"), expected.as_bytes(), opened)
            }
            Load::Fork => {
                let expected = format!("child of {turn}: one\n9");
                self.get(&format!("/fork.php?n={turn}"), expected.as_bytes(), opened)
            }
            Load::Upload => self.upload(turn, opened),
            Load::Session => self.count(opened),
            Load::Vanishing => self.vanish(turn),
            Load::SlowReader => self.read_slowly(turn),
        }
    }

    fn get(&mut self, target: &str, expected: &[u8], opened: &mut Instant) -> io::Result<Fate> {
        let head = format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let response = self.exchange(head.as_bytes(), opened)?;
        Ok(compare(&response, expected))
    }

    fn upload(&mut self, turn: u32, opened: &mut Instant) -> io::Result<Fate> {
        // Some fit into a slot, others go through a file.
        let length = [2_000, 300_000][turn as usize % 2];
        let content = vec![b'a' + (turn % 26) as u8; length];
        let part = format!(
            "--x\r\nContent-Disposition: form-data; name=\"n\"\r\n\r\n{turn}\r\n\
             --x\r\nContent-Disposition: form-data; name=\"f\"; filename=\"f\"\r\n\r\n"
        );
        let body = [part.as_bytes(), &content, b"\r\n--x--\r\n"].concat();
        let head = format!(
            "POST /upload.php HTTP/1.1\r\nHost: localhost\r\n\
             Content-Type: multipart/form-data; boundary=x\r\n\
             Content-Length: {}\r\n\r\n",
            body.len()
        );
        let response = self.exchange(&[head.as_bytes(), &body].concat(), opened)?;
        Ok(compare(&response, format!("{turn} {length} {}", md5(&content)).as_bytes()))
    }

    fn count(&mut self, opened: &mut Instant) -> io::Result<Fate> {
        let cookie = match &self.session {
            Some((name, _)) => format!("Cookie: PHPSESSID={name}\r\n"),
            None => String::new(),
        };
        let head = format!("GET /session.php HTTP/1.1\r\nHost: localhost\r\n{cookie}\r\n");
        let response = self.exchange(head.as_bytes(), opened)?;
        let text = String::from_utf8_lossy(&response.body).into_owned();
        let told = text
            .split_once(' ')
            .and_then(|(name, count)| Some((name.to_owned(), count.parse::<u32>().ok()?)));
        let former = std::mem::replace(&mut self.session, told);
        Ok(match (&former, &self.session) {
            _ if response.status >= 500 => Fate::Told(response.status),
            (None, Some((_, 1))) => Fate::Right,
            (Some((name, last)), Some((told, count))) if name == told && *count == last + 1 => {
                Fate::Right
            }
            _ => Fate::Wrong(format!("{} {text:?} after {former:?}", response.status)),
        })
    }

    /// Goes away in the middle of an answer. Nothing is known of it.
    fn vanish(&mut self, turn: u32) -> io::Result<Fate> {
        let mut stream = TcpStream::connect(self.address)?;
        let target =
            ["/endless.php", "/slow.php?n=1", "/upload.php", "/file.txt"][turn as usize % 4];
        let head =
            format!("POST {target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n");
        stream.write_all(head.as_bytes())?;
        // The connection may end with the front.
        let _ =
            stream.write_all(&vec![b'v'; if turn.is_multiple_of(3) { 50_000 } else { 100_000 }]);
        std::thread::sleep(Duration::from_millis(u64::from(turn % 40)));
        Ok(Fate::Right)
    }

    fn read_slowly(&mut self, turn: u32) -> io::Result<Fate> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        // The length is checked, thus the end of the connection may end the body.
        stream.write_all(
            format!("GET /large.php?n={turn} HTTP/1.0\r\nHost: localhost\r\n\r\n").as_bytes(),
        )?;
        let mut received = Vec::new();
        let mut room = [0; 32 * 1024];
        loop {
            match stream.read(&mut room)? {
                0 => break,
                length => received.extend_from_slice(&room[..length]),
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let end = received.windows(4).position(|window| window == b"\r\n\r\n");
        let Some(end) = end else {
            return Err(io::ErrorKind::UnexpectedEof.into());
        };
        let status = String::from_utf8_lossy(&received[..end])
            .get(9..12)
            .and_then(|text| text.parse().ok());
        let (body, expected) = (&received[end + 4..], large(turn));
        Ok(match status {
            Some(200) if body == expected => Fate::Right,
            Some(200) if expected.starts_with(body) => {
                Fate::Lost(format!("it ends after {} bytes", body.len()))
            }
            Some(status) if status >= 500 => Fate::Told(status),
            _ => Fate::Wrong(format!("{status:?}, {} bytes", body.len())),
        })
    }

    fn exchange(&mut self, bytes: &[u8], opened: &mut Instant) -> io::Result<Response> {
        let (mut client, since) = match self.kept.take() {
            Some(kept) => kept,
            None => {
                *opened = Instant::now();
                (Client::try_connect(self.address)?, *opened)
            }
        };
        client.send(bytes)?;
        let response = client.answer()?;
        if self.keeps && !response.is_last() {
            self.kept = Some((client, since));
        }
        Ok(response)
    }
}

fn compare(response: &Response, expected: &[u8]) -> Fate {
    match response.status {
        200 if response.body == expected => Fate::Right,
        status @ 500.. => Fate::Told(status),
        status => {
            let body = &response.body[..response.body.len().min(300)];
            let text = String::from_utf8_lossy(body).into_owned();
            Fate::Wrong(format!("{status}, {} bytes: {text:?}", response.body.len()))
        }
    }
}

fn large(turn: u32) -> Vec<u8> {
    (0..128)
        .flat_map(|line| vec![b'A' + ((line + turn) % 26) as u8; 8192])
        .collect()
}

fn md5(bytes: &[u8]) -> String {
    use md5::Digest;
    md5::Md5::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
