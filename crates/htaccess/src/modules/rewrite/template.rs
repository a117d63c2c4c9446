//! Strings with `%{variable}`, `$1`, `%1` and `${map:key|default}` in them: test strings,
//! substitutions, the values of flags.

use std::borrow::Cow;

use super::expansion::{Expansion, RewriteError};
use super::variables::RewriteVariable;
use crate::escape;
use crate::evaluation_context::EvaluationContext;
use crate::metered_text::{LONGEST_VALUE, MeteredText, TextError};
use crate::work;

/// A string to be expanded, in its parts.
#[derive(Debug)]
pub(super) struct Template {
    parts: Box<[TemplatePart]>,
    looks_ahead: bool,
}

#[derive(Debug)]
enum TemplatePart {
    /// Text; `question` tells of a `?` in it that was not escaped.
    Literal { text: Vec<u8>, question: bool },
    /// `%{…}`.
    Variable(RewriteVariable),
    /// `$0` to `$9`: a capture of the rule's pattern.
    OfRule(usize),
    /// `%0` to `%9`: a capture of the last condition.
    OfCondition(usize),
    /// The default of a map. No map is ever defined: RewriteMap is not allowed in `.htaccess`.
    Map(Template),
}

/// The escaping of captures by `B`, `BNE`, `BNP` and `BCTLS`.
#[derive(Debug, Default)]
pub(super) struct Escape {
    /// `B=`: these bytes only.
    pub only: Option<Box<[u8]>>,
    /// `BNE=`: never these.
    pub never: Box<[u8]>,
    /// `BNP`: a space is not `+`.
    pub no_plus: bool,
    /// `BCTLS`: control bytes and the space only, besides those of `B=`.
    pub controls: bool,
}

/// The depth to which maps and look-aheads may be nested. A deeper one is a mistake.
const DEEPEST: usize = 16;

impl Template {
    /// Splits a string into its parts.
    ///
    /// # Errors
    /// The complaint about the template, as Apache words it.
    pub fn new(text: &[u8]) -> Result<Template, String> {
        Template::nested(text, DEEPEST)
    }

    fn nested(text: &[u8], depth: usize) -> Result<Template, String> {
        let mut parts = Vec::new();
        let mut rest = text;
        let braces = Braces::of(text);
        while let Some(at) = memchr::memchr3(b'\\', b'$', b'%', rest) {
            literal(&mut parts, &rest[..at], true);
            rest = special(&mut parts, &rest[at..], &braces, depth)?;
        }
        literal(&mut parts, rest, true);
        let mut template = Template { parts: parts.into(), looks_ahead: true };
        template.looks_ahead = template.looks_ahead(false) || template.looks_ahead(true);
        Ok(template)
    }

    /// Returns whether the string needs captures of the rule's pattern.
    pub fn refers_to_rule(&self) -> bool {
        self.parts.iter().any(|part| match part {
            TemplatePart::OfRule(_) => true,
            TemplatePart::Map(default) => default.refers_to_rule(),
            _ => false,
        })
    }

    /// Returns whether the string needs captures of a condition.
    pub fn refers_to_condition(&self) -> bool {
        self.parts.iter().any(|part| match part {
            TemplatePart::OfCondition(_) => true,
            TemplatePart::Map(default) => default.refers_to_condition(),
            _ => false,
        })
    }

    /// Returns the request fields that it names, for Vary.
    pub fn field_names(&self) -> Vec<&[u8]> {
        let names = self.parts.iter().map(|part| match part {
            TemplatePart::Variable(variable) => variable.field_name().into_iter().collect(),
            TemplatePart::Map(default) => default.field_names(),
            _ => Vec::new(),
        });
        names.flatten().collect()
    }

    /// Returns whether the string needs a sub-request, for the file or else for the URL.
    #[inline]
    pub fn looks_ahead(&self, of_file: bool) -> bool {
        self.looks_ahead && self.any_looks_ahead(of_file)
    }

    fn any_looks_ahead(&self, of_file: bool) -> bool {
        self.parts.iter().any(|part| match part {
            TemplatePart::Variable(variable) => variable.looks_ahead(of_file),
            TemplatePart::Map(default) => default.looks_ahead(of_file),
            _ => false,
        })
    }

