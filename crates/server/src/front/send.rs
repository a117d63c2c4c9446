//! Sending an answer over HTTP/1.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::os::fd::AsFd;
use std::task::Poll;

use howdah_files::OpenFile;
use howdah_htaccess::modules::filter::Filter;
use howdah_http::h1::{Framing, encode_head};
use howdah_http::{Method, ResponseHead, Status};
use howdah_php::{Exchange, Progress};

use super::answer::{Answer, Body, Head};
use super::connection::{After, Connection, Cut};
use super::filtered::{self, Chain};
use super::phase::Phase;
use super::stream::Stream;
use super::trouble::Trouble;
use super::upstream;
use super::workspace::Workspace;

/// A body up to this size is copied behind its head: one plain `write` is then cheaper than
/// gathering.
const COPIED: usize = 4096;
/// A script's whole response up to this size is copied out, so that its slot is free before the
/// client has it.
const WHOLE: usize = 64 * 1024;

/// How sending went.
#[derive(Debug)]
pub(super) struct Sent {
    /// Bytes of content that went out.
    pub(super) bytes: u64,
    /// All of it did.
    pub(super) complete: bool,
    pub(super) after: After,
    pub(super) trouble: Option<Trouble>,
}

impl Sent {
    pub(super) fn new(bytes: u64, result: Result<(), Cut>, after: After) -> Sent {
        let complete = result.is_ok();
        Sent {
            bytes,
            complete,
            after: if complete { after } else { After::Close },
            trouble: None,
        }
    }

    /// The response broke off: the client must see that, so the connection ends without the end of
    /// the content.
    pub(super) fn broken(bytes: u64, trouble: Trouble) -> Sent {
        Sent {
            bytes,
            complete: false,
            after: After::Close,
            trouble: Some(trouble),
        }
    }
}

/// Sends `answer` to the request in `work`. `persistent`: the client wants the connection to go on.
pub(super) async fn send(
    connection: &mut Connection,
    work: &mut Workspace,
    answer: Answer,
    persistent: bool,
) -> Sent {
    connection.set_phase(Phase::Sending);
    work.out.clear();
    let asks_to_close = matches!(&answer.head, Head::Plain(head) if head.asks_to_close());
    let persistent = persistent && connection.may_persist() && !asks_to_close;
    match (answer.head, answer.body) {
        (Head::Plain(head), Body::Script(exchange)) => {
            send_script(connection, work, &head, exchange, &answer.filters, persistent).await
        }
        (Head::Plain(head), Body::Upstream(reply)) => {
            upstream::send(connection, work, &head, *reply, &answer.filters, persistent).await
        }
        (head, body) if !answer.filters.is_empty() => {
            let answer = Answer { head, body, ..answer };
            Box::pin(filtered::send(connection, work, answer, persistent)).await
        }
        (head, body) => {
            let after = after(connection, persistent);
            let has_content = encode(connection, work, &head, &body, after == After::Next);
            let body = if has_content { body } else { Body::none() };
            send_body(connection, work, &body, after).await
        }
    }
}

/// Sends an answer to a head that was refused, after which nothing is known of the connection.
pub(super) async fn send_refusal(
    connection: &mut Connection,
    work: &mut Workspace,
    answer: Answer,
) -> After {
    work.request.reset();
    let sent = send(connection, work, answer, false).await;
    if sent.complete { After::Linger } else { After::Close }
}

/// Sends an interim response (RFC 9110 §15.2). A client that is gone is noticed with the response
/// itself.
pub(super) async fn send_interim(
    connection: &mut Connection,
    work: &mut Workspace,
    head: &ResponseHead,
) {
    work.out.clear();
    encode_head(&mut work.out, work.request.version, head, Framing::None, true, b"");
    let _ = connection.write_all(&work.out).await;
}

/// What comes after a response that went out whole.
pub(super) fn after(connection: &Connection, persistent: bool) -> After {
    match (persistent, connection.is_content_done()) {
        (true, _) => After::Next,
        (false, true) => After::Close,
        (false, false) => After::Linger,
    }
}

