//! The process and machine that the supervisor runs on: user, paths, environment variables.

use std::cell::OnceCell;
use std::collections::HashSet;
use std::ffi::{CString, OsStr, OsString};
use std::fs;
use std::io;
use std::ops::RangeInclusive;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use howdah_config::Config;
use howdah_sys::credentials::{self, Identity};
use howdah_sys::process::{self, Pid};

use super::cgroups::ControlGroups;
use super::pool_memory::PoolMemory;
use super::service_manager;

/// The user, paths, limits and variables of the process, read once at the start.
#[derive(Debug, Clone)]
pub(crate) struct Environment {
    pub(crate) identity: Identity,
    /// The path of this program's file. After an upgrade the path leads to the new program.
    pub(crate) executable: PathBuf,
    /// The folder for temporary files.
    pub(crate) temporary: PathBuf,
    /// `PATH`.
    pub(crate) path: OsString,
    /// `$XDG_RUNTIME_DIR`.
    pub(crate) runtime: Option<PathBuf>,
    pub(crate) processors: usize,
    /// Soft and hard limit of open descriptors at the start of the process.
    pub(crate) descriptor_limit: (u64, u64),
    /// The folder for the state of pools that have no `state_dir`. It is removed when the server
    /// ends.
    pub(crate) state: Option<PathBuf>,
    /// All environment variables but those in `for_manager`.
    pub(crate) variables: Vec<(OsString, OsString)>,
    /// The variables of the service manager. Only this program's successor gets them.
    pub(crate) for_manager: Vec<(OsString, OsString)>,
    /// The control groups of this supervisor, or the reason why there are none. `None` if they were
    /// not needed yet.
    pub(crate) cgroups: Option<Result<Arc<ControlGroups>, String>>,
    pub(crate) pool_memory: PoolMemory,
    /// The result of [`Environment::spare_user`].
    pub(crate) spare_user: OnceCell<u32>,
}

/// The search path for programs if `PATH` is not set.
const USUAL_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Environment variables that PHP reads during its start. Scripts do not see them.
const FOR_PHP: [&str; 2] = ["PHPRC", "PHP_INI_SCAN_DIR"];

impl Environment {
    /// Reads the environment of this process.
    ///
    /// # Errors
    /// The user or the executable of this process cannot be determined.
    pub(crate) fn read() -> io::Result<Environment> {
        let (for_manager, variables) = std::env::vars_os().partition(|(name, _)| {
            service_manager::VARIABLES.iter().any(|variable| name == variable)
        });
        let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let path = variable("PATH").unwrap_or_else(|| USUAL_PATH.into());
        Ok(Environment {
            identity: Identity::current()?,
            executable: executable(std::env::args_os().next(), &path)?,
            temporary: std::env::temp_dir(),
            path,
            runtime: variable("XDG_RUNTIME_DIR")
                .map(PathBuf::from)
                .filter(|path| path.is_absolute()),
            descriptor_limit: process::descriptor_limit()?,
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            state: None,
            variables,
            for_manager,
            cgroups: None,
            pool_memory: PoolMemory::default(),
            spare_user: OnceCell::new(),
        })
    }

    /// A user number that neither the user database nor another process uses. It is the same for
    /// the life of this process.
    ///
    /// # Errors
    /// The user database or `/proc` cannot be read, or every number is in use.
    pub(crate) fn spare_user(&self) -> io::Result<u32> {
        if let Some(uid) = self.spare_user.get() {
            return Ok(*uid);
        }
        let used = users_of_processes()?;
        for uid in SPARE_USERS.rev().filter(|uid| !used.contains(uid)) {
            if credentials::user_name(uid)?.is_none() {
                return Ok(*self.spare_user.get_or_init(|| uid));
            }
        }
        Err(io::Error::other("every user number from 61184 to 65519 is in use"))
    }

