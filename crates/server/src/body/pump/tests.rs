//! The pump between a source and a sink that do what a test says.

mod filters;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use howdah_config::Config;
use howdah_files::FileStore;
use howdah_htaccess::modules::filter::{Filter, InflateLimits};
use howdah_http::{ResponseHead, Status};
use tokio::runtime::Builder;
use tokio::sync::Semaphore;

use super::*;
use crate::body::Unchunked;
use crate::body::storage::{Storage, StorageLimits};
use crate::crew::{Crew, QueueBounds};
use crate::net::Clients;
use crate::pipeline::ResponseHeadSource;

/// A source that takes its turns one after the other.
#[derive(Debug, Default)]
struct Scripted {
    turns: VecDeque<Turn>,
    ready: Vec<u8>,
    is_last: bool,
    is_urgent: bool,
    is_released: Rc<Cell<bool>>,
}

/// One turn of a source.
#[derive(Debug, Clone)]
enum Turn {
    Say(&'static [u8]),
    /// Nothing this time; it wakes the pump at once.
    Wait,
    /// Nothing for this number of milliseconds.
    Sleep(u64),
    /// From here on, what was said should be spooled if need be.
    Urge,
    Break,
}

impl Scripted {
    fn body(turns: &[Turn]) -> ResponseBody {
        ResponseBody::Stream(Box::new(Scripted {
            turns: turns.to_vec().into(),
            ..Scripted::default()
        }))
    }
}

impl BodySource for Scripted {
    fn poll_available(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<AvailableContent, SourceError>> {
        match self.turns.pop_front() {
            None => self.is_last = true,
            Some(Turn::Say(bytes)) => self.ready.extend_from_slice(bytes),
            Some(Turn::Urge) => {
                self.is_urgent = true;
                context.waker().wake_by_ref();
            }
            Some(Turn::Break) => {
                return Poll::Ready(Err(SourceError::Script(howdah_php::ExchangeError::PoolDied)));
            }
            Some(Turn::Wait) => context.waker().wake_by_ref(),
            Some(Turn::Sleep(milliseconds)) => wake_after(milliseconds, context.waker().clone()),
        }
        if self.ready.is_empty() && !self.is_last {
            return Poll::Pending;
        }
        Poll::Ready(Ok(AvailableContent {
            bytes: self.ready.len(),
            is_last: self.is_last,
            is_urgent: self.is_urgent,
        }))
    }

    fn piece(&self) -> ContentPiece<'_> {
        ContentPiece::Memory(&self.ready)
    }

    fn consume(&mut self, count: usize) {
        self.ready.drain(..count);
    }

    fn length(&self) -> Option<u64> {
        None
    }

    fn release(&mut self) {
        self.is_released.set(true);
    }
}

fn wake_after(milliseconds: u64, waker: Waker) {
    tokio::task::spawn_local(async move {
        tokio::time::sleep(Duration::from_millis(milliseconds)).await;
        waker.wake();
    });
}

/// A sink that takes at most `step` bytes, and nothing every time that `refuses` says so.
struct Slow {
    taken: Vec<Vec<u8>>,
    step: usize,
    /// Attempts that find no room; the last one wakes the pump.
    refuses: usize,
    flushes: usize,
    is_finished: bool,
    /// The client is gone, which no attempt to send shows.
    is_broken: bool,
}

impl Slow {
    fn new(step: usize, refuses: usize) -> Slow {
        Slow {
            taken: Vec::new(),
            step,
            refuses,
            flushes: 0,
            is_finished: false,
            is_broken: false,
        }
    }
}

impl Sink for Slow {
    fn poll_send(
        &mut self,
        piece: ContentPiece<'_>,
        _: bool,
        context: &mut Context<'_>,
    ) -> Poll<Result<usize, SendError>> {
        if self.refuses > 0 {
            self.refuses -= 1;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let mut bytes = vec![0; self.step];
        let count = piece.read(&mut bytes).expect("memory and spool can be read");
        bytes.truncate(count);
        self.taken.push(bytes);
        Poll::Ready(Ok(count))
    }

    fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        self.flushes += 1;
        Poll::Ready(Ok(()))
    }

