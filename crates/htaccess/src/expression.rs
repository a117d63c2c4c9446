//! Apache's expressions (`ap_expr`): conditions of `<If>`, `Require expr`, RewriteCond and
//! SetEnvIfExpr; strings with `%{…}` in them of headers, AuthName, ErrorDocument.
//!
//! ```text
//! text ── scan ──> tokens ── parse ──> tree ── evaluate (functions, variables) ──> whether it holds, or a string
//! ```
//!
//! Differences from Apache: a name of a host is no address for `-ipmatch`, because names are not
//! looked up; the log's identifiers are empty; an empty `-U` does not hold; HANDLER is empty where
//! no directive has set one.

use crate::evaluation_context::EvaluationContext;
use crate::metered_text::LONGEST_VALUE;
use crate::pattern::Captures;
use crate::transaction::Transaction;
use crate::work;
use evaluate::ExpressionEvaluation;
pub use text::StringExpression;
use tree::{Condition, ExpressionWord};

mod evaluate;
mod functions;
mod parse;
#[cfg(any(test, fuzzing))]
pub mod properties;
mod scan;
#[cfg(test)]
mod tests;
mod text;
mod tree;
mod variables;

/// A compiled condition or string expression.
#[derive(Debug)]
pub struct Expression {
    text: Box<[u8]>,
    root: ExpressionRoot,
    varies: bool,
}

#[derive(Debug)]
enum ExpressionRoot {
    Condition(Condition),
    String(ExpressionWord),
}

/// An error in an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadExpression {
    /// The message.
    pub message: String,
    /// The offset in bytes.
    pub offset: usize,
}

impl Expression {
    /// Compiles a condition.
    ///
    /// # Errors
    /// Where the text is no condition, with Apache's message.
    pub fn condition(text: &[u8]) -> Result<Expression, BadExpression> {
        Ok(Expression {
            text: text.into(),
            root: ExpressionRoot::Condition(parse::condition(text)?),
            varies: true,
        })
    }

    /// Compiles a string with `%{…}` and `$1` in it.
    ///
    /// # Errors
    /// Where the text is no string expression, with Apache's message.
    pub fn string(text: &[u8]) -> Result<Expression, BadExpression> {
        Ok(Expression {
            text: text.into(),
            root: ExpressionRoot::String(parse::string(text)?),
            varies: true,
        })
    }

    /// Returns the expression with Vary left alone: the fields that it reads do not go into Vary
    /// (`AP_EXPR_FLAG_DONT_VARY`).
    pub fn without_vary(self) -> Expression {
        Expression { varies: false, ..self }
    }

    /// Returns the text as it was written.
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// Returns the string, where it is always the same. `None` for one that depends on the request.
    pub fn constant(&self) -> Option<&[u8]> {
        match &self.root {
            ExpressionRoot::String(ExpressionWord::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// Returns whether the condition holds. `captures` are those of the last regular expression
    /// with groups, before and after. The fields of the request that it depends on go into the
    /// response's Vary.
    ///
    /// # Errors
    /// The message that Apache logs for too much nesting, and one for a regular expression that
    /// takes too many steps, which in Apache does not match. In Apache `<If>` then does not apply,
    /// and SetEnvIfExpr answers 500.
    pub fn holds(
        &self,
        transaction: &mut Transaction<'_>,
        context: &mut dyn EvaluationContext,
        captures: &mut Captures,
    ) -> Result<bool, String> {
        let ExpressionRoot::Condition(condition) = &self.root else {
            return Err("a string is no condition".to_owned());
        };
        let mut evaluation = ExpressionEvaluation {
            transaction,
            context,
            captures,
            vary: self.varies.then(Vec::new),
        };
        let holds = evaluation.holds(condition, 0)?;
        for field in evaluation.vary.unwrap_or_default() {
            let vary = transaction.state.fields.value(b"Vary").map_or(0, <[u8]>::len);
            if vary + field.len() >= LONGEST_VALUE {
                transaction.client.meter().refuse(LONG_VARY);
                return Err(LONG_VARY.to_owned());
            }
            transaction.client.meter().note(3 * work::bytes(vary));
            transaction.state.vary_on(&field);
        }
        Ok(holds)
    }

    /// Returns the value of the string expression.
    ///
    /// # Errors
    /// The errors of [`holds`](Expression::holds).
    pub fn render(
        &self,
        transaction: &mut Transaction<'_>,
        context: &mut dyn EvaluationContext,
        captures: &mut Captures,
    ) -> Result<Vec<u8>, String> {
        let ExpressionRoot::String(word) = &self.root else {
            return Err("a condition is no string".to_owned());
        };
        let mut evaluation = ExpressionEvaluation {
            transaction,
            context,
            captures,
            vary: None,
        };
        evaluation.rendered(word, 0)
    }
}

const LONG_VARY: &str = "Vary would name more than 64 KiB of fields that expressions ask for";
