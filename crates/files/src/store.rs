//! The store: everything that one thread knows of files.

use std::cell::Cell;
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::sync::Arc;

use howdah_http::{Request, ResponseHead, Status};
use howdah_site::{DocumentPath, FileHandle, MergedCopies};
use howdah_sys::credentials::{FileRight, Identity};
use howdah_sys::descriptor;

use crate::answer::{self, AnswerForm, FileAnswer, ScriptManner};
use crate::directive_cache::{self, DirectiveCache};
use crate::disk_access::DiskAccess;
use crate::entry::{EntryKind, PathEntry};
use crate::entry_table::EntryTable;
use crate::folders::Folders;
use crate::limits::StoreLimits;
use crate::locate::{PathObstacle, ReadAccess, locate};
use crate::named::NamedFiles;
use crate::no_answer::NoAnswer;
use crate::open_root::OpenRoot;
use crate::write_watch;

/// The files that one thread of the front knows. See the [crate's own page](crate) for how to use
/// it.
pub struct FileStore {
    pub(crate) limits: StoreLimits,
    pub(crate) directives: Option<Arc<DirectiveCache>>,
    pub(crate) entries: EntryTable,
    pub(crate) folders: Folders,
    /// Seconds since 1970, as of the last [`tick`](FileStore::tick).
    pub(crate) now: u64,
    /// Changes of the second.
    pub(crate) ticks: u64,
    /// Evictions of directives for memory that the entries have followed.
    evictions: u64,
    /// The entries that merged rules have copied.
    pub(crate) copies: MergedCopies,
    /// The number of these entries beyond which rules are let go of.
    pub(crate) most_copies: usize,
    /// Times that rules were let go of for this reason.
    pub(crate) let_go: u64,
    /// Answers that no event would report a change of.
    pub(crate) unrepeatable: u64,
    /// Whether files of directives are compiled by other stores only.
    postpones: bool,
    /// Whether a file of directives was not compiled for this reason.
    pub(crate) postponed: Cell<bool>,
    pub(crate) named: NamedFiles,
    pub(crate) disk: DiskAccess,
    pub(crate) figures: StoreFigures,
}

/// The contents of a store, and what it has done since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreFigures {
    /// Entries.
    pub entries: usize,
    /// Bytes of small files in memory.
    pub memory: usize,
    /// Files kept open.
    pub descriptors: usize,
    /// Folders that are known.
    pub folders: usize,
    /// Folders watched.
    pub watched: usize,
    /// Folders that may be watched, of all sites together.
    pub most_watched: usize,
    /// Times that a folder was not watched because its site, or the store, has as many as it may.
    pub unwatched: u64,
    /// Files of this thread that are watched for writes while they are sent.
    pub watched_files: usize,
    /// Times that one was not, because its site, or the thread, has as many as it may.
    pub unwatched_files: u64,
    /// Entries that merged rules have copied.
    pub copies: usize,
    /// Look-ups of a path. A path is looked up once for a request.
    pub lookups: u64,
    /// Entries loaded from the disk.
    pub loads: u64,
    /// Entries compared with the disk.
    pub checks: u64,
    /// Entries removed because something changed.
    pub changes: u64,
}

impl FileStore {
    /// An empty store that knows of no directives.
    pub fn new(limits: StoreLimits) -> FileStore {
        FileStore {
            limits,
            directives: None,
            entries: EntryTable::new(limits),
            folders: Folders::new(limits, false),
            now: 0,
            ticks: 0,
            evictions: 0,
            copies: MergedCopies::bounded(limits.copies),
            most_copies: limits.copies,
            let_go: 0,
            unrepeatable: 0,
            postpones: false,
            postponed: Cell::new(false),
            named: NamedFiles::default(),
            disk: DiskAccess::waiting(),
            figures: StoreFigures::default(),
        }
    }

    /// An empty store that compiles directives with those of the other threads.
    pub fn with_directives(limits: StoreLimits, directives: Arc<DirectiveCache>) -> FileStore {
        FileStore {
            folders: Folders::new(limits, directives.has_several_sites()),
            directives: Some(directives),
            ..FileStore::new(limits)
        }
    }

