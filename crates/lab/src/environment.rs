//! The environment that all stacks of a run share: documents, php.ini, users, folders.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::chown;
use rustix::process::{Gid, Uid, geteuid};

use crate::loads::Wrong;
use crate::php_facts;
use crate::process::{StartFailed, find};
use crate::rules;
use crate::stack::StackEnvironment;

/// The 13 bytes of both HelloWorld files.
pub const HELLO: &[u8] = b"Hello, World!";

const HELLO_PHP: &str = "<?php\necho \"Hello, World!\";\n";

/// One MiB in pieces of 1 KB, through PHP's output buffer, as templates print.
const MEGABYTE_PHP: &str = "<?php\n$line = str_repeat('x', 1023) . \"\\n\";\n\
    for ($i = 0; $i < 1024; $i++) {\n    echo $line;\n}\n";

/// Ten pieces of 100 KB: each is larger than PHP's output buffer and is written at once, as
/// frameworks print a rendered page.
const LARGE_PIECES_PHP: &str = "<?php\n$piece = str_repeat(str_repeat('x', 1023) . \"\\n\", \
    100);\nfor ($i = 0; $i < 10; $i++) {\n    echo $piece;\n}\n";

/// A few hundred microseconds of what applications do: arrays, strings, a regular expression,
/// hashing, sorting, escaping.
const WORK_PHP: &str = r#"<?php
$rows = [];
for ($i = 0; $i < 260; $i++) {
    $rows[] = ['id' => $i, 'title' => "Entry number $i & more", 'key' => md5("entry-$i")];
}
usort($rows, fn ($a, $b) => strcmp($a['key'], $b['key']));
$list = '';
foreach ($rows as $row) {
    $slug = preg_replace('/[^a-z0-9]+/', '-', strtolower($row['title']));
    $title = htmlspecialchars($row['title']);
    $list .= '<li id="' . $slug . '">' . $title . ' ' . substr($row['key'], 0, 8) . "</li>\n";
}
echo '<ul>', "\n", $list, '</ul>', "\n", crc32($list), "\n";
"#;

/// A page that waits 50 ms, as for a slow database, and occupies its process.
const WAIT_PHP: &str = "<?php\nusleep(50000);\necho 'waited';\n";

/// A page that computes for about 20 ms.
const COMPUTE_PHP: &str = "<?php\n$key = 'x';\nfor ($i = 0; $i < 60000; $i++) {\n    $key = \
    md5($key);\n}\necho 'computed';\n";

/// Number of files that the framework-sized script includes.
const INCLUDES: usize = 300;

/// php.ini values of all stacks. Extensions come from each SAPI's own conf.d, which Debian keeps
/// alike.
pub const INI: &[(&str, &str)] = &[
    ("memory_limit", "128M"),
    // Debian's production value.
    ("output_buffering", "4096"),
    ("max_execution_time", "30"),
    ("variables_order", "GPCS"),
    ("request_order", "GP"),
    ("expose_php", "0"),
    ("display_errors", "0"),
    ("log_errors", "1"),
    ("zend.assertions", "-1"),
    ("enable_dl", "0"),
    // Debian's value: a cron job deletes old sessions.
    ("session.gc_probability", "0"),
    ("opcache.memory_consumption", "128"),
    ("opcache.interned_strings_buffer", "16"),
    ("opcache.max_accelerated_files", "10000"),
    // As on a hosting server: an edited file is noticed within two seconds.
    ("opcache.validate_timestamps", "1"),
    ("opcache.revalidate_freq", "2"),
    ("opcache.jit", "0"),
];

/// The user of the servers' workers where the laboratory runs as root; `None` where it does not.
pub fn user() -> Option<String> {
    geteuid().is_root().then(|| "www-data".to_owned())
}