    fn poll_finish(&mut self, _: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        self.is_finished = true;
        Poll::Ready(Ok(()))
    }

    fn poll_broken(&self, _: &mut Context<'_>) -> bool {
        self.is_broken
    }
}

/// The result of sending a body.
struct Pumped {
    bytes: u64,
    result: Result<(), PumpError>,
    sink: Slow,
}

fn pump(body: ResponseBody, filters: &[Filter], promised: Option<u64>, refuses: usize) -> Pumped {
    let mut response = response(body, filters);
    pump_to(Slow::new(3, refuses), &mut response, promised)
}

fn response(body: ResponseBody, filters: &[Filter]) -> Response {
    let mut response = Response::new(ResponseHeadSource::Own(ResponseHead::new(Status::OK)), body);
    response.filters = filters.to_vec();
    response
}

fn pump_to(mut sink: Slow, response: &mut Response, promised: Option<u64>) -> Pumped {
    let (limits, crew, clients) = (limits(), crew(), clients(1 << 20));
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build_local(tokio::runtime::LocalOptions::default())
        .expect("an event loop");
    let (bytes, result) = runtime.block_on(async {
        let turns = Arc::new(Semaphore::new(1));
        let (held, place) = (held(&clients), place(&turns, &crew, &clients));
        let sent = send(response, promised, &limits, held, place, &mut sink);
        tokio::time::timeout(Duration::from_secs(20), sent).await.expect("it ends")
    });
    Pumped { bytes, result, sink }
}

fn crew() -> Crew<FileStore> {
    let bounds = QueueBounds { site: 10, client: 10, at_a_time: 1 };
    let store = || FileStore::new(howdah_files::StoreLimits::default());
    Crew::start("tests", 1, bounds, store).expect("a thread")
}

fn place<'t>(
    turns: &'t Arc<Semaphore>,
    crew: &'t Crew<FileStore>,
    clients: &'t Arc<Clients>,
) -> FilterPlace<'t> {
    FilterPlace {
        turns,
        crew,
        site: 0,
        clients,
        client: CLIENT,
    }
}

fn limits() -> SpoolLimits {
    let storage = StorageLimits {
        total: Some(1 << 20),
        sites: vec![None],
        files: None,
    };
    SpoolLimits {
        memory: 4,
        file: 1000,
        storage: Arc::new(Storage::new(storage, Box::new(|_, _| {}))),
        site: 0,
    }
}

/// Clients that may hold `most` bytes of memory each.
fn clients(most: usize) -> Arc<Clients> {
    let text =
        format!("[limits]\nclient_memory = {most}\n[[site]]\nroot = \"/srv\"\nphp = false\n");
    let config = Config::parse(&text, "test.toml").expect("the configuration is right");
    Arc::new(Clients::new(&config))
}

/// The account of a client.
fn held(clients: &Clients) -> HeldMemory<'_> {
    HeldMemory::of(clients, CLIENT)
}

const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

/// A pump that sends `left` bytes of a body at most.
fn unfiltered<'p>(
    body: &'p mut ResponseBody,
    left: u64,
    limits: &'p SpoolLimits,
    clients: &'p Clients,
) -> Pump<'p> {
    Pump {
        body,
        has_ended: false,
        left,
        sent: 0,
        spool: Spool::new(limits, held(clients)),
        residence: FileResidence::new(limits),
        filtering: None,
        turn: 0,
        failure: None,
    }
}

impl Pumped {
    fn text(&self) -> String {
        String::from_utf8(self.sink.taken.concat()).expect("the tests send text")
    }
}

