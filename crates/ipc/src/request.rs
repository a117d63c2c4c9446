//! A request, as it lies in a slot's request area.
//!
//! ```text
//! u32 length of everything │ u32 number of variables │ u32 number of ini values │ u16 body kind │ u16 status │ u64 body length │ u64 time (µs)
//! u32 how many of the variables, the last ones, are the environment's
//! the fixed texts, in the order of `Fixed` │ variables: name, value │ ini values: name, value │ inline body
//! ```
//! A text is a u32 length and as many bytes followed by a NUL, so that C can use it where it lies.
//! An absent text has length `u32::MAX` and no bytes. Numbers have the machine's byte order: both
//! sides run on it.

/// The texts that the server interface of PHP asks for by name on every request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Fixed {
    /// Request method.
    Method = 0,
    /// Absolute path of the script.
    Script = 1,
    /// Path and query as the client sent them.
    RequestUri = 2,
    /// What follows the `?`; absent without one.
    QueryString = 3,
    /// Content-Type of the request.
    ContentType = 4,
    /// All Cookie fields, joined with `; `.
    Cookie = 5,
    /// Authorization of the request.
    Authorization = 6,
    /// Absolute path of the document root.
    DocumentRoot = 7,
}

/// Number of [`Fixed`] texts.
const FIXED: usize = 8;
/// Bytes before the first text.
pub(crate) const HEADER: usize = 36;
/// Length of a text that is not there.
const ABSENT: u32 = u32::MAX;

/// How the request's content reaches the worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body {
    /// There is none.
    None,
    /// It stands at the end of the request area.
    Inline,
    /// A descriptor of an unlinked file came through the slot's socket.
    File,
}

/// Variables and ini values, encoded. What many requests have in common is put together once, and
/// [added](Block::add) to each.
#[derive(Debug, Default)]
pub struct Block {
    bytes: Vec<u8>,
    variables: u32,
    environment: u32,
    ini: u32,
}

impl Block {
    /// Adds an entry of `$_SERVER`. All of them come before the first [`Block::ini`].
    pub fn variable(&mut self, name: &[u8], value: &[u8]) {
        debug_assert_eq!(self.ini, 0, "variables come before ini values");
        self.text(name);
        self.text(value);
        self.variables += 1;
    }

    /// Says that the last `count` variables so far are not of the request itself, but were set by
    /// directives (`r->subprocess_env` in Apache): whatever their names, they are no header fields.
    pub fn environment(&mut self, count: u32) {
        debug_assert!(count <= self.variables, "there are as many");
        self.environment = count;
    }

    /// Adds an ini value for this request only.
    pub fn ini(&mut self, name: &[u8], value: &[u8]) {
        self.text(name);
        self.text(value);
        self.ini += 1;
    }

    /// Adds all that `other` has. Behind an environment, or ini values, there are no variables any
    /// more.
    pub fn add(&mut self, other: &Block) {
        debug_assert!(self.environment + self.ini == 0 || other.variables == 0);
        self.bytes.extend_from_slice(&other.bytes);
        self.variables += other.variables;
        self.environment += other.environment;
        self.ini += other.ini;
    }

    fn text(&mut self, text: &[u8]) {
        self.bytes.extend_from_slice(&(text.len() as u32).to_ne_bytes());
        self.bytes.extend_from_slice(text);
        self.bytes.push(0);
    }
}

/// Puts a request together in a buffer that is used again and again.
#[derive(Debug, Default)]
pub struct Encoder {
    /// The request from its first byte, and how many entries it has.
    block: Block,
    status: u16,
}

impl Encoder {
    /// Begins a request: `fixed` in the order of [`Fixed`], `time` in microseconds since 1970.
    pub fn begin(&mut self, time: u64, fixed: [Option<&[u8]>; FIXED]) {
        let mut bytes = std::mem::take(&mut self.block.bytes);
        bytes.clear();
        bytes.resize(HEADER, 0);
        bytes[24..32].copy_from_slice(&time.to_ne_bytes());
        self.block = Block { bytes, ..Block::default() };
        self.status = 0;
        for text in fixed {
            match text {
                Some(text) => self.block.text(text),
                None => self.block.bytes.extend_from_slice(&ABSENT.to_ne_bytes()),
            }
        }
    }