/// The version of the command-line PHP that is part of the names of Debian's packages. `None`
/// without PHP.
pub fn php_version() -> Option<String> {
    let php = find(&["php"])?;
    let output = Command::new(php)
        .args(["-n", "-r", "echo PHP_MAJOR_VERSION, '.', PHP_MINOR_VERSION;"])
        .output()
        .ok()?;
    let version = String::from_utf8(output.stdout).ok()?;
    (!version.is_empty()).then_some(version)
}

/// Changes the owner of a folder to the servers' user.
pub fn give(folder: &Path, environment: &StackEnvironment) {
    if let Some((uid, gid)) = environment.user.as_deref().and_then(account) {
        // Fails only without root, and then there is no such user.
        let _ = chown(folder, Some(uid), Some(gid));
    }
}

/// The ids of a user and of its group, from `/etc/passwd`.
fn account(name: &str) -> Option<(Uid, Gid)> {
    let text = fs::read_to_string("/etc/passwd").ok()?;
    let line = text.lines().find(|line| line.split(':').next() == Some(name))?;
    let mut fields = line.split(':').skip(2).map(|field| field.parse::<u32>().ok());
    Some((Uid::from_raw(fields.next()??), Gid::from_raw(fields.next()??)))
}

/// Writes the php.ini for runs with opcache, or without.
///
/// # Errors
///
/// The file cannot be written.
pub fn write_ini(file: &Path, opcache: bool) -> io::Result<()> {
    let values = INI.iter().map(|(name, value)| format!("{name} = \"{value}\"\n"));
    let opcache = format!("opcache.enable = \"{}\"\n", u8::from(opcache));
    fs::write(file, values.chain([opcache]).collect::<String>())
}

/// Writes a stack's php.ini into its folder: the common one, with a session folder of its own.
///
/// # Errors
///
/// The file or the folder cannot be written.
pub fn own_ini(environment: &StackEnvironment, folder: &Path) -> Result<PathBuf, StartFailed> {
    let file = folder.join("php.ini");
    let sessions = folder.join("sessions");
    let write = || {
        fs::create_dir_all(&sessions)?;
        give(&sessions, environment);
        let mut values = fs::read_to_string(&environment.ini)?;
        values += &format!("session.save_path = \"{}\"\n", sessions.display());
        fs::write(&file, values)
    };
    write().map_err(|error| StartFailed::Execute(file.display().to_string(), error))?;
    Ok(file)
}

/// Adds opcache to an ini file, for a PHP that has no conf.d which loads it.
///
/// # Errors
///
/// The file cannot be read or written.
pub fn load_opcache(ini: &Path, opcache: &Path) -> Result<(), StartFailed> {
    fs::read_to_string(ini)
        .and_then(|values| {
            fs::write(ini, format!("zend_extension = \"{}\"\n{values}", opcache.display()))
        })
        .map_err(|error| StartFailed::Execute(ini.display().to_string(), error))
}

/// Writes the documents of all scenarios.
///
/// # Errors
///
/// A file or folder cannot be written.
pub fn write_documents(root: &Path) -> io::Result<()> {
    fs::create_dir_all(root)?;
    let line = [&[b'x'; 1023][..], b"\n"].concat();
    let files: [(&str, Vec<u8>); 15] = [
        ("HelloWorld.php", HELLO_PHP.into()),
        ("1MB.php", MEGABYTE_PHP.into()),
        ("10x100KB.php", LARGE_PIECES_PHP.into()),
        ("work.php", WORK_PHP.into()),
        ("facts.php", php_facts::SCRIPT.into()),
        ("100KB.php", "<?php\necho str_repeat('x', 104857);\n".into()),
        ("wait.php", WAIT_PHP.into()),
        ("compute.php", COMPUTE_PHP.into()),
        ("HelloWorld.txt", HELLO.into()),
        ("2B.txt", b"ok".to_vec()),
        ("21KB.txt", line.repeat(21)),
        ("92KB.js", line.repeat(92)),
        ("150KB.jpg", line.repeat(150)),
        ("100KB.txt", line.repeat(100)),
        ("1MB.txt", line.repeat(1024)),
    ];
    for (name, content) in &files {
        fs::write(root.join(name), content)?;
    }
    write_framework(root)?;
    for (name, rules) in rules::all() {
        let ruled = ruled_root(root, name);
        fs::create_dir_all(&ruled)?;
        if let Some(rules) = rules {
            fs::write(ruled.join(".htaccess"), rules.as_bytes())?;
        }
        for (name, _) in &files {
            fs::hard_link(root.join(name), ruled.join(name))?;
        }
    }
    Ok(())
}

