//! Bodies with filters: when they give out their output, where they work, whose turn it is.

use std::sync::Barrier;

use howdah_files::CompressedCache;
use howdah_htaccess::modules::filter::{ContentFilter, Transform};
use tokio::sync::Notify;

use super::*;
use crate::body::filtering::Filtering;
use crate::body::settle;

fn unpack() -> Filter {
    Filter::Inflate(InflateLimits::default())
}

#[test]
fn filters_give_out_what_they_hold_when_the_source_pauses() {
    let steps = [Turn::Say(b"abc"), Turn::Sleep(60), Turn::Say(b"def")];
    let both = [Filter::Deflate, unpack()];
    let pumped = pump(Scripted::body(&steps), &both, None, 2);
    assert_eq!(pumped.text(), "abcdef");
    assert_eq!(pumped.sink.taken.len(), 2, "the first part went during the pause");
    let broken = pump(Scripted::body(&[Turn::Say(b"no gzip")]), &[unpack()], None, 0);
    assert!(matches!(broken.result, Err(PumpError::Filter(_))), "{:?}", broken.result);
}

/// A filter with patterns: it makes capitals, and fails on content that comes on an event loop.
#[derive(Debug)]
struct Capitals;

impl ContentFilter for Capitals {
    fn transform(self: Arc<Self>) -> Box<dyn Transform> {
        Box::new(Capitals)
    }
}

