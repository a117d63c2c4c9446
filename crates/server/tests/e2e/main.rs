//! `howdah serve` from outside: real sockets, real PHP, every byte of every answer checked.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used)] // A test's helpers fail the test.

#[allow(unused_imports)] // For other test programs.
#[path = "../support/mod.rs"]
mod support;

mod accept;
mod addresses;
mod apache;
mod backups;
mod bad_input;
mod behind_proxy;
mod broken_off;
mod browser;
mod certificates;
mod chaos;
mod checked;
mod clients;
mod codings;
mod cold;
mod configured;
mod demo;
mod disk;
mod encoded_slashes;
mod error_log;
mod escapes;
mod fail2ban;
mod files;
mod hostile;
mod hostile_descriptors;
mod hostile_states;
mod htaccess;
mod http2;
mod http3;
mod includes;
mod listeners;
mod load;
mod log_words;
mod logs;
mod methods;
mod open_files;
mod php;
mod protocol_attacks;
mod raw_bytes;
mod reload_over_tls;
mod sendfile;
mod sent_files;
mod site;
mod site_logs;
mod site_rules;
mod sites;
mod status;
mod tls;
mod trailers;
mod transfers;
mod types;
mod uploads;
mod websockets;
mod wire;
