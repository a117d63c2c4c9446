//! The directives of core that are allowed in a folder.

use crate::directive::{Apply, Arguments, Directive, DirectiveCall, Overrides, Support};
use crate::expression::StringExpression;
use crate::merge::{SharedConfig, edit};
use crate::mistake::Complaint;
use crate::modules::core;
use crate::number;

use super::{AcceptPathInfo, DefaultCharset, ServerSignature};
use super::{error_document, etag, options};

/// The module's directives.
pub(crate) const DIRECTIVES: &[Directive<Apply<core::Config>>] = &[
    Directive {
        name: "Error",
        module: "core",
        overrides: Overrides::ALL,
        arguments: Arguments::Raw,
        summary: "Stops with this message: everything below the folder is answered with 500.",
        support: Support::Full,
        apply: error,
    },
    Directive {
        name: "Options",
        module: "core",
        overrides: Overrides::OPTIONS,
        arguments: Arguments::Raw,
        summary: "Switches listings, MultiViews and the following of symbolic links on or off.",
        support: Support::Differs(
            "ExecCGI and Includes are read and have no effect: Howdah runs PHP, not CGI programs \
             or server-side includes",
        ),
        apply: options::apply,
    },
    Directive {
        name: "ErrorDocument",
        module: "core",
        overrides: Overrides::FILE_INFO,
        arguments: Arguments::TWO,
        summary: "Answers an error with a page of the site, a redirect or a text.",
        support: Support::Full,
        apply: error_document::apply,
    },
    Directive {
        name: "FileETag",
        module: "core",
        overrides: Overrides::FILE_INFO,
        arguments: Arguments::ANY,
        summary: "Says which parts the ETag of a file has, or that there is none.",
        support: Support::Differs(
            "None switches entity tags off; what Howdah's are made of does not depend on the other \
             words",
        ),
        apply: etag::apply,
    },
    Directive {
        name: "AcceptPathInfo",
        module: "core",
        overrides: Overrides::FILE_INFO,
        arguments: Arguments::ONE,
        summary: "Says whether a URL may continue after the name of a file.",
        support: Support::Full,
        apply: accept_path_info,
    },
    Directive {
        name: "AddDefaultCharset",
        module: "core",
        overrides: Overrides::FILE_INFO,
        arguments: Arguments::ONE,
        summary: "Adds a charset to text/plain and text/html that have none.",
        support: Support::Full,
        apply: add_default_charset,
    },
    Directive {
        name: "DefaultType",
        module: "core",
        overrides: Overrides::FILE_INFO,
        arguments: Arguments::ONE,
        summary: "Once gave the type of files without one.",
        support: Support::Ignored("Apache 2.4 ignores it as well"),
        apply: nothing,
    },
    Directive {
        name: "ForceType",
        module: "core",
        overrides: Overrides::FILE_INFO,
        arguments: Arguments::ONE,
        summary: "Gives every file this media type.",
        support: Support::Full,
        apply: force_type,
    },
    Directive {
        name: "SetHandler",
        module: "core",
        overrides: Overrides::FILE_INFO,
        arguments: Arguments::ONE,
        summary: "Serves every file by this handler.",
        support: Support::Differs(
            "the handlers of Howdah are those for PHP and for plain files; other programs' and \
             type-map are refused with 403, the rest serve the file as it is",
        ),
        apply: set_handler,
    },
    Directive {
        name: "SetOutputFilter",
        module: "core",
        overrides: Overrides::FILE_INFO,
        arguments: Arguments::ONE,
        summary: "Sends responses through these filters.",
        support: Support::Full,
        apply: set_output_filter,
    },
    Directive {
        name: "SetInputFilter",
        module: "core",
        overrides: Overrides::FILE_INFO,
        arguments: Arguments::ONE,
        summary: "Sends request bodies through these filters.",
        support: Support::Ignored("Howdah has no filters for request bodies"),
        apply: set_input_filter,
    },
    Directive {
        name: "LimitRequestBody",
        module: "core",
        overrides: Overrides::ALL,
        arguments: Arguments::ONE,
        summary: "Refuses request bodies of more bytes with 413; 0 is no limit.",
        support: Support::Differs("the limit in Howdah's own configuration holds as well"),
        apply: limit_request_body,
    },
    Directive {
        name: "LimitXMLRequestBody",
        module: "core",
        overrides: Overrides::ALL,
        arguments: Arguments::ONE,
        summary: "Limits request bodies of WebDAV.",
        support: Support::Ignored("Howdah reads no XML"),
        apply: limit_xml_request_body,
    },
    Directive {
        name: "ServerSignature",
        module: "core",
        overrides: Overrides::ALL,
        arguments: Arguments::ONE,
        summary: "Says whether the server's own pages end with its name.",
        support: Support::Ignored("Howdah's own pages name it no more than its Server field does"),
        apply: server_signature,
    },
    Directive {
        name: "EnableMMAP",
        module: "core",
        overrides: Overrides::FILE_INFO,
        arguments: Arguments::ONE,
        summary: "Says whether files are mapped into memory.",
        support: Support::Ignored("Howdah decides by the file's size"),
        apply: on_or_off,
    },
    Directive {
        name: "EnableSendfile",
        module: "core",
        overrides: Overrides::FILE_INFO,
        arguments: Arguments::ONE,
        summary: "Says whether the kernel sends files by itself.",
        support: Support::Ignored("Howdah decides by the file's size"),
        apply: on_or_off,
    },
    Directive {
        name: "ContentDigest",
        module: "core",
        overrides: Overrides::OPTIONS,
        arguments: Arguments::Flag,
        summary: "Adds Content-MD5 to files.",
        support: Support::Ignored("HTTP has dropped Content-MD5 (RFC 7231, appendix B)"),
        apply: nothing,
    },
    Directive {
        name: "RLimitCPU",
        module: "core",
        overrides: Overrides::ALL,
        arguments: Arguments::Words(1, 2),
        summary: "Limits the processor time of CGI programs.",
        support: Support::Ignored(
            "Howdah starts no CGI programs; PHP's workers have the limits of their pool",
        ),
        apply: nothing,
    },
    Directive {
        name: "RLimitMEM",
        module: "core",
        overrides: Overrides::ALL,
        arguments: Arguments::Words(1, 2),
        summary: "Limits the memory of CGI programs.",
        support: Support::Ignored(
            "Howdah starts no CGI programs; PHP's workers have the limits of their pool",
        ),
        apply: nothing,
    },
    Directive {
        name: "RLimitNPROC",
        module: "core",
        overrides: Overrides::ALL,
        arguments: Arguments::Words(1, 2),
        summary: "Limits the processes of CGI programs.",
        support: Support::Ignored(
            "Howdah starts no CGI programs; PHP's workers have the limits of their pool",
        ),
        apply: nothing,
    },
    Directive {
        name: "CGIPassAuth",
        module: "core",
        overrides: Overrides::AUTH_CONFIG,
        arguments: Arguments::Flag,
        summary: "Says whether scripts see the Authorization field.",
        support: Support::Ignored("PHP sees it always"),
        apply: nothing,
    },
    Directive {
        name: "CGIVar",
        module: "core",
        overrides: Overrides::FILE_INFO,
        arguments: Arguments::TWO,
        summary: "Says whether REQUEST_URI is what the client sent or what it was rewritten to.",
        support: Support::Full,
        apply: cgi_var,
    },
    Directive {
        name: "QualifyRedirectURL",
        module: "core",
        overrides: Overrides::FILE_INFO,
        arguments: Arguments::Flag,
        summary: "Says whether REDIRECT_URL is a full URL.",
        support: Support::Full,
        apply: qualify_redirect_url,
    },
    http2(
        "H2Push",
        Overrides::AUTH_CONFIG,
        Arguments::ONE,
        "Says whether files are pushed to clients.",
        Support::Ignored(NO_PUSH),
        on_or_off,
    ),
    http2(
        "H2PushResource",
        Overrides::FILE_INFO.or(Overrides::AUTH_CONFIG),
        Arguments::Words(1, 3),
        "Pushes a file to clients together with the response.",
        Support::Ignored(NO_PUSH),
        nothing,
    ),
    http2(
        "H2EarlyHint",
        Overrides::FILE_INFO.or(Overrides::AUTH_CONFIG),
        Arguments::TWO,
        "Adds a field to early hints, which come before the response.",
        Support::Ignored("Howdah sends the hints of scripts and servers behind it alone"),
        nothing,
    ),
    http2(
        "H2Upgrade",
        Overrides::AUTH_CONFIG,
        Arguments::ONE,
        "Says whether clients may change from HTTP/1.1 to HTTP/2.",
        Support::Ignored("HTTP has dropped the change (RFC 9113, section 3.1)"),
        on_or_off,
    ),
    http2(
        "H2CopyFiles",
        Overrides::FILE_INFO,
        Arguments::ONE,
        "Says whether files are copied into memory for HTTP/2.",
        Support::Ignored("Howdah decides by the file's size"),
        on_or_off,
    ),
    http2(
        "H2ProxyRequests",
        Overrides::FILE_INFO,
        Arguments::ONE,
        "Says whether a forward proxy takes HTTP/2.",
        Support::Ignored("Howdah is no forward proxy"),
        on_or_off,
    ),
];

