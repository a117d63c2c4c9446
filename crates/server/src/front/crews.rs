//! The crews of a front: threads for work that is too long for an event loop.

use std::io;
use std::sync::Arc;

use howdah_files::{DirectiveCache, FileStore};

use super::processors;
use crate::crew::{Crew, QueueBounds};
use crate::descriptor_needs::LEAST_EVALUATORS;

/// The number of threads that evaluate costly directives, at least two: one site never has all of
/// them.
pub(super) fn evaluator_threads() -> usize {
    processors().div_ceil(2).max(LEAST_EVALUATORS)
}

/// Starts the threads that evaluate costly directives. Each watches at most that number of folders.
pub(super) fn evaluators(
    directives: Arc<DirectiveCache>,
    folders: usize,
) -> io::Result<Crew<FileStore>> {
    let threads = evaluator_threads();
    let bounds = QueueBounds {
        site: MOST_EVALUATIONS,
        client: MOST_EVALUATIONS_OF_CLIENT,
        at_a_time: threads - 1,
    };
    // These stores send no file.
    let limits = howdah_files::StoreLimits {
        entries: 2048,
        descriptors: 16,
        memory: 1 << 20,
        folders,
        roots: 64,
        ..howdah_files::StoreLimits::default()
    };
    let store = move || FileStore::with_directives(limits, Arc::clone(&directives));
    Crew::start_each("directives", threads, bounds, store, || {
        // With the priority of the event loops they would only be slower neighbours.
        let _ = howdah_sys::schedule::yield_to_other_threads();
    })
}

/// Starts the threads that ask the disk where an event loop would have to wait for it. One site
/// never has all of them.
pub(super) fn readers(directives: Arc<DirectiveCache>) -> io::Result<Crew<FileStore>> {
    let bounds = QueueBounds {
        site: MOST_READERS,
        client: MOST_READERS,
        at_a_time: READERS / 2,
    };
    // These stores know nothing for longer than a second, since what they know is not asked of the
    // disk.
    let limits = howdah_files::StoreLimits {
        entries: 64,
        descriptors: 4,
        memory: 256 << 10,
        folders: 0,
        passing_folders: 64,
        roots: 16,
        ..howdah_files::StoreLimits::default()
    };
    let store = move || FileStore::with_directives(limits, Arc::clone(&directives));
    Crew::start("files", READERS, bounds, store)
}

/// Threads that wait for the disk. A disk serves several questions at a time faster than one after
/// the other.
const READERS: usize = 8;

/// The requests that may wait for the disk at one site. Further ones get 503.
const MOST_READERS: usize = 4096;

/// The requests with costly directives that may wait at one site. Further ones get 503.
const MOST_EVALUATIONS: usize = 256;
/// The requests of one client among them. Further ones get 503.
const MOST_EVALUATIONS_OF_CLIENT: usize = 64;
