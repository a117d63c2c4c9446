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
pub enum StringExpression {
    /// A text that is the same for every request.
    Literal(Box<[u8]>),
    /// An expression that is evaluated for each request.
    Expression(Arc<Expression>),
}

impl StringExpression {
    /// Compiles the argument of that index.
    ///
    /// # Errors
    /// The argument has a `%`, a backslash or a `$` in it, and is no expression.
    pub(crate) fn new(argument: usize, text: &[u8]) -> Result<StringExpression, Complaint> {
        // A backslash escapes in a string expression, and $0 to $9 are captures.
        if !text.iter().any(|byte| b"%\\$\n".contains(byte)) {
            return Ok(StringExpression::Literal(text.into()));
        }
        match Expression::string(text) {
            Ok(expression) => Ok(StringExpression::Expression(Arc::new(expression))),
            Err(error) => {
                Err(Complaint::about(argument, format!("not an expression: {}", error.message)))
            }
        }
    }

    /// Returns the text as it was written.
    pub fn source(&self) -> &[u8] {
        match self {
            StringExpression::Literal(text) => text,
            StringExpression::Expression(expression) => expression.text(),
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
            StringExpression::Literal(text) => Ok(Cow::Borrowed(text)),
            StringExpression::Expression(expression) => expression
                .render(transaction, context, &mut Captures::default())
                .map(Cow::Owned),
        }
    }
}
