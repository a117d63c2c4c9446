//! `howdah serve` from outside: real sockets, real PHP, every byte of every answer checked.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used)] // A test's helpers fail the test.

#[allow(unused_imports)] // What other test programs use.
#[path = "../support/mod.rs"]
mod support;

mod accept;
mod bad_input;
mod chaos;
mod error_log;
mod escapes;
mod files;
mod hostile;
mod htaccess;
mod load;
mod logs;
mod php;
mod site;
mod sites;
mod uploads;
mod wire;
