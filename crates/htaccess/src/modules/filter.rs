//! mod_filter, mod_deflate and mod_brotli: filters for the content of responses.
//!
//! A response passes the filters that mod_mime's AddOutputFilter names, then those of
//! SetOutputFilter, then those of mod_filter's chain, to which AddOutputFilterByType adds. Filters
//! that change text come before filters that compress, whatever their order there.

mod accept;
mod choose;
mod directives;
mod transform;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::expression::Expression;
use crate::merge::Merge;
use crate::module::{ApacheModule, ModuleConfig, Presence};

pub use crate::transform::{ContentFilter, OUTPUT, Transform, TransformError};
pub use choose::{ContentProperties, InForce, TOO_SMALL, choose};
pub(crate) use directives::DIRECTIVES;

/// A filter that the content of a response passes.
#[derive(Clone, Debug)]
pub enum Filter {
    /// mod_deflate's DEFLATE: gzip.
    Deflate,
    /// mod_deflate's INFLATE, which unpacks gzip.
    Inflate(InflateLimits),
    /// mod_brotli's BROTLI_COMPRESS.
    Brotli,
    /// Zstandard, which no directive names: Apache has no such filter.
    Zstandard,
    /// mod_substitute's SUBSTITUTE.
    Substitute(Arc<dyn ContentFilter>),
}

/// Limits of the output of INFLATE in relation to its input, as far as directives set them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InflateLimits {
    /// DeflateInflateRatioLimit: the multiple of the input.
    pub ratio: Option<u32>,
    /// DeflateInflateRatioBurst: the blocks in a row that may be over it.
    pub burst: Option<u32>,
}

/// A filter by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FilterKind {
    Deflate,
    Inflate,
    Brotli,
    Substitute,
}

/// The module's configuration.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The filters that FilterDeclare, FilterProvider and AddOutputFilterByType have made, by name.
    /// Shared, since a closer folder replaces one as a whole.
    smart: BTreeMap<Arc<[u8]>, Arc<SmartFilter>>,
    /// The names of the filters in the order in which they act. `None`: the names before it do not
    /// count.
    chain: Vec<Option<Arc<[u8]>>>,
    inflate: InflateLimits,
    /// Whether there may be a provider with an expression.
    has_expressions: bool,
    /// The media types of all providers, at most.
    types: usize,
}

/// A filter of mod_filter's, which acts as one of its providers.
#[derive(Clone, Debug, Default)]
struct SmartFilter {
    /// Its rank among the filters of a response.
    rank: u8,
    /// The providers in the order of the directives; the last is asked first.
    providers: Vec<Provider>,
}

#[derive(Clone, Debug)]
struct Provider {
    kind: FilterKind,
    when: ProviderCondition,
    protocol: FilterProtocol,
}

/// The condition under which a provider acts.
#[derive(Clone, Debug)]
enum ProviderCondition {
    /// For these media types.
    Types(Arc<[Box<[u8]>]>),
    /// For requests and responses for which this condition holds.
    Expression(Arc<Expression>),
}

/// The effects of a filter on a response, by FilterProtocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct FilterProtocol {
    /// The filter changes the content.
    change: bool,
    /// The filter changes the content's length.
    change_length: bool,
    /// Ranges of the filter's output are not possible.
    no_ranges: bool,
    /// The filter's output must not be cached.
    no_cache: bool,
}

impl FilterKind {
    /// Returns the filter of that name, in any case. `None` if Howdah has no such filter.
    pub(crate) fn of(name: &[u8]) -> Option<FilterKind> {
        match name.to_ascii_uppercase().as_slice() {
            b"DEFLATE" => Some(FilterKind::Deflate),
            b"INFLATE" => Some(FilterKind::Inflate),
            b"BROTLI_COMPRESS" => Some(FilterKind::Brotli),
            b"SUBSTITUTE" => Some(FilterKind::Substitute),
            _ => None,
        }
    }

    /// Returns the filter's rank: smaller ranks come earlier (`ap_filter_type`).
    fn rank(self) -> u8 {
        match self {
            FilterKind::Inflate => RESOURCE - 1,
            FilterKind::Substitute => RESOURCE,
            FilterKind::Deflate | FilterKind::Brotli => CONTENT_SET,
        }
    }
}

/// The variables that the choice of filters depends on.
pub const VARIABLES: [&[u8]; 5] =
    [b"no-gzip", b"gzip-only-text/html", b"force-gzip", b"no-brotli", b"filter-errordocs"];

/// The filters that the content of a response passes at most; others are not used, which is logged.
const MOST_PASSED: usize = 16;

/// Media types that an event loop compares with that of a response without holding up others.
const MANY_TYPES: usize = 1000;

/// The names that the chain of a file holds at most; more are a mistake. The time of taking one
/// away grows with it.
const MOST_CHAINED: usize = 256;

/// `AP_FTYPE_RESOURCE`.
const RESOURCE: u8 = 10;
/// `AP_FTYPE_CONTENT_SET`.
const CONTENT_SET: u8 = 20;

impl fmt::Display for FilterKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FilterKind::Deflate => "DEFLATE",
            FilterKind::Inflate => "INFLATE",
            FilterKind::Brotli => "BROTLI_COMPRESS",
            FilterKind::Substitute => "SUBSTITUTE",
        })
    }
}

impl Config {
    fn smart(&self, name: &[u8]) -> Option<&Arc<SmartFilter>> {
        self.smart.get(name)
    }

    /// Returns whether the choice depends only on the response's head, the codings that the client
    /// accepts, and the [variables](VARIABLES).
    pub fn is_by_type(&self) -> bool {
        !self.has_expressions
    }

    /// Returns whether the choice evaluates expressions or compares many media types.
    pub fn may_take_long(&self) -> bool {
        self.has_expressions || self.types > MANY_TYPES
    }

    /// Returns the names of the chain that count.
    fn chain(&self) -> impl Iterator<Item = &[u8]> {
        let start = self.chain.iter().rposition(Option::is_none).map_or(0, |reset| reset + 1);
        self.chain[start..].iter().flatten().map(|name| &**name)
    }
}

impl Merge for Config {
    fn merge(base: &Config, add: &Config) -> Config {
        let mut smart = base.smart.clone();
        smart.extend(add.smart.iter().map(|(name, filter)| (name.clone(), Arc::clone(filter))));
        Config {
            smart,
            chain: [&base.chain[..], &add.chain].concat(),
            inflate: InflateLimits {
                ratio: add.inflate.ratio.or(base.inflate.ratio),
                burst: add.inflate.burst.or(base.inflate.burst),
            },
            has_expressions: base.has_expressions || add.has_expressions,
            types: base.types + add.types,
        }
    }
}

impl ModuleConfig for Config {
    fn is_silent(&self) -> bool {
        false
    }

    fn copied(base: &Config, add: &Config) -> usize {
        [base, add].iter().map(|part| part.smart.len() + part.chain.len()).sum()
    }
}

/// Apache's modules.
pub(crate) const APACHE_MODULES: &[ApacheModule] = &[
    ApacheModule::new(
        "mod_filter.c",
        "filter_module",
        Some("AddOutputFilterByType"),
        Presence::Debian,
    ),
    ApacheModule::new(
        "mod_deflate.c",
        "deflate_module",
        Some("AddOutputFilterByType"),
        Presence::Debian,
    ),
    ApacheModule::new(
        "mod_brotli.c",
        "brotli_module",
        Some("AddOutputFilterByType"),
        Presence::Chosen,
    ),
];

#[cfg(test)]
mod tests;