    /// Says with which status the script's response begins, if not with 200: it makes the page of
    /// an error.
    pub fn status(&mut self, status: u16) {
        self.status = status;
    }

    /// The request's variables and ini values, to be added to until it is finished.
    pub fn entries(&mut self) -> &mut Block {
        &mut self.block
    }

    /// Adds a body that stands right here.
    pub fn finish_inline(&mut self, body: &[u8]) -> &[u8] {
        self.block.bytes.extend_from_slice(body);
        let kind = if body.is_empty() { Body::None } else { Body::Inline };
        self.finish(kind, body.len() as u64)
    }

    /// Ends a request whose body of `length` bytes is in a file.
    pub fn finish_file(&mut self, length: u64) -> &[u8] {
        self.finish(Body::File, length)
    }

    /// Bytes so far, to see whether a body still fits.
    pub fn length(&self) -> usize {
        self.block.bytes.len()
    }

    fn finish(&mut self, kind: Body, body: u64) -> &[u8] {
        let Block { bytes, variables, environment, ini } = &mut self.block;
        let length = bytes.len() as u32;
        bytes[0..4].copy_from_slice(&length.to_ne_bytes());
        bytes[4..8].copy_from_slice(&variables.to_ne_bytes());
        bytes[8..12].copy_from_slice(&ini.to_ne_bytes());
        bytes[12..14].copy_from_slice(&(kind as u16).to_ne_bytes());
        bytes[14..16].copy_from_slice(&self.status.to_ne_bytes());
        bytes[16..24].copy_from_slice(&body.to_ne_bytes());
        bytes[32..36].copy_from_slice(&environment.to_ne_bytes());
        bytes
    }
}

/// A request in the worker's own memory, checked.
#[derive(Debug, Clone, Copy)]
pub struct Request<'b> {
    /// What the client's content is and how to get at it.
    pub body: Body,
    /// Bytes of the content.
    pub body_length: u64,
    /// When the request came, in microseconds since 1970.
    pub time: u64,
    /// The status that the response begins with; 0 is 200.
    pub status: u16,
    fixed: [Option<&'b [u8]>; FIXED],
    variables: &'b [u8],
    /// Bytes of `variables` before the environment's.
    own: usize,
    ini: &'b [u8],
    inline: &'b [u8],
}

impl<'b> Request<'b> {
    /// The length that the first bytes of a request area announce.
    pub fn announced_length(start: [u8; 4]) -> usize {
        u32::from_ne_bytes(start) as usize
    }

    /// Reads a request. `None` if it contradicts itself.
    pub fn decode(bytes: &'b [u8]) -> Option<Request<'b>> {
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
            0 => Body::None,
            1 => Body::Inline,
            2 => Body::File,
            _ => return None,
        };
        let mut fixed = [None; FIXED];
        for text in &mut fixed {
            *text = optional_text(&mut rest)?;
        }
        let both = rest;
        let own = skip_pairs(&mut rest, word(4).checked_sub(word(32))?)?.len();
        let environment = skip_pairs(&mut rest, word(32))?.len();
        let variables = &both[..own + environment];
        let ini = skip_pairs(&mut rest, word(8))?;
        let inline_fits = body != Body::Inline || long(16) == rest.len() as u64;
        inline_fits.then_some(Request {
            body,
            body_length: long(16),
            time: long(24),
            status: half(14),
            fixed,
            variables,
            own,
            ini,
            inline: rest,
        })
    }

