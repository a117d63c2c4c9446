//! The certificate that a client shows, under mod_ssl's names.

use howdah_http::date;

use super::der::{AlternativeName, NameAttribute, ParsedCertificate};

/// Returns the variables of a client's certificate in DER. It was verified before.
pub(super) fn variables(der: &[u8]) -> Vec<(String, String)> {
    let Ok(certificate) = ParsedCertificate::read(der) else {
        return Vec::new();
    };
    let mut all = Vec::new();
    let mut add = |name: &str, value: String| all.push((format!("SSL_CLIENT_{name}"), value));
    add("M_VERSION", certificate.version.to_string());
    add("M_SERIAL", certificate.serial.iter().map(|byte| format!("{byte:02X}")).collect());
    add("V_START", shown_time(certificate.begins));
    add("V_END", shown_time(certificate.ends));
    for (prefix, name) in [("S_DN", &certificate.subject), ("I_DN", &certificate.issuer)] {
        add(prefix, distinguished(name));
        for (number, attribute) in name.iter().enumerate() {
            let Some(short) = short_name(&attribute.kind) else {
                continue;
            };
            let short = if short == "emailAddress" { "Email" } else { short };
            // The first one has the plain name: a further common name takes nobody's place.
            let before = name[..number].iter().filter(|other| other.kind == attribute.kind);
            let suffix = match before.count() {
                0 => String::new(),
                before => format!("_{before}"),
            };
            add(&format!("{prefix}_{short}{suffix}"), attribute.value.clone());
        }
    }
    let (mut hosts, mut mails) = (0, 0);
    for name in certificate.alternatives.iter().flatten() {
        match name {
            AlternativeName::Host(host) => {
                add(&format!("SAN_DNS_{hosts}"), host.clone());
                hosts += 1;
            }
            AlternativeName::Mail(mail) => {
                add(&format!("SAN_Email_{mails}"), mail.clone());
                mails += 1;
            }
            AlternativeName::Address(_) => {}
        }
    }
    add("CERT", pem(der));
    all
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
        let kind = match short_name(&attribute.kind) {
            Some(short) => short.to_owned(),
            None => dotted(&attribute.kind),
        };
        let separator = match name.get(number + 1) {
            _ if number == last => "",
            Some(after) if after.is_beside => "+",
            _ => ",",
        };
        format!("{separator}{kind}={}", escaped(&attribute.value))
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

/// Returns the usual short name of an attribute.
fn short_name(kind: &[u8]) -> Option<&'static str> {
    Some(match kind {
        [0x55, 4, 3] => "CN",
        [0x55, 4, 6] => "C",
        [0x55, 4, 7] => "L",
        [0x55, 4, 8] => "ST",
        [0x55, 4, 10] => "O",
        [0x55, 4, 11] => "OU",
        // 0.9.2342.19200300.100.1.1 and .25
        [0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 1] => "UID",
        [0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 25] => "DC",
        // 1.2.840.113549.1.9.1
        [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 1] => "emailAddress",
        _ => return None,
    })
}

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
        let all = variables(&der);
        let of = |name: &str| {
            let mut found = all.iter().filter(|(known, _)| known == name);
            (found.next().map(|(_, value)| value.as_str()), found.count())
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
    fn pem_is_base64_in_lines() {
        for (bytes, digits) in [(&b"a"[..], "YQ=="), (b"ab", "YWI="), (b"abc", "YWJj")] {
            let expected =
                format!("-----BEGIN CERTIFICATE-----\n{digits}\n-----END CERTIFICATE-----\n");
            assert_eq!(pem(bytes), expected);
        }
        assert_eq!(pem(&[0; 49]).lines().nth(1).map(str::len), Some(64));
    }
}
