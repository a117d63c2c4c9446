//! What a URL turned out to be.

use std::rc::Rc;

use howdah_http::Status;

use crate::documents::FileHandle;
use crate::path::DocumentPath;
use crate::ruled::Ruled;

/// What a request's URL turned out to be, and what directives have to say about the response.
#[derive(Debug)]
pub struct Resolved {
    /// What is to be sent.
    pub resolution: Resolution,
    /// What directives made of the request; `None` where none applies to it.
    pub ruled: Option<Rc<Ruled>>,
}

impl Resolved {
    /// Nothing but this status.
    pub(crate) fn status(status: Status) -> Resolved {
        Resolved {
            resolution: Resolution::Status(status),
            ruled: None,
        }
    }
}

/// What a request's URL turned out to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// A file to send, for GET or HEAD.
    File {
        /// The file.
        path: DocumentPath,
        /// Where the host keeps the file.
        file: FileHandle,
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
        /// 301, or what a directive says.
        status: Status,
        /// The value of Location, printable ASCII: path and query, starting with exactly one `/`;
        /// or, from a directive, a whole URL.
        location: Vec<u8>,
    },
    /// Nothing but which methods there are: 204 for OPTIONS, 405 for a method that there is not.
    Allow {
        /// 204 or 405.
        status: Status,
        /// The value of Allow.
        methods: &'static str,
    },
    /// A folder to be listed, for GET or HEAD (`Options Indexes`).
    Listing {
        /// The folder.
        path: DocumentPath,
    },
    /// A page that directives brought forth (ErrorDocument's text, a choice of variants), as
    /// `text/html`.
    Page {
        /// Its status.
        status: Status,
        /// Its content.
        body: Vec<u8>,
    },
    /// Whether a password fits takes long to find out: find it out, remember it, and resolve again.
    Verify {
        /// In one of the forms that `htpasswd` writes.
        hash: Vec<u8>,
        /// As the client sent it.
        password: Vec<u8>,
    },
    /// A request to be handed on (`RewriteRule … [P]`).
    Proxy {
        /// To which of the site's `upstreams`, by its place among them.
        upstream: usize,
        /// With which path and query: printable ASCII, starting with a slash.
        target: Vec<u8>,
    },
    /// Nobody wants the request's content, but there may be no more of it than that, and how much
    /// there is does not stand in its head: receive it, forget it, set the request's length (to
    /// more than `most` where it is longer), and resolve again.
    Discard {
        /// Bytes that there may be.
        most: u64,
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

    /// The same script, in the memory of another path, which is its file.
    pub(crate) fn at(&self, path: DocumentPath) -> Script {
        Script {
            path,
            path_info: self.path_info.clone(),
            redirect_url: self.redirect_url.clone(),
        }
    }

    /// The script's file, to be handed back to a [`Scratch`](crate::Scratch).
    pub fn into_path(self) -> DocumentPath {
        self.path
    }

    /// What the URL had behind the script's name, decoded: empty, or starting with `/`.
    pub fn path_info(&self) -> &[u8] {
        &self.path_info
    }

    /// Where the script runs for a URL that is not its own (a `try` step): that URL's path,
    /// decoded.
    pub fn redirect_url(&self) -> Option<&[u8]> {
        self.redirect_url.as_deref()
    }
}
