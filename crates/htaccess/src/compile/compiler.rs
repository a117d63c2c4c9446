//! The compiler: items become settings or remarks.

use std::sync::Arc;

use super::{MOST_REMARKS, SECTIONS, arguments, sections, unsupported};
use crate::directive::{Arguments, DirectiveCall, Overrides, SectionEdge, Support};
use crate::excerpt::Excerpt;
use crate::language::{Item, Parsed};
use crate::mistake::{Complaint, DirectivePlace, Mistake, MistakeKind, Severity};
use crate::near::nearest;
use crate::registry::{self, Registered};
use crate::scope::{CompileContext, Scope};
use crate::settings::DirectiveSettings;

pub(super) struct Compiler<'c> {
    excerpt: Excerpt<'c>,
    context: &'c CompileContext,
    mistake: Option<Box<Mistake>>,
    remarks: Vec<Mistake>,
    /// Bytes of the directives so far, with repetitions written out.
    written_out: usize,
}

/// The sections around the item at hand.
#[derive(Clone, Debug)]
pub(super) struct SectionContext<'c> {
    /// The scope that directives see.
    pub(super) scope: Scope<'c>,
    /// The classes that are allowed.
    overrides: Overrides,
    /// The section, with `<`, without `>`.
    section: Option<&'c str>,
}

impl<'c> SectionContext<'c> {
    pub(super) fn inside(&self, section: &'c str) -> SectionContext<'c> {
        SectionContext { section: Some(section), ..self.clone() }
    }
}

impl<'c> Compiler<'c> {
    pub(super) fn new(source: &'c [u8], context: &'c CompileContext) -> Compiler<'c> {
        let excerpt = Excerpt::new(source, context);
        Compiler {
            excerpt,
            context,
            mistake: None,
            remarks: Vec::new(),
            written_out: 0,
        }
    }

    /// Apache reads the whole file before it looks at the first directive, so mistakes of the
    /// language come first.
    pub(super) fn run(&mut self, parsed: &Parsed) -> DirectiveSettings {
        for fault in &parsed.faults {
            let hint = fault.hint.map(str::to_owned);
            self.remark(fault.line, fault.column, MistakeKind::Syntax, fault.message.clone(), hint);
        }
        for doubt in &parsed.doubts {
            let hint = doubt.hint.map(str::to_owned);
            self.remark(
                doubt.line,
                doubt.column,
                MistakeKind::Doubtful,
                doubt.message.clone(),
                hint,
            );
        }
        let mut settings = DirectiveSettings::default();
        let context = SectionContext {
            scope: Scope::new(self.context),
            overrides: self.context.overrides,
            section: None,
        };
        self.walk(&parsed.items, &mut settings, &context);
        settings
    }

    pub(super) fn finish(mut self) -> (Option<Box<Mistake>>, Vec<Mistake>) {
        self.remarks.sort_by_key(|remark| (remark.place.line, remark.place.column));
        (self.mistake, self.remarks)
    }

    pub(super) fn walk(
        &mut self,
        items: &[Item],
        settings: &mut DirectiveSettings,
        context: &SectionContext<'_>,
    ) {
        for item in items {
            self.item(item, settings, context);
        }
    }

    fn item(
        &mut self,
        item: &Item,
        settings: &mut DirectiveSettings,
        context: &SectionContext<'_>,
    ) {
        self.written_out += written_out(&item.raw);
        if self.written_out > MOST_WRITTEN_OUT {
            let message =
                "the file's expressions are too large, with their repetitions written out";
            return self.blame(item, MistakeKind::Argument, Complaint::new(message));
        }
        if let Some(directive) = registry::find(&item.name) {
            if self.is_allowed(item, directive.name, directive.overrides, context) {
                self.directive(directive, item, settings, context);
            }
        } else if let Some(section) = sections::find(&item.name) {
            if self.is_allowed(item, section.name, section.overrides, context) {
                self.section(section, item, settings, context);
            }
        } else if let Some(name) = unsupported::server_directive(&item.name) {
            // No class of AllowOverride lets these in.
            self.is_allowed(item, name, Overrides::NONE, context);
        } else {
            self.unknown(item);
        }
    }

