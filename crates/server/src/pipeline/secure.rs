//! Responses that depend on encryption: redirects to https, or 503 while there is none; 421 on a
//! connection for another site; and the promise to use https alone.

use howdah_config::ClientVerify;
use howdah_http::{Content, Method, Request, Scheme, Status};
use howdah_site::Site;

use super::{RequestContext, Response};
use crate::observe::RequestError;
use crate::tls::{InTheClear, TlsPolicy, redirect_status};

/// Returns the response to a request that came over the wrong connection: one in the clear, one
/// whose client has seen the certificate of another site, or one whose client has shown no
/// certificate where the site wants one. `None`: the connection is the right one.
pub(super) fn settle(
    context: &RequestContext<'_, '_>,
    tls: &TlsPolicy,
    site: &Site,
) -> Option<Response> {
    if let Some(response) = wrong_connection(context, tls, site) {
        return Some(response);
    }
    let settings = &site.config().tls;
    let asks_for_certificates =
        settings.client_ca.is_some() && settings.client_verify == ClientVerify::Require;
    if !asks_for_certificates || context.peer.tls.is_some() {
        return None;
    }
    context.report(&RequestError::forbidden(context.situation(), Status::FORBIDDEN));
    Some(Response::error(Status::FORBIDDEN))
}

/// Settles a request that came in early data, which may be a copy that somebody has recorded.
/// Returns the response to one that could change something, or that is for a site without early
/// data, which may have its certificate in common with one that takes it: the client sends the
/// request again when the handshake is complete (RFC 8470 §5.2). Other requests get a field that
/// says that they are early, and `None` is returned.
pub(super) fn settle_early(request: &mut Request, site: &Site) -> Option<Response> {
    let is_safe = site.config().tls.early_data
        && matches!(request.method, Method::Get | Method::Head)
        && matches!(request.content, Content::None | Content::Length(0))
        && !request.fields.contains(b"upgrade");
    if !is_safe {
        return Some(Response::error(Status::TOO_EARLY));
    }
    request.fields.set(b"Early-Data", b"1");
    None
}

fn wrong_connection(
    context: &RequestContext<'_, '_>,
    tls: &TlsPolicy,
    site: &Site,
) -> Option<Response> {
    let (peer, request) = (context.peer, &*context.request);
    match &peer.tls {
        Some(established) => established
            .is_misdirected(context.thread, site, request.host(), peer.is_proxy)
            .then(|| Response::error(Status::MISDIRECTED_REQUEST)),
        None if request.scheme == Scheme::Http => {
            Some(match tls.https_ports.settle(tls, site, request, peer.listener)? {
                InTheClear::Redirected(url) => {
                    Response::redirect(redirect_status(&request.method), &url)
                }
                InTheClear::Refused => Response::error(Status::SERVICE_UNAVAILABLE),
            })
        }
        _ => None,
    }
}

/// Adds Strict-Transport-Security where the site wants it, and the certificate that the client has
/// seen is for the host: of another one nobody can promise that https goes on.
pub(super) fn promise(context: &RequestContext<'_, '_>, response: &mut Response, site: &Site) {
    const NAME: &[u8] = b"Strict-Transport-Security";
    let Some(value) = &site.config().tls.hsts else {
        return;
    };
    let (peer, host) = (context.peer, context.request.host());
    // A proxy in front has certificates of its own.
    let own = peer.tls.as_ref().filter(|_| !peer.is_proxy);
    if own.is_some_and(|own| !own.is_for(context.thread, host)) {
        return;
    }
    if response.head.get().fields.value(NAME).is_none() {
        response.own_head();
        response.push(NAME, value.as_bytes());
    }
}
