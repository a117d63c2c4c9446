//! A response as the pipeline makes it: data, until a protocol encodes it.

use std::rc::Rc;
use std::sync::Arc;

use howdah_files::Representation;
use howdah_htaccess::modules::filter::Filter;
use howdah_http::{Fields, Method, Request, ResponseHead, SharedHead, Status};
use howdah_site::RuledRequest;

use crate::body::{BodySource, ResponseBody, SentFile, Trailers, Tunnel};
use crate::net::FilterMemory;
use crate::observe::Excuse;

/// A response before it is encoded for a protocol.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) head: ResponseHeadSource,
    pub(crate) body: ResponseBody,
    /// The filters that the content passes, in this order.
    pub(crate) filters: Vec<Filter>,
    /// The memory of these filters, in the client's account. `None` where it is not counted.
    pub(crate) filter_memory: Option<Arc<FilterMemory>>,
    /// Whether the account had little memory when the filters were chosen: another response may
    /// be compressed where this one is not.
    pub(crate) lacks_memory: bool,
    /// The file whose content this is. Compressed content can be kept with the file.
    pub(crate) representation: Option<Rc<Representation>>,
    /// The thing that the response holds of the file that it sends. `None` where it sends none.
    pub(crate) sent_file: Option<SentFile>,
    /// The time when the file was modified, in microseconds since 1970.
    pub(crate) modified: Option<i64>,
    /// Length of the content in bytes for the filters, where the body does not know its length.
    pub(crate) length_hint: Option<u64>,
    /// Whether the content is a page of the server's own: an error or a redirect.
    pub(crate) is_own: bool,
    /// The request for a part of the content, which is answered once the length is known. `None`:
    /// the content is sent whole.
    pub(crate) range: Option<Box<RangeRequest>>,
    /// The tunnel that follows the head in place of content. The status is 101; a protocol
    /// without that status sends 200.
    pub(crate) tunnel: Option<Box<Tunnel>>,
    /// The fields that follow the content, which an upstream's response may bring, for a protocol
    /// that sends them: few clients of HTTP/1 know what to do with such fields.
    pub(crate) trailers: Option<Trailers>,
    /// Why a status of 5xx is no error of the site's configuration; `None` where it is one.
    pub(crate) excuse: Option<Excuse>,
    /// Whether a script or an upstream was to make the response, or has made its page.
    pub(crate) is_made: bool,
}

/// A request for a part of a script's output.
#[derive(Debug)]
pub(crate) struct RangeRequest {
    /// The request's fields, after RequestHeader.
    pub(crate) fields: Fields,
    /// The rules for the page of a 416.
    pub(crate) ruled: Option<Rc<RuledRequest>>,
}

/// Status and fields.
#[derive(Debug)]
pub(crate) enum ResponseHeadSource {
    /// The head of this response alone.
    Own(ResponseHead),
    /// The head of many responses to GET and HEAD; it belongs to content of its length.
    Shared(Rc<SharedHead>),
    /// The head of a file's plain 200.
    File(Rc<Representation>),
}

impl Response {
    /// Returns a response with that head and content, and without filters.
    pub(crate) fn new(head: ResponseHeadSource, body: ResponseBody) -> Response {
        Response {
            head,
            body,
            filters: Vec::new(),
            filter_memory: None,
            lacks_memory: false,
            representation: None,
            sent_file: None,
            length_hint: None,
            modified: None,
            is_own: false,
            range: None,
            tunnel: None,
            trailers: None,
            excuse: None,
            is_made: false,
        }
    }

    /// Gives the response a head of its own in place of one that many share.
    pub(crate) fn own_head(&mut self) {
        if !matches!(self.head, ResponseHeadSource::Own(_)) {
            self.head = ResponseHeadSource::Own(self.head.get().clone());
        }
    }

    /// Lets the content pass without filters from here on, and gives the memory of the filters
    /// back.
    pub(crate) fn drop_filters(&mut self) {
        self.filters.clear();
        self.filter_memory = None;
    }

    /// Adds a field to a [`ResponseHeadSource::Own`]. A field whose value cannot be sent is left
    /// out.
    pub(crate) fn push(&mut self, name: &[u8], value: &[u8]) {
        if let ResponseHeadSource::Own(head) = &mut self.head {
            let pushed = head.push(name, value);
            debug_assert!(pushed.is_ok(), "our own fields can be sent");
        }
    }

    /// The status.
    pub(crate) fn status(&self) -> Status {
        self.head.get().status
    }

    /// Returns the length of the content in bytes, if it is known before sending. `None`: it is not
    /// known.
    pub(crate) fn length(&self) -> Option<u64> {
        if self.filters.is_empty() {
            self.body.length()
        } else {
            None
        }
    }

    /// Returns the bytes of content that the head states: also those of content that GET would get.
    /// `None`: the head states no length.
    pub(crate) fn stated_length(&self) -> Option<u64> {
        match &self.head {
            ResponseHeadSource::Own(_) => self.length(),
            ResponseHeadSource::Shared(shared) => Some(shared.length()),
            ResponseHeadSource::File(representation) => Some(representation.head().length()),
        }
    }

    /// Removes the media type from a response that has no content by its status: 204 and 304.
    pub(crate) fn drop_description(&mut self) {
        if let ResponseHeadSource::Own(head) = &mut self.head
            && head.status.forbids_content()
        {
            head.fields.remove(b"content-type");
        }
    }

    /// Returns whether any content is sent in response to `request`.
    pub(crate) fn has_content(&self, request: &Request) -> bool {
        request.method != Method::Head && !self.status().forbids_content()
    }
}

impl ResponseHeadSource {
    /// The head as data.
    pub(crate) fn get(&self) -> &ResponseHead {
        match self {
            ResponseHeadSource::Own(head) => head,
            ResponseHeadSource::Shared(shared) => shared.head(),
            ResponseHeadSource::File(representation) => representation.head().head(),
        }
    }

    /// Returns the head as data, to be changed.
    pub(crate) fn into_own(self) -> ResponseHead {
        match self {
            ResponseHeadSource::Own(head) => head,
            shared => shared.get().clone(),
        }
    }
}