const NO_PUSH: &str = "browsers take no pushed files any more; a script names files early with \
                       `headers_send(103)`";

/// A directive of mod_http2.
const fn http2(
    name: &'static str,
    overrides: Overrides,
    arguments: Arguments,
    summary: &'static str,
    support: Support,
    apply: Apply<core::Config>,
) -> Directive<Apply<core::Config>> {
    Directive {
        name,
        module: "mod_http2",
        overrides,
        arguments,
        summary,
        support,
        apply,
    }
}

fn error(call: &DirectiveCall<'_>, _: &mut SharedConfig<core::Config>) -> Result<(), Complaint> {
    let raw = call.raw;
    let message = match raw {
        [] => b"The Error directive was used with no message.",
        [first @ (b'"' | b'\''), inner @ .., last] if first == last => inner,
        _ => raw,
    };
    Err(Complaint::new(String::from_utf8_lossy(message)))
}

fn nothing(_: &DirectiveCall<'_>, _: &mut SharedConfig<core::Config>) -> Result<(), Complaint> {
    Ok(())
}

fn accept_path_info(
    call: &DirectiveCall<'_>,
    shared: &mut SharedConfig<core::Config>,
) -> Result<(), Complaint> {
    let value = match &call.word(0).to_ascii_lowercase()[..] {
        b"on" => AcceptPathInfo::On,
        b"off" => AcceptPathInfo::Off,
        b"default" => AcceptPathInfo::Default,
        _ => return Err(Complaint::about(0, "AcceptPathInfo is on, off or default")),
    };
    edit(shared).accept_path_info = Some(value);
    Ok(())
}