    /// Expands the string. A string of one literal or one variable is not copied.
    ///
    /// # Errors
    /// Where the result exceeds 64 KiB.
    pub fn expand<'s>(
        &'s self,
        expansion: &Expansion<'s, '_>,
        context: &mut dyn EvaluationContext,
    ) -> Result<Cow<'s, [u8]>, RewriteError> {
        match &*self.parts {
            [] => Ok(Cow::Borrowed(b"")),
            [TemplatePart::Literal { text, .. }] => Ok(Cow::Borrowed(text)),
            [TemplatePart::Variable(variable)] => Ok(variable.value(expansion, context)),
            [TemplatePart::OfCondition(group)] => {
                Ok(Cow::Borrowed(expansion.condition.group(*group)))
            }
            [TemplatePart::OfRule(group)] => Ok(Cow::Borrowed(expansion.rule.group(*group))),
            _ => self.expand_escaped(expansion, context, None).map(Cow::Owned),
        }
    }

    /// Expands the string, with captures escaped as the rule's flags demand.
    ///
    /// # Errors
    /// Where the result exceeds 64 KiB.
    pub fn expand_escaped(
        &self,
        expansion: &Expansion<'_, '_>,
        context: &mut dyn EvaluationContext,
        escape: Option<&Escape>,
    ) -> Result<Vec<u8>, RewriteError> {
        self.substitute(expansion, context, escape, false).map(|(text, _)| text)
    }

    /// Expands a substitution. Returns the string, and whether the `?` that begins its query came
    /// from outside, decoded from `%3f`. `last`: the last `?` begins the query, and not the first.
    ///
    /// # Errors
    /// Where the result exceeds 64 KiB.
    pub fn substitute(
        &self,
        expansion: &Expansion<'_, '_>,
        context: &mut dyn EvaluationContext,
        escape: Option<&Escape>,
        last: bool,
    ) -> Result<(Vec<u8>, bool), RewriteError> {
        let meter = expansion.transaction.client.meter();
        let mut out = MeteredText::new(LONGEST_VALUE, meter);
        let mut unsafe_question = None;
        for part in &self.parts {
            let start = out.bytes().len();
            match part {
                TemplatePart::Literal { text, .. } => out.push(text)?,
                TemplatePart::Variable(variable) => {
                    meter.spend(work::RULE)?;
                    out.push(&variable.value(expansion, context))?;
                }
                TemplatePart::OfRule(group) => {
                    captured(expansion.rule.group(*group), escape, &mut out)?;
                }
                TemplatePart::OfCondition(group) => {
                    captured(expansion.condition.group(*group), escape, &mut out)?;
                }
                TemplatePart::Map(default) => {
                    let (text, _) = default.substitute(expansion, context, escape, last)?;
                    out.push(&text)?;
                }
            }
            let from_outside = match part {
                TemplatePart::Literal { question: true, .. } => Some(false),
                TemplatePart::Literal { .. } => None,
                _ => out.bytes()[start..].contains(&b'?').then_some(true),
            };
            if last || unsafe_question.is_none() {
                unsafe_question = from_outside.or(unsafe_question);
            }
        }
        Ok((out.into_bytes(), unsafe_question == Some(true)))
    }
}

/// Reads a part that begins with a backslash, `$` or `%`. Returns the rest of the text.
fn special<'t>(
    parts: &mut Vec<TemplatePart>,
    text: &'t [u8],
    braces: &Braces,
    depth: usize,
) -> Result<&'t [u8], String> {
    match text {
        [b'\\'] => literal(parts, b"\\", false),
        [b'\\', escaped, rest @ ..] => {
            literal(parts, std::slice::from_ref(escaped), false);
            return Ok(rest);
        }
        [_, b'{', inner @ ..] => return curly(parts, text[0], inner, braces, depth),
        [b'$', digit @ b'0'..=b'9', rest @ ..] => {
            parts.push(TemplatePart::OfRule(usize::from(digit - b'0')));
            return Ok(rest);
        }
        [b'%', digit @ b'0'..=b'9', rest @ ..] => {
            parts.push(TemplatePart::OfCondition(usize::from(digit - b'0')));
            return Ok(rest);
        }
        [alone, ..] => literal(parts, std::slice::from_ref(alone), false),
        [] => {}
    }
    Ok(&text[1..])
}

/// Reads a variable or a map after its opening brace. Without a closing brace, or a map's colon,
/// the two bytes are text.
fn curly<'t>(
    parts: &mut Vec<TemplatePart>,
    sigil: u8,
    inner: &'t [u8],
    braces: &Braces,
    depth: usize,
) -> Result<&'t [u8], String> {
    if let Some(BracePair { end, colon }) = braces.before(inner) {
        let (name, rest) = (&inner[..end], &inner[end + 1..]);
        if sigil == b'%' {
            parts.push(TemplatePart::Variable(RewriteVariable::named(name, depth)));
            return Ok(rest);
        }
        if let Some(colon) = colon {
            let depth = depth.checked_sub(1).ok_or("maps are nested too deep")?;
            let key = &name[colon + 1..];
            let default = at_depth_one(key, b'|').map_or(&b""[..], |bar| &key[bar + 1..]);
            parts.push(TemplatePart::Map(Template::nested(default, depth)?));
            return Ok(rest);
        }
    }
    literal(parts, &[sigil, b'{'], false);
    Ok(inner)
}

