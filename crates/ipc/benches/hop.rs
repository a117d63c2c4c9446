//! The hop between front and worker alone, without PHP and without sockets: one front thread, and a
//! worker process.
//!
//! `cargo bench -p howdah-ipc --bench hop [-- SECONDS]`. Prints round trips per second with a
//! 13-byte answer, for one request at a time (both sides sleep and wake each time) and for 32 in
//! flight (neither side sleeps), and MB/s of 1 MB answers that the front only copies out. Figures
//! of different machines or runs are not comparable.
#![allow(unsafe_code)] // Forks the worker.
#![allow(clippy::unwrap_used)] // An error ends the benchmark anyway.

#[path = "../tests/support/mod.rs"]
mod support;

use std::sync::Mutex;
use std::time::{Duration, Instant};

use howdah_ipc::Geometry;
use howdah_ipc::front::FrontRegion;
use support::driver::Driver;
use support::process::Children;
use support::{Extra, Order};

fn main() {
    // Cargo passes `--bench`.
    let seconds = std::env::args().skip(1).find_map(|argument| argument.parse().ok());
    let duration = Duration::from_secs_f64(seconds.unwrap_or(2.0));
    let tiny = rate(13, 1, duration);
    println!("1 in flight, 13 bytes:   {tiny:>10.0} round trips/s");
    let many = rate(13, 32, duration);
    println!("32 in flight, 13 bytes:  {many:>10.0} round trips/s");
    let large = rate(1 << 20, 2, duration);
    println!("2 in flight, 1 MB:       {:>10.0} MB/s", large * 1.048_576);
}

/// Requests answered per second.
fn rate(size: u32, in_flight: usize, duration: Duration) -> f64 {
    let geometry = Geometry { slots: 64, ..Geometry::for_pool(1, 1) };
    let (front, attach) = FrontRegion::create(geometry).unwrap();
    let _worker = Children::fork(attach);
    let lost = Mutex::default();
    let mut driver = Driver::new(&front, 0, &lost);
    let order = Order {
        seed: 1,
        size,
        chunk: 64 * 1024,
        extra: Extra::None,
    };
    let batch = vec![order; if size < 1000 { 10_000 } else { 200 }];
    driver.run(&batch, in_flight).unwrap();
    let (mut answered, began) = (0, Instant::now());
    while began.elapsed() < duration {
        answered += driver.run(&batch, in_flight).unwrap().answered;
    }
    answered as f64 / began.elapsed().as_secs_f64()
}
