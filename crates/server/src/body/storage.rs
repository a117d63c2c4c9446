//! Temporary files: content that does not fit into memory.
//!
//! Threads of their own create, write, read and close the files, because each of these calls waits
//! where a disk is slow. The event loops hand over memory and get it back. The bytes of all files
//! together, and those of each site, have a [`Budget`].
//!
//! The same threads bring documents into memory that are on the disk only.

mod disk;

use std::ffi::CString;
use std::fmt;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use howdah_files::OpenFile;
use howdah_sys::open;
use tokio::sync::oneshot;

use self::disk::DiskThreads;
use crate::budget::{Budget, BudgetUnit, BudgetUsedUp, FreeSpace};

/// The temporary files of a front.
pub(crate) struct Storage {
    folder: PathBuf,
    budget: Budget,
    files: Budget,
    disk: DiskThreads,
    report: ReportRefusal,
}

/// Logs that the files of the site with this number take no more bytes of responses.
pub(crate) type ReportRefusal = Box<dyn Fn(usize, &StorageRefusal) + Send + Sync>;

/// The reason why a file takes no more bytes.
#[derive(Debug)]
pub(crate) enum StorageRefusal {
    Budget(BudgetUsedUp),
    Disk(io::Error),
}

impl fmt::Display for StorageRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StorageRefusal::Budget(no_room) => no_room.fmt(f),
            StorageRefusal::Disk(error) => {
                write!(f, "{} cannot be written: {error}", std::env::temp_dir().display())
            }
        }
    }
}

/// The limits of all temporary files together. `None`: the limit follows from the free space.
#[derive(Debug, Default)]
pub(crate) struct StorageLimits {
    /// Bytes of all files.
    pub(crate) total: Option<u64>,
    /// By site: bytes of the site's files.
    pub(crate) sites: Vec<Option<u64>>,
    /// Files that may be open. A site takes half of those that are left. `None`: any number.
    pub(crate) files: Option<u64>,
}

impl fmt::Debug for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Storage").field("budget", &self.budget).finish_non_exhaustive()
    }
}

impl Storage {
    /// Temporary files in the folder for them. No file is made yet.
    pub(crate) fn new(limits: StorageLimits, report: ReportRefusal) -> Storage {
        let folder = std::env::temp_dir();
        // No folder has a NUL in its name.
        let path = CString::new(folder.as_os_str().as_bytes()).unwrap_or_default();
        let free: FreeSpace = Box::new(move || howdah_sys::space::free(&path).ok());
        let StorageLimits { total, sites, files } = limits;
        let (files, takers) = (files.unwrap_or(u64::MAX), vec![true; sites.len()]);
        Storage {
            folder,
            files: Budget::of_descriptors(BudgetUnit::Files, files, &takers),
            budget: Budget::of_bytes(total, sites, free),
            disk: DiskThreads::default(),
            report,
        }
    }

    /// Behaves like a disk that does not answer until the result is dropped.
    #[cfg(test)]
    pub(crate) fn hang(&self) -> std::sync::mpsc::Sender<()> {
        self.disk.hang()
    }

    /// Logs that a response of the site is not stored further.
    pub(super) fn report(&self, site: usize, refusal: &StorageRefusal) {
        (self.report)(site, refusal);
    }

    /// Returns a file for content of the site with this number. It is created when something is
    /// written.
    pub(crate) fn file(self: &Arc<Self>, site: usize) -> StoredFile {
        StoredFile(Some(Arc::new(StorageState {
            storage: Arc::clone(self),
            site,
            file: OnceLock::new(),
            is_counted: AtomicBool::new(false),
            reserved: AtomicU64::new(0),
        })))
    }

    /// Reads that part of a document on a thread, so that it is in memory afterwards. The document
    /// keeps its place among those that are sent until then.
    pub(super) fn fetch(
        &self,
        site: usize,
        document: &OpenFile,
        part: &Range<u64>,
    ) -> StorageCall<()> {
        let (result, job) = oneshot::channel::<()>();
        let (place, file, part) = (document.hold(), document.share(), part.clone());
        let read = move || {
            howdah_files::fetch(&file, part, || !result.is_closed());
            drop((file, place));
            // The receiver may be gone with its connection.
            let _ = result.send(());
        };
        self.disk.run(site, Box::new(read));
        job
    }

    /// Returns the bytes that the files may have together, and those that they have.
    pub(crate) fn usage(&self) -> (u64, u64) {
        self.budget.usage()
    }
}

/// An unlinked temporary file. Its bytes are returned to the budgets when the file is closed, which
/// happens on a thread of the storage.
#[derive(Debug)]
pub(crate) struct StoredFile(Option<Arc<StorageState>>);

#[derive(Debug)]
struct StorageState {
    storage: Arc<Storage>,
    site: usize,
    /// Empty until the first write has begun.
    file: OnceLock<File>,
    /// The file is counted, before it is there.
    is_counted: AtomicBool,
    /// Bytes of the file that the budgets count.
    reserved: AtomicU64,
}

