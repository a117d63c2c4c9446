//! `ErrorDocument`: the documents for errors.

use howdah_http::Status;

use crate::directive::DirectiveCall;
use crate::merge::{SharedConfig, edit};
use crate::mistake::Complaint;
use crate::modules::core;

use crate::expression::StringExpression;
use crate::number::leading_integer;

/// The document for an error.
#[derive(Clone, Debug)]
pub enum ErrorDocument {
    /// The server's own page: `default` undoes what is configured above.
    Default,
    /// This text, as `text/html`.
    Message(StringExpression),
    /// Another URL: a path of this site begins with `/` once it is rendered; a URL with a scheme is
    /// redirected to with 302; anything else is the site's mistake, and the server's own page is
    /// sent.
    Url(StringExpression),
}

/// The destination of a rendered [`ErrorDocument::Url`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorDestination {
    /// A path of this site, to be fetched with GET.
    Local,
    /// A full URL, to be redirected to.
    Remote,
    /// No valid destination.
    Invalid,
}

/// Returns the destination of a rendered URL of `ErrorDocument`.
pub fn destination(url: &[u8]) -> ErrorDestination {
    if is_url(url) {
        ErrorDestination::Remote
    } else if url.first() == Some(&b'/') {
        ErrorDestination::Local
    } else {
        ErrorDestination::Invalid
    }
}

/// Returns whether the URL begins with a possible scheme and a colon, as Apache checks.
fn is_url(url: &[u8]) -> bool {
    let scheme = url
        .iter()
        .take_while(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(byte))
        .count();
    scheme > 0 && url.get(scheme) == Some(&b':')
}

/// Applies `ErrorDocument status document`.
///
/// # Errors
/// The status is none, or none that can have a document.
pub(super) fn apply(
    call: &DirectiveCall<'_>,
    shared: &mut SharedConfig<core::Config>,
) -> Result<(), Complaint> {
    let (code, text) = (call.word(0), call.word(1));
    let status = leading_integer(code)
        .and_then(|code| u16::try_from(code).ok())
        .and_then(Status::new)
        .filter(|status| is_known(*status))
        .ok_or_else(|| {
            let shown = String::from_utf8_lossy(code);
            Complaint::about(0, format!("{shown:?} is no status that an ErrorDocument can be for"))
        })?;
    let is_message = text.contains(&b' ') || !(text.first() == Some(&b'/') || is_url(text));
    if status == Status::UNAUTHORIZED && !is_message && is_url(text) {
        // A redirect instead of 401 would keep the browser from asking for a password; Apache
        // ignores it as well.
        return Ok(());
    }
    let document = if text.eq_ignore_ascii_case(b"default") {
        ErrorDocument::Default
    } else if is_message {
        ErrorDocument::Message(StringExpression::new(1, text)?)
    } else {
        ErrorDocument::Url(StringExpression::new(1, text)?)
    };
    let config: &mut core::Config = edit(shared);
    config.error_documents = with(&config.error_documents, status, document);
    Ok(())
}

fn with(
    documents: &[(Status, ErrorDocument)],
    status: Status,
    document: ErrorDocument,
) -> Box<[(Status, ErrorDocument)]> {
    let others = documents.iter().filter(|(other, _)| *other != status).cloned();
    others.chain([(status, document)]).collect()
}

/// Returns the documents in force where `base` applies and `add` is closer.
pub(super) fn merge(
    base: &[(Status, ErrorDocument)],
    add: &[(Status, ErrorDocument)],
) -> Box<[(Status, ErrorDocument)]> {
    let kept = base.iter().filter(|(status, _)| !add.iter().any(|(other, _)| other == status));
    kept.chain(add).cloned().collect()
}

/// The statuses that httpd knows.
fn is_known(status: Status) -> bool {
    matches!(status.code(),
        100..=102 | 200..=208 | 226 | 300..=305 | 307 | 308 | 400..=417
        | 421..=424 | 426 | 428 | 429 | 431 | 451
        | 500..=508 | 510 | 511)
}
