//! Workers that are processes, and their zygote: the test itself.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use howdah_ipc::control::AttachMessage;
use howdah_ipc::worker::Attachment;

use super::{attach_again, serve};

/// The workers of a pool, forked from here.
pub struct Children {
    attachment: Attachment,
    attach: AttachMessage,
    pids: Vec<libc::pid_t>,
}

impl Children {
    /// Forks as many workers as the region has room for.
    pub fn fork(attach: AttachMessage) -> Children {
        super::prepare();
        let mut children = Children {
            attachment: attach_again(&attach),
            pids: Vec::new(),
            attach,
        };
        for worker in 0..children.attach.geometry.workers {
            let pid = children.fork_worker(worker);
            children.pids.push(pid);
        }
        children
    }

    pub fn pids(&self) -> &[libc::pid_t] {
        &self.pids
    }

    /// Kills a worker and waits until it is dead; it is not buried yet.
    pub fn kill(&self, worker: usize) {
        // SAFETY: a child of ours that nobody has waited for.
        unsafe {
            libc::kill(self.pids[worker], libc::SIGKILL);
            libc::waitpid(self.pids[worker], std::ptr::null_mut(), 0);
        }
    }

    /// Buries a worker that is dead, and puts another in its place. The front is still to be told.
    pub fn replace(&mut self, worker: usize) {
        self.attachment.record_death(worker);
        self.pids[worker] = self.fork_worker(worker);
    }

    fn fork_worker(&self, worker: usize) -> libc::pid_t {
        // SAFETY: in the child only this thread goes on; it uses memory, system calls and nothing
        // that another thread of the parent may hold locked (the allocator takes care of itself),
        // and never returns.
        match unsafe { libc::fork() } {
            -1 => panic!("{}", std::io::Error::last_os_error()),
            0 => {
                // SAFETY: plain system calls. The parent is the test's thread; children must not
                // outlive it.
                unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
                // SAFETY: the parent's value is its own; this process never drops the one it was
                // copied from.
                let attachment = unsafe { std::ptr::read(&raw const self.attachment) };
                std::panic::set_hook(Box::new(|_| {}));
                let serving = || serve(attachment.worker(worker).unwrap(), &AtomicBool::new(false));
                // Never back into the test, whatever it finds in a region that a test fills with
                // garbage.
                let _ = std::panic::catch_unwind(AssertUnwindSafe(serving));
                // SAFETY: ends this process without running the parent's exit handlers.
                unsafe { libc::_exit(1) }
            }
            pid => pid,
        }
    }
}

impl Drop for Children {
    fn drop(&mut self) {
        for worker in 0..self.pids.len() {
            self.kill(worker);
        }
    }
}

/// Spins until `condition` holds.
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let until = super::driver::deadline();
    while !condition() {
        assert!(Instant::now() < until, "waited too long until {what}");
        std::thread::yield_now();
    }
}
