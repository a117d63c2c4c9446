//! What requests came to, remembered for the requests that are like them.
//!
//! Directives are evaluated for the first request that asks for a URL and for the second. The
//! second time it is noted what they looked at: which fields of the request, the client's address,
//! the disk. As long as the disk has not changed, another request for the same URL that has the
//! same there comes to the same, so nothing is evaluated. What was looked at that no two requests
//! share (the time, a password) is never remembered.

use std::hash::{BuildHasher, Hasher};
use std::net::SocketAddr;
use std::rc::Rc;

use howdah_htaccess::{Answers, Client, Reads};
use howdah_http::{Method, Scheme, Version};

use crate::path::DocumentPath;
use crate::resolution::{Resolution, Resolved};
use crate::ruled::Ruled;

/// What requests came to that directives had a say in. Every thread has its own.
#[derive(Debug)]
pub struct Memory {
    hasher: foldhash::fast::RandomState,
    /// By the last bits of the hash. Empty until there is something to remember.
    slots: Box<[Slot]>,
}

/// A place for one request.
#[derive(Debug, Default)]
struct Slot {
    /// The hash of the last request that asked for this place and was not remembered.
    seen: u64,
    /// Requests that are still to be evaluated without being remembered.
    wait: u8,
    /// How many that will be if what is remembered next is of no use either.
    patience: u8,
    kept: Option<Box<Kept>>,
}

/// What one request came to.
#[derive(Debug)]
pub(crate) struct Kept {
    hash: u64,
    question: Question,
    answers: Answers,
    epoch: u64,
    was_used: bool,
    resolution: Resolution,
    ruled: Option<Rc<Ruled>>,
}

/// What two requests must have in common before it is worth a look at their fields.
#[derive(Debug)]
struct Question {
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

/// A request's URL below its site's root, as it was sent.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'p> {
    pub(crate) site: usize,
    pub(crate) path: &'p DocumentPath,
    /// Whether a slash followed in the URL.
    pub(crate) slash: bool,
    pub(crate) query: Option<&'p [u8]>,
}

impl Question {
    fn new(client: &Client<'_>, asked: Asked<'_>) -> Question {
        Question {
            site: asked.site,
            path: asked.path.clone(),
            slash: asked.slash,
            query: asked.query.map(Box::from),
            is_head: *client.method() == Method::Head,
            scheme: client.scheme(),
            version: client.version(),
            authority: client.authority().into(),
            local: client.local(),
        }
    }

    #[inline]
    fn is(&self, client: &Client<'_>, asked: Asked<'_>) -> bool {
        self.path == *asked.path
            && self.query.as_deref() == asked.query
            && *self.authority == *client.authority()
            && self.slash == asked.slash
            && self.is_head == (*client.method() == Method::Head)
            && self.site == asked.site
            && self.scheme == client.scheme()
            && self.version == client.version()
            && self.local == client.local()
    }
}

impl Kept {
    /// What the request comes to, with the path in `path`'s memory, which is the request's.
    #[inline]
    pub(crate) fn resolved(&self, path: &mut DocumentPath) -> Resolved {
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
        Resolved { resolution, ruled: self.ruled.clone() }
    }
}

impl Memory {
    /// An empty one.
    pub fn new() -> Memory {
        Memory {
            hasher: foldhash::fast::RandomState::default(),
            slots: Box::default(),
        }
    }

    /// The hash of a request, by which the others below know it; `None` as long as nothing has been
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

    /// Makes room, for the first request that directives have a say in.
    pub(crate) fn begin(&mut self) {
        if self.slots.is_empty() {
            self.slots = (0..SLOTS).map(|_| Slot::default()).collect();
        }
    }

    /// What is remembered of a request, if it is known what that comes to.
    #[inline]
    pub(crate) fn recall(
        &mut self,
        hash: u64,
        client: &Client<'_>,
        asked: Asked<'_>,
        epoch: u64,
    ) -> Option<&Kept> {
        let kept = self.slot(hash).kept.as_deref_mut()?;
        if kept.epoch != epoch
            || !kept.question.is(client, asked)
            || !kept.answers.are_those_of(client)
        {
            return None;
        }
        kept.was_used = true;
        Some(kept)
    }

    /// Whether it is worth while to remember what this request will come to: it has been asked for
    /// before, and what was remembered in its place is of no use any more.
    pub(crate) fn wants(&mut self, hash: u64) -> bool {
        let slot = self.slot(hash);
        let before = std::mem::replace(&mut slot.seen, hash);
        let is_known = before == hash || slot.kept.as_ref().is_some_and(|kept| kept.hash == hash);
        if is_known && slot.wait == 0 {
            return true;
        }
        slot.wait = slot.wait.saturating_sub(u8::from(is_known));
        false
    }

    /// Remembers what the request of `client` came to at that epoch of the disk.
    pub(crate) fn keep(
        &mut self,
        hash: u64,
        client: &Client<'_>,
        asked: Asked<'_>,
        reads: &Reads,
        epoch: u64,
        resolved: &Resolved,
    ) {
        let slot = self.slot(hash);
        let was_of_use = slot.kept.as_ref().is_some_and(|kept| kept.was_used);
        slot.patience = match was_of_use || slot.kept.is_none() {
            true => 0,
            false => (2 * slot.patience + 1).min(MOST_PATIENCE),
        };
        slot.wait = slot.patience;
        let answers = reads.answers(client).filter(|_| can_be_kept(resolved));
        slot.kept = answers.map(|answers| {
            Box::new(Kept {
                hash,
                question: Question::new(client, asked),
                answers,
                epoch,
                was_used: false,
                resolution: resolved.resolution.clone(),
                ruled: resolved.ruled.clone(),
            })
        });
        if slot.kept.is_none() {
            // Such a request is not likely to become one that can be remembered.
            slot.wait = MOST_PATIENCE;
        }
    }

    /// The place of a request, once there is room.
    #[inline]
    fn slot(&mut self, hash: u64) -> &mut Slot {
        &mut self.slots[hash as usize % SLOTS]
    }
}

impl Default for Memory {
    fn default() -> Memory {
        Memory::new()
    }
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
        | Resolution::Discard { .. } => false,
    };
    // What directives have to say to the log is said for every request.
    is_settled
        && resolved
            .ruled
            .as_ref()
            .is_none_or(|ruled| ruled.state.complaints.is_empty() && ruled.state.trace.is_none())
}

/// Requests that can be remembered at a time.
const SLOTS: usize = 1024;

/// So many requests are evaluated at most before one is tried again that could not be used.
const MOST_PATIENCE: u8 = 63;

#[cfg(test)]
mod tests;
