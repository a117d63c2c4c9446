//! The classes of `AllowOverride`: the directives that a site allows in its `.htaccess` files.

use std::fmt;

/// A set of the classes of `AllowOverride`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overrides(pub u8);

impl Default for Overrides {
    fn default() -> Overrides {
        Overrides::ALL
    }
}

impl Overrides {
    /// Authorisation and authentication.
    pub const AUTH_CONFIG: Overrides = Overrides(1);
    /// Types, rewriting, headers, environment.
    pub const FILE_INFO: Overrides = Overrides(2);
    /// Listings and index files.
    pub const INDEXES: Overrides = Overrides(4);
    /// Order, Allow, Deny.
    pub const LIMIT: Overrides = Overrides(8);
    /// Options and what needs it.
    pub const OPTIONS: Overrides = Overrides(16);
    /// Every class.
    pub const ALL: Overrides = Overrides(31);
    /// No class.
    pub const NONE: Overrides = Overrides(0);

    /// Returns the union of both sets.
    pub const fn or(self, other: Overrides) -> Overrides {
        Overrides(self.0 | other.0)
    }

    /// Returns whether both sets have a class in common.
    pub const fn meets(self, other: Overrides) -> bool {
        self.0 & other.0 != 0
    }
}

impl fmt::Display for Overrides {
    /// Writes the classes as `AllowOverride` names them: `FileInfo or Limit`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut first = true;
        for (class, name) in CLASSES {
            if self.meets(*class) {
                f.write_str(if first { "" } else { " or " })?;
                f.write_str(name)?;
                first = false;
            }
        }
        Ok(())
    }
}

/// The classes and their names.
pub const CLASSES: &[(Overrides, &str)] = &[
    (Overrides::AUTH_CONFIG, "AuthConfig"),
    (Overrides::FILE_INFO, "FileInfo"),
    (Overrides::INDEXES, "Indexes"),
    (Overrides::LIMIT, "Limit"),
    (Overrides::OPTIONS, "Options"),
];
