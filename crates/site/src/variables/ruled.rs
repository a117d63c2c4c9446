//! The variables of a request that directives have changed.

use howdah_htaccess::{ClientRequest, RequestState};
use howdah_http::{Fields, Request, Scheme};

use crate::line_index::LineIndex;
use crate::ruled_request::RuledRequest;

/// The user that has authenticated, and the request that led to this one.
pub(super) fn about_the_way(
    client: &ClientRequest<'_>,
    ruled: &RuledRequest,
    out: &mut impl FnMut(&[u8], &[u8]),
) {
    let state = &ruled.state;
    if let Some(user) = &state.user {
        out(b"REMOTE_USER", user);
    } else if let Some(user) = earlier(state).find_map(|state| state.user.as_ref()) {
        out(b"REDIRECT_REMOTE_USER", user);
    }
    if let Some(auth_type) = state.auth_type {
        out(b"AUTH_TYPE", auth_type.as_bytes());
        // PHP itself finds the user of Basic in the Authorization field; that of Digest it has from
        // the server.
        if let (Some(user), "Digest") = (&state.user, auth_type) {
            out(b"PHP_AUTH_USER", user);
        }
    }
    if let Some(previous) = &state.previous {
        let core = ruled.settings.core.as_ref();
        if core.and_then(|core| core.qualify_redirect_url) == Some(true) {
            out(b"REDIRECT_URL", &qualified(client.request(), previous));
        } else {
            out(b"REDIRECT_URL", &previous.uri);
        }
        if let Some(args) = &previous.args {
            out(b"REDIRECT_QUERY_STRING", args);
        }
    }
}

/// Returns the request that an internal redirect has led on from. `None`: there was no internal
/// redirect.
pub(super) fn previous(ruled: &RuledRequest) -> Option<&RequestState> {
    ruled.state.previous.as_deref()
}

/// REQUEST_URI: the URL that the client sent, or the present one (`CGIVar REQUEST_URI
/// current-uri`).
pub(super) fn uri<'r>(request: &'r Request, ruled: &'r RuledRequest) -> &'r [u8] {
    let core = ruled.settings.core.as_ref();
    let is_current = core.and_then(|core| core.request_uri_is_current) == Some(true);
    if is_current { &ruled.state.uri } else { &request.target }
}

/// The part of the URL's path that names the script (`ap_find_path_info`): what PATH_INFO and it
/// have at their ends is cut off, and what is left goes to the end of its component.
pub(super) fn script_name<'u>(uri: &'u [u8], path_info: &[u8]) -> &'u [u8] {
    if path_info.is_empty() {
        return uri;
    }
    let same = uri.iter().rev().zip(path_info.iter().rev()).take_while(|(a, b)| a == b);
    let start = (uri.len() - same.count()).saturating_sub(usize::from(!uri.ends_with(path_info)));
    let end = memchr::memchr(b'/', &uri[start..]).map_or(uri.len(), |at| start + at);
    &uri[..end]
}

/// The fields of `edited`. Where a directive has added a field to one of the same name, scripts get
/// the last value, as under Apache; several that the client itself has sent stay.
pub(super) fn as_read(sent: &Fields, edited: &Fields) -> Fields {
    let mut read = Fields::new();
    let (sent, index) = (LineIndex::of(sent), LineIndex::of(edited));
    for (place, (name, value)) in edited.iter().enumerate() {
        let Some(same) = index.find(name) else {
            continue;
        };
        let are_sent = || sent.find(name).is_some_and(|sent| sent.count == same.count);
        if same.last == place || are_sent() {
            read.push(name, value);
        }
    }
    read
}

/// The requests before this one, the last first.
fn earlier(state: &RequestState) -> impl Iterator<Item = &RequestState> {
    std::iter::successors(state.previous.as_deref(), |state| state.previous.as_deref())
}

fn qualified(request: &Request, state: &RequestState) -> Vec<u8> {
    let scheme: &[u8] = match request.scheme {
        Scheme::Http => b"http://",
        Scheme::Https => b"https://",
    };
    let mut url = [scheme, &request.authority, &state.uri].concat();
    if let Some(args) = &state.args {
        url.push(b'?');
        url.extend_from_slice(args);
    }
    url
}

#[cfg(test)]
mod tests {
    use super::script_name;

    #[test]
    fn script_names() {
        let rows = [
            ("/index.php", "", "/index.php"),
            ("/index.php/a/b", "/a/b", "/index.php"),
            ("/index.php/", "/", "/index.php"),
            // MultiViews: the URL has another name than the file.
            ("/page/a", "/a", "/page"),
            ("/other", "/a", "/other"),
            ("/a/index.php/a", "/a", "/a/index.php"),
        ];
        for (uri, path_info, expected) in rows {
            let found = script_name(uri.as_bytes(), path_info.as_bytes());
            assert_eq!(String::from_utf8_lossy(found), expected, "{uri} {path_info}");
        }
    }
}
