//! Heads of files as directives have dressed them, kept as long as nothing changes: neither the
//! file, nor what is in force for it, nor, where Expires tells the time, the second.

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::BuildHasher;
use std::rc::Rc;
use std::sync::Arc;

use howdah_htaccess::modules::filter;
use howdah_htaccess::modules::filter::Filter;
use howdah_htaccess::response::{self, passes_filters};
use howdah_htaccess::{Settings, State};
use howdah_http::h1::encode_kept_head;
use howdah_http::{Request, ResponseHead, Status};
use howdah_site::Ruled;

use super::recent::Recent;

/// Heads that a thread keeps. Beyond, all are forgotten.
const MOST_KEPT: usize = 2048;

/// Dressed heads, by the heads that they were made of, by what was in force, and by what codings
/// clients take.
#[derive(Debug, Default)]
pub(super) struct Wardrobe {
    kept: HashMap<Key, Kept, foldhash::fast::RandomState>,
    hasher: foldhash::fast::RandomState,
    recent: Recent<Answered>,
}

/// The head that a remembered request was answered with.
#[derive(Debug)]
struct Answered {
    /// Held for its address, as in [`Kept`].
    document: Rc<[u8]>,
    second: u64,
    head: Rc<[u8]>,
}

/// Addresses of the file's head and of the settings, and a digest of Accept-Encoding where that
/// counts.
type Key = (usize, usize, u64);

#[derive(Debug)]
struct Kept {
    // These two are held so that nothing else can come to stand at their addresses, which are the
    // key.
    _document: Rc<[u8]>,
    _settings: Arc<Settings>,
    dress: Dress,
    second: u64,
    head: Rc<[u8]>,
    filters: Vec<Filter>,
}

/// What else goes into a head that can be kept.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Dress {
    content_type: Option<Vec<u8>>,
    charset: Option<Vec<u8>>,
    encoding: Option<Vec<u8>>,
    languages: Vec<Vec<u8>>,
    /// Accept-Encoding, where content may be compressed.
    accepts: Option<Vec<u8>>,
}

impl Dress {
    /// What a head depends on before the directives have seen it; `None` where it depends on more,
    /// and cannot be kept.
    pub(super) fn of(ruled: &Ruled, request: &Request) -> Option<Dress> {
        let (state, settings) = (&ruled.state, &ruled.settings);
        let headers = settings.headers.as_ref();
        if !headers.is_none_or(|headers| headers.is_constant())
            || state.trace.is_some()
            || has_its_own(state)
        {
            return None;
        }
        let by_type = settings.filter.as_ref().is_none_or(|filter| filter.is_by_type());
        let is_filtered = passes_filters(state, settings);
        if is_filtered && (!by_type || has_filter_variables(state)) {
            return None;
        }
        Some(Dress {
            content_type: state.content_type.clone(),
            charset: state.charset.clone(),
            encoding: state.encoding.clone(),
            languages: state.languages.clone(),
            accepts: is_filtered.then(|| accepts(state, request).to_vec()),
        })
    }

    fn fits(&self, state: &State, accepts: Option<&[u8]>) -> bool {
        self.content_type == state.content_type
            && self.charset == state.charset
            && self.encoding == state.encoding
            && self.languages == state.languages
            && self.accepts.as_deref() == accepts
    }
}

impl Wardrobe {
    /// The head that the same remembered request was answered with before, if it still holds.
    #[inline]
    pub(super) fn find_recent(
        &self,
        document: &Rc<[u8]>,
        ruled: &Rc<Ruled>,
        second: u64,
    ) -> Option<Rc<[u8]>> {
        let answered = self.recent.find(ruled)?;
        let holds = Rc::ptr_eq(&answered.document, document)
            && (answered.second == second || answered.second == ALWAYS);
        holds.then(|| Rc::clone(&answered.head))
    }

    /// The head that was made of the file's own, if it still holds, and what the content has passed
    /// for it.
    pub(super) fn find(
        &mut self,
        document: &Rc<[u8]>,
        ruled: &Rc<Ruled>,
        request: &Request,
        second: u64,
    ) -> Option<(Rc<[u8]>, &[Filter])> {
        let (state, settings) = (&ruled.state, &ruled.settings);
        let is_filtered = passes_filters(state, settings);
        let accepts = is_filtered.then(|| accepts(state, request));
        let key = self.key(document, settings, accepts.as_deref());
        let kept = self.kept.get(&key)?;
        let is_in_time = kept.second == second || kept.second == ALWAYS;
        let holds = is_in_time
            && kept.dress.fits(state, accepts.as_deref())
            && !has_its_own(state)
            && !(is_filtered && has_filter_variables(state));
        if !holds {
            return None;
        }
        if !is_filtered {
            self.recent.note(ruled, || Answered {
                document: Rc::clone(document),
                second: kept.second,
                head: Rc::clone(&kept.head),
            });
        }
        Some((Rc::clone(&kept.head), &kept.filters[..]))
    }

