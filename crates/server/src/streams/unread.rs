//! The rest of a request's content that nobody has read when the response is complete.
//!
//! The client need not send it (RFC 9113 §8.1, RFC 9114 §4.1). But a client that learns so together
//! with the response may take the request for failed: curl 7.88 reports error 92 and no status
//! then. So a short rest is read to its end, and nothing tells the client to stop.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use super::{Stream, StreamContent};
use crate::net::{LINGER, LINGER_BYTES, task_waker};

/// The time between a response and the end of a stream whose client has more than [`LINGER_BYTES`]
/// to send. In this time the client reads the response.
const APART: Duration = Duration::from_millis(100);

/// Reads and discards what the client still sends, for at most [`LINGER`] and [`LINGER_BYTES`], and
/// drops the content then: the client is told to send no more. The response was handed over.
pub(super) async fn discard<S: Stream>(stream: &S, mut content: S::Content) {
    let mut left = LINGER_BYTES;
    let first = poll_fn(|context| Poll::Ready(poll_rest(&mut content, &mut left, context))).await;
    if first.is_pending() {
        let watch = stream.thread().watches().add(task_waker().await);
        watch.arm(LINGER);
        poll_fn(|context| match poll_rest(&mut content, &mut left, context) {
            Poll::Pending if watch.is_expired() => Poll::Ready(()),
            rest => rest,
        })
        .await;
    }
    if left == 0 {
        tokio::time::sleep(APART).await;
    }
}

/// Reads and discards content until it has ended, the client is gone, or nothing is `left` of the
/// bytes that may be discarded.
fn poll_rest(
    content: &mut impl StreamContent,
    left: &mut usize,
    context: &mut Context<'_>,
) -> Poll<()> {
    while *left > 0
        && let Ok(Some(bytes)) = ready!(content.poll_data(context))
    {
        *left = left.saturating_sub(bytes.len());
        content.release(bytes.len());
    }
    Poll::Ready(())
}
