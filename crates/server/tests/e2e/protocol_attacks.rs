//! Attacks on TLS, HTTP/2 and HTTP/3, and the time that others' requests take meanwhile.
//!
//! Visitors ask for a file and for a page of PHP at a fixed rate, each on a kept connection. They
//! are observed by turns with an attack and without one, since machines have good and bad seconds.
//! The attackers take the processors that nobody else wants, as if they had a machine of their own,
//! and begin again at once where the server ends a connection.

mod attackers;
mod channel;
mod visitors;

use std::fmt::Write;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use self::attackers::{ALL, Attack, Target};
use self::visitors::{Seen, Visitors};
use crate::http3::{Served, configured};
use crate::support::turns::{IdleGroup, stand_back, stand_back_as_session};
use crate::support::{Folder, has_php, is_root, wait_until};
use crate::tls::client::{Authority, files};

/// Turns of a measured attack, each behind a time without it.
const TURNS: u32 = 4;
/// Time of all turns of an attack together. `ATTACK_SECONDS` changes it.
const SECONDS: u64 = 8;
/// The p99 of others during an attack, at most, in parts of the one without it.
const MOST: f64 = 1.2;
/// Bytes by which the front may have grown when everything is over: what the allocator keeps.
const MOST_GROWTH: u64 = 32 << 20;
/// Connections at once, those of visitors and those of the attack with the most.
const DESCRIPTORS: u64 = 24_000;

/// Time in which the front gives memory back.
const GIVES_BACK: Duration = Duration::from_secs(20);
/// Environment variables of the attackers.
const TITLE: &str = "HOWDAH_ATTACK_TITLE";
const ADDRESS: &str = "HOWDAH_ATTACK_ADDRESS";
const AUTHORITY: &str = "HOWDAH_ATTACK_AUTHORITY";
/// Lines that the attackers print.
const BEGUN: &str = "attack begun";
const ATTEMPTS: &str = "attempts:";

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/security.md");
/// The lines around the table.
const BEGIN: &str = "<!-- make attacks: protocols begin -->";
const END: &str = "<!-- make attacks: protocols end -->";

/// The effects of an attack.
struct Outcome {
    attempts: usize,
    before: Seen,
    during: Seen,
    /// Bytes of the front's memory before the attack, and after its last connection has ended.
    memory: [u64; 2],
}

/// A server with the limits that it has by itself.
fn server() -> Served {
    let authority = Authority::new();
    let folder: Folder = files(&[("a", &authority.certify(&["a.example", "localhost"]))]);
    let config = format!(
        "listen = [{{ address = \"127.0.0.1:0\", tls = true }}]\nthreads = 2\n\
         control = \"control\"\n[[site]]\nname = \"b\"\nhosts = [\"b.example\"]\n\
         root = \"public\"\nphp = false\ntls = false\n[[site]]\nname = \"a\"\n\
         hosts = [\"a.example\", \"localhost\"]\nroot = \"public\"\n\
         tls = {{ cert = \"{0}/a.pem\", key = \"{0}/a.key\" }}\n[site.php]\n\
         workers = 4\nstate_dir = \"state\"\n",
        folder.path().display()
    );
    let large = "x".repeat(300_000);
    let content = [("large.txt", large.as_str()), visitors::FILE, visitors::PAGE];
    Served::of(configured(&content, &config), authority, folder)
}

/// Observes visitors by turns with the attack and without it. Memory has `gives_back` to come back.
fn observe(
    served: &Served,
    attack: &Attack,
    (turns, time): (u32, Duration),
    gives_back: Duration,
) -> Outcome {
    let authority = served.authority.pem();
    let target = Target::new(served.site.server.address(), authority.clone().into_bytes());
    let pem = served.site.path().join("authority.pem");
    fs::write(&pem, authority).unwrap();
    let memory = || crate::tls::hostile::memory(&served.site) << 10;
    let (mut before, mut during) = (Seen::default(), Seen::default());
    let mut attempts = 0;
    let size = memory();
    for _ in 0..turns {
        before.add(Visitors::start(&target).stop_after(time));
        let mut attackers = Attackers::start(attack, &target, &pem);
        during.add(Visitors::start(&target).stop_after(time));
        attempts += attackers.stop();
    }
    wait_until("the connections are over", || served.site.connections() == 0);
    // Once a second the front looks for memory that it can give back.
    let until = Instant::now() + gives_back;
    while memory() > size + MOST_GROWTH && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(100));
    }
    Outcome {
        attempts,
        before,
        during,
        memory: [size, memory()],
    }
}

