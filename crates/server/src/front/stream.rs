//! A script's response on its way to its client while it is being made.
//!
//! From the shared memory straight to the socket as long as the client takes it. What a slow client
//! leaves over goes into the [`Spool`] once the worker would have to wait, so the worker is free as
//! soon as its script is done.

use std::future::poll_fn;
use std::io;
use std::os::fd::AsFd;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use howdah_htaccess::modules::filter;
use howdah_http::h1::{Framing, LAST_CHUNK, encode_chunk_size};
use howdah_php::{Exchange, ExchangeError, Progress};
use tokio::io::Interest;

use super::connection::{After, Connection, Cut};
use super::filtered::{self, Chain};
use super::send::{Sent, some};
use super::spool::{self, Spool, SpoolLimits};
use super::trouble::Trouble;
use super::workspace::Workspace;

/// Bytes copied from the ring to the spool at a time.
const STEP: usize = 64 * 1024;
/// How long a script may pause before what it has said is pressed out of its filters, at the cost
/// of their effect.
pub(super) const PAUSE: Duration = Duration::from_millis(20);

/// A response in the making.
#[derive(Debug)]
pub(super) struct Stream {
    exchange: Exchange,
    spool: Spool,
    chunked: bool,
    /// Bytes of content that the head promised and that are still to come; `u64::MAX` if it
    /// promised none.
    left: u64,
    /// Bytes of content taken from the worker.
    taken: u64,
    ended: bool,
    /// What the content passes, and what has come out of it just now.
    filters: Option<(Chain, Vec<u8>)>,
    framing: Framing,
}

/// Why a stream stopped short.
enum Broken {
    Client(Cut),
    Script(ExchangeError),
    Spool(io::Error),
    Filter(filter::Broken),
    /// The script ended before it had sent what its Content-Length said.
    Short,
}

/// What a stream waited for.
enum Wake {
    News,
    Writable,
}

impl Stream {
    pub(super) fn new(exchange: Exchange, framing: Framing, limits: SpoolLimits) -> Stream {
        let left = if let Framing::Length(length) = framing {
            length
        } else {
            u64::MAX
        };
        let chunked = framing == Framing::Chunked;
        Stream {
            exchange,
            spool: Spool::new(limits),
            chunked,
            left,
            taken: 0,
            ended: false,
            filters: None,
            framing,
        }
    }

    /// Has the content pass filters. Its length must not have been told.
    pub(super) fn through(self, chain: Chain) -> Stream {
        Stream {
            filters: Some((chain, Vec::new())),
            ..self
        }
    }

    /// Sends the head in `work.out` and all that follows.
    pub(super) async fn send(
        mut self,
        connection: &mut Connection,
        work: &mut Workspace,
        after: After,
    ) -> Sent {
        let relayed = match self.filters.take() {
            None => self.relay(connection, work).await,
            Some((chain, made)) => self.relay_through(chain, made, connection, work).await,
        };
        connection.watch().disarm();
        let trouble = match relayed {
            Ok(()) => {
                // The worker is through: its slot goes back before a slow client has taken the
                // rest.
                drop(self.exchange);
                return Sent::new(self.taken, flush(self.spool, connection).await, after);
            }
            Err(Broken::Client(cut)) => return Sent::new(self.taken, Err(cut), after),
            Err(Broken::Script(failure)) => Trouble::response(connection, &work.request, failure),
            Err(Broken::Spool(error)) => {
                let why = format!("what a slow client has not taken yet cannot be stored: {error}");
                Trouble::server(connection, &work.request, &why)
            }
            Err(Broken::Filter(broken)) => Trouble::server(connection, &work.request, broken.0),
            Err(Broken::Short) => {
                let why =
                    "the script ended before it had sent as many bytes as its Content-Length says";
                Trouble::server(connection, &work.request, why)
            }
        };
        Sent::broken(self.taken, trouble)
    }

