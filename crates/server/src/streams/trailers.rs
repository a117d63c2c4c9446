//! The fields that follow the content of a response, as HTTP/2 and HTTP/3 send them.

use howdah_http::h2::trailers_to_send;
use http::header::{HeaderMap, HeaderName, HeaderValue};

use crate::body::Trailers;

/// Returns the trailer fields that are sent; `None` if there are none.
pub(crate) fn trailer_map(trailers: &Trailers) -> Option<HeaderMap> {
    let mut map = HeaderMap::new();
    for (name, value) in trailers_to_send(trailers.fields()?) {
        // Both were checked. More fields than the map takes are left out.
        if let (Ok(name), Ok(value)) =
            (HeaderName::from_bytes(name), HeaderValue::from_bytes(value))
            && map.try_append(name, value).is_err()
        {
            break;
        }
    }
    (!map.is_empty()).then_some(map)
}
