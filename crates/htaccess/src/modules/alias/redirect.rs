//! One Redirect or RedirectMatch.

use std::sync::Arc;

use super::target;
use crate::escape::push_uri;
use crate::metered_text::{LONGEST_VALUE, MeteredText, TextError};
use crate::mistake::DirectivePlace;
use crate::pattern::{Captures, Pattern, substitute};
use crate::work::{Exhausted, Meter};

/// One redirect.
#[derive(Debug)]
pub(super) struct Redirect {
    /// The place of the directive.
    pub place: Arc<DirectivePlace>,
    /// The directive as written.
    pub text: Box<str>,
    /// The paths that it is for.
    pub source: RedirectSource,
    /// The target; `None` where the answer is no redirect.
    pub target: Option<Box<[u8]>>,
    /// The status of the answer.
    pub status: i32,
}

/// The paths that a redirect is for.
#[derive(Debug)]
pub(super) enum RedirectSource {
    /// This path, and what is below it.
    Path(Box<[u8]>),
    /// URLs that the regular expression matches.
    Pattern(Arc<Pattern>),
}

/// The error of a redirect that matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RedirectError {
    /// The pattern takes too many steps on this path.
    Exhausted,
    /// The target is too long.
    TooLong,
}

impl From<Exhausted> for RedirectError {
    fn from(_: Exhausted) -> RedirectError {
        RedirectError::Exhausted
    }
}

impl From<TextError> for RedirectError {
    fn from(error: TextError) -> RedirectError {
        match error {
            TextError::TooLong => RedirectError::TooLong,
            TextError::Exhausted => RedirectError::Exhausted,
        }
    }
}

impl Redirect {
    /// Returns the target of the redirect for a path, empty where it has none; `None` where it is
    /// not for that path.
    ///
    /// # Errors
    /// Where a pattern takes too many steps, or the target is too long.
    pub fn location(
        &self,
        path: &[u8],
        meter: Meter<'_>,
    ) -> Result<Option<Vec<u8>>, RedirectError> {
        match &self.source {
            RedirectSource::Path(source) => {
                let Some(length) = matching_length(path, source) else {
                    return Ok(None);
                };
                meter.spend(path.len() as u64)?;
                let mut location = self.target.as_deref().unwrap_or_default().to_vec();
                push_uri(&path[length..], &mut location);
                Ok(Some(location))
            }
            RedirectSource::Pattern(pattern) => {
                if !pattern.is_match(path, meter)? {
                    return Ok(None);
                }
                let Some(target) = &self.target else {
                    return Ok(Some(Vec::new()));
                };
                let mut captures = Captures::default();
                pattern.captures(path, &mut captures, meter)?;
                let text = substituted(target, &captures, meter)?;
                // The target is parsed, put together again and escaped.
                meter.spend(text.len() as u64)?;
                Ok(Some(target::escaped(&text)))
            }
        }
    }
}

/// Returns the length of the part of a path that `source` matches (`alias_matches`): whole
/// components, where any number of slashes counts as one. `None`: it does not match.
pub(super) fn matching_length(path: &[u8], source: &[u8]) -> Option<usize> {
    let slashes = |text: &[u8]| text.iter().take_while(|&&byte| byte == b'/').count();
    let (mut at, mut rest) = (0, source);
    while let [byte, after @ ..] = rest {
        if path.get(at) != Some(byte) {
            return None;
        }
        if *byte == b'/' {
            at += slashes(&path[at..]);
            rest = &rest[slashes(rest)..];
        } else {
            at += 1;
            rest = after;
        }
    }
    let ends_component = source.ends_with(b"/") || path.get(at).is_none_or(|&next| next == b'/');
    (ends_component && at > 0).then_some(at)
}

/// Returns the target with its captures. As in Apache (`AP_PREGSUB_MAXLEN`), one of 64 KiB is too
/// long.
fn substituted(target: &[u8], captures: &Captures, meter: Meter<'_>) -> Result<Vec<u8>, TextError> {
    let mut out = MeteredText::new(LONGEST_VALUE - 1, meter);
    substitute(target, captures, &mut out)?;
    Ok(out.into_bytes())
}