    fn is_allowed(
        &mut self,
        item: &Item,
        name: &str,
        overrides: Overrides,
        context: &SectionContext<'_>,
    ) -> bool {
        let listed = || {
            self.context
                .override_list
                .iter()
                .any(|allowed| allowed.eq_ignore_ascii_case(name))
        };
        if context.overrides.meets(overrides) || (overrides != Overrides::NONE && listed()) {
            return true;
        }
        let hint = match overrides {
            Overrides::NONE => of_server(name),
            _ if context.scope.in_requirement => "only access rules are allowed here".to_owned(),
            _ => format!("add {overrides} to the site's `allow_override`"),
        };
        if self.context.nonfatal_override {
            let message = format!("{name} in .htaccess forbidden by AllowOverride");
            self.remark(item.line, item.column, MistakeKind::Ignored, message, Some(hint));
            return false;
        }
        let message = match context.section {
            Some(section) => format!("{name} not allowed in {section}> context"),
            None => format!("{name} not allowed here"),
        };
        self.blame(item, MistakeKind::NotAllowed, Complaint::new(message).hint(hint));
        false
    }

    fn unknown(&mut self, item: &Item) {
        let name = &item.name;
        let hint = if let Some(rest) = name.strip_prefix('\u{feff}') {
            format!(
                "the file begins with a byte-order mark, which Apache reads as a part of `{rest}`: \
                 save the file without it"
            )
        } else if self.remarks.len() >= MOST_REMARKS {
            String::new()
        } else if unsupported::key_of(name).is_some() {
            of_server(name)
        } else if let Some(near) = nearest(name, known_names()) {
            format!("did you mean `{near}`?")
        } else if let Some(module) = unsupported::module_of(name) {
            format!(
                "there is no such module; within <IfModule {module}> the directive would be skipped"
            )
        } else {
            String::new()
        };
        let hint = (!hint.is_empty()).then_some(hint);
        if self.context.nonfatal_unknown {
            let message = format!(
                "Unknown directive {} perhaps misspelled or defined by a module not included in \
                 the server configuration",
                name.to_ascii_lowercase()
            );
            return self.remark(item.line, item.column, MistakeKind::Ignored, message, hint);
        }
        let message = format!(
            "Invalid command '{name}', perhaps misspelled or defined by a module not included in \
             the server configuration"
        );
        self.blame(item, MistakeKind::Unknown, Complaint { hint, ..Complaint::new(message) });
    }

    fn directive(
        &mut self,
        directive: &'static Registered,
        item: &Item,
        settings: &mut DirectiveSettings,
        context: &SectionContext<'_>,
    ) {
        let words = match arguments::split(directive, &item.raw) {
            Ok(Some(words)) => words,
            Ok(None) => return,
            Err(complaint) => return self.blame(item, MistakeKind::Argument, complaint),
        };
        match directive.support {
            Support::Ignored(reason) => {
                let message = format!("{} has no effect: {reason}", directive.name);
                self.remark(item.line, item.column, MistakeKind::Ignored, message, None);
            }
            Support::Refused(reason) => {
                let message = format!("{} cannot be honoured: {reason}", directive.name);
                let complaint = Complaint::new(message).refused();
                return self.complain(item, settings, complaint);
            }
            Support::Full | Support::Differs(_) => {}
        }
        settings.weight += 1 + item.raw.len() as u64 / 32;
        let place = self.place(item);
        let mut call = DirectiveCall {
            name: &item.name,
            raw: &item.raw,
            words: &words,
            place: &place,
            scope: &context.scope,
            edge: if directive.arguments == Arguments::Section {
                SectionEdge::Open
            } else {
                SectionEdge::None
            },
        };
        if let Err(complaint) = (directive.apply)(&call, settings) {
            self.complain(item, settings, complaint);
        }
        if directive.arguments == Arguments::Section {
            let mut inside = context.inside(directive.name);
            inside.scope.in_requirement = true;
            inside.overrides = Overrides::AUTH_CONFIG;
            self.walk(item.items.as_deref().unwrap_or_default(), settings, &inside);
            call.edge = SectionEdge::Close;
            if let Err(complaint) = (directive.apply)(&call, settings) {
                self.complain(item, settings, complaint);
            }
        }
    }

