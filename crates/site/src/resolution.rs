//! What a URL turned out to be, and the only view of the file system that deciding it needs.

use howdah_http::Status;

use crate::path::DocumentPath;

/// What is at a path, links followed as its [`symlinks`](DocumentPath::symlinks) rule allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A folder.
    Directory,
    /// Nothing, also where a component on the way is a file or a name is too long.
    Missing,
    /// Something that may not be served: no permission on the way, a link that the rule forbids, a loop of
    /// links, a device, socket or pipe.
    Forbidden,
}

/// The file system. It is asked as seldom as possible; the usual request asks once.
pub trait Disk {
    /// What is at `path`.
    fn kind(&mut self, path: &DocumentPath) -> Kind;
}

/// What a request's URL turned out to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// A file to send, for GET or HEAD.
    File {
        /// The file.
        path: DocumentPath,
    },
    /// A script to run.
    Php(Script),
    /// A folder without an index file, for GET or HEAD. It is not listed: 403.
    Directory {
        /// The folder.
        path: DocumentPath,
    },
    /// Look elsewhere.
    Redirect {
        /// 301.
        status: Status,
        /// The value of Location: path and query, printable ASCII, starting with exactly one `/`.
        location: Vec<u8>,
    },
    /// Nothing but which methods there are: 204 for OPTIONS, 405 for a method that there is not.
    Allow {
        /// 204 or 405.
        status: Status,
        /// The value of Allow.
        methods: &'static str,
    },
    /// Nothing to send but this error.
    Status(Status),
}

/// A script to run for a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    pub(crate) path: DocumentPath,
    pub(crate) path_info: Vec<u8>,
    pub(crate) redirect_url: Option<Vec<u8>>,
}

impl Script {
    /// The script's file.
    pub fn path(&self) -> &DocumentPath {
        &self.path
    }

    /// The script's file, to be handed back to a [`Scratch`](crate::Scratch).
    pub fn into_path(self) -> DocumentPath {
        self.path
    }

    /// What the URL had behind the script's name, decoded: empty, or starting with `/`.
    pub fn path_info(&self) -> &[u8] {
        &self.path_info
    }

    /// Where the script runs for a URL that is not its own (a `try` step): that URL's path, decoded.
    pub fn redirect_url(&self) -> Option<&[u8]> {
        self.redirect_url.as_deref()
    }
}
