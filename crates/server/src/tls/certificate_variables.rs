//! A certificate as mod_ssl's variables tell of it: the server's own, or a client's.

use howdah_http::{CertificateVariables, date, hexadecimal};
use rustls::pki_types::CertificateDer;

use super::der::{AlternativeName, NameAttribute, ParsedCertificate};

/// Returns the variables of the server's certificate in DER. A malformed one has none.
pub(super) fn of_server(der: &[u8]) -> CertificateVariables {
    variables("SSL_SERVER_", der, |_, add| add("CERT", pem(der)))
}

/// Returns the variables of a client's certificates: its own, which was verified before, and those
/// of authorities that the client has sent behind it. `None`: it has sent none.
pub(super) fn of_client(chain: &[CertificateDer<'_>]) -> Option<CertificateVariables> {
    let (own, authorities) = chain.split_first()?;
    Some(variables("SSL_CLIENT_", own, |certificate, add| {
        let issuer = distinguished(&certificate.issuer);
        let serial = decimal(&certificate.serial);
        // The assertion that directories compare certificates by (RFC 4523 §2.1).
        let assertion = format!("{{ serialNumber {serial}, issuer rdnSequence:\"{issuer}\" }}");
        add("CERT_RFC4523_CEA", assertion);
        add("CERT", pem(own));
        for (number, authority) in authorities.iter().enumerate() {
            add(&format!("CERT_CHAIN_{number}"), pem(authority));
        }
    }))
}

/// Adds a variable, whose name is given without the prefix.
type AddVariable<'a> = dyn FnMut(&str, String) + 'a;

fn variables(
    prefix: &'static str,
    der: &[u8],
    more: impl FnOnce(&ParsedCertificate, &mut AddVariable<'_>),
) -> CertificateVariables {
    let mut variables: Vec<(Box<str>, Box<str>)> = Vec::new();
    let mut add = |name: &str, value: String| {
        // mod_ssl leaves out variables without a value.
        if !value.is_empty() {
            variables.push((format!("{prefix}{name}").into(), value.into()));
        }
    };
    let mut ends = 0;
    if let Ok(certificate) = ParsedCertificate::read(der) {
        ends = certificate.ends;
        add_fields(&certificate, &mut add);
        more(&certificate, &mut add);
    }
    CertificateVariables { prefix, ends, variables }
}

fn add_fields(certificate: &ParsedCertificate, add: &mut AddVariable<'_>) {
    add("M_VERSION", certificate.version.to_string());
    add("M_SERIAL", hexadecimal(&certificate.serial));
    add("V_START", shown_time(certificate.begins));
    add("V_END", shown_time(certificate.ends));
    add("A_KEY", algorithm(&certificate.key_algorithm).to_owned());
    add("A_SIG", algorithm(&certificate.signature_algorithm).to_owned());
    for (prefix, name) in [("S_DN", &certificate.subject), ("I_DN", &certificate.issuer)] {
        add(prefix, distinguished(name));
        for (number, attribute) in name.iter().enumerate() {
            let Some((_, Some(variable))) = names(&attribute.kind) else {
                continue;
            };
            // The first one has the plain name: a further common name takes nobody's place.
            let before = name[..number].iter().filter(|other| other.kind == attribute.kind);
            let suffix = match before.count() {
                0 => String::new(),
                before => format!("_{before}"),
            };
            add(&format!("{prefix}_{variable}{suffix}"), attribute.value.clone());
        }
    }
    let mut counts = [0; 4];
    for name in certificate.alternatives.iter().flatten() {
        let (kind, word, value) = match name {
            AlternativeName::Host(host) => (0, "DNS", host),
            AlternativeName::Mail(mail) => (1, "Email", mail),
            AlternativeName::Principal(user) => (2, "OTHER_msUPN", user),
            AlternativeName::Service(service) => (3, "OTHER_dnsSRV", service),
            AlternativeName::Address(_) => continue,
        };
        add(&format!("SAN_{word}_{}", counts[kind]), value.clone());
        counts[kind] += 1;
    }
}

/// Writes a time as OpenSSL does: `Jan  1 00:00:00 2026 GMT`.
fn shown_time(seconds: i64) -> String {
    // Such as `Sun, 06 Nov 1994 08:49:37 GMT`.
    let date = date::format(seconds.max(0) as u64);
    let text = String::from_utf8_lossy(&date);
    let day = text[5..7].trim_start_matches('0');
    format!("{} {day:>2} {} {} GMT", &text[8..11], &text[17..25], &text[12..16])
}

/// Returns a name as a text: the last attribute first, special characters escaped (RFC 2253).
fn distinguished(name: &[NameAttribute]) -> String {
    let last = name.len().saturating_sub(1);
    let shown = name.iter().enumerate().rev().map(|(number, attribute)| {
        let separator = match name.get(number + 1) {
            _ if number == last => "",
            Some(after) if after.is_beside => "+",
            _ => ",",
        };
        match names(&attribute.kind) {
            Some((short, _)) => format!("{separator}{short}={}", escaped(&attribute.value)),
            None => {
                let (kind, value) = (dotted(&attribute.kind), hexadecimal(&attribute.encoded));
                format!("{separator}{kind}=#{value}")
            }
        }
    });
    shown.collect()
}

/// Writes an object identifier in numbers.
fn dotted(kind: &[u8]) -> String {
    let mut numbers = Vec::new();
    let mut number: u64 = 0;
    for byte in kind {
        number = number << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            if numbers.is_empty() {
                let first = (number / 40).min(2);
                numbers.push(first);
                number -= 40 * first;
            }
            numbers.push(number);
            number = 0;
        }
    }
    numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(".")
}

fn escaped(value: &str) -> String {
    let last = value.chars().count().saturating_sub(1);
    let mut out = String::new();
    for (position, character) in value.chars().enumerate() {
        let is_edge = character == ' ' && (position == 0 || position == last);
        let is_first = position == 0 && character == '#';
        if is_edge || is_first || ",+\"\\<>;".contains(character) {
            out.push('\\');
        }
        out.push(character);
    }
    out
}

/// Writes a number in decimal digits. `digits` are its bytes, the highest first.
fn decimal(digits: &[u8]) -> String {
    // Decimal digits, the lowest first.
    let mut number = vec![0_u8];
    for byte in digits {
        let mut carry = u32::from(*byte);
        for digit in &mut number {
            carry += u32::from(*digit) << 8;
            *digit = (carry % 10) as u8;
            carry /= 10;
        }
        while carry > 0 {
            number.push((carry % 10) as u8);
            carry /= 10;
        }
    }
    number.iter().rev().map(|digit| char::from(b'0' + digit)).collect()
}

/// Returns OpenSSL's short name of an attribute's kind, and the name that mod_ssl has for its
/// variable; `None` for a kind without a name.
fn names(kind: &[u8]) -> Option<(&'static str, Option<&'static str>)> {
    ATTRIBUTES
        .iter()
        .find(|(known, ..)| *known == kind)
        .map(|(_, short, variable)| (*short, *variable))
}

/// Returns OpenSSL's long name of an algorithm.
fn algorithm(kind: &[u8]) -> &'static str {
    ALGORITHMS
        .iter()
        .find(|(known, _)| *known == kind)
        .map_or("UNKNOWN", |(_, name)| name)
}

