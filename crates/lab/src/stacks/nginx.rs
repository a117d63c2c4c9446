//! nginx in front of php-fpm, and in front of Apache.

use std::path::Path;
use std::process::Command;

use super::apache;
use super::fpm::{self, FpmSocket};
use super::template::{fill, if_tls, keep_alive, only_if, places, version};
use rustix::process::Signal;

use crate::process::{StartFailed, find, free_port};
use crate::stack::{Running, Stack, StackEnvironment};

/// The server behind nginx.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Behind {
    Fpm { transport: FpmSocket, kept: bool },
    Apache,
}

/// nginx with a server behind it.
#[derive(Debug)]
pub(super) struct Nginx {
    name: &'static str,
    title: &'static str,
    unequal: Option<&'static str>,
    behind: Behind,
}

pub(super) fn all() -> Vec<Nginx> {
    let fpm = |transport, kept| Behind::Fpm { transport, kept };
    vec![
        Nginx {
            name: "nginx-fpm",
            title: "nginx + php-fpm",
            unequal: None,
            behind: fpm(FpmSocket::Unix, false),
        },
        Nginx {
            name: "nginx-fpm-tcp",
            title: "nginx + php-fpm over TCP",
            unequal: None,
            behind: fpm(FpmSocket::Tcp, false),
        },
        Nginx {
            name: "nginx-fpm-keepalive",
            title: "nginx + php-fpm, kept connections",
            unequal: Some(
                "a larger pool: php-fpm pins a child to each kept connection, so it has \
                 (connections × nginx workers) children",
            ),
            behind: fpm(FpmSocket::Unix, true),
        },
        Nginx {
            name: "nginx-apache",
            title: "nginx before Apache + mod_php",
            unequal: None,
            behind: Behind::Apache,
        },
    ]
}

const CONFIGURATION: &str = "\
daemon off;
# One worker per core, as nginx's manual advises.
worker_processes @workers@;
pid @folder@/nginx.pid;
error_log @folder@/error.log crit;
@user@
events {
    # One worker may get most of a crowd.
    worker_connections @places@;
}
http {
    include /etc/nginx/mime.types;
    default_type application/octet-stream;
    access_log off;
    # Files leave by sendfile, the head in the same packet as the first bytes.
    sendfile on;
    tcp_nopush on;
    tcp_nodelay on;
    # The default of 1000 requests would close connections in the middle of a measurement.
    keepalive_requests 100000000;
    keepalive_timeout @keep@s;
    # Without it every request opens, stats and closes its file.
    open_file_cache max=10000 inactive=60s;
    open_file_cache_valid 60s;
    open_file_cache_min_uses 1;
    open_file_cache_errors on;
    server_tokens off;
    client_body_temp_path @folder@/body;
    proxy_temp_path @folder@/proxy;
    fastcgi_temp_path @folder@/fastcgi;
    uwsgi_temp_path @folder@/uwsgi;
    scgi_temp_path @folder@/scgi;
    upstream php {
        server @address@;
@kept@    }
    server {
        listen 127.0.0.1:@port@@encrypted@ backlog=1024;
@tls@        # Sent to scripts as SERVER_NAME, whatever Host says.
        server_name lab.test;
        root @root@;
        index index.php index.html;
        location / {
        }
        location ~ [.]php$ {
@php@        }
    }
}
";

const TLS: &str = "        ssl_certificate @certificate@;
        ssl_certificate_key @key@;
        ssl_protocols TLSv1.2 TLSv1.3;
        # The workers share the keys of tickets. The cache is for clients without tickets.
        ssl_session_tickets on;
        ssl_session_cache shared:tls:10m;
";

const FASTCGI: &str = "            include /etc/nginx/fastcgi.conf;
            fastcgi_pass php;
            # Room for a whole answer of 1 MB: the defaults (8 × 4 KiB) would send it through a \
            temporary file.
            fastcgi_buffer_size 32k;
            fastcgi_buffers 64 32k;
            fastcgi_busy_buffers_size 256k;
";

