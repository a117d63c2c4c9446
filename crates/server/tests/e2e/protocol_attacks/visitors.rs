//! Visitors who ask at a fixed rate, and know every byte of the answers.
//!
//! A latency is counted from the moment at which the request is due, so that a request which has to
//! wait for the former one counts with its whole wait.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustls::ClientConfig;

use super::attackers::Target;
use crate::http2::client::Http2;
use crate::support::turns::stand_apart;
use crate::tls::client::TlsClient;
use crate::wire::Wire;

/// Visitors, half of them over HTTP/2.
const VISITORS: u32 = 6;
/// Time between two requests of one visitor: 180 requests per second in all.
const PAUSE: Duration = Duration::from_micros(33_333);

/// The targets of visitors, in turn: a small file, and a page with some milliseconds of work.
pub const FILE: (&str, &str) = ("small.txt", "a small file");
pub const PAGE: (&str, &str) = (
    "page.php",
    "<?php for ($i = 0, $text = ''; $i < 12000; $i++) $text = md5($text . $i); echo strlen($text);",
);
const TARGETS: [(&str, &str); 2] = [("/small.txt", "a small file"), ("/page.php", "32")];

/// Visitors that ask until they are told to stop.
pub struct Visitors {
    over: Arc<AtomicBool>,
    visitors: Vec<JoinHandle<Seen>>,
}

/// The answers that visitors saw.
#[derive(Default)]
pub struct Seen {
    /// Descriptions of missing and of wrong answers.
    pub wrong: Vec<String>,
    /// The latencies of each of the targets.
    latencies: [Vec<Duration>; 2],
}

impl Visitors {
    /// Starts visitors. Their connections are there before it returns.
    pub fn start(target: &Target) -> Visitors {
        let over = Arc::new(AtomicBool::new(false));
        let clients: Vec<Visitor> =
            (0..VISITORS).map(|number| Visitor::connect(target, number)).collect();
        let ready = Arc::new(Barrier::new(VISITORS as usize));
        let visitors = clients.into_iter().zip(0..).map(|(visitor, number)| {
            let (over, ready) = (Arc::clone(&over), Arc::clone(&ready));
            std::thread::spawn(move || {
                stand_apart();
                // This takes time on a busy machine, which is not the server's.
                ready.wait();
                visit(visitor, number, Instant::now() + PAUSE * number / VISITORS, &over)
            })
        });
        Visitors { visitors: visitors.collect(), over }
    }

    /// Stops them after a time, and returns what they saw.
    pub fn stop_after(self, time: Duration) -> Seen {
        std::thread::sleep(time);
        self.over.store(true, Ordering::Relaxed);
        let mut all = Seen::default();
        for visitor in self.visitors {
            all.add(visitor.join().unwrap());
        }
        all
    }
}

impl Seen {
    /// Adds what others saw.
    pub fn add(&mut self, other: Seen) {
        self.wrong.extend(other.wrong);
        for (own, others) in self.latencies.iter_mut().zip(other.latencies) {
            own.extend(others);
            own.sort();
        }
    }

    /// Number of right answers.
    pub fn right(&self) -> usize {
        self.latencies.iter().map(Vec::len).sum::<usize>() - self.wrong.len()
    }

    /// The latency that 99 of 100 requests for that target do not exceed.
    pub fn p99(&self, target: usize) -> Duration {
        let all = &self.latencies[target];
        let rank = (all.len() * 99).div_ceil(100);
        all.get(rank.saturating_sub(1)).copied().unwrap_or_default()
    }
}

/// A client with its connection.
enum Visitor {
    Http1 {
        wire: Box<Wire>,
        client: TlsClient,
        address: SocketAddr,
    },
    Http2 {
        client: Box<Http2>,
        settings: Box<ClientConfig>,
        address: SocketAddr,
    },
}

impl Visitor {
    fn connect(target: &Target, number: u32) -> Visitor {
        let (address, mut client) = (target.address, target.client());
        if number.is_multiple_of(2) {
            let mut wire = Box::new(client.connect(address, "a.example"));
            // The handshake is made with the first request, and is none of its latency.
            assert_eq!(wire.get(TARGETS[0].0).text(), TARGETS[0].1);
            return Visitor::Http1 { wire, client, address };
        }
        let settings = Box::new(client.settings());
        let client = Box::new(Http2::encrypted_as(address, (*settings).clone(), "a.example"));
        Visitor::Http2 { client, settings, address }
    }

    /// Asks for the file or the page. `Err` describes what is wrong with the answer.
    fn ask(&mut self, (target, expected): (&str, &str)) -> Result<(), String> {
        let (status, body, is_last) = match self {
            Visitor::Http1 { wire, .. } => {
                let reply = wire.get(target);
                let is_last = reply.field("connection") == Some("close");
                (reply.status, reply.body, is_last)
            }
            Visitor::Http2 { client, settings, address } => {
                let reply = client.try_get(target).unwrap_or_else(|| {
                    **client = Http2::encrypted_as(*address, (**settings).clone(), "a.example");
                    client.get(target)
                });
                (reply.status, reply.body, false)
            }
        };
        if let Visitor::Http1 { wire, client, address } = self
            && is_last
        {
            **wire = client.connect(*address, "a.example");
        }
        match (status, body == expected.as_bytes()) {
            (200, true) => Ok(()),
            _ => Err(format!("{target}: {status} {:?}", String::from_utf8_lossy(&body))),
        }
    }
}

fn visit(mut visitor: Visitor, number: u32, mut due: Instant, over: &AtomicBool) -> Seen {
    let mut seen = Seen::default();
    let mut turn = number as usize / 2;
    while !over.load(Ordering::Relaxed) {
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        turn += 1;
        seen.wrong.extend(visitor.ask(TARGETS[turn % 2]).err());
        seen.latencies[turn % 2].push(due.elapsed());
        due += PAUSE;
    }
    seen
}
