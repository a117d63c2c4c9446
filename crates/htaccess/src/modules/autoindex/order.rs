//! The order of a listing.

use std::cmp::Ordering;

use super::SortKey;

/// A row of the list: the values shown for an entry.
#[derive(Clone, Debug, Default)]
pub(super) struct Row<'r> {
    /// The name; a folder's has a slash at its end. For the parent, its URL path.
    pub name: Vec<u8>,
    pub icon: Option<&'r [u8]>,
    pub alt: Option<&'r [u8]>,
    pub description: Option<&'r [u8]>,
    /// `None` for folders.
    pub size: Option<u64>,
    /// Microseconds since 1970; `None` for the parent.
    pub modified: Option<i64>,
    /// Whether the row comes before the others.
    pub is_first: bool,
}

/// The order of rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowOrder {
    pub key: SortKey,
    pub descending: bool,
    pub by_version: bool,
    pub ignore_case: bool,
}

impl RowOrder {
    /// Sorts by merging: the comparison of versions need not be transitive, and the standard
    /// library's sorting may panic on that.
    pub(super) fn sort<'r>(&self, mut rows: Vec<Row<'r>>) -> Vec<Row<'r>> {
        if rows.len() < 2 {
            return rows;
        }
        let second = self.sort(rows.split_off(rows.len() / 2));
        let mut first = self.sort(rows).into_iter().peekable();
        let mut second = second.into_iter().peekable();
        let mut sorted = Vec::with_capacity(first.len() + second.len());
        while let (Some(a), Some(b)) = (first.peek(), second.peek()) {
            let next = match self.compare(a, b) {
                Ordering::Greater => second.next(),
                _ => first.next(),
            };
            sorted.extend(next);
        }
        sorted.extend(first);
        sorted.extend(second);
        sorted
    }

    fn compare(&self, a: &Row<'_>, b: &Row<'_>) -> Ordering {
        if a.name.starts_with(b"/") {
            return Ordering::Less;
        }
        if b.name.starts_with(b"/") {
            return Ordering::Greater;
        }
        let (x, y) = if self.descending { (b, a) } else { (a, b) };
        b.is_first
            .cmp(&a.is_first)
            .then_with(|| self.by_key(x, y))
            .then_with(|| self.by_name(x, y))
    }

    fn by_key(&self, a: &Row<'_>, b: &Row<'_>) -> Ordering {
        match self.key {
            SortKey::Name => Ordering::Equal,
            SortKey::Modified => a.modified.cmp(&b.modified),
            SortKey::Size => a.size.cmp(&b.size),
            SortKey::Description => {
                let (a, b) = (a.description.unwrap_or_default(), b.description.unwrap_or_default());
                if self.by_version {
                    versions(a, b, false)
                } else {
                    a.cmp(b)
                }
            }
        }
    }

    fn by_name(&self, a: &Row<'_>, b: &Row<'_>) -> Ordering {
        let mut order = Ordering::Equal;
        if self.by_version {
            if self.ignore_case {
                order = versions(&a.name, &b.name, true);
            }
            order = order.then_with(|| versions(&a.name, &b.name, false));
        }
        if self.ignore_case {
            order =
                order.then_with(|| a.name.to_ascii_lowercase().cmp(&b.name.to_ascii_lowercase()));
        }
        order.then_with(|| a.name.cmp(&b.name))
    }
}

/// Compares names with numbers by value, `file-2` before `file-10`; white space is ignored
/// (`apr_strnatcmp`).
fn versions(a: &[u8], b: &[u8], ignore_case: bool) -> Ordering {
    let (mut a, mut b) = (a, b);
    loop {
        a = a.trim_ascii_start();
        b = b.trim_ascii_start();
        let (x, y) = match (a.first(), b.first()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => return Ordering::Less,
            (Some(_), None) => return Ordering::Greater,
            (Some(&x), Some(&y)) => (x, y),
        };
        if x.is_ascii_digit() && y.is_ascii_digit() {
            let order = numbers(a, b);
            if order.is_ne() {
                return order;
            }
        }
        let order = match ignore_case {
            true => x.to_ascii_uppercase().cmp(&y.to_ascii_uppercase()),
            false => x.cmp(&y),
        };
        if order.is_ne() {
            return order;
        }
        (a, b) = (&a[1..], &b[1..]);
    }
}

/// Compares two runs of digits: with a leading zero as fractions, from the left; else the longer
/// one is greater.
fn numbers(a: &[u8], b: &[u8]) -> Ordering {
    let digits = |text: &[u8]| text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (x, y) = (&a[..digits(a)], &b[..digits(b)]);
    match x[0] == b'0' || y[0] == b'0' {
        true => x.cmp(y),
        false => x.len().cmp(&y.len()).then_with(|| x.cmp(y)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_numbers() {
        let table = [
            ("a2", "a10", Ordering::Less),
            ("a-1.9", "a-1.10", Ordering::Less),
            ("a01", "a1", Ordering::Less),
            ("a1.05", "a1.1", Ordering::Less),
            ("a", "a1", Ordering::Less),
            ("a1", "ab", Ordering::Less),
            ("a b", "ab", Ordering::Equal),
            ("A", "a", Ordering::Less),
            ("10", "9", Ordering::Greater),
            ("x", "x", Ordering::Equal),
        ];
        for (a, b, expected) in table {
            assert_eq!(versions(a.as_bytes(), b.as_bytes(), false), expected, "{a} {b}");
            assert_eq!(versions(b.as_bytes(), a.as_bytes(), false), expected.reverse(), "{b} {a}");
        }
        assert_eq!(versions(b"A2", b"a10", true), Ordering::Less);
    }

    #[test]
    fn a_thousand_rows() {
        let order = RowOrder {
            key: SortKey::Name,
            descending: false,
            by_version: true,
            ignore_case: false,
        };
        let name = |number: usize| format!("v{}", number * 7919 % 1000).into_bytes();
        let rows: Vec<_> =
            (0..1000).map(|number| Row { name: name(number), ..Row::default() }).collect();
        let sorted = order.sort(rows);
        let expected: Vec<_> = (0..1000).map(|number| format!("v{number}").into_bytes()).collect();
        assert!(sorted.iter().map(|row| &row.name).eq(expected.iter()));
    }
}