#[test]
fn content_arrives_in_order_whatever_the_source_and_the_sink_do() {
    use Turn::{Say, Sleep, Urge, Wait};
    let scripts: &[&[Turn]] = &[
        &[],
        &[Say(b"abcdefgh")],
        &[Wait, Say(b"abcd"), Wait, Wait, Say(b"efgh")],
        &[Urge, Say(b"abcdef"), Say(b"gh")],
        &[Say(b"abcd"), Urge, Sleep(1), Say(b"efgh"), Wait],
        &[Say(b"ab"), Say(b"cd"), Say(b"ef"), Urge, Say(b"gh")],
    ];
    for steps in scripts {
        for refuses in [0, 1, 5] {
            let pumped = pump(Scripted::body(steps), &[], None, refuses);
            let expected = if steps.is_empty() { "" } else { "abcdefgh" };
            assert_eq!(pumped.text(), expected, "{steps:?} {refuses}");
            assert_eq!(pumped.bytes, expected.len() as u64, "{steps:?}");
            assert!(pumped.result.is_ok() && pumped.sink.is_finished, "{steps:?}");
        }
    }
}

#[test]
fn urgent_content_is_taken_from_the_source_while_the_client_takes_nothing() {
    let steps = [Turn::Urge, Turn::Say(b"abcdefgh")];
    let mut body = Scripted::body(&steps);
    let mut sink = Slow::new(3, usize::MAX);
    let (limits, clients) = (limits(), clients(1 << 20));
    for (is_urgent, left) in [(true, 0), (false, 8)] {
        if !is_urgent {
            body = Scripted::body(&steps[1..]);
        }
        let mut pump = unfiltered(&mut body, u64::MAX, &limits, &clients);
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..5 {
            assert!(pump.poll(&mut sink, &mut context).is_pending());
        }
        assert_eq!(pump.body.piece().length(), left, "urgent: {is_urgent}");
    }
}

