//! Icons, texts for icons, descriptions, and names to be ignored, and the entries that they match.

use std::sync::Arc;

use crate::modules::autoindex;
use crate::wildcard;
use crate::work;

/// A statement about some entries: AddIcon, AddAlt, their kin, and IndexIgnore.
#[derive(Debug)]
pub(super) struct AutoindexItem {
    pub by: MatchedProperty,
    /// Pattern of names, media types or encodings; empty is all.
    pub to: Box<[u8]>,
    /// The folder of the directive: the item is for entries below it.
    pub folder: Arc<[u8]>,
    /// Shared by all that one line says it for.
    pub data: Arc<[u8]>,
}

/// The property of an entry that an item matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MatchedProperty {
    Path,
    Type,
    Encoding,
}

/// AddDescription.
#[derive(Debug)]
pub(super) struct Description {
    pub pattern: Box<[u8]>,
    /// Shared by all patterns of a line.
    pub text: Arc<[u8]>,
}

/// The entry that is looked up.
pub(super) struct EntrySubject<'s> {
    /// An absolute path, `^^DIRECTORY^^` or `^^BLANKICON^^`.
    pub path: &'s [u8],
    /// Without parameters.
    pub media_type: Option<&'s [u8]>,
    pub encoding: Option<&'s [u8]>,
    /// Whether only the path is matched.
    pub path_only: bool,
}

impl<'s> EntrySubject<'s> {
    /// Returns a subject that is looked up by its path alone.
    pub(super) fn path(path: &'s [u8]) -> EntrySubject<'s> {
        EntrySubject {
            path,
            media_type: None,
            encoding: None,
            path_only: true,
        }
    }
}

impl AutoindexItem {
    pub(super) fn new(
        by: MatchedProperty,
        to: &[u8],
        folder: &Arc<[u8]>,
        data: &Arc<[u8]>,
    ) -> AutoindexItem {
        let has_wildcard = to.iter().any(|byte| b"*?".contains(byte));
        let to: Box<[u8]> = match by {
            MatchedProperty::Path if !has_wildcard => [b"*", to].concat().into(),
            MatchedProperty::Encoding => to.to_ascii_lowercase().into(),
            _ => to.into(),
        };
        AutoindexItem {
            by,
            to,
            folder: Arc::clone(folder),
            data: Arc::clone(data),
        }
    }

    fn is_for(&self, subject: &EntrySubject<'_>) -> bool {
        let is_special = subject.path.starts_with(b"^");
        if !is_special && !subject.path.starts_with(&self.folder) {
            return false;
        }
        if self.to.is_empty() {
            return true;
        }
        if self.by == MatchedProperty::Path || is_special {
            return glob(subject.path, &self.to);
        }
        let value = match (self.by, subject.encoding) {
            (MatchedProperty::Encoding, Some(encoding)) => encoding,
            (MatchedProperty::Type, None) => subject.media_type.unwrap_or_default(),
            _ => return false,
        };
        !subject.path_only
            && !value.is_empty()
            && glob(&value.to_ascii_lowercase(), &self.to.to_ascii_lowercase())
    }
}

/// Returns the first item that matches the subject. `None`: none matches.
pub(super) fn find<'i>(
    items: &'i [Arc<AutoindexItem>],
    subject: &EntrySubject<'_>,
) -> Option<&'i [u8]> {
    items.iter().find(|item| item.is_for(subject)).map(|item| &*item.data)
}

/// Returns the steps of comparing one entry of a folder with all patterns. `folder`: the bytes of
/// the folder's path.
pub(super) fn steps_for_entry(config: &autoindex::Config, folder: usize) -> u64 {
    let patterns = [&config.icons, &config.alts, &config.ignored].into_iter().flatten();
    let patterns = patterns.map(|item| item.to.len());
    let patterns = patterns.chain(config.descriptions.iter().map(|one| one.pattern.len()));
    // A long pattern may be tried at each place of the path.
    let passes = |length: usize| if length > LONG { length } else { 1 };
    patterns.map(|length| 1 + work::bytes(passes(length) * (NAME + folder))).sum()
}

