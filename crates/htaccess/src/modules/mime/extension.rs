//! What an extension means, and what all extensions of a name come to.

use super::MultiviewsMatch;

/// What is said about an extension.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extension {
    /// AddType; empty where RemoveType took it away, also from the server's own table.
    pub media_type: Option<Box<[u8]>>,
    pub encoding: Option<Box<[u8]>>,
    pub language: Option<Box<[u8]>>,
    pub handler: Option<Box<[u8]>>,
    pub charset: Option<Box<[u8]>>,
    pub input_filters: Option<Box<[u8]>>,
    pub output_filters: Option<Box<[u8]>>,
    /// RemoveHandler took away what served it, which may have been the server's own.
    pub unhandled: bool,
}

/// One of the things that can be said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aspect {
    MediaType,
    Encoding,
    Language,
    Handler,
    Charset,
    InputFilters,
    OutputFilters,
}

impl Extension {
    /// The place of one of them.
    pub(super) fn aspect(&mut self, aspect: Aspect) -> &mut Option<Box<[u8]>> {
        match aspect {
            Aspect::MediaType => &mut self.media_type,
            Aspect::Encoding => &mut self.encoding,
            Aspect::Language => &mut self.language,
            Aspect::Handler => &mut self.handler,
            Aspect::Charset => &mut self.charset,
            Aspect::InputFilters => &mut self.input_filters,
            Aspect::OutputFilters => &mut self.output_filters,
        }
    }

    pub(super) fn remove(&mut self, aspect: Aspect) {
        *self.aspect(aspect) = None;
    }

    /// Whether RemoveHandler is meant to end that the file is run. To Apache it is stronger than an
    /// AddHandler beside it, but who writes both with a handler of PHP wants scripts to run, and
    /// under Debian's Apache they do.
    pub(super) fn takes_away(&self) -> bool {
        let gives_php = self.handler.as_ref().is_some_and(|handler| {
            let lower = handler.to_ascii_lowercase();
            memchr::memmem::find(&lower, b"php").is_some()
                && !lower.ends_with(b"source")
                && !lower.ends_with(b"phps")
        });
        self.unhandled && !gives_php
    }

    /// What `closer` says comes before what is there.
    pub(super) fn overlay(&mut self, closer: &Extension) {
        let takes_away = closer.takes_away();
        let mut closer = closer.clone();
        for aspect in ALL {
            if let Some(value) = closer.aspect(aspect).take() {
                *self.aspect(aspect) = Some(value);
            }
        }
        self.unhandled = takes_away || (self.unhandled && self.handler.is_none());
    }
}

const ALL: [Aspect; 7] = [
    Aspect::MediaType,
    Aspect::Encoding,
    Aspect::Language,
    Aspect::Handler,
    Aspect::Charset,
    Aspect::InputFilters,
    Aspect::OutputFilters,
];

/// What a file's name says about it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Description {
    /// With parameters, as it was written.
    pub content_type: Option<Vec<u8>>,
    pub charset: Option<Box<[u8]>>,
    /// Several are joined by commas, in the order of the extensions.
    pub encoding: Option<Vec<u8>>,
    pub languages: Vec<Box<[u8]>>,
    pub handler: Option<Box<[u8]>>,
    /// Output filters, in order.
    pub filters: Vec<Box<[u8]>>,
    /// The name up to its first extension, then the extensions that mean nothing.
    pub exceptions: Vec<Box<[u8]>>,
    /// Whether any extension means something.
    pub is_known: bool,
}

impl Description {
    pub(super) fn of(stem: &[u8]) -> Description {
        Description {
            exceptions: vec![stem.into()],
            ..Description::default()
        }
    }

    /// Adds what an extension says, and tells whether MultiViews counts it as known.
    pub(super) fn add(&mut self, extension: &Extension, multiviews: MultiviewsMatch) -> bool {
        let mut found = false;
        if let Some(media_type) =
            extension.media_type.as_ref().filter(|media_type| !media_type.is_empty())
        {
            self.content_type = Some(media_type.to_vec());
            found = true;
        }
        if let Some(charset) = &extension.charset {
            self.charset = Some(charset.clone());
            found = true;
        }
        if let Some(language) = &extension.language {
            self.languages.push(language.clone());
            found = true;
        }
        if let Some(encoding) = &extension.encoding {
            self.encoding = Some(match self.encoding.take() {
                Some(first) => [&first[..], b", ", encoding].concat(),
                None => encoding.to_vec(),
            });
            found = true;
        }
        if let Some(handler) = &extension.handler {
            self.handler = Some(handler.clone());
            found |= multiviews.handlers;
        }
        found |= multiviews.filters && extension.input_filters.is_some();
        if let Some(filters) = &extension.output_filters {
            let names = filters.split(|&byte| byte == b';').filter(|name| !name.is_empty());
            self.filters.extend(names.map(Box::from));
            found |= multiviews.filters;
        }
        found
    }

    /// For `explain`.
    pub(super) fn facts(&self) -> Vec<(&'static str, String)> {
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
