//! Findings about a plan and its sockets, for the log.

use super::super::generation_plan::GenerationPlan;
use super::super::sockets::Sockets;
use crate::log::{ErrorLog, Level};

/// Writes what was found about a plan and its sockets to the log.
pub(super) fn say(
    log: &ErrorLog,
    plan: &GenerationPlan,
    sockets: &Sockets,
    no_control: Option<&str>,
) {
    let without_http3 = sockets.without_http3.iter().map(|missing| &missing.reason);
    let of_sockets = sockets.warnings.iter().chain(without_http3);
    let warnings = plan.warnings.iter().chain(of_sockets).map(String::as_str);
    for warning in warnings.chain(no_control) {
        log.say(Level::Warning, None, warning);
    }
    for complaint in plan.closed_sites().chain(sockets.complaints()) {
        log.say(Level::Error, None, &complaint);
    }
    for notice in &plan.notices {
        log.say(Level::Notice, None, notice);
    }
}
