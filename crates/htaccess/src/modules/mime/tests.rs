use super::*;
use crate::DirectiveSettings;
use crate::testing::{request, settings, transaction, try_settings};
use crate::work::Meter;

/// Type, charset, encoding, languages and handler of a file, `-` for what is not there.
fn found(directives: &str, name: &str) -> String {
    found_with(&settings(directives), name)
}

fn found_with(settings: &DirectiveSettings, name: &str) -> String {
    let request = request(&format!("/{name}"), "");
    let mut tx = transaction(&request);
    find_type(&mut tx, settings.mime.as_deref(), &base);
    let state = &tx.state;
    let languages = (!state.languages.is_empty()).then(|| state.languages.join(&b','));
    let filters = (!state.output_filters.is_empty()).then(|| state.output_filters.join(&b';'));
    let parts = [
        &state.content_type,
        &state.charset,
        &state.encoding,
        &languages,
        &state.handler,
        &filters,
    ];
    let parts: Vec<_> = parts
        .into_iter()
        .map(|part| String::from_utf8_lossy(part.as_deref().unwrap_or(b"-")).into_owned())
        .collect();
    parts.join(" ").trim_end_matches(" -").to_owned()
}

fn base(extension: &[u8]) -> Option<&'static str> {
    match extension {
        b"html" => Some("text/html"),
        b"txt" => Some("text/plain"),
        b"gz" => Some("application/gzip"),
        b"tar" => Some("application/x-tar"),
        b"jpg" => Some("image/jpeg"),
        _ => None,
    }
}

#[test]
fn names() {
    let languages =
        "AddLanguage en .en\nAddLanguage de .DE\nAddEncoding x-gzip gz\nAddCharset UTF-8 .utf8";
    let php = "AddHandler application/x-httpd-php .php";
    let table = [
        ("", "a.html", "text/html"),
        ("", "a.HTML", "text/html"),
        ("", "a", "-"),
        ("", "a.", "-"),
        ("", ".html", "-"),
        ("", "..html", "-"),
        ("", ".a.html", "text/html"),
        ("", "html", "-"),
        ("", "a.html.bak", "text/html"),
        ("", "a.txt.html", "text/html"),
        ("", "a.html..txt", "text/plain"),
        ("", "a.tar.gz", "application/gzip"),
        (languages, "a.html.en", "text/html - - en"),
        (languages, "a.en.html", "text/html - - en"),
        (languages, "a.html.de.en", "text/html - - de,en"),
        (languages, "a.tar.gz", "application/gzip - x-gzip"),
        (languages, "a.html.utf8", "text/html utf-8"),
        (languages, "a.utf8", "-"),
        ("RemoveType .gz\nAddEncoding gzip .gz", "a.tar.gz", "application/x-tar - gzip"),
        ("AddEncoding a .x\nAddEncoding b .y", "f.x.y", "- - a, b"),
        (php, "a.php", "- - - - application/x-httpd-php"),
        (php, "a.php.txt", "text/plain - - - application/x-httpd-php"),
        (php, "a.php.jpg", "image/jpeg - - - application/x-httpd-php"),
        (php, "a.txt.php", "text/plain - - - application/x-httpd-php"),
        (php, ".php", "-"),
        ("AddHandler a .x\nAddHandler b .y", "f.x.y", "- - - - b"),
        ("AddHandler a .x\nAddHandler b .y", "f.y.x", "- - - - a"),
        ("AddType 'text/html; charset=UTF-8' .html", "a.html", "text/html utf-8"),
        ("AddType 'text/html; charset=a' .html\nAddCharset b .html", "a.html", "text/html b"),
        ("AddType nothing .html\nAddCharset b .html", "a.html", "nothing"),
        ("AddType Text/X .a\nAddType text/y a", "f.a", "text/y"),
        ("AddType text/x .a\nRemoveType .a", "f.a", "-"),
        ("RemoveType .a\nAddType text/x .a", "f.a", "text/x"),
        ("RemoveType html", "f.html", "-"),
        ("RemoveType .html", "f.txt.html", "text/plain"),
        ("DefaultLanguage de\nAddLanguage en .en", "f", "- - - de"),
        ("DefaultLanguage de\nAddLanguage en .en", "f.en", "- - - en"),
        ("AddOutputFilter INCLUDES;DEFLATE .a", "f.a", "- - - - - INCLUDES;DEFLATE"),
        ("AddType text/x .a", "x/y.a/f.txt", "text/plain"),
        ("AddHandler x .a\nRemoveHandler .a", "f.a", "-"),
    ];
    for (directives, name, expected) in table {
        // Values are in lower case, filters too: they compare without case.
        assert_eq!(
            found(directives, name).to_lowercase(),
            expected.to_lowercase(),
            "{directives}: {name}"
        );
    }
}

