//! The choice among variants: the order of the criteria, and the algorithm of RFC 2296.

use howdah_http::Method;

use super::{LANGUAGES, Nowhere, base, choose, found, request, settings, transaction};

#[test]
fn qualities_and_levels_of_the_server() {
    let directives = "AddType text/plain;qs=0.5 .low\nAddType text/html;level=1 .h1\n\
        AddType text/html;level=3 .h3";
    let table: [(&[&str], &str, &str); 10] = [
        (&["a.low", "a.png"], "", "a.png"),
        (&["a.low", "a.png"], "Accept: text/plain, image/png;q=0.4", "a.low"),
        (&["a.low", "a.png"], "Accept: text/plain, image/png;q=0.6", "a.png"),
        (&["a.low", "a.png"], "Accept: text/plain;q=0.9, image/png;q=0.43", "a.low"),
        // Without weights, a range counts less than a type.
        (&["a.html", "a.png"], "Accept: text/*, image/png", "a.png"),
        (&["a.h3"], "Accept: text/html;level=2", "406"),
        (&["a.h3"], "Accept: text/html;level=3", "a.h3"),
        // The highest level that the client names; else the lowest.
        (&["a.h1", "a.h3"], "Accept: text/html;level=3", "a.h3"),
        (&["a.h3", "a.h1"], "", "a.h1"),
        (&["a.h3", "a.h1"], "Accept: text/html;level=2", "a.h1"),
    ];
    for (names, fields, expected) in table {
        assert_eq!(found(directives, names, "/a", fields), expected, "{names:?} {fields}");
    }
}

#[test]
fn a_range_of_languages_is_for_kinds_of_the_language() {
    let names = &["a.html.gb", "a.html.fr"];
    for (fields, expected) in [
        ("Accept-Language: en-gb;q=0.1, en;q=0.9, fr;q=0.5", "a.html.fr"),
        ("Accept-Language: en;q=0.9, fr;q=0.5", "a.html.gb"),
        ("Accept-Language: en-us, fr;q=0.5", "a.html.fr"),
        ("Accept-Language: en-us", "a.html.gb"),
        ("Accept-Language: es-us", "406"),
    ] {
        assert_eq!(found(LANGUAGES, names, "/a", fields), expected, "{fields}");
    }
    let priority = format!("{LANGUAGES}\nLanguagePriority en fr");
    let fields = "Accept-Language: fr, en-gb";
    assert_eq!(found(&priority, &["a.html.fr", "a.html.gb"], "/a", fields), "a.html.gb");
}

#[test]
fn the_best_language_of_a_file_with_several_counts() {
    for (names, fields, expected) in [
        (["a.html.en.de", "a.html.fr"], "en;q=0.2, de;q=0.8, fr;q=0.5", "a.html.en.de"),
        (["a.html.de.en", "a.html.fr"], "en;q=0.2, de;q=0.8, fr;q=0.5", "a.html.de.en"),
        (["a.html.en.de", "a.html.fr"], "en;q=0.2, de;q=0.4, fr;q=0.5", "a.html.fr"),
        (["a.html.en.fr", "a.html.de"], "en;q=0.1, *;q=0.3, de;q=0.2", "a.html.en.fr"),
        (["a.html.en.fr", "a.html.de"], "en;q=0.3, *;q=0.1, de;q=0.2", "a.html.en.fr"),
        (["a.html.en.fr", "a.html.de"], "en;q=0.1, fr;q=0.1, *;q=0.3, de;q=0.2", "a.html.de"),
    ] {
        let fields = format!("Accept-Language: {fields}");
        assert_eq!(found(LANGUAGES, &names, "/a", &fields), expected, "{names:?} {fields}");
    }
    let fields = "Accept-Language: en, de, fr";
    let names = &["a.html.en", "a.html.de.fr"];
    let priority = format!("{LANGUAGES}\nLanguagePriority fr en");
    assert_eq!(found(&priority, names, "/a", fields), "a.html.de.fr");
}