/// Kinds of attributes as bytes of object identifiers, with their names.
#[rustfmt::skip]
const ATTRIBUTES: &[(&[u8], &str, Option<&str>)] = &[
    (&[0x55, 4, 3], "CN", Some("CN")),
    (&[0x55, 4, 4], "SN", Some("S")),
    (&[0x55, 4, 5], "serialNumber", Some("SerialNumber")),
    (&[0x55, 4, 6], "C", Some("C")),
    (&[0x55, 4, 7], "L", Some("L")),
    (&[0x55, 4, 8], "ST", Some("ST")),
    (&[0x55, 4, 9], "street", None),
    (&[0x55, 4, 10], "O", Some("O")),
    (&[0x55, 4, 11], "OU", Some("OU")),
    (&[0x55, 4, 12], "title", Some("T")),
    (&[0x55, 4, 13], "description", Some("D")),
    (&[0x55, 4, 15], "businessCategory", None),
    (&[0x55, 4, 17], "postalCode", None),
    (&[0x55, 4, 41], "name", None),
    (&[0x55, 4, 42], "GN", Some("G")),
    (&[0x55, 4, 43], "initials", Some("I")),
    (&[0x55, 4, 44], "generationQualifier", None),
    (&[0x55, 4, 46], "dnQualifier", None),
    (&[0x55, 4, 65], "pseudonym", None),
    (&[0x55, 4, 97], "organizationIdentifier", None),
    // 0.9.2342.19200300.100.1.1 and .25
    (&[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 1], "UID", Some("UID")),
    (&[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 25], "DC", None),
    // 1.2.840.113549.1.9.1
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 1], "emailAddress", Some("Email")),
    // 1.3.6.1.4.1.311.60.2.1.1 to .3
    (&[0x2b, 6, 1, 4, 1, 0x82, 0x37, 0x3c, 2, 1, 1], "jurisdictionL", None),
    (&[0x2b, 6, 1, 4, 1, 0x82, 0x37, 0x3c, 2, 1, 2], "jurisdictionST", None),
    (&[0x2b, 6, 1, 4, 1, 0x82, 0x37, 0x3c, 2, 1, 3], "jurisdictionC", None),
];

