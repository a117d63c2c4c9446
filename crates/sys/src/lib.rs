//! Every raw system call of the workspace, behind safe functions.
//!
//! Each module is one noun of the kernel's. A function here adds no policy: it makes the call,
//! turns `-1` into an [`std::io::Error`] and hands out owned descriptors. What must hold for the
//! call to be sound is checked here, so that callers need no `unsafe`.
#![allow(unsafe_code)] // This crate is where the system calls live.

pub mod credentials;
pub mod descriptor;
mod epoll;
pub mod eventfd;
pub mod folder;
pub mod futex;
pub mod inotify;
pub mod listen;
pub mod memory;
pub mod open;
pub mod poll;
pub mod process;
pub mod readiness;
pub mod schedule;
pub mod sendfile;
pub mod seqpacket;
pub mod signal;
pub mod socket;
pub mod stat;
pub mod zone;

use std::io;

/// Turns the C convention "-1 means look at errno" into a `Result`.
fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result == -1 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// As [`check`], for calls that answer with a size.
fn check_size(result: libc::ssize_t) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}