    /// Records a directive's error in its arguments.
    fn complain(&mut self, item: &Item, settings: &mut DirectiveSettings, complaint: Complaint) {
        if !complaint.refused {
            return self.blame(item, MistakeKind::Argument, complaint);
        }
        let mistake = self.excerpt.mistake(item, MistakeKind::Refused, complaint);
        settings.refused.get_or_insert_with(|| Arc::new(mistake.clone()));
        self.keep(mistake);
    }

    /// Records a mistake for which Apache answers 500.
    pub(super) fn blame(&mut self, item: &Item, kind: MistakeKind, complaint: Complaint) {
        let mistake = self.excerpt.mistake(item, kind, complaint);
        self.keep(mistake);
    }

    pub(super) fn place(&self, item: &Item) -> DirectivePlace {
        self.excerpt.place(item)
    }

    fn remark(
        &mut self,
        line: u32,
        column: u32,
        kind: MistakeKind,
        message: String,
        hint: Option<String>,
    ) {
        let complaint = Complaint { hint, ..Complaint::new(message) };
        let mistake = self.excerpt.mistake_at(line, column, kind, complaint);
        self.keep(mistake);
    }

    fn keep(&mut self, mistake: Mistake) {
        let is_fatal =
            mistake.kind.severity() == Severity::Error && mistake.kind != MistakeKind::Refused;
        if is_fatal && self.mistake.is_none() {
            self.mistake = Some(Box::new(mistake.clone()));
        }
        if self.remarks.len() < MOST_REMARKS {
            self.remarks.push(mistake);
        }
    }
}

/// Returns the bytes of a line with its repetitions (`{3,50}`) written out, as PCRE2 does when it
/// compiles an expression: no more than PCRE2's own limit for one of them.
fn written_out(line: &[u8]) -> usize {
    let most = line.len().max(LARGEST_EXPRESSION);
    let mut size = line.len();
    let braces = line.split(|byte| *byte == b'{').skip(1);
    for brace in braces {
        let counts = brace.split(|byte| *byte == b'}').next().unwrap_or_default();
        let last = counts.rsplit(|byte| *byte == b',').find(|count| !count.is_empty());
        let count = last.and_then(|last| std::str::from_utf8(last).ok()?.parse::<usize>().ok());
        size = size.saturating_mul(count.unwrap_or(1).max(1)).min(most);
    }
    size
}

/// Bytes of a compiled expression at most (PCRE2's link size of 2).
const LARGEST_EXPRESSION: usize = 64 << 10;

/// Bytes of all directives of a file, with their repetitions written out; a larger file is a
/// mistake. It bounds the time that compiling takes to about a second.
const MOST_WRITTEN_OUT: usize = 32 << 20;

/// Returns the hint that a directive of this name belongs in the server's configuration.
fn of_server(name: &str) -> String {
    let hint = "it belongs in the server's configuration";
    match unsupported::key_of(name) {
        Some(key) => format!("{hint}: in howdah.toml, {key}"),
        None => hint.to_owned(),
    }
}

fn known_names() -> impl Iterator<Item = &'static str> {
    registry::all()
        .iter()
        .map(|directive| directive.name)
        .chain(SECTIONS.iter().map(|section| section.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::compile;

    #[test]
    fn repetitions_are_written_out() {
        let rows = [
            ("^a$ /b", 6),
            ("%{REQUEST_URI} x", 16),
            ("a{3}", 12),
            ("a{2,3}", 18),
            ("a{4,}", 20),
            ("(a{10}){10}", 1100),
            ("(((a{255}){255}){255})", LARGEST_EXPRESSION),
        ];
        for (line, expected) in rows {
            assert_eq!(written_out(line.as_bytes()), expected, "{line}");
        }
    }

    #[test]
    fn what_takes_too_long_to_compile_is_a_mistake() {
        let line = "RedirectMatch ((a{0,200}){0,200}){0,3} /x\n";
        let text = line.repeat(MOST_WRITTEN_OUT / LARGEST_EXPRESSION + 2);
        let compiled = compile(text.as_bytes(), &CompileContext::default());
        assert!(compiled.mistake.is_some());
        assert!(compiled.remarks.iter().any(|remark| remark.message.contains("written out")));
    }
}
