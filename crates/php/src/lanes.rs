//! The requests that wait for a slot: in lanes, which take turns, and in each lane by client.
//!
//! Every pool has at least one lane. In a lane the clients take turns too, so that the requests of
//! one client do not delay those of others by more than one.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

/// A class of requests, as the configuration has it. The first lane of a pool is for the requests
/// of no other lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneLimits {
    /// The lane's name.
    pub name: String,
    /// Workers that the lane's requests may have at once.
    pub workers: usize,
    /// Requests that may wait. Further ones are refused.
    pub queue: usize,
    /// The time that a request waits for a worker before it is refused.
    pub queue_timeout: Duration,
    /// Number of requests that the lane begins when it is its turn.
    pub weight: u64,
}

/// The lane of a request, and the client that has sent it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueuePlace {
    /// The lane's place in its pool.
    pub lane: usize,
    /// The number of the client's network.
    pub client: u128,
    /// The time at which a request that waits once more began to wait; `None` for a new one.
    pub since: Option<Instant>,
}

/// The use of a lane, for display.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LaneFigures {
    /// Requests that were handed over.
    pub running: usize,
    /// Requests that wait.
    pub waiting: usize,
}

/// The lanes of a pool, with the requests that wait.
#[derive(Debug)]
pub(crate) struct PoolLanes<T> {
    lanes: Vec<LaneState<T>>,
    waiting: usize,
    /// The lane whose turn it is.
    turn: usize,
    /// Requests that this lane may still begin in its turn.
    credit: u64,
}

#[derive(Debug)]
struct LaneState<T> {
    weight: u64,
    workers: usize,
    queue: usize,
    /// The lane leaves a worker to others.
    leaves_one: bool,
    /// Requests that were handed over.
    running: usize,
    waiting: usize,
    /// Each request with the time since which it waits, if it waits once more.
    clients: HashMap<u128, VecDeque<(Option<Instant>, T)>>,
    /// The clients with requests that wait, the next one first.
    order: VecDeque<u128>,
}

/// A request was refused: too many wait already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LaneFull;

impl<T> PoolLanes<T> {
    /// Makes lanes with these limits. Without limits there is one lane, which has none.
    pub(crate) fn new(limits: &[LaneLimits]) -> PoolLanes<T> {
        let lane = |leaves_one, weight, workers, queue| LaneState {
            leaves_one,
            weight,
            workers,
            queue,
            running: 0,
            waiting: 0,
            clients: HashMap::new(),
            order: VecDeque::new(),
        };
        let mut lanes: Vec<_> = limits
            .iter()
            .enumerate()
            .map(|(number, limits)| {
                lane(number > 0, limits.weight.max(1), limits.workers.max(1), limits.queue)
            })
            .collect();
        if lanes.is_empty() {
            lanes.push(lane(false, 1, usize::MAX, usize::MAX));
        }
        PoolLanes {
            credit: lanes[0].weight,
            lanes,
            waiting: 0,
            turn: 0,
        }
    }

    /// Number of requests that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Lets a request wait. `is_full`: no more requests may wait in all lanes. A full queue takes
    /// the request in exchange for the newest one of the client with the most places, if that has
    /// more than this client will have; returns the one that has lost its place.
    ///
    /// # Errors
    /// The queue is full, and no client has more places in it than this one will have.
    pub(crate) fn push(
        &mut self,
        place: QueuePlace,
        request: T,
        is_full: bool,
    ) -> Result<Option<T>, LaneFull> {
        let number = place.lane.min(self.lanes.len() - 1);
        let mut displaced = None;
        if is_full || self.lanes[number].waiting >= self.lanes[number].queue {
            let own = self.lanes[number].places_of(place.client);
            // A lane whose own queue is full makes room in itself.
            let from = match is_full {
                true => 0..self.lanes.len(),
                false => number..number + 1,
            };
            let heaviest = from
                .filter_map(|lane| {
                    let (client, places) = self.lanes[lane].heaviest()?;
                    Some((places, lane, client))
                })
                .max_by_key(|(places, ..)| *places);
            match heaviest {
                Some((places, lane, client)) if places > own + 1 => {
                    displaced = self.lanes[lane].take_newest(client);
                    self.waiting -= usize::from(displaced.is_some());
                }
                _ => return Err(LaneFull),
            }
        }
        self.lanes[number].push(place, request);
        self.waiting += 1;
        Ok(displaced)
    }

