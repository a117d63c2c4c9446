//! Apache httpd: three process models, with PHP inside, behind php-fpm, and behind mod_fcgid.

mod templates;

use std::path::{Path, PathBuf};
use std::process::Command;

use super::fpm::{self, FpmSocket};
use super::template::{fill, if_tls, keep_alive, only_if, version};
use rustix::process::Signal;

use crate::environment::{load_opcache, own_ini, ruled_root};
use crate::process::{StartFailed, find, free_port};
use crate::rules;
use crate::stack::{Running, Stack, StackEnvironment};
use crate::zts;

use templates::{
    CONFIGURATION, FCGID, MODULES, PREFORK, PREFORK_AS_INSTALLED, THREADED, THREADED_AS_INSTALLED,
    TLS,
};

/// Connections that have a process each where PHP is inside of Apache's prefork processes.
const MOST_WITH_PROCESS: usize = 64;

/// Apache with one process model and one connection to PHP.
#[derive(Clone, Copy, Debug)]
pub(super) struct Apache {
    name: &'static str,
    title: &'static str,
    unequal: Option<&'static str>,
    mpm: &'static str,
    php: PhpConnection,
    /// Whether `AllowOverride` is All rather than None.
    overrides: bool,
    /// Rules in the document root; the modules that they need are loaded then.
    rules: Option<&'static str>,
}

/// The connection to PHP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PhpConnection {
    /// mod_php.
    Inside,
    /// mod_php of the thread-safe PHP that `howdah-lab setup --zts` builds.
    InsideThreads,
    /// mod_proxy_fcgi and php-fpm.
    Fpm(FpmSocket),
    /// mod_fcgid.
    Fcgid,
}

/// Apache prefork with mod_php, AllowOverride None.
pub(super) fn prefork() -> Apache {
    Apache {
        name: "apache-prefork-mod_php",
        title: "Apache prefork + mod_php",
        unequal: None,
        mpm: "prefork",
        php: PhpConnection::Inside,
        overrides: false,
        rules: None,
    }
}

/// Apache prefork with mod_php and a set of rules in the document root. The modules that rules need
/// are loaded beside a root without rules as well, since their hooks cost time.
fn ruled(rules: &'static str, name: &'static str, title: &'static str) -> Apache {
    Apache {
        name,
        title,
        overrides: true,
        rules: Some(rules),
        ..prefork()
    }
}

pub(super) fn all() -> Vec<Apache> {
    let fpm = |name, title, mpm, transport| Apache {
        name,
        title,
        mpm,
        php: PhpConnection::Fpm(transport),
        ..prefork()
    };
    vec![
        prefork(),
        Apache {
            name: "apache-prefork-mod_php-htaccess",
            title: "Apache prefork + mod_php, AllowOverride All",
            overrides: true,
            ..prefork()
        },
        ruled(rules::PLAIN, "apache-plain", "Apache without .htaccess"),
        ruled(rules::AGAIN, "apache-again", "Apache without .htaccess, again"),
        ruled("wordpress", "apache-wordpress-rules", "Apache, WordPress rules"),
        ruled("drupal", "apache-drupal-rules", "Apache, Drupal rules"),
        ruled("redirects", "apache-redirects", "Apache, 5,000 redirects"),
        ruled("bad-bots", "apache-bad-bots", "Apache, 7,800 bad bots"),
        ruled(rules::FOLDERS, "apache-folders", "Apache, many folders"),
        Apache {
            name: "apache-itk-mod_php",
            title: "Apache ITK + mod_php",
            unequal: Some(
                "a process for each connection, started with a user of its own: it cannot be \
                 started before",
            ),
            mpm: "itk",
            ..prefork()
        },
        Apache {
            name: "apache-worker-mod_php",
            title: "Apache worker + mod_php (thread-safe PHP)",
            unequal: Some("PHP is built by the laboratory, thread-safe and with fewer extensions"),
            mpm: "worker",
            php: PhpConnection::InsideThreads,
            ..prefork()
        },
        fpm("apache-prefork-fpm", "Apache prefork + php-fpm", "prefork", FpmSocket::Unix),
        fpm(
            "apache-prefork-fpm-tcp",
            "Apache prefork + php-fpm over TCP",
            "prefork",
            FpmSocket::Tcp,
        ),
        fpm("apache-worker-fpm", "Apache worker + php-fpm", "worker", FpmSocket::Unix),
        fpm("apache-worker-fpm-tcp", "Apache worker + php-fpm over TCP", "worker", FpmSocket::Tcp),
        fpm("apache-event-fpm", "Apache event + php-fpm", "event", FpmSocket::Unix),
        fpm("apache-event-fpm-tcp", "Apache event + php-fpm over TCP", "event", FpmSocket::Tcp),
        Apache {
            name: "apache-prefork-fcgid",
            title: "Apache prefork + mod_fcgid",
            unequal: Some(FCGID_UNEQUAL),
            php: PhpConnection::Fcgid,
            ..prefork()
        },
        Apache {
            name: "apache-worker-fcgid",
            title: "Apache worker + mod_fcgid",
            unequal: Some(FCGID_UNEQUAL),
            mpm: "worker",
            php: PhpConnection::Fcgid,
            ..prefork()
        },
    ]
}

