use howdah_http::Status;

use super::*;
use crate::testing::{Nowhere, request, settings, transaction, try_settings};
use crate::{CompileContext, compile};

fn config(text: &str) -> Config {
    settings(text).core.map(|config| (*config).clone()).unwrap_or_default()
}

fn complaint(text: &str) -> String {
    try_settings(text).expect_err(text).message
}

const INDEXES: Options = Options::INDEXES;
const LINKS: Options = Options::FOLLOW_SYM_LINKS;
const VIEWS: Options = Options::MULTI_VIEWS;

#[test]
fn options_replace_add_and_remove() {
    let rows: &[(&[&str], Options)] = &[
        (&[""], INDEXES.with(LINKS)),
        (&["Options None"], Options::NONE),
        (&["Options All"], Options::ALL),
        (&["options indexes"], INDEXES),
        (&["Options Indexes MultiViews"], INDEXES.with(VIEWS)),
        (&["Options All", "Options -Indexes"], Options::ALL.without(INDEXES)),
        (&["Options -Indexes"], LINKS),
        (&["Options +MultiViews"], INDEXES.with(LINKS).with(VIEWS)),
        (&["Options -Indexes +MultiViews"], LINKS.with(VIEWS)),
        (&["Options MultiViews", "Options +Indexes"], INDEXES.with(VIEWS)),
        (&["Options -Indexes", "Options +Indexes"], INDEXES.with(LINKS)),
        (&["Options +MultiViews", "Options None"], Options::NONE),
        (&["Options +MultiViews\nOptions Indexes"], INDEXES),
        (&["Options Indexes\nOptions +MultiViews"], INDEXES.with(VIEWS)),
        (&["Options None +Indexes"], INDEXES),
        (&["Options All -Indexes"], Options::ALL.without(INDEXES)),
        (&["Options RunScripts"], VIEWS.with(Options::EXEC_CGI)),
        (&["Options Includes", "Options +IncludesNOEXEC"], Options::INCLUDES),
    ];
    for (folders, expected) in rows {
        let merged = folders
            .iter()
            .map(|text| config(text))
            .reduce(|base, add| Config::merge(&base, &add))
            .unwrap();
        assert_eq!(merged.options(INDEXES.with(LINKS)), *expected, "{folders:?}");
    }
}

#[test]
fn handlers_are_in_small_letters_but_for_sockets() {
    for (text, expected) in [
        ("SetHandler PHP-Script", Some("php-script")),
        ("SetHandler None", None),
        ("SetHandler proxy:unix:/Run/A|fcgi://h", Some("proxy:unix:/Run/A|fcgi://h")),
    ] {
        let request = request("/", "");
        let mut tx = transaction(&request);
        fixup(&mut tx, &config(text), &mut Nowhere::default()).unwrap();
        assert_eq!(tx.state.handler, expected.map(|name| name.as_bytes().to_vec()), "{text}");
    }
}

#[test]
fn options_that_cannot_be_meant_are_mistakes() {
    for (text, part) in [
        ("Options Indexes +MultiViews", "either all"),
        ("Options +MultiViews Indexes", "either all"),
        ("Options +All", "neither + nor -"),
        ("Options -None", "neither + nor -"),
        ("Options Indexes None", "first"),
        ("Options +Indexes All", "either all"),
        ("Options Index", "\"Index\""),
        ("Options +", "\"\""),
    ] {
        assert!(complaint(text).contains(part), "{text}: {}", complaint(text));
    }
}

#[test]
fn allow_override_may_name_the_options() {
    let context = CompileContext {
        options: Some(vec!["Indexes".into(), "MultiViews".into()]),
        ..CompileContext::new("test", b"/srv/")
    };
    for (text, is_allowed) in [
        ("Options Indexes", true),
        ("Options -Indexes +MultiViews", true),
        ("Options None", true),
        ("Options -FollowSymLinks", false),
        ("Options All", false),
    ] {
        assert_eq!(compile(text.as_bytes(), &context).mistake.is_none(), is_allowed, "{text}");
    }
}

