//! A file that can be sent: its bytes or its descriptor, and the fields of its head.

use std::cell::{Cell, OnceCell};
use std::fs::File;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use howdah_http::{ResponseHead, ShortText, Status, date, etag};
use howdah_site::ContentCoding;
use howdah_sys::open::Lookup;
use howdah_sys::stat::Stat;

use crate::answer::NegotiatedForm;
use crate::body::{FileBody, OpenFile};
use crate::content;
use crate::media_type::media_type;
use crate::representation::Representation;
use crate::variants::KnownVariants;

/// A regular file, ready to be sent.
#[derive(Debug)]
pub(crate) struct Document {
    size: u64,
    /// Seconds since 1970.
    modified: u64,
    /// [`modified`](Self::modified) as the head states it: never later than the time at which the
    /// document was made.
    last_modified: [u8; 29],
    /// Whether `last_modified` had to be earlier than `modified`.
    dated: bool,
    etag: ShortText,
    content_type: &'static str,
    representation: Rc<Representation>,
    /// Beside another form of the same content, and in place of another file.
    varying: OnceCell<Box<SentForm>>,
    coded: OnceCell<Box<SentForm>>,
    variants: Cell<KnownVariants>,
    content: DocumentContent,
}

/// A document as it is sent where codings are negotiated.
#[derive(Debug)]
pub(crate) struct SentForm {
    representation: Rc<Representation>,
    tag: Box<[u8]>,
    content_type: &'static str,
}

impl SentForm {
    pub(crate) fn representation(&self) -> &Rc<Representation> {
        &self.representation
    }

    /// The entity tag, quotes included.
    pub(crate) fn tag(&self) -> &[u8] {
        &self.tag
    }

    pub(crate) fn content_type(&self) -> &'static str {
        self.content_type
    }
}

#[derive(Debug)]
enum DocumentContent {
    Memory(Rc<[u8]>),
    File(Rc<OpenFile>),
}

impl Document {
    /// Makes a document of an open file with that `name` and `stat`. Returns the document and the
    /// file's state now. Up to `small` bytes are read into memory. `now` is in seconds since 1970.
    ///
    /// # Errors
    /// The errors of [`content::read`].
    pub(crate) fn open(
        (file, stat): (OwnedFd, Stat),
        name: &[u8],
        small: u64,
        now: u64,
        lookup: Lookup,
    ) -> io::Result<(Document, Stat)> {
        let file = File::from(file);
        let (bytes, stat) = match content::read(&file, stat, small, lookup)? {
            (Some(bytes), stat) => (bytes, stat),
            (None, stat) => {
                let content = DocumentContent::File(Rc::new(OpenFile::new(file, &stat)));
                return Ok((Document::new(content, stat.size, &stat, &[], name, now), stat));
            }
        };
        let digest = digest(&bytes);
        let size = bytes.len() as u64;
        Ok((
            Document::new(DocumentContent::Memory(bytes.into()), size, &stat, &digest, name, now),
            stat,
        ))
    }

    fn new(
        content: DocumentContent,
        size: u64,
        stat: &Stat,
        variant: &[u8],
        name: &[u8],
        now: u64,
    ) -> Document {
        let modified = u64::try_from(stat.modified.seconds).unwrap_or(0);
        let etag = etag::of_file(size, modified, stat.modified.nanoseconds, variant);
        // A date in the future must not be sent (RFC 9110 §8.8.2.1). The present date is sent
        // instead, and renewed when the entry is checked.
        let last_modified = date::format(modified.min(now));
        let content_type = media_type(name);
        let head = whole_head(content_type, &last_modified, &etag);
        let representation = Rc::new(Representation::new(head, size, modified));
        Document {
            size,
            modified,
            last_modified,
            dated: modified > now,
            etag,
            content_type,
            representation,
            varying: OnceCell::new(),
            coded: OnceCell::new(),
            variants: Cell::default(),
            content,
        }
    }

