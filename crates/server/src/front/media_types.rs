//! Media types from the system's file.

use std::io;

use howdah_config::Config;

/// Takes the media types of `mime_types` for this process. A missing file has none.
///
/// # Errors
/// The file cannot be read: what happened, for the log. The built-in types are used.
pub(crate) fn use_media_types(config: &Config) -> Result<(), String> {
    let path = &config.mime_types;
    match std::fs::read(path) {
        Ok(text) => howdah_files::use_system_types(&text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => {
            let path = path.display();
            return Err(format!(
                "the media types in {path} cannot be read: {error}; the built-in types are used"
            ));
        }
    }
    Ok(())
}
