use std::sync::Arc;

use super::*;
use crate::WorkBudget;
use crate::mutation::Mutator;

fn compiled(text: &[u8]) -> Pattern {
    Pattern::new(text, false).unwrap_or_else(|bad| panic!("{}: {bad}", text.escape_ascii()))
}

/// The groups of a match, a missing one as `-`, joined with `,`; `no` where there is none.
fn matched(pattern: &Pattern, subject: &[u8]) -> String {
    let mut captures = Captures::default();
    if !pattern.captures(subject, &mut captures, Meter::unlimited()).unwrap() {
        assert!(captures.is_empty());
        return "no".to_owned();
    }
    let group = |number| match captures.spans.at[number] {
        Some(_) => captures.group(number).escape_ascii().to_string(),
        None => "-".to_owned(),
    };
    (0..captures.len()).map(group).collect::<Vec<_>>().join(",")
}

/// The answers of Apache's own matcher (`AP_REG_DOTALL | AP_REG_DOLLAR_ENDONLY`).
#[test]
fn patterns_match_as_apaches() {
    let rows: &[(&[u8], &[u8], &str)] = &[
        (b"a.c", b"a\nc", "a\\nc"),
        (b"c$", b"abc\n", "no"),
        (b"c$", b"abc", "c"),
        (b"c\\Z", b"abc\n", "c"),
        (b"(?m)c$", b"abc\nd", "c"),
        (b"(?m:c$)|(d)$", b"abc\nd\n", "c,-"),
        (b"(?m:x$)|(d)$", b"abc\nd\n", "no"),
        (b"(?-m)(?:(?m)c$|b$)", b"c\nx", "c"),
        (b"((?m)x|c$)|q$", b"c\nx", "c,c"),
        (b"[$]$", b"a$", "$"),
        (b"[]$]$", b"a$", "$"),
        (b"[^]$]+$", b"$a", "a"),
        (b"[[:alpha:]$]+$", b"1a$", "a$"),
        (b"[\\]$]$", b"]$", "$"),
        (b"\\$$", b"a$", "$"),
        (b"\\Q$[(\\E$", b"a$[(", "$[("),
        (b"\\Q$", b"a$b", "$"),
        (b"(?#$()a$", b"ba", "a"),
        (b"(?x) a # $ ( [\n $", b"a\n", "no"),
        (b"(?x) a # $ ( [\n $", b"ba", "a"),
        (b"(?x:a # )\n)b#$", b"ab#", "ab#"),
        (b"(*UTF)^.$", "é".as_bytes(), "\\xc3\\xa9"),
        (b"(*UTF8)^.$", "é".as_bytes(), "\\xc3\\xa9"),
        (b"(*UTF)^.$", b"\xe9", "no"),
        (b"(*NO_JIT)(*UTF)(*UCP)(?i)\\w\xc3\xa9$", "aÉ".as_bytes(), "a\\xc3\\x89"),
        (b"^.$", "é".as_bytes(), "no"),
        (
            b"\xe9[\xe8-\xea]\\\xe9\\Q\xe9.\xe9\\E$",
            b"\xe9\xe9\xe9\xe9.\xe9",
            "\\xe9\\xe9\\xe9\\xe9.\\xe9",
        ),
        (b"(?<a>x)|(?<a>y)", b"y", "y,-,y"),
        (b"(a)|(b)|(c)", b"b", "b,-,b,-"),
        (b"(a)(b)(c)(d)(e)(f)(g)(h)(i)(j)(k)", b"abcdefghijk", "abcdefghijk,a,b,c,d,e,f,g,h,i"),
        (b"(?C'$)')a$", b"a\n", "no"),
        (b"(*MARK:$)a$", b"a\n", "no"),
        (b"a\\c$$", b"a\x64", "ad"),
    ];
    for (text, subject, expected) in rows {
        assert_eq!(
            matched(&compiled(text), subject),
            *expected,
            "/{}/ on \"{}\"",
            text.escape_ascii(),
            subject.escape_ascii()
        );
    }
}

#[test]
fn mistakes_are_where_they_were_written() {
    let rows: &[(&[u8], usize, &str)] = &[
        (b"a(b", 3, "missing closing parenthesis"),
        (b"$$$(", 4, "missing closing parenthesis"),
        (b"(*UTF8)$+", 8, "quantifier does not follow"),
        (b"$*", 1, "quantifier does not follow"),
        (b"\xe9\xe9[z-a]", 5, "range out of order"),
        (b"*a", 0, "quantifier does not follow"),
        (b"a)", 1, "unmatched closing parenthesis"),
        (b"(*UTF)\xe9", 6, "UTF-8"),
        (b"x[", 2, "missing terminating ]"),
        (b"a\\", 2, "\\ at end of pattern"),
        (b"(*UTF32)a", 7, "(*VERB)"),
    ];
    for (text, offset, message) in rows {
        let bad = Pattern::new(text, false).expect_err(&text.escape_ascii().to_string());
        assert!(bad.message.contains(message), "{bad}");
        assert_eq!(bad.offset, *offset, "{} {bad}", text.escape_ascii());
    }
}

