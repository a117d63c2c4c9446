//! Asking about the paths of the configuration: whether they exist, and where their links lead.
//!
//! A path may be on a file system that hangs, such as one of a single site: a file server that is
//! gone, or a program of FUSE that does not answer. The supervisor is there for all sites,
//! therefore it asks no such path itself. A forked process asks with several threads and writes
//! the answers to a pipe. After a time limit the paths that are left count as silent, and the
//! process is killed.

mod answer;

use std::collections::{HashMap, HashSet};
use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use howdah_config::{Config, Destination, Php, RootTemplate, SiteSettings};
use howdah_sys::descriptor;
use howdah_sys::open::{self, Lookup};
use howdah_sys::process::{self, Pid};
use howdah_sys::signal::SIGKILL;

pub(crate) use self::answer::{FolderRights, PathAnswer, PathState};

/// Time in which a path has to answer. A disk that is slower is noticed when it has answered.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);
/// The time that the process gets beyond [`PATIENCE`].
const GRACE: Duration = Duration::from_secs(5);
/// Time without an answer after which more threads ask.
const PAUSE: Duration = Duration::from_millis(20);

/// The answers about the paths of a configuration.
#[derive(Debug, Clone, Default)]
pub(crate) struct SurveyAnswers {
    paths: HashMap<PathBuf, PathAnswer>,
    /// The paths that did not answer, whether or not an earlier answer is known.
    silent: HashSet<PathBuf>,
}

impl SurveyAnswers {
    /// Asks about `paths` in this process, for at most [`PATIENCE`].
    pub(crate) fn ask(paths: &[PathBuf]) -> SurveyAnswers {
        let mut answers = SurveyAnswers::default();
        ask(paths, PATIENCE, |number, answer| answers.add(&paths[number], answer));
        answers
    }

    fn add(&mut self, path: &Path, answer: PathAnswer) {
        if answer.state == PathState::Silent {
            self.silent.insert(path.to_owned());
        }
        self.paths.insert(path.to_owned(), answer);
    }

    /// Takes the answers of `former` for paths that were silent this time.
    pub(crate) fn or(mut self, former: &SurveyAnswers) -> SurveyAnswers {
        for path in &self.silent {
            if let Some(answer) = former.paths.get(path) {
                self.paths.insert(path.clone(), answer.clone());
            }
        }
        self
    }

    /// The answer about a path; `None` if there is none, or never was one.
    pub(crate) fn of(&self, path: &Path) -> Option<&PathAnswer> {
        self.paths.get(path)
    }

    /// Returns the reason why the path of a site cannot be used now. `None`: the path has answered.
    pub(crate) fn silence(&self, path: &Path) -> Option<String> {
        self.silent.contains(path).then(|| {
            format!(
                "{} has not answered within {} s: its file system hangs",
                path.display(),
                PATIENCE.as_secs()
            )
        })
    }

    /// Notes the paths whose first link leads to folders of another site, with its name; forgets
    /// what was noted before.
    pub(super) fn note_other_sites(&mut self, leading: Vec<(PathBuf, String)>) {
        self.paths.values_mut().for_each(|answer| answer.other_site = None);
        for (path, site) in leading {
            if let Some(answer) = self.paths.get_mut(&path) {
                answer.other_site = Some(site);
            }
        }
    }

    /// The rights of a folder on the way of a path; `None` if it is not known.
    pub(crate) fn rights(&self, folder: &Path) -> Option<FolderRights> {
        self.paths.values().find_map(|answer| answer.rights(folder))
    }
}

/// The paths of `config` that the supervisor has to know. `states` are the state folders of the
/// pools, by site.
pub(crate) fn paths_of(config: &Config, states: &[Option<PathBuf>]) -> Vec<PathBuf> {
    let sites = config.sites.iter().zip(states);
    let mut paths: Vec<PathBuf> =
        sites.flat_map(|(site, state)| named_paths(site, state.as_deref())).collect();
    let mut seen = HashSet::new();
    paths.retain(|path| seen.insert(path.clone()));
    paths
}

/// The paths of a site's configuration that the supervisor has to know.
pub(super) fn named_paths(site: &SiteSettings, state: Option<&Path>) -> Vec<PathBuf> {
    let mut paths = vec![written_root(site).to_owned()];
    paths.extend(state.map(Path::to_owned));
    let Some(php) = &site.php else { return paths };
    paths.extend(php.ini_file.clone());
    paths.extend(php.chroot.clone());
    paths.extend(working_directory(php));
    paths.extend(php.readable.iter().chain(&php.writable).cloned());
    let sockets = php.connect.iter().flatten();
    paths.extend(sockets.filter_map(|destination| match destination {
        Destination::Unix(path) => Some(path.clone()),
        _ => None,
    }));
    paths
}

