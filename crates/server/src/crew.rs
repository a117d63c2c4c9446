//! Crews: threads for work that takes too long for an event loop. The jobs of sites take turns, so
//! that a site with costly work delays its own requests only.
//!
//! Three crews exist: one evaluates costly directives, replaces text in content (Substitute) and
//! compresses it with Brotli, one asks the disk where an event loop would have to wait for it, and
//! one compares passwords.

mod job_queue;

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{fmt, io, panic, thread};

use tokio::sync::oneshot;

use job_queue::JobQueue;
pub(crate) use job_queue::{ClientNetwork, CrewFull, JobOrigin, QueueBounds};

/// Threads that do jobs, each with a `T` of its own, which a thread without jobs drops after
/// [`REST`]. They end when the crew is dropped.
pub(crate) struct Crew<T> {
    board: Arc<JobBoard<T>>,
}

/// The jobs that wait, as the crew and its threads see them.
struct JobBoard<T> {
    jobs: Mutex<Jobs<T>>,
    news: Condvar,
}

struct Jobs<T> {
    queue: JobQueue<CrewJob<T>>,
    /// Threads that wait for a job.
    idle: usize,
    is_over: bool,
}

type CrewJob<T> = Box<dyn FnOnce(&mut T) + Send>;

/// The next thing that a thread does.
enum NextJob<T> {
    /// A job of the site with this number.
    Job(usize, CrewJob<T>),
    /// Nothing, for a while: what it knows may be old, and belongs to others.
    Rest,
    /// Its end.
    Over,
}

/// Time without a job after which a thread drops its `T`.
const REST: Duration = Duration::from_secs(1);

impl<T: 'static> Crew<T> {
    /// Starts `threads` threads. Each makes its `T` before its first job, and anew after a job that
    /// has panicked.
    ///
    /// # Errors
    /// Where the system gives no thread.
    pub(crate) fn start(
        name: &str,
        threads: usize,
        bounds: QueueBounds,
        make: impl Fn() -> T + Send + Clone + 'static,
    ) -> io::Result<Crew<T>> {
        Crew::start_each(name, threads, bounds, make, || ())
    }

    /// Starts the threads as [`start`](Crew::start) does. Each thread calls `begin` first.
    ///
    /// # Errors
    /// The errors of [`start`](Crew::start).
    pub(crate) fn start_each(
        name: &str,
        threads: usize,
        bounds: QueueBounds,
        make: impl Fn() -> T + Send + Clone + 'static,
        begin: fn(),
    ) -> io::Result<Crew<T>> {
        let jobs = Jobs {
            queue: JobQueue::new(bounds),
            idle: 0,
            is_over: false,
        };
        let board = Arc::new(JobBoard {
            jobs: Mutex::new(jobs),
            news: Condvar::new(),
        });
        // Dropped where a thread cannot be started, it ends the others.
        let crew = Crew { board };
        for number in 0..threads {
            let (board, make) = (Arc::clone(&crew.board), make.clone());
            let builder = thread::Builder::new().name(format!("{name}-{number}"));
            builder.spawn(move || {
                begin();
                board.work(make);
            })?;
        }
        Ok(crew)
    }

    /// Returns whether a job of that origin would be taken now.
    pub(crate) fn has_room(&self, origin: JobOrigin) -> bool {
        self.board.lock().queue.has_room(origin)
    }

    /// Does `job` on one of the threads, and returns its result. A job whose caller no longer waits
    /// is not begun.
    ///
    /// # Errors
    /// Where too many jobs wait already, or the job panics.
    pub(crate) async fn run<R: Send + 'static>(
        &self,
        origin: JobOrigin,
        job: impl FnOnce(&mut T) -> R + Send + 'static,
    ) -> Result<R, CrewFull> {
        self.run_while_awaited(origin, |tools, _| job(tools)).await
    }

    /// Runs a job as [`run`](Crew::run) does. The job gets a flag that is set when its caller no
    /// longer waits.
    ///
    /// # Errors
    /// The errors of [`run`](Crew::run).
    pub(crate) async fn run_while_awaited<R: Send + 'static>(
        &self,
        origin: JobOrigin,
        job: impl FnOnce(&mut T, Arc<AtomicBool>) -> R + Send + 'static,
    ) -> Result<R, CrewFull> {
        let awaited = AbandonedOnDrop::default();
        let is_abandoned = Arc::clone(&awaited.is_abandoned);
        let (sender, receiver) = oneshot::channel();
        let job = move |tools: &mut T| {
            if !sender.is_closed() {
                // A caller that is gone needs no result.
                let _ = sender.send(job(tools, is_abandoned));
            }
        };
        self.board.push(origin, Box::new(job))?;
        receiver.await.map_err(|_| CrewFull)
    }
}

