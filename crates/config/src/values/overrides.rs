//! Directives that `.htaccess` files may have.

/// The directives that a site's `.htaccess` files may have, as Apache's `AllowOverride`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowOverride {
    /// The classes of directives that are allowed, each once.
    pub classes: Vec<OverrideClass>,
    /// The options that `Options=…` names, each as it was written; `None` is all.
    pub options: Option<Vec<String>>,
}

/// A class of directives, as Apache's manual gives one for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverrideClass {
    /// Authorisation and authentication.
    AuthConfig,
    /// Types, rewriting, headers, environment.
    FileInfo,
    /// Listings and index files.
    Indexes,
    /// Order, Allow, Deny.
    Limit,
    /// Options and what needs it.
    Options,
}

impl OverrideClass {
    /// Every class.
    pub const ALL: [OverrideClass; 5] = [
        OverrideClass::AuthConfig,
        OverrideClass::FileInfo,
        OverrideClass::Indexes,
        OverrideClass::Limit,
        OverrideClass::Options,
    ];

    /// The name as Apache spells it.
    pub fn name(self) -> &'static str {
        match self {
            OverrideClass::AuthConfig => "AuthConfig",
            OverrideClass::FileInfo => "FileInfo",
            OverrideClass::Indexes => "Indexes",
            OverrideClass::Limit => "Limit",
            OverrideClass::Options => "Options",
        }
    }
}

impl AllowOverride {
    /// Returns all classes: Apache's `AllowOverride All`.
    pub fn all() -> Self {
        AllowOverride {
            classes: OverrideClass::ALL.to_vec(),
            options: None,
        }
    }

    /// Returns no class: Apache's `AllowOverride None`.
    pub fn none() -> Self {
        AllowOverride { classes: Vec::new(), options: None }
    }
}