    /// Makes the store one of an event loop, which compiles no `.htaccess` file: a file that no
    /// other store has compiled counts as unreadable, and [`bounded`](FileStore::bounded) tells so.
    /// Then the caller asks another store first.
    pub fn postponing(self) -> FileStore {
        FileStore { postpones: true, ..self }
    }

    pub(crate) fn postpones(&self) -> bool {
        self.postpones
    }

    /// Notes a file of directives that has to be compiled elsewhere.
    pub(crate) fn postpone(&self) -> PathObstacle {
        self.postponed.set(true);
        PathObstacle::Postponed
    }

    pub(crate) fn knows_directives(&self) -> bool {
        self.directives.is_some()
    }

    /// Returns whether `.htaccess` files are in force in the scope of `path`.
    pub(crate) fn reads_htaccess(&self, path: &DocumentPath) -> bool {
        self.directives
            .as_ref()
            .is_some_and(|directives| directives.reads_htaccess(path.scope()))
    }

    /// Tells the store the time, in seconds since 1970. Must be called before each request is
    /// resolved (it costs nothing): an entry that was checked in another second is checked again.
    #[inline]
    pub fn tick(&mut self, now: u64) {
        if self.now != now {
            self.now = now;
            self.ticks += 1;
            self.forget_evicted();
            self.bound_copies();
        }
    }

    /// Removes the entries below roots whose directives have given memory. An entry would keep the
    /// rules of its folder.
    pub fn forget_evicted(&mut self) {
        let Some(directives) = &self.directives else {
            return;
        };
        if directives.evictions() != self.evictions {
            let (owners, number) = directives.evicted_since(self.evictions);
            self.evictions = number;
            let is_evicted = |root: &OpenRoot| owners.contains(&directives.owner(root.path()));
            self.entries.retain(|entry| !is_evicted(&entry.root));
        }
    }

    /// Evictions of directives for memory that this store has followed, and times that it has let
    /// go of merged rules.
    pub fn evictions(&self) -> u64 {
        self.evictions + self.let_go
    }

    /// Notes that the present answer cannot be cached: no event reports a change of it.
    pub(crate) fn note_unrepeatable(&mut self) {
        self.unrepeatable += 1;
    }

    /// The stamp of rules in force: changes whenever an entry of a `.htaccess` file is removed, and
    /// every second. Never 0.
    #[inline]
    pub(crate) fn stamp(&self) -> u64 {
        1 + self.ticks + self.entries.htaccess_removed()
    }

