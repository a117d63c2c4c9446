//! Starts PHP with a pool's settings.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use howdah_ipc::control::PoolSettings;
use howdah_sys::credentials;

use crate::chroot::{self, PoolRoot};
use crate::engine_facts::number_of;
use crate::ini::{self, IniPair, PoolIni};
use crate::log::{self, Level};
use crate::process::{self, Fork};
use crate::sapi::{self, Engine, EngineOptions};
use crate::unread_ini;

/// Environment variables that PHP reads during its start and that scripts do not need.
const FOR_PHP: [&str; 2] = ["PHPRC", unread_ini::SCAN_FOLDERS];

/// The part of [`EngineFacts`](crate::engine_facts::EngineFacts) that a zygote reports.
#[derive(Debug, PartialEq, Eq)]
pub struct StartFacts {
    /// `on`, or the reason why opcache is off.
    pub opcache: String,
    /// The number of PHP's settings. Where PHP does not tell them, a number of those in the
    /// configuration.
    pub settings: u64,
}

/// Starts PHP in the zygote, whose workers have the root folder `root`.
///
/// # Errors
/// The reason, as text for a person.
pub fn php(
    settings: &PoolSettings,
    root: Option<&PoolRoot>,
) -> Result<(Engine, StartFacts), String> {
    let mut given = settings.ini.clone();
    let mut own_folders = String::new();
    if !settings.state_dir.is_empty() {
        make_state_folders(settings)?;
        let state = chroot::inside_text(root, &settings.state_dir);
        let folders = ini::folders(&state, &[&settings.ini, &settings.admin_ini]);
        own_folders = ini::own_folders(&state, &folders);
        given.extend(folders);
    }
    let pool_ini = PoolIni::new(&given, &settings.admin_ini);
    let ini_file = (!settings.ini_file.is_empty()).then(|| Path::new(&settings.ini_file));
    if let Some(path) = ini_file {
        // PHP would start without the file and without a message.
        File::open(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    }

    let for_php = FOR_PHP
        .iter()
        .filter_map(|&name| Some((name.to_owned(), std::env::var(name).ok()?)));
    let scanned = std::env::var(unread_ini::SCAN_FOLDERS).ok();
    let while_starting: Vec<IniPair> =
        for_php.chain(settings.environment.iter().cloned()).collect();
    process::replace_environment(&while_starting);
    let options = EngineOptions {
        ini_file,
        has_pcntl: settings.pcntl,
        sapi: &settings.sapi,
        own_folders: &own_folders,
    };
    let engine = Engine::start(&options, &pool_ini)?;
    process::replace_environment(&environment_of(settings));

    for name in pool_ini.expected.iter().filter(|name| engine.ini_value(name).is_none()) {
        log::write(
            Level::Warning,
            format!(
                "an ini setting has no effect: this PHP has no setting {name:?}; \
                 check the name, or install the extension"
            )
            .as_bytes(),
            None,
        );
    }
    let refused =
        ini::refused(&[&settings.ini, &settings.admin_ini], |name| engine.ini_value(name));
    for (name, value, kept) in refused {
        log::write(
            Level::Error,
            format!(
                "PHP refuses the value {value:?} of the ini setting {name:?} and uses {kept:?}; \
                 see PHP's message before this one, and correct the site's `ini` or `admin_ini`"
            )
            .as_bytes(),
            None,
        );
    }
    let (engine, mut facts) = ask(engine, scanned.as_deref())
        .map_err(|error| format!("cannot ask PHP for its state: {error}"))?;
    if facts.settings == 0 {
        // The settings of php.ini stay unknown.
        let known = (engine.php_version(), &settings.ini_file, &settings.ini, &settings.admin_ini);
        facts.settings = number_of(format!("{known:?}").as_bytes());
    }
    Ok((engine, facts))
}

/// The environment of scripts. Under the name of php-fpm they find what php-fpm adds as well.
fn environment_of(settings: &PoolSettings) -> Vec<IniPair> {
    let mut environment = settings.environment.clone();
    if settings.sapi == sapi::FPM {
        let user = credentials::user_entry(credentials::own_user()).ok().flatten();
        let user = user.map(|(name, home)| [("USER", name), ("HOME", home)]);
        let own = [("FCGI_ROLE", "RESPONDER".to_owned())];
        for (name, value) in user.into_iter().flatten().chain(own) {
            if !environment.iter().any(|(known, _)| known == name) {
                environment.push((name.to_owned(), value));
            }
        }
    }
    environment
}

/// Enters the pool's working directory. Returns the directory; `None` if the pool has none. The
/// workers enter one that is below their root folder.
///
/// # Errors
/// It cannot be entered, and what to do.
pub fn working_directory(settings: &PoolSettings) -> Result<Option<PathBuf>, String> {
    if settings.working_directory.is_empty() {
        return Ok(None);
    }
    let folder = PathBuf::from(&settings.working_directory);
    if !settings.chroot_folder.is_empty() {
        return Ok(Some(folder));
    }
    std::env::set_current_dir(&folder).map_err(|error| {
        let folder = folder.display();
        format!(
            "cannot enter the folder {folder} of `chdir`: {error}; create it, or let the pool's \
             user enter it and every folder above it"
        )
    })?;
    Ok(Some(folder))
}

/// Checks in a child process that a worker can enter its root folder, and its working directory
/// there.
///
/// # Errors
/// It cannot, and why.
pub fn check_root(root: &PoolRoot, working_directory: Option<&Path>) -> Result<(), String> {
    let told = |error: io::Error| format!("cannot try the folder of `chroot`: {error}");
    let (mut answer, mut question) = io::pipe().map_err(told)?;
    match process::fork().map_err(told)? {
        Fork::Child => {
            drop(answer);
            let failed = root.enter_with(working_directory).err();
            let why = failed.map_or_else(|| "entered".to_owned(), |error| error.to_string());
            process::exit_now(i32::from(question.write_all(why.as_bytes()).is_err()))
        }
        Fork::Parent(_) => {
            drop(question);
            let mut text = String::new();
            answer.read_to_string(&mut text).map_err(told)?;
            match text.as_str() {
                "entered" => Ok(()),
                _ => Err(text),
            }
        }
    }
}

/// Checks that PHP, whose version is `found`, is of the version that the pool must have.
///
/// # Errors
/// It is another one, and what to do.
pub fn check_version(found: &str, wanted: &str) -> Result<(), String> {
    let rest = found.strip_prefix(wanted);
    if wanted.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.')) {
        return Ok(());
    }
    let program = std::env::current_exe().unwrap_or_default();
    Err(format!(
        "{} runs PHP {found}, and the site's `php.version` is {wanted}; install the program that \
         was built for PHP {wanted}",
        program.display()
    ))
}