    /// Keeps a head, for content that has that length once it has passed the filters, and gives it
    /// back as it is kept.
    #[allow(clippy::too_many_arguments)] // Each of them is a part of what is kept.
    pub(super) fn keep(
        &mut self,
        document: &Rc<[u8]>,
        ruled: &Ruled,
        dress: Dress,
        second: u64,
        head: &ResponseHead,
        length: u64,
        filters: &[Filter],
    ) -> Rc<[u8]> {
        let mut bytes = Vec::new();
        encode_kept_head(&mut bytes, head, length);
        let bytes: Rc<[u8]> = bytes.into();
        let expires = ruled.settings.expires.as_ref();
        let tells_time = expires.is_some_and(|expires| expires.is_active());
        if self.kept.len() >= MOST_KEPT {
            self.kept.clear();
        }
        let key = self.key(document, &ruled.settings, dress.accepts.as_deref());
        let kept = Kept {
            _document: Rc::clone(document),
            _settings: Arc::clone(&ruled.settings),
            dress,
            second: if tells_time { second } else { ALWAYS },
            head: Rc::clone(&bytes),
            filters: filters.to_vec(),
        };
        self.kept.insert(key, kept);
        bytes
    }

    fn key(&self, document: &Rc<[u8]>, settings: &Arc<Settings>, accepts: Option<&[u8]>) -> Key {
        let digest = accepts.map_or(0, |accepts| self.hasher.hash_one(accepts));
        (document.as_ptr() as usize, Arc::as_ptr(settings) as usize, digest)
    }
}

/// Whether the request has fields or filters that its settings do not tell.
fn has_its_own(state: &State) -> bool {
    !state.fields.is_empty() || !state.error_fields.is_empty() || !state.output_filters.is_empty()
}

fn has_filter_variables(state: &State) -> bool {
    !state.env.is_empty() && filter::VARIABLES.iter().any(|name| state.env.contains(name))
}

/// All lines of Accept-Encoding, as the directives have left them.
fn accepts<'r>(state: &'r State, request: &'r Request) -> Cow<'r, [u8]> {
    let fields = state.request_fields.as_ref().unwrap_or(&request.fields);
    let mut values = fields.values(b"accept-encoding");
    match (values.next(), values.next()) {
        (Some(first), Some(second)) => {
            let all: Vec<&[u8]> = [first, second].into_iter().chain(values).collect();
            all.join(&b","[..]).into()
        }
        (only, _) => only.unwrap_or_default().into(),
    }
}

/// Whether the directives have nothing to say about the head of a file, which has that media type
/// by itself.
pub(super) fn is_left_alone(ruled: &Ruled, document: &[u8]) -> bool {
    let state = &ruled.state;
    state.status == Status::OK
        && state.charset.is_none()
        && (is_by_name(ruled) || state.content_type.as_deref() == content_type(document))
        && response::is_left_alone(state, &ruled.settings)
}

/// Content-Type as `files` prepares it: the third line.
fn content_type(document: &[u8]) -> Option<&[u8]> {
    let rest = document.strip_prefix(b"HTTP/1.1 200 OK\r\nServer: Howdah\r\nContent-Type: ")?;
    Some(&rest[..memchr::memchr(b'\r', rest)?])
}

/// The fields of a head that `files` has prepared, without those that are added when it is encoded.
pub(crate) fn read_head(document: &[u8]) -> ResponseHead {
    let mut head = ResponseHead::new(Status::OK);
    for line in document.split(|&byte| byte == b'\n').skip(1) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let Some(colon) = memchr::memchr(b':', line) else {
            continue;
        };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name != b"Server" && name != b"Content-Length" {
            head.fields.push(name, value);
        }
    }
    head
}

/// Whether no directive has anything to say about the media type.
fn is_by_name(ruled: &Ruled) -> bool {
    ruled.settings.mime.is_none() && ruled.state.content_type.is_none()
}

/// The media type that the directives have found. What has none is nothing that a browser should
/// guess at.
pub(crate) fn set_content_type(head: &mut ResponseHead, ruled: &Ruled) {
    if is_by_name(ruled) {
        return;
    }
    let found = ruled.state.content_type_field();
    head.fields.remove(b"content-type");
    let value = found.as_deref().filter(|value| howdah_http::is_field_value(value));
    head.fields.push(b"Content-Type", value.unwrap_or(b"application/octet-stream"));
}

/// The second of a head that tells no time.
const ALWAYS: u64 = u64::MAX;
