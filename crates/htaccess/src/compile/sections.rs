//! The sections of the language itself: `<Files>`, `<Limit>`, `<If>` and those that are decided
//! while the file is read.

use std::sync::Arc;

use super::compiler::{Compiler, SectionContext};
use crate::directive::Overrides;
use crate::expression::Expression;
use crate::language::{Item, word, words};
use crate::mistake::{Complaint, MistakeKind};
use crate::pattern::Pattern;
use crate::scope;
use crate::settings::{Branch, ConditionalSection, DirectiveSettings, FileNames, FilesSection};

/// A section of the language, for the manual and `<IfSection>`.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    /// With `<`, without `>`.
    pub name: &'static str,
    /// The module of the section.
    pub module: &'static str,
    /// The classes of `AllowOverride` of which one must be allowed.
    pub overrides: Overrides,
    /// The arguments between the name and `>`.
    pub arguments: &'static str,
    /// One sentence for the manual.
    pub summary: &'static str,
}

const fn section(
    name: &'static str,
    overrides: Overrides,
    arguments: &'static str,
    summary: &'static str,
) -> Section {
    Section {
        name,
        module: "core",
        overrides,
        arguments,
        summary,
    }
}

const LIMITING: Overrides = Overrides::LIMIT.or(Overrides::AUTH_CONFIG);

/// Every section of the language. Those of modules are among their directives.
pub const SECTIONS: &[Section] = &[
    section(
        "<Files",
        Overrides::ALL,
        "NAME | ~ REGEX",
        "For files of this name, which may have `*`, `?` and `[…]` in it.",
    ),
    section(
        "<FilesMatch",
        Overrides::ALL,
        "REGEX",
        "For files whose name the regular expression matches.",
    ),
    section("<If", Overrides::ALL, "CONDITION", "For requests for which the condition holds."),
    section(
        "<ElseIf",
        Overrides::ALL,
        "CONDITION",
        "Where no `<If>` or `<ElseIf>` before it has applied and the condition holds.",
    ),
    section("<Else", Overrides::ALL, "", "Where no `<If>` or `<ElseIf>` before it has applied."),
    section(
        "<Limit",
        LIMITING,
        "METHOD…",
        "Access rules inside are for these methods; `GET` means `HEAD` too.",
    ),
    section(
        "<LimitExcept",
        LIMITING,
        "METHOD…",
        "Access rules inside are for all methods but these.",
    ),
    section(
        "<IfModule",
        Overrides::ALL,
        "[!]MODULE",
        "If there is the module, named by its file or its identifier.",
    ),
    section("<IfDefine", Overrides::ALL, "[!]NAME", "If the name is defined."),
    section("<IfFile", Overrides::ALL, "[!]PATH", "If there is such a file."),
    section("<IfDirective", Overrides::ALL, "[!]NAME", "If there is a directive of that name."),
    section("<IfSection", Overrides::ALL, "[!]NAME", "If there is a section of that name."),
    Section {
        module: "mod_version",
        ..section(
            "<IfVersion",
            Overrides::ALL,
            "[[!]OPERATOR] VERSION",
            "If Apache's version, which Howdah follows, is such.",
        )
    },
];

/// Returns the section of that name, in any case. `None`: there is none.
pub(super) fn find(name: &str) -> Option<&'static Section> {
    SECTIONS.iter().find(|section| section.name.eq_ignore_ascii_case(name))
}

/// Returns whether a section of that name exists; the name begins with `<`.
pub(super) fn is_section(name: &str) -> bool {
    find(name).is_some()
}

/// Returns the end of a section's arguments: its last `>`. `None`: there is none.
pub(super) fn ends_at(raw: &[u8]) -> Option<usize> {
    raw.iter().rposition(|&byte| byte == b'>')
}

