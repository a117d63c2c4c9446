//! Files of users and groups: `htpasswd`'s, `htdigest`'s, and AuthGroupFile.

use std::borrow::Cow;

use memchr::{memchr, memchr_iter};

use crate::evaluation_context::EvaluationContext;
use crate::host::PasswordFileError;
use crate::language::has_word;
use crate::work::{self, Exhausted};

/// Returns the hash that a file of `name:hash` has for a user. `None`: the file does not name the
/// user.
pub(super) fn hash_of<'f>(user: &[u8], file: &'f [u8]) -> Option<Cow<'f, [u8]>> {
    let mut found = lines(file).filter_map(|line| {
        let (name, rest) = field(&line);
        (name == user).then(|| field(rest).0.to_vec())
    });
    found.next().map(Cow::Owned)
}

/// Returns every hash of a file of `name:hash`.
pub(super) fn hashes(file: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    lines(file).map(|line| field(field(&line).1).0.to_vec())
}

/// Returns the hash that a file of `name:realm:hash` has for a user of a realm. `None`: the file
/// does not name the user in that realm.
pub(super) fn realm_hash_of(user: &[u8], realm: &[u8], file: &[u8]) -> Option<Vec<u8>> {
    let mut found = lines(file).filter_map(|line| {
        let (name, rest) = field(&line);
        let (of, rest) = field(rest);
        (name == user && of == realm).then(|| field(rest).0.to_vec())
    });
    found.next()
}

/// Returns the groups of a user. The file has lines `group: user user…`.
///
/// # Errors
/// The message for the log where the file cannot be read, or takes too much work.
pub(super) fn groups_of(
    user: &[u8],
    path: &[u8],
    context: &mut dyn EvaluationContext,
) -> Result<Vec<Vec<u8>>, String> {
    let file = read(path, "AuthGroupFile", context)?;
    // Every other byte may be a member.
    context.spend(file.len() as u64).map_err(|Exhausted| TOO_MUCH)?;
    let groups = lines(&file).filter_map(|line| {
        let (group, rest) = field(&line);
        has_word(rest, user).then(|| group.trim_ascii_end().to_vec())
    });
    Ok(groups.collect())
}

/// Reads a file that a directive names.
///
/// # Errors
/// The message for the log, also where looking through its lines takes too much work.
pub(super) fn read(
    path: &[u8],
    directive: &str,
    context: &mut dyn EvaluationContext,
) -> Result<std::sync::Arc<[u8]>, String> {
    let shown = String::from_utf8_lossy(path);
    if path.first() != Some(&b'/') {
        return Err(format!(
            "{directive} {shown}: the path is not absolute, and Howdah has no ServerRoot that it \
             could be relative to"
        ));
    }
    let file = context.host().read_passwords(path).map_err(|why| match why {
        PasswordFileError::Unreadable => format!("{directive} {shown} cannot be read"),
        PasswordFileError::Foreign => format!(
            "{directive} {shown} is not read: it belongs neither to root nor to a user of this \
             site, and the site's user may not read it"
        ),
        PasswordFileError::OtherSite => format!(
            "{directive} {shown} is not read: it is in a folder of another site; move it out of \
             there, or name it in `readable` of this site's [site.php]"
        ),
    })?;
    let lines = memchr_iter(b'\n', &file).count() as u64;
    let steps = work::bytes(file.len()) + LINE * lines;
    context.spend(steps).map_err(|Exhausted| TOO_MUCH)?;
    Ok(file)
}

/// Returns the lines that are not empty: continued ones joined, white space around them and
/// comments removed. As in Apache, a line that is too long ends the file.
fn lines(file: &[u8]) -> impl Iterator<Item = Cow<'_, [u8]>> {
    let mut rest = file;
    let lines = std::iter::from_fn(move || {
        let line = next_line(&mut rest)?;
        (line.len() < LONGEST_LINE).then_some(line)
    });
    lines
        .map(|line| match line {
            Cow::Borrowed(line) => Cow::Borrowed(line.trim_ascii()),
            Cow::Owned(line) => Cow::Owned(line.trim_ascii().to_vec()),
        })
        .filter(|line| !matches!(line.first(), None | Some(b'#')))
}

fn next_line<'f>(rest: &mut &'f [u8]) -> Option<Cow<'f, [u8]>> {
    let mut line: Option<Cow<'f, [u8]>> = None;
    while !rest.is_empty() {
        let end = memchr(b'\n', rest).unwrap_or(rest.len());
        let part = rest[..end].strip_suffix(b"\r").unwrap_or(&rest[..end]);
        *rest = rest.get(end + 1..).unwrap_or_default();
        let (part, is_continued) = match part.strip_suffix(b"\\") {
            Some(part) => (part, true),
            None => (part, false),
        };
        match &mut line {
            None => line = Some(Cow::Borrowed(part)),
            Some(line) => line.to_mut().extend_from_slice(part),
        }
        if !is_continued {
            break;
        }
    }
    line
}

