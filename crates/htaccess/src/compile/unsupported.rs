//! Directives that Apache does not allow in `.htaccess`, and directives of modules that Howdah does
//! not have. Both are answered with 500, as by Apache; these lists make the messages better.

/// Directives and sections of the server's own configuration. Names as in Apache's manual.
const SERVER: &[&str] = &[
    "<Directory",
    "<DirectoryMatch",
    "<Location",
    "<LocationMatch",
    "<VirtualHost",
    "<AuthnProviderAlias",
    "<AuthzProviderAlias",
    "AcceptFilter",
    "AccessFileName",
    "Alias",
    "AliasMatch",
    "AllowEncodedSlashes",
    "AllowOverride",
    "AllowOverrideList",
    "AsyncRequestWorkerFactor",
    "AuthDigestShmemSize",
    "BrotliAlterETag",
    "BrotliCompressionMaxInputBlock",
    "BrotliCompressionQuality",
    "BrotliCompressionWindow",
    "BrotliFilterNote",
    "BufferedLogs",
    "CacheNegotiatedDocs",
    "ChrootDir",
    "CoreDumpDirectory",
    "CustomLog",
    "DefaultRuntimeDir",
    "Define",
    "DeflateAlterEtag",
    "DeflateBufferSize",
    "DeflateCompressionLevel",
    "DeflateFilterNote",
    "DeflateMemLevel",
    "DeflateWindowSize",
    "DocumentRoot",
    "EnableExceptionHook",
    "ErrorLog",
    "ErrorLogFormat",
    "ExtendedStatus",
    "FilterTrace",
    "FlushMaxPipelined",
    "FlushMaxThreshold",
    "GlobalLog",
    "GprofDir",
    "Group",
    "HostnameLookups",
    "HttpProtocolOptions",
    "Include",
    "IncludeOptional",
    "KeepAlive",
    "KeepAliveTimeout",
    "LimitInternalRecursion",
    "LimitRequestFields",
    "LimitRequestFieldsize",
    "LimitRequestLine",
    "Listen",
    "ListenBackLog",
    "LoadFile",
    "LoadModule",
    "LogFormat",
    "LogLevel",
    "MaxClients",
    "MaxConnectionsPerChild",
    "MaxKeepAliveRequests",
    "MaxMemFree",
    "MaxRangeOverlaps",
    "MaxRangeReversals",
    "MaxRanges",
    "MaxRequestWorkers",
    "MaxRequestsPerChild",
    "MaxSpareThreads",
    "MergeSlashes",
    "MergeTrailers",
    "MinSpareThreads",
    "ModMimeUsePathInfo",
    "Mutex",
    "NameVirtualHost",
    "PHPINIDir",
    "PidFile",
    "Port",
    "Protocol",
    "Protocols",
    "ProtocolsHonorOrder",
    "ReadBufferSize",
    "ReceiveBufferSize",
    "RegexDefaultOptions",
    "RegisterHttpMethod",
    "RewriteMap",
    "SSLEngine",
    "SSLCertificateFile",
    "SSLCertificateKeyFile",
    "SSLCertificateChainFile",
    "SSLProtocol",
    "SSLHonorCipherOrder",
    "SSLCompression",
    "SSLSessionCache",
    "SSLSessionTickets",
    "SSLUseStapling",
    "SSLStaplingCache",
    "SSLInsecureRenegotiation",
    "SSLOpenSSLConfCmd",
    "SSLPolicy",
    "SSLStrictSNIVHostCheck",
    "ScoreBoardFile",
    "ScriptAlias",
    "ScriptAliasMatch",
    "SeeRequestTail",
    "SendBufferSize",
    "ServerAdmin",
    "ServerAlias",
    "ServerLimit",
    "ServerName",
    "ServerPath",
    "ServerRoot",
    "ServerTokens",
    "StartServers",
    "StrictHostCheck",
    "Suexec",
    "ThreadLimit",
    "ThreadStackSize",
    "ThreadsPerChild",
    "Timeout",
    "TraceEnable",
    "TransferLog",
    "TypesConfig",
    "UNCList",
    "UnDefine",
    "UseCanonicalName",
    "UseCanonicalPhysicalPort",
    "User",
    "php_admin_flag",
    "php_admin_value",
];

