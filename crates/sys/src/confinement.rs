//! Restrictions of a program, set by its parent between `fork(2)` and `execve(2)`.

use std::io;

use crate::check;
use crate::landlock::Ruleset;
use crate::mounts::{FailedStep, Mounts};
use crate::seccomp::SeccompFilter;

/// Restrictions of a program and everything that it starts. The default restricts nothing.
#[derive(Debug, Clone, Default)]
pub struct Confinement {
    /// Mounts of its own. Needs root's rights.
    pub mounts: Mounts,
    /// The scheduling priority of nice(1); `None` for that of this process.
    pub nice: Option<i32>,
    /// Limits of resources.
    pub limits: Vec<(Resource, u64)>,
    /// Whether set-user-ID and set-group-ID programs give no rights, and capabilities of a user
    /// other than root are given up.
    pub no_new_privileges: bool,
    /// Whether the program keeps the right to change its root folder, if it runs as another user
    /// than this process. See [`chroot`](crate::chroot).
    pub may_change_root: bool,
    /// Files, ports and signals.
    pub landlock: Option<Ruleset>,
    /// System calls.
    pub filter: Option<SeccompFilter>,
}

/// A limited resource of `setrlimit(2)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource {
    /// Processes and threads of the user (`RLIMIT_NPROC`).
    Processes,
    /// Bytes of a core dump (`RLIMIT_CORE`).
    Core,
    /// Bytes of a file that is written (`RLIMIT_FSIZE`).
    FileSize,
    /// Bytes of address space (`RLIMIT_AS`).
    AddressSpace,
}

impl Confinement {
    /// Restricts this process, which has the rights of its parent and one thread.
    ///
    /// Async-signal-safe.
    ///
    /// # Errors
    /// The step that failed, and the error of its system call. The steps before it hold.
    pub(crate) fn apply(&self) -> Result<(), FailedStep> {
        // Landlock refuses mounts, therefore they come first.
        self.mounts.enter()?;
        if let Some(nice) = self.nice {
            // SAFETY: no memory arguments; 0 is this process.
            check(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) })
                .map_err(|error| ("nice", error))?;
        }
        for &(resource, limit) in &self.limits {
            resource.limit(limit).map_err(|error| ("setrlimit", error))?;
        }
        if self.no_new_privileges {
            crate::process::refuse_new_privileges().map_err(|error| ("no_new_privs", error))?;
            crate::process::drop_capabilities_of_user().map_err(|error| ("capset", error))?;
        }
        if let Some(ruleset) = &self.landlock {
            ruleset.enforce().map_err(|error| ("landlock", error))?;
        }
        if let Some(filter) = &self.filter {
            filter.install().map_err(|error| ("seccomp", error))?;
        }
        Ok(())
    }
}

