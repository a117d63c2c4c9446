//! Media types from the system's file.

use std::io;

use howdah_config::Config;

/// Takes the media types of `mime_types` for this process. A missing file has none.
///
/// # Errors
/// The file cannot be read: what happened, for the log. The built-in types are used.
pub(crate) fn use_media_types(config: &Config) -> Result<(), String> {
    let text = read(config)?;
    howdah_files::use_system_types(&text);
    Ok(())
}

/// Returns why [`use_media_types`] would fail.
pub(crate) fn obstacle(config: &Config) -> Option<String> {
    read(config).err()
}

/// Reads `mime_types`. A missing file is empty.
///
/// # Errors
/// The file cannot be read: a message for the log.
fn read(config: &Config) -> Result<Vec<u8>, String> {
    let path = &config.mime_types;
    match std::fs::read(path) {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => {
            let path = path.display();
            Err(format!(
                "the media types in {path} cannot be read: {error}; the built-in types are used"
            ))
        }
    }
}
