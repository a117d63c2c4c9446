//! `howdah explain`: the answer that a request would get, and the reason: every file, section,
//! directive and condition in the order in which they act. The request is resolved by the server's
//! code, against the same disk. Scripts are not run.

mod on_demand;
mod show;

use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use howdah_config::{Config, HostPattern, ListenAddress};
use howdah_files::{Answer, AnswerForm, DirectiveCache, Flaw, NegotiatedForm, Store, StoreLimits};
use howdah_htaccess::WorkBudget;
use howdah_htaccess::modules::auth::password;
use howdah_htaccess::modules::core::EtagParts;
use howdah_htaccess::modules::filter::Filter;
use howdah_htaccess::response::ResponseProperties;
use howdah_htaccess::trace::Event;
use howdah_http::h1::{self, HeadProgress};
use howdah_http::{Fields, Request, ResponseHead, Scheme, Status};
use howdah_site::{
    Client, DocumentPath, FileHandle, Resolution, Resolved, Ruled, Scratch, Site, Sites,
    server_variables,
};

use crate::front::use_media_types;
use crate::host::{ComparedPasswords, FrontHost, Passwords};
use crate::net::{Peer, forwarded};
use crate::respond::{codings, file, set_content_type};
use crate::tls;

pub(crate) use show::{json, text};

/// The request to explain.
#[derive(Debug)]
pub(crate) struct ExplainRequest {
    pub(crate) method: String,
    /// A whole URL, or its path.
    pub(crate) url: String,
    /// Lines of the request's head.
    pub(crate) fields: Vec<String>,
    /// The client's address.
    pub(crate) from: IpAddr,
}

/// The answer that a request would get, with every step that led to it.
#[derive(Debug)]
pub(crate) struct Explanation {
    pub(crate) request: Request,
    pub(crate) site: String,
    /// The document root.
    pub(crate) root: String,
    pub(crate) events: Vec<Event>,
    /// The variables that directives have set.
    pub(crate) set: Vec<String>,
    /// The lines for the error log.
    pub(crate) complaints: Vec<String>,
    pub(crate) outcome: ExplainedOutcome,
    /// The lane of the pool that the request waits in; `None` without lanes, and for other
    /// requests.
    pub(crate) lane: Option<String>,
    /// The head of the response, as far as the server makes it.
    pub(crate) head: ResponseHead,
    /// The filters that the content passes.
    pub(crate) filters: Vec<Filter>,
    /// The work that the directives took.
    pub(crate) work: ExplainedWork,
}

/// The work that directives took, in the steps of `htaccess_work`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExplainedWork {
    /// For the request.
    pub(crate) request: u64,
    /// For the response's head.
    pub(crate) response: u64,
    /// The limit of each.
    pub(crate) most: u64,
}

/// The source of the response's content.
#[derive(Debug)]
pub(crate) enum ExplainedOutcome {
    /// A file.
    File(String),
    /// The output of a script: its path, the variables that directives have set, and PHP's
    /// settings.
    Script {
        path: String,
        variables: NamesAndValues,
        settings: NamesAndValues,
    },
    /// A folder's list.
    Listing(String),
    /// The response of an upstream: the URL there.
    Proxy(String),
    /// An error, a redirect, or a text of the directives.
    Page,
}

/// Names and values.
pub(crate) type NamesAndValues = Vec<(String, String)>;

