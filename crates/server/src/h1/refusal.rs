//! Requests that are refused before they are resolved.

use howdah_http::h1::ParsedHead;
use howdah_http::{Content, Refusal};

use super::connection::{AfterResponse, H1Connection};
use super::plain_on_tls::PLAIN;
use super::request_body::UnreadContent;
use crate::front::Workspace;
use crate::net::Transport;
use crate::observe::{ErrorContext, Phase, RequestError};
use crate::pipeline::{self, Arrival, Response};

impl<T: Transport> H1Connection<T> {
    /// Answers a request whose head is known, and whose content is not read. Afterwards the state
    /// of the connection is unknown.
    pub(super) async fn serve_refused(
        &mut self,
        work: &mut Workspace,
        refusal: Refusal,
    ) -> AfterResponse {
        self.begin_refusal(work);
        work.request.is_early = self.wire.transport.is_early();
        work.request.content = Content::None;
        let parsed = ParsedHead {
            head_length: 0,
            persistent: false,
            expect_continue: false,
        };
        self.serve_for_proxy(work, parsed, Some(refusal)).await
    }

    fn begin_refusal(&mut self, work: &Workspace) {
        self.wire.watch.disarm();
        // The following bytes are not read as another request.
        self.remaining = UnreadContent::Length(u64::MAX);
        self.received = work.input.bytes().len() as u64;
        self.served += 1;
    }

    /// Answers a refused head. Afterwards the state of the connection is unknown.
    pub(super) async fn refuse(&mut self, work: &mut Workspace, refusal: Refusal) -> AfterResponse {
        let thread = self.thread.clone();
        let arrival = Arrival::now(&thread);
        let situation = ErrorContext {
            phase: Phase::ReadingHead,
            ..self.situation(work, None)
        };
        thread.report(&RequestError::head(situation, refusal.status, refusal.why));
        self.begin_refusal(work);
        let mut response = match refusal == PLAIN {
            true => Response::for_https_only(&work.request),
            false => Response::error(refusal.status),
        };
        let length = response.length();
        let (outcome, after) = self.send(work, None, &mut response, false).await;
        let (situation, sent) = (self.situation(work, None), (&mut response, length));
        pipeline::end(&thread, situation, arrival, sent, (None, None), outcome);
        after
    }
}
