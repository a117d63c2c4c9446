//! Access control: the access, authentication and authorisation phases of
//! `ap_process_request_internal`.

use howdah_http::Status;

use crate::evaluation_context::EvaluationContext;
use crate::method_set::MethodSet;
use crate::modules::authz::{self, AuthzDecision};
use crate::modules::{access_compat, auth, ssl};
use crate::settings::DirectiveSettings;
use crate::transaction::{Denial, RequestState, Transaction};

/// Decides whether the request may go on. Sets the user and the type of authentication; where a
/// user has to authenticate, sets the challenge in the fields of an error.
///
/// # Errors
/// 401, 403, or 500 where the configuration cannot be followed; or the answer takes time.
pub fn check(
    tx: &mut Transaction<'_>,
    settings: &DirectiveSettings,
    context: &mut dyn EvaluationContext,
) -> Result<(), Denial> {
    if settings.authz.is_none()
        && settings.access.is_none()
        && settings.auth.is_none()
        && settings.ssl.is_none()
    {
        return Ok(());
    }
    let method = MethodSet::of(&tx.state.method);
    let by_address = by_address(tx, settings, method, context);
    let any_suffices = settings.access.as_ref().is_some_and(|access| access.any_suffices(method));
    match by_address {
        Ok(()) if any_suffices => return Ok(()),
        Err(Denial::Status(Status::FORBIDDEN)) if any_suffices => {}
        outcome => outcome?,
    }
    match authorise(tx, settings, method, context, false)? {
        AccessOutcome::Granted => Ok(()),
        AccessOutcome::NeedsUser => {
            if settings.ssl.as_ref().is_some_and(|ssl| ssl.forbids_all(tx)) {
                return Err(Denial::Status(Status::FORBIDDEN));
            }
            auth::authenticate(tx, settings.auth.as_deref(), context)?;
            authorise(tx, settings, method, context, true).map(|_| ())
        }
    }
}

/// Copies the user from the request that an internal redirect or a sub-request comes from. Where
/// both have the same settings, this replaces [`check`].
pub fn inherit(state: &mut RequestState, from: &RequestState) {
    state.user = from.user.clone();
    state.auth_type = from.auth_type;
}

/// Checks that need no user: Order, Allow, Deny, and encryption.
fn by_address(
    tx: &mut Transaction<'_>,
    settings: &DirectiveSettings,
    method: MethodSet,
    context: &mut dyn EvaluationContext,
) -> Result<(), Denial> {
    if let Some(access) = &settings.access {
        access_compat::check(tx, access, method, context)?;
    }
    if let Some(ssl) = &settings.ssl {
        ssl::check(tx, ssl).map_err(Denial::Status)?;
    }
    Ok(())
}

enum AccessOutcome {
    Granted,
    NeedsUser,
}

/// `Require`: asked before the client has authenticated, and once more afterwards where that is
/// needed.
fn authorise(
    tx: &mut Transaction<'_>,
    settings: &DirectiveSettings,
    method: MethodSet,
    context: &mut dyn EvaluationContext,
    after_authentication: bool,
) -> Result<AccessOutcome, Denial> {
    let auth = settings.auth.as_deref();
    let groups =
        |user: &[u8], context: &mut dyn EvaluationContext| auth::groups_of(auth, user, context);
    match authz::evaluate(tx, settings.authz.as_deref(), method, &groups, context)? {
        AuthzDecision::Silent { is_cleared } => {
            if is_cleared && auth::auth_type(tx, auth, context).is_some() {
                tx.complain(None, "AuthType is set and no Require says who is allowed");
                return Err(Denial::Status(Status::INTERNAL_SERVER_ERROR));
            }
            Ok(AccessOutcome::Granted)
        }
        AuthzDecision::Granted => Ok(AccessOutcome::Granted),
        AuthzDecision::DeniedWithoutUser if !after_authentication => Ok(AccessOutcome::NeedsUser),
        AuthzDecision::DeniedWithoutUser => Err(unauthorised(tx, auth, context)),
        AuthzDecision::Denied { place, is_forbidden } => {
            if !after_authentication || auth::auth_type(tx, auth, context).is_none() {
                let what = format!("access to {} is denied to this client", shown(&tx.state.uri));
                tx.complain(place, what);
                return Err(Denial::Status(Status::FORBIDDEN));
            }
            let user = shown(tx.state.user.as_deref().unwrap_or_default());
            let what = format!("access to {} is denied to user {user}", shown(&tx.state.uri));
            tx.complain(place, what);
            Err(match is_forbidden {
                true => Denial::Status(Status::FORBIDDEN),
                false => unauthorised(tx, auth, context),
            })
        }
    }
}

/// 401. A user who has authenticated is asked again; others have been asked already.
fn unauthorised(
    tx: &mut Transaction<'_>,
    auth: Option<&auth::Config>,
    context: &mut dyn EvaluationContext,
) -> Denial {
    Denial::Status(match tx.state.user {
        Some(_) => auth::challenge(tx, auth, context),
        None => Status::UNAUTHORIZED,
    })
}

fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
pub(crate) mod tests;
