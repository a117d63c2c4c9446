//! The lines of a file of php-fpm, which has the form of php.ini: php-fpm gives each line alone to
//! PHP's own reader.

/// A line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum IniLine {
    /// `[name]`: a pool, or `global`.
    Section(String),
    /// `key = value`.
    Value(String, IniText),
    /// Neither.
    Unreadable(String),
}

/// A value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct IniText {
    /// The value in the file, without a comment.
    pub(super) written: String,
    /// The value that php-fpm reads. `None`: php-fpm calculates it, or takes it from its own
    /// environment.
    pub(super) read: Option<String>,
}

/// Returns the lines that say something, each with its number.
pub(super) fn lines(text: &str) -> impl Iterator<Item = (usize, IniLine)> + '_ {
    // php-fpm passes over the mark that some editors put before the first line.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let numbered = text.lines().enumerate().map(|(number, line)| (number + 1, line.trim()));
    let says_something =
        |(_, line): &(usize, &str)| !line.is_empty() && !line.starts_with([';', '#']);
    numbered.filter(says_something).map(|(number, line)| (number, of(line)))
}

fn of(line: &str) -> IniLine {
    let section = line.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    if let Some((name, _)) = section {
        return IniLine::Section(name.trim().to_owned());
    }
    match line.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => {
            IniLine::Value(key_of(key.trim()), text_of(value.trim()))
        }
        _ => IniLine::Unreadable(line.to_owned()),
    }
}

/// The key in the form `name[entry]`. php-fpm does not mind the case of the name, nor spaces and
/// quotes around the entry.
fn key_of(key: &str) -> String {
    let Some((name, entry)) = key.strip_suffix(']').and_then(|key| key.split_once('[')) else {
        return key.to_ascii_lowercase();
    };
    let mut entry = entry.trim();
    for quote in ['"', '\''] {
        let inner = entry.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
        entry = inner.unwrap_or(entry);
    }
    format!("{}[{entry}]", name.trim_end().to_ascii_lowercase())
}

/// The value as PHP's reader puts it together from words and quoted parts.
fn text_of(text: &str) -> IniText {
    const OPERATORS: &[char] = &['&', '|', '^', '~', '!', '(', ')'];
    let mut value = String::new();
    let mut rest = text;
    let (mut is_word, mut is_computed) = (true, false);
    loop {
        let end = rest.find(['"', '\'', ';']).unwrap_or(rest.len());
        let (plain, after) = rest.split_at(end);
        is_computed |= plain.contains(OPERATORS) || plain.contains("${");
        // Spaces before a quotation mark and at the end do not count.
        value.push_str(if after.starts_with('\'') {
            plain
        } else {
            plain.trim_end()
        });
        rest = after;
        if let Some(quoted) = rest.strip_prefix('"') {
            let (inner, behind) = double_quoted(quoted);
            is_computed |= inner.is_none();
            value.push_str(&inner.unwrap_or_default());
            rest = behind.trim_start();
        } else if let Some(quoted) = rest.strip_prefix('\'') {
            // The text after a lone quote is left out.
            let (inner, behind) = quoted.split_once('\'').unwrap_or_default();
            value.push_str(inner);
            rest = behind;
        } else {
            // A comment, or the end.
            break;
        }
        is_word = false;
    }
    let value = match value.to_ascii_lowercase().as_str() {
        "on" | "yes" | "true" if is_word => "1".to_owned(),
        "off" | "no" | "none" | "false" | "null" if is_word => String::new(),
        _ => value,
    };
    IniText {
        written: text[..text.len() - rest.len()].trim_end().to_owned(),
        read: (!is_computed).then_some(value),
    }
}

/// Reads up to the closing quotation mark. Returns the text, which is `None` if it contains `${…}`,
/// and what follows.
fn double_quoted(text: &str) -> (Option<String>, &str) {
    let (mut inner, mut is_computed) = (String::new(), false);
    let mut rest = text;
    let behind = loop {
        let end = rest.find(['"', '\\', '$']).unwrap_or(rest.len());
        let (plain, after) = rest.split_at(end);
        inner.push_str(plain);
        let taken = match after.as_bytes() {
            [] => break "",
            [b'"', ..] => break &after[1..],
            [b'\\', b'"' | b'\\', ..] => {
                inner.push_str(&after[1..2]);
                2
            }
            [b'$', b'{', ..] => {
                is_computed = true;
                1
            }
            _ => {
                inner.push_str(&after[..1]);
                1
            }
        };
        rest = &after[taken..];
    };
    ((!is_computed).then_some(inner), behind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_quotes_are_understood() {
        let text =
            "; comment\n[ www ] ; x\na=1;b\nb = \"x;y\" ; z\nc = 'q'\n\nd\n= 1\nE = ${X} ; y";
        let value = |key: &str, written: &str, read: Option<&str>| {
            let (written, read) = (written.to_owned(), read.map(str::to_owned));
            IniLine::Value(key.to_owned(), IniText { written, read })
        };
        let found: Vec<_> = lines(text).collect();
        assert_eq!(
            found,
            [
                (2, IniLine::Section("www".into())),
                (3, value("a", "1", Some("1"))),
                (4, value("b", "\"x;y\"", Some("x;y"))),
                (5, value("c", "'q'", Some("q"))),
                (7, IniLine::Unreadable("d".into())),
                (8, IniLine::Unreadable("= 1".into())),
                (9, value("e", "${X}", None)),
            ]
        );
    }

    #[test]
    fn a_byte_order_mark_is_no_setting() {
        let found: Vec<_> = lines("\u{feff}[www]\n").collect();
        assert_eq!(found, [(1, IniLine::Section("www".into()))]);
    }

    #[test]
    fn an_entry_may_be_quoted_and_the_name_before_it_in_capitals() {
        for (key, expected) in [
            ("PM.Max_Children", "pm.max_children"),
            ("env[\"Path\"]", "env[Path]"),
            ("PHP_value[ 'a.b' ]", "php_value[a.b]"),
            ("access.suppress_path[]", "access.suppress_path[]"),
            ("php_flag[x", "php_flag[x"),
        ] {
            assert_eq!(key_of(key), expected);
        }
    }
}