/// Explains the request for the sites of `config`.
pub(crate) fn explain(config: &Config, question: &ExplainRequest) -> Result<Explanation, String> {
    let sites = Sites::compile(config);
    let mut request = request(config, question)?;
    let peer = peer(config, question, &mut request)?;
    let host = String::from_utf8_lossy(request.host()).into_owned();
    let site = sites
        .find_anywhere(request.host())
        .ok_or_else(|| format!("no site answers for the host {host}: it would get 421"))?;
    let told = Arc::new(std::sync::Mutex::new(Vec::new()));
    if let Err(warning) = use_media_types(config) {
        told.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(warning);
    }
    let directives = {
        let told = Arc::clone(&told);
        let tell = move |_: &Site, flaw: &Flaw| {
            let mut told = told.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            told.push(flaw.to_string());
        };
        DirectiveCache::new(&sites, config.limits.htaccess_size, Box::new(tell))
    };
    let store = RefCell::new(Store::with_directives(StoreLimits::default(), Arc::new(directives)));
    let budget = || WorkBudget::new(config.limits.htaccess_work).with_jit(config.pcre_jit);
    let budgets = [budget(), budget()];
    let mut bench = ResolvingState {
        site,
        store,
        passwords: Passwords::start(password::fits, 1).map_err(|error| error.to_string())?,
        compared: ComparedPasswords::default(),
        scratch: Scratch::default(),
        client: peer.client(&request, now()),
        budgets: &budgets,
    };
    let mut explanation = bench.run();
    let flaws =
        std::mem::take(&mut *told.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
    explanation.complaints.splice(0..0, flaws);
    // The file and the failing request report the same mistake.
    explanation.complaints.dedup();
    if tls::may_redirect(site, &request) {
        explanation.complaints.push(TO_HTTPS.to_owned());
    }
    explanation.complaints.extend(on_demand::note(config, site, &host));
    Ok(explanation)
}

/// The note for a request over http to a site with a certificate.
const TO_HTTPS: &str = "over http the server redirects this request to https, as `redirect` of \
    [site.tls] says; ask for the URL with https://";

/// The state that resolving needs, as the server has it.
struct ResolvingState<'b> {
    site: &'b Site,
    store: RefCell<Store>,
    passwords: Passwords,
    compared: ComparedPasswords,
    scratch: Scratch,
    client: Client<'b>,
    /// For the request, and for the response.
    budgets: &'b [WorkBudget; 2],
}

