//! The resolution cache: one entry per request, reused by requests that agree in everything that
//! the evaluation read.
//!
//! Directives are evaluated for the first and for the second request for a URL. The second
//! evaluation notes what it reads: single fields of the request, the client's address, the file
//! system. Until the host's epoch changes, a later request for that URL with the same values has
//! the same resolution, and nothing is evaluated. An evaluation that reads a value of that moment
//! alone (the time, a password) is never kept.
//!
//! An entry has room for what the server prepares of its answer (`P`): a head, the call of a
//! script. The prepared answer belongs to the entry and is dropped with it.
//!
//! Entries are bounded in number and in bytes, since directives decide how much a request holds. A
//! large resolution is not kept, and entries of a former epoch are freed.

use std::hash::{BuildHasher, Hasher};
use std::net::SocketAddr;
use std::rc::Rc;

use howdah_htaccess::{ClientRequest, PropertyValues, RequestReads};
use howdah_http::{Fields, Method, Scheme, Version};

use crate::path::DocumentPath;
use crate::resolution::{Resolution, Resolved};
use crate::ruled_request::RuledRequest;

/// The resolutions of requests that directives apply to. Every thread has its own cache.
#[derive(Debug)]
pub struct ResolutionCache<P> {
    hasher: foldhash::fast::RandomState,
    /// By the last bits of the hash. Empty until there is something to keep.
    slots: Box<[CacheSlot<P>]>,
    /// The bytes of all entries.
    bytes: usize,
    /// The slot that was freed last to make room.
    hand: usize,
}

/// A place for one request.
#[derive(Debug)]
struct CacheSlot<P> {
    /// The hash of the last request for this place that was evaluated.
    seen: u64,
    /// Requests that are still to be evaluated without being kept.
    wait: u8,
    /// The next `wait`, should the next entry be of no use either.
    patience: u8,
    /// Whether the last entry, which was freed, was never used.
    was_useless: bool,
    entry: Option<Box<CacheEntry<P>>>,
}

/// The resolution of one request.
#[derive(Debug)]
pub(crate) struct CacheEntry<P> {
    hash: u64,
    question: ComparedRequest,
    answers: PropertyValues,
    epoch: u64,
    was_used: bool,
    bytes: usize,
    resolution: Resolution,
    ruled: Option<Rc<RuledRequest>>,
    prepared: Rc<P>,
}

/// A request as the cache resolved it.
#[derive(Debug)]
pub struct CachedResolution<P> {
    /// The resolution.
    pub resolved: Resolved,
    /// The server's prepared answer for requests of this entry; at first the default of `P`, which
    /// the server fills through interior mutability. It belongs to `resolved` as that is here: once
    /// the [`RuledRequest`] in it has been changed, the prepared answer does not apply. `None`: the
    /// request is not in the cache.
    pub prepared: Option<Rc<P>>,
}

/// The part of a request that is compared before its fields are.
#[derive(Debug)]
struct ComparedRequest {
    site: usize,
    path: DocumentPath,
    slash: bool,
    query: Option<Box<[u8]>>,
    is_head: bool,
    scheme: Scheme,
    version: Version,
    authority: Box<[u8]>,
    local: SocketAddr,
}

/// The URL of a request below its site's root.
#[derive(Clone, Copy)]
pub(crate) struct CacheKey<'p> {
    pub(crate) site: usize,
    pub(crate) path: &'p DocumentPath,
    /// Whether a slash followed in the URL.
    pub(crate) slash: bool,
    pub(crate) query: Option<&'p [u8]>,
}

impl ComparedRequest {
    fn new(client: &ClientRequest<'_>, key: CacheKey<'_>) -> ComparedRequest {
        ComparedRequest {
            site: key.site,
            path: key.path.clone(),
            slash: key.slash,
            query: key.query.map(Box::from),
            is_head: *client.method() == Method::Head,
            scheme: client.scheme(),
            version: client.version(),
            authority: client.authority().into(),
            local: client.local(),
        }
    }

    #[inline]
    fn is(&self, client: &ClientRequest<'_>, key: CacheKey<'_>) -> bool {
        self.path == *key.path
            && self.query.as_deref() == key.query
            && *self.authority == *client.authority()
            && self.slash == key.slash
            && self.is_head == (*client.method() == Method::Head)
            && self.site == key.site
            && self.scheme == client.scheme()
            && self.version == client.version()
            && self.local == client.local()
    }
}

