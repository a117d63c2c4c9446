//! The module's directives and their arguments.

use std::sync::Arc;

use super::list::RedirectList;
use super::redirect::{Redirect, RedirectSource};
use super::{PathlessRedirect, target};
use crate::directive::{Apply, Arguments, Directive, DirectiveCall, Overrides, Support};
use crate::expression::Expression;
use crate::merge::{SharedConfig, edit};
use crate::mistake::Complaint;
use crate::modules::alias;
use crate::number;
use crate::pattern::Pattern;

const fn directive(
    name: &'static str,
    arguments: Arguments,
    summary: &'static str,
    apply: Apply<alias::Config>,
) -> Directive<Apply<alias::Config>> {
    Directive {
        name,
        module: "mod_alias",
        overrides: Overrides::FILE_INFO,
        arguments,
        summary,
        support: Support::Full,
        apply,
    }
}

/// The module's directives.
pub(crate) const DIRECTIVES: &[Directive<Apply<alias::Config>>] = &[
    directive(
        "Redirect",
        Arguments::Words(1, 3),
        "Redirects a path and what is below it, or answers it with a status.",
        |call, shared| redirect(call, shared, 302, false),
    ),
    directive(
        "RedirectMatch",
        Arguments::Words(2, 3),
        "Redirects the paths that a regular expression matches, or answers them with a status.",
        |call, shared| redirect(call, shared, 302, true),
    ),
    directive(
        "RedirectTemp",
        Arguments::TWO,
        "Redirects a path and what is below it, with 302.",
        |call, shared| redirect(call, shared, 302, false),
    ),
    directive(
        "RedirectPermanent",
        Arguments::TWO,
        "Redirects a path and what is below it, with 301.",
        |call, shared| redirect(call, shared, 301, false),
    ),
    directive(
        "RedirectRelative",
        Arguments::Flag,
        "Whether redirects to a path are sent as a path, not as a whole URL.",
        |call, shared| {
            edit(shared).relative = Some(call.flag());
            Ok(())
        },
    ),
    Directive {
        support: Support::Ignored(
            "it is about Alias within <Location>, which is not allowed in .htaccess",
        ),
        ..directive(
            "AliasPreservePath",
            Arguments::Flag,
            "Whether an Alias in a section maps the whole path.",
            |_, _| Ok(()),
        )
    },
];

/// The meaning of the first word.
enum FirstWord {
    /// A redirect with this status.
    Redirect(i32),
    /// A status that is no redirect.
    Status(i32),
    /// Another word.
    Other,
}

fn first(word: &[u8]) -> FirstWord {
    match word.to_ascii_lowercase().as_slice() {
        b"permanent" => FirstWord::Redirect(301),
        b"temp" => FirstWord::Redirect(302),
        b"seeother" => FirstWord::Redirect(303),
        b"gone" => FirstWord::Status(410),
        [b'0'..=b'9', ..] => match number::clamped(word) {
            code @ 300..400 => FirstWord::Redirect(code),
            code => FirstWord::Status(code),
        },
        _ => FirstWord::Other,
    }
}

fn redirect(
    call: &DirectiveCall<'_>,
    shared: &mut SharedConfig<alias::Config>,
    default: i32,
    is_pattern: bool,
) -> Result<(), Complaint> {
    let count = call.words.len();
    let (status, path, url) = match (first(call.word(0)), count) {
        (FirstWord::Other, 3..) => {
            return Err(Complaint::about(0, "Redirect: invalid first argument (of three)")
                .hint("it is a status: permanent, temp, seeother, gone or a number"));
        }
        (FirstWord::Redirect(status), 2) => return everything(call, shared, status, Some(1)),
        (FirstWord::Other, 0 | 1) => return everything(call, shared, default, Some(0)),
        (FirstWord::Status(status), 0 | 1) => return everything(call, shared, status, None),
        // A single word that is a redirect's status has no target.
        (FirstWord::Redirect(status), 0 | 1) => (status, 1, 2),
        (FirstWord::Other, _) => (default, 0, 1),
        (FirstWord::Redirect(status) | FirstWord::Status(status), _) => (status, 1, 2),
    };
    let source = if is_pattern {
        RedirectSource::Pattern(Pattern::new(call.word(path), false).map(Arc::new).map_err(
            |bad| {
                Complaint::about(path, "Regular expression could not be compiled.")
                    .hint(bad.message)
            },
        )?)
    } else {
        RedirectSource::Path(call.word(path).into())
    };
    let target = (count > url).then(|| call.word(url));
    match target {
        None if (300..400).contains(&status) => {
            return Err(Complaint::new("URL to redirect to is missing"));
        }
        Some(_) if !(300..400).contains(&status) => {
            return Err(Complaint::about(url, "Redirect URL not valid for this status"));
        }
        Some(target) if !is_pattern && !target::is_url(target) && !target.starts_with(b"/") => {
            return Err(Complaint::about(url, "Redirect to non-URL")
                .hint("it begins with a scheme or a slash"));
        }
        _ => {}
    }
    let redirect = Redirect {
        place: call.kept_place(),
        text: format!("{} {}", call.name, String::from_utf8_lossy(call.raw)).into(),
        source,
        target: target.map(Into::into),
        status,
    };
    let config: &mut alias::Config = edit(shared);
    RedirectList::push(&mut config.redirects, redirect);
    Ok(())
}

/// Sets a redirect without a path, for everything below the folder.
fn everything(
    call: &DirectiveCall<'_>,
    shared: &mut SharedConfig<alias::Config>,
    status: i32,
    url: Option<usize>,
) -> Result<(), Complaint> {
    let expression = |index: usize| {
        Expression::string(call.word(index)).map_err(|bad| {
            let url = String::from_utf8_lossy(call.word(index));
            Complaint::about(
                index,
                format!("Cannot parse redirect expression '{url}': {}", bad.message),
            )
        })
    };
    let target = url.map(expression).transpose()?.map(Arc::new);
    let config: &mut alias::Config = edit(shared);
    // A status alone keeps the target of an earlier directive.
    let before = config.everything.take().and_then(|before| before.target);
    config.everything = Some(PathlessRedirect { status, target: target.or(before) });
    Ok(())
}
