//! The rights of another user on a file: the front's are not those of a site's scripts.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;

use howdah_site::DocumentPath;
use howdah_sys::credentials::{FileRight, Identity};
use howdah_sys::open::{self, Lookup};
use howdah_sys::stat::{FileType, Stat};

use crate::store::FileStore;

impl FileStore {
    /// Returns whether `reader` may enter every folder on the way and read the file at `path`, by
    /// owner and permission bits. Where another owner's file has an access control list, the bits
    /// do not tell: then the answer is no. A path at which nothing can be found counts as readable,
    /// so that the answer is the one for a missing file.
    pub(crate) fn may_read(&mut self, path: &DocumentPath, reader: &Identity) -> bool {
        let mut at = path.clone();
        let mut right = FileRight::Read;
        loop {
            if let Some(stat) = self.stat(&at) {
                let right = if stat.file_type() == FileType::Directory {
                    FileRight::Enter
                } else {
                    right
                };
                let is_by_bits = stat.owner == reader.uid || reader.is_root();
                let is_unclear = !is_by_bits && Stat::has_access_list(at.as_c_path());
                if is_unclear || !reader.may(right, &stat) {
                    return false;
                }
            }
            if !at.go_up() {
                break;
            }
            right = FileRight::Enter;
        }
        let mut above = path.root().ancestors().skip(1).map(|folder| folder.as_os_str().as_bytes());
        above.all(|folder| {
            let stat = CString::new(folder).map(|folder| open::stat(&folder, true, Lookup::Full));
            stat.is_ok_and(|stat| stat.is_ok_and(|stat| reader.may(FileRight::Enter, &stat)))
        })
    }

    fn stat(&mut self, path: &DocumentPath) -> Option<Stat> {
        let place = self.place(path).ok()?;
        self.entries.at(place)?.stat
    }
}
