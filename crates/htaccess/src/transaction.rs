//! A request as Apache's modules see and change it (`request_rec`).

use std::collections::HashMap;
use std::fmt;
use std::iter::successors;
use std::sync::Arc;

use howdah_http::{Fields, Method, ResponseHead, Status};

use crate::client::ClientRequest;
use crate::media_type::MediaType;
use crate::mistake::DirectivePlace;
use crate::module_notes::ModuleNotes;
use crate::trace::{Trace, TraceEvent};
use crate::work;

/// A request on its way through the phases.
#[derive(Debug)]
pub struct Transaction<'r> {
    /// The request as the client sent it, and its connection.
    pub client: ClientRequest<'r>,
    /// The request as the phases have changed it.
    pub state: RequestState,
}

/// The state of a request between phases. An internal redirect begins with a new state, whose
/// `previous` is the old one. Paths and names are bytes, decoded.
#[derive(Clone, Debug, Default)]
pub struct RequestState {
    /// The current method; an ErrorDocument is fetched with GET.
    pub method: Method,
    /// The site's root, absolute, without a slash at its end.
    pub document_root: Arc<[u8]>,
    /// Path of the URL, decoded, beginning with `/` (`r->uri`).
    pub uri: Vec<u8>,
    /// Query, as sent, without `?` (`r->args`).
    pub args: Option<Vec<u8>>,
    /// Absolute path of the longest part of the URL that exists, plus the next component where the
    /// rest is missing, as Apache's directory walk leaves it (`r->filename`). A folder ends in `/`
    /// where the URL does.
    pub filename: Vec<u8>,
    /// The rest of the URL's path (`r->path_info`): empty, or beginning with `/`.
    pub path_info: Vec<u8>,
    /// The kind of file that `filename` names.
    pub found: FileKind,
    /// Variables for scripts, logs and conditions (`r->subprocess_env`).
    pub env: Fields,
    /// Notes that modules leave for each other and for conditions (`r->notes`).
    pub notes: Fields,
    /// The request's fields after RequestHeader; `None` while they are as sent.
    pub request_fields: Option<Fields>,
    /// Response fields for successful responses (`r->headers_out`).
    pub fields: Fields,
    /// Response fields for all responses, errors and redirects as well (`r->err_headers_out`).
    pub error_fields: Fields,
    /// The authenticated user (`r->user`).
    pub user: Option<Vec<u8>>,
    /// `Basic` or `Digest` (`r->ap_auth_type`).
    pub auth_type: Option<&'static str>,
    /// The handler that serves the request (`r->handler`), such as `application/x-httpd-php`.
    pub handler: Option<Vec<u8>>,
    /// Media type without parameters (`r->content_type`).
    pub content_type: Option<Vec<u8>>,
    /// The charset parameter, where mod_mime or a T= flag gave one.
    pub charset: Option<Vec<u8>>,
    /// Content-Encoding (`r->content_encoding`).
    pub encoding: Option<Vec<u8>>,
    /// Content-Language (`r->content_languages`).
    pub languages: Vec<Vec<u8>>,
    /// Output filters that mod_mime's extensions name, in order. The filters of SetOutputFilter
    /// come after them.
    pub output_filters: Vec<Box<[u8]>>,
    /// The response's status as far as it is known; 200 at first. A document of ErrorDocument keeps
    /// the error's status.
    pub status: Status,
    /// The request that was redirected to this one internally.
    pub previous: Option<Box<RequestState>>,
    /// Whether this is a sub-request, which is resolved and not served.
    pub is_subrequest: bool,
    /// `uri` of the request that made this sub-request (`r->main->uri`).
    pub main_uri: Option<Vec<u8>>,
    /// Whether Options has neither FollowSymLinks nor SymLinksIfOwnerMatch on, without which
    /// mod_rewrite refuses to work.
    pub links_forbidden: bool,
    /// Notes that modules keep for themselves, and for the requests that this one leads to.
    pub module_notes: ModuleNotes,
    /// Lines for the error log: the place of the directive, and the message.
    pub complaints: Vec<(Option<Arc<DirectivePlace>>, String)>,
    /// The events that `explain` shows; `None` where it does not run.
    pub trace: Option<Box<Trace>>,
}