/// Bytes of the longest usual name.
const NAME: usize = 64;

/// Bytes of the longest pattern that is cheap to compare.
const LONG: usize = 32;

/// Returns the description of the entry at an absolute path. `None`: none is for this entry.
pub(super) fn description<'c>(config: &'c autoindex::Config, path: &[u8]) -> Option<&'c [u8]> {
    let is_for = |description: &&Arc<Description>| describes(&description.pattern, path);
    config.descriptions.iter().find(is_for).map(|description| &*description.text)
}

/// A pattern with a slash is for the end of the path, one with wildcards for the name, any other
/// for a part of the name.
fn describes(pattern: &[u8], path: &[u8]) -> bool {
    let name = name_of(path);
    let open = [pattern, b"*"].concat();
    if pattern.contains(&b'/') {
        let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        return slashes
            .map(|(slash, _)| &path[slash + 1..])
            .any(|rest| wildcard::matches(&open, rest));
    }
    if pattern.iter().any(|byte| b"*?[".contains(byte)) {
        return wildcard::matches(&[b"*", &open[..]].concat(), name);
    }
    memchr::memmem::find(name, pattern).is_some()
}

/// Returns whether IndexIgnore names the entry at an absolute path.
pub(super) fn is_ignored(config: &autoindex::Config, path: &[u8]) -> bool {
    let name = name_of(path);
    config
        .ignored
        .iter()
        .any(|item| path.starts_with(&item.folder) && glob(name, name_of(&item.to)))
}

fn name_of(path: &[u8]) -> &[u8] {
    path.rsplit(|&byte| byte == b'/').next().unwrap_or_default()
}

/// Matches a pattern with `*` and `?` (`ap_strcmp_match`); both match a slash.
fn glob(text: &[u8], pattern: &[u8]) -> bool {
    let (mut read, mut at) = (0, 0);
    let mut star = None;
    loop {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, read));
                at += 1;
            }
            None if read == text.len() => return true,
            Some(&byte) if read < text.len() && (byte == b'?' || byte == text[read]) => {
                at += 1;
                read += 1;
            }
            _ => match star {
                Some((place, reached)) if reached < text.len() => {
                    star = Some((place, reached + 1));
                    (at, read) = (place + 1, reached + 1);
                }
                _ => return false,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs() {
        let table = [
            ("abc", "abc", true),
            ("abc", "a*", true),
            ("abc", "*c", true),
            ("abc", "*b*", true),
            ("abc", "a?c", true),
            ("abc", "ab", false),
            ("abc", "*", true),
            ("", "*", true),
            ("", "", true),
            ("", "?", false),
            ("a/b", "a*b", true),
            ("aXbXc", "a*X?", true),
            ("abc", "a**c", true),
            ("abc", "*d", false),
            (".htaccess", ".??*", true),
            (".a", ".??*", false),
        ];
        for (text, pattern, expected) in table {
            assert_eq!(glob(text.as_bytes(), pattern.as_bytes()), expected, "{text} {pattern}");
        }
    }

    #[test]
    fn descriptions() {
        let table = [
            ("x", "/srv/axb", true),
            ("x", "/srv/x/b", false),
            ("*.txt", "/srv/a.txt", true),
            ("*.txt", "/srv/a.txt.gz", true),
            ("a?", "/srv/ba.txt", true),
            ("d/a", "/srv/d/a.txt", true),
            ("d/a", "/srv/dd/a.txt", false),
            ("d/*.txt", "/srv/d/a.txt", true),
        ];
        for (pattern, path, expected) in table {
            assert_eq!(
                describes(pattern.as_bytes(), path.as_bytes()),
                expected,
                "{pattern} {path}"
            );
        }
    }
}
