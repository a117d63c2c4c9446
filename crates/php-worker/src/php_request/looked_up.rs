//! Looking up another URI of the site for `apache_lookup_uri()`.

use howdah_ipc::request::FixedText;
use howdah_ipc::sub_request::SubRequestResult;

use super::{PhpRequest, ResponseStage, sub_request};
use crate::listed::ListedEntry;
use crate::lookup::{self, FolderIndex};
use crate::{children, chroot};

impl<'c> PhpRequest<'c> {
    /// Looks up a URI. The front says which file answers for a folder.
    pub(super) fn look_up(&mut self, uri: &[u8]) -> Vec<ListedEntry<'c>> {
        let can_ask = children::is_worker() && self.stage != ResponseStage::Ended;
        let (root, protocol) = (
            self.document_root().to_vec(),
            self.variable(b"SERVER_PROTOCOL").unwrap_or_default().to_vec(),
        );
        let text = |which| self.request.fixed(which).unwrap_or_default();
        let asker = lookup::AskingRequest {
            root: &root,
            uri: text(FixedText::RequestUri),
            method: text(FixedText::Method),
            protocol: &protocol,
            time: self.request.time / 1_000_000,
            slashes: self.facts.slashes,
        };
        let inside = |path: &[u8]| chroot::inside(self.facts.root, path).to_vec();
        let client = &mut self.client;
        lookup::properties(&asker, uri, || {
            let question = sub_request::question(&self.request, uri).filter(|_| can_ask)?;
            let answer = client.ask(&question)?;
            match SubRequestResult::decode(&answer)? {
                SubRequestResult::File(path) => {
                    Some(FolderIndex { path: inside(path), is_script: false })
                }
                SubRequestResult::Script { path, .. } => {
                    Some(FolderIndex { path: inside(path), is_script: true })
                }
                SubRequestResult::Status(_) | SubRequestResult::Other => None,
            }
        })
    }
}