    /// One of the fixed texts, without its NUL; the byte after it is the NUL.
    pub fn fixed(&self, which: Fixed) -> Option<&'b [u8]> {
        self.fixed[which as usize]
    }

    /// The entries of `$_SERVER`.
    pub fn variables(&self) -> Pairs<'b> {
        Pairs(self.variables)
    }

    /// Those of them that the request itself has, and not the environment: the only ones whose
    /// `HTTP_` names are header fields.
    pub fn own_variables(&self) -> Pairs<'b> {
        Pairs(&self.variables[..self.own])
    }

    /// The ini values for this request.
    pub fn ini(&self) -> Pairs<'b> {
        Pairs(self.ini)
    }

    /// The same, as they are encoded: the same bytes for the same values.
    pub fn ini_bytes(&self) -> &'b [u8] {
        self.ini
    }

    /// The body, if it is inline.
    pub fn inline_body(&self) -> &'b [u8] {
        self.inline
    }
}

/// Name and value, each without its NUL; the byte after either is the NUL.
#[derive(Debug, Clone)]
pub struct Pairs<'b>(&'b [u8]);

impl<'b> Iterator for Pairs<'b> {
    type Item = (&'b [u8], &'b [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let name = optional_text(&mut self.0)??;
        let value = optional_text(&mut self.0)??;
        Some((name, value))
    }
}

/// Takes one text off the front. Outer `None`: malformed; inner `None`: absent.
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

/// Checks and takes `count` pairs off the front.
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
        let mut encoder = Encoder::default();
        let mut fixed = [None; FIXED];
        fixed[Fixed::Method as usize] = Some(&b"POST"[..]);
        fixed[Fixed::Script as usize] = Some(&b"/srv/a.php"[..]);
        encoder.begin(1_700_000_000_000_000, fixed);
        encoder.status(404);
        encoder.entries().variable(b"HTTP_HOST", b"a.example");
        let mut block = Block::default();
        block.variable(b"EMPTY", b"");
        block.environment(1);
        block.ini(b"memory_limit", b"64M");
        encoder.entries().add(&block);
        encoder.finish_inline(b"a=1").to_vec()
    }

    #[test]
    fn what_went_in_comes_out() {
        let bytes = encoded();
        let request = Request::decode(&bytes).unwrap();
        assert_eq!(request.fixed(Fixed::Method), Some(&b"POST"[..]));
        assert_eq!(request.fixed(Fixed::Cookie), None);
        let variables: Vec<_> = request.variables().collect();
        assert_eq!(variables, [(&b"HTTP_HOST"[..], &b"a.example"[..]), (&b"EMPTY"[..], &b""[..])]);
        assert_eq!(request.own_variables().collect::<Vec<_>>(), variables[..1]);
        assert_eq!(request.ini().collect::<Vec<_>>(), [(&b"memory_limit"[..], &b"64M"[..])]);
        assert_eq!(
            (request.body, request.body_length, request.inline_body()),
            (Body::Inline, 3, &b"a=1"[..])
        );
        assert_eq!((request.time, request.status), (1_700_000_000_000_000, 404));
    }

    #[test]
    fn the_environment_is_no_larger_than_all_variables() {
        let mut bytes = encoded();
        for (count, own) in [(0, Some(2)), (2, Some(0)), (3, None), (u32::MAX, None)] {
            bytes[32..36].copy_from_slice(&u32::to_ne_bytes(count));
            let request = Request::decode(&bytes);
            assert_eq!(request.map(|request| request.own_variables().count()), own, "{count}");
        }
    }

    #[test]
    fn no_cut_and_no_changed_byte_panics() {
        let bytes = encoded();
        for cut in 0..bytes.len() {
            assert!(Request::decode(&bytes[..cut]).is_none());
        }
        for position in 0..bytes.len() {
            for value in [0, 1, 0x7F, 0xFF] {
                let mut changed = bytes.clone();
                changed[position] = value;
                if let Some(request) = Request::decode(&changed) {
                    assert!(request.variables().count() + request.ini().count() <= bytes.len());
                    assert!(request.own_variables().count() <= request.variables().count());
                }
            }
        }
    }
}
