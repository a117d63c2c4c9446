//! The thread that gives freed memory back to the kernel.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use howdah_files::DirectiveCache;
use howdah_sys::allocator;

/// Time between two looks for rules that no thread has any more.
const LOOK: Duration = Duration::from_secs(1);
/// Time after which memory is given back again at the earliest.
const PAUSE: Duration = Duration::from_millis(200);
/// Bytes of the thread's stack, of which it uses a few pages.
const STACK: usize = 128 * 1024;

/// Starts a thread that frees rules which were removed from the cache and that no thread has any
/// more, and that gives much freed memory back to the kernel. It ends after the cache.
///
/// # Errors
/// The system has no resources for a thread.
pub(super) fn start(directives: &Arc<DirectiveCache>) -> io::Result<()> {
    let directives = Arc::downgrade(directives);
    let builder = thread::Builder::new().name("front-memory".to_owned());
    let started = builder.stack_size(STACK).spawn(move || {
        while let Some(directives) = directives.upgrade() {
            let is_noted = directives.freed().wait(LOOK);
            if directives.has_removed() {
                directives.free_removed();
            }
            drop(directives);
            if is_noted {
                allocator::give_back();
                thread::sleep(PAUSE);
            }
        }
    });
    started.map(drop)
}
