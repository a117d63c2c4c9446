//! A request as it is encoded in a slot's request area.
//!
//! ```text
//! u32 length of everything │ u32 number of variables │ u32 number of ini values │ u16 body kind │ u16 status │ u64 body length │ u64 time (µs)
//! the fixed texts, in the order of `FixedText` │ variables: name, value │ ini values: name, value │ inline body
//! ```
//! A text is a u32 length, that number of bytes and a NUL, which allows C to use the text in place.
//! An absent text has the length `u32::MAX` and no bytes. Numbers have the machine's byte order,
//! because both sides run on the same machine.

use crate::layout::REQUEST_BYTES;

/// The texts that PHP's server interface (SAPI) asks for by name in every request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum FixedText {
    /// Request method.
    Method = 0,
    /// Absolute path of the script.
    Script = 1,
    /// Path and query as the client sent them.
    RequestUri = 2,
    /// The query string without the `?`; absent if the request has none.
    QueryString = 3,
    /// The request's Content-Type field.
    ContentType = 4,
    /// All Cookie fields, joined with `; `.
    Cookie = 5,
    /// The request's Authorization field.
    Authorization = 6,
    /// Absolute path of the document root.
    DocumentRoot = 7,
    /// All field lines as the client sent them: `name: value` with a line end, in order.
    Fields = 8,
}

/// Number of [`FixedText`] values.
const FIXED: usize = 9;
/// Bytes before the first text.
pub(crate) const HEADER: usize = 32;
/// Length that marks an absent text.
const ABSENT: u32 = u32::MAX;

/// Location of the request's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyLocation {
    /// The request has no content.
    None,
    /// The content is at the end of the request area.
    Inline,
    /// The content is in an unlinked file, whose descriptor was sent through the slot's socket.
    File,
}

/// Encoded variables and ini values. Entries that many requests share are encoded once, and
/// [added](EntryBlock::add) to each request.
#[derive(Debug, Default)]
pub struct EntryBlock {
    bytes: Vec<u8>,
    variables: u32,
    ini: u32,
}

impl EntryBlock {
    /// Adds an entry of `$_SERVER`. All variables must precede the first [`EntryBlock::ini`].
    pub fn variable(&mut self, name: &[u8], value: &[u8]) {
        debug_assert_eq!(self.ini, 0, "variables come before ini values");
        self.text(name);
        self.text(value);
        self.variables += 1;
    }

    /// Adds an ini value for this request only.
    pub fn ini(&mut self, name: &[u8], value: &[u8]) {
        self.text(name);
        self.text(value);
        self.ini += 1;
    }

    /// Adds all entries of `other`. No variables may follow ini values.
    pub fn add(&mut self, other: &EntryBlock) {
        debug_assert!(self.ini == 0 || other.variables == 0);
        if self.has_room(other.bytes.len()) {
            self.bytes.extend_from_slice(&other.bytes);
        }
        self.variables += other.variables;
        self.ini += other.ini;
    }

    fn text(&mut self, text: &[u8]) {
        if self.has_room(4 + text.len() + 1) {
            self.bytes.extend_from_slice(&(text.len() as u32).to_ne_bytes());
            self.bytes.extend_from_slice(text);
            self.bytes.push(0);
        }
    }

    /// Returns whether a request area has room for `more` bytes. If not, the block becomes longer
    /// than an area, so that no slot takes it, and nothing is copied any more.
    fn has_room(&mut self, more: usize) -> bool {
        let has_room = self.bytes.len() + more <= REQUEST_BYTES;
        if !has_room {
            self.bytes.resize(REQUEST_BYTES + 1, 0);
        }
        has_room
    }
}

/// Encodes requests into a buffer that is reused.
#[derive(Debug, Default)]
pub struct RequestEncoder {
    /// The encoded request from its first byte, and the numbers of its entries.
    block: EntryBlock,
    status: u16,
}

impl RequestEncoder {
    /// Begins a request. `fixed` is in the order of [`FixedText`]; `time` is in microseconds since
    /// 1970.
    pub fn begin(&mut self, time: u64, fixed: [Option<&[u8]>; FIXED]) {
        let mut bytes = std::mem::take(&mut self.block.bytes);
        bytes.clear();
        bytes.resize(HEADER, 0);
        bytes[24..32].copy_from_slice(&time.to_ne_bytes());
        self.block = EntryBlock { bytes, ..EntryBlock::default() };
        self.status = 0;
        for text in fixed {
            match text {
                Some(text) => self.block.text(text),
                None => self.block.bytes.extend_from_slice(&ABSENT.to_ne_bytes()),
            }
        }
    }