/// Creates the pool's folders that PHP will use. Where the pool's user is a site's owner, what that
/// user does there keeps no configuration from coming into force: PHP starts without the folder.
fn make_state_folders(settings: &PoolSettings) -> Result<(), String> {
    let pairs = ini::folders(&settings.state_dir, &[&settings.ini, &settings.admin_ini]);
    for (_, folder) in pairs.iter().filter(|(_, value)| value.starts_with(&settings.state_dir)) {
        let Err(error) = make_folder(Path::new(folder), settings.repairs_state) else {
            continue;
        };
        let what = format!("cannot create the folder {folder}: {error}");
        if !settings.repairs_state || is_anothers(Path::new(folder)) {
            return Err(what);
        }
        let what = format!(
            "{what}; PHP starts without it, and its scripts have no such folder until the next \
             start"
        );
        log::write(Level::Error, what.as_bytes(), None);
    }
    Ok(())
}

/// Creates a folder that only this user may enter. `repairs`: a file or link of this user that is
/// in its place is removed, [`ATTEMPTS`] times.
fn make_folder(folder: &Path, repairs: bool) -> io::Result<()> {
    let make = || DirBuilder::new().recursive(true).mode(0o700).create(folder);
    let mut made = make();
    for _ in 1..ATTEMPTS {
        match &made {
            Err(error) if repairs && error.kind() == io::ErrorKind::AlreadyExists => {
                if is_anothers(folder) {
                    break;
                }
                // A folder that has taken the place meanwhile stays.
                let _ = fs::remove_file(folder);
                made = make();
            }
            _ => break,
        }
    }
    made
}

/// Returns whether something of another user is at a path.
fn is_anothers(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.uid() != credentials::own_user())
}

/// Attempts at making a folder where a script may put something else at any moment.
const ATTEMPTS: u32 = 100;

/// Asks PHP in a child process. A request changes PHP's state, and workers should start with the
/// state right after PHP's start.
fn ask(mut engine: Engine, scanned: Option<&str>) -> io::Result<(Engine, StartFacts)> {
    let (mut answer, mut question) = io::pipe()?;
    match process::fork()? {
        Fork::Child => {
            drop(answer);
            let facts = engine.facts();
            let sent = write!(question, "{} {}", facts.settings, facts.opcache);
            // The zygote goes on meanwhile.
            drop(question);
            unread_ini::tell(&facts.ini_folder, scanned);
            process::exit_now(i32::from(sent.is_err()))
        }
        Fork::Parent(_) => {
            drop(question);
            let mut text = String::new();
            answer.read_to_string(&mut text)?;
            Ok((engine, StartFacts::read(&text)))
        }
    }
}

impl StartFacts {
    /// Reads what the child has written.
    fn read(text: &str) -> StartFacts {
        let told = text.split_once(' ').and_then(|(settings, opcache)| {
            let (settings, opcache) = (settings.parse().ok()?, opcache.to_owned());
            Some(StartFacts { opcache, settings })
        });
        told.unwrap_or_else(|| StartFacts {
            opcache: "off: a script that asked for its state crashed".to_owned(),
            settings: 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_that_crashes_tells_nothing() {
        let told = StartFacts { opcache: "off: why".into(), settings: 7 };
        assert_eq!(StartFacts::read("7 off: why"), told);
        for text in ["", "7", "x on"] {
            assert_eq!(StartFacts::read(text).settings, 0, "{text:?}");
        }
    }

    #[test]
    fn a_folder_is_made_in_place_of_a_file() {
        let top = std::env::temp_dir().join(format!("howdah-state-{}", std::process::id()));
        fs::create_dir(&top).unwrap();
        let folder = top.join("sessions");
        fs::write(&folder, "").unwrap();
        let error = make_folder(&folder, false).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        make_folder(&folder, true).unwrap();
        assert!(folder.is_dir());
        fs::remove_dir(&folder).unwrap();
        std::os::unix::fs::symlink("/nowhere", &folder).unwrap();
        make_folder(&folder, true).unwrap();
        assert!(fs::symlink_metadata(&folder).unwrap().is_dir());
        fs::remove_dir_all(&top).unwrap();
    }
}
