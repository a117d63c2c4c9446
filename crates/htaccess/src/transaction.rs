//! A request as Apache's modules see it, and change it (`request_rec`).

use std::sync::Arc;

use howdah_http::{Fields, Method, ResponseHead, Status};

use crate::client::Client;
use crate::media_type::MediaType;
use crate::mistake::Place;
use crate::trace::{Event, Trace};

/// A request on its way through the phases.
#[derive(Debug)]
pub struct Transaction<'r> {
    /// What came from the client.
    pub client: Client<'r>,
    /// What has become of it.
    pub state: State,
}

/// What has become of a request so far. An internal redirect begins with a new one, of which the
/// old is `previous`. Paths and names are bytes, decoded.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// The method now in force; an ErrorDocument is fetched with GET.
    pub method: Method,
    /// The site's root, absolute, without a slash at its end.
    pub document_root: Arc<[u8]>,
    /// Path of the URL, decoded, beginning with `/` (`r->uri`).
    pub uri: Vec<u8>,
    /// Query, as sent, without `?` (`r->args`).
    pub args: Option<Vec<u8>>,
    /// Absolute path of the longest part of the URL that there is, plus the next component where
    /// that is missing, as Apache's directory walk leaves it (`r->filename`). Folders end in `/`
    /// where the URL did.
    pub filename: Vec<u8>,
    /// What followed it (`r->path_info`): empty, or beginning with `/`.
    pub path_info: Vec<u8>,
    /// What `filename` is.
    pub found: Found,
    /// Variables for scripts, logs and conditions (`r->subprocess_env`).
    pub env: Fields,
    /// What modules tell each other and conditions (`r->notes`).
    pub notes: Fields,
    /// What RequestHeader has made of the request's fields; `None` while they are as sent.
    pub request_fields: Option<Fields>,
    /// Response fields for successful responses (`r->headers_out`).
    pub fields: Fields,
    /// Response fields for all responses, errors and redirects as well (`r->err_headers_out`).
    pub error_fields: Fields,
    /// Who has authenticated (`r->user`).
    pub user: Option<Vec<u8>>,
    /// `Basic` or `Digest` (`r->ap_auth_type`).
    pub auth_type: Option<&'static str>,
    /// What serves it (`r->handler`), such as `application/x-httpd-php`.
    pub handler: Option<Vec<u8>>,
    /// Media type without parameters (`r->content_type`).
    pub content_type: Option<Vec<u8>>,
    /// The charset parameter, where mod_mime or a T= flag gave one.
    pub charset: Option<Vec<u8>>,
    /// Content-Encoding (`r->content_encoding`).
    pub encoding: Option<Vec<u8>>,
    /// Content-Language (`r->content_languages`).
    pub languages: Vec<Vec<u8>>,
    /// Output filters that mod_mime's extensions name, in order; those of SetOutputFilter come
    /// behind them.
    pub output_filters: Vec<Box<[u8]>>,
    /// The response's status as far as it is known; 200 at first. What ErrorDocument serves keeps
    /// the error's.
    pub status: Status,
    /// The request that was redirected to this one internally.
    pub previous: Option<Box<State>>,
    /// Whether this only asks what a request would come to.
    pub is_subrequest: bool,
    /// Of a sub-request: `uri` of the request that asks (`r->main->uri`).
    pub main_uri: Option<Vec<u8>>,
    /// Whether Options has neither FollowSymLinks nor SymLinksIfOwnerMatch on, without which
    /// mod_rewrite refuses to work.
    pub links_forbidden: bool,
    /// What mod_rewrite remembers.
    pub rewriting: RewriteNotes,
    /// Lines for the error log: where, and what.
    pub complaints: Vec<(Option<Arc<Place>>, String)>,
    /// What `explain` collects.
    pub trace: Option<Box<Trace>>,
}

/// What mod_rewrite remembers of a request, across its internal redirects.
#[derive(Clone, Debug, Default)]
pub struct RewriteNotes {
    /// Whether a rule with `END` has applied.
    pub ended: bool,
    /// The names of the cookies that rules have set.
    pub cookies: Vec<Box<[u8]>>,
}

/// What a file name led to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Found {
    /// Nothing is there.
    #[default]
    Missing,
    /// A regular file.
    File,
    /// A folder.
    Directory,
}

/// Why a request may not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It is answered with this error.
    Status(Status),
    /// The answer needs something that takes time, such as a slow password hash: the request is to
    /// be resolved again when it is known.
    Later,
}

