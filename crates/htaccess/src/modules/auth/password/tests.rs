use super::*;

const LONG: &str = "a longer passphrase of forty-two bytes, é!";

/// Hashes that `crypt(3)`, `openssl passwd` and `htpasswd` wrote.
const HASHES: &[(&str, &str)] = &[
    ("secret", "{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ="),
    ("secret", "$apr1$saltsalt$LrttParrLPdxvgutaSXWJ0"),
    ("", "$apr1$saltsalt$a8ml/vK5HEjiZ5oypDWA7/"),
    (LONG, "$apr1$saltsalt$VCZXqF.u7/iQlaMOV9FG0."),
    ("secret", "$1$saltsalt$9xy1btjgzLYfb7hivXtC//"),
    ("", "$1$saltsalt$5Jhcit4zN9UlGiA0txPkO0"),
    (LONG, "$1$saltsalt$Wxi8Z1WgdFUlVTmuFUsb3/"),
    ("secret", "$5$saltstring$C3o4O1TC6aRHF4FI.QSZMXtHbaj2gSXr4sUc/3NcUi."),
    ("", "$5$saltstring$FdNfA4gXqvCeO6iZs7G/.wwwoywYZqo0l1pwmfWaBA7"),
    (LONG, "$5$rounds=1400$anotherlongsalts$64dyzzyRExNhsOYHkJBQ7lc8aJ9qCYxsGIy3tVbzXR."),
    (
        "secret",
        "$6$saltstring$AIsRs/Ee56G/tC8MEHhvReZTfx8u3rXXMl6eYrjCG9ibix19DxoMBLogdTET5Ukw9Sf7eZTITsuk0Ry5qulYz.",
    ),
    (
        LONG,
        "$6$rounds=1400$anotherlongsalts$LIvxGddkiJHTXqVrls50Z0V1RTjXp4ZWzAHyOa4QBwF8lFBOL9oxSzLuNmMZm1.VPMF.6IQvyc2hChiTrBezd1",
    ),
    ("secret", "abNANd1rDfiNc"),
    ("", "abmF1QH4PEr.E"),
    (LONG, "abkcfEndDLESY"),
    ("a longer than eight", "abkcfEndDLESY"),
    ("secret", "..EBVOMug1tuI"),
    ("secret", "$2y$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a"),
    ("", "$2b$04$abcdefghijklmnopqrstuubyCG3zY1GIXMyxfivm.ClDiInHzxjiq"),
    (LONG, "$2a$04$abcdefghijklmnopqrstuuD.HmvFIxWSqF/ys1B3ZrD1TIGYixszW"),
];

#[test]
fn passwords_fit_their_hashes_and_no_others() {
    for (password, hash) in HASHES {
        assert!(is_known(hash.as_bytes()), "{hash}");
        assert!(fits(hash.as_bytes(), password.as_bytes()), "{password} {hash}");
        for other in ["Secret", "secre", "x", "secret2"] {
            assert!(!fits(hash.as_bytes(), other.as_bytes()), "{other} {hash}");
        }
        let cut = &hash[..hash.len() - 1];
        assert!(!fits(cut.as_bytes(), password.as_bytes()), "{cut}");
    }
}

#[test]
fn what_is_no_hash_fits_nothing() {
    for hash in [
        "",
        "secret",
        "{SHA}",
        "$apr1$",
        "$apr1$saltsalt$",
        "$apr1$salt",
        "$5$rounds=10$salt$x",
        "$5$rounds=999999999$salt$x",
        "$6$",
        "$2y$05$",
        "$2y$31$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a",
        "$2y$xx$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a",
        "$y$j9T$salt$hash",
        "*",
    ] {
        for password in ["", "secret", hash] {
            assert!(!fits(hash.as_bytes(), password.as_bytes()), "{hash} {password}");
        }
    }
}

#[test]
fn hashes_are_known_up_to_a_cost() {
    let bcrypt =
        |cost: u8| format!("$2y${cost:02}$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a");
    let sha2 = |rounds: u32| format!("$6$rounds={rounds}$salt$x");
    for (hash, expected) in [
        (bcrypt(HIGHEST_BCRYPT_COST), true),
        (bcrypt(HIGHEST_BCRYPT_COST + 1), false),
        (sha2(HIGHEST_SHA2_ROUNDS), true),
        (sha2(HIGHEST_SHA2_ROUNDS + 1), false),
        ("secret".to_owned(), false),
        ("$1$salt$x".to_owned(), true),
    ] {
        assert_eq!(is_known(hash.as_bytes()), expected, "{hash}");
    }
}

#[test]
fn a_password_ends_where_c_has_it_end() {
    assert!(fits(b"{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=", b"secret\0and more"));
    assert!(!fits(b"abNANd1rDfiNc", &[b'x'; 600]));
}

#[test]
fn only_hashes_of_apache_itself_take_longer_passwords_than_crypt_does() {
    let digest = |magic: &'static [u8], password: &[u8]| -> Vec<u8> {
        [magic, b"salt$", &md5_crypt::hash(magic, b"salt", password)].concat()
    };
    for (length, expected) in [(511, true), (512, false)] {
        let password = vec![b'x'; length];
        assert!(fits(&digest(APR1, &password), &password), "{length}");
        assert_eq!(fits(&digest(b"$1$", &password), &password), expected, "{length}");
        let hash = des_crypt::hash(*b"ab", &password);
        assert_eq!(fits(&hash, &password), expected, "{length}");
    }
}

#[test]
fn only_the_plain_digest_is_fast() {
    for (_, hash) in HASHES {
        assert_eq!(is_slow(hash.as_bytes()), !hash.starts_with("{SHA}"), "{hash}");
    }
    assert!(!is_slow(b"plain"));
}
