//! The files that a pool may reach.

use std::collections::BTreeSet;
use std::fs::DirEntry;
use std::path::{Path, PathBuf};

use howdah_config::{Config, Destination, Php, RootTemplate, Sandbox, SiteSettings};
use howdah_files::LinkedPath;
use howdah_sys::landlock::{FileRights, Ruleset};

use super::super::survey::{PathState, written_root};
use super::PoolPaths;
use super::places::{RootPlace, TakenPlaces, place_of, root_of, trusted};
use super::system_folders::{PROGRAMS, SHARED_TEMPORARY, SYSTEM, WRITTEN, is_of_system};

/// Entries of a folder that are granted one by one, because another site's folder is among them.
/// Beyond it the folder's entries are out of reach, except what belongs to the site itself.
const MOST_ENTRIES: usize = 1000;

/// The files that a pool may reach.
#[derive(Debug, Clone)]
pub(super) struct ReachableFiles {
    level: Sandbox,
    /// The site's own folders: its root, the folder above it, its state, temporary ones.
    own: Vec<PathBuf>,
    /// Folders of other sites.
    foreign: Vec<PathBuf>,
    /// Links in the paths of other sites' roots, which nobody else may exchange.
    links: Vec<PathBuf>,
    /// The folders inside the folder of a root with `{host}`, which the site has as a whole:
    /// folders of further hosts come at any time, and Landlock knows no exceptions.
    inside: Vec<PathBuf>,
    /// The folders of `foreign` that hold nothing which the site needs.
    closed: Vec<PathBuf>,
    /// The folders where a strict pool may write.
    written: Vec<PathBuf>,
    /// The root folder of the workers; a strict pool may read it.
    chroot: Option<PathBuf>,
    /// The program, and what PHP reads when it starts.
    php: Vec<PathBuf>,
    /// Further files and folders that the configuration names.
    readable: Vec<PathBuf>,
    writable: Vec<PathBuf>,
}

impl ReachableFiles {
    pub(super) fn plan(
        (config, number): (&Config, usize),
        php: &Php,
        paths: &PoolPaths<'_>,
    ) -> ReachableFiles {
        let answers = paths.answers;
        let root = root_of(&config.sites[number], answers);
        let state = trusted(paths.state, answers);
        let others = || {
            let sites = config.sites.iter().zip(paths.states).enumerate();
            sites.filter(|(other, _)| *other != number).map(|(_, other)| other)
        };
        let taken = TakenPlaces::of(config, paths.states, answers);
        let written = others().filter_map(|(site, _)| answers.of(written_root(site)));
        let links = written.filter_map(|found| found.first_link.clone()).collect();
        let mut own: Vec<PathBuf> = root.iter().chain(&state).cloned().collect();
        let place = RootPlace::of((config, number), answers).filter(|_| root.is_some());
        own.extend(place.iter().flat_map(|place| place.application(&taken, answers)));
        // The rights to create files in a folder are those to all of it.
        own.extend(SHARED_TEMPORARY.map(|path| real(Path::new(path))));
        let all = taken.with(number, &own);
        let states = others().filter_map(|(_, state)| place_of(state.as_deref()?, answers));
        let roots = (0..config.sites.len()).filter(|other| *other != number);
        let roots = roots.filter_map(|other| RootPlace::of((config, other), answers));
        let applications =
            roots.flat_map(|place| [place.application(&all, answers), vec![place.root]].concat());
        let mut foreign: BTreeSet<PathBuf> = states.chain(applications).collect();
        let named = |paths: &[PathBuf]| -> Vec<PathBuf> {
            paths.iter().filter_map(|path| trusted(path, answers)).collect()
        };
        let (readable, writable) = (named(&php.readable), named(&php.writable));
        let needed = readable.iter().chain(&writable).chain(&state);
        let needed: Vec<PathBuf> = needed.cloned().collect();
        let inside = inside(&config.sites[number], root.as_deref(), &foreign, &needed);
        // Paths within the site's own folders belong to the site, too.
        foreign.retain(|path| !own.iter().any(|own| path.starts_with(own)));
        // One site's mistake must not take PHP from all others. The plan has a warning.
        foreign.retain(|path| !is_of_system(path));
        let chroot = php.chroot.as_ref().and_then(|folder| trusted(folder, answers));
        let php_files = files_of_php(php, paths);
        let sockets = php.connect.iter().flatten().filter_map(|destination| match destination {
            Destination::Unix(path) => trusted(path, answers),
            _ => None,
        });
        let needed = own.iter().chain(&needed).chain(&php_files).chain(&chroot);
        let needed: Vec<PathBuf> = needed.cloned().chain(sockets).collect();
        let temporary = SHARED_TEMPORARY[..2].iter().map(|path| real(Path::new(path)));
        ReachableFiles {
            level: php.sandbox,
            closed: outermost(foreign.iter(), &needed),
            own,
            foreign: foreign.into_iter().collect(),
            links,
            inside,
            written: root.into_iter().chain(state).chain(temporary).collect(),
            chroot,
            php: php_files,
            readable,
            writable,
        }
    }