#[test]
fn priority_only_where_it_is_to_decide() {
    let names = &["a.html.en", "a.html.de"];
    for (force, fields, expected) in [
        ("Prefer", "en, de", "a.html.de"),
        ("Fallback", "en, de", "a.html.en"),
        ("None", "en, de", "a.html.en"),
        ("Prefer", "es", "406"),
        ("Fallback", "es", "a.html.de"),
        ("None", "es", "406"),
        ("Prefer Fallback", "en, de", "a.html.de"),
        ("Fallback Prefer", "en, de", "a.html.de"),
        ("Prefer Fallback", "es", "a.html.de"),
        ("Fallback Prefer", "es", "a.html.de"),
    ] {
        let directives = format!("{LANGUAGES}\nLanguagePriority de\nForceLanguagePriority {force}");
        let fields = format!("Accept-Language: {fields}");
        assert_eq!(found(&directives, names, "/a", &fields), expected, "{force} {fields}");
    }
}

#[test]
fn what_decides_among_variants_that_are_as_good() {
    let directives = "AddLanguage en .en\nAddLanguage de .de\nAddEncoding gzip .gz\n\
        AddCharset utf-8 .utf8\nAddCharset iso-8859-2 .l2\nLanguagePriority de";
    let table: [(&[&str], &str, &str); 6] = [
        // The language, then its place in LanguagePriority, then the charset, then the encoding.
        (&["a.html.de.l2", "a.html.en.utf8"], "Accept-Language: en, de;q=0.9", "a.html.en.utf8"),
        (&["a.html.en.utf8", "a.html.de.l2"], "Accept-Language: en, de", "a.html.de.l2"),
        (&["a.html.en.utf8", "a.html.de.l2"], "Accept-Charset: utf-8, *;q=0.5", "a.html.de.l2"),
        (
            &["a.html.en.gz", "a.html.en.utf8"],
            "Accept-Encoding: gzip, identity;q=0.1\nAccept-Charset: utf-8, *;q=0.5",
            "a.html.en.utf8",
        ),
        (&["a.html.utf8.gz", "a.html.l2"], "Accept-Charset: *", "a.html.l2"),
        (&["a.html.l2", "a.html.utf8.gz"], "Accept-Encoding: gzip, *;q=0.5", "a.html.utf8.gz"),
    ];
    for (names, fields, expected) in table {
        assert_eq!(found(directives, names, "/a", fields), expected, "{names:?} {fields}");
    }
}

/// The client names the algorithm of RFC 2296, which chooses only what the client has named in
/// every respect.
#[test]
fn the_algorithm_of_transparent_negotiation() {
    let directives = "AddLanguage en .en\nAddLanguage de .de\nAddEncoding gzip .gz\n\
        AddCharset utf-8 .utf8\nAddType text/plain;qs=0.5 .low\nLanguagePriority de\n\
        ForceLanguagePriority Fallback";
    let table: [(&[&str], &str, &str); 23] = [
        (&["a.html", "a.png"], "Accept: text/html;q=0.5, image/png;q=0.7", "a.png"),
        (&["a.html", "a.png"], "Accept: text/html;q=0.7, image/png;q=0.5", "a.html"),
        (&["a.html"], "Accept: text/*", "300"),
        (&["a.html"], "", "300"),
        (&["a.html"], "Accept: text/html;q=0", "300"),
        (&["a.low", "a.png"], "Accept: text/plain, image/png;q=0.6", "a.png"),
        (&["a.low", "a.png"], "Accept: text/plain, image/png;q=0.4", "a.low"),
        (&["a.html.en"], "Accept: text/html", "300"),
        (&["a.html.en"], "Accept: text/html\nAccept-Language: en", "a.html.en"),
        (&["a.html.en"], "Accept: text/html\nAccept-Language: *", "300"),
        (&["a.html.de"], "Accept: text/html\nAccept-Language: en", "300"),
        (
            &["a.html.en", "a.png"],
            "Accept: text/html, image/png;q=0.6\nAccept-Language: en;q=0.5",
            "a.png",
        ),
        (&["a.html.utf8"], "Accept: text/html", "300"),
        (&["a.html.utf8"], "Accept: text/html\nAccept-Charset: utf-8", "a.html.utf8"),
        (&["a.html.utf8"], "Accept: text/html\nAccept-Charset: *", "300"),
        (
            &["a.html.utf8", "a.png"],
            "Accept: text/html, image/png;q=0.6\nAccept-Charset: utf-8;q=0.5",
            "a.png",
        ),
        (&["a.html"], "Accept: text/html\nAccept-Charset: *", "a.html"),
        (&["a.html", "a.png"], "Accept: text/html, image/png", "a.html"),
        (
            &["a.html.gz", "a.png"],
            "Accept: text/html, image/png;q=0.5\nAccept-Encoding: gzip;q=0",
            "a.png",
        ),
        // The encoding only breaks a tie.
        (&["a.html", "a.html.gz"], "Accept: text/html\nAccept-Encoding: gzip", "a.html.gz"),
        (&["a.html.gz", "a.html"], "Accept: text/html\nAccept-Encoding: gzip;q=0", "a.html"),
        (
            &["a.html.gz", "a.png"],
            "Accept: text/html, image/png;q=0.9\nAccept-Encoding: gzip;q=0.1",
            "a.html.gz",
        ),
        (
            &["a.html.gz", "a.png"],
            "Accept: text/html, image/png;q=0.5\nAccept-Encoding: gzip;q=0.5, identity",
            "a.html.gz",
        ),
    ];
    for (names, fields, expected) in table {
        let fields = format!("Negotiate: 1.0\n{fields}");
        assert_eq!(found(directives, names, "/a", &fields), expected, "{names:?} {fields}");
    }
}

