//! `howdah import`: writes the configuration that is equal to another server's, and says what has
//! no equal.

pub(crate) mod fpm;

use std::path::Path;

/// The result of an import.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Imported {
    /// The configuration, as TOML.
    pub(crate) config: String,
    /// Settings without an equal, each with its place in the file.
    pub(crate) remarks: Vec<String>,
}

/// Reads a file that is to be imported. Bytes that are no UTF-8, which comments may have, become
/// [`NO_CHARACTER`].
///
/// # Errors
/// The reason, as text for the operator.
fn read(path: &Path) -> Result<String, String> {
    let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

const NO_CHARACTER: char = char::REPLACEMENT_CHARACTER;
