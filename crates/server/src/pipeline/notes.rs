//! Notes for the access log about the way in which a request was resolved.

use std::os::unix::ffi::OsStrExt;

use howdah_htaccess::modules::auth::named_user;
use howdah_http::{Fields, Request};
use howdah_php::RunReport;
use howdah_site::{
    DocumentPath, Resolution, Resolved, RuledRequest, Site, logged_path, requested_file,
};
use howdah_sys::open::Lookup;

use super::RequestContext;
use super::directives::{budget_here, link_steps};
use crate::observe::{AccessLog, ResolutionNotes};

/// Returns what `log` tells of the way in which the request was resolved. `asks_disk`: the file
/// that the request is for may be looked up once more, where the resolution does not name it.
pub(super) fn of(
    context: &RequestContext<'_, '_>,
    site: &Site,
    resolved: &Resolved,
    (log, asks_disk): (AccessLog<'_>, bool),
) -> Box<ResolutionNotes> {
    let state = resolved.ruled.as_ref().map(|ruled| &ruled.state);
    let (mut environment, mut notes) = (Fields::new(), Fields::new());
    if let Some(state) = state {
        log.add_variables(&state.env, &mut environment);
        log.add_notes(&state.notes, &mut notes);
    }
    let handler: &[u8] = match &resolved.resolution {
        Resolution::Php(_) => b"application/x-httpd-php",
        Resolution::Listing { .. } => b"httpd/unix-directory",
        Resolution::Proxy { .. } => b"proxy-server",
        _ => b"",
    };
    Box::new(ResolutionNotes {
        path: path_of(context, site, resolved),
        query: state.filter(|state| !state.uri.is_empty()).map(|state| state.args.clone()),
        file: file_of(context, site, resolved, asks_disk),
        handler: handler.to_vec(),
        environment,
        notes,
        run: RunReport::default(),
        first_byte: None,
    })
}

/// Returns the path to be logged, where that of the request is not it: the path before the first
/// internal redirect, which the choice of an index file is not.
fn path_of(context: &RequestContext<'_, '_>, site: &Site, resolved: &Resolved) -> Option<Vec<u8>> {
    if let Some(ruled) = &resolved.ruled {
        let mut state = &ruled.state;
        while let Some(previous) = &state.previous {
            state = previous;
        }
        return Some(state.uri.clone()).filter(|uri| !uri.is_empty());
    }
    // Without directives, the name that is added to the path of a folder is that of its index.
    let asked = logged_path(context.request.path(), site.config().encoded_slashes);
    let file = match &resolved.resolution {
        Resolution::File { path, .. } => path,
        Resolution::Php(script) => script.path(),
        _ => return None,
    };
    let file = file.absolute().as_os_str().as_bytes();
    let name = file.rsplit(|byte| *byte == b'/').next().filter(|_| asked.ends_with(b"/"))?;
    let path = [&asked[..], name].concat();
    file.ends_with(&path).then_some(path)
}

/// Returns the file that the request is for; empty for none.
fn file_of(
    context: &RequestContext<'_, '_>,
    site: &Site,
    resolved: &Resolved,
    asks_disk: bool,
) -> Vec<u8> {
    let bytes = |path: &DocumentPath| path.absolute().as_os_str().as_bytes().to_vec();
    match (&resolved.resolution, &resolved.ruled) {
        (Resolution::File { path, .. }, _) => bytes(path),
        (Resolution::Php(script), _) => bytes(script.path()),
        (Resolution::Proxy { upstream, target }, _) => {
            let server = site.config().upstreams.get(*upstream);
            let server = server.map(ToString::to_string).unwrap_or_default();
            [b"proxy:", server.as_bytes(), target].concat()
        }
        (Resolution::Exhausted | Resolution::Discard { .. }, _) => Vec::new(),
        (_, Some(ruled)) => ruled.state.filename.clone(),
        // The disk may be what has failed, or what nobody can wait for.
        (Resolution::Status(status), None) if status.is_server_error() => Vec::new(),
        (_, None) if asks_disk => looked_up(context, site),
        (_, None) => Vec::new(),
    }
}

/// Looks the file up, as far as that takes little; empty beyond that.
fn looked_up(context: &RequestContext<'_, '_>, site: &Site) -> Vec<u8> {
    let budget = budget_here(context, site);
    let client = context.peer.client(context.request, context.arrival.began.microseconds);
    let mut host = context.thread.host(site, context.arrival.started, &context.compared);
    let bounds = (Lookup::Cached, link_steps(&budget));
    let file = host.bounded(bounds, |host| requested_file(site, &client.within(&budget), host));
    file.unwrap_or_default()
}

/// Returns the user who has authenticated, or has tried to. PHP takes the name from the request
/// itself where no directive asks for one, and mod_php tells it to the log. `None`: the request
/// names no user.
pub(super) fn user_of(
    request: &Request,
    ruled: Option<&RuledRequest>,
    is_script: bool,
) -> Option<Vec<u8>> {
    let state = ruled.map(|ruled| &ruled.state);
    let user = state.and_then(|state| state.user.clone());
    user.or_else(|| {
        let edited = state.and_then(|state| state.request_fields.as_ref());
        let fields = edited.filter(|_| is_script).or(is_script.then_some(&request.fields))?;
        named_user(fields.value(b"authorization")?)
    })
}