const FCGID_UNEQUAL: &str =
    "each PHP process has an opcache of its own: mod_fcgid starts them one by one";

/// Modules that the rules need.
const RULE_MODULES: &[&str] = &[
    "alias",
    "rewrite",
    "headers",
    "expires",
    "deflate",
    "filter",
    "setenvif",
    "env",
    "access_compat",
    "authz_host",
];

impl Apache {
    fn php_modules(&self, environment: &StackEnvironment) -> Vec<String> {
        match self.php {
            PhpConnection::Inside => vec![format!("libphp{}.so", environment.php)],
            PhpConnection::InsideThreads => Vec::new(),
            PhpConnection::Fpm(_) => vec!["mod_proxy_fcgi.so".to_owned()],
            PhpConnection::Fcgid => vec!["mod_fcgid.so".to_owned()],
        }
    }

    /// Module lines of the process model. ITK is prefork with a user for each request.
    fn mpm_modules(&self) -> String {
        let load =
            |name: &str, file: &str| format!("LoadModule {name}_module {MODULES}/{file}.so\n");
        match self.mpm {
            "itk" => load("mpm_prefork", "mod_mpm_prefork") + &load("mpm_itk", "mpm_itk"),
            mpm => load(&format!("mpm_{mpm}"), &format!("mod_mpm_{mpm}")),
        }
    }

    fn rule_modules(&self) -> String {
        let load = |name: &&str| format!("LoadModule {name}_module {MODULES}/mod_{name}.so\n");
        let modules: &[&str] = if self.rules.is_some() { RULE_MODULES } else { &[] };
        modules.iter().map(load).collect()
    }

    fn root(&self, environment: &StackEnvironment) -> PathBuf {
        let ruled = |rules| ruled_root(&environment.root, rules);
        self.rules.map_or_else(|| environment.root.clone(), ruled)
    }

    /// Settings of the process model. Prefork has a process for each connection: with fewer,
    /// connections would starve.
    fn mpm_settings(&self, environment: &StackEnvironment) -> String {
        let setting = |name: &str, otherwise: usize| {
            environment.settings.get(name).cloned().unwrap_or_else(|| otherwise.to_string())
        };
        let is_prefork = matches!(self.mpm, "prefork" | "itk");
        if environment.is_as_installed() {
            let settings = if is_prefork {
                PREFORK_AS_INSTALLED
            } else {
                THREADED_AS_INSTALLED
            };
            return settings.to_owned();
        }
        if is_prefork {
            // A crowd is what a prefork server with PHP inside is measured with; every connection
            // of fewer has a process.
            let is_crowd = environment.connections > MOST_WITH_PROCESS;
            let workers = if self.php == PhpConnection::Inside && is_crowd {
                environment.php_processes
            } else {
                environment.php_processes.max(environment.connections)
            };
            return fill(PREFORK, &[("workers", &setting("MaxRequestWorkers", workers))]);
        }
        let processes = setting("ServerLimit", environment.cores);
        let threads = setting("ThreadsPerChild", environment.connections.max(32));
        let all = processes.parse::<usize>().unwrap_or(1) * threads.parse::<usize>().unwrap_or(1);
        fill(
            THREADED,
            &[("processes", &processes), ("threads", &threads), ("all", &all.to_string())],
        )
    }

