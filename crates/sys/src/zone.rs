//! `localtime_r(3)`: the machine's time zone.

use std::mem::MaybeUninit;

/// Seconds by which local time is ahead of UTC at a time in seconds since 1970; 0 if unknown.
pub fn offset(seconds: i64) -> i32 {
    let time = seconds as libc::time_t; // 64 bits wide wherever it can matter
    let mut local = MaybeUninit::<libc::tm>::zeroed();
    // SAFETY: both are live; an all-zero `tm` is a valid value of that plain C struct.
    let found = unsafe { libc::localtime_r(&raw const time, local.as_mut_ptr()) };
    if found.is_null() {
        return 0;
    }
    // SAFETY: it was zeroed, and filled by now.
    let local = unsafe { local.assume_init() };
    i32::try_from(local.tm_gmtoff).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    #[test]
    fn is_a_zone_of_this_world() {
        for seconds in [0, 1_700_000_000, -1, i64::MAX] {
            let offset = super::offset(seconds);
            assert!(offset.abs() <= 26 * 3600, "{seconds}: {offset}");
        }
    }
}
