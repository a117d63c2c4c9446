//! How scripts behave under Howdah's server interface, seen from outside: each test runs
//! `howdah-php run` on scripts of its own and looks at the response. What is expected is what
//! php-fpm or mod_php do, unless a test says otherwise.
#![cfg(not(no_php))]
#![allow(clippy::unwrap_used)] // What cannot be done fails the test.

mod errors;
mod functions;
mod input;
mod output;
mod script;
mod settings;