    /// Sets the initial status of the script's response, for a script that generates an error page.
    /// Without this call the status is 200.
    pub fn status(&mut self, status: u16) {
        self.status = status;
    }

    /// The request's variables and ini values. Entries can be added until the request is finished.
    pub fn entries(&mut self) -> &mut EntryBlock {
        &mut self.block
    }

    /// Finishes a request whose body is in the request area.
    pub fn finish_inline(&mut self, body: &[u8]) -> &[u8] {
        self.block.bytes.extend_from_slice(body);
        let kind = if body.is_empty() {
            BodyLocation::None
        } else {
            BodyLocation::Inline
        };
        self.finish(kind, body.len() as u64)
    }

    /// Finishes a request whose body of `length` bytes is in a file.
    pub fn finish_file(&mut self, length: u64) -> &[u8] {
        self.finish(BodyLocation::File, length)
    }

    /// Bytes encoded until now, to check whether a body still fits.
    pub fn length(&self) -> usize {
        self.block.bytes.len()
    }

    fn finish(&mut self, kind: BodyLocation, body: u64) -> &[u8] {
        let EntryBlock { bytes, variables, ini } = &mut self.block;
        let length = bytes.len() as u32;
        bytes[0..4].copy_from_slice(&length.to_ne_bytes());
        bytes[4..8].copy_from_slice(&variables.to_ne_bytes());
        bytes[8..12].copy_from_slice(&ini.to_ne_bytes());
        bytes[12..14].copy_from_slice(&(kind as u16).to_ne_bytes());
        bytes[14..16].copy_from_slice(&self.status.to_ne_bytes());
        bytes[16..24].copy_from_slice(&body.to_ne_bytes());
        bytes
    }
}

/// A decoded and checked request in the worker's own memory.
#[derive(Debug, Clone, Copy)]
pub struct DecodedRequest<'b> {
    /// Location of the client's content.
    pub body: BodyLocation,
    /// Bytes of the content.
    pub body_length: u64,
    /// Time of the request's arrival, in microseconds since 1970.
    pub time: u64,
    /// Initial status of the response; 0 means 200.
    pub status: u16,
    fixed: [Option<&'b [u8]>; FIXED],
    variables: &'b [u8],
    ini: &'b [u8],
    inline: &'b [u8],
}

impl<'b> DecodedRequest<'b> {
    /// Reads the length of the request from the first bytes of a request area.
    pub fn announced_length(start: [u8; 4]) -> usize {
        u32::from_ne_bytes(start) as usize
    }

    /// Decodes a request. `None` if the encoding is inconsistent.
    pub fn decode(bytes: &'b [u8]) -> Option<DecodedRequest<'b>> {
        let (header, mut rest) = bytes.split_at_checked(HEADER)?;
        let word =
            |at: usize| u32::from_ne_bytes(header[at..at + 4].try_into().expect("four bytes"));
        let long =
            |at: usize| u64::from_ne_bytes(header[at..at + 8].try_into().expect("eight bytes"));
        if word(0) as usize != bytes.len() {
            return None;
        }
        let half =
            |at: usize| u16::from_ne_bytes(header[at..at + 2].try_into().expect("two bytes"));
        let body = match half(12) {
            0 => BodyLocation::None,
            1 => BodyLocation::Inline,
            2 => BodyLocation::File,
            _ => return None,
        };
        let mut fixed = [None; FIXED];
        for text in &mut fixed {
            *text = optional_text(&mut rest)?;
        }
        let variables = skip_pairs(&mut rest, word(4))?;
        let ini = skip_pairs(&mut rest, word(8))?;
        let inline_fits = body != BodyLocation::Inline || long(16) == rest.len() as u64;
        inline_fits.then_some(DecodedRequest {
            body,
            body_length: long(16),
            time: long(24),
            status: half(14),
            fixed,
            variables,
            ini,
            inline: rest,
        })
    }

    /// Returns a fixed text without its NUL; `None` if it is absent. The byte after the text is the
    /// NUL.
    pub fn fixed(&self, which: FixedText) -> Option<&'b [u8]> {
        self.fixed[which as usize]
    }