#[test]
fn what_files_use_most_needs_no_pcre() {
    let rows = [
        ".",
        "^.",
        "",
        ".*",
        "^",
        "^$",
        "(.*)",
        "^(.*)$",
        "^.+$",
        "index",
        "^index\\.php$",
        "^old/",
        "\\.html$",
        "^old/(.*)$",
        "(.+)\\.html$",
        "^(.*)/$",
        "\\.(css|js|png)$",
        "(?i)\\.(?:jpe?g|gif)$",
        "bot|crawl|spider",
        "^(wp-admin|wp-includes)/",
        "^feed/?$",
        "^a/(.+)/b$",
        "^(?:www\\.)?example\\.org$",
        "wp-config[.]php",
        "^foo$|^bar$",
        "(^)",
    ];
    let by_hand = |text: &str| matches!(compiled(text.as_bytes()).matcher, Matcher::Shape(_));
    let others: Vec<&str> = rows.into_iter().filter(|text| !by_hand(text)).collect();
    assert_eq!(others, ["^a/(.+)/b$", "(^)"]);
}

/// Patterns put together of parts, on subjects made of the same letters.
#[test]
fn matched_by_hand_is_as_matched_by_pcre() {
    let parts: &[&[u8]] = &[
        b"^",
        b"$",
        b"a",
        b"b",
        b"ab",
        b"A",
        b".",
        b".*",
        b"(.*)",
        b".+",
        b"(.+)",
        b"(",
        b")",
        b"(?:",
        b"|",
        b"?",
        b"\\.",
        b"[.]",
        b"(a|b)",
        b"(?:ab|a|)",
        b"(a(b))",
        b"\xe9",
        b"\n",
        b"b?",
        b"(?i)",
        b"{2}",
        b"*",
        b"\\d",
        b"$",
    ];
    let letters: &[&[u8]] = &[b"a", b"b", b"A", b"B", b"ab", b".", b"\n", b"\xe9", b"1"];
    let mut random = Mutator(1);
    let mut by_hand = 0;
    for _ in 0..6_000 {
        let text: Vec<u8> =
            (0..random.below(6)).flat_map(|_| random.pick(parts)).copied().collect();
        by_hand += usize::from(matches!(
            Pattern::new(&text, false),
            Ok(Pattern { matcher: Matcher::Shape(_), .. })
        ));
        for _ in 0..2 {
            let subject = (0..random.below(6)).flat_map(|_| random.pick(letters)).copied();
            let input: Vec<u8> = text.iter().copied().chain([0]).chain(subject).collect();
            crate::mutation::check(properties::pattern, &input);
        }
    }
    assert!(by_hand > 1_000, "{by_hand}");
}

#[test]
fn any_bytes() {
    let seeds: &[&[u8]] = &[
        b"^(?!www\\.)(.+)$\0example.org",
        b"([a-z]{2,3})(?:-(\\w+))?\\1$\0aa-bb",
        b"(?x) a # comment $\n (?m: b $ ) [[:digit:]$\\]]\0ab\n1",
        b"(*UTF)(*UCP)\xc3\xa9+(?<n>\\X)$\0\xc3\xa9\xc3\xa9x",
        b"\\Q$a\\E(?|(a)|(b))(?C'x')(?(1)c|d)$\0$aac",
        b"(a+)+$\0aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab",
    ];
    let words: &[&[u8]] = &[
        b"$", b"(?m)", b"(?x)", b"#", b"[^]", b"\\Q", b"\\E", b"|", b"\xff", b"(?i:", b"{1,}",
        b"\0", b"\\",
    ];
    Mutator(2).mutations(seeds, words, 3_000, properties::pattern);
}

