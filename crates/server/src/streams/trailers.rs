//! The fields that follow the content of a response.

use std::cell::OnceCell;
use std::rc::Rc;

use howdah_http::Fields;
use howdah_http::h2::trailers_to_send;
use http::header::{HeaderMap, HeaderName, HeaderValue};

/// The trailer fields of a response, which are known at the end of its content. The source of the
/// content fills in what the sink sends.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trailers(Rc<OnceCell<Fields>>);

impl Trailers {
    /// Notes the fields. Later ones are ignored.
    pub(crate) fn set(&self, fields: Fields) {
        let _ = self.0.set(fields);
    }

    /// Returns the fields that are sent; `None` if there are none.
    pub(crate) fn to_send(&self) -> Option<HeaderMap> {
        let mut map = HeaderMap::new();
        for (name, value) in trailers_to_send(self.0.get()?) {
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
}
