use super::*;
use crate::testing::{settings, try_settings};

fn through(directives: &str, pieces: &[&str]) -> Result<String, TransformError> {
    let mut transformer = Transformer::new(settings(directives).substitute.unwrap());
    let mut out = Vec::new();
    for piece in pieces {
        let taken = transformer.push(piece.as_bytes(), &mut out)?;
        assert_eq!(taken, piece.len());
    }
    transformer.finish(&mut out)?;
    Ok(String::from_utf8(out).unwrap())
}

#[test]
fn substitutions() {
    let table = [
        ("Substitute s/a/b/", "banana\nan", "bbnbnb\nbn"),
        ("Substitute s|/a/|/b/|n", "x/a/a/", "x/b/a/"),
        ("Substitute s/A/b/", "aA", "ab"),
        ("Substitute s/A/b/i", "aA", "bb"),
        ("Substitute s/aB/X/ni", "xAby", "xXy"),
        ("Substitute s/a.c/X/n", "abc a.c", "abc X"),
        ("Substitute s/a.c/X/", "abc a\nc", "X a\nc"),
        ("Substitute s/^a/b/", "aaa", "bbb"),
        ("Substitute s/(a)(b)?/[$1$2$0]/", "ac ab", "[aa]c [abab]"),
        (r"Substitute s/a/\$0\\/", "a", r"$0\"),
        (r"Substitute s/a/$0\n/n", "a", r"$0\n"),
        ("Substitute s/a//", "banana", "bnn"),
        ("Substitute 's/a b/c d/'", "a b", "c d"),
        ("Substitute s/a/b/\nSubstitute s/bb/c/", "ab", "c"),
        ("Substitute s/a/b/q\nSubstitute s/bb/c/", "ab", "bb"),
        ("Substitute s/a/b/q\nSubstitute s/b/c/", "ab", "cc"),
        ("Substitute s/a/b/qf\nSubstitute s/bb/c/", "ab", "c"),
        ("Substitute s/x*/-/", "ab", "-a-b-"),
        ("Substitute s/a$/b/", "a\na", "a\nb"),
    ];
    for (directives, input, expected) in table {
        assert_eq!(through(directives, &[input]).unwrap(), expected, "{directives} on {input}");
        let bytes: Vec<&str> = input.split("").collect();
        assert_eq!(
            through(directives, &bytes).unwrap(),
            expected,
            "{directives} on the bytes of {input}"
        );
    }
}

#[test]
fn lines_have_a_limit() {
    let limited = "SubstituteMaxLineLength 10\nSubstitute s/a/bb/";
    assert_eq!(through(limited, &["1234567a\n12345"]).unwrap(), "1234567bb\n12345");
    for pieces in [&["12345678901", "a"][..], &["1234567890", "1"], &["aaaaaa\n"]] {
        assert_eq!(through(limited, pieces), Err(TOO_LONG), "{pieces:?}");
    }
}

#[test]
fn whole_lines_come_out_at_once() {
    let mut transformer = Transformer::new(settings("Substitute s/a/b/").substitute.unwrap());
    let mut out = Vec::new();
    transformer.push(b"a\na", &mut out).unwrap();
    assert_eq!(out, b"b\n");
    Transform::flush(&mut transformer, &mut out).unwrap();
    assert_eq!(out, b"b\n");
    transformer.finish(&mut out).unwrap();
    assert_eq!(out, b"b\nb");
}

#[test]
fn lines_wait_until_their_output_has_room() {
    let directives = format!("Substitute s/a/{}/n", "b".repeat(1000));
    let mut transformer = Transformer::new(settings(&directives).substitute.unwrap());
    let content = "aaaaaaaaaa\n".repeat(100);
    let (mut rest, mut length) = (content.as_bytes(), 0);
    while !rest.is_empty() {
        let mut out = Vec::new();
        let taken = transformer.push(rest, &mut out).unwrap();
        assert!(taken > 0 && out.len() <= OUTPUT + 10_001, "{taken}, {}", out.len());
        length += out.len();
        rest = &rest[taken..];
    }
    assert_eq!(length, 100 * 10_001);
}

#[test]
fn no_line_is_longer_than_memory_allows() {
    let shared = settings("Substitute s/a/b/\nSubstituteMaxLineLength 1g").substitute.unwrap();
    let mut transformer = Transformer::new(shared);
    let (piece, mut out) = (vec![b'x'; 1 << 20], Vec::new());
    for _ in 0..8 {
        transformer.push(&piece, &mut out).unwrap();
    }
    assert_eq!(transformer.push(b"x", &mut out), Err(TOO_LONG));
    assert!(Transform::memory(&transformer) >= 8 << 20);
}

#[test]
fn a_line_in_pieces_is_no_longer_than_one_in_whole() {
    // Ten pieces, of which each would be short enough.
    let both = "SubstituteMaxLineLength 100\nSubstitute s/a/bb/nq\nSubstitute s/b/cccccc/n";
    assert_eq!(through(both, &["aaaaaaaaaa\n"]), Err(TOO_LONG));
    assert_eq!(through(both, &["aaaaa\n"]).unwrap(), format!("{}\n", "c".repeat(60)));
    let quick = "Substitute s/a/b/nq";
    assert_eq!(through(quick, &["a".repeat(60_000).as_str()]), Err(TOO_MANY));
    assert_eq!(through(quick, &["a".repeat(40_000).as_str()]).unwrap(), "b".repeat(40_000));
}

#[test]
fn folders_below_come_first() {
    let (base, add) = (settings("Substitute s/a/b/"), settings("Substitute s/a/c/"));
    let inherit = settings("Substitute s/a/c/\nSubstituteInheritBefore on");
    for (add, expected) in [(add, "c"), (inherit, "b")] {
        let mut transformer = Transformer::new(base.merge(&add).substitute.unwrap());
        let mut out = Vec::new();
        transformer.push(b"a", &mut out).unwrap();
        transformer.finish(&mut out).unwrap();
        assert_eq!(out, expected.as_bytes());
    }
}

/// A replacement of thousands of captures of a whole line would be gigabytes.
#[test]
fn a_replacement_that_becomes_too_long_is_never_put_together() {
    let line = vec![b'x'; 900_000];
    let mut matching = 0;
    for (times, expected) in [(0, Ok(())), (1, Ok(())), (2, Err(TOO_LONG)), (3_900, Err(TOO_LONG))]
    {
        let captures = if times == 0 {
            "$2".to_owned()
        } else {
            "$1".repeat(times)
        };
        let directive = format!("Substitute s/(.*)/{captures}/");
        let config = settings(&directive).substitute.unwrap();
        let mut transformer = Transformer::new(config);
        let mut out = Vec::new();
        transformer.push(&line, &mut out).unwrap();
        let before = transformer.work.used();
        assert_eq!(transformer.finish(&mut out), expected, "{times}");
        let copied = (transformer.work.used() - before) * 16;
        match times {
            0 => matching = copied,
            _ => assert!((890_000..1_800_000).contains(&(copied - matching)), "{copied} bytes"),
        }
    }
}

#[test]
fn lengths_have_units() {
    for (length, bytes) in [
        ("7", 7),
        ("7b", 7),
        ("2k", 2048),
        ("2K", 2048),
        ("2m", 2 << 20),
        ("1g", 1 << 30),
        ("b", 0),
    ] {
        let shared = settings(&format!("SubstituteMaxLineLength {length}")).substitute.unwrap();
        assert_eq!(shared.longest_line, Some(bytes), "{length}");
    }
}

#[test]
fn mistakes() {
    for line in [
        "Substitute a/b/c/",
        "Substitute s",
        "Substitute s/",
        "Substitute s//a/",
        "Substitute s/a",
        "Substitute s/(/a/",
        "Substitute s/a/b/g",
        "SubstituteMaxLineLength 1x",
        "SubstituteMaxLineLength -1",
    ] {
        assert!(try_settings(line).is_err(), "{line}");
    }
    for line in [
        "Substitute S/a/b",
        "Substitute s/a/",
        "SubstituteMaxLineLength 2M",
        "SubstituteMaxLineLength 5b",
    ] {
        assert!(try_settings(line).is_ok(), "{line}");
    }
}
