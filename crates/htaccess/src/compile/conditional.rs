//! Sections that are decided while the file is read: `<IfModule>`, `<IfDefine>`, `<IfFile>`,
//! `<IfDirective>`, `<IfSection>` (`start_cond_section`) and `<IfVersion>` (mod_version).

use std::cmp::Ordering;

use super::is_provided;
use super::sections::{self, ends_at, is_section};
use super::unsupported::server_directive;
use crate::language::{Conditions, Item, word, words};
use crate::pattern::Pattern;
use crate::registry;
use crate::scope::CompileContext;
use crate::work::Meter;

/// The version of Apache that `<IfVersion>` compares with: the one whose behaviour is followed.
pub const VERSION: (u32, u32, u32) = (2, 4, 71);

/// Answers to the questions of [`language::parse`](crate::language::parse).
pub(crate) struct ConditionAnswers<'a> {
    context: &'a CompileContext,
    exists: &'a mut dyn FnMut(&[u8]) -> bool,
    pub(super) asked: Vec<(Box<[u8]>, bool)>,
    /// The `<IfModule>`s whose module there is not, with line and column.
    pub(crate) missing: Vec<(u32, u32, Vec<u8>)>,
}

impl<'a> ConditionAnswers<'a> {
    pub(crate) fn new(
        context: &'a CompileContext,
        exists: &'a mut dyn FnMut(&[u8]) -> bool,
    ) -> ConditionAnswers<'a> {
        ConditionAnswers {
            context,
            exists,
            asked: Vec::new(),
            missing: Vec::new(),
        }
    }

    fn file(&mut self, path: &[u8]) -> bool {
        let root = &self.context.root;
        let path: Box<[u8]> = match path.first() {
            Some(b'/') => path.into(),
            // Relative to Apache's ServerRoot, which is nothing that a site knows.
            _ if root.is_empty() => return false,
            _ => [root.strip_suffix(b"/").unwrap_or(root), path].join(&b'/').into(),
        };
        if let Some((_, there)) = self.asked.iter().find(|(known, _)| *known == path) {
            return *there;
        }
        let there = (self.exists)(&path);
        self.asked.push((path, there));
        there
    }

    fn holds(&mut self, section: &str, argument: &[u8]) -> bool {
        let known = |name: &str| {
            registry::find(name).is_some() || is_section(name) || server_directive(name).is_some()
        };
        let defines = &self.context.defines;
        match section {
            "<ifmodule" => is_provided(argument, &self.context.modules),
            "<ifdefine" => defines.iter().any(|name| name.as_bytes() == argument),
            "<iffile" => self.file(argument),
            "<ifdirective" => known(&String::from_utf8_lossy(argument)),
            _ => known(&format!("<{}", String::from_utf8_lossy(argument))),
        }
    }
}

/// Files that the `<IfFile>` sections of one file of directives may ask for. Each is looked at
/// again before the directives are used. A file with more is a mistake.
const MOST_ASKED: usize = 256;

impl Conditions for ConditionAnswers<'_> {
    fn decide(&mut self, section: &Item) -> Option<Result<bool, String>> {
        let name = section.name.to_ascii_lowercase();
        match &*name {
            "<ifmodule" | "<ifdefine" | "<iffile" | "<ifdirective" | "<ifsection" => {}
            "<ifversion" => return Some(version(&section.raw)),
            _ => return None,
        }
        if name == "<iffile" && self.asked.len() >= MOST_ASKED {
            return Some(Err(format!("more than {MOST_ASKED} files are asked for by <IfFile>")));
        }
        let spelled = sections::find(&name).map_or(&*name, |section| section.name);
        let Some(end) = ends_at(&section.raw) else {
            return Some(Err(format!("{spelled}> directive missing closing '>'")));
        };
        let (negated, mut arguments) = match section.raw[..end].strip_prefix(b"!") {
            Some(rest) => (true, rest),
            None => (false, &section.raw[..end]),
        };
        let argument = word(&mut arguments);
        if argument.is_empty() {
            return Some(Err(format!("{spelled}> directive requires additional arguments")));
        }
        let holds = self.holds(&name, &argument);
        if name == "<ifmodule" && !holds && !negated {
            self.missing.push((section.line, section.column, argument));
        }
        Some(Ok(holds != negated))
    }

    fn variable(&mut self, name: &[u8]) -> Option<Vec<u8>> {
        let (_, value) = self.context.variables.iter().find(|(known, _)| **known == *name)?;
        Some(value.to_vec())
    }
}