impl Resource {
    /// Lowers the soft and the hard limit to `limit`. A hard limit that is lower already stays.
    fn limit(self, limit: u64) -> io::Result<()> {
        let kind = match self {
            Resource::Processes => libc::RLIMIT_NPROC,
            Resource::Core => libc::RLIMIT_CORE,
            Resource::FileSize => libc::RLIMIT_FSIZE,
            Resource::AddressSpace => libc::RLIMIT_AS,
        };
        let mut present = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: `present` is live.
        check(unsafe { libc::getrlimit(kind, &raw mut present) })?;
        let limit = limit.min(present.rlim_max);
        let wanted = libc::rlimit { rlim_cur: limit, rlim_max: limit };
        // SAFETY: `wanted` is live.
        check(unsafe { libc::setrlimit(kind, &raw const wanted) })?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;
    use std::fs::{self, File};
    use std::io::Read;
    use std::path::{Path, PathBuf};

    use super::*;
    use crate::landlock::{FileRights, Landlock};
    use crate::process::{Program, wait};
    use crate::seccomp::{SeccompRules, SeccompVerdict, calls};

    fn text(path: &Path) -> CString {
        CString::new(path.to_str().unwrap()).unwrap()
    }

    /// Runs a shell script. Returns its output, or why it did not start.
    fn run(script: &str, confinement: Confinement) -> io::Result<String> {
        let (mut reader, writer) = io::pipe()?;
        let writer = std::os::fd::OwnedFd::from(writer);
        let program = Program {
            path: c"/bin/sh".to_owned(),
            arguments: vec![c"sh".to_owned(), c"-c".to_owned(), CString::new(script)?],
            environment: vec![c"PATH=/usr/bin:/bin".to_owned()],
            descriptors: vec![File::open("/dev/null")?.into(), writer.try_clone()?, writer],
            identity: None,
            umask: 0o022,
            descriptor_limit: None,
            death_signal: None,
            confinement,
        };
        let pid = program.start()?;
        drop(program);
        let mut text = String::new();
        reader.read_to_string(&mut text)?;
        wait(pid)?;
        Ok(text)
    }

    fn folder(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("howdah-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(path.join("in")).unwrap();
        fs::create_dir_all(path.join("out")).unwrap();
        path
    }

    #[test]
    fn a_program_writes_only_where_it_may() {
        let Some(landlock) = Landlock::of_kernel() else {
            howdah_skip::skip!("this kernel has no Landlock");
            return;
        };
        let folder = folder("confinement");
        let mut ruleset = Ruleset::new(landlock);
        ruleset.refuse_files(FileRights::WRITE);
        ruleset.grant(text(&folder.join("in")), FileRights::WRITE);
        ruleset.grant(text(&folder.join("missing")), FileRights::WRITE);
        ruleset.grant(c"/dev/null".to_owned(), FileRights::ALL);
        let script = format!(
            "cd {}; echo x > in/a && cat in/a; mv in/a in/b && cat in/b; mv in/b out/b; echo x > \
             out/c; ls out; echo end",
            folder.display()
        );
        let confinement = Confinement {
            no_new_privileges: true,
            landlock: Some(ruleset),
            ..Confinement::default()
        };
        let told = run(&format!("{{ {script}; }} 2>/dev/null"), confinement).unwrap();
        assert_eq!(told, "x\nx\nend\n");
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_program_makes_only_the_calls_that_it_may() {
        if !crate::seccomp::is_available() {
            howdah_skip::skip!("this kernel has no seccomp");
            return;
        }
        let rules = SeccompRules::new(SeccompVerdict::Allow)
            .set(calls::MOUNTS, &SeccompVerdict::NOT_PERMITTED)
            .set(calls::UNSHARE, &SeccompVerdict::without_bits(0, calls::NAMESPACES_TO_UNSHARE));
        let confinement = Confinement {
            no_new_privileges: true,
            filter: Some(rules.compile()),
            ..Confinement::default()
        };
        let script = "grep -E '^(NoNewPrivs|Seccomp):' /proc/self/status | tr -d '[:space:]'; \
                      unshare --user true 2>&1 | grep -o 'Operation not permitted'";
        let told = run(script, confinement).unwrap();
        assert_eq!(told, "NoNewPrivs:1Seccomp:2Operation not permitted\n");
    }

    #[test]
    fn limits_are_lowered_and_never_raised() {
        let limits = vec![
            (Resource::Core, 0),
            (Resource::FileSize, 4096),
            (Resource::AddressSpace, 1 << 30),
        ];
        let confinement = Confinement { limits, ..Confinement::default() };
        let told = run("ulimit -c; ulimit -f; ulimit -v", confinement).unwrap();
        assert_eq!(told, "0\n8\n1048576\n");
    }

    /// A folder whose owner replaced it by a link is not mounted.
    #[test]
    fn only_a_folder_without_links_is_shown_elsewhere() {
        if crate::mounts::probe().is_err() {
            howdah_skip::skip!("this process may not mount");
            return;
        }
        let folder = folder("mounts").canonicalize().unwrap();
        fs::write(folder.join("in/mine"), "").unwrap();
        std::os::unix::fs::symlink(folder.join("in"), folder.join("link")).unwrap();
        let shown = |source: &str, owner: u32| {
            let mut mounts = Mounts::default();
            mounts.show(text(&folder.join(source)), text(&folder.join("out")), owner);
            mounts.hide_processes();
            let confinement = Confinement { mounts, ..Confinement::default() };
            run(
                &format!("ls {}; ls -d /proc/1 2>&1 | wc -l", folder.join("out").display()),
                confinement,
            )
        };
        // Root sees all processes in any `/proc`.
        assert_eq!(shown("in", 0).unwrap(), "mine\n1\n");
        assert!(fs::read_dir(folder.join("out")).unwrap().next().is_none());
        for (source, owner) in [("link", 0), ("in", 12345), ("missing", 0)] {
            let error = shown(source, owner).unwrap_err();
            assert!(error.to_string().contains("open of a private folder"), "{error}");
        }
        fs::remove_dir_all(&folder).unwrap();
    }
}
