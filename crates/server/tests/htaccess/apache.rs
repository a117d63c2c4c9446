//! An Apache of the suite's own: private configuration, folder and port, its own process group,
//! ended with the suite.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use howdah_sys::signal;

use crate::support::apache::{self, MODULES, PROGRAM, php_module};
use crate::support::{PATIENCE, Process, free_address};

/// The modules that `.htaccess` files may use: those that Howdah provides, too.
const LOADED: &[&str] = &[
    "mpm_prefork",
    "access_compat",
    "alias",
    "auth_basic",
    "auth_digest",
    "authn_core",
    "authn_file",
    "authz_core",
    "authz_groupfile",
    "authz_host",
    "authz_user",
    "autoindex",
    "brotli",
    "deflate",
    "dir",
    "env",
    "expires",
    "filter",
    "headers",
    "mime",
    "negotiation",
    "rewrite",
    "setenvif",
    "substitute",
];

/// A host with a folder of its own.
pub struct Host {
    pub name: String,
    pub root: PathBuf,
    /// The value of `AllowOverride`; empty is `All`.
    pub overrides: String,
}

pub struct Apache {
    child: Child,
    folder: PathBuf,
    port: u16,
}

impl Apache {
    /// Returns the versions of Apache and PHP as the recorded answers name them. `None`, and a line
    /// that says so, if they are not installed.
    pub fn version() -> Option<String> {
        if std::env::var_os("HOWDAH_HTACCESS_RECORDED").is_some() {
            return None;
        }
        let output = Command::new(PROGRAM).arg("-v").output();
        let (Ok(output), Some(php)) = (output, php_module()) else {
            howdah_skip::skip!(
                "apache2 and libapache2-mod-php are not installed: compared with recorded answers"
            );
            return None;
        };
        let text = String::from_utf8_lossy(&output.stdout);
        let server = text.split_whitespace().find(|word| word.starts_with("Apache/"))?.to_owned();
        Some(format!("{server} {}", php.file_stem()?.display()))
    }

    /// Starts it in `folder`, with a virtual host for each of `hosts`.
    pub fn start(folder: &Path, hosts: &[Host]) -> Apache {
        let port = free_port();
        let folder = folder.join("apache");
        fs::create_dir_all(&folder).unwrap();
        let configuration = folder.join("apache.conf");
        fs::write(&configuration, text(&folder, port, hosts)).unwrap();
        let child = apache::start(&configuration, &folder.join("stderr"));
        let mut apache = Apache { child, folder, port };
        apache.wait();
        apache
    }

    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// Its error log so far.
    pub fn log(&self) -> String {
        let read = |name: &str| fs::read(self.folder.join(name)).unwrap_or_default();
        String::from_utf8_lossy(&[read("stderr"), read("error.log")].concat()).into_owned()
    }

    fn wait(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        while TcpStream::connect(self.address()).is_err() {
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none(), "Apache ended: {}", self.log());
            assert!(Instant::now() < deadline, "Apache does not listen: {}", self.log());
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Apache {
    fn drop(&mut self) {
        let process = Process::new(self.child.id());
        let all: Vec<Process> = process.descendants();
        process.signal(signal::SIGTERM);
        let deadline = Instant::now() + PATIENCE;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        for left in all.iter().filter(|process| process.lives()) {
            left.signal(signal::SIGKILL);
        }
    }
}

/// Of five digits, so that it cannot be mistaken for another number in an answer.
fn free_port() -> u16 {
    free_address().port()
}

fn text(folder: &Path, port: u16, hosts: &[Host]) -> String {
    let load = LOADED
        .iter()
        .map(|name| format!("LoadModule {name}_module {MODULES}/mod_{name}.so\n"));
    let load: String = load.collect();
    let php = php_module().unwrap_or_default();
    let (folder, php) = (folder.display(), php.display());
    let mut text = format!(
        r#"
ServerRoot {folder}
ServerName apache.test
DefaultRuntimeDir {folder}
PidFile {folder}/apache.pid
ErrorLog {folder}/error.log
Listen 127.0.0.1:{port}
{load}LoadModule php_module {php}
User www-data
Group www-data
StartServers 4
MinSpareServers 4
MaxSpareServers 8
MaxRequestWorkers 8
MaxKeepAliveRequests 0
KeepAliveTimeout 60
TypesConfig /etc/mime.types
DirectoryIndex index.php index.html index.htm
<Directory />
    Options FollowSymLinks
    AllowOverride All
    Require all granted
</Directory>
<FilesMatch "^\.ht">
    Require all denied
</FilesMatch>
<FilesMatch ".+\.ph(?:ar|p|tml)$">
    SetHandler application/x-httpd-php
</FilesMatch>
<FilesMatch ".+\.phps$">
    Require all denied
</FilesMatch>
<FilesMatch "^\.ph(?:ar|p|ps|tml)$">
    Require all denied
</FilesMatch>
"#
    );
    for host in hosts {
        text += &virtual_host(port, host);
    }
    text
}

fn virtual_host(port: u16, host: &Host) -> String {
    let Host { name, root, overrides } = host;
    let root = root.display();
    let overrides = match overrides.as_str() {
        "" => String::new(),
        words => format!("<Directory {root}>\nAllowOverride {words}\n</Directory>\n"),
    };
    format!(
        "<VirtualHost 127.0.0.1:{port}>\nServerName {name}\nDocumentRoot {root}\n\
         {overrides}</VirtualHost>\n"
    )
}
