//! Extensions and their meanings.

use std::sync::Arc;

use super::MultiviewsMatch;
use crate::description::FileDescription;
use crate::work;

/// The meaning of an extension. A line may give one value to many extensions, which share it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extension {
    /// AddType; empty where RemoveType removed the type, also from the server's own table.
    pub media_type: Option<Arc<[u8]>>,
    pub encoding: Option<Arc<[u8]>>,
    pub language: Option<Arc<[u8]>>,
    pub handler: Option<Arc<[u8]>>,
    pub charset: Option<Arc<[u8]>>,
    pub input_filters: Option<Arc<[u8]>>,
    pub output_filters: Option<Arc<[u8]>>,
    /// Whether RemoveHandler removed the handler, which may be the server's own.
    pub unhandled: bool,
}

/// One aspect of an extension's meaning.
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
    /// Returns an aspect of the extension, to be changed.
    pub(super) fn aspect(&mut self, aspect: Aspect) -> &mut Option<Arc<[u8]>> {
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

    /// Returns whether RemoveHandler stops the file from being run. For Apache, RemoveHandler is
    /// stronger than an AddHandler beside it. A file with both, and a handler of PHP, wants scripts
    /// to run, and under Debian's Apache they do.
    pub(super) fn takes_away(&self) -> bool {
        let gives_php = self.handler.as_ref().is_some_and(|handler| {
            let lower = handler.to_ascii_lowercase();
            memchr::memmem::find(&lower, b"php").is_some()
                && !lower.ends_with(b"source")
                && !lower.ends_with(b"phps")
        });
        self.unhandled && !gives_php
    }

    /// Adds the meanings of `closer`, which override those that are there.
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

    /// Returns the steps of [`describe`](Extension::describe): each filter is copied for itself.
    pub(super) fn steps(&self) -> u64 {
        let length = |value: &Option<Arc<[u8]>>| value.as_ref().map_or(0, |value| value.len());
        let values = [&self.media_type, &self.charset, &self.encoding, &self.handler];
        let copied: usize = values.into_iter().map(length).sum();
        work::bytes(copied) + length(&self.output_filters) as u64
    }

    /// Adds what the extension says to a description, and tells whether MultiViews counts the
    /// extension as known.
    pub(super) fn describe(
        &self,
        description: &mut FileDescription,
        multiviews: MultiviewsMatch,
    ) -> bool {
        let mut found = false;
        if let Some(media_type) =
            self.media_type.as_ref().filter(|media_type| !media_type.is_empty())
        {
            description.content_type = Some(media_type.to_vec());
            found = true;
        }
        if let Some(charset) = &self.charset {
            description.charset = Some(charset[..].into());
            found = true;
        }
        if let Some(language) = &self.language {
            description.languages.push(Arc::clone(language));
            found = true;
        }
        if let Some(encoding) = &self.encoding {
            match &mut description.encoding {
                Some(before) => before.extend_from_slice(&[b", ", &encoding[..]].concat()),
                before => *before = Some(encoding.to_vec()),
            }
            found = true;
        }
        if let Some(handler) = &self.handler {
            description.handler = Some(handler[..].into());
            found |= multiviews.handlers;
        }
        found |= multiviews.filters && self.input_filters.is_some();
        if let Some(filters) = &self.output_filters {
            let names = filters.split(|&byte| byte == b';').filter(|name| !name.is_empty());
            description.filters.extend(names.map(Box::from));
            found |= multiviews.filters;
        }
        found
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