/// Prefixes of the names of other modules' directives, and the file that `<IfModule>` knows the
/// module by.
const OTHERS: &[(&str, &str)] = &[
    ("SecFilter", "mod_security.c"),
    ("Sec", "mod_security2.c"),
    ("ModPagespeed", "pagespeed_module"),
    ("<Proxy", "mod_proxy.c"),
    ("Proxy", "mod_proxy.c"),
    ("NoProxy", "mod_proxy.c"),
    ("CheckSpelling", "mod_speling.c"),
    ("CheckCaseOnly", "mod_speling.c"),
    ("mod_gzip", "mod_gzip.c"),
    ("lsapi_", "mod_lsapi.c"),
    ("Lsapi", "mod_lsapi.c"),
    ("CacheLookup", "LiteSpeed"),
    ("CacheEnable", "mod_cache.c"),
    ("CacheDisable", "mod_cache.c"),
    ("CachePublic", "LiteSpeed"),
    ("CachePrivate", "LiteSpeed"),
    ("Fcgid", "mod_fcgid.c"),
    ("FCGI", "mod_fcgid.c"),
    ("suPHP_", "mod_suphp.c"),
    ("Imap", "mod_imagemap.c"),
    ("SSI", "mod_include.c"),
    ("XBitHack", "mod_include.c"),
    ("XSendFile", "mod_xsendfile.c"),
    ("GeoIP", "mod_geoip.c"),
    ("MaxMind", "mod_maxminddb.c"),
    ("Passenger", "mod_passenger.c"),
    ("RemoteIP", "mod_remoteip.c"),
    ("Perl", "mod_perl.c"),
    ("Lua", "mod_lua.c"),
    ("Dav", "mod_dav.c"),
    ("Session", "mod_session.c"),
    ("AuthForm", "mod_auth_form.c"),
    ("AuthLDAP", "mod_authnz_ldap.c"),
    ("AuthDBD", "mod_authn_dbd.c"),
    ("AuthDBM", "mod_authn_dbm.c"),
    ("Anonymous", "mod_authn_anon.c"),
    ("CharsetSourceEnc", "mod_charset_lite.c"),
    ("CharsetDefault", "mod_charset_lite.c"),
    ("Cookie", "mod_usertrack.c"),
    ("Action", "mod_actions.c"),
    ("Script", "mod_actions.c"),
    ("MetaFiles", "mod_cern_meta.c"),
    ("MetaDir", "mod_cern_meta.c"),
    ("MimeMagicFile", "mod_mime_magic.c"),
    ("wsgi", "mod_wsgi.c"),
    ("TidyEnable", "mod_tidy.c"),
];

/// Prefixes of directives for encryption and protocols, and the keys of `howdah.toml` in their
/// place.
const KEYS: &[(&str, &str)] = &[
    ("SSLEngine", "`tls` of [[site]]"),
    ("SSLCertificate", "`cert` and `key` of [site.tls]"),
    ("SSLProtocol", "`min_version` of [site.tls]"),
    ("SSLHonorCipherOrder", "`ciphers` of [site.tls]"),
    ("Protocols", "`enabled` of [http2] and [http3]"),
    ("MDomain", "`tls = \"auto\"` of [[site]]"),
    ("<MDomain", "`tls = \"auto\"` of [[site]]"),
    ("MDCertificate", "[acme]"),
    ("MDContactEmail", "`email` of [acme]"),
];

/// Returns the place in `howdah.toml` of the setting that this directive has. `None`: no key has
/// that meaning.
pub(super) fn key_of(name: &str) -> Option<&'static str> {
    KEYS.iter().find(|(prefix, _)| begins(name, prefix)).map(|(_, key)| *key)
}

/// Returns the directive of the server's configuration that has this name, in any case. `None`:
/// there is none.
pub(super) fn server_directive(name: &str) -> Option<&'static str> {
    SERVER.iter().find(|known| known.eq_ignore_ascii_case(name)).copied()
}

/// Returns the name that `<IfModule>` uses for the module of this directive. `None`: the module is
/// not known.
pub(super) fn module_of(name: &str) -> Option<&'static str> {
    OTHERS
        .iter()
        .find(|(prefix, _)| begins(name, prefix))
        .map(|(_, module)| *module)
}

fn begins(name: &str, prefix: &str) -> bool {
    let start = name.as_bytes().get(..prefix.len());
    start.is_some_and(|start| start.eq_ignore_ascii_case(prefix.as_bytes()))
}

#[cfg(test)]
mod tests {
    use crate::{CompileContext, compile};

    #[test]
    fn directives_for_encryption_name_the_key_in_their_place() {
        for (line, key) in [
            ("SSLEngine on", "`tls` of [[site]]"),
            ("SSLCertificateFile a", "`cert` and `key` of [site.tls]"),
            ("sslprotocol all", "`min_version` of [site.tls]"),
            ("Protocols h2", "`enabled` of [http2] and [http3]"),
            ("MDomain example.org", "`tls = \"auto\"` of [[site]]"),
        ] {
            let compiled = compile(line.as_bytes(), &CompileContext::new("f", b"/site/"));
            let hint = compiled.mistake.and_then(|mistake| mistake.hint).expect(line);
            assert!(hint.ends_with(&format!(": in howdah.toml, {key}")), "{line}: {hint}");
        }
    }
}
