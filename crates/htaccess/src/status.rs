//! Status codes that Apache 2.4 knows.

/// Returns whether Apache 2.4 has a status line for the code (`ap_index_of_response`).
pub(crate) fn is_known(code: u16) -> bool {
    matches!(
        code,
        100..=102 | 200..=208 | 226 | 300..=305 | 307 | 308 | 400..=417
            | 421..=424 | 426 | 428 | 429 | 431 | 451
            | 500..=508 | 510 | 511
    )
}
