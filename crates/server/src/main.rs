//! Howdah, the server for PHP sites.
//!
//! `cli` reads what is asked for; `check` looks for mistakes, `explain` says what a request comes
//! to; `supervisor` starts and watches processes; `front` is the process that speaks to clients.
#![forbid(unsafe_code)]

mod body;
mod check;
mod cli;
mod explain;
mod front;
mod h1;
mod host;
mod log;
mod net;
mod observe;
mod pipeline;
mod respond;
mod supervisor;

fn main() -> std::process::ExitCode {
    cli::main()
}
