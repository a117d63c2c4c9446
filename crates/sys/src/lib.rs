//! Safe functions for every raw system call of the workspace.
//!
//! Each module is one concept of the kernel. A function adds no policy: it makes the call, turns
//! `-1` into an [`std::io::Error`] and returns owned descriptors. The functions check the
//! conditions for the call's soundness, therefore callers need no `unsafe`.
#![allow(unsafe_code)] // This crate is where the system calls live.

pub mod allocator;
pub mod chroot;
pub mod confinement;
pub mod control_groups;
pub mod credentials;
pub mod datagram;
pub mod descriptor;
mod epoll;
pub mod eventfd;
pub mod folder;
pub mod futex;
pub mod inotify;
pub mod landlock;
pub mod listen;
pub mod memory;
pub mod mounts;
pub mod open;
pub mod page_cache;
pub mod poll;
pub mod process;
pub mod readiness;
pub mod remote;
pub mod schedule;
pub mod seccomp;
pub mod sendfile;
pub mod seqpacket;
pub mod shared_memory;
pub mod signal;
pub mod socket;
pub mod space;
pub mod stat;
pub mod usage;
pub mod zone;

use std::io;

/// Converts the C convention "-1 means an error in errno" to a `Result`.
fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result == -1 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// Converts the result of a call that returns a size, like [`check`].
fn check_size(result: libc::ssize_t) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}
