//! Bodies with filters: when they give out their output, where they work, whose turn it is.

use howdah_htaccess::modules::filter::{ContentFilter, Transform};

use super::*;
use crate::body::filtering::Filtering;

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

#[test]
fn a_response_whose_client_takes_nothing_keeps_no_other_from_its_turn() {
    let (turns, crew, clients) = (Arc::new(Semaphore::new(1)), crew(), clients(4 << 20));
    let filtering = || Filtering::new(&[Filter::Deflate], place(&turns, &crew), held(&clients));
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
    let pumped = pump(Scripted::body(&broken), &filters, None, 0);
    assert!(matches!(pumped.result, Err(PumpError::Source(_))), "{:?}", pumped.result);
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
        let mut body = Body::whole(content.clone().into());
        let place = place(&turns, &crew);
        let held = held(&clients);
        let (_, result) = send(&mut body, &filters, None, &limits, held, place, &mut sink).await;
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