    /// Lets a strict pool write to shared memory, if it has its own.
    pub(super) fn with_memory(mut self, is_own: bool) -> ReachableFiles {
        self.written.extend(is_own.then(|| PathBuf::from(SHARED_TEMPORARY[2])));
        self
    }

    /// The folders of other sites that mounts have to cover, because Landlock has no rule that
    /// closes them.
    pub(super) fn inside(&self) -> &[PathBuf] {
        &self.inside
    }

    /// The folders of other sites that mounts cover. Landlock closes most of them, too, but checks
    /// only what opens or changes a folder's entries: no `stat`, `chmod`, `chown` or `utime`, no
    /// attributes, no watch of inotify, no connection to a socket.
    pub(super) fn to_cover(&self) -> impl Iterator<Item = &Path> {
        self.inside.iter().chain(&self.closed).map(PathBuf::as_path)
    }

    /// Refuses rights in `ruleset`, and returns the exceptions. Their paths have no symbolic links.
    pub(super) fn rules(&self, ruleset: &mut Ruleset) -> Vec<(PathBuf, FileRights)> {
        const USE: FileRights = FileRights::READ.and(FileRights::EXECUTE);
        let with = |paths: &[PathBuf], rights: FileRights| -> Vec<_> {
            paths.iter().map(|path| (path.clone(), rights)).collect()
        };
        ruleset.refuse_files(FileRights::ALL);
        let mut rules = match self.level {
            Sandbox::Strict => {
                let fixed = |paths: &[&str], rights: FileRights| -> Vec<_> {
                    paths.iter().map(|path| (real(Path::new(path)), rights)).collect()
                };
                let write = FileRights::READ.and(FileRights::WRITE);
                let mut chroot = Vec::new();
                self.chroot.iter().for_each(|root| all_but(root, &self.foreign, &mut chroot));
                let devices = FileRights::WRITE_EXISTING.and(FileRights::CONTROL_DEVICES);
                [
                    fixed(&PROGRAMS, USE),
                    fixed(&SYSTEM, FileRights::READ),
                    fixed(&WRITTEN, devices),
                    with(&self.php, USE),
                    with(&chroot, USE),
                    with(&self.written, write),
                ]
                .concat()
            }
            Sandbox::Standard | Sandbox::Off => {
                let mut rest = Vec::new();
                let closed = [self.foreign.as_slice(), &self.links].concat();
                all_but(Path::new("/"), &closed, &mut rest);
                [with(&rest, FileRights::ALL), with(&self.own, FileRights::ALL)].concat()
            }
        };
        rules.extend(with(&self.readable, USE));
        rules.extend(with(&self.writable, FileRights::ALL));
        rules
    }
}

/// Returns the program of a pool, and the files and folders that PHP reads when it starts.
fn files_of_php(php: &Php, paths: &PoolPaths<'_>) -> Vec<PathBuf> {
    let ini_file = php.ini_file.as_ref().and_then(|file| trusted(file, paths.answers));
    let of_system = paths.ini_folders.iter().map(PathBuf::as_path).chain([paths.program]);
    of_system.filter_map(trusted_of_system).chain(ini_file).collect()
}

