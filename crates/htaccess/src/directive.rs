//! What a directive is: its name, where it may stand, what it takes and what it does.

use std::sync::Arc;

use crate::merge::Shared;
use crate::mistake::{Complaint, Place};
use crate::scope::Scope;

pub use crate::overrides::{CLASSES, Overrides};

/// One directive. `A` is its function: [`Apply`] in a module's own table `DIRECTIVES`, a function
/// on the settings of all modules in the [registry](crate::registry). The manual is generated from
/// these.
#[derive(Clone, Copy, Debug)]
pub struct Directive<A> {
    /// As Apache's manual spells it; names are compared without case.
    pub name: &'static str,
    /// The module that has it, as `<IfModule>` names it: `mod_rewrite`, `core`.
    pub module: &'static str,
    /// The classes of `AllowOverride` of which one must be allowed.
    pub overrides: Overrides,
    /// What it takes.
    pub arguments: Arguments,
    /// One sentence for the manual.
    pub summary: &'static str,
    /// How far it is supported.
    pub support: Support,
    /// Reads the arguments, whose number is right, into the configuration.
    pub apply: A,
}

/// Reads the arguments of a directive into its module's configuration `C`.
pub type Apply<C> = fn(&Call<'_>, &mut Shared<C>) -> Result<(), Complaint>;

/// What a directive takes (Apache's `cmd_how`). The words are split before, but for
/// [`Raw`](Arguments::Raw).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arguments {
    /// Nothing.
    None,
    /// The rest of the line as it stands: the directive splits it itself.
    Raw,
    /// `On` or `Off`.
    Flag,
    /// At least so many words, at most so many; `u8::MAX` is any number.
    Words(u8, u8),
    /// None, but other directives up to an end tag: `<RequireAll>`. The directive is applied when
    /// it begins and when it ends ([`Call::edge`]), what stands inside in between, to the same
    /// settings.
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

/// How far a directive is supported. The manual and `check` tell it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// As in Apache.
    Full,
    /// With a difference, which is named.
    Differs(&'static str),
    /// Read, checked and without effect, for this reason.
    Ignored(&'static str),
    /// Cannot be honoured, for this reason, and what it covers must not be served as if it were not
    /// there: 500.
    Refused(&'static str),
}

/// One use of a directive.
#[derive(Debug)]
pub struct Call<'c> {
    /// The directive as it was written.
    pub name: &'c str,
    /// The rest of the line, continuation lines joined, without white space at either end.
    pub raw: &'c [u8],
    /// The words of `raw`, quotes removed; for [`Arguments::Flag`] one word, for [`Arguments::Raw`]
    /// none. An optional argument given as `""` is left out, and of [`Arguments::SOME`] what
    /// follows such a word: as Apache has it.
    pub words: &'c [Vec<u8>],
    /// Of a [section](Arguments::Section), whether it begins or ends.
    pub edge: Edge,
    /// Where it stands.
    pub place: &'c Place,
    /// What it stands in.
    pub scope: &'c Scope<'c>,
}

/// Which end of a section a [`Call`] is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Edge {
    /// It is no section.
    #[default]
    None,
    /// It begins.
    Open,
    /// It ends; what it holds has been applied.
    Close,
}

impl Call<'_> {
    /// The word at `index`, empty where there is none.
    pub fn word(&self, index: usize) -> &[u8] {
        self.words.get(index).map_or(b"", Vec::as_slice)
    }

    /// For [`Arguments::Flag`]: whether it says `On`.
    pub fn flag(&self) -> bool {
        self.word(0).eq_ignore_ascii_case(b"on")
    }

    /// The place, to be kept.
    pub fn kept_place(&self) -> Arc<Place> {
        Arc::new(self.place.clone())
    }
}
