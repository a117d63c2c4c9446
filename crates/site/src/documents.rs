//! The document roots, as resolving a URL asks about them.

use std::rc::Rc;
use std::sync::Arc;

use howdah_htaccess::DirectiveHost;
use howdah_htaccess::host::{Probe, ProbeKind};

use crate::path::DocumentPath;
use crate::rules::Rules;

/// The kind of a document path, links followed as its [`symlinks`](DocumentPath::symlinks) rule
/// allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathKind {
    /// A regular file.
    File,
    /// A folder.
    Directory,
    /// Nothing, also where a component on the way is a file or a name is too long.
    Missing,
    /// Something that may not be served: no permission on the way, a link that the rule forbids, a
    /// loop of links, a device, socket or pipe.
    Forbidden,
}

/// The host's own note of the place where it keeps what it found at a path. The handle travels with
/// the resolution, so that the host answers from the file without a second look-up. This crate
/// only hands it on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileHandle(pub u32);

impl FileHandle {
    /// The handle of a host that keeps nothing: the path has to be looked up.
    pub const NONE: FileHandle = FileHandle(u32::MAX);
}

/// A host's answer about a document path: its kind, and the rules in force there.
#[derive(Clone, Debug)]
pub struct DocumentLook {
    /// The kind of the path.
    pub kind: PathKind,
    /// The place where the host keeps what is there.
    pub file: FileHandle,
    /// The rules of the folder that the path is in; of the folder itself where the path is one;
    /// where nothing is there, of the last existing folder on the way. `None`: there are no
    /// directives in any folder from the root down to that one, nor for the site as a whole. Then
    /// no phase of the directives is entered.
    pub rules: Option<Rc<Rules>>,
}

/// A [`DirectiveHost`] that knows the document roots. Resolving asks as few questions as possible;
/// the usual request asks one. A host that knows of no directives needs [`kind`](SiteHost::kind)
/// only.
pub trait SiteHost: DirectiveHost {
    /// Returns what is at `path`.
    fn kind(&mut self, path: &DocumentPath) -> PathKind;

    /// Returns what is at `path`, and which rules are in force there.
    fn look(&mut self, path: &DocumentPath) -> DocumentLook {
        DocumentLook {
            kind: self.kind(path),
            file: FileHandle::NONE,
            rules: None,
        }
    }

    /// Returns what is known of `path` without leaving the document root: `Some(None)` where
    /// nothing is there. `None`: [`DirectiveHost::probe`] has to answer, past the rule for symbolic
    /// links, as Apache does for paths that directives name.
    fn probe_document(&mut self, _path: &DocumentPath) -> Option<Option<Probe>> {
        None
    }

    /// Returns what is at an absolute path, links followed: from what is known below the document
    /// root where the path is below it. `None` if nothing is there. `below` is any path below that
    /// root; its memory is used.
    fn probe_absolute(&mut self, below: &mut DocumentPath, absolute: &[u8]) -> Option<Probe> {
        if below.set_absolute(absolute)
            && let Some(known) = self.probe_document(below)
        {
            // A slash after the name of a file names nothing.
            return known
                .filter(|probe| probe.kind == ProbeKind::Directory || !absolute.ends_with(b"/"));
        }
        self.probe(absolute)
    }

    /// Returns the content of the file at `path`, to which the rule for symbolic links leads.
    /// `None`: it cannot be read, or is larger than 10 MiB.
    fn read_document(&mut self, _path: &DocumentPath) -> Option<Arc<[u8]>> {
        None
    }

    /// Returns a number that stays the same for as long as every question asked since it was
    /// reached would get the same answer again. `None`: the host cannot tell.
    fn epoch(&self) -> Option<u64> {
        None
    }

    /// Returns the media type of an extension, which is in lower case and has no dot (Apache's
    /// TypesConfig). `None` also for the extensions of PHP, which are no types.
    fn media_type(_extension: &[u8]) -> Option<&'static str>
    where
        Self: Sized,
    {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use howdah_config::Symlinks;

    /// A host that knows some documents, and a disk that has a large file everywhere.
    struct Documents;

    const LARGE: u64 = 1000;

    fn probe(kind: ProbeKind, size: u64) -> Option<Probe> {
        Some(Probe { kind, size, modified: 0, mode: 0o644 })
    }

    impl DirectiveHost for Documents {
        fn probe(&mut self, _path: &[u8]) -> Option<Probe> {
            probe(ProbeKind::File, LARGE)
        }
    }

    impl SiteHost for Documents {
        fn kind(&mut self, _path: &DocumentPath) -> PathKind {
            PathKind::Missing
        }

        fn probe_document(&mut self, path: &DocumentPath) -> Option<Option<Probe>> {
            match path.relative() {
                b"a.txt" => Some(probe(ProbeKind::File, 1)),
                b"folder" => Some(probe(ProbeKind::Directory, 2)),
                b"link" => None,
                _ => Some(None),
            }
        }
    }

    #[test]
    fn an_absolute_path_is_known_below_the_root_and_asked_for_elsewhere() {
        let rows = [
            ("/srv/a.txt", Some(1)),
            ("/srv/a.txt/", None),
            ("/srv/folder", Some(2)),
            ("/srv/folder/", Some(2)),
            ("/srv/none", None),
            ("/srv/link", Some(LARGE)),
            ("/srv/../a.txt", Some(LARGE)),
            ("/etc/passwd", Some(LARGE)),
        ];
        for (absolute, expected) in rows {
            let mut below = DocumentPath::at_root(Vec::new(), Symlinks::Owner, 0, |bytes| {
                bytes.extend_from_slice(b"/srv");
            });
            let found = Documents.probe_absolute(&mut below, absolute.as_bytes());
            assert_eq!(found.map(|probe| probe.size), expected, "{absolute}");
        }
    }

    #[test]
    fn a_host_that_says_nothing_of_them_has_no_epoch_and_no_media_types() {
        assert_eq!((Documents.epoch(), Documents::media_type(b"html")), (None, None));
    }
}
