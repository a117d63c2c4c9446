//! Resolving a request and making its head by the server's code, with every step noted.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{SystemTime, UNIX_EPOCH};

use howdah_files::{AnswerForm, FileStore, NegotiatedForm, RequestedPart};
use howdah_htaccess::WorkBudget;
use howdah_htaccess::modules::core::EtagParts;
use howdah_htaccess::response::ResponseProperties;
use howdah_http::{Fields, ResponseHead, Status};
use howdah_site::{
    ClientRequest, DocumentPath, FileHandle, Resolution, Resolved, RuledRequest, Scratch, Script,
    Site, server_variables,
};
use howdah_sys::credentials::Identity;

use super::host::front_host;
use super::{ExplainedOutcome, ExplainedWork, Explanation, NamesAndValues};
use crate::host::{ComparedPasswords, Passwords};
use crate::respond::{codings, file, set_content_type};

/// The state that resolving needs, as the server has it.
pub(super) struct ResolvingState<'b> {
    pub(super) site: &'b Site,
    pub(super) store: RefCell<FileStore>,
    pub(super) passwords: Passwords,
    pub(super) compared: ComparedPasswords,
    /// The user of the site's pool; `None` for that of this process.
    pub(super) pool_user: Option<Identity>,
    pub(super) scratch: Scratch,
    pub(super) client: ClientRequest<'b>,
    /// For the request, and for the response.
    pub(super) budgets: &'b [WorkBudget; 2],
}