    /// Returns the next request to hand over, and its lane, which counts one more running. No lane
    /// but the first gets more than `most` workers. `None` if none waits, or no lane with one has
    /// room.
    pub(crate) fn next(&mut self, most: usize) -> Option<(usize, T)> {
        // Once more around than there are lanes: the first one may have used up its turn.
        for _ in 0..=self.lanes.len() {
            let lane = &mut self.lanes[self.turn];
            if self.credit > 0 && lane.waiting > 0 && lane.has_room(most) {
                self.credit -= 1;
                self.waiting -= 1;
                lane.running += 1;
                return lane.pop().map(|request| (self.turn, request));
            }
            self.turn = (self.turn + 1) % self.lanes.len();
            self.credit = self.lanes[self.turn].weight;
        }
        None
    }

    /// Whether [`PoolLanes::next`] has a request.
    pub(crate) fn has_next(&self, most: usize) -> bool {
        self.lanes.iter().any(|lane| lane.waiting > 0 && lane.has_room(most))
    }

    /// Whether a request of the lane is handed over at once: none waits, and the lane has room.
    /// The lane then counts one more running.
    pub(crate) fn begin(&mut self, lane: usize, most: usize) -> bool {
        let number = lane.min(self.lanes.len() - 1);
        let lane = &mut self.lanes[number];
        let has_room = self.waiting == 0 && lane.has_room(most);
        lane.running += usize::from(has_room);
        has_room
    }

    /// Counts one running less: the request has ended.
    pub(crate) fn end(&mut self, lane: usize) {
        if let Some(lane) = self.lanes.get_mut(lane) {
            lane.running = lane.running.saturating_sub(1);
        }
    }

    /// Forgets the requests that are not wanted any more.
    pub(crate) fn retain(&mut self, is_wanted: impl Fn(&T) -> bool) {
        for lane in &mut self.lanes {
            lane.clients.retain(|_, requests| {
                requests.retain(|(_, request)| is_wanted(request));
                !requests.is_empty()
            });
            let clients = &lane.clients;
            lane.order.retain(|client| clients.contains_key(client));
            lane.waiting = lane.clients.values().map(VecDeque::len).sum();
        }
        self.waiting = self.lanes.iter().map(|lane| lane.waiting).sum();
    }

    /// Forgets all requests that wait.
    pub(crate) fn clear(&mut self) {
        self.retain(|_| false);
    }

    /// The use of each lane.
    pub(crate) fn figures(&self) -> Vec<LaneFigures> {
        let lanes = self.lanes.iter();
        lanes
            .map(|lane| LaneFigures {
                running: lane.running,
                waiting: lane.waiting,
            })
            .collect()
    }
}

impl<T> LaneState<T> {
    fn has_room(&self, most: usize) -> bool {
        let most = if self.leaves_one { most.max(1) } else { usize::MAX };
        self.running < self.workers.min(most)
    }

    /// Adds a request: the newest of its client, or one that waits once more as its oldest.
    fn push(&mut self, place: QueuePlace, request: T) {
        let requests = self.clients.entry(place.client).or_default();
        if requests.is_empty() {
            self.order.push_back(place.client);
        }
        // Those that wait once more come first, in the order in which they came.
        let before = |known: Option<Instant>| known.is_some_and(|known| Some(known) <= place.since);
        let at = match place.since {
            None => requests.len(),
            Some(_) => requests.iter().take_while(|(known, _)| before(*known)).count(),
        };
        requests.insert(at, (place.since, request));
        self.waiting += 1;
    }

