//! The certificate that a client shows, under mod_ssl's names.

use howdah_http::date;

use super::der::{AlternativeName, Attribute, Certificate};

/// Returns the variables of a client's certificate in DER. It was verified before.
pub(super) fn variables(der: &[u8]) -> Vec<(String, String)> {
    let Ok(certificate) = Certificate::read(der) else {
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
        for attribute in name {
            if let Some(short) = short_name(&attribute.kind) {
                let short = if short == "emailAddress" { "Email" } else { short };
                add(&format!("{prefix}_{short}"), attribute.value.clone());
            }
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
fn distinguished(name: &[Attribute]) -> String {
    let shown = name.iter().rev().map(|attribute| {
        let kind = match short_name(&attribute.kind) {
            Some(short) => short.to_owned(),
            None => dotted(&attribute.kind),
        };
        format!("{kind}={}", escaped(&attribute.value))
    });
    shown.collect::<Vec<_>>().join(",")
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
