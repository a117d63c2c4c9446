//! A site's certificates, and versions and ciphers of TLS.

use std::collections::BTreeSet;

use toml::Spanned;
use toml::de::{DeArray, DeValue};

use super::names::text_kind;
use super::words::word_kind;
use super::{Table, ValueError, ValueKind, quoted, read_string, wrong_type};
use crate::diagnostic::MistakeCollector;
use crate::settings::SiteTls;
use crate::values::{CertificateSource, CipherPolicy, ClientVerify, TlsVersion};

/// `[site.tls]`, a list of tables with a certificate and a key each, or `false`.
pub(crate) struct TlsTable;

impl ValueKind for TlsTable {
    type Value = SiteTls;

    fn name() -> String {
        "`\"auto\"`, `\"internal\"`, `false`, a table `[site.tls]`, or a list of tables with \
         `cert` and `key`"
            .to_owned()
    }

    fn show(_: &SiteTls) -> String {
        "false".to_owned()
    }

    fn read(value: &Spanned<DeValue<'_>>, report: &mut MistakeCollector<'_>) -> Option<SiteTls> {
        match value.get_ref() {
            DeValue::Boolean(false) => Some(SiteTls::default()),
            DeValue::String(_) => {
                let source = SourceName::read(value, report)?;
                Some(SiteTls { source, ..SiteTls::default() })
            }
            DeValue::Array(tables) => read_list(value, tables, report),
            DeValue::Table(_) => read_table(value, report),
            other => {
                wrong_type(value, other, report, &Self::name());
                None
            }
        }
    }
}

/// Reads a list of certificates. The demands on clients are the site's, and therefore the same in
/// each table.
fn read_list(
    value: &Spanned<DeValue<'_>>,
    tables: &DeArray<'_>,
    report: &mut MistakeCollector<'_>,
) -> Option<SiteTls> {
    let all: Option<Vec<_>> = tables.iter().map(|table| read_table(table, report)).collect();
    let all = all?;
    let Some(first) = all.first() else {
        let help = "write `tls = false` for a site without https, or `tls = \"auto\"`";
        report.add(value.span(), "the list has no certificate", Some(help.to_owned()));
        return None;
    };
    if let Some((_, table)) = all.iter().zip(tables).find(|(one, _)| one.cert.is_empty()) {
        let help = "give `cert` and `key` in each table, or no list: `tls = \"internal\"`, \
                    `tls = \"auto\"` or `tls = false`";
        report.add(table.span(), "a table of the list has no certificate", Some(help.to_owned()));
        return None;
    }
    let demands = |one: &SiteTls| SiteTls { cert: vec![], key: vec![], ..one.clone() };
    if all.iter().any(|one| demands(one) != demands(first)) {
        let given = tables.iter().filter_map(|table| table.get_ref().as_table());
        let names = given.flat_map(|table| table.keys().map(|key| &**key.get_ref()));
        let names: BTreeSet<&str> = names.filter(|name| !["cert", "key"].contains(name)).collect();
        let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
        report.add(
            value.span(),
            format!("the tables of the list must have the same {}", names.join(", ")),
            Some(
                "what is demanded of clients is the same for all certificates of a site: write \
                 one table with `cert = [\"FILE\", \"FILE\"]`, `key = [\"FILE\", \"FILE\"]` and \
                 the other keys once"
                    .to_owned(),
            ),
        );
        return None;
    }
    let mut site = demands(first);
    for one in all {
        site.cert.extend(one.cert);
        site.key.extend(one.key);
    }
    Some(site)
}

