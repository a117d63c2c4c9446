//! The open-file cache.

use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::sync::Arc;

use howdah_htaccess::host::Probe;
use howdah_http::{Request, Status};
use howdah_site::{DocumentHost, DocumentPath, Host, Look, PathKind};
use howdah_sys::open::errno::{EMFILE, ENFILE};

use crate::answer::{self, Answer, Manner};
use crate::entry::{Entry, Found};
use crate::folders::{Folders, Root};
use crate::library::{self, Library};
use crate::limits::Limits;
use crate::locate::{Obstacle, Reading, locate};
use crate::media_type::{is_of_scripts, of_extension};
use crate::named::Named;
use crate::shelf::Shelf;

/// The files that one thread of the front knows. See the [crate's own page](crate) for how to use
/// it.
pub struct Store {
    pub(crate) limits: Limits,
    pub(crate) library: Option<Arc<Library>>,
    pub(crate) shelf: Shelf,
    pub(crate) folders: Folders,
    /// Seconds since 1970, as of the last [`tick`](Store::tick).
    pub(crate) now: u64,
    /// Whose directives are meant.
    pub(crate) realm: u32,
    /// Whether `.htaccess` files are read there.
    pub(crate) reads: bool,
    /// Changes whenever an entry of a `.htaccess` file is taken away, and every second. Never 0.
    pub(crate) stamp: u64,
    /// How often the second has changed.
    ticks: u64,
    /// How often something was answered that will have to be looked up again.
    unsteady: u64,
    /// The place of the entry that was last used: `answer` asks for what `kind` was asked for.
    pub(crate) last: u32,
    /// Whether the entry at `last` has been found to agree with the disk for the request that is
    /// being served. So what cannot be watched is compared once per request, not twice.
    vouched: bool,
    pub(crate) named: Named,
    pub(crate) figures: Figures,
}

/// What a store holds, and what it has done since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Paths remembered.
    pub entries: usize,
    /// Bytes of small files in memory.
    pub memory: usize,
    /// Files kept open.
    pub descriptors: usize,
    /// Folders remembered.
    pub folders: usize,
    /// Folders watched.
    pub watched: usize,
    /// Paths looked up on the disk.
    pub loads: u64,
    /// Entries compared with the disk.
    pub checks: u64,
    /// Entries forgotten because something changed.
    pub changes: u64,
}

impl Store {
    /// An empty store that knows of no directives.
    pub fn new(limits: Limits) -> Store {
        Store {
            limits,
            library: None,
            shelf: Shelf::new(limits),
            folders: Folders::new(limits),
            now: 0,
            realm: 0,
            reads: false,
            stamp: 1,
            ticks: 0,
            unsteady: 0,
            last: u32::MAX,
            vouched: false,
            named: Named::default(),
            figures: Figures::default(),
        }
    }

    /// An empty store that compiles directives with those of the other threads.
    pub fn with_library(limits: Limits, library: Arc<Library>) -> Store {
        let mut store = Store {
            library: Some(library),
            ..Store::new(limits)
        };
        store.enter(0);
        store
    }

    /// Says which site the questions to come are about, by its number. At first it is the first
    /// one.
    #[inline]
    pub fn enter(&mut self, site: usize) {
        if let Some(library) = &self.library {
            self.realm = library.realm(site);
            self.reads = library.reads_htaccess(self.realm);
        }
    }

    pub(crate) fn knows_directives(&self) -> bool {
        self.library.is_some()
    }

    /// Tells the time, in seconds since 1970. To be called before each request is resolved (it
    /// costs nothing): what was checked in another second is checked again.
    #[inline]
    pub fn tick(&mut self, now: u64) {
        if self.now != now {
            self.now = now;
            self.ticks += 1;
            self.restamp();
        }
    }

    /// To be called wherever something is answered that may be otherwise next time with nobody
    /// telling.
    pub(crate) fn answer_unsteadily(&mut self) {
        self.unsteady += 1;
    }

    /// To be called wherever an entry may have been taken away.
    #[inline]
    pub(crate) fn restamp(&mut self) {
        self.stamp = 1 + self.ticks + self.shelf.htaccess_removed();
    }