    /// The entries of `$_SERVER`.
    pub fn variables(&self) -> EntryPairs<'b> {
        EntryPairs(self.variables)
    }

    /// The field lines of the request, with the names as the client wrote them.
    pub fn fields(&self) -> impl Iterator<Item = (&'b [u8], &'b [u8])> + use<'b> {
        let section = self.fixed(FixedText::Fields).unwrap_or_default();
        section.split(|&byte| byte == b'\n').filter_map(|line| {
            let colon = line.iter().position(|&byte| byte == b':')?;
            Some((&line[..colon], line[colon + 1..].trim_ascii()))
        })
    }

    /// The ini values for this request.
    pub fn ini(&self) -> EntryPairs<'b> {
        EntryPairs(self.ini)
    }

    /// The ini values in encoded form. Equal values have equal bytes.
    pub fn ini_bytes(&self) -> &'b [u8] {
        self.ini
    }

    /// The inline body; empty if the body is not inline.
    pub fn inline_body(&self) -> &'b [u8] {
        self.inline
    }
}

/// Name and value, each without its NUL; the byte after either is the NUL.
#[derive(Debug, Clone)]
pub struct EntryPairs<'b>(&'b [u8]);

impl<'b> Iterator for EntryPairs<'b> {
    type Item = (&'b [u8], &'b [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let name = optional_text(&mut self.0)??;
        let value = optional_text(&mut self.0)??;
        Some((name, value))
    }
}

/// Reads the content's length and the fixed texts from the start of a request area, for display.
/// Texts after the end of `start`, or after a malformed one, are absent.
pub(crate) fn leading_texts(start: &[u8]) -> (u64, [Option<&[u8]>; FIXED]) {
    let mut texts = [None; FIXED];
    let Some((header, mut rest)) = start.split_at_checked(HEADER) else {
        return (0, texts);
    };
    let length = header[16..24].try_into().expect("eight bytes");
    for text in &mut texts {
        match optional_text(&mut rest) {
            Some(found) => *text = found,
            None => break,
        }
    }
    (u64::from_ne_bytes(length), texts)
}

/// Takes one text from the front of `rest`. Outer `None`: malformed; inner `None`: absent.
fn optional_text<'b>(rest: &mut &'b [u8]) -> Option<Option<&'b [u8]>> {
    let (length, after) = rest.split_first_chunk::<4>()?;
    let length = u32::from_ne_bytes(*length);
    if length == ABSENT {
        *rest = after;
        return Some(None);
    }
    let (text, after) = after.split_at_checked(length as usize)?;
    let (nul, after) = after.split_first()?;
    *rest = after;
    (*nul == 0).then_some(Some(text))
}

