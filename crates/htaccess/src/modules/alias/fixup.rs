//! The fixup phase (`fixup_redir`).

use howdah_http::Status;

use super::redirect::{Redirect, RedirectError};
use super::{RedirectOutcome, target};
use crate::evaluation_context::EvaluationContext;
use crate::fields::can_be_sent;
use crate::modules::alias;
use crate::pattern::Captures;
use crate::status;
use crate::trace::TraceEvent;
use crate::transaction::Transaction;
use crate::variables::origin;

/// Applies the redirects of a folder to a request. `None` if none of them applies.
pub fn fixup(
    transaction: &mut Transaction<'_>,
    config: &alias::Config,
    context: &mut dyn EvaluationContext,
) -> Option<RedirectOutcome> {
    if let Some(everything) = &config.everything {
        let mut location = Vec::new();
        if let Some(expression) = &everything.target {
            match expression.render(transaction, context, &mut Captures::default()) {
                Ok(text) => {
                    transaction.client.meter().note(text.len() as u64);
                    location = target::escaped(&text);
                }
                Err(error) => {
                    transaction.complain(
                        None,
                        format!("AH02826: Can't evaluate redirect expression: {error}"),
                    );
                    return Some(RedirectOutcome::Status(Status::INTERNAL_SERVER_ERROR));
                }
            }
        }
        let outcome = answer(transaction, config, everything.status, location);
        told(transaction, None, "Redirect without a path", outcome.as_ref());
        return outcome;
    }
    let found = config.redirects.find(&transaction.state.uri, transaction.client.meter());
    match found {
        Ok(None) => None,
        Ok(Some((redirect, location))) => {
            let outcome = answer(transaction, config, redirect.status, location);
            told(transaction, Some(redirect), &redirect.text, outcome.as_ref());
            outcome
        }
        Err((redirect, failure)) => {
            let message = match failure {
                RedirectError::Exhausted => {
                    "mod_alias: a pattern takes too many steps on this path".into()
                }
                RedirectError::TooLong => format!(
                    "AH00672: Regex substitution in '{}' failed. Replacement too long?",
                    String::from_utf8_lossy(redirect.target.as_deref().unwrap_or_default())
                ),
            };
            transaction.complain(Some(&redirect.place), message);
            Some(RedirectOutcome::Status(Status::INTERNAL_SERVER_ERROR))
        }
    }
}

/// Returns the answer to a request that a redirect matches. As in Apache, a status of 0 is no
/// answer.
fn answer(
    transaction: &mut Transaction<'_>,
    config: &alias::Config,
    status: i32,
    mut location: Vec<u8>,
) -> Option<RedirectOutcome> {
    if status == 0 {
        return None;
    }
    let status = u16::try_from(status).ok().filter(|&code| status::is_known(code));
    let Some(status) = status.and_then(Status::new) else {
        transaction.complain(None, "mod_alias: the status is invalid");
        return Some(RedirectOutcome::Status(Status::INTERNAL_SERVER_ERROR));
    };
    if !status.is_redirection() {
        return Some(RedirectOutcome::Status(status));
    }
    let is_path = location.starts_with(b"/");
    if is_path && config.relative != Some(true) {
        location = [origin(transaction), location].concat();
    } else if !is_path && !target::is_url(&location) {
        let message = format!(
            "AH00676: cannot redirect '{}' to '{}'; target is not a valid absoluteURI or abs_path",
            String::from_utf8_lossy(&transaction.state.uri),
            String::from_utf8_lossy(&location)
        );
        transaction.complain(None, message);
        return Some(RedirectOutcome::Status(Status::INTERNAL_SERVER_ERROR));
    }
    if let Some(args) = &transaction.state.args
        && !location.contains(&b'?')
    {
        location.push(b'?');
        location.extend_from_slice(args);
    }
    if !can_be_sent(&location) {
        transaction.complain(None, "mod_alias: the redirect's URL has control characters in it");
        return Some(RedirectOutcome::Status(Status::INTERNAL_SERVER_ERROR));
    }
    Some(RedirectOutcome::Redirect { status, location })
}

fn told(
    transaction: &mut Transaction<'_>,
    redirect: Option<&Redirect>,
    text: &str,
    outcome: Option<&RedirectOutcome>,
) {
    transaction.trace(|| {
        let mut facts = Vec::new();
        let outcome = match outcome {
            Some(RedirectOutcome::Redirect { status, location }) => {
                facts.push(("location", String::from_utf8_lossy(location).into_owned()));
                status.to_string()
            }
            Some(RedirectOutcome::Status(status)) => status.to_string(),
            None => "status 0: nothing comes of it".into(),
        };
        TraceEvent {
            step: "redirect",
            place: redirect.map(|redirect| redirect.place.clone()),
            text: text.into(),
            facts,
            outcome,
        }
    });
}