/// Without a limit, each of these would take years.
#[test]
fn what_tries_too_much_is_given_up() {
    let rows: &[(&[u8], &[u8])] = &[
        (b"(a+)+$", b"a"),
        (b"^(a|aa)+$", b"a"),
        (b"^(([a-z])+.)+[A-Z]([a-z])+$", b"a"),
        (b"(x+x+)+[yz]", b"x"),
        (b".*.*.*.*[xz]", b"y"),
        (b"(\\w+)\\s*(\\w+)\\s*(\\w+)\\s*\\1[!z]", b"y"),
        (b"(?|(y+)|(z+))\\1+?[xz]", b"y"),
        (b"(*NO_JIT)(a+)+$", b"a"),
    ];
    for (text, letter) in rows {
        for length in [40, 500, 8_000] {
            let mut subject = letter.repeat(length);
            subject.push(b'#');
            // The best of some, as others may want the processor. Without a limit it would be
            // years.
            for jit in [false, true] {
                let budget = WorkBudget::new(50_000_000).with_jit(jit);
                let answer = compiled(text).is_match(&subject, budget.meter());
                assert!(
                    length < 8_000 || answer == Err(Exhausted),
                    "/{}/ {answer:?}",
                    text.escape_ascii()
                );
            }
        }
    }
}

/// PCRE2's machine code has a small stack by default, Apache's interpreter has none.
#[test]
fn deep_recursion_is_no_failure() {
    let subject = [&b"ab".repeat(4_000)[..], b"c"].concat();
    assert_eq!(compiled(b"^(?:a|b)*c").is_match(&subject, Meter::unlimited()), Ok(true));
    assert_eq!(compiled(b"^(?:(a)|(b))*?c$").is_match(&subject, Meter::unlimited()), Ok(true));
}

#[test]
fn captures_are_kept_where_nothing_matches() {
    let mut captures = Captures::default();
    assert!(compiled(b"(b)").captures(b"abc", &mut captures, Meter::unlimited()).unwrap());
    assert!(!compiled(b"([xy])").captures(b"abc", &mut captures, Meter::unlimited()).unwrap());
    assert_eq!(
        (captures.group(1), captures.len(), captures.subject()),
        (&b"b"[..], 2, &b"abc"[..])
    );
    assert_eq!((captures.group(2), captures.group(99)), (&b""[..], &b""[..]));
}

#[test]
fn a_set_finds_the_first_in_order() {
    let texts = ["spider", "(bad|ugly)bot", "^[a-z]+$", "bot", "x?y*"];
    let patterns = texts.iter().map(|text| Arc::new(Pattern::new(text.as_bytes(), true).unwrap()));
    let set = PatternSet::new(patterns.collect());
    let (mut candidates, mut captures) = (Candidates::default(), Captures::default());
    type Row = (&'static [u8], usize, &'static [u8], &'static [u32]);
    let rows: &[Row] = &[
        (b"Some SPIDER, a bot", 0, b"SPIDER", &[0, 1, 2, 3, 4]),
        (b"UglyBot/1", 1, b"UglyBot", &[1, 2, 3, 4]),
        (b"robot", 2, b"robot", &[1, 2, 3, 4]),
        (b"robot/1", 3, b"bot", &[1, 2, 3, 4]),
        (b"none!", 4, b"", &[2, 4]),
    ];
    for (subject, first, matched, tried) in rows {
        assert_eq!(set.candidates(subject, &mut candidates, Meter::unlimited()), *tried);
        assert_eq!(
            set.first_match(subject, &mut candidates, &mut captures, Meter::unlimited()),
            Ok(Some(*first))
        );
        assert_eq!(captures.group(0), *matched);
    }
}

#[test]
fn what_matches_must_contain() {
    let rows = [
        ("^blog/([0-9]+)/$", "blog/"),
        ("(?:foo|quux)+[a-z]", "foo quux"),
        ("a.b|cc+", "a cc"),
        ("a?b*", "none"),
        ("x(?=longer)y\\bz", "xyz"),
        ("(?i)ABC{2}d", "abc"),
        ("(?:a|)b[.]c", "b.c"),
        ("(?x)a b", "none"),
        ("[ab]", "none"),
        ("a{0}b{,2}c", "none"),
        ("q\\Qabc\\E", "none"),
    ];
    for (text, expected) in rows {
        let tree = syntax::parse(text.as_bytes(), false);
        let words = tree.and_then(|tree| literals::of(&tree));
        let joined = words.map(|words| words.join(&b' ').escape_ascii().to_string());
        assert_eq!(joined.as_deref().unwrap_or("none"), expected, "{text}");
    }
}

/// More words than one automaton has are searched for in several.
#[test]
fn a_set_of_thousands_finds_each() {
    let pattern = |number: usize| Arc::new(compiled(format!("^/w{number:05}$").as_bytes()));
    let set = PatternSet::new((0..9_000).map(pattern).collect());
    let mut candidates = Candidates::default();
    for number in [0, 4_095, 4_096, 8_191, 8_192, 8_999] {
        let subject = format!("/w{number:05}");
        let found = set.candidates(subject.as_bytes(), &mut candidates, Meter::unlimited());
        assert_eq!(found, [number]);
    }
    assert!(set.candidates(b"/w09000", &mut candidates, Meter::unlimited()).is_empty());
}