#[test]
fn variables_that_forbid_encodings() {
    let table: [(&[&str], &str, &str, &str); 7] = [
        (&["a.png", "a.png.gz"], "no-gzip", "1", "a.png"),
        (&["a.png", "a.png.gz"], "gzip-only-text/html", "1", "a.png"),
        (&["a.png", "a.png.gz"], "gzip-only-text/html", "0", "a.png.gz"),
        (&["a.html", "a.html.gz"], "gzip-only-text/html", "1", "a.html.gz"),
        (&["a.html", "a.html.gz"], "no-gzip", "1", "a.html"),
        (&["a.html.b7"], "no-gzip", "1", "a.html.b7"),
        (&["a.html.id"], "no-gzip", "1", "a.html.id"),
    ];
    for (names, variable, value, expected) in table {
        let request = request("/a", "Accept-Encoding: gzip, identity;q=0.5");
        let mut tx = transaction(&request);
        tx.state.env.set(variable.as_bytes(), value.as_bytes());
        let mut context = Nowhere { names: names.to_vec() };
        let encodings = "AddEncoding gzip .gz\nAddEncoding 7bit .b7\nAddEncoding identity .id";
        let found = choose(&mut tx, &settings(encodings), &mut context, &base);
        assert_eq!(found, Ok(Some(expected.into())), "{names:?} {variable}={value}");
    }
}

#[test]
fn directives_of_both_folders_count() {
    let above = settings(&format!("{LANGUAGES}\nLanguagePriority fr de"));
    let merged = above.merge(&settings("ForceLanguagePriority Fallback"));
    let request = request("/a", "Accept-Language: es");
    let mut tx = transaction(&request);
    let mut context = Nowhere { names: vec!["a.html.de", "a.html.fr"] };
    let found = choose(&mut tx, &merged, &mut context, &base);
    assert_eq!(found, Ok(Some(b"a.html.fr".to_vec())));
}

#[test]
fn only_what_is_read_is_transparent() {
    let request = request("/a", "Negotiate: vlist");
    let mut tx = transaction(&request);
    tx.state.method = Method::Post;
    let mut context = Nowhere { names: vec!["a.html"] };
    let found = choose(&mut tx, &settings("AddLanguage en .en"), &mut context, &base);
    assert_eq!(found, Ok(Some(b"a.html".to_vec())));
    assert_eq!(tx.state.error_fields.value(b"TCN"), None);
}

#[test]
fn clients_that_can_choose_get_a_list() {
    for (fields, expected) in [
        ("Negotiate: trans", "300"),
        ("Negotiate: guess-small", "300"),
        ("Negotiate: 2.0", "300"),
        ("Negotiate: *", "a.html"),
        ("Negotiate: x", "406"),
        ("Negotiate: vlist, *", "a.html"),
        ("Negotiate: trans\nUser-Agent: Lynx/2.8", "a.html"),
        ("Negotiate: vlist\nUser-Agent: Lynx/2.8", "300"),
        ("Negotiate: trans\nUser-Agent: x", "300"),
    ] {
        assert_eq!(found("", &["a.html"], "/a", fields), expected, "{fields}");
    }
}
