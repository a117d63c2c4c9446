//! Properties of a file by the extensions of its name.

use std::sync::Arc;

/// The properties of a file by its name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FileDescription {
    /// The media type with parameters, as it was written.
    pub content_type: Option<Vec<u8>>,
    pub charset: Option<Box<[u8]>>,
    /// Several are joined by commas, in the order of the extensions.
    pub encoding: Option<Vec<u8>>,
    pub languages: Vec<Arc<[u8]>>,
    pub handler: Option<Box<[u8]>>,
    /// Output filters, in order.
    pub filters: Vec<Box<[u8]>>,
    /// The name up to its first extension, then the extensions that mean nothing.
    pub exceptions: Vec<Box<[u8]>>,
    /// Whether any extension means something.
    pub is_known: bool,
}

impl FileDescription {
    /// Returns a name that begins with `stem`, of whose extensions nothing is known yet.
    pub(crate) fn of(stem: &[u8]) -> FileDescription {
        FileDescription {
            exceptions: vec![stem.into()],
            ..FileDescription::default()
        }
    }

    /// For `explain`.
    pub(crate) fn facts(&self) -> Vec<(&'static str, String)> {
        let all: [(_, Option<&[u8]>); 4] = [
            ("type", self.content_type.as_deref()),
            ("charset", self.charset.as_deref()),
            ("encoding", self.encoding.as_deref()),
            ("handler", self.handler.as_deref()),
        ];
        let languages = self.languages.iter().map(|language| ("language", Some(&**language)));
        all.into_iter()
            .chain(languages)
            .filter_map(|(name, value)| Some((name, String::from_utf8_lossy(value?).into_owned())))
            .collect()
    }
}
