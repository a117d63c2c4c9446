//! The lines of a file of php-fpm, which has the form of php.ini.

/// A line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum IniLine {
    /// `[name]`: a pool, or `global`.
    Section(String),
    /// `key = value`, the value without its quotes.
    Value(String, String),
    /// Neither.
    Unreadable(String),
}

/// Returns the lines that say something, each with its number.
pub(super) fn lines(text: &str) -> impl Iterator<Item = (usize, IniLine)> + '_ {
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
            IniLine::Value(key.trim().to_owned(), unquoted(value.trim()))
        }
        _ => IniLine::Unreadable(line.to_owned()),
    }
}

/// The value without quotes, or without the comment behind it.
fn unquoted(value: &str) -> String {
    for quote in ['"', '\''] {
        if let Some((inner, _)) = value.strip_prefix(quote).and_then(|rest| rest.split_once(quote))
        {
            return inner.to_owned();
        }
    }
    let end = value.find(';').unwrap_or(value.len());
    value[..end].trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_quotes_are_understood() {
        let text = "; comment\n[ www ] ; x\na=1;b\nb = \"x;y\" ; z\nc = 'q'\n\nd\n= 1\n";
        let value = |key: &str, value: &str| IniLine::Value(key.into(), value.into());
        let found: Vec<_> = lines(text).collect();
        assert_eq!(
            found,
            [
                (2, IniLine::Section("www".into())),
                (3, value("a", "1")),
                (4, value("b", "x;y")),
                (5, value("c", "q")),
                (7, IniLine::Unreadable("d".into())),
                (8, IniLine::Unreadable("= 1".into())),
            ]
        );
    }
}
