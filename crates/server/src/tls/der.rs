//! Reads the parts of a certificate that Howdah looks at (RFC 5280 §4.1). Signatures are rustls'
//! business.

use std::net::IpAddr;

/// A certificate. Texts that are not UTF-8 are read with replacement characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ParsedCertificate {
    /// 3 for every certificate of today.
    pub(super) version: u8,
    /// The digits of the number, the highest first, without zeros before them.
    pub(super) serial: Vec<u8>,
    /// The algorithm of the signature, as the bytes of an object identifier.
    pub(super) signature_algorithm: Vec<u8>,
    /// The algorithm of the subject's key, as the bytes of an object identifier.
    pub(super) key_algorithm: Vec<u8>,
    pub(super) issuer: Vec<NameAttribute>,
    pub(super) subject: Vec<NameAttribute>,
    /// Seconds since 1970.
    pub(super) begins: i64,
    /// Seconds since 1970.
    pub(super) ends: i64,
    /// The names of the subject; `None` if the certificate has no such extension.
    pub(super) alternatives: Option<Vec<AlternativeName>>,
}

/// A part of a distinguished name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NameAttribute {
    /// The kind, as the bytes of an object identifier.
    pub(super) kind: Vec<u8>,
    pub(super) value: String,
    /// The value with its tag and its length.
    pub(super) encoded: Vec<u8>,
    /// Whether the part has its place in common with the one before.
    pub(super) is_beside: bool,
}

/// A name of the subject. Kinds that nobody asks for are left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AlternativeName {
    Host(String),
    Mail(String),
    Address(IpAddr),
    /// The name of a user for Microsoft's servers, a User Principal Name such as
    /// `ann@corp.example`.
    Principal(String),
    /// A service of a domain, such as `_imaps.a.example` (RFC 4985).
    Service(String),
}

/// The bytes are no certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Malformed;

const BOOLEAN: u8 = 0x01;
const INTEGER: u8 = 0x02;
const OCTETS: u8 = 0x04;
const OBJECT: u8 = 0x06;
const UTF8_TEXT: u8 = 0x0c;
/// IA5String.
const ASCII_TEXT: u8 = 0x16;
/// T61String, which everybody reads as Latin 1.
const LATIN_TEXT: u8 = 0x14;
const UTC_TIME: u8 = 0x17;
/// BMPString.
const UTF16_TEXT: u8 = 0x1e;
const TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;
/// The content of another name, and its value behind the kind.
const TAGGED_0: u8 = 0xa0;
/// The object identifier of subjectAltName, 2.5.29.17.
const ALTERNATIVES: &[u8] = &[0x55, 0x1d, 0x11];
/// 1.3.6.1.4.1.311.20.2.3, which OpenSSL calls msUPN.
const PRINCIPAL: &[u8] = &[0x2b, 6, 1, 4, 1, 0x82, 0x37, 20, 2, 3];
/// 1.3.6.1.5.5.7.8.7, id-on-dnsSRV.
const SERVICE: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 8, 7];

impl ParsedCertificate {
    /// Reads a certificate in DER.
    ///
    /// # Errors
    /// The bytes are no certificate, or end too early.
    pub(super) fn read(bytes: &[u8]) -> Result<ParsedCertificate, Malformed> {
        let mut outer = DerReader(DerReader(bytes).expect(SEQUENCE)?);
        let mut fields = DerReader(outer.expect(SEQUENCE)?);
        let version = match fields.take_if(VERSION)? {
            None => 1,
            Some(version) => {
                let number = DerReader(version).expect(INTEGER)?;
                number.first().copied().unwrap_or(0).saturating_add(1)
            }
        };
        let serial = fields.expect(INTEGER)?;
        let zeros = serial.iter().take_while(|byte| **byte == 0).count();
        // The number 0 has one digit.
        let serial = serial[zeros.min(serial.len().saturating_sub(1))..].to_vec();
        let signature_algorithm = DerReader(fields.expect(SEQUENCE)?).expect(OBJECT)?.to_vec();
        let issuer = name(fields.expect(SEQUENCE)?)?;
        let mut validity = DerReader(fields.expect(SEQUENCE)?);
        let (begins, ends) = (validity.time()?, validity.time()?);
        let subject = name(fields.expect(SEQUENCE)?)?;
        let mut key = DerReader(fields.expect(SEQUENCE)?);
        let key_algorithm = DerReader(key.expect(SEQUENCE)?).expect(OBJECT)?.to_vec();
        let mut alternatives = None;
        while let Some((tag, content)) = fields.next()? {
            if tag == EXTENSIONS {
                let mut extensions = DerReader(DerReader(content).expect(SEQUENCE)?);
                while let Some((_, extension)) = extensions.next()? {
                    let mut extension = DerReader(extension);
                    if extension.expect(OBJECT)? == ALTERNATIVES {
                        extension.take_if(BOOLEAN)?;
                        alternatives = Some(names(extension.expect(OCTETS)?)?);
                    }
                }
            }
        }
        Ok(ParsedCertificate {
            version,
            serial,
            signature_algorithm,
            key_algorithm,
            issuer,
            subject,
            begins,
            ends,
            alternatives,
        })
    }
}

