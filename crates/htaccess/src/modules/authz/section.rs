//! The tree of `Require` directives and their containers.

use std::fmt;
use std::sync::Arc;

use crate::method_set::MethodSet;
use crate::mistake::{Complaint, DirectivePlace};

use super::requirement::Requirement;

/// `Require`, or a container of such.
#[derive(Clone, Debug)]
pub(super) struct RequireSection {
    /// The place of the directive; the default container has none.
    pub place: Option<Arc<DirectivePlace>>,
    /// The methods that it is for. Of a container: those of all that it holds.
    pub methods: MethodSet,
    /// `Require not`, `<RequireNone>`.
    pub is_negated: bool,
    pub kind: SectionKind,
}

#[derive(Clone, Debug)]
pub(super) enum SectionKind {
    Requirement(Requirement),
    Group(RequireGroup),
}

/// A container.
#[derive(Clone, Debug)]
pub(super) struct RequireGroup {
    pub logic: RequireLogic,
    /// Whether it comes from AuthMerging.
    pub is_merged: bool,
    pub members: Vec<Arc<RequireSection>>,
}

/// The rule that combines the results of a container's members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequireLogic {
    /// `<RequireAll>`, `AuthMerging And`.
    All,
    /// `<RequireAny>`, `<RequireNone>`, `AuthMerging Or`.
    Any,
}

impl RequireSection {
    pub(super) fn container(
        place: Option<Arc<DirectivePlace>>,
        logic: RequireLogic,
        is_negated: bool,
    ) -> RequireSection {
        RequireSection {
            place,
            methods: MethodSet::default(),
            is_negated,
            kind: SectionKind::Group(RequireGroup {
                logic,
                is_merged: false,
                members: Vec::new(),
            }),
        }
    }

    /// Returns the site's own directive: `Require all granted`.
    pub(super) fn granted() -> RequireSection {
        RequireSection {
            place: None,
            methods: MethodSet::ALL,
            is_negated: false,
            kind: SectionKind::Requirement(Requirement::granted()),
        }
    }

    /// Adds to a container.
    ///
    /// # Errors
    /// A negative member has no effect where any one suffices.
    pub(super) fn add(&mut self, member: RequireSection) -> Result<(), Complaint> {
        let shown = self.to_string();
        let SectionKind::Group(group) = &mut self.kind else {
            return Ok(());
        };
        if member.is_negated && group.logic == RequireLogic::Any {
            let what = match member.kind {
                SectionKind::Requirement(_) => "a negative Require".to_owned(),
                SectionKind::Group(_) => member.to_string(),
            };
            return Err(Complaint::new(format!("{what} has no effect in {shown}"))
                .hint("put it into <RequireAll>, beside what grants access"));
        }
        self.methods = self.methods.with(member.methods);
        match member.kind {
            // All of all, and any of any, are the same without the inner container.
            SectionKind::Group(inner) if !member.is_negated && inner.logic == group.logic => {
                group.members.extend(inner.members);
            }
            _ => group.members.push(Arc::new(member)),
        }
        Ok(())
    }

    pub(super) fn is_empty_group(&self) -> bool {
        matches!(&self.kind, SectionKind::Group(group) if group.members.is_empty())
    }

    /// `AuthMerging`: both together.
    pub(super) fn joined(
        logic: RequireLogic,
        base: &Arc<RequireSection>,
        add: &Arc<RequireSection>,
    ) -> RequireSection {
        let mut members = match &base.kind {
            // The same logic, one folder further up: beside each other instead of nested.
            SectionKind::Group(group) if group.is_merged && group.logic == logic => {
                group.members.clone()
            }
            _ => vec![base.clone()],
        };
        members.push(add.clone());
        RequireSection {
            place: add.place.clone(),
            methods: base.methods.with(add.methods),
            is_negated: false,
            kind: SectionKind::Group(RequireGroup { logic, is_merged: true, members }),
        }
    }
}

/// Writes the section in the form that a file has.
impl fmt::Display for RequireSection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            SectionKind::Requirement(requirement) => {
                let not = if self.is_negated { "not " } else { "" };
                write!(f, "Require {not}{requirement}")
            }
            SectionKind::Group(group) => {
                let name = match (group.logic, self.is_negated) {
                    (RequireLogic::All, false) => "All",
                    (RequireLogic::All, true) => "NotAll",
                    (RequireLogic::Any, false) => "Any",
                    (RequireLogic::Any, true) => "None",
                };
                if group.is_merged {
                    write!(f, "AuthMerging {name}")
                } else {
                    write!(f, "<Require{name}>")
                }
            }
        }
    }
}