#[test]
fn folders_below() {
    let base =
        settings("AddHandler a .x\nAddType text/a .x\nAddLanguage en .en\nDefaultLanguage de");
    let table = [
        ("RemoveHandler .x", "f.x", "text/a - - de"),
        ("RemoveHandler .x\nAddHandler b .x", "f.x", "text/a - - de"),
        ("AddHandler b .x", "f.x", "text/a - - de b"),
        ("AddType text/b .x", "f.x", "text/b - - de a"),
        ("RemoveType .x", "f.x", "- - - de a"),
        ("RemoveLanguage .en", "f.en", "- - - de"),
        ("DefaultLanguage fr", "f", "- - - fr"),
    ];
    for (add, name, expected) in table {
        assert_eq!(found_with(&base.merge(&settings(add)), name), expected, "{add}");
    }
    // A folder may add again what one above it has removed.
    let again = base.merge(&settings("RemoveHandler .x")).merge(&settings("AddHandler c .x"));
    assert_eq!(found_with(&again, "f.x"), "text/a - - de c");
}

#[test]
fn a_folder_has_a_type_of_its_own() {
    let request = request("/a.html", "");
    let mut tx = transaction(&request);
    tx.state.found = FileKind::Directory;
    find_type(&mut tx, None, &base);
    assert_eq!(tx.state.content_type.as_deref(), Some(DIRECTORY));
}

#[test]
fn the_field() {
    let mut state = RequestState::default();
    assert_eq!(state.content_type_field(), None);
    for (value, expected) in [
        ("text/html", "text/html"),
        ("text/html;charset=utf-8", "text/html; charset=utf-8"),
        ("text/plain", "text/plain"),
        ("x; y", "x; y"),
    ] {
        state.set_content_type(value.as_bytes());
        assert_eq!(state.content_type_field().unwrap(), expected.as_bytes(), "{value}");
    }
}

#[test]
fn exceptions() {
    let settings = settings("AddLanguage en .en\nAddHandler h .h");
    let config = settings.mime.as_deref().unwrap();
    let table = [
        ("a.html.en", true, "a"),
        ("a.b.html", true, "a b"),
        ("a.B.c", false, "a B c"),
        (".a.h", false, ".a h"),
    ];
    for (name, is_known, exceptions) in table {
        let description = describe(config, name.as_bytes(), &base, Meter::unlimited());
        let found = String::from_utf8(description.exceptions.join(&b' ')).unwrap();
        assert_eq!((description.is_known, &found[..]), (is_known, exceptions), "{name}");
    }
}

#[test]
fn mistakes() {
    for line in [
        "MultiviewsMatch Any Handlers",
        "MultiviewsMatch Handlers NegotiatedOnly",
        "MultiviewsMatch Filters Any",
        "MultiviewsMatch Some",
        "MultiviewsMatch Any NegotiatedOnly",
        "MultiviewsMatch NegotiatedOnly Any",
        "MultiviewsMatch Handlers Any",
        "MultiviewsMatch Any Filters",
        "MultiviewsMatch NegotiatedOnly Filters",
        "MultiviewsMatch Filters NegotiatedOnly",
        "MultiviewsMatch NegotiatedOnly Handlers",
    ] {
        assert!(try_settings(line).is_err(), "{line}");
    }
    assert!(try_settings("MultiviewsMatch Handlers Filters").is_ok());
}

#[test]
fn the_closer_folder_says_what_multiviews_counts() {
    let merged = |above: &str, below: &str| {
        settings(above).merge(&settings(below)).mime.unwrap().multiviews_match
    };
    let (handlers, any) = ("MultiviewsMatch Handlers", "MultiviewsMatch Any");
    let own = |line: &str| settings(line).mime.unwrap().multiviews_match;
    assert_eq!(merged(handlers, "AddType a/b .c"), own(handlers));
    assert_eq!(merged(handlers, any), own(any));
    assert_ne!(own(handlers), own(any));
}