/// Reads a distinguished name: a sequence of sets of pairs.
fn name(content: &[u8]) -> Result<Vec<NameAttribute>, Malformed> {
    let (mut sets, mut all) = (DerReader(content), Vec::new());
    while !sets.0.is_empty() {
        let mut pairs = DerReader(sets.expect(SET)?);
        let mut is_beside = false;
        while !pairs.0.is_empty() {
            let mut pair = DerReader(pairs.expect(SEQUENCE)?);
            let kind = pair.expect(OBJECT)?.to_vec();
            let before = pair.0;
            let (tag, value) = pair.next()?.ok_or(Malformed)?;
            let encoded = before[..before.len() - pair.0.len()].to_vec();
            let value = text(tag, value);
            all.push(NameAttribute { kind, value, encoded, is_beside });
            is_beside = true;
        }
    }
    Ok(all)
}

/// Reads a text. The usual kinds are UTF-8 or parts of it.
fn text(tag: u8, bytes: &[u8]) -> String {
    match tag {
        LATIN_TEXT => bytes.iter().map(|byte| char::from(*byte)).collect(),
        UTF16_TEXT => {
            let units = bytes
                .chunks(2)
                .map(|unit| unit.iter().fold(0, |value, byte| value << 8 | u16::from(*byte)));
            char::decode_utf16(units)
                .map(|one| one.unwrap_or(char::REPLACEMENT_CHARACTER))
                .collect()
        }
        _ => String::from_utf8_lossy(bytes).into_owned(),
    }
}

/// Reads the names of a subject.
fn names(content: &[u8]) -> Result<Vec<AlternativeName>, Malformed> {
    let (mut all, mut names) = (Vec::new(), DerReader(DerReader(content).expect(SEQUENCE)?));
    while let Some((tag, value)) = names.next()? {
        let text = || String::from_utf8_lossy(value).into_owned();
        match tag {
            0x81 => all.push(AlternativeName::Mail(text())),
            0x82 => all.push(AlternativeName::Host(text())),
            0x87 => all.extend(address(value).map(AlternativeName::Address)),
            TAGGED_0 => all.extend(other_name(value).ok().flatten()),
            _ => {}
        }
    }
    Ok(all)
}

/// Reads a name of a kind that has an object identifier: `None` for a kind, or a form of its value,
/// that nobody asks for.
fn other_name(content: &[u8]) -> Result<Option<AlternativeName>, Malformed> {
    let mut fields = DerReader(content);
    let kind = fields.expect(OBJECT)?;
    let (tag, value) = DerReader(fields.expect(TAGGED_0)?).next()?.ok_or(Malformed)?;
    let text = || String::from_utf8_lossy(value).into_owned();
    Ok(match (kind, tag) {
        (PRINCIPAL, UTF8_TEXT) => Some(AlternativeName::Principal(text())),
        (SERVICE, ASCII_TEXT) => Some(AlternativeName::Service(text())),
        _ => None,
    })
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(four) = <[u8; 4]>::try_from(bytes) {
        return Some(four.into());
    }
    <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from)
}

/// Reads elements one after the other.
struct DerReader<'b>(&'b [u8]);

impl<'b> DerReader<'b> {
    /// Returns tag and content of the next element; `None` at the end.
    fn next(&mut self) -> Result<Option<(u8, &'b [u8])>, Malformed> {
        let Some((&tag, rest)) = self.0.split_first() else {
            return Ok(None);
        };
        let (&first, mut rest) = rest.split_first().ok_or(Malformed)?;
        let length = match first {
            0..=0x7f => usize::from(first),
            // At most four bytes of length; no certificate has more.
            0x81..=0x84 => {
                let count = usize::from(first - 0x80);
                let (bytes, behind) = rest.split_at_checked(count).ok_or(Malformed)?;
                rest = behind;
                bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte))
            }
            _ => return Err(Malformed),
        };
        let (content, behind) = rest.split_at_checked(length).ok_or(Malformed)?;
        self.0 = behind;
        Ok(Some((tag, content)))
    }

    /// Returns the content of the next element, which has this tag.
    fn expect(&mut self, tag: u8) -> Result<&'b [u8], Malformed> {
        match self.next()? {
            Some((found, content)) if found == tag => Ok(content),
            _ => Err(Malformed),
        }
    }

    /// Returns the content of the next element if it has this tag, and leaves it otherwise.
    fn take_if(&mut self, tag: u8) -> Result<Option<&'b [u8]>, Malformed> {
        match self.0.first() {
            Some(found) if *found == tag => self.expect(tag).map(Some),
            _ => Ok(None),
        }
    }

    /// Reads a time, as seconds since 1970.
    fn time(&mut self) -> Result<i64, Malformed> {
        let (tag, digits) = self.next()?.ok_or(Malformed)?;
        let (year, rest) = match tag {
            UTC_TIME => {
                let year = number(digits.get(..2))?;
                // RFC 5280 §4.1.2.5.1.
                (if year < 50 { 2000 + year } else { 1900 + year }, digits.get(2..))
            }
            TIME => (number(digits.get(..4))?, digits.get(4..)),
            _ => return Err(Malformed),
        };
        let rest = rest.filter(|rest| rest.len() == 11 && rest[10] == b'Z').ok_or(Malformed)?;
        let part = |place: usize| number(rest.get(2 * place..2 * place + 2));
        let (month, day) = (part(0)?, part(1)?);
        if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
            return Err(Malformed);
        }
        let seconds = part(2)? * 3600 + part(3)? * 60 + part(4)?;
        Ok(days(year, month, day) * 86_400 + seconds)
    }
}

