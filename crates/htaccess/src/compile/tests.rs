mod arguments;

use super::{CompileContext, MOST_REMARKS, compile, compile_asking};
use crate::directive::Overrides;
use crate::mistake::MistakeKind;
use crate::settings::DirectiveSettings;
use crate::settings::FileNames;

fn context() -> CompileContext {
    CompileContext::new("f", b"/site/")
}

/// The first mistake, without where and what to do.
fn mistake_with(text: &str, context: &CompileContext) -> Option<String> {
    compile(text.as_bytes(), context).mistake.map(|mistake| mistake.message)
}

fn mistake(text: &str) -> Option<String> {
    mistake_with(text, &context())
}

/// Apache's own words; each was tried.
#[test]
fn sections_and_where_they_may_stand() {
    for (text, message) in [
        ("<Files a>\n</Files>", None),
        ("<Files a> # b\n</Files>", None),
        ("<Files \"a b\">\n</Files>", None),
        ("<Files \"\">\n</Files>", None),
        ("<FILES a>\n</files>", None),
        ("<Files ~ a>\n<FilesMatch b>\n</FilesMatch>\n</Files>", None),
        ("<Files a\n</Files>", Some("<Files> directive missing closing '>'")),
        ("<Files>\n</Files>", Some("<Files> directive requires additional arguments")),
        ("<Files\n</Files>", Some("<Files> directive requires additional arguments")),
        ("<Files a b>\n</Files>", Some("Multiple <Files> arguments not (yet) supported.")),
        ("<Files a> b>\n</Files>", Some("Multiple <Files> arguments not (yet) supported.")),
        (
            "<FilesMatch a b>\n</FilesMatch>",
            Some("Multiple <FilesMatch> arguments not (yet) supported."),
        ),
        ("<FilesMatch [>\n</FilesMatch>", Some("Regex could not be compiled")),
        ("<Files ~ [>\n</Files>", Some("Regex could not be compiled")),
        (
            "<Files a>\nAllowOverride All\n</Files>",
            Some("AllowOverride not allowed in <Files> context"),
        ),
        ("allowoverride all", Some("AllowOverride not allowed here")),
        ("<Directory />\nBogus\n</Directory>", Some("<Directory not allowed here")),
        ("<location />\n</location>", Some("<Location not allowed here")),
        (
            "<Files a>\n<VirtualHost b>\n</VirtualHost>\n</Files>",
            Some("<VirtualHost not allowed in <Files> context"),
        ),
        (
            "<If \"true\">\n</If>\nOptions All\n<Files a>\n</Files>\n<ElseIf false>\n</ElseIf>\n\
             <Else>\n</Else>",
            None,
        ),
        ("<If>\n</If>", Some("<If> directive requires additional arguments")),
        ("<If \"true\" x>\n</If>", Some("Multiple <If> arguments not supported.")),
        ("<If true>\n</If>\n<Else x>\n</Else>", Some("<Else> does not take an argument")),
        ("<Else>\n</Else>", Some(ALONE)),
        ("<ElseIf true>\n</ElseIf>", Some(ALONE)),
        ("<If true>\n</If>\n<Else>\n</Else>\n<Else>\n</Else>", Some(ALONE)),
        ("<If true>\n<Else>\n</Else>\n</If>", Some(ALONE)),
        ("<If true>\n</If>\n<Files a>\n<Else>\n</Else>\n</Files>", Some(ALONE)),
        ("<If true>\n</If>\n<IfModule core.c>\n<Else>\n</Else>\n</IfModule>", None),
        ("Error", Some("The Error directive was used with no message.")),
        ("Error a b", Some("a b")),
        ("Error \"a b\"", Some("a b")),
        ("Error \"a b", Some("\"a b")),
    ] {
        assert_eq!(mistake(text).as_deref(), message, "{text}");
    }
}

const ALONE: &str =
    "<Else> or <ElseIf> section without previous <If> or <ElseIf> section in same scope";