    /// Readable when something has changed on disk; then call [`drain_events`](Self::drain_events).
    /// Level-triggered or edge-triggered will do. `None` where the user has no inotify queue left:
    /// then every request asks the disk.
    pub fn changes(&self) -> Option<BorrowedFd<'_>> {
        self.folders.descriptor()
    }

    /// Forgets everything that has changed. Never waits.
    pub fn drain_events(&mut self) {
        self.vouched = false;
        match self.folders.read_changes() {
            Some(changes) => self.apply(changes),
            None => self.forget_all(),
        }
        self.restamp();
    }

    /// What `request`, a GET or HEAD, gets for the file at `path`.
    #[inline]
    pub fn answer(&mut self, request: &Request, path: &DocumentPath) -> Answer {
        let now = self.now;
        match self.entry(path, false) {
            Ok(Entry { found: Found::File(document), .. }) => {
                answer::answer(document, request, now)
            }
            // `site` asks for none of these to be sent. Were it mistaken, no script's source would
            // leave through here.
            Ok(Entry {
                found: Found::Script | Found::Directives(..) | Found::Directory | Found::Forbidden,
                ..
            })
            | Err(Obstacle::Forbidden) => Answer::Status(Status::FORBIDDEN),
            Ok(Entry { found: Found::Missing, .. }) | Err(Obstacle::Missing) => {
                Answer::Status(Status::NOT_FOUND)
            }
            Err(Obstacle::Failed(_)) => Answer::Status(Status::SERVICE_UNAVAILABLE),
        }
    }

    /// The same where directives apply. An error's page is got whatever the method was; the content
    /// is there for HEAD too, since what it would come to has to be told.
    pub fn answer_in_manner(
        &mut self,
        request: &Request,
        path: &DocumentPath,
        manner: Manner,
    ) -> Answer {
        let now = self.now;
        match self.entry(path, false) {
            Ok(Entry { found: Found::File(document), stat, .. }) => {
                answer::answer_in_manner(document, stat.as_ref(), request, manner, now)
            }
            Ok(entry) if matches!(entry.found, Found::Missing) => Answer::Status(Status::NOT_FOUND),
            Ok(_) | Err(Obstacle::Forbidden) => Answer::Status(Status::FORBIDDEN),
            Err(Obstacle::Missing) => Answer::Status(Status::NOT_FOUND),
            Err(Obstacle::Failed(_)) => Answer::Status(Status::SERVICE_UNAVAILABLE),
        }
    }

    /// What the store holds and has done, for the metrics.
    pub fn figures(&self) -> Figures {
        Figures {
            entries: self.shelf.len(),
            memory: self.shelf.memory(),
            descriptors: self.shelf.descriptors(),
            folders: self.folders.len(),
            watched: self.folders.watched(),
            ..self.figures
        }
    }

    /// The entry for `path`, which agrees with the disk. `counts` says whether this is a use of it;
    /// making it is none, so that what is asked for once goes before what is asked for again.
    #[inline]
    pub(crate) fn entry(&mut self, path: &DocumentPath, counts: bool) -> Result<&Entry, Obstacle> {
        let was_vouched = std::mem::take(&mut self.vouched);
        let vouched = was_vouched && !counts;
        // Whoever remembers what a request came to asks only for the file itself.
        let is_use = counts || !was_vouched;
        if !(self.shelf.is_at(self.last, path, self.realm)
            && (self.is_fresh(self.last, is_use) || vouched))
        {
            let hash = self.shelf.hash(path, self.realm);
            self.last = match self.shelf.find(hash, path, self.realm) {
                Some(place) if self.is_fresh(place, is_use) => place,
                found => self.ask(hash, path, found)?,
            };
        }
        self.vouched = counts;
        self.shelf.at(self.last).map(|entry| &*entry).ok_or(Obstacle::Missing)
    }

    /// The place of the entry for `path`, which agrees with the disk. This is beside the request's
    /// own path, whose entry stays the last.
    pub(crate) fn place(&mut self, path: &DocumentPath) -> Result<u32, Obstacle> {
        let hash = self.shelf.hash(path, self.realm);
        match self.shelf.find(hash, path, self.realm) {
            Some(place) if self.is_fresh(place, true) => Ok(place),
            found => self.ask(hash, path, found),
        }
    }

    /// Whether the entry at `place` can be used as it is.
    #[inline]
    pub(crate) fn is_fresh(&mut self, place: u32, counts: bool) -> bool {
        let now = self.now;
        self.shelf.at(place).is_some_and(|entry| {
            entry.used |= counts;
            entry.is_fresh(now)
        })
    }

    /// Asks the disk: about what is known, then about what is not.
    #[cold]
    fn ask(&mut self, hash: u64, path: &DocumentPath, known: Option<u32>) -> Result<u32, Obstacle> {
        let found = self.ask_disk(hash, path, known);
        let place = found.as_ref().ok().copied();
        if !place.and_then(|place| self.shelf.at(place)).is_some_and(|entry| entry.watched) {
            self.answer_unsteadily();
        }
        self.restamp();
        found
    }

    fn ask_disk(
        &mut self,
        hash: u64,
        path: &DocumentPath,
        known: Option<u32>,
    ) -> Result<u32, Obstacle> {
        let root = self.root(path)?;
        if let Some(place) = known
            && self.shelf.is_at(place, path, self.realm)
        {
            if self.still_holds(place, &root) {
                return Ok(place);
            }
            self.shelf.remove(place);
        }
        match self.load(hash, path, &root) {
            Err(Obstacle::Failed(error))
                if matches!(error.raw_os_error(), Some(EMFILE | ENFILE)) =>
            {
                self.shelf.close_files();
                self.load(hash, path, &root)
            }
            other => other,
        }
    }

    /// Whether the entry at `place` still says what the disk says; if so, that is true of this
    /// second.
    fn still_holds(&mut self, place: u32, root: &Rc<Root>) -> bool {
        let now = self.now;
        self.figures.checks += 1;
        let Some(entry) = self.shelf.at(place) else {
            return false;
        };
        let is_dated = matches!(&entry.found, Found::File(document) if document.is_dated());
        let is_outdated = matches!(&entry.found, Found::Directives(compiled, _) if !library::still_holds(compiled));
        if entry.root.number() != root.number()
            || !entry.settled
            || is_dated
            || is_outdated
            || entry.folder.wants_another_try(now)
        {
            return false;
        }
        let holds = match locate(root, entry.path.relative_c_path(), Reading::No, &mut |_, _, _| {})
        {
            Ok(located) => entry.stat == Some(located.stat),
            Err(Obstacle::Missing) => matches!(entry.found, Found::Missing),
            Err(Obstacle::Forbidden) => {
                matches!(entry.found, Found::Forbidden) && entry.stat.is_none()
            }
            // The disk cannot be asked just now. What is watched is good without.
            Err(Obstacle::Failed(_)) => entry.watched,
        };
        if holds {
            entry.checked = now;
        }
        holds
    }
}

