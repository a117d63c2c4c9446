//! `name(word)` and `%{name:word}`.

use std::borrow::Cow;

use md5::{Digest, Md5};
use sha1::Sha1;

use super::evaluate::{Evaluated, ExpressionEvaluation, TOO_MUCH};
use crate::base64;
use crate::escape::push_uri;
use crate::evaluation_context::EvaluationContext;
use crate::metered_text::MeteredText;
use crate::transaction::Transaction;
use crate::variables::{field_value, tls_variable};
use crate::work::{Exhausted, comparing};

/// A function of one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Function {
    OsEnv,
    Env,
    Response,
    Request { vary: bool },
    Note,
    RequestEnv,
    Lower,
    Upper,
    Escape,
    Unescape,
    Base64,
    Unbase64,
    Sha1,
    Md5,
    Ldap,
    Tls,
}

impl Function {
    /// Returns the function of that name, in any case.
    ///
    /// # Errors
    /// There is no such function: the error message.
    pub(super) fn named(name: &[u8]) -> Result<Function, String> {
        let lower = name.to_ascii_lowercase();
        let name = name.escape_ascii();
        Ok(match lower.as_slice() {
            b"osenv" => Function::OsEnv,
            b"env" => Function::Env,
            b"resp" => Function::Response,
            b"req" | b"http" => Function::Request { vary: true },
            b"req_novary" => Function::Request { vary: false },
            b"note" => Function::Note,
            b"reqenv" => Function::RequestEnv,
            b"tolower" => Function::Lower,
            b"toupper" => Function::Upper,
            b"escape" => Function::Escape,
            b"unescape" => Function::Unescape,
            b"base64" => Function::Base64,
            b"unbase64" => Function::Unbase64,
            b"sha1" => Function::Sha1,
            b"md5" => Function::Md5,
            b"ldap" => Function::Ldap,
            b"ssl" => Function::Tls,
            b"file" | b"filesize" => {
                return Err(format!("{name}() is not available in .htaccess files"));
            }
            _ => return Err(format!("there is no function \"{name}\"")),
        })
    }

    /// Appends the result for an argument.
    pub(super) fn call(
        self,
        argument: &[u8],
        evaluation: &mut ExpressionEvaluation<'_, '_>,
        out: &mut MeteredText<'_>,
    ) -> Evaluated<()> {
        let value = self
            .value(argument, evaluation.transaction, evaluation.context)
            .map_err(|Exhausted| TOO_MUCH)?;
        evaluation.push(&value, out)?;
        if self == (Function::Request { vary: true }) {
            evaluation.varies_on(argument);
        }
        Ok(())
    }

    /// Returns the result for an argument, whose bytes are paid for. It is at most three times as
    /// long, or what the request or the server has.
    fn value<'e>(
        self,
        argument: &'e [u8],
        transaction: &'e Transaction<'_>,
        context: &mut dyn EvaluationContext,
    ) -> Result<Cow<'e, [u8]>, Exhausted> {
        let state = &transaction.state;
        let variable = || transaction.variable(argument);
        let note = || {
            transaction.client.meter().spend(comparing(state.notes.len(), argument)).ok()?;
            state.notes.value(argument)
        };
        let made = |make: fn(&[u8], &mut Vec<u8>)| {
            let mut out = Vec::new();
            make(argument, &mut out);
            Some(Cow::Owned(out))
        };
        let value = match self {
            Function::OsEnv => context.host().variable(argument).map(Cow::Owned),
            Function::Env => match note().or_else(variable) {
                Some(value) => Some(Cow::Borrowed(value)),
                None => context.host().variable(argument).map(Cow::Owned),
            },
            Function::Response => {
                let fields = state.fields.len() + state.error_fields.len();
                transaction.client.meter().spend(comparing(fields, argument))?;
                state
                    .fields
                    .value(argument)
                    .or(state.error_fields.value(argument))
                    .map(Cow::Borrowed)
            }
            Function::Request { .. } => Some(field_value(transaction, argument)),
            Function::Note => note().map(Cow::Borrowed),
            Function::RequestEnv => variable().map(Cow::Borrowed),
            Function::Lower => Some(Cow::Owned(argument.to_ascii_lowercase())),
            Function::Upper => Some(Cow::Owned(argument.to_ascii_uppercase())),
            Function::Escape => made(push_uri),
            Function::Unescape => unescaped(argument).map(Cow::Owned),
            Function::Base64 => Some(Cow::Owned(base64::encode(argument))),
            Function::Unbase64 => {
                let mut decoded = base64::decode(argument);
                decoded.truncate(until_zero(&decoded).len());
                Some(Cow::Owned(decoded))
            }
            Function::Sha1 => made(|bytes, out| hexadecimal(&Sha1::digest(bytes), out)),
            Function::Md5 => made(|bytes, out| hexadecimal(&Md5::digest(bytes), out)),
            Function::Ldap => made(ldap),
            Function::Tls => tls_variable(transaction, context, argument),
        };
        Ok(value.unwrap_or_default())
    }
}

/// Strings of C end at a zero byte.
fn until_zero(bytes: &[u8]) -> &[u8] {
    memchr::memchr(0, bytes).map_or(bytes, |zero| &bytes[..zero])
}

fn hexadecimal(digest: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for byte in digest {
        out.push(DIGITS[usize::from(byte >> 4)]);
        out.push(DIGITS[usize::from(byte & 15)]);
    }
}

/// Decodes percent-encoding, except `%2F`, which is unchanged; `None` for invalid escapes and
/// `%00`.
fn unescaped(text: &[u8]) -> Option<Vec<u8>> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        at += 1;
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let digit = |at: usize| text.get(at).and_then(|&digit| char::from(digit).to_digit(16));
        let value = (digit(at)? * 16 + digit(at + 1)?) as u8;
        match value {
            0 => return None,
            b'/' => decoded.extend_from_slice(&text[at - 1..at + 2]),
            value => decoded.push(value),
        }
        at += 2;
    }
    Some(decoded)
}

/// Escapes a text for distinguished names and filters, as APR does.
fn ldap(bytes: &[u8], out: &mut Vec<u8>) {
    for &byte in bytes {
        if (b' '..0x7f).contains(&byte) && !b"\"()*+,;<>\\".contains(&byte) {
            out.push(byte);
        } else {
            out.push(b'\\');
            hexadecimal(&[byte], out);
        }
    }
}