    /// Takes the oldest request of the client whose turn it is.
    fn pop(&mut self) -> Option<T> {
        let client = self.order.pop_front()?;
        let requests = self.clients.get_mut(&client)?;
        let (_, request) = requests.pop_front()?;
        if requests.is_empty() {
            self.clients.remove(&client);
        } else {
            self.order.push_back(client);
        }
        self.waiting -= 1;
        Some(request)
    }

    /// Takes the newest request of a client that has more than one.
    fn take_newest(&mut self, client: u128) -> Option<T> {
        let requests = self.clients.get_mut(&client).filter(|requests| requests.len() > 1)?;
        self.waiting -= 1;
        requests.pop_back().map(|(_, request)| request)
    }

    fn places_of(&self, client: u128) -> usize {
        self.clients.get(&client).map_or(0, VecDeque::len)
    }

    /// The client with the most places, and their number.
    fn heaviest(&self) -> Option<(u128, usize)> {
        let clients = self.clients.iter().map(|(client, requests)| (*client, requests.len()));
        clients.max_by_key(|(_, places)| *places)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lanes of `(workers, queue, weight)`.
    fn lanes(of: &[(usize, usize, u64)]) -> PoolLanes<u32> {
        let limits: Vec<_> = of
            .iter()
            .map(|(workers, queue, weight)| LaneLimits {
                name: String::new(),
                workers: *workers,
                queue: *queue,
                queue_timeout: Duration::ZERO,
                weight: *weight,
            })
            .collect();
        PoolLanes::new(&limits)
    }

    fn at(lane: usize, client: u128) -> QueuePlace {
        QueuePlace { lane, client, since: None }
    }

    fn drain(lanes: &mut PoolLanes<u32>) -> Vec<u32> {
        std::iter::from_fn(|| lanes.next(usize::MAX).map(|(_, request)| request)).collect()
    }

    #[test]
    fn clients_take_turns() {
        let mut lanes = lanes(&[]);
        for (client, request) in [(1, 10), (1, 11), (1, 12), (2, 20), (3, 30), (2, 21)] {
            assert_eq!(lanes.push(at(0, client), request, false), Ok(None));
        }
        assert_eq!(drain(&mut lanes), [10, 20, 30, 11, 21, 12]);
        assert_eq!(lanes.waiting(), 0);
    }

    #[test]
    fn a_request_that_waits_once_more_is_the_oldest_of_its_client() {
        let mut lanes = lanes(&[]);
        for (client, request) in [(1, 10), (2, 20), (2, 21), (1, 11)] {
            assert_eq!(lanes.push(at(0, client), request, false), Ok(None));
        }
        let again = |client| QueuePlace {
            since: Some(Instant::now()),
            ..at(0, client)
        };
        assert_eq!(lanes.push(again(2), 22, false), Ok(None));
        assert_eq!(lanes.push(again(3), 30, false), Ok(None));
        assert_eq!(drain(&mut lanes), [10, 22, 30, 11, 20, 21]);
    }

    #[test]
    fn requests_of_a_client_that_wait_once_more_keep_their_order() {
        let mut lanes = lanes(&[]);
        let began = Instant::now();
        for request in 1..4 {
            let since = Some(began + Duration::from_secs(u64::from(request)));
            assert_eq!(lanes.push(QueuePlace { since, ..at(0, 2) }, request, false), Ok(None));
        }
        assert_eq!(drain(&mut lanes), [1, 2, 3]);
    }

    #[test]
    fn a_full_queue_takes_places_from_the_client_with_the_most() {
        let mut lanes = lanes(&[]);
        for request in 10..14 {
            assert_eq!(lanes.push(at(0, 1), request, false), Ok(None));
        }
        assert_eq!(lanes.push(at(0, 1), 14, true), Err(LaneFull), "its own");
        assert_eq!(lanes.push(at(0, 2), 20, true), Ok(Some(13)));
        assert_eq!(lanes.push(at(0, 2), 21, true), Ok(Some(12)));
        assert_eq!(lanes.push(at(0, 2), 22, true), Err(LaneFull), "both have two");
        assert_eq!(lanes.push(at(0, 3), 30, true).map(|gone| gone.is_some()), Ok(true));
        assert_eq!(lanes.push(at(0, 4), 40, true).map(|gone| gone.is_some()), Ok(true));
        assert_eq!(lanes.push(at(0, 5), 50, true), Err(LaneFull), "each has one");
        assert_eq!(lanes.waiting(), 4);
    }

    #[test]
    fn a_lane_has_its_workers_and_its_queue() {
        let mut lanes = lanes(&[(9, 9, 1), (2, 3, 1)]);
        assert!(lanes.begin(1, usize::MAX) && lanes.begin(1, usize::MAX));
        assert!(!lanes.begin(1, usize::MAX), "it has two workers");
        for request in 10..13 {
            assert_eq!(lanes.push(at(1, 1), request, false), Ok(None));
        }
        assert_eq!(lanes.push(at(1, 1), 13, false), Err(LaneFull));
        assert_eq!(lanes.push(at(1, 2), 20, false), Ok(Some(12)));
        assert!(!lanes.has_next(usize::MAX));
        assert_eq!(lanes.next(usize::MAX), None);
        assert!(!lanes.begin(0, usize::MAX), "it must ask for the lanes' turns");
        assert_eq!(lanes.push(at(0, 1), 30, false), Ok(None));
        assert_eq!(lanes.next(usize::MAX), Some((0, 30)));
        lanes.end(1);
        assert!(lanes.has_next(usize::MAX));
        assert_eq!(drain(&mut lanes), [10]);
        lanes.end(1);
        assert_eq!(drain(&mut lanes), [20]);
        let figures = [(1, 0), (2, 1)].map(|(running, waiting)| LaneFigures { running, waiting });
        assert_eq!(lanes.figures(), figures);
    }

    #[test]
    fn a_lane_that_does_not_exist_is_the_last() {
        let mut lanes = lanes(&[(9, 9, 1), (1, 9, 1)]);
        assert!(lanes.begin(7, usize::MAX) && !lanes.begin(7, usize::MAX));
        lanes.end(1);
        assert_eq!(lanes.push(at(7, 1), 10, false), Ok(None));
        assert_eq!(lanes.next(usize::MAX), Some((1, 10)));
    }

    #[test]
    fn lanes_take_turns_by_weight() {
        let mut lanes = lanes(&[(99, 99, 1), (99, 99, 3), (99, 99, 1)]);
        for number in 0..4 {
            for lane in 0..2 {
                let request = 10 * lane as u32 + number;
                assert_eq!(lanes.push(at(lane, 1), request, false), Ok(None));
            }
        }
        assert_eq!(drain(&mut lanes), [0, 10, 11, 12, 1, 13, 2, 3]);
    }

    #[test]
    fn a_lane_leaves_a_worker_to_the_others() {
        let mut lanes = lanes(&[(9, 9, 1), (9, 9, 1)]);
        assert!(lanes.begin(1, 2) && lanes.begin(1, 2) && !lanes.begin(1, 2));
        assert!((0..9).all(|_| lanes.begin(0, 2)), "others may have all");
        lanes.end(1);
        lanes.end(1);
        assert!(lanes.begin(1, 0) && !lanes.begin(1, 0), "one at least");
    }

    #[test]
    fn requests_that_are_not_wanted_lose_their_places() {
        let mut lanes = lanes(&[(9, 9, 1), (9, 9, 1)]);
        for (lane, client, request) in [(0, 1, 10), (0, 2, 20), (1, 1, 30), (0, 1, 11)] {
            assert_eq!(lanes.push(at(lane, client), request, false), Ok(None));
        }
        lanes.retain(|request| request % 20 != 0);
        assert_eq!(lanes.waiting(), 3);
        assert_eq!(drain(&mut lanes), [10, 30, 11]);
        assert_eq!(lanes.push(at(0, 1), 12, false), Ok(None));
        lanes.clear();
        assert_eq!((lanes.waiting(), drain(&mut lanes)), (0, vec![]));
    }
}
