//! The words of RewriteCond and RewriteRule, which mod_rewrite splits itself. Unlike in other
//! directives, a backslash is kept for the regular expression, and one before white space keeps the
//! word together.

use crate::language::is_space;

/// The words of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Words<'l> {
    /// The test string or the pattern.
    pub first: &'l [u8],
    /// The pattern or the substitution.
    pub second: &'l [u8],
    /// The flags with their brackets.
    pub flags: Option<&'l [u8]>,
}

/// Splits a line into its words; `None` where it ends within the first. As in Apache, words after
/// the third are ignored.
pub(crate) fn split(line: &[u8]) -> Option<Words<'_>> {
    let line = &line[..memchr::memchr(0, line).unwrap_or(line.len())];
    let (first, rest) = word(line);
    let (second, rest) = word(rest?);
    let flags = rest
        .map(|rest| &rest[spaces(rest)..])
        .filter(|rest| !rest.is_empty())
        .map(|rest| word(rest).0);
    Some(Words { first, second, flags })
}

/// Returns the next word, and what follows the byte that ends it; `None` where the line ends first.
fn word(line: &[u8]) -> (&[u8], Option<&[u8]>) {
    let line = &line[spaces(line)..];
    let quote = line.first().copied().filter(|byte| matches!(byte, b'"' | b'\''));
    let line = if quote.is_some() { &line[1..] } else { line };
    let mut at = 0;
    while let Some(&byte) = line.get(at) {
        let ends = match quote {
            Some(quote) => byte == quote,
            None => is_space(byte),
        };
        if ends {
            return (&line[..at], Some(&line[at + 1..]));
        }
        let keeps = byte == b'\\' && line.get(at + 1).is_some_and(|&next| is_space(next));
        at += if keeps { 2 } else { 1 };
    }
    (line, None)
}

/// Gives `take` every flag of `[key=value,…]` in order.
///
/// # Errors
/// The brackets are wrong, or the error of `take`.
pub(crate) fn each_flag(
    field: &[u8],
    mut take: impl FnMut(&[u8], &[u8]) -> Result<(), String>,
) -> Result<(), String> {
    let [b'[', inner @ .., b']'] = field else {
        return Err("bad flag delimiters".into());
    };
    for flag in inner.split(|&byte| byte == b',') {
        let flag = flag.trim_ascii();
        let (key, value) = match memchr::memchr(b'=', flag) {
            Some(at) => (&flag[..at], &flag[at + 1..]),
            None => (flag, &b""[..]),
        };
        take(key, value)?;
    }
    Ok(())
}

fn spaces(line: &[u8]) -> usize {
    line.iter().take_while(|&&byte| is_space(byte)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_split() {
        type Row = (&'static str, Option<(&'static str, &'static str, Option<&'static str>)>);
        let table: &[Row] = &[
            ("^a$ /b", Some(("^a$", "/b", None))),
            ("^a$   /b\t[L]", Some(("^a$", "/b", Some("[L]")))),
            ("^a$ /b [L] more", Some(("^a$", "/b", Some("[L]")))),
            ("^a$ /b [R=301, L]", Some(("^a$", "/b", Some("[R=301,")))),
            ("^a$ /b \"[R=301, L]\"", Some(("^a$", "/b", Some("[R=301, L]")))),
            (r"^a\ b$ /c", Some((r"^a\ b$", "/c", None))),
            (r#""^a b$" '/c d' [L]"#, Some(("^a b$", "/c d", Some("[L]")))),
            (r#""a\"b" c"#, Some((r"a\", "b\"", Some("c")))),
            (r#""a""#, Some(("a", "", None))),
            (r#"a """#, Some(("a", "", None))),
            (r#"a "b c"#, Some(("a", "b c", None))),
            (r#"a"b c"d"#, Some((r#"a"b"#, r#"c"d"#, None))),
            (r"a b\", Some(("a", r"b\", None))),
            ("a", None),
            ("", None),
            ("\"a b", None),
            ("a\0 b", None),
        ];
        for (line, expected) in table {
            let expected = expected.map(|(first, second, flags)| Words {
                first: first.as_bytes(),
                second: second.as_bytes(),
                flags: flags.map(str::as_bytes),
            });
            assert_eq!(split(line.as_bytes()), expected, "{line}");
        }
    }

    #[test]
    fn flags_are_split() {
        let table: &[(&str, Result<&str, &str>)] = &[
            ("[L]", Ok("L=;")),
            ("[L,R=301]", Ok("L=;R=301;")),
            ("[ L , R = 301 ]", Ok("L=;R = 301;")),
            ("[E=a:b=c]", Ok("E=a:b=c;")),
            ("[L,]", Ok("L=;=;")),
            ("[]", Ok("=;")),
            ("[", Err("bad flag delimiters")),
            ("L]", Err("bad flag delimiters")),
            ("[L", Err("bad flag delimiters")),
            ("", Err("bad flag delimiters")),
        ];
        for (field, expected) in table {
            let mut seen = String::new();
            let result = each_flag(field.as_bytes(), |key, value| {
                let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
                seen += &format!("{}={};", text(key), text(value));
                Ok(())
            });
            match expected {
                Ok(all) => assert_eq!((result, seen.as_str()), (Ok(()), *all), "{field}"),
                Err(error) => assert_eq!(result, Err((*error).to_string()), "{field}"),
            }
        }
    }
}
