//! Directives about authentication and files of passwords.

use crate::directive::{Apply, Arguments, Directive, DirectiveCall, Overrides, Support};
use crate::expression::StringExpression;
use crate::merge::{SharedConfig, edit};
use crate::mistake::Complaint;
use crate::modules::auth;
use crate::number;

use super::digest;

/// The directives of the modules.
pub(crate) const DIRECTIVES: &[Directive<Apply<auth::Config>>] = &[
    directive(
        "AuthType",
        "mod_authn_core",
        Arguments::ONE,
        "Says how users authenticate: Basic, Digest or None.",
        auth_type,
    ),
    directive(
        "AuthName",
        "mod_authn_core",
        Arguments::ONE,
        "Names what is protected; browsers show it.",
        auth_name,
    ),
    Directive {
        support: Support::Differs(PATHS),
        ..directive(
            "AuthUserFile",
            "mod_authn_file",
            Arguments::ONE,
            "Names the file of users and their passwords' hashes.",
            auth_user_file,
        )
    },
    Directive {
        support: Support::Differs(PATHS),
        ..directive(
            "AuthGroupFile",
            "mod_authz_groupfile",
            Arguments::ONE,
            "Names the file of groups and their users.",
            auth_group_file,
        )
    },
    Directive {
        support: Support::Differs("`file` is the only one there is; others are refused"),
        ..directive(
            "AuthBasicProvider",
            "mod_auth_basic",
            Arguments::SOME,
            "Says where Basic looks users up.",
            auth_basic_provider,
        )
    },
    directive(
        "AuthBasicAuthoritative",
        "mod_auth_basic",
        Arguments::Flag,
        "Says whether an unknown user is asked again; Off answers 500, as there is no other \
         provider.",
        auth_basic_authoritative,
    ),
    directive(
        "AuthBasicFake",
        "mod_auth_basic",
        Arguments::Words(1, 2),
        "Passes an Authorization field to the application that the client did not send.",
        auth_basic_fake,
    ),
    directive(
        "AuthBasicUseDigestAlgorithm",
        "mod_auth_basic",
        Arguments::ONE,
        "Makes Basic use a file of Digest's.",
        auth_basic_use_digest_algorithm,
    ),
    Directive {
        support: Support::Differs("`file` is the only one there is; others are refused"),
        ..directive(
            "AuthDigestProvider",
            "mod_auth_digest",
            Arguments::SOME,
            "Says where Digest looks users up.",
            auth_digest_provider,
        )
    },
    directive("AuthDigestQop", "mod_auth_digest", Arguments::SOME, "Is auth.", auth_digest_qop),
    Directive {
        support: Support::Differs(
            "0, which asks for one-time nonces, is refused: nonces are not kept",
        ),
        ..directive(
            "AuthDigestNonceLifetime",
            "mod_auth_digest",
            Arguments::ONE,
            "Says for how many seconds a nonce is good; less than 0 is for ever.",
            auth_digest_nonce_lifetime,
        )
    },
    Directive {
        support: Support::Differs("On is refused: nonces are not kept"),
        ..directive(
            "AuthDigestNcCheck",
            "mod_auth_digest",
            Arguments::Flag,
            "Says whether the nonce's count is checked.",
            auth_digest_nc_check,
        )
    },
    directive(
        "AuthDigestAlgorithm",
        "mod_auth_digest",
        Arguments::ONE,
        "Is MD5.",
        auth_digest_algorithm,
    ),
    directive(
        "AuthDigestDomain",
        "mod_auth_digest",
        Arguments::SOME,
        "Names URLs that have the same users.",
        auth_digest_domain,
    ),
];

const PATHS: &str = "the path must be absolute: Howdah has no ServerRoot that others could be \
    relative to. The file must belong to root, to the server's user or to the site's user, or be \
    readable for the site's user. Else the answer is 500";

const fn directive(
    name: &'static str,
    module: &'static str,
    arguments: Arguments,
    summary: &'static str,
    apply: Apply<auth::Config>,
) -> Directive<Apply<auth::Config>> {
    Directive {
        name,
        module,
        overrides: Overrides::AUTH_CONFIG,
        arguments,
        summary,
        support: Support::Full,
        apply,
    }
}

fn edit_digest(shared: &mut SharedConfig<auth::Config>) -> &mut digest::Config {
    edit(shared).digest.get_or_insert_default()
}

fn auth_type(
    call: &DirectiveCall<'_>,
    shared: &mut SharedConfig<auth::Config>,
) -> Result<(), Complaint> {
    edit(shared).auth_type = Some(StringExpression::new(0, call.word(0))?);
    Ok(())
}

fn auth_name(
    call: &DirectiveCall<'_>,
    shared: &mut SharedConfig<auth::Config>,
) -> Result<(), Complaint> {
    edit(shared).name = Some(StringExpression::new(0, call.word(0))?);
    Ok(())
}

fn auth_user_file(
    call: &DirectiveCall<'_>,
    shared: &mut SharedConfig<auth::Config>,
) -> Result<(), Complaint> {
    edit(shared).user_file = Some(call.word(0).into());
    Ok(())
}

