//! The memory for the filters of a response, held before they are chosen: whether content can be
//! compressed is known when its head is written.

use std::sync::Arc;

use howdah_http::Request;

use super::filtering::{FilterPlace, TURN};
use super::filters::{SLACK, usual_memory};
use super::source::{BodySource, ResponseBody};
use crate::net::FilterMemory;
use crate::pipeline::Response;

/// The memory in the client's account for the filters of one response. `None`: it is not counted,
/// because the content is not sent, or passes its filters at once.
#[derive(Debug, Default)]
pub(crate) struct FilterRoom(Option<Arc<FilterMemory>>);

impl FilterRoom {
    /// Holds memory for the filters of `response`, as far as the account has it.
    pub(crate) fn of(response: &Response, request: &Request, place: FilterPlace<'_>) -> FilterRoom {
        let at_once = match response.body {
            // It has ended, where its length is known.
            ResponseBody::Script(_) => response.length_hint,
            ResponseBody::Stream(_) => None,
            _ => response.body.length(),
        };
        if !response.has_content(request) || at_once.is_some_and(|length| length <= TURN as u64) {
            return FilterRoom(None);
        }
        let memory = place.memory();
        memory.hold_at_most(MOST);
        FilterRoom(Some(memory))
    }

    /// Returns the bytes that the filters may take. `None`: as many as they need.
    pub(crate) fn bytes(&self) -> Option<usize> {
        let memory = self.0.as_ref().filter(|memory| !memory.is_whole_account())?;
        Some(memory.bytes().saturating_sub(SLACK))
    }

    /// Gives the memory to the filters of `response`, which were chosen, and back to the account
    /// what they do not take.
    pub(crate) fn fill(self, response: &mut Response) {
        response.lacks_memory =
            self.0.as_ref().is_some_and(|it| it.bytes() < MOST && !it.is_whole_account());
        response.filter_memory = self.0.filter(|_| !response.filters.is_empty());
        if let Some(memory) = &response.filter_memory {
            // Other filters take little more than that.
            _ = memory.hold_of_account(usual_memory(&response.filters));
        }
    }
}

/// Bytes that are held until the filters are chosen: for the largest compressor, and some others.
const MOST: usize = 3 << 20;
