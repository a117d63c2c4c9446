//! The number of arguments, and the place of the one with the mistake.

use super::{compile, context, mistake};

#[test]
fn how_many_arguments() {
    for (text, message) in [
        ("AddDefaultCharset utf-8", None),
        ("AddDefaultCharset \"utf-8", None),
        ("AddDefaultCharset", Some("AddDefaultCharset takes one argument")),
        ("AddDefaultCharset \"\"", Some("AddDefaultCharset takes one argument")),
        ("AddDefaultCharset utf-8 # comment", Some("AddDefaultCharset takes one argument")),
        ("AddDefaultCharset \"utf-8\"x", Some("AddDefaultCharset takes one argument")),
        ("DirectorySlash \"oN\" and more", None),
        ("DirectorySlash", Some("DirectorySlash must be On or Off")),
        ("DirectorySlash yes", Some("DirectorySlash must be On or Off")),
        ("php_value a b", None),
        ("php_value a \"\"", Some("php_value takes two arguments")),
        ("php_value a b c", Some("php_value takes two arguments")),
        ("AddType a/b c d", None),
        ("AddType a/b \"\"", None),
        ("AddType a/b", Some("AddType requires at least two arguments")),
    ] {
        assert_eq!(mistake(text).as_deref(), message, "{text}");
    }
}

#[test]
fn empty_arguments_are_left_out_where_apache_leaves_them_out() {
    let xhtml = |count: usize| format!("IndexOptions {}\"\"", "XHTML ".repeat(count));
    for (text, message) in [
        ("FilterDeclare a \"\"", None),
        ("FilterDeclare a \"\" b", Some("FilterDeclare takes 1-2 arguments")),
        ("Redirect 301 /a \"\"", Some("Redirect to non-URL")),
        ("AddType \"\" b", Some("AddType requires at least two arguments")),
        ("AddType", Some("AddType requires at least two arguments")),
        ("IndexIgnore", Some("IndexIgnore requires at least one argument")),
        ("IndexIgnore \"\"", Some("IndexIgnore requires at least one argument")),
        ("IndexOptions", None),
        ("IndexOptions XHTML \"\"", None),
        ("IndexOptions \"\" XHTML", Some("there is no such option")),
        // Of more than 64 words the others are not read.
        (&xhtml(62), None),
        (&xhtml(63), Some("there is no such option")),
        (&xhtml(64), None),
        ("<RequireAll>\nRequire all granted\n</RequireAll>", None),
        (
            "<RequireAll a>\nRequire all granted\n</RequireAll>",
            Some("<RequireAll> directive doesn't take additional arguments"),
        ),
        (
            "<RequireAll a\nRequire all granted\n</RequireAll>",
            Some("<RequireAll> directive missing closing '>'"),
        ),
    ] {
        assert_eq!(mistake(text).as_deref(), message, "{text}");
    }
}

#[test]
fn a_mistake_has_the_place_of_its_argument() {
    for (text, column) in [
        ("AddDefaultCharset utf-8 x y", 25),
        ("AddDefaultCharset \"\"", 19),
        ("FilterDeclare a b c", 19),
        ("DirectoryIndexRedirect maybe", 24),
        ("<Files a b>\n</Files>", 10),
        ("<Files a  b>\n</Files>", 11),
        ("<If true x>\n</If>", 10),
    ] {
        let place = compile(text.as_bytes(), &context()).mistake.unwrap().place;
        assert_eq!((place.line, place.column), (1, column), "{text}");
    }
}
