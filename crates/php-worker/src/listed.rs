//! Lists that scripts ask for.

use std::borrow::Cow;

use crate::php_request::Field;

/// An entry of a list for scripts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedEntry<'c> {
    /// Empty for an entry without a name.
    pub name: &'c [u8],
    pub value: ListedValue<'c>,
}

/// The value of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListedValue<'c> {
    Text(Cow<'c, [u8]>),
    Number(u64),
}

impl<'c> ListedEntry<'c> {
    /// An entry without a name. `None` for an empty text.
    pub fn value(text: &'c str) -> Option<ListedEntry<'c>> {
        (!text.is_empty()).then_some(ListedEntry {
            name: b"",
            value: ListedValue::Text(Cow::Borrowed(text.as_bytes())),
        })
    }
}

/// Joins the lines of each field, as Apache does, under the name of the first line.
pub fn fields<'c>(lines: impl Iterator<Item = Field<'c>>) -> Vec<ListedEntry<'c>> {
    let mut fields: Vec<(&[u8], Cow<'c, [u8]>)> = Vec::new();
    for (name, value) in lines {
        match fields.iter_mut().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
            Some((_, values)) => {
                let is_cookie = name.eq_ignore_ascii_case(b"cookie");
                let separator: &[u8] = if is_cookie { b"; " } else { b", " };
                values.to_mut().extend_from_slice(&[separator, value].concat());
            }
            None => fields.push((name, Cow::Borrowed(value))),
        }
    }
    let listed = |(name, value)| ListedEntry { name, value: ListedValue::Text(value) };
    fields.into_iter().map(listed).collect()
}
