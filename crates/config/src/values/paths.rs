//! Paths and what is looked up by them.

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};

/// The files that a configuration includes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Includes {
    /// The patterns, as written.
    pub patterns: Vec<String>,
    /// The files that were found and read, those included by included files among them.
    pub files: Vec<PathBuf>,
}

/// A document root: one folder, or one folder per host name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RootTemplate {
    /// One folder for every name of the site.
    Fixed(PathBuf),
    /// `before` + the request's host name + `after`; the name is one whole component of the path.
    PerHost {
        /// Up to the name, ending in `/`.
        before: String,
        /// After the name: empty, or starting with `/`.
        after: String,
    },
}

impl RootTemplate {
    /// A root without a placeholder, whatever characters `path` holds.
    pub fn fixed(path: &Path) -> Self {
        RootTemplate::Fixed(path.to_path_buf())
    }

    /// The folder for `host`, which must have been checked to be a plain host name.
    pub fn expand(&self, host: &str) -> Cow<'_, Path> {
        match self {
            RootTemplate::Fixed(path) => Cow::Borrowed(path),
            RootTemplate::PerHost { before, after } => {
                Cow::Owned(PathBuf::from([before.as_str(), host, after.as_str()].concat()))
            }
        }
    }
}

impl fmt::Display for RootTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RootTemplate::Fixed(path) => write!(f, "{}", path.display()),
            RootTemplate::PerHost { before, after } => write!(f, "{before}{{host}}{after}"),
        }
    }
}

/// The symbolic links below a document root that are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Symlinks {
    /// Links whose target has their own owner, as Apache's `SymLinksIfOwnerMatch`.
    Owner,
    /// All links, as Apache's `FollowSymLinks`.
    Follow,
    /// Links that stay inside the document root.
    Inside,
}

/// The meaning of an encoded slash (`%2F`) in a request's path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum EncodedSlashes {
    /// The path is missing: 404.
    #[default]
    Refuse,
    /// Three characters of a name, as Apache's `AllowEncodedSlashes NoDecode`.
    Keep,
    /// A slash, as Apache's `AllowEncodedSlashes On`.
    Decode,
}

/// One thing to try, in order, for a request's path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TryStep {
    /// `$uri`: the file that the path names, or the index file of the folder that it names.
    Uri,
    /// `$uri/`: the folder that the path names, even if it has no index file.
    UriDirectory,
    /// `$uri` with a suffix, such as `$uri.html`.
    UriSuffix(String),
    /// A fixed file or script below the root; it starts with `/`.
    Path(String),
    /// `=404`: this status. Only ever the last step.
    Status(u16),
}

impl fmt::Display for TryStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TryStep::Uri => f.write_str("$uri"),
            TryStep::UriDirectory => f.write_str("$uri/"),
            TryStep::UriSuffix(suffix) => write!(f, "$uri{suffix}"),
            TryStep::Path(path) => f.write_str(path),
            TryStep::Status(status) => write!(f, "={status}"),
        }
    }
}
