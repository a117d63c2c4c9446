//! Protections with a hole.

use super::{DirectiveUse, LintReport, LintedFile, LintedScope};
use crate::mistake::{Complaint, MistakeKind};

pub(super) fn check(file: &LintedFile<'_>, report: &mut LintReport<'_>) {
    let mut places: Vec<ScopeRules<'_>> =
        file.scopes.iter().map(|_| ScopeRules::default()).collect();
    for directive in &file.uses {
        places[directive.scope].add(directive);
    }
    for (scope, rules) in places.iter().enumerate() {
        mixed(rules, report);
        granted(rules, report);
        satisfied(rules, report);
        limited(&file.scopes[scope], rules, report);
        hidden(file, scope, rules, report);
    }
    nobody_asked(file, report);
    password_file(file, report);
}

/// The access rules of one scope.
#[derive(Default)]
struct ScopeRules<'r> {
    require: Vec<&'r DirectiveUse<'r>>,
    old: Vec<&'r DirectiveUse<'r>>,
    satisfy_any: Option<&'r DirectiveUse<'r>>,
}

impl<'r> ScopeRules<'r> {
    fn add(&mut self, directive: &'r DirectiveUse<'r>) {
        match &*directive.name {
            "require" => self.require.push(directive),
            "order" | "allow" | "deny" => self.old.push(directive),
            "satisfy" if directive.says(0, "any") => self.satisfy_any = Some(directive),
            _ => {}
        }
    }

    fn grants_all(&self) -> Option<&'r DirectiveUse<'r>> {
        self.require
            .iter()
            .copied()
            .find(|require| require.says(0, "all") && require.says(1, "granted"))
    }

    /// `Allow from all` or `Deny from all`.
    fn of_all(&self, name: &str) -> Option<&'r DirectiveUse<'r>> {
        self.old
            .iter()
            .copied()
            .find(|directive| directive.name == name && directive.says(1, "all"))
    }

    /// Returns whether a rule here denies access.
    fn protects(&self) -> bool {
        self.old.iter().any(|directive| directive.name == "deny")
            || self
                .require
                .iter()
                .any(|require| !(require.says(0, "all") && require.says(1, "granted")))
    }
}

fn mixed(rules: &ScopeRules<'_>, report: &mut LintReport<'_>) {
    if let (Some(old), Some(require)) = (rules.old.first(), rules.require.first()) {
        let message = format!(
            "{} and the Require of line {} are both asked, each on its own",
            old.item.name, require.item.line
        );
        let hint = "say it with Require alone";
        report.say(MistakeKind::Doubtful, old.item, Complaint::new(message).hint(hint));
    }
}

fn granted(rules: &ScopeRules<'_>, report: &mut LintReport<'_>) {
    let is_other =
        |require: &&&DirectiveUse<'_>| !require.says(0, "all") && !require.says(0, "not");
    if let (Some(all), Some(other)) = (rules.grants_all(), rules.require.iter().find(is_other))
        && all.scope == 0
    {
        let message = format!(
            "lets everybody in, whatever the Require of line {} says: one of them is enough",
            other.item.line
        );
        report.say(
            MistakeKind::Dangerous,
            all.item,
            Complaint::new(message).hint("put them into <RequireAll>"),
        );
    }
}

fn satisfied(rules: &ScopeRules<'_>, report: &mut LintReport<'_>) {
    let Some(satisfy) = rules.satisfy_any else {
        return;
    };
    let asks = rules.require.iter().any(|require| !require.says(0, "all"));
    let lets_in = rules.of_all("allow").is_some()
        || !rules.old.iter().any(|directive| directive.name == "deny");
    if asks && lets_in {
        let message =
            "no password is ever asked for: hosts are let in, and with Satisfy Any that is enough";
        report.say(
            MistakeKind::Dangerous,
            satisfy.item,
            Complaint::new(message).hint("use `Satisfy All`"),
        );
    }
}

fn limited(scope: &LintedScope<'_>, rules: &ScopeRules<'_>, report: &mut LintReport<'_>) {
    // Without GET the section denies these methods, such as POST or PUT.
    let names_usual = scope.words.iter().any(|method| method == b"GET");
    if let (Some(item), "<limit", true) = (scope.item, &*scope.name, names_usual)
        && rules.protects()
    {
        let message = "protects only against these methods: a request with any other one goes \
            through, also to scripts";
        let hint = "leave the <Limit> out, or use <LimitExcept>";
        report.say(MistakeKind::Dangerous, item, Complaint::new(message).hint(hint));
    }
}

/// `Require all granted` where names begin with `.ht`.
fn hidden(
    file: &LintedFile<'_>,
    scope: usize,
    rules: &ScopeRules<'_>,
    report: &mut LintReport<'_>,
) {
    let section = file.around(scope).find(|section| section.name.starts_with("<files"));
    let is_hidden = |section: &LintedScope<'_>| {
        section.words.iter().any(|word| {
            let word = word.to_ascii_lowercase();
            [&b".ht"[..], br"^\.ht", br"^\.(ht", br"^\.(?:ht", b"^.ht"]
                .iter()
                .any(|begin| word.starts_with(begin))
        })
    };
    let denied = rules.old.iter().any(|directive| directive.name == "deny");
    let opened = rules.grants_all().or_else(|| rules.of_all("allow").filter(|_| !denied));
    if let Some(opened) = opened
        && section.is_some_and(is_hidden)
    {
        let message = "lets everybody read .htaccess and .htpasswd files";
        report.say(
            MistakeKind::Dangerous,
            opened.item,
            Complaint::new(message).hint("use `Require all denied`"),
        );
    }
}

fn nobody_asked(file: &LintedFile<'_>, report: &mut LintReport<'_>) {
    if file.named("require").next().is_some() {
        return;
    }
    if let Some(authentication) = file.named("authtype").find(|authtype| !authtype.says(0, "none"))
    {
        let message = "no password is asked for: this file has no Require";
        let hint = "add `Require valid-user`, unless a folder above has it";
        report.say(MistakeKind::Dangerous, authentication.item, Complaint::new(message).hint(hint));
    }
}

fn password_file(file: &LintedFile<'_>, report: &mut LintReport<'_>) {
    let folder = &file.context.folder;
    for directive in file
        .uses
        .iter()
        .filter(|directive| matches!(&*directive.name, "authuserfile" | "authdigestfile"))
    {
        let path = directive.word(0);
        let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        if !folder.is_empty() && path.starts_with(folder) && !name.starts_with(b".ht") {
            let message =
                "anyone may fetch this file of passwords: it is below the folder that is served";
            let hint = "move it out of the site, or call it .htpasswd";
            report.say(
                MistakeKind::Dangerous,
                directive.item,
                Complaint::about(0, message).hint(hint),
            );
        }
    }
}
