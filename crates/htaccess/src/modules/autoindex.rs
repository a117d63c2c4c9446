//! mod_autoindex: the page that lists a folder, where Options Indexes is on and there is no index
//! file.

mod directives;
mod items;
mod options;
mod order;
mod page;
mod query;
mod table;

use std::sync::Arc;

use crate::evaluation_context::EvaluationContext;
use crate::merge::Merge;
use crate::module::{ApacheModule, ModuleConfig, POINTERS, Presence};
use crate::transaction::Transaction;

pub(crate) use directives::DIRECTIVES;
use items::{AutoindexItem, Description};
use options::{AutoindexOptions, Width};

/// The module's configuration.
#[derive(Clone, Debug, Default)]
pub struct Config {
    default_icon: Option<Box<[u8]>>,
    style_sheet: Option<Box<[u8]>>,
    head_insert: Option<Box<[u8]>>,
    header: Option<Box<[u8]>>,
    readme: Option<Box<[u8]>>,
    options: AutoindexOptions,
    name_width: Option<Width>,
    description_width: Option<Width>,
    icon_width: u32,
    icon_height: u32,
    media_type: Option<Box<[u8]>>,
    charset: Option<Box<[u8]>>,
    old_dates: bool,
    key: Option<SortKey>,
    descending: Option<bool>,
    icons: Vec<Arc<AutoindexItem>>,
    alts: Vec<Arc<AutoindexItem>>,
    descriptions: Vec<Arc<Description>>,
    ignored: Vec<Arc<AutoindexItem>>,
    /// IndexIgnoreReset.
    forgets_ignored: bool,
}

/// The key that entries are sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SortKey {
    Name,
    Modified,
    Size,
    Description,
}

/// An entry of a folder: a file or a folder that the client may see.
#[derive(Clone, Debug, Default)]
pub struct FolderEntry {
    /// The name, without a slash.
    pub name: Vec<u8>,
    /// Whether it is a folder.
    pub is_directory: bool,
    /// Bytes.
    pub size: u64,
    /// Microseconds since 1970.
    pub modified: i64,
    /// The media type of a file, where known: for AddIconByType.
    pub content_type: Option<Vec<u8>>,
    /// The encoding of a file, where it has one: for AddIconByEncoding.
    pub encoding: Option<Vec<u8>>,
}

/// The text above or below the list, from the file that HeaderName or ReadmeName names.
#[derive(Clone, Debug)]
pub enum Insert {
    /// HTML from a sub-request.
    Html(Vec<u8>),
    /// Other text, unchanged.
    Text(Vec<u8>),
}

/// The contents of a page.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    /// The entries, in any order. The page leaves out those of IndexIgnore; the caller leaves out
    /// those that the client may not see.
    pub entries: Vec<FolderEntry>,
    /// The file of [`Config::header_name`].
    pub header: Option<Insert>,
    /// The file of [`Config::readme_name`].
    pub readme: Option<Insert>,
    /// HTML of ServerSignature.
    pub signature: Vec<u8>,
}

impl Config {
    /// Returns the URL of the text above the list, relative to the folder's. `None` if no directive
    /// names one.
    pub fn header_name(&self) -> Option<&[u8]> {
        self.header.as_deref()
    }

    /// Returns the URL of the text below the list, relative to the folder's. `None` if no directive
    /// names one.
    pub fn readme_name(&self) -> Option<&[u8]> {
        self.readme.as_deref()
    }

    /// Returns whether entries are listed that the client may not see (401, 403).
    pub fn shows_forbidden(&self) -> bool {
        self.settled().options.has(AutoindexOptions::SHOW_FORBIDDEN)
    }

    /// Returns whether the page gets the folder's Last-Modified and ETag.
    pub fn tracks_modified(&self) -> bool {
        self.settled().options.has(AutoindexOptions::TRACK_MODIFIED)
    }

    /// Returns the page's media type, with its charset. Where no directive names one, it is that of
    /// Debian's `autoindex.conf`, in which names of files are written today.
    pub fn content_type(&self) -> Vec<u8> {
        let media_type = self.media_type.as_deref().unwrap_or(b"text/html");
        match self.charset.as_deref().unwrap_or(b"UTF-8") {
            b"" => media_type.to_vec(),
            charset => [media_type, b";charset=", charset].concat(),
        }
    }

    /// Returns the configuration where nothing is configured above.
    fn settled(&self) -> Config {
        Config::merge(&Config::default(), self)
    }
}

impl Merge for Config {
    fn merge(base: &Config, add: &Config) -> Config {
        fn closer<T: Clone>(base: &Option<T>, add: &Option<T>) -> Option<T> {
            add.as_ref().or(base.as_ref()).cloned()
        }
        let ignored = match add.forgets_ignored {
            true => add.ignored.clone(),
            false => [&add.ignored[..], &base.ignored].concat(),
        };
        Config {
            default_icon: closer(&base.default_icon, &add.default_icon),
            style_sheet: closer(&base.style_sheet, &add.style_sheet),
            head_insert: closer(&base.head_insert, &add.head_insert),
            header: closer(&base.header, &add.header),
            readme: closer(&base.readme, &add.readme),
            options: base.options.closer(add.options),
            name_width: add.name_width.or(base.name_width),
            description_width: add.description_width.or(base.description_width),
            icon_width: if add.icon_width > 0 {
                add.icon_width
            } else {
                base.icon_width
            },
            icon_height: if add.icon_height > 0 {
                add.icon_height
            } else {
                base.icon_height
            },
            media_type: closer(&base.media_type, &add.media_type),
            charset: closer(&base.charset, &add.charset),
            old_dates: add.old_dates || base.old_dates,
            key: add.key.or(base.key),
            descending: add.descending.or(base.descending),
            icons: [&add.icons[..], &base.icons].concat(),
            alts: [&add.alts[..], &base.alts].concat(),
            descriptions: [&add.descriptions[..], &base.descriptions].concat(),
            ignored,
            forgets_ignored: false,
        }
    }
}

impl ModuleConfig for Config {
    fn is_silent(&self) -> bool {
        true
    }

    fn copied(base: &Config, add: &Config) -> usize {
        let items = |part: &Config| part.icons.len() + part.alts.len() + part.descriptions.len();
        let ignored = match add.forgets_ignored {
            true => add.ignored.len(),
            false => base.ignored.len() + add.ignored.len(),
        };
        (items(base) + items(add) + ignored) / POINTERS
    }
}

/// Apache's module.
pub(crate) const APACHE_MODULES: &[ApacheModule] = &[ApacheModule::new(
    "mod_autoindex.c",
    "autoindex_module",
    Some("IndexOptions"),
    Presence::Debian,
)];

/// Returns the page for the folder `filename` of the transaction, whose query may ask for an order
/// (`C=N;O=D`), a form (`F=0` to `F=2`), the order of versions (`V=1`) and names (`P=*.txt`).
/// `context` is asked for the local time's zone.
pub fn page(
    tx: &Transaction<'_>,
    config: Option<&Config>,
    context: &mut dyn EvaluationContext,
    listing: &Listing,
) -> Vec<u8> {
    let nothing = Config::default();
    let config = config.unwrap_or(&nothing).settled();
    page::page(tx, &config, context, listing)
}

#[cfg(test)]
mod tests;
