//! `.htaccess` files at a real Apache and at Howdah: the same trees, the same rules, the same
//! requests; status, fields, body and what PHP sees must be the same, but for what `differences.rs`
//! lists with its reasons.
//!
//! | variable | effect |
//! |---|---|
//! | `HOWDAH_HTACCESS_FILTER` | only cases whose `file: title` contains it |
//! | `HOWDAH_HTACCESS_RECORD` | writes Apache's answers down instead, into `cases/*.golden` |
//! | `HOWDAH_HTACCESS_RECORDED` | compares with those answers even where there is an Apache |
//! | `HOWDAH_HTACCESS_SEEDS` | `1000`: this many random sets of rules; `500..900`: the sets of these seeds |
//! | `HOWDAH_HTACCESS_CORPUS` | a folder of real `.htaccess` files, each of which is tried as well |
//!
//! Without Debian's apache2 and libapache2-mod-php, Howdah is compared with the recorded answers.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used)] // A test's helpers fail the test.

#[allow(unused_imports)] // For other test programs.
#[path = "../support/mod.rs"]
mod support;

mod answer;
mod apache;
mod case;
mod cases;
mod client;
mod corpus;
mod dates;
mod differences;
mod digest;
mod golden;
mod random;
mod report;
mod rules;
mod servers;
mod tree;
