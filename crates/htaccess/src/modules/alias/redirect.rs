//! One Redirect or RedirectMatch.

use std::sync::Arc;

use super::target;
use crate::escape::push_uri;
use crate::mistake::DirectivePlace;
use crate::pattern::{Captures, Pattern};
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

/// The longest target with its captures (`AP_PREGSUB_MAXLEN`); a longer one is answered with 500.
const LONGEST_TARGET: usize = 64 * 1024;

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
            RedirectSource::Path(source) => Ok(matching_length(path, source).map(|length| {
                let mut location = self.target.as_deref().unwrap_or_default().to_vec();
                push_uri(&path[length..], &mut location);
                location
            })),
            RedirectSource::Pattern(pattern) => {
                if !pattern.is_match(path, meter)? {
                    return Ok(None);
                }
                let Some(target) = &self.target else {
                    return Ok(Some(Vec::new()));
                };
                let mut captures = Captures::default();
                pattern.captures(path, &mut captures, meter)?;
                let text = substituted(target, &captures).ok_or(RedirectError::TooLong)?;
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

/// Replaces `$0` to `$9` (`ap_pregsub`); a backslash makes the next byte literal. `None` where the
/// result is too long.
fn substituted(target: &[u8], captures: &Captures) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(target.len() + 32);
    let mut rest = target;
    while let [byte, after @ ..] = rest {
        rest = after;
        match (byte, after) {
            (b'$', [digit @ b'0'..=b'9', after @ ..]) => {
                out.extend_from_slice(captures.group(usize::from(digit - b'0')));
                rest = after;
            }
            (b'\\', [escaped, after @ ..]) => {
                out.push(*escaped);
                rest = after;
            }
            _ => out.push(*byte),
        }
        if out.len() >= LONGEST_TARGET {
            return None;
        }
    }
    Some(out)
}
