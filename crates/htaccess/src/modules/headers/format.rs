//! Values with format specifiers: `%t`, `%D`, `%l`, `%i`, `%b`, `%{NAME}e`, `%{NAME}s`, `%%`.

use std::borrow::Cow;

use crate::evaluation_context::EvaluationContext;
use crate::metered_text::{LONGEST_VALUE, MeteredText, TextError};
use crate::transaction::Transaction;
use crate::variables::tls_variable;
use crate::work;

/// A piece of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FormatPart {
    /// Text that is sent unchanged.
    Text(Box<[u8]>),
    /// `%t`: the time of the request, `t=` and microseconds since 1970.
    Time,
    /// `%D`: the duration of the request so far, `D=` and microseconds.
    Duration,
    /// `%l`: `l=` and the load averages.
    Load,
    /// `%i`: `i=` and the percentage of idle workers.
    Idle,
    /// `%b`: `b=` and the percentage of busy workers.
    Busy,
    /// `%{NAME}e`: a variable.
    Environment(Box<[u8]>),
    /// `%{NAME}s`: a variable of TLS.
    Tls(Box<[u8]>),
}

/// Splits a value into its pieces; neighbouring texts are one.
///
/// # Errors
/// The byte that is no valid specifier.
pub(super) fn parse(mut text: &[u8]) -> Result<Vec<FormatPart>, u8> {
    let mut parts = Vec::new();
    let mut literal = Vec::new();
    while let Some((&first, behind)) = text.split_first() {
        if first != b'%' {
            let end = text.iter().position(|&byte| byte == b'%').unwrap_or(text.len());
            unescape(&text[..end], &mut literal);
            text = &text[end..];
            continue;
        }
        match behind.first() {
            None | Some(b'%') => {
                literal.push(b'%');
                text = &behind[behind.len().min(1)..];
            }
            Some(_) => {
                let (part, rest) = specifier(behind)?;
                if !literal.is_empty() {
                    parts.push(FormatPart::Text(std::mem::take(&mut literal).into()));
                }
                parts.push(part);
                text = rest;
            }
        }
    }
    if !literal.is_empty() {
        parts.push(FormatPart::Text(literal.into()));
    }
    Ok(parts)
}

/// Parses the specifier after a `%`.
fn specifier(text: &[u8]) -> Result<(FormatPart, &[u8]), u8> {
    let (argument, rest): (&[u8], &[u8]) = match text {
        [b'{', rest @ ..] => match rest.iter().position(|&byte| byte == b'}') {
            Some(end) => (&rest[..end], &rest[end + 1..]),
            None => (rest, b""),
        },
        _ => (b"", text),
    };
    let Some((&letter, rest)) = rest.split_first() else {
        return Err(0);
    };
    let part = match letter {
        b'D' => FormatPart::Duration,
        b't' => FormatPart::Time,
        b'l' => FormatPart::Load,
        b'i' => FormatPart::Idle,
        b'b' => FormatPart::Busy,
        b'e' => FormatPart::Environment(argument.into()),
        b's' => FormatPart::Tls(argument.into()),
        other => return Err(other),
    };
    Ok((part, rest))
}

/// Resolves `\\`, `\r`, `\n` and `\t`; a backslash before anything else is kept.
fn unescape(mut text: &[u8], out: &mut Vec<u8>) {
    while let Some((&byte, behind)) = text.split_first() {
        let escaped = match (byte, behind.first()) {
            (b'\\', Some(b'\\')) => Some(b'\\'),
            (b'\\', Some(b'r')) => Some(b'\r'),
            (b'\\', Some(b'n')) => Some(b'\n'),
            (b'\\', Some(b't')) => Some(b'\t'),
            _ => None,
        };
        out.push(escaped.unwrap_or(byte));
        text = if escaped.is_some() { &behind[1..] } else { behind };
    }
}