    /// Returns the descriptor that is readable when something has changed on disk; then call
    /// [`drain_events`](Self::drain_events). Level-triggered or edge-triggered will do. `None`: the
    /// user has no inotify queue left, and every request asks the disk.
    pub fn changes(&self) -> Option<BorrowedFd<'_>> {
        self.folders.descriptor()
    }

    /// Removes every entry that has changed. Never waits.
    pub fn drain_events(&mut self) {
        match self.folders.read_changes() {
            Some(changes) => self.apply(changes),
            None => self.forget_all(),
        }
    }

    /// Answers `request`, a GET or HEAD, from the file at `path`. `file` is what resolving found
    /// there, in this request or in an earlier one of the same
    /// [epoch](howdah_site::SiteHost::epoch).
    ///
    /// # Errors
    /// The status of an error without fields of its own, 403, 404 or 405; or the disk cannot be
    /// asked.
    #[inline]
    pub fn answer(
        &mut self,
        request: &Request,
        path: &DocumentPath,
        file: FileHandle,
    ) -> Result<FileAnswer, NoAnswer> {
        let now = self.now;
        match self.entry(path, file) {
            Ok(PathEntry { kind: EntryKind::File(document), .. }) => {
                answer::answer(document, request, now).map_err(NoAnswer::Status)
            }
            Ok(entry) => Err(refusal(&entry.kind).into()),
            Err(obstacle) => Err(obstacle.into()),
        }
    }

    /// Answers as [`answer`](FileStore::answer) does, where directives apply. The page of an error
    /// is answered whatever the method was. The content is there for HEAD too, since the head tells
    /// what filters would make of it.
    ///
    /// # Errors
    /// The errors of [`answer`](FileStore::answer).
    pub fn answer_in_manner(
        &mut self,
        request: &Request,
        path: &DocumentPath,
        file: FileHandle,
        manner: AnswerForm,
    ) -> Result<FileAnswer, NoAnswer> {
        let now = self.now;
        match self.entry(path, file) {
            Ok(PathEntry {
                kind: EntryKind::File(document),
                stat,
                path,
                ..
            }) => {
                let name = path.file_name();
                let stat = stat.as_ref();
                Ok(answer::answer_in_manner(document, stat, name, request, manner, now))
            }
            Ok(entry) => Err(refusal(&entry.kind).into()),
            Err(obstacle) => Err(obstacle.into()),
        }
    }

    /// Answers `request` from the file at `path`, which a script has named. Returns the head to
    /// begin with as well. `reader` is the user that the script runs as, `None` where that is the
    /// user of this process: a file that the script may not read itself is not sent to it, whatever
    /// this process may.
    ///
    /// # Errors
    /// The errors of [`answer`](FileStore::answer).
    pub fn answer_for_script(
        &mut self,
        request: &Request,
        path: &DocumentPath,
        reader: Option<&Identity>,
        manner: ScriptManner<'_>,
    ) -> Result<(ResponseHead, FileAnswer), NoAnswer> {
        let now = self.now;
        if reader.is_some_and(|reader| !self.may_read(path, reader)) {
            return Err(Status::FORBIDDEN.into());
        }
        match self.entry(path, FileHandle::NONE) {
            // The path may lead to another file by now.
            Ok(PathEntry { stat: Some(stat), .. })
                if reader.is_some_and(|reader| !reader.may(FileRight::Read, stat)) =>
            {
                Err(Status::FORBIDDEN.into())
            }
            Ok(PathEntry { kind: EntryKind::File(document), .. }) => {
                Ok(answer::answer_for_script(document, request, manner, now))
            }
            Ok(entry) => Err(refusal(&entry.kind).into()),
            Err(obstacle) => Err(obstacle.into()),
        }
    }

    /// Returns the contents and counters of the store, for the metrics.
    pub fn figures(&self) -> StoreFigures {
        let (watched_files, unwatched_files) = write_watch::figures();
        StoreFigures {
            entries: self.entries.len(),
            memory: self.entries.memory(),
            descriptors: self.entries.descriptors(),
            folders: self.folders.len(),
            watched: self.folders.watched(),
            most_watched: self.limits.folders,
            unwatched: self.folders.unwatched(),
            watched_files,
            unwatched_files,
            copies: self.copies.sum(),
            ..self.figures
        }
    }

    /// Returns the entry for `path`: the one that resolving found, or, where that was removed, the
    /// one that is valid now.
    ///
    /// # Errors
    /// The obstacle, where the path has no entry: see [`load`](FileStore::load).
    #[inline]
    pub(crate) fn entry(
        &mut self,
        path: &DocumentPath,
        file: FileHandle,
    ) -> Result<&PathEntry, PathObstacle> {
        let place = match self.entries.is_at(file.0, path) {
            true => file.0,
            false => self.place(path)?,
        };
        self.entries.at(place).map(|entry| &*entry).ok_or(PathObstacle::Missing)
    }

    /// Returns the place of the entry for `path`, which agrees with the disk. Finding an entry
    /// counts as a use of it, loading one does not: a file that is asked for once is evicted before
    /// one that is asked for again.
    ///
    /// # Errors
    /// The obstacle, where the path has no entry: see [`load`](FileStore::load).
    #[inline]
    pub(crate) fn place(&mut self, path: &DocumentPath) -> Result<u32, PathObstacle> {
        self.figures.lookups += 1;
        let hash = self.entries.hash(path);
        match self.entries.find(hash, path) {
            Some(place) if self.is_fresh(place) => Ok(place),
            found => self.ask(hash, path, found),
        }
    }

    /// Returns whether the entry at `place` can be used without asking the disk.
    #[inline]
    pub(crate) fn is_fresh(&mut self, place: u32) -> bool {
        let now = self.now;
        self.entries.at(place).is_some_and(|entry| {
            entry.used = true;
            entry.is_fresh(now)
        })
    }

    /// Asks the disk about the known entry, or loads a new one.
    #[cold]
    fn ask(
        &mut self,
        hash: u64,
        path: &DocumentPath,
        known: Option<u32>,
    ) -> Result<u32, PathObstacle> {
        let found = self.ask_disk(hash, path, known);
        let place = found.as_ref().ok().copied();
        if !place
            .and_then(|place| self.entries.at(place))
            .is_some_and(|entry| entry.watched)
        {
            self.note_unrepeatable();
        }
        found
    }

    fn ask_disk(
        &mut self,
        hash: u64,
        path: &DocumentPath,
        known: Option<u32>,
    ) -> Result<u32, PathObstacle> {
        // The evaluation is void already, and is repeated where the disk can be waited for.
        if self.disk.is_void() {
            return Err(PathObstacle::Postponed);
        }
        match self.ask_disk_once(hash, path, known) {
            Err(PathObstacle::Failed(error)) if descriptor::is_exhausted(&error) => {
                // The files that this store keeps open make room, if there are some.
                self.entries.close_files();
                self.disk.take_shortage();
                self.ask_disk_once(hash, path, None)
            }
            other => other,
        }
    }

    fn ask_disk_once(
        &mut self,
        hash: u64,
        path: &DocumentPath,
        known: Option<u32>,
    ) -> Result<u32, PathObstacle> {
        let root = self.root(path)?;
        if let Some(place) = known
            && self.entries.is_at(place, path)
        {
            if self.still_holds(place, &root) {
                return Ok(place);
            }
            if self.disk.is_void() {
                return Err(PathObstacle::Postponed);
            }
            self.entries.remove(place);
        }
        self.load(hash, path, &root)
    }

    /// Returns whether the entry at `place` agrees with the disk; if so, it is fresh for this
    /// second.
    fn still_holds(&mut self, place: u32, root: &Rc<OpenRoot>) -> bool {
        let now = self.now;
        self.figures.checks += 1;
        let Some(entry) = self.entries.at(place) else {
            return false;
        };
        let is_dated = matches!(&entry.kind, EntryKind::File(document) if document.is_dated());
        let is_outdated = match &entry.kind {
            EntryKind::Directives(compiled, _) => {
                !directive_cache::still_holds(compiled, &self.disk)
            }
            _ => false,
        };
        if entry.root.number() != root.number()
            || !entry.settled
            || is_dated
            || is_outdated
            || entry.folder.wants_another_try(now)
        {
            return false;
        }
        let path = entry.path.relative_c_path();
        let holds = match locate(root, path, ReadAccess::No, &self.disk, &mut |_, _, _| {}) {
            Ok(located) => entry.stat == Some(located.stat),
            Err(PathObstacle::Missing) => matches!(entry.kind, EntryKind::Missing),
            Err(PathObstacle::Forbidden | PathObstacle::TooManyNames | PathObstacle::OtherSite) => {
                matches!(entry.kind, EntryKind::Forbidden) && entry.stat.is_none()
            }
            // The disk cannot be asked just now. A watched entry is valid without that, another one
            // is loaded again.
            Err(PathObstacle::Failed(_)) => {
                self.disk.take_shortage();
                entry.watched
            }
            Err(PathObstacle::Postponed) => false,
        };
        if holds {
            entry.checked = now;
        }
        holds
    }
}

/// The status of what cannot be sent. Resolving asks for none of these; if it is mistaken, no
/// source of a script leaves the server.
fn refusal(found: &EntryKind) -> Status {
    match found {
        EntryKind::Missing => Status::NOT_FOUND,
        EntryKind::File(_)
        | EntryKind::Script
        | EntryKind::Directives(..)
        | EntryKind::Directory
        | EntryKind::Forbidden => Status::FORBIDDEN,
    }
}
