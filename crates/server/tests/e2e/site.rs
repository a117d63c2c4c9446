//! A server with one site, or a configuration of the test's own.

use std::path::{Path, PathBuf};
use std::time::Duration;

use howdah_sys::signal::SIGHUP;

use crate::support::{Folder, Server, Setup, status, wait_until};
use crate::wire::{Reply, Wire};

/// For scripts: `await('step')` ends when the test has called [`Site::allow`] with that name. Tests
/// that are about an order prove it so, on the slowest machine, too. The script needs the
/// [`Site::awaiting`] target.
pub const AWAIT: &str =
    "function await($step) { while (!file_exists($_GET['in'] . '/' . $step)) usleep(1000); }";

/// A script that creates the file `begun` when it runs, and does not end before `end` is allowed.
pub const HELD: (&str, &str) = (
    "held.php",
    "<?php touch($_GET['in'] . '/begun'); while (!file_exists($_GET['in'] . '/end')) usleep(1000); \
     echo 'done';",
);

/// A listener on which tests are clients with different addresses: all loopback addresses are one
/// client.
pub const TAKES_PROXY: &str =
    "{ address = \"127.0.0.1:0\", proxy_protocol = true, trusted = true }";

/// A site and the server that serves it.
pub struct Site {
    pub server: Server,
    folder: Folder,
    config: String,
}

/// The differences from the usual site.
#[derive(Default)]
pub struct Options<'o> {
    /// Lines before the first table.
    pub top: &'o str,
    /// Lines of `[limits]`.
    pub limits: &'o str,
    /// Lines of `[log]`; the access log goes to a file.
    pub log: &'o str,
    /// Lines of `[[site]]`.
    pub site: &'o str,
    /// Lines of `[site.php]`.
    pub php: &'o str,
}

impl Site {
    /// Returns what `howdah status` prints with these further arguments. The error where nobody
    /// answers, as while a program takes over.
    pub fn try_status(&self, more: &[&str]) -> Result<String, String> {
        let file = self.path().join("howdah.toml");
        let arguments = [&["status", "--config", file.to_str().unwrap()][..], more].concat();
        let (code, told, errors) = Setup::with(&arguments).run();
        if code == Some(0) { Ok(told) } else { Err(errors) }
    }

    /// Returns how often clients have met this limit of `[http2]` or `[http3]`.
    pub fn limits_met(&self, protocol: &str, key: &str) -> u64 {
        let told = self.try_status(&["--json"]).unwrap();
        let status: serde_json::Value = serde_json::from_str(&told).unwrap();
        status["limits_met"][protocol][key].as_u64().expect(key)
    }

    /// A site of these files, each with its path and content.
    pub fn new(files: &[(&str, &str)]) -> Site {
        Site::with(files, &Options::default())
    }

    /// A site with PHP settings of its own.
    pub fn with_php(files: &[(&str, &str)], php: &str) -> Site {
        Site::with(files, &Options { php, ..Options::default() })
    }

    /// A site with settings of its own.
    pub fn with(files: &[(&str, &str)], options: &Options<'_>) -> Site {
        let Options { top, limits, log, site, php } = options;
        let workers = if php.contains("workers") { "" } else { "workers = 2" };
        let root = if site.contains("root =") {
            ""
        } else {
            "root = \"public\""
        };
        let state = if php.contains("state_dir") {
            ""
        } else {
            "state_dir = \"state\""
        };
        let access = if log.contains("access") {
            ""
        } else {
            "access = \"access.log\""
        };
        let threads = if top.contains("threads") { "" } else { "threads = 2" };
        let far_limits = far_limits(limits);
        let far_php = far_php(php);
        let config = format!(
            "listen = [\"127.0.0.1:0\"]\n{threads}\ncontrol = \"control\"\n{top}\n[limits]\n\
             {far_limits}{limits}\n\
             [log]\n{access}\n{log}\n[[site]]\n{root}\n{site}\n[site.php]\n{workers}\n{state}\n\
             {far_php}{php}\n"
        );
        Site::configured(files, &config)
    }

    /// A server with this configuration file; its root should be `public`, where the files go.
    pub fn configured(files: &[(&str, &str)], config: &str) -> Site {
        let folder = Folder::new();
        folder.folder("public");
        for (name, content) in files {
            folder.file(&format!("public/{name}"), content);
        }
        let file = folder.file("howdah.toml", config);
        let server = Setup::config(&file).start();
        Site {
            server,
            folder,
            config: config.to_owned(),
        }
    }

