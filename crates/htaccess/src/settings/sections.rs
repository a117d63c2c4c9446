//! Sections that are decided for each request, by the file's name or by a condition.

use std::sync::Arc;

use super::DirectiveSettings;
use crate::expression::Expression;
use crate::mistake::DirectivePlace;
use crate::pattern::Pattern;

/// `<Files>` or `<FilesMatch>`.
#[derive(Clone, Debug)]
pub struct FilesSection {
    /// The place where the section begins.
    pub place: Arc<DirectivePlace>,
    /// The section's tag, for messages.
    pub text: Box<str>,
    /// The names that the section applies to.
    pub names: FileNames,
    /// The settings inside.
    pub settings: DirectiveSettings,
}

/// The file names that a section applies to.
#[derive(Clone, Debug)]
pub enum FileNames {
    /// This name.
    Exact(Box<[u8]>),
    /// The names that the shell's pattern matches (`apr_fnmatch`).
    Wildcard(Box<[u8]>),
    /// The names that the regular expression matches.
    Regex(Arc<Pattern>),
}

/// `<If>`, with what follows it as `<ElseIf>` and `<Else>`.
#[derive(Clone, Debug)]
pub struct ConditionalSection {
    /// The branches in order. The first whose condition holds applies; `<Else>` has no condition.
    pub branches: Vec<Branch>,
}

/// `<If>`, `<ElseIf>` or `<Else>`.
#[derive(Clone, Debug)]
pub struct Branch {
    /// The place where the section begins.
    pub place: Arc<DirectivePlace>,
    /// The section's tag, for messages.
    pub text: Box<str>,
    /// The condition; `None` always holds.
    pub condition: Option<Arc<Expression>>,
    /// The settings inside.
    pub settings: DirectiveSettings,
}