/// Sets its flag when it is dropped.
#[derive(Default)]
struct AbandonedOnDrop {
    is_abandoned: Arc<AtomicBool>,
}

impl Drop for AbandonedOnDrop {
    fn drop(&mut self) {
        self.is_abandoned.store(true, Ordering::Relaxed);
    }
}

impl<T> JobBoard<T> {
    /// Adds a job, and wakes a thread that can begin it.
    ///
    /// A job that has to wait until its site has fewer under way wakes none. The thread that ends
    /// one of those looks for a job itself.
    fn push(&self, origin: JobOrigin, job: CrewJob<T>) -> Result<(), CrewFull> {
        let mut jobs = self.lock();
        jobs.queue.push(origin, job)?;
        let wakes = jobs.idle > 0 && jobs.queue.may_begin(origin.site);
        drop(jobs);
        if wakes {
            self.news.notify_one();
        }
        Ok(())
    }

    /// Does jobs until the crew is over.
    fn work(&self, make: impl Fn() -> T) {
        let mut tools: Option<T> = None;
        loop {
            let (site, job) = match self.next(tools.is_some()) {
                NextJob::Job(site, job) => (site, job),
                NextJob::Rest => {
                    tools = None;
                    continue;
                }
                NextJob::Over => return,
            };
            let done = panic::catch_unwind(AssertUnwindSafe(|| {
                job(tools.get_or_insert_with(&make));
            }));
            if done.is_err() {
                tools = None;
            }
            self.lock().queue.done(site);
        }
    }

