//! Howdah, the server for PHP sites.
//!
//! `cli` reads what is asked for; `supervisor` starts and watches processes; `front` is the process that speaks to clients.
#![forbid(unsafe_code)]

mod cli;
mod front;
mod log;
mod supervisor;

fn main() -> std::process::ExitCode {
    cli::main()
}
