//! The variants that a name may mean.

use std::fmt;
use std::sync::Arc;

use howdah_http::Status;

use super::accept::{AcceptItem, SCRIPT};
use crate::description::FileDescription;
use crate::escape;
use crate::evaluation_context::EvaluationContext;
use crate::host::ProbeKind;
use crate::transaction::Transaction;
use crate::work;

/// Properties of a folder's files by the directives of other modules.
pub(crate) struct FolderFiles<'s> {
    /// Returns what the extensions of a file's name say.
    pub describe: &'s dyn Fn(&[u8]) -> FileDescription,
    /// ForceType.
    pub force_type: Option<&'s [u8]>,
    /// DefaultLanguage.
    pub default_language: Option<&'s [u8]>,
    /// Whether there are sections, which may be about single files.
    pub have_sections: bool,
}

/// A file that a name may mean, and its qualities for the client.
#[derive(Clone, Debug)]
pub(super) struct FileVariant {
    /// The name within the folder.
    pub name: Vec<u8>,
    pub media_type: Vec<u8>,
    pub charset: Vec<u8>,
    pub encoding: Option<Vec<u8>>,
    pub languages: Vec<Arc<[u8]>>,
    /// Bytes.
    pub length: u64,
    pub has_handler: bool,
    /// `qs` of its media type.
    pub source_quality: f32,
    pub level: f32,
    /// The fields from here on are results of the negotiation.
    pub type_quality: f32,
    pub language_quality: f32,
    pub charset_quality: f32,
    pub encoding_quality: f32,
    /// Its place in LanguagePriority.
    pub language_index: Option<usize>,
    pub level_matched: f32,
    /// 1 where `*/*` matched, 2 for `type/*`, 3 for the type itself.
    pub stars: u8,
    /// Whether the client named every property of the variant.
    pub is_definite: bool,
}

impl fmt::Display for FileVariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} type {} language {} charset {} encoding {}",
            String::from_utf8_lossy(&self.name),
            self.type_quality,
            self.language_quality,
            self.charset_quality,
            self.encoding_quality
        )
    }
}

impl FileVariant {
    /// Returns the bytes of the variant in a list of variants, about.
    pub(super) fn bytes(&self) -> usize {
        let encoding = self.encoding.as_ref().map_or(0, Vec::len);
        let languages: usize = self.languages.iter().map(|language| language.len() + 1).sum();
        self.name.len() + self.media_type.len() + self.charset.len() + encoding + languages
    }

    /// Returns the steps of reading the variant's media type and of comparing its properties with
    /// those of others.
    fn steps(&self) -> u64 {
        (self.media_type.len() + self.charset.len()) as u64 + work::bytes(self.bytes())
    }
}

/// Returns the variants, in the order of their names; `None` where there is none.
///
/// # Errors
/// 404 where there are files and none can be sent, 500 where the request's budget is used up.
pub(super) fn gather(
    tx: &mut Transaction<'_>,
    files: &FolderFiles<'_>,
    context: &mut dyn EvaluationContext,
) -> Result<Option<Vec<FileVariant>>, Status> {
    let filename = tx.state.filename.clone();
    let Some(slash) = filename.iter().rposition(|&byte| byte == b'/') else {
        return Ok(None);
    };
    let (folder, name) = filename.split_at(slash + 1);
    let begins =
        |entry: &[u8]| entry.strip_prefix(name).is_some_and(|rest| rest.first() == Some(&b'.'));
    let meter = tx.client.meter();
    let default_language = files.default_language.map(Arc::from);
    let mut found = false;
    let mut variants = Vec::new();
    for entry in context.host().entries(folder).iter().filter(|entry| begins(entry)) {
        if meter.spend(work::RULE + entry.len() as u64 * DESCRIBING).is_err() {
            break;
        }
        let path = [folder, entry].concat();
        let Some(probe) = context.probe(&path).filter(|probe| probe.kind != ProbeKind::Directory)
        else {
            continue;
        };
        found = true;
        if probe.kind == ProbeKind::File && is_served(tx, files, context, name, entry) {
            let variant = variant(files, name, entry, probe.size, &default_language);
            meter.note(variant.as_ref().map_or(0, FileVariant::steps));
            variants.extend(variant);
        }
    }
    if meter.is_exhausted() {
        return Err(super::too_much_work(tx));
    }
    if variants.is_empty() && found {
        let name = String::from_utf8_lossy(name);
        tx.complain(None, format!("MultiViews: no file that begins with {name} can be negotiated"));
        return Err(Status::NOT_FOUND);
    }
    variants.sort_by(|a, b| {
        b.source_quality.total_cmp(&a.source_quality).then_with(|| a.name.cmp(&b.name))
    });
    Ok((!variants.is_empty()).then_some(variants))
}