const PROXY: &str = "            proxy_pass http://php;
            proxy_http_version 1.1;
            proxy_set_header Connection \"\";
            proxy_set_header Host $host;
            # As for FastCGI.
            proxy_buffer_size 32k;
            proxy_buffers 64 32k;
            proxy_busy_buffers_size 256k;
";

impl Stack for Nginx {
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
        let behind = match self.behind {
            Behind::Fpm { .. } => vec![format!("php{php}-fpm")],
            Behind::Apache => vec!["apache2".to_owned(), format!("libapache2-mod-php{php}")],
        };
        [vec!["nginx-light".to_owned()], behind].concat()
    }

    fn missing(&self, environment: &StackEnvironment) -> Option<String> {
        if find(&["nginx"]).is_none() {
            return Some("nginx is not installed".to_owned());
        }
        match self.behind {
            Behind::Fpm { .. } => fpm::missing(environment),
            Behind::Apache => apache::prefork().missing(environment),
        }
    }

    fn version(&self, environment: &StackEnvironment) -> String {
        let behind = match self.behind {
            Behind::Fpm { .. } => fpm::version_of(environment),
            Behind::Apache => apache::prefork().version(environment),
        };
        version(find(&["nginx"]).as_deref(), "-v", "nginx/") + ", " + &behind
    }

    fn start(&self, environment: &StackEnvironment, folder: &Path) -> Result<Running, StartFailed> {
        let failed = |error| StartFailed::Execute("nginx".to_owned(), error);
        let port = free_port().map_err(failed)?;
        let (behind, address) = self.behind.start(environment, folder)?;
        let (php, kept) = match self.behind {
            Behind::Fpm { kept, .. } => {
                let keep = only_if(kept, "            fastcgi_keep_conn on;\n".to_owned());
                (FASTCGI.to_owned() + &keep, kept)
            }
            Behind::Apache => (PROXY.to_owned(), true),
        };
        // For each worker one place per client: no connection is closed for lack of one.
        let kept = only_if(
            kept,
            format!(
                "        keepalive {};\n        keepalive_requests 100000000;\n",
                environment.connections
            ),
        );
        let text = fill(
            CONFIGURATION,
            &[
                (
                    "workers",
                    environment
                        .settings
                        .get("worker_processes")
                        .unwrap_or(&environment.cores.to_string()),
                ),
                ("folder", &folder.display().to_string()),
                (
                    "user",
                    &environment
                        .user
                        .as_ref()
                        .map_or(String::new(), |user| format!("user {user};")),
                ),
                ("address", &address),
                ("places", &places(environment).to_string()),
                ("kept", &kept),
                ("php", &php),
                ("keep", &keep_alive(environment, 75, 65).to_string()),
                ("encrypted", &if_tls(environment, " ssl http2")),
                ("tls", &if_tls(environment, TLS)),
                ("port", &port.to_string()),
                ("root", &environment.root.display().to_string()),
            ],
        );
        let file = folder.join("nginx.conf");
        std::fs::write(&file, &text).map_err(failed)?;
        let mut command = Command::new(find(&["nginx"]).unwrap_or_else(|| "nginx".into()));
        command.arg("-p").arg(folder).arg("-c").arg(&file);
        Running { port, ..behind }.start(
            &mut command,
            &folder.join("nginx.log"),
            ("nginx.conf", text),
            Some(Signal::HUP),
        )
    }
}

impl Behind {
    /// Starts the server behind nginx. Returns it with its address in nginx's form.
    fn start(
        self,
        environment: &StackEnvironment,
        folder: &Path,
    ) -> Result<(Running, String), StartFailed> {
        match self {
            Behind::Fpm { transport, kept } => {
                let children = if kept {
                    environment.connections * environment.cores
                } else {
                    environment.php_processes
                };
                let mut running = Running::without_programs(0);
                let address = fpm::start(environment, folder, transport, children, &mut running)?;
                Ok((running, address))
            }
            Behind::Apache => {
                let own = folder.join("apache");
                std::fs::create_dir_all(&own)
                    .map_err(|error| StartFailed::Execute("nginx".to_owned(), error))?;
                let running = apache::prefork().start(environment, &own)?;
                let address = format!("127.0.0.1:{}", running.port);
                Ok((running, address))
            }
        }
    }
}