/// Encodes the head of an answer whose length is known. Says whether content follows.
fn encode(
    connection: &Connection,
    work: &mut Workspace,
    head: &Head,
    body: &Body,
    persistent: bool,
) -> bool {
    let date = connection.thread().date();
    let Workspace { out, request, .. } = work;
    match head {
        Head::Plain(head) => {
            let framing = Framing::of(&request.method, request.version, head.status, body.length());
            encode_head(out, request.version, head, framing, persistent, &date);
            framing.has_content()
        }
        Head::Prepared(prepared) => {
            out.extend_from_slice(prepared);
            out.extend_from_slice(b"Date: ");
            out.extend_from_slice(&date);
            out.extend_from_slice(match (persistent, request.version) {
                (false, _) => b"\r\nConnection: close\r\n\r\n",
                (true, howdah_http::Version::Http10) => b"\r\nConnection: keep-alive\r\n\r\n",
                (true, _) => b"\r\n\r\n",
            });
            true
        }
    }
}

/// Sends what is in `work.out` and then `body`.
async fn send_body(
    connection: &mut Connection,
    work: &mut Workspace,
    body: &Body,
    after: After,
) -> Sent {
    let length = body.length().unwrap_or(0);
    let result = match body {
        Body::Memory(bytes, range) => {
            send_memory(connection, &mut work.out, &bytes[range.clone()]).await
        }
        Body::File { file, offset, length } => {
            let part = OpenPart { file, offset: *offset, length: *length };
            send_file(connection, &work.out, part).await
        }
        Body::Pieces(pieces) => send_pieces(connection, work, pieces).await,
        Body::Script(_) | Body::Upstream(_) => Ok(()),
    };
    match result {
        Ok(()) => Sent::new(length, Ok(()), after),
        Err(SendError::Cut(cut)) => Sent::new(0, Err(cut), after),
        Err(SendError::Shrunk) => {
            let why = "the file became shorter while it was sent; the connection was closed in the middle of it";
            Sent::broken(0, Trouble::server(connection, &work.request, why))
        }
    }
}

async fn send_pieces(
    connection: &mut Connection,
    work: &mut Workspace,
    pieces: &[Body],
) -> Result<(), SendError> {
    if pieces.is_empty() {
        return Ok(connection.write_all(&work.out).await?);
    }
    for piece in pieces {
        match piece {
            Body::Memory(bytes, range) => {
                send_memory(connection, &mut work.out, &bytes[range.clone()]).await?
            }
            Body::File { file, offset, length } => {
                let part = OpenPart { file, offset: *offset, length: *length };
                send_file(connection, &work.out, part).await?;
            }
            Body::Pieces(_) | Body::Script(_) | Body::Upstream(_) => {}
        }
        work.out.clear();
    }
    Ok(())
}

async fn send_memory(
    connection: &mut Connection,
    out: &mut Vec<u8>,
    body: &[u8],
) -> Result<(), SendError> {
    if body.len() <= COPIED {
        out.extend_from_slice(body);
        return Ok(connection.write_all(out).await?);
    }
    let mut sent = 0_usize;
    let total = out.len() + body.len();
    let sending = connection.send_steps(|stream| {
        let parts = match sent.checked_sub(out.len()) {
            None => [IoSlice::new(&out[sent..]), IoSlice::new(body)],
            Some(past) => [IoSlice::new(&body[past..]), IoSlice::new(&[])],
        };
        sent += stream.try_write_vectored(&parts)?;
        Ok(sent == total)
    });
    Ok(sending.await?)
}

/// Part of an open file.
struct OpenPart<'f> {
    file: &'f OpenFile,
    offset: u64,
    length: u64,
}

async fn send_file(
    connection: &mut Connection,
    out: &[u8],
    part: OpenPart<'_>,
) -> Result<(), SendError> {
    let OpenPart { file, mut offset, length } = part;
    let end = offset + length;
    let (mut head_sent, mut shrunk) = (0, false);
    let sending = connection.send_steps(|stream| {
        if head_sent < out.len() {
            // The head waits in the socket for the first bytes of the file: one packet for both.
            head_sent += stream.try_io(tokio::io::Interest::WRITABLE, || {
                howdah_sys::socket::send_more(stream.as_fd(), &out[head_sent..])
            })?;
            return Ok(head_sent == out.len() && length == 0);
        }
        let sent = stream.try_io(tokio::io::Interest::WRITABLE, || {
            file.send(stream.as_fd(), offset, end - offset)
        })?;
        offset += sent as u64;
        shrunk = sent == 0;
        Ok(shrunk || offset == end)
    });
    sending.await?;
    if shrunk { Err(SendError::Shrunk) } else { Ok(()) }
}

