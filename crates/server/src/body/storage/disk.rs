//! The threads that make the calls of the storage that may wait for a disk.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// A call for a thread.
pub(super) type DiskTask = Box<dyn FnOnce() + Send>;

/// Threads at most. More would only wait for the same disk.
const THREADS: usize = 4;
/// Threads that the calls of one site have at most: files on a disk that does not answer leave one
/// to the other sites.
const MOST_OF_SITE: usize = THREADS - 1;

/// Threads and the calls that wait for them. The sites take turns: one that writes much delays
/// itself alone. A thread starts when a call finds none that is free.
#[derive(Debug, Default)]
pub(super) struct DiskThreads(Arc<DiskState>);

#[derive(Debug, Default)]
struct DiskState {
    queue: Mutex<SiteQueue>,
    filled: Condvar,
}

#[derive(Default)]
struct SiteQueue {
    /// The waiting calls of each site that has some. The first site is the next one to get a turn.
    /// Each file has at most two calls, so that connections bound their number.
    sites: VecDeque<(usize, VecDeque<DiskTask>)>,
    /// The site of each call that a thread makes now.
    running: Vec<usize>,
    /// The number of waiting calls.
    waiting: usize,
    threads: usize,
    /// Threads that wait for a call.
    free: usize,
}

impl fmt::Debug for SiteQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").field("threads", &self.threads).finish_non_exhaustive()
    }
}

impl DiskThreads {
    /// Occupies all threads until the result is dropped.
    #[cfg(test)]
    pub(super) fn hang(&self) -> std::sync::mpsc::Sender<()> {
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let wait = Arc::new(Mutex::new(wait));
        for number in 0..THREADS {
            let wait = Arc::clone(&wait);
            let site = usize::MAX - number;
            self.run(site, Box::new(move || assert!(wait.lock().unwrap().recv().is_err())));
        }
        go
    }

    /// Runs `task` on a thread, for the site with this number. Where no thread can be started, the
    /// task runs at once.
    pub(super) fn run(&self, site: usize, task: DiskTask) {
        let mut queue = self.0.queue();
        queue.push(site, task);
        if queue.free > 0 {
            self.0.filled.notify_one();
        }
        if queue.free >= queue.waiting || queue.threads == THREADS {
            return;
        }
        queue.threads += 1;
        drop(queue);
        let shared = Arc::clone(&self.0);
        let name = "front-disk".to_owned();
        if thread::Builder::new().name(name).spawn(move || shared.work()).is_ok() {
            return;
        }
        let mut queue = self.0.queue();
        queue.threads -= 1;
        if queue.threads == 0
            && let Some((site, task)) = queue.pop()
        {
            drop(queue);
            task();
            self.0.queue().end(site);
        }
    }
}

impl DiskState {
    /// Runs a thread until the process ends.
    fn work(&self) {
        let mut queue = self.queue();
        loop {
            while let Some((site, task)) = queue.pop() {
                drop(queue);
                task();
                queue = self.queue();
                queue.end(site);
            }
            queue.free += 1;
            queue = self.filled.wait(queue).unwrap_or_else(PoisonError::into_inner);
            queue.free -= 1;
        }
    }

    fn queue(&self) -> MutexGuard<'_, SiteQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SiteQueue {
    fn push(&mut self, site: usize, task: DiskTask) {
        self.waiting += 1;
        match self.sites.iter_mut().find(|(number, _)| *number == site) {
            Some((_, tasks)) => tasks.push_back(task),
            None => self.sites.push_back((site, VecDeque::from([task]))),
        }
    }

    /// Removes the next call of a site that may have another thread, and counts it as running. The
    /// next turn is another site's.
    fn pop(&mut self) -> Option<(usize, DiskTask)> {
        let may_run = |site: usize| {
            self.running.iter().filter(|running| **running == site).count() < MOST_OF_SITE
        };
        let next = self.sites.iter().position(|(site, _)| may_run(*site))?;
        let (site, mut tasks) = self.sites.remove(next)?;
        let task = tasks.pop_front()?;
        if !tasks.is_empty() {
            self.sites.push_back((site, tasks));
        }
        self.waiting -= 1;
        self.running.push(site);
        Some((site, task))
    }

    /// Notes that a call of the site has ended.
    fn end(&mut self, site: usize) {
        if let Some(place) = self.running.iter().position(|running| *running == site) {
            self.running.swap_remove(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;

    #[test]
    fn a_site_that_writes_much_delays_itself_alone() {
        let mut queue = SiteQueue::default();
        let (order, calls) = mpsc::channel();
        for (site, count) in [(0, 1000), (1, 2), (2, 1)] {
            for _ in 0..count {
                let order = order.clone();
                queue.push(site, Box::new(move || order.send(site).unwrap()));
            }
        }
        let mut left = 0;
        while let Some((site, task)) = queue.pop() {
            task();
            queue.end(site);
            left += 1;
        }
        assert_eq!((left, queue.waiting), (1003, 0));
        let first: Vec<usize> = calls.try_iter().take(6).collect();
        assert_eq!(first, [0, 1, 2, 0, 1, 0]);
    }

    #[test]
    fn calls_that_wait_for_their_disk_do_not_keep_those_of_other_sites() {
        let disk = DiskThreads::default();
        let (go, wait) = mpsc::channel::<()>();
        let wait = Arc::new(Mutex::new(wait));
        let (done, ended) = mpsc::channel();
        for _ in 0..2 * THREADS {
            let wait = Arc::clone(&wait);
            disk.run(0, Box::new(move || assert!(wait.lock().unwrap().recv().is_err())));
        }
        for number in 0..100 {
            let done = done.clone();
            disk.run(1, Box::new(move || done.send(number).unwrap()));
        }
        for _ in 0..100 {
            ended.recv_timeout(Duration::from_secs(90)).unwrap();
        }
        let held = disk.0.queue().running.iter().filter(|site| **site == 0).count();
        assert_eq!(held, MOST_OF_SITE);
        drop(go);
        assert!(disk.0.queue().threads <= THREADS);
    }
}
