//! `howdah import`: writes the configuration that is equal to another server's, and says what has
//! no equal.

pub(crate) mod fpm;

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Bytes that a file to import may have. A longer one is refused.
const MOST_BYTES: u64 = 4 << 20;

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
    let failed = |error: io::Error| format!("{}: {error}", path.display());
    let file = File::open(path).map_err(failed)?;
    let mut bytes = Vec::new();
    // A device may have no end.
    file.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(format!("{}: is longer than 4 MiB, so it is no configuration", path.display()));
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

const NO_CHARACTER: char = char::REPLACEMENT_CHARACTER;