impl Transform for Capitals {
    fn push(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<usize, TransformError> {
        if tokio::runtime::Handle::try_current().is_ok() {
            return Err(TransformError("the event loop waits"));
        }
        out.extend(input.iter().map(u8::to_ascii_uppercase));
        Ok(input.len())
    }

    fn memory(&self) -> usize {
        0
    }

    fn flush(&mut self, _: &mut Vec<u8>) -> Result<(), TransformError> {
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), TransformError> {
        out.push(b'!');
        Ok(())
    }
}

#[test]
fn filters_with_patterns_do_not_work_on_the_event_loop() {
    let filters = [Filter::Substitute(Arc::new(Capitals))];
    let steps = [Turn::Say(b"abc"), Turn::Sleep(5), Turn::Wait, Turn::Say(b"def")];
    for refuses in [0, 3] {
        let pumped = pump(Scripted::body(&steps), &filters, None, refuses);
        assert_eq!(pumped.text(), "ABCDEF!", "{:?}", pumped.result);
        assert!(pumped.result.is_ok() && pumped.sink.is_finished);
    }
    let pumped = pump(Scripted::body(&[Turn::Say(b"abc"), Turn::Break]), &filters, None, 0);
    assert_eq!(pumped.text(), "ABC");
    assert!(matches!(pumped.result, Err(PumpError::Source(_))), "{:?}", pumped.result);
}

/// A turn of the event loop is held until the sockets were looked at; work of the crew holds none.
#[test]
fn brotli_does_not_work_on_the_event_loop_but_for_short_content() {
    let (turns, crew, clients) = (Arc::new(Semaphore::new(1)), crew(), clients(16 << 20));
    let place = place(&turns, &crew, &clients);
    for (filter, length, is_here) in [
        (Filter::Brotli, 4 << 10, true),
        (Filter::Brotli, 5 << 10, false),
        (Filter::Deflate, 5 << 10, true),
    ] {
        let filters = [filter];
        let mut filtering = Filtering::new(&filters, place, place.memory());
        let mut context = Context::from_waker(Waker::noop());
        assert!(filtering.poll_turn(&mut context).is_ready());
        filtering.room(length).fill(b'x');
        filtering.push(length).unwrap();
        assert_eq!(turns.available_permits() == 0, is_here, "{filters:?} {length}");
    }
}

#[test]
fn a_response_whose_client_takes_nothing_keeps_no_other_from_its_turn() {
    let (turns, crew, clients) = (Arc::new(Semaphore::new(1)), crew(), clients(4 << 20));
    let place = place(&turns, &crew, &clients);
    let filtering = || Filtering::new(&[Filter::Deflate], place, place.memory());
    let mut context = Context::from_waker(Waker::noop());
    let (mut first, mut second, mut third) = (filtering(), filtering(), filtering());
    assert!(matches!(first.poll_turn(&mut context), Poll::Ready(Ok(()))));
    assert!(second.poll_turn(&mut context).is_pending());
    assert!(third.poll_turn(&mut context).is_pending());
    // The second gets the turn, but has no room for its output by now.
    drop(first);
    second.leave_turn();
    assert!(matches!(third.poll_turn(&mut context), Poll::Ready(Ok(()))));
    third.leave_turn();
    assert!(matches!(second.poll_turn(&mut context), Poll::Ready(Ok(()))));
}

/// Output that a filter gives out when the source pauses may be text for patterns.
#[test]
fn patterns_do_not_work_on_the_event_loop_when_the_source_pauses() {
    let filters = [Filter::Deflate, unpack(), Filter::Substitute(Arc::new(Capitals))];
    let steps = [Turn::Say(b"abc"), Turn::Sleep(60), Turn::Say(b"def")];
    let pumped = pump(Scripted::body(&steps), &filters, None, 2);
    assert_eq!(pumped.text(), "ABCDEF!", "{:?}", pumped.result);
    assert_eq!(pumped.sink.taken[0], b"ABC", "the first part went during the pause");
    let broken = [Turn::Say(b"abc"), Turn::Break];
    for refuses in [0, 2] {
        let pumped = pump(Scripted::body(&broken), &filters, None, refuses);
        assert_eq!(pumped.text(), "ABC");
        assert!(matches!(pumped.result, Err(PumpError::Source(_))), "{:?}", pumped.result);
        assert!(!pumped.sink.is_finished);
    }
}

#[test]
fn brotli_gives_out_what_it_holds_of_long_content_before_a_break() {
    static TEXT: [u8; 20_000] = [b'x'; 20_000];
    let turns = [Turn::Say(&TEXT[..10_000]), Turn::Wait, Turn::Say(&TEXT[10_000..]), Turn::Break];
    let pumped = pump(Scripted::body(&turns), &[Filter::Brotli], None, 0);
    assert!(matches!(pumped.result, Err(PumpError::Source(_))), "{:?}", pumped.result);
    let packed = pumped.sink.taken.concat();
    let mut reader = brotli_decompressor::Decompressor::new(&*packed, 4096);
    let (mut text, mut part) = (Vec::new(), [0; 4096]);
    while let Ok(count @ 1..) = std::io::Read::read(&mut reader, &mut part) {
        text.extend_from_slice(&part[..count]);
    }
    assert!(text == TEXT, "{} bytes", text.len());
}

#[test]
fn responses_with_filters_take_turns() {
    let content: Vec<u8> = (0..100_000_u32).flat_map(u32::to_le_bytes).collect();
    let filters = [Filter::Deflate, unpack()];
    let (limits, crew, clients) = (limits(), crew(), clients(1 << 20));
    let turns = Arc::new(Semaphore::new(1));
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build_local(tokio::runtime::LocalOptions::default())
        .expect("an event loop");
    let send_one = async || {
        let mut sink = Slow::new(100_000, 2);
        let mut response = response(ResponseBody::whole(content.clone().into()), &filters);
        let (held, place) = (held(&clients), place(&turns, &crew, &clients));
        let (_, result) = send(&mut response, None, &limits, held, place, &mut sink).await;
        assert!(result.is_ok() && sink.is_finished, "{result:?}");
        assert!(sink.taken.concat() == content, "the content is the same");
    };
    runtime.block_on(async {
        let three = async { tokio::join!(send_one(), send_one(), send_one()) };
        // One that is given up while it waits, or while it has the turn, keeps no other waiting.
        for polls in 1..20 {
            let mut given_up = Box::pin(send_one());
            let mut kept = Box::pin(send_one());
            for _ in 0..polls {
                let mut both = std::pin::pin!(async { tokio::join!(&mut kept, &mut given_up) });
                poll_fn(|context| {
                    let _ = both.as_mut().poll(context);
                    Poll::Ready(())
                })
                .await;
                tokio::task::yield_now().await;
            }
            drop(given_up);
            drop(kept);
        }
        tokio::time::timeout(Duration::from_secs(90), three).await.expect("they end");
    });
}

#[test]
fn content_is_compressed_no_further_for_a_client_that_is_gone() {
    // Zeros become so short that nothing is sent before the end.
    let mut response = response(ResponseBody::whole(vec![0; 4 << 20].into()), &[Filter::Deflate]);
    let sink = Slow { is_broken: true, ..Slow::new(1 << 20, 0) };
    let pumped = pump_to(sink, &mut response, None);
    assert!(matches!(pumped.result, Err(PumpError::Client(_))), "{:?}", pumped.result);
    assert!(response.body.length() > Some(3 << 20), "{:?} are left", response.body.length());
}

/// A filter with patterns that works until it is let go.
#[derive(Debug, Clone, Default)]
struct Long {
    has_begun: Arc<Notify>,
    end: Option<Arc<Barrier>>,
}

impl ContentFilter for Long {
    fn transform(self: Arc<Self>) -> Box<dyn Transform> {
        Box::new(Long::clone(&self))
    }
}

impl Transform for Long {
    fn push(&mut self, input: &[u8], _: &mut Vec<u8>) -> Result<usize, TransformError> {
        self.has_begun.notify_one();
        self.end.iter().for_each(|end| _ = end.wait());
        Ok(input.len())
    }

