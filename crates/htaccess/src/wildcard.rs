//! The shell's patterns, as `apr_fnmatch` has them.

/// Returns whether `pattern` matches all of `name`: `*` is any run of bytes but `/`, `?` any one
/// but `/`, `[…]` one of a set (`!` or `^` turns it round, `-` makes ranges), and a backslash makes
/// the next byte literal. The time is at most the product of both lengths. (`APR_FNM_PATHNAME`)
pub fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let reading = WildcardReading { path: true, caseless: false };
    reading.matches(pattern, name)
}

/// Returns whether the pattern matches as with [`matches()`], where a slash is a byte as any other
/// (no flag, or `APR_FNM_CASE_BLIND`).
pub fn matches_text(pattern: &[u8], text: &[u8], caseless: bool) -> bool {
    let reading = WildcardReading { path: false, caseless };
    reading.matches(pattern, text)
}

/// The way that a pattern is read.
#[derive(Clone, Copy)]
struct WildcardReading {
    /// Only a slash matches a slash.
    path: bool,
    /// ASCII letters match in both cases.
    caseless: bool,
}

impl WildcardReading {
    fn matches(self, pattern: &[u8], name: &[u8]) -> bool {
        let (mut at, mut read) = (0, 0);
        // Where the last `*` was, and how far it reached; it is let to reach further where the rest
        // does not fit.
        let mut star: Option<(usize, usize)> = None;
        loop {
            if pattern.get(at) == Some(&b'*') {
                at += 1;
                star = Some((at, read));
                continue;
            }
            if read == name.len() && at == pattern.len() {
                return true;
            }
            if let Some(next) = name.get(read).and_then(|byte| self.one(pattern, at, *byte)) {
                at = next;
                read += 1;
                continue;
            }
            match &mut star {
                Some((after, reached))
                    if *reached < name.len() && !self.is_apart(name[*reached]) =>
                {
                    *reached += 1;
                    (at, read) = (*after, *reached);
                }
                _ => return false,
            }
        }
    }

    fn is_apart(self, byte: u8) -> bool {
        self.path && byte == b'/'
    }

    /// The places where the pattern goes on if what is at `at` takes `byte`.
    fn one(self, pattern: &[u8], at: usize, byte: u8) -> Option<usize> {
        let apart = self.is_apart(byte);
        match *pattern.get(at)? {
            b'?' => (!apart).then_some(at + 1),
            b'[' => match self.set(&pattern[at + 1..], byte) {
                Some((taken, length)) => (taken && !apart).then_some(at + 1 + length),
                None => (byte == b'[').then_some(at + 1),
            },
            b'\\' if at + 1 < pattern.len() => self.same(pattern[at + 1], byte).then_some(at + 2),
            plain => self.same(plain, byte).then_some(at + 1),
        }
    }

    fn same(self, one: u8, other: u8) -> bool {
        one == other || self.caseless && one.eq_ignore_ascii_case(&other)
    }

    /// Returns whether the set that `rest` begins with, behind its `[`, has `byte` in it, and how
    /// long it is with its `]`. `None` where it has no end.
    fn set(self, rest: &[u8], byte: u8) -> Option<(bool, usize)> {
        let turned = matches!(rest.first(), Some(b'!' | b'^'));
        let start = usize::from(turned);
        let mut at = start;
        let mut found = false;
        loop {
            if rest.get(at) == Some(&b']') && at > start {
                return Some((found != turned, at + 1));
            }
            let (low, after) = member(rest, at)?;
            at = after;
            let mut high = low;
            if rest.get(at) == Some(&b'-') && rest.get(at + 1).is_some_and(|next| *next != b']') {
                (high, at) = member(rest, at + 1)?;
            }
            found |= match self.caseless {
                false => (low..=high).contains(&byte),
                true => (low.to_ascii_lowercase()..=high.to_ascii_lowercase())
                    .contains(&byte.to_ascii_lowercase()),
            };
        }
    }
}

fn member(rest: &[u8], at: usize) -> Option<(u8, usize)> {
    match *rest.get(at)? {
        b'\\' => Some((*rest.get(at + 1)?, at + 2)),
        byte => Some((byte, at + 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::{matches, matches_text};

    #[test]
    fn patterns() {
        let rows = [
            ("a.txt", "a.txt", true),
            ("a.txt", "A.txt", false),
            ("*", "", true),
            ("*", "x.y", true),
            ("*", "a/b", false),
            ("*.php", "a.php", true),
            ("*.php", ".php", true),
            ("*.php", "a.php5", false),
            ("*.*.php", "a.b.c.php", true),
            ("a*b*c", "aXbYc", true),
            ("a*b*c", "acb", false),
            ("?.php", "a.php", true),
            ("?.php", ".php", false),
            ("?", "/", false),
            ("*.[ch]", "x.c", true),
            ("*.[ch]", "x.d", false),
            ("[!a-c]x", "dx", true),
            ("[!a-c]x", "bx", false),
            ("[^a]x", "ax", false),
            ("[]]x", "]x", true),
            ("[a-cb]x", "bx", true),
            ("[a-]x", "-x", true),
            ("[a", "[a", true),
            ("[a", "a", false),
            ("\\*", "*", true),
            ("\\*", "x", false),
            ("a\\", "a\\", true),
            ("a\\", "a", false),
            ("[\\]]x", "]x", true),
            ("[\\]a]x", "ax", true),
            ("[\\a]x", "\\x", false),
            ("*.ph[p3-7]", "x.ph5", true),
            ("", "", true),
            ("", "a", false),
            ("a/*", "a/b", true),
            ("a[/]b", "a/b", false),
            ("a[!x]b", "a/b", false),
        ];
        for (pattern, name, expected) in rows {
            assert_eq!(matches(pattern.as_bytes(), name.as_bytes()), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn texts_have_no_components() {
        for (pattern, text, caseless, expected) in [
            ("*", "a/b", false, true),
            ("a?b", "a/b", false, true),
            ("a[/]b", "a/b", false, true),
            ("A", "a", true, true),
            ("A", "a", false, false),
            ("A", "b", true, false),
            ("[A-C]", "b", true, true),
        ] {
            let found = matches_text(pattern.as_bytes(), text.as_bytes(), caseless);
            assert_eq!(found, expected, "{pattern} {text} {caseless}");
        }
    }

    #[test]
    fn many_stars_take_bounded_time() {
        let pattern = [b"*a".repeat(200), b"b".to_vec()].concat();
        assert!(!matches(&pattern, &b"a".repeat(20_000)));
    }
}