    /// Moves content until the worker has no more.
    async fn relay(
        &mut self,
        connection: &mut Connection,
        work: &mut Workspace,
    ) -> Result<(), Broken> {
        loop {
            let news = poll_fn(|context| Poll::Ready(self.exchange.poll_progress(context))).await;
            let news = news.map_err(Broken::Script)?;
            let wanted = news.available.min(usize::try_from(self.left).unwrap_or(usize::MAX));
            if wanted < news.available {
                // More than the head promised cannot be sent.
                self.skip_excess(news, wanted);
            }
            let may_spool = (news.full || news.complete) && self.spool.has_room();
            if self.spool.is_empty() && (wanted > 0 || !work.out.is_empty()) {
                self.send_directly(connection, work, wanted, news.complete)?;
            } else if wanted > 0 && may_spool {
                self.frame(work, wanted);
                let tail = self.tail(wanted, news.complete);
                self.spool_rest(work, 0, wanted, tail)?;
            } else if news.complete && wanted == 0 {
                return self.end();
            } else {
                self.wait(connection).await?;
            }
        }
    }

    /// Moves content through filters until the worker has no more. What comes out goes through the
    /// spool.
    async fn relay_through(
        &mut self,
        mut chain: Chain,
        mut made: Vec<u8>,
        connection: &mut Connection,
        work: &mut Workspace,
    ) -> Result<(), Broken> {
        self.spool.push(&work.out).map_err(Broken::Spool)?;
        let mut is_shown = true;
        loop {
            let news = poll_fn(|context| Poll::Ready(self.exchange.poll_progress(context))).await;
            let news = news.map_err(Broken::Script)?;
            let movable =
                self.spool.is_empty() || ((news.full || news.complete) && self.spool.has_room());
            if news.available > 0 && movable {
                work.out.resize(news.available.min(STEP), 0);
                let copied = self.exchange.copy(&mut work.out);
                self.exchange.consume(copied);
                chain.push(&work.out[..copied], &mut made).map_err(Broken::Filter)?;
                self.spool_made(&mut made, work)?;
                self.send_what_fits(connection)?;
                is_shown = false;
                // Compressing takes time: others have their turn.
                tokio::task::yield_now().await;
            } else if news.complete && news.available == 0 {
                chain.finish(&mut made).map_err(Broken::Filter)?;
                self.spool_made(&mut made, work)?;
                return self.end();
            } else if is_shown || !self.spool.is_empty() {
                self.wait(connection).await?;
            } else if let Ok(waited) = tokio::time::timeout(PAUSE, self.wait(connection)).await {
                waited?;
            } else {
                // The script takes its time: what it has said so far is to be seen.
                chain.flush(&mut made).map_err(Broken::Filter)?;
                self.spool_made(&mut made, work)?;
                self.send_what_fits(connection)?;
                is_shown = true;
            }
        }
    }

    fn spool_made(&mut self, made: &mut Vec<u8>, work: &mut Workspace) -> Result<(), Broken> {
        work.out.clear();
        filtered::frame(&mut work.out, made, self.framing);
        self.taken += made.len() as u64;
        made.clear();
        self.spool.push(&work.out).map_err(Broken::Spool)?;
        work.out.clear();
        Ok(())
    }

    fn send_what_fits(&mut self, connection: &Connection) -> Result<(), Broken> {
        if !self.spool.is_empty() && connection.watch().is_disarmed() {
            let patience = connection.thread().config().limits.send_timeout;
            connection.watch().arm(Instant::now(), patience);
        }
        self.send_spooled(connection)
    }

    /// One `writev`: what is in `work.out`, `length` bytes of the ring, the chunk's end. What the
    /// socket does not take is spooled.
    fn send_directly(
        &mut self,
        connection: &Connection,
        work: &mut Workspace,
        length: usize,
        complete: bool,
    ) -> Result<(), Broken> {
        self.frame(work, length);
        let tail = self.tail(length, complete);
        let stream = connection.stream();
        let sent = stream.try_io(Interest::WRITABLE, || {
            self.exchange.send(length, stream.as_fd(), &work.out, tail)
        });
        let sent = some(sent).map_err(Broken::Client)?;
        if sent == work.out.len() + length + tail.len() {
            work.out.clear();
            self.take(length);
            return Ok(());
        }
        self.spool_rest(work, sent, length, tail)?;
        let patience = connection.thread().config().limits.send_timeout;
        connection.watch().arm(Instant::now(), patience);
        Ok(())
    }

    /// Begins a chunk of `length` bytes in `work.out`.
    fn frame(&self, work: &mut Workspace, length: usize) {
        if self.chunked && length > 0 {
            encode_chunk_size(&mut work.out, length);
        }
    }

