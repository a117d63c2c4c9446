//! Conditional requests (RFC 9110 §13): whether the client's copy, or its idea of ours, is current.

use crate::{
    Fields, Method, date,
    etag::{self, EntityTag},
    scan,
};

/// The validators of the selected representation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Validators<'a> {
    /// The entity tag, quotes included.
    pub etag: Option<&'a [u8]>,
    /// The time of the last modification, in seconds since 1970.
    pub last_modified: Option<u64>,
}

/// The result of a request's preconditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreconditionOutcome {
    /// There are none, or they hold: the method is performed.
    Proceed,
    /// 304: the client's copy is current.
    NotModified,
    /// 412: the client's idea of the resource is out of date.
    PreconditionFailed,
}

/// Evaluates If-Match, If-Unmodified-Since, If-None-Match and If-Modified-Since in the order of RFC
/// 9110 §13.2.2. `current` is `None` where nothing exists at the target. An If-Modified-Since later
/// than `now`, in seconds since 1970, is ignored (§13.1.3). Must be called only where the answer
/// without preconditions would be a success (§13.2.1).
pub fn decide(
    method: &Method,
    fields: &Fields,
    current: Option<&Validators<'_>>,
    now: u64,
) -> PreconditionOutcome {
    let conditions = ConditionalFields::of(fields);
    let reads = matches!(method, Method::Get | Method::Head);
    if conditions.if_match {
        if !matches(fields, b"if-match", current, |ours, theirs| ours.strong_eq(theirs)) {
            return PreconditionOutcome::PreconditionFailed;
        }
    } else if let Some(since) = conditions.if_unmodified_since.and_then(date::parse)
        && current
            .and_then(|current| current.last_modified)
            .is_some_and(|modified| modified > since)
    {
        return PreconditionOutcome::PreconditionFailed;
    }
    if conditions.if_none_match {
        return match matches(fields, b"if-none-match", current, |ours, theirs| ours.weak_eq(theirs))
        {
            false => PreconditionOutcome::Proceed,
            true if reads => PreconditionOutcome::NotModified,
            true => PreconditionOutcome::PreconditionFailed,
        };
    }
    if reads
        && let Some(since) = conditions.if_modified_since.and_then(date::parse)
        && since <= now
        && current
            .and_then(|current| current.last_modified)
            .is_some_and(|modified| modified <= since)
    {
        return PreconditionOutcome::NotModified;
    }
    PreconditionOutcome::Proceed
}

/// Returns whether Range may be answered: there is no If-Range, or it names exactly the current
/// version (RFC 9110 §13.1.5). A date is strong enough only where it lies at least a second before
/// `now` (§8.8.2.2): within one second a file can change twice.
pub fn range_applies(fields: &Fields, current: &Validators<'_>, now: u64) -> bool {
    let mut values = fields.values(b"if-range");
    let Some(value) = values.next() else {
        return true;
    };
    if values.next().is_some() {
        return false;
    }
    match EntityTag::parse(value) {
        Some(tag) => current
            .etag
            .and_then(EntityTag::parse)
            .is_some_and(|current| current.strong_eq(&tag)),
        None => {
            date::parse(value).is_some_and(|date| current.last_modified == Some(date) && date < now)
        }
    }
}

/// The conditional fields of a request, found in one pass over all lines: most requests have none.
#[derive(Default)]
struct ConditionalFields<'a> {
    if_match: bool,
    if_none_match: bool,
    if_modified_since: Option<&'a [u8]>,
    if_unmodified_since: Option<&'a [u8]>,
}

impl ConditionalFields<'_> {
    fn of(fields: &Fields) -> ConditionalFields<'_> {
        let mut conditions = ConditionalFields::default();
        for (name, value) in fields.iter() {
            match name.len() {
                8 if name.eq_ignore_ascii_case(b"if-match") => conditions.if_match = true,
                13 if name.eq_ignore_ascii_case(b"if-none-match") => {
                    conditions.if_none_match = true
                }
                17 if name.eq_ignore_ascii_case(b"if-modified-since") => {
                    conditions.if_modified_since.get_or_insert(value);
                }
                19 if name.eq_ignore_ascii_case(b"if-unmodified-since") => {
                    conditions.if_unmodified_since.get_or_insert(value);
                }
                _ => {}
            }
        }
        conditions
    }
}