/// The kind of file that a name leads to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FileKind {
    /// No file.
    #[default]
    Missing,
    /// A regular file.
    File,
    /// A folder.
    Directory,
}

/// The reason why an access check stops a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denial {
    /// The request is answered with this error.
    Status(Status),
    /// The answer takes time, as with a slow password hash: the request is resolved again once it
    /// is known.
    Later,
}

/// Variables or notes would take more memory than those of a request may. The request is answered
/// with 500.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoVariableRoom;

impl NoVariableRoom {
    /// The message for the error log.
    pub const MESSAGE: &str = "the variables and notes of this request become longer than 192 KiB \
                               together, with 32 bytes for each";
}

impl fmt::Display for NoVariableRoom {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(NoVariableRoom::MESSAGE)
    }
}

impl RequestState {
    /// Checks that there is room for `more` bytes, as [`Fields::size`] counts them, beside the
    /// variables and notes of the request and of those that led to it.
    ///
    /// # Errors
    /// There is none.
    pub fn room_for(&self, more: usize) -> Result<(), NoVariableRoom> {
        let states = successors(Some(self), |state| state.previous.as_deref());
        let held: usize = states.map(|state| state.env.size() + state.notes.size()).sum();
        if held + more <= MOST_SET {
            Ok(())
        } else {
            Err(NoVariableRoom)
        }
    }

    /// Returns about how many bytes of memory the state takes, with the requests that led to it.
    pub fn weight(&self) -> usize {
        let states = successors(Some(self), |state| state.previous.as_deref());
        states.map(RequestState::own_weight).sum()
    }

    fn own_weight(&self) -> usize {
        // Each field is named: one that is added cannot be forgotten.
        let RequestState {
            method: _,
            document_root: _,
            uri,
            args,
            filename,
            path_info,
            found: _,
            env,
            notes,
            request_fields,
            fields,
            error_fields,
            user,
            auth_type: _,
            handler,
            content_type,
            charset,
            encoding,
            languages,
            output_filters,
            status: _,
            previous: _,
            is_subrequest: _,
            main_uri,
            links_forbidden: _,
            module_notes,
            complaints,
            trace: _,
        } = self;
        let tables = [env, notes, fields, error_fields].into_iter().chain(request_fields);
        let texts = [args, user, handler, content_type, charset, encoding, main_uri];
        let texts = texts.into_iter().flatten().chain([uri, filename, path_info]);
        let listed = languages.iter().map(Vec::len).chain(output_filters.iter().map(|it| it.len()));
        let listed = listed.chain(complaints.iter().map(|(_, message)| message.len()));
        size_of::<RequestState>()
            + tables.map(Fields::size).sum::<usize>()
            + texts.map(Vec::len).sum::<usize>()
            + listed.map(|length| length + LISTED).sum::<usize>()
            + module_notes.weight()
    }

    /// Sets a variable. A variable that exists keeps the case of its name.
    pub fn set_variable(&mut self, name: &[u8], value: &[u8]) {
        let known = self.env.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        match known {
            None => self.env.push(name, value),
            Some((_, before)) if before == value => {}
            Some((known, _)) => {
                let known = known.to_vec();
                self.env.set(&known, value);
            }
        }
    }

    /// Sets many variables, each as [`set_variable`](RequestState::set_variable) does, in a time
    /// that grows with their number and not with its square. The last value of a name counts.
    pub fn set_variables(&mut self, variables: &Fields) {
        if variables.len() * self.env.len() <= FEW_COMPARISONS {
            return variables.iter().for_each(|(name, value)| self.set_variable(name, value));
        }
        let lower = |name: &[u8]| name.to_ascii_lowercase();
        let mut last: HashMap<Vec<u8>, (usize, Option<Vec<u8>>)> = HashMap::new();
        for (at, (name, _)) in variables.iter().enumerate() {
            last.insert(lower(name), (at, None));
        }
        let mut kept = Fields::with_capacity(self.env.len() + last.len(), self.env.length());
        for (name, value) in self.env.iter() {
            match last.get_mut(&lower(name)) {
                Some((_, spelling)) => drop(spelling.get_or_insert_with(|| name.to_vec())),
                None => kept.push(name, value),
            }
        }
        for (at, (name, value)) in variables.iter().enumerate() {
            match last.get(&lower(name)) {
                Some((last, spelling)) if *last == at => {
                    kept.push(spelling.as_deref().unwrap_or(name), value);
                }
                _ => {}
            }
        }
        self.env = kept;
    }