    /// Waits for the next job. `rests`: not for longer than [`REST`].
    fn next(&self, rests: bool) -> NextJob<T> {
        let (mut jobs, mut has_rested) = (self.lock(), false);
        loop {
            if jobs.is_over {
                return NextJob::Over;
            }
            if let Some((site, job)) = jobs.queue.pop() {
                return NextJob::Job(site, job);
            }
            if has_rested {
                return NextJob::Rest;
            }
            jobs.idle += 1;
            jobs = if rests {
                let waited = self.news.wait_timeout(jobs, REST);
                let (jobs, waited) = waited.unwrap_or_else(PoisonError::into_inner);
                has_rested = waited.timed_out();
                jobs
            } else {
                self.news.wait(jobs).unwrap_or_else(PoisonError::into_inner)
            };
            jobs.idle -= 1;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Jobs<T>> {
        // Nothing under the lock can panic half-way.
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Drop for Crew<T> {
    fn drop(&mut self) {
        self.board.lock().is_over = true;
        self.board.news.notify_all();
    }
}

impl<T> fmt::Debug for Crew<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Crew").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::sync::mpsc;

    use super::*;

    const BOUNDS: QueueBounds = QueueBounds { site: 2, client: 2, at_a_time: 1 };

    fn origin(site: usize) -> JobOrigin {
        let network = ClientNetwork::of(IpAddr::from([127, 0, 0, 1]));
        JobOrigin { site, network }
    }

    #[tokio::test]
    async fn a_busy_site_does_not_delay_another() {
        let crew = Arc::new(Crew::start("test", 2, BOUNDS, || 0).unwrap());
        let (release, held) = mpsc::channel::<()>();
        let (began, has_begun) = oneshot::channel();
        let busy = {
            let crew = Arc::clone(&crew);
            tokio::spawn(async move {
                let job = move |_: &mut i32| {
                    began.send(()).unwrap();
                    held.recv().unwrap();
                };
                crew.run(origin(1), job).await
            })
        };
        has_begun.await.unwrap();
        let waiting: Vec<_> = (0..2)
            .map(|_| {
                let crew = Arc::clone(&crew);
                tokio::spawn(async move { crew.run(origin(1), |_| ()).await })
            })
            .collect();
        tokio::task::yield_now().await;
        assert_eq!(crew.run(origin(1), |_| ()).await, Err(CrewFull));
        assert_eq!(crew.run(origin(2), |_| 7).await, Ok(7));
        release.send(()).unwrap();
        assert_eq!(busy.await.unwrap(), Ok(()));
        for job in waiting {
            assert_eq!(job.await.unwrap(), Ok(()));
        }
    }

    #[tokio::test]
    async fn no_job_is_left_while_threads_are_idle() {
        let bounds = QueueBounds { site: 1000, client: 1000, at_a_time: 1 };
        let crew = Arc::new(Crew::start("test", 3, bounds, || ()).unwrap());
        let jobs: Vec<_> = (0..1000)
            .map(|number| {
                let crew = Arc::clone(&crew);
                tokio::spawn(async move { crew.run(origin(number % 3 / 2), |_| ()).await })
            })
            .collect();
        let all = async {
            for job in jobs {
                assert_eq!(job.await.unwrap(), Ok(()));
            }
        };
        tokio::time::timeout(std::time::Duration::from_secs(90), all).await.unwrap();
    }

    #[tokio::test]
    async fn a_panic_fails_one_job() {
        let crew = Crew::start("test", 1, BOUNDS, || 1).unwrap();
        let count = |tools: &mut i32| {
            *tools += 1;
            *tools
        };
        assert_eq!(crew.run(origin(1), count).await, Ok(2));
        let failed: Result<(), CrewFull> = crew.run(origin(1), |_| panic!("as intended")).await;
        assert_eq!(failed, Err(CrewFull));
        assert_eq!(crew.run(origin(1), count).await, Ok(2), "with new tools");
    }

    #[tokio::test]
    async fn a_thread_without_jobs_keeps_nothing() {
        let made = Arc::new(());
        let make = {
            let made = Arc::clone(&made);
            move || Arc::clone(&made)
        };
        let crew = Crew::start("test", 1, BOUNDS, make).unwrap();
        let without = Arc::strong_count(&made);
        crew.run(origin(1), |_| ()).await.unwrap();
        let end = std::time::Instant::now() + Duration::from_secs(90);
        while Arc::strong_count(&made) > without {
            assert!(std::time::Instant::now() < end, "it has its tools for ever");
            tokio::task::yield_now().await;
        }
        assert_eq!(crew.run(origin(1), |_| 7).await, Ok(7), "with new ones");
    }

    #[tokio::test]
    async fn a_job_that_nobody_waits_for_any_more_is_told() {
        let crew = Arc::new(Crew::start("test", 1, BOUNDS, || ()).unwrap());
        let (began, has_begun) = oneshot::channel();
        let (told, was_told) = oneshot::channel();
        let waiting = {
            let crew = Arc::clone(&crew);
            tokio::spawn(async move {
                let job = move |_: &mut (), is_abandoned: Arc<AtomicBool>| {
                    began.send(is_abandoned.load(Ordering::Relaxed)).unwrap();
                    while !is_abandoned.load(Ordering::Relaxed) {
                        std::thread::yield_now();
                    }
                    told.send(()).unwrap();
                };
                crew.run_while_awaited(origin(1), job).await
            })
        };
        assert_eq!(has_begun.await, Ok(false));
        waiting.abort();
        was_told.await.unwrap();
        assert_eq!(crew.run(origin(1), |_| 7).await, Ok(7), "the thread is free again");
    }

    #[tokio::test]
    async fn a_job_that_nobody_waits_for_is_not_begun() {
        let crew = Arc::new(Crew::start("test", 1, BOUNDS, || ()).unwrap());
        let (release, held) = mpsc::channel::<()>();
        let first = {
            let crew = Arc::clone(&crew);
            tokio::spawn(async move { crew.run(origin(1), move |_| held.recv().unwrap()).await })
        };
        let (touched, was_touched) = mpsc::channel();
        let second = {
            let crew = Arc::clone(&crew);
            tokio::spawn(
                async move { crew.run(origin(1), move |_| touched.send(()).unwrap()).await },
            )
        };
        tokio::task::yield_now().await;
        second.abort();
        assert!(second.await.unwrap_err().is_cancelled());
        release.send(()).unwrap();
        assert_eq!(first.await.unwrap(), Ok(()));
        assert_eq!(crew.run(origin(1), |_| ()).await, Ok(()));
        assert!(was_touched.try_recv().is_err());
    }
}
