//! Howdah, the server for PHP sites.
//!
//! `cli` reads the command line; `check` finds mistakes; `explain` shows how a request is resolved;
//! `supervisor` starts and watches processes; `front` is the process that serves clients.
#![forbid(unsafe_code)]

mod admin;
mod body;
mod budget;
mod check;
mod cli;
mod crew;
mod descriptor_needs;
mod explain;
mod front;
mod h1;
mod h2;
mod h3;
mod host;
mod import;
mod log;
mod net;
mod observe;
mod operator_path;
mod pipeline;
mod protocols;
mod quic;
mod respond;
mod status;
mod streams;
mod supervisor;
mod tls;

fn main() -> std::process::ExitCode {
    cli::main()
}