    fn php_settings(
        &self,
        environment: &StackEnvironment,
        folder: &Path,
        running: &mut Running,
    ) -> Result<String, StartFailed> {
        match self.php {
            PhpConnection::Inside => {
                let module = format!("{MODULES}/libphp{}.so", environment.php);
                Ok(inside(Path::new(&module), &own_ini(environment, folder)?))
            }
            PhpConnection::InsideThreads => {
                let (module, opcache) = zts::built(&environment.php).unwrap_or_default();
                let ini = own_ini(environment, folder)?;
                load_opcache(&ini, &opcache)?;
                Ok(inside(&module, &ini))
            }
            PhpConnection::Fpm(transport) => {
                let processes = environment.php_processes;
                let address = fpm::start(environment, folder, transport, processes, running)?;
                Ok(behind_fpm(transport, &address))
            }
            PhpConnection::Fcgid => fcgid(environment, folder),
        }
    }
}

/// Returns the settings for mod_php with the ini file at `ini`.
fn inside(module: &Path, ini: &Path) -> String {
    format!(
        "LoadModule php_module {}\nPHPIniDir \"{}\"\n\
         <FilesMatch \"[.]php$\">\n    SetHandler application/x-httpd-php\n</FilesMatch>",
        module.display(),
        ini.display()
    )
}

/// Returns the settings for mod_proxy_fcgi in front of the pool at `address`.
fn behind_fpm(transport: FpmSocket, address: &str) -> String {
    let handler = match transport {
        FpmSocket::Unix => format!("proxy:{address}|fcgi://php-fpm"),
        FpmSocket::Tcp => format!("proxy:fcgi://{address}"),
    };
    format!(
        "LoadModule proxy_module {MODULES}/mod_proxy.so\nLoadModule proxy_fcgi_module \
         {MODULES}/mod_proxy_fcgi.so\n<FilesMatch \"[.]php$\">\n    SetHandler \
         \"{handler}\"\n</FilesMatch>"
    )
}

/// Returns the settings for mod_fcgid, whose sockets get a folder.
fn fcgid(environment: &StackEnvironment, folder: &Path) -> Result<String, StartFailed> {
    let sockets = folder.join("fcgid");
    std::fs::create_dir_all(&sockets)
        .map_err(|error| StartFailed::Execute(sockets.display().to_string(), error))?;
    crate::environment::give(&sockets, environment);
    Ok(fill(
        FCGID,
        &[
            ("modules", MODULES),
            ("folder", &folder.display().to_string()),
            ("processes", &environment.php_processes.to_string()),
            ("cgi", &cgi(environment).unwrap_or_default().display().to_string()),
            ("ini", &own_ini(environment, folder)?.display().to_string()),
        ],
    ))
}

fn cgi(environment: &StackEnvironment) -> Option<PathBuf> {
    find(&[&format!("php-cgi{}", environment.php), "php-cgi"])
}

fn binary() -> Option<PathBuf> {
    find(&["apache2", "httpd"])
}

impl Stack for Apache {
    fn name(&self) -> &str {
        self.name
    }

    fn title(&self) -> &str {
        self.title
    }

    fn unequal(&self) -> Option<&str> {
        self.unequal
    }

    fn packages(&self, php: &str) -> Vec<String> {
        let mut packages = vec!["apache2".to_owned()];
        packages.extend(match self.php {
            PhpConnection::Inside => vec![format!("libapache2-mod-php{php}")],
            // `setup --zts` builds it and has packages of its own.
            PhpConnection::InsideThreads => Vec::new(),
            PhpConnection::Fpm(_) => vec![format!("php{php}-fpm")],
            PhpConnection::Fcgid => {
                vec!["libapache2-mod-fcgid".to_owned(), format!("php{php}-cgi")]
            }
        });
        packages.extend((self.mpm == "itk").then(|| "libapache2-mpm-itk".to_owned()));
        packages
    }

