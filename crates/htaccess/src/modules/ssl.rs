//! mod_ssl's access control: SSLRequireSSL. Directives that need a new handshake are refused.

use std::sync::Arc;

use howdah_http::{Scheme, ScriptVariables, Status};

use crate::directive::{Apply, Arguments, Directive, DirectiveCall, Overrides, Support};
use crate::language::words;
use crate::merge::{Merge, SharedConfig, edit};
use crate::mistake::{Complaint, DirectivePlace};
use crate::module::{ApacheModule, ModuleConfig, Presence};
use crate::trace::TraceEvent;
use crate::transaction::Transaction;

/// The module's configuration.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// SSLRequireSSL.
    required: Option<Arc<DirectivePlace>>,
    /// SSLOptions StrictRequire: whether SSLRequireSSL holds in spite of `Satisfy Any`.
    strict: Option<bool>,
    /// SSLOptions StdEnvVars.
    variables: Option<ScriptVariables>,
    /// SSLOptions ExportCertData: whether scripts get the certificates themselves.
    certificates: Option<bool>,
}

impl Config {
    /// Returns the variables that scripts get; `None` if no directive has chosen.
    pub fn script_variables(&self) -> Option<ScriptVariables> {
        self.variables
    }

    /// Returns whether scripts get the certificates of both sides.
    pub fn exports_certificates(&self) -> bool {
        self.certificates == Some(true)
    }

    /// Returns whether scripts get the variables that they get without any directive.
    pub fn leaves_variables(&self) -> bool {
        self.variables.is_none() && !self.exports_certificates()
    }

    /// Turns all options off: an option without a sign takes the place of the others.
    fn reset(&mut self) {
        self.strict = Some(false);
        self.variables = Some(ScriptVariables::ServerName);
        self.certificates = Some(false);
    }

    /// Returns whether an unencrypted connection is refused even with `Satisfy Any`.
    pub(crate) fn forbids_all(&self, tx: &Transaction<'_>) -> bool {
        self.strict == Some(true) && self.required.is_some() && tx.client.scheme() != Scheme::Https
    }
}

impl Merge for Config {
    fn merge(base: &Config, add: &Config) -> Config {
        Config {
            required: add.required.as_ref().or(base.required.as_ref()).cloned(),
            strict: add.strict.or(base.strict),
            variables: add.variables.or(base.variables),
            certificates: add.certificates.or(base.certificates),
        }
    }
}

impl ModuleConfig for Config {
    fn is_silent(&self) -> bool {
        self.leaves_variables()
    }
}

/// Apache's module.
pub(crate) const APACHE_MODULES: &[ApacheModule] =
    &[ApacheModule::new("mod_ssl.c", "ssl_module", Some("SSLRequireSSL"), Presence::Protects)];

/// Checks whether the connection is as safe as the directives demand.
///
/// # Errors
/// 403.
pub(crate) fn check(tx: &mut Transaction<'_>, config: &Config) -> Result<(), Status> {
    let Some(place) = config.required.as_ref() else {
        return Ok(());
    };
    let is_encrypted = tx.client.scheme() == Scheme::Https;
    tx.trace(|| TraceEvent {
        step: "access",
        place: Some(place.clone()),
        text: "SSLRequireSSL".into(),
        facts: Vec::new(),
        outcome: if is_encrypted { "granted" } else { "denied" }.into(),
    });
    if is_encrypted {
        return Ok(());
    }
    let what =
        format!("{} is for encrypted connections only", String::from_utf8_lossy(&tx.state.uri));
    tx.complain(Some(place), what);
    Err(Status::FORBIDDEN)
}

