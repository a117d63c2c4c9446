//! Processes as `/proc` shows them.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use super::PATIENCE;

/// A process, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Process(u32);

impl Process {
    /// The process with that number.
    pub fn new(number: u32) -> Process {
        Process(number)
    }

    /// The test itself.
    pub fn own() -> Process {
        Process(std::process::id())
    }

    /// Its number.
    pub fn number(self) -> u32 {
        self.0
    }

    /// Sets how many files the process may have open from now on. Those that are open stay open.
    /// Returns whether that was possible.
    pub fn limit_open_files(&self, limit: usize) -> bool {
        let number = |name: &str| {
            let ids = self.status(name).unwrap_or_default();
            ids.split_whitespace().next().unwrap_or_default().to_owned()
        };
        let (user, group) = (number("Uid"), number("Gid"));
        let (pid, limit) = (self.number().to_string(), format!("--nofile={limit}:"));
        let mut limited = Command::new("prlimit");
        if Process::own().uid() == 0 {
            // Root needs a capability for the processes of others.
            limited = Command::new("setpriv");
            limited.args(["--reuid", &user, "--regid", &group, "--clear-groups", "prlimit"]);
        }
        let limited = limited.args(["--pid", &pid, &limit]).output();
        limited.is_ok_and(|output| output.status.success())
    }

    /// Returns whether it is there, and no zombie.
    pub fn lives(&self) -> bool {
        !matches!(self.status("State").as_deref(), None | Some("Z (zombie)" | "X (dead)"))
    }

    /// Returns whether it has ended and was not reaped.
    pub fn is_zombie(&self) -> bool {
        self.status("State").is_some_and(|state| state.starts_with('Z'))
    }

    /// Returns the name that `ps -o comm` shows.
    pub fn name(&self) -> String {
        self.status("Name").unwrap_or_default()
    }

    /// Its command line, with spaces.
    pub fn arguments(&self) -> String {
        let bytes = fs::read(format!("/proc/{}/cmdline", self.0)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).replace('\0', " ").trim_end().to_owned()
    }

    /// A field of `/proc/PID/status`.
    pub fn status(&self, name: &str) -> Option<String> {
        let status = fs::read(format!("/proc/{}/status", self.0)).ok()?;
        // A process can give itself a name of any bytes.
        let status = String::from_utf8_lossy(&status);
        let mut lines = status.lines().filter_map(|line| line.split_once(':'));
        Some(lines.find(|(key, _)| *key == name)?.1.trim().to_owned())
    }

    /// Returns the most memory that the process has had at any time, in kilobytes.
    pub fn peak_memory(&self) -> u64 {
        let told = self.status("VmHWM").expect("the process lives");
        told.trim_end_matches(" kB").parse().unwrap()
    }

