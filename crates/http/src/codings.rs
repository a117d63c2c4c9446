//! Content negotiation: the weights that a client gives (RFC 9110 §12.4.2), and the content coding
//! that it prefers (§12.5.3).

use crate::Fields;
use crate::list::members;
use crate::scan;

/// Returns the index of the coding in `offered`, in lower case, that a client with these request
/// fields prefers. Equal weights: the first. `None`: the content is to be sent as it is, because
/// the client accepts none of them or prefers that (`identity` with a higher weight).
pub fn preferred(fields: &Fields, offered: &[&str]) -> Option<usize> {
    let weight = |coding: &str| weight(fields, b"accept-encoding", coding);
    let other = weight("*").unwrap_or(0);
    let plain = weight("identity").unwrap_or(0);
    let weights = offered.iter().map(|coding| weight(coding).unwrap_or(other));
    let accepted = weights.enumerate().filter(|(_, weight)| *weight > 0 && *weight >= plain);
    let best = accepted.reduce(|best, next| if next.1 > best.1 { next } else { best });
    best.map(|(index, _)| index)
}

/// Returns the weight of `member` in the fields called `name`, in thousandths. `None`: it is not
/// named. `x-gzip` is gzip (RFC 9110 §8.4.1.3).
pub fn weight(fields: &Fields, name: &[u8], member: &str) -> Option<u16> {
    let mut members = fields.values(name).flat_map(members).map(weighed);
    let is_meant = |name: &[u8]| {
        name.eq_ignore_ascii_case(member.as_bytes())
            || member == "gzip" && name.eq_ignore_ascii_case(b"x-gzip")
    };
    let found = members.find(|(name, _)| is_meant(name));
    found.map(|(_, weight)| weight)
}

/// Splits `gzip;q=0.5` into the coding and its weight in thousandths. A weight that cannot be read
/// is 0: what is not understood is not accepted.
fn weighed(member: &[u8]) -> (&[u8], u16) {
    let mut parts = member.split(|&byte| byte == b';').map(scan::trim);
    let name = parts.next().unwrap_or_default();
    let weight = parts.find_map(|parameter| match parameter {
        [b'q' | b'Q', b'=', weight @ ..] => Some(weight),
        _ => None,
    });
    (name, weight.map_or(1000, thousandths))
}

fn thousandths(weight: &[u8]) -> u16 {
    let (whole, rest) = weight.split_at(weight.len().min(1));
    let digits = match rest {
        [] => rest,
        [b'.', digits @ ..] if digits.len() <= 3 => digits,
        _ => return 0,
    };
    if !digits.iter().all(u8::is_ascii_digit) {
        return 0;
    }
    let fraction = (0..3)
        .fold(0, |sum, at| sum * 10 + digits.get(at).map_or(0, |digit| u16::from(digit - b'0')));
    match whole {
        b"0" => fraction,
        b"1" if fraction == 0 => 1000,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_client_s_preference_counts_then_the_order() {
        let rows = [
            ("gzip, deflate, br, zstd", Some("br")),
            ("gzip", Some("gzip")),
            ("GZIP;Q=0.5", Some("gzip")),
            ("X-Gzip", Some("gzip")),
            ("x-gzip;q=0", None),
            ("br;q=0.5, gzip;q=0.8", Some("gzip")),
            ("br;q=0.5, gzip;q=0.5", Some("br")),
            ("br ; q=0.1 , zstd", Some("zstd")),
            ("*", Some("br")),
            ("*;q=0.1, br;q=0", Some("zstd")),
            ("gzip;q=0", None),
            ("gzip;q=0.000", None),
            ("gzip;q=0.001", Some("gzip")),
            ("br;q=0.999, gzip;q=1", Some("gzip")),
            ("br;q=0.99, gzip;q=1.000", Some("gzip")),
            ("br;q=0.02, gzip;q=0.1", Some("gzip")),
            ("br;q=0.02, gzip;q=0.003", Some("br")),
            ("gzip;q=0.x", None),
            ("gzip;q=1.x", None),
            ("gzip;q=0,1", None),
            ("gzip;q=2", None),
            ("gzip;q=1.001", None),
            ("gzip;q=0.0001", None),
            ("gzip;q=0.5000", None),
            ("gzip;q=x", None),
            ("identity, gzip;q=0.5", None),
            ("identity;q=0.5, gzip;q=0.5", Some("gzip")),
            ("identity", None),
            ("deflate", None),
            ("", None),
        ];
        for (value, expected) in rows {
            let mut fields = Fields::new();
            fields.push(b"Accept-Encoding", value.as_bytes());
            let offered = ["br", "zstd", "gzip"];
            let found = preferred(&fields, &offered).map(|index| offered[index]);
            assert_eq!(found, expected, "{value}");
        }
        assert_eq!(preferred(&Fields::new(), &["gzip"]), None);
    }

    #[test]
    fn several_lines_are_one_list() {
        let mut fields = Fields::new();
        fields.push(b"accept-encoding", b"gzip;q=0.1");
        fields.push(b"Accept-Encoding", b"br");
        assert_eq!(preferred(&fields, &["gzip", "br"]), Some(1));
    }
}
