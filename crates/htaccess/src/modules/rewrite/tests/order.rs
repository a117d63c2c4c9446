//! Folders, merging, and when rules apply at all.

use super::{ask, evaluate};
use crate::DirectiveSettings;
use crate::testing::{settings, try_settings};
use crate::{CompileContext, compile};

/// The settings of `/srv` and `/srv/sub` together, for a request below `/srv/sub`.
fn merged(upper: &str, lower: &str) -> DirectiveSettings {
    let lower = compile(lower.as_bytes(), &CompileContext::new("test", b"/srv/sub/"));
    assert!(lower.mistake.is_none(), "{:?}", lower.mistake);
    settings(upper).merge(&lower.settings)
}

#[test]
fn the_closer_folder_replaces_rules_unless_it_inherits() {
    let upper = "RewriteEngine On\nRewriteRule ^(.*)$ /upper/$1 [L]";
    let on = "RewriteEngine On\n";
    let table = [
        ("", "internal /upper/sub/x"),
        ("RewriteEngine Off", "declined"),
        ("RewriteEngine On", "declined"),
        // The engine is inherited, rules are not.
        ("RewriteRule ^x$ /lower", "internal /lower"),
        ("RewriteOptions Inherit", "internal /upper/x"),
        ("RewriteOptions Inherit\nRewriteRule ^x$ /lower [L]", "internal /lower"),
        ("RewriteOptions InheritBefore\nRewriteRule ^x$ /lower [L]", "internal /upper/x"),
    ];
    for (lower, expected) in table {
        let answer = evaluate(&merged(upper, lower), "/sub/x", "", |_| {});
        assert_eq!(answer.outcome, expected, "{lower}");
    }
    let table = [
        ("RewriteOptions InheritDown", "RewriteRule ^x$ /lower [L]", "internal /lower"),
        ("RewriteOptions InheritDown", "RewriteRule ^n$ /lower [L]", "internal /upper/x"),
        ("RewriteOptions InheritDownBefore", "RewriteRule ^x$ /lower [L]", "internal /upper/x"),
        // Options are inherited as a whole, and IgnoreInherit replaces them.
        (
            "RewriteOptions InheritDown",
            "RewriteOptions IgnoreInherit\nRewriteRule ^n$ /lower",
            "declined",
        ),
    ];
    for (options, lower, expected) in table {
        let upper = format!("{upper}\n{options}");
        let answer = evaluate(&merged(&upper, &format!("{on}{lower}")), "/sub/x", "", |_| {});
        assert_eq!(answer.outcome, expected, "{options} {lower}");
    }
}

#[test]
fn the_base_is_not_inherited_unless_it_is_asked_for() {
    let upper = "RewriteEngine On\nRewriteBase /base/";
    let table = [
        ("RewriteRule ^x$ y", "internal /sub/y"),
        ("RewriteOptions MergeBase\nRewriteRule ^x$ y", "internal /base/y"),
        ("RewriteOptions MergeBase\nRewriteBase /own\nRewriteRule ^x$ y", "internal /own/y"),
    ];
    for (lower, expected) in table {
        let answer = evaluate(&merged(upper, lower), "/sub/x", "", |_| {});
        assert_eq!(answer.outcome, expected, "{lower}");
    }
}

#[test]
fn when_rules_do_not_apply() {
    let rules = "RewriteEngine On\nRewriteRule ^ - [F]";
    let slash = |rules: &str| evaluate(&merged("", rules), "/sub", "", |_| {}).outcome;
    assert_eq!(slash(rules), "declined");
    assert_eq!(slash(&format!("{rules}\nRewriteOptions AllowNoSlash")), "403");
    assert_eq!(ask("RewriteEngine Off\nRewriteRule ^ - [F]", "/x", "").outcome, "declined");
    assert_eq!(ask("RewriteRule ^ - [F]", "/x", "").outcome, "declined");
    let links = |rules: &str| {
        evaluate(&settings(rules), "/x", "", |state| state.links_forbidden = true).outcome
    };
    assert_eq!(links("RewriteEngine On"), "403");
    assert_eq!(links("RewriteEngine Off\nRewriteRule ^ /y"), "declined");
}

#[test]
fn mistakes() {
    let table = [
        ("RewriteRule ^x$", "RewriteRule: bad argument line '^x$'"),
        ("RewriteRule ^x$ /y [R=301, L]", "RewriteRule: bad flag delimiters"),
        ("RewriteRule ^x$ /y [X]", "RewriteRule: unknown flag 'X'"),
        ("RewriteRule ( /y", "RewriteRule: cannot compile regular expression '('"),
        ("RewriteCond %{HTTP_HOST}", "RewriteCond: bad argument line '%{HTTP_HOST}'"),
        ("RewriteCond a b [L]", "RewriteCond: unknown flag 'L'"),
        ("RewriteCond a (", "RewriteCond: cannot compile regular expression '('"),
        ("RewriteBase x", "RewriteBase: argument is not a valid URL"),
        ("RewriteOptions Nonsense", "RewriteOptions: unknown option 'Nonsense'"),
        ("RewriteOptions MaxNonsense", "RewriteOptions: unknown option 'MaxNonsense'"),
    ];
    for (line, expected) in table {
        assert_eq!(try_settings(line).unwrap_err().message, expected, "{line}");
    }
    for line in [
        "RewriteOptions MaxRedirects=10",
        "RewriteOptions AllowAnyURI LegacyPrefixDocRoot",
        "RewriteOptions IgnoreContextInfo",
    ] {
        assert!(try_settings(line).is_ok(), "{line}");
    }
}
