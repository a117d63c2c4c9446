//! The trace of a request: the events of its phases, for `howdah explain`.

use std::sync::Arc;

use crate::mistake::DirectivePlace;

/// The events of a request, in order.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// The events so far.
    pub events: Vec<TraceEvent>,
}

/// A step of the evaluation.
#[derive(Clone, Debug)]
pub struct TraceEvent {
    /// The kind of step: `file`, `section`, `rule`, `condition`, `header`, `redirect`, `access`,
    /// `resolution`…
    pub step: &'static str,
    /// The place of the directive.
    pub place: Option<Arc<DirectivePlace>>,
    /// The directive, or the subject of the step, as a person would write it.
    pub text: String,
    /// Named details in order, such as `subject`, `pattern`, `captures`, `result`.
    pub facts: Vec<(&'static str, String)>,
    /// The result: `matches`, `does not match`, `applies`, `403`…
    pub outcome: String,
}
