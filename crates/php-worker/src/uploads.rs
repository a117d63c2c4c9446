//! The folders of uploaded files.
//!
//! PHP deletes uploaded files at the end of their request. A worker that is killed cannot do that.
//! Therefore each worker has a folder of its own below that of its zygote. Its successor empties
//! the folder. The zygote of the next start deletes the folders of zygotes that were killed.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The folder of one zygote. An open and locked descriptor of the folder shows that the zygote or
/// one of its workers lives; the kernel releases the lock when the last of them ends.
#[derive(Debug)]
pub struct UploadFolder {
    path: PathBuf,
    _lock: File,
}

impl UploadFolder {
    /// Creates the folder of this process below `uploads`, and deletes those of processes that have
    /// ended. Zygotes of an older generation may still run; their folders stay.
    ///
    /// # Errors
    /// The folder cannot be created.
    pub fn create(uploads: &Path) -> io::Result<UploadFolder> {
        sweep(uploads)?;
        let own = format!("zygote-{}", std::process::id());
        for attempt in 0..MOST_ATTEMPTS {
            let path = uploads.join(format!("{own}-{attempt}"));
            match DirBuilder::new().mode(0o700).create(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                other => other?,
            }
            // Another zygote that starts at the same time may have deleted the folder before it was
            // locked.
            let lock = File::open(&path);
            if let Some(lock) = lock.ok().filter(|lock| lock.try_lock().is_ok())
                && lock.metadata().is_ok_and(|folder| folder.nlink() > 0)
            {
                return Ok(UploadFolder { path, _lock: lock });
            }
        }
        Err(io::Error::other("folders for uploads disappear as soon as they are created"))
    }

    /// Creates the folder of this process beside that of the zygote that has forked it, whose
    /// workers use the former one.
    ///
    /// # Errors
    /// The folder cannot be created.
    pub fn create_beside(&self) -> io::Result<UploadFolder> {
        UploadFolder::create(self.path.parent().unwrap_or(&self.path))
    }

    /// Creates the empty folder of worker `index`. A former process of that worker must have ended.
    ///
    /// # Errors
    /// The folder cannot be emptied or created.
    pub fn of_worker(&self, index: usize) -> io::Result<PathBuf> {
        let path = self.path.join(index.to_string());
        match fs::remove_dir_all(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        DirBuilder::new().recursive(true).mode(0o700).create(&path)?;
        Ok(path)
    }

    /// Deletes the folder. No worker may run any more.
    pub fn remove(self) {
        // The next zygote tries again to delete files that remain.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Deletes the folders below `uploads` that no process has locked.
fn sweep(uploads: &Path) -> io::Result<()> {
    for entry in fs::read_dir(uploads)?.flatten() {
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let is_zygotes = entry.file_name().as_encoded_bytes().starts_with(b"zygote-");
        if is_folder
            && is_zygotes
            && File::open(entry.path()).is_ok_and(|folder| folder.try_lock().is_ok())
        {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    Ok(())
}

/// Folders of this process that may exist already: of a process that had the same id and whose
/// children still run.
const MOST_ATTEMPTS: u32 = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_ended_processes_are_deleted_and_others_stay() {
        let uploads = std::env::temp_dir().join(format!("howdah-uploads-{}", std::process::id()));
        let _ = fs::remove_dir_all(&uploads);
        fs::create_dir_all(uploads.join("zygote-1-0/3")).unwrap();
        fs::write(uploads.join("zygote-1-0/3/phpAbCdEf"), "left").unwrap();
        fs::create_dir(uploads.join("not-ours")).unwrap();
        let first = UploadFolder::create(&uploads).unwrap();
        assert!(!uploads.join("zygote-1-0").exists());
        let file = first.of_worker(0).unwrap().join("phpAbCdEf");
        fs::write(&file, "uploaded").unwrap();
        let second = UploadFolder::create(&uploads).unwrap();
        assert!(file.exists(), "the first one lives");
        assert_ne!(first.path, second.path);
        first.of_worker(0).unwrap();
        assert!(!file.exists(), "the successor empties the folder");
        second.remove();
        drop(first);
        UploadFolder::create(&uploads).unwrap().remove();
        let left: Vec<_> = fs::read_dir(&uploads)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(left, ["not-ours"]);
        fs::remove_dir_all(&uploads).unwrap();
    }
}
