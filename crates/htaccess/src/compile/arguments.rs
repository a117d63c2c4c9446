//! Splitting of a directive's arguments into words, counted as Apache counts them (`invoke_cmd`).

use crate::directive::Arguments;
use crate::language::{word, words};
use crate::mistake::Complaint;
use crate::registry::Registered;

/// The words that Apache reads of a directive with any number of them; it ignores the rest.
const MOST_WORDS: usize = 64;

/// Splits `raw` into words; `None` where the directive has nothing to do.
///
/// # Errors
/// The directive has too few or too many words, or its flag is neither On nor Off.
pub(super) fn split(directive: &Registered, raw: &[u8]) -> Result<Option<Vec<Vec<u8>>>, Complaint> {
    match directive.arguments {
        Arguments::Raw => Ok(Some(Vec::new())),
        Arguments::Section => section(directive, raw).map(|()| Some(Vec::new())),
        Arguments::Flag => {
            let first = word(&mut &raw[..]);
            match first.eq_ignore_ascii_case(b"on") || first.eq_ignore_ascii_case(b"off") {
                true => Ok(Some(vec![first])),
                false => Err(complaint(directive, 0, "must be On or Off")),
            }
        }
        Arguments::Words(0, u8::MAX) => Ok(Some(any_number(raw))),
        Arguments::Words(least, u8::MAX) => each(directive, least.into(), raw),
        Arguments::Words(least, most) => some(directive, least.into(), most.into(), raw).map(Some),
    }
}

/// TAKE_ARGV: all words, empty ones as well, except one at the end.
fn any_number(raw: &[u8]) -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> =
        words(raw).into_iter().map(|word| word.text).take(MOST_WORDS).collect();
    if all.last().is_some_and(Vec::is_empty) && all.len() < MOST_WORDS {
        all.pop();
    }
    all
}

/// ITERATE and ITERATE2: up to the first empty word.
fn each(
    directive: &Registered,
    least: usize,
    raw: &[u8],
) -> Result<Option<Vec<Vec<u8>>>, Complaint> {
    let found = words(raw);
    let has_first = found.first().is_some_and(|first| !first.text.is_empty());
    if !has_first || found.len() < least {
        let number = if least == 1 { "one argument" } else { "two arguments" };
        return Err(complaint(directive, 0, &format!("requires at least {number}")));
    }
    let all: Vec<Vec<u8>> = found
        .into_iter()
        .map(|word| word.text)
        .take_while(|word| !word.is_empty())
        .collect();
    Ok((all.len() >= least).then_some(all))
}

/// TAKE1, TAKE2, TAKE12 and so on.
fn some(
    directive: &Registered,
    least: usize,
    most: usize,
    raw: &[u8],
) -> Result<Vec<Vec<u8>>, Complaint> {
    let found = words(raw);
    let missing = (0..least).any(|index| found.get(index).is_none_or(|word| word.text.is_empty()));
    if missing || found.len() > most {
        let blamed = if found.len() > most { most } else { 0 };
        return Err(complaint(directive, blamed, &expected(least, most)));
    }
    let mut all: Vec<Vec<u8>> = found.into_iter().map(|word| word.text).collect();
    if (least, most) == (1, 2) && all.last().is_some_and(Vec::is_empty) {
        all.pop();
    }
    Ok(all)
}

/// `<RequireAll>` and its like.
fn section(directive: &Registered, raw: &[u8]) -> Result<(), Complaint> {
    match raw.iter().rposition(|&byte| byte == b'>') {
        None => Err(Complaint::new(format!("{}> directive missing closing '>'", directive.name))),
        Some(0) => Ok(()),
        Some(_) => Err(complaint(directive, 0, "> directive doesn't take additional arguments")),
    }
}

fn expected(least: usize, most: usize) -> String {
    match (least, most) {
        (1, 1) => "takes one argument".to_owned(),
        (2, 2) => "takes two arguments".to_owned(),
        (3, 3) => "takes three arguments".to_owned(),
        (1, 2) => "takes 1-2 arguments".to_owned(),
        (2, 3) => "takes two or three arguments".to_owned(),
        (1, 3) => "takes one, two or three arguments".to_owned(),
        (least, most) => format!("takes {least} to {most} arguments"),
    }
}

fn complaint(directive: &Registered, argument: usize, what: &str) -> Complaint {
    let space = if what.starts_with('>') { "" } else { " " };
    Complaint::about(argument, format!("{}{space}{what}", directive.name))
}
