//! What a file is: a variant that is to be chosen, then what its extensions say.

use std::sync::Arc;

use howdah_htaccess::modules::core::Options;
use howdah_htaccess::modules::mime;
use howdah_htaccess::phases;
use howdah_http::Status;

use super::handler::options_of;
use super::world::RequestWorld;
use super::{Asked, Stop, Walk, target};
use crate::documents::{DocumentHost, PathKind};

impl<'r, H: DocumentHost> Walk<'_, 'r, H> {
    /// Media type, charset, encoding, languages and the handler that goes with an extension. Where
    /// no directive says anything about extensions, whoever sends the file knows its type.
    pub(super) fn find_type(&mut self, asked: &mut Asked<'r>) -> Result<(), Stop> {
        if asked.kind == PathKind::Missing
            && options_of(asked).has(Options::MULTI_VIEWS)
            && self.choose(asked)?
        {
            return Ok(());
        }
        if asked.settings.mime.is_some() {
            mime::find_type(&mut asked.tx, asked.settings.mime.as_deref(), &H::media_type);
        }
        Ok(())
    }

    /// MultiViews: whether a file with more extensions has become what is asked for.
    fn choose(&mut self, asked: &mut Asked<'r>) -> Result<bool, Stop> {
        let settings = Arc::clone(&asked.settings);
        let fields = asked.tx.state.error_fields.clone();
        let mut world =
            RequestWorld::new(self, &asked.path, asked.kind).under(&settings, asked.slash);
        let name =
            phases::negotiation::choose(&mut asked.tx, &settings, &mut world, &H::media_type)?;
        let Some(name) = name else { return Ok(false) };
        let uri = target::join(&variant(asked, &name), asked.tx.state.args.as_deref());
        let passed = self.passed(asked);
        let (found, status) = self.sub_request(&mut asked.tx.state, &uri, Some(&passed));
        if status != Status::OK {
            // What may not be had is no variant.
            self.scratch.reuse(found.path);
            asked.tx.state.error_fields = fields;
            return Err(Stop::Status(Status::NOT_FOUND));
        }
        let args = asked.tx.state.args.take();
        self.become_other(asked, found);
        asked.tx.state.args = args;
        Ok(true)
    }
}

/// The URL of a file in the folder of the request's, with the same PATH_INFO.
fn variant(asked: &Asked<'_>, name: &[u8]) -> Vec<u8> {
    let state = &asked.tx.state;
    let page = state.uri.strip_suffix(&state.path_info[..]).unwrap_or(&state.uri);
    let mut escaped = Vec::new();
    target::escape(name, &mut escaped);
    let mut uri = target::relative_to(page, &escaped);
    target::escape(&state.path_info, &mut uri);
    uri
}