#[test]
fn limits() {
    for (text, message) in [
        (
            "<Limit GET post>\n</Limit>",
            Some("Could not register method 'post' for <Limit from .htaccess configuration"),
        ),
        (
            "<Limit GET,POST>\n</Limit>",
            Some("Could not register method 'GET,POST' for <Limit from .htaccess configuration"),
        ),
        ("<Limit>\n</Limit>", Some("<Limit> directive requires additional arguments")),
        ("<Limit GET HEAD PROPFIND>\n</Limit>", None),
        ("<Limit TRACE>\n</Limit>", Some("TRACE cannot be controlled by <Limit>, see TraceEnable")),
        ("<LimitExcept TRACE>\n</LimitExcept>", None),
        ("<Limit GET POST>\n<Limit POST>\n</Limit>\n</Limit>", None),
        ("<LimitExcept GET>\n<LimitExcept POST>\n</LimitExcept>\n</LimitExcept>", None),
        (
            "<Limit GET>\n<Limit GET>\n</Limit>\n</Limit>",
            Some("<Limit> directive specifies methods already excluded"),
        ),
        (
            "<Limit GET>\n<Limit POST>\n</Limit>\n</Limit>",
            Some("<Limit> directive excludes all methods"),
        ),
        (
            "<Limit GET>\n<LimitExcept GET>\n</LimitExcept>\n</Limit>",
            Some("<LimitExcept> directive excludes all methods"),
        ),
        (
            "<Limit GET>\n<LimitExcept POST>\n</LimitExcept>\n</Limit>",
            Some("<LimitExcept> directive specifies methods already excluded"),
        ),
        (
            "<Limit GET>\n<Files a>\n</Files>\n</Limit>",
            Some("<Files> cannot occur within <Limit> or <LimitExcept> section"),
        ),
        (
            "<Limit GET>\n<If true>\n</If>\n</Limit>",
            Some("<If> cannot occur within <Limit> or <LimitExcept> section"),
        ),
        (
            "<Limit GET>\nAllowOverride None\n</Limit>",
            Some("AllowOverride not allowed in <Limit> context"),
        ),
    ] {
        assert_eq!(mistake(text).as_deref(), message, "{text}");
    }
}

/// The directives that `<IfX argument>` lets through.
#[test]
fn sections_decided_while_reading() {
    let mut context = context();
    context.defines = vec!["FOO".into()];
    context.root = (*b"/srv/").into();
    let there = |path: &[u8]| path == b"/etc/there" || path == b"/srv/there";
    for (section, holds) in [
        ("IfModule core.c", true),
        ("IfModule core_module", true),
        ("IfModule CORE.C", false),
        ("IfModule ! mod_foo.c", true),
        ("IfModule !mod_foo.c", true),
        ("IfModule \"!mod_foo.c\"", false),
        ("IfModule mod_foo.c core.c", false),
        ("IfModule mod_dir.c", true),
        ("IfModule mod_php.c", true),
        ("IfModule php_module", true),
        ("IfModule php7_module", false),
        ("IfModule mod_php5.c", false),
        ("IfModule mod_security.c", false),
        ("IfModule LiteSpeed", false),
        ("IfDefine FOO", true),
        ("IfDefine foo", false),
        ("IfDefine !foo", true),
        ("IfFile /etc/there", true),
        ("IfFile there", true),
        ("IfFile !/etc/missing", true),
        ("IfDirective oPtions", true),
        ("IfDirective Alias", true),
        ("IfDirective Foo", false),
        ("IfSection files", true),
        ("IfSection Directory", true),
        ("IfSection !If", false),
        ("ifversion >= 2.4", true),
        ("IfVersion < 2.4", false),
        ("IfVersion 2.4.71", true),
        ("IfVersion = 2.4", false),
        ("IfVersion !>= 2.4", false),
        ("IfVersion <= 2", false),
        ("IfVersion > 2.4.71", false),
        ("IfVersion > 2.4.70", true),
        ("IfVersion > 2..3", true),
        ("IfVersion >= 2.4.7.", true),
        ("IfVersion < 2.4.7.", false),
        ("IfVersion \">=\" \"2.4\" ", true),
        ("IfVersion 2.4.71 ", true),
        ("IfVersion 2.4.70 ", false),
        ("IfVersion < 2.4.71", false),
        ("IfVersion !< 2.4.71", true),
        ("IfVersion < 2.4.72", true),
        ("IfVersion <= 2.4.71", true),
        ("IfVersion >= 2.4.71", true),
        ("IfVersion == 2.4.71", true),
        ("IfVersion != 2.4.71", false),
        ("IfVersion = /^2\\.4/", true),
        ("IfVersion /^3/", false),
        ("IfVersion ~ ^2\\.[24]\\.", true),
        ("IfVersion !~ ^2", false),
        ("IfVersion >= 2.4> foo", true),
    ] {
        let name = section.split(' ').next().unwrap();
        let text = format!("<{section}>\nBogus\n</{name}>");
        let compiled = compile_asking(text.as_bytes(), &context, &mut |path| there(path));
        assert_eq!(compiled.mistake.is_some(), holds, "{section}");
    }
}

