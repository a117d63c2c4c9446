//! `howdah-lab`.

#![forbid(unsafe_code)]

fn main() {}
