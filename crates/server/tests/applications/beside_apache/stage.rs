//! A place for an application and one server: copies of its settings and data, its database, and
//! the mount namespace in which they take the place of the package's.

use std::fmt::Write;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Mutex;

use howdah_sys::signal;

use crate::folder::give_to_php;
use crate::mariadb::MariaDb;
use crate::server::Server;
use crate::support::{Folder, Process};

use super::application::Application;

/// The server of a stage.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Engine {
    Apache,
    Howdah,
}

pub(crate) struct Stage {
    engine: Engine,
    pub(crate) folder: Folder,
    /// Where its server listens.
    pub(crate) address: SocketAddr,
    /// Folders of the system, each with the one that is seen in its place.
    mounts: Vec<(PathBuf, PathBuf)>,
    database: Option<MariaDb>,
    daemons: Vec<Daemon>,
}

impl Stage {
    /// Prepares the application for `engine`. The folder is below `/run`, because a pool that root
    /// starts has a `/tmp` of its own and would not see the database's socket there.
    pub(crate) fn new(application: &Application, engine: Engine) -> Stage {
        let address = free_host();
        let name = format!("howdah-{}-{}", application.name, address.ip());
        let folder = Folder::at(Path::new("/run").join(name));
        let database = application.database.then(|| MariaDb::start(&folder, DATABASE));
        let mut stage = Stage {
            engine,
            folder,
            address,
            mounts: Vec::new(),
            database,
            daemons: Vec::new(),
        };
        (application.set_up)(&mut stage);
        stage
    }

    /// Copies a folder of the system with its owners. The server sees the copy in its place.
    pub(crate) fn own(&mut self, place: &str) -> PathBuf {
        let copy = self.folder.folder(&format!("own{place}"));
        run(Command::new("cp").arg("-a").arg(format!("{place}/.")).arg(&copy));
        self.mounts.push((place.into(), copy.clone()));
        copy
    }

    /// Copies a folder like [`Stage::own`]. PHP's user may write everything there.
    pub(crate) fn own_for_php(&mut self, place: &str) -> PathBuf {
        let copy = self.own(place);
        // Links stay as they are: they lead into the package.
        run(Command::new("chown").args(["-hR", "www-data:www-data"]).arg(&copy));
        copy
    }

    /// A folder of the stage that only this server's PHP uses.
    pub(crate) fn folder_for_php(&self, name: &str) -> PathBuf {
        let folder = self.folder.folder(name);
        give_to_php(&folder);
        folder
    }

    /// Keeps a daemon of the application until the end.
    pub(crate) fn keep(&mut self, daemon: Daemon) {
        self.daemons.push(daemon);
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The copy of a folder that [`Stage::own`] has made.
    pub(crate) fn copy_of(&self, place: &str) -> PathBuf {
        self.path().join(format!("own{place}"))
    }

    /// Runs the statements of `file` in the application's database.
    pub(crate) fn load(&self, file: &str) {
        let database = self.database.as_ref().unwrap();
        database.execute(fs::File::open(file).unwrap(), DATABASE);
    }

    /// Starts the server with the application on it.
    pub(crate) fn start(&self, application: &Application) -> Server {
        let view = self.view();
        match self.engine {
            Engine::Apache => {
                Server::apache(&self.folder, &view, self.address, &self.apache(application))
            }
            Engine::Howdah => Server::howdah(&self.folder, &view, &self.howdah(application)),
        }
    }

    /// A script that mounts the copies and then executes its arguments.
    fn view(&self) -> PathBuf {
        let mut script = "set -e\n".to_owned();
        for (place, copy) in &self.mounts {
            writeln!(script, "mount --bind {} {}", copy.display(), place.display()).unwrap();
        }
        self.folder.file("view.sh", script + "exec \"$@\"\n")
    }

    fn root(&self, application: &Application) -> String {
        application.root.replace("@folder@", self.path().to_str().unwrap())
    }

    /// The settings of PHP that both servers have.
    fn settings(&self) -> Vec<(&'static str, String)> {
        let mut settings = vec![
            ("sendmail_path", "/bin/true".to_owned()),
            ("session.save_path", self.folder_for_php("sessions").display().to_string()),
        ];
        if let Some(database) = &self.database {
            let socket = database.socket.display().to_string();
            settings.push(("mysqli.default_socket", socket.clone()));
            settings.push(("pdo_mysql.default_socket", socket));
        }
        settings
    }

    fn howdah(&self, application: &Application) -> String {
        let settings = self.settings().into_iter();
        let settings: Vec<_> =
            settings.map(|(name, value)| format!("\"{name}\" = \"{value}\"")).collect();
        let folder = self.path().display();
        format!(
            "listen = [\"{}\"]\nthreads = 2\ncontrol = \"{folder}/howdah.sock\"\n\n[log]\n\
             access = \"{folder}/access.log\"\nerror = \"{folder}/error.log\"\n\n\
             [[site]]\nhosts = [\"*\"]\nroot = \"{}\"\n{}\n[site.php]\nworkers = 4\n\
             request_timeout = \"5m\"\nqueue_timeout = \"5m\"\nstate_dir = \"{folder}/state\"\n\
             admin_ini = {{ {} }}\n",
            self.address,
            self.root(application),
            application.site,
            settings.join(", "),
        )
    }

    fn apache(&self, application: &Application) -> String {
        let mut text =
            format!("Listen {}\nDocumentRoot {}\n", self.address, self.root(application));
        for (name, value) in self.settings() {
            writeln!(text, "php_admin_value {name} {value}").unwrap();
        }
        text + application.virtual_host
    }
}

/// A running program; ended when dropped.
pub(crate) struct Daemon(Child);

impl Daemon {
    pub(crate) fn start(command: &mut Command) -> Daemon {
        Daemon(command.spawn().unwrap())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        Process::new(self.0.id()).signal(signal::SIGTERM);
        self.0.wait().ok();
    }
}

/// The database, its user and the password.
pub(crate) const DATABASE: &str = "application";

/// Port 80 of an address of this machine that nothing uses: applications write other ports into
/// their addresses, and WordPress makes no network of sites on one.
fn free_host() -> SocketAddr {
    let process = std::process::id();
    let mut hosts = (1..=250).map(|last| {
        let [.., third, second] = process.to_be_bytes();
        SocketAddr::from((Ipv4Addr::new(127, second.max(1), third, last), 80))
    });
    let is_free = |host: &SocketAddr| {
        let mut taken = TAKEN.lock().unwrap();
        let free = !taken.contains(host) && TcpListener::bind(host).is_ok();
        if free {
            taken.push(*host);
        }
        free
    };
    hosts.find(is_free).expect("port 80 is free on an address of this machine")
}

/// The addresses that stages of this process have.
static TAKEN: Mutex<Vec<SocketAddr>> = Mutex::new(Vec::new());

fn run(command: &mut Command) {
    let status = command.status().unwrap();
    assert!(status.success(), "{command:?} ended with {status}");
}
