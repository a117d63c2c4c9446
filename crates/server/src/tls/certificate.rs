//! The content of a certificate: its names and its time of validity.

use std::net::IpAddr;

use super::der::{AlternativeName, Malformed, ParsedCertificate};

/// The names and the time of a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CertificateFacts {
    /// Host names in lower case; a wildcard begins with `*.`.
    names: Vec<String>,
    addresses: Vec<IpAddr>,
    /// Seconds since 1970.
    pub(crate) begins: i64,
    /// Seconds since 1970.
    pub(crate) ends: i64,
}

impl CertificateFacts {
    /// Reads a certificate in DER.
    ///
    /// # Errors
    /// It is malformed.
    pub(crate) fn read(certificate: &[u8]) -> Result<CertificateFacts, String> {
        let read = ParsedCertificate::read(certificate)
            .map_err(|Malformed| "the certificate is malformed".to_owned())?;
        let (mut names, mut addresses) = (Vec::new(), Vec::new());
        for name in read.alternatives.iter().flatten() {
            match name {
                AlternativeName::Host(name) => names.push(name.to_ascii_lowercase()),
                AlternativeName::Address(address) => addresses.push(*address),
                AlternativeName::Mail(_)
                | AlternativeName::Principal(_)
                | AlternativeName::Service(_) => {}
            }
        }
        if read.alternatives.is_none() {
            // Certificates of one's own are still made so.
            let common = read.subject.iter().filter(|attribute| attribute.kind == COMMON_NAME);
            names.extend(common.map(|attribute| attribute.value.to_ascii_lowercase()));
        }
        Ok(CertificateFacts {
            names,
            addresses,
            begins: read.begins,
            ends: read.ends,
        })
    }

    /// Host names in lower case; a wildcard begins with `*.`.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// Whether the certificate is for an address.
    pub(crate) fn has_addresses(&self) -> bool {
        !self.addresses.is_empty()
    }

    /// Returns whether the certificate is for a host: a name or an address, in lower case.
    pub(crate) fn covers(&self, host: &str) -> bool {
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        if let Ok(address) = bare.unwrap_or(host).parse::<IpAddr>() {
            return self.addresses.contains(&address.to_canonical());
        }
        let above = host.split_once('.').map(|(_, above)| above);
        self.names.iter().any(|name| match name.strip_prefix("*.") {
            // A wildcard is one label (RFC 9525 §6.3).
            Some(name) => above == Some(name),
            None => name == host,
        })
    }

    /// The names and addresses, for a message.
    pub(crate) fn shown(&self) -> String {
        self.names_and_addresses().join(", ")
    }

    /// The names, then the addresses.
    pub(crate) fn names_and_addresses(&self) -> Vec<String> {
        let addresses = self.addresses.iter().map(ToString::to_string);
        self.names.iter().cloned().chain(addresses).collect()
    }
}

/// The object identifier of commonName, 2.5.4.3.
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_covered_as_browsers_do() {
        let facts = CertificateFacts {
            names: vec!["example.org".into(), "*.example.org".into()],
            addresses: vec![[127, 0, 0, 1].into(), "::1".parse().unwrap()],
            begins: 0,
            ends: 1,
        };
        for (host, expected) in [
            ("example.org", true),
            ("www.example.org", true),
            ("a.www.example.org", false),
            ("example.com", false),
            ("xexample.org", false),
            ("127.0.0.1", true),
            ("[::1]", true),
            ("::1", true),
            ("127.0.0.2", false),
            ("", false),
        ] {
            assert_eq!(facts.covers(host), expected, "{host}");
        }
        assert_eq!(facts.shown(), "example.org, *.example.org, 127.0.0.1, ::1");
    }
}
