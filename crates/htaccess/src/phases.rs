//! The phases that several modules decide together, in the order of Apache's hooks.

pub mod access;
pub mod negotiation;
