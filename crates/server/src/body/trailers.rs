//! The fields that follow the content of a response.

use std::cell::OnceCell;
use std::rc::Rc;

use howdah_http::Fields;

/// The trailer fields of a response, which are known at the end of its content. The source of the
/// content fills in what a sink may send.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trailers(Rc<OnceCell<Fields>>);

impl Trailers {
    /// Notes the fields. Later ones are ignored.
    pub(crate) fn set(&self, fields: Fields) {
        let _ = self.0.set(fields);
    }

    /// Returns the fields; `None` if there are none.
    pub(crate) fn fields(&self) -> Option<&Fields> {
        self.0.get()
    }
}
