use super::{Conditions, DEEPEST, Item, LONGEST_LINE, Parsed, locate, parse, words};

/// Lets `<IfYes>` through and not `<IfNo>`; `${name}` is `value`.
struct Fixed;

impl Conditions for Fixed {
    fn decide(&mut self, section: &Item) -> Option<Result<bool, String>> {
        match &*section.name {
            "<IfYes" => Some(Ok(true)),
            "<IfNo" => Some(Ok(false)),
            "<IfBad" => Some(Err("bad arguments".to_owned())),
            _ => None,
        }
    }

    fn variable(&mut self, name: &[u8]) -> Option<Vec<u8>> {
        (name == b"name").then(|| b"value".to_vec())
    }
}

fn shown(items: &[Item]) -> String {
    let one = |item: &Item| {
        let inside = item
            .items
            .as_ref()
            .map_or_else(String::new, |items| format!("{{{}}}", shown(items)));
        format!("{}[{}]{inside}", item.name, item.raw.escape_ascii())
    };
    items.iter().map(one).collect::<Vec<_>>().join(" ")
}

fn read(source: &str) -> Parsed {
    parse(source.as_bytes(), &mut Fixed)
}

/// Each was read by Apache first.
#[test]
fn what_a_file_says() {
    for (source, items) in [
        ("", ""),
        ("\n\r\n \t\n", ""),
        ("A b c", "A[b c]"),
        (" \t A \x0b b \x0c\r\n", "A[b]"),
        ("A b\nC d\n", "A[b] C[d]"),
        ("# A b \\\nC d\nE f", "E[f]"),
        ("A # b", "A[# b]"),
        ("A b\\\nc", "A[bc]"),
        ("A b\\\r\n  c\r\n", "A[b  c]"),
        ("A b\\ \nC", "A[b\\\\] C[]"),
        ("A b\\\\\nc", "A[b\\\\c]"),
        ("\\\n\\\nA", "A[]"),
        ("A b\\", "A[b\\\\]"),
        ("A b\\\n", "A[b]"),
        ("\\\n", ""),
        ("A b\0c\nD", "A[b] D[]"),
        ("A b\0\\\nD", "A[b] D[]"),
        ("\"A\" b", "A[b]"),
        ("'A b'c", "A b[c]"),
        ("\"A\\\"b\" c", "A\"b[c]"),
        ("\"\" b", ""),
        ("A> b", "A[b]"),
        ("A ${name}", "A[value]"),
        ("A ${name}${nobody} ${name", "A[value${nobody} ${name]"),
        ("A $name $${name} $", "A[$name $value $]"),
        ("\u{feff}A b", "\u{feff}A[b]"),
        ("<S a>\nB\n</S>\nC", "<S[a>]{B[]} C[]"),
        ("<S>\n</s> whatever\n", "<S[>]{}"),
        ("<S\nB\n</S>", "<S[>]{B[]}"),
        ("<S a\n</S>", "<S[a]{}"),
        ("<S a>\n<T b>\nC\n</T>\nD\n</S>", "<S[a>]{<T[b>]{C[]} D[]}"),
        ("<IfYes>\nA\n</IfYes>\nB", "A[] B[]"),
        ("<S>\n<IfYes>\nA\n</IfYes>\nB\n</S>", "<S[>]{A[] B[]}"),
        ("<IfYes>\n<S>\nA\n</S>\n</IfYes>\nB", "<S[>]{A[]} B[]"),
        ("<IfYes>\nA\n", "A[]"),
        ("<IfYes>\n<S>\nA\n", "<S[>]{A[]}"),
        ("<IfNo>\nA\n<S a b\n</S>\n<IfYes>\nC\n</ifyes>\n# </IfNo>\n</IFNO> # c\nB", "B[]"),
        ("<IfYes>\n<IfNo>\nA\n</IfNo>\nB\n</IfYes>", "B[]"),
    ] {
        let parsed = read(source);
        assert_eq!(shown(&parsed.items), items, "{source:?}");
        assert_eq!(parsed.faults, [], "{source:?}");
    }
}

