//! Directives: their names, where they are allowed, their arguments and their functions.

use std::sync::Arc;

use crate::merge::SharedConfig;
use crate::mistake::{Complaint, DirectivePlace};
use crate::scope::Scope;

pub use crate::overrides::{CLASSES, Overrides};

/// One directive. `A` is its function: [`Apply`] in a module's own table `DIRECTIVES`, a function
/// on the settings of all modules in the [registry](crate::registry). The manual is generated from
/// these.
#[derive(Clone, Copy, Debug)]
pub struct Directive<A> {
    /// The name as Apache's manual spells it; names are compared without case.
    pub name: &'static str,
    /// The module of the directive, as `<IfModule>` names it: `mod_rewrite`, `core`.
    pub module: &'static str,
    /// The classes of `AllowOverride` of which one must be allowed.
    pub overrides: Overrides,
    /// The arguments that it takes.
    pub arguments: Arguments,
    /// A sentence for the manual.
    pub summary: &'static str,
    /// The support that Howdah has for it.
    pub support: Support,
    /// Reads the arguments, whose number is right, into the configuration.
    pub apply: A,
}

/// Reads the arguments of a directive into its module's configuration `C`.
pub type Apply<C> = fn(&DirectiveCall<'_>, &mut SharedConfig<C>) -> DirectiveResult;

/// The result of applying a directive: nothing, or the complaint about its arguments.
pub type DirectiveResult = Result<(), Complaint>;

/// The arguments of a directive (Apache's `cmd_how`). They are split into words before the
/// directive sees them, except for [`Raw`](Arguments::Raw).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arguments {
    /// The rest of the line, unchanged: the directive splits it.
    Raw,
    /// `On` or `Off`.
    Flag,
    /// At least and at most this many words; `u8::MAX` is any number.
    Words(u8, u8),
    /// No arguments, but other directives up to an end tag: `<RequireAll>`. The directive is
    /// applied when the section begins and when it ends ([`DirectiveCall::edge`]). The
    /// directives inside are applied in between, to the same settings.
    Section,
}

impl Arguments {
    /// One word.
    pub const ONE: Arguments = Arguments::Words(1, 1);
    /// Two words.
    pub const TWO: Arguments = Arguments::Words(2, 2);
    /// One word or more: Apache's ITERATE.
    pub const SOME: Arguments = Arguments::Words(1, u8::MAX);
    /// One word, then one or more: Apache's ITERATE2.
    pub const FIRST_AND_SOME: Arguments = Arguments::Words(2, u8::MAX);
    /// Any number of words: Apache's TAKE_ARGV.
    pub const ANY: Arguments = Arguments::Words(0, u8::MAX);
}

/// The support that Howdah has for a directive, as the manual and `check` show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// The effect is Apache's.
    Full,
    /// With the difference that is named.
    Differs(&'static str),
    /// Read and checked; it has no effect, for this reason.
    Ignored(&'static str),
    /// Cannot be honoured, for this reason. Requests that it covers are answered with 500, since
    /// serving them without the directive could be unsafe.
    Refused(&'static str),
}

/// One use of a directive.
#[derive(Debug)]
pub struct DirectiveCall<'c> {
    /// The name as it was written.
    pub name: &'c str,
    /// The rest of the line, continuation lines joined, without white space at either end.
    pub raw: &'c [u8],
    /// The words of `raw`, quotes removed: one for [`Arguments::Flag`], none for
    /// [`Arguments::Raw`]. As in Apache, an optional argument given as `""` is left out, and with
    /// [`Arguments::SOME`] such a word and all words after it.
    pub words: &'c [Vec<u8>],
    /// Whether a [section](Arguments::Section) begins or ends.
    pub edge: SectionEdge,
    /// The place of the directive.
    pub place: &'c DirectivePlace,
    /// The sections around the directive.
    pub scope: &'c Scope<'c>,
}

/// The end of a section that a [`DirectiveCall`] is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SectionEdge {
    /// The directive is no section.
    #[default]
    None,
    /// The section begins.
    Open,
    /// The section ends; the directives inside have been applied.
    Close,
}

impl DirectiveCall<'_> {
    /// Returns the word at `index`, or an empty one where there is none.
    pub fn word(&self, index: usize) -> &[u8] {
        self.words.get(index).map_or(b"", Vec::as_slice)
    }

    /// Returns whether the argument is `On`, for [`Arguments::Flag`].
    pub fn flag(&self) -> bool {
        self.word(0).eq_ignore_ascii_case(b"on")
    }

    /// Returns the place, to be kept beyond the call.
    pub fn kept_place(&self) -> Arc<DirectivePlace> {
        Arc::new(self.place.clone())
    }
}
