//! What each directive takes, as the manual writes it: words in capitals stand for something, `[…]` may be left out, `…` may be
//! repeated.

/// The arguments of a directive; `None` where nobody has written them down.
pub(super) fn of(name: &str) -> Option<&'static str> {
    SYNTAX
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, syntax)| *syntax)
}

const SYNTAX: &[(&str, &str)] = &[
    ("AcceptPathInfo", "On | Off | Default"),
    ("AddAlt", "TEXT FILE…"),
    ("AddAltByEncoding", "TEXT ENCODING…"),
    ("AddAltByType", "TEXT TYPE…"),
    ("AddCharset", "CHARSET EXTENSION…"),
    ("AddDefaultCharset", "On | Off | CHARSET"),
    ("AddDescription", "TEXT FILE…"),
    ("AddEncoding", "ENCODING EXTENSION…"),
    ("AddHandler", "HANDLER EXTENSION…"),
    ("AddIcon", "URL | (ALT,URL) FILE…"),
    ("AddIconByEncoding", "URL | (ALT,URL) ENCODING…"),
    ("AddIconByType", "URL | (ALT,URL) TYPE…"),
    ("AddInputFilter", "FILTER[;FILTER…] EXTENSION…"),
    ("AddLanguage", "LANGUAGE EXTENSION…"),
    ("AddOutputFilter", "FILTER[;FILTER…] EXTENSION…"),
    ("AddOutputFilterByType", "FILTER[;FILTER…] TYPE…"),
    ("AddType", "TYPE EXTENSION…"),
    ("AliasPreservePath", "On | Off"),
    ("Allow", "from all | HOST… | env=[!]VARIABLE…"),
    ("AuthBasicAuthoritative", "On | Off"),
    ("AuthBasicFake", "off | USER [PASSWORD]"),
    ("AuthBasicProvider", "PROVIDER…"),
    ("AuthBasicUseDigestAlgorithm", "MD5 | Off"),
    ("AuthDigestAlgorithm", "MD5"),
    ("AuthDigestDomain", "URI…"),
    ("AuthDigestNcCheck", "On | Off"),
    ("AuthDigestNonceLifetime", "SECONDS"),
    ("AuthDigestProvider", "PROVIDER…"),
    ("AuthDigestQop", "auth | none"),
    ("AuthGroupFile", "PATH"),
    ("AuthMerging", "Off | And | Or"),
    ("AuthName", "REALM"),
    ("AuthType", "None | Basic | Digest"),
    ("AuthUserFile", "PATH"),
    ("AuthzSendForbiddenOnFailure", "On | Off"),
    ("BrotliAlterETag", "…"),
    ("BrotliCompressionMaxInputBlock", "…"),
    ("BrotliCompressionQuality", "…"),
    ("BrotliCompressionWindow", "…"),
    ("BrotliFilterNote", "…"),
    ("BrowserMatch", "REGEX [!]VARIABLE[=VALUE]…"),
    ("BrowserMatchNoCase", "REGEX [!]VARIABLE[=VALUE]…"),
    ("CGIPassAuth", "On | Off"),
    ("CGIVar", "VARIABLE RULE"),
    ("CacheNegotiatedDocs", "On | Off"),
    ("ContentDigest", "On | Off"),
    ("DefaultIcon", "URL"),
    ("DefaultLanguage", "LANGUAGE"),
    ("DefaultType", "TYPE | none"),
    ("DeflateAlterETag", "…"),
    ("DeflateBufferSize", "…"),
    ("DeflateCompressionLevel", "…"),
    ("DeflateFilterNote", "…"),
    ("DeflateInflateLimitRequestBody", "BYTES"),
    ("DeflateInflateRatioBurst", "NUMBER"),
    ("DeflateInflateRatioLimit", "NUMBER"),
    ("DeflateMemLevel", "…"),
    ("DeflateWindowSize", "…"),
    ("Deny", "from all | HOST… | env=[!]VARIABLE…"),
    ("DirectoryCheckHandler", "On | Off"),
    ("DirectoryIndex", "disabled | FILE…"),
    (
        "DirectoryIndexRedirect",
        "on | off | permanent | temp | seeother | STATUS",
    ),
    ("DirectorySlash", "On | Off"),
    ("EnableMMAP", "On | Off"),
    ("EnableSendfile", "On | Off"),
    ("Error", "MESSAGE"),
    ("ErrorDocument", "STATUS PATH | URL | \"TEXT\" | default"),
    ("ExpiresActive", "On | Off"),
    ("ExpiresByType", "TYPE \"BASE [plus] NUMBER UNIT…\""),
    ("ExpiresDefault", "\"BASE [plus] NUMBER UNIT…\""),
    ("FallbackResource", "disabled | PATH"),
    (
        "FileETag",
        "None | All | [+|-]INode [+|-]MTime [+|-]Size [+|-]Digest",
    ),
    ("FilterChain", "[+|=|-|@|!]FILTER…"),
    ("FilterDeclare", "FILTER [TYPE]"),
    ("FilterProtocol", "FILTER [PROVIDER] FLAGS"),
    ("FilterProvider", "FILTER PROVIDER EXPRESSION"),
    ("FilterTrace", "…"),
    ("ForceLanguagePriority", "None | Prefer | Fallback…"),
    ("ForceType", "TYPE | None"),
    (
        "Header",
        "[always | onsuccess] ACTION FIELD [[expr=]VALUE [REPLACEMENT] [early | env=[!]VARIABLE | expr=CONDITION]]",
    ),
    ("HeaderName", "FILE"),
    ("IndexHeadInsert", "TEXT"),
    ("IndexIgnore", "FILE…"),
    ("IndexIgnoreReset", "On | Off"),
    ("IndexOptions", "[+|-]OPTION…"),
    (
        "IndexOrderDefault",
        "Ascending | Descending Name | Date | Size | Description",
    ),
    ("IndexStyleSheet", "URL"),
    ("LanguagePriority", "LANGUAGE…"),
    ("LimitRequestBody", "BYTES"),
    ("LimitXMLRequestBody", "BYTES"),
    ("ModMimeUsePathInfo", "On | Off"),
    ("MultiviewsMatch", "Any | NegotiatedOnly | Filters | Handlers…"),
    ("Options", "[+|-]OPTION…"),
    ("Order", "allow,deny | deny,allow | mutual-failure"),
    ("PHPINIDir", "PATH"),
    ("PassEnv", "VARIABLE…"),
    ("QualifyRedirectURL", "On | Off"),
    ("RLimitCPU", "SECONDS | max [SECONDS | max]"),
    ("RLimitMEM", "BYTES | max [BYTES | max]"),
    ("RLimitNPROC", "NUMBER | max [NUMBER | max]"),
    ("ReadmeName", "FILE"),
    ("Redirect", "[STATUS] PATH [URL]"),
    ("RedirectMatch", "[STATUS] REGEX [URL]"),
    ("RedirectPermanent", "PATH URL"),
    ("RedirectRelative", "On | Off"),
    ("RedirectTemp", "PATH URL"),
    ("RemoveCharset", "EXTENSION…"),
    ("RemoveEncoding", "EXTENSION…"),
    ("RemoveHandler", "EXTENSION…"),
    ("RemoveInputFilter", "EXTENSION…"),
    ("RemoveLanguage", "EXTENSION…"),
    ("RemoveOutputFilter", "EXTENSION…"),
    ("RemoveType", "EXTENSION…"),
    (
        "RequestHeader",
        "ACTION FIELD [[expr=]VALUE [REPLACEMENT] [early | env=[!]VARIABLE | expr=CONDITION]]",
    ),
    ("Require", "[not] PROVIDER [ARGUMENT…]"),
    ("RewriteBase", "PATH"),
    ("RewriteCond", "TEST PATTERN [FLAGS]"),
    ("RewriteEngine", "On | Off"),
    ("RewriteOptions", "OPTION…"),
    ("RewriteRule", "PATTERN SUBSTITUTION [FLAGS]"),
    ("SSLCACertificateFile", "PATH"),
    ("SSLCACertificatePath", "PATH"),
    ("SSLCipherSuite", "[PROTOCOL] CIPHERS"),
    ("SSLOptions", "[+|-]OPTION…"),
    ("SSLRenegBufferSize", "BYTES"),
    ("SSLRequire", "EXPRESSION"),
    ("SSLRequireSSL", ""),
    ("SSLUserName", "VARIABLE"),
    ("SSLVerifyClient", "none | optional | require | optional_no_ca"),
    ("SSLVerifyDepth", "NUMBER"),
    ("Satisfy", "All | Any"),
    ("ServerSignature", "On | Off | EMail"),
    ("SetEnv", "VARIABLE [VALUE]"),
    ("SetEnvIf", "ATTRIBUTE REGEX [!]VARIABLE[=VALUE]…"),
    ("SetEnvIfExpr", "CONDITION [!]VARIABLE[=VALUE]…"),
    ("SetEnvIfNoCase", "ATTRIBUTE REGEX [!]VARIABLE[=VALUE]…"),
    ("SetHandler", "HANDLER | none"),
    ("SetInputFilter", "FILTER[;FILTER…]"),
    ("SetOutputFilter", "FILTER[;FILTER…]"),
    ("Substitute", "s/PATTERN/REPLACEMENT/[infq]"),
    ("SubstituteInheritBefore", "On | Off"),
    ("SubstituteMaxLineLength", "BYTES[k | m | g]"),
    ("TypesConfig", "PATH"),
    ("UnsetEnv", "VARIABLE…"),
    ("php_admin_flag", "NAME on | off"),
    ("php_admin_value", "NAME VALUE"),
    ("php_flag", "NAME on | off"),
    ("php_value", "NAME VALUE"),
    ("<RequireAll", ""),
    ("<RequireAny", ""),
    ("<RequireNone", ""),
];

#[cfg(test)]
mod tests {
    use super::{SYNTAX, of};
    use crate::directive;

    #[test]
    fn every_directive_has_its_syntax() {
        let missing: Vec<&str> = directive::all()
            .map(|directive| directive.name)
            .filter(|name| of(name).is_none())
            .collect();
        assert_eq!(missing, [""; 0], "tell in manual/syntax.rs what they take");
    }

    #[test]
    fn every_syntax_has_its_directive() {
        let known = |name: &str| directive::all().any(|directive| directive.name == name);
        let stale: Vec<&str> = SYNTAX
            .iter()
            .map(|(name, _)| *name)
            .filter(|name| !known(name))
            .collect();
        assert_eq!(stale, [""; 0]);
    }
}