/// The result of a write.
#[derive(Debug)]
pub(crate) struct WriteResult {
    /// The bytes that were to be written.
    pub(crate) bytes: Vec<u8>,
    /// The number of them that were written, from the first one on.
    pub(crate) count: usize,
    /// The reason why the others were not.
    pub(crate) error: Option<io::Error>,
}

/// The result of a read: the bytes, as many as the buffer was long.
pub(crate) type ReadBack = io::Result<Vec<u8>>;

/// A call that a thread of the storage makes.
pub(crate) type StorageCall<T> = oneshot::Receiver<T>;

impl StoredFile {
    /// Writes `bytes` at `offset`.
    ///
    /// # Errors
    /// The budget has no room: the bytes, and which budget it is.
    pub(crate) fn write(
        &self,
        offset: u64,
        bytes: Vec<u8>,
    ) -> Result<StorageCall<WriteResult>, (Vec<u8>, BudgetUsedUp)> {
        let inner = Arc::clone(self.inner());
        let length = bytes.len() as u64;
        if let Err(no_room) = inner.count() {
            return Err((bytes, no_room));
        }
        if let Err(no_room) = inner.storage.budget.reserve(inner.site, length) {
            // Writes measure the free space. Where nothing may be written, nobody would notice
            // that the disk has room again.
            if inner.storage.budget.is_due() {
                drop(self.job(move || inner.storage.budget.refresh()));
            }
            return Err((bytes, no_room));
        }
        inner.reserved.fetch_add(length, Ordering::Relaxed);
        Ok(self.job(move || inner.write(offset, bytes)))
    }

    /// Fills `buffer` with the bytes from `offset` on.
    pub(crate) fn read(&self, offset: u64, mut buffer: Vec<u8>) -> StorageCall<ReadBack> {
        let inner = Arc::clone(self.inner());
        self.job(move || {
            let file = inner.file.get().ok_or(io::ErrorKind::NotFound)?;
            file.read_exact_at(&mut buffer, offset)?;
            Ok(buffer)
        })
    }

    /// Returns another handle of the same file, which is closed with the last one.
    pub(crate) fn share(&self) -> StoredFile {
        StoredFile(self.0.clone())
    }

    /// Runs `call` on a thread of the storage.
    fn job<T: Send + 'static>(&self, call: impl FnOnce() -> T + Send + 'static) -> StorageCall<T> {
        let (result, job) = oneshot::channel();
        let inner = self.inner();
        inner.storage.disk.run(
            inner.site,
            // The receiver may be gone with its connection.
            Box::new(move || drop(result.send(call()))),
        );
        job
    }

    /// Opens the file again, for a worker: for reading only, with flags and a position of its own.
    /// A hostile worker can neither write to the file nor change how this process writes to it.
    /// `None` before the first write.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub(crate) fn for_a_worker(&self) -> io::Result<Option<OwnedFd>> {
        let file = self.inner().file.get();
        file.map(|file| open::again_for_reading(file.as_fd())).transpose()
    }

    fn inner(&self) -> &Arc<StorageState> {
        self.0.as_ref().expect("the file is only taken when it is dropped")
    }
}

impl Drop for StoredFile {
    /// Closing a large file frees its blocks, which takes as long as writing them.
    fn drop(&mut self) {
        if let Some(inner) = self.0.take()
            // Without a file there may be a write that has not begun.
            && (inner.file.get().is_some() || Arc::strong_count(&inner) > 1)
        {
            let storage = Arc::clone(&inner.storage);
            storage.disk.run(inner.site, Box::new(move || drop(inner)));
        }
    }
}

