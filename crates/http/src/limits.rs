//! The limits of a request.

/// Limits on a request, each with the status of a request beyond it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the request line without its CRLF; more is 414.
    pub request_line: usize,
    /// Bytes of one field line without its CRLF; more is 431.
    pub field_line: usize,
    /// Bytes of all field lines with their CRLFs; more is 431. Also bounds a chunked body's trailer
    /// section.
    pub fields_total: usize,
    /// Field lines in one head; more is 431.
    pub field_count: usize,
    /// Bytes of content, whether announced or chunked; more is 413. 0 means no limit.
    pub body: u64,
}

impl Limits {
    /// Returns whether content of `length` bytes is over the limit. A length beyond what a signed
    /// 64-bit file size can hold is over every limit.
    pub fn body_exceeded_by(&self, length: u64) -> bool {
        length > i64::MAX as u64 || (self.body != 0 && length > self.body)
    }
}

impl Default for Limits {
    /// Apache's long-standing request line; enough fields for any browser behind any proxy.
    fn default() -> Limits {
        Limits {
            request_line: 8190,
            field_line: 16_384,
            fields_total: 65_536,
            field_count: 100,
            body: 1 << 30,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_limit_of_zero_is_none_but_no_length_passes_a_file_size() {
        let limits = |body| Limits { body, ..Limits::default() };
        let table = [
            (10, 10, false),
            (10, 11, true),
            (0, u64::from(u32::MAX), false),
            (0, i64::MAX as u64, false),
            (0, i64::MAX as u64 + 1, true),
            (u64::MAX, u64::MAX, true),
        ];
        for (limit, length, exceeded) in table {
            assert_eq!(limits(limit).body_exceeded_by(length), exceeded, "{limit} {length}");
        }
    }
}
