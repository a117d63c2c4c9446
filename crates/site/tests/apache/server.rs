//! An Apache of the test's own: private configuration, folder and ports, one process, ended with
//! the test.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

pub struct Apache {
    child: Child,
    folder: PathBuf,
    /// Serves the folder as it is.
    pub plain: u16,
    /// Sends what is not there to `/index.php`, with the rules that every WordPress has.
    pub rewritten: u16,
}

pub struct Reply {
    pub status: u16,
    pub location: Option<String>,
    pub body: String,
}

/// The two ends of a request's connection.
pub struct Ends {
    pub remote: SocketAddr,
    pub local: SocketAddr,
}

impl Apache {
    /// Starts it, or says why not.
    pub fn start() -> Option<Apache> {
        let modules = Path::new("/usr/lib/apache2/modules");
        let program = Path::new("/usr/sbin/apache2");
        let php = fs::read_dir(modules).ok().and_then(|entries| {
            let mut paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
            paths.find(|path| {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                name.starts_with("libphp") && name.ends_with(".so")
            })
        });
        let (true, Some(php)) = (program.exists(), php) else {
            howdah_skip::skip!("apache2 and libapache2-mod-php are not installed");
            return None;
        };
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder =
            std::env::temp_dir().join(format!("howdah-apache-{}-{number}", std::process::id()));
        make_tree(&folder.join("plain"));
        make_tree(&folder.join("rewritten"));
        let (plain, rewritten) = (free_port(), free_port());
        let configuration = folder.join("apache.conf");
        fs::write(&configuration, text(&folder, modules, &php, plain, rewritten)).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        let child = Command::new(program)
            .arg("-X")
            .arg("-f")
            .arg(&configuration)
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut apache = Apache { child, folder, plain, rewritten };
        apache.wait();
        Some(apache)
    }

    pub fn root(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Sends `request` and reads the reply to its end.
    pub fn ask(&self, port: u16, request: &str) -> (Reply, Ends) {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(90))).unwrap();
        let ends = Ends {
            remote: stream.local_addr().unwrap(),
            local: stream.peer_addr().unwrap(),
        };
        stream.write_all(request.as_bytes()).unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        let (head, body) =
            text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{request}\n{text}"));
        assert!(!head.contains("chunked"), "{head}");
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap();
        let location =
            head.lines().find_map(|line| line.strip_prefix("Location: ")).map(str::to_owned);
        (Reply { status, location, body: body.to_owned() }, ends)
    }

    fn wait(&mut self) {
        let deadline = Instant::now() + Duration::from_secs(90);
        while TcpStream::connect((Ipv4Addr::LOCALHOST, self.rewritten)).is_err() {
            let log = || fs::read_to_string(self.folder.join("error.log")).unwrap_or_default();
            assert!(self.child.try_wait().unwrap().is_none(), "Apache ended: {}", log());
            assert!(Instant::now() < deadline, "Apache does not listen: {}", log());
            thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Apache {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A port that nothing listens on, and none of those that the system gives away by itself.
fn free_port() -> u16 {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let first = 10_000 + std::process::id() % 200 * 100;
    loop {
        let number = first + COUNT.fetch_add(1, Ordering::Relaxed) % 100;
        let port = u16::try_from(number).expect("ports below 30000");
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
}

fn make_tree(root: &Path) {
    const DUMP: &str = "<?php echo \"\\$_SERVER\\n\"; foreach ($_SERVER as $name => $value) \
                        if (!is_array($value)) echo $name, '=', rawurlencode($value), \"\\n\";";
    for folder in ["dir", "empty", "sub.php", ".hid", "s p", "d\\d"] {
        fs::create_dir_all(root.join(folder)).unwrap();
    }
    let scripts = [
        "index.php",
        "dump.php",
        "dir/index.php",
        "sub.php/in.php",
        "s p/q r.php",
        "x.phtml",
        "x.PHP",
        "x.php5",
    ];
    let others =
        ["a.txt", "b\\s.txt", "a.php.bak", "x.phps", ".php", ".htpasswd", ".hid/f", "\u{e4}.txt"];
    for script in scripts {
        // A script that Apache sends as text does not look like a script that was run: it starts
        // with `<?php`.
        fs::write(root.join(script), DUMP).unwrap();
    }
    for other in others {
        fs::write(root.join(other), "text").unwrap();
    }
}

fn text(folder: &Path, modules: &Path, php: &Path, plain: u16, rewritten: u16) -> String {
    let (folder, modules, php) = (folder.display(), modules.display(), php.display());
    let load = ["mpm_prefork", "authz_core", "dir", "rewrite"]
        .map(|name| format!("LoadModule {name}_module {modules}/mod_{name}.so\n"))
        .concat();
    format!(
        r#"
ServerRoot {folder}
ServerName apache.example
PidFile {folder}/apache.pid
ErrorLog {folder}/error.log
Listen 127.0.0.1:{plain}
Listen 127.0.0.1:{rewritten}
{load}LoadModule php_module {php}
User www-data
Group www-data
DirectoryIndex index.php index.html index.htm
<FilesMatch "^\.ht">
    Require all denied
</FilesMatch>
# As Debian's mods-available/php*.conf.
<FilesMatch ".+\.ph(?:ar|p|tml)$">
    SetHandler application/x-httpd-php
</FilesMatch>
<FilesMatch ".+\.phps$">
    Require all denied
</FilesMatch>
<FilesMatch "^\.ph(?:ar|p|ps|tml)$">
    Require all denied
</FilesMatch>
# A ServerName without a port, as sites have: a virtual host without a name takes its port from its
# address.
<VirtualHost 127.0.0.1:{plain}>
    ServerName apache.example
    DocumentRoot {folder}/plain
</VirtualHost>
<VirtualHost 127.0.0.1:{rewritten}>
    ServerName apache.example
    DocumentRoot {folder}/rewritten
    <Directory {folder}/rewritten>
        RewriteEngine On
        RewriteBase /
        RewriteRule ^index\.php$ - [L]
        RewriteCond %{{REQUEST_FILENAME}} !-f
        RewriteCond %{{REQUEST_FILENAME}} !-d
        RewriteRule . /index.php [L]
    </Directory>
</VirtualHost>
"#
    )
}