#[test]
fn forcing_a_type_forces_the_charset_too() {
    let table = [
        ("ForceType text/x", "text/x"),
        ("ForceType text/x;charset=c", "text/x c"),
        ("ForceType none", "text/html utf-8"),
    ];
    for (line, expected) in table {
        let settings = settings(&format!("AddCharset utf-8 .html\n{line}"));
        let request = request("/a.html", "");
        let mut tx = transaction(&request);
        find_type(&mut tx, settings.mime.as_deref(), &base);
        crate::modules::core::fixup(
            &mut tx,
            settings.core.as_ref().unwrap(),
            &mut crate::testing::Nowhere::default(),
        )
        .unwrap();
        let parts = [&tx.state.content_type, &tx.state.charset]
            .map(|part| part.clone().unwrap_or_default());
        let found = String::from_utf8(parts.join(&b' ')).unwrap();
        assert_eq!(found.trim_end(), expected, "{line}");
    }
}

#[test]
fn a_handler_that_is_taken_away() {
    let php = "AddHandler application/x-httpd-php .php";
    let table = [
        ("", "RemoveHandler .php", true),
        (php, "RemoveHandler .php", true),
        ("RemoveHandler .php", php, false),
        ("", "RemoveHandler .php\nAddHandler php-script .php", false),
        ("", "AddHandler php-script .php\nRemoveHandler .php", false),
        ("RemoveHandler .php\nAddHandler php-script .php", "# nothing\nAddType text/a .a", false),
        ("", "RemoveHandler .php\nAddHandler cgi-script .php", true),
        ("", "RemoveHandler .php\nAddHandler application/x-httpd-php-source .php", true),
        ("", "RemoveType .php\nAddType application/x-httpd-php .php", false),
        ("", "RemoveHandler .html", false),
        ("", "RemoveType .php", true),
        ("", "RemoveType .php\nAddHandler php-script .php", false),
        ("", "RemoveHandler .php\nAddHandler x-httpd-phps .php", true),
        ("AddLanguage de .php", "AddLanguage en .php", false),
    ];
    for (above, below, expected) in table {
        let merged = settings(above).merge(&settings(below));
        let alone = settings(&format!("{below}\n"));
        let takes = |settings: &DirectiveSettings| {
            settings.mime.as_ref().unwrap().takes_handler_away(b"a.php")
        };
        assert_eq!(takes(&merged), expected, "{above} | {below}");
        if above.is_empty() {
            assert_eq!(takes(&alone), expected, "{below}");
        }
    }
}

#[test]
fn many_extensions_share_a_long_value() {
    let long = "x".repeat(4000);
    for directive in ["AddType", "AddHandler", "AddOutputFilter", "AddLanguage"] {
        let mime = settings(&format!("{directive} {long} .a .b")).mime.unwrap();
        let value = |name: &[u8]| {
            let extension = mime.extensions.find(name).unwrap();
            let all = [&extension.media_type, &extension.handler, &extension.output_filters];
            let found = all.into_iter().chain([&extension.language]).flatten().next();
            std::sync::Arc::clone(found.unwrap())
        };
        assert!(std::sync::Arc::ptr_eq(&value(b"a"), &value(b"b")), "{directive}");
    }
}

#[test]
fn types_of_many_nested_files_mean_the_same_as_in_one_list() {
    let lines = [
        "AddType text/a .a\nAddHandler application/x-httpd-php .a\nAddCharset utf-8 .a",
        "RemoveHandler .a\nAddLanguage de .b",
        "AddHandler other .a\nRemoveLanguage .b",
        "RemoveCharset .a\nRemoveType .b",
        "AddType text/b .b\nRemoveHandler .a .c",
        "AddHandler php-fcgi .a\nRemoveHandler .a\nAddCharset koi8-r .c",
        "DefaultLanguage fr",
    ];
    let of = |number: usize| settings(lines[number % lines.len()]);
    for first in 0..lines.len() {
        let (mut layered, mut united) = (of(first), of(first));
        for number in first + 1..first + 100 {
            layered = layered.merge(&of(number));
            united = united.merge(&of(number));
            let mime = crate::merge::edit(&mut united.mime);
            mime.extensions = mime.extensions.in_one();
            for name in ["x.a", "x.b", "x.c", "x.a.b.c"] {
                assert_eq!(found_with(&layered, name), found_with(&united, name), "{number}");
                let takes_away = |settings: &DirectiveSettings| {
                    settings.mime.as_ref().unwrap().takes_handler_away(name.as_bytes())
                };
                assert_eq!(takes_away(&layered), takes_away(&united), "{number}: {name}");
            }
        }
    }
}
