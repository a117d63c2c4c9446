//! Installs servers and tools from Debian's packages.
//!
//! No existing service is stopped, masked or configured, and no new one is started: a policy that
//! keeps package scripts from starting services exists while packages are installed, unless there
//! is one already.

use std::fs;
use std::io::{BufRead, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::geteuid;

use crate::stack::Stack;

const POLICY: &str = "/usr/sbin/policy-rc.d";

/// Packages of loads, probes and the application.
const TOOLS: &[&str] = &[
    "wrk",
    "apache2-utils",
    "nghttp2-client",
    "strace",
    "mariadb-server",
    "wordpress",
    "wordpress-theme-twentytwentythree",
];

/// The missing packages of stacks and tools.
pub fn missing(stacks: &[std::rc::Rc<dyn Stack>], php: &str) -> Vec<String> {
    let mut packages: Vec<String> = TOOLS.iter().map(|name| (*name).to_owned()).collect();
    packages.extend(["cli", "opcache", "mysql"].map(|part| format!("php{php}-{part}")));
    packages.extend(stacks.iter().flat_map(|stack| stack.packages(php)));
    packages.sort();
    packages.dedup();
    packages.retain(|package| !is_installed(package));
    packages
}

/// Returns whether a package is installed.
pub fn is_installed(package: &str) -> bool {
    let output = Command::new("dpkg-query")
        .args(["-W", "-f", "${db:Status-Status}", package])
        .output();
    output.is_ok_and(|output| output.stdout == b"installed")
}

/// Asks on the terminal whether to go on.
pub fn ask(question: &str) -> bool {
    print!("{question} [y/N] ");
    let mut answer = String::new();
    let read = std::io::stdout()
        .flush()
        .and_then(|()| std::io::stdin().lock().read_line(&mut answer));
    read.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes")
}

/// Installs the packages and returns those that are not available.
///
/// # Errors
///
/// A message for people: the user is not root, or apt-get failed.
pub fn install(packages: &[String]) -> Result<Vec<String>, String> {
    if !geteuid().is_root() {
        return Err(format!(
            "installing packages needs root: sudo howdah-lab setup, or by hand: apt-get install {}",
            packages.join(" ")
        ));
    }
    let _policy = Policy::new()?;
    // Old lists are used where new ones cannot be fetched.
    let _ = apt(&["update"], &[]);
    if apt(&["-y", "--no-install-recommends", "install"], packages)? {
        return Ok(Vec::new());
    }
    let mut absent = Vec::new();
    for package in packages {
        if !apt(&["-y", "--no-install-recommends", "install"], std::slice::from_ref(package))? {
            absent.push(package.clone());
        }
    }
    Ok(absent)
}

fn apt(arguments: &[&str], packages: &[String]) -> Result<bool, String> {
    let status = Command::new("apt-get")
        .arg("-q")
        .args(arguments)
        .args(packages)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null())
        .status()
        .map_err(|error| {
            format!("cannot run apt-get: {error}; the laboratory is for Debian and its relatives")
        })?;
    Ok(status.success())
}

/// Keeps package scripts from starting services while the value exists.
struct Policy {
    is_ours: bool,
}

impl Policy {
    fn new() -> Result<Policy, String> {
        if Path::new(POLICY).exists() {
            return Ok(Policy { is_ours: false });
        }
        let written = fs::write(POLICY, "#!/bin/sh\nexit 101\n")
            .and_then(|()| fs::set_permissions(POLICY, fs::Permissions::from_mode(0o755)));
        written.map_err(|error| format!("{POLICY}: {error}"))?;
        Ok(Policy { is_ours: true })
    }
}

impl Drop for Policy {
    fn drop(&mut self) {
        if self.is_ours {
            let _ = fs::remove_file(POLICY);
        }
    }
}
