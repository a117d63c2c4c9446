//! The laboratory: runs real servers side by side on one machine and compares them.
//!
//! ```text
//! scenario ── cells ──┐
//! stacks (each its own folder, ports, users) ──┤ rounds, interleaved ──> Run (run.json) ──> report
//! loads (wrk, ab, h2load, open loop, ramp) ────┤
//! probes (CPU, PSS, switches, system calls) ───┘
//! ```
//!
//! Every started program is a [`process::StackProgram`] with a session of its own, and ends
//! with it. Every file is written below one temporary folder.

#![forbid(unsafe_code)]

pub mod command_line;
pub mod environment;
pub mod frankenphp;
pub mod load;
pub mod loads;
pub mod machine;
pub mod php_facts;
pub mod plan;
pub mod probes;
pub mod process;
pub mod record;
pub mod report;
pub mod rules;
pub mod runner;
pub mod scenarios;
pub mod setup;
pub mod stack;
pub mod stacks;
pub mod statistics;
pub mod terminal;
pub mod tls;
pub mod unit;
pub mod wordpress;
pub mod zts;