impl ResolvingState<'_> {
    fn run(&mut self) -> Explanation {
        let Resolved { resolution, ruled } = self.resolve();
        let mut explanation = Explanation {
            request: self.client.request().clone(),
            site: self.site.name().to_owned(),
            root: String::from_utf8_lossy(&self.site.document_root(self.client.host()))
                .into_owned(),
            events: Vec::new(),
            set: Vec::new(),
            complaints: Vec::new(),
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
                let mut host = front_host(self.site, &self.store, &self.passwords, &self.compared);
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
        ruled: Option<&mut Rc<Ruled>>,
        to: &mut Explanation,
    ) {
        if let Some(about) = self.outcome(resolution, ruled.as_deref(), to) {
            self.adjust(about, ruled, to);
        }
    }

    /// Explains what is sent, before directives change its head. Returns what directives ask about
    /// it; `None` where they do not see it.
    fn outcome(
        &mut self,
        resolution: Resolution,
        ruled: Option<&Rc<Ruled>>,
        to: &mut Explanation,
    ) -> Option<ResponseProperties> {
        let rules = ruled.map(Rc::as_ref);
        let mut about = ResponseProperties::default();
        match resolution {
            Resolution::File { path, file } => {
                let (path, file, variant) = {
                    let fields = self.fields(rules);
                    let store =
                        &mut front_host(self.site, &self.store, &self.passwords, &self.compared)
                            .store;
                    codings::select(store, self.site, (path, file), fields)
                };
                to.outcome = ExplainedOutcome::File(shown(&path));
                to.head = self.file((&path, file, variant), rules);
                // The file of an error page is one that is there.
                let is_error_page = rules.is_some_and(|rules| rules.state.status != Status::OK);
                about.is_error = !is_error_page && file::is_error(to.head.status);
            }
            Resolution::Php(script) => {
                let mut variables = NamesAndValues::new();
                server_variables(&self.client, &script, rules, &mut |name, value| {
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
            Resolution::Proxy { upstream, target } => {
                let server = self.site.config().upstreams.get(upstream);
                let server = server.map(ToString::to_string).unwrap_or_default();
                to.outcome = ExplainedOutcome::Proxy(server + &String::from_utf8_lossy(&target));
            }
            Resolution::Listing { path } => {
                to.outcome = ExplainedOutcome::Listing(shown(&path));
                if let Some(ruled) = ruled {
                    let content_type = howdah_site::listing_type(self.site, &self.client, ruled);
                    to.head.fields.push(b"Content-Type", &content_type);
                }
            }
            Resolution::Redirect { status, location } => {
                to.head.status = status;
                to.head.fields.push(b"Location", &location);
                about.is_error = true;
            }
            Resolution::Allow { status, methods, path } => {
                to.head.status = status;
                to.head.fields.push(b"Allow", methods.as_bytes());
                if let Some(path) = path {
                    file::push_media_type(&mut to.head, &path, rules);
                }
                about.is_error = !status.is_success();
            }
            Resolution::Exhausted => {
                to.head.status = Status::INTERNAL_SERVER_ERROR;
                return None;
            }
            Resolution::Page { status, .. } | Resolution::Status(status) => {
                to.head.status = status;
                to.head.fields.push(b"Content-Type", b"text/html; charset=utf-8");
                about.is_error = true;
            }
            Resolution::Directory { .. }
            | Resolution::Verify { .. }
            | Resolution::Discard { .. } => {
                to.head.status = Status::FORBIDDEN;
                about.is_error = true;
            }
        }
        Some(about)
    }

    /// Adds to the head, and to the filters, what directives and the site's codings do to them.
    fn adjust(
        &mut self,
        about: ResponseProperties,
        ruled: Option<&mut Rc<Ruled>>,
        to: &mut Explanation,
    ) {
        let is_script = matches!(to.outcome, ExplainedOutcome::Script { .. });
        let is_compressed = is_script || matches!(to.outcome, ExplainedOutcome::File(_));
        let Some(ruled) = ruled else {
            if is_compressed {
                let fields = &self.client.request().fields;
                let facts = codings::CodingFacts { fields, environment: None };
                let filter = codings::explained(self.site, facts, &mut to.head, is_script);
                to.filters.extend(filter);
            }
            return;
        };
        let mut host = front_host(self.site, &self.store, &self.passwords, &self.compared);
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
            };
            let filter = codings::explained(self.site, facts, &mut to.head, is_script);
            to.filters.extend(filter);
        }
    }

    /// Returns the request's fields as directives have left them.
    fn fields<'f>(&'f self, ruled: Option<&'f Ruled>) -> &'f Fields {
        let edited = ruled.and_then(|ruled| ruled.state.request_fields.as_ref());
        edited.unwrap_or(&self.client.request().fields)
    }

    /// Returns the head of a file before directives change it.
    fn file(
        &self,
        (path, file, variant): (&DocumentPath, FileHandle, NegotiatedForm),
        ruled: Option<&Ruled>,
    ) -> ResponseHead {
        let core = ruled.and_then(|ruled| ruled.settings.core.as_ref());
        let manner = AnswerForm {
            variant,
            is_error_page: ruled.is_some_and(|ruled| ruled.state.status != Status::OK),
            tag: core.map_or(EtagParts::DEFAULT, |core| core.etag_parts()),
        };
        let mut host = front_host(self.site, &self.store, &self.passwords, &self.compared);
        let answer = host.store.answer_in_manner(self.client.request(), path, file, manner);
        let (document, tag) = match answer {
            Answer::Composed { head, .. } | Answer::Parts { head, .. } => return head,
            Answer::Status(status) => return ResponseHead::new(status),
            Answer::Whole { representation, .. } => (representation, None),
            Answer::Retagged { representation, tag, .. } => (representation, Some(tag)),
        };
        let mut head = document.head().head().clone();
        if let Some(tag) = tag {
            head.fields.remove(b"etag");
            tag.iter().for_each(|tag| head.fields.push(b"ETag", tag));
        }
        if let Some(ruled) = ruled {
            head.status = ruled.state.status;
            set_content_type(&mut head, ruled);
        }
        head
    }
}

fn front_host<'b>(
    site: &'b Site,
    store: &'b RefCell<Store>,
    passwords: &'b Passwords,
    compared: &'b ComparedPasswords,
) -> FrontHost<'b> {
    let mut store = store.borrow_mut();
    store.tick(now() / 1_000_000);
    FrontHost {
        store,
        passwords,
        site,
        compared,
        since: Instant::now(),
        pool: None,
    }
}