enum SendError {
    Cut(Cut),
    Shrunk,
}

impl From<Cut> for SendError {
    fn from(cut: Cut) -> SendError {
        SendError::Cut(cut)
    }
}

/// Sends a script's response: at once if it is whole and small, else as it comes.
async fn send_script(
    connection: &mut Connection,
    work: &mut Workspace,
    head: &ResponseHead,
    mut exchange: Exchange,
    filters: &[Filter],
    persistent: bool,
) -> Sent {
    let news = match poll_fn(|context| Poll::Ready(exchange.poll_progress(context))).await {
        Ok(news) => news,
        Err(failure) => {
            // Nothing was sent yet, so the client can still be told.
            let trouble = Trouble::response(connection, &work.request, failure);
            let answer = Answer::error(trouble.status.unwrap_or(Status::BAD_GATEWAY));
            drop(exchange);
            let mut sent = Box::pin(send(connection, work, answer, persistent)).await;
            sent.trouble = Some(trouble);
            return sent;
        }
    };
    if !filters.is_empty() {
        return send_filtered(connection, work, head, exchange, filters, persistent, news).await;
    }
    let is_head = work.request.method == Method::Head;
    let length = match head.content_length() {
        // What a complete response says of its own length may be wrong; what is there is not.
        _ if news.complete && !is_head => Some(news.available as u64),
        declared => declared,
    };
    let framing = Framing::of(&work.request.method, work.request.version, head.status, length);
    let date = connection.thread().date();
    encode_head(&mut work.out, work.request.version, head, framing, persistent, &date);
    let after = after(connection, persistent && framing != Framing::Close);
    if !framing.has_content() {
        // HEAD, 204, 304: the script runs on, its output is not wanted.
        exchange.detach();
        return Sent::new(0, connection.write_all(&work.out).await, after);
    }
    if news.complete && news.available <= WHOLE {
        let start = work.out.len();
        work.out.resize(start + news.available, 0);
        exchange.copy(&mut work.out[start..]);
        exchange.consume(news.available);
        drop(exchange);
        return Sent::new(news.available as u64, connection.write_all(&work.out).await, after);
    }
    Stream::new(exchange, framing, connection.thread().spill())
        .send(connection, work, after)
        .await
}

/// Sends a script's response through filters: at once if it is whole and small, else as it comes.
async fn send_filtered(
    connection: &mut Connection,
    work: &mut Workspace,
    head: &ResponseHead,
    mut exchange: Exchange,
    filters: &[Filter],
    persistent: bool,
    news: Progress,
) -> Sent {
    let mut chain = Chain::new(filters);
    let is_whole = news.complete && news.available <= WHOLE && work.request.method != Method::Head;
    let mut content = Vec::new();
    if is_whole {
        let mut made = vec![0; news.available];
        exchange.copy(&mut made);
        exchange.consume(news.available);
        let passed = chain.push(&made, &mut content).and_then(|()| chain.finish(&mut content));
        if let Err(broken) = passed {
            return Sent::broken(0, Trouble::server(connection, &work.request, broken.0));
        }
    }
    let length = is_whole.then_some(content.len() as u64);
    let framing = Framing::of(&work.request.method, work.request.version, head.status, length);
    let date = connection.thread().date();
    encode_head(&mut work.out, work.request.version, head, framing, persistent, &date);
    let after = after(connection, persistent && framing != Framing::Close);
    if !framing.has_content() {
        exchange.detach();
        return Sent::new(0, connection.write_all(&work.out).await, after);
    }
    if is_whole {
        drop(exchange);
        work.out.extend_from_slice(&content);
        return Sent::new(content.len() as u64, connection.write_all(&work.out).await, after);
    }
    Stream::new(exchange, framing, connection.thread().spill())
        .through(chain)
        .send(connection, work, after)
        .await
}

/// Writes what the socket takes right now; 0 if nothing.
pub(super) fn some(result: io::Result<usize>) -> Result<usize, Cut> {
    match result {
        Ok(count) => Ok(count),
        Err(error)
            if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) =>
        {
            Ok(0)
        }
        Err(_) => Err(Cut::Broken),
    }
}