/// The program that attacks: this one, as a process of its own. As threads of the visitors' process
/// they would make the visitors wait for locks.
struct Attackers {
    program: Child,
    told: BufReader<ChildStdout>,
    /// Is removed when they have ended.
    _group: IdleGroup,
}

impl Attackers {
    /// Starts them. They attack when it returns.
    fn start(attack: &Attack, target: &Target, authority: &Path) -> Attackers {
        let mut program = Command::new("setsid")
            .arg(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "--nocapture", "protocol_attacks::attackers_of_a_test"])
            .env(TITLE, attack.title)
            .env(ADDRESS, target.address.to_string())
            .env(AUTHORITY, authority)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let group = IdleGroup::new();
        group.add(program.id());
        let mut told = BufReader::new(program.stdout.take().unwrap());
        line_with(BEGUN, &mut told);
        Attackers { program, told, _group: group }
    }

    /// Stops them. Returns the number of attempts.
    fn stop(&mut self) -> usize {
        drop(self.program.stdin.take());
        let line = line_with(ATTEMPTS, &mut self.told);
        self.program.wait().unwrap();
        line.trim().parse().unwrap()
    }
}

impl Drop for Attackers {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

/// Reads to the line with this word. Returns what follows the word.
fn line_with(word: &str, told: &mut impl BufRead) -> String {
    loop {
        let mut line = String::new();
        assert!(told.read_line(&mut line).unwrap() > 0, "the attackers have ended without {word}");
        if let Some((_, rest)) = line.split_once(word) {
            return rest.to_owned();
        }
    }
}

/// The part of the attackers, in a process of their own. It ends with its input.
#[test]
#[ignore = "other tests start it"]
fn attackers_of_a_test() {
    let variable = |name| std::env::var(name).ok();
    let (Some(title), Some(address), Some(authority)) =
        (variable(TITLE), variable(ADDRESS), variable(AUTHORITY))
    else {
        return;
    };
    stand_back_as_session();
    let attack = ALL.iter().find(|attack| attack.title == title).unwrap();
    let target = Target::new(address.parse().unwrap(), fs::read(authority).unwrap());
    let over = AtomicBool::new(false);
    let attempts = AtomicUsize::new(0);
    println!("{BEGUN}");
    std::thread::scope(|scope| {
        for number in 0..attack.clients {
            let (target, over, attempts) = (&target, &over, &attempts);
            scope.spawn(move || {
                stand_back();
                attempts.fetch_add((attack.run)(target, over, number), Ordering::Relaxed);
            });
        }
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        over.store(true, Ordering::Relaxed);
    });
    println!("{ATTEMPTS} {}", attempts.into_inner());
}

impl Outcome {
    fn factors(&self) -> [f64; 2] {
        [0, 1].map(|kind| self.during.p99(kind).as_secs_f64() / self.before.p99(kind).as_secs_f64())
    }

