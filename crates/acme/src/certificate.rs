//! Certificates: the facts in one, new keys with their requests, and the certificates of
//! challenges.

use instant_acme::CertificateIdentifier;
use rcgen::{CertificateParams, CustomExtension, DistinguishedName, KeyPair};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::schedule::Validity;

/// The facts in a certificate that decide on its renewal.
#[derive(Debug, Clone)]
pub(crate) struct RenewalFacts {
    pub(crate) validity: Validity,
    /// The names that the certificate is for.
    pub(crate) names: Vec<String>,
    /// The name of the certificate in questions for renewal information (RFC 9773 §4.1); `None` if
    /// the certificate does not name its issuer's key.
    pub(crate) id: Option<CertificateIdentifier<'static>>,
    pub(crate) serial: String,
}

impl RenewalFacts {
    /// Reads the first certificate in `chain`, which is PEM.
    ///
    /// # Errors
    /// The reason why the certificate cannot be read.
    pub(crate) fn read(chain: &str) -> Result<RenewalFacts, String> {
        let certificate = CertificateDer::pem_slice_iter(chain.as_bytes())
            .next()
            .ok_or("there is no certificate")?
            .map_err(|error| format!("the certificate cannot be read: {error}"))?;
        let (_, parsed) = x509_parser::parse_x509_certificate(&certificate)
            .map_err(|error| format!("the certificate cannot be read: {error}"))?;
        let second = |time: x509_parser::time::ASN1Time| time.timestamp().try_into().unwrap_or(0);
        let names = match parsed.subject_alternative_name() {
            Ok(Some(names)) => names.value.general_names.iter().filter_map(dns_name).collect(),
            Ok(None) | Err(_) => Vec::new(),
        };
        Ok(RenewalFacts {
            validity: Validity {
                not_before: second(parsed.validity().not_before),
                not_after: second(parsed.validity().not_after),
            },
            names,
            id: CertificateIdentifier::try_from(&certificate)
                .ok()
                .map(CertificateIdentifier::into_owned),
            serial: parsed.raw_serial_as_string(),
        })
    }
}

fn dns_name(name: &x509_parser::extensions::GeneralName<'_>) -> Option<String> {
    match name {
        x509_parser::extensions::GeneralName::DNSName(name) => Some((*name).to_owned()),
        _ => None,
    }
}

/// Returns a new key in PEM, and a signed request for a certificate in DER.
///
/// # Errors
/// The key cannot be made, or the name is none that a certificate can have.
pub(crate) fn request(name: &str) -> Result<(String, Vec<u8>), rcgen::Error> {
    let key = KeyPair::generate()?;
    let mut parameters = CertificateParams::new([name.to_owned()])?;
    parameters.distinguished_name = DistinguishedName::new();
    let request = parameters.serialize_request(&key)?;
    Ok((key.serialize_pem(), request.der().to_vec()))
}

/// Returns the certificate of a TLS-ALPN-01 challenge (RFC 8737 §3) and its key, both in PEM.
/// `digest` is the SHA-256 digest of the key authorization.
///
/// # Errors
/// The key cannot be made, or the name is none that a certificate can have.
pub(crate) fn of_challenge(name: &str, digest: &[u8]) -> Result<(String, String), rcgen::Error> {
    let key = KeyPair::generate()?;
    let mut parameters = CertificateParams::new([name.to_owned()])?;
    parameters.custom_extensions = vec![CustomExtension::new_acme_identifier(digest)];
    let certificate = parameters.self_signed(&key)?;
    Ok((certificate.pem(), key.serialize_pem()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_of_a_certificate() {
        let (pem, key) = of_challenge("example.org", &[7; 32]).unwrap();
        let facts = RenewalFacts::read(&pem).unwrap();
        assert_eq!(facts.names, ["example.org"]);
        assert!(facts.validity.length() > 0);
        assert!(key.contains("PRIVATE KEY"));
        assert!(RenewalFacts::read("nonsense").is_err());
        assert!(RenewalFacts::read(&key).is_err());
    }

    #[test]
    fn a_request_has_a_key_of_its_own() {
        let (first, _) = request("*.example.org").unwrap();
        let (second, _) = request("*.example.org").unwrap();
        assert_ne!(first, second);
    }
}
