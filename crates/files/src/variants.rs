//! The files that hold the content of another one in a content coding, such as `page.html.gz`.

use howdah_site::{ContentCoding, DocumentPath, FileHandle, SiteHost};

use crate::entry::{EntryKind, PathEntry};
use crate::store::FileStore;

/// The number of content codings.
const CODINGS: usize = ContentCoding::ALL.len();

/// The files with another one's content in a coding, as the store has found them for that one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct KnownVariants {
    /// The store's epoch in which they were found.
    epoch: Option<u64>,
    /// By coding.
    found: [KnownVariant; CODINGS],
}

/// The file with another one's content in one coding.
#[derive(Clone, Copy, Debug, Default)]
enum KnownVariant {
    #[default]
    Unknown,
    /// There is none, or an older one.
    Missing,
    At(FileHandle),
}

/// A file that can be sent in place of another one.
#[derive(Debug)]
pub struct CodedFile {
    /// The coding of its content.
    pub coding: ContentCoding,
    /// Its path.
    pub path: DocumentPath,
    /// The file, as the store has found it.
    pub file: FileHandle,
}

impl FileStore {
    /// Returns the files that can be sent in place of the one at `path`, for those of `codings`
    /// that have one: a file that is not older. `variant` gives the path for a coding, `None` where
    /// such a file is never sent. Within an [epoch](SiteHost::epoch) each path is looked up
    /// once; the document remembers the result.
    pub fn variants(
        &mut self,
        path: &DocumentPath,
        file: FileHandle,
        codings: &[ContentCoding],
        variant: impl Fn(ContentCoding) -> Option<DocumentPath>,
    ) -> Vec<CodedFile> {
        let epoch = self.epoch();
        let mut known = self.known_variants(path, file, epoch);
        let (mut variants, mut is_new) = (Vec::new(), false);
        for &coding in codings {
            let place = &mut known.found[coding as usize];
            if matches!(place, KnownVariant::Missing) {
                continue;
            }
            // Sites with the same files may differ in what they never send.
            let Some(variant) = variant(coding) else {
                continue;
            };
            if matches!(place, KnownVariant::Unknown) {
                *place = self.find_variant(path, file, &variant);
                is_new = true;
            }
            if let KnownVariant::At(file) = *place {
                variants.push(CodedFile { coding, path: variant, file });
            }
        }
        // Of the epoch before the look-ups: one that no event reports a change of has ended it.
        if is_new {
            self.know_variants(path, file, known);
        }
        variants
    }

    /// Returns what is known in `epoch` of the variants of the file at `path`.
    fn known_variants(
        &mut self,
        path: &DocumentPath,
        file: FileHandle,
        epoch: Option<u64>,
    ) -> KnownVariants {
        let known = match self.entry(path, file) {
            Ok(PathEntry { kind: EntryKind::File(document), .. }) => document.variants().get(),
            _ => KnownVariants::default(),
        };
        match known.epoch == epoch {
            true => known,
            false => KnownVariants { epoch, ..KnownVariants::default() },
        }
    }

    fn know_variants(&mut self, path: &DocumentPath, file: FileHandle, known: KnownVariants) {
        if let Ok(PathEntry { kind: EntryKind::File(document), .. }) = self.entry(path, file) {
            document.variants().set(known);
        }
    }

    fn find_variant(
        &mut self,
        path: &DocumentPath,
        file: FileHandle,
        variant: &DocumentPath,
    ) -> KnownVariant {
        let modified = |entry: &PathEntry| match &entry.kind {
            EntryKind::File(_) => entry.stat.map(|stat| stat.modified),
            _ => None,
        };
        let place = self.place(variant).ok();
        let entry = place.and_then(|place| Some((place, self.entries.at(place)?)));
        let found = entry.and_then(|(place, entry)| Some((place, modified(entry)?)));
        let Some((place, found)) = found else {
            return KnownVariant::Missing;
        };
        match self.entry(path, file).ok().and_then(modified) {
            Some(own) if own <= found => KnownVariant::At(FileHandle(place)),
            _ => KnownVariant::Missing,
        }
    }
}
