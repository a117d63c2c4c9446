//! The settings of TLS to upstreams: the authorities that a site trusts.

use std::io;
use std::sync::Arc;

use howdah_config::{SiteSettings, Upstream};
use rustls::pki_types::ServerName;
use rustls::{CertificateError, ClientConfig, InvalidMessage, RootCertStore};

use super::{pair, settings};
use crate::protocols;

/// The settings of each site; `None` for a site without upstreams over TLS.
pub(crate) type UpstreamSettings = Vec<Option<Arc<ClientConfig>>>;

/// Makes the settings of a site. `None` for a site without upstreams over TLS. Certificates are
/// verified always.
///
/// # Errors
/// The authorities cannot be read, or an upstream has a name that no certificate can have.
pub(crate) fn upstream_settings(site: &SiteSettings) -> Option<Result<Arc<ClientConfig>, String>> {
    let mut encrypted = site.upstreams.iter().filter(|upstream| upstream.scheme.is_tls());
    let first = encrypted.next()?;
    let mut all = [first].into_iter().chain(encrypted);
    if let Some(Err(why)) =
        all.find_map(|upstream| Some(server_name(site, upstream)).filter(Result::is_err))
    {
        return Some(Err(why));
    }
    Some(roots(site).and_then(|roots| {
        let builder = ClientConfig::builder_with_provider(Arc::clone(settings::provider()));
        let builder = builder
            .with_safe_default_protocol_versions()
            .map_err(|error| format!("TLS to upstreams is not possible ({error})"))?;
        let mut settings = builder.with_root_certificates(roots).with_no_client_auth();
        settings.alpn_protocols = vec![protocols::HTTP1.to_vec()];
        Ok(Arc::new(settings))
    }))
}

/// Returns the name that the certificate of an upstream must have, which is also the server name of
/// the handshake (SNI).
///
/// # Errors
/// No certificate can have the name.
pub(crate) fn server_name(
    site: &SiteSettings,
    upstream: &Upstream,
) -> Result<ServerName<'static>, String> {
    let host = upstream.host.trim_matches(['[', ']']);
    let name = site.upstream_tls_name.as_deref().unwrap_or(host);
    ServerName::try_from(name.to_owned()).map_err(|_| {
        format!(
            "the upstream {upstream}: no certificate can be for the name {name:?}; give the name \
             of its certificate as `upstream_tls_name`"
        )
    })
}

/// The authorities that a site's upstreams may have their certificates from.
fn roots(site: &SiteSettings) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    let Some(path) = &site.upstream_ca_file else {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        return match roots.is_empty() {
            true => {
                Err("upstreams over TLS cannot be verified: the system has no certificates of \
                         authorities; install the package ca-certificates, or give \
                         `upstream_ca_file`"
                    .to_owned())
            }
            false => Ok(roots),
        };
    };
    let of_file = |why: String| format!("`upstream_ca_file`: {why}");
    let text = pair::read(path).map_err(of_file)?;
    let shown = path.display();
    for authority in pair::chain(&text).map_err(|why| of_file(format!("{shown}: {why}")))? {
        roots
            .add(authority)
            .map_err(|error| of_file(format!("{shown}: an authority cannot be used ({error})")))?;
    }
    Ok(roots)
}

/// Says why a handshake with an upstream failed, and what to do.
pub(crate) fn handshake_advice(error: &io::Error) -> String {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let advice = match inner {
        Some(rustls::Error::InvalidCertificate(wrong)) => match wrong {
            // A bad signature is one of another authority of the same name.
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                "its certificate is from an authority that is not trusted here; give the \
                 authority's certificate as `upstream_ca_file`"
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "its certificate is for another name; give that name as `upstream_tls_name`"
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "its certificate has expired; renew the certificate there"
            }
            _ => "its certificate is not valid",
        },
        Some(rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType)) => {
            "it does not speak TLS; write `http://` or `ws://` for an upstream without TLS"
        }
        _ => "the TLS handshake failed",
    };
    format!("{advice} ({error})")
}
