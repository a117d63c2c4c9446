//! Sub-requests of conditions: `-U` and `-F`, and the URL of a file.

use howdah_http::Status;

use crate::escape::push_uri;
use crate::evaluation_context::{EvaluationContext, SubRequestFacts};
use crate::transaction::Transaction;

/// `-U`: whether a sub-request for the URL results in no error.
pub(crate) fn is_url(
    transaction: &mut Transaction<'_>,
    url: &[u8],
    context: &mut dyn EvaluationContext,
) -> bool {
    if url.is_empty() || !may_ask(transaction) {
        return false;
    }
    let found = match url {
        [b'/', ..] => context.lookup(transaction, url),
        relative => {
            let mut whole = Vec::new();
            push_uri(parent(&transaction.state.uri), &mut whole);
            whole.extend_from_slice(relative);
            context.lookup(transaction, &whole)
        }
    };
    found.status.code() < 400
}

/// `-F`: whether a sub-request for the file would serve it, and it is there.
pub(crate) fn is_file(
    transaction: &mut Transaction<'_>,
    path: &[u8],
    context: &mut dyn EvaluationContext,
) -> bool {
    if path.is_empty() || !may_ask(transaction) {
        return false;
    }
    let found = lookup_file(transaction, path, context);
    found.status.code() < 300 && context.probe(&found.filename).is_some()
}

/// Returns whether a sub-request is allowed: one within a sub-request for the same URL would never
/// end.
pub(crate) fn may_ask(transaction: &Transaction<'_>) -> bool {
    let state = &transaction.state;
    !state.is_subrequest || state.main_uri.as_ref() != Some(&state.uri)
}

/// Makes a sub-request for a file, by its URL below the document root. Files that are not below it
/// are forbidden.
pub(crate) fn lookup_file(
    transaction: &mut Transaction<'_>,
    path: &[u8],
    context: &mut dyn EvaluationContext,
) -> SubRequestFacts {
    let state = &transaction.state;
    let whole = normalised(parent(&state.filename), path);
    let below = whole.as_deref().and_then(|whole| {
        let rest = whole.strip_prefix(&*state.document_root)?;
        (rest.is_empty() || rest.starts_with(b"/")).then_some(rest)
    });
    let Some(below) = below else {
        return SubRequestFacts {
            status: Status::FORBIDDEN,
            filename: whole.unwrap_or_default(),
            ..SubRequestFacts::default()
        };
    };
    // Apache knows the URL of a file beside the request's own, and of no other.
    let beside = whole
        .as_deref()
        .and_then(|whole| whole.strip_prefix(parent(&state.filename)))
        .filter(|name| !name.is_empty() && !name.contains(&b'/'))
        .map(|name| &name[..memchr::memchr2(b'?', b'#', name).unwrap_or(name.len())])
        .map(|name| [parent(&state.uri), name].concat());
    // A folder has a URL without a slash there, so mod_dir redirects: it is no file.
    let below = below.strip_suffix(b"/").unwrap_or(below);
    if below.is_empty() {
        return SubRequestFacts {
            status: Status::MOVED_PERMANENTLY,
            filename: state.document_root.to_vec(),
            ..SubRequestFacts::default()
        };
    }
    let mut url = Vec::with_capacity(below.len() + 8);
    push_uri(below, &mut url);
    SubRequestFacts {
        uri: beside.unwrap_or_default(),
        ..context.lookup(transaction, &url)
    }
}

/// Returns a path relative to a folder as an absolute one, without `.`, `..` and empty components;
/// `None` where it leads above the root.
fn normalised(folder: &[u8], path: &[u8]) -> Option<Vec<u8>> {
    let whole = match path {
        [b'/', ..] => path.to_vec(),
        relative => [folder, relative].concat(),
    };
    let mut out = Vec::with_capacity(whole.len());
    for component in whole.split(|&byte| byte == b'/') {
        match component {
            b"" | b"." => {}
            b".." => out.truncate(memchr::memrchr(b'/', &out)?),
            name => {
                out.push(b'/');
                out.extend_from_slice(name);
            }
        }
    }
    if whole.ends_with(b"/") || out.is_empty() {
        out.push(b'/');
    }
    Some(out)
}

/// Returns a path up to its last slash.
fn parent(path: &[u8]) -> &[u8] {
    memchr::memrchr(b'/', path).map_or(b"/", |at| &path[..=at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_normalised() {
        let table = [
            ("/w/", "a", Some("/w/a")),
            ("/w/", "/a//b/./c/", Some("/a/b/c/")),
            ("/w/x/", "../a", Some("/w/a")),
            ("/w/", "../..", None),
            ("/w/", "..", Some("/")),
        ];
        for (folder, path, expected) in table {
            let found = normalised(folder.as_bytes(), path.as_bytes());
            assert_eq!(found.as_deref(), expected.map(str::as_bytes), "{path}");
        }
    }
}
