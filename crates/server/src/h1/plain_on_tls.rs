//! A request in the clear on a listener with TLS.

use std::rc::Rc;

use howdah_http::{Refusal, Status};

use super::connection::{AfterResponse, H1Connection, HeadRead};
use crate::front::FrontThread;
use crate::net::{Peer, Transport, task_waker};

/// Answers the first request of a connection with a page that says to use https.
pub(crate) async fn refuse_plain<T: Transport>(
    thread: Rc<FrontThread>,
    transport: T,
    peer: Rc<Peer>,
) {
    let mut connection = H1Connection::new(thread, transport, task_waker().await, peer);
    let thread = connection.thread.clone();
    let mut work = thread.lend();
    let refusal = match connection.read_head(&mut work).await {
        HeadRead::Complete(parsed) => {
            work.input.consume(parsed.head_length);
            PLAIN
        }
        HeadRead::Refused(refusal) if refusal.status == Status::REQUEST_TIMEOUT => refusal,
        // The bytes are neither TLS nor HTTP.
        HeadRead::Refused(_) | HeadRead::OtherProtocol => PLAIN,
        HeadRead::Nothing | HeadRead::Closed => return thread.give_back(work),
    };
    let after = connection.refuse(&mut work, refusal).await;
    thread.give_back(work);
    if after == AfterResponse::Linger {
        connection.wire.linger().await;
    }
}

/// The refusal of a request in the clear.
pub(super) const PLAIN: Refusal = Refusal {
    status: Status::BAD_REQUEST,
    why: "the request is not encrypted, and the port is for https",
};
