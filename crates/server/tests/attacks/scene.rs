//! A server with a hostile and an innocent site, an attack on it, and the verdict.

mod files;
mod users;

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use howdah_sys::shared_memory::{probe, probe_limits};
use howdah_sys::signal::{SIGKILL, SIGTERM};

pub use self::files::secret;
use self::files::{configuration, furnish, own};
use self::users::{Users, processes_of};
use crate::attack::{Attack, Means};
use crate::neighbour::{Seen, Visitors};
use crate::support::turns::IdleGroup;
use crate::support::{Client, Folder, PATIENCE, Process, Server, Setup, has_php, is_root};

/// Time between two requests of an attacking client.
const PAUSE: Duration = Duration::from_millis(20);
/// Time for which an attacking client waits for an answer.
const ATTACKER_WAITS: Duration = Duration::from_secs(1);
/// Bytes that one attack may add to the log: a line for each kind of event, and counts.
const MOST_LOG: usize = 3 << 20;
/// The same for each second since the start: what a site may log all the time.
const MOST_LOG_PER_SECOND: usize = 100 << 10;
/// Bytes by which an attack may enlarge the front for good.
const MOST_GROWTH: u64 = 96 << 20;

/// Two sites, before the attack.
pub struct Scene {
    attack: &'static Attack,
    server: Server,
    folder: Folder,
    users: Users,
    began: Instant,
}

/// The effects of an attack.
pub struct Outcome {
    /// Everything that must not have happened.
    pub failures: Vec<String>,
    /// Site B's answers before the attack; without requests if that was not measured.
    pub before: Seen,
    /// Site B's answers during the attack.
    pub during: Seen,
    /// Number of attempts that the attack reports.
    pub attempts: usize,
    /// The end of the server's log.
    pub log: String,
}

impl Outcome {
    /// Site B's p99 during the attack, divided by the one before. `None` if that was not measured.
    pub fn slowdown(&self) -> Option<f64> {
        let before = self.before.p99();
        (!before.is_zero()).then(|| self.during.p99().as_secs_f64() / before.as_secs_f64())
    }

    /// Returns whether site B's p99 is more than twice the one before.
    pub fn is_too_slow(&self) -> bool {
        self.slowdown().is_some_and(|factor| factor > 2.0)
    }
}

impl Scene {
    /// Starts the server of an attack. `None` where that is not possible, with the reason printed.
    pub fn prepare(attack: &'static Attack) -> Option<Scene> {
        if !is_root() || !has_php() {
            return None;
        }
        if attack.needs_own_memory && (probe().is_err() || probe_limits().is_err()) {
            howdah_skip::skip!("pools cannot have shared memory of their own here");
            return None;
        }
        let users = Users::claim()?;
        let began = Instant::now();
        let folder = Folder::new();
        furnish(&folder, attack, &users);
        let file = configuration(&folder, attack, &users);
        let server =
            Setup::config(&file).environment("SERVER_SECRET", &secret("supervisor")).start();
        let scene = Scene { attack, server, folder, users, began };
        scene.describe();
        let ready = until(|| scene.ask("a", "/hello.php?n=1") == b"the answer to 1\n");
        assert!(ready, "site A does not serve before the attack");
        // A slow machine may need several requests: what one has prepared is there for the next.
        let target = format!("/{}.php?prepare", attack.name);
        let prepared = until(|| scene.ask("a", &target).ends_with(b"prepared"));
        assert!(prepared, "the attack is not prepared\n{}", scene.server.log());
        Some(scene)
    }

    /// Measures site B for a time, then attacks for a time, and judges.
    pub fn run(self, time: Duration, before: Duration) -> Outcome {
        let address = self.server.address();
        let observe = |time| {
            let visitors = Visitors::start(address, "b.example");
            std::thread::sleep(time);
            visitors.stop()
        };
        let before = if before.is_zero() {
            Seen::default()
        } else {
            observe(before)
        };
        let memory = memory(self.server.front());
        let facts = self.facts();
        let own = self.attack.own_visitors.then(|| Visitors::start(address, "a.example"));
        let during = std::thread::scope(|scope| {
            scope.spawn(|| self.attack_until_something_is_tried(time));
            // Longer than the attack: its effects may come late.
            observe(time + time / 2)
        });
        let own = own.map(Visitors::stop).unwrap_or_default();
        let mut failures: Vec<String> = Vec::new();
        let mut note = |text: String| failures.push(text);
        for seen in [&before, &during] {
            let all = seen.wrong.iter().chain(&seen.lost);
            all.take(5).for_each(|what| note(format!("site B: {what}")));
        }
        own.wrong
            .iter()
            .take(5)
            .for_each(|what| note(format!("site A's visitor: {what}")));
        let (attempts, report) = self.report();
        report.into_iter().take(10).for_each(&mut note);
        if attempts == 0 {
            note("the attack has not tried anything".to_owned());
        }
        self.judge(&facts, memory, &mut note);
        let log = self.end(&mut note);
        Outcome { failures, before, during, attempts, log }
    }