    /// Returns a user number that nobody uses, like [`Environment::spare_user`], and that is not
    /// `taken`. It is `wanted` if nobody uses that.
    ///
    /// # Errors
    /// The errors of [`Environment::spare_user`].
    pub(crate) fn spare_user_but(&self, taken: u32, wanted: Option<u32>) -> io::Result<u32> {
        let used = users_of_processes()?;
        let wanted = wanted.filter(|uid| SPARE_USERS.contains(uid));
        for uid in wanted.into_iter().chain(SPARE_USERS.rev()) {
            // The process that has the wanted number may be the one that is replaced.
            let is_free = Some(uid) == wanted || !used.contains(&uid);
            if uid != taken && is_free && credentials::user_name(uid)?.is_none() {
                return Ok(uid);
            }
        }
        Err(io::Error::other("every user number from 61184 to 65519 is in use"))
    }

    /// Paths at which a program that belongs to this one may be, the preferred one first.
    pub(crate) fn places_of(&self, program: &str) -> Vec<PathBuf> {
        let beside = |executable: &Path| {
            let folder = executable.parent()?.to_owned();
            let above = folder.parent().unwrap_or(&folder).join("libexec/howdah");
            Some([folder, above])
        };
        let real = self.executable.canonicalize().ok().filter(|real| *real != self.executable);
        let ours = [Some(self.executable.clone()), real].into_iter().flatten();
        let mut folders: Vec<PathBuf> =
            ours.filter_map(|executable| beside(&executable)).flatten().collect();
        folders.extend(std::env::split_paths(&self.path).filter(|folder| folder.is_absolute()));
        folders.iter().map(|folder| folder.join(program)).collect()
    }

    /// The folder for what the server keeps for itself.
    ///
    /// # Errors
    /// The configuration names none, and the environment has no home folder.
    pub(crate) fn server_state(&self, config: &Config) -> Result<PathBuf, String> {
        let variable = |name: &str| {
            let found = self.variables.iter().find(|(known, _)| known == name);
            found.map(|(_, value)| PathBuf::from(value)).filter(|path| path.is_absolute())
        };
        let of_user = || {
            let home = || Some(variable("HOME")?.join(".local/state"));
            Some(variable("XDG_STATE_HOME").or_else(home)?.join("howdah"))
        };
        match &config.state_dir {
            Some(folder) => Ok(folder.clone()),
            None if self.identity.is_root() => Ok(PathBuf::from("/var/lib/howdah-server")),
            None => of_user().ok_or_else(|| {
                "there is no folder for the server's state, because HOME is not set; set \
                 `state_dir`"
                    .to_owned()
            }),
        }
    }

    /// The files and folders that the environment names for PHP's settings.
    pub(crate) fn ini_folders(&self) -> Vec<PathBuf> {
        let named = self
            .variables
            .iter()
            .filter(|(name, _)| FOR_PHP.iter().any(|known| name == known));
        named
            .flat_map(|(_, value)| std::env::split_paths(value))
            .filter(|path| path.is_absolute())
            .collect()
    }

    /// The environment of scripts: `PATH`, the configured variables, and those of this process that
    /// are `passed` on by name.
    pub(crate) fn script_environment(
        &self,
        configured: &[(String, String)],
        passed: &[String],
    ) -> Vec<(String, String)> {
        let mut environment = configured.to_vec();
        for name in passed {
            let own = self.variables.iter().find(|(known, _)| known == name.as_str());
            let is_given = configured.iter().any(|(known, _)| known == name);
            if let Some((_, value)) = own.filter(|_| !is_given) {
                environment.push((name.clone(), value.to_string_lossy().into_owned()));
            }
        }
        if !environment.iter().any(|(name, _)| name == "PATH") {
            environment.push(("PATH".to_owned(), self.path.to_string_lossy().into_owned()));
        }
        environment
    }

    /// The control groups of this supervisor. `None`: this machine has none that it may use.
    pub(super) fn control_groups(&self) -> Option<&ControlGroups> {
        self.cgroups.as_ref()?.as_deref().ok()
    }

