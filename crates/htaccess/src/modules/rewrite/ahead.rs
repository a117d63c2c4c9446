//! Sub-requests: `LA-U`, `LA-F`, `-U` and `-F`.

use std::borrow::Cow;

use howdah_http::Status;

use super::Config;
use super::situation::Situation;
use super::template::Template;
use super::url::escape_path;
use super::variables::{Server, Variable};
use crate::transaction::Transaction;
use crate::world::{Lookup, World};

/// What sub-requests for what a rule is matched against came to, where its strings ask for that.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    url: Option<Lookup>,
    file: Option<Lookup>,
}

/// Asks what a string with look-aheads needs. Nothing where it would never end.
pub(super) fn look(
    template: &Template,
    subject: &[u8],
    config: &Config,
    transaction: &mut Transaction<'_>,
    world: &mut dyn World,
) -> Ahead {
    let mut ahead = Ahead::default();
    if !may_ask(transaction) {
        return ahead;
    }
    let is_url = subject.starts_with(b"/");
    if template.looks_ahead(false) {
        let folder = config.base.as_deref().unwrap_or(&config.directory);
        let url = if is_url {
            subject.to_vec()
        } else {
            [folder, subject].concat()
        };
        ahead.url = Some(world.lookup(transaction, &url));
    }
    if template.looks_ahead(true) {
        // Apache cannot know which file an absolute path stands for either, and asks for it as a
        // URL.
        ahead.file = Some(if is_url {
            world.lookup(transaction, subject)
        } else {
            lookup_file(transaction, &[&*config.directory, subject].concat(), world)
        });
    }
    ahead
}

/// `-U`: whether a sub-request for the URL comes to no error.
pub(crate) fn is_url(transaction: &mut Transaction<'_>, url: &[u8], world: &mut dyn World) -> bool {
    if url.is_empty() || !may_ask(transaction) {
        return false;
    }
    let found = match url {
        [b'/', ..] => world.lookup(transaction, url),
        relative => {
            let mut whole = Vec::new();
            escape_path(parent(&transaction.state.uri), &mut whole);
            whole.extend_from_slice(relative);
            world.lookup(transaction, &whole)
        }
    };
    found.status.code() < 400
}

/// `-F`: whether a sub-request for the file would serve it, and it is there.
pub(crate) fn is_file(
    transaction: &mut Transaction<'_>,
    path: &[u8],
    world: &mut dyn World,
) -> bool {
    if path.is_empty() || !may_ask(transaction) {
        return false;
    }
    let found = lookup_file(transaction, path, world);
    found.status.code() < 300 && world.probe(&found.filename).is_some()
}

impl Ahead {
    /// What a variable is after the sub-request for the file, or else for the URL; empty without
    /// one.
    pub fn value<'s>(
        &'s self,
        of_file: bool,
        variable: &'s Variable,
        situation: &Situation<'s, '_>,
        world: &mut dyn World,
    ) -> Cow<'s, [u8]> {
        let Some(found) = (if of_file { &self.file } else { &self.url }) else {
            return Cow::Borrowed(b"");
        };
        Cow::Borrowed(match variable {
            Variable::Environment(name) => match found.env.value(name) {
                Some(value) => value,
                None => return world.host().variable(name).unwrap_or_default().into(),
            },
            Variable::Server(Server::Filename) => &found.filename,
            Variable::Server(Server::Uri) => &found.uri,
            Variable::Server(Server::RemoteUser) => found.user.as_deref().unwrap_or_default(),
            Variable::Server(Server::PathInfo) => &found.path_info,
            Variable::Server(Server::QueryString) => found.args.as_deref().unwrap_or_default(),
            Variable::Server(Server::AuthType) => found.auth_type.unwrap_or_default().as_bytes(),
            Variable::Server(Server::Method) => b"GET",
            Variable::Server(Server::IsSubrequest) => b"true",
            Variable::Server(Server::Protocol) => b"INCLUDED",
            other => return other.value(situation, world),
        })
    }
}

/// A sub-request within a sub-request for the same URL would go on for ever.
fn may_ask(transaction: &Transaction<'_>) -> bool {
    let state = &transaction.state;
    !state.is_subrequest || state.main_uri.as_ref() != Some(&state.uri)
}

/// A sub-request for a file: for the URL that it has below the document root. What is not below it
/// may not be asked for.
fn lookup_file(transaction: &mut Transaction<'_>, path: &[u8], world: &mut dyn World) -> Lookup {
    let state = &transaction.state;
    let whole = normalised(parent(&state.filename), path);
    let below = whole.as_deref().and_then(|whole| {
        let rest = whole.strip_prefix(&*state.document_root)?;
        (rest.is_empty() || rest.starts_with(b"/")).then_some(rest)
    });
    let Some(below) = below else {
        return Lookup {
            status: Status::FORBIDDEN,
            filename: whole.unwrap_or_default(),
            ..Lookup::default()
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
        return Lookup {
            status: Status::MOVED_PERMANENTLY,
            filename: state.document_root.to_vec(),
            ..Lookup::default()
        };
    }
    let mut url = Vec::with_capacity(below.len() + 8);
    escape_path(below, &mut url);
    Lookup {
        uri: beside.unwrap_or_default(),
        ..world.lookup(transaction, &url)
    }
}

/// A path as seen from a folder, without `.`, `..` and empty components; `None` where it leads
/// above the root.
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

/// A path up to its last slash.
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
