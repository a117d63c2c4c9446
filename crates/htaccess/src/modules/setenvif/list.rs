//! The rules of one file.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use crate::expression::Expression;
use crate::mistake::DirectivePlace;
use crate::pattern::{Pattern, PatternSet};

/// Rules in the order in which they were written.
#[derive(Debug, Default)]
pub(super) struct SetEnvIfList {
    rules: Vec<SetEnvIfRule>,
    /// The places of the last rule's variables by their names in lower case.
    known: HashMap<Box<[u8]>, usize>,
    runs: OnceLock<Box<[RuleRun]>>,
}

/// One directive, or several that follow each other and differ in their variables only.
#[derive(Clone, Debug)]
pub(super) struct SetEnvIfRule {
    pub place: Arc<DirectivePlace>,
    pub test: AttributeTest,
    pub variables: Vec<SetVariable>,
}

#[derive(Clone, Debug)]
pub(super) enum AttributeTest {
    /// SetEnvIf and its like: the attribute's name as it was written, the attribute, and the
    /// regular expression.
    Attribute {
        name: Box<[u8]>,
        attribute: Attribute,
        regex: Box<[u8]>,
        pattern: Arc<Pattern>,
        /// Whether the regular expression is plain text, and values are taken literally.
        literal: bool,
    },
    /// SetEnvIfExpr.
    Expression(Arc<Expression>),
}

/// The attribute of a request that a rule looks at.
#[derive(Clone, Debug)]
pub(super) enum Attribute {
    /// Remote_Addr, and Remote_Host, as names are not looked up.
    RemoteAddress,
    ServerAddress,
    Uri,
    Method,
    Protocol,
    /// A field of the request, or else a variable that is set already.
    Field,
    /// The last field of the request whose name matches.
    Fields(Arc<Pattern>),
}

/// A variable, and what it is set to; `None` unsets it.
#[derive(Clone, Debug)]
pub(super) struct SetVariable {
    pub name: Box<[u8]>,
    pub value: Option<Box<[u8]>>,
}

/// Rules that follow each other and ask for the same attribute; or one with an expression.
#[derive(Debug)]
pub(super) struct RuleRun {
    pub rules: Range<usize>,
    /// The search for many patterns at once.
    pub set: Option<PatternSet>,
}

/// From this many rules on, a run is searched at once.
const MANY: usize = 16;

impl SetEnvIfList {
    pub(super) fn rules(&self) -> &[SetEnvIfRule] {
        &self.rules
    }

    /// Adds a rule, or its variables to the last one if that tests the same.
    pub(super) fn push(&mut self, mut rule: SetEnvIfRule) {
        self.runs = OnceLock::new();
        let variables = std::mem::take(&mut rule.variables);
        match self.rules.last_mut() {
            Some(last) if last.tests_like(&rule) => last.extend(variables, &mut self.known),
            _ => {
                self.known = HashMap::new();
                rule.extend(variables, &mut self.known);
                self.rules.push(rule);
            }
        }
    }

    /// Makes what the first request would have to wait for.
    pub(super) fn prepare(&self) {
        self.runs();
    }

    pub(super) fn runs(&self) -> &[RuleRun] {
        self.runs.get_or_init(|| {
            let chunks = self.rules.chunk_by(|one, next| one.asks_like(next));
            let run = |end: &mut usize, chunk: &[SetEnvIfRule]| {
                let start = *end;
                *end += chunk.len();
                Some(RuleRun {
                    rules: start..*end,
                    set: (chunk.len() >= MANY).then(|| {
                        PatternSet::new(chunk.iter().filter_map(SetEnvIfRule::pattern).collect())
                    }),
                })
            };
            chunks.scan(0, run).collect()
        })
    }
}

impl Clone for SetEnvIfList {
    fn clone(&self) -> SetEnvIfList {
        SetEnvIfList {
            rules: self.rules.clone(),
            known: self.known.clone(),
            runs: OnceLock::new(),
        }
    }
}

impl SetEnvIfRule {
    /// Returns the attribute's name. `None`: the test is an expression.
    pub(super) fn name(&self) -> Option<&[u8]> {
        match &self.test {
            AttributeTest::Attribute { name, .. } => Some(name),
            AttributeTest::Expression(_) => None,
        }
    }

    fn pattern(&self) -> Option<Arc<Pattern>> {
        match &self.test {
            AttributeTest::Attribute { pattern, .. } => Some(Arc::clone(pattern)),
            AttributeTest::Expression(_) => None,
        }
    }

    /// Returns whether both ask for the same attribute.
    fn asks_like(&self, other: &SetEnvIfRule) -> bool {
        match (self.name(), other.name()) {
            (Some(one), Some(other)) => one.eq_ignore_ascii_case(other),
            _ => false,
        }
    }

    fn tests_like(&self, other: &SetEnvIfRule) -> bool {
        let regex = |rule: &SetEnvIfRule| match &rule.test {
            AttributeTest::Attribute { regex, pattern, .. } => {
                Some((regex.clone(), pattern.is_caseless()))
            }
            AttributeTest::Expression(_) => None,
        };
        self.asks_like(other) && regex(self) == regex(other)
    }

    /// Adds variables to those that the rule sets, whose places `known` has. Names are compared
    /// without case.
    fn extend(&mut self, variables: Vec<SetVariable>, known: &mut HashMap<Box<[u8]>, usize>) {
        for variable in variables {
            match known.entry(variable.name.to_ascii_lowercase().into()) {
                Entry::Occupied(place) => self.variables[*place.get()].value = variable.value,
                Entry::Vacant(place) => {
                    place.insert(self.variables.len());
                    self.variables.push(variable);
                }
            }
        }
    }
}
