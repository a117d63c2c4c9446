//! Debian's WordPress on a MariaDB of its own: one database and one set of files for all stacks.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::geteuid;

use crate::load::Question;
use crate::loads::Wrong;
use crate::process::{StackProgram, find};
use crate::stacks::fill;

/// The Host field for every stack: links, and with them the bytes, are the same.
const HOST: &str = "lab.test";
/// Path of the front page.
pub const PATH: &str = "/wordpress/";
const SOURCE: &str = "/usr/share/wordpress";

const CONFIGURATION: &str = "<?php
define('DB_NAME', 'wordpress');
define('DB_USER', 'wordpress');
define('DB_PASSWORD', 'wordpress');
define('DB_HOST', 'localhost:@socket@');
define('DB_CHARSET', 'utf8mb4');
define('DB_COLLATE', '');
define('WP_HOME', 'http://@host@/wordpress');
define('WP_SITEURL', 'http://@host@/wordpress');
// Only the page: no requests to itself, no updates.
define('DISABLE_WP_CRON', true);
define('AUTOMATIC_UPDATER_DISABLED', true);
define('WP_HTTP_BLOCK_EXTERNAL', true);
define('WP_DEBUG', false);
foreach (['AUTH_KEY', 'SECURE_AUTH_KEY', 'LOGGED_IN_KEY', 'NONCE_KEY'] as $name) {
    define($name, \"lab $name\");
    define(str_replace('KEY', 'SALT', $name), \"lab salt of $name\");
}
$table_prefix = 'wp_';
if (!defined('ABSPATH')) {
    define('ABSPATH', __DIR__ . '/');
}
require_once ABSPATH . 'wp-settings.php';
";

/// Sets up a blog: ten posts with a few paragraphs and comments.
const SET_UP: &str = r#"<?php
define('WP_INSTALLING', true);
$_SERVER['HTTP_HOST'] = '@host@';
$_SERVER['REQUEST_URI'] = '/wordpress/';
require __DIR__ . '/wp-load.php';
require ABSPATH . 'wp-admin/includes/upgrade.php';
add_filter('pre_wp_mail', '__return_true');
wp_install('Laboratory', 'lab', 'lab@example.org', true, '', 'a long pass phrase');
switch_theme('@theme@');
$words = explode(' ', 'the elephant walks slowly through the high grass and carries what it is '
    . 'given over the river to the far side');
for ($post = 1; $post <= 10; $post++) {
    $paragraphs = '';
    for ($paragraph = 0; $paragraph < 5; $paragraph++) {
        $sentence = '';
        for ($word = 0; $word < 60; $word++) {
            $place = $post * 7 + $paragraph * 13 + $word * $word;
            $sentence .= $words[$place % count($words)] . ' ';
        }
        $paragraphs .= "<!-- wp:paragraph --><p>$sentence</p><!-- /wp:paragraph -->\n";
    }
    $id = wp_insert_post([
        'post_title' => "Post number $post",
        'post_content' => $paragraphs,
        'post_status' => 'publish',
        'post_author' => 1,
        'post_date' => "2024-01-0" . ($post % 9 + 1) . " 10:00:00",
    ]);
    for ($comment = 0; $comment < 3; $comment++) {
        wp_insert_comment([
            'comment_post_ID' => $id,
            'comment_author' => "Reader $comment",
            'comment_author_email' => 'reader@example.org',
            'comment_content' => 'I have seen it too.',
            'comment_approved' => 1,
        ]);
    }
}
echo 'installed';
"#;

/// WordPress below the document root, and its running database.
#[derive(Debug)]
pub struct WordPress {
    database: Database,
    running: Option<StackProgram>,
}

/// A database with WordPress's tables, which can be started again and again.
#[derive(Clone, Debug)]
pub struct Database {
    folder: PathBuf,
    user: String,
}

impl Database {
    fn socket(&self) -> PathBuf {
        self.folder.join("mariadb.sock")
    }

    /// Starts the database with MariaDB's defaults, but for room for every PHP process, and waits
    /// until it accepts.
    ///
    /// # Errors
    ///
    /// The database or its client cannot be started, or does not accept in time.
    pub fn start(&self) -> Result<StackProgram, Wrong> {
        let (folder, socket) = (&self.folder, self.socket());
        let failed = |error: crate::process::StartFailed| Wrong(format!("WordPress: {error}"));
        let mut command = Command::new(program("mariadbd")?);
        command
            .arg("--no-defaults")
            .arg(format!("--datadir={}", folder.join("data").display()))
            .arg(format!("--socket={}", socket.display()))
            .arg(format!("--pid-file={}", folder.join("mariadb.pid").display()))
            .arg(format!("--user={}", self.user))
            // Every PHP process of every stack may hold a connection.
            .args(["--skip-networking", "--max-connections=1000"]);
        let mut database =
            StackProgram::start(&mut command, &folder.join("mariadb.log")).map_err(failed)?;
        database.wait_until(|| UnixStream::connect(&socket).is_ok()).map_err(failed)?;
        Ok(database)
    }
}

/// The question for the front page. Its body does not change, but is not known beforehand: all
/// stacks must give the same.
pub fn front_page() -> Question {
    Question {
        path: PATH.to_owned(),
        host: Some(HOST.to_owned()),
        is_agreed: true,
        ..Question::default()
    }
}

impl WordPress {
    /// Starts the database in `folder` and installs WordPress below `root`.
    ///
    /// # Errors
    ///
    /// A package is missing, or the database or WordPress cannot be set up.
    pub fn start(root: &Path, folder: &Path) -> Result<WordPress, Wrong> {
        if !Path::new(SOURCE).join("wp-load.php").is_file() {
            return Err(Wrong("WordPress: the package wordpress is not installed".to_owned()));
        }
        let (database, running) = create_database(folder)?;
        install(root, &database.socket())?;
        Ok(WordPress { database, running: Some(running) })
    }

    /// Stops the database and returns it, so that each stack can have it inside its memory limit.
    pub fn stop(&mut self) -> Database {
        self.running = None;
        self.database.clone()
    }
}

fn program(name: &str) -> Result<PathBuf, Wrong> {
    find(&[name]).ok_or_else(|| {
        Wrong(format!("WordPress: {name} is not installed (package mariadb-server)"))
    })
}

fn create_database(folder: &Path) -> Result<(Database, StackProgram), Wrong> {
    let (installer, client) = (program("mariadb-install-db")?, program("mariadb")?);
    let user = if geteuid().is_root() {
        "mysql".to_owned()
    } else {
        whoami()?
    };
    fs::create_dir_all(folder)?;
    if geteuid().is_root() {
        run(Command::new("chown").arg(format!("{user}:")).arg(folder), "chown")?;
    }
    let data = folder.join("data");
    let mut command = Command::new(installer);
    command
        .arg("--no-defaults")
        .arg(format!("--datadir={}", data.display()))
        .arg(format!("--user={user}"));
    run(
        command.args(["--auth-root-authentication-method=normal", "--skip-test-db"]),
        "mariadb-install-db",
    )?;
    let database = Database { folder: folder.to_owned(), user };
    let running = database.start()?;
    let statements = "CREATE DATABASE wordpress CHARACTER SET utf8mb4; CREATE USER \
        wordpress@localhost IDENTIFIED BY 'wordpress'; GRANT ALL ON wordpress.* TO \
        wordpress@localhost;";
    run(
        Command::new(client)
            .args(["--no-defaults", "-u", "root", "-S"])
            .arg(database.socket())
            .args(["-e", statements]),
        "mariadb",
    )?;
    Ok((database, running))
}

fn install(root: &Path, socket: &Path) -> Result<(), Wrong> {
    let target = root.join("wordpress");
    // Debian links parts of WordPress to other packages. Copied as files, no server has to follow
    // links.
    run(Command::new("cp").args(["-rL", SOURCE]).arg(&target), "cp")?;
    let values =
        [("socket", socket.display().to_string()), ("host", HOST.to_owned()), ("theme", theme()?)];
    let values: Vec<(&str, &str)> =
        values.iter().map(|(name, value)| (*name, value.as_str())).collect();
    fs::write(target.join("wp-config.php"), fill(CONFIGURATION, &values))?;
    let set_up = target.join("lab-set-up.php");
    fs::write(&set_up, fill(SET_UP, &values))?;
    let php = find(&["php"]).ok_or_else(|| Wrong("WordPress: php is not installed".to_owned()))?;
    let output = Command::new(php).arg(&set_up).stdin(Stdio::null()).output()?;
    fs::remove_file(&set_up)?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if said.ends_with("installed") {
        Ok(())
    } else {
        Err(Wrong(format!("WordPress could not be installed: {said}")))
    }
}

fn theme() -> Result<String, Wrong> {
    let folders = fs::read_dir(Path::new(SOURCE).join("wp-content/themes"))?.flatten();
    let names = folders
        .filter(|entry| entry.path().is_dir())
        .filter_map(|entry| entry.file_name().into_string().ok());
    names.max().ok_or_else(|| {
        Wrong(
            "WordPress: no theme is installed (package wordpress-theme-twentytwentythree)"
                .to_owned(),
        )
    })
}

fn whoami() -> Result<String, Wrong> {
    let output = Command::new("id").arg("-un").output()?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn run(command: &mut Command, what: &str) -> Result<(), Wrong> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| Wrong(format!("WordPress: {what}: {error}")))?;
    if output.status.success() {
        return Ok(());
    }
    // `cp -L` fails for dangling links, which Debian's package has. WordPress reports missing files
    // itself.
    if what == "cp" {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(Wrong(format!("WordPress: {what}: {}", said.trim())))
}