/// Returns the text before a colon, and the text after it and the colons that follow
/// (`ap_getword`).
fn field(line: &[u8]) -> (&[u8], &[u8]) {
    match memchr(b':', line) {
        None => (line, b""),
        Some(end) => {
            let colons = line[end..].iter().take_while(|byte| **byte == b':').count();
            (&line[..end], &line[end + colons..])
        }
    }
}

/// Steps of finding the end of a line and of its name, beside its bytes.
const LINE: u64 = 4;

const TOO_MUCH: &str = "too much work on this request";

/// Apache's MAX_STRING_LEN. The file is read up to the first line with as many bytes.
const LONGEST_LINE: usize = 8192;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::WorkBudget;
    use crate::host::{DirectiveHost, Probe};

    #[test]
    fn hashes_are_found_by_name() {
        let file =
            b"# users\n\n  ann:{SHA}x  \r\nbob::$apr1$y:more\ncon\\\ntinued:z\n#dora:1\neve\n\
              ann:second\n";
        let rows: [(&str, Option<&str>); 7] = [
            ("ann", Some("{SHA}x")),
            ("bob", Some("$apr1$y")),
            ("continued", Some("z")),
            ("dora", None),
            ("#dora", None),
            ("eve", Some("")),
            ("", None),
        ];
        for (user, expected) in rows {
            let found = hash_of(user.as_bytes(), file);
            assert_eq!(found.as_deref(), expected.map(str::as_bytes), "{user}");
        }
    }

    #[test]
    fn digests_are_found_by_name_and_realm() {
        let file = b"ann:here:1\nann:there:2\nbob:here:3";
        let rows =
            [("ann", "there", Some("2")), ("bob", "here", Some("3")), ("bob", "there", None)];
        for (user, realm, expected) in rows {
            let found = realm_hash_of(user.as_bytes(), realm.as_bytes(), file);
            assert_eq!(found.as_deref(), expected.map(str::as_bytes), "{user} {realm}");
        }
    }

    #[test]
    fn what_follows_an_overlong_line_is_not_seen() {
        let file = [&b"ann:1\n"[..], &[b'x'; LONGEST_LINE], b"\nbob:2\n"].concat();
        assert!(hash_of(b"ann", &file).is_some());
        assert!(hash_of(b"bob", &file).is_none());
    }

    /// A context with a file, and a budget.
    struct Reader<'b> {
        file: Vec<u8>,
        budget: &'b WorkBudget,
    }

    impl EvaluationContext for Reader<'_> {
        fn host(&mut self) -> &mut dyn DirectiveHost {
            self
        }
        fn spend(&mut self, steps: u64) -> Result<(), Exhausted> {
            self.budget.meter().spend(steps)
        }
    }

    impl DirectiveHost for Reader<'_> {
        fn probe(&mut self, _path: &[u8]) -> Option<Probe> {
            None
        }
        fn probe_link(&mut self, _path: &[u8]) -> Option<Probe> {
            None
        }
        fn read_passwords(&mut self, _path: &[u8]) -> Result<Arc<[u8]>, PasswordFileError> {
            Ok(self.file.clone().into())
        }
    }

    /// The work is paid for before a file is looked through: a step for each byte of a group's
    /// members, and some for each line of users.
    #[test]
    fn files_cost_steps_by_their_members_and_lines() {
        let groups = [&b"g: "[..], &b"a ".repeat(2_000), b"\nh: b\n"].concat();
        let budget = WorkBudget::new(10_000);
        let mut reader = Reader { file: groups, budget: &budget };
        assert_eq!(groups_of(b"b", b"/g", &mut reader), Ok(vec![b"h".to_vec()]));
        assert!((4_000..5_000).contains(&budget.used()), "{}", budget.used());
        let _ = groups_of(b"b", b"/g", &mut reader);
        let third = groups_of(b"b", b"/g", &mut reader);
        assert_eq!(third, Err(TOO_MUCH.to_owned()));
        let budget = WorkBudget::new(10_000);
        let mut reader = Reader {
            file: b"\n".repeat(1_000),
            budget: &budget,
        };
        assert!(read(b"/u", "AuthUserFile", &mut reader).is_ok());
        assert!((4_000..5_000).contains(&budget.used()), "{}", budget.used());
        reader.file = b"\n".repeat(10_000);
        let refused = read(b"/u", "AuthUserFile", &mut reader);
        assert_eq!(refused, Err(TOO_MUCH.to_owned()));
    }
}