impl ResolvingState<'_> {
    /// Resolves the request and explains the response.
    pub(super) fn run(&mut self) -> Explanation {
        let Resolved { resolution, ruled } = self.resolve();
        let mut explanation = Explanation {
            request: self.client.request().clone(),
            arrival: None,
            site: self.site.name().to_owned(),
            root: String::from_utf8_lossy(&self.site.document_root(self.client.host()))
                .into_owned(),
            events: Vec::new(),
            set: Vec::new(),
            complaints: Vec::new(),
            notes: Vec::new(),
            outcome: ExplainedOutcome::Page,
            lane: None,
            head: ResponseHead::new(Status::OK),
            filters: Vec::new(),
            work: ExplainedWork {
                request: 0,
                response: 0,
                most: self.budgets[0].most(),
            },
        };
        let mut ruled = ruled;
        self.answer(resolution, ruled.as_mut(), &mut explanation);
        [explanation.work.request, explanation.work.response] =
            self.budgets.each_ref().map(WorkBudget::used);
        if let Some(ruled) = ruled.map(Rc::unwrap_or_clone) {
            explanation.events = ruled.state.trace.map(|trace| trace.events).unwrap_or_default();
            let set = ruled.state.env.iter();
            explanation.set =
                set.map(|(name, _)| String::from_utf8_lossy(name).into_owned()).collect();
            let complaints = ruled.state.complaints.into_iter();
            let text = |(place, what)| match place {
                Some(place) => format!("{place}: {what}"),
                None => what,
            };
            explanation.complaints.extend(complaints.map(text));
        }
        explanation
    }

    fn resolve(&mut self) -> Resolved {
        loop {
            let resolved = {
                let mut host = front_host(
                    self.site,
                    (&self.store, &self.passwords),
                    (&self.compared, &self.pool_user),
                );
                let client = self.client.within(&self.budgets[0]);
                howdah_site::explain(self.site, &client, &mut host, &mut self.scratch)
            };
            match &resolved.resolution {
                Resolution::Verify { hash, password } => {
                    self.passwords.find_out_now(&mut self.compared, hash, password);
                }
                _ => return resolved,
            }
        }
    }

    fn answer(
        &mut self,
        resolution: Resolution,
        ruled: Option<&mut Rc<RuledRequest>>,
        to: &mut Explanation,
    ) {
        let mut asked = (RequestedPart::Whole, None);
        let Some(mut about) = self.outcome(resolution, ruled.as_deref(), &mut asked, to) else {
            return;
        };
        about.content.is_known = matches!(asked.0, RequestedPart::NotModified);
        self.adjust(about, ruled, &asked.0, to);
        let is_filtered = !to.filters.is_empty();
        if !file::sends_whole(&asked.0, is_filtered) {
            file::select_head(&mut to.head, is_filtered, asked.0, asked.1);
            to.filters.clear();
        }
    }

    /// Explains what is sent, before directives change its head. Returns what directives ask about
    /// it; `None` where they do not see it. `asked` becomes what is asked for of a file.
    fn outcome(
        &mut self,
        resolution: Resolution,
        ruled: Option<&Rc<RuledRequest>>,
        asked: &mut AskedOfFile,
        to: &mut Explanation,
    ) -> Option<ResponseProperties> {
        let rules = ruled.map(Rc::as_ref);
        let is_error = match resolution {
            Resolution::File { path, file } => self.explain_file((path, file), rules, asked, to),
            Resolution::Php(script) => {
                self.explain_script(&script, rules, to);
                false
            }
            Resolution::Proxy { upstream, target } => {
                let server = self.site.config().upstreams.get(upstream);
                let server = server.map(ToString::to_string).unwrap_or_default();
                to.outcome = ExplainedOutcome::Proxy(server + &String::from_utf8_lossy(&target));
                false
            }
            Resolution::Listing { path } => {
                to.outcome = ExplainedOutcome::Listing(shown(&path));
                if let Some(ruled) = ruled {
                    let content_type = howdah_site::listing_type(self.site, &self.client, ruled);
                    to.head.fields.push(b"Content-Type", &content_type);
                }
                false
            }
            Resolution::Redirect { status, location } => {
                to.head.status = status;
                to.head.fields.push(b"Location", &location);
                true
            }
            Resolution::Allow { status, methods, path } => {
                to.head.status = status;
                to.head.fields.push(b"Allow", methods.as_bytes());
                if let Some(path) = path {
                    file::push_media_type(&mut to.head, &path, rules);
                }
                !status.is_success()
            }
            Resolution::Exhausted => {
                to.head.status = Status::INTERNAL_SERVER_ERROR;
                return None;
            }
            Resolution::Page { status, .. } | Resolution::Status(status) => {
                to.head.status = status;
                to.head.fields.push(b"Content-Type", b"text/html; charset=utf-8");
                true
            }
            Resolution::Directory { .. }
            | Resolution::Verify { .. }
            | Resolution::Discard { .. } => {
                to.head.status = Status::FORBIDDEN;
                true
            }
        };
        Some(ResponseProperties {
            is_error,
            ..ResponseProperties::default()
        })
    }

    /// Explains a file, in the form that is sent. Returns whether the response is an error.
    fn explain_file(
        &self,
        found: (DocumentPath, FileHandle),
        rules: Option<&RuledRequest>,
        asked: &mut AskedOfFile,
        to: &mut Explanation,
    ) -> bool {
        let (path, file, variant) = {
            let fields = self.fields(rules);
            let mut host = front_host(
                self.site,
                (&self.store, &self.passwords),
                (&self.compared, &self.pool_user),
            );
            codings::select(&mut host.store, self.site, found, fields)
        };
        to.outcome = ExplainedOutcome::File(shown(&path));
        (to.head, *asked) = self.file((&path, file, variant), rules);
        // The file of an error page is one that is there.
        let is_error_page = rules.is_some_and(|rules| rules.state.status != Status::OK);
        !is_error_page && file::is_error(to.head.status)
    }

    /// Explains the output of a script.
    fn explain_script(&self, script: &Script, rules: Option<&RuledRequest>, to: &mut Explanation) {
        let mut variables = NamesAndValues::new();
        server_variables(&self.client, script, rules, &mut |name, value| {
            let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
            variables.push((text(name), text(value)));
        });
        to.lane = self.site.lane_name(self.site.lane(&self.client)).map(str::to_owned);
        to.outcome = ExplainedOutcome::Script {
            path: shown(script.path()),
            settings: rules.map(settings).unwrap_or_default(),
            variables,
        };
        to.head.fields.push(b"Content-Type", b"text/html; charset=UTF-8");
        to.head.status = rules.map_or(Status::OK, |rules| rules.state.status);
    }

    /// Adds to the head, and to the filters, what directives and the site's codings do to them.
    fn adjust(
        &mut self,
        about: ResponseProperties,
        ruled: Option<&mut Rc<RuledRequest>>,
        asked: &RequestedPart,
        to: &mut Explanation,
    ) {
        let is_script = matches!(to.outcome, ExplainedOutcome::Script { .. });
        let is_compressed = is_script || matches!(to.outcome, ExplainedOutcome::File(_));
        let Some(ruled) = ruled else {
            if is_compressed {
                let fields = &self.client.request().fields;
                let asked = Some(asked);
                let facts = codings::CodingFacts { fields, environment: None, asked };
                let filter = codings::explained(self.site, facts, &mut to.head, is_script);
                to.filters.extend(filter);
            }
            return;
        };
        let mut host = front_host(
            self.site,
            (&self.store, &self.passwords),
            (&self.compared, &self.pool_user),
        );
        let client = &self.client.within(&self.budgets[1]);
        let chosen = howdah_site::respond(
            self.site,
            client,
            ruled,
            &mut to.head,
            about,
            &mut host,
            &mut self.scratch,
        );
        match chosen {
            Ok(filters) => to.filters = filters,
            Err(status) => to.head = ResponseHead::new(status),
        }
        if is_compressed && to.filters.is_empty() {
            let edited = ruled.state.request_fields.as_ref();
            let fields = edited.unwrap_or(&self.client.request().fields);
            let facts = codings::CodingFacts {
                fields,
                environment: Some(&ruled.state.env),
                asked: Some(asked),
            };
            let filter = codings::explained(self.site, facts, &mut to.head, is_script);
            to.filters.extend(filter);
        }
    }

    /// Returns the request's fields as directives have left them.
    fn fields<'f>(&'f self, ruled: Option<&'f RuledRequest>) -> &'f Fields {
        let edited = ruled.and_then(|ruled| ruled.state.request_fields.as_ref());
        edited.unwrap_or(&self.client.request().fields)
    }

    /// Returns the head of a file before directives change it, and what is asked for of the file.
    fn file(
        &self,
        (path, file, variant): (&DocumentPath, FileHandle, NegotiatedForm),
        ruled: Option<&RuledRequest>,
    ) -> (ResponseHead, AskedOfFile) {
        let core = ruled.and_then(|ruled| ruled.settings.core.as_ref());
        let manner = AnswerForm {
            variant,
            is_error_page: ruled.is_some_and(|ruled| ruled.state.status != Status::OK),
            tag: core.map_or(EtagParts::DEFAULT, |core| core.etag_parts()),
        };
        let mut host = front_host(
            self.site,
            (&self.store, &self.passwords),
            (&self.compared, &self.pool_user),
        );
        let request = self.client.request();
        let answer = match host.store.answer_in_manner(request, path, file, manner) {
            Ok(answer) => answer,
            Err(none) => return (ResponseHead::new(none.status()), (RequestedPart::Whole, None)),
        };
        let mut head = answer.head();
        if let Some(ruled) = ruled {
            if manner.is_error_page {
                head.status = ruled.state.status;
            }
            set_content_type(&mut head, ruled);
        }
        let named = file::named_tag(&answer, &request.fields);
        match answer.asked {
            RequestedPart::Failed(failed) => (*failed, (RequestedPart::Whole, None)),
            asked => (head, (asked, named)),
        }
    }
}

/// The part of a file that is asked for, and the entity tag: see [`file::named_tag`].
type AskedOfFile = (RequestedPart, Option<Vec<u8>>);

/// Microseconds since 1970.
pub(super) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

fn shown(path: &DocumentPath) -> String {
    path.absolute().display().to_string()
}

fn settings(ruled: &RuledRequest) -> NamesAndValues {
    let values = ruled.settings.php.iter().flat_map(|php| &php.values);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    values.map(|(name, value)| (text(name), text(value))).collect()
}