    /// The environment that a zygote starts with. No other variable is passed on.
    ///
    /// # Errors
    /// A variable has a NUL byte.
    pub(crate) fn zygote_environment(&self) -> io::Result<Vec<CString>> {
        let mut variables = vec![variable(OsStr::new("PATH"), &self.path)?];
        for (name, value) in &self.variables {
            if FOR_PHP.iter().any(|known| name == known) {
                variables.push(variable(name, value)?);
            }
        }
        Ok(variables)
    }
}

/// The user numbers that systemd gives to services with `DynamicUser=`. Distributions give them to
/// no user.
const SPARE_USERS: RangeInclusive<u32> = 61_184..=65_519;

/// The effective user numbers of all processes. A process that ends meanwhile is left out. The
/// owner of the folder in `/proc` would be root for each process that cannot be dumped.
fn users_of_processes() -> io::Result<HashSet<u32>> {
    let all = fs::read_dir("/proc")?.flatten();
    let numbers = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    Ok(numbers.filter_map(|number| process::user(Pid::from_number(number)?)).collect())
}

/// Encodes an environment variable for `execve`.
///
/// # Errors
/// The name or the value has a NUL byte.
pub(super) fn variable(name: &OsStr, value: &OsStr) -> io::Result<CString> {
    Ok(CString::new([name.as_bytes(), b"=", value.as_bytes()].concat())?)
}

/// The file that the first argument names, searched for as a shell does. `/proc/self/exe` would
/// lead to the old file after an upgrade has replaced it.
fn executable(first_argument: Option<OsString>, path: &OsStr) -> io::Result<PathBuf> {
    let real = std::env::current_exe()?;
    let Some(name) = first_argument.map(OsStringExt::into_vec) else {
        return Ok(real);
    };
    let name = PathBuf::from(OsString::from_vec(name));
    let named = if name.as_os_str().as_bytes().contains(&b'/') {
        std::path::absolute(&name)?
    } else {
        let found = std::env::split_paths(path)
            .map(|folder| folder.join(&name))
            .find(|place| place.is_file());
        found.unwrap_or_else(|| real.clone())
    };
    // The first argument may name anything.
    Ok(if named.canonicalize().is_ok_and(|named| named == real) {
        named
    } else {
        real
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_that_was_used_counts_only_if_it_leads_here() {
        let real = std::env::current_exe().unwrap();
        let path = OsStr::new("/bin");
        assert_eq!(executable(None, path).unwrap(), real);
        assert_eq!(executable(Some("sh".into()), path).unwrap(), real);
        assert_eq!(executable(Some("/bin/sh".into()), path).unwrap(), real);
        let dotted = real.parent().unwrap().join(".").join(real.file_name().unwrap());
        assert_eq!(executable(Some(dotted.into()), path).unwrap(), real);
    }

    #[test]
    fn the_spare_user_is_no_user_and_stays_the_same() {
        let environment = Environment::read().unwrap();
        let uid = environment.spare_user().unwrap();
        assert!(SPARE_USERS.contains(&uid));
        assert_eq!(credentials::user_name(uid).unwrap(), None);
        assert_eq!(environment.clone().spare_user().unwrap(), uid);
        assert!(users_of_processes().unwrap().contains(&environment.identity.uid));
    }

    #[test]
    fn scripts_see_what_is_configured_and_the_path() {
        let environment = Environment::read().unwrap();
        let ours = vec![("DB".to_owned(), "x".to_owned())];
        let seen = environment.script_environment(&ours, &[]);
        assert_eq!(seen[0], ours[0]);
        assert_eq!((seen.len(), seen[1].0.as_str()), (2, "PATH"));
        let with_path = vec![("PATH".to_owned(), "/x".to_owned())];
        assert_eq!(environment.script_environment(&with_path, &["PATH".into()]), with_path);
    }
}
