//! Comma-separated lists of tokens (RFC 9110 §5.6.1).

use crate::scan;

/// Returns the members of a `#token` field value, trimmed; empty members are skipped, as §5.6.1.2
/// asks of recipients. Not for lists whose members may hold quoted commas.
pub fn members(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value
        .split(|&byte| byte == b',')
        .map(scan::trim)
        .filter(|member| !member.is_empty())
}

#[cfg(test)]
mod tests {
    #[test]
    fn members() {
        let table: [(&str, &[&str]); 5] = [
            ("", &[]),
            ("a", &["a"]),
            (" a ,\tb", &["a", "b"]),
            (",,a,,", &["a"]),
            ("a b,c", &["a b", "c"]),
        ];
        for (value, expected) in table {
            let found: Vec<&[u8]> = super::members(value.as_bytes()).collect();
            assert_eq!(
                found,
                expected.iter().map(|text| text.as_bytes()).collect::<Vec<_>>(),
                "{value}"
            );
        }
    }
}
