//! Watching a running server: `howdah status`, and the admin listener.

mod admin;
mod caches;
mod control;
mod counters;
mod fpm;
mod lanes;
mod modes;
mod warmup;
mod watch;
mod workers;

use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::site::Site;
use crate::support::{Setup, wait_until};
use crate::wire::{Reply, Wire};

/// Lines of a configuration that has an admin listener.
const TOP: &str = "listen = [\"127.0.0.1:0\"]\nthreads = 2\ncontrol = \"control\"\n\
                   admin = \"127.0.0.1:0\"\n[log]\naccess = \"off\"\n";

/// The address of the admin listener.
fn admin_address(site: &Site) -> SocketAddr {
    const PREFIX: &str = "monitors are answered on http://";
    site.server.wait_for_log(PREFIX);
    let log = site.server.log();
    let (_, rest) = log.rsplit_once(PREFIX).unwrap();
    rest.lines().next().unwrap().parse().unwrap()
}

/// Asks the admin listener.
fn monitor(site: &Site, target: &str, fields: &[(&str, &str)]) -> Reply {
    let address = admin_address(site);
    let mut wire = Wire::connect(address);
    let host = format!("127.0.0.1:{}", address.port());
    let fields = [&[("Host", host.as_str())], fields].concat();
    wire.ask("GET", target, &fields, b"")
}

/// `howdah status --json`.
fn status(site: &Site) -> Value {
    json_status(&site.path().join("howdah.toml"))
}

/// `howdah status --json` of the server with this configuration.
fn json_status(config: &Path) -> Value {
    let file = config.to_str().unwrap();
    let (code, told, errors) = Setup::with(&["status", "--json", "--config", file]).run();
    assert_eq!(code, Some(0), "{errors}");
    serde_json::from_str(&told).unwrap_or_else(|error| panic!("{error} in {told}"))
}

/// The site of that name in a status.
fn named<'s>(status: &'s Value, name: &str) -> &'s Value {
    let sites = status["sites"].as_array().unwrap();
    sites
        .iter()
        .find(|site| site["name"] == name)
        .unwrap_or_else(|| panic!("{status:#}"))
}

/// Waits until the status has what is expected, and returns the status.
fn wait_for_status(site: &Site, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let mut last = Value::Null;
    wait_until(what, || {
        last = status(site);
        is_so(&last)
    });
    last
}

/// Returns whether a program of this name is installed.
fn is_installed(program: &str) -> bool {
    let mut command = Command::new(program);
    command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    let is_there = command.status().is_ok();
    if !is_there {
        howdah_skip::skip!("{program} is not installed; scripts/install-packages.sh test has it");
    }
    is_there
}

/// Gives `input` to a program. Returns whether it was content, and what it said.
fn judged_by(program: &str, arguments: &[&str], input: &[u8]) -> (bool, String) {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&said).into_owned())
}