impl DocumentHost for Store {
    #[inline]
    fn kind(&mut self, path: &DocumentPath) -> PathKind {
        match self.entry(path, true) {
            Ok(entry) => entry.found.kind(),
            Err(obstacle) => obstacle.kind(),
        }
    }

    #[inline]
    fn look(&mut self, path: &DocumentPath) -> Look {
        self.look_with_rules(path)
    }

    fn probe_document(&mut self, path: &DocumentPath) -> Option<Option<Probe>> {
        self.probe_below(path)
    }

    #[inline]
    fn epoch(&self) -> Option<u64> {
        Some(self.ticks + self.shelf.removed() + self.unsteady)
    }

    fn media_type(extension: &[u8]) -> Option<&'static str> {
        let extension = std::str::from_utf8(extension).ok();
        extension.filter(|extension| !is_of_scripts(extension)).and_then(of_extension)
    }
}

impl Host for Store {
    fn probe(&mut self, path: &[u8]) -> Option<Probe> {
        self.probe_path(path)
    }

    fn probe_link(&mut self, path: &[u8]) -> Option<Probe> {
        self.probe_link_path(path)
    }

    fn read(&mut self, path: &[u8]) -> Option<Arc<[u8]>> {
        self.read_path(path)
    }

    fn entries(&mut self, folder: &[u8]) -> Vec<Box<[u8]>> {
        self.names_in(folder)
    }
}
