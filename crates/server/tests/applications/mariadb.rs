//! A MariaDB server for one test, with its own data folder and socket, and no network.

use std::fs::{self, File};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::folder::{give_to, is_root};
use crate::support::Folder;

/// A running database server; ended when dropped, also by a panic.
pub(crate) struct MariaDb {
    child: Child,
    /// Where it listens.
    pub(crate) socket: PathBuf,
}

impl MariaDb {
    /// The programs that must be installed.
    pub(crate) const PROGRAMS: [&'static str; 3] =
        ["/usr/sbin/mariadbd", "/usr/bin/mariadb-install-db", "/usr/bin/mariadb"];

    /// Starts a server with an empty database `name`, and a user of the same name and password that
    /// may do anything in it.
    pub(crate) fn start(folder: &Folder, name: &str) -> MariaDb {
        let home = folder.folder("mariadb");
        if is_root() {
            // The server refuses to run as root, and an ordinary user cannot become another.
            give_to("mysql", &home);
        }
        let data = format!("--datadir={}", home.join("data").display());
        // A server that starts removes what others have in the same folder of temporary files.
        let temporary = home.join("temporary");
        fs::create_dir(&temporary).unwrap();
        if is_root() {
            give_to("mysql", &temporary);
        }
        let temporary = format!("--tmpdir={}", temporary.display());
        let user = is_root().then_some("--user=mysql");
        let install = [
            "--no-defaults",
            &data,
            &temporary,
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
        ];
        run(&home, Command::new(Self::PROGRAMS[1]).args(install).args(user));
        let socket = home.join("socket");
        let child = Command::new(Self::PROGRAMS[0])
            .args(["--no-defaults", &data, &temporary])
            .args(user)
            .arg(format!("--socket={}", socket.display()))
            .arg(format!("--pid-file={}", home.join("pid").display()))
            // Nothing of it outlives the test, so nothing has to survive a crash.
            .args([
                "--skip-networking",
                "--innodb-flush-log-at-trx-commit=0",
                "--innodb-doublewrite=0",
            ])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log(&home))
            .spawn()
            .unwrap();
        let mut server = MariaDb { child, socket };
        server.wait(&home);
        let statements = format!(
            "CREATE DATABASE {name} CHARACTER SET utf8mb4;
             CREATE USER {name}@localhost IDENTIFIED BY '{name}';
             GRANT ALL ON {name}.* TO {name}@localhost;"
        );
        let socket = server.socket.to_str().unwrap();
        let client = ["--no-defaults", "--user=root", "--socket", socket, "--execute", &statements];
        run(&home, Command::new(Self::PROGRAMS[2]).args(client));
        server
    }

    /// Runs the statements of `file` in the database `name`.
    pub(crate) fn execute(&self, file: File, name: &str) {
        let socket = self.socket.to_str().unwrap();
        let status = Command::new(Self::PROGRAMS[2])
            .args(["--no-defaults", "--user=root", "--socket", socket, name])
            .stdin(file)
            .status()
            .unwrap();
        assert!(status.success(), "mariadb ended with {status}");
    }

    fn wait(&mut self, home: &Path) {
        let deadline = Instant::now() + PATIENCE;
        while UnixStream::connect(&self.socket).is_err() {
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none(), "mariadbd ended with {ended:?}\n{}", read_log(home));
            assert!(Instant::now() < deadline, "mariadbd does not listen\n{}", read_log(home));
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for MariaDb {
    fn drop(&mut self) {
        // There is nothing to be saved.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

const PATIENCE: Duration = Duration::from_secs(120);

fn run(home: &Path, command: &mut Command) {
    let status = command
        .stdin(Stdio::null())
        .stdout(log(home))
        .stderr(log(home))
        .status()
        .unwrap();
    assert!(status.success(), "{command:?} ended with {status}\n{}", read_log(home));
}

fn log(home: &Path) -> File {
    File::options().create(true).append(true).open(home.join("log")).unwrap()
}

fn read_log(home: &Path) -> String {
    fs::read_to_string(home.join("log")).unwrap_or_default()
}
