//! Accepting connections and giving each to a thread.
//!
//! All threads, and during a reload those of both generations, watch one listening socket with
//! `EPOLLEXCLUSIVE`: a connection wakes one thread that sleeps. A socket per thread
//! (`SO_REUSEPORT`) would lose the connections that wait in its queue when it is closed.

use std::fmt;
use std::io;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use howdah_config::ListenAddress;
use howdah_sys::poll;
use howdah_sys::readiness::Readable;
use pin_project_lite::pin_project;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::{AcceptedConnection, AcceptedStream, Listener, Peer, Transport, proxy_header};
use crate::front::FrontThread;
use crate::log::{ErrorLog, Level};
use crate::{protocols, tls};

/// The time that accepting pauses after an error, and at the limit of connections where no
/// connection of the thread is idle.
const PAUSE: Duration = Duration::from_millis(50);
/// Time for which further errors of accepting are counted instead of logged.
const COMPLAINTS: Duration = Duration::from_secs(60);

/// The errors of accepting connections of all threads. The first one is logged, those of the minute
/// after it are counted.
#[derive(Debug, Default)]
pub(crate) struct AcceptErrors(Mutex<ErrorCount>);

#[derive(Debug, Default)]
struct ErrorCount {
    /// The time of the error that was logged; `None` if its minute is over.
    logged: Option<Instant>,
    counted: u64,
    /// The reason of the last error that was counted.
    reason: String,
}

impl AcceptErrors {
    /// Returns whether an error is logged. Otherwise the error is counted, with its reason.
    fn admits(&self, now: Instant, reason: impl fmt::Display) -> bool {
        let mut count = self.lock();
        let is_logged = count.logged.is_none();
        match is_logged {
            true => count.logged = Some(now),
            false => {
                count.counted += 1;
                count.reason = reason.to_string();
            }
        }
        is_logged
    }

    /// Returns the number of errors that were counted in a minute that is over, with the last one's
    /// reason. `None`: there were none, or the minute is not over.
    fn take_count(&self, now: Instant) -> Option<(u64, String)> {
        let mut count = self.lock();
        if count.logged.is_none_or(|logged| now < logged + COMPLAINTS) {
            return None;
        }
        let ErrorCount { counted, reason, .. } = std::mem::take(&mut *count);
        (counted > 0).then_some((counted, reason))
    }

    /// Logs the number of errors that were counted, once their minute is over. To be called about
    /// once a second.
    pub(crate) fn report(&self, log: &ErrorLog, now: Instant) {
        if let Some((counted, reason)) = self.take_count(now) {
            let what = format!(
                "connections could not be accepted {counted} more times within a minute; the last \
                 reason: {reason}"
            );
            log.say(Level::Error, None, &what);
        }
    }

    fn lock(&self) -> MutexGuard<'_, ErrorCount> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FrontThread {
    /// Ends the accepting tasks, serves the connections that wait in the listeners' queues, and
    /// closes this thread's copies of the listeners.
    ///
    /// The order matters: a connection wakes only one of the threads that watch its listener. Once
    /// the tasks have ended, new connections wake others, and those that woke this thread are
    /// accepted here.
    pub(crate) async fn close(
        self: &Rc<Self>,
        acceptors: Vec<JoinHandle<()>>,
        listeners: Vec<Rc<Listener>>,
    ) {
        for acceptor in acceptors {
            acceptor.abort();
            // Cancelled, as requested above.
            let _ = acceptor.await;
        }
        for listener in listeners {
            while let Ok(accepted) = listener.accept(self.config()) {
                self.load().fetch_add(1, Ordering::Relaxed);
                self.spawn(accepted);
            }
        }
        self.note_closed();
    }

