//! The behaviour of scripts under Howdah's server interface, seen from outside: each test runs
//! `howdah-php run` on scripts of its own and looks at the response. Tests expect the behaviour of
//! php-fpm or mod_php, unless one says otherwise.
#![cfg(not(no_php))]
#![allow(clippy::unwrap_used)] // A step that cannot be done fails the test.

mod errors;
mod functions;
mod input;
mod output;
mod script;
mod settings;
