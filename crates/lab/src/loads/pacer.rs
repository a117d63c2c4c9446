//! The moments of a fixed rate.
//!
//! Tokio's timer counts whole milliseconds, which is longer than most answers take. A thread that
//! sleeps until each moment wakes the event loop within some ten microseconds.

use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

use super::Wrong;

/// Hands out one place for each request, at the moment at which the request is due.
pub(super) struct Pacer {
    began: Instant,
    /// Requests per second.
    rate: f64,
    /// One permit for each request that is due, and not begun.
    due: Arc<Semaphore>,
}

impl Pacer {
    /// Starts a thread that hands out `rate` places per second for the time `time`. The thread ends
    /// then, or when the pacer is dropped.
    ///
    /// # Errors
    /// The system has no further thread.
    pub(super) fn start(rate: f64, time: Duration) -> Result<Pacer, Wrong> {
        let pacer = Pacer {
            began: Instant::now(),
            rate,
            due: Arc::new(Semaphore::new(0)),
        };
        let (began, places) = (pacer.began, Arc::downgrade(&pacer.due));
        thread::Builder::new()
            .name("pacer".to_owned())
            .spawn(move || hand_out(began, rate, time, &places))
            .map_err(|error| Wrong(format!("cannot start the thread that paces: {error}")))?;
        Ok(pacer)
    }

    /// The moment at which the load began.
    pub(super) fn began(&self) -> Instant {
        self.began
    }

    /// Returns the time after the beginning at which the request with this number is due.
    pub(super) fn due(&self, number: u64) -> Duration {
        moment(self.rate, number)
    }

    /// Waits until a request is due that nobody has begun. Those who wait are served in the order
    /// in which they came.
    pub(super) async fn wait(&self) {
        // The semaphore is never closed.
        if let Ok(place) = self.due.acquire().await {
            place.forget();
        }
    }
}

fn hand_out(began: Instant, rate: f64, time: Duration, places: &Weak<Semaphore>) {
    for number in 0.. {
        let due = moment(rate, number);
        if due >= time {
            return;
        }
        thread::sleep((began + due).saturating_duration_since(Instant::now()));
        let Some(places) = places.upgrade() else {
            return;
        };
        places.add_permits(1);
    }
}

fn moment(rate: f64, number: u64) -> Duration {
    Duration::from_secs_f64(number as f64 / rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "current_thread")]
    async fn no_place_comes_before_its_moment_and_none_is_missing() {
        let pacer = Pacer::start(5000.0, Duration::from_millis(20)).expect("a thread");
        for number in 0..100 {
            pacer.wait().await;
            assert!(pacer.began().elapsed() >= pacer.due(number), "request {number}");
        }
        assert_eq!(pacer.due.available_permits(), 0);
    }
}
