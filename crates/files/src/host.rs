//! The questions that resolving asks of the store.

use std::sync::Arc;

use howdah_htaccess::host::Probe;
use howdah_site::{DirectiveHost, DocumentLook, DocumentPath, PathKind, SiteHost};

use crate::media_type::{is_of_scripts, of_extension};
use crate::store::FileStore;

impl SiteHost for FileStore {
    #[inline]
    fn kind(&mut self, path: &DocumentPath) -> PathKind {
        match self.place(path) {
            Ok(place) => {
                self.entries.at(place).map_or(PathKind::Missing, |entry| entry.kind.path_kind())
            }
            Err(obstacle) => obstacle.kind(),
        }
    }

    #[inline]
    fn look(&mut self, path: &DocumentPath) -> DocumentLook {
        self.look_with_rules(path)
    }

    fn probe_document(&mut self, path: &DocumentPath) -> Option<Option<Probe>> {
        self.probe_below(path)
    }

    fn read_document(&mut self, path: &DocumentPath) -> Option<Arc<[u8]>> {
        self.read_below(path)
    }

    #[inline]
    fn epoch(&self) -> Option<u64> {
        Some(self.ticks + self.entries.removed() + self.unrepeatable)
    }

    fn media_type(extension: &[u8]) -> Option<&'static str> {
        let extension = std::str::from_utf8(extension).ok();
        extension.filter(|extension| !is_of_scripts(extension)).and_then(of_extension)
    }
}

impl DirectiveHost for FileStore {
    fn probe(&mut self, path: &[u8]) -> Option<Probe> {
        self.probe_path(path)
    }

    fn probe_link(&mut self, path: &[u8]) -> Option<Probe> {
        self.probe_link_path(path)
    }

    fn read(&mut self, path: &[u8]) -> Option<Arc<[u8]>> {
        self.read_path(path)
    }

    fn entries(&mut self, folder: &[u8]) -> Vec<Box<[u8]>> {
        self.names_in(folder)
    }
}