    /// Accepts the connections of one listener and gives each to the thread with the fewest
    /// connections.
    pub(crate) async fn accept(self: Rc<Self>, listener: Rc<Listener>) {
        let address = &listener.address;
        let readable = match Readable::exclusive(listener.as_fd()) {
            Ok(readable) => readable,
            Err(error) => {
                let what = format!("cannot watch the listener on {address}: {error}");
                return self.shared.log.say(Level::Error, None, &what);
            }
        };
        let mut turn = AcceptTurn::default();
        while let Ok(mut ready) = readable.ready().await {
            if self.connections() >= self.shared.most_connections {
                if !is_waiting(&*listener) {
                    ready.clear_ready();
                    continue;
                }
                match self.make_room() {
                    // Those that were told to end do so now.
                    true => tokio::task::yield_now().await,
                    false => {
                        tokio::time::sleep(PAUSE).await;
                        self.complain_of_limit();
                    }
                }
                if self.connections() >= self.shared.most_connections {
                    continue;
                }
            }
            match listener.accept(self.config()) {
                Ok(accepted) => {
                    self.place(accepted);
                    turn.take().await;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready.clear_ready(),
                // The client closed the connection before it was accepted.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    self.complain(address, &error);
                    self.make_room();
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    /// Logs an error of accepting, unless a thread has done so lately.
    fn complain(&self, address: &ListenAddress, error: &io::Error) {
        if self
            .shared
            .accept_errors
            .admits(Instant::now(), format_args!("{address}: {error}"))
        {
            let what = format!(
                "cannot accept connections on {address}: {error}; trying again; further errors of \
                 a minute are counted"
            );
            self.shared.log.say(Level::Error, None, &what);
        }
    }

    /// Logs that new connections wait, if the other threads have made no room either, unless a
    /// thread has done so lately.
    pub(crate) fn complain_of_limit(&self) {
        let most = self.shared.most_connections;
        let reason = "too many connections are open (`connections` of `[limits]`)";
        let errors = &self.shared.accept_errors;
        if self.connections() >= most && errors.admits(Instant::now(), reason) {
            let what = format!(
                "new connections wait: {most} are open, as many as `connections` of `[limits]` \
                 allows, and too few of them are idle; raise `connections` if there is memory, or \
                 lower `client_connections`; further errors of a minute are counted"
            );
            self.shared.log.say(Level::Warning, None, &what);
        }
    }

    fn place(self: &Rc<Self>, accepted: AcceptedConnection) {
        let own = self.load().load(Ordering::Relaxed);
        let least = self
            .shared
            .loads
            .iter()
            .enumerate()
            .min_by_key(|(_, load)| load.load(Ordering::Relaxed));
        let target = match least {
            Some((number, load)) if load.load(Ordering::Relaxed) + 1 < own.max(1) => number,
            _ => self.number,
        };
        self.shared.loads[target].fetch_add(1, Ordering::Relaxed);
        if target == self.number {
            self.spawn(accepted);
        } else if let Err(mpsc::error::SendError(accepted)) =
            self.shared.inboxes[target].send(accepted)
        {
            self.shared.loads[target].fetch_sub(1, Ordering::Relaxed);
            self.load().fetch_add(1, Ordering::Relaxed);
            self.spawn(accepted);
        }
    }

    /// Serves a connection that is counted already.
    pub(crate) fn spawn(self: &Rc<Self>, accepted: AcceptedConnection) {
        let (thread, counted) = (self.clone(), ThreadConnection(self.clone()));
        self.counters().count_connection();
        let AcceptedConnection { stream, peer } = accepted;
        let peer = Rc::new(peer);
        let spawned = match stream {
            AcceptedStream::Tcp(stream) if peer.is_on_tls => stream
                .set_nonblocking(true)
                .and_then(|()| tokio::net::TcpStream::from_std(stream))
                .map(|stream| spawn(thread, serve_encrypted(counted, stream, peer))),
            AcceptedStream::Tcp(stream) => stream
                .set_nonblocking(true)
                .and_then(|()| tokio::net::TcpStream::from_std(stream))
                .map(|stream| spawn(thread, serve_plain(counted, stream, peer))),
            AcceptedStream::Unix(stream) => stream
                .set_nonblocking(true)
                .and_then(|()| tokio::net::UnixStream::from_std(stream))
                .map(|stream| spawn(thread, serve_plain(counted, stream, peer))),
        };
        if let Err(error) = spawned {
            let what = format!("cannot serve a connection: {error}");
            self.shared.log.say(Level::Error, None, &what);
        }
    }
}

/// The connections that a thread begins before it looks at those that it has.
#[derive(Debug, Default)]
pub(crate) struct AcceptTurn(u32);

impl AcceptTurn {
    /// Counts a connection. Beyond [`AT_ONCE`] it lets the event loop take a turn.
    pub(crate) async fn take(&mut self) {
        self.0 += 1;
        if self.0.is_multiple_of(AT_ONCE) {
            tokio::task::yield_now().await;
        }
    }
}

/// Connections that begin in one turn of the event loop. Eight handshakes take some milliseconds,
/// and thousands that arrive at once would hold up all requests for half a second.
const AT_ONCE: u32 = 8;

/// Returns whether a connection waits to be accepted.
fn is_waiting(listener: &impl AsFd) -> bool {
    poll::readable(&[listener.as_fd()], Some(Duration::ZERO)).is_ok_and(|ready| ready == [true])
}

/// Serves a connection without encryption.
async fn serve_plain<T: Transport>(counted: ThreadConnection, stream: T, peer: Rc<Peer>) {
    let thread = &counted.0;
    let Some((stream, peer)) = named(thread, stream, peer).await else {
        return;
    };
    let Ok(_admitted) = thread.admit_connection(&peer) else {
        return;
    };
    protocols::serve_plain(thread.clone(), stream, peer).await;
}

/// Serves a connection on a listener with TLS.
async fn serve_encrypted(counted: ThreadConnection, stream: TcpStream, peer: Rc<Peer>) {
    let thread = &counted.0;
    let Some((stream, peer)) = named(thread, stream, peer).await else {
        return;
    };
    let Ok(_admitted) = thread.admit_connection(&peer) else {
        return;
    };
    match Box::pin(tls::is_hello(thread, &stream)).await {
        None => return,
        Some(false) => {
            return Box::pin(protocols::refuse_plain(thread.clone(), stream, peer)).await;
        }
        Some(true) => {}
    }
    let Some((stream, peer)) = Box::pin(tls::accept(thread, stream, &peer)).await else {
        return;
    };
    protocols::serve_encrypted(thread.clone(), stream, Rc::new(peer)).await;
}

/// Starts a connection's task.
fn spawn(thread: Rc<FrontThread>, connection: impl Future<Output = ()> + 'static) {
    tokio::task::spawn_local(ConnectionTask { thread, connection });
}

pin_project! {
    /// A connection's task. Each time that it runs, the thread may look for responses of workers.
    ///
    /// A type of its own, because an `async` block would keep room for the connection twice.
    struct ConnectionTask<F> {
        thread: Rc<FrontThread>,
        #[pin]
        connection: F,
    }
}

impl<F: Future<Output = ()>> Future for ConnectionTask<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let task = self.project();
        task.thread.look_for_responses();
        task.connection.poll(context)
    }
}

/// Returns the connection, and the peer as the listener's PROXY protocol names it, where the
/// listener expects one. `None`: the connection is to be closed.
async fn named<T: Transport>(
    thread: &Rc<FrontThread>,
    mut stream: T,
    peer: Rc<Peer>,
) -> Option<(T, Rc<Peer>)> {
    if !peer.has_proxy_header {
        return Some((stream, peer));
    }
    // On the heap: the connection's task keeps no room for what happens once.
    let named = Box::pin(proxy_header::receive(thread, &mut stream, &peer)).await?;
    Some((stream, Rc::new(named)))
}

/// A connection in its thread's count, also if serving it panics.
pub(crate) struct ThreadConnection(pub(crate) Rc<FrontThread>);

impl Drop for ThreadConnection {
    fn drop(&mut self) {
        self.0.load().fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::Waker;

    use super::*;

    /// The bytes of a connection's task.
    fn task_size<T, F>(_: fn(ThreadConnection, T, Rc<Peer>) -> F) -> usize {
        size_of::<ConnectionTask<F>>()
    }

    #[test]
    fn an_idle_connection_costs_no_more_than_its_state() {
        // Tokio puts 128 bytes before a task, and rounds the sum up to a multiple of 128.
        let sizes = [
            ("TCP", task_size(serve_plain::<TcpStream>), 512),
            ("a Unix socket", task_size(serve_plain::<tokio::net::UnixStream>), 512),
            ("TLS", task_size(serve_encrypted), 640),
        ];
        for (what, size, most) in sizes {
            assert!(size <= most, "{size} bytes for a connection over {what}");
        }
    }

    #[test]
    fn the_event_loop_takes_a_turn_after_some_connections() {
        let mut turn = AcceptTurn::default();
        let mut context = Context::from_waker(Waker::noop());
        let waits: Vec<bool> = (0..2 * AT_ONCE)
            .map(|_| pin!(turn.take()).poll(&mut context).is_pending())
            .collect();
        let expected: Vec<bool> = (1..=2 * AT_ONCE).map(|number| number % AT_ONCE == 0).collect();
        assert_eq!(waits, expected);
    }

    #[test]
    fn of_the_errors_of_all_threads_one_is_logged_in_a_minute_and_the_others_are_counted() {
        let (errors, start) = (AcceptErrors::default(), Instant::now());
        let tried = |number: u32| start + COMPLAINTS / 1000 * number;
        let logged: usize = std::thread::scope(|scope| {
            let of_thread =
                || (0..1000).filter(|&number| errors.admits(tried(number), number)).count();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(of_thread)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(logged, 1);
        assert_eq!(errors.take_count(start), None, "the minute is not over");
        assert_eq!(errors.take_count(tried(2000)), Some((3999, "999".to_owned())));
        assert_eq!(errors.take_count(tried(4000)), None);
        assert!(errors.admits(tried(4000), ""), "the next one is told at once");
        assert_eq!(errors.take_count(tried(6000)), None, "there was only one");
    }
}
