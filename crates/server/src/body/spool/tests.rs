use super::super::storage::StorageLimits;
use super::*;
use crate::net::Clients;
use howdah_config::Config;
use std::future::poll_fn;
use std::net::IpAddr;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Bounds of a spool whose storage holds `total` bytes, and a count of the reported refusals.
fn limits(memory: usize, file: u64, total: u64) -> (SpoolLimits, Arc<AtomicUsize>) {
    let reports = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&reports);
    let report = move |_, _: &StorageRefusal| {
        counted.fetch_add(1, Ordering::Relaxed);
    };
    let sites = StorageLimits {
        total: Some(total),
        sites: vec![Some(u64::MAX)],
        files: None,
    };
    let storage = Arc::new(Storage::new(sites, Box::new(report)));
    (SpoolLimits { memory, file, storage, site: 0 }, reports)
}

/// A spool of a client whose account is never full.
fn empty(limits: &SpoolLimits) -> Spool<'_> {
    static CLIENTS: LazyLock<Clients> = LazyLock::new(|| {
        let text = "[[site]]\nroot = \"/srv\"\nphp = false\n";
        Clients::new(&Config::parse(text, "test.toml").expect("the configuration is right"))
    });
    Spool::new(limits, HeldMemory::of(&CLIENTS, IpAddr::from([192, 0, 2, 1])))
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        tokio::time::timeout(Duration::from_secs(20), test).await.expect("it ends");
    });
}

/// Waits until the spool has room or certainly gets none before its client takes something.
async fn has_room(spool: &mut Spool<'_>) -> bool {
    poll_fn(|context| match spool.poll_room(context).unwrap() {
        false if spool.tail.as_ref().is_some_and(|tail| tail.job.is_some()) => Poll::Pending,
        has_room => Poll::Ready(has_room),
    })
    .await
}

async fn take(spool: &mut Spool<'_>, step: usize) -> Option<Vec<u8>> {
    let bytes = poll_fn(|context| match spool.poll_next(context) {
        Poll::Ready(next) => Poll::Ready(next.unwrap().map(|(piece, _)| {
            let mut bytes = vec![0; step.min(piece.length() as usize)];
            assert_eq!(piece.read(&mut bytes).unwrap(), bytes.len());
            bytes
        })),
        Poll::Pending => Poll::Pending,
    })
    .await?;
    spool.advance(bytes.len());
    Some(bytes)
}

fn text(length: usize) -> Vec<u8> {
    (0..length).map(|number| (number * 7 + number / 251) as u8).collect()
}

#[test]
fn keeps_the_order_over_memory_and_file() {
    run(async {
        let (limits, _) = limits(1000, 10 << 20, 10 << 20);
        let text = text(1 << 20);
        let mut spool = empty(&limits);
        for piece in text.chunks(7000) {
            assert!(has_room(&mut spool).await);
            spool.push(piece);
        }
        assert!(limits.storage.usage().1 > 900_000);
        let mut all = Vec::new();
        while let Some(bytes) = take(&mut spool, 30_000).await {
            all.extend(bytes);
        }
        assert!(all == text);
        assert!(spool.tail.is_none());
        spool.push(b"again");
        assert_eq!(take(&mut spool, 100).await.unwrap(), b"again");
    });
}

#[test]
fn any_order_of_appending_and_taking_loses_nothing() {
    run(async {
        let text = text(600_000);
        for seed in 0..40_u32 {
            let (limits, _) = limits(5000, 200_000, if seed % 3 == 0 { 150_000 } else { 1 << 20 });
            let mut spool = empty(&limits);
            let (mut pushed, mut all, mut random) = (0, Vec::new(), seed);
            while all.len() < text.len() {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let step = 1 + (random >> 8) as usize % 70_000;
                let pushes = random >> 30 < 3 && pushed < text.len();
                if pushes && has_room(&mut spool).await {
                    let end = text.len().min(pushed + step);
                    let piece = &text[pushed..end];
                    pushed += spool
                        .fill(piece.len(), |room| {
                            room.copy_from_slice(piece);
                            Ok(piece.len())
                        })
                        .unwrap();
                } else if let Some(bytes) = take(&mut spool, step).await {
                    all.extend(bytes);
                }
            }
            assert!(all == text, "{seed}");
        }
    });
}

#[test]
fn is_full_at_its_limits() {
    run(async {
        let (limits, reports) = limits(4, 100_000, 1 << 20);
        let mut spool = empty(&limits);
        let mut held = 0;
        while has_room(&mut spool).await {
            spool.push(&[0; 10_000]);
            held += 10_000;
        }
        assert_eq!(held, 100_000);
        assert_eq!(reports.load(Ordering::Relaxed), 0);
        let small = SpoolLimits { file: 0, ..limits.clone() };
        let mut small = empty(&small);
        small.push(b"abcd");
        assert!(!has_room(&mut small).await);
    });
}

#[test]
fn a_budget_without_room_makes_the_source_wait_and_is_reported_once() {
    run(async {
        let (limits, reports) = limits(0, 1 << 30, 200_000);
        let mut spool = empty(&limits);
        let mut held = 0;
        for _ in 0..3 {
            while has_room(&mut spool).await {
                spool.push(&[0; 10_000]);
                held += 10_000;
            }
            held -= take(&mut spool, 5000).await.unwrap().len();
        }
        assert!(held < 200_000 + 2 * PIECE + 10_000, "{held}");
        assert_eq!(reports.load(Ordering::Relaxed), 1);
        let mut left = 0;
        while let Some(bytes) = take(&mut spool, 50_000).await {
            left += bytes.len();
        }
        assert_eq!(left, held);
        assert!(has_room(&mut spool).await);
    });
}

#[test]
fn memory_is_bounded_however_long_a_client_lags_behind() {
    run(async {
        let (limits, _) = limits(10_000, 0, 0);
        let mut spool = empty(&limits);
        spool.push(&[0; 5000]);
        for _ in 0..1000 {
            spool.push(&[0; 1000]);
            assert_eq!(take(&mut spool, 1000).await.unwrap().len(), 1000);
        }
        assert!(spool.memory.capacity() < 100_000, "{}", spool.memory.capacity());
    });
}

#[test]
fn a_disk_that_does_not_answer_makes_the_source_wait_and_nothing_else() {
    run(async {
        let (limits, _) = limits(10_000, 1 << 30, 1 << 30);
        let hanging = limits.storage.hang();
        let mut spool = empty(&limits);
        let text = text(400_000);
        let mut pieces = text.chunks(10_000);
        let mut pushed = 0;
        let waker = std::task::Waker::noop();
        while spool.poll_room(&mut Context::from_waker(waker)).unwrap() {
            let piece = pieces.next().unwrap();
            spool.push(piece);
            pushed += piece.len();
        }
        assert!(pushed < 4 * PIECE, "{pushed}");
        // The client gets what is in memory, then waits without blocking the event loop.
        assert_eq!(take(&mut spool, 10_000).await.unwrap(), text[..10_000]);
        assert!(spool.poll_next(&mut Context::from_waker(waker)).is_pending());
        drop(hanging);
        let mut all = text[..10_000].to_vec();
        while let Some(bytes) = take(&mut spool, 50_000).await {
            all.extend(bytes);
        }
        assert!(all == text[..pushed]);
    });
}