/// Checks `count` pairs and takes them from the front of `rest`.
fn skip_pairs<'b>(rest: &mut &'b [u8], count: u32) -> Option<&'b [u8]> {
    let start = *rest;
    for _ in 0..count {
        optional_text(rest)??;
        optional_text(rest)??;
    }
    Some(&start[..start.len() - rest.len()])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded() -> Vec<u8> {
        let mut encoder = RequestEncoder::default();
        let mut fixed = [None; FIXED];
        fixed[FixedText::Method as usize] = Some(&b"POST"[..]);
        fixed[FixedText::Script as usize] = Some(&b"/srv/a.php"[..]);
        encoder.begin(1_700_000_000_000_000, fixed);
        encoder.status(404);
        encoder.entries().variable(b"HTTP_HOST", b"a.example");
        let mut block = EntryBlock::default();
        block.variable(b"EMPTY", b"");
        block.ini(b"memory_limit", b"64M");
        encoder.entries().add(&block);
        encoder.finish_inline(b"a=1").to_vec()
    }

    #[test]
    fn what_went_in_comes_out() {
        let bytes = encoded();
        let request = DecodedRequest::decode(&bytes).unwrap();
        assert_eq!(request.fixed(FixedText::Method), Some(&b"POST"[..]));
        assert_eq!(request.fixed(FixedText::Cookie), None);
        let variables: Vec<_> = request.variables().collect();
        assert_eq!(variables, [(&b"HTTP_HOST"[..], &b"a.example"[..]), (&b"EMPTY"[..], &b""[..])]);
        assert_eq!(request.ini().collect::<Vec<_>>(), [(&b"memory_limit"[..], &b"64M"[..])]);
        assert_eq!(
            (request.body, request.body_length, request.inline_body()),
            (BodyLocation::Inline, 3, &b"a=1"[..])
        );
        assert_eq!((request.time, request.status), (1_700_000_000_000_000, 404));
    }

    #[test]
    fn a_request_without_content_has_fields() {
        let mut encoder = RequestEncoder::default();
        let mut fixed = [None; FIXED];
        fixed[FixedText::Fields as usize] = Some(&b"Host: a.example\nno field\nX-A:b:c\n"[..]);
        encoder.begin(0, fixed);
        let bytes = encoder.finish_inline(b"").to_vec();
        let request = DecodedRequest::decode(&bytes).unwrap();
        assert_eq!((request.body, request.inline_body()), (BodyLocation::None, &b""[..]));
        let fields: Vec<_> = request.fields().collect();
        assert_eq!(fields, [(&b"Host"[..], &b"a.example"[..]), (&b"X-A"[..], &b"b:c"[..])]);
    }

    #[test]
    fn equal_ini_values_have_equal_bytes() {
        let encoded = |name: &[u8], memory: &[u8]| {
            let mut encoder = RequestEncoder::default();
            encoder.begin(0, [None; FIXED]);
            encoder.entries().variable(b"NAME", name);
            encoder.entries().ini(b"memory_limit", memory);
            encoder.finish_inline(b"").to_vec()
        };
        let requests = [encoded(b"a", b"64M"), encoded(b"bc", b"64M"), encoded(b"a", b"65M")];
        let [first, same, other] = [0, 1, 2]
            .map(|number: usize| DecodedRequest::decode(&requests[number]).unwrap().ini_bytes());
        assert!(first == same && first != other);
    }

    #[test]
    fn a_request_may_fill_its_area_and_has_no_bytes_behind_its_end() {
        for beyond in [0, 1, 2] {
            let mut encoder = RequestEncoder::default();
            encoder.begin(0, [None; FIXED]);
            // Name and value have a length and a NUL each.
            let room = REQUEST_BYTES - encoder.length() - (4 + 1 + 1) - (4 + 1);
            encoder.entries().variable(b"A", &vec![b'x'; room + beyond]);
            assert_eq!(encoder.length(), REQUEST_BYTES + beyond.min(1));
            if beyond == 0 {
                let mut bytes = encoder.finish_file(7).to_vec();
                assert_eq!(DecodedRequest::decode(&bytes).unwrap().variables().count(), 1);
                bytes.push(0);
                assert!(DecodedRequest::decode(&bytes).is_none());
            }
        }
    }

    #[test]
    fn what_has_no_room_in_a_request_area_is_not_copied() {
        for (long, number) in [(8_000, 500), (1, 250_000)] {
            let mut encoder = RequestEncoder::default();
            encoder.begin(0, [None; FIXED]);
            let text = vec![b'x'; long];
            let mut block = EntryBlock::default();
            for _ in 0..number {
                encoder.entries().variable(b"A", &text);
                block.ini(b"a", &text);
            }
            encoder.entries().add(&block);
            assert!(block.bytes.len() <= REQUEST_BYTES + 1, "{}", block.bytes.len());
            assert!(encoder.length() > REQUEST_BYTES, "a slot refuses it");
            assert!(encoder.length() < 2 * REQUEST_BYTES, "{}", encoder.length());
        }
    }

    #[test]
    fn no_cut_and_no_changed_byte_panics() {
        let bytes = encoded();
        for cut in 0..bytes.len() {
            assert!(DecodedRequest::decode(&bytes[..cut]).is_none());
        }
        for position in 0..bytes.len() {
            for value in [0, 1, 0x7F, 0xFF] {
                let mut changed = bytes.clone();
                changed[position] = value;
                if let Some(request) = DecodedRequest::decode(&changed) {
                    assert!(request.variables().count() + request.ini().count() <= bytes.len());
                }
            }
        }
    }
}
