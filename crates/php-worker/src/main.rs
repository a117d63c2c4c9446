//! `howdah-php`: runs PHP for Howdah.
//!
//! ```text
//! howdah-php zygote       what the supervisor starts, once per pool; see `zygote`
//! howdah-php run SCRIPT   runs a script in a bare loop, without a server; see `run`
//! howdah-php version      which PHP this is, and whether opcache is on
//! ```
//! This is the only program of Howdah that links PHP. If it was built on a machine without PHP, it
//! prints a message and exits with status 2.
#![allow(unsafe_code)] // PHP is C, and processes are forked here.

#[cfg(not(no_php))]
mod backtrace;
#[cfg(not(no_php))]
mod body;
#[cfg(not(no_php))]
mod caches;
#[cfg(not(no_php))]
mod callbacks;
#[cfg(not(no_php))]
mod children;
#[cfg(not(no_php))]
mod chroot;
#[cfg(not(no_php))]
mod death_count;
mod decimal;
#[cfg(not(no_php))]
mod engine_facts;
#[cfg(not(no_php))]
mod head;
#[cfg(not(no_php))]
mod ini;
#[cfg(not(no_php))]
mod listed;
#[cfg(not(no_php))]
mod log;
#[cfg(not(no_php))]
mod lookup;
#[cfg(not(no_php))]
mod php_request;
#[cfg(not(no_php))]
mod process;
#[cfg(not(no_php))]
mod questions;
#[cfg(not(no_php))]
mod refusal;
#[cfg(not(no_php))]
mod run;
#[cfg(not(no_php))]
mod running;
#[cfg(not(no_php))]
mod sapi;
mod session_gc;
#[cfg(not(no_php))]
mod slow_log;
#[cfg(not(no_php))]
mod start;
mod start_backoff;
#[cfg(not(no_php))]
mod text_table;
#[cfg(not(no_php))]
mod time_out;
#[cfg(not(no_php))]
mod unread_ini;
#[cfg(not(no_php))]
mod uploads;
#[cfg(not(no_php))]
mod user_ini;
#[cfg(not(no_php))]
mod worker;
#[cfg(not(no_php))]
mod zygote;

use std::process::ExitCode;

/// Exit status for wrong usage, and for a program that was built without PHP.
const EXIT_USAGE: u8 = 2;

#[cfg(no_php)]
fn main() -> ExitCode {
    eprintln!("howdah-php was built without PHP: {}", env!("HOWDAH_PHP_MISSING"));
    ExitCode::from(EXIT_USAGE)
}

#[cfg(not(no_php))]
fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let command = arguments.next();
    match command.as_deref().and_then(|command| command.to_str()) {
        Some("zygote") => zygote::main(),
        Some("run") => run::main(arguments),
        Some("version") => version(),
        _ => {
            eprintln!("usage: howdah-php zygote | run SCRIPT [OPTION]... | version");
            ExitCode::from(EXIT_USAGE)
        }
    }
}

#[cfg(not(no_php))]
fn version() -> ExitCode {
    match sapi::Engine::start(&sapi::EngineOptions::default(), &ini::PoolIni::default()) {
        Ok(mut engine) => {
            println!("PHP {}, opcache {}", engine.php_version(), engine.facts().opcache);
            engine.stop();
            ExitCode::SUCCESS
        }
        Err(reason) => {
            eprintln!("howdah-php: PHP did not start: {reason}");
            ExitCode::FAILURE
        }
    }
}
