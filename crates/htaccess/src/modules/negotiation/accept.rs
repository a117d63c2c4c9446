//! The client's preferences: Accept, Accept-Language, Accept-Charset, Accept-Encoding, Negotiate.

use howdah_http::{Method, members};

use crate::fields::token;
use crate::transaction::Transaction;
use crate::work;

/// One member of an Accept field, or a media type with its parameters.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct AcceptItem {
    /// In lower case.
    pub name: Vec<u8>,
    /// `q` or `qs`; 1 by default.
    pub quality: f32,
    /// `level` of HTML; 2 by default.
    pub level: f32,
    /// `charset`, in lower case; empty by default.
    pub charset: Vec<u8>,
}

/// The client's preferences. `None` is a field that was not sent.
#[derive(Debug)]
pub(super) struct Preferences {
    /// Never empty: `*/*` where Accept is missing.
    pub types: Vec<AcceptItem>,
    /// Whether Accept has qualities. Where it has none, `*/*` counts as a last resort.
    pub is_weighed: bool,
    pub languages: Option<Vec<AcceptItem>>,
    pub charsets: Option<Vec<AcceptItem>>,
    pub encodings: Option<Vec<AcceptItem>>,
    /// Whether caches are told of the choice (RFC 2295): for GET and HEAD without a path after the
    /// name.
    pub is_transparent: bool,
    /// Whether the client can choose.
    pub supports_choice: bool,
    /// Whether the server may choose.
    pub may_choose: bool,
    /// Whether the server chooses by the algorithm of RFC 2296.
    pub by_rvsa: bool,
    /// The preferences are taken literally.
    pub is_literal: bool,
}

impl Preferences {
    /// Returns the preferences of a request.
    pub(super) fn of(tx: &Transaction<'_>) -> Preferences {
        let types = items(tx, b"accept");
        let reads = matches!(tx.state.method, Method::Get | Method::Head);
        let mut accepted = Preferences {
            is_weighed: types.iter().flatten().any(|item| item.quality < 1.0),
            types: types.unwrap_or_else(|| vec![AcceptItem::new(b"*/*")]),
            languages: items(tx, b"accept-language"),
            charsets: items(tx, b"accept-charset"),
            encodings: items(tx, b"accept-encoding"),
            is_transparent: reads && tx.state.path_info.is_empty(),
            supports_choice: false,
            may_choose: true,
            by_rvsa: false,
            is_literal: false,
        };
        if accepted.is_transparent {
            accepted.negotiate(tx);
        }
        // A script is the last choice, except for requests that need a script.
        let wants_script = !reads || tx.state.args.is_some() || !tx.state.path_info.is_empty();
        let quality = match (accepted.by_rvsa, wants_script) {
            (true, _) => 0.0,
            (false, true) => 2.0,
            (false, false) => 0.001,
        };
        accepted.types.push(AcceptItem { quality, ..AcceptItem::new(SCRIPT) });
        accepted
    }

    /// Reads the field Negotiate (RFC 2295 §8.4).
    fn negotiate(&mut self, tx: &Transaction<'_>) {
        let Some(value) = tx.request_field(b"negotiate") else {
            return;
        };
        if value == b"trans"
            && tx.request_field(b"user-agent").is_some_and(|agent| agent.starts_with(b"Lynx"))
        {
            return;
        }
        self.may_choose = false;
        for member in members(value) {
            let is_known = matches!(member, b"trans" | b"vlist" | b"guess-small" | b"*")
                || member[0].is_ascii_digit();
            self.supports_choice |= is_known;
            if member == b"1.0" {
                (self.may_choose, self.by_rvsa, self.is_literal) = (true, true, true);
            } else if member == b"*" {
                (self.may_choose, self.is_literal) = (true, true);
            }
        }
    }
}

impl AcceptItem {
    fn new(name: &[u8]) -> AcceptItem {
        AcceptItem {
            name: name.to_vec(),
            quality: 1.0,
            level: 0.0,
            charset: Vec::new(),
        }
    }

    /// Takes a member off a list.
    pub(super) fn take(rest: &mut &[u8]) -> AcceptItem {
        let mut item = AcceptItem::new(&token(rest, false).to_ascii_lowercase());
        if item.name == b"text/html" {
            item.level = 2.0;
        }
        let mut parameters = 0;
        while let [b';', behind @ ..] = *rest {
            *rest = behind;
            let text = token(rest, true);
            if parameters < MOST_PARAMETERS {
                item.parameter(text);
            }
            parameters += 1;
        }
        if let [b',', behind @ ..] = *rest {
            *rest = behind;
        }
        item
    }