    /// Replaces the configuration, and tells the server to read it.
    pub fn reconfigure(&self, config: &str) {
        self.folder.file("howdah.toml", config);
        self.server.signal(SIGHUP);
    }

    /// The document root.
    pub fn root(&self) -> PathBuf {
        self.folder.path().join("public")
    }

    /// The folder of the configuration.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a file below the document root.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        self.folder.file(&format!("public/{name}"), content)
    }

    /// A folder outside of the document root that scripts may write to.
    pub fn scratch(&self) -> PathBuf {
        use std::os::unix::fs::PermissionsExt;
        let path = self.folder.folder("scratch");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o777)).unwrap();
        path
    }

    /// The target that tells a script where to look for what it awaits.
    pub fn awaiting(&self, path: &str) -> String {
        format!("{path}?in={}", self.scratch().display())
    }

    /// Lets a script go on that awaits this step.
    pub fn allow(&self, step: &str) {
        std::fs::write(self.scratch().join(step), "").unwrap();
    }

    /// Asks for [`HELD`], and comes back when it runs. Where a worker comes too late for
    /// `queue_timeout`, asks again.
    pub fn hold_worker(&self) -> Wire {
        let begun = self.scratch().join("begun");
        let ask = || {
            let mut wire = self.connect();
            wire.request("GET", &self.awaiting("/held.php"), &[], b"");
            wire
        };
        let mut wire = ask();
        wait_until("the script has begun", || {
            let has_begun = begun.exists();
            if !has_begun && !wire.is_silent_for(Duration::from_millis(1)) {
                wire = ask();
            }
            has_begun
        });
        wire
    }

    /// Returns the number of connections of clients that the server has open.
    pub fn connections(&self) -> usize {
        let told = status(&self.folder.path().join("howdah.toml"));
        let line = told.lines().find_map(|line| line.strip_prefix("connections "));
        let (counts, _) =
            line.and_then(|line| line.split_once(';')).unwrap_or_else(|| panic!("{told}"));
        counts.split(" + ").map(|count| count.parse::<usize>().unwrap()).sum()
    }

    pub fn connect(&self) -> Wire {
        Wire::connect(self.server.address())
    }

    /// Connects as a client with this address to the second listener, which is [`TAKES_PROXY`].
    pub fn connect_as(&self, client: [u8; 4]) -> Wire {
        Wire::connect_as(client, self.server.addresses()[1])
    }

    /// Asks on a connection of its own.
    pub fn get(&self, target: &str) -> Reply {
        self.connect().get(target)
    }

    /// Asks on a connection of its own.
    pub fn ask(&self, method: &str, target: &str, fields: &[(&str, &str)], body: &[u8]) -> Reply {
        self.connect().ask(method, target, fields, body)
    }

    /// Asks on this many connections at once, so that every thread of the front gets some and opens
    /// the files that it needs.
    pub fn ask_at_once(&self, target: &str, connections: usize) -> Vec<Reply> {
        let mut wires: Vec<Wire> = (0..connections).map(|_| self.connect()).collect();
        wires.iter_mut().for_each(|wire| wire.request("GET", target, &[], b""));
        wires.iter_mut().map(|wire| wire.reply("GET")).collect()
    }

    /// The lines of the error log that contain `what`.
    pub fn log_lines(&self, what: &str) -> Vec<String> {
        self.server
            .log()
            .lines()
            .filter(|line| line.contains(what))
            .map(str::to_owned)
            .collect()
    }

    /// The access log.
    pub fn access_log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("access.log")).unwrap_or_default()
    }
}

/// Lines for `[limits]` with the time limits of connections that are not in `lines`: limits that a
/// test does not provoke are far away from what a busy machine takes.
pub fn far_limits(lines: &str) -> String {
    far(lines, &["head_timeout", "body_timeout", "send_timeout", "keep_alive_timeout"])
}

/// Lines for `[site.php]` with the time limits of scripts that are not in `lines`, as
/// [`far_limits`].
pub fn far_php(lines: &str) -> String {
    far(lines, &["queue_timeout", "request_timeout"])
}

fn far(lines: &str, keys: &[&str]) -> String {
    let unset = keys.iter().filter(|key| !lines.contains(**key));
    unset.map(|key| format!("{key} = \"5m\"\n")).collect()
}

impl Drop for Site {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- configuration\n{}", self.config);
            eprintln!("--- access log\n{}", self.access_log());
        }
    }
}
