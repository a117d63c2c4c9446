//! A script in a folder of its own, and the response that it gives.

use std::fmt::Debug;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

/// A site with `index.php`, removed at the end of the test.
pub struct Script {
    pub root: PathBuf,
    path: PathBuf,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    user: Option<u32>,
}

/// The response that a client would get.
#[derive(Debug)]
pub struct Response {
    pub status: u16,
    pub reason: String,
    pub fields: Vec<(String, String)>,
    pub body: String,
    /// Heads before the final one.
    pub interim: Vec<(u16, Vec<(String, String)>)>,
    /// The pool's log.
    pub log: String,
}

impl Script {
    /// `php` is what follows `<?php`.
    pub fn new(php: &str) -> Script {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let root =
            std::env::temp_dir().join(format!("howdah-script-{}-{number}", std::process::id()));
        fs::create_dir_all(&root).unwrap();
        let script = Script {
            path: root.join("index.php"),
            root,
            arguments: Vec::new(),
            environment: Vec::new(),
            user: None,
        };
        script.file("index.php", &format!("<?php {php}"));
        script
    }

    /// Adds a file below the root.
    pub fn file(&self, name: &str, content: &str) {
        let path = self.root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// Runs another file than `index.php`.
    pub fn run(mut self, name: &str) -> Script {
        self.path = self.root.join(name);
        let root = text(&self.root);
        self.with(&["--root", &root])
    }

    /// Adds options of `howdah-php run`.
    pub fn with(mut self, arguments: &[&str]) -> Script {
        self.arguments.extend(arguments.iter().map(|&argument| argument.to_owned()));
        self
    }

    /// Sends `content`.
    pub fn post(self, content_type: &str, content: impl AsRef<[u8]>) -> Script {
        let path = self.root.join("request-content");
        fs::write(&path, content).unwrap();
        let path = path.display().to_string();
        self.with(&[
            "--method",
            "POST",
            "--body",
            &path,
            "--field",
            &format!("Content-Type: {content_type}"),
        ])
    }

    /// Sets an environment variable of the process.
    pub fn environment(mut self, name: &str, value: &str) -> Script {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Runs it as a user without rights, if we are root, whom no file mode stops.
    pub fn by_nobody(mut self) -> Script {
        let owner = fs::metadata("/proc/self").unwrap().uid();
        self.user = (owner == 0).then_some(65534);
        self
    }

    /// Runs it without looking at the output.
    pub fn output(&self) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_howdah-php"));
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        command
            .args(["run", "--head"])
            .arg(&self.path)
            .args(&self.arguments)
            .env_clear()
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .output()
            .unwrap()
    }

    /// The response, which is there as a whole.
    pub fn response(&self) -> Response {
        let output = self.output();
        let log = String::from_utf8_lossy(&output.stderr).into_owned();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{:?}\n{text}\n{log}", output.status);
        Response::parse(&text, log)
    }

    /// The body of a response that is all right.
    pub fn body(&self) -> String {
        let response = self.response();
        assert_eq!((response.status, response.log.as_str()), (200, ""), "{}", response.body);
        response.body
    }

    /// Where a file of the site is.
    pub fn at(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

impl Response {
    fn parse(mut text: &str, log: String) -> Response {
        let mut interim = Vec::new();
        loop {
            let (head, rest) = text
                .split_once("\r\n\r\n")
                .unwrap_or_else(|| panic!("no head in {text:?}\n{log}"));
            let mut lines = head.split("\r\n");
            let status_line = lines.next().unwrap();
            let mut parts = status_line.splitn(3, ' ').skip(1);
            let status: u16 = parts.next().unwrap().parse().unwrap();
            let reason = parts.next().unwrap_or_default().to_owned();
            let field = |line: &str| {
                let (name, value) = line.split_once(": ").unwrap_or((line, ""));
                (name.to_owned(), value.to_owned())
            };
            let fields = lines.map(field).collect();
            if status >= 200 {
                return Response {
                    status,
                    reason,
                    fields,
                    body: rest.to_owned(),
                    interim,
                    log,
                };
            }
            interim.push((status, fields));
            text = rest;
        }
    }

    /// All values of a header field.
    pub fn field(&self, name: &str) -> Vec<&str> {
        let named = self.fields.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
        named.map(|(_, value)| value.as_str()).collect()
    }
}

/// Fails with the whole response if `text` does not contain `part`.
pub fn assert_contains(text: &str, part: &str) {
    assert!(text.contains(part), "{part:?} is not in:\n{text}");
}

/// A path as text.
pub fn text(path: &Path) -> String {
    path.display().to_string()
}
