//! Watches for writes to files that are being sent. The time of a file also changes where nobody
//! writes to it (`touch`, `rsync --times`); only the kernel's notification tells a write from that.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::os::fd::BorrowedFd;
use std::rc::Rc;

use howdah_sys::inotify::{Inotify, LEAST_BUFFER, WatchEvent, WatchId};

use crate::site_shares::SiteShares;

/// The watch for writes to an open file. Writes through a memory map are not reported.
#[derive(Debug)]
pub(crate) struct WriteWatch {
    id: WatchId,
    file: Rc<WatchedFile>,
}

/// A file that is watched.
#[derive(Debug)]
struct WatchedFile {
    /// The site that wanted the watch first; `None` where that is not known.
    payer: Option<usize>,
    was_written: Cell<bool>,
}

/// The bounds of the write watches of this thread: the number of files, and whether they are those
/// of several sites. A site takes half of what is left. To be called before the first file is
/// watched; without it there is no bound.
pub fn bound_write_watches(most: usize, is_shared: bool) {
    BOUNDS.set((most, is_shared));
}

/// Returns the number of files of this thread that are watched for writes, and how often one was
/// not because its site, or the thread, has as many as it may.
pub(crate) fn figures() -> (usize, u64) {
    THREAD.with_borrow(|thread| {
        let figures = thread.as_ref().map(|watches| (watches.files.len(), watches.refused));
        figures.unwrap_or_default()
    })
}

impl WriteWatch {
    /// Watches a file of `site` from now on. `None`: the site is not known.
    ///
    /// # Errors
    /// The site, the thread or the user has too many watches, or the user too many queues.
    pub(crate) fn begin(file: BorrowedFd<'_>, site: Option<usize>) -> io::Result<WriteWatch> {
        THREAD.with_borrow_mut(|thread| {
            let watches = match thread {
                Some(watches) => watches,
                None => thread.insert(ThreadWatches::new()?),
            };
            let id = watches.inotify.watch_writes(file)?;
            let file = watches.file(id, site).ok_or(io::ErrorKind::StorageFull)?;
            Ok(WriteWatch { id, file })
        })
    }

    /// Returns whether the file was written to since the watch began, or may have been.
    pub(crate) fn was_written(&self) -> bool {
        THREAD.with_borrow_mut(|thread| thread.iter_mut().for_each(ThreadWatches::read));
        self.file.was_written.get()
    }
}

impl Drop for WriteWatch {
    fn drop(&mut self) {
        // With the thread its queue ends.
        let _ = THREAD.try_with(|thread| {
            if let Ok(mut thread) = thread.try_borrow_mut()
                && let Some(watches) = &mut *thread
                // This watch and the table have it.
                && Rc::strong_count(&self.file) == 2
            {
                watches.files.remove(&self.id);
                watches.shares.give_back(&self.file.payer);
                let _ = watches.inotify.remove(self.id);
            }
        });
    }
}

thread_local! {
    /// One queue for all files of a thread: a user may have 128 queues.
    static THREAD: RefCell<Option<ThreadWatches>> = const { RefCell::new(None) };
    static BOUNDS: Cell<(usize, bool)> = const { Cell::new((usize::MAX, false)) };
}

/// The watched files of a thread.
#[derive(Debug)]
struct ThreadWatches {
    inotify: Inotify,
    files: HashMap<WatchId, Rc<WatchedFile>>,
    /// The files by site.
    shares: SiteShares<Option<usize>>,
    /// The number of times that a file had no room.
    refused: u64,
}

impl ThreadWatches {
    /// # Errors
    /// The user has too many queues.
    fn new() -> io::Result<ThreadWatches> {
        let (most, is_shared) = BOUNDS.get();
        Ok(ThreadWatches {
            inotify: Inotify::new()?,
            files: HashMap::new(),
            shares: SiteShares::of(most, is_shared),
            refused: 0,
        })
    }

    /// Returns the file that the kernel watches as `id`, for `site`. `None`: the site has as many
    /// as it may, and the file is not watched.
    fn file(&mut self, id: WatchId, site: Option<usize>) -> Option<Rc<WatchedFile>> {
        if let Some(known) = self.files.get(&id) {
            return Some(Rc::clone(known));
        }
        if !self.shares.has_room(&site, 1) {
            let _ = self.inotify.remove(id);
            self.refused += 1;
            return None;
        }
        self.shares.take(site);
        let file = Rc::new(WatchedFile {
            payer: site,
            was_written: Cell::new(false),
        });
        Some(Rc::clone(self.files.entry(id).or_insert(file)))
    }

    fn read(&mut self) {
        let mut buffer = [0; 16 * LEAST_BUFFER];
        loop {
            let mut is_empty = true;
            let events = self.inotify.read(&mut buffer);
            for event in events.into_iter().flatten() {
                is_empty = false;
                match event {
                    WatchEvent::Overflow => {
                        self.files.values().for_each(|file| file.was_written.set(true));
                    }
                    WatchEvent::Entry { folder: id, .. }
                    | WatchEvent::Folder(id)
                    | WatchEvent::Ended(id) => {
                        let file = self.files.get(&id).into_iter();
                        file.for_each(|file| file.was_written.set(true));
                    }
                }
            }
            if is_empty {
                return;
            }
        }
    }
}