/// Content of a response alone goes into the file, content that others share stays where it is.
#[test]
fn a_client_whose_account_is_full_has_its_content_in_files() {
    let runtime = Builder::new_current_thread().enable_all().build().expect("an event loop");
    runtime.block_on(async {
        let limits = SpoolLimits { file: 1 << 20, ..limits() };
        let shared: Rc<[u8]> = vec![b'x'; 100_000].into();
        for (most, in_file) in [(1 << 20, 0), (1000, 100_000)] {
            let clients = clients(most);
            for mut body in
                [ResponseBody::Buffer(shared.to_vec(), 0), ResponseBody::whole(Rc::clone(&shared))]
            {
                let is_own = body.own_memory() > 0;
                let mut sink = Slow::new(30_000, usize::MAX);
                let mut pump = unfiltered(&mut body, 100_000, &limits, &clients);
                let expected = if is_own { in_file } else { 0 };
                // Threads of the storage write. The sink wakes the pump until they have written.
                poll_fn(|context| {
                    assert!(pump.poll(&mut sink, context).is_pending());
                    let in_memory = pump.body.own_memory() + pump.spool.in_memory();
                    match limits.storage.usage().1 == expected
                        && (expected == 0 || in_memory < 10_000)
                    {
                        true => Poll::Ready(()),
                        false => Poll::Pending,
                    }
                })
                .await;
                sink.refuses = 0;
                poll_fn(|context| pump.poll(&mut sink, context)).await.expect("it is sent");
                assert!(sink.taken.concat() == *shared);
                drop(pump);
                // A thread of the storage closes the file.
                while limits.storage.usage().1 > 0 {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
        }
    });
}

#[test]
fn a_source_that_says_little_without_end_leaves_other_connections_their_turn() {
    // Content that is sent, and content beyond the promised length, which is discarded.
    for left in [u64::MAX, 0] {
        let mut body = Scripted::body(&vec![Turn::Say(b"x"); 10_000]);
        let mut sink = Slow::new(3, 0);
        let (limits, clients) = (limits(), clients(1 << 20));
        let mut pump = unfiltered(&mut body, left, &limits, &clients);
        let mut context = Context::from_waker(Waker::noop());
        assert!(pump.poll(&mut sink, &mut context).is_pending(), "{left}");
        assert!(!sink.is_finished);
    }
}

#[test]
fn a_head_is_not_held_back_by_a_source_that_is_silent() {
    let pumped = pump(Scripted::body(&[Turn::Wait, Turn::Say(b"x")]), &[], None, 0);
    assert!(pumped.sink.flushes > 0);
    assert_eq!(pumped.text(), "x");
}

#[test]
fn never_more_than_was_promised() {
    let steps = [Turn::Say(b"abcd"), Turn::Wait, Turn::Say(b"efgh")];
    let pumped = pump(Scripted::body(&steps), &[], Some(6), 0);
    assert_eq!((pumped.text().as_str(), pumped.bytes), ("abcdef", 6));
    assert!(pumped.result.is_ok() && pumped.sink.is_finished);
    let pumped = pump(Scripted::body(&steps), &[], Some(9), 0);
    assert!(matches!(pumped.result, Err(PumpError::Short)), "{:?}", pumped.result);
    assert!(!pumped.sink.is_finished);
}

#[test]
fn a_source_that_breaks_off_is_no_end() {
    let pumped = pump(Scripted::body(&[Turn::Say(b"abc"), Turn::Break]), &[], None, 0);
    assert!(matches!(pumped.result, Err(PumpError::Source(_))), "{:?}", pumped.result);
    assert!(!pumped.sink.is_finished);
}

#[test]
fn what_came_before_a_break_is_sent() {
    let turns = [Turn::Say(b"abc"), Turn::Break];
    for filters in [&[][..], &[Filter::Deflate, Filter::Inflate(InflateLimits::default())]] {
        let pumped = pump(Scripted::body(&turns), filters, None, 0);
        assert_eq!((pumped.text().as_str(), pumped.bytes), ("abc", 3));
        assert!(matches!(pumped.result, Err(PumpError::Source(_))), "{:?}", pumped.result);
        assert!(!pumped.sink.is_finished && pumped.sink.flushes > 0);
    }
}

/// A source that copies what passes, as a cache would.
#[derive(Debug)]
struct Tee {
    inner: ResponseBody,
    copy: Rc<RefCell<Vec<u8>>>,
}

impl BodySource for Tee {
    fn poll_available(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<AvailableContent, SourceError>> {
        self.inner.poll_available(context)
    }

    fn piece(&self) -> ContentPiece<'_> {
        self.inner.piece()
    }

    fn consume(&mut self, count: usize) {
        let mut passed = vec![0; count];
        let read = self.inner.piece().read(&mut passed).expect("it is at hand");
        assert_eq!(read, count);
        self.copy.borrow_mut().extend_from_slice(&passed);
        self.inner.consume(count);
    }

    fn length(&self) -> Option<u64> {
        self.inner.length()
    }

    fn release(&mut self) {
        self.inner.release();
    }
}

#[test]
fn a_tee_needs_no_change_of_the_pump() {
    let copy = Rc::<RefCell<Vec<u8>>>::default();
    let inner = Scripted::body(&[Turn::Say(b"abcd"), Turn::Urge, Turn::Say(b"efgh")]);
    let tee = ResponseBody::Stream(Box::new(Tee { inner, copy: Rc::clone(&copy) }));
    let pumped = pump(tee, &[], None, 1);
    assert_eq!(
        (pumped.text().as_bytes(), &copy.borrow()[..]),
        (&b"abcdefgh"[..], &b"abcdefgh"[..])
    );
}

#[test]
fn a_worker_does_not_wait_for_a_slow_client_though_another_source_is_around_its_output() {
    let around: [fn(ResponseBody) -> ResponseBody; 3] = [
        |inner| ResponseBody::Stream(Box::new(Tee { inner, copy: Rc::default() })),
        |inner| ResponseBody::Stream(Box::new(Unchunked::new(inner, Box::new(|_| {})))),
        |inner| inner,
    ];
    for around in around {
        let is_released = Rc::<Cell<bool>>::default();
        let inner = Scripted {
            turns: [Turn::Urge, Turn::Say(b"abcd")].into(),
            is_released: Rc::clone(&is_released),
            ..Scripted::default()
        };
        let pumped = pump(around(ResponseBody::Stream(Box::new(inner))), &[], None, 3);
        assert_eq!((pumped.text().as_str(), is_released.get()), ("abcd", true));
    }
}
