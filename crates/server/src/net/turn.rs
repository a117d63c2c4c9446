//! Turns of an event loop. In each turn it runs the tasks that are ready, up to some dozens, and
//! then looks at its sockets.
//!
//! A task that always has more to do, and wakes itself, takes all of these places. Then the loop
//! looks at its sockets every 61 runs of a task. Work that strangers can cause without end is
//! therefore done in small parts, one in each turn.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};

use tokio::sync::Semaphore;

/// Steps of handshakes in one turn of a thread: thousands of clients that have connected before can
/// send their first messages at the same time. A step takes up to a quarter of a millisecond, for a
/// key exchange and a signature.
pub(crate) const HANDSHAKE_STEPS: usize = 4;

/// Wakes `waker` when the event loop of this thread has looked at its sockets again.
pub(crate) fn wake_at_next_turn(waker: &Waker) {
    let _ = pin!(tokio::task::yield_now()).poll(&mut Context::from_waker(waker));
}

/// The steps of some long work that a thread does in one turn of its event loop, in the order in
/// which they were asked for.
#[derive(Debug)]
pub(crate) struct TurnSteps(Arc<StepsOfTurn>);

#[derive(Debug)]
struct StepsOfTurn {
    /// The steps that a turn has.
    most: usize,
    /// Those of them that are left.
    left: Semaphore,
    /// Whether the event loop renews them in its next turn.
    is_waiting: AtomicBool,
}

impl TurnSteps {
    /// In each turn `most` steps, at least one.
    pub(crate) fn of(most: usize) -> TurnSteps {
        let (left, is_waiting) = (Semaphore::new(most), AtomicBool::new(false));
        TurnSteps(Arc::new(StepsOfTurn { most, left, is_waiting }))
    }

    /// Waits for a turn with a step that is left.
    pub(crate) async fn take(&self) {
        let StepsOfTurn { left, is_waiting, .. } = &*self.0;
        left.acquire().await.expect("nobody closes it").forget();
        if left.available_permits() == 0 && !is_waiting.swap(true, Ordering::Relaxed) {
            wake_at_next_turn(&Waker::from(Arc::clone(&self.0)));
        }
    }
}

impl Wake for StepsOfTurn {
    fn wake(self: Arc<Self>) {
        self.is_waiting.store(false, Ordering::Relaxed);
        self.left.add_permits(self.most.saturating_sub(self.left.available_permits()));
    }
}

/// The chunks of HTTP/1 content that a task has decoded in its turn. One with a single byte takes
/// as long as hundreds of bytes in a long one, and a sender chooses the length of its chunks.
#[derive(Debug, Default)]
pub(crate) struct DecodedChunks(usize);

impl DecodedChunks {
    /// Counts chunks, or parts of some.
    #[inline]
    pub(crate) fn add(&mut self, number: usize) {
        self.0 += number;
    }

    /// Returns whether other connections are to have their turn before more is decoded. If so,
    /// `context` is woken at the next turn.
    #[inline]
    pub(crate) fn is_turn_over(&mut self, context: &mut Context<'_>) -> bool {
        if self.0 < CHUNKS_OF_TURN {
            return false;
        }
        self.0 = 0;
        wake_at_next_turn(context.waker());
        true
    }
}

/// Chunks that a task decodes in a turn: a tenth of a millisecond, if they are short.
const CHUNKS_OF_TURN: usize = 512;

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::rc::Rc;

    use tokio::runtime::{Builder, LocalOptions};
    use tokio::task::{spawn_local, yield_now};

    use super::*;

    const AT_ONCE: usize = 4;

    #[test]
    fn a_turn_has_a_few_steps_in_the_order_of_the_clients() {
        let is_gone = |number: usize| number > AT_ONCE && number % 7 == 3;
        let runtime = Builder::new_current_thread().build_local(LocalOptions::default()).unwrap();
        let (turn, taken) = (Rc::new(Cell::new(0)), Rc::new(RefCell::new(Vec::new())));
        runtime.block_on(async {
            let turns = Rc::new(TurnSteps::of(AT_ONCE));
            let client = |number| {
                let (turns, turn, taken) = (turns.clone(), turn.clone(), taken.clone());
                spawn_local(async move {
                    turns.take().await;
                    taken.borrow_mut().push((turn.get(), number));
                })
            };
            let clients: Vec<_> = (0..10 * AT_ONCE).map(client).collect();
            yield_now().await;
            turn.set(1);
            // Those that go away take no place.
            clients
                .iter()
                .enumerate()
                .filter(|(number, _)| is_gone(*number))
                .for_each(|(_, client)| client.abort());
            while Rc::strong_count(&taken) > 1 {
                yield_now().await;
                turn.set(turn.get() + 1);
            }
        });
        let taken = taken.borrow();
        let clients: Vec<usize> = taken.iter().map(|(_, number)| *number).collect();
        let all: Vec<usize> = (0..10 * AT_ONCE).filter(|number| !is_gone(*number)).collect();
        assert_eq!(clients, all);
        for turn in 0..turn.get() {
            let steps = taken.iter().filter(|(of, _)| *of == turn).count();
            assert!(steps <= AT_ONCE, "{taken:?}");
        }
    }
}