/// Returns whether any line of that name lists the current tag, or is `*` while a representation
/// exists.
fn matches(
    fields: &Fields,
    name: &[u8],
    current: Option<&Validators<'_>>,
    equal: fn(&EntityTag<'_>, &EntityTag<'_>) -> bool,
) -> bool {
    let Some(current) = current else { return false };
    let tag = current.etag.and_then(EntityTag::parse);
    fields.values(name).any(|value| {
        scan::trim(value) == b"*"
            || tag.is_some_and(|tag| etag::list(value).any(|listed| equal(&tag, &listed)))
    })
}

#[cfg(test)]
mod tests {
    use super::{PreconditionOutcome::*, *};
    use crate::fields::tests::fields;

    const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
    const AT: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const AFTER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";
    const PRESENT: &str = "Sun, 06 Nov 1994 08:49:39 GMT";
    const FUTURE: &str = "Sun, 06 Nov 1994 08:49:40 GMT";
    /// The current time, a second before [`FUTURE`].
    const NOW: u64 = 784_111_779;
    const CURRENT: Validators<'static> = Validators {
        etag: Some(b"\"v2\""),
        last_modified: Some(784_111_777),
    };
    const WEAK: Validators<'static> = Validators {
        etag: Some(b"W/\"v2\""),
        last_modified: Some(784_111_777),
    };

    #[test]
    fn decisions_about_what_exists() {
        type Row = (Method, &'static [(&'static str, &'static str)], PreconditionOutcome);
        let table: [Row; 37] = [
            (Method::Get, &[], Proceed),
            // §13.1.2
            (Method::Get, &[("If-None-Match", "\"v2\"")], NotModified),
            (Method::Head, &[("if-none-match", "\"v1\", W/\"v2\"")], NotModified),
            (Method::Get, &[("If-None-Match", "\"v1\"")], Proceed),
            (Method::Get, &[("If-None-Match", "*")], NotModified),
            (Method::Put, &[("If-None-Match", "*")], PreconditionFailed),
            (Method::Post, &[("If-None-Match", "\"v2\"")], PreconditionFailed),
            (Method::Get, &[("If-None-Match", "v2")], Proceed),
            (Method::Get, &[("If-None-Match", "\"v1\""), ("If-None-Match", "\"v2\"")], NotModified),
            // §13.1.3, which If-None-Match overrules
            (Method::Get, &[("If-Modified-Since", BEFORE)], Proceed),
            (Method::Get, &[("If-Modified-Since", AT)], NotModified),
            (Method::Get, &[("If-Modified-Since", AFTER)], NotModified),
            // Other names of the same length.
            (Method::Get, &[("If-Modified-Since", AT), ("Authorization", "x")], NotModified),
            (Method::Get, &[("My-Modified-Since", AT)], Proceed),
            (Method::Get, &[("My-Unmodified-Since", BEFORE)], Proceed),
            (Method::Get, &[("Location", "x"), ("If-None-Match", "\"v2\"")], NotModified),
            (Method::Get, &[("If-Modified-Since", "yesterday")], Proceed),
            (Method::Get, &[("If-Modified-Since", PRESENT)], NotModified),
            (Method::Get, &[("If-Modified-Since", FUTURE)], Proceed),
            (Method::Head, &[("If-Modified-Since", FUTURE)], Proceed),
            (Method::Post, &[("If-Modified-Since", AT)], Proceed),
            (Method::Get, &[("If-Modified-Since", AT), ("If-None-Match", "\"v1\"")], Proceed),
            (
                Method::Get,
                &[("If-Modified-Since", BEFORE), ("If-None-Match", "\"v2\"")],
                NotModified,
            ),
            // §13.1.1
            (Method::Put, &[("If-Match", "\"v2\"")], Proceed),
            (Method::Put, &[("If-Match", "\"v1\", \"v2\"")], Proceed),
            (Method::Put, &[("If-Match", "\"v1\"")], PreconditionFailed),
            (Method::Put, &[("If-Match", "W/\"v2\"")], PreconditionFailed),
            (Method::Put, &[("If-Match", "*")], Proceed),
            (Method::Get, &[("If-Match", "\"v1\"")], PreconditionFailed),
            (Method::Get, &[("If-Match", "garbage")], PreconditionFailed),
            // §13.1.4, which If-Match overrules
            (Method::Put, &[("If-Unmodified-Since", BEFORE)], PreconditionFailed),
            (Method::Put, &[("If-Unmodified-Since", AT)], Proceed),
            (Method::Put, &[("If-Unmodified-Since", "yesterday")], Proceed),
            (Method::Put, &[("If-Unmodified-Since", BEFORE), ("If-Match", "\"v2\"")], Proceed),
            // §13.2.2: both kinds
            (Method::Get, &[("If-Match", "\"v2\""), ("If-None-Match", "\"v2\"")], NotModified),
            (
                Method::Get,
                &[("If-Match", "\"v1\""), ("If-None-Match", "\"v2\"")],
                PreconditionFailed,
            ),
            (Method::Get, &[("If-Unmodified-Since", AT), ("If-Modified-Since", AT)], NotModified),
        ];
        for (method, lines, expected) in table {
            assert_eq!(
                decide(&method, &fields(lines), Some(&CURRENT), NOW),
                expected,
                "{method} {lines:?}"
            );
        }
    }

    #[test]
    fn decisions_about_what_does_not_exist() {
        let table = [
            (Method::Put, "If-None-Match", "*", Proceed),
            (Method::Put, "If-Match", "*", PreconditionFailed),
            (Method::Put, "If-Match", "\"v2\"", PreconditionFailed),
            (Method::Put, "If-Unmodified-Since", BEFORE, Proceed),
            (Method::Get, "If-Modified-Since", AFTER, Proceed),
        ];
        for (method, name, value, expected) in table {
            assert_eq!(
                decide(&method, &fields(&[(name, value)]), None, NOW),
                expected,
                "{name}: {value}"
            );
        }
    }

    #[test]
    fn a_weak_tag_of_ours_never_matches_strongly() {
        assert_eq!(
            decide(&Method::Put, &fields(&[("If-Match", "W/\"v2\"")]), Some(&WEAK), NOW),
            PreconditionFailed
        );
        assert_eq!(
            decide(&Method::Get, &fields(&[("If-None-Match", "\"v2\"")]), Some(&WEAK), NOW),
            NotModified
        );
        assert!(!range_applies(&fields(&[("If-Range", "W/\"v2\"")]), &WEAK, u64::MAX));
    }

    #[test]
    fn if_range() {
        let table = [
            ("\"v2\"", CURRENT, true),
            ("\"v1\"", CURRENT, false),
            ("W/\"v2\"", CURRENT, false),
            (AT, CURRENT, true),
            (BEFORE, CURRENT, false),
            (AFTER, CURRENT, false),
            ("", CURRENT, false),
            ("\"v2\"", Validators::default(), false),
            (AT, Validators::default(), false),
        ];
        for (value, current, applies) in table {
            assert_eq!(
                range_applies(&fields(&[("If-Range", value)]), &current, 784_111_778),
                applies,
                "{value}"
            );
        }
        assert!(range_applies(&fields(&[]), &CURRENT, 0));
        assert!(
            !range_applies(&fields(&[("If-Range", AT)]), &CURRENT, 784_111_777),
            "modified this very second"
        );
        assert!(!range_applies(
            &fields(&[("If-Range", "\"v2\""), ("If-Range", "\"v2\"")]),
            &CURRENT,
            u64::MAX
        ));
    }
}
