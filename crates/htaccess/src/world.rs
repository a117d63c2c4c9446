//! What evaluation asks of the outside.

use std::net::IpAddr;
use std::sync::Arc;

use howdah_http::Status;

use crate::transaction::Transaction;

/// The file system, sub-requests and passwords, as the server knows them. The answers may come from
/// caches, which are as fresh as what is served.
pub trait World {
    /// What is at an absolute path, links followed.
    fn probe(&mut self, path: &[u8]) -> Option<Probe>;
    /// Which kind of thing is at an absolute path, links followed. Cheaper than
    /// [`probe`](World::probe) where it is asked about the file that the request is for, as nearly
    /// every rewrite condition does.
    fn kind(&mut self, path: &[u8]) -> Option<ProbeKind> {
        self.probe(path).map(|probe| probe.kind)
    }
    /// What is at an absolute path, without following a link at its end.
    fn probe_link(&mut self, path: &[u8]) -> Option<Probe>;
    /// The content of a file that a directive names (AuthUserFile, `file()`): `None` where it
    /// cannot be read or is larger than 10 MiB.
    fn read(&mut self, path: &[u8]) -> Option<Arc<[u8]>>;
    /// The names in a folder, in no order, without `.` and `..`.
    fn entries(&mut self, folder: &[u8]) -> Vec<Box<[u8]>>;
    /// What a GET for this URL path (and query) would come to, asked from within `from` (Apache's
    /// `ap_sub_req_lookup_uri`). Its complaints and its trace go to `from`. Where sub-requests are
    /// nested too deeply, or there are too many: 500.
    fn lookup(&mut self, from: &mut Transaction<'_>, uri: &[u8]) -> Lookup;
    /// Whether the password fits the hash, which is in one of the forms that `htpasswd` writes.
    fn verify(&mut self, hash: &[u8], password: &[u8]) -> Verified;
    /// The name of a client, looked up from its address, which the name must lead back to (`Require
    /// host`, `Allow from`).
    fn host_name(&mut self, _address: IpAddr) -> LookedUp<Vec<u8>> {
        LookedUp::Never
    }
    /// The addresses that a name leads to (`Require forward-dns`).
    fn addresses(&mut self, _name: &[u8]) -> LookedUp<Vec<IpAddr>> {
        LookedUp::Never
    }
    /// Whose the file at an absolute path is (`Require file-owner`); `None` where that cannot be
    /// found out.
    fn owners(&mut self, _path: &[u8]) -> Option<Owners> {
        None
    }
    /// What the nonces of Digest authentication are made with: random, and the same for all threads
    /// and as long as the server runs. `None` answers Digest with 500.
    fn nonce_secret(&mut self) -> Option<[u8; 32]> {
        None
    }
    /// A variable of the server's own environment.
    fn variable(&mut self, name: &[u8]) -> Option<Vec<u8>>;
    /// The local time's difference from UTC in seconds, at that moment (seconds since 1970).
    fn zone(&mut self, seconds: u64) -> i32;
    /// How long the request has taken so far, in microseconds (`%D` of Header).
    fn elapsed(&mut self) -> u64 {
        0
    }
    /// How busy the server is (`%l`, `%i` and `%b` of Header).
    fn load(&mut self) -> Load {
        Load::default()
    }
}

/// How busy the server is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    /// The system's load averages over 1, 5 and 15 minutes.
    pub averages: [f64; 3],
    /// How many of the workers wait for a request, in percent.
    pub idle: u8,
    /// How many of the workers serve one, in percent.
    pub busy: u8,
}

/// What is at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Which kind of thing.
    pub kind: ProbeKind,
    /// Bytes.
    pub size: u64,
    /// Modification time in microseconds since 1970.
    pub modified: i64,
    /// Its permission bits.
    pub mode: u32,
}

/// Which kind of thing is at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeKind {
    /// A regular file.
    File,
    /// A folder.
    Directory,
    /// A symbolic link.
    Link,
    /// A device, socket or pipe.
    Special,
}

/// What a sub-request came to.
#[derive(Clone, Debug, Default)]
pub struct Lookup {
    /// 200 where it would be served, and where nothing is there: only a handler would find that
    /// out. Else the error or redirect.
    pub status: Status,
    /// `r->filename` of it; where rules have rewritten it, `redirect:` and the URL.
    pub filename: Vec<u8>,
    /// `r->uri` of it.
    pub uri: Vec<u8>,
    /// Its variables.
    pub env: howdah_http::Fields,
    /// Its user.
    pub user: Option<Vec<u8>>,
    /// How its user has authenticated.
    pub auth_type: Option<&'static str>,
    /// `r->path_info` of it.
    pub path_info: Vec<u8>,
    /// `r->args` of it.
    pub args: Option<Vec<u8>>,
}

/// Whether a password fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verified {
    /// It does.
    Yes,
    /// It does not.
    No,
    /// It takes so long to find out that it is done elsewhere. The evaluation is to be given up; it
    /// is begun again when the answer is known.
    Later,
}

/// What a question to the name service came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LookedUp<T> {
    /// This.
    Found(T),
    /// There is no answer, or it cannot be trusted.
    Nothing,
    /// It is being asked. The evaluation is to be given up; it is begun again when the answer is
    /// known.
    Later,
    /// This server does not ask.
    Never,
}

/// Whose a file is. `None` where the number has no name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owners {
    /// The user's name.
    pub user: Option<Box<[u8]>>,
    /// The group's name.
    pub group: Option<Box<[u8]>>,
}
