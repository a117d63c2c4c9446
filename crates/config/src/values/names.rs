//! Names of users and of hosts.

use std::fmt;
use std::ops::Deref;

/// The name of a user of this machine. Two names are equal if their texts are, wherever the file
/// has them.
#[derive(Clone, Debug)]
pub struct UserName {
    name: String,
    place: Option<String>,
}

impl UserName {
    /// A name that `place` of the configuration, as `file:line:column`, gives.
    pub(crate) fn at(name: &str, place: String) -> UserName {
        UserName {
            place: Some(place),
            ..UserName::from(name)
        }
    }

    /// The place of the name in the configuration, as `file:line:column`; `None` if no file has it.
    pub fn place(&self) -> Option<&str> {
        self.place.as_deref()
    }
}

impl From<&str> for UserName {
    fn from(name: &str) -> UserName {
        UserName { name: name.to_owned(), place: None }
    }
}

impl Deref for UserName {
    type Target = str;

    fn deref(&self) -> &str {
        &self.name
    }
}

impl PartialEq for UserName {
    fn eq(&self, other: &UserName) -> bool {
        self.name == other.name
    }
}

/// A host name or names that a site answers for. Names are lower-case and without a trailing dot.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum HostPattern {
    /// Exactly this name, or this IP address (IPv6 in brackets, in its shortest form).
    Exact(String),
    /// Every name that ends in `.` and this suffix, at any depth: `*.example.org` holds
    /// `example.org` here.
    Wildcard(String),
    /// Every name that no other site answers for: `*`.
    Default,
}

impl HostPattern {
    /// Returns whether the pattern lists `host`, which is in lower case. `*` lists none.
    pub fn lists(&self, host: &str) -> bool {
        match self {
            HostPattern::Exact(name) => name == host,
            HostPattern::Wildcard(suffix) => {
                let before = host.strip_suffix(suffix.as_str());
                before.is_some_and(|before| before.len() > 1 && before.ends_with('.'))
            }
            HostPattern::Default => false,
        }
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostPattern::Exact(name) => f.write_str(name),
            HostPattern::Wildcard(suffix) => write!(f, "*.{suffix}"),
            HostPattern::Default => f.write_str("*"),
        }
    }
}
