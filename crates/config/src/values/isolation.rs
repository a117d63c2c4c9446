//! Confinement of processes.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

/// The part of the machine that a pool is kept from, beside its user's permissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sandbox {
    /// Nothing.
    Off,
    /// Other sites' files and processes, and system calls that no application of the web needs.
    Standard,
    /// All files but the site's and the system's, too.
    Strict,
}

impl Sandbox {
    /// Every level.
    pub const ALL: [Sandbox; 3] = [Sandbox::Off, Sandbox::Standard, Sandbox::Strict];

    /// The name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Sandbox::Off => "off",
            Sandbox::Standard => "standard",
            Sandbox::Strict => "strict",
        }
    }
}

/// A place that scripts may connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// A TCP port of one address.
    Tcp(SocketAddr),
    /// A TCP port of every address.
    Port(u16),
    /// A socket in the file system.
    Unix(PathBuf),
    /// UDP, to every address and port.
    Udp,
}

impl Destination {
    /// The TCP port, if it is one. `None` for another kind of destination.
    pub fn port(&self) -> Option<u16> {
        match self {
            Destination::Tcp(address) => Some(address.port()),
            Destination::Port(port) => Some(*port),
            Destination::Unix(_) | Destination::Udp => None,
        }
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Destination::Tcp(address) => address.fmt(f),
            Destination::Port(port) => write!(f, "*:{port}"),
            Destination::Unix(path) => write!(f, "unix:{}", path.display()),
            Destination::Udp => f.write_str("udp"),
        }
    }
}
