//! What a file is: a variant that is to be chosen, then what its extensions say.

use howdah_htaccess::modules::mime;

use super::{Asked, Stop, Walk};
use crate::disk::Disk;

impl<'r, D: Disk> Walk<'_, 'r, D> {
    /// Media type, charset, encoding, languages and the handler that goes with an extension. Where no directive says anything
    /// about extensions, whoever sends the file knows its type.
    pub(super) fn find_type(&mut self, asked: &mut Asked<'r>) -> Result<(), Stop> {
        if asked.settings.mime.is_some() {
            let disk = &*self.disk;
            mime::find_type(&mut asked.tx, &asked.settings, &|extension| {
                disk.media_type(extension)
            });
        }
        Ok(())
    }
}