    fn memory(&self) -> usize {
        0
    }

    fn flush(&mut self, _: &mut Vec<u8>) -> Result<(), TransformError> {
        Ok(())
    }

    fn finish(&mut self, _: &mut Vec<u8>) -> Result<(), TransformError> {
        Ok(())
    }
}

#[test]
fn memory_of_filters_counts_for_a_client_that_is_gone_until_the_crew_has_freed_it() {
    const MOST: usize = 4 << 20;
    let (limits, crew, clients) = (limits(), crew(), clients(MOST));
    let (turns, cache) = (Arc::new(Semaphore::new(1)), CompressedCache::new(0));
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build_local(tokio::runtime::LocalOptions::default())
        .expect("an event loop");
    for is_settled in [false, true] {
        let end = Arc::new(Barrier::new(2));
        let long = Long {
            end: Some(Arc::clone(&end)),
            ..Long::default()
        };
        let has_begun = Arc::clone(&long.has_begun);
        let filters = [Filter::Substitute(Arc::new(long))];
        runtime.block_on(async {
            let place = place(&turns, &crew, &clients);
            let mut response = response(ResponseBody::whole(vec![b'x'; 100_000].into()), &filters);
            let mut sink = Slow::new(1 << 20, 0);
            let mut buffer = Vec::new();
            let work = async {
                if is_settled {
                    _ = settle(&mut response, &mut buffer, &cache, place, &limits).await;
                } else {
                    let memory = place.memory();
                    assert!(memory.hold(500_000));
                    response.filter_memory = Some(memory);
                    let held = held(&clients);
                    _ = send(&mut response, None, &limits, held, place, &mut sink).await;
                }
            };
            tokio::select! {
                () = work => panic!("the filter works until it is let go"),
                () = has_begun.notified() => {}
            }
        });
        // The response is dropped.
        assert!(!held(&clients).hold(MOST), "settled: {is_settled}");
        end.wait();
        let until = std::time::Instant::now() + Duration::from_secs(90);
        while !held(&clients).hold(MOST) {
            assert!(std::time::Instant::now() < until, "its memory is counted for ever");
            std::thread::yield_now();
        }
    }
}
