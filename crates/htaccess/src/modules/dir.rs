//! mod_dir: the answer to a request for a folder, or for a missing file. `howdah-site` has its
//! phases.

use howdah_http::Status;

use crate::directive::{Apply, Arguments, Directive, DirectiveCall, Overrides, Support};
use crate::merge::{Merge, SharedConfig, edit};
use crate::mistake::Complaint;
use crate::module::{ApacheModule, ModuleConfig, Presence};
use crate::number;

/// The module's configuration. `None` is not configured.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// `DirectoryIndex`: names or URL paths, tried in order. `disabled` is an empty list. Apache
    /// itself tries `index.html` where nothing is configured.
    pub index: Option<Box<[Box<[u8]>]>>,
    /// `DirectorySlash`: whether a folder's URL without a slash at its end is redirected; on by
    /// default.
    pub slash: Option<bool>,
    /// `DirectoryCheckHandler`: whether a folder that has a handler is left to it; off by default.
    pub check_handler: Option<bool>,
    index_redirect: Option<IndexRedirect>,
    fallback: Option<Box<[u8]>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IndexRedirect {
    Off,
    With(Status),
}

impl Config {
    /// `DirectoryIndexRedirect`: the status of a redirect to the index file, which is served
    /// otherwise. `None` if the index file is served without a redirect.
    pub fn index_redirect(&self) -> Option<Status> {
        match self.index_redirect {
            Some(IndexRedirect::With(status)) => Some(status),
            _ => None,
        }
    }

    /// `FallbackResource`: the URL path served for missing files without a handler. `None` without
    /// the directive, or if it says `disabled`.
    pub fn fallback(&self) -> Option<&[u8]> {
        let fallback = self.fallback.as_deref();
        fallback.filter(|path| !path.eq_ignore_ascii_case(b"disabled"))
    }
}

impl Merge for Config {
    fn merge(base: &Config, add: &Config) -> Config {
        Config {
            index: add.index.as_ref().or(base.index.as_ref()).cloned(),
            slash: add.slash.or(base.slash),
            check_handler: add.check_handler.or(base.check_handler),
            index_redirect: add.index_redirect.or(base.index_redirect),
            fallback: add.fallback.as_ref().or(base.fallback.as_ref()).cloned(),
        }
    }
}

impl ModuleConfig for Config {
    fn is_silent(&self) -> bool {
        true
    }
}

/// Apache's module.
pub(crate) const APACHE_MODULES: &[ApacheModule] =
    &[ApacheModule::new("mod_dir.c", "dir_module", Some("DirectoryIndex"), Presence::Debian)];

/// The module's directives.
pub(crate) const DIRECTIVES: &[Directive<Apply<Config>>] = &[
    Directive {
        name: "DirectoryIndex",
        module: "mod_dir",
        overrides: Overrides::INDEXES,
        arguments: Arguments::ANY,
        summary: "Names the index files of folders; `disabled` is none.",
        support: Support::Full,
        apply: directory_index,
    },
    Directive {
        name: "DirectorySlash",
        module: "mod_dir",
        overrides: Overrides::INDEXES,
        arguments: Arguments::Flag,
        summary: "Says whether a folder's URL gets its slash by a redirect.",
        support: Support::Full,
        apply: directory_slash,
    },
    Directive {
        name: "DirectoryIndexRedirect",
        module: "mod_dir",
        overrides: Overrides::INDEXES,
        arguments: Arguments::ONE,
        summary: "Sends the client to the index file by a redirect.",
        support: Support::Full,
        apply: directory_index_redirect,
    },
    Directive {
        name: "DirectoryCheckHandler",
        module: "mod_dir",
        overrides: Overrides::INDEXES,
        arguments: Arguments::Flag,
        summary: "Leaves a folder that has a handler to it.",
        support: Support::Full,
        apply: directory_check_handler,
    },
    Directive {
        name: "FallbackResource",
        module: "mod_dir",
        overrides: Overrides::INDEXES,
        arguments: Arguments::ONE,
        summary: "Serves this URL for everything that is missing; `disabled` is nothing.",
        support: Support::Full,
        apply: fallback_resource,
    },
];

/// The index files that one file may name at most: each is looked for at a request for a folder.
/// More are a mistake.
const MOST_NAMES: usize = 1000;

fn directory_index(
    call: &DirectiveCall<'_>,
    shared: &mut SharedConfig<Config>,
) -> Result<(), Complaint> {
    let config = edit(shared);
    let names = call.words.iter().take_while(|word| !word.is_empty());
    let mut names: Vec<Box<[u8]>> = names.map(|word| word[..].into()).collect();
    let is_disabled = matches!(&names[..], [only] if only.eq_ignore_ascii_case(b"disabled"));
    if is_disabled {
        names.clear();
    } else if let Some(before) = config.index.take() {
        // Several lines of one file add up.
        names.splice(0..0, before);
    }
    if names.len() > MOST_NAMES {
        return Err(Complaint::new(format!("DirectoryIndex names more than {MOST_NAMES} files")));
    }
    config.index = Some(names.into());
    Ok(())
}

fn directory_slash(
    call: &DirectiveCall<'_>,
    shared: &mut SharedConfig<Config>,
) -> Result<(), Complaint> {
    edit(shared).slash = Some(call.flag());
    Ok(())
}

fn directory_check_handler(
    call: &DirectiveCall<'_>,
    shared: &mut SharedConfig<Config>,
) -> Result<(), Complaint> {
    edit(shared).check_handler = Some(call.flag());
    Ok(())
}

fn directory_index_redirect(
    call: &DirectiveCall<'_>,
    shared: &mut SharedConfig<Config>,
) -> Result<(), Complaint> {
    let word = call.word(0);
    let redirect = match &word.to_ascii_lowercase()[..] {
        b"off" => IndexRedirect::Off,
        b"on" | b"temp" => IndexRedirect::With(Status::FOUND),
        b"permanent" => IndexRedirect::With(Status::MOVED_PERMANENTLY),
        b"seeother" => IndexRedirect::With(Status::SEE_OTHER),
        [b'0'..=b'9', ..] => number::leading_integer(word)
            .and_then(|code| Status::new(u16::try_from(code).ok()?))
            .filter(|status| status.is_redirection())
            .map(IndexRedirect::With)
            .ok_or_else(|| {
                Complaint::about(0, "DirectoryIndexRedirect takes a status from 300 to 399")
            })?,
        _ => {
            let message =
                "DirectoryIndexRedirect is on, off, permanent, temp, seeother or a status";
            return Err(Complaint::about(0, message));
        }
    };
    edit(shared).index_redirect = Some(redirect);
    Ok(())
}

fn fallback_resource(
    call: &DirectiveCall<'_>,
    shared: &mut SharedConfig<Config>,
) -> Result<(), Complaint> {
    edit(shared).fallback = Some(call.word(0).into());
    Ok(())
}

#[cfg(test)]
mod tests;
