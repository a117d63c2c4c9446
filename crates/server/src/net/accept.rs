//! Accepting connections and giving each to a thread.
//!
//! All threads, and during a reload those of both generations, watch one listening socket with
//! `EPOLLEXCLUSIVE`: a connection wakes one thread that sleeps. A socket per thread
//! (`SO_REUSEPORT`) would lose the connections that wait in its queue when it is closed.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use howdah_sys::readiness::Readable;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::Peer;
use crate::front::{Listener, Thread};
use crate::h1;
use crate::log::Level;

/// How long accepting pauses at the limit of connections. After an error it pauses ten times as
/// long.
const PAUSE: Duration = Duration::from_millis(50);

impl Thread {
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
        for (listener, address) in listeners.iter().map(Rc::as_ref) {
            while let Ok((stream, remote)) = listener.accept() {
                self.load().fetch_add(1, Ordering::Relaxed);
                let local = local_address(&stream, *address);
                self.spawn(stream, remote, local);
            }
        }
    }

    /// Accepts the connections of one listener and gives each to the thread with the fewest
    /// connections.
    pub(crate) async fn accept(self: Rc<Self>, listener: Rc<Listener>) {
        let (listener, address) = &*listener;
        let Ok(readable) = Readable::exclusive(listener.as_fd()) else {
            return self.shared.log.say(
                Level::Error,
                None,
                &format!("cannot watch the listener on {address}"),
            );
        };
        while let Ok(mut ready) = readable.ready().await {
            if self.connections() >= self.shared.config.limits.connections {
                tokio::time::sleep(PAUSE).await;
                continue;
            }
            match listener.accept() {
                Ok((stream, remote)) => self.place(stream, remote, *address),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready.clear_ready(),
                // The client closed the connection before it was accepted.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    let what =
                        format!("cannot accept connections on {address}: {error}; trying again");
                    self.shared.log.say(Level::Error, None, &what);
                    tokio::time::sleep(PAUSE * 10).await;
                }
            }
        }
    }

    fn connections(&self) -> usize {
        self.shared.loads.iter().map(|load| load.load(Ordering::Relaxed)).sum()
    }

    fn place(self: &Rc<Self>, stream: TcpStream, remote: SocketAddr, listener: SocketAddr) {
        let local = local_address(&stream, listener);
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
            self.spawn(stream, remote, local);
        } else if let Err(mpsc::error::SendError((stream, remote, local))) =
            self.shared.inboxes[target].send((stream, remote, local))
        {
            self.shared.loads[target].fetch_sub(1, Ordering::Relaxed);
            self.load().fetch_add(1, Ordering::Relaxed);
            self.spawn(stream, remote, local);
        }
    }

    /// Serves a connection that is counted already.
    pub(crate) fn spawn(self: &Rc<Self>, stream: TcpStream, remote: SocketAddr, local: SocketAddr) {
        let counted = Counted(self.clone());
        let stream = stream
            .set_nonblocking(true)
            .and_then(|()| tokio::net::TcpStream::from_std(stream));
        match stream {
            Ok(stream) => {
                tokio::task::spawn_local(async move {
                    h1::run(counted.0.clone(), stream, Peer { remote, local }).await;
                    drop(counted);
                });
            }
            Err(error) => self.shared.log.say(
                Level::Error,
                None,
                &format!("cannot serve a connection: {error}"),
            ),
        }
    }
}

/// The address that a client has connected to.
fn local_address(stream: &TcpStream, listener: SocketAddr) -> SocketAddr {
    if listener.ip().is_unspecified() {
        stream.local_addr().unwrap_or(listener)
    } else {
        listener
    }
}

/// A connection in its thread's count, also if serving it panics.
struct Counted(Rc<Thread>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.load().fetch_sub(1, Ordering::Relaxed);
    }
}
