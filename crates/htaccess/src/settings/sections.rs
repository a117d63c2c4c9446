//! Sections that are decided for each request, by the file's name or by a condition.

use std::sync::Arc;

use super::Settings;
use crate::expression::Expression;
use crate::mistake::Place;
use crate::pattern::Pattern;

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
