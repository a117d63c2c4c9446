//! Field lines in the types of the `http` crate. Responses of a site have the same lines again and
//! again, and making one takes longer than finding it.

use std::cell::RefCell;
use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use howdah_http::h2::is_sent;
use http::header::{HeaderName, HeaderValue};

/// A line that was made.
#[derive(Debug, Clone)]
struct MadeField {
    /// The name as the response has written it.
    written: Box<[u8]>,
    name: HeaderName,
    value: HeaderValue,
}

/// The lines that a thread has made last, each at the place of its hash.
struct MadeFields {
    state: RandomState,
    places: Vec<Option<MadeField>>,
}

/// Lines that are kept.
const PLACES: usize = 256;
/// Bytes of the longest value that is kept. A longer one is made for each response.
const LONGEST: usize = 100;

/// Lengths that are kept.
const LENGTHS: usize = 64;

thread_local! {
    static MADE: RefCell<MadeFields> = RefCell::new(MadeFields {
        state: RandomState::default(),
        places: vec![None; PLACES],
    });
    /// The last value of Date.
    static DATE: RefCell<HeaderValue> = const { RefCell::new(HeaderValue::from_static("")) };
    /// The last values of Content-Length, each at the place of its remainder.
    static MADE_LENGTHS: RefCell<Vec<Option<(u64, HeaderValue)>>> =
        RefCell::new(vec![None; LENGTHS]);
}

/// Returns the value of Date. `None`: a field cannot have this value.
pub(super) fn date(value: &[u8]) -> Option<HeaderValue> {
    DATE.with_borrow_mut(|last| {
        if *last != *value {
            *last = HeaderValue::from_bytes(value).ok()?;
        }
        Some(last.clone())
    })
}

/// Returns the value of Content-Length.
pub(super) fn length(length: u64) -> HeaderValue {
    MADE_LENGTHS.with_borrow_mut(|places| match &mut places[(length % LENGTHS as u64) as usize] {
        Some((known, made)) if *known == length => made.clone(),
        place => place.insert((length, length.into())).1.clone(),
    })
}

/// Returns the line; `None` if it is not sent.
pub(super) fn made(name: &[u8], value: &[u8]) -> Option<(HeaderName, HeaderValue)> {
    // Cookies are a visitor's own and secret.
    if value.len() > LONGEST || name.eq_ignore_ascii_case(b"set-cookie") {
        return make(name, value);
    }
    MADE.with_borrow_mut(|MadeFields { state, places }| {
        let place = &mut places[state.hash_one((name, value)) as usize % PLACES];
        if let Some(made) = place
            && *made.written == *name
            && made.value == *value
        {
            return Some((made.name.clone(), made.value.clone()));
        }
        let (of, with) = make(name, value)?;
        *place = Some(MadeField {
            written: name.into(),
            name: of.clone(),
            value: with.clone(),
        });
        Some((of, with))
    })
}

fn make(name: &[u8], value: &[u8]) -> Option<(HeaderName, HeaderValue)> {
    if !is_sent(name, value) {
        return None;
    }
    HeaderName::from_bytes(name).ok().zip(HeaderValue::from_bytes(value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_length_is_found_as_it_is() {
        for _ in 0..3 {
            for number in (0..3 * LENGTHS as u64).chain([u64::MAX]) {
                assert_eq!(length(number), number.to_string());
            }
        }
    }

    #[test]
    fn each_line_is_found_as_it_is() {
        for round in 0..3 {
            for number in 0..2 * PLACES {
                let value = format!("{number}");
                let (name, made) = made(b"X-Number", value.as_bytes()).expect("it is sent");
                assert_eq!((name.as_str(), made.as_bytes()), ("x-number", value.as_bytes()));
            }
            assert_eq!(made(b"connection", b"close"), None, "{round}");
            assert_eq!(made(b"x-bad", b"a\nb"), None, "{round}");
            let cookie = made(b"Set-Cookie", b"a=b").expect("it is sent");
            assert_eq!((cookie.0.as_str(), cookie.1.as_bytes()), ("set-cookie", &b"a=b"[..]));
        }
        let is_cookie = |made: &MadeField| made.name == "set-cookie";
        MADE.with_borrow(|made| assert!(!made.places.iter().flatten().any(is_cookie)));
    }
}