    /// Returns the document in that form. `name` is the name of its file.
    pub(crate) fn form(&self, variant: NegotiatedForm, name: &[u8]) -> &SentForm {
        match variant {
            NegotiatedForm::Only | NegotiatedForm::Varying => self
                .varying
                .get_or_init(|| Box::new(self.made_form(self.content_type, self.tag(), None))),
            NegotiatedForm::Coded(coding) => self.coded.get_or_init(|| {
                let stem = name.strip_suffix(coding.suffix().as_bytes()).unwrap_or(name);
                let start = self.etag.strip_suffix(b"\"").unwrap_or_default();
                let tag = [start, b"-", coding.token().as_bytes(), b"\""].concat();
                Box::new(self.made_form(media_type(stem), &tag, Some(coding)))
            }),
        }
    }

    /// The files with the content in a coding, as the store has found them.
    pub(crate) fn variants(&self) -> &Cell<KnownVariants> {
        &self.variants
    }

    fn made_form(
        &self,
        content_type: &'static str,
        tag: &[u8],
        coding: Option<ContentCoding>,
    ) -> SentForm {
        let mut head = whole_head(content_type, &self.last_modified, tag);
        if let Some(coding) = coding {
            head.fields.push(b"Content-Encoding", coding.token().as_bytes());
        }
        head.fields.push(b"Vary", b"Accept-Encoding");
        SentForm {
            representation: Rc::new(Representation::new(head, self.size, self.modified)),
            tag: tag.into(),
            content_type,
        }
    }

    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    pub(crate) fn content_type(&self) -> &'static str {
        self.content_type
    }

    /// Returns the head of the plain 200, with the digest of the content.
    #[inline]
    pub(crate) fn representation(&self) -> &Rc<Representation> {
        &self.representation
    }

    /// The entity tag, quotes included.
    pub(crate) fn tag(&self) -> &[u8] {
        &self.etag
    }

    /// Seconds since 1970.
    pub(crate) fn modified(&self) -> u64 {
        self.modified
    }

    /// The same as an HTTP date, as the head states it.
    pub(crate) fn last_modified(&self) -> &[u8] {
        &self.last_modified
    }

    /// `length` bytes from `offset` on, which must lie within the file.
    #[inline]
    pub(crate) fn body(&self, offset: u64, length: u64) -> FileBody {
        if length == 0 {
            return FileBody::None;
        }
        match &self.content {
            DocumentContent::Memory(bytes) => {
                let offset = offset as usize;
                FileBody::Memory(Rc::clone(bytes), offset..offset + length as usize)
            }
            DocumentContent::File(file) => FileBody::File { file: Rc::clone(file), offset, length },
        }
    }

    /// Bytes held in memory.
    pub(crate) fn memory(&self) -> usize {
        match &self.content {
            DocumentContent::Memory(bytes) => bytes.len(),
            DocumentContent::File(_) => 0,
        }
    }

    /// Descriptors held open.
    pub(crate) fn descriptors(&self) -> usize {
        match &self.content {
            DocumentContent::Memory(_) => 0,
            DocumentContent::File(_) => 1,
        }
    }

    /// Returns whether the stated modification time has to be renewed.
    pub(crate) fn is_dated(&self) -> bool {
        self.dated
    }
}

/// The head of the plain 200, without framing.
fn whole_head(content_type: &str, last_modified: &[u8], etag: &[u8]) -> ResponseHead {
    let mut head = ResponseHead::new(Status::OK);
    head.fields.push(b"Content-Type", content_type.as_bytes());
    head.fields.push(b"Last-Modified", last_modified);
    head.fields.push(b"ETag", etag);
    head.fields.push(b"Accept-Ranges", b"bytes");
    head
}

/// A part of a small file's tag that depends on its bytes: kernels before 6.13 count time in steps
/// of up to 10 ms, and two edits within one step can leave size and modification time equal. Every
/// thread and every start computes the same.
fn digest(bytes: &[u8]) -> Vec<u8> {
    let mut hasher = foldhash::quality::FixedState::with_seed(0).build_hasher();
    hasher.write(bytes);
    let mut digest = ShortText::new();
    digest.push(b"-");
    digest.push_hexadecimal(hasher.finish() >> 32);
    digest.to_vec()
}
