//! Several parts of a file in one response.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use howdah_http::ResponseHead;
use howdah_http::range::{Multipart, Span};

use crate::body::FileBody;
use crate::document::Document;

/// Several parts of a file, without their heads: a part's head states the media type of the whole
/// file, which directives may still change.
#[derive(Clone, Debug)]
pub struct FileParts {
    spans: Vec<Span>,
    /// The content of each span.
    bodies: Vec<FileBody>,
    /// Bytes of the whole file.
    size: u64,
}

impl FileParts {
    pub(crate) fn new(document: &Document, spans: &[Span]) -> FileParts {
        let body = |span: &Span| document.body(span.first, span.length());
        FileParts {
            spans: spans.to_vec(),
            bodies: spans.iter().map(body).collect(),
            size: document.size(),
        }
    }

    /// Returns the bytes of all parts together, without their heads.
    pub fn length(&self) -> u64 {
        self.spans.iter().map(|span| span.length()).sum()
    }

    /// Moves the media type of `head` into the head of each part, and makes `head` that of
    /// `multipart/byteranges`. Returns the content.
    pub fn settle(self, head: &mut ResponseHead) -> FileBody {
        // The boundary must not occur in the content. A boundary of 63 random bits cannot be
        // predicted, so that no uploaded file contains it. It always has 16 digits: HEAD tells the
        // length that GET has.
        let token = RandomState::new().hash_one(self.spans.len()) | 1 << 63;
        let media_type = head.fields.value(b"content-type");
        let plan = Multipart::plan(&self.spans, self.size, media_type, token);
        head.fields.set(b"Content-Type", &plan.content_type);
        let mut body = Vec::with_capacity(2 * self.bodies.len() + 1);
        for (part, content) in plan.parts.into_iter().zip(self.bodies) {
            body.push(memory(part.head));
            body.push(content);
        }
        body.push(memory(plan.tail));
        FileBody::Multipart(body)
    }
}

fn memory(bytes: Vec<u8>) -> FileBody {
    let length = bytes.len();
    FileBody::Memory(bytes.into(), 0..length)
}