impl<P> CacheEntry<P> {
    /// The resolution, with its path in the memory of `path`.
    #[inline]
    pub(crate) fn resolved(&self, path: &mut DocumentPath) -> CachedResolution<P> {
        let resolution = match &self.resolution {
            Resolution::File { path: known, file } => {
                path.assign(known);
                Resolution::File {
                    path: std::mem::replace(path, DocumentPath::nowhere()),
                    file: *file,
                }
            }
            Resolution::Php(script) => {
                path.assign(&script.path);
                Resolution::Php(script.at(std::mem::replace(path, DocumentPath::nowhere())))
            }
            other => other.clone(),
        };
        CachedResolution {
            resolved: Resolved { resolution, ruled: self.ruled.clone() },
            prepared: Some(Rc::clone(&self.prepared)),
        }
    }
}

impl<P: Default> ResolutionCache<P> {
    /// An empty cache.
    pub fn new() -> ResolutionCache<P> {
        ResolutionCache {
            hasher: foldhash::fast::RandomState::default(),
            slots: Box::default(),
            bytes: 0,
            hand: 0,
        }
    }

    /// The hash of a request, which the other methods take. `None`: nothing has been
    /// [begun](Self::begin).
    #[inline]
    pub(crate) fn hash(&self, path: &DocumentPath, query: Option<&[u8]>) -> Option<u64> {
        if self.slots.is_empty() {
            return None;
        }
        let mut hasher = self.hasher.build_hasher();
        hasher.write(path.absolute_bytes());
        if let Some(query) = query {
            hasher.write(query);
        }
        Some(hasher.finish())
    }

    /// Forgets everything, and with it the rules that requests met.
    pub fn clear(&mut self) {
        self.slots.iter_mut().for_each(|slot| *slot = CacheSlot::default());
        self.bytes = 0;
    }

    /// Frees the entries that are not of this epoch of the host: they are of no use any more.
    pub fn free_former(&mut self, epoch: u64) {
        if self.bytes == 0 {
            return;
        }
        for slot in &mut self.slots {
            if slot.entry.as_ref().is_some_and(|entry| entry.epoch != epoch) {
                self.bytes -= slot.free();
            }
        }
    }

    /// Allocates the slots, for the first request that directives apply to.
    pub(crate) fn begin(&mut self) {
        if self.slots.is_empty() {
            self.slots = (0..SLOTS).map(|_| CacheSlot::default()).collect();
        }
    }

    /// Returns the entry for the request of `client`, if there is one and it is valid. `None`
    /// otherwise.
    #[inline]
    pub(crate) fn find(
        &mut self,
        hash: u64,
        client: &ClientRequest<'_>,
        key: CacheKey<'_>,
        epoch: u64,
    ) -> Option<&CacheEntry<P>> {
        let entry = self.slot(hash).entry.as_deref_mut()?;
        if entry.epoch != epoch
            || !entry.question.is(client, key)
            || !entry.answers.are_those_of(client)
        {
            return None;
        }
        entry.was_used = true;
        Some(entry)
    }

    /// Returns whether the resolution of this request should be kept: the request has been seen
    /// before, and there is no valid entry in its place.
    pub(crate) fn wants(&mut self, hash: u64) -> bool {
        let slot = self.slot(hash);
        let before = std::mem::replace(&mut slot.seen, hash);
        let is_known =
            before == hash || slot.entry.as_ref().is_some_and(|entry| entry.hash == hash);
        if is_known && slot.wait == 0 {
            return true;
        }
        slot.wait = slot.wait.saturating_sub(u8::from(is_known));
        false
    }

    /// Keeps the resolution of the request of `client`, which read `reads` at that epoch of the
    /// host. Returns the entry's prepared answer; `None` where the resolution cannot be kept.
    pub(crate) fn keep(
        &mut self,
        hash: u64,
        client: &ClientRequest<'_>,
        key: CacheKey<'_>,
        reads: &RequestReads,
        epoch: u64,
        resolved: &Resolved,
    ) -> Option<Rc<P>> {
        let slot = self.slot(hash);
        let freed = slot.free();
        slot.seen = hash;
        slot.patience = match std::mem::take(&mut slot.was_useless) {
            false => 0,
            true => (2 * slot.patience + 1).min(MOST_PATIENCE),
        };
        slot.wait = slot.patience;
        self.bytes -= freed;
        let bytes = bytes_of(client, key, resolved);
        let is_small = bytes <= LARGEST_ENTRY;
        let Some(answers) = reads.answers(client).filter(|_| is_small && can_be_kept(resolved))
        else {
            // Such a request is unlikely to become one that can be kept.
            self.slot(hash).wait = MOST_PATIENCE;
            return None;
        };
        self.make_room(bytes);
        self.bytes += bytes;
        let prepared = Rc::<P>::default();
        self.slot(hash).entry = Some(Box::new(CacheEntry {
            hash,
            question: ComparedRequest::new(client, key),
            answers,
            epoch,
            was_used: false,
            bytes,
            resolution: resolved.resolution.clone(),
            ruled: resolved.ruled.clone(),
            prepared: Rc::clone(&prepared),
        }));
        Some(prepared)
    }

