//! The prepared answer for the requests of a cached resolution. It belongs to the entry of the
//! resolution cache and is dropped with the entry.

use std::borrow::Cow;
use std::cell::{OnceCell, RefCell};
use std::rc::Rc;

use howdah_files::{CompressedCache, Representation};
use howdah_htaccess::RequestState;
use howdah_htaccess::response::passes_filters;
use howdah_http::{Request, ResponseHead, SharedHead};
use howdah_site::{ContentCoding, RuledRequest};

use super::call::CommonCall;
use crate::body::ResponseBody;
use crate::pipeline::{Response, ResponseHeadSource};

/// The prepared parts of the answers to requests of one cached resolution.
#[derive(Debug, Default)]
pub(crate) struct PreparedResponse {
    /// For a file: the head of the last response, as the directives changed it.
    head: RefCell<Option<PreparedHead>>,
    /// For a script: the common part of all calls.
    pub(super) call: OnceCell<Box<CommonCall>>,
}

/// The head of a file, as the directives changed it.
#[derive(Debug)]
struct PreparedHead {
    representation: Rc<Representation>,
    conditions: HeadConditions,
    head: Rc<SharedHead>,
    /// The coding of the content.
    coding: Option<ContentCoding>,
}

/// The conditions under which a prepared head is valid, besides the file and the cached resolution.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct HeadConditions {
    /// The time in seconds since 1970, where Expires is computed from it.
    second: Option<u64>,
    /// The value of Accept-Encoding, where content may be compressed.
    accepts: Option<Box<[u8]>>,
}

impl HeadConditions {
    /// Returns the conditions for a request with the rules `ruled`. `None`: the head depends on
    /// more, and cannot be prepared.
    pub(super) fn of(
        ruled: &RuledRequest,
        request: &Request,
        second: u64,
        compresses: bool,
    ) -> Option<HeadConditions> {
        let (state, settings) = (&ruled.state, &ruled.settings);
        let headers = settings.headers.as_ref();
        if !headers.is_none_or(|headers| headers.is_constant()) || state.trace.is_some() {
            return None;
        }
        let by_type = settings.filter.as_ref().is_none_or(|filter| filter.is_by_type());
        let is_filtered = passes_filters(state, settings);
        if is_filtered && !by_type {
            return None;
        }
        let tells_time = settings.expires.as_ref().is_some_and(|expires| expires.is_active());
        Some(HeadConditions {
            second: tells_time.then_some(second),
            accepts: (is_filtered || compresses).then(|| accepts(state, request).into()),
        })
    }

    fn hold(&self, ruled: &RuledRequest, request: &Request, second: u64) -> bool {
        self.second.is_none_or(|known| known == second)
            && self
                .accepts
                .as_ref()
                .is_none_or(|known| **known == *accepts(&ruled.state, request))
    }
}

impl PreparedResponse {
    /// Returns the complete response with `representation`, if its head was prepared. `body` is the
    /// content without filters.
    #[inline]
    pub(super) fn file(
        &self,
        representation: &Rc<Representation>,
        ruled: &RuledRequest,
        request: &Request,
        second: u64,
        cache: &CompressedCache,
        body: impl FnOnce() -> ResponseBody,
    ) -> Option<Response> {
        let prepared = self.head.borrow();
        let prepared = prepared.as_ref().filter(|prepared| {
            Rc::ptr_eq(&prepared.representation, representation)
                && prepared.conditions.hold(ruled, request, second)
        })?;
        let body = match prepared.coding {
            None => body(),
            Some(coding) => ResponseBody::shared(cache.find(representation, coding)?),
        };
        Some(Response::new(ResponseHeadSource::Shared(Rc::clone(&prepared.head)), body))
    }

    /// Keeps a head for content of `length` bytes, unless it is long. Returns the shared head.
    pub(super) fn keep_head(
        &self,
        representation: Rc<Representation>,
        conditions: HeadConditions,
        head: ResponseHead,
        length: u64,
        coding: Option<ContentCoding>,
    ) -> Rc<SharedHead> {
        let is_long = head.fields.size() > LONGEST_HEAD;
        let head = Rc::new(SharedHead::new(head, length));
        if is_long {
            return head;
        }
        let kept = PreparedHead {
            representation,
            conditions,
            head: Rc::clone(&head),
            coding,
        };
        *self.head.borrow_mut() = Some(kept);
        head
    }
}

/// The bytes of a head that is kept, as [`Fields::size`](howdah_http::Fields::size) counts them. A
/// longer head is made for each response.
const LONGEST_HEAD: usize = 8 << 10;

/// Returns the values of all lines of Accept-Encoding, after the directives' changes.
fn accepts<'r>(state: &'r RequestState, request: &'r Request) -> Cow<'r, [u8]> {
    let fields = state.request_fields.as_ref().unwrap_or(&request.fields);
    let mut values = fields.values(b"accept-encoding");
    match (values.next(), values.next()) {
        (Some(first), Some(second)) => {
            let all: Vec<&[u8]> = [first, second].into_iter().chain(values).collect();
            all.join(&b","[..]).into()
        }
        (only, _) => only.unwrap_or_default().into(),
    }
}