fn number(digits: Option<&[u8]>) -> Result<i64, Malformed> {
    let digits = digits.ok_or(Malformed)?;
    digits.iter().try_fold(0, |number, digit| match digit {
        b'0'..=b'9' => Ok(number * 10 + i64::from(digit - b'0')),
        _ => Err(Malformed),
    })
}

/// Returns the days from 1970-01-01 to a day of the Gregorian calendar.
fn days(year: i64, month: i64, day: i64) -> i64 {
    // A year of this count begins in March, so that the leap day is its last.
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    365 * year + leap_days + (153 * month + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair, SanType};

    use super::*;

    fn certificate() -> Vec<u8> {
        let names = ["a.example".to_owned(), "*.a.example".to_owned(), "127.0.0.1".to_owned()];
        let mut params = CertificateParams::new(names).unwrap();
        let mail = "ann@a.example".to_owned().try_into().unwrap();
        params.subject_alt_names.push(SanType::Rfc822Name(mail));
        let kind = vec![1, 3, 6, 1, 4, 1, 311, 20, 2, 3];
        params
            .subject_alt_names
            .push(SanType::OtherName((kind, "ann@corp.example".into())));
        params.distinguished_name.push(DnType::CommonName, "ann");
        params.not_before = rcgen::date_time_ymd(2000, 2, 29);
        params.not_after = rcgen::date_time_ymd(2100, 3, 1);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    #[test]
    fn a_certificate_is_read() {
        let read = ParsedCertificate::read(&certificate()).unwrap();
        assert_eq!(read.version, 3);
        assert!(!read.serial.is_empty());
        // `date -u -d 2000-02-29 +%s`, `date -u -d 2100-03-01 +%s`
        assert_eq!((read.begins, read.ends), (951_782_400, 4_107_542_400));
        assert_eq!(read.subject[0].value, "ann");
        assert_eq!(read.subject, read.issuer);
        let expected = vec![
            AlternativeName::Host("a.example".into()),
            AlternativeName::Host("*.a.example".into()),
            AlternativeName::Address([127, 0, 0, 1].into()),
            AlternativeName::Mail("ann@a.example".into()),
            AlternativeName::Principal("ann@corp.example".into()),
        ];
        assert_eq!(read.alternatives, Some(expected));
    }

    /// Encodes an element that is shorter than 128 bytes.
    fn element(tag: u8, content: &[u8]) -> Vec<u8> {
        [&[tag, content.len() as u8], content].concat()
    }

    #[test]
    fn names_of_other_kinds_are_read_in_the_form_that_openssl_knows() {
        let other = |kind: &[u8], tag, text: &[u8]| {
            let value = element(TAGGED_0, &element(tag, text));
            element(TAGGED_0, &[element(OBJECT, kind), value].concat())
        };
        let names = [
            other(PRINCIPAL, UTF8_TEXT, "ännchen@a.example".as_bytes()),
            other(PRINCIPAL, ASCII_TEXT, b"no@a.example"),
            other(SERVICE, UTF8_TEXT, b"_no.a.example"),
            other(SERVICE, ASCII_TEXT, b"_https.a.example"),
            other(&[0x2b, 6, 1], UTF8_TEXT, b"no"),
            element(TAGGED_0, &element(OBJECT, PRINCIPAL)),
            element(0x82, b"a.example"),
            other(PRINCIPAL, UTF8_TEXT, b"bob@a.example"),
        ];
        let expected = [
            AlternativeName::Principal("ännchen@a.example".into()),
            AlternativeName::Service("_https.a.example".into()),
            AlternativeName::Host("a.example".into()),
            AlternativeName::Principal("bob@a.example".into()),
        ];
        let whole: Vec<u8> = names.concat();
        let length = (whole.len() as u16).to_be_bytes();
        let whole = [&[SEQUENCE, 0x82, length[0], length[1]], &whole[..]].concat();
        assert_eq!(super::names(&whole).unwrap(), expected);
    }

    #[test]
    fn no_damage_makes_a_panic() {
        let whole = certificate();
        for end in 0..whole.len() {
            // The missing bytes are a part of the outermost element.
            assert_eq!(ParsedCertificate::read(&whole[..end]), Err(Malformed));
        }
        let mut random: u32 = 0x9e37_79b9;
        for _ in 0..20_000 {
            random ^= random << 13;
            random ^= random >> 17;
            random ^= random << 5;
            let mut damaged = whole.clone();
            let place = random as usize % damaged.len();
            damaged[place] = (random >> 20) as u8;
            let _ = ParsedCertificate::read(&damaged);
        }
    }
}
