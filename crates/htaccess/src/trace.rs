//! What happened to a request, in order, for `howdah explain`.

use std::sync::Arc;

use crate::mistake::Place;

/// What happened, in order.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// The events so far.
    pub events: Vec<Event>,
}

/// One thing that happened.
#[derive(Clone, Debug)]
pub struct Event {
    /// What it is: `file`, `section`, `rule`, `condition`, `header`, `redirect`, `access`,
    /// `resolution`…
    pub step: &'static str,
    /// Where the directive stands.
    pub place: Option<Arc<Place>>,
    /// The directive, or what the step is about, as a person would write it.
    pub text: String,
    /// Named details in order, such as `subject`, `pattern`, `captures`, `result`.
    pub facts: Vec<(&'static str, String)>,
    /// What came of it: `matches`, `does not match`, `applies`, `403`…
    pub outcome: String,
}
