//! Directives that repeat an earlier one, or that a later one overrides.

use std::collections::HashMap;

use super::{DirectiveUse, LintReport, LintedFile};
use crate::mistake::{Complaint, MistakeKind};

pub(super) fn check(file: &LintedFile<'_>, report: &mut LintReport<'_>) {
    let mut said: HashMap<(usize, Vec<u8>), &DirectiveUse<'_>> = HashMap::new();
    for later in file.uses.iter().filter(|directive| !is_ordered(directive)) {
        for key in keys(later) {
            let Some(earlier) = said.insert((later.scope, key), later) else {
                continue;
            };
            let (complaint, blamed) = if earlier.words == later.words {
                let message = format!("repeats line {}", earlier.item.line);
                (Complaint::new(message), later)
            } else {
                let message =
                    format!("line {} sets this again, so this is without effect", later.item.line);
                (Complaint::new(message), earlier)
            };
            report.say(MistakeKind::Redundant, blamed.item, complaint);
            break;
        }
    }
}

/// Returns whether the order of directives of this name matters, so that the same line twice may be
/// intended.
fn is_ordered(directive: &DirectiveUse<'_>) -> bool {
    matches!(
        &*directive.name,
        "rewritecond" | "rewriterule" | "rewriteengine" | "substitute" | "error"
    ) || directive.name.starts_with("redirect")
}

/// Returns the values that the directive sets. Of two directives with the same values in one place,
/// only the later counts.
fn keys(directive: &DirectiveUse<'_>) -> Vec<Vec<u8>> {
    let name = directive.name.as_bytes();
    let key = |words: &[&[u8]]| {
        let mut key = name.to_vec();
        for word in words {
            key.push(0);
            key.extend(word.to_ascii_lowercase());
        }
        vec![key]
    };
    let exactly = |directive: &DirectiveUse<'_>| [name, &directive.words.join(&0)].join(&0);
    match &*directive.name {
        "acceptpathinfo" | "adddefaultcharset" | "authname" | "authtype" | "authuserfile"
        | "authgroupfile" | "directoryslash" | "expiresactive" | "expiresdefault"
        | "fallbackresource" | "forcetype" | "headername" | "indexorderdefault"
        | "limitrequestbody" | "order" | "readmename" | "rewritebase" | "satisfy"
        | "serversignature" | "sethandler" => key(&[]),
        // Two documents for one error, two values of one setting.
        "errordocument" | "expiresbytype" | "php_flag" | "php_value" | "setenv" => {
            key(&[directive.word(0)])
        }
        "addtype" | "addhandler" | "addcharset" | "addencoding" => directive
            .words
            .iter()
            .skip(1)
            .map(|extension| {
                let extension = extension.strip_prefix(b".").unwrap_or(extension);
                [name, &extension.to_ascii_lowercase()].join(&0)
            })
            .collect(),
        "header" => {
            header(directive).map_or_else(Vec::new, |(always, field)| key(&[always, field]))
        }
        "requestheader" => Vec::new(),
        _ => vec![exactly(directive)],
    }
}

/// Returns the table and the field of `Header set` without a condition. Other actions add up.
fn header<'d>(directive: &'d DirectiveUse<'_>) -> Option<(&'d [u8], &'d [u8])> {
    let always = usize::from(directive.says(0, "always") || directive.says(0, "onsuccess"));
    let is_plain = directive.says(always, "set") && directive.words.len() == always + 3;
    let table: &[u8] = if directive.says(0, "always") {
        b"always"
    } else {
        b"onsuccess"
    };
    is_plain.then(|| (table, directive.word(always + 1)))
}