/// The folder of `chdir`, as the machine sees it. `None`: `chdir` is not set.
pub(super) fn working_directory(php: &Php) -> Option<PathBuf> {
    let folder = php.chdir.as_ref()?;
    let below = folder.strip_prefix("/").unwrap_or(folder);
    Some(php.chroot.as_ref().map_or_else(|| folder.clone(), |chroot| chroot.join(below)))
}

/// The document root of a site as the configuration has it, or the folder that holds the roots of
/// its hosts.
pub(crate) fn written_root(site: &SiteSettings) -> &Path {
    match &site.root {
        RootTemplate::Fixed(path) => path,
        RootTemplate::PerHost { before, .. } => Path::new(before),
    }
}

/// Returns whether the kernel can tell from its memory, and without asking a file system that may
/// hang, that `path` leads to `real`.
pub(super) fn still_leads_to(path: &Path, real: &Path) -> bool {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else {
        return false;
    };
    let Ok(folder) = open::folder(&path, Lookup::Cached) else {
        return false;
    };
    let name = fs::read_link(format!("/proc/self/fd/{}", folder.as_raw_fd()));
    name.is_ok_and(|name| name == real)
}

/// A process that asks about paths.
#[derive(Debug)]
pub(super) struct Survey {
    paths: Vec<PathBuf>,
    pid: Pid,
    until: Instant,
    /// `None` at the end of the answers.
    pipe: Option<File>,
    text: Vec<u8>,
}

impl Survey {
    /// # Errors
    /// The process cannot be forked.
    pub(super) fn start(paths: Vec<PathBuf>) -> io::Result<Survey> {
        let (reader, writer) = io::pipe()?;
        descriptor::set_nonblocking(&reader)?;
        let own = File::from(OwnedFd::from(writer.try_clone()?));
        let pid = process::fork(&[own.as_raw_fd()], || {
            let mut pipe = own;
            ask(&paths, PATIENCE, |number, answer| {
                // Without a reader nobody needs the answers.
                let _ = pipe.write_all(&answer.encode(number));
            });
            0
        })?;
        drop(writer);
        Ok(Survey {
            paths,
            pid,
            until: Instant::now() + PATIENCE + GRACE,
            pipe: Some(File::from(OwnedFd::from(reader))),
            text: Vec::new(),
        })
    }

    /// The process.
    pub(super) fn pid(&self) -> Pid {
        self.pid
    }

    /// The descriptor of the answers, to wait for. `None`: all were read.
    pub(super) fn output(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(AsFd::as_fd)
    }

    /// The time at which the survey is over, whatever was answered.
    pub(super) fn until(&self) -> Instant {
        self.until
    }

    /// Reads what was answered.
    pub(super) fn read(&mut self) {
        let mut buffer = [0; 16 * 1024];
        while let Some(pipe) = &mut self.pipe {
            match pipe.read(&mut buffer) {
                Ok(length) if length > 0 => self.text.extend_from_slice(&buffer[..length]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(_) | Err(_) => self.pipe = None,
            }
        }
    }

    /// Returns whether everything was answered, or the time is over.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        self.pipe.is_none() || now >= self.until
    }

    /// Returns the answers. A path without one counts as silent.
    pub(super) fn finish(self) -> SurveyAnswers {
        let mut answers = SurveyAnswers::default();
        for (number, answer) in answer::decode(&self.text) {
            if let Some(path) = self.paths.get(number) {
                answers.add(path, answer);
            }
        }
        for path in &self.paths {
            if !answers.paths.contains_key(path) {
                answers.add(path, PathAnswer::silent(path));
            }
        }
        answers
    }
}

impl Drop for Survey {
    fn drop(&mut self) {
        if self.pipe.is_some() {
            // It is reaped later as an unknown process.
            let _ = self.pid.signal(SIGKILL);
        }
    }
}