/// `<IfVersion >= 2.4>`, `<IfVersion 2.4.62>`, `<IfVersion = /^2\.4/>`, `<IfVersion !~ 2\.2>`.
fn version(raw: &[u8]) -> Result<bool, String> {
    let all: Vec<Vec<u8>> = words(raw).into_iter().map(|word| word.text).collect();
    if all.first().is_none_or(Vec::is_empty) || all.len() > 3 {
        return Err(
            "<IfVersion takes one, two or three arguments, a comparison operator, a version \
            (and a delimiter)"
                .to_owned(),
        );
    }
    let (mut operator, mut operand, mut delimiter) =
        (&all[0][..], all.get(1).map(Vec::as_slice), all.get(2).map(Vec::as_slice));
    if operand.is_none() {
        (operator, operand) = (b"=", Some(&all[0][..]));
    }
    if delimiter.is_none() && operand == Some(b">") {
        (delimiter, operand, operator) = (Some(&b">"[..]), Some(operator), b"=");
    }
    let operand = operand.unwrap_or_default();
    let operand = match (delimiter == Some(b">"), operand.strip_suffix(b">")) {
        (true, _) if !operand.is_empty() => operand,
        (false, Some(operand)) => operand,
        _ => return Err("<IfVersion> directive missing closing '>'".to_owned()),
    };
    compared(operator, operand)
}

fn compared(operator: &[u8], operand: &[u8]) -> Result<bool, String> {
    let (negated, plain) = match operator {
        [b'!', rest @ ..] if !rest.is_empty() => (true, rest),
        _ => (operator == b"!", operator),
    };
    let order = || order(operand);
    let holds = match plain {
        b"=" | b"==" => match operand.strip_prefix(b"/") {
            Some(pattern) => match pattern.strip_suffix(b"/") {
                Some(pattern) => matched(pattern)?,
                None => return Err("Missing delimiting / of regular expression.".to_owned()),
            },
            None => order()? == Ordering::Equal,
        },
        b"~" => matched(operand)?,
        b"<" => order()? == Ordering::Less,
        b"<=" => order()? != Ordering::Greater,
        b">" => order()? == Ordering::Greater,
        b">=" => order()? != Ordering::Less,
        _ => {
            return Err(format!("unrecognized operator '{}'", operator.escape_ascii()));
        }
    };
    Ok(holds != negated)
}

/// Compares [`VERSION`] with the written version.
fn order(written: &[u8]) -> Result<Ordering, String> {
    const INVALID: &str = "Version appears to be invalid. It must have the format \
        major[.minor[.patch]] where major, minor and patch are numbers.";
    let mut parts = [0; 3];
    if !written.first().is_some_and(u8::is_ascii_digit) {
        return Err(INVALID.to_owned());
    }
    // Apache forgives a dot at the end of what it has read as the third number, or too few.
    let pieces: Vec<&[u8]> = written.split(|&byte| byte == b'.').collect();
    let pieces = match pieces.as_slice() {
        [a, b, c, b""] => &[*a, *b, *c][..],
        _ => &pieces,
    };
    if pieces.len() > 3 {
        return Err(INVALID.to_owned());
    }
    for (part, piece) in parts.iter_mut().zip(pieces) {
        if !piece.iter().all(u8::is_ascii_digit) {
            return Err(INVALID.to_owned());
        }
        *part = std::str::from_utf8(piece)
            .ok()
            .and_then(|digits| digits.parse::<u32>().ok())
            .unwrap_or(0);
    }
    Ok(<[u32; 3]>::from(VERSION).cmp(&parts))
}

fn matched(pattern: &[u8]) -> Result<bool, String> {
    let (major, minor, patch) = VERSION;
    let version = format!("{major}.{minor}.{patch}");
    let pattern = Pattern::new(pattern, false)
        .map_err(|_| "Unable to compile regular expression".to_owned())?;
    pattern
        .is_match(version.as_bytes(), Meter::unlimited())
        .map_err(|_| "Unable to compile regular expression".to_owned())
}
