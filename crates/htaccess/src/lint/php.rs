//! Settings of PHP that reveal too much, files that are run though they are no scripts, and
//! sections for modules that are off.

use super::{DirectiveUse, LintReport, LintedFile, LintedScope};
use crate::compile::named;
use crate::mistake::{Complaint, MistakeKind};
use crate::module::Presence;

pub(super) fn check(
    file: &LintedFile<'_>,
    missing: &[(u32, u32, Vec<u8>)],
    report: &mut LintReport<'_>,
) {
    for directive in &file.uses {
        match &*directive.name {
            "php_flag" | "php_value" => setting(directive, report),
            "sethandler" | "forcetype" => handler_for_all(file, directive, report),
            "addhandler" | "addtype" => handler_by_extension(directive, report),
            _ => {}
        }
    }
    passed_over(file, missing, report);
    not_chosen(missing, report);
}

fn setting(directive: &DirectiveUse<'_>, report: &mut LintReport<'_>) {
    let is_on = ["on", "1", "yes", "true", "stdout"].iter().any(|word| directive.says(1, word));
    let (message, hint) = match directive.word(0) {
        b"display_errors" => (
            "shows everybody what goes wrong in scripts, with paths and sometimes passwords",
            "use `php_flag log_errors on` instead",
        ),
        b"allow_url_include" => ("lets scripts run code from other servers", "leave it off"),
        _ => return,
    };
    if is_on {
        report.say(MistakeKind::Dangerous, directive.item, Complaint::about(0, message).hint(hint));
    }
}

/// Returns whether a handler or a media type makes PHP run the file.
fn is_php(name: &[u8]) -> bool {
    let name = name.to_ascii_lowercase();
    (name.starts_with(b"application/x-httpd-php") && name != b"application/x-httpd-php-source")
        || (name.starts_with(b"php") && name.ends_with(b"-script"))
        || name.starts_with(b"x-httpd-php")
}

fn handler_for_all(
    file: &LintedFile<'_>,
    directive: &DirectiveUse<'_>,
    report: &mut LintReport<'_>,
) {
    if !is_php(directive.word(0)) {
        return;
    }
    let complaint =
        match file.around(directive.scope).find(|scope| scope.name.starts_with("<files")) {
            None if file.is_for_all(directive) => {
                "runs every file of this folder as a script, pictures and uploads too"
            }
            Some(files) if names_upload(files) => "runs files as scripts that people may upload",
            _ => return,
        };
    let complaint = Complaint::about(0, complaint).hint("put it into <FilesMatch \"\\.php$\">");
    report.say(MistakeKind::Dangerous, directive.item, complaint);
}

/// Extensions of files that visitors may often upload.
const UPLOADS: &[&str] = &[
    "jpg", "jpeg", "png", "gif", "webp", "svg", "bmp", "ico", "pdf", "zip", "gz", "txt", "csv",
    "doc", "docx", "mp3", "mp4",
];

fn is_upload(extension: &[u8]) -> bool {
    UPLOADS.iter().any(|upload| extension.eq_ignore_ascii_case(upload.as_bytes()))
}

fn names_upload(files: &LintedScope<'_>) -> bool {
    files
        .words
        .iter()
        .any(|word| word.split(|byte| !byte.is_ascii_alphanumeric()).any(is_upload))
}

fn handler_by_extension(directive: &DirectiveUse<'_>, report: &mut LintReport<'_>) {
    if !is_php(directive.word(0)) {
        return;
    }
    let plain = |word: &Vec<u8>| word.strip_prefix(b".").unwrap_or(word).to_ascii_lowercase();
    if let Some(index) = directive.words.iter().skip(1).position(|word| is_upload(&plain(word))) {
        let message = "runs files as scripts that people may upload";
        let hint = "leave this extension out";
        report.say(
            MistakeKind::Dangerous,
            directive.item,
            Complaint::about(index + 1, message).hint(hint),
        );
    } else if directive.name == "addhandler" {
        let message =
            "runs every file that has the extension anywhere in its name: `picture.php.jpg` too";
        let hint = "use <FilesMatch \"\\.php$\"> with SetHandler";
        report.say(MistakeKind::Dangerous, directive.item, Complaint::about(0, message).hint(hint));
    }
}

/// Sections for modules that the site's configuration has not chosen.
fn not_chosen(missing: &[(u32, u32, Vec<u8>)], report: &mut LintReport<'_>) {
    for (line, column, name) in missing {
        let Some(module) = named(name).filter(|module| module.presence == Presence::Chosen) else {
            continue;
        };
        let name = module.name();
        let message = format!("is skipped: mod_{name} is off, as in Debian's Apache");
        let hint = format!("`modules = [\"{name}\"]` in the site's configuration turns it on");
        let complaint = Complaint::new(message).hint(hint);
        let mistake = report.excerpt.mistake_at(*line, *column, MistakeKind::Ignored, complaint);
        report.remarks.push(mistake);
    }
}

/// Settings for another version of PHP only.
fn passed_over(
    file: &LintedFile<'_>,
    missing: &[(u32, u32, Vec<u8>)],
    report: &mut LintReport<'_>,
) {
    if file
        .uses
        .iter()
        .any(|directive| matches!(&*directive.name, "php_flag" | "php_value"))
    {
        return;
    }
    let is_php = |name: &[u8]| {
        let name = name.strip_prefix(b"mod_").unwrap_or(name);
        match name {
            [b'p', b'h', b'p', b'4'..=b'7', rest @ ..] => rest == b".c" || rest == b"_module",
            _ => false,
        }
    };
    if let Some((line, column, _)) = missing.iter().find(|(_, _, name)| is_php(name)) {
        let message = "is skipped: the module of PHP 8 is called mod_php.c or php_module";
        let complaint =
            Complaint::new(message).hint("settings of PHP in the section have no effect");
        let mistake = report.excerpt.mistake_at(*line, *column, MistakeKind::Ignored, complaint);
        report.remarks.push(mistake);
    }
}
