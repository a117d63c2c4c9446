//! The declaration of a section's keys: one line each, from which come the struct, its defaults,
//! its parser and its chapter of the reference manual.

use toml::de::DeTable;

use crate::diagnostic::MistakeCollector;
use crate::kinds::{Include, SiteTables, ValueKind};
use crate::settings::{Config, SiteSettings};

/// A table of the configuration file.
pub(crate) trait ConfigTable: Default {
    /// The sentences above the struct.
    const ABOUT: &'static str;

    /// Every key, in the order of declaration.
    fn keys() -> Vec<Key>;

    /// Reads what `table` gives and takes the default for what it does not. `place` is how messages
    /// call the table, such as `[site.php]`; it is empty for the top level.
    fn read(table: &DeTable<'_>, place: &str, report: &mut MistakeCollector<'_>) -> Self;
}

/// A key as the reference manual shows it.
#[derive(Clone, Debug)]
pub struct Key {
    /// The name in the file.
    pub name: &'static str,
    /// The allowed values, in words.
    pub kind: String,
    /// The default as it would be written, or a word such as `unset`.
    pub default: String,
    /// The reason why that is the default.
    pub why: &'static str,
    /// The effect of the key.
    pub doc: &'static str,
}

/// Reads the sites of an included file, which holds nothing else but `include`.
pub(crate) fn included_sites(
    table: &DeTable<'_>,
    report: &mut MistakeCollector<'_>,
) -> Vec<SiteSettings> {
    for key in table.keys() {
        let name: &str = key.get_ref();
        if ["include", "site"].contains(&name) {
            continue;
        }
        let help = match Config::keys().iter().any(|known| known.name == name) {
            true => format!("write `{name}` in the file that includes this one"),
            false => "a file that is included holds `[[site]]` tables and `include`".to_owned(),
        };
        report.add(key.span(), format!("`{name}` in an included file"), Some(help));
    }
    if let Some(value) = table.get("include") {
        // The patterns were followed already; here wrong values are reported.
        let _ = Include::read(value, report);
    }
    let sites = table.get("site").and_then(|value| SiteTables::read(value, report));
    sites.unwrap_or_default()
}

/// Declares a section: `name (its key in the file): Type as Kind = default, "why that default";`.
macro_rules! section {
    (
        $(#[doc = $about:literal])+
        pub struct $Name:ident {
            $(
                $(#[doc = $doc:literal])+
                $field:ident ($key:literal): $Type:ty as $ValueKind:ty = $default:expr,
                    $why:literal;
            )+
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Clone, Debug, PartialEq)]
        pub struct $Name {
            $(
                $(#[doc = $doc])+
                #[doc = ""]
                #[doc = concat!("Why its default: ", $why)]
                pub $field: $Type,
            )+
        }

        impl Default for $Name {
            fn default() -> Self {
                Self { $($field: $default,)+ }
            }
        }

        impl $crate::section::ConfigTable for $Name {
            const ABOUT: &'static str = concat!($($about, "\n"),+);

            fn keys() -> Vec<$crate::section::Key> {
                let defaults = Self::default();
                vec![$(
                    $crate::section::Key {
                        name: $key,
                        kind: <$ValueKind as $crate::kinds::ValueKind>::name(),
                        default: <$ValueKind as $crate::kinds::ValueKind>::show(&defaults.$field),
                        why: $why,
                        doc: concat!($($doc, "\n"),+),
                    },
                )+]
            }

            fn read(
                table: &toml::de::DeTable<'_>,
                place: &str,
                report: &mut $crate::diagnostic::MistakeCollector<'_>,
            ) -> Self {
                report.unknown_keys(table, place, &[$($key),+]);
                let mut section = Self::default();
                $(
                    if let Some(value) = table.get($key)
                        && let Some(value) =
                            <$ValueKind as $crate::kinds::ValueKind>::read(value, report)
                    {
                        section.$field = value;
                    }
                )+
                section
            }
        }
    };
}

pub(crate) use section;
