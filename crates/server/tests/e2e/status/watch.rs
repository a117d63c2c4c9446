//! `howdah status --watch` on a terminal: `script(1)` makes one, and a library reads its screen.

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};

use crate::site::{HELD, Site};
use crate::support::{Process, has_php, wait_until};

const ROWS: u16 = 30;
const COLUMNS: u16 = 160;

/// A terminal in which `howdah status --watch` runs, and afterwards tells its exit status and the
/// state of the terminal.
struct Terminal {
    child: Child,
    keyboard: ChildStdin,
    screen: Arc<Mutex<vt100::Parser>>,
}

impl Terminal {
    fn watch(site: &Site) -> Terminal {
        let (howdah, config) = (env!("CARGO_BIN_EXE_howdah"), site.path().join("howdah.toml"));
        let command = format!(
            "stty rows {ROWS} cols {COLUMNS}; '{howdah}' status --watch --config '{}'; \
             echo \"ended with $?\"; stty -a",
            config.display()
        );
        let mut child = Command::new("script")
            .args(["--quiet", "--flush", "--command", &command, "/dev/null"])
            .env("TERM", "xterm")
            .env("SHELL", "/bin/sh")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (keyboard, mut output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let screen = Arc::new(Mutex::new(vt100::Parser::new(ROWS, COLUMNS, 0)));
        let drawn = Arc::clone(&screen);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(length @ 1..) = output.read(&mut bytes) {
                drawn.lock().unwrap().process(&bytes[..length]);
            }
        });
        Terminal { child, keyboard, screen }
    }

    fn text(&self) -> String {
        self.screen.lock().unwrap().screen().contents()
    }

    fn press(&mut self, key: &[u8]) {
        self.keyboard.write_all(key).unwrap();
    }

    fn wait_for(&self, what: &str, has: impl Fn(&str) -> bool) {
        let mut text = String::new();
        wait_until(what, || {
            let now = self.text();
            if now != text {
                eprintln!("{now}\n----");
                text = now;
            }
            has(&text)
        });
    }

    /// Waits for the end of the command, which leaves the terminal as it was.
    fn ends(mut self) {
        self.wait_for("it has ended well, and the terminal is as before", |text| {
            let words: Vec<&str> = text.split([' ', ';', '\n']).collect();
            text.contains("ended with 0") && words.contains(&"icanon") && words.contains(&"echo")
        });
        let screen = self.screen.lock().unwrap();
        assert!(!screen.screen().alternate_screen() && !screen.screen().hide_cursor());
        drop(self.keyboard);
        self.child.wait().unwrap();
    }
}

#[test]
fn a_terminal_shows_what_every_worker_does_until_q_or_control_c() {
    if !has_php() {
        return;
    }
    let site = Site::with_php(&[HELD, ("a.php", "<?php echo 'a';")], "workers = 2");
    let mut held = site.hold_worker();
    let mut terminal = Terminal::watch(&site);
    let shows = |text: &str, words: &[&str]| {
        text.lines().any(|line| words.iter().all(|word| line.contains(word)))
    };
    terminal.wait_for("it shows the site and the script that runs", |text| {
        text.starts_with("howdah ")
            && shows(text, &["site", "req/s", "queue", "memory"])
            && shows(text, &["worker", "pid", "state", "time", "cpu"])
            && shows(text, &["default", " running ", " s ", "GET /held.php?in="])
            && shows(text, &["default", " idle "])
            && shows(text, &["q quit"])
    });
    site.allow("end");
    assert_eq!(held.reply("GET").text(), "done");
    terminal.wait_for("it is brought up to date", |text| !text.contains(" running "));
    terminal.press(b"q");
    terminal.ends();

    let mut terminal = Terminal::watch(&site);
    terminal.wait_for("it shows the site", |text| shows(text, &["default", " idle "]));
    terminal.press(b"\x03");
    terminal.ends();
}

/// A lost connection of ssh closes the terminal. The keys of such a terminal cannot be waited for.
#[test]
fn a_terminal_that_is_closed_ends_it() {
    if !has_php() {
        return;
    }
    let site = Site::with_php(&[("a.php", "<?php echo 'a';")], "workers = 1");
    let mut terminal = Terminal::watch(&site);
    terminal.wait_for("it shows the site", |text| text.contains("default"));
    let below = Process::new(terminal.child.id()).descendants();
    let watch = below.into_iter().find(|process| process.name() == "howdah");
    let watch = watch.expect("the screen's process");
    // The end of `script` is that of its terminal.
    terminal.child.kill().unwrap();
    terminal.child.wait().unwrap();
    let ends = std::panic::catch_unwind(|| {
        wait_until("the screen has ended", || !watch.lives());
    });
    if ends.is_err() {
        watch.signal(howdah_sys::signal::SIGKILL);
    }
    ends.unwrap();
}

#[test]
fn without_a_terminal_it_says_what_to_do() {
    let site = Site::new(&[("a.txt", "a")]);
    let config = site.path().join("howdah.toml").display().to_string();
    let (code, _, errors) =
        crate::support::Setup::with(&["status", "--watch", "--config", &config]).run();
    assert_eq!(code, Some(1));
    assert!(errors.contains("--watch needs a terminal"), "{errors}");
}
