//! The facts that the supervisor tells a front for its status.

use std::time::SystemTime;

use howdah_config::ListenAddress;
use serde::{Deserialize, Serialize};

use crate::observe::Ledger;
use crate::operator_path;

/// Facts about the server that a front has from its start on.
#[derive(Debug, Clone)]
pub(crate) struct ServerFacts {
    /// The process of the supervisor.
    pub(crate) supervisor: u32,
    /// The time at which the supervisor started.
    pub(crate) began: SystemTime,
    /// The number of the front's generation.
    pub(crate) generation: u64,
    pub(crate) ledger: Ledger,
    /// The addresses of the configuration that the generation does not listen on.
    pub(crate) missing_listeners: Vec<MissingListener>,
    /// The missing listeners for monitors.
    pub(crate) missing_admin: Vec<MissingListener>,
    /// The listeners whose UDP port alone cannot be had: there is no HTTP/3.
    pub(crate) without_http3: Vec<MissingListener>,
}

/// An address of the configuration that the server cannot listen on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MissingListener {
    pub(crate) address: String,
    /// The reason, for the operator.
    pub(crate) reason: String,
    /// A site's owner can bring it about: the address is a socket below a folder of the owner's.
    #[serde(skip)]
    pub(crate) is_of_owner: bool,
}

impl MissingListener {
    /// The address of a listener for which there is no socket.
    pub(crate) fn new(address: &ListenAddress, reason: String) -> MissingListener {
        let is_of_owner = match address {
            ListenAddress::Tcp(_) => false,
            ListenAddress::Unix(path) => operator_path::is_anothers(path),
        };
        MissingListener {
            address: address.to_string(),
            reason,
            is_of_owner,
        }
    }
}
