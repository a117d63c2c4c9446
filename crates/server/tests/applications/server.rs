//! A server with an application on it: Howdah as an operator starts it, or an Apache to compare
//! with.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use howdah_sys::signal;

use crate::beside_apache::apache::{self, Apache};
use crate::folder::is_root;
use crate::support::folder::copy_program;
use crate::support::{self, Folder, HOWDAH, Setup};

/// A running server with its configuration and its logs in the test's folder.
pub(crate) struct Server {
    program: Program,
    folder: PathBuf,
}

enum Program {
    Howdah(support::Server),
    Apache(Apache),
}

impl Server {
    /// Starts `howdah serve --config` with `sites` as the configuration, and what a test needs
    /// above it.
    pub(crate) fn start(folder: &Folder, sites: &str) -> Server {
        Server::listening(folder, "\"127.0.0.1:0\"", sites)
    }

    /// Starts a server like [`Server::start`], on a port for https alone.
    pub(crate) fn start_encrypted(folder: &Folder, sites: &str) -> Server {
        Server::listening(folder, "{ address = \"127.0.0.1:0\", tls = true }", sites)
    }

    fn listening(folder: &Folder, listen: &str, sites: &str) -> Server {
        write_configuration(folder.path(), listen, sites);
        let setup = Setup::config(&folder.path().join(CONFIGURATION)).program(&program(folder));
        Server {
            program: Program::Howdah(setup.start()),
            folder: folder.path().to_owned(),
        }
    }

    /// Starts Howdah with `configuration`. The script `view` executes it in a mount namespace of
    /// its own.
    pub(crate) fn howdah(folder: &Folder, view: &Path, configuration: &str) -> Server {
        let file = folder.file(CONFIGURATION, configuration);
        let paths = [view, &program(folder), &file].map(|path| path.to_str().unwrap().to_owned());
        let [view, howdah, file] = &paths;
        let arguments = ["--mount", "sh", view, howdah, "serve", "--config", file];
        let setup = Setup::with(&arguments).program(Path::new("/usr/bin/unshare"));
        Server {
            program: Program::Howdah(setup.start()),
            folder: folder.path().to_owned(),
        }
    }

    /// Starts Apache on `address` with the directives `host`. The script `view` executes it in a
    /// mount namespace of its own.
    pub(crate) fn apache(folder: &Folder, view: &Path, address: SocketAddr, host: &str) -> Server {
        Server {
            program: Program::Apache(Apache::start(folder.path(), view, address, host)),
            folder: folder.path().to_owned(),
        }
    }

    /// Writes a new configuration and has the server reload it. Says nothing about when that is
    /// done.
    pub(crate) fn reload(&self, sites: &str) {
        write_configuration(&self.folder, "\"127.0.0.1:0\"", sites);
        if let Program::Howdah(process) = &self.program {
            process.signal(signal::SIGHUP);
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        match &self.program {
            Program::Howdah(process) => process.address(),
            Program::Apache(apache) => apache.address(),
        }
    }

    /// The URL of `path` on this server.
    pub(crate) fn url(&self, path: &str) -> String {
        match self.address() {
            address if address.port() == 80 => format!("http://{}{path}", address.ip()),
            address => format!("http://{address}{path}"),
        }
    }

    /// Stops the server as its operator does, and looks at what it leaves: no processes, and no
    /// error in the log.
    pub(crate) fn stop(self) {
        self.stop_knowing(&[]);
    }

    /// Stops the server like [`Server::stop`]. Errors that contain one of `known` are expected in
    /// the log.
    pub(crate) fn stop_knowing(self, known: &[&str]) {
        let Server { program, folder } = self;
        let Program::Howdah(process) = program else {
            return;
        };
        process.stop();
        let log = fs::read_to_string(folder.join(ERROR_LOG)).unwrap();
        // `TIME LEVEL MESSAGE`. PHP's mere warnings are the application's own affair.
        let is_known = |line: &str| known.iter().any(|known| line.contains(known));
        let mut errors = log.lines().filter(|line| line.split(' ').nth(1) == Some("error"));
        let error = errors.find(|line| !is_known(line));
        assert!(error.is_none(), "the log tells of {error:?}\n{}", describe(&folder));
    }

    /// The configuration and the end of the logs, for a test that fails.
    pub(crate) fn description(&self) -> String {
        describe(&self.folder)
    }
}

const CONFIGURATION: &str = "howdah.toml";
const ERROR_LOG: &str = "error.log";
const ACCESS_LOG: &str = "access.log";

/// `@folder@` in `sites` is the test's folder.
fn write_configuration(folder: &Path, listen: &str, sites: &str) {
    let text = format!(
        "listen = [{listen}]\ncontrol = \"@folder@/howdah.sock\"\n\n\
         [log]\naccess = \"@folder@/{ACCESS_LOG}\"\nerror = \"@folder@/{ERROR_LOG}\"\n{sites}"
    );
    let text = text.replace("@folder@", folder.to_str().unwrap());
    fs::write(folder.join(CONFIGURATION), text).unwrap();
}

/// The server's program. It and `howdah-php` beside it are run by other users when root starts
/// them; where those cannot reach them (a checkout below /root), by copies that they can reach.
fn program(folder: &Folder) -> PathBuf {
    let howdah = Path::new(HOWDAH);
    let reachable =
        |path: &Path| fs::metadata(path).is_ok_and(|found| found.permissions().mode() & 0o001 != 0);
    if !is_root() || howdah.ancestors().all(reachable) {
        return howdah.to_owned();
    }
    let programs = folder.folder("bin");
    for name in ["howdah", "howdah-php"] {
        copy_program(&howdah.with_file_name(name), &programs.join(name));
    }
    programs.join("howdah")
}

fn describe(folder: &Path) -> String {
    let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap_or_default();
    let end = |name: &str| {
        let log = read(name);
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
    };
    let logs = match folder.join(apache::CONFIGURATION).exists() {
        true => [apache::CONFIGURATION, apache::ERROR_LOG, apache::ACCESS_LOG],
        false => [CONFIGURATION, ERROR_LOG, ACCESS_LOG],
    };
    let (errors, accesses) = (end(logs[1]), end(logs[2]));
    let configuration = read(logs[0]);
    format!(
        "--- configuration\n{configuration}\n--- access log\n{accesses}\n--- error log\n{errors}\n"
    )
}

/// Lines of each log that a failing test prints.
const LOG_LINES: usize = 30;
