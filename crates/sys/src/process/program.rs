//! Starts a program with a fully specified process state.

use std::ffi::CString;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use super::exec::pointers;
use super::{Pid, own_pid, set_descriptor_limit};
use crate::confinement::Confinement;
use crate::credentials::{self, Identity};
use crate::descriptor::duplicate_above;
use crate::{check, chroot, descriptor, poll, signal};

/// Time for which [`Program::start`] waits for the program. On a machine that is merely slow,
/// mistakes of the start are told as late as the program's own.
const PATIENCE: Duration = Duration::from_secs(1);

/// A program to start, and the state of its process.
#[derive(Debug)]
pub struct Program {
    /// Path of the file to execute.
    pub path: CString,
    /// Arguments, starting with the program's name.
    pub arguments: Vec<CString>,
    /// The complete environment, as `NAME=value`.
    pub environment: Vec<CString>,
    /// The descriptors 0, 1, 2, … of the program. It gets no others.
    pub descriptors: Vec<OwnedFd>,
    /// The user and groups of the program; `None`: those of this process.
    pub identity: Option<Identity>,
    /// File mode creation mask.
    pub umask: u32,
    /// Soft and hard limit of open descriptors; `None`: those of this process.
    pub descriptor_limit: Option<(u64, u64)>,
    /// Signal that the kernel sends to the program when this process dies.
    pub death_signal: Option<i32>,
    /// The restrictions of the program.
    pub confinement: Confinement,
}

impl Program {
    /// Starts the program in its own session and process group, without a controlling terminal,
    /// with default signals.
    ///
    /// Never waits long: where a path of the confinement is on a file system that hangs, the child
    /// is returned before it is the program. If it fails later, it writes the reason to its
    /// descriptor 2 and ends with status 127.
    ///
    /// # Errors
    /// The failed step and its error.
    pub fn start(&self) -> io::Result<Pid> {
        let (mut failure, writer) = io::pipe()?;
        let arguments = pointers(&self.arguments);
        let environment = pointers(&self.environment);
        // Duplicates above all target numbers, to make sure that no descriptor overwrites another.
        let first_free =
            RawFd::try_from(self.descriptors.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        let mut moved = Vec::with_capacity(self.descriptors.len());
        for descriptor in &self.descriptors {
            moved.push(duplicate_above(descriptor.as_raw_fd(), first_free)?);
        }
        let report = duplicate_above(writer.as_raw_fd(), first_free)?;
        drop(writer);
        let parent = own_pid();
        // SAFETY: the child only makes async-signal-safe calls on memory that was prepared above.
        let pid = check(unsafe { libc::fork() })?;
        if pid == 0 {
            let (step, error) = self.run(&arguments, &environment, &moved, parent);
            let mut message = [0; 36];
            let length = step.len().min(32);
            message[..4]
                .copy_from_slice(&error.raw_os_error().unwrap_or(libc::EPERM).to_ne_bytes());
            message[4..4 + length].copy_from_slice(&step.as_bytes()[..length]);
            let length = 4 + length;
            // SAFETY: the buffers are live; `_exit` runs nothing of the parent's.
            unsafe {
                // The parent may have stopped waiting.
                libc::signal(libc::SIGPIPE, libc::SIG_IGN);
                if libc::write(report.as_raw_fd(), message.as_ptr().cast(), length) == -1 {
                    for part in [&b"the program was not started: "[..], step.as_bytes(), b"\n"] {
                        libc::write(libc::STDERR_FILENO, part.as_ptr().cast(), part.len());
                    }
                }
                libc::_exit(127);
            }
        }
        drop(report);
        if !has_news(&failure, PATIENCE)? {
            return Ok(Pid(pid));
        }
        let mut message = Vec::new();
        failure.read_to_end(&mut message)?;
        match message.split_first_chunk::<4>() {
            None => Ok(Pid(pid)),
            Some((number, step)) => {
                super::wait(Pid(pid))?;
                let error = io::Error::from_raw_os_error(i32::from_ne_bytes(*number));
                let step = String::from_utf8_lossy(step);
                Err(io::Error::new(error.kind(), format!("{step}: {error}")))
            }
        }
    }

    /// Runs in the child. Returns only after a failure, with the failed step. Allocates no memory.
    fn run(
        &self,
        arguments: &[*const libc::c_char],
        environment: &[*const libc::c_char],
        descriptors: &[OwnedFd],
        parent: Pid,
    ) -> (&'static str, io::Error) {
        let steps = || -> Result<(), (&'static str, io::Error)> {
            // A session of its own has no terminal: a script could type into the operator's.
            // SAFETY: no arguments.
            check(unsafe { libc::setsid() }).map_err(|error| ("setsid", error))?;
            signal::reset().map_err(|error| ("signals", error))?;
            // Until it is the program, the child has copies of the parent's descriptors, and a file
            // system may keep it for ever.
            self.die_with(parent)?;
            for (number, descriptor) in (0..).zip(descriptors) {
                // SAFETY: the source is open and above all targets; a target's former owner is the
                // parent's.
                check(unsafe { libc::dup2(descriptor.as_raw_fd(), number) })
                    .map_err(|error| ("dup2", error))?;
            }
            if let Some((soft, hard)) = self.descriptor_limit {
                set_descriptor_limit(soft, hard).map_err(|error| ("setrlimit", error))?;
            }
            // With the rights of the parent, which some of the restrictions need.
            self.confinement.apply()?;
            if let Some(identity) = &self.identity {
                let keeps = self.confinement.may_change_root;
                if keeps {
                    chroot::keep_over_change_of_user().map_err(|error| ("prctl", error))?;
                }
                credentials::assume(identity)?;
                if keeps {
                    chroot::pass_on().map_err(|error| ("the right to chroot", error))?;
                }
            }
            // SAFETY: no memory arguments.
            unsafe { libc::umask(self.umask) };
            // The change of user has made the kernel forget it.
            self.die_with(parent)
        };
        if let Err(failed) = steps() {
            return failed;
        }
        if let Ok(first) = RawFd::try_from(descriptors.len()) {
            descriptor::close_on_exec_from(first);
        }
        // SAFETY: NUL-terminated strings and null-terminated arrays of them, all alive.
        unsafe { libc::execve(self.path.as_ptr(), arguments.as_ptr(), environment.as_ptr()) };
        ("execve", io::Error::last_os_error())
    }

    /// Makes the kernel send `death_signal` when the parent dies.
    fn die_with(&self, parent: Pid) -> Result<(), (&'static str, io::Error)> {
        let Some(signal) = self.death_signal else {
            return Ok(());
        };
        // SAFETY: no memory arguments.
        check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, signal, 0, 0, 0) })
            .map_err(|error| ("prctl", error))?;
        // SAFETY: no arguments.
        match unsafe { libc::getppid() } == parent.0 {
            true => Ok(()),
            false => Err(("parent", io::ErrorKind::NotFound.into())),
        }
    }
}