/// The braces of a text that have a partner, found in one pass: a text may have thousands of them,
/// each within the others.
struct Braces {
    /// Bytes of the text.
    length: usize,
    /// By the index after the opening brace, in rising order.
    pairs: Vec<(usize, BracePair)>,
}

/// The end of a variable or a map; both indices count from after its opening brace.
#[derive(Clone, Copy)]
struct BracePair {
    /// The closing brace.
    end: usize,
    /// The first colon that is not within further braces.
    colon: Option<usize>,
}

impl Braces {
    fn of(text: &[u8]) -> Braces {
        let mut pairs = Vec::new();
        // Those that are open: the index after each, and its first colon.
        let mut open: Vec<(usize, Option<usize>)> = Vec::new();
        for at in memchr::memchr3_iter(b'{', b'}', b':', text) {
            match text[at] {
                b'{' => open.push((at + 1, None)),
                b'}' => pairs.extend(
                    open.pop().map(|(start, colon)| (start, BracePair { end: at - start, colon })),
                ),
                _ => {
                    if let Some((start, colon)) = open.last_mut() {
                        colon.get_or_insert(at - *start);
                    }
                }
            }
        }
        pairs.sort_unstable_by_key(|(start, _)| *start);
        Braces { length: text.len(), pairs }
    }

    /// Returns the pair whose opening brace is before `rest`, with which the text ends.
    fn before(&self, rest: &[u8]) -> Option<BracePair> {
        let start = self.length - rest.len();
        let found = self.pairs.binary_search_by_key(&start, |(start, _)| *start).ok()?;
        Some(self.pairs[found].1)
    }
}

/// Returns the index of a byte that is not within further braces.
fn at_depth_one(text: &[u8], wanted: u8) -> Option<usize> {
    let mut depth = 1u32;
    for (at, &byte) in text.iter().enumerate() {
        if byte == wanted && depth == 1 {
            return Some(at);
        }
        match byte {
            b'}' if depth == 1 => return None,
            b'}' => depth -= 1,
            b'{' => depth += 1,
            _ => {}
        }
    }
    None
}

fn literal(parts: &mut Vec<TemplatePart>, text: &[u8], plain: bool) {
    if text.is_empty() {
        return;
    }
    let has_question = plain && text.contains(&b'?');
    match parts.last_mut() {
        Some(TemplatePart::Literal { text: before, question }) => {
            before.extend_from_slice(text);
            *question |= has_question;
        }
        _ => parts.push(TemplatePart::Literal {
            text: text.into(),
            question: has_question,
        }),
    }
}

/// Appends a capture, escaped as the rule's flags demand.
fn captured(
    group: &[u8],
    escape: Option<&Escape>,
    out: &mut MeteredText<'_>,
) -> Result<(), TextError> {
    match escape {
        None => out.push(group),
        Some(escape) => out.push_with(group, |group, out| escape.push(group, out)),
    }
}

impl Escape {
    fn push(&self, group: &[u8], out: &mut Vec<u8>) {
        group.iter().for_each(|&byte| self.push_byte(byte, out));
    }

    fn push_byte(&self, byte: u8, out: &mut Vec<u8>) {
        let named = self.only.as_ref().map(|only| only.contains(&byte));
        let wanted = if self.controls {
            byte <= b' ' || byte == 0x7f || named == Some(true)
        } else {
            named.unwrap_or(true)
        };
        match byte {
            _ if !wanted || self.never.contains(&byte) => out.push(byte),
            b'_' => out.push(byte),
            byte if byte.is_ascii_alphanumeric() => out.push(byte),
            b' ' if !self.no_plus => out.push(b'+'),
            _ => escape::push_byte(byte, out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_are_found_in_one_pass() {
        let mut state = 1_u32;
        let mut random = |below: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 16) % below
        };
        for _ in 0..5000 {
            let length = random(14);
            let text: Vec<u8> = (0..length).map(|_| b"{{}}:ab"[random(7) as usize]).collect();
            let braces = Braces::of(&text);
            for at in (0..text.len()).filter(|at| text[*at] == b'{') {
                let rest = &text[at + 1..];
                let found = braces.before(rest);
                let end = at_depth_one(rest, b'}');
                assert_eq!(found.map(|pair| pair.end), end, "{}", text.escape_ascii());
                let colon = end.and_then(|end| at_depth_one(&rest[..end], b':'));
                assert_eq!(found.and_then(|pair| pair.colon), colon, "{}", text.escape_ascii());
            }
        }
    }
}
