//! The variables `%{…}` of test strings and substitutions.

use std::borrow::Cow;

use super::expansion::Expansion;
use super::url;
use crate::evaluation_context::EvaluationContext;
use crate::transaction::Transaction;
use crate::variables::{ServerVariable, field, field_value, fixed, origin, tls_variable};

/// A compiled variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RewriteVariable {
    /// A variable with a fixed name.
    Server(ServerVariable),
    /// `HTTP:name`, and the names of request fields.
    Field(Box<[u8]>),
    /// `ENV:name`.
    Environment(Box<[u8]>),
    /// `SSL:name`: a variable of TLS.
    Tls(Box<[u8]>),
    /// `LA-U:variable`: the value after a sub-request for the URL.
    OfUrl(Box<RewriteVariable>),
    /// `LA-F:variable`: the value after a sub-request for the file.
    OfFile(Box<RewriteVariable>),
    /// Anything else: empty, as in Apache.
    Unknown,
}

impl RewriteVariable {
    /// Returns the variable of that name. Look-aheads may nest to that depth.
    pub fn named(name: &[u8], depth: usize) -> RewriteVariable {
        let boxed = |name: &[u8]| RewriteVariable::named(name, depth.saturating_sub(1)).into();
        let (Some(fourth), Some(fifth)) = (name.get(3), name.get(4).or(Some(&0))) else {
            return RewriteVariable::Unknown;
        };
        if *fourth == b':' {
            return match name[..3].to_ascii_uppercase().as_slice() {
                _ if name.len() == 4 => RewriteVariable::Unknown,
                b"ENV" => RewriteVariable::Environment(name[4..].into()),
                b"SSL" if name[4..].eq_ignore_ascii_case(b"HTTPS") => {
                    RewriteVariable::Server(ServerVariable::Https)
                }
                b"SSL" => RewriteVariable::Tls(name[4..].into()),
                _ => RewriteVariable::Unknown,
            };
        }
        if *fifth == b':' {
            return match name[..4].to_ascii_uppercase().as_slice() {
                _ if name.len() == 5 || depth == 0 => RewriteVariable::Unknown,
                b"HTTP" => RewriteVariable::Field(name[5..].into()),
                b"LA-U" => RewriteVariable::OfUrl(boxed(&name[5..])),
                b"LA-F" => RewriteVariable::OfFile(boxed(&name[5..])),
                _ => RewriteVariable::Unknown,
            };
        }
        let name = name.to_ascii_uppercase();
        if let Some(field) = field(&name) {
            return RewriteVariable::Field(field.into());
        }
        fixed(&name).map_or(RewriteVariable::Unknown, RewriteVariable::Server)
    }

    /// Returns the request field of the variable, for Vary. Host is left out: every response
    /// depends on it. `None` for a variable that is no such field.
    pub fn field_name(&self) -> Option<&[u8]> {
        match self {
            RewriteVariable::Field(name) => {
                Some(&**name).filter(|name| !name.eq_ignore_ascii_case(b"host"))
            }
            RewriteVariable::OfUrl(variable) | RewriteVariable::OfFile(variable) => {
                variable.field_name()
            }
            _ => None,
        }
    }

    /// Returns whether the variable needs a sub-request, for the file or else for the URL.
    pub fn looks_ahead(&self, of_file: bool) -> bool {
        match self {
            RewriteVariable::OfUrl(variable) => !of_file || variable.looks_ahead(of_file),
            RewriteVariable::OfFile(variable) => of_file || variable.looks_ahead(of_file),
            _ => false,
        }
    }

    /// Returns the value; empty where there is none.
    pub fn value<'s>(
        &'s self,
        expansion: &Expansion<'s, '_>,
        context: &mut dyn EvaluationContext,
    ) -> Cow<'s, [u8]> {
        let transaction = expansion.transaction;
        match self {
            RewriteVariable::Server(server) => server.value(transaction, context),
            RewriteVariable::Field(name) => field_value(transaction, name),
            RewriteVariable::Environment(name) => match transaction.variable(name) {
                Some(value) => Cow::Borrowed(value),
                None => context.host().variable(name).unwrap_or_default().into(),
            },
            RewriteVariable::Tls(name) => {
                tls_variable(transaction, context, name).unwrap_or_default()
            }
            RewriteVariable::OfUrl(variable) => {
                expansion.ahead.value(false, variable, expansion, context)
            }
            RewriteVariable::OfFile(variable) => {
                expansion.ahead.value(true, variable, expansion, context)
            }
            RewriteVariable::Unknown => Cow::Borrowed(b""),
        }
    }
}

/// Makes a path a URL of this server. An absolute URL is unchanged.
pub(super) fn qualify(url: Vec<u8>, transaction: &Transaction<'_>) -> Vec<u8> {
    if url::scheme(&url).is_some() {
        return url;
    }
    let slash: &[u8] = if url.starts_with(b"/") { b"" } else { b"/" };
    [&origin(transaction), slash, &url].concat()
}
