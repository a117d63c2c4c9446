//! A response as the pipeline makes it: data, until a protocol encodes it.

use std::rc::Rc;

use howdah_files::Representation;
use howdah_htaccess::modules::filter::Filter;
use howdah_http::{Method, Request, ResponseHead, SharedHead, Status};

use crate::body::{Body, Source};

/// A response before it is encoded for a protocol.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) head: Head,
    pub(crate) body: Body,
    /// The filters that the content passes on its way out, the first one first.
    pub(crate) filters: Vec<Filter>,
    /// The file that the content is: what is made of the content can be kept beside it.
    pub(crate) representation: Option<Rc<Representation>>,
    /// When the file was modified, in microseconds since 1970.
    pub(crate) modified: Option<i64>,
    /// Bytes of the content as far as filters may know, where the body does not tell.
    pub(crate) length_hint: Option<u64>,
    /// Whether the page is the server's own: an error, or a redirect.
    pub(crate) is_own: bool,
}

/// Status and fields.
#[derive(Debug)]
pub(crate) enum Head {
    /// Of this response alone.
    Own(ResponseHead),
    /// Of many responses to GET and HEAD, for content that has its length.
    Shared(Rc<SharedHead>),
    /// The head of a file's plain 200.
    File(Rc<Representation>),
}

impl Response {
    /// A response of nothing but head and content.
    pub(crate) fn new(head: Head, body: Body) -> Response {
        Response {
            head,
            body,
            filters: Vec::new(),
            representation: None,
            length_hint: None,
            modified: None,
            is_own: false,
        }
    }

    /// Adds a field of the server's own, or of a checked path, to a head of its own. A value that
    /// cannot be in a field line is left out.
    pub(crate) fn push(&mut self, name: &[u8], value: &[u8]) {
        if let Head::Own(head) = &mut self.head {
            let pushed = head.push(name, value);
            debug_assert!(pushed.is_ok(), "our own fields can be sent");
        }
    }

    /// The status.
    pub(crate) fn status(&self) -> Status {
        self.head.get().status
    }

    /// Bytes of the content, if they are known before it is sent.
    pub(crate) fn length(&self) -> Option<u64> {
        if self.filters.is_empty() {
            self.body.length()
        } else {
            None
        }
    }

    /// Whether any content goes to the client that sent `request`.
    pub(crate) fn has_content(&self, request: &Request) -> bool {
        request.method != Method::Head && !self.status().forbids_content()
    }
}

impl Head {
    /// The head as data.
    pub(crate) fn get(&self) -> &ResponseHead {
        match self {
            Head::Own(head) => head,
            Head::Shared(shared) => shared.head(),
            Head::File(representation) => representation.head().head(),
        }
    }
}