fn add_default_charset(
    call: &DirectiveCall<'_>,
    shared: &mut SharedConfig<core::Config>,
) -> Result<(), Complaint> {
    let word = call.word(0);
    edit(shared).default_charset = Some(match &word.to_ascii_lowercase()[..] {
        b"off" => DefaultCharset::Off,
        b"on" => DefaultCharset::Named((*b"iso-8859-1").into()),
        _ => DefaultCharset::Named(word.into()),
    });
    Ok(())
}

fn force_type(
    call: &DirectiveCall<'_>,
    shared: &mut SharedConfig<core::Config>,
) -> Result<(), Complaint> {
    let media_type = call.word(0).to_ascii_lowercase().into();
    edit(shared).force_type = Some((call.kept_place(), media_type));
    Ok(())
}

fn set_handler(
    call: &DirectiveCall<'_>,
    shared: &mut SharedConfig<core::Config>,
) -> Result<(), Complaint> {
    let handler = StringExpression::new(0, call.word(0))?;
    edit(shared).handler = Some((call.kept_place(), handler));
    Ok(())
}

fn set_output_filter(
    call: &DirectiveCall<'_>,
    shared: &mut SharedConfig<core::Config>,
) -> Result<(), Complaint> {
    edit(shared).output_filters = Some(call.word(0).into());
    Ok(())
}

fn set_input_filter(
    call: &DirectiveCall<'_>,
    shared: &mut SharedConfig<core::Config>,
) -> Result<(), Complaint> {
    edit(shared).input_filters = Some(call.word(0).into());
    Ok(())
}

fn limit_request_body(
    call: &DirectiveCall<'_>,
    shared: &mut SharedConfig<core::Config>,
) -> Result<(), Complaint> {
    let word = call.word(0);
    let limit = number::integer(word)
        .filter(|(_, read)| *read == word.len())
        .and_then(|(number, _)| u64::try_from(number).ok())
        .ok_or_else(|| Complaint::about(0, "LimitRequestBody takes a number of bytes"))?;
    edit(shared).request_body_limit = Some(limit);
    Ok(())
}

fn limit_xml_request_body(
    call: &DirectiveCall<'_>,
    _: &mut SharedConfig<core::Config>,
) -> Result<(), Complaint> {
    match number::leading_integer(call.word(0)) {
        Some(0..) => Ok(()),
        _ => Err(Complaint::about(0, "LimitXMLRequestBody takes a number of bytes")),
    }
}

fn server_signature(
    call: &DirectiveCall<'_>,
    shared: &mut SharedConfig<core::Config>,
) -> Result<(), Complaint> {
    let value = match &call.word(0).to_ascii_lowercase()[..] {
        b"on" => ServerSignature::On,
        b"off" => ServerSignature::Off,
        b"email" => ServerSignature::Email,
        _ => return Err(Complaint::about(0, "ServerSignature is on, off or email")),
    };
    edit(shared).server_signature = Some(value);
    Ok(())
}

fn on_or_off(
    call: &DirectiveCall<'_>,
    _: &mut SharedConfig<core::Config>,
) -> Result<(), Complaint> {
    match &call.word(0).to_ascii_lowercase()[..] {
        b"on" | b"off" => Ok(()),
        _ => Err(Complaint::about(0, format!("{} is on or off", call.name))),
    }
}

fn cgi_var(
    call: &DirectiveCall<'_>,
    shared: &mut SharedConfig<core::Config>,
) -> Result<(), Complaint> {
    if call.word(0) != b"REQUEST_URI" {
        let shown = String::from_utf8_lossy(call.word(0));
        return Err(Complaint::about(0, format!("CGIVar knows no variable {shown:?}")));
    }
    let is_current = match &call.word(1).to_ascii_lowercase()[..] {
        b"current-uri" => true,
        b"original-uri" => false,
        _ => {
            return Err(Complaint::about(1, "REQUEST_URI is original-uri or current-uri"));
        }
    };
    edit(shared).request_uri_is_current = Some(is_current);
    Ok(())
}

fn qualify_redirect_url(
    call: &DirectiveCall<'_>,
    shared: &mut SharedConfig<core::Config>,
) -> Result<(), Complaint> {
    edit(shared).qualify_redirect_url = Some(call.flag());
    Ok(())
}
