//! Entity tags (RFC 9110 §8.8.3).

use crate::ShortText;

/// A parsed entity tag: the bytes between the quotes, and whether `W/` was before them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntityTag<'a> {
    /// Whether the tag is weak: two representations mean the same, but their bytes may differ.
    pub weak: bool,
    /// The bytes between the quotes.
    pub opaque: &'a [u8],
}

impl<'a> EntityTag<'a> {
    /// Reads exactly one tag, quotes included. `None` if the text is anything else.
    pub fn parse(text: &'a [u8]) -> Option<EntityTag<'a>> {
        match take(text)? {
            (tag, []) => Some(tag),
            _ => None,
        }
    }

    /// Returns whether the tags are equal and neither is weak (RFC 9110 §8.8.3.2), as ranges and
    /// If-Match need.
    pub fn strong_eq(&self, other: &EntityTag<'_>) -> bool {
        !self.weak && !other.weak && self.opaque == other.opaque
    }

    /// Returns whether the tags are equal, weak or not, as If-None-Match needs.
    pub fn weak_eq(&self, other: &EntityTag<'_>) -> bool {
        self.opaque == other.opaque
    }
}

/// Makes the tag of a file, quotes included: its length and its modification time in nanoseconds,
/// both in hexadecimal, followed by `variant` (letters and hyphens, such as `-gz`; empty for the
/// file itself). The tag is strong: a file system that keeps nanoseconds changes it with every
/// write.
pub fn of_file(length: u64, modified: u64, nanoseconds: u32, variant: &[u8]) -> ShortText {
    let mut text = ShortText::new();
    text.push(b"\"");
    text.push_hexadecimal(length);
    text.push(b"-");
    text.push_hexadecimal(
        modified.wrapping_mul(1_000_000_000).wrapping_add(u64::from(nanoseconds)),
    );
    text.push(variant);
    text.push(b"\"");
    text
}

/// Returns the tags of an If-Match or If-None-Match value that is not `*`. Ends at the first that
/// is malformed.
pub fn list(value: &[u8]) -> impl Iterator<Item = EntityTag<'_>> {
    let mut rest = value;
    std::iter::from_fn(move || {
        while let [b' ' | b'\t' | b',', behind @ ..] = rest {
            rest = behind;
        }
        let (tag, behind) = take(rest)?;
        rest = match crate::scan::trim(behind) {
            behind @ ([] | [b',', ..]) => behind,
            _ => return None,
        };
        Some(tag)
    })
}

/// Returns the tag at the beginning of `text` and the rest of the text.
fn take(text: &[u8]) -> Option<(EntityTag<'_>, &[u8])> {
    let (weak, quoted) = match text {
        [b'W', b'/', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    let [b'"', inner @ ..] = quoted else {
        return None;
    };
    let end = inner.iter().position(|byte| !matches!(byte, 0x21 | 0x23..=0x7e | 0x80..))?;
    match inner[end] {
        b'"' => Some((EntityTag { weak, opaque: &inner[..end] }, &inner[end + 1..])),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_tag() {
        let tag = |weak, opaque| Some(EntityTag { weak, opaque });
        let table: [(&str, Option<EntityTag<'_>>); 11] = [
            ("\"\"", tag(false, b"")),
            ("\"xyzzy\"", tag(false, b"xyzzy")),
            ("W/\"a,b\"", tag(true, b"a,b")),
            ("\"\\\"", tag(false, b"\\")),
            ("", None),
            ("x", None),
            ("\"x", None),
            ("w/\"x\"", None),
            ("\"x\"y", None),
            ("\"x y\"", None),
            ("\"x\"\"", None),
        ];
        for (text, expected) in table {
            assert_eq!(EntityTag::parse(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn lists() {
        let table: [(&str, &[&str]); 7] = [
            ("\"a\"", &["a"]),
            ("\"a\", W/\"b\" ,\"c,d\"", &["a", "b", "c,d"]),
            (", ,\"a\",,\"b\",", &["a", "b"]),
            ("", &[]),
            ("\"a\" \"b\"", &[]),
            ("\"a\", b, \"c\"", &["a"]),
            ("\"a", &[]),
        ];
        for (value, expected) in table {
            let found: Vec<&[u8]> = list(value.as_bytes()).map(|tag| tag.opaque).collect();
            assert_eq!(
                found,
                expected.iter().map(|text| text.as_bytes()).collect::<Vec<_>>(),
                "{value}"
            );
        }
    }

    /// RFC 9110 §8.8.3.2, table 3.
    #[test]
    fn comparison() {
        let table = [
            ("W/\"1\"", "W/\"1\"", false, true),
            ("W/\"1\"", "W/\"2\"", false, false),
            ("W/\"1\"", "\"1\"", false, true),
            ("\"1\"", "\"1\"", true, true),
        ];
        for (a, b, strong, weak) in table {
            let (a, b) =
                (EntityTag::parse(a.as_bytes()).unwrap(), EntityTag::parse(b.as_bytes()).unwrap());
            assert_eq!((a.strong_eq(&b), a.weak_eq(&b)), (strong, weak), "{a:?} {b:?}");
        }
    }

    #[test]
    fn the_tag_of_a_file_is_a_tag_and_tells_versions_apart() {
        let tags = [
            of_file(12, 1, 0, b""),
            of_file(13, 1, 0, b""),
            of_file(12, 2, 0, b""),
            of_file(12, 1, 1, b""),
            of_file(12, 1, 0, b"-gz"),
            of_file(u64::MAX, u64::MAX, 999_999_999, b"-br"),
        ];
        for (index, tag) in tags.iter().enumerate() {
            assert!(EntityTag::parse(tag).is_some_and(|tag| !tag.weak), "{tag:?}");
            assert!(!tags[..index].contains(tag));
        }
        assert_eq!(&*of_file(12, 1, 0, b""), b"\"c-3b9aca00\"");
    }
}
