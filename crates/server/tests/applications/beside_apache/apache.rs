//! An Apache with Debian's modules and its module of PHP.

use std::fs::{self, File};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use howdah_sys::signal;

use crate::support::{PATIENCE, Process};

const PROGRAM: &str = "/usr/sbin/apache2";
const FOLDER: &str = "/usr/lib/apache2/modules";
pub(crate) const CONFIGURATION: &str = "apache.conf";
pub(crate) const ERROR_LOG: &str = "apache-error.log";
pub(crate) const ACCESS_LOG: &str = "apache-access.log";

/// A running Apache; ended when dropped, also by a panic.
pub(crate) struct Apache {
    child: Child,
    address: SocketAddr,
}

impl Apache {
    /// Starts it with the files in `folder`, by the script `view`, and waits until it listens on
    /// `address`. `host` are the directives of the application.
    pub(crate) fn start(folder: &Path, view: &Path, address: SocketAddr, host: &str) -> Apache {
        let configuration = folder.join(CONFIGURATION);
        fs::write(&configuration, text(folder, host)).unwrap();
        // In a process group of its own, because Apache in the foreground ends all of its group.
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "TERM", "unshare", "--mount", "sh"])
            .arg(view)
            .args([PROGRAM, "-D", "FOREGROUND", "-f"])
            .arg(&configuration)
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(folder.join("apache-stderr")).unwrap())
            .spawn()
            .unwrap();
        let mut apache = Apache { child, address };
        apache.wait(folder);
        apache
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    fn wait(&mut self, folder: &Path) {
        let deadline = Instant::now() + PATIENCE;
        while TcpStream::connect(self.address).is_err() {
            let ended = self.child.try_wait().unwrap();
            let told =
                || ["apache-stderr", ERROR_LOG].map(|name| read(&folder.join(name))).concat();
            assert!(ended.is_none(), "Apache ended with {ended:?}: {}", told());
            assert!(Instant::now() < deadline, "Apache does not listen: {}", told());
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Apache {
    fn drop(&mut self) {
        let process = Process::new(self.child.id());
        let all = process.descendants();
        process.signal(signal::SIGTERM);
        let deadline = Instant::now() + PATIENCE;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        for left in all.iter().filter(|process| process.lives()) {
            left.signal(signal::SIGKILL);
        }
    }
}

fn read(path: &PathBuf) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// Debian's module of PHP; the newest, should there be several.
fn php() -> PathBuf {
    let entries = fs::read_dir(FOLDER).unwrap().map(|entry| entry.unwrap().path());
    let is_php = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.starts_with("libphp") && name.ends_with(".so")
    };
    entries.filter(is_php).max().expect("libapache2-mod-php is installed")
}

/// The modules that Debian's package has on, and those that nearly every host adds: expires,
/// headers, rewrite.
const MODULES: [&str; 21] = [
    "mpm_prefork",
    "access_compat",
    "alias",
    "auth_basic",
    "authn_core",
    "authn_file",
    "authz_core",
    "authz_host",
    "authz_user",
    "autoindex",
    "deflate",
    "dir",
    "env",
    "expires",
    "filter",
    "headers",
    "mime",
    "negotiation",
    "reqtimeout",
    "rewrite",
    "setenvif",
];

/// The parts of Debian's `apache2.conf` and `php8.2.conf` that concern answers.
fn text(folder: &Path, host: &str) -> String {
    let php = php();
    let php = php.display();
    let loaded: String = MODULES
        .iter()
        .map(|name| format!("LoadModule {name}_module {FOLDER}/mod_{name}.so\n"))
        .collect();
    let folder = folder.display();
    format!(
        r#"ServerRoot {folder}
ServerName localhost
DefaultRuntimeDir {folder}
PidFile {folder}/apache.pid
ErrorLog {folder}/{ERROR_LOG}
{loaded}LoadModule php_module {php}
LogFormat "%h %l %u %t \"%r\" %>s %O \"%{{Referer}}i\" \"%{{User-Agent}}i\"" combined
CustomLog {folder}/{ACCESS_LOG} combined
User www-data
Group www-data
Timeout 300
KeepAlive On
MaxKeepAliveRequests 100
KeepAliveTimeout 5
StartServers 2
MaxRequestWorkers 8
TypesConfig /etc/mime.types
DirectoryIndex index.html index.cgi index.pl index.php index.xhtml index.htm
<Directory />
    Options FollowSymLinks
    AllowOverride All
    Require all granted
</Directory>
AccessFileName .htaccess
<FilesMatch "^\.ht">
    Require all denied
</FilesMatch>
<FilesMatch ".+\.ph(?:ar|p|tml)$">
    SetHandler application/x-httpd-php
</FilesMatch>
<FilesMatch ".+\.phps$">
    SetHandler application/x-httpd-php-source
    Require all denied
</FilesMatch>
<FilesMatch "^\.ph(?:ar|p|ps|tml)$">
    Require all denied
</FilesMatch>
{host}
"#
    )
}
