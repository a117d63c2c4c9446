//! Arguments that may contain `%{…}`.

use std::borrow::Cow;
use std::sync::Arc;

use super::Expression;
use crate::evaluation_context::EvaluationContext;
use crate::mistake::Complaint;
use crate::pattern::Captures;
use crate::transaction::Transaction;

/// A string expression, or the literal that most of them are.
#[derive(Clone, Debug)]
pub enum Text {
    /// A text that is the same for every request.
    Literal(Box<[u8]>),
    /// An expression that is evaluated for each request.
    Expression(Arc<Expression>),
}

impl Text {
    /// Compiles the argument of that index.
    pub(crate) fn new(argument: usize, text: &[u8]) -> Result<Text, Complaint> {
        // A backslash escapes in a string expression, and $0 to $9 are captures.
        if !text.iter().any(|byte| b"%\\$\n".contains(byte)) {
            return Ok(Text::Literal(text.into()));
        }
        match Expression::string(text) {
            Ok(expression) => Ok(Text::Expression(Arc::new(expression))),
            Err(error) => {
                Err(Complaint::about(argument, format!("not an expression: {}", error.message)))
            }
        }
    }

    /// Returns the text as it was written.
    pub fn source(&self) -> &[u8] {
        match self {
            Text::Literal(text) => text,
            Text::Expression(expression) => expression.text(),
        }
    }

    /// Returns the value for this request.
    ///
    /// # Errors
    /// The message that Apache logs.
    pub fn render(
        &self,
        transaction: &mut Transaction<'_>,
        context: &mut dyn EvaluationContext,
    ) -> Result<Cow<'_, [u8]>, String> {
        match self {
            Text::Literal(text) => Ok(Cow::Borrowed(text)),
            Text::Expression(expression) => expression
                .render(transaction, context, &mut Captures::default())
                .map(Cow::Owned),
        }
    }
}
