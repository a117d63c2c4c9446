//! The `CO` flag.

use howdah_http::date;

use super::expansion::RewriteError;
use super::notes;
use crate::fields::{LONGEST_HEAD, MOST_FIELDS, can_be_sent};
use crate::number;
use crate::transaction::Transaction;
use crate::work;

/// Adds `name:value:domain[:minutes[:path[:secure[:httponly[:samesite]]]]]`, once for a name and
/// request. A text that begins with `;` is separated by `;`. Without a domain there is no cookie.
///
/// # Errors
/// The line would hold a control character, or the work is too much.
pub(super) fn add(transaction: &mut Transaction<'_>, text: &[u8]) -> Result<(), RewriteError> {
    let (separator, text) = match text {
        [b';', rest @ ..] => (b';', rest),
        whole => (b':', whole),
    };
    let mut parts = text.split(|&byte| byte == separator).filter(|part| !part.is_empty());
    let mut next = || parts.next();
    let (Some(name), Some(value), Some(domain)) = (next(), next(), next()) else {
        return Ok(());
    };
    let cookies = notes::cookies(&transaction.state);
    transaction.client.meter().spend(work::comparing(cookies.len(), name))?;
    if cookies.iter().any(|cookie| **cookie == *name) {
        return Ok(());
    }
    let (minutes, path, secure, http_only, same_site) = (next(), next(), next(), next(), next());
    let mut line =
        [name, b"=", value, b"; path=", path.unwrap_or(b"/"), b"; domain=", domain].concat();
    if let Some(minutes) = minutes.map(number::clamped).filter(|&minutes| minutes != 0) {
        let now = transaction.client.time() / 1_000_000;
        line.extend_from_slice(b"; expires=");
        line.extend_from_slice(&expiry(now.saturating_add_signed(i64::from(minutes) * 60)));
    }
    if is_yes(secure, b"secure") {
        line.extend_from_slice(b"; secure");
    }
    // As in Apache, what follows is taken into account only where the cookie is secure.
    if is_yes(secure, b"secure") && is_yes(http_only, b"HttpOnly") {
        line.extend_from_slice(b"; HttpOnly");
    }
    if let Some(policy) =
        same_site.filter(|policy| *policy != b"0" && !policy.eq_ignore_ascii_case(b"false"))
    {
        line.extend_from_slice(b"; SameSite=");
        line.extend_from_slice(policy);
    }
    transaction.client.meter().spend(work::bytes(2 * line.len()))?;
    if !can_be_sent(&line) {
        return Err(RewriteError::BadCookie);
    }
    let fields = &transaction.state.error_fields;
    if fields.length() + line.len() > LONGEST_HEAD || fields.len() >= MOST_FIELDS {
        return Err(RewriteError::LongCookies);
    }
    notes::note_cookie(&mut transaction.state, name);
    transaction.state.error_fields.push(b"Set-Cookie", &line);
    Ok(())
}

fn is_yes(word: Option<&[u8]>, name: &[u8]) -> bool {
    word.is_some_and(|word| {
        word == b"1" || word.eq_ignore_ascii_case(b"true") || word.eq_ignore_ascii_case(name)
    })
}

/// `Sun, 06-Nov-1994 08:49:37 GMT`.
fn expiry(seconds: u64) -> [u8; 29] {
    let mut text = date::format(seconds);
    text[7] = b'-';
    text[11] = b'-';
    text
}
