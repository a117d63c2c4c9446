//! The module's directives and their arguments.

use std::sync::Arc;

use super::list::{Attribute, AttributeTest, SetEnvIfRule, SetVariable};
use crate::directive::{Apply, Arguments, Directive, DirectiveCall, Overrides, Support};
use crate::expression::Expression;
use crate::language::word;
use crate::merge::{SharedConfig, edit};
use crate::mistake::Complaint;
use crate::modules::setenvif;
use crate::pattern::{BadPattern, Pattern};

/// The module's directives.
pub(crate) const DIRECTIVES: &[Directive<Apply<setenvif::Config>>] = &[
    Directive {
        name: "SetEnvIf",
        module: "mod_setenvif",
        overrides: Overrides::FILE_INFO,
        arguments: Arguments::Raw,
        summary: "Sets variables where an attribute or a field of the request matches a regular \
            expression.",
        support: Support::Differs(NAMES),
        apply: |call, shared| set_env_if(call, shared, false),
    },
    Directive {
        name: "SetEnvIfNoCase",
        module: "mod_setenvif",
        overrides: Overrides::FILE_INFO,
        arguments: Arguments::Raw,
        summary: "The same, letters in either case.",
        support: Support::Differs(NAMES),
        apply: |call, shared| set_env_if(call, shared, true),
    },
    Directive {
        name: "SetEnvIfExpr",
        module: "mod_setenvif",
        overrides: Overrides::FILE_INFO,
        arguments: Arguments::Raw,
        summary: "Sets variables where an expression holds.",
        support: Support::Full,
        apply: set_env_if_expression,
    },
    Directive {
        name: "BrowserMatch",
        module: "mod_setenvif",
        overrides: Overrides::FILE_INFO,
        arguments: Arguments::Raw,
        summary: "Sets variables where the request's User-Agent matches a regular expression.",
        support: Support::Full,
        apply: |call, shared| browser_match(call, shared, false),
    },
    Directive {
        name: "BrowserMatchNoCase",
        module: "mod_setenvif",
        overrides: Overrides::FILE_INFO,
        arguments: Arguments::Raw,
        summary: "The same, letters in either case.",
        support: Support::Full,
        apply: |call, shared| browser_match(call, shared, true),
    },
];

const NAMES: &str = "Remote_Host is the client's address: names are not looked up";

fn set_env_if(
    call: &DirectiveCall<'_>,
    shared: &mut SharedConfig<setenvif::Config>,
    caseless: bool,
) -> Result<(), Complaint> {
    let mut rest = call.raw;
    let name = word(&mut rest);
    if name.is_empty() {
        return Err(Complaint::new(format!("{}: the attribute's name is missing", call.name)));
    }
    rule_of_attribute(call, shared, &name, rest, caseless)
}

fn browser_match(
    call: &DirectiveCall<'_>,
    shared: &mut SharedConfig<setenvif::Config>,
    caseless: bool,
) -> Result<(), Complaint> {
    rule_of_attribute(call, shared, b"User-Agent", call.raw, caseless)
}

fn rule_of_attribute(
    call: &DirectiveCall<'_>,
    shared: &mut SharedConfig<setenvif::Config>,
    name: &[u8],
    mut rest: &[u8],
    caseless: bool,
) -> Result<(), Complaint> {
    let regex = word(&mut rest);
    if regex.is_empty() {
        return Err(Complaint::new(format!("{}: the regular expression is missing", call.name)));
    }
    let compiled = |pattern: Result<Pattern, BadPattern>, regex: &[u8]| {
        let shown = String::from_utf8_lossy(regex);
        let wrong =
            |bad| Complaint::new(format!("{}: regular expression \"{shown}\": {bad}", call.name));
        pattern.map(Arc::new).map_err(wrong)
    };
    let literal = literal(&regex);
    let test = AttributeTest::Attribute {
        attribute: match attribute(name) {
            Some(attribute) => attribute,
            None => Attribute::Fields(compiled(Pattern::new(name, caseless), name)?),
        },
        pattern: match &literal {
            Some(literal) => compiled(Pattern::literal(literal, caseless), &regex)?,
            None => compiled(Pattern::new(&regex, caseless), &regex)?,
        },
        name: name.into(),
        regex: regex.into(),
        literal: literal.is_some(),
    };
    add(call, shared, test, rest)
}

