//! The facts that the supervisor tells a front for its status.

use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::observe::Ledger;

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
}
