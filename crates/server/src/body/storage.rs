//! Temporary files: content that does not fit into memory.
//!
//! Threads of their own create, write, read and close the files, because each of these calls waits
//! where a disk is slow. The event loops hand over memory and get it back. The bytes of all files
//! together, and those of each site, have a [`Budget`].
//!
//! The same threads bring documents into memory that are on the disk only.

mod disk;
mod stored_file;

use std::ffi::CString;
use std::fmt;
use std::io;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use howdah_files::OpenFile;
use tokio::sync::oneshot;

use self::disk::DiskThreads;
pub(crate) use self::stored_file::{ReadBack, StorageCall, StoredFile, WriteResult};
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
        StoredFile::new(Arc::clone(self), site)
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
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