impl State {
    /// Sets a variable. One that is there already keeps its name's letters, and stays as it is
    /// where the value is the same.
    pub fn set_variable(&mut self, name: &[u8], value: &[u8]) {
        if self.env.value(name) == Some(value) {
            return;
        }
        let known = self.env.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        let known = known.map(|(known, _)| known.to_vec());
        self.env.set(known.as_deref().unwrap_or(name), value);
    }

    /// Returns the value of Content-Type: media type and charset.
    pub fn content_type_field(&self) -> Option<Vec<u8>> {
        let media_type = self.content_type.as_ref()?;
        Some(match &self.charset {
            Some(charset) => [&media_type[..], b"; charset=", charset].concat(),
            None => media_type.clone(),
        })
    }

    /// Replaces media type and charset by those of a Content-Type's value.
    pub fn set_content_type(&mut self, value: &[u8]) {
        let (media_type, charset) = MediaType::split(value);
        self.content_type = Some(media_type.text);
        self.charset = charset;
    }

    /// Notes in Vary that the response depends on a field of the request.
    pub fn vary_on(&mut self, field: &[u8]) {
        let mut vary = self.fields.value(b"Vary").unwrap_or_default().to_vec();
        let mut there = vary.split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
        if there.any(|there| there.eq_ignore_ascii_case(field)) {
            return;
        }
        if !vary.is_empty() {
            vary.push(b',');
        }
        vary.extend_from_slice(field);
        self.fields.set(b"Vary", &vary);
    }
}

impl<'r> Transaction<'r> {
    /// The first value of a request field, as RequestHeader has left it.
    pub fn request_field(&self, name: &[u8]) -> Option<&[u8]> {
        self.fields_named(name).value(name)
    }

    /// Every value of a request field, as RequestHeader has left it.
    pub fn request_values<'t>(&'t self, name: &'t [u8]) -> impl Iterator<Item = &'t [u8]> {
        self.fields_named(name).values(name)
    }

    fn fields_named(&self, name: &[u8]) -> &Fields {
        let edited = self.state.request_fields.as_ref();
        edited.unwrap_or_else(|| self.client.fields_named(name))
    }

    /// The request's fields, as RequestHeader has left them.
    pub fn request_fields(&self) -> &Fields {
        self.state
            .request_fields
            .as_ref()
            .unwrap_or_else(|| &self.client.request().fields)
    }

    /// The request's fields, to be changed.
    pub fn edit_request_fields(&mut self) -> &mut Fields {
        let client = self.client;
        self.state.request_fields.get_or_insert_with(|| client.request().fields.clone())
    }

    /// Puts the head where expressions (`resp`, `%{CONTENT_TYPE}`, `%{REQUEST_STATUS}`) look for it, as
    /// long as `work` lasts. `with_media_type`: the media type is not among the fields then, but in
    /// `content_type` with its parameters.
    pub(crate) fn with_head<T>(
        &mut self,
        head: &mut ResponseHead,
        with_media_type: bool,
        work: impl FnOnce(&mut Transaction<'r>) -> T,
    ) -> T {
        std::mem::swap(&mut self.state.fields, &mut head.fields);
        self.state.status = head.status;
        let own = with_media_type.then(|| {
            let sent = self.state.fields.value(b"content-type").map(<[u8]>::to_vec);
            self.state.fields.remove(b"content-type");
            (std::mem::replace(&mut self.state.content_type, sent), self.state.charset.take())
        });
        let outcome = work(self);
        std::mem::swap(&mut self.state.fields, &mut head.fields);
        if let Some((content_type, charset)) = own {
            let sent = std::mem::replace(&mut self.state.content_type, content_type);
            self.state.charset = charset;
            if let Some(sent) = sent.filter(|sent| !sent.is_empty()) {
                self.state.error_fields.remove(b"content-type");
                head.fields.set(b"Content-Type", &sent);
            }
        }
        outcome
    }

    /// Notes an event where somebody collects them. `event` is not called otherwise.
    #[inline]
    pub fn trace(&mut self, event: impl FnOnce() -> Event) {
        if let Some(trace) = &mut self.state.trace {
            trace.events.push(event());
        }
    }

    /// Whether somebody collects events.
    #[inline]
    pub fn is_traced(&self) -> bool {
        self.state.trace.is_some()
    }

    /// Notes a line for the error log.
    pub fn complain(&mut self, place: Option<&Arc<Place>>, what: impl Into<String>) {
        self.state.complaints.push((place.cloned(), what.into()));
    }
}
