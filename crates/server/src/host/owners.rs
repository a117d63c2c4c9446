//! Owners of files (`Require file-owner`, `Require file-group`).

use std::sync::Arc;

use howdah_htaccess::host::Owners;

/// Returns the names of a file's user and group, which have these numbers. They are looked up in
/// the machine's own lists, not in directories on the network, which would make every request wait.
/// `read` returns the content of a file, or `None` if it cannot be read: then the names are not
/// known.
pub(super) fn named(
    (user, group): (u32, u32),
    mut read: impl FnMut(&[u8]) -> Option<Arc<[u8]>>,
) -> Owners {
    let mut named = |list: &[u8], number| read(list).and_then(|list| name_of(number, &list));
    Owners {
        user: named(b"/etc/passwd", user),
        group: named(b"/etc/group", group),
    }
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
        let owners = named((0, 7), |_| Some((*list).into()));
        assert_eq!((owners.user.as_deref(), owners.group), (Some(&b"root"[..]), None));
    }
}