    /// Returns how often each thread has slept; `None` where the system does not count that.
    pub fn sleeps(&self) -> Option<Vec<u64>> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.0)).ok()?;
        tasks
            .map(|task| {
                let status = fs::read_to_string(task.ok()?.path().join("status")).ok()?;
                let count = status
                    .lines()
                    .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
                count.trim().parse().ok()
            })
            .collect()
    }

    /// Returns the processor time of its threads whose names `is_meant`; `None` where the system
    /// does not count that.
    pub fn time_of_threads(&self, is_meant: impl Fn(&str) -> bool) -> Option<Duration> {
        let meant = self.threads(is_meant)?.into_iter();
        meant
            .map(|task| {
                let times = fs::read_to_string(task.join("schedstat")).ok()?;
                let nanoseconds = times.split(' ').next()?.parse().ok()?;
                Some(Duration::from_nanos(nanoseconds))
            })
            .sum()
    }

    /// Returns the bytes that its threads whose names `is_meant` have read from files; `None` for
    /// who may not see that.
    pub fn bytes_read_by_threads(&self, is_meant: impl Fn(&str) -> bool) -> Option<u64> {
        let meant = self.threads(is_meant)?.into_iter();
        meant
            .map(|task| {
                let counts = fs::read_to_string(task.join("io")).ok()?;
                let read = counts.lines().find_map(|line| line.strip_prefix("rchar: "))?;
                read.parse::<u64>().ok()
            })
            .sum()
    }

    /// Returns the folders in `/proc` of its threads whose names `is_meant`.
    fn threads(&self, is_meant: impl Fn(&str) -> bool) -> Option<Vec<PathBuf>> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.0)).ok()?;
        let mut tasks = tasks.map(|task| Some(task.ok()?.path())).collect::<Option<Vec<_>>>()?;
        tasks.retain(|task| {
            fs::read_to_string(task.join("comm")).is_ok_and(|name| is_meant(name.trim_end()))
        });
        Some(tasks)
    }

    /// Its effective user.
    pub fn uid(&self) -> u32 {
        self.status("Uid").unwrap().split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    /// Its children that live. Processes that a server has just forked, and zygotes that no front
    /// uses, come and go by themselves and are left out.
    pub fn children(&self) -> Vec<Process> {
        let all = self.all_children().into_iter().filter(Process::lives);
        all.filter(|process| process.name() != "howdah" && !process.stands_by())
            .collect()
    }

    /// Returns whether this is a zygote that no front uses. Workers have the same arguments, and a
    /// zygote as their parent.
    pub fn stands_by(&self) -> bool {
        let is_zygote = |process: &Process| process.arguments().starts_with("howdah-php zygote");
        let parent = self.status("PPid").and_then(|parent| parent.parse().ok());
        is_zygote(self)
            && self.name() != "howdah-zygote"
            && parent.is_some_and(|parent| !is_zygote(&Process(parent)))
    }

    /// Its children that are zygotes that stand by.
    pub fn standbys(&self) -> Vec<Process> {
        let all = self.all_children().into_iter().filter(Process::lives);
        all.filter(Process::stands_by).collect()
    }

    /// Its children that have ended without being reaped.
    pub fn zombies(&self) -> Vec<Process> {
        self.all_children().into_iter().filter(Process::is_zombie).collect()
    }

    /// The processes of a user, those that have ended without being reaped included.
    pub fn of_user(uid: u32) -> Vec<Process> {
        let is_of = |status: &str| status.split_whitespace().next() == Some(&uid.to_string());
        Process::all()
            .filter(|process| process.status("Uid").is_some_and(|status| is_of(&status)))
            .collect()
    }

    /// The processes of the machine.
    fn all() -> impl Iterator<Item = Process> {
        let all = fs::read_dir("/proc").unwrap().flatten();
        all.filter_map(|entry| entry.file_name().to_str()?.parse().ok().map(Process))
    }

    fn all_children(&self) -> Vec<Process> {
        let parent = self.0.to_string();
        let mut children: Vec<_> = Process::all()
            .filter(|process| process.status("PPid").as_deref() == Some(&parent))
            .collect();
        children.sort_by_key(|process| process.0);
        children
    }

    /// Its children, theirs, and so on.
    pub fn descendants(&self) -> Vec<Process> {
        let children: Vec<Process> =
            self.all_children().into_iter().filter(Process::lives).collect();
        children
            .iter()
            .flat_map(Process::descendants)
            .chain(children.iter().copied())
            .collect()
    }

    /// Returns the targets of its open descriptors, from 0 on, without the lists of scripts that a
    /// supervisor keeps from some time on. The front hides its own from all but root: none are
    /// returned then, and this is printed.
    pub fn descriptors(&self) -> Vec<String> {
        let folder = match fs::read_dir(format!("/proc/{}/fd", self.0)) {
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                howdah_skip::skip!("only root may see the descriptors of {}", self.name());
                return Vec::new();
            }
            folder => folder.unwrap(),
        };
        let mut found: Vec<(u32, String)> = folder
            .flatten()
            .filter_map(|entry| {
                let target = fs::read_link(entry.path()).ok()?;
                Some((entry.file_name().to_str()?.parse().ok()?, target.display().to_string()))
            })
            .collect();
        found.sort();
        let targets = found.into_iter().map(|(_, target)| target);
        targets.filter(|target| !target.contains("memfd:howdah-scripts")).collect()
    }

    /// Returns the descriptors like [`Process::descriptors`], once they stay the same: a process
    /// closes some of them a moment after others see what it has done.
    pub fn settled_descriptors(&self) -> Vec<String> {
        let (mut last, mut same) = (self.descriptors(), 0);
        wait_until("the descriptors stay the same", || {
            let now = self.descriptors();
            same = if now == last { same + 1 } else { 0 };
            last = now;
            same == 50
        });
        last
    }

    /// Sends a signal to it, if it is still there.
    pub fn signal(&self, signal: i32) {
        super::pid(self.0).signal(signal).unwrap();
    }
}

/// Waits until something is so; fails if it takes too long.
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < until, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
