//! The `E` flag.

use howdah_http::Fields;

use super::template::Template;
use crate::transaction::{NoVariableRoom, Transaction};
use crate::work;

/// The assignment of `E=`, as far as it is known before a request.
#[derive(Debug)]
pub(super) enum Assignment {
    /// `name:value`, or `name` for an empty value.
    Set { name: Box<[u8]>, value: Template },
    /// `!name`.
    Unset(Box<[u8]>),
    /// The name, or whether it begins with `!`, depends on the request.
    Expanded(Template),
}

impl Assignment {
    /// Reads the flag's value.
    ///
    /// # Errors
    /// The complaint about the template, as Apache words it.
    pub fn new(text: &[u8]) -> Result<Assignment, String> {
        let special = memchr::memchr3(b'\\', b'$', b'%', text).unwrap_or(text.len());
        let colon = memchr::memchr(b':', text).unwrap_or(text.len());
        if special < colon || text.is_empty() {
            return Template::new(text).map(Assignment::Expanded);
        }
        Ok(match text {
            [b'!', name @ ..] if special == text.len() => Assignment::Unset(name.into()),
            [b'!', ..] => Assignment::Expanded(Template::new(text)?),
            _ => Assignment::Set {
                name: text[..colon].into(),
                value: Template::new(text.get(colon + 1..).unwrap_or_default())?,
            },
        })
    }

    /// Returns the template that has to be expanded. `None` if the variable is removed.
    pub fn template(&self) -> Option<&Template> {
        match self {
            Assignment::Set { value: template, .. } | Assignment::Expanded(template) => {
                Some(template)
            }
            Assignment::Unset(_) => None,
        }
    }
}

/// Sets the variable of an expanded flag.
///
/// # Errors
/// There is no room for it.
pub(super) fn assign(transaction: &mut Transaction<'_>, text: &[u8]) -> Result<(), NoVariableRoom> {
    if let [b'!', name @ ..] = text {
        transaction.unset_variable(name);
        return Ok(());
    }
    match memchr::memchr(b':', text) {
        Some(at) => set(transaction, &text[..at], &text[at + 1..]),
        None => set(transaction, text, b""),
    }
}

/// Sets a variable. An unchanged value stays where it is.
///
/// # Errors
/// There is no room for it.
pub(super) fn set(
    transaction: &mut Transaction<'_>,
    name: &[u8],
    value: &[u8],
) -> Result<(), NoVariableRoom> {
    let meter = transaction.client.meter();
    let is_known = match transaction.variable(name) {
        _ if name.is_empty() => return Ok(()),
        Some(before) if before == value => return Ok(()),
        before => before.is_some(),
    };
    transaction.state.room_for(Fields::size_of_line(name, value))?;
    let env = &mut transaction.state.env;
    if !is_known {
        env.push(name, value);
    } else if meter.spend(work::comparing(env.len(), name)).is_ok() {
        env.set(name, value);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_known_beforehand_where_nothing_can_change_them() {
        let table = [
            ("name:value", "Set"),
            ("name", "Set"),
            ("name:$1:%{X}", "Set"),
            ("!name", "Unset"),
            ("!na:me", "Unset"),
            ("!na:me$1", "Expanded"),
            ("n$1:value", "Expanded"),
            ("$1", "Expanded"),
            ("", "Expanded"),
        ];
        for (text, expected) in table {
            let found = format!("{:?}", Assignment::new(text.as_bytes()).unwrap());
            assert!(found.starts_with(expected), "{text}: {found}");
        }
    }
}
