//! One temporary file: writes, reads, and the bytes that it takes of the budgets.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use howdah_sys::open;
use tokio::sync::oneshot;

use super::Storage;
use crate::budget::BudgetUsedUp;

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
    /// A file that is not there yet.
    pub(super) fn new(storage: Arc<Storage>, site: usize) -> StoredFile {
        StoredFile(Some(Arc::new(StorageState {
            storage,
            site,
            file: OnceLock::new(),
            is_counted: AtomicBool::new(false),
            reserved: AtomicU64::new(0),
        })))
    }

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