/// The module's directives.
pub(crate) const DIRECTIVES: &[Directive<Apply<Config>>] = &[
    Directive {
        name: "SSLRequireSSL",
        module: "mod_ssl",
        overrides: Overrides::AUTH_CONFIG,
        // Apache accepts arguments and ignores them.
        arguments: Arguments::Raw,
        summary: "Answers requests over unencrypted connections with 403.",
        support: Support::Full,
        apply: ssl_require_ssl,
    },
    Directive {
        name: "SSLOptions",
        module: "mod_ssl",
        overrides: Overrides::OPTIONS,
        arguments: Arguments::Raw,
        summary: "Says which variables scripts get, and how strict SSLRequireSSL is.",
        support: Support::Differs(
            "StrictRequire and ExportCertData are honoured; `+StdEnvVars` gives scripts all of \
             mod_ssl's variables, `-StdEnvVars` SSL_TLS_SNI alone, and without either they get \
             those of the connection and of the client's certificate; FakeBasicAuth is refused; \
             the others have no effect",
        ),
        apply: ssl_options,
    },
    refused(
        "SSLRequire",
        Arguments::Raw,
        "Lets in who fulfils a condition about certificate and connection.",
    ),
    refused("SSLVerifyClient", Arguments::ONE, "Asks clients for a certificate."),
    refused(
        "SSLVerifyDepth",
        Arguments::ONE,
        "Says how long the chain of a client's certificate may be.",
    ),
    Directive {
        support: Support::Refused(
            "ciphers are chosen for a whole site: in howdah.toml, `ciphers` of [site.tls]",
        ),
        ..refused("SSLCipherSuite", Arguments::Words(1, 2), "Says which ciphers are allowed here.")
    },
    refused("SSLCACertificateFile", Arguments::ONE, "Names who signs clients' certificates."),
    refused("SSLCACertificatePath", Arguments::ONE, "Names who signs clients' certificates."),
    refused("SSLUserName", Arguments::ONE, "Takes the user from the client's certificate."),
    Directive {
        name: "SSLRenegBufferSize",
        module: "mod_ssl",
        overrides: Overrides::AUTH_CONFIG,
        arguments: Arguments::ONE,
        summary: "Limits what is kept of a request's body during a new handshake.",
        support: Support::Ignored("there are no new handshakes"),
        apply: nothing,
    },
];

const fn refused(
    name: &'static str,
    arguments: Arguments,
    summary: &'static str,
) -> Directive<Apply<Config>> {
    Directive {
        name,
        module: "mod_ssl",
        overrides: Overrides::AUTH_CONFIG,
        arguments,
        summary,
        support: Support::Refused(
            "Howdah asks for certificates for a whole site (in howdah.toml, `client_ca` and \
             `client_verify` of [site.tls]), negotiates nothing anew for a folder, and has no \
             language of mod_ssl's own: see `Require expr` and `Require ssl-verify-client`",
        ),
        apply: nothing,
    }
}

fn nothing(_: &DirectiveCall<'_>, _: &mut SharedConfig<Config>) -> Result<(), Complaint> {
    Ok(())
}

fn ssl_require_ssl(
    call: &DirectiveCall<'_>,
    shared: &mut SharedConfig<Config>,
) -> Result<(), Complaint> {
    let config: &mut Config = edit(shared);
    config.required = Some(call.kept_place());
    Ok(())
}

fn ssl_options(
    call: &DirectiveCall<'_>,
    shared: &mut SharedConfig<Config>,
) -> Result<(), Complaint> {
    let config: &mut Config = edit(shared);
    for (index, word) in words(call.raw).iter().enumerate() {
        let word = &word.text;
        let (sign, name) = match word.split_first() {
            Some((sign @ (b'+' | b'-'), name)) => (Some(*sign), name),
            _ => (None, &word[..]),
        };
        let is_on = sign != Some(b'-');
        if sign.is_none() {
            config.reset();
        }
        match name {
            b"StrictRequire" => config.strict = Some(is_on),
            b"StdEnvVars" => {
                config.variables = Some(match is_on {
                    true => ScriptVariables::All,
                    false => ScriptVariables::ServerName,
                });
            }
            b"ExportCertData" => config.certificates = Some(is_on),
            b"OptRenegotiate" | b"LegacyDNStringFormat" => {}
            b"FakeBasicAuth" if !is_on => {}
            b"FakeBasicAuth" => {
                return Err(
                    Complaint::about(index, "Howdah takes no users from certificates").refused()
                );
            }
            other => {
                let shown = String::from_utf8_lossy(other);
                return Err(Complaint::about(index, format!("SSLOptions knows no {shown:?}")));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