#[test]
fn error_documents_are_pages_urls_and_texts() {
    let rows = [
        ("ErrorDocument 404 /missing.php?x=1", "Url /missing.php?x=1"),
        ("ErrorDocument 404 https://example.org/", "Url https://example.org/"),
        ("ErrorDocument 404 sorry", "Message sorry"),
        ("ErrorDocument 404 \"Not here, sorry\"", "Message Not here, sorry"),
        ("ErrorDocument 404 \"/not a path\"", "Message /not a path"),
        ("ErrorDocument 404 Default", "none"),
        ("ErrorDocument 404x gone", "Message gone"),
        ("ErrorDocument 404 one\nErrorDocument 404 two", "Message two"),
        ("ErrorDocument 403 one", "none"),
    ];
    for (text, expected) in rows {
        let config = config(text);
        let found = match config.error_document(Status::NOT_FOUND) {
            None => "none".to_owned(),
            Some(ErrorDocument::Default) => "default".to_owned(),
            Some(ErrorDocument::Url(text)) => {
                format!("Url {}", String::from_utf8_lossy(text.source()))
            }
            Some(ErrorDocument::Message(text)) => {
                format!("Message {}", String::from_utf8_lossy(text.source()))
            }
        };
        assert_eq!(found, expected, "{text}");
    }
    for text in [
        "ErrorDocument 999 x",
        "ErrorDocument abc x",
        "ErrorDocument 306 x",
        "ErrorDocument -404 x",
    ] {
        assert!(complaint(text).contains("no status"), "{text}");
    }
}

#[test]
fn a_401_is_not_answered_with_a_redirect() {
    let config = config("ErrorDocument 401 https://example.org/login");
    assert!(config.error_document(Status::UNAUTHORIZED).is_none());
    for text in ["\"https://example.org is where to ask\"", "/login.html", "\"Who are you?\""] {
        let config = self::config(&format!("ErrorDocument 401 {text}"));
        assert!(config.error_document(Status::UNAUTHORIZED).is_some(), "{text}");
    }
}

#[test]
fn the_closer_error_document_holds() {
    let base = config("ErrorDocument 404 /above\nErrorDocument 403 /forbidden");
    let merged = Config::merge(&base, &config("ErrorDocument 404 default"));
    assert!(merged.error_document(Status::NOT_FOUND).is_none());
    assert!(merged.error_document(Status::FORBIDDEN).is_some());
}

#[test]
fn destinations() {
    for (url, expected) in [
        (&b"/x"[..], ErrorDestination::Local),
        (b"http://x/", ErrorDestination::Remote),
        (b"mailto:x", ErrorDestination::Remote),
        (b"x", ErrorDestination::Invalid),
        (b":x", ErrorDestination::Invalid),
        (b"", ErrorDestination::Invalid),
    ] {
        assert_eq!(destination(url), expected, "{url:?}");
    }
}

#[test]
fn the_parts_of_an_entity_tag() {
    let parts = |folders: &[&str]| {
        let configs = folders.iter().map(|text| config(text));
        configs.reduce(|base, add| Config::merge(&base, &add)).unwrap().etag_parts()
    };
    let rows: &[(&[&str], &str)] = &[
        (&[""], "MTIME SIZE"),
        (&["FileETag None"], "NONE"),
        (&["FileETag All"], "MTIME INODE SIZE"),
        (&["FileETag INode"], "INODE"),
        (&["FileETag MTime Size Digest"], "MTIME SIZE DIGEST"),
        (&["FileETag None", "FileETag +Size"], "SIZE"),
        (&["FileETag None", "FileETag None"], "NONE"),
        (&["FileETag All", "FileETag -INode"], "MTIME SIZE"),
        (&["FileETag All\nFileETag -INode"], "MTIME SIZE"),
        (&["FileETag Size\nFileETag MTime"], "MTIME"),
        (&["FileETag None", "FileETag -MTime"], "NONE"),
        (&["FileETag None +Size"], "SIZE"),
        (&["FileETag Size None"], "NONE"),
        (&["FileETag Size All"], "MTIME INODE SIZE"),
        (&["FileETag INode", "FileETag None"], "NONE"),
        (&["FileETag INode\nFileETag +Size"], "INODE SIZE"),
        (&["FileETag Digest All"], "MTIME INODE SIZE"),
    ];
    for (folders, expected) in rows {
        let parts = parts(folders);
        let names = [
            ("NONE", EtagParts::NONE),
            ("MTIME", EtagParts::MTIME),
            ("INODE", EtagParts::INODE),
            ("SIZE", EtagParts::SIZE),
            ("DIGEST", EtagParts::DIGEST),
        ];
        let shown: Vec<_> = names
            .iter()
            .filter(|(_, part)| parts.has(*part))
            .map(|(name, _)| *name)
            .collect();
        assert_eq!(shown.join(" "), *expected, "{folders:?}");
    }
    assert!(complaint("FileETag +None").contains("neither"));
    assert!(complaint("FileETag -All").contains("neither"));
    assert!(complaint("FileETag Weak").contains("Weak"));
}

