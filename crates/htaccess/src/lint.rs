//! Findings of `howdah check` beyond mistakes: directives that change nothing, can never act, or
//! open a security hole.
//!
//! The checks read the directives as they are written, not as they are compiled. A check reports
//! only what holds for every request: one wrong guess costs more trust than ten right ones earn.

mod access;
mod files;
mod php;
mod redirects;
mod regex;
mod rewriting;
#[cfg(test)]
mod tests;
mod values;

use crate::compile::{ConditionAnswers, compile_asking};
use crate::excerpt::Excerpt;
use crate::language::{Item, parse, words};
use crate::mistake::{Complaint, Mistake, MistakeKind};
use crate::scope::CompileContext;

/// Returns all remarks on a file, in the order of its lines: the
/// [remarks](crate::Compiled::remarks) of the compiler, and the findings of this module. `exists`
/// tells whether there is a file at an absolute path.
pub fn check(
    source: &[u8],
    context: &CompileContext,
    exists: &mut dyn FnMut(&[u8]) -> bool,
) -> Vec<Mistake> {
    let mut remarks = compile_asking(source, context, exists).remarks;
    let mut answers = ConditionAnswers::new(context, exists);
    let parsed = parse(source, &mut answers);
    let missing = answers.missing;
    let file = LintedFile::new(&parsed.items, context);
    let mut report = LintReport {
        excerpt: Excerpt::new(source, context),
        remarks: Vec::new(),
    };
    values::check(&file, &mut report);
    rewriting::check(&file, &mut report);
    redirects::check(&file, &mut report);
    regex::check(&file, &mut report);
    access::check(&file, &mut report);
    files::check(&file, exists, &mut report);
    php::check(&file, &missing, &mut report);
    remarks.append(&mut report.remarks);
    remarks.sort_by_key(|remark| (remark.place.line, remark.place.column));
    remarks
}

/// Returns whether a file has directives that deny access.
pub fn protects(
    source: &[u8],
    context: &CompileContext,
    exists: &mut dyn FnMut(&[u8]) -> bool,
) -> bool {
    let mut answers = ConditionAnswers::new(context, exists);
    let parsed = parse(source, &mut answers);
    let file = LintedFile::new(&parsed.items, context);
    file.uses.iter().any(|directive| match &*directive.name {
        "deny" | "authtype" => true,
        "require" => !(directive.says(0, "all") && directive.says(1, "granted")),
        "rewriterule" => rewriting::refuses(directive),
        "redirect" | "redirectmatch" => {
            directive.words.iter().any(|word| word.starts_with(b"4") || word == b"gone")
        }
        _ => false,
    })
}

/// A file of directives, as flat lists.
#[derive(Debug)]
struct LintedFile<'f> {
    uses: Vec<DirectiveUse<'f>>,
    /// The scopes; the first is the file itself.
    scopes: Vec<LintedScope<'f>>,
    context: &'f CompileContext,
}

/// A directive that is in force.
#[derive(Debug)]
struct DirectiveUse<'f> {
    item: &'f Item,
    /// The name in small letters.
    name: String,
    words: Vec<Vec<u8>>,
    /// The index of its scope in [`LintedFile::scopes`].
    scope: usize,
}

/// The file itself or a section.
#[derive(Debug)]
struct LintedScope<'f> {
    item: Option<&'f Item>,
    /// The name in small letters, with `<`.
    name: String,
    words: Vec<Vec<u8>>,
    outer: usize,
}

/// The findings so far.
#[derive(Debug)]
struct LintReport<'s> {
    excerpt: Excerpt<'s>,
    remarks: Vec<Mistake>,
}

impl<'f> LintedFile<'f> {
    fn new(items: &'f [Item], context: &'f CompileContext) -> LintedFile<'f> {
        let top = LintedScope {
            item: None,
            name: String::new(),
            words: Vec::new(),
            outer: 0,
        };
        let mut file = LintedFile {
            uses: Vec::new(),
            scopes: vec![top],
            context,
        };
        file.add(items, 0);
        file
    }

    fn add(&mut self, items: &'f [Item], scope: usize) {
        for item in items {
            let name = item.name.to_ascii_lowercase();
            match &item.items {
                None => {
                    let words = words(&item.raw).into_iter().map(|word| word.text).collect();
                    self.uses.push(DirectiveUse { item, name, words, scope });
                }
                Some(inner) => {
                    let arguments = item.raw.strip_suffix(b">").unwrap_or(&item.raw);
                    let words = words(arguments).into_iter().map(|word| word.text).collect();
                    self.scopes.push(LintedScope {
                        item: Some(item),
                        name,
                        words,
                        outer: scope,
                    });
                    let scope = self.scopes.len() - 1;
                    self.add(inner, scope);
                }
            }
        }
    }

    /// Returns the directives of that name, which is in small letters.
    fn named<'s>(&'s self, name: &'static str) -> impl Iterator<Item = &'s DirectiveUse<'f>> {
        self.uses.iter().filter(move |directive| directive.name == name)
    }

    /// Returns the sections around, innermost first, without the file itself.
    fn around(&self, mut scope: usize) -> impl Iterator<Item = &LintedScope<'f>> {
        std::iter::from_fn(move || {
            let inner = (scope != 0).then(|| &self.scopes[scope]);
            scope = self.scopes[scope].outer;
            inner
        })
    }

    /// Returns whether the directive applies to all files of the folder, and to all requests.
    fn is_for_all(&self, directive: &DirectiveUse<'_>) -> bool {
        self.around(directive.scope).next().is_none()
    }
}

impl DirectiveUse<'_> {
    /// Returns a word, empty where there is none.
    fn word(&self, index: usize) -> &[u8] {
        self.words.get(index).map_or(b"", Vec::as_slice)
    }

    /// Returns whether a word says this, in any case.
    fn says(&self, index: usize, text: &str) -> bool {
        self.word(index).eq_ignore_ascii_case(text.as_bytes())
    }
}

impl LintReport<'_> {
    fn say(&mut self, kind: MistakeKind, item: &Item, complaint: Complaint) {
        let mistake = self.excerpt.mistake(item, kind, complaint);
        self.remarks.push(mistake);
    }
}