/// Asks about `paths`, and tells each answer with the path's number. After `limit` the rest is told
/// as silent.
fn ask(paths: &[PathBuf], limit: Duration, mut tell: impl FnMut(usize, PathAnswer)) {
    let until = Instant::now() + limit;
    let work = Arc::new(SurveyWork {
        next: AtomicUsize::new(0),
        paths: paths.iter().map(|path| (path.clone(), Mutex::default())).collect(),
    });
    let (sender, answers) = mpsc::channel();
    let mut threads = 0;
    let mut is_answered = vec![false; paths.len()];
    let mut left = paths.len();
    while left > 0 {
        // Each thread may hang. A machine without threads to spare goes on with those it has.
        let wanted = if threads == 0 { 1 } else { threads };
        for _ in 0..wanted {
            if work.next.load(Ordering::Relaxed) >= paths.len() {
                break;
            }
            let (work, sender) = (Arc::clone(&work), sender.clone());
            let run = move || work.run(&sender);
            threads += usize::from(thread::Builder::new().spawn(run).is_ok());
        }
        loop {
            let time = until.saturating_duration_since(Instant::now());
            match answers.recv_timeout(time.min(PAUSE)) {
                Ok((number, answer)) => {
                    tell(number, answer);
                    is_answered[number] = true;
                    left -= 1;
                    if left == 0 {
                        return;
                    }
                }
                Err(RecvTimeoutError::Timeout) if !time.is_zero() => break,
                Err(_) => {
                    work.tell_silent(&is_answered, &mut tell);
                    return;
                }
            }
        }
    }
}

/// The work of the threads that ask.
struct SurveyWork {
    /// The number of the next path.
    next: AtomicUsize,
    /// The paths, and the place of each.
    paths: Vec<(PathBuf, Mutex<PathBuf>)>,
}

impl SurveyWork {
    fn run(&self, sender: &mpsc::Sender<(usize, PathAnswer)>) {
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let Some((path, place)) = self.paths.get(number) else {
                return;
            };
            let mut note = |at: &Path| {
                at.clone_into(&mut place.lock().unwrap_or_else(PoisonError::into_inner));
            };
            if sender.send((number, PathAnswer::find(path, &mut note))).is_err() {
                return;
            }
        }
    }

    fn tell_silent(&self, is_answered: &[bool], tell: &mut impl FnMut(usize, PathAnswer)) {
        let paths = self.paths.iter().zip(is_answered).enumerate();
        for (number, ((path, place), _)) in paths.filter(|(_, (_, is_answered))| !**is_answered) {
            let place = place.lock().unwrap_or_else(PoisonError::into_inner);
            let has_begun = !place.as_os_str().is_empty();
            tell(number, PathAnswer::silent(if has_begun { &place } else { path }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_come_through_a_pipe_as_they_are() {
        let folder = std::env::temp_dir().join(format!("howdah-survey-{}", std::process::id()));
        let folder = fs::create_dir_all(&folder).and_then(|()| folder.canonicalize()).unwrap();
        fs::write(folder.join("file"), "").unwrap();
        std::os::unix::fs::symlink("file", folder.join("link")).unwrap();
        std::os::unix::fs::symlink("circle", folder.join("circle")).unwrap();
        let names = ["", "file", "link", "none/at/all", "circle"];
        let paths: Vec<PathBuf> = names.map(|name| folder.join(name)).into();
        let asked = SurveyAnswers::ask(&paths);
        let state = |name: &str| &asked.of(&folder.join(name)).unwrap().state;
        assert_eq!((state(""), state("file")), (&PathState::Folder, &PathState::Other));
        assert!(matches!(state("none/at/all"), PathState::Missing(_)));
        assert!(matches!(state("circle"), PathState::Failed(_)));
        assert_eq!(asked.of(&folder.join("link")).unwrap().real, folder.join("file"));
        assert!(asked.rights(&folder).is_some() && asked.rights(Path::new("/")).is_some());
        for (number, path) in paths.iter().enumerate() {
            let answer = asked.of(path).unwrap();
            assert_eq!(
                answer::decode(&answer.encode(number)).next(),
                Some((number, answer.clone()))
            );
        }
        assert!(still_leads_to(&folder.join("."), &folder));
        assert!(!still_leads_to(&folder.join("none"), &folder));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_path_that_is_silent_keeps_its_former_answer() {
        let path = Path::new("/srv/one");
        let answers = |answer: PathAnswer| {
            let mut answers = SurveyAnswers::default();
            answers.add(path, answer);
            answers
        };
        let mut answer = PathAnswer::silent(path);
        answer.state = PathState::Folder;
        let known = answers(answer.clone());
        assert_eq!(known.silence(path), None);
        let now = answers(PathAnswer::silent(path)).or(&known);
        assert_eq!(now.of(path), Some(&answer));
        assert!(now.silence(path).unwrap().starts_with("/srv/one has not answered"));
    }
}
