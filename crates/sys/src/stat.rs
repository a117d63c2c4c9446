//! `fstat(2)`: the metadata of a file, which also shows whether the file has changed.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::check;

/// The metadata of a file. Two equal values mean the same bytes and the same rights, as far as
/// metadata can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// The device of the file system.
    pub device: u64,
    /// The file's number on that device.
    pub inode: u64,
    /// Type and permission bits.
    pub mode: u32,
    /// The owner.
    pub owner: u32,
    /// The owning group.
    pub group: u32,
    /// Bytes.
    pub size: u64,
    /// Time of the last change of the bytes. Programs can set it.
    pub modified: FileTime,
    /// Time of the last change of the bytes, rights or names. Only the kernel sets it.
    pub changed: FileTime,
}

/// A time in seconds since 1970 and nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileTime {
    /// Whole seconds since 1970, negative before.
    pub seconds: i64,
    /// Nanoseconds of the second.
    pub nanoseconds: u32,
}

/// The type of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileType {
    /// A regular file.
    Regular,
    /// A folder.
    Directory,
    /// A symbolic link.
    Link,
    /// A device, a pipe or a socket.
    Special,
}

impl Stat {
    /// The metadata of an open file, which may be opened with `O_PATH`.
    ///
    /// # Errors
    /// The error of `fstat(2)`.
    pub fn of(file: BorrowedFd<'_>) -> io::Result<Stat> {
        // SAFETY: an all-zero `stat` is a valid value of that plain C struct.
        let mut stat: libc::stat = unsafe { std::mem::zeroed() };
        // SAFETY: `stat` is a live buffer of the right type.
        check(unsafe { libc::fstat(file.as_raw_fd(), &raw mut stat) })?;
        Ok(Stat::from(stat))
    }

    /// The metadata of `name` in `folder`. Does not follow a link.
    ///
    /// # Errors
    /// The error of `fstatat(2)`.
    pub fn of_name(folder: BorrowedFd<'_>, name: &CStr) -> io::Result<Stat> {
        // SAFETY: an all-zero `stat` is a valid value of that plain C struct.
        let mut stat: libc::stat = unsafe { std::mem::zeroed() };
        let flags = libc::AT_SYMLINK_NOFOLLOW;
        // SAFETY: `name` is NUL-terminated and `stat` is a live buffer of the right type.
        check(unsafe { libc::fstatat(folder.as_raw_fd(), name.as_ptr(), &raw mut stat, flags) })?;
        Ok(Stat::from(stat))
    }

    /// Returns whether the file at `path` has an access control list beside its permission bits.
    /// Follows links. A file that cannot be asked counts as one that has a list.
    pub fn has_access_list(path: &CStr) -> bool {
        let name = c"system.posix_acl_access".as_ptr();
        // SAFETY: both texts are NUL-terminated; without room, only the length is returned.
        let length = unsafe { libc::getxattr(path.as_ptr(), name, std::ptr::null_mut(), 0) };
        let none = [Some(libc::ENODATA), Some(libc::EOPNOTSUPP)];
        length >= 0 || !none.contains(&io::Error::last_os_error().raw_os_error())
    }

    /// The type of the file.
    pub fn file_type(&self) -> FileType {
        match self.mode & libc::S_IFMT {
            libc::S_IFREG => FileType::Regular,
            libc::S_IFDIR => FileType::Directory,
            libc::S_IFLNK => FileType::Link,
            _ => FileType::Special,
        }
    }

    /// Device and inode: equal for the same file, whatever path it was reached by.
    pub fn identity(&self) -> (u64, u64) {
        (self.device, self.inode)
    }
}

#[allow(clippy::useless_conversion)] // The widths of these fields differ between architectures.
impl From<libc::stat> for Stat {
    fn from(stat: libc::stat) -> Stat {
        let time = |seconds: libc::time_t, nanoseconds: i64| FileTime {
            seconds: i64::from(seconds),
            nanoseconds: u32::try_from(nanoseconds).unwrap_or(0),
        };
        Stat {
            device: u64::from(stat.st_dev),
            inode: u64::from(stat.st_ino),
            mode: stat.st_mode,
            owner: stat.st_uid,
            group: stat.st_gid,
            size: u64::try_from(stat.st_size).unwrap_or(0),
            modified: time(stat.st_mtime, i64::from(stat.st_mtime_nsec)),
            changed: time(stat.st_ctime, i64::from(stat.st_ctime_nsec)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn types() {
        let of = |path: &str| {
            let file = std::fs::File::open(path).unwrap();
            Stat::of(file.as_fd()).unwrap().file_type()
        };
        assert_eq!(of("/"), FileType::Directory);
        assert_eq!(of("/dev/null"), FileType::Special);
        assert_eq!(of("/proc/self/exe"), FileType::Regular);
        let here = std::fs::File::open("/proc/self").unwrap();
        assert_eq!(Stat::of_name(here.as_fd(), c"exe").unwrap().file_type(), FileType::Link);
        assert!(Stat::of_name(here.as_fd(), c"no-such-name").is_err());
    }

    #[test]
    fn agrees_with_the_standard_library() {
        use std::os::unix::fs::MetadataExt;
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        let (ours, theirs) = (Stat::of(file.as_fd()).unwrap(), file.metadata().unwrap());
        assert_eq!(
            (ours.device, ours.inode, ours.size),
            (theirs.dev(), theirs.ino(), theirs.size())
        );
        assert_eq!(
            (ours.mode, ours.owner, ours.group),
            (theirs.mode(), theirs.uid(), theirs.gid())
        );
        assert_eq!(
            (ours.modified.seconds, i64::from(ours.modified.nanoseconds)),
            (theirs.mtime(), theirs.mtime_nsec())
        );
        assert_eq!(
            (ours.changed.seconds, i64::from(ours.changed.nanoseconds)),
            (theirs.ctime(), theirs.ctime_nsec())
        );
    }
}
