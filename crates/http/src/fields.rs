//! Field lines (RFC 9110 §5), in order, in one arena.

use std::borrow::Cow;
use std::fmt;

/// The field lines of a message, in the order in which they came. Names keep their case and compare
/// without it.
///
/// All bytes live in one arena and the lines are offsets into it, so filling a cleared `Fields`
/// again allocates nothing.
#[derive(Clone, Default)]
pub struct Fields {
    bytes: Vec<u8>,
    lines: Vec<FieldPlace>,
    /// The arena is the section of a message as it was received.
    is_section: bool,
    /// Bytes of removed lines that are still in the arena.
    removed: u32,
}

/// The place of one line's name and value in the arena. Invariant: `name_start <= name_end <=
/// value_start <= value_end <= bytes.len()`.
#[derive(Clone, Copy)]
pub(crate) struct FieldPlace {
    pub name_start: u32,
    pub name_end: u32,
    pub value_start: u32,
    pub value_end: u32,
}

impl Fields {
    /// Returns no fields, without memory.
    pub const fn new() -> Fields {
        Fields {
            bytes: Vec::new(),
            lines: Vec::new(),
            is_section: false,
            removed: 0,
        }
    }

    /// Returns no fields, with memory for `lines` lines whose names and values take `bytes` bytes
    /// together.
    pub fn with_capacity(lines: usize, bytes: usize) -> Fields {
        Fields {
            bytes: Vec::with_capacity(bytes),
            lines: Vec::with_capacity(lines),
            is_section: false,
            removed: 0,
        }
    }

    /// Returns every line as `name: value` with its line end, in order. The bytes are those that
    /// were received, unless lines were added or removed since; lines may have spaces around their
    /// values.
    pub fn section(&self) -> Cow<'_, [u8]> {
        if self.is_section {
            return Cow::Borrowed(&self.bytes);
        }
        let mut section = Vec::with_capacity(self.bytes.len() + 4 * self.lines.len());
        for (name, value) in self.iter() {
            for part in [name, b": ", value, b"\r\n"] {
                section.extend_from_slice(part);
            }
        }
        Cow::Owned(section)
    }

    /// Appends the received bytes of a whole section, to which a parser has pushed the lines.
    pub(crate) fn receive_section(&mut self, section: &[u8]) {
        self.is_section = self.bytes.is_empty();
        self.bytes.extend_from_slice(section);
    }

    /// Forgets every field and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.lines.clear();
        self.is_section = false;
        self.removed = 0;
    }

    /// Appends a line, even where the name is present already. Bytes from outside must go through
    /// [`ResponseHead::push`](crate::ResponseHead::push), which checks them.
    ///
    /// # Panics
    /// Where the arena would pass 4 GiB.
    pub fn push(&mut self, name: &[u8], value: &[u8]) {
        let name_start = self.bytes.len();
        let value_start = name_start + name.len();
        let value_end = value_start + value.len();
        assert!(value_end <= u32::MAX as usize, "a message head beyond 4 GiB");
        self.is_section = false;
        self.bytes.extend_from_slice(name);
        self.bytes.extend_from_slice(value);
        self.lines.push(FieldPlace {
            name_start: name_start as u32,
            name_end: value_start as u32,
            value_start: value_start as u32,
            value_end: value_end as u32,
        });
    }

    /// Returns the value of the first line of that name. `None` if there is no such line.
    pub fn value(&self, name: &[u8]) -> Option<&[u8]> {
        self.lines
            .iter()
            .find(|line| self.is_named(line, name))
            .map(|line| self.value_of(line))
    }

    /// Returns the values of all lines of that name, in order.
    pub fn values<'a>(&'a self, name: &'a [u8]) -> impl Iterator<Item = &'a [u8]> + 'a {
        self.lines
            .iter()
            .filter(move |line| self.is_named(line, name))
            .map(|line| self.value_of(line))
    }

    /// Returns every line as (name, value), in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], &[u8])> + Clone {
        self.lines.iter().map(|line| (self.name_of(line), self.value_of(line)))
    }

    /// Returns whether there is a line of that name.
    pub fn contains(&self, name: &[u8]) -> bool {
        self.lines.iter().any(|line| self.is_named(line, name))
    }

    /// Removes every line of that name. Returns whether there was one. Their bytes stay in the
    /// arena until they are more than half of it.
    pub fn remove(&mut self, name: &[u8]) -> bool {
        let before = self.lines.len();
        self.is_section = false;
        let (bytes, mut removed) = (&self.bytes, self.removed);
        self.lines.retain(|line| {
            let stays = !slice(bytes, line.name_start, line.name_end).eq_ignore_ascii_case(name);
            if !stays {
                removed += line.length();
            }
            stays
        });
        self.removed = removed;
        if removed > MOST_REMOVED && removed as usize > self.bytes.len() / 2 {
            self.compact();
        }
        self.lines.len() != before
    }

    /// Replaces every line of that name by this one, which comes last.
    pub fn set(&mut self, name: &[u8], value: &[u8]) {
        self.remove(name);
        self.push(name, value);
    }

    /// Copies the lines to a new arena, without the bytes of removed ones. That costs no more than
    /// the lines that were removed since the last time.
    #[cold]
    fn compact(&mut self) {
        let live = self.lines.iter().map(|line| line.length() as usize).sum();
        let mut compacted = Fields::with_capacity(self.lines.len(), live);
        self.iter().for_each(|(name, value)| compacted.push(name, value));
        *self = compacted;
    }

    /// The number of lines.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Returns whether there is no line.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// The value of the line at that place. `None` beyond the last line.
    #[inline]
    pub(crate) fn value_at(&self, index: usize) -> Option<&[u8]> {
        self.lines.get(index).map(|line| self.value_of(line))
    }

    /// Returns an upper bound of the bytes of all names and values, without separators unless the
    /// lines are as received.
    #[inline]
    pub fn length(&self) -> usize {
        self.bytes.len() - self.removed as usize
    }

    /// Returns [`length`](Fields::length), and 32 more for each line (the size of RFC 9113 §6.5.2).
    #[inline]
    pub fn size(&self) -> usize {
        self.length() + LINE * self.lines.len()
    }

    /// Returns what a line adds to the [`size`](Fields::size).
    #[inline]
    pub fn size_of_line(name: &[u8], value: &[u8]) -> usize {
        name.len() + value.len() + LINE
    }

    /// Returns the arena and the lines, for a parser that fills both at once. Every line pushed
    /// must point into bytes that are there when the parser has finished; otherwise the parser must
    /// call `clear`.
    pub(crate) fn parts(&mut self) -> (&mut Vec<u8>, &mut Vec<FieldPlace>) {
        (&mut self.bytes, &mut self.lines)
    }

    #[inline]
    fn is_named(&self, line: &FieldPlace, name: &[u8]) -> bool {
        (line.name_end - line.name_start) as usize == name.len()
            && self.name_of(line).eq_ignore_ascii_case(name)
    }

    #[inline]
    fn name_of(&self, line: &FieldPlace) -> &[u8] {
        slice(&self.bytes, line.name_start, line.name_end)
    }

    #[inline]
    fn value_of(&self, line: &FieldPlace) -> &[u8] {
        slice(&self.bytes, line.value_start, line.value_end)
    }
}