/// Returns whether the child has failed or has become the program, within that time.
fn has_news(failure: &io::PipeReader, patience: Duration) -> io::Result<bool> {
    let until = Instant::now() + patience;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        // A signal ends the wait early.
        if poll::readable(&[failure.as_fd()], Some(left))? == [true] {
            return Ok(true);
        }
        if left.is_zero() {
            return Ok(false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Exit, wait};
    use super::*;
    use std::fs::File;

    fn shell(script: &str, output: OwnedFd) -> Program {
        let text = |text: &str| CString::new(text).unwrap();
        Program {
            path: text("/bin/sh"),
            arguments: vec![text("sh"), text("-c"), text(script)],
            environment: vec![text("ONLY=this")],
            descriptors: vec![
                File::open("/dev/null").unwrap().into(),
                output.try_clone().unwrap(),
                output,
            ],
            identity: None,
            umask: 0o027,
            descriptor_limit: None,
            death_signal: Some(signal::SIGKILL),
            confinement: Confinement::default(),
        }
    }

    fn run(script: &str) -> (String, Exit) {
        let (mut reader, writer) = io::pipe().unwrap();
        let pid = shell(script, writer.into()).start().unwrap();
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        (text, wait(pid).unwrap())
    }

    #[test]
    fn runs_with_what_it_was_given_and_nothing_else() {
        let (text, exit) = run("umask; env | grep ONLY; ls /proc/self/fd | tr '\\n' ' '; exit 3");
        // 3 is the folder that `ls` reads.
        assert_eq!(text, "0027\nONLY=this\n0 1 2 3 ");
        assert_eq!(exit, Exit::Status(3));
    }

    #[test]
    fn leads_a_process_group() {
        let (text, _) = run("ps -o pid=,pgid= -p $$ 2>/dev/null || echo 1 1");
        let numbers: Vec<&str> = text.split_whitespace().collect();
        assert_eq!(numbers[0], numbers[1]);
    }

    #[test]
    fn a_program_that_is_not_there_is_an_error_of_the_parent() {
        let (_reader, writer) = io::pipe().unwrap();
        let mut program = shell("", writer.into());
        program.path = CString::new("/no/such/program").unwrap();
        // The parent of a child that is too slow learns from its exit status.
        let error = std::iter::repeat_with(|| program.start()).find_map(|started| match started {
            Ok(late) => wait(late).map(|_| None).unwrap(),
            Err(error) => Some(error),
        });
        let error = error.unwrap();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(error.to_string().starts_with("execve: "), "{error}");
    }

    #[test]
    fn gives_up_root_before_anything_runs() {
        let nobody = Identity::of_user("nobody", None).unwrap().unwrap();
        if !Identity::current().unwrap().is_root() {
            return;
        }
        let (mut reader, writer) = io::pipe().unwrap();
        let mut program = shell("id -u; id -g; id -G", writer.into());
        program.identity = Some(nobody.clone());
        let pid = program.start().unwrap();
        drop(program);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, format!("{}\n{}\n{}\n", nobody.uid, nobody.gid, nobody.gid));
        wait(pid).unwrap();
    }

    /// A file system that never answers, as that of a server that is gone.
    struct HangingMount {
        folder: std::path::PathBuf,
        /// The end of the one who would answer. The kernel gives up when it is closed.
        device: Option<File>,
    }

    impl HangingMount {
        /// `None` where this process may not mount.
        fn new() -> Option<HangingMount> {
            let name = format!("howdah-hanging-{}", std::process::id());
            let folder = std::env::temp_dir().join(name);
            std::fs::create_dir_all(&folder).unwrap();
            let device = File::options().read(true).write(true).open("/dev/fuse").ok()?;
            let options = format!("fd={},rootmode=40000,user_id=0,group_id=0", device.as_raw_fd());
            let options = CString::new(options).unwrap();
            let place = CString::new(folder.to_str().unwrap()).unwrap();
            // SAFETY: NUL-terminated strings.
            let mounted = unsafe {
                let data = options.as_ptr().cast();
                libc::mount(c"hanging".as_ptr(), place.as_ptr(), c"fuse".as_ptr(), 0, data)
            };
            let device = Some(device);
            (mounted == 0).then_some(HangingMount { folder, device })
        }
    }

    impl Drop for HangingMount {
        fn drop(&mut self) {
            self.device = None;
            let place = CString::new(self.folder.to_str().unwrap()).unwrap();
            // SAFETY: a NUL-terminated string.
            unsafe { libc::umount2(place.as_ptr(), libc::MNT_DETACH) };
            let _ = std::fs::remove_dir(&self.folder);
        }
    }

    #[test]
    fn a_file_system_that_hangs_keeps_the_child_and_not_the_parent() {
        let landlock = crate::landlock::Landlock::of_kernel();
        let Some((landlock, hanging)) = landlock.zip(HangingMount::new()) else {
            howdah_skip::skip!("no Landlock, or this process may not mount");
            return;
        };
        let mut ruleset = crate::landlock::Ruleset::new(landlock);
        ruleset.refuse_files(crate::landlock::FileRights::WRITE);
        let inside = CString::new(hanging.folder.join("in/side").to_str().unwrap()).unwrap();
        ruleset.grant(inside, crate::landlock::FileRights::WRITE);
        let (_reader, writer) = io::pipe().unwrap();
        let mut program = shell("", writer.into());
        program.confinement.landlock = Some(ruleset);
        let (done, started) = std::sync::mpsc::channel();
        // The child outlives the thread that forks it.
        program.death_signal = None;
        std::thread::spawn(move || done.send(program.start()));
        let pid = started.recv_timeout(Duration::from_secs(60));
        let pid = pid.expect("the parent waits for the file system").unwrap();
        pid.signal(signal::SIGKILL).unwrap();
        assert_eq!(wait(pid).unwrap(), Exit::Signal(signal::SIGKILL));
    }
}