    /// The checks after the attack: the same supervisor, front and zygote of site B; site A serves
    /// again; the log is short; the front has not grown; status and reload work.
    fn judge(&self, facts: &[(&'static str, Process)], memory: u64, note: &mut impl FnMut(String)) {
        for (what, process) in facts {
            if !process.lives() {
                note(format!("{what}, process {}, has ended", process.number()));
            }
        }
        // A pool that kills its zygote again and again waits up to 30 s for the next one.
        let serves = || self.ask("a", "/hello.php?n=2") == b"the answer to 2\n";
        if self.attack.means != Means::Extension && !until(serves) && !until(serves) {
            note("site A does not serve again".to_owned());
        }
        let log = self.server.log().len();
        if log > MOST_LOG + MOST_LOG_PER_SECOND * self.began.elapsed().as_secs() as usize {
            note(format!("the log has {log} bytes"));
        }
        if until(|| self.fronts().len() == 1) {
            let grown = self::memory(self.fronts()[0]).saturating_sub(memory);
            if grown > MOST_GROWTH {
                note(format!("the front has grown by {} KiB", grown / 1024));
            }
        } else {
            note(format!("fronts: {:?}", self.fronts()));
        }
        let control = self.folder.path().join("control").display().to_string();
        let tell = |word| Setup::with(&[word, "--control", &control]).run();
        let (_, told, _) = tell("status");
        if told.chars().any(|character| character.is_control() && character != '\n') {
            note(format!("`howdah status` prints control characters: {told:?}"));
        }
        let (status, _, told) = tell("reload");
        if status != Some(0) {
            note(format!("a reload fails: {told}"));
        }
        if !until(|| self.ask("b", "/hello.php?n=3") == b"the answer to 3\n") {
            note("site B does not serve after a reload".to_owned());
        }
    }

    /// Stops the server, which must leave no process of either site, and no file of a request.
    /// Returns the end of its log.
    fn end(self, note: &mut impl FnMut(String)) -> String {
        let supervisor = self.server.supervisor();
        supervisor.signal(SIGTERM);
        if !until(|| !supervisor.lives()) {
            note("the server does not stop".to_owned());
        }
        for (user, uid) in [self.users.a, self.users.b] {
            if !until(|| processes_of(uid).is_empty()) {
                let left = processes_of(uid);
                let named: Vec<String> = left.iter().map(|one| one.arguments()).collect();
                note(format!(
                    "{} processes of {user} are left: {:?}",
                    left.len(),
                    &named[..named.len().min(3)]
                ));
            }
        }
        let left = || files_below(&self.folder.path().join("b/state/tmp"));
        if !until(|| left().is_empty()) {
            let left = left();
            note(format!("temporary files of site B are left: {left:?}"));
        }
        let log = self.server.log();
        log.get(log.len().saturating_sub(4000)..).unwrap_or(&log).to_owned()
    }

    /// Lets the attack go on for a time, and on a slow machine for as long as it takes to try
    /// anything.
    fn attack_until_something_is_tried(&self, time: Duration) {
        until(|| {
            self.attack_for(time);
            self.report().0 > 0
        });
    }

    /// Lets the attack go on for a time.
    fn attack_for(&self, time: Duration) {
        let until = Instant::now() + time;
        let address = self.server.address();
        let name = self.attack.name;
        match self.attack.means {
            Means::Script(clients) | Means::Library(clients) => {
                attack_with(clients, address, name, until)
            }
            Means::Extension => attack_with(1, address, name, until),
            Means::Client => {
                let program = Command::new("php")
                    .arg("-dmemory_limit=1G")
                    .arg(self.attack.file())
                    .arg(address.to_string())
                    .arg(time.as_secs_f64().to_string())
                    .arg(self.folder.path().join("a/loot"))
                    .stdin(Stdio::null())
                    .stdout(Stdio::piped())
                    .stderr(Stdio::piped())
                    .spawn()
                    .unwrap();
                let group = IdleGroup::new();
                group.add(program.id());
                let program = program.wait_with_output().unwrap();
                let text = String::from_utf8_lossy(&program.stderr).into_owned();
                assert!(program.status.success(), "{name}: {text} {:?}", program.stdout);
            }
        }
    }

    /// Number of attempts that the attack reports, and the successes.
    fn report(&self) -> (usize, Vec<String>) {
        let text = fs::read_to_string(self.folder.path().join("a/loot/report")).unwrap_or_default();
        let attempts = text.lines().filter(|line| line.starts_with("tried: ")).count();
        let mut won: Vec<String> = text
            .lines()
            .filter_map(|line| line.strip_prefix("won: "))
            .map(|what| format!("the attack has {what}"))
            .collect();
        won.sort();
        won.dedup();
        (attempts, won)
    }

    /// The processes that must survive, with what they are.
    fn facts(&self) -> Vec<(&'static str, Process)> {
        let mut facts = vec![("the supervisor", self.server.supervisor())];
        facts.extend(self.fronts().into_iter().map(|front| ("the front", front)));
        facts.extend(self.zygote("b").map(|zygote| ("site B's zygote", zygote)));
        facts
    }

    fn fronts(&self) -> Vec<Process> {
        let children = self.server.supervisor().children();
        children.into_iter().filter(|child| child.name() == "howdah-front").collect()
    }

    fn zygote(&self, pool: &str) -> Option<Process> {
        let end = format!(" {pool}");
        self.server
            .zygotes()
            .into_iter()
            .find(|zygote| zygote.arguments().ends_with(&end))
    }

    /// Tells the attack what an attacker could find out with patience.
    fn describe(&self) {
        let path = |name: &str| self.folder.path().join(name).display().to_string();
        let number = |process: Option<Process>| process.map_or(0, Process::number);
        let scene = serde_json::json!({
            "address": self.server.address().ip().to_string(),
            "port": self.server.address().port(),
            "supervisor": self.server.supervisor().number(),
            "front": number(self.fronts().first().copied()),
            "zygote": number(self.zygote("a")),
            "other_zygote": number(self.zygote("b")),
            "other_uid": self.users.b.1,
            "control": path("control"),
            "config": path("howdah.toml"),
            "other_root": path("b/public"),
            "other_state": path("b/state"),
        });
        let file = self.folder.file("a/loot/scene.json", scene.to_string());
        own(&file, self.users.a.1, 0o644);
    }

    /// Asks a site; an empty answer if there is none with status 200.
    fn ask(&self, site: &str, target: &str) -> Vec<u8> {
        let ask = || {
            let mut client = Client::try_connect(self.server.address())?;
            client.send(format!("GET {target} HTTP/1.1\r\nHost: {site}.example\r\n\r\n"))?;
            client.answer()
        };
        match ask() {
            Ok(response) if response.status == 200 => response.body,
            _ => Vec::new(),
        }
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        // No other process has these users: `claim` has looked.
        for (_, uid) in [self.users.a, self.users.b] {
            for _ in 0..50 {
                let left = processes_of(uid);
                left.iter().for_each(|process| process.signal(SIGKILL));
                if left.is_empty() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

/// Bytes of memory that the process alone uses.
fn memory(process: Process) -> u64 {
    let path = format!("/proc/{}/smaps_rollup", process.number());
    let text = fs::read_to_string(path).unwrap_or_default();
    let kilobytes = |line: &str| line.split_whitespace().nth(1)?.parse::<u64>().ok();
    let lines = text.lines().filter(|line| line.starts_with("Private_"));
    lines.filter_map(kilobytes).sum::<u64>() * 1024
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

fn attack_with(clients: usize, address: SocketAddr, name: &str, until: Instant) {
    std::thread::scope(|scope| {
        for client in 0..clients {
            scope.spawn(move || {
                let mut round = 0;
                while Instant::now() < until {
                    round += 1;
                    let target = format!("/{name}.php?client={client}&round={round}");
                    ask_and_forget(address, &target);
                    std::thread::sleep(PAUSE);
                }
            });
        }
    });
}

fn ask_and_forget(address: SocketAddr, target: &str) {
    let Ok(mut stream) = TcpStream::connect_timeout(&address, ATTACKER_WAITS) else {
        return;
    };
    let _ = stream.set_read_timeout(Some(ATTACKER_WAITS));
    let request = format!("GET {target} HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n");
    if stream.write_all(request.as_bytes()).is_ok() {
        let _ = stream.take(1 << 20).read_to_end(&mut Vec::new());
    }
}

fn until(mut is_so: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        if Instant::now() > end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    true
}