    fn missing(&self, environment: &StackEnvironment) -> Option<String> {
        if binary().is_none() {
            return Some("apache2 is not installed".to_owned());
        }
        // Before a run the root is unknown.
        let is_prepared =
            environment.root.as_os_str().is_empty() || self.root(environment).is_dir();
        if !is_prepared {
            return Some("serves the laboratory's own documents only".to_owned());
        }
        let mpm = if self.mpm == "itk" {
            "mpm_itk.so".to_owned()
        } else {
            format!("mod_mpm_{}.so", self.mpm)
        };
        let modules = [vec![mpm], self.php_modules(environment)].concat();
        if let Some(module) =
            modules.iter().find(|module| !Path::new(MODULES).join(module).is_file())
        {
            return Some(format!("Apache's {module} is not installed"));
        }
        if self.mpm == "itk" && environment.user.is_none() {
            return Some("Apache ITK must be started by root, to become other users".to_owned());
        }
        match self.php {
            PhpConnection::Inside => None,
            PhpConnection::InsideThreads => zts::built(&environment.php).is_none().then(|| {
                "needs a thread-safe PHP, which `howdah-lab setup --zts` builds".to_owned()
            }),
            PhpConnection::Fpm(_) => fpm::missing(environment),
            PhpConnection::Fcgid => cgi(environment)
                .is_none()
                .then(|| format!("php{}-cgi is not installed", environment.php)),
        }
    }

    fn version(&self, environment: &StackEnvironment) -> String {
        let php = match self.php {
            PhpConnection::Inside => format!("PHP {}", environment.php),
            PhpConnection::InsideThreads => format!("PHP {}, thread-safe", environment.php),
            PhpConnection::Fpm(_) => fpm::version_of(environment),
            PhpConnection::Fcgid => version(cgi(environment).as_deref(), "-v", "PHP "),
        };
        version(binary().as_deref(), "-v", "Apache/") + ", " + &php
    }

    fn start(&self, environment: &StackEnvironment, folder: &Path) -> Result<Running, StartFailed> {
        let failed = |error| StartFailed::Execute("apache2".to_owned(), error);
        let port = free_port().map_err(failed)?;
        let mut running = Running::without_programs(port);
        let php = self.php_settings(environment, folder, &mut running)?;
        let user = environment
            .user
            .as_ref()
            .map_or(String::new(), |user| format!("User {user}\nGroup {user}"));
        let kept = keep_alive(environment, 15, 5);
        let text = fill(
            CONFIGURATION,
            &[
                ("tls", &if_tls(environment, TLS)),
                ("kept", if kept == 0 { "Off" } else { "On" }),
                ("keep", &kept.max(1).to_string()),
                ("php", &php),
                ("mpm_modules", &self.mpm_modules()),
                ("mpm_settings", &self.mpm_settings(environment)),
                ("folder", &folder.display().to_string()),
                ("port", &port.to_string()),
                ("user", &user),
                ("modules", MODULES),
                ("rule_modules", &self.rule_modules()),
                ("root", &self.root(environment).display().to_string()),
                ("override", if self.overrides { "All" } else { "None" }),
            ],
        ) + &only_if(
            self.mpm == "itk",
            environment
                .user
                .as_ref()
                .map_or(String::new(), |user| format!("AssignUserID {user} {user}\n")),
        );
        let file = folder.join("httpd.conf");
        std::fs::write(&file, &text).map_err(failed)?;
        let mut command = Command::new(binary().unwrap_or_else(|| "apache2".into()));
        running.start(
            command.args(["-D", "FOREGROUND", "-f"]).arg(&file),
            &folder.join("httpd.log"),
            ("httpd.conf", text),
            Some(Signal::USR1),
        )
    }
}