#[test]
fn sections_that_cannot_be_decided() {
    for (text, message) in [
        ("<IfModule>\n</IfModule>", "<IfModule> directive requires additional arguments"),
        ("<ifmodule !>\n</ifmodule>", "<IfModule> directive requires additional arguments"),
        ("<IfModule a\n</IfModule>", "<IfModule> directive missing closing '>'"),
        ("<IfVersion 2.4\n</IfVersion>", "<IfVersion> directive missing closing '>'"),
        ("<IfVersion => 2>\n</IfVersion>", "unrecognized operator '=>'"),
        ("<IfVersion ! 2>\n</IfVersion>", "unrecognized operator '!'"),
        ("<IfVersion = 2.4 x>\n</IfVersion>", "<IfVersion> directive missing closing '>'"),
        ("<IfVersion = \"\" >\n</IfVersion>", "<IfVersion> directive missing closing '>'"),
        ("<IfVersion = /2>\n</IfVersion>", "Missing delimiting / of regular expression."),
        ("<IfVersion ~ [>\n</IfVersion>", "Unable to compile regular expression"),
    ] {
        assert_eq!(mistake(text).as_deref(), Some(message), "{text}");
    }
    for arguments in ["= 2.4 > x", "\"\" 2.4"] {
        let message = mistake(&format!("<IfVersion {arguments}>\n</IfVersion>")).unwrap();
        assert!(message.starts_with("<IfVersion takes one, two or three arguments"), "{message}");
    }
    for (version, begin) in [
        ("x", "Version appears to be invalid"),
        (".4", "Version appears to be invalid"),
        ("2.4.x", "Version appears to be invalid"),
        ("2.4.7.1", "Version appears to be invalid"),
        ("", "Version appears to be invalid"),
        (">", "Version appears to be invalid"),
    ] {
        let message = mistake(&format!("<IfVersion = {version}>\n</IfVersion>")).unwrap();
        assert!(message.starts_with(begin), "{version}: {message}");
    }
}

#[test]
fn questions_about_files_are_kept() {
    let text = b"<IfFile /a>\n</IfFile>\n<IfFile !/b>\n</IfFile>";
    let compiled = compile_asking(text, &context(), &mut |path| path == b"/a");
    let asked: Vec<_> = compiled.asked.iter().map(|(path, there)| (&path[..], *there)).collect();
    assert_eq!(asked, [(&b"/a"[..], true), (b"/b", false)]);
    // Without a root nothing is relative to it.
    let text = b"<IfFile a>\nBogus\n</IfFile>";
    let compiled = compile_asking(text, &context(), &mut |_| true);
    assert!(compiled.asked.is_empty() && compiled.mistake.is_none());
}

#[test]
fn variables_of_the_server_have_their_values() {
    let context = CompileContext {
        variables: vec![((*b"INDEX").into(), (*b"Indexes").into())],
        ..context()
    };
    assert_eq!(mistake_with("Options ${INDEX}", &context), None);
    assert!(mistake_with("Options ${OTHER}", &context).is_some());
}

#[test]
fn sections_of_both_folders_apply() {
    let sections = |name: &str| {
        let text = format!("<Files {name}>\n</Files>\n<If true>\n</If>\n");
        compile(text.as_bytes(), &context()).settings
    };
    let (above, below) = (sections("a"), sections("b"));
    for (merged, expected) in [
        (above.merge(&below), "<Files a> <Files b>"),
        (above.merge(&DirectiveSettings::default()), "<Files a>"),
        (DirectiveSettings::default().merge(&below), "<Files b>"),
    ] {
        let texts: Vec<&str> = merged.files.iter().map(|section| &*section.text).collect();
        assert_eq!(texts.join(" "), expected);
        assert_eq!(merged.conditions.len(), texts.len());
    }
}

#[test]
fn a_file_that_asks_for_too_many_files_is_a_mistake() {
    let section = |number: usize| format!("<IfFile /a{}>\n</IfFile>\n", number % 256);
    let text: String = (0..256).map(section).collect();
    let compile = |text: &str| compile_asking(text.as_bytes(), &context(), &mut |_| true);
    assert_eq!(compile(&text).asked.len(), 256);
    assert!(compile(&text).mistake.is_none());
    assert!(compile(&format!("{text}<IfModule core.c>\n</IfModule>")).mistake.is_none());
    let mistake = compile(&format!("{text}<IfFile /b>\n</IfFile>")).mistake.unwrap();
    assert!(mistake.to_string().contains("more than 256 files"), "{mistake}");
}