    /// Frees entries until there is room for one of `bytes` bytes.
    fn make_room(&mut self, bytes: usize) {
        while self.bytes + bytes > MOST_BYTES {
            self.hand = (self.hand + 1) % SLOTS;
            self.bytes -= self.slots[self.hand].free();
        }
    }

    /// Returns the slot of a request. [`begin`](Self::begin) must have been called.
    #[inline]
    fn slot(&mut self, hash: u64) -> &mut CacheSlot<P> {
        &mut self.slots[hash as usize % SLOTS]
    }
}

impl<P: Default> Default for ResolutionCache<P> {
    fn default() -> ResolutionCache<P> {
        ResolutionCache::new()
    }
}

impl<P> CacheSlot<P> {
    /// Frees the entry, and notes what is to be known of it. Returns its bytes.
    fn free(&mut self) -> usize {
        let Some(entry) = self.entry.take() else {
            return 0;
        };
        (self.seen, self.was_useless) = (entry.hash, !entry.was_used);
        entry.bytes
    }
}

impl<P> Default for CacheSlot<P> {
    fn default() -> CacheSlot<P> {
        CacheSlot {
            seen: 0,
            wait: 0,
            patience: 0,
            was_useless: false,
            entry: None,
        }
    }
}

/// Returns about how many bytes an entry takes. Three copies of variables count: those in the state
/// of the request, those that are encoded in the call of a script, and their names in the call.
/// Settings that were merged for this request alone live as long as the entry.
fn bytes_of(client: &ClientRequest<'_>, key: CacheKey<'_>, resolved: &Resolved) -> usize {
    let question = key.path.absolute_bytes().len()
        + key.query.map_or(0, <[u8]>::len)
        + client.authority().len();
    let location = match &resolved.resolution {
        Resolution::Redirect { location, .. } => location.len(),
        _ => 0,
    };
    let ruled = resolved.ruled.as_ref().map_or(0, |ruled| {
        let settings = ruled.settings.php.iter().flat_map(|php| &php.values);
        let settings = settings.map(|(name, value)| Fields::size_of_line(name, value));
        3 * ruled.state.weight() + settings.sum::<usize>() + ENTRY * ruled.unshared()
    });
    SMALLEST_ENTRY + 3 * question + location + ruled
}

fn can_be_kept(resolved: &Resolved) -> bool {
    let is_settled = match &resolved.resolution {
        Resolution::File { .. }
        | Resolution::Php(_)
        | Resolution::Redirect { .. }
        | Resolution::Status(_)
        | Resolution::Allow { .. } => true,
        Resolution::Directory { .. }
        | Resolution::Listing { .. }
        | Resolution::Page { .. }
        | Resolution::Proxy { .. }
        | Resolution::Verify { .. }
        | Resolution::Discard { .. }
        | Resolution::Exhausted => false,
    };
    // Complaints are logged for every request.
    is_settled
        && resolved
            .ruled
            .as_ref()
            .is_none_or(|ruled| ruled.state.complaints.is_empty() && ruled.state.trace.is_none())
}

/// Requests that can be kept at a time.
const SLOTS: usize = 1024;

/// The bytes of all entries. Beyond them, entries are freed.
const MOST_BYTES: usize = 16 << 20;

/// The bytes of one entry. A resolution beyond them is not kept.
const LARGEST_ENTRY: usize = 64 << 10;

/// The bytes of an entry of settings that merging has copied.
const ENTRY: usize = 200;

/// The bytes of an entry for which directives set nothing, with a prepared answer.
const SMALLEST_ENTRY: usize = 2 << 10;

/// The largest number of requests that are evaluated before a useless entry is replaced.
const MOST_PATIENCE: u8 = 63;

#[cfg(test)]
mod tests;