fn auth_group_file(
    call: &DirectiveCall<'_>,
    shared: &mut SharedConfig<auth::Config>,
) -> Result<(), Complaint> {
    edit(shared).group_file = Some(call.word(0).into());
    Ok(())
}

fn auth_basic_provider(
    call: &DirectiveCall<'_>,
    _: &mut SharedConfig<auth::Config>,
) -> Result<(), Complaint> {
    providers(call, &["anon", "dbd", "dbm", "fcgi", "ldap", "socache"])
}

fn auth_digest_provider(
    call: &DirectiveCall<'_>,
    shared: &mut SharedConfig<auth::Config>,
) -> Result<(), Complaint> {
    edit_digest(shared);
    providers(call, &["dbd", "dbm", "socache"])
}

fn providers(call: &DirectiveCall<'_>, elsewhere: &[&str]) -> Result<(), Complaint> {
    let mut words = call.words.iter().enumerate();
    let Some((index, other)) = words.find(|(_, word)| *word != b"file") else {
        return Ok(());
    };
    let shown = String::from_utf8_lossy(other);
    let complaint = Complaint::about(index, format!("there is no provider {shown:?}"))
        .hint("only `file` is there");
    let is_elsewhere = elsewhere.iter().any(|name| name.as_bytes() == &other[..]);
    Err(if is_elsewhere { complaint.refused() } else { complaint })
}

fn auth_basic_authoritative(
    call: &DirectiveCall<'_>,
    shared: &mut SharedConfig<auth::Config>,
) -> Result<(), Complaint> {
    edit(shared).basic.authoritative = Some(call.flag());
    Ok(())
}

fn auth_basic_fake(
    call: &DirectiveCall<'_>,
    shared: &mut SharedConfig<auth::Config>,
) -> Result<(), Complaint> {
    let fake = if call.word(0).eq_ignore_ascii_case(b"off") {
        None
    } else {
        let password = call.words.get(1).map_or(&b"password"[..], |word| word);
        Some(Box::new((
            StringExpression::new(0, call.word(0))?,
            StringExpression::new(1, password)?,
        )))
    };
    edit(shared).basic.fake = Some(fake);
    Ok(())
}

fn auth_basic_use_digest_algorithm(
    call: &DirectiveCall<'_>,
    shared: &mut SharedConfig<auth::Config>,
) -> Result<(), Complaint> {
    let uses_digest = match &call.word(0).to_ascii_lowercase()[..] {
        b"off" => false,
        b"md5" => true,
        _ => {
            return Err(Complaint::about(0, "AuthBasicUseDigestAlgorithm is Off or MD5"));
        }
    };
    edit(shared).basic.uses_digest = Some(uses_digest);
    Ok(())
}

fn auth_digest_qop(
    call: &DirectiveCall<'_>,
    shared: &mut SharedConfig<auth::Config>,
) -> Result<(), Complaint> {
    edit_digest(shared);
    let mut words = call.words.iter().enumerate();
    match words.find(|(_, word)| !word.eq_ignore_ascii_case(b"auth")) {
        None => Ok(()),
        Some((index, _)) => Err(Complaint::about(index, "AuthDigestQop is auth")),
    }
}

fn auth_digest_nonce_lifetime(
    call: &DirectiveCall<'_>,
    shared: &mut SharedConfig<auth::Config>,
) -> Result<(), Complaint> {
    let word = call.word(0);
    let seconds = number::integer(word).filter(|(_, read)| *read == word.len() && *read > 0);
    let (seconds, _) =
        seconds.ok_or_else(|| Complaint::about(0, "AuthDigestNonceLifetime takes seconds"))?;
    if seconds == 0 {
        return Err(Complaint::about(0, "one-time nonces are not supported").refused());
    }
    edit_digest(shared).lifetime = Some(seconds);
    Ok(())
}

fn auth_digest_nc_check(
    call: &DirectiveCall<'_>,
    shared: &mut SharedConfig<auth::Config>,
) -> Result<(), Complaint> {
    edit_digest(shared);
    if call.flag() {
        return Err(Complaint::about(0, "the nonce's count is not checked").refused());
    }
    Ok(())
}

fn auth_digest_algorithm(
    call: &DirectiveCall<'_>,
    shared: &mut SharedConfig<auth::Config>,
) -> Result<(), Complaint> {
    edit_digest(shared);
    if call.word(0).eq_ignore_ascii_case(b"MD5") {
        return Ok(());
    }
    Err(Complaint::about(0, "AuthDigestAlgorithm is MD5"))
}

fn auth_digest_domain(
    call: &DirectiveCall<'_>,
    shared: &mut SharedConfig<auth::Config>,
) -> Result<(), Complaint> {
    let domain = edit_digest(shared).domain.get_or_insert_default();
    for url in call.words {
        if !domain.is_empty() {
            domain.push(b' ');
        }
        domain.extend_from_slice(url);
    }
    Ok(())
}
