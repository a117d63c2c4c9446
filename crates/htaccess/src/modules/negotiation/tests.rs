mod choice;
mod work;

use super::*;
use crate::phases::negotiation::choose;
use crate::testing::{Nowhere, request, settings, transaction, try_settings};

const LANGUAGES: &str =
    "AddLanguage en .en\nAddLanguage de .de\nAddLanguage fr .fr\nAddLanguage en-gb .gb";

fn base(extension: &[u8]) -> Option<&'static str> {
    match extension {
        b"html" => Some("text/html"),
        b"txt" => Some("text/plain"),
        b"png" => Some("image/png"),
        b"gif" => Some("image/gif"),
        _ => None,
    }
}

struct Answer {
    outcome: Result<Option<Vec<u8>>, Status>,
    fields: howdah_http::Fields,
    notes: howdah_http::Fields,
}

fn ask(directives: &str, names: &[&'static str], target: &str, fields: &str) -> Answer {
    let request = request(target, fields);
    let mut tx = transaction(&request);
    tx.state.args = request.query().map(<[u8]>::to_vec);
    let mut context = Nowhere { names: names.to_vec() };
    let outcome = choose(&mut tx, &settings(directives), &mut context, &base);
    Answer {
        outcome,
        fields: tx.state.error_fields,
        notes: tx.state.notes,
    }
}

fn found(directives: &str, names: &[&'static str], target: &str, fields: &str) -> String {
    match ask(directives, names, target, fields).outcome {
        Ok(Some(name)) => String::from_utf8(name).unwrap(),
        Ok(None) => "-".to_owned(),
        Err(status) => status.code().to_string(),
    }
}

#[test]
fn which_files() {
    let table: [(&str, &[&str], &str, &str); 24] = [
        // A list of variants is not read, and its text is no variant.
        ("AddHandler type-map .var\nMultiviewsMatch Handlers", &["a.html.var"], "/a", "404"),
        ("AddType application/x-type-map .var", &["a.var", "a.html"], "/a", "a.html"),
        // A script runs, so it is one without any type.
        ("AddLanguage en .php", &["a.php"], "/a", "a.php"),
        ("AddLanguage en .phx", &["a.phx"], "/a", "404"),
        ("", &["a.html"], "/a", "a.html"),
        ("", &["a.html", "b.html"], "/b", "b.html"),
        ("", &["a.html"], "/b", "-"),
        ("", &["ab.html"], "/a", "-"),
        ("", &["a"], "/a", "-"),
        ("", &["a.unknown"], "/a", "404"),
        ("", &["a.b.html"], "/a", "404"),
        ("", &["a.b.html"], "/a.b", "a.b.html"),
        ("", &["a.b.html"], "/a.html", "-"),
        ("AddHandler h .h", &["a.h"], "/a", "404"),
        ("AddHandler h .h\nMultiviewsMatch Handlers", &["a.h"], "/a", "a.h"),
        ("AddLanguage en .html", &["a.html"], "/a", "a.html"),
        ("AddType text/x .h\nAddHandler h .h\nMultiviewsMatch Handlers", &["a.h"], "/a", "a.h"),
        ("AddType text/x .f\nAddOutputFilter INFLATE .f", &["a.f"], "/a", "a.f"),
        (
            "AddType text/x .f\nAddOutputFilter INFLATE .f\nMultiviewsMatch Filters",
            &["a.f"],
            "/a",
            "a.f",
        ),
        ("AddInputFilter INFLATE .f", &["a.html.f"], "/a", "404"),
        ("AddInputFilter INFLATE .f\nMultiviewsMatch Filters", &["a.html.f"], "/a", "a.html.f"),
        (
            "AddType text/x .f\nAddInputFilter INFLATE .f\nMultiviewsMatch Filters",
            &["a.f"],
            "/a",
            "a.f",
        ),
        ("MultiviewsMatch Any", &["a.html.bak"], "/a", "a.html.bak"),
        ("AddType application/x-httpd-php .php", &["a.php"], "/a", "a.php"),
    ];
    for (directives, names, target, expected) in table {
        assert_eq!(
            found(directives, names, target, ""),
            expected,
            "{directives} {names:?} {target}"
        );
    }
}

#[test]
fn types() {
    let names = &["a.html", "a.txt", "a.png"];
    let table = [
        ("", "a.html"),
        ("Accept: text/plain", "a.txt"),
        ("Accept: text/plain;q=0.5, text/html;q=0.4", "a.txt"),
        ("Accept: image/*, text/html", "a.html"),
        ("Accept: image/*, text/html;q=0.9", "a.png"),
        ("Accept: text/*;q=0.3, image/png;q=0.2", "a.html"),
        ("Accept: */*;q=0.1, text/*", "a.html"),
        ("Accept: application/pdf", "406"),
        ("Accept: text/html;level=1, text/plain", "a.txt"),
        ("Accept: text/html;q=0, */*", "a.txt"),
        ("Accept: text/html;q=0.5, */*;q=0.9, text/plain;q=0.6, image/png;q=0.7", "a.png"),
        ("Accept: text/html;q=0.5, text/*;q=0.9, image/png;q=0.7", "a.txt"),
        ("Accept: text/*, text/html;q=0.5, image/png;q=0.7", "a.txt"),
        // Without qualities, a type counts more than all of its kind, and these more than all.
        ("Accept: image/png, */*", "a.png"),
        ("Accept: */*, image/*", "a.png"),
        ("Accept: image/*, text/plain", "a.txt"),
        // With one they are what they say.
        ("Accept: */*, text/plain;q=0.9", "a.html"),
        ("Accept: text/*, image/png;q=0.9", "a.html"),
    ];
    for (fields, expected) in table {
        assert_eq!(found("", names, "/a", fields), expected, "{fields}");
    }
}

#[test]
fn a_script_is_the_last_choice_unless_it_is_asked_something() {
    let directives = "AddHandler h .h\nMultiviewsMatch Handlers";
    let names = &["a.h", "a.html"];
    assert_eq!(found(directives, names, "/a", ""), "a.html");
    assert_eq!(found(directives, names, "/a?b", ""), "a.h");
}

#[test]
fn languages() {
    let names = &["a.html.en", "a.html.de", "a.html.fr", "a.html.gb"];
    let table = [
        ("", "Accept-Language: de", "a.html.de"),
        ("", "Accept-Language: de;q=0.5, fr;q=0.7", "a.html.fr"),
        ("", "Accept-Language: en", "a.html.en"),
        ("", "Accept-Language: en-gb", "a.html.gb"),
        ("", "Accept-Language: en-us", "a.html.en"),
        ("", "Accept-Language: en-us, fr;q=0.1", "a.html.fr"),
        ("", "Accept-Language: *;q=0.3, de;q=0.2, en;q=0.1", "a.html.fr"),
        ("", "Accept-Language: es", "406"),
        ("LanguagePriority fr de", "", "a.html.fr"),
        ("LanguagePriority fr de", "Accept-Language: de, fr", "a.html.fr"),
        (
            "LanguagePriority fr de\nForceLanguagePriority None",
            "Accept-Language: de, fr",
            "a.html.de",
        ),
        ("LanguagePriority fr de", "Accept-Language: es", "406"),
        (
            "LanguagePriority fr de\nForceLanguagePriority Fallback",
            "Accept-Language: es",
            "a.html.fr",
        ),
        ("LanguagePriority es\nForceLanguagePriority Fallback", "Accept-Language: es", "406"),
        (
            "LanguagePriority fr de\nForceLanguagePriority Fallback",
            "Accept-Language: de, fr",
            "a.html.de",
        ),
        (
            "LanguagePriority fr de\nForceLanguagePriority Prefer Fallback",
            "Accept-Language: de, fr",
            "a.html.fr",
        ),
        (
            "LanguagePriority fr de\nForceLanguagePriority Prefer Fallback",
            "Accept-Language: es",
            "a.html.fr",
        ),
        (
            "LanguagePriority fr de\nForceLanguagePriority Prefer\nForceLanguagePriority Fallback",
            "Accept-Language: de, fr",
            "a.html.fr",
        ),
        (
            "LanguagePriority fr de\nForceLanguagePriority Fallback\nForceLanguagePriority Prefer",
            "Accept-Language: es",
            "a.html.fr",
        ),
        ("LanguagePriority fr de", "Accept-Language: de, fr;q=0.9", "a.html.de"),
        ("LanguagePriority FR de", "Accept-Language: de, fr", "a.html.fr"),
        ("LanguagePriority frx fr", "Accept-Language: de, fr", "a.html.fr"),
        // The longest range counts, and of equal ones the first.
        ("", "Accept-Language: en-gb;q=0.1, en-gbx, en;q=0.2, fr;q=0.15", "a.html.en"),
        ("", "Accept-Language: fr;q=0.1, fr;q=0.9, de;q=0.5", "a.html.de"),
        ("", "Accept-Language: e, fr;q=0.1", "a.html.fr"),
    ];
    for (directives, fields, expected) in table {
        let directives = format!("{LANGUAGES}\n{directives}");
        assert_eq!(found(&directives, names, "/a", fields), expected, "{directives} {fields}");
    }
    let with_plain = &["a.html", "a.html.de"];
    assert_eq!(found(LANGUAGES, with_plain, "/a", "Accept-Language: fr"), "a.html");
    assert_eq!(found(LANGUAGES, with_plain, "/a", "Accept-Language: de;q=0.1"), "a.html.de");
}

#[test]
fn encodings_and_charsets() {
    let encoded = "AddEncoding x-gzip .gz\nAddCharset utf-8 .utf8\nAddCharset iso-8859-2 .l2\n\
        AddCharset iso-8859-1 .l1\nAddEncoding 7bit .b7";
    let table: [(&[&str], &str, &str); 24] = [
        (&["a.html", "a.html.gz"], "", "a.html"),
        (&["a.html", "a.html.gz"], "Accept-Encoding: gzip", "a.html.gz"),
        (&["a.html", "a.html.gz"], "Accept-Encoding: gzip;q=0", "a.html"),
        (&["a.html.gz"], "Accept-Encoding: br", "406"),
        (&["a.html.gz"], "", "a.html.gz"),
        (&["a.html.l2", "a.html.utf8"], "Accept-Charset: utf-8", "a.html.utf8"),
        (&["a.html.l2", "a.html.utf8"], "Accept-Charset: utf-8;q=0.1, *;q=0.2", "a.html.l2"),
        (&["a.html", "a.html.utf8"], "Accept-Charset: iso-8859-1;q=0.5, utf-8", "a.html.utf8"),
        (&["a.html.l2"], "Accept-Charset: utf-8", "406"),
        (&["a.html.gz", "a.html"], "Accept-Encoding: identity;q=0.5, gzip;q=0.4", "a.html"),
        (&["a.html", "a.html.gz"], "Accept-Encoding: identity;q=0, gzip", "a.html.gz"),
        (&["a.html.gz", "a.html"], "Accept-Encoding: *;q=0.5, gzip;q=0.4", "a.html"),
        (&["a.html", "a.html.gz"], "Accept-Encoding: gzip;q=0.3, *;q=0.2", "a.html.gz"),
        (&["a.html.gz"], "Accept-Encoding: *;q=0", "406"),
        (&["a.html.b7"], "Accept-Encoding: br", "a.html.b7"),
        (&["a.html.gz", "a.html"], "", "a.html"),
        // Text without a charset has the default of HTTP/1.1, which every client takes.
        (&["a.html"], "Accept-Charset: utf-8", "a.html"),
        (&["a.html"], "Accept-Charset: iso-8859-1;q=0, utf-8", "406"),
        (&["a.png"], "Accept-Charset: iso-8859-1;q=0, utf-8", "a.png"),
        (&["a.html.l1", "a.html.l2"], "Accept-Charset: utf-8", "a.html.l1"),
        // Of equals, a charset is better than that default.
        (&["a.html", "a.html.utf8"], "", "a.html.utf8"),
        (&["a.html.l1", "a.html.utf8"], "", "a.html.utf8"),
        (&["a.html.l1", "a.html"], "", "a.html.l1"),
        (&["a.html.l2", "a.html.utf8"], "", "a.html.l2"),
    ];
    for (names, fields, expected) in table {
        assert_eq!(found(encoded, names, "/a", fields), expected, "{names:?} {fields}");
    }
}

#[test]
fn the_shorter_one_wins_a_tie() {
    assert_eq!(found("", &["x", "a.gif", "a.png"], "/a", "Accept: image/png, image/gif"), "a.gif");
    assert_eq!(found("", &["a.png", "a.gif"], "/a", "Accept: image/png, image/gif"), "a.png");
}

#[test]
fn fields() {
    let field = |answer: &Answer, name: &str| {
        let value = answer.fields.value(name.as_bytes()).unwrap_or(b"-");
        String::from_utf8_lossy(value).into_owned()
    };
    let names = &["a.html.en", "a.html.de"];
    let answer = ask(LANGUAGES, names, "/a", "Accept-Language: de");
    assert_eq!(field(&answer, "Vary"), "negotiate, accept-language");
    assert_eq!(field(&answer, "TCN"), "choice");
    assert_eq!(field(&answer, "Content-Location"), "a.html.de");
    assert_eq!(field(&answer, "Alternates"), "-");

    let answer = ask(LANGUAGES, names, "/a", "Accept-Language: fr");
    let alternates = "{\"a.html.de\" 1 {type text/html} {language de} {length 1}}, \
                      {\"a.html.en\" 1 {type text/html} {language en} {length 0}}";
    assert_eq!(field(&answer, "Alternates"), alternates);
    assert_eq!(field(&answer, "TCN"), "list");
    let list = String::from_utf8_lossy(answer.notes.value(b"variant-list").unwrap()).into_owned();
    assert!(
        list.contains(
            "<li><a href=\"a.html.de\">a.html.de</a> , type text/html, language de</li>\n"
        ),
        "{list}"
    );

    let answer = ask("", &["a.html", "a.txt"], "/a", "");
    assert_eq!(field(&answer, "Vary"), "negotiate, accept");
    let answer = ask("AddType text/plain;qs=0.25 .low", &["a.low"], "/a", "Accept: image/png");
    assert_eq!(field(&answer, "Alternates"), "{\"a.low\" 0.25 {type text/plain} {length 0}}");

    let answer = ask(LANGUAGES, names, "/a", "Negotiate: vlist");
    assert_eq!(answer.outcome, Err(Status::MULTIPLE_CHOICES));
    let answer =
        ask(LANGUAGES, names, "/a", "Negotiate: 1.0\nAccept-Language: de\nAccept: text/html");
    assert_eq!(answer.outcome, Ok(Some(b"a.html.de".to_vec())));
    assert!(field(&answer, "Alternates").contains("a.html.en"));
}

#[test]
fn what_a_section_denies_is_no_variant() {
    let mut with_section = settings("");
    let section = crate::settings::ConditionalSection { branches: Vec::new() };
    with_section.conditions.push(std::sync::Arc::new(section));
    let request = request("/a", "");
    let mut tx = transaction(&request);
    // Nothing is found there by a sub-request.
    let mut context = Nowhere { names: vec!["a.html"] };
    assert_eq!(choose(&mut tx, &with_section, &mut context, &base), Err(Status::NOT_FOUND));
}

#[test]
fn sections_for_files_are_asked_as_well() {
    let with_section = settings("<Files other>\nRequire all denied\n</Files>");
    let request = request("/a", "");
    let mut tx = transaction(&request);
    // A sub-request finds nothing there.
    let mut context = Nowhere { names: vec!["a.html"] };
    assert_eq!(choose(&mut tx, &with_section, &mut context, &base), Err(Status::NOT_FOUND));
    assert_eq!(found("", &["a.html"], "/a", ""), "a.html");
}

#[test]
fn variables() {
    let choose_with = |name: &str, value: &str| {
        let request = request("/a", "Accept-Encoding: gzip");
        let mut tx = transaction(&request);
        tx.state.env.set(name.as_bytes(), value.as_bytes());
        let mut context = Nowhere {
            names: vec!["a.html.en", "a.html.de", "a.html.gz"],
        };
        let directives = format!("{LANGUAGES}\nAddEncoding gzip .gz");
        let found = choose(&mut tx, &settings(&directives), &mut context, &base);
        String::from_utf8(found.unwrap().unwrap()).unwrap()
    };
    assert_eq!(choose_with("prefer-language", "de"), "a.html.de");
    assert_eq!(choose_with("prefer-language", "xx"), choose_with("x", "y"));
    assert_ne!(choose_with("no-gzip", "1"), "a.html.gz");
}

#[test]
fn the_name_of_an_encoding_is_the_clients() {
    let table = [
        ("x-gzip", "Accept-Encoding: gzip", "gzip"),
        ("gzip", "Accept-Encoding: x-gzip", "x-gzip"),
        ("x-gzip", "Accept-Encoding: x-gzip, gzip", "gzip"),
        ("x-gzip", "Accept-Encoding: br", "x-gzip"),
        ("x-gzip", "", "x-gzip"),
    ];
    for (encoding, fields, expected) in table {
        let request = request("/", fields);
        let mut tx = transaction(&request);
        tx.state.encoding = Some(encoding.as_bytes().to_vec());
        fixup(&mut tx);
        assert_eq!(tx.state.encoding.as_deref(), Some(expected.as_bytes()), "{encoding} {fields}");
    }
}

#[test]
fn mistakes() {
    for line in [
        "ForceLanguagePriority None Prefer",
        "ForceLanguagePriority Fallback None",
        "ForceLanguagePriority Some",
        "CacheNegotiatedDocs on",
    ] {
        assert!(try_settings(line).is_err(), "{line}");
    }
    assert!(try_settings("ForceLanguagePriority Prefer Fallback").is_ok());
    assert!(try_settings("MultiviewsMatch NegotiatedOnly").is_ok());
    assert!(try_settings("MultiviewsMatch NegotiatedOnly Any").is_err());
}