/// Returns whether a sub-request for the file would be answered with it. Asked only where sections
/// may say something of single files.
fn is_served(
    tx: &mut Transaction<'_>,
    files: &FolderFiles<'_>,
    context: &mut dyn EvaluationContext,
    asked: &[u8],
    entry: &[u8],
) -> bool {
    if !files.have_sections {
        return true;
    }
    let state = &tx.state;
    let page = state.uri.strip_suffix(&state.path_info[..]).unwrap_or(&state.uri);
    let Some(folder) = page.strip_suffix(asked) else {
        return true;
    };
    let mut uri = [&escape::uri(folder)[..], &escape::segment(entry)].concat();
    uri.extend_from_slice(&escape::uri(&state.path_info));
    if let Some(args) = &state.args {
        uri.push(b'?');
        uri.extend_from_slice(args);
    }
    context.lookup(tx, &uri).status == Status::OK
}

/// Returns the variant of a file, if all its extensions are known or part of the requested name.
fn variant(
    files: &FolderFiles<'_>,
    asked: &[u8],
    entry: &[u8],
    length: u64,
    default_language: &Option<Arc<[u8]>>,
) -> Option<FileVariant> {
    let mut description = (files.describe)(entry);
    if description.languages.is_empty() {
        description.languages.extend(default_language.clone());
    }
    if !description.is_known || !explains(asked, &description.exceptions) {
        return None;
    }
    let has_handler = description.handler.is_some() || is_php(entry);
    let content_type = match content_type(files, &description) {
        Some(content_type) => content_type,
        None if has_handler => SCRIPT.to_vec(),
        None => return None,
    };
    if content_type == MAP || description.handler.as_deref() == Some(b"type-map") {
        return None;
    }
    let item = AcceptItem::take(&mut &content_type[..]);
    Some(FileVariant {
        name: entry.to_vec(),
        media_type: item.name,
        charset: item.charset,
        encoding: description.encoding,
        languages: description.languages,
        length,
        has_handler,
        source_quality: item.quality,
        level: item.level,
        type_quality: 1.0,
        language_quality: 1.0,
        charset_quality: 1.0,
        encoding_quality: 1.0,
        language_index: None,
        level_matched: 0.0,
        stars: 0,
        is_definite: true,
    })
}

/// Returns the media type of ForceType, or of the extensions with the charset.
fn content_type(files: &FolderFiles<'_>, description: &FileDescription) -> Option<Vec<u8>> {
    if let Some(forced) = files.force_type {
        return Some(forced.to_vec());
    }
    let content_type = description.content_type.as_ref()?;
    Some(match &description.charset {
        Some(charset) => [content_type, &b"; charset="[..], charset].concat(),
        None => content_type.clone(),
    })
}

/// Returns whether the requested name contains all unknown extensions, in their order.
fn explains(asked: &[u8], exceptions: &[Box<[u8]>]) -> bool {
    let mut rest = exceptions.iter().peekable();
    for part in asked.split(|&byte| byte == b'.') {
        rest.next_if(|exception| ***exception == *part);
    }
    rest.next().is_none()
}

/// Returns whether PHP runs the file without any directive, as in Debian's Apache.
fn is_php(name: &[u8]) -> bool {
    let extension = name.rsplit(|&byte| byte == b'.').next();
    matches!(extension, Some(b"php" | b"phtml" | b"phar"))
}

/// Steps of describing a file, for each byte of its name: each extension is looked up.
const DESCRIBING: u64 = 16;

/// The media type of files with lists of variants (`.var`), which are not read here.
const MAP: &[u8] = b"application/x-type-map";
