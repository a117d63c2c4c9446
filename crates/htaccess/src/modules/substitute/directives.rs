//! mod_substitute's directives.

use std::sync::Arc;

use super::{Replacement, SearchTerm, Substitution};
use crate::directive::{
    Apply, Arguments, Directive, DirectiveCall, DirectiveResult, Overrides, Support,
};
use crate::merge::{SharedConfig, edit};
use crate::metered_text::MeteredText;
use crate::mistake::Complaint;
use crate::modules::substitute;
use crate::pattern::{Captures, Pattern, substitute as substitute_captures};
use crate::work::Meter;

/// `Substitute s/find/replacement/flags`, with any delimiter.
fn substitute(
    call: &DirectiveCall<'_>,
    shared: &mut SharedConfig<substitute::Config>,
) -> DirectiveResult {
    let substitution = parse(call.word(0)).map_err(|message| Complaint::about(0, message))?;
    edit(shared).substitutions.push(Arc::new(substitution));
    Ok(())
}

fn parse(text: &[u8]) -> Result<Substitution, String> {
    const INCOMPLETE: &str = "a substitution is written s/find/replacement/flags";
    let [b's' | b'S', delimiter, rest @ ..] = text else {
        return Err(INCOMPLETE.to_owned());
    };
    let mut parts = rest.splitn(3, |byte| byte == delimiter);
    let (find, replacement) = (parts.next().unwrap_or_default(), parts.next());
    let replacement = replacement.filter(|_| !find.is_empty()).ok_or(INCOMPLETE)?;
    let (mut text, mut caseless, mut quick) = (false, false, false);
    for flag in parts.next().unwrap_or_default() {
        match flag.to_ascii_lowercase() {
            b'i' => caseless = true,
            b'n' => text = true,
            b'f' => quick = false,
            b'q' => quick = true,
            _ => {
                return Err(format!("`{}` is no flag: there are i, n, f and q", char::from(*flag)));
            }
        }
    }
    let find = match text {
        true => SearchTerm::Text {
            text: if caseless {
                find.to_ascii_lowercase()
            } else {
                find.to_vec()
            }
            .into(),
            caseless,
        },
        false => SearchTerm::Regex(regex(find, caseless)?),
    };
    Ok(Substitution {
        replacement: replacement_of(&find, replacement),
        find,
        quick,
    })
}

/// The replacement of text is taken literally.
fn replacement_of(find: &SearchTerm, text: &[u8]) -> Replacement {
    let has_groups = text.windows(2).any(|pair| pair[0] == b'$' && pair[1].is_ascii_digit());
    match find {
        SearchTerm::Text { .. } => Replacement::Constant(text.into()),
        SearchTerm::Regex(_) if has_groups => Replacement::Template(text.into()),
        SearchTerm::Regex(_) => {
            let mut plain = MeteredText::new(text.len(), Meter::unlimited());
            substitute_captures(text, &Captures::default(), &mut plain)
                .expect("without captures, a replacement does not become longer");
            Replacement::Constant(plain.into_bytes().into())
        }
    }
}

/// Unlike everywhere else, `.` does not match a line's end.
fn regex(text: &[u8], caseless: bool) -> Result<Pattern, String> {
    Pattern::new(&[b"(?-s)", text].concat(), caseless)
        .map_err(|bad| format!("bad regular expression: {}", bad.message))
}

/// `SubstituteMaxLineLength bytes`, or with b, k, m or g after the number.
fn longest_line(
    call: &DirectiveCall<'_>,
    shared: &mut SharedConfig<substitute::Config>,
) -> DirectiveResult {
    let word = call.word(0);
    let digits = word.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let unit = match word[digits..].to_ascii_lowercase().as_slice() {
        b"" | b"b" => Some(1),
        b"k" => Some(1 << 10),
        b"m" => Some(1 << 20),
        b"g" => Some(1 << 30),
        _ => None,
    };
    let number = match digits {
        0 => (!word.is_empty()).then_some(0),
        digits => std::str::from_utf8(&word[..digits])
            .ok()
            .and_then(|digits| digits.parse::<usize>().ok()),
    };
    let bytes = unit
        .zip(number)
        .and_then(|(unit, number): (usize, usize)| number.checked_mul(unit));
    let bytes = bytes.ok_or_else(|| {
        Complaint::about(0, "this has to be a number of bytes, or with b, k, m or g")
    })?;
    edit(shared).longest_line = Some(bytes);
    Ok(())
}

fn inherit_before(
    call: &DirectiveCall<'_>,
    shared: &mut SharedConfig<substitute::Config>,
) -> DirectiveResult {
    edit(shared).inherit_before = Some(call.flag());
    Ok(())
}

/// The module's directives.
pub(crate) const DIRECTIVES: &[Directive<Apply<substitute::Config>>] = &[
    Directive {
        name: "Substitute",
        module: "mod_substitute",
        overrides: Overrides::FILE_INFO,
        arguments: Arguments::ONE,
        summary: "Replaces text in what passes the filter SUBSTITUTE: s/find/replacement/, with \
            the flags i, n, f and q.",
        support: Support::Differs(
            "an expression that matches nothing at all goes on behind the next byte; Apache ends \
             the response",
        ),
        apply: substitute,
    },
    Directive {
        name: "SubstituteInheritBefore",
        module: "mod_substitute",
        overrides: Overrides::FILE_INFO,
        arguments: Arguments::Flag,
        summary: "Whether substitutions of folders above come before those of this one; they come \
            behind them otherwise.",
        support: Support::Full,
        apply: inherit_before,
    },
    Directive {
        name: "SubstituteMaxLineLength",
        module: "mod_substitute",
        overrides: Overrides::FILE_INFO,
        arguments: Arguments::ONE,
        summary: "The longest line that is worked on, 1m where nothing is said; a longer one ends \
            the response.",
        support: Support::Differs("no line may be longer than 8m"),
        apply: longest_line,
    },
];
