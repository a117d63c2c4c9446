//! Texts that a script sets for the rest of its request.

/// A table of texts by name. Names compare without case, as in Apache's tables.
///
/// Names and texts are kept with a NUL behind them.
#[derive(Debug, Default)]
pub struct TextTable(Vec<(Vec<u8>, Vec<u8>)>);

impl TextTable {
    /// Returns the text of that name, which ends before its first NUL. A NUL follows the text in
    /// memory. `None` if there is none.
    pub fn find(&self, wanted: &[u8]) -> Option<&[u8]> {
        let wanted = before_nul(wanted);
        self.iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(wanted))
            .map(|(_, text)| text)
    }

    /// Returns whether no text was set.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns each name with its text, those that were set first first. A NUL follows either in
    /// memory.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.0
            .iter()
            .map(|(name, text)| (&name[..name.len() - 1], &text[..text.len() - 1]))
    }

    /// Sets the text of a name. Both end before their first NUL, as in Apache's tables.
    pub fn set(&mut self, name: &[u8], text: &[u8]) {
        let [name, text] = [name, text].map(|text| [before_nul(text), b"\0"].concat());
        match self.0.iter_mut().find(|(known, _)| known.eq_ignore_ascii_case(&name)) {
            Some((_, known)) => *known = text,
            None => self.0.push((name, text)),
        }
    }
}

fn before_nul(text: &[u8]) -> &[u8] {
    text.split(|byte| *byte == 0).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_found_by_its_name_in_any_case() {
        let mut table = TextTable::default();
        assert_eq!(table.find(b"a"), None);
        table.set(b"Name", b"one");
        table.set(b"NAME", b"two\0three");
        table.set(b"other\0name", b"");
        assert_eq!(table.find(b"name"), Some(&b"two"[..]));
        assert_eq!(table.find(b"other"), Some(&b""[..]));
        assert_eq!(table.find(b"name\0"), Some(&b"two"[..]));
        let all: Vec<_> = table.iter().collect();
        assert_eq!(all, [(&b"Name"[..], &b"two"[..]), (&b"other"[..], &b""[..])]);
    }
}
