//! The first phases: from a URL's path to what is there on host, and to the rules of its folder
//! (`ap_core_translate`, `ap_directory_walk`).

use howdah_htaccess::transaction::Found;
use memchr::memchr;

use super::{Asked, Stop, Walk, shown, step};
use crate::documents::{DocumentHost, FileHandle, Look, PathKind};
use crate::normal::normalize;

impl<'r, H: DocumentHost> Walk<'_, 'r, H> {
    /// Makes `path`, as a URL has it, the request's.
    pub(super) fn translate(&mut self, asked: &mut Asked<'r>, path: &[u8]) -> Result<(), Stop> {
        asked.path = self.site.root(self.client.host(), self.scratch.take())?;
        let shape = asked.path.write_relative(|bytes| normalize(path, bytes))?;
        asked.slash = shape.slash;
        asked.dotted = shape.dotted;
        asked.note_uri();
        Ok(())
    }

    /// Finds what is there. What does not exist is left out of the path but for its first
    /// component; the rest is PATH_INFO.
    pub(super) fn walk_folders(&mut self, asked: &mut Asked<'r>) -> Result<(), Stop> {
        asked.tx.state.path_info.clear();
        let known = asked.look.take();
        let mut look = known.unwrap_or_else(|| self.look(asked));
        if look.kind == PathKind::Missing && memchr(b'/', asked.path.relative()).is_some() {
            look = self.walk_down(asked);
        }
        asked.rules = look.rules;
        asked.kind = look.kind;
        asked.file = look.file;
        if let Some(rules) = &asked.rules {
            asked.settings.clone_from(rules.settings());
        } else {
            asked.settings.clone_from(self.site.bare_settings());
        }
        self.note_filename(asked);
        note_files(asked);
        if asked.kind == PathKind::Forbidden {
            let path = asked.path.absolute().display();
            asked.tx.complain(
                None,
                format!("{path} may not be read, or is reached by a link that may not be followed"),
            );
            return Err(Stop::FORBIDDEN);
        }
        match asked.rules.as_ref().and_then(|rules| rules.mistake()) {
            Some(mistake) => {
                let text = mistake.message.clone();
                let place = std::sync::Arc::new(mistake.place.clone());
                // What is in a broken file is not in force, nor is what is above it.
                asked.settings.clone_from(self.site.bare_settings());
                asked.tx.complain(Some(&place), text);
                Err(Stop::FAILED)
            }
            None => Ok(()),
        }
    }

    fn look(&mut self, asked: &Asked<'r>) -> Look {
        if asked.path.fits() {
            self.host.look(&asked.path)
        } else {
            Look {
                kind: PathKind::Missing,
                file: FileHandle::NONE,
                rules: None,
            }
        }
    }

    /// Goes down from the root to the first component that is not a folder.
    fn walk_down(&mut self, asked: &mut Asked<'r>) -> Look {
        let whole = asked.path.relative().to_vec();
        asked.path.truncate_relative(0);
        let mut start = 0;
        loop {
            let end = memchr(b'/', &whole[start..]).map_or(whole.len(), |at| start + at);
            asked.path.push_component(&whole[start..end]);
            let look = self.look(asked);
            if look.kind != PathKind::Directory || end == whole.len() {
                asked.tx.state.path_info.extend_from_slice(&whole[end..]);
                return look;
            }
            start = end + 1;
        }
    }

    fn note_filename(&mut self, asked: &mut Asked<'r>) {
        let state = &mut asked.tx.state;
        state.filename.clear();
        state.filename.extend_from_slice(asked.path.absolute_bytes());
        state.found = match asked.kind {
            PathKind::File => Found::File,
            PathKind::Directory => Found::Directory,
            PathKind::Missing | PathKind::Forbidden => Found::Missing,
        };
        if !asked.slash {
            return;
        }
        match asked.kind {
            PathKind::Directory if state.path_info.is_empty() => {
                if !state.filename.ends_with(b"/") {
                    state.filename.push(b'/');
                }
            }
            _ => state.path_info.push(b'/'),
        }
    }
}

/// Tells `explain` which files were read.
fn note_files(asked: &mut Asked<'_>) {
    if !asked.tx.is_traced() {
        return;
    }
    let mut files = Vec::new();
    let mut rules = asked.rules.as_ref();
    while let Some(some) = rules {
        let outcome = match &some.own().mistake {
            Some(mistake) => format!("broken: {mistake}"),
            None => "applies".to_owned(),
        };
        files.push(step("file", some.own().file.to_string(), outcome));
        rules = some.above();
    }
    for event in files.into_iter().rev() {
        asked.tx.trace(|| event);
    }
    let state = &asked.tx.state;
    let found = match asked.kind {
        PathKind::File => "a file",
        PathKind::Directory => "a folder",
        PathKind::Missing => "nothing is there",
        PathKind::Forbidden => "may not be read",
    };
    let mut event = step("path", shown(&state.filename), found);
    event.facts.push(("url", shown(&state.uri)));
    if !state.path_info.is_empty() {
        event.facts.push(("path info", shown(&state.path_info)));
    }
    asked.tx.trace(|| event);
}
