//! The only view of the outside that deciding what a URL stands for needs.

use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use howdah_htaccess::world::{Load, LookedUp, Owners, Probe, Verified};

use crate::path::DocumentPath;
use crate::rules::Rules;

/// What is at a path, links followed as its [`symlinks`](DocumentPath::symlinks) rule allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
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

/// What is at a path, and which rules are in force there.
#[derive(Clone, Debug)]
pub struct Look {
    /// What is there.
    pub kind: Kind,
    /// The rules of the folder that it is in; of the folder itself where it is one; where nothing
    /// is there, of the last folder on the way to it that is there. `None` where there are no
    /// directives in any folder from the root down to that one, nor for the site as a whole: then
    /// nothing that directives could do is looked at.
    pub rules: Option<Rc<Rules>>,
}

/// The file system and what else the server knows, as one site sees it. It is asked as seldom as
/// possible; the usual request asks once. Only [`kind`](Disk::kind) must be answered by a disk that
/// knows of no directives.
pub trait Disk {
    /// What is at `path`.
    fn kind(&mut self, path: &DocumentPath) -> Kind;

    /// What is at `path`, and which rules are in force there.
    fn look(&mut self, path: &DocumentPath) -> Look {
        Look { kind: self.kind(path), rules: None }
    }

    /// As long as this stays the same, every question that was put to this disk since it first was
    /// so would be answered as it was. `None` where nobody can tell.
    fn epoch(&self) -> Option<u64> {
        None
    }

    /// What is at an absolute path, links followed. Directives name any path.
    fn probe(&mut self, _path: &[u8]) -> Option<Probe> {
        None
    }

    /// The same without following a link at its end.
    fn probe_link(&mut self, path: &[u8]) -> Option<Probe> {
        self.probe(path)
    }

    /// The content of a file that a directive names: `None` where it cannot be read or is larger
    /// than 10 MiB.
    fn read(&mut self, _path: &[u8]) -> Option<Arc<[u8]>> {
        None
    }

    /// The names in a folder, in no order, without `.` and `..`.
    fn entries(&mut self, _folder: &[u8]) -> Vec<Box<[u8]>> {
        Vec::new()
    }

    /// Whether the password fits the hash, as far as that is known without computing for long.
    fn verify(&mut self, _hash: &[u8], _password: &[u8]) -> Verified {
        Verified::Later
    }

    /// A variable of the server's own environment.
    fn variable(&mut self, _name: &[u8]) -> Option<Vec<u8>> {
        None
    }

    /// The local time's difference from UTC in seconds, at that moment (seconds since 1970).
    fn zone(&mut self, _seconds: u64) -> i32 {
        0
    }

    /// The media type that goes with an extension, which is in lower case and has no dot (Apache's
    /// TypesConfig). `None` for those of PHP: they are no types.
    fn media_type(_extension: &[u8]) -> Option<&'static str>
    where
        Self: Sized,
    {
        None
    }

    /// Whose the file at an absolute path is.
    fn owners(&mut self, _path: &[u8]) -> Option<Owners> {
        None
    }

    /// The name of a client, looked up from its address, which the name must lead back to.
    fn host_name(&mut self, _address: IpAddr) -> LookedUp<Vec<u8>> {
        LookedUp::Never
    }

    /// The addresses that a name leads to.
    fn addresses(&mut self, _name: &[u8]) -> LookedUp<Vec<IpAddr>> {
        LookedUp::Never
    }

    /// What the nonces of Digest authentication are made with: random, and the same for all threads
    /// and for as long as the server runs. `None` answers Digest with 500.
    fn nonce_secret(&mut self) -> Option<[u8; 32]> {
        None
    }

    /// How long the request has taken so far, in microseconds.
    fn elapsed(&mut self) -> u64 {
        0
    }

    /// How busy the server is.
    fn load(&mut self) -> Load {
        Load::default()
    }
}