/// The document root for a set of rules: the same files beside an `.htaccess`. All names have the
/// same length, since PHP's allocator rounds sizes up.
pub fn ruled_root(root: &Path, rules: &str) -> PathBuf {
    let name = root.file_name().unwrap_or_default().to_string_lossy();
    root.with_file_name(format!("{name}-{rules:0<9}"))
}

/// Writes `count` folders with a file and an `.htaccess` each, below the root of
/// [`rules::FOLDERS`].
///
/// # Errors
///
/// A file or folder cannot be written.
pub fn write_folders(root: &Path, count: usize) -> io::Result<()> {
    let root = ruled_root(root, rules::FOLDERS);
    for number in 0..count {
        let file = root.join(folder_path(number).trim_start_matches('/'));
        let folder = file.parent().unwrap_or(&root);
        fs::create_dir_all(folder)?;
        fs::write(&file, FOLDER_FILE)?;
        fs::write(folder.join(".htaccess"), rules::of_folder(number))?;
    }
    Ok(())
}

/// Path of the file in one of many folders, as a URL.
pub fn folder_path(number: usize) -> String {
    format!("/{:03}/{:03}/a.txt", number / 1000, number % 1000)
}

/// Content of the file in each of many folders.
pub const FOLDER_FILE: &[u8] = b"a";

/// Writes a script that includes as many files as a large framework does. Each file holds a class
/// that is used once.
fn write_framework(root: &Path) -> io::Result<()> {
    let folder = root.join("framework");
    fs::create_dir_all(&folder)?;
    for number in 0..INCLUDES {
        let methods: String = (0..20)
            .map(|method| {
                format!(
                    "    public function method{method}(array $in): array {{ $in[] = {method}; \
                     return $in; }}\n"
                )
            })
            .collect();
        fs::write(
            folder.join(format!("Part{number}.php")),
            format!("<?php\nclass Part{number}\n{{\n{methods}}}\n"),
        )?;
    }
    let main = format!(
        "<?php\n$seen = [];\nfor ($i = 0; $i < {INCLUDES}; $i++) {{\n    require __DIR__ . \
         \"/Part$i.php\";\n    $class = \"Part$i\";\n    $seen = array_slice((new \
         $class)->method7($seen), -3);\n}}\n\
         echo 'included ', {INCLUDES}, ' parts', \"\\n\";\n"
    );
    fs::write(folder.join("index.php"), main)
}

/// A temporary folder that servers' workers can enter. Dropping it removes the folder.
#[derive(Debug)]
pub struct Temporary(PathBuf);

impl Temporary {
    /// Creates a folder under a name that did not exist before.
    ///
    /// # Errors
    ///
    /// The system's folder for temporary files cannot be written to.
    pub fn new() -> Result<Temporary, Wrong> {
        let parent = std::env::temp_dir();
        for attempt in 0..100 {
            let path = parent.join(format!("howdah-lab-{}-{attempt}", std::process::id()));
            match fs::create_dir(&path) {
                Ok(()) => {
                    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
                    fs::set_permissions(&path, mode)?;
                    return Ok(Temporary(path));
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => {
                    return Err(Wrong(format!(
                        "cannot make a folder in {}: {error}",
                        parent.display()
                    )));
                }
            }
        }
        Err(Wrong(format!("no free name for a folder in {}", parent.display())))
    }

    /// The path of the folder.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