#[test]
fn what_is_not_allowed() {
    let with = |overrides: Overrides, list: &[&str]| CompileContext {
        overrides,
        override_list: list.iter().map(|&name| name.into()).collect(),
        ..context()
    };
    let limit = Overrides::LIMIT;
    for (text, context, message) in [
        ("AddDefaultCharset off", with(Overrides::FILE_INFO, &[]), None),
        ("adddefaultcharset off", with(limit, &[]), Some("AddDefaultCharset not allowed here")),
        ("AddDefaultCharset off", with(limit, &["adddefaultCharset"]), None),
        (
            "AllowOverride All",
            with(limit, &["AllowOverride"]),
            Some("AllowOverride not allowed here"),
        ),
        (
            "<Files a>\nAddDefaultCharset off\n</Files>",
            with(limit, &[]),
            Some("AddDefaultCharset not allowed in <Files> context"),
        ),
        (
            "<Files a>\n</Files>",
            with(Overrides::NONE, &["Options"]),
            Some("<Files not allowed here"),
        ),
        ("<Limit GET>\n</Limit>", with(Overrides::FILE_INFO, &[]), Some("<Limit not allowed here")),
        ("<Limit GET>\n</Limit>", with(Overrides::AUTH_CONFIG, &[]), None),
    ] {
        assert_eq!(mistake_with(text, &context).as_deref(), message, "{text}");
    }
    let mut lenient = CompileContext {
        nonfatal_override: true,
        ..with(limit, &[])
    };
    assert_eq!(mistake_with("AddDefaultCharset off", &lenient), None);
    assert!(mistake_with("Bogus", &lenient).is_some());
    lenient.nonfatal_unknown = true;
    let compiled = compile(b"Bogus", &lenient);
    assert_eq!((compiled.mistake.is_some(), compiled.remarks.len()), (false, 1));
}

#[test]
fn hints() {
    for (text, hint) in [
        ("DirectoryIndx a", "did you mean `DirectoryIndex`?"),
        ("<FileMatch a>\n</FileMatch>", "did you mean `<FilesMatch`?"),
        (
            "SecFilterEngine On",
            "there is no such module; within <IfModule mod_security.c> the directive would be \
             skipped",
        ),
        (
            "\u{feff}Options All",
            "the file begins with a byte-order mark, which Apache reads as a part of `Options`: \
             save the file without it",
        ),
        (
            "ModPagespeed on",
            "there is no such module; within <IfModule pagespeed_module> the directive would be \
             skipped",
        ),
        ("ServerTokens Prod", "it belongs in the server's configuration"),
        ("<RequireAll>\nOptions All\n</RequireAll>", "only access rules are allowed here"),
        ("<If true x>\n</If>", "the whole condition is one argument: put it in quotes"),
        ("<If -f x>\n</If>", "the whole condition is one argument: put it in quotes"),
        ("<Limit get>\n</Limit>", "methods are told apart by case: `GET`"),
    ] {
        let mistake = compile(text.as_bytes(), &context()).mistake.unwrap();
        assert_eq!(mistake.hint.as_deref(), Some(hint), "{text}");
    }
    for text in ["Quite-unlike-any-other-name a", "<If \"-f\">\n</If>"] {
        assert_eq!(compile(text.as_bytes(), &context()).mistake.unwrap().hint, None, "{text}");
    }
    let limited = CompileContext { overrides: Overrides::LIMIT, ..context() };
    let hint = compile(b"Options All", &limited).mistake.unwrap().hint;
    assert_eq!(hint.as_deref(), Some("add Options to the site's `allow_override`"));
}

/// Requests for what such a directive covers are answered with 500, and no others.
#[test]
fn a_directive_that_cannot_be_honoured_is_no_mistake_of_the_file() {
    let compiled = compile(b"SSLCipherSuite HIGH\n", &context());
    assert_eq!(compiled.mistake, None);
    assert_eq!(compiled.settings.refused.unwrap().kind, MistakeKind::Refused);
    assert_eq!(compiled.remarks.len(), 1);
}

#[test]
fn a_file_with_very_many_mistakes_has_a_thousand_remarks() {
    let text = "Bogus\n".repeat(MOST_REMARKS + 1);
    assert_eq!(compile(text.as_bytes(), &context()).remarks.len(), MOST_REMARKS);
}

