//! The admin listener: metrics, state and health of the server for monitors and people, read-only.
//!
//! A thread of the front's own answers, with an event loop of its own: neither a slow monitor nor a
//! long list of sites delays a visitor's request. The supervisor, which has one thread and must
//! not wait, hands the questions of `howdah status --json` over to the same thread.

mod answer;
mod connection_limit;
mod http;

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as PlainUnixStream;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

pub(crate) use self::answer::{AdminAnswer, READING};
use self::connection_limit::ConnectionLimit;
use self::http::AdminStream;
use crate::front::{FrontShared, FrontStage};
use crate::net::{Listener, ListenerSocket};
use crate::status::Snapshot;

/// Connections that are served at once. Beyond, one is closed that has sent no request, or that
/// does not take its answer: scripts of a site reach a listener of this machine, and must not keep
/// monitors from it.
const MOST_CONNECTIONS: usize = 64;
/// Time in which the answer to `howdah status --json` must be taken.
const ANSWER_TIME: Duration = Duration::from_secs(30);
/// Pause after an error of accepting.
const PAUSE: Duration = Duration::from_millis(100);

/// The destination of questions of the control socket's clients.
pub(crate) type ControlQuestions = mpsc::UnboundedSender<ControlQuestion>;

/// A question of a client of the control socket.
#[derive(Debug)]
pub(crate) struct ControlQuestion {
    /// The connection to the client.
    pub(crate) client: OwnedFd,
    /// The bytes of a request that were read from the connection; `None` for
    /// `howdah status --json`.
    pub(crate) received: Option<Vec<u8>>,
}

/// The state that all connections of the admin listener share.
#[derive(Debug)]
struct Admin {
    shared: Arc<FrontShared>,
    stage: watch::Receiver<FrontStage>,
    limit: ConnectionLimit,
    /// Long texts, by their media type, with the time until which they are told again.
    recent: RefCell<HashMap<&'static str, (Instant, String)>>,
}

impl Admin {
    /// Returns whether the front answers visitors: its pools have started.
    fn has_started(&self) -> bool {
        *self.shared.has_started.borrow()
    }

    /// Returns whether this front accepts no more connections of visitors.
    fn is_draining(&self) -> bool {
        *self.stage.borrow() != FrontStage::Serving
    }

    fn snapshot(&self) -> Snapshot {
        let mut snapshot = Snapshot::of(&self.shared, self.is_draining());
        snapshot.measure_running();
        snapshot
    }
}

/// Starts the thread. It ends with the process.
///
/// # Errors
/// The thread cannot be started.
pub(crate) fn start(
    shared: Arc<FrontShared>,
    listeners: Vec<Listener>,
    stage: watch::Receiver<FrontStage>,
) -> io::Result<ControlQuestions> {
    let (questions, asked) = mpsc::unbounded_channel();
    let log = Arc::clone(&shared.log);
    let run = move || {
        if let Err(error) = run(shared, listeners, stage, asked) {
            let what = format!("the admin listener does not answer: {error}");
            log.say(crate::log::Level::Error, None, &what);
        }
    };
    std::thread::Builder::new().name("howdah-admin".to_owned()).spawn(run)?;
    Ok(questions)
}

fn run(
    shared: Arc<FrontShared>,
    listeners: Vec<Listener>,
    stage: watch::Receiver<FrontStage>,
    mut asked: mpsc::UnboundedReceiver<ControlQuestion>,
) -> io::Result<()> {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build_local(LocalOptions::default())?;
    runtime.block_on(async {
        let mut changes = stage.clone();
        let limit = ConnectionLimit::new(MOST_CONNECTIONS);
        // A former generation answers monitors while this one starts.
        let may_wait = shared.facts.generation > 1;
        let mut started = shared.has_started.subscribe();
        let admin = Rc::new(Admin {
            shared,
            stage,
            limit,
            recent: RefCell::default(),
        });
        let mut waiting = Some(listeners);
        let mut acceptors = Vec::new();
        loop {
            if (!may_wait || admin.has_started()) && !admin.is_draining() {
                for listener in waiting.take().into_iter().flatten() {
                    acceptors.push(accept(&admin, listener)?);
                }
            }
            tokio::select! {
                Ok(()) = started.changed() => {}
                question = asked.recv() => match question {
                    Some(asked) => drop(tokio::task::spawn_local(reply(admin.clone(), asked))),
                    None => return Ok(()),
                },
                Ok(()) = changes.changed() => {
                    // Another front serves the addresses. While the server stops none does, and
                    // monitors are told that it stops.
                    if *changes.borrow_and_update() == FrontStage::Draining {
                        acceptors.drain(..).for_each(|acceptor| acceptor.abort());
                    }
                }
            }
        }
    })
}

/// Accepts connections until the returned task is aborted.
fn accept(admin: &Rc<Admin>, listener: Listener) -> io::Result<JoinHandle<()>> {
    let admin = Rc::clone(admin);
    Ok(match listener.socket {
        ListenerSocket::Tcp(socket) => {
            let socket = TcpListener::from_std(socket)?;
            tokio::task::spawn_local(async move {
                loop {
                    match socket.accept().await {
                        Ok((stream, _)) => serve(&admin, stream, Vec::new()).await,
                        Err(_) => tokio::time::sleep(PAUSE).await,
                    }
                }
            })
        }
        ListenerSocket::Unix(socket) => {
            let socket = UnixListener::from_std(socket)?;
            tokio::task::spawn_local(async move {
                loop {
                    match socket.accept().await {
                        Ok((stream, _)) => serve(&admin, stream, Vec::new()).await,
                        Err(_) => tokio::time::sleep(PAUSE).await,
                    }
                }
            })
        }
    })
}

/// Starts to serve a connection from which `received` was read, when there is a place for it.
async fn serve<S: AdminStream + 'static>(admin: &Rc<Admin>, stream: S, received: Vec<u8>) {
    let place = admin.limit.enter().await;
    let admin = Rc::clone(admin);
    tokio::task::spawn_local(async move {
        http::serve(&admin, stream, received, place).await;
    });
}

/// Answers a client of the control socket.
async fn reply(admin: Rc<Admin>, ControlQuestion { client, received }: ControlQuestion) {
    let client = PlainUnixStream::from(client);
    let Ok(mut client) = client.set_nonblocking(true).and_then(|()| UnixStream::from_std(client))
    else {
        return;
    };
    if let Some(received) = received {
        return serve(&admin, client, received).await;
    }
    let Ok(json) = serde_json::to_string(&admin.snapshot()) else {
        return;
    };
    let answer = format!("ok\n{json}\n");
    // A client that is gone or does not read gets nothing.
    let _ = tokio::time::timeout(ANSWER_TIME, client.write_all(answer.as_bytes())).await;
}