    fn line(&self, attack: &Attack) -> String {
        let wrong = self.before.wrong.len() + self.during.wrong.len();
        let mut line = format!(
            "| {} | {} | {} | {wrong} |",
            attack.title,
            self.attempts,
            self.before.right() + self.during.right()
        );
        for (kind, factor) in self.factors().into_iter().enumerate() {
            let [before, during] = [&self.before, &self.during]
                .map(|seen| format!("{:.2}", seen.p99(kind).as_secs_f64() * 1e3));
            write!(line, " {before} | {during} | {factor:.2} |").unwrap();
        }
        let [before, after] = self.memory.map(|bytes| bytes >> 20);
        write!(line, " {before} | {after} |").unwrap();
        line
    }
}

/// Replaces the table in the file.
fn write_table(lines: &[String]) {
    let text = fs::read_to_string(FILE).unwrap();
    let (before, rest) = text.split_once(BEGIN).expect("the file has a place for the table");
    let (_, after) = rest.split_once(END).expect("the place for the table has an end");
    let table = lines.join("\n");
    let head = "| attack | attempts | visitors' answers | wrong or lost | file: p99 before (ms) | \
                during | factor | page: p99 before (ms) | during | factor | front's memory before \
                (MB) | after |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n";
    fs::write(FILE, format!("{before}{BEGIN}\n{head}{table}\n{END}{after}")).unwrap();
}

/// Runs every attack for a moment: nobody gets a wrong answer or none.
#[test]
fn attacks_on_protocols_cost_nobody_an_answer() {
    if !has_php() {
        return;
    }
    let served = server();
    for attack in ALL {
        let mut time = Duration::from_millis(200);
        // On a busy machine an attacker may not even have connected.
        wait_until("the attack has tried something", || {
            let outcome = observe(&served, attack, (1, time), Duration::ZERO);
            for seen in [&outcome.before, &outcome.during] {
                assert!(seen.wrong.is_empty(), "{}: {:?}", attack.title, seen.wrong);
            }
            time *= 2;
            outcome.attempts > 0
        });
    }
}

/// The allocator does not give it back by itself: blocks behind it are in use.
#[test]
fn the_memory_of_streams_that_nobody_read_comes_back() {
    const MUCH: u64 = 40 << 10;
    if !has_php() {
        return;
    }
    let served = server();
    let target =
        Target::new(served.site.server.address(), served.authority.pem().as_bytes().to_vec());
    // Without the program's own pages, which come as they are used.
    let memory = || {
        let told = served.site.server.front().status("RssAnon").unwrap();
        told.split(' ').next().unwrap().parse::<u64>().unwrap()
    };
    let before = memory();
    let mut held = Vec::new();
    wait_until("the streams take memory", || {
        held.extend(attackers::streams_that_nobody_reads(&target));
        memory() > before + MUCH
    });
    drop(held);
    wait_until("the connections are over", || served.site.connections() == 0);
    wait_until("the memory has come back", || memory() < before + MUCH * 5 / 8);
}

/// `ATTACK` limits the run to titles that contain its value; such a run writes no table.
#[test]
#[ignore = "takes minutes and needs an idle machine: make attacks"]
fn every_attack_on_a_protocol_leaves_others_their_speed() {
    assert!(is_root() && has_php(), "this needs root and a howdah-php with PHP");
    let _ = howdah_sys::process::raise_descriptor_limit(DESCRIPTORS).unwrap();
    let only = std::env::var("ATTACK").unwrap_or_default();
    let seconds = std::env::var("ATTACK_SECONDS").ok().map(|text| text.parse().unwrap());
    let time = Duration::from_secs(seconds.unwrap_or(SECONDS));
    let mut lines = Vec::new();
    let mut failures = Vec::new();
    for attack in ALL.iter().filter(|attack| attack.title.contains(&only)) {
        // Traces of one attack must not count for the next.
        let served = server();
        let outcome = observe(&served, attack, (TURNS, time / TURNS), GIVES_BACK);
        let line = outcome.line(attack);
        println!("{line}");
        lines.push(line);
        let mut note = |what: String| failures.push(format!("{}: {what}", attack.title));
        for wrong in outcome.before.wrong.iter().chain(&outcome.during.wrong).take(5) {
            note(wrong.clone());
        }
        for (what, factor) in ["file", "page"].into_iter().zip(outcome.factors()) {
            if factor > MOST {
                note(format!("the p99 of the {what} is {factor:.2} times the one before"));
            }
        }
        if outcome.memory[1] > outcome.memory[0] + MOST_GROWTH {
            note(format!("the front has {:?} bytes", outcome.memory));
        }
        if outcome.attempts == 0 {
            note("it has not tried anything".to_owned());
        }
    }
    if only.is_empty() {
        write_table(&lines);
    }
    failures.iter().for_each(|failure| println!("    {failure}"));
    assert!(failures.is_empty(), "{} failures", failures.len());
}