/// Returns the folders of `foreign` that are inside the folder with the roots of the site's hosts,
/// and hold nothing that the site needs.
fn inside(
    site: &SiteSettings,
    root: Option<&Path>,
    foreign: &BTreeSet<PathBuf>,
    needed: &[PathBuf],
) -> Vec<PathBuf> {
    let (RootTemplate::PerHost { .. }, Some(root)) = (&site.root, root) else {
        return Vec::new();
    };
    outermost(foreign.iter().filter(|path| path.starts_with(root) && *path != root), needed)
}

/// Returns the folders of `folders`, which are in order, that hold nothing `needed` and are inside
/// no other one.
fn outermost<'f>(folders: impl Iterator<Item = &'f PathBuf>, needed: &[PathBuf]) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    // A folder comes before those in it.
    for path in folders {
        let is_needed = needed.iter().any(|needed| needed.starts_with(path));
        // Folders beside it may come in between: `/a`, `/a-b`, `/a/b`.
        if !is_needed && !found.iter().any(|above| path.starts_with(above)) {
            found.push(path.clone());
        }
    }
    found
}

/// Returns a path without symbolic links, like [`trusted`], for a path that no site's configuration
/// names. `None`: the path cannot be followed, or a link on the way belongs to somebody else.
fn trusted_of_system(path: &Path) -> Option<PathBuf> {
    let found = LinkedPath::of(path).ok()?;
    found.foreign_link.is_none().then_some(found.real)
}

/// Describes the paths of `site` that the sandbox leaves out because of somebody's links.
pub(super) fn left_out(site: &SiteSettings, php: &Php, paths: &PoolPaths<'_>) -> Vec<String> {
    let answers = paths.answers;
    let root = root_of(site, answers).is_none().then(|| written_root(site));
    let named = php.readable.iter().chain(&php.writable).chain(&php.ini_file);
    let paths = named.map(PathBuf::as_path).chain([paths.state]).chain(root);
    let about = |path: &Path| {
        let found = answers.of(path)?;
        let why = match &found.state {
            PathState::Failed(why) => why.clone(),
            PathState::Silent => "its file system hangs".to_owned(),
            _ => {
                let (link, why) = found.refused_link()?;
                format!("the link {} {why}", link.display())
            }
        };
        Some(format!("site {}: its sandbox does not open {}: {why}", site.name, path.display()))
    };
    paths.filter_map(about).collect()
}

/// The path without symbolic links, as far as it exists.
pub(super) fn real(path: &Path) -> PathBuf {
    let Some((known, rest)) = path
        .ancestors()
        .find_map(|above| Some((above.canonicalize().ok()?, path.strip_prefix(above).ok()?)))
    else {
        return path.to_owned();
    };
    if rest.as_os_str().is_empty() {
        known
    } else {
        known.join(rest)
    }
}

/// Adds to `found` the paths that together are everything below `folder` except `foreign`.
/// Symbolic links are left out: the rights belong to their targets.
fn all_but(folder: &Path, foreign: &[PathBuf], found: &mut Vec<PathBuf>) {
    if foreign.iter().any(|path| path == folder) {
        return;
    }
    if !foreign.iter().any(|path| path.starts_with(folder)) {
        found.push(folder.to_owned());
        return;
    }
    for path in entries(folder, foreign) {
        all_but(&path, foreign, found);
    }
}

/// The entries of `folder` without symbolic links. Of a folder with too many, those that lead to
/// `foreign`.
fn entries(folder: &Path, foreign: &[PathBuf]) -> Vec<PathBuf> {
    let entries = folder.read_dir().into_iter().flatten().flatten();
    let found: Vec<_> = entries.take(MOST_ENTRIES + 1).collect();
    if found.len() <= MOST_ENTRIES {
        let is_link = |entry: &DirEntry| entry.file_type().is_ok_and(|kind| kind.is_symlink());
        return found.iter().filter(|entry| !is_link(entry)).map(DirEntry::path).collect();
    }
    let next = |path: &PathBuf| {
        let below = path.strip_prefix(folder).ok()?;
        Some(folder.join(below.components().next()?))
    };
    foreign.iter().filter_map(next).collect::<BTreeSet<_>>().into_iter().collect()
}