    fn parameter(&mut self, text: &[u8]) {
        let Some(end) = text.iter().position(|&byte| byte == b'=' || byte.is_ascii_whitespace())
        else {
            return;
        };
        let name = text[..end].to_ascii_lowercase();
        let start =
            text[end..].iter().position(|&byte| byte != b'=' && !byte.is_ascii_whitespace());
        let value = start.map_or(&b""[..], |start| &text[end + start..]);
        let value = match value {
            [b'"', quoted @ ..] => quoted.split(|&byte| byte == b'"').next(),
            _ => value.split(u8::is_ascii_whitespace).next(),
        };
        let value = value.unwrap_or_default().to_ascii_lowercase();
        match name.as_slice() {
            b"q" | b"qs" => self.quality = quality(&value),
            b"level" => {
                let digits = value.iter().take_while(|byte| byte.is_ascii_digit());
                self.level =
                    digits.fold(0.0, |level, digit| level * 10.0 + f32::from(digit - b'0'));
            }
            b"charset" => self.charset = value,
            _ => {}
        }
    }
}

/// Returns the first [`MOST_ITEMS`] members of a request field; `None` where it was not sent.
pub(super) fn items(tx: &Transaction<'_>, field: &[u8]) -> Option<Vec<AcceptItem>> {
    let lines: Vec<&[u8]> = tx.request_values(field).collect();
    if lines.is_empty() {
        return None;
    }
    let value = lines.join(&b", "[..]);
    let mut rest = &value[..];
    let mut items = Vec::new();
    while !rest.is_empty() && items.len() < MOST_ITEMS {
        items.push(AcceptItem::take(&mut rest));
    }
    Some(items)
}

/// Reads a quality with up to three decimals; other text is 1.
fn quality(value: &[u8]) -> f32 {
    let digits = match value {
        [b'.', digits @ ..] | [b'0', b'.', digits @ ..] => digits,
        [b'0', ..] => return 0.0,
        _ => return 1.0,
    };
    let digits = digits.iter().take(3).take_while(|byte| byte.is_ascii_digit());
    let thousandths: u16 = digits
        .zip([100, 10, 1])
        .map(|(digit, weight)| u16::from(digit - b'0') * weight)
        .sum();
    f32::from(thousandths) / 1000.0
}

/// Returns the steps of comparing a name with the names of these items.
pub(super) fn comparing(items: &[AcceptItem]) -> u64 {
    items.iter().map(|item| 1 + work::bytes(item.name.len())).sum()
}

/// Members of a list that count; the rest is ignored. Apache takes as many as fit into the request.
/// A browser sends fewer than twenty.
pub(super) const MOST_ITEMS: usize = 200;

/// Parameters of a member that count; the rest is ignored.
const MOST_PARAMETERS: usize = 16;

/// The media type used for scripts.
pub(super) const SCRIPT: &[u8] = b"application/x-httpd-cgi";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_item() {
        let table = [
            ("text/html", "text/html 1 2 "),
            ("TEXT/Plain; q=0.25", "text/plain 0.25 0 "),
            ("text/html;level=3;charset=\"UTF-8\";q=.5", "text/html 0.5 3 utf-8"),
            ("text/html;level=12", "text/html 1 12 "),
            ("a;q=0", "a 0 0 "),
            ("a;q=1.0", "a 1 0 "),
            ("a;q=x", "a 1 0 "),
            ("a;q=0.1239", "a 0.123 0 "),
            ("a;q", "a 1 0 "),
            ("a ; Q = 0.5", "a 0.5 0 "),
        ];
        let table = table.map(|(text, expected)| (text.to_owned(), expected));
        let many = |number| ";x=y".repeat(number);
        let table = table.into_iter().chain([
            (format!("a{};q=0.5", many(MOST_PARAMETERS - 1)), "a 0.5 0 "),
            (format!("a{};q=0.5", many(MOST_PARAMETERS)), "a 1 0 "),
        ]);
        for (text, expected) in table {
            let item = AcceptItem::take(&mut text.as_bytes());
            let found = format!(
                "{} {} {} {}",
                String::from_utf8_lossy(&item.name),
                item.quality,
                item.level,
                String::from_utf8_lossy(&item.charset)
            );
            assert_eq!(found, expected, "{text}");
        }
    }
}
