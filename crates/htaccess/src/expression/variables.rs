//! `%{NAME}`.

use std::borrow::Cow;

use howdah_http::{Version, date};

use super::evaluate::{Evaluated, ExpressionEvaluation};
use crate::metered_text::MeteredText;
use crate::variables::{ServerVariable, field, field_value, fixed};
use crate::work::{PROBE, comparing};

/// A variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ExpressionVariable {
    /// A variable that mod_rewrite has as well.
    Server(ServerVariable),
    /// `HTTP_*`: a field of the request.
    Field(&'static [u8]),
    /// The variable DOCUMENT_URI of the request's environment, else the URL's path.
    DocumentUri,
    /// The response's media type.
    ContentType,
    Handler,
    /// `SSL_*`: a variable of TLS.
    Tls(Box<[u8]>),
    /// The time of the file's last change, in local time, as 14 digits; 1970 until there is a
    /// response.
    LastModified,
    /// The response's status, as far as it is known.
    Status,
    /// `on` over HTTP/2, else `off`.
    Http2,
    /// The owner of the file.
    User,
    Group,
    /// Variables that are never set: CONTEXT_PREFIX, REMOTE_IDENT, the log's identifiers.
    Empty,
    ApiVersion,
}

impl ExpressionVariable {
    /// Returns the variable of that name, in any case. `None`: there is none.
    pub(super) fn named(name: &[u8]) -> Option<ExpressionVariable> {
        let name = name.to_ascii_uppercase();
        Some(match name.as_slice() {
            b"DOCUMENT_URI" => ExpressionVariable::DocumentUri,
            b"CONTENT_TYPE" => ExpressionVariable::ContentType,
            b"HANDLER" => ExpressionVariable::Handler,
            b"LAST_MODIFIED" => ExpressionVariable::LastModified,
            b"REQUEST_STATUS" => ExpressionVariable::Status,
            b"HTTP2" => ExpressionVariable::Http2,
            b"API_VERSION" => ExpressionVariable::ApiVersion,
            b"CONTEXT_PREFIX" | b"REMOTE_IDENT" | b"REQUEST_LOG_ID" | b"CONN_LOG_ID" => {
                ExpressionVariable::Empty
            }
            b"SCRIPT_USER" => ExpressionVariable::User,
            b"SCRIPT_GROUP" => ExpressionVariable::Group,
            name if name.starts_with(b"SSL_") => ExpressionVariable::Tls(name.into()),
            // A variable of mod_rewrite only.
            b"SERVER_ADDR" => return None,
            name => match field(name) {
                Some(field) => ExpressionVariable::Field(field),
                None => ExpressionVariable::Server(fixed(name)?),
            },
        })
    }

    /// Appends the value.
    pub(super) fn append(
        &self,
        evaluation: &mut ExpressionEvaluation<'_, '_>,
        out: &mut MeteredText<'_>,
    ) -> Evaluated<()> {
        let transaction = &*evaluation.transaction;
        let state = &transaction.state;
        let value: Cow<'_, [u8]> = match self {
            ExpressionVariable::Server(server) => server.value(transaction, evaluation.context),
            ExpressionVariable::Field(name) => {
                evaluation.push(&field_value(transaction, name), out)?;
                evaluation.varies_on(name);
                return Ok(());
            }
            ExpressionVariable::DocumentUri => {
                transaction.variable(b"DOCUMENT_URI").unwrap_or(&state.uri).into()
            }
            ExpressionVariable::Tls(name) => {
                evaluation.spend(PROBE)?;
                transaction.client.tls_variable(name).unwrap_or_default()
            }
            ExpressionVariable::ContentType => {
                state.content_type.as_deref().unwrap_or_default().into()
            }
            ExpressionVariable::Handler => state.handler.as_deref().unwrap_or_default().into(),
            ExpressionVariable::LastModified => {
                evaluation.spend(comparing(state.fields.len(), b"Last-Modified"))?;
                let sent = state.fields.value(b"Last-Modified").and_then(date::parse);
                let seconds = sent.unwrap_or(0);
                let zone = evaluation
                    .context
                    .host()
                    .zone(transaction.client.depends_on_everything(), seconds);
                digits(seconds.saturating_add_signed(i64::from(zone))).into()
            }
            ExpressionVariable::Status => state.status.code().to_string().into_bytes().into(),
            ExpressionVariable::User | ExpressionVariable::Group => {
                let owners = evaluation
                    .context
                    .host()
                    .owners(transaction.client.depends_on_everything(), &state.filename)
                    .unwrap_or_default();
                let name = if *self == ExpressionVariable::User {
                    owners.user
                } else {
                    owners.group
                };
                name.unwrap_or_default().into_vec().into()
            }
            ExpressionVariable::Http2 => match transaction.client.version() {
                Version::Http2 => b"on"[..].into(),
                _ => b"off"[..].into(),
            },
            ExpressionVariable::ApiVersion => b"20120211"[..].into(),
            ExpressionVariable::Empty => b""[..].into(),
        };
        evaluation.push(&value, out)
    }
}

/// Returns a time as year, month, day, hour, minute and second, 14 digits.
fn digits(seconds: u64) -> Vec<u8> {
    // Such as `Sun, 06 Nov 1994 08:49:37 GMT`.
    let text = date::format(seconds);
    let month = MONTHS.chunks(3).position(|name| *name == text[8..11]).unwrap_or(0);
    let month = format!("{:02}", month + 1).into_bytes();
    [&text[12..16], &month, &text[5..7], &text[17..19], &text[20..22], &text[23..25]].concat()
}

const MONTHS: &[u8] = b"JanFebMarAprMayJunJulAugSepOctNovDec";