impl FormatPart {
    /// Returns whether the piece is as long as the site or a client wants it to be.
    pub(super) fn is_of_any_length(&self) -> bool {
        matches!(self, FormatPart::Environment(_) | FormatPart::Tls(_))
    }
}

/// Joins the pieces.
///
/// # Errors
/// The value becomes longer than 64 KiB, or takes too much work.
pub(super) fn render(
    parts: &[FormatPart],
    tx: &Transaction<'_>,
    context: &mut dyn EvaluationContext,
) -> Result<Vec<u8>, TextError> {
    let mut out = MeteredText::new(LONGEST_VALUE, tx.client.meter());
    parts.iter().try_for_each(|part| render_part(part, tx, context, &mut out))?;
    Ok(out.into_bytes())
}

fn render_part(
    part: &FormatPart,
    tx: &Transaction<'_>,
    context: &mut dyn EvaluationContext,
    out: &mut MeteredText<'_>,
) -> Result<(), TextError> {
    tx.client.meter().spend(work::RULE)?;
    let unrepeatable = || tx.client.depends_on_everything();
    let text = match part {
        FormatPart::Text(text) => return out.push(text),
        FormatPart::Time => format!("t={}", tx.client.time()),
        FormatPart::Duration => format!("D={}", context.host().elapsed(unrepeatable())),
        FormatPart::Load => {
            let [one, five, fifteen] = context.host().load(unrepeatable()).averages;
            format!("l={one:.2}/{five:.2}/{fifteen:.2}")
        }
        FormatPart::Idle => format!("i={}", context.host().load(unrepeatable()).idle),
        FormatPart::Busy => format!("b={}", context.host().load(unrepeatable()).busy),
        FormatPart::Environment(name) => {
            let value = environment_variable(tx, name);
            return out.push_mapped(value.as_deref().unwrap_or(b"(null)"), in_one_line);
        }
        FormatPart::Tls(name) => {
            let value = tls_variable(tx, context, name);
            // A certificate has line feeds.
            return out.push_mapped(value.as_deref().unwrap_or(b"(null)"), in_one_line);
        }
    };
    out.push(text.as_bytes())
}

/// Returns a variable of the request's environment. The name by which a TLS client has asked for
/// the server is one, as with mod_ssl. `None`: there is no such variable.
pub(super) fn environment_variable<'t>(
    tx: &'t Transaction<'_>,
    name: &[u8],
) -> Option<Cow<'t, [u8]>> {
    match tx.variable(name) {
        Some(value) => Some(Cow::Borrowed(value)),
        None if name == b"SSL_TLS_SNI" => tx.client.tls_variable(name),
        None => None,
    }
}

/// Replaces a byte that ends a line, which no field can have.
fn in_one_line(byte: u8) -> u8 {
    match byte {
        b'\r' | b'\n' => b' ',
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces() {
        let text = |text: &str| FormatPart::Text(text.as_bytes().into());
        let table = [
            ("", Ok(vec![])),
            ("plain text", Ok(vec![text("plain text")])),
            ("100%", Ok(vec![text("100%")])),
            ("100%% sure", Ok(vec![text("100% sure")])),
            ("50% off", Err(b' ')),
            ("%", Ok(vec![text("%")])),
            ("%{a}", Err(0)),
            ("%{a", Err(0)),
            ("%x", Err(b'x')),
            (
                "a %D b %t",
                Ok(vec![text("a "), FormatPart::Duration, text(" b "), FormatPart::Time]),
            ),
            (
                "%{A}e%{B}s",
                Ok(vec![FormatPart::Environment((*b"A").into()), FormatPart::Tls((*b"B").into())]),
            ),
            (r"a\tb\\c\d\n", Ok(vec![text("a\tb\\c\\d\n")])),
            ("%l%i%b", Ok(vec![FormatPart::Load, FormatPart::Idle, FormatPart::Busy])),
        ];
        for (value, expected) in table {
            assert_eq!(parse(value.as_bytes()), expected, "{value}");
        }
    }
}