#[test]
fn plain_values() {
    assert_eq!(config("AcceptPathInfo off").accept_path_info, Some(AcceptPathInfo::Off));
    assert_eq!(config("AddDefaultCharset off").default_charset, Some(DefaultCharset::Off));
    let charset = |text| config(text).default_charset;
    let named = |name: &[u8]| Some(DefaultCharset::Named(name.into()));
    assert_eq!(charset("AddDefaultCharset On"), named(b"iso-8859-1"));
    assert_eq!(charset("AddDefaultCharset UTF-8"), named(b"UTF-8"));
    assert_eq!(config("LimitRequestBody 0").request_body_limit, Some(0));
    assert_eq!(config("LimitRequestBody 102400").request_body_limit, Some(102_400));
    assert_eq!(config("ForceType TEXT/Plain").force_type(), Some(&b"text/plain"[..]));
    assert_eq!(config("ForceType None").force_type(), None);
    assert_eq!(config("CGIVar REQUEST_URI current-uri").request_uri_is_current, Some(true));
    assert_eq!(config("QualifyRedirectURL On").qualify_redirect_url, Some(true));
    assert_eq!(config("CGIVar REQUEST_URI original-uri").request_uri_is_current, Some(false));
    assert_eq!(config("AcceptPathInfo Default").accept_path_info, Some(AcceptPathInfo::Default));
    assert_eq!(config("SetInputFilter A;B").input_filters.as_deref(), Some(&b"A;B"[..]));
    for (word, expected) in [
        ("EMail", ServerSignature::Email),
        ("On", ServerSignature::On),
        ("off", ServerSignature::Off),
    ] {
        let found = config(&format!("ServerSignature {word}")).server_signature;
        assert_eq!(found, Some(expected), "{word}");
    }
    for line in ["LimitXMLRequestBody 0", "EnableMMAP On", "EnableSendfile off"] {
        assert!(try_settings(line).is_ok(), "{line}");
    }
    assert!(config("SetHandler h").sets_handler());
    assert!(!config("ForceType a/b").sets_handler());
}

#[test]
fn the_closer_value_holds_and_else_the_one_above() {
    let above = config("AcceptPathInfo off\nAddDefaultCharset a\nForceType x/y\nSetHandler h");
    let silent = Config::merge(&above, &config("Options None"));
    assert_eq!(silent.accept_path_info, Some(AcceptPathInfo::Off));
    assert_eq!(silent.default_charset, Some(DefaultCharset::Named((*b"a").into())));
    assert_eq!(silent.force_type(), Some(&b"x/y"[..]));
    assert!(silent.sets_handler());
    let other = Config::merge(&above, &config("AcceptPathInfo on\nAddDefaultCharset off"));
    assert_eq!(other.accept_path_info, Some(AcceptPathInfo::On));
    assert_eq!(other.default_charset, Some(DefaultCharset::Off));
}

#[test]
fn arguments_that_apache_does_not_take_are_mistakes() {
    for text in [
        "AcceptPathInfo yes",
        "LimitRequestBody -1",
        "LimitRequestBody 10M",
        "LimitRequestBody 99999999999999999999",
        "LimitXMLRequestBody -1",
        "ServerSignature yes",
        "EnableMMAP yes",
        "EnableSendfile 1",
        "CGIVar QUERY_STRING x",
        "CGIVar QUERY_STRING current-uri",
        "CGIVar REQUEST_URI x",
    ] {
        complaint(text);
    }
}

#[test]
fn directives_for_http2_have_no_effect() {
    for line in [
        "H2Push on",
        "H2Upgrade off",
        "H2PushResource /a.css",
        "H2PushResource add /a.css critical",
        "H2EarlyHint Link </a.css>",
        "H2CopyFiles On",
        "H2ProxyRequests off",
    ] {
        assert!(try_settings(line).is_ok(), "{line}");
    }
    assert_eq!(complaint("H2Push maybe"), "H2Push is on or off");
    // As in Apache, these are for the server's own configuration.
    assert!(try_settings("H2Direct on").is_err());
}