    /// Returns the value of Content-Type: media type and charset. `None` if the media type is not
    /// known.
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

    /// Adds a field of the request to Vary, since the response depends on it.
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

/// The bytes of a request's variables and notes, as [`Fields::size`] counts them: as many as a
/// script can be given. Beyond them: 500.
const MOST_SET: usize = 192 << 10;

/// The bytes of an element of a list beside its text.
const LISTED: usize = 32;

/// The names that are compared one by one where several variables are set.
const FEW_COMPARISONS: usize = 1_000;

impl<'r> Transaction<'r> {
    /// Returns the first value of a request field, after RequestHeader. `None` if the request has
    /// no such field.
    pub fn request_field(&self, name: &[u8]) -> Option<&[u8]> {
        self.fields_named(name).value(name)
    }

    /// Returns the value of a variable. `None` if it is not set, and where the request's budget is
    /// used up: the evaluation has no valid result then.
    pub fn variable(&self, name: &[u8]) -> Option<&[u8]> {
        self.client.meter().spend(work::comparing(self.state.env.len(), name)).ok()?;
        self.state.env.value(name)
    }

    /// Sets a variable, unless the request's budget is used up. A variable that exists keeps the
    /// case of its name.
    ///
    /// # Errors
    /// There is no room for it.
    pub fn set_variable(&mut self, name: &[u8], value: &[u8]) -> Result<(), NoVariableRoom> {
        let compared = 2 * work::comparing(self.state.env.len(), name);
        if self.client.meter().spend(compared + work::bytes(value.len())).is_ok() {
            self.state.room_for(Fields::size_of_line(name, value))?;
            self.state.set_variable(name, value);
        }
        Ok(())
    }

    /// Removes a variable, unless the request's budget is used up.
    pub fn unset_variable(&mut self, name: &[u8]) {
        if self.client.meter().spend(work::comparing(self.state.env.len(), name)).is_ok() {
            self.state.env.remove(name);
        }
    }

    /// Returns every value of a request field, after RequestHeader.
    pub fn request_values<'t>(&'t self, name: &'t [u8]) -> impl Iterator<Item = &'t [u8]> {
        self.fields_named(name).values(name)
    }

    fn fields_named(&self, name: &[u8]) -> &Fields {
        self.client.meter().note(work::comparing(self.request_field_count(), name));
        let edited = self.state.request_fields.as_ref();
        edited.unwrap_or_else(|| self.client.fields_named(name))
    }

    /// Returns the request's fields, after RequestHeader.
    pub fn request_fields(&self) -> &Fields {
        self.state
            .request_fields
            .as_ref()
            .unwrap_or_else(|| &self.client.request().fields)
    }

    /// Returns the number of the request's fields, after RequestHeader, for the meter alone: no
    /// outcome may depend on it, so it is not recorded as read.
    pub fn request_field_count(&self) -> usize {
        match &self.state.request_fields {
            Some(edited) => edited.len(),
            None => self.client.field_count(),
        }
    }

    /// Returns the request's fields, to be changed.
    pub fn edit_request_fields(&mut self) -> &mut Fields {
        let client = self.client;
        self.state.request_fields.get_or_insert_with(|| client.request().fields.clone())
    }

    /// Runs `work` with the response's head in the state, where expressions (`resp`,
    /// `%{CONTENT_TYPE}`, `%{REQUEST_STATUS}`) look for it. With `with_media_type`, the media type
    /// is in `content_type` with its parameters meanwhile, and not among the fields.
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

