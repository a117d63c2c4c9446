//! The arguments of `Header` and `RequestHeader`.

use std::sync::Arc;

use super::format;
use super::rule::{HeaderCondition, HeaderRule, RuleAction, RuleValue};
use crate::directive::DirectiveCall;
use crate::expression::Expression;
use crate::language::word as next_word;
use crate::merge::{SharedConfig, edit};
use crate::mistake::Complaint;
use crate::modules::headers;
use crate::pattern::Pattern;

/// `Header [always|onsuccess] action field [value [replacement]] [early|env=…|expr=…]`.
///
/// # Errors
/// The action is not known, or its arguments are wrong.
pub(super) fn header(
    call: &DirectiveCall<'_>,
    shared: &mut SharedConfig<headers::Config>,
) -> Result<(), Complaint> {
    let mut rest = call.raw;
    let mut action = next_word(&mut rest);
    let mut always = false;
    if action.eq_ignore_ascii_case(b"always") || action.eq_ignore_ascii_case(b"onsuccess") {
        always = action.eq_ignore_ascii_case(b"always");
        action = next_word(&mut rest);
    }
    let rule = rule(call, &action, rest, true)?;
    let config = edit(shared);
    if always {
        &mut config.always
    } else {
        &mut config.success
    }
    .push(Arc::new(rule));
    Ok(())
}

/// `RequestHeader action field [value [replacement]] [early|env=…|expr=…]`.
///
/// # Errors
/// The action is not known, or its arguments are wrong.
pub(super) fn request_header(
    call: &DirectiveCall<'_>,
    shared: &mut SharedConfig<headers::Config>,
) -> Result<(), Complaint> {
    let mut rest = call.raw;
    let action = next_word(&mut rest);
    let rule = rule(call, &action, rest, false)?;
    edit(shared).request.push(Arc::new(rule));
    Ok(())
}

/// The arguments after the action.
struct HeaderWords {
    name: Vec<u8>,
    value: Option<Vec<u8>>,
    /// The replacement, for `edit` only.
    replacement: Option<Vec<u8>>,
    /// `early`, `env=…` or `expr=…`.
    clause: Option<Vec<u8>>,
}

fn rule(
    call: &DirectiveCall<'_>,
    action: &[u8],
    rest: &[u8],
    is_response: bool,
) -> Result<HeaderRule, Complaint> {
    let action = action.to_ascii_lowercase();
    let HeaderWords { name, value, replacement, clause } = split(&action, rest)?;
    let needed = || value.as_deref().ok_or_else(|| Complaint::new("this action needs a value"));
    let (action, value) = match &action[..] {
        b"set" => (RuleAction::Set, parse_value(needed()?)?),
        b"setifempty" => (RuleAction::SetIfEmpty, parse_value(needed()?)?),
        b"add" => (RuleAction::Add, parse_value(needed()?)?),
        b"append" => (RuleAction::Append, parse_value(needed()?)?),
        b"merge" => (RuleAction::Merge, parse_value(needed()?)?),
        b"note" if !is_response => {
            return Err(Complaint::new("note is for Header, not for RequestHeader"));
        }
        b"note" => (RuleAction::Note, parse_value(needed()?)?),
        b"unset" => (RuleAction::Unset, RuleValue::Constant(Box::default())),
        b"echo" if is_response => {
            (RuleAction::Echo(pattern(&name)?), RuleValue::Constant(Box::default()))
        }
        b"echo" => return Err(Complaint::new("echo is for Header, not for RequestHeader")),
        b"edit" | b"edit*" => {
            let replacement = replacement
                .ok_or_else(|| Complaint::new("edit needs a match and a replacement"))?;
            let edit = RuleAction::Edit {
                pattern: pattern(needed()?)?,
                every: action.ends_with(b"*"),
            };
            (edit, parse_value(&replacement)?)
        }
        _ => return Err(unknown(&action)),
    };
    let field = name.split(|&byte| byte == b':').next().unwrap_or_default();
    Ok(HeaderRule {
        place: call.kept_place(),
        text: format!("{} {}", call.name, String::from_utf8_lossy(call.raw)).into(),
        action,
        name: field.into(),
        value,
        condition: clause.map_or(Ok(HeaderCondition::Always), |clause| condition(&clause))?,
        is_key: call.scope.context.is_in_key(call.place),
        is_plain: false,
    }
    .classified())
}

/// Assigns the words by the action: only `edit` has a replacement, and `unset` and `echo` have no
/// value.
fn split(action: &[u8], mut rest: &[u8]) -> Result<HeaderWords, Complaint> {
    let mut word = || (!rest.is_empty()).then(|| next_word(&mut rest));
    let name = word().unwrap_or_default();
    let (value, replacement, clause) = match action {
        b"edit" | b"edit*" => (word(), word(), word()),
        b"unset" | b"echo" => (None, None, word()),
        _ => (word(), None, word()),
    };
    match rest {
        [] => Ok(HeaderWords { name, value, replacement, clause }),
        _ => Err(Complaint::new("too many arguments").hint("quote a value that has spaces in it")),
    }
}

fn unknown(action: &[u8]) -> Complaint {
    Complaint::new(format!(
        "`{}` is no action: there are set, setifempty, add, append, merge, unset, echo, note, edit \
         and edit*",
        String::from_utf8_lossy(action)
    ))
}

fn pattern(text: &[u8]) -> Result<Pattern, Complaint> {
    Pattern::new(text, false)
        .map_err(|bad| Complaint::new(format!("bad regular expression: {}", bad.message)))
}

fn parse_value(text: &[u8]) -> Result<RuleValue, Complaint> {
    if let Some(expression) = text.strip_prefix(b"expr=") {
        return Expression::string(expression)
            .map(|expression| RuleValue::Expression(Box::new(expression)))
            .map_err(|bad| Complaint::new(format!("bad expression: {}", bad.message)));
    }
    let mut parts = format::parse(text).map_err(unknown_format)?;
    Ok(match &mut parts[..] {
        [] => RuleValue::Constant(Box::default()),
        [format::FormatPart::Text(text)] => RuleValue::Constant(std::mem::take(text)),
        _ => RuleValue::Parts(parts.into()),
    })
}

fn unknown_format(byte: u8) -> Complaint {
    let what = match byte {
        0 => "a `%` without a specifier behind it".to_owned(),
        byte => format!("unknown specifier `%{}`", char::from(byte)),
    };
    Complaint::new(what).hint("a percent sign is written %%")
}

fn condition(clause: &[u8]) -> Result<HeaderCondition, Complaint> {
    let lower = clause.to_ascii_lowercase();
    if lower == b"early" {
        return Ok(HeaderCondition::Never);
    }
    if lower.starts_with(b"env=") {
        let (name, wanted) = match &clause[4..] {
            [b'!', name @ ..] => (name, false),
            name => (name, true),
        };
        if name.is_empty() {
            return Err(Complaint::new("`env=` needs the name of a variable"));
        }
        return Ok(HeaderCondition::Environment { name: name.into(), wanted });
    }
    if lower.starts_with(b"expr=") {
        return Expression::condition(&clause[5..])
            .map(|expression| HeaderCondition::Expression(Box::new(expression)))
            .map_err(|bad| Complaint::new(format!("bad expression: {}", bad.message)));
    }
    Err(Complaint::new(format!(
        "`{}` is no condition: there are env=NAME, env=!NAME and expr=…",
        String::from_utf8_lossy(clause)
    ))
    .hint("quote a value that has spaces in it"))
}