/// Returns the request, parsed as the server parses it.
fn request(config: &Config, question: &ExplainRequest) -> Result<Request, String> {
    let (scheme, url) = match question.url.strip_prefix("https://") {
        Some(rest) => (Scheme::Https, rest),
        None => (Scheme::Http, question.url.strip_prefix("http://").unwrap_or(&question.url)),
    };
    let (host, target) = match url.find(['/', '?']) {
        Some(0) if url.starts_with('/') => (usual_host(config), url.to_owned()),
        Some(at) if url[at..].starts_with('/') => (url[..at].to_owned(), url[at..].to_owned()),
        Some(at) => (url[..at].to_owned(), format!("/{}", &url[at..])),
        None => (url.to_owned(), "/".to_owned()),
    };
    let mut head = format!("{} {target} HTTP/1.1\r\n", question.method);
    if !question.fields.iter().any(|field| is_host(field)) {
        head.push_str(&format!("Host: {host}\r\n"));
    }
    for field in &question.fields {
        head.push_str(&format!("{field}\r\n"));
    }
    head.push_str("\r\n");
    let mut request = Request::new();
    request.scheme = scheme;
    match h1::parse_request(head.as_bytes(), &howdah_http::Limits::default(), &mut request) {
        Ok(HeadProgress::Complete(parsed)) if parsed.head_length == head.len() => Ok(request),
        Ok(_) => {
            Err("the request does not end where it should; is there a line break in it?".to_owned())
        }
        Err(refusal) => {
            Err(format!("it would be refused with {}: {}", refusal.status, refusal.why))
        }
    }
}

fn is_host(field: &str) -> bool {
    field.split(':').next().is_some_and(|name| name.eq_ignore_ascii_case("host"))
}

/// Returns a host name of the first site.
fn usual_host(config: &Config) -> String {
    let hosts = config.sites.iter().flat_map(|site| &site.hosts);
    let mut exact = hosts.filter_map(|host| match host {
        HostPattern::Exact(name) => Some(name.clone()),
        HostPattern::Wildcard(_) | HostPattern::Default => None,
    });
    exact.next().unwrap_or_else(|| "localhost".to_owned())
}

/// Returns the sender of the request, who is on the first listener. A trusted proxy may name
/// another client in the request's fields.
fn peer(config: &Config, question: &ExplainRequest, request: &mut Request) -> Result<Peer, String> {
    let local = config.listen.iter().find_map(|listener| match &listener.address {
        ListenAddress::Tcp(address) => Some(*address),
        ListenAddress::Unix(_) => None,
    });
    let local = local.unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 80)));
    let mut peer = Peer::new(SocketAddr::new(question.from, 50_000), local);
    peer.scheme = request.scheme;
    let trusted = config
        .listen
        .first()
        .map_or(&config.trusted_proxies, |own| config.trusted_on(own));
    if trusted.trusts(Some(question.from)) {
        peer = forwarded::sender(&peer, request, config)
            .map_err(|refusal| format!("refused with {}: {}", refusal.status, refusal.why))?;
    }
    Ok(peer)
}

/// Microseconds since 1970.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

fn shown(path: &DocumentPath) -> String {
    path.absolute().display().to_string()
}

fn settings(ruled: &Ruled) -> NamesAndValues {
    let values = ruled.settings.php.iter().flat_map(|php| &php.values);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    values.map(|(name, value)| (text(name), text(value))).collect()
}

#[cfg(test)]
mod tests;