    /// Adds an event to the trace. Where events are not collected, `event` is not called.
    #[inline]
    pub fn trace(&mut self, event: impl FnOnce() -> TraceEvent) {
        if let Some(trace) = &mut self.state.trace {
            trace.events.push(event());
        }
    }

    /// Returns whether events are collected.
    #[inline]
    pub fn is_traced(&self) -> bool {
        self.state.trace.is_some()
    }

    /// Adds a line for the error log. Where the budget of work is used up, only the place is kept:
    /// from there on every directive fails.
    pub fn complain(&mut self, place: Option<&Arc<DirectivePlace>>, what: impl Into<String>) {
        let meter = self.client.meter();
        if meter.is_exhausted() {
            return meter.blame(place);
        }
        self.state.complaints.push((place.cloned(), what.into()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WorkBudget;
    use crate::testing::{request, transaction};

    /// Thousands of names in one directive would keep an event loop otherwise.
    #[test]
    fn no_variable_is_looked_for_beyond_the_budget() {
        let request = request("/", "");
        let budget = WorkBudget::new(1_000);
        let mut tx = transaction(&request);
        tx.client = tx.client.within(&budget);
        (0..100).for_each(|n| tx.state.env.push(format!("A{n}").as_bytes(), b"x"));
        let found = (0..2_600).filter(|_| tx.variable(b"A99").is_some()).count();
        assert!((15..25).contains(&found), "{found}");
        assert!(tx.set_variable(b"B", b"x").is_ok(), "there is room, but no budget");
        tx.unset_variable(b"A0");
        assert_eq!(tx.state.env.len(), 100);
        assert!(budget.is_exhausted());
    }

    /// A script's variables, set at once, are as if they were set one after the other.
    #[test]
    fn thousands_of_variables_are_set_at_once() {
        let mut one_by_one = RequestState::default();
        (0..300).for_each(|n: u32| one_by_one.env.push(format!("A{}", n % 200).as_bytes(), b"x"));
        let mut at_once = one_by_one.clone();
        let mut variables = Fields::new();
        for number in 0..400 {
            let name = format!("a{}", (3 * number) % 350);
            variables.push(name.as_bytes(), number.to_string().as_bytes());
        }
        variables.iter().for_each(|(name, value)| one_by_one.set_variable(name, value));
        at_once.set_variables(&variables);
        let lines = |state: &RequestState| -> Vec<String> {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            state.env.iter().map(|(name, value)| text(name) + "=" + &text(value)).collect()
        };
        assert_eq!(lines(&at_once), lines(&one_by_one));
        assert_eq!(at_once.env.len(), 350);
        let mut few = RequestState::default();
        few.set_variables(&variables);
        assert_eq!(few.env.len(), 350);
    }

    #[test]
    fn every_text_of_a_request_counts_in_its_weight() {
        let long = || vec![b'x'; 1_000];
        let changes: [fn(&mut RequestState, Vec<u8>); 13] = [
            |state, text| state.uri = text,
            |state, text| state.filename = text,
            |state, text| state.path_info = text,
            |state, text| state.args = Some(text),
            |state, text| state.main_uri = Some(text),
            |state, text| state.user = Some(text),
            |state, text| state.handler = Some(text),
            |state, text| state.content_type = Some(text),
            |state, text| state.charset = Some(text),
            |state, text| state.encoding = Some(text),
            |state, text| state.languages = vec![text],
            |state, text| state.output_filters = vec![text.into()],
            |state, text| state.request_fields.get_or_insert_default().push(b"A", &text),
        ];
        for (number, change) in changes.into_iter().enumerate() {
            let mut state = RequestState::default();
            let before = state.weight();
            change(&mut state, long());
            let more = state.weight() - before;
            assert!((1_000..1_200).contains(&more), "{number}: {more}");
            let led = RequestState {
                previous: Some(Box::new(state)),
                ..Default::default()
            };
            assert_eq!(led.weight(), 2 * before + more, "{number}");
        }
    }
}
