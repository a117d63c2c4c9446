//! An Apache that a test compares with.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Child;

use howdah_sys::signal;

use crate::support::apache::{self, MODULES, PROGRAM, php_module};
use crate::support::{Process, free_address, wait_until};

pub struct Apache {
    child: Child,
    address: SocketAddr,
    folder: PathBuf,
}

impl Apache {
    /// Returns whether Apache and its module for PHP are installed. If not, says so.
    pub fn is_here() -> bool {
        let is_here = Path::new(PROGRAM).exists() && php_module().is_some();
        if !is_here {
            howdah_skip::skip!("scripts/install-packages.sh test installs Apache with mod_php");
        }
        is_here
    }

    /// Serves `root` as the host `logs.test`. The state and the logs are in `folder`.
    pub fn start(folder: &Path, root: &Path, format: &str) -> Apache {
        let log = format!("CustomLog {}/access.log '{format}'\n", folder.display());
        Apache::with(folder, root, &[], &log)
    }

    /// Serves `root` with further modules and lines of configuration, in which `PORT_OF_APACHE` is
    /// its port.
    pub fn with(folder: &Path, root: &Path, modules: &[&str], more: &str) -> Apache {
        // Another program may take the free port first.
        let mut attempts = (0..5).map(|_| Apache::try_to_start(folder, root, modules, more));
        attempts
            .find_map(|started| started)
            .expect("Apache finds its port taken every time")
    }

    /// `None`: the port is taken.
    fn try_to_start(folder: &Path, root: &Path, modules: &[&str], more: &str) -> Option<Apache> {
        fs::create_dir_all(folder).unwrap();
        let address = free_address();
        let file = folder.join("apache.conf");
        fs::write(&file, configuration(folder, root, (modules, more), address)).unwrap();
        let child = apache::start(&file, &folder.join("stderr"));
        let mut apache = Apache {
            child,
            address,
            folder: folder.to_owned(),
        };
        let mut is_taken = false;
        wait_until("Apache listens", || {
            let ended = apache.child.try_wait().unwrap();
            let said = fs::read_to_string(apache.folder.join("stderr")).unwrap();
            is_taken = ended.is_some() && said.contains("Address already in use");
            assert!(ended.is_none() || is_taken, "Apache ended: {said}");
            is_taken || TcpStream::connect(address).is_ok()
        });
        (!is_taken).then_some(apache)
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The access log, without the connections that only looked whether Apache listens.
    pub fn access_log(&self) -> String {
        fs::read_to_string(self.folder.join("access.log")).unwrap_or_default()
    }
}

impl Drop for Apache {
    fn drop(&mut self) {
        let process = Process::new(self.child.id());
        let all = process.descendants();
        process.signal(signal::SIGTERM);
        let _ = self.child.wait();
        for left in all.iter().filter(|process| process.lives()) {
            left.signal(signal::SIGKILL);
        }
    }
}

fn configuration(
    folder: &Path,
    root: &Path,
    (modules, more): (&[&str], &str),
    address: SocketAddr,
) -> String {
    let usual =
        ["mpm_prefork", "authz_core", "dir", "env", "headers", "mime", "rewrite", "setenvif"];
    let load = |name: &&str| format!("LoadModule {name}_module {MODULES}/mod_{name}.so\n");
    let load: String = usual.iter().chain(modules).map(load).collect();
    let php = php_module().unwrap_or_default();
    let (folder, root, php) = (folder.display(), root.display(), php.display());
    let more = more.replace("PORT_OF_APACHE", &address.port().to_string());
    format!(
        "ServerRoot {folder}\nServerName logs.test\nDefaultRuntimeDir {folder}\n\
         PidFile {folder}/pid\n\
         ErrorLog {folder}/error.log\nListen {address}\n{load}LoadModule php_module {php}\n\
         User www-data\nGroup www-data\nStartServers 1\nMinSpareServers 1\nMaxSpareServers 2\n\
         MaxKeepAliveRequests 0\nKeepAliveTimeout 60\nTypesConfig /etc/mime.types\n\
         DirectoryIndex index.php index.html\nDocumentRoot {root}\n\
         <Directory />\nOptions FollowSymLinks\nAllowOverride All\nRequire all granted\n\
         </Directory>\n\
         <FilesMatch \"\\.php$\">\nSetHandler application/x-httpd-php\n</FilesMatch>\n{more}"
    )
}