/// Algorithms of keys and signatures as bytes of object identifiers, with their names.
#[rustfmt::skip]
const ALGORITHMS: &[(&[u8], &str)] = &[
    // 1.2.840.113549.1.1.1 and further
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1], "rsaEncryption"),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 5], "sha1WithRSAEncryption"),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 10], "rsassaPss"),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 11], "sha256WithRSAEncryption"),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 12], "sha384WithRSAEncryption"),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 13], "sha512WithRSAEncryption"),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 14], "sha224WithRSAEncryption"),
    // 1.2.840.10045.2.1 and 1.2.840.10045.4
    (&[0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1], "id-ecPublicKey"),
    (&[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 1], "ecdsa-with-SHA1"),
    (&[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 1], "ecdsa-with-SHA224"),
    (&[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2], "ecdsa-with-SHA256"),
    (&[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 3], "ecdsa-with-SHA384"),
    (&[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 4], "ecdsa-with-SHA512"),
    // 1.3.101.112 and .113
    (&[0x2b, 0x65, 0x70], "ED25519"),
    (&[0x2b, 0x65, 0x71], "ED448"),
];

/// Returns a certificate in PEM.
fn pem(der: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut digits = String::new();
    for part in der.chunks(3) {
        let bits = [16, 8, 0]
            .iter()
            .zip(part)
            .fold(0, |bits, (shift, byte)| bits | u32::from(*byte) << shift);
        for place in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * place)) as usize & 63];
            digits.push(if place <= part.len() { char::from(digit) } else { '=' });
        }
    }
    let mut text = String::from("-----BEGIN CERTIFICATE-----\n");
    for line in digits.as_bytes().chunks(64) {
        text.push_str(&String::from_utf8_lossy(line));
        text.push('\n');
    }
    text + "-----END CERTIFICATE-----\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_escaped() {
        for (value, expected) in [
            ("ann", "ann"),
            ("Example, Inc.", "Example\\, Inc."),
            (" a b ", "\\ a b\\ "),
            ("#1", "\\#1"),
            ("", ""),
        ] {
            assert_eq!(escaped(value), expected);
        }
    }

    #[test]
    fn names_with_several_parts_of_a_kind_are_told_as_mod_ssl_does() {
        let part = |last: u8, value: &str, is_beside| NameAttribute {
            kind: vec![0x55, 4, last],
            value: value.to_owned(),
            encoded: [&[0x0c, value.len() as u8], value.as_bytes()].concat(),
            is_beside,
        };
        let name = [
            part(10, "Ex", false),
            part(11, "A", false),
            part(7, "Here", true),
            part(11, "B", false),
            part(3, "ann", false),
            part(3, "bob", false),
        ];
        assert_eq!(distinguished(&name), "CN=bob,CN=ann,OU=B,L=Here+OU=A,O=Ex");
        assert_eq!(distinguished(&name[..1]), "O=Ex");
        assert_eq!(distinguished(&[part(120, "Ex", false)]), "2.5.4.120=#0C024578");
        assert_eq!(distinguished(&[]), "");
    }

    #[test]
    fn a_further_common_name_takes_nobody_s_place() {
        let mut params = rcgen::CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        // The library keeps one value of each kind, so another kind is made a common name below.
        params.distinguished_name.push(rcgen::DnType::CommonName, "ann");
        params.distinguished_name.push(rcgen::DnType::LocalityName, "bob");
        let key = rcgen::KeyPair::generate().unwrap();
        let mut der = params.self_signed(&key).unwrap().der().to_vec();
        for place in 0..der.len() - 3 {
            if der[place..place + 3] == [0x55, 4, 7] {
                der[place + 2] = 3;
            }
        }
        let all = of_client(&[der.into()]).unwrap().variables;
        let of = |name: &str| {
            let mut found = all.iter().filter(|(known, _)| &**known == name);
            (found.next().map(|(_, value)| &**value), found.count())
        };
        assert_eq!(of("SSL_CLIENT_S_DN_CN"), (Some("ann"), 0));
        assert_eq!(of("SSL_CLIENT_S_DN_CN_1"), (Some("bob"), 0));
    }

    #[test]
    fn times_and_kinds_are_written_as_openssl_does() {
        assert_eq!(shown_time(951_782_400), "Feb 29 00:00:00 2000 GMT");
        assert_eq!(shown_time(784_111_777), "Nov  6 08:49:37 1994 GMT");
        assert_eq!(dotted(&[0x55, 4, 5]), "2.5.4.5");
        assert_eq!(dotted(&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 2]), "1.2.840.113549.1.9.2");
    }

    #[test]
    fn long_numbers_are_written_in_decimal() {
        for (bytes, expected) in [
            (&[0][..], "0"),
            (&[9], "9"),
            (&[1, 0], "256"),
            (&[0xff; 8], "18446744073709551615"),
            (&[1, 0, 0, 0, 0, 0, 0, 0, 0], "18446744073709551616"),
        ] {
            assert_eq!(decimal(bytes), expected);
        }
    }

    #[test]
    fn pem_is_base64_in_lines() {
        for (bytes, digits) in [(&b"a"[..], "YQ=="), (b"ab", "YWI="), (b"abc", "YWJj")] {
            let expected =
                format!("-----BEGIN CERTIFICATE-----\n{digits}\n-----END CERTIFICATE-----\n");
            assert_eq!(pem(bytes), expected);
        }
        assert_eq!(pem(&[0; 49]).lines().nth(1).map(str::len), Some(64));
    }
}