    /// What follows `length` bytes of content; with `complete` there is no more after them.
    fn tail(&mut self, length: usize, complete: bool) -> &'static [u8] {
        match (self.chunked && length > 0, complete) {
            (false, _) => b"",
            (true, false) => b"\r\n",
            (true, true) => {
                self.ended = true;
                b"\r\n0\r\n\r\n"
            }
        }
    }

    /// Spools `work.out`, `length` bytes of the ring and `tail`, but for their first `sent` bytes
    /// together.
    fn spool_rest(
        &mut self,
        work: &mut Workspace,
        sent: usize,
        length: usize,
        tail: &[u8],
    ) -> Result<(), Broken> {
        let head_sent = sent.min(work.out.len());
        self.spool.push(&work.out[head_sent..]).map_err(Broken::Spool)?;
        let ring_sent = (sent - head_sent).min(length);
        let tail_sent = sent - head_sent - ring_sent;
        self.take(ring_sent);
        work.out.clear();
        let mut left = length - ring_sent;
        while left > 0 {
            work.out.resize(left.min(STEP), 0);
            let copied = self.exchange.copy(&mut work.out);
            self.spool.push(&work.out[..copied]).map_err(Broken::Spool)?;
            self.take(copied);
            left -= copied;
        }
        work.out.clear();
        self.spool.push(&tail[tail_sent..]).map_err(Broken::Spool)
    }

    fn take(&mut self, length: usize) {
        self.exchange.consume(length);
        self.taken += length as u64;
        if self.left != u64::MAX {
            self.left -= length as u64;
        }
    }

    /// Once all that was promised is taken, throws away what comes on top of it.
    fn skip_excess(&mut self, news: Progress, wanted: usize) {
        if wanted == 0 {
            self.exchange.consume(news.available);
        }
    }

    /// The worker has no more: the end of the content.
    fn end(&mut self) -> Result<(), Broken> {
        if self.left != u64::MAX && self.left > 0 {
            return Err(Broken::Short);
        }
        if self.chunked && !self.ended {
            self.ended = true;
            self.spool.push(LAST_CHUNK).map_err(Broken::Spool)?;
        }
        Ok(())
    }

    /// Waits for the worker or for the socket, and sends what the socket takes.
    async fn wait(&mut self, connection: &Connection) -> Result<(), Broken> {
        match poll_fn(|context| self.poll_wake(connection, context)).await? {
            Wake::News => Ok(()),
            Wake::Writable => self.send_spooled(connection),
        }
    }

    fn poll_wake(
        &mut self,
        connection: &Connection,
        context: &mut Context<'_>,
    ) -> Poll<Result<Wake, Broken>> {
        if !self.spool.is_empty() {
            match connection.stream().poll_write_ready(context) {
                Poll::Ready(Ok(())) => return Poll::Ready(Ok(Wake::Writable)),
                Poll::Ready(Err(_)) => return Poll::Ready(Err(Broken::Client(Cut::Broken))),
                Poll::Pending if connection.watch().is_expired() => {
                    return Poll::Ready(Err(Broken::Client(Cut::TimedOut)));
                }
                Poll::Pending => {}
            }
        }
        let news = match self.exchange.poll_progress(context) {
            Ok(news) => news,
            Err(failure) => return Poll::Ready(Err(Broken::Script(failure))),
        };
        let movable =
            self.spool.is_empty() || ((news.full || news.complete) && self.spool.has_room());
        if (news.available > 0 && movable) || (news.complete && news.available == 0) {
            return Poll::Ready(Ok(Wake::News));
        }
        if connection.poll_broken(context) {
            return Poll::Ready(Err(Broken::Client(Cut::Broken)));
        }
        Poll::Pending
    }

    fn send_spooled(&mut self, connection: &Connection) -> Result<(), Broken> {
        while let Some(next) = self.spool.next() {
            match some(spool::send(&next, connection.stream())).map_err(Broken::Client)? {
                0 => return Ok(()),
                count => self.spool.advance(count),
            }
            let patience = connection.thread().config().limits.send_timeout;
            connection.watch().arm(Instant::now(), patience);
        }
        connection.watch().disarm();
        Ok(())
    }
}

/// Sends what is spooled to its end.
async fn flush(mut spool: Spool, connection: &mut Connection) -> Result<(), Cut> {
    connection
        .send_steps(|stream| {
            if let Some(next) = spool.next() {
                let count = spool::send(&next, stream)?;
                spool.advance(count);
            }
            Ok(spool.is_empty())
        })
        .await
}
