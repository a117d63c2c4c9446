//! Apache's expressions (`ap_expr`): conditions of `<If>` and `Require expr`, string expressions of headers.

use crate::pattern::Captures;
use crate::transaction::Transaction;
use crate::world::World;

/// A compiled condition or string expression.
#[derive(Debug)]
pub struct Expression {
    text: Box<[u8]>,
}

/// What is wrong with an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadExpression {
    /// What is wrong.
    pub message: String,
    /// Where, in bytes.
    pub offset: usize,
}

impl Expression {
    /// A condition.
    pub fn condition(text: &[u8]) -> Result<Expression, BadExpression> {
        Ok(Expression { text: text.into() })
    }

    /// A string with `%{…}` in it.
    pub fn string(text: &[u8]) -> Result<Expression, BadExpression> {
        Ok(Expression { text: text.into() })
    }

    /// As it was written.
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// Whether the condition holds. `captures` are those of the last regular expression, before and after. An error is what
    /// Apache logs, and counts as a condition that does not hold only where Apache has it so: see each caller.
    pub fn holds(
        &self,
        _transaction: &mut Transaction<'_>,
        _world: &mut dyn World,
        _captures: &mut Captures,
    ) -> Result<bool, String> {
        unimplemented!()
    }

    /// The string.
    pub fn render(
        &self,
        _transaction: &mut Transaction<'_>,
        _world: &mut dyn World,
        _captures: &mut Captures,
    ) -> Result<Vec<u8>, String> {
        unimplemented!()
    }
}