fn set_env_if_expression(
    call: &DirectiveCall<'_>,
    shared: &mut SharedConfig<setenvif::Config>,
) -> Result<(), Complaint> {
    let mut rest = call.raw;
    let text = word(&mut rest);
    if text.is_empty() {
        return Err(Complaint::new(format!("{}: the expression is missing", call.name)));
    }
    let expression = Expression::condition(&text).map_err(|bad| {
        let shown = String::from_utf8_lossy(&text);
        let message = format!(
            "{}: expression \"{shown}\": {} at offset {}",
            call.name, bad.message, bad.offset
        );
        Complaint::new(message)
    })?;
    add(call, shared, AttributeTest::Expression(Arc::new(expression)), rest)
}

/// Adds a rule that sets the variables in the rest of the line.
fn add(
    call: &DirectiveCall<'_>,
    shared: &mut SharedConfig<setenvif::Config>,
    test: AttributeTest,
    mut rest: &[u8],
) -> Result<(), Complaint> {
    let mut rule = SetEnvIfRule {
        place: call.kept_place(),
        test,
        variables: Vec::new(),
    };
    loop {
        let word = word(&mut rest);
        if word.is_empty() {
            break;
        }
        rule.variables.push(variable(&word));
    }
    if rule.variables.is_empty() {
        return Err(Complaint::new(format!("{}: a variable is missing", call.name)));
    }
    let config = edit(shared);
    match config.lists.last_mut() {
        Some(list) => Arc::make_mut(list).push(rule),
        None => {
            config.lists.push(Arc::default());
            Arc::make_mut(&mut config.lists[0]).push(rule);
        }
    }
    Ok(())
}

/// Returns the attribute of that name; `None` where it is a regular expression for names of fields.
fn attribute(name: &[u8]) -> Option<Attribute> {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-' || *byte == b'_';
    Some(match name.to_ascii_lowercase().as_slice() {
        b"remote_addr" | b"remote_host" => Attribute::RemoteAddress,
        b"server_addr" => Attribute::ServerAddress,
        b"request_uri" => Attribute::Uri,
        b"request_method" => Attribute::Method,
        b"request_protocol" => Attribute::Protocol,
        name if name.iter().all(is_plain) => Attribute::Field,
        _ => return None,
    })
}

/// `name`, `name=value` or `!name`. As in Apache, several `=` are one, no value is `1`, and a value
/// that begins with `!` unsets.
fn variable(word: &[u8]) -> SetVariable {
    let (name, value) = match memchr::memchr(b'=', word) {
        Some(at) => {
            let value = &word[at..];
            let begin = value.iter().take_while(|&&byte| byte == b'=').count();
            (&word[..at], &value[begin..])
        }
        None => (word, &b""[..]),
    };
    match (name, value) {
        ([b'!', name @ ..], b"") => SetVariable { name: name.into(), value: None },
        (name, b"") => SetVariable {
            name: name.into(),
            value: Some((*b"1").into()),
        },
        (name, value) => SetVariable {
            name: name.into(),
            value: (value[0] != b'!').then(|| value.into()),
        },
    }
}

/// Returns the text that a regular expression without operators matches; escaped ones are text.
fn literal(regex: &[u8]) -> Option<Vec<u8>> {
    let mut text = Vec::with_capacity(regex.len());
    let mut bytes = regex.iter();
    while let Some(&byte) = bytes.next() {
        match byte {
            b'\\' => match bytes.next() {
                Some(escaped) if OPERATORS.contains(escaped) || *escaped == b'\\' => {
                    text.push(*escaped)
                }
                Some(_) => return None,
                None => {}
            },
            byte if OPERATORS.contains(&byte) => return None,
            byte => text.push(byte),
        }
    }
    Some(text)
}

const OPERATORS: &[u8] = b"^.$|()[]*+?{}";
