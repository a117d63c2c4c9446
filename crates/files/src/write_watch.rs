//! Watches for writes to files that are being sent. The time of a file also changes where nobody
//! writes to it (`touch`, `rsync --times`); only the kernel's notification tells a write from that.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::os::fd::BorrowedFd;
use std::rc::Rc;

use howdah_sys::inotify::{Inotify, LEAST_BUFFER, WatchEvent, WatchId};

/// The watch for writes to an open file. Writes through a memory map are not reported.
#[derive(Debug)]
pub(crate) struct WriteWatch {
    id: WatchId,
    file: Rc<Cell<bool>>,
}

impl WriteWatch {
    /// Watches a file from now on.
    ///
    /// # Errors
    /// The user has too many watches or queues.
    pub(crate) fn begin(file: BorrowedFd<'_>) -> io::Result<WriteWatch> {
        THREAD.with_borrow_mut(|thread| {
            let watches = match thread {
                Some(watches) => watches,
                None => thread.insert(ThreadWatches {
                    inotify: Inotify::new()?,
                    files: HashMap::new(),
                }),
            };
            let id = watches.inotify.watch_writes(file)?;
            let file = Rc::clone(watches.files.entry(id).or_default());
            Ok(WriteWatch { id, file })
        })
    }

    /// Returns whether the file was written to since the watch began, or may have been.
    pub(crate) fn was_written(&self) -> bool {
        THREAD.with_borrow_mut(|thread| thread.iter_mut().for_each(ThreadWatches::read));
        self.file.get()
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
                let _ = watches.inotify.remove(self.id);
            }
        });
    }
}

thread_local! {
    /// One queue for all files of a thread: a user may have 128 queues.
    static THREAD: RefCell<Option<ThreadWatches>> = const { RefCell::new(None) };
}

/// The watched files of a thread, each with whether it was written to.
#[derive(Debug)]
struct ThreadWatches {
    inotify: Inotify,
    files: HashMap<WatchId, Rc<Cell<bool>>>,
}

impl ThreadWatches {
    fn read(&mut self) {
        let mut buffer = [0; 16 * LEAST_BUFFER];
        loop {
            let mut is_empty = true;
            let events = self.inotify.read(&mut buffer);
            for event in events.into_iter().flatten() {
                is_empty = false;
                match event {
                    WatchEvent::Overflow => self.files.values().for_each(|file| file.set(true)),
                    WatchEvent::Entry { folder: id, .. }
                    | WatchEvent::Folder(id)
                    | WatchEvent::Ended(id) => {
                        self.files.get(&id).into_iter().for_each(|file| file.set(true));
                    }
                }
            }
            if is_empty {
                return;
            }
        }
    }
}
