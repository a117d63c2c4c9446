//! Owners of files (`Require file-owner`, `Require file-group`).

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;

use howdah_htaccess::host::Owners;

/// Returns the names of a file's user and group. They are looked up in the machine's own lists, not
/// in directories on the network, which would make every request wait. `read` returns the content
/// of a file.
pub(super) fn of(
    path: &[u8],
    mut read: impl FnMut(&[u8]) -> Option<std::sync::Arc<[u8]>>,
) -> Option<Owners> {
    let metadata = fs::metadata(OsStr::from_bytes(path)).ok()?;
    let mut named = |list: &[u8], number| read(list).and_then(|list| name_of(number, &list));
    Some(Owners {
        user: named(b"/etc/passwd", metadata.uid()),
        group: named(b"/etc/group", metadata.gid()),
    })
}

/// Returns the name that lines `name:x:number…` give a number.
fn name_of(number: u32, list: &[u8]) -> Option<Box<[u8]>> {
    let number = number.to_string();
    list.split(|byte| *byte == b'\n').find_map(|line| {
        let mut fields = line.split(|byte| *byte == b':');
        let name = fields.next()?;
        (fields.nth(1)? == number.as_bytes()).then(|| name.into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_names() {
        let list = b"root:x:0:0:root:/root:/bin/sh\n# a comment\nbroken\nann:x:1000:\n";
        for (number, expected) in [(0, Some(&b"root"[..])), (1000, Some(b"ann")), (7, None)] {
            assert_eq!(name_of(number, list).as_deref(), expected, "{number}");
        }
        assert!(
            of(b"/", |_| Some((*list).into()))
                .is_some_and(|owners| owners.user.as_deref() == Some(b"root"))
        );
        assert!(of(b"/nothing/there", |_| None).is_none());
    }
}
