//! Flaws in the directives of a site, which are reported.

use std::fmt;

use howdah_htaccess::Mistake;
use howdah_site::Site;

/// Called with a flaw in a site's directives.
pub type ReportFlaw = Box<dyn Fn(&Site, &Flaw) + Send + Sync>;

/// A flaw in a file of directives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// The first mistake in the file.
    Mistake(Box<Mistake>),
    /// The file cannot be read.
    Unreadable(String),
    /// A path leads through symbolic links that are too long.
    TooManyNames(String),
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Flaw::Mistake(mistake) => mistake.fmt(f),
            Flaw::Unreadable(what) | Flaw::TooManyNames(what) => f.write_str(what),
        }
    }
}