fn read_table(value: &Spanned<DeValue<'_>>, report: &mut MistakeCollector<'_>) -> Option<SiteTls> {
    const HELP: &str =
        "write `tls = { cert = \"/path/to/fullchain.pem\", key = \"/path/to/privkey.pem\" }`";
    let read = Table::<SiteTls>::read(value, report)?;
    let has = |key| value.get_ref().get(key).is_some();
    if has("client_verify") && !has("client_ca") {
        report.add(
            value.span(),
            "`client_verify` without `client_ca`: no client is asked for a certificate",
            Some(
                "name the authorities of the clients with `client_ca = \"/path/to/ca.pem\"`, or \
                  remove `client_verify`"
                    .to_owned(),
            ),
        );
        return None;
    }
    if read.early_data && read.client_ca.is_some() {
        report.add(
            value.span(),
            "`early_data` would answer clients that have not shown the certificate of `client_ca`",
            Some("remove one of the two keys".to_owned()),
        );
        return None;
    }
    if read.source != CertificateSource::Files && read.cert.is_empty() && read.key.is_empty() {
        return Some(read);
    }
    let message = match (read.cert.len(), read.key.len()) {
        _ if read.source != CertificateSource::Files => {
            "the certificates come from an authority, and from files as well"
        }
        (0, 0) if has("cert") => return Some(read),
        (0, 0) => "the table has no certificate",
        (_, 0) => "the certificate has no key",
        (0, _) => "the key has no certificate",
        (certificates, keys) if certificates != keys => "each certificate needs a key of its own",
        _ => return Some(read),
    };
    report.add(value.span(), message, Some(HELP.to_owned()));
    None
}

/// `"files"` or `"internal"`.
pub(crate) struct SourceName;

impl ValueKind for SourceName {
    type Value = CertificateSource;

    fn name() -> String {
        "`\"files\"`, `\"internal\"` or `\"auto\"`".to_owned()
    }

    fn show(value: &CertificateSource) -> String {
        quoted(match value {
            CertificateSource::Files => "files",
            CertificateSource::Internal => "internal",
            CertificateSource::Auto => "auto",
        })
    }

    fn read(
        value: &Spanned<DeValue<'_>>,
        report: &mut MistakeCollector<'_>,
    ) -> Option<CertificateSource> {
        read_string(value, report, &Self::name(), |text| match text {
            "files" => Ok(CertificateSource::Files),
            "internal" => Ok(CertificateSource::Internal),
            "auto" => Ok(CertificateSource::Auto),
            other => Err(ValueError::new(
                format!("`{other}` is no source of certificates"),
                "give `\"auto\"`, `\"internal\"`, or `{ cert = \"FILE\", key = \"FILE\" }`",
            )),
        })
    }
}

/// `"1.2"` or `"1.3"`.
pub(crate) struct OldestTls;

impl ValueKind for OldestTls {
    type Value = TlsVersion;

    fn name() -> String {
        "`\"1.2\"` or `\"1.3\"`".to_owned()
    }

    fn show(value: &TlsVersion) -> String {
        quoted(match value {
            TlsVersion::Tls12 => "1.2",
            TlsVersion::Tls13 => "1.3",
        })
    }

    fn read(value: &Spanned<DeValue<'_>>, report: &mut MistakeCollector<'_>) -> Option<TlsVersion> {
        read_string(value, report, &Self::name(), |text| match text {
            "1.2" => Ok(TlsVersion::Tls12),
            "1.3" => Ok(TlsVersion::Tls13),
            "1.0" | "1.1" => Err(ValueError::new(
                format!("TLS {text} is broken, and this server does not have it"),
                format!("give {}", Self::name()),
            )),
            other => Err(ValueError::new(
                format!("`{other}` is no version of TLS"),
                format!("give {}", Self::name()),
            )),
        })
    }
}

word_kind!(
    /// `"modern"` or `"intermediate"`.
    Ciphers, CipherPolicy, "is no list of ciphers",
    [("modern", CipherPolicy::Modern), ("intermediate", CipherPolicy::Intermediate)]
);

word_kind!(
    /// `"require"` or `"optional"`.
    Verify, ClientVerify, "says nothing about clients without a certificate",
    [("require", ClientVerify::Require), ("optional", ClientVerify::Optional)]
);

text_kind!(
    /// A value of Strict-Transport-Security (RFC 6797 §6.1).
    TransportSecurity, "a value such as `\"max-age=31536000; includeSubDomains\"`", |text| {
        let mut parts = text.split(';').map(|part| part.trim().to_ascii_lowercase());
        let is_age = |part: &String| {
            let seconds = part.strip_prefix("max-age=");
            seconds.is_some_and(|seconds| seconds.parse::<u64>().is_ok())
        };
        let is_known = |part: &String| {
            is_age(part) || matches!(part.as_str(), "includesubdomains" | "preload")
        };
        if parts.clone().filter(is_age).count() == 1 && parts.all(|part| is_known(&part)) {
            return Ok(());
        }
        Err(ValueError::new(
            format!("`{text}` is no value of Strict-Transport-Security"),
            format!("give {}", Self::name()),
        ))
    }
);
