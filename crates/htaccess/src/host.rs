//! The host, as pure code sees it: the file system, passwords, the name service, the clock.

use std::net::IpAddr;
use std::sync::Arc;

use crate::client::Unrepeatable;

/// Every question that evaluating directives asks of the host.
///
/// The server implements it; tests implement as much as they need. Without an implementation of its
/// own, a question gets the answer of a host that knows nothing. Answers may come from caches,
/// which are as fresh as what is served.
///
/// The resolution cache may keep what was evaluated from answers about files and variables. Every
/// other answer holds for one request only: these methods take an [`Unrepeatable`], which
/// [`ClientRequest::depends_on_everything`](crate::ClientRequest::depends_on_everything) gives to
/// callers that have noted so.
pub trait DirectiveHost {
    /// Returns what is at an absolute path, links followed. `None`: nothing is there, or it cannot
    /// be looked up.
    fn probe(&mut self, _path: &[u8]) -> Option<Probe> {
        None
    }

    /// Returns what is at an absolute path, without following a link at its end. `None` as for
    /// [`probe`](Self::probe).
    fn probe_link(&mut self, path: &[u8]) -> Option<Probe> {
        self.probe(path)
    }

    /// Returns the content of a file that a directive names. `None`: the file cannot be read or is
    /// larger than 10 MiB.
    fn read(&mut self, _path: &[u8]) -> Option<Arc<[u8]>> {
        None
    }

    /// Returns the content of a file of passwords or groups (AuthUserFile, AuthGroupFile).
    ///
    /// # Errors
    /// The file cannot be read, or is another site's.
    fn read_passwords(&mut self, path: &[u8]) -> Result<Arc<[u8]>, PasswordFileError> {
        self.read(path).ok_or(PasswordFileError::Unreadable)
    }

    /// Returns the names in a folder, in no order, without `.` and `..`.
    fn entries(&mut self, _folder: &[u8]) -> Vec<Box<[u8]>> {
        Vec::new()
    }

    /// Returns a variable of the server's own environment; `None` if it is not set.
    fn variable(&mut self, _name: &[u8]) -> Option<Vec<u8>> {
        None
    }

    /// Compares a password with a hash in one of the forms that `htpasswd` writes.
    fn verify(&mut self, _: Unrepeatable, _hash: &[u8], _password: &[u8]) -> PasswordVerdict {
        PasswordVerdict::Later
    }

    /// Returns the name of a client, looked up from its address. The name must resolve to that
    /// address again (`Require host`, `Allow from`).
    fn host_name(&mut self, _: Unrepeatable, _address: IpAddr) -> LookedUp<Vec<u8>> {
        LookedUp::Never
    }

    /// Returns the addresses of a name (`Require forward-dns`).
    fn addresses(&mut self, _: Unrepeatable, _name: &[u8]) -> LookedUp<Vec<IpAddr>> {
        LookedUp::Never
    }

    /// Returns the owner of the file at an absolute path (`Require file-owner`). `None`: the owner
    /// cannot be found out.
    fn owners(&mut self, _: Unrepeatable, _path: &[u8]) -> Option<Owners> {
        None
    }

    /// Returns the secret of the nonces of Digest authentication: random, the same for all threads
    /// and for as long as the server runs. `None` answers Digest with 500.
    fn nonce_secret(&mut self, _: Unrepeatable) -> Option<[u8; 32]> {
        None
    }

    /// Returns the difference of local time from UTC in seconds, at that moment (seconds since
    /// 1970).
    fn zone(&mut self, _: Unrepeatable, _seconds: u64) -> i32 {
        0
    }

    /// Returns the time that the request has taken until now, in microseconds (`%D` of Header).
    fn elapsed(&mut self, _: Unrepeatable) -> u64 {
        0
    }

    /// Returns how busy the server is (`%l`, `%i` and `%b` of Header).
    fn load(&mut self, _: Unrepeatable) -> ServerLoad {
        ServerLoad::default()
    }
}

/// The reason why a file of passwords is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PasswordFileError {
    /// The server cannot read it, or it is too long.
    Unreadable,
    /// The site's user may not read it.
    Foreign,
    /// It is in a folder of another site.
    OtherSite,
}

/// The load of the server.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ServerLoad {
    /// The system's load averages over 1, 5 and 15 minutes.
    pub averages: [f64; 3],
    /// Workers that wait for a request, in percent of all.
    pub idle: u8,
    /// Workers that serve a request, in percent of all.
    pub busy: u8,
}

/// The kind, size and times of the object at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The type of the file.
    pub kind: ProbeKind,
    /// Bytes.
    pub size: u64,
    /// Modification time in microseconds since 1970.
    pub modified: i64,
    /// Permission bits.
    pub mode: u32,
}

/// The type of a file.
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

/// The result of a comparison of a password with a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PasswordVerdict {
    /// The password fits.
    Yes,
    /// The password does not fit.
    No,
    /// The comparison takes long and is done elsewhere. The evaluation has to be given up and begun
    /// again when the result is known.
    Later,
}

/// The answer to a question to the name service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LookedUp<T> {
    /// The answer.
    Found(T),
    /// There is no answer, or the answer cannot be trusted.
    Nothing,
    /// The name service is being asked. The evaluation has to be given up and begun again when the
    /// answer is known.
    Later,
    /// This server does not ask.
    Never,
}

/// The owners of a file. `None`: the number has no name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owners {
    /// The user's name.
    pub user: Option<Box<[u8]>>,
    /// The group's name.
    pub group: Option<Box<[u8]>>,
}
