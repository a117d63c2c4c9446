//! The result of resolving a request.

use std::rc::Rc;

use howdah_http::Status;

use crate::documents::FileHandle;
use crate::path::DocumentPath;
use crate::ruled_request::RuledRequest;

/// A resolution, and what directives say about the response.
#[derive(Debug)]
pub struct Resolved {
    /// The resolution.
    pub resolution: Resolution,
    /// The request as directives have left it; `None` where no directive applies.
    pub ruled: Option<Rc<RuledRequest>>,
}

impl Resolved {
    /// The result of an evaluation that takes too much work to begin.
    pub(crate) const EXHAUSTED: Resolved = Resolved {
        resolution: Resolution::Exhausted,
        ruled: None,
    };

    /// A resolution that is a bare status.
    pub(crate) fn status(status: Status) -> Resolved {
        Resolved {
            resolution: Resolution::Status(status),
            ruled: None,
        }
    }

    /// Returns whether the site refuses the request with 403, also where ErrorDocument names the
    /// page for it.
    pub fn is_forbidden(&self) -> bool {
        match &self.resolution {
            Resolution::Status(status) => *status == Status::FORBIDDEN,
            Resolution::Directory { .. } => true,
            _ => {
                let ruled = self.ruled.as_ref();
                ruled.is_some_and(|ruled| ruled.state.status == Status::FORBIDDEN)
            }
        }
    }
}

/// A resolution without what belongs to one thread, so that it can be sent to another.
#[derive(Debug)]
pub struct DetachedResolution {
    resolution: Resolution,
    ruled: Option<RuledRequest>,
}

impl Resolved {
    /// Returns the resolution for another thread, whose host knows nothing of the file that this
    /// thread's has found.
    pub fn detach(self) -> DetachedResolution {
        let resolution = match self.resolution {
            Resolution::File { path, .. } => Resolution::File { path, file: FileHandle::NONE },
            other => other,
        };
        DetachedResolution {
            resolution,
            ruled: self.ruled.map(Rc::unwrap_or_clone),
        }
    }
}

impl DetachedResolution {
    /// Returns the resolution on the thread that uses it.
    pub fn attach(self) -> Resolved {
        Resolved {
            resolution: self.resolution,
            ruled: self.ruled.map(Rc::new),
        }
    }
}

/// The answer that a request has to get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// A file to send, for GET or HEAD.
    File {
        /// The file.
        path: DocumentPath,
        /// The place where the host keeps the file.
        file: FileHandle,
    },
    /// A script to run.
    Php(Script),
    /// A folder without an index file, for GET or HEAD. It is not listed: 403.
    Directory {
        /// The folder.
        path: DocumentPath,
    },
    /// A redirect.
    Redirect {
        /// 301, or what a directive says.
        status: Status,
        /// The value of Location, printable ASCII: path and query, starting with exactly one `/`;
        /// or, from a directive, a whole URL.
        location: Vec<u8>,
    },
    /// The list of allowed methods: 200 for OPTIONS, 405 for a method that is not allowed.
    Allow {
        /// 200 or 405.
        status: Status,
        /// The value of Allow.
        methods: &'static str,
        /// The file that OPTIONS asks about; the answer names its media type. `None`: there is no
        /// file, or the method is refused.
        path: Option<DocumentPath>,
    },
    /// A folder to be listed, for GET or HEAD (`Options Indexes`).
    Listing {
        /// The folder.
        path: DocumentPath,
    },
    /// A page made by directives (ErrorDocument's text, a choice of variants), as `text/html`.
    Page {
        /// Its status.
        status: Status,
        /// Its content.
        body: Vec<u8>,
    },
    /// A password has to be compared, which takes long: compare it, remember the result, and
    /// resolve again.
    Verify {
        /// The hash, in one of the forms that `htpasswd` writes.
        hash: Vec<u8>,
        /// The password, as the client sent it.
        password: Vec<u8>,
    },
    /// A request for an upstream server (`RewriteRule … [P]`).
    Proxy {
        /// The upstream's place among the site's `upstreams`.
        upstream: usize,
        /// The path and query to ask for: printable ASCII, starting with a slash.
        target: Vec<u8>,
    },
    /// The request's content is discarded, but its length is limited, and the head does not tell
    /// the length: receive and forget the content, set the request's length (to more than `most`
    /// where it is longer), and resolve again.
    Discard {
        /// The longest content allowed, in bytes.
        most: u64,
    },
    /// The directives take more work for this request than the budget of the evaluation allows. The
    /// result of another evaluation, with a larger budget, may differ.
    Exhausted,
    /// A bare status, for which the server makes the page.
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

    /// Returns the same script, in the memory of another path, which is its file.
    pub(crate) fn at(&self, path: DocumentPath) -> Script {
        Script {
            path,
            path_info: self.path_info.clone(),
            redirect_url: self.redirect_url.clone(),
        }
    }

    /// Returns the script's file, to be given back to a [`Scratch`](crate::Scratch).
    pub fn into_path(self) -> DocumentPath {
        self.path
    }

    /// Returns the part of the URL after the script's name, decoded: empty, or starting with `/`.
    pub fn path_info(&self) -> &[u8] {
        &self.path_info
    }

    /// Returns the path of the URL, decoded, where the script runs for a URL that is not its own (a
    /// `try` step). `None` if the script runs for its own URL.
    pub fn redirect_url(&self) -> Option<&[u8]> {
        self.redirect_url.as_deref()
    }
}
