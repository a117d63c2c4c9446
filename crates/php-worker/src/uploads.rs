//! The folders of uploaded files.
//!
//! PHP deletes uploaded files at the end of their request. A worker that is killed cannot do that.
//! Therefore each worker has a folder of its own below that of its zygote. Its successor empties
//! the folder. A child of the next zygote deletes the folders of zygotes that were killed: the
//! site's owner may have filled them, and must not keep his pool, and with it all others, from
//! starting.

use std::ffi::CStr;
use std::fs::{self, DirBuilder, DirEntry, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use howdah_sys::process::set_name;

use crate::log::{self, Level};
use crate::process::{self, Fork};

/// Time in which a new pool starts, before the folders of former ones are deleted.
const SWEEP_AFTER: Duration = Duration::from_secs(2);
/// Time that deleting them takes at most. The next zygote goes on.
const LONGEST_SWEEP: Duration = Duration::from_secs(60);
/// The name of the process that deletes them, for `ps`.
const SWEEPER: &CStr = c"howdah-sweep";
/// Names that a zygote looks at before it has another process look.
const MOST_LOOKED_AT: usize = 1_000;
/// Time that a zygote takes at its end to delete its own folder. The next zygote deletes the rest.
const LONGEST_REMOVAL: Duration = Duration::from_secs(1);

/// The folder of one zygote. An open and locked descriptor of the folder shows that the zygote or
/// one of its workers lives; the kernel releases the lock when the last of them ends.
#[derive(Debug)]
pub struct UploadFolder {
    path: PathBuf,
    _lock: File,
}

impl UploadFolder {
    /// Creates the folder of this process below `uploads`.
    ///
    /// # Errors
    /// The folder cannot be created.
    pub fn create(uploads: &Path) -> io::Result<UploadFolder> {
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

    /// Makes the folder as [`UploadFolder::create`] does. `None` after an error, which is logged:
    /// the pool's user may have put something in the way, and must not keep a new configuration
    /// from coming into force.
    pub fn create_or_tell(uploads: &Path) -> Option<UploadFolder> {
        let created = UploadFolder::create(uploads);
        let told = created.inspect_err(|error| {
            let what = format!(
                "cannot create a folder for uploads in {}: {error}; uploads of a worker that dies \
                 will not be deleted",
                uploads.display()
            );
            log::write(Level::Error, what.as_bytes(), None);
        });
        told.ok()
    }

    /// Creates the folder of this process beside that of the zygote that has forked it, whose
    /// workers use the former one. `None` as with [`UploadFolder::create_or_tell`].
    pub fn create_beside(&self) -> Option<UploadFolder> {
        UploadFolder::create_or_tell(self.path.parent().unwrap_or(&self.path))
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

    /// Deletes the folders of processes that have ended, in a child process. The caller does not
    /// wait. Zygotes of an older generation may still run; their folders stay.
    pub fn sweep_beside(&self) {
        let uploads = self.path.parent().unwrap_or(&self.path);
        if !has_leftovers(uploads) {
            return;
        }
        let parent = process::id();
        // Where nothing can be forked, the next zygote may.
        if let Ok(Fork::Child) = process::fork() {
            set_name(SWEEPER);
            let swept = process::die_with(parent).and_then(|()| {
                std::thread::sleep(SWEEP_AFTER);
                sweep(uploads, Instant::now() + LONGEST_SWEEP)
            });
            process::exit_now(i32::from(swept.is_err()));
        }
    }

    /// Deletes the folder. No worker may run any more.
    pub fn remove(self) {
        // The next zygote tries again to delete files that remain.
        let _ = remove_folder(&self.path, Instant::now() + LONGEST_REMOVAL);
    }
}

/// Deletes a folder with its content.
///
/// # Errors
/// Something cannot be deleted, or it is `until`: the rest remains.
fn remove_folder(folder: &Path, until: Instant) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        if Instant::now() >= until {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => remove_folder(&entry.path(), until)?,
            false => fs::remove_file(entry.path())?,
        }
    }
    fs::remove_dir(folder)
}

/// Returns whether there is something to [`sweep`] below `uploads`, or too much to tell.
fn has_leftovers(uploads: &Path) -> bool {
    let Ok(entries) = fs::read_dir(uploads) else {
        return false;
    };
    let mut entries = entries.flatten();
    let is_leftover = |entry: &DirEntry| lock_of_ended(entry).is_some();
    entries.by_ref().take(MOST_LOOKED_AT).any(|entry| is_leftover(&entry))
        || entries.next().is_some()
}

/// The lock of a folder of a zygote if no process has it.
fn lock_of_ended(entry: &DirEntry) -> Option<File> {
    let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
    let is_zygotes = entry.file_name().as_encoded_bytes().starts_with(b"zygote-");
    let folder = (is_folder && is_zygotes).then(|| File::open(entry.path()).ok()).flatten();
    folder.filter(|folder| folder.try_lock().is_ok())
}

/// Deletes the folders below `uploads` that no process has locked, until that time.
fn sweep(uploads: &Path, until: Instant) -> io::Result<()> {
    for entry in fs::read_dir(uploads)?.flatten() {
        if let Some(_lock) = lock_of_ended(&entry) {
            // A folder that cannot be deleted does not keep the others from it.
            let _ = remove_folder(&entry.path(), until);
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
        let sweep = || sweep(&uploads, Instant::now() + Duration::from_secs(600)).unwrap();
        super::sweep(&uploads, Instant::now()).unwrap();
        assert!(uploads.join("zygote-1-0").exists(), "there was no time");
        let first = UploadFolder::create(&uploads).unwrap();
        sweep();
        assert!(!uploads.join("zygote-1-0").exists());
        let file = first.of_worker(0).unwrap().join("phpAbCdEf");
        fs::write(&file, "uploaded").unwrap();
        let second = UploadFolder::create(&uploads).unwrap();
        sweep();
        assert!(file.exists(), "the first one lives");
        assert_ne!(first.path, second.path);
        first.of_worker(0).unwrap();
        assert!(!file.exists(), "the successor empties the folder");
        second.remove();
        drop(first);
        UploadFolder::create(&uploads).unwrap().remove();
        sweep();
        let left: Vec<_> = fs::read_dir(&uploads)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(left, ["not-ours"]);
        fs::remove_dir_all(&uploads).unwrap();
    }
}
