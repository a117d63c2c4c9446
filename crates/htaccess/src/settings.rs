//! Settings in force for a file: one configuration per module, as Apache's per-directory
//! configuration.

mod sections;
mod server;

use std::sync::Arc;

use crate::merge::{SharedConfig, merged};
use crate::mistake::Mistake;
use crate::module::{ModuleConfig, POINTERS};
use crate::modules::all_modules;
use crate::work::{self, Exhausted, Meter};

pub use sections::{Branch, ConditionalSection, FileNames, FilesSection};
pub use server::ServerSettings;

macro_rules! settings {
    ($($(#[$doc:meta])* $field:ident: $module:ident,)*) => {
        /// The configuration of every module, and the sections that wait for a request's file name
        /// or condition. A module without directives in force is `None`, which costs nothing to
        /// merge.
        #[derive(Clone, Debug, Default)]
        pub struct DirectiveSettings {
            $($(#[$doc])* pub $field: SharedConfig<crate::modules::$module::Config>,)*
            /// `<Files>` and `<FilesMatch>`, in the order in which they apply.
            pub files: Vec<Arc<FilesSection>>,
            /// `<If>`, `<ElseIf>` and `<Else>`, in the order in which they apply.
            pub conditions: Vec<Arc<ConditionalSection>>,
            /// A directive in force that cannot be honoured: what it covers is answered with 500.
            pub refused: Option<Arc<Mistake>>,
            /// An estimate of what copying the settings costs: their directives, with long lines
            /// counted several times.
            pub(crate) weight: u64,
            /// The entries that merging has copied for these settings, if no other request shares
            /// them: the caller of the merge sets this. 0 otherwise.
            pub unshared: usize,
        }

        impl DirectiveSettings {
            /// Returns what is in force where `self` applies and `add` is closer to the file.
            pub fn merge(&self, add: &DirectiveSettings) -> DirectiveSettings {
                DirectiveSettings {
                    $($field: merged(&self.$field, &add.$field),)*
                    files: joined(&self.files, &add.files),
                    conditions: joined(&self.conditions, &add.conditions),
                    refused: self.refused.as_ref().or(add.refused.as_ref()).cloned(),
                    weight: self.weight + add.weight,
                    unshared: 0,
                }
            }

            /// Returns how many entries [`merge`](DirectiveSettings::merge) copies.
            pub fn copied_with(&self, add: &DirectiveSettings) -> usize {
                let sections = [self, add].map(|part| part.files.len() + part.conditions.len());
                sections.iter().sum::<usize>() / POINTERS
                    $(+ match (&self.$field, &add.$field) {
                        (Some(base), Some(add)) => ModuleConfig::copied(&**base, &**add),
                        _ => 0,
                    })*
            }

            /// Merges as [`merge`](DirectiveSettings::merge) does, and counts the work.
            ///
            /// # Errors
            /// Where it is too much.
            pub fn merge_counted(
                &self,
                add: &DirectiveSettings,
                meter: Meter<'_>,
            ) -> Result<DirectiveSettings, Exhausted> {
                meter.spend(work::MERGING * (self.weight + add.weight))?;
                Ok(self.merge(add))
            }

            /// Returns whether nothing is configured.
            pub fn is_empty(&self) -> bool {
                $(self.$field.is_none() &&)*
                    self.files.is_empty() && self.conditions.is_empty() && self.refused.is_none()
            }

            /// Returns whether the settings leave the response for a file or a script unchanged,
            /// once its handler is known; see [`ModuleConfig::is_silent`]. Sections that wait for a
            /// request do not count.
            pub fn is_silent(&self) -> bool {
                $(self.$field.as_ref().is_none_or(|config| config.is_silent()) &&)* true
            }

            /// Makes what the first request would have to wait for: the search among many rules.
            pub(crate) fn prepare(&self) {
                $(self.$field.iter().for_each(|config| config.prepare());)*
                self.files.iter().for_each(|section| section.settings.prepare());
                let branches = self.conditions.iter().flat_map(|section| &section.branches);
                branches.for_each(|branch| branch.settings.prepare());
            }
        }
    };
}

all_modules!(settings);

fn joined<T: Clone>(base: &[T], add: &[T]) -> Vec<T> {
    if add.is_empty() {
        base.to_vec()
    } else {
        [base, add].concat()
    }
}