impl StorageState {
    /// Counts the file, the first time that this is called.
    fn count(&self) -> Result<(), BudgetUsedUp> {
        if !self.is_counted.load(Ordering::Relaxed) {
            self.storage.files.reserve(self.site, 1)?;
            self.is_counted.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    fn write(&self, offset: u64, bytes: Vec<u8>) -> WriteResult {
        self.storage.budget.refresh();
        let mut written = WriteResult { bytes, count: 0, error: None };
        if let Err(error) = self.write_all(offset, &mut written) {
            written.error = Some(error);
            let left = (written.bytes.len() - written.count) as u64;
            self.reserved.fetch_sub(left, Ordering::Relaxed);
            self.storage.budget.give_back(self.site, left);
        }
        written
    }

    fn write_all(&self, offset: u64, written: &mut WriteResult) -> io::Result<()> {
        let file = match self.file.get() {
            Some(file) => file,
            None => {
                let file = tempfile::tempfile_in(&self.storage.folder)?;
                self.file.get_or_init(|| file)
            }
        };
        while written.count < written.bytes.len() {
            let rest = &written.bytes[written.count..];
            match file.write_at(rest, offset + written.count as u64) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => written.count += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl Drop for StorageState {
    fn drop(&mut self) {
        // The blocks are free before the budgets say so. A script may have handed its descriptor
        // to a process that goes on after the request: nothing is left in the file for that.
        if let Some(file) = self.file.take() {
            let _ = file.set_len(0);
        }
        if *self.is_counted.get_mut() {
            self.storage.files.give_back(self.site, 1);
        }
        self.storage.budget.give_back(self.site, *self.reserved.get_mut());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn a_descriptor_that_outlives_the_request_keeps_no_bytes() {
        let storage = storage(1000);
        let file = storage.file(0);
        file.write(0, vec![1; 60]).unwrap().blocking_recv().unwrap();
        let kept = File::from(file.for_a_worker().unwrap().unwrap());
        let shared = file.share();
        drop(file);
        assert_eq!(kept.metadata().unwrap().len(), 60, "somebody still has the file");
        drop(shared);
        until("the bytes are returned", || storage.usage().1 == 0);
        assert_eq!(kept.metadata().unwrap().len(), 0);
    }

    fn storage(total: u64) -> Arc<Storage> {
        with_files(total, None)
    }

    fn with_files(total: u64, files: Option<u64>) -> Arc<Storage> {
        let limits = StorageLimits {
            total: Some(total),
            sites: vec![None, Some(10)],
            files,
        };
        Arc::new(Storage::new(limits, Box::new(|_, _| {})))
    }

    fn until(what: &str, mut is_so: impl FnMut() -> bool) {
        let end = Instant::now() + Duration::from_secs(90);
        while !is_so() {
            assert!(Instant::now() < end, "waited in vain until {what}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn what_was_written_is_read_back_and_its_bytes_are_returned_at_the_end() {
        let storage = storage(1000);
        let file = storage.file(0);
        assert!(file.for_a_worker().unwrap().is_none());
        for (offset, bytes) in [(0, &b"hello "[..]), (6, b"world")] {
            let written = file.write(offset, bytes.to_vec()).unwrap().blocking_recv().unwrap();
            assert_eq!((written.count, written.error.is_none()), (bytes.len(), true));
        }
        assert_eq!(file.read(4, vec![0; 5]).blocking_recv().unwrap().unwrap(), b"o wor");
        assert!(file.read(8, vec![0; 5]).blocking_recv().unwrap().is_err());
        let mut reader = File::from(file.for_a_worker().unwrap().unwrap());
        assert!(io::Write::write(&mut reader, b"x").is_err());
        assert_eq!(io::read_to_string(reader).unwrap(), "hello world");
        assert_eq!(storage.usage(), (1000, 11));
        drop(file);
        until("the bytes are returned", || storage.usage() == (1000, 0));
    }

    #[test]
    fn a_write_that_is_under_way_when_its_file_is_dropped_returns_its_bytes_too() {
        let storage = storage(1 << 20);
        for _ in 0..100 {
            let file = storage.file(0);
            let job = file.write(0, vec![0; 100]);
            drop((job.unwrap(), file));
        }
        until("the bytes are returned", || storage.usage().1 == 0);
    }

    #[test]
    fn a_disk_that_takes_nothing_gives_the_bytes_back() {
        let mut storage = Storage::new(
            StorageLimits {
                total: Some(1000),
                sites: vec![None],
                files: None,
            },
            Box::new(|_, _| {}),
        );
        storage.folder = "/nowhere/at/all".into();
        let storage = Arc::new(storage);
        let file = storage.file(0);
        let written = file.write(0, b"bytes".to_vec()).unwrap().blocking_recv().unwrap();
        assert_eq!((written.bytes.as_slice(), written.count), (&b"bytes"[..], 0));
        assert!(written.error.is_some());
        assert_eq!(storage.usage().1, 0);
    }

    #[test]
    fn sites_share_the_files_that_may_be_open() {
        let storage = with_files(1 << 20, Some(8));
        let begin = |site| {
            let file = storage.file(site);
            let begun = file.write(0, vec![7]).map(drop).map_err(|(_, no_room)| no_room);
            begun.map(|()| file)
        };
        let mut open: Vec<StoredFile> = (0..2).map(|_| begin(0).unwrap()).collect();
        assert_eq!(begin(0).map(drop).unwrap_err(), BudgetUsedUp::Site(BudgetUnit::Files));
        open.push(begin(1).expect("another site has room"));
        // A file that is there takes no more of them.
        open[0].write(1, vec![8]).map(drop).unwrap();
        open.clear();
        until("the files are closed", || storage.files.usage() == (8, 0));
        drop(begin(0).expect("there is room again"));
    }

    #[test]
    fn a_budget_without_room_gives_the_bytes_back() {
        let storage = storage(1000);
        let file = storage.file(1);
        assert!(file.write(0, vec![0; 6]).is_ok());
        let (bytes, no_room) = file.write(6, vec![7; 6]).unwrap_err();
        assert_eq!((bytes, no_room), (vec![7; 6], BudgetUsedUp::Site(BudgetUnit::Bytes)));
        assert!(file.write(6, vec![0; 4]).is_ok());
    }
}
