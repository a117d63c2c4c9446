//! Redirects that an earlier one shadows, or that no URL can match.

use std::collections::HashMap;

use super::{DirectiveUse, LintReport, LintedFile};
use crate::mistake::{Complaint, MistakeKind};

pub(super) fn check(file: &LintedFile<'_>, report: &mut LintReport<'_>) {
    // The line of the redirect, by scope and path.
    let mut paths: HashMap<(usize, Vec<u8>), u32> = HashMap::new();
    let mut patterns: HashMap<(usize, Vec<u8>), u32> = HashMap::new();
    for directive in &file.uses {
        let Some((index, is_pattern)) = source(directive) else {
            continue;
        };
        let text = directive.word(index);
        let taken = if is_pattern {
            patterns.get(&(directive.scope, text.to_vec())).copied()
        } else {
            unreachable_query(directive, index, text, report);
            // mod_alias takes the first that matches, and a path matches all below it.
            beginnings(text)
                .find_map(|beginning| paths.get(&(directive.scope, beginning.to_vec())).copied())
        };
        if let Some(line) = taken {
            let message =
                format!("never acts: line {line} takes the same URLs, and the first one counts");
            let hint = "put the longer path first";
            report.say(
                MistakeKind::Shadowed,
                directive.item,
                Complaint::about(index, message).hint(hint),
            );
        } else if is_pattern {
            patterns.insert((directive.scope, text.to_vec()), directive.item.line);
        } else {
            paths.insert((directive.scope, text.to_vec()), directive.item.line);
        }
    }
}

/// Returns the index of the path or the pattern among the arguments, and whether it is a pattern.
fn source(directive: &DirectiveUse<'_>) -> Option<(usize, bool)> {
    let is_pattern = match &*directive.name {
        "redirect" => false,
        "redirectmatch" => true,
        "redirectpermanent" | "redirecttemp" => return Some((0, false)),
        _ => return None,
    };
    let first = directive.word(0);
    let is_status = first.first().is_some_and(u8::is_ascii_digit)
        || ["permanent", "temp", "seeother", "gone"]
            .iter()
            .any(|word| directive.says(0, word));
    let index = usize::from(is_status && directive.words.len() > 1);
    (directive.words.len() > 1).then_some((index, is_pattern))
}

/// The slashes of a path that are considered at most, which bounds the time. Mistakes below them
/// are not found.
const DEEPEST: usize = 256;

/// Returns the paths that match `path` as well: itself and those above it, with and without a slash
/// at the end.
fn beginnings(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let above = path
        .iter()
        .enumerate()
        .filter(|(_, byte)| **byte == b'/')
        .flat_map(move |(at, _)| [&path[..at], &path[..=at]]);
    above.take(DEEPEST).chain([path]).filter(|beginning| !beginning.is_empty())
}

fn unreachable_query(
    directive: &DirectiveUse<'_>,
    index: usize,
    path: &[u8],
    report: &mut LintReport<'_>,
) {
    if path.contains(&b'?') {
        let message = "never acts: the path of a URL has no query, so no `?`";
        let hint = "use RewriteCond %{QUERY_STRING} and a RewriteRule";
        report.say(
            MistakeKind::Shadowed,
            directive.item,
            Complaint::about(index, message).hint(hint),
        );
    }
}
