//! What is in force for a file: one configuration per module, as Apache's per-directory
//! configuration.

use std::sync::Arc;

use crate::compile::{ConditionalSection, FilesSection};
use crate::mistake::Mistake;
use crate::modules;

/// How a module's configuration of a folder and that of a folder below it (or of a section) become
/// one.
pub trait Merge {
    /// What is in force where `base` applies and `add` is closer.
    fn merge(base: &Self, add: &Self) -> Self;
}

macro_rules! settings {
    ($($(#[$doc:meta])* $field:ident: $config:ty,)*) => {
        /// The configuration of every module, and the sections that wait for a request's file name
        /// or condition. A module that nobody has configured is `None`, which costs nothing to
        /// merge.
        #[derive(Clone, Debug, Default)]
        pub struct Settings {
            $($(#[$doc])* pub $field: Option<Arc<$config>>,)*
            /// `<Files>` and `<FilesMatch>`, in the order in which they apply.
            pub files: Vec<Arc<FilesSection>>,
            /// `<If>`, `<ElseIf>` and `<Else>`, in the order in which they apply.
            pub conditions: Vec<Arc<ConditionalSection>>,
            /// Set where a directive that cannot be honoured is in force: what it covers is
            /// answered with 500.
            pub refused: Option<Arc<Mistake>>,
        }

        impl Settings {
            /// What is in force where `self` applies and `add` is closer to the file.
            pub fn merge(&self, add: &Settings) -> Settings {
                let joined = |base: &Vec<_>, add: &Vec<_>| if add.is_empty() { base.clone() } else { [&base[..], add].concat() };
                Settings {
                    $($field: merged(&self.$field, &add.$field),)*
                    files: joined(&self.files, &add.files),
                    conditions: if add.conditions.is_empty() {
                        self.conditions.clone()
                    } else {
                        [&self.conditions[..], &add.conditions].concat()
                    },
                    refused: self.refused.as_ref().or(add.refused.as_ref()).cloned(),
                }
            }

            /// Whether nothing is configured at all.
            pub fn is_empty(&self) -> bool {
                $(self.$field.is_none() &&)*
                    self.files.is_empty() && self.conditions.is_empty() && self.refused.is_none()
            }
        }
    };
}

settings! {
    /// `core`: Options, ErrorDocument, FileETag, AcceptPathInfo…
    core: modules::core::Config,
    /// mod_rewrite.
    rewrite: modules::rewrite::Config,
    /// mod_alias.
    alias: modules::alias::Config,
    /// mod_dir.
    dir: modules::dir::Config,
    /// mod_authz_core and its providers.
    authz: modules::authz::Config,
    /// mod_access_compat.
    access: modules::access_compat::Config,
    /// mod_ssl.
    ssl: modules::ssl::Config,
    /// mod_authn_core, mod_auth_basic, mod_auth_digest, mod_authn_file, mod_authz_groupfile.
    auth: modules::auth::Config,
    /// mod_headers.
    headers: modules::headers::Config,
    /// mod_expires.
    expires: modules::expires::Config,
    /// mod_filter, mod_deflate, mod_brotli, and core's output filters.
    filter: modules::filter::Config,
    /// mod_substitute.
    substitute: modules::substitute::Config,
    /// mod_mime.
    mime: modules::mime::Config,
    /// mod_negotiation.
    negotiation: modules::negotiation::Config,
    /// mod_setenvif.
    setenvif: modules::setenvif::Config,
    /// mod_env.
    env: modules::env::Config,
    /// mod_autoindex.
    autoindex: modules::autoindex::Config,
    /// mod_php.
    php: modules::php::Config,
}

impl Settings {
    /// A module's own configuration, to be added to; made where there is none.
    ///
    /// ```
    /// # use howdah_htaccess::{Settings, modules::core};
    /// let mut settings = Settings::default();
    /// let config: &mut core::Config = Settings::edit(&mut settings.core);
    /// ```
    pub fn edit<T: Clone + Default>(slot: &mut Option<Arc<T>>) -> &mut T {
        Arc::make_mut(slot.get_or_insert_default())
    }
}

fn merged<T: Merge>(base: &Option<Arc<T>>, add: &Option<Arc<T>>) -> Option<Arc<T>> {
    match (base, add) {
        (Some(base), Some(add)) => Some(Arc::new(T::merge(base, add))),
        (only, None) | (None, only) => only.clone(),
    }
}
