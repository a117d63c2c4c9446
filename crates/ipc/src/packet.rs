//! The encoding of control messages: a kind byte, followed by the fields of the message in order.
//!
//! A number takes 8 bytes, in the machine's byte order. A text is an 8-byte length and its bytes. A
//! list is an 8-byte count and its elements.

use std::io;

/// Encodes one message. Each function appends a field.
#[derive(Debug, Default)]
#[must_use = "the packet is what `finish` returns"]
pub struct PacketWriter(Vec<u8>);

impl PacketWriter {
    /// Begins a message of this kind. A list without a kind begins with the default value.
    pub fn of_kind(kind: u8) -> PacketWriter {
        PacketWriter(vec![kind])
    }

    /// Returns the packet.
    pub fn finish(self) -> Vec<u8> {
        self.0
    }

    /// Appends a number.
    pub fn number(mut self, number: u64) -> PacketWriter {
        self.0.extend_from_slice(&number.to_ne_bytes());
        self
    }

    /// Appends a size or an index.
    pub fn size(self, size: usize) -> PacketWriter {
        self.number(size as u64)
    }

    /// Appends a truth value, as 0 or 1.
    pub fn flag(self, flag: bool) -> PacketWriter {
        self.number(flag.into())
    }

    /// Appends a text.
    pub fn text(self, text: &str) -> PacketWriter {
        self.bytes(text.as_bytes())
    }

    /// Appends bytes, which need not be a text.
    pub fn bytes(self, bytes: &[u8]) -> PacketWriter {
        let mut out = self.size(bytes.len());
        out.0.extend_from_slice(bytes);
        out
    }

    /// Appends a list. `append` appends one element.
    pub fn list<T>(
        self,
        elements: &[T],
        append: impl FnMut(PacketWriter, &T) -> PacketWriter,
    ) -> PacketWriter {
        elements.iter().fold(self.size(elements.len()), append)
    }

    /// Appends a list of pairs.
    pub fn pairs(self, pairs: &[(String, String)]) -> PacketWriter {
        self.list(pairs, |out, (name, value)| out.text(name).text(value))
    }
}

/// The rest of a message that is being decoded. Each function takes a field off.
#[derive(Debug)]
pub struct PacketReader<'b>(&'b [u8]);

impl<'b> PacketReader<'b> {
    /// Begins with the first field of `bytes`.
    pub fn new(bytes: &'b [u8]) -> PacketReader<'b> {
        PacketReader(bytes)
    }

    /// Takes the kind of the message.
    ///
    /// # Errors
    /// The message is [`malformed`]: it ends before the kind does, or the field has another
    /// meaning.
    pub fn kind(&mut self) -> io::Result<u8> {
        let (kind, rest) = self.0.split_first().ok_or_else(malformed)?;
        self.0 = rest;
        Ok(*kind)
    }

    /// Takes a number.
    ///
    /// # Errors
    /// The message is [`malformed`]: it ends before the number does, or the field has another
    /// meaning.
    pub fn number(&mut self) -> io::Result<u64> {
        let (number, rest) = self.0.split_first_chunk::<8>().ok_or_else(malformed)?;
        self.0 = rest;
        Ok(u64::from_ne_bytes(*number))
    }

    /// Takes a size or an index.
    ///
    /// # Errors
    /// The message is [`malformed`]: it ends before the size does, or the field has another
    /// meaning.
    pub fn size(&mut self) -> io::Result<usize> {
        usize::try_from(self.number()?).map_err(|_| malformed())
    }

    /// Takes a truth value.
    ///
    /// # Errors
    /// The message is [`malformed`]: it ends before the value does, or the field has another
    /// meaning.
    pub fn flag(&mut self) -> io::Result<bool> {
        match self.number()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(malformed()),
        }
    }

    /// Takes a text.
    ///
    /// # Errors
    /// The message is [`malformed`]: it ends before the text does, or the field has another
    /// meaning.
    pub fn text(&mut self) -> io::Result<String> {
        String::from_utf8(self.bytes()?.to_vec()).map_err(|_| malformed())
    }

    /// Takes bytes, which need not be a text.
    ///
    /// # Errors
    /// The message is [`malformed`]: it ends before the bytes does, or the field has another
    /// meaning.
    pub fn bytes(&mut self) -> io::Result<&'b [u8]> {
        let length = self.size()?;
        let (bytes, rest) = self.0.split_at_checked(length).ok_or_else(malformed)?;
        self.0 = rest;
        Ok(bytes)
    }

    /// Takes a list. `element` takes one element.
    ///
    /// # Errors
    /// The message is [`malformed`]: it ends before the list does, or the field has another
    /// meaning.
    pub fn list<T>(
        &mut self,
        mut element: impl FnMut(&mut PacketReader<'b>) -> io::Result<T>,
    ) -> io::Result<Vec<T>> {
        // A count that is too large ends with the bytes: nothing is allocated for it.
        (0..self.number()?).map(|_| element(self)).collect()
    }

    /// Takes a list of pairs.
    ///
    /// # Errors
    /// The message is [`malformed`]: it ends before the list does, or the field has another
    /// meaning.
    pub fn pairs(&mut self) -> io::Result<Vec<(String, String)>> {
        self.list(|pair| Ok((pair.text()?, pair.text()?)))
    }
}

/// The error about a message that is not what its sender should have sent.
pub fn malformed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a control message is malformed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_survive_the_trip_in_their_order() {
        let pairs = [("a".to_owned(), String::new()), ("é".to_owned(), "b".to_owned())];
        let packet = PacketWriter::of_kind(7)
            .number(u64::MAX)
            .size(3)
            .flag(true)
            .flag(false)
            .text("text")
            .bytes(b"\xff\0")
            .pairs(&pairs)
            .finish();
        let mut input = PacketReader::new(&packet);
        assert_eq!(input.kind().unwrap(), 7);
        assert_eq!((input.number().unwrap(), input.size().unwrap()), (u64::MAX, 3));
        assert_eq!((input.flag().unwrap(), input.flag().unwrap()), (true, false));
        assert_eq!(
            (input.text().unwrap(), input.bytes().unwrap()),
            ("text".into(), &b"\xff\0"[..])
        );
        assert_eq!(input.pairs().unwrap(), pairs);
        assert!(input.kind().is_err(), "nothing is left");
    }

    #[test]
    fn a_field_with_another_meaning_is_malformed() {
        let number = |number| PacketWriter::default().number(number).finish();
        assert!(PacketReader::new(&number(2)).flag().is_err());
        assert!(PacketReader::new(&number(1)).text().is_err(), "one byte more than there is");
        assert!(PacketReader::new(&number(u64::MAX)).bytes().is_err());
        assert!(PacketReader::new(&number(u64::MAX)).pairs().is_err());
        let no_text = PacketWriter::default().bytes(b"\xff").finish();
        assert!(PacketReader::new(&no_text).text().is_err());
    }
}