impl Compiler<'_> {
    /// Compiles a section that is allowed here.
    pub(super) fn section(
        &mut self,
        section: &'static Section,
        item: &Item,
        settings: &mut DirectiveSettings,
        context: &SectionContext<'_>,
    ) {
        let name = section.name;
        if context.scope.is_limited() && !name.starts_with("<Limit") {
            let message = format!("{name}> cannot occur within <Limit> or <LimitExcept> section");
            return self.blame(item, MistakeKind::NotAllowed, Complaint::new(message));
        }
        let Some(end) = ends_at(&item.raw) else {
            let complaint = Complaint::new(format!("{name}> directive missing closing '>'"));
            return self.blame(item, MistakeKind::Syntax, complaint);
        };
        let arguments = &item.raw[..end];
        if arguments.is_empty() != (name == "<Else") {
            let message = match name {
                "<Else" => "<Else> does not take an argument".to_owned(),
                _ => format!("{name}> directive requires additional arguments"),
            };
            return self.blame(item, MistakeKind::Argument, Complaint::new(message));
        }
        match name {
            "<Files" | "<FilesMatch" => self.files(section, item, arguments, settings, context),
            "<Limit" | "<LimitExcept" => self.limit(section, item, arguments, settings, context),
            _ => self.condition(section, item, arguments, settings, context),
        }
    }

    fn limit(
        &mut self,
        section: &'static Section,
        item: &Item,
        list: &[u8],
        settings: &mut DirectiveSettings,
        context: &SectionContext<'_>,
    ) {
        match scope::limit(section.name, list, context.scope.methods.as_ref()) {
            Ok(methods) => {
                let mut inside = context.inside(section.name);
                inside.scope.methods = Some(methods);
                self.walk(item.items.as_deref().unwrap_or_default(), settings, &inside);
            }
            Err(complaint) => self.blame(item, MistakeKind::Argument, complaint),
        }
    }

    fn files(
        &mut self,
        section: &'static Section,
        item: &Item,
        arguments: &[u8],
        settings: &mut DirectiveSettings,
        context: &SectionContext<'_>,
    ) {
        let mut rest = arguments;
        let first = word(&mut rest);
        let mut named = first;
        let names = if section.name == "<FilesMatch" {
            regex(&named)
        } else if named == b"~" {
            named = word(&mut rest);
            regex(&named)
        } else {
            Ok(names(&named))
        };
        let mut inner = DirectiveSettings::default();
        let mut inside = context.inside(section.name);
        inside.scope.in_files = true;
        inside.scope.folder = folder(&named);
        self.walk(item.items.as_deref().unwrap_or_default(), &mut inner, &inside);
        if let Err(complaint) = names.as_ref() {
            return self.blame(item, MistakeKind::Argument, complaint.clone());
        }
        if !rest.is_empty() {
            let message = format!("Multiple {}> arguments not (yet) supported.", section.name);
            return self.blame(item, MistakeKind::Argument, surplus(arguments, rest, message));
        }
        if let Ok(names) = names {
            let (place, text) = (Arc::new(self.place(item)), shown(section, arguments));
            settings
                .files
                .push(Arc::new(FilesSection { place, text, names, settings: inner }));
        }
    }

    fn condition(
        &mut self,
        section: &'static Section,
        item: &Item,
        arguments: &[u8],
        settings: &mut DirectiveSettings,
        context: &SectionContext<'_>,
    ) {
        let mut rest = arguments;
        let text = word(&mut rest);
        let condition = match section.name {
            "<Else" => Ok(None),
            _ => Expression::condition(&text).map(|condition| Some(Arc::new(condition))),
        };
        let mut inner = DirectiveSettings::default();
        let mut inside = context.inside(section.name);
        inside.scope.in_condition = true;
        inside.scope.folder = folder(b"*If");
        self.walk(item.items.as_deref().unwrap_or_default(), &mut inner, &inside);
        let condition = match condition {
            Ok(condition) => condition,
            Err(bad) => {
                let complaint =
                    Complaint::about(0, format!("Cannot parse condition clause: {}", bad.message));
                let hint = "the whole condition is one argument: put it in quotes";
                let complaint = if rest.is_empty() {
                    complaint
                } else {
                    complaint.hint(hint)
                };
                return self.blame(item, MistakeKind::Argument, complaint);
            }
        };
        if !rest.is_empty() {
            let message = format!("Multiple {}> arguments not supported.", section.name);
            let hint = "the whole condition is one argument: put it in quotes";
            return self.blame(
                item,
                MistakeKind::Argument,
                surplus(arguments, rest, message).hint(hint),
            );
        }
        let branch = Branch {
            place: Arc::new(self.place(item)),
            text: shown(section, arguments),
            condition,
            settings: inner,
        };
        match section.name {
            "<If" => settings
                .conditions
                .push(Arc::new(ConditionalSection { branches: vec![branch] })),
            _ => self.add_branch(branch, item, settings),
        }
    }

    /// Adds an `<ElseIf>` or `<Else>` to the section before it.
    fn add_branch(&mut self, branch: Branch, item: &Item, settings: &mut DirectiveSettings) {
        let goes_on = |chain: &&mut Arc<ConditionalSection>| {
            chain.branches.last().is_some_and(|last| last.condition.is_some())
        };
        match settings.conditions.last_mut().filter(goes_on) {
            Some(chain) => Arc::make_mut(chain).branches.push(branch),
            None => {
                let message = "<Else> or <ElseIf> section without previous <If> or <ElseIf> \
                    section in same scope";
                self.blame(item, MistakeKind::Syntax, Complaint::new(message));
            }
        }
    }
}

fn shown(section: &Section, arguments: &[u8]) -> Box<str> {
    let space = if arguments.is_empty() { "" } else { " " };
    format!("{}{space}{}>", section.name, String::from_utf8_lossy(arguments)).into()
}

/// Returns a complaint about the first word of `rest`, with which `arguments` ends.
fn surplus(arguments: &[u8], rest: &[u8], message: String) -> Complaint {
    let start = arguments.len() - rest.len();
    let index = words(arguments).iter().position(|word| word.start >= start);
    Complaint {
        argument: index,
        ..Complaint::new(message)
    }
}

/// Returns the folder that Apache assumes for the directives of a section.
fn folder(path: &[u8]) -> Arc<[u8]> {
    let slash: &[u8] = if path.ends_with(b"/") { b"" } else { b"/" };
    [path, slash].concat().into()
}

fn regex(text: &[u8]) -> Result<FileNames, Complaint> {
    match Pattern::new(text, false) {
        Ok(pattern) => Ok(FileNames::Regex(Arc::new(pattern))),
        Err(bad) => Err(Complaint::about(0, "Regex could not be compiled").hint(bad.message)),
    }
}

/// Returns the name of a file, or a pattern of names. Apache normalises a path first, although it
/// compares the name only.
fn names(path: &[u8]) -> FileNames {
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in path.split(|&byte| byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." if parts.last().is_some_and(|last| *last != b"..") => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    let mut name = parts.join(&b'/');
    if path.starts_with(b"/") {
        name.insert(0, b'/');
    }
    if path.ends_with(b"/") && !parts.is_empty() {
        name.push(b'/');
    }
    match is_wildcard(&name) {
        true => FileNames::Wildcard(name.into()),
        false => FileNames::Exact(name.into()),
    }
}

/// Returns whether a name is a pattern of the shell's (`apr_fnmatch_test`).
fn is_wildcard(name: &[u8]) -> bool {
    let mut open = false;
    let mut bytes = name.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'*' | b'?' => return true,
            b'\\' => {
                bytes.next();
            }
            b'[' => open = true,
            b']' if open => return true,
            _ => {}
        }
    }
    false
}