impl FieldPlace {
    /// The bytes of name and value.
    fn length(&self) -> u32 {
        self.name_end - self.name_start + self.value_end - self.value_start
    }
}

impl fmt::Debug for Fields {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        formatter
            .debug_list()
            .entries(self.iter().map(|(name, value)| (text(name), text(value))))
            .finish()
    }
}

/// Equal lines in equal order; names without regard to case.
impl PartialEq for Fields {
    fn eq(&self, other: &Fields) -> bool {
        self.len() == other.len()
            && self
                .iter()
                .zip(other.iter())
                .all(|(a, b)| a.0.eq_ignore_ascii_case(b.0) && a.1 == b.1)
    }
}

impl Eq for Fields {}

#[inline]
fn slice(bytes: &[u8], start: u32, end: u32) -> &[u8] {
    &bytes[start as usize..end as usize]
}

/// The bytes that a line counts beside its name and value.
const LINE: usize = 32;

/// The bytes of removed lines that an arena keeps at least. Heads of usual messages are never
/// copied.
const MOST_REMOVED: u32 = 4096;

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn fields(lines: &[(&str, &str)]) -> Fields {
        let mut fields = Fields::new();
        for (name, value) in lines {
            fields.push(name.as_bytes(), value.as_bytes());
        }
        fields
    }

    #[test]
    fn a_section_is_as_received_until_a_line_changes() {
        let mut received = Fields::new();
        received.receive_section(b"X-Y:1\r\nB:  2 \r\n");
        assert_eq!(&*received.section(), b"X-Y:1\r\nB:  2 \r\n");
        received.push(b"c", b"3");
        assert_eq!(&*received.section(), b"c: 3\r\n");
        let mut made = fields(&[("A", "1"), ("b", "")]);
        assert_eq!(&*made.section(), b"A: 1\r\nb: \r\n");
        made.remove(b"a");
        assert_eq!(&*made.section(), b"b: \r\n");
    }

    #[test]
    fn the_length_is_that_of_every_name_and_value() {
        assert_eq!(Fields::new().length(), 0);
        assert_eq!(fields(&[("Name", "value"), ("x", "")]).length(), 10);
        assert_eq!(fields(&[("Name", "value"), ("x", "")]).size(), 74);
    }

    #[test]
    fn names_compare_without_case_and_lines_keep_their_order() {
        let fields =
            fields(&[("Accept", "a"), ("Set-Cookie", "1"), ("set-cookie", "2"), ("X", "")]);
        assert_eq!(fields.value(b"SET-COOKIE"), Some(&b"1"[..]));
        assert_eq!(fields.values(b"Set-Cookie").collect::<Vec<_>>(), [b"1", b"2"]);
        assert_eq!(fields.value(b"x"), Some(&b""[..]));
        assert_eq!(fields.value(b"y"), None);
        assert_eq!(
            fields.iter().map(|line| line.0).collect::<Vec<_>>().concat(),
            b"AcceptSet-Cookieset-cookieX"
        );
    }

    #[test]
    fn remove_and_set_touch_every_line_of_the_name() {
        let mut lines = fields(&[("A", "1"), ("b", "2"), ("a", "3")]);
        lines.set(b"A", b"4");
        assert_eq!(lines, fields(&[("b", "2"), ("A", "4")]));
        assert!(lines.remove(b"B"));
        assert!(!lines.remove(b"B"));
        assert_eq!(lines.len(), 1);
    }

    #[test]
    fn a_removed_line_counts_no_more() {
        let mut lines = fields(&[("Host", "example.org"), ("Accept", "*/*"), ("X", "")]);
        assert!(lines.remove(b"accept"));
        assert_eq!((lines.length(), lines.size()), (16, 16 + 2 * 32));
        lines.set(b"x", b"12");
        let sizes = [(&b"Host"[..], &b"example.org"[..]), (b"x", b"12")];
        let sizes = sizes.map(|(name, value)| Fields::size_of_line(name, value));
        assert_eq!((lines.length(), lines.size()), (18, sizes[0] + sizes[1]));
        assert!(!lines.is_empty() && lines.remove(b"host") && lines.remove(b"x"));
        assert!(lines.is_empty() && lines.length() == 0);
    }

    #[test]
    fn equal_lines_in_equal_order_are_equal() {
        let lines = fields(&[("A", "1"), ("b", "2")]);
        assert_eq!(lines, fields(&[("a", "1"), ("B", "2")]));
        for others in [
            &[("A", "1")][..],
            &[("A", "1"), ("b", "2"), ("c", "3")],
            &[("b", "2"), ("A", "1")],
            &[("A", "1"), ("c", "2")],
            &[("A", "1"), ("b", "3")],
        ] {
            assert_ne!(lines, fields(others));
        }
    }

    #[test]
    fn the_memory_of_removed_lines_is_freed_where_it_is_much_and_most_of_all() {
        for (removed, others, is_kept) in
            [(4096, 1, true), (4097, 1, false), (5000, 5000, true), (5001, 5000, false)]
        {
            let mut lines = Fields::new();
            lines.push(b"X", &vec![b'x'; others - 1]);
            lines.push(b"Y", &vec![b'y'; removed - 1]);
            lines.remove(b"y");
            let expected = if is_kept { others + removed } else { others };
            assert_eq!((lines.bytes.len(), lines.length()), (expected, others), "{removed}");
        }
    }

    /// A field whose value grows by a word at a time, as with `Header append`, beside others.
    #[test]
    fn values_that_were_replaced_take_no_more_memory_than_those_that_are_there() {
        let mut lines = Fields::new();
        (0..100).for_each(|number: u32| lines.push(format!("x{number}").as_bytes(), b"y"));
        let (mut value, mut copied) = (Vec::new(), 0);
        for _ in 0..1_000 {
            value.extend_from_slice(b", word");
            let arena = lines.bytes.as_ptr();
            lines.set(b"Vary", &value);
            copied += if arena == lines.bytes.as_ptr() {
                0
            } else {
                lines.length()
            };
            let most = 2 * lines.length() + MOST_REMOVED as usize + value.len();
            assert!(lines.bytes.len() <= most, "{} of {most}", lines.bytes.len());
        }
        assert!(copied < 1_000 * value.len(), "{copied} bytes were moved");
        assert_eq!(lines.value(b"vary"), Some(&value[..]));
        assert_eq!((lines.len(), lines.value(b"X99")), (101, Some(&b"y"[..])));
        assert_eq!(lines.length(), 100 + 290 + 4 + value.len());
        lines.remove(b"vary");
        lines.clear();
        assert_eq!(lines.length(), 0);
    }

    #[test]
    fn a_cleared_one_keeps_its_memory() {
        let mut fields = fields(&[("Host", "example.org"), ("Accept", "*/*")]);
        let capacity = (fields.bytes.capacity(), fields.lines.capacity());
        fields.clear();
        assert!(fields.is_empty() && !fields.contains(b"host"));
        fields.push(b"Host", b"example.org");
        assert_eq!((fields.bytes.capacity(), fields.lines.capacity()), capacity);
    }
}
