//! String expressions and functions.

use super::{Expression, all_are, rendered};

#[test]
fn functions_of_all_kinds() {
    let rows = [
        ("%{req:X-Number}|%{http:x-number}|%{req_novary:X-Number}|%{req:None}", "42|42|42|"),
        ("%{req:X-Two}", "a, b"),
        ("%{resp:X-Sent}|%{resp:X-Always}|%{resp:None}", "sent|always|"),
        ("%{reqenv:SET}|%{env:SET}|%{osenv:SET}", "in env|in env|"),
        ("%{reqenv:OS}|%{env:OS}|%{osenv:OS}", "|from outside|from outside"),
        ("%{note:NOTED}|%{env:NOTED}", "in notes|in notes"),
        ("%{tolower:AbC\\303\\211}|%{TOUPPER:abc}", "abc\\xc3\\x89|ABC"),
        ("%{md5:abc}", "900150983cd24fb0d6963f7d28e17f72"),
        ("%{sha1:abc}", "a9993e364706816aba3e25717850c26c9cd0d89d"),
        ("%{base64:a}|%{base64:ab}|%{base64:abc}|%{base64:abcd}", "YQ==|YWI=|YWJj|YWJjZA=="),
        (
            "%{unbase64:YWJj}|%{unbase64:YWJ}|%{unbase64:Y}|%{unbase64:YW Jj}|%{unbase64:AAAA}",
            "abc|ab||a|",
        ),
        ("%{escape:a b?c/d~\\303\\251\\%}", "a%20b%3fc/d~%c3%a9%25"),
        ("%{unescape:%{req:X-Escaped}}|%{unescape:%2f%41}", "a%2Fb c|%2fA"),
        ("%{unescape:a%zz}|%{unescape:a%00}|%{unescape:%4}", "||"),
        ("%{ldap:a*(b)\\\\+\\303#=}", "a\\\\2a\\\\28b\\\\29\\\\5c\\\\2b\\\\c3#="),
        ("%{tolower:A%{toupper:b}C}", "abc"),
    ];
    for (text, expected) in rows {
        assert_eq!(rendered(text), Ok(expected.to_owned()), "{text}");
    }
    all_are(
        "yes",
        &[
            "tolower('A' . \"B\") == 'ab'",
            "md5 ('abc') =~ /^9001/",
            "tolower(1) == '1'",
            "req(%{HTTP_HOST}) == ''",
        ],
    );
    all_are(
        "wrong",
        &[
            "none('x') == ''",
            "%{none:x} == ''",
            "%{HTTP_HOST:x} == ''",
            "req() == ''",
            "req('a','b') == ''",
            "req 'a' == ''",
            "%{req:} == ''",
            "file('/files/file') == ''",
            "filesize('/files/file') == '0'",
            "tolower(a) == 'a'",
        ],
    );
}

#[test]
fn strings() {
    let rows = [
        ("", ""),
        ("plain", "plain"),
        ("$1|a$b|50% off|%|}|{a}", "|a$b|50% off|%|}|{a}"),
        ("it's \"quoted\"", "it\\'s \\\"quoted\\\""),
        ("a\\tb\\\\c\\\"d\\q\\101\\0rest", "a\\tb\\\\c\\\"dqA"),
        ("\\%{HTTP_HOST}\\$1", "%{HTTP_HOST}$1"),
        ("%{tolower:A\\}B:C{D%E$F}", "a}b:c{d%e$f"),
    ];
    for (text, expected) in rows {
        assert_eq!(rendered(text), Ok(expected.to_owned()), "{text}");
    }
    let wrong = [
        ("a\\", 1),
        ("\\8", 0),
        ("\\18", 0),
        ("\\400", 0),
        ("\\1013333333333333", 0),
        ("a%{X", 4),
        ("%{", 2),
        ("a\nb", 1),
        ("%{A B}", 3),
        ("%{req:a\"b}", 7),
        ("x%{nosuch}", 1),
    ];
    for (text, place) in wrong {
        let bad = Expression::string(text.as_bytes()).expect_err(text);
        assert_eq!(bad.offset, place, "{text}: {}", bad.message);
    }
    all_are(
        "yes",
        &[
            "'a\\'b' == \"a'b\"",
            "'\\n' == \"\\n\"",
            "'\\101' == 'A'",
            "'\\x' == 'x'",
            "'%' == \"%\"",
        ],
    );
    all_are("wrong", &["'abc", "\"abc'", "'abc\\'", "'%{HTTP_HOST' == ''"]);
    let long = "x".repeat(8191);
    assert_eq!(rendered(&long), Ok(long.clone()));
    assert!(rendered(&format!("{long}x")).is_err());
    all_are("no", &[&format!("'a' =~ /{long}/")]);
    all_are("wrong", &[&format!("'a' =~ /{long}x/")]);
}