/// Each was read by Apache first, which says the same of the first.
#[test]
fn what_is_wrong_with_a_file() {
    for (source, items, faults) in [
        ("</S>\nA", "A[]", "1:1 </S> without matching <S> section"),
        ("<S>\n</S\nA", "<S[>]{} A[]", "2:4 </S> directive missing closing '>'"),
        ("<S>\n </S >\nA", "<S[>]{} A[]", "2:5 </S> directive missing closing '>'"),
        ("<S>\nA\n</T>\nB\n</S>", "<S[>]{A[] B[]}", "3:1 Expected </S> but saw </T>"),
        ("<S>\n<T>\n</S>\nB", "<S[>]{<T[>]{}} B[]", "3:1 Expected </T> but saw </S>"),
        ("A\n <S a>\nB", "A[] <S[a>]{B[]}", "2:2 <S> was not closed."),
        ("<IfNo>\nA", "", "1:1 Expected </IfNo> before end of configuration"),
        ("<IfNo>\n</IfNo >\nA\n</IfNo>\nB", "B[]", "2:1 Expected </IfNo> but saw </IfN>"),
        ("<IfNo>\n<S>\n</IfNo>\nB", "B[]", "3:1 Expected </S> but saw </IfNo>"),
        (
            "<IfYes>\n</IfYes> # c\nA\n</IfYes>",
            "A[]",
            "2:1 </IfYes> without matching <IfYes> section",
        ),
        ("<IfYes>\n<S>\n</IfYes>\nB", "<S[>]{B[]}", "3:1 Expected </S> but saw </IfYes>"),
        ("<S>\n<IfYes>\n</S>\n</IfYes>\n</S>", "<S[>]{}", "3:1 </S> without matching <S> section"),
        ("<IfBad x>\nA\n</IfBad>\nB", "B[]", "1:1 bad arguments"),
    ] {
        let parsed = read(source);
        let found: Vec<String> = parsed
            .faults
            .iter()
            .map(|fault| format!("{}:{} {}", fault.line, fault.column, fault.message))
            .collect();
        assert_eq!(found.join("; "), faults, "{source:?}");
        assert_eq!(shown(&parsed.items), items, "{source:?}");
    }
}

#[test]
fn what_apache_lets_pass_is_doubted() {
    for (source, doubts) in [
        ("<IfYes>\nA", "1:1 <IfYes> is not closed before the end of the file"),
        ("A b\0c", "1:4 a NUL byte, which hides the rest of its line"),
    ] {
        let parsed = read(source);
        let found: Vec<String> = parsed
            .doubts
            .iter()
            .map(|doubt| format!("{}:{} {}", doubt.line, doubt.column, doubt.message))
            .collect();
        assert_eq!(
            (found.join("; "), parsed.faults),
            (doubts.to_owned(), Vec::new()),
            "{source:?}"
        );
    }
}

#[test]
fn a_place_is_where_the_name_starts() {
    let source = "\n  A b\\\n  c\n# x\\\ny\n\\\n  \\\n   D e";
    let parsed = read(source);
    let places: Vec<_> = parsed.items.iter().map(|item| (item.line, item.column)).collect();
    assert_eq!(places, [(2, 3), (8, 4)]);
    let first = &parsed.items[0];
    let argument = words(&first.raw)[1].start + first.raw_at.unwrap();
    assert_eq!(locate(source.as_bytes(), first.start, argument), (3, 3));
}

#[test]
fn a_line_has_its_limit() {
    let line =
        |length: usize, end: &str| format!("A{}{end}", " b".repeat(length).split_at(length - 1).0);
    for (length, end, fits) in [
        (LONGEST_LINE - 1, "\n", true),
        (LONGEST_LINE, "\n", false),
        (LONGEST_LINE, "", true),
        (LONGEST_LINE + 1, "", false),
    ] {
        assert_eq!(read(&line(length, end)).faults.is_empty(), fits, "{length} {end:?}");
        let continued = line(length, end).replacen(" b", "\\\n b", 3);
        assert_eq!(read(&continued).faults.is_empty(), fits, "{length} {end:?}, continued");
    }
}

#[test]
fn sections_can_only_be_so_deep() {
    for kind in ["S", "IfYes"] {
        let deep = |depth: usize| {
            format!("<{kind}>\n").repeat(depth) + &format!("</{kind}>\n").repeat(depth)
        };
        assert_eq!(read(&deep(DEEPEST)).faults, []);
        assert_eq!(read(&deep(DEEPEST + 1)).faults.len(), 1, "{kind}");
    }
}

#[test]
fn words_and_quotes() {
    for (line, expected) in [
        ("", &[][..]),
        ("  a  b ", &["a", "b"]),
        ("\"a b\" 'c d'", &["a b", "c d"]),
        ("\"a\"b", &["a", "b"]),
        ("a\"b c\"", &["a\"b", "c\""]),
        (r#""a\"b" '\'' "\'""#, &["a\"b", "'", r"\'"]),
        (r"a\\b a\b \ c", &[r"a\b", r"a\b", r"\", "c"]),
        (r#""a\\" "\n""#, &[r"a\", r"\n"]),
        ("\"a b", &["a b"]),
        (r#""a\"#, &[r"a\"]),
        ("\"\" a ''", &["", "a", ""]),
        ("a\x0bb\x0cc\td", &["a", "b", "c", "d"]),
    ] {
        let found: Vec<String> = words(line.as_bytes())
            .into_iter()
            .map(|word| String::from_utf8(word.text).unwrap())
            .collect();
        assert_eq!(found, expected, "{line}");
    }
}

#[test]
fn only_the_beginning_of_a_line_that_is_too_long_is_compiled() {
    for text in ["a".repeat(3 * LONGEST_LINE), "a\\\n".repeat(2 * LONGEST_LINE)] {
        let parsed = read(&format!("RewriteRule {text}\nSetEnv a b"));
        assert_eq!(parsed.faults.len(), 1);
        assert!(parsed.faults[0].message.starts_with("Line too long"), "{:?}", parsed.faults);
        assert_eq!(parsed.items.len(), 2);
        assert_eq!(parsed.items[0].raw.len(), LONGEST_LINE - "RewriteRule ".len());
    }
}