#[test]
fn every_mistake_is_remarked_and_shown() {
    let text = "Bogus\n<Files a>\n  Bogus2 b\n</Files>\nAddDefaultCharset a \\\n  b\n";
    let compiled = compile(text.as_bytes(), &context());
    let remarks: Vec<_> = compiled
        .remarks
        .iter()
        .map(|remark| (remark.place.line, remark.place.column, remark.kind, &*remark.line))
        .collect();
    assert_eq!(
        remarks,
        [
            (1, 1, MistakeKind::Unknown, "Bogus"),
            (3, 3, MistakeKind::Unknown, "  Bogus2 b"),
            (6, 3, MistakeKind::Argument, "  b"),
        ]
    );
    let mistake = compiled.mistake.unwrap();
    assert!(
        mistake.to_string().starts_with("f:1:1: Invalid command 'Bogus', perhaps"),
        "{mistake}"
    );
}

#[test]
fn mistakes_of_the_language_come_first() {
    let message = mistake("Bogus\n<Files a>\n</Directory>\n</Files>").unwrap();
    assert_eq!(message, "Expected </Files> but saw </Directory>");
}

#[test]
fn names_of_files() {
    let names = |text: &str| {
        let compiled = compile(format!("<Files {text}>\n</Files>").as_bytes(), &context());
        match &compiled.settings.files[0].names {
            FileNames::Exact(name) => format!("exact {}", name.escape_ascii()),
            FileNames::Wildcard(name) => format!("wildcard {}", name.escape_ascii()),
            FileNames::Regex(pattern) => format!("regex {pattern:?}"),
        }
    };
    for (text, expected) in [
        ("a.php", "exact a.php"),
        ("\"a b\"", "exact a b"),
        ("./a//b/../c", "exact a/c"),
        ("*.php", "wildcard *.php"),
        ("a?", "wildcard a?"),
        ("[ab]c", "wildcard [ab]c"),
        ("../../a", "exact ../../a"),
        ("a/../../b", "exact ../b"),
        ("[ab", "exact [ab"),
        ("a]", "exact a]"),
        ("/a", "exact /a"),
        ("a/", "exact a/"),
        ("/", "exact /"),
        ("a\\*", "exact a\\\\*"),
        ("~ \"\\.php$\"", "regex /\\.php$/"),
    ] {
        assert_eq!(names(text), expected, "{text}");
    }
}

#[test]
fn chains_of_conditions() {
    let text = "<If true>\n</If>\n<ElseIf true>\n</ElseIf>\n<Else>\n</Else>\n<If false>\n\
        <If true>\n</If>\n</If>";
    let compiled = compile(text.as_bytes(), &context());
    let lengths = |settings: &DirectiveSettings| -> Vec<usize> {
        settings.conditions.iter().map(|chain| chain.branches.len()).collect()
    };
    assert_eq!(lengths(&compiled.settings), [3, 1]);
    let inner = &compiled.settings.conditions[1].branches[0].settings;
    assert_eq!(lengths(inner), [1]);
    assert_eq!(&*compiled.settings.conditions[0].branches[2].text, "<Else>");
}

/// The modules that are off on Debian: `a2query -m` lists neither.
#[test]
fn modules_that_are_off_unless_they_are_chosen() {
    let text = "<IfModule mod_brotli.c>\n<If true>\n</If>\n</IfModule>\n\
                <IfModule !brotli_module>\n<If true>\n</If>\n<If true>\n</If>\n</IfModule>";
    for (chosen, sections) in [("substitute", 2), ("brotli", 1)] {
        let context = CompileContext {
            modules: vec![chosen.into()],
            ..context()
        };
        assert_eq!(compile(text.as_bytes(), &context).settings.conditions.len(), sections);
    }
    for module in super::provided() {
        let is_found = super::is_provided(module.file.as_bytes(), &[]);
        assert_eq!(is_found, !matches!(module.name(), "brotli" | "substitute"), "{module:?}");
    }
}

#[test]
fn every_module_with_directives_is_provided() {
    let chosen = ["brotli", "substitute"].map(Box::from);
    // Debian's Apache has mod_http2 off, and none of its directives has an effect here.
    let all = crate::registry::all().iter();
    for directive in all.filter(|directive| directive.module != "mod_http2") {
        let file = match directive.module {
            "core" => "core.c".to_owned(),
            module => format!("{module}.c"),
        };
        assert!(
            super::is_provided(file.as_bytes(), &chosen),
            "{file}, which has {}",
            directive.name
        );
    }
}
