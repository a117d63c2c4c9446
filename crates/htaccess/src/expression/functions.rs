//! `name(word)` and `%{name:word}`.

use md5::{Digest, Md5};
use sha1::Sha1;

use super::evaluate::ExpressionEvaluation;
use crate::escape::push_uri;
use crate::variables::{field_value, tls_variable};
use crate::work::comparing;

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
        out: &mut Vec<u8>,
    ) {
        let state = &evaluation.transaction.state;
        let transaction = &evaluation.transaction;
        let variable = || transaction.variable(argument);
        let note = || {
            transaction.client.meter().spend(comparing(state.notes.len(), argument)).ok()?;
            state.notes.value(argument)
        };
        match self {
            Function::OsEnv => append(evaluation.context.host().variable(argument).as_deref(), out),
            Function::Env => match note().or_else(variable) {
                Some(value) => out.extend_from_slice(value),
                None => append(evaluation.context.host().variable(argument).as_deref(), out),
            },
            Function::Response => {
                let value = state.fields.value(argument).or(state.error_fields.value(argument));
                append(value, out);
            }
            Function::Request { vary } => {
                out.extend_from_slice(&field_value(evaluation.transaction, argument));
                if vary {
                    evaluation.varies_on(argument);
                }
            }
            Function::Note => append(note(), out),
            Function::RequestEnv => append(variable(), out),
            Function::Lower => out.extend(argument.iter().map(u8::to_ascii_lowercase)),
            Function::Upper => out.extend(argument.iter().map(u8::to_ascii_uppercase)),
            Function::Escape => push_uri(argument, out),
            Function::Unescape => append(unescaped(argument).as_deref(), out),
            Function::Base64 => base64(argument, out),
            Function::Unbase64 => {
                let decoded = unbase64(argument);
                out.extend_from_slice(until_zero(&decoded));
            }
            Function::Sha1 => hexadecimal(&Sha1::digest(argument), out),
            Function::Md5 => hexadecimal(&Md5::digest(argument), out),
            Function::Ldap => ldap(argument, out),
            Function::Tls => {
                let value = tls_variable(evaluation.transaction, evaluation.context, argument);
                append(value.as_deref(), out);
            }
        }
    }
}

fn append(value: Option<&[u8]>, out: &mut Vec<u8>) {
    out.extend_from_slice(value.unwrap_or_default());
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

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn base64(bytes: &[u8], out: &mut Vec<u8>) {
    for chunk in bytes.chunks(3) {
        let byte = |index: usize| u32::from(chunk.get(index).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            out.push(match place > chunk.len() {
                true => b'=',
                false => ALPHABET[(bits >> (18 - 6 * place)) as usize & 63],
            });
        }
    }
}

/// Decodes the text before the first byte that is not of the alphabet.
fn unbase64(text: &[u8]) -> Vec<u8> {
    let value = |byte: &u8| ALPHABET.iter().position(|letter| letter == byte);
    let values: Vec<u32> =
        text.iter().map_while(|byte| value(byte).map(|value| value as u32)).collect();
    let mut decoded = Vec::with_capacity(values.len());
    for chunk in values.chunks(4) {
        let bits = chunk
            .iter()
            .enumerate()
            .fold(0, |bits, (place, value)| bits | value << (18 - 6 * place));
        let bytes = [(bits >> 16) as u8, (bits >> 8) as u8, bits as u8];
        decoded.extend_from_slice(&bytes[..chunk.len().saturating_sub(1)]);
    }
    decoded
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
