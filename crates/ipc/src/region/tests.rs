use std::panic::{AssertUnwindSafe, catch_unwind};

use super::*;

const GEOMETRY: Geometry = Geometry {
    slots: 3,
    workers: 2,
    threads: 2,
    request_bytes: 4096,
    ring_bytes: 8192,
};

fn region() -> Region {
    Region::create(GEOMETRY).expect("memory for a small region").0
}

#[test]
fn no_place_beyond_the_region_is_accessed() {
    let region = region();
    let is_refused = |access: &dyn Fn()| catch_unwind(AssertUnwindSafe(access)).is_err();
    type Access = fn(&Region, usize);
    let by_number: [(&str, Access, usize); 7] = [
        ("slot", |region, slot| _ = region.slot(slot), 3),
        ("worker", |region, worker| _ = region.worker(worker), 2),
        ("doorbell", |region, thread| _ = region.doorbell(thread), 2),
        ("write_request", |region, slot| region.write_request(slot, b"x"), 3),
        ("read_request", |region, slot| region.read_request(slot, &mut [0]), 3),
        ("ring_parts", |region, slot| _ = region.ring_parts(slot, 0, 1), 3),
        ("release_ring", |region, slot| region.release_ring(slot, 0).unwrap(), 3),
    ];
    for (name, access, count) in by_number {
        assert!(!is_refused(&|| access(&region, count - 1)), "{name}: the last one");
        assert!(is_refused(&|| access(&region, count)), "{name} {count}");
        assert!(is_refused(&|| access(&region, usize::MAX / 4096)), "{name} far away");
    }
    let end = region.mapping.length();
    let by_size: [(&str, Access, usize, usize); 7] = [
        ("write_request", |region, size| region.write_request(0, &vec![0; size]), 4096, 4097),
        ("read_request", |region, size| region.read_request(0, &mut vec![0; size]), 4096, 4097),
        ("ring_parts", |region, size| _ = region.ring_parts(0, 5, size), 8192, 8193),
        ("word", |region, offset| _ = region.word(offset), end - 4, end),
        ("record", |region, offset| _ = region.record::<8>(offset), end - 8, end),
        ("words", |region, offset| _ = region.words(offset, 2), end - 8, end - 4),
        ("longs", |region, offset| _ = region.longs(offset, 2), end - 16, end - 8),
    ];
    for (name, access, good, bad) in by_size {
        assert!(!is_refused(&|| access(&region, good)), "{name} {good}");
        assert!(is_refused(&|| access(&region, bad)), "{name} {bad}");
    }
    let unaligned: [(&str, Access, usize); 2] = [
        ("word", |region, offset| _ = region.word(offset), 2),
        ("record", |region, offset| _ = region.record::<8>(offset), 4),
    ];
    for (name, access, offset) in unaligned {
        assert!(is_refused(&|| access(&region, offset)), "{name} {offset}");
    }
}

/// All words of the region, each as often as the layout has it.
fn words(region: &Region) -> (Vec<&AtomicU32>, Vec<&AtomicU64>) {
    let queue = region.queue();
    let mut short = vec![queue.head, queue.tail, region.awake_limit(), region.present()];
    short.push(region.metering());
    short.extend(queue.entries);
    let (measured, numbers) = region.caches();
    let mut long = vec![measured];
    long.extend(numbers);
    long.extend(region.idle().0);
    for doorbell in (0..GEOMETRY.threads).map(|thread| region.doorbell(thread)) {
        short.push(doorbell.sleeping);
        long.extend(doorbell.ready);
    }
    for words in (0..GEOMETRY.workers).map(|worker| region.worker(worker)) {
        short.extend([words.wake, words.proportional, words.resident]);
        short.extend([words.last_slot, words.last_peak]);
        long.extend([words.requests, words.processor, words.last]);
        long.extend([words.last_processor, words.last_took]);
    }
    for words in (0..GEOMETRY.slots).map(|slot| region.slot(slot)) {
        let room = words.flow_control;
        short.extend([words.printed, words.ended, words.took, words.share, words.peak]);
        short.extend([words.processor, words.asked, words.answered, words.thread, words.shown]);
        short.extend([room.starved, room.aborted]);
        long.extend([words.state.0, words.written, words.began, words.queued, words.grant]);
        long.push(room.consumed);
    }
    (short, long)
}

#[test]
fn every_word_has_a_place_of_its_own() {
    let region = region();
    let (short, long) = words(&region);
    assert_eq!((short.len(), long.len()), (5 + 4 + 2 + 10 + 36, 2 + CacheNumber::COUNT + 30));
    for (number, word) in (1..).zip(&short) {
        word.store(number, Ordering::Relaxed);
    }
    for (number, word) in (1000..).zip(&long) {
        word.store(number, Ordering::Relaxed);
    }
    for slot in 0..GEOMETRY.slots {
        region.write_request(slot, &[0xFF; 4096]);
        region.write_ring(slot, 0, &[0xFF; 8192]);
    }
    let (short, long) = words(&region);
    assert!((1..).zip(&short).all(|(number, word)| word.load(Ordering::Relaxed) == number));
    assert!((1000..).zip(&long).all(|(number, word)| word.load(Ordering::Relaxed) == number));
}

