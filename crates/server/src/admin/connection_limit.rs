//! The connections of the admin listener: how many there may be, and which gives its place up.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::time::Duration;

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

/// Time in which a client takes the first bytes of its answer, and which it may be late with the
/// further ones, before its place can be given to another. An answer that fits into the socket's
/// buffer, as `/readyz` does, needs no time.
const GRACE: Duration = Duration::from_millis(50);
/// Bytes that a client takes in a second. A slower one keeps its place as long as nobody needs the
/// place. One that takes a byte now and then gains nothing.
const PACE: f64 = (16 << 20) as f64;

/// The connections that are served.
#[derive(Debug, Clone)]
pub(super) struct ConnectionLimit(Rc<ConnectionLimitState>);

#[derive(Debug)]
struct ConnectionLimitState {
    most: usize,
    count: Cell<usize>,
    /// The connections that have not been told to end, the oldest first.
    open: RefCell<Vec<OpenConnection>>,
    next: Cell<u64>,
    left: Notify,
}

#[derive(Debug)]
struct OpenConnection {
    number: u64,
    /// The time from which on the client takes its answer too slowly; for one that has not asked,
    /// the time at which it came.
    late: Instant,
    /// Dropping it tells the connection to end.
    _needed: oneshot::Sender<()>,
}

/// The place of a connection, until dropped.
#[derive(Debug)]
pub(super) struct AdminPlace {
    limit: Rc<ConnectionLimitState>,
    number: u64,
    /// Ends when the place is needed for another connection.
    needed: oneshot::Receiver<()>,
}

impl ConnectionLimit {
    /// Room for `most` connections.
    pub(super) fn new(most: usize) -> ConnectionLimit {
        ConnectionLimit(Rc::new(ConnectionLimitState {
            most,
            count: Cell::new(0),
            open: RefCell::default(),
            next: Cell::new(0),
            left: Notify::new(),
        }))
    }

    /// Takes a place. Where there is none, the connection gives up its own whose client has been
    /// late for the longest time, with asking or with taking its answer.
    pub(super) async fn enter(&self) -> AdminPlace {
        let limit = &self.0;
        while limit.count.get() >= limit.most {
            match limit.make_room(Instant::now()) {
                None => limit.left.notified().await,
                Some(late) => {
                    // Then it is tried again.
                    let _ = tokio::time::timeout_at(late, limit.left.notified()).await;
                }
            }
        }
        limit.count.set(limit.count.get() + 1);
        let number = limit.next.replace(limit.next.get() + 1);
        let (sender, needed) = oneshot::channel();
        let open = OpenConnection {
            number,
            late: Instant::now(),
            _needed: sender,
        };
        limit.open.borrow_mut().push(open);
        AdminPlace { limit: Rc::clone(limit), number, needed }
    }
}

impl ConnectionLimitState {
    /// Tells a connection to end. Returns the time at which one can be told, if none can be now;
    /// `None`: one was told, or all are ending.
    fn make_room(&self, now: Instant) -> Option<Instant> {
        let mut open = self.open.borrow_mut();
        let all = open.iter().map(|one| one.late).enumerate();
        let (position, late) = all.min_by_key(|(_, late)| *late)?;
        if late > now {
            return Some(late);
        }
        open.remove(position);
        None
    }
}

impl AdminPlace {
    /// Waits for the request. `None`: the place is needed for another connection.
    pub(super) async fn hear<T>(&mut self, request: impl Future<Output = T>) -> Option<T> {
        let heard = tokio::select! {
            // A request that is there is answered.
            biased;
            heard = request => heard,
            _ = &mut self.needed => return None,
        };
        self.set_late(Instant::now() + GRACE);
        Some(heard)
    }

    /// Sends the answer. `None`: the client has not taken it in time, and the place is needed for
    /// another connection.
    pub(super) async fn send<S>(&mut self, stream: &mut S, answer: &[u8]) -> Option<io::Result<()>>
    where
        S: AsyncWrite + Unpin,
    {
        let mut late = Instant::now() + GRACE;
        let mut rest = answer;
        while !rest.is_empty() {
            self.set_late(late);
            let written = tokio::select! {
                biased;
                written = stream.write(rest) => written,
                _ = &mut self.needed => return None,
            };
            match written {
                Ok(0) => return Some(Err(io::ErrorKind::WriteZero.into())),
                Ok(count) => {
                    rest = &rest[count..];
                    late += Duration::from_secs_f64(count as f64 / PACE);
                }
                Err(error) => return Some(Err(error)),
            }
        }
        Some(stream.shutdown().await)
    }

    fn set_late(&self, late: Instant) {
        let mut open = self.limit.open.borrow_mut();
        let own = open.iter_mut().find(|one| one.number == self.number);
        own.into_iter().for_each(|own| own.late = late);
    }
}

impl Drop for AdminPlace {
    fn drop(&mut self) {
        self.limit.open.borrow_mut().retain(|one| one.number != self.number);
        self.limit.count.set(self.limit.count.get() - 1);
        self.limit.left.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use tokio::io::{AsyncReadExt, duplex};

    use super::*;

    #[tokio::test]
    async fn the_oldest_silent_connection_gives_its_place_up() {
        let limit = ConnectionLimit::new(2);
        let mut asking = limit.enter().await;
        assert_eq!(asking.hear(ready(1)).await, Some(1));
        let mut silent = limit.enter().await;
        let ends = async {
            assert_eq!(silent.hear(pending::<()>()).await, None);
            drop(silent);
        };
        let ((), last) = tokio::join!(ends, limit.enter());
        drop((asking, last));
        assert_eq!((limit.0.count.get(), limit.0.open.borrow().len()), (0, 0));
    }

    #[tokio::test]
    async fn of_those_that_have_asked_the_latest_client_gives_its_place_up() {
        let limit = ConnectionLimit::new(2);
        let answer = vec![b'x'; 1 << 20];
        let (mut dripping, mut of_dripping) = duplex(16);
        let (mut deaf, _of_deaf) = duplex(1024);
        let (mut first, mut second) = (limit.enter().await, limit.enter().await);
        first.hear(ready(())).await;
        second.hear(ready(())).await;
        let drip = async {
            loop {
                tokio::time::sleep(GRACE / 2).await;
                if of_dripping.read_u8().await.is_err() {
                    return;
                }
            }
        };
        let sent = async {
            assert!(second.send(&mut deaf, &answer).await.is_none());
            drop(second);
        };
        let dripped = async {
            assert!(first.send(&mut dripping, &answer).await.is_none());
            drop((first, dripping));
        };
        let entered = async { (limit.enter().await, limit.enter().await) };
        tokio::join!(drip, sent, dripped, entered);
    }

    #[tokio::test]
    async fn an_answer_that_is_taken_at_once_keeps_its_place() {
        let limit = ConnectionLimit::new(1);
        let mut asking = limit.enter().await;
        asking.hear(ready(())).await;
        let (mut ours, mut theirs) = duplex(64);
        let reads = async {
            let mut answer = Vec::new();
            theirs.read_to_end(&mut answer).await.unwrap();
            answer.len()
        };
        let sends = async {
            assert!(asking.send(&mut ours, &[b'x'; 4096]).await.unwrap().is_ok());
            drop(asking);
        };
        let ((), length, _next) = tokio::join!(sends, reads, limit.enter());
        assert_eq!(length, 4096);
    }
}
