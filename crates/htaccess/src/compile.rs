//! From items to settings.

use std::sync::Arc;

use crate::directive::Overrides;
use crate::expression::Expression;
use crate::mistake::{Mistake, Place};
use crate::pattern::Pattern;
use crate::settings::Settings;

/// What a file of directives has become. Shared by all threads.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// What it sets for its folder.
    pub settings: Settings,
    /// The first thing wrong with it: then everything below its folder is answered with 500.
    pub mistake: Option<Box<Mistake>>,
    /// Everything that `check` has to say.
    pub remarks: Vec<Mistake>,
}

/// What a file of directives is compiled for.
#[derive(Clone, Debug)]
pub struct Surroundings {
    /// The file, as people know it.
    pub file: Arc<str>,
    /// The folder that the file stands in, absolute, with a slash at its end. For a site's inline rules: its root.
    pub folder: Box<[u8]>,
    /// What `AllowOverride` allows.
    pub overrides: Overrides,
    /// The directives that `AllowOverrideList` allows besides.
    pub override_list: Vec<Box<str>>,
    /// The options that `AllowOverride Options=…` allows; `None` is all.
    pub options: Option<Vec<Box<str>>>,
    /// What `<IfDefine>` finds defined.
    pub defines: Vec<Box<str>>,
}

/// What a directive stands in.
#[derive(Clone, Debug)]
pub struct Scope<'c> {
    /// What the file is compiled for.
    pub surroundings: &'c Surroundings,
    /// The methods that `<Limit>` names; `None` is all.
    pub methods: Option<Methods>,
    /// Whether it stands in `<Files>` or `<FilesMatch>`.
    pub in_files: bool,
    /// Whether it stands in `<If>`, `<ElseIf>` or `<Else>`.
    pub in_condition: bool,
}

/// The methods of `<Limit>` or `<LimitExcept>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Methods {
    /// The methods that are named.
    pub names: Vec<Box<str>>,
    /// Whether all others are meant.
    pub except: bool,
}

/// `<Files>` or `<FilesMatch>`.
#[derive(Clone, Debug)]
pub struct FilesSection {
    /// Where it begins.
    pub place: Arc<Place>,
    /// What it says, for people.
    pub text: Box<str>,
    /// Which names it is for.
    pub names: Names,
    /// What it sets.
    pub settings: Settings,
}

/// Which file names a section is for.
#[derive(Clone, Debug)]
pub enum Names {
    /// This one.
    Exact(Box<[u8]>),
    /// Those that the shell's pattern matches (`apr_fnmatch`).
    Wildcard(Box<[u8]>),
    /// Those that the expression matches.
    Regex(Arc<Pattern>),
}

/// `<If>`, with what follows it as `<ElseIf>` and `<Else>`.
#[derive(Clone, Debug)]
pub struct ConditionalSection {
    /// In order; the first whose condition holds applies. `<Else>` has none.
    pub branches: Vec<Branch>,
}

/// `<If>`, `<ElseIf>` or `<Else>`.
#[derive(Clone, Debug)]
pub struct Branch {
    /// Where it begins.
    pub place: Arc<Place>,
    /// What it says, for people.
    pub text: Box<str>,
    /// When it applies; `None` is always.
    pub condition: Option<Arc<Expression>>,
    /// What it sets.
    pub settings: Settings,
}

/// Compiles a file of directives.
pub fn compile(_source: &[u8], _surroundings: &Surroundings) -> Compiled {
    unimplemented!()
}