#[test]
fn sizes_out_of_bounds_make_no_region() {
    let (_, file) = Region::create(GEOMETRY).unwrap();
    for bad in [Geometry { slots: 0, ..GEOMETRY }, Geometry { ring_bytes: 5000, ..GEOMETRY }] {
        assert!(Region::create(bad).is_err(), "{bad:?}");
        assert!(Region::map(&file, bad).is_err(), "{bad:?}");
    }
}

#[test]
fn a_text_has_at_most_the_bytes_that_are_asked_for_and_that_its_area_has() {
    let region = region();
    region.write_text(1, b"hello");
    assert_eq!(region.read_text(1, 5).as_deref(), Some(&b"hello"[..]));
    assert_eq!(region.read_text(1, 4), None);
    assert_eq!(region.read_text(0, 5).as_deref(), Some(&b""[..]), "another slot's");
    let mut start = vec![1; region.text_at()];
    region.read_request(1, &mut start);
    assert!(start.iter().all(|byte| *byte == 0), "the request's summary is read from there");
    let most = u32::try_from(region.longest_text()).unwrap();
    for (length, is_read) in [(most, true), (most + 1, false), (u32::MAX, false)] {
        region.write_area(1, region.text_at(), &length.to_ne_bytes());
        let read = region.read_text(1, usize::MAX).map(|text| text.len());
        assert_eq!(read, is_read.then_some(length as usize), "{length}");
    }
}

#[test]
fn a_ring_continues_at_its_start() {
    let region = region();
    let bytes: Vec<u8> = (0..8192_u32).map(|number| number as u8).collect();
    for position in [0, 8191, 3 * 8192 + 100, u64::from(u32::MAX)] {
        region.write_ring(1, position, &bytes);
        let mut read = vec![0; bytes.len()];
        region.read_ring(1, position, &mut read);
        assert!(read == bytes, "{position}");
    }
    let mut others = vec![1; bytes.len()];
    region.read_ring(0, 0, &mut others);
    assert!(others.iter().all(|byte| *byte == 0), "the ring before");
    region.read_ring(2, 0, &mut others);
    assert!(others.iter().all(|byte| *byte == 0), "the ring behind");
}

#[test]
fn the_rest_of_a_ring_goes_back_to_the_kernel() {
    let region = region();
    let read = |slot| {
        let mut bytes = vec![0; 8192];
        region.read_ring(slot, 0, &mut bytes);
        bytes.iter().filter(|byte| **byte == 1).count()
    };
    for slot in 0..3 {
        region.write_ring(slot, 0, &[1; 8192]);
    }
    for (kept, left) in [(usize::MAX, 8192), (8192, 8192), (4096, 4096), (0, 0)] {
        region.release_ring(1, kept).unwrap();
        assert_eq!([read(0), read(1), read(2)], [8192, left, 8192], "{kept}");
    }
}

#[test]
fn nothing_is_left_of_the_last_request() {
    let region = region();
    let words = region.slot(1);
    let dirt = [words.printed, words.shown, words.ended, words.asked, words.answered];
    let long = [words.written, words.grant, words.flow_control.consumed];
    dirt.iter().for_each(|word| word.store(7, Ordering::Relaxed));
    long.iter().for_each(|word| word.store(7, Ordering::Relaxed));
    words.flow_control.aborted.store(1, Ordering::Relaxed);
    words.reset(1);
    assert!(dirt.iter().all(|word| word.load(Ordering::Relaxed) == 0));
    assert!(long.iter().all(|word| word.load(Ordering::Relaxed) == 0));
    assert_eq!(words.flow_control.aborted.load(Ordering::Relaxed), 0);
    assert_eq!(words.thread.load(Ordering::Relaxed), 1);
}

#[test]
fn texts_leave_the_beginning_of_a_request_to_its_summary() {
    for (request_bytes, text_at) in [(4096, 2048), (256 * 1024, SUMMARY_BYTES)] {
        let (region, _) = Region::create(Geometry { request_bytes, ..GEOMETRY }).unwrap();
        assert_eq!(region.text_at(), text_at);
        assert_eq!(region.longest_text(), request_bytes - text_at - 4);
        let mut text = vec![7; region.longest_text()];
        region.write_text(2, &text);
        assert_eq!(region.read_text(2, usize::MAX).as_ref(), Some(&text));
        text.push(7);
        let is_refused = |access: &dyn Fn()| catch_unwind(AssertUnwindSafe(access)).is_err();
        assert!(is_refused(&|| region.write_text(2, &text)), "beyond the area");
        let mut beyond = vec![0; request_bytes - text_at + 1];
        assert!(
            catch_unwind(AssertUnwindSafe(|| region.read_area(2, text_at, &mut beyond))).is_err()
        );
    }
}

#[test]
fn children_of_a_worker_do_not_have_the_region() {
    let region = region();
    let begin = format!("{:x}-", region.at(0).addr());
    let flags = || {
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let own = maps.lines().skip_while(|line| !line.starts_with(&begin));
        own.into_iter().find(|line| line.starts_with("VmFlags:")).unwrap().to_owned()
    };
    // The kernel's "dc": the area is not copied when the process forks.
    assert!(!flags().contains(" dc"), "the zygote's forks are workers");
    region.keep_from_children().unwrap();
    assert!(flags().contains(" dc"), "{}", flags());
}
