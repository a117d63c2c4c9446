//! Listings, error documents, and expiry times that are not switched on.

use super::{DirectiveUse, LintReport, LintedFile};
use crate::mistake::{Complaint, MistakeKind};

pub(super) fn check(
    file: &LintedFile<'_>,
    exists: &mut dyn FnMut(&[u8]) -> bool,
    report: &mut LintReport<'_>,
) {
    listing(file, exists, report);
    for document in file.named("errordocument") {
        error_document(document, report);
    }
    expiry(file, report);
}

/// Returns a folder that lists its files although nothing in it is an index.
fn listing(
    file: &LintedFile<'_>,
    exists: &mut dyn FnMut(&[u8]) -> bool,
    report: &mut LintReport<'_>,
) {
    let mut listing = None;
    for options in file.named("options").filter(|options| file.is_for_all(options)) {
        for (index, word) in options.words.iter().enumerate() {
            match word.to_ascii_lowercase().as_slice() {
                b"indexes" | b"+indexes" | b"all" => listing = Some((options, index)),
                b"-indexes" => listing = None,
                word if index == 0 && !word.starts_with(b"+") && !word.starts_with(b"-") => {
                    listing = None
                }
                _ => {}
            }
        }
    }
    let Some((options, index)) = listing else {
        return;
    };
    let folder = &file.context.folder;
    let named = file
        .named("directoryindex")
        .flat_map(|directive| directive.words.iter().map(Vec::as_slice));
    let usual = [&b"index.php"[..], b"index.html", b"index.htm"];
    let has_index = named.chain(usual).any(|name| exists(&[folder, name].concat()));
    if !has_index && !folder.is_empty() {
        let message = "everybody sees which files are in this folder: it has no index file";
        report.say(
            MistakeKind::Dangerous,
            options.item,
            Complaint::about(index, message).hint("use `Options -Indexes`"),
        );
    }
}

fn error_document(document: &DirectiveUse<'_>, report: &mut LintReport<'_>) {
    let target = document.word(1).to_ascii_lowercase();
    if !target.starts_with(b"http://") && !target.starts_with(b"https://") {
        return;
    }
    let message = match document.word(0) {
        b"401" => "has no effect: who is redirected is never asked for a password",
        _ => "sends a redirect, which hides the error from clients and search engines",
    };
    let hint = "name the page by its path on this site";
    report.say(MistakeKind::Doubtful, document.item, Complaint::about(1, message).hint(hint));
}

fn expiry(file: &LintedFile<'_>, report: &mut LintReport<'_>) {
    if file.named("expiresactive").next().is_some() {
        return;
    }
    if let Some(expires) = file
        .uses
        .iter()
        .find(|directive| matches!(&*directive.name, "expiresbytype" | "expiresdefault"))
    {
        let message = "has no effect in this file: ExpiresActive is not switched on";
        report.say(
            MistakeKind::Doubtful,
            expires.item,
            Complaint::new(message).hint("add `ExpiresActive On`"),
        );
    }
}
