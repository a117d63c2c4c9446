//! lighttpd in front of php-fpm, and with FastCGI processes of its own.

use std::path::Path;
use std::process::Command;

use super::fpm::{self, FpmSocket};
use super::template::{fill, if_tls, keep_alive, places, version};
use rustix::process::Signal;

use crate::environment::own_ini;
use crate::process::{StartFailed, find, free_port};
use crate::stack::{Running, Stack, StackEnvironment};

/// lighttpd with PHP behind it.
#[derive(Debug)]
pub(super) struct Lighttpd {
    /// Whether lighttpd starts PHP itself.
    spawns: bool,
}

pub(super) fn all() -> Vec<Lighttpd> {
    vec![Lighttpd { spawns: false }, Lighttpd { spawns: true }]
}

const CONFIGURATION: &str = "\
server.bind = \"127.0.0.1\"
server.port = @port@
server.document-root = \"@root@\"
server.errorlog = \"@folder@/error.log\"
server.upload-dirs = ( \"@folder@\" )
@user@
# mod_accesslog is not loaded: access logging is off.
server.modules = ( \"mod_indexfile\", \"mod_fastcgi\", \"mod_staticfile\"@module@ )
@tls@index-file.names = ( \"index.php\", \"index.html\" )
static-file.exclude-extensions = ( \".php\" )
# One worker per core; with the default of one, files would be served by one core. Where it \
starts PHP itself, each worker
# would start a set of its own, so there is only one.
server.max-worker = @workers@
server.max-connections = @places@
server.max-fds = 20000
server.listen-backlog = 1024
# The default of 1000 requests would close connections in the middle of a measurement.
server.max-keep-alive-requests = @requests@
server.max-keep-alive-idle = @keep@
server.event-handler = \"linux-sysepoll\"
server.network-backend = \"sendfile\"
# Stat answers are kept for up to a second.
server.stat-cache-engine = \"simple\"
# Output is passed on as it comes; the default first collects an answer, larger ones in a \
temporary file.
server.stream-response-body = 1
server.tag = \"lighttpd\"
mimetype.assign = ( \".html\" => \"text/html\", \".css\" => \"text/css\", \".js\" => \
\"text/javascript\", \".txt\" => \"text/plain\" )
fastcgi.server = ( \".php\" => (( @backend@ )) )
";

const MOD_OPENSSL: &str = "/usr/lib/lighttpd/mod_openssl.so";

/// HTTP/2 is on by default, with eight streams on a connection.
const TLS: &str = "\
ssl.engine = \"enable\"
ssl.pemfile = \"@certificate@\"
ssl.privkey = \"@key@\"
# Without the option there are no tickets, and a client of TLS 1.3 cannot resume.
ssl.openssl.ssl-conf-cmd = ( \"MinProtocol\" => \"TLSv1.2\", \"Options\" => \"+SessionTicket\" )
";

fn cgi(environment: &StackEnvironment) -> Option<std::path::PathBuf> {
    find(&[&format!("php-cgi{}", environment.php), "php-cgi"])
}

impl Stack for Lighttpd {
    fn name(&self) -> &str {
        if self.spawns {
            "lighttpd-fastcgi"
        } else {
            "lighttpd-fpm"
        }
    }

    fn title(&self) -> &str {
        if self.spawns {
            "lighttpd + its own FastCGI"
        } else {
            "lighttpd + php-fpm"
        }
    }

    fn renews_tickets(&self) -> bool {
        false
    }

    fn unequal(&self) -> Option<&str> {
        self.spawns
            .then_some("one lighttpd worker: each would start PHP processes of its own")
    }

    fn packages(&self, php: &str) -> Vec<String> {
        vec![
            "lighttpd".to_owned(),
            "lighttpd-mod-openssl".to_owned(),
            if self.spawns {
                format!("php{php}-cgi")
            } else {
                format!("php{php}-fpm")
            },
        ]
    }

    fn missing(&self, environment: &StackEnvironment) -> Option<String> {
        if find(&["lighttpd"]).is_none() {
            return Some("lighttpd is not installed".to_owned());
        }
        if environment.tls.is_some() && !Path::new(MOD_OPENSSL).is_file() {
            return Some("lighttpd-mod-openssl is not installed".to_owned());
        }
        if !self.spawns {
            return fpm::missing(environment);
        }
        cgi(environment)
            .is_none()
            .then(|| format!("php{}-cgi is not installed", environment.php))
    }

    fn version(&self, environment: &StackEnvironment) -> String {
        let php = if self.spawns {
            version(cgi(environment).as_deref(), "-v", "PHP ")
        } else {
            fpm::version_of(environment)
        };
        version(find(&["lighttpd"]).as_deref(), "-v", "lighttpd/") + ", " + &php
    }

    fn start(&self, environment: &StackEnvironment, folder: &Path) -> Result<Running, StartFailed> {
        let failed = |error| StartFailed::Execute("lighttpd".to_owned(), error);
        let port = free_port().map_err(failed)?;
        let mut running = Running::without_programs(port);
        let backend = self.backend(environment, folder, &mut running)?;
        let user = environment.user.as_ref().map_or(String::new(), |user| {
            format!("server.username = \"{user}\"\nserver.groupname = \"{user}\"")
        });
        let kept = keep_alive(environment, 75, 5);
        let text = fill(
            CONFIGURATION,
            &[
                ("places", &places(environment).to_string()),
                ("port", &port.to_string()),
                ("root", &environment.root.display().to_string()),
                ("folder", &folder.display().to_string()),
                ("user", &user),
                (
                    "workers",
                    &if self.spawns || environment.is_as_installed() {
                        "0".to_owned()
                    } else {
                        environment.cores.to_string()
                    },
                ),
                ("backend", &backend),
                ("requests", if kept == 0 { "0" } else { "100000000" }),
                ("keep", &kept.max(1).to_string()),
                ("module", &if_tls(environment, ", \"mod_openssl\"")),
                ("tls", &if_tls(environment, TLS)),
            ],
        );
        let file = folder.join("lighttpd.conf");
        std::fs::write(&file, &text).map_err(failed)?;
        let mut command = Command::new(find(&["lighttpd"]).unwrap_or_else(|| "lighttpd".into()));
        running.start(
            command.arg("-D").arg("-f").arg(&file),
            &folder.join("lighttpd.log"),
            ("lighttpd.conf", text),
            Some(Signal::USR1),
        )
    }
}

impl Lighttpd {
    /// Returns the part of the configuration that is about PHP. A pool is started as a part of
    /// `running`.
    fn backend(
        &self,
        environment: &StackEnvironment,
        folder: &Path,
        running: &mut Running,
    ) -> Result<String, StartFailed> {
        let processes = environment.php_processes;
        if !self.spawns {
            fpm::start(environment, folder, FpmSocket::Unix, processes, running)?;
            return Ok(format!("\"socket\" => \"{}/fpm.sock\"", folder.display()));
        }
        // One FastCGI parent forks the PHP processes, which share its opcache.
        Ok(format!(
            "\"bin-path\" => \"{} -c {}\", \"socket\" => \"{}/php.sock\", \"max-procs\" => 1, \
             \"bin-environment\" => ( \"PHP_FCGI_CHILDREN\" => \"{processes}\", \
             \"PHP_FCGI_MAX_REQUESTS\" => \"0\" )",
            cgi(environment).unwrap_or_default().display(),
            own_ini(environment, folder)?.display(),
            folder.display(),
        ))
    }
}
