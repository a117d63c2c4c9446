//! The answers of the admin listener and of the control socket.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use howdah_http::h1::{Framing, HopFields, encode_head};
use howdah_http::{Method, Request, ResponseHead, Status, date};

use super::Admin;
use crate::front::{FrontShared, ReasonTopic};
use crate::status::metrics::{MetricsFormat, metrics};

/// An answer, after which the connection is closed.
#[derive(Debug)]
pub(crate) struct AdminAnswer {
    status: Status,
    content_type: &'static str,
    content: String,
    /// The methods that a 405, and the answer to OPTIONS, name.
    allow: &'static str,
}

const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";
/// Time for a text, as those of hundreds of sites take, from which on it is told again.
const LONG: Duration = Duration::from_millis(5);
const PAGE: &str = include_str!("page.html");
/// The methods of what is only read, on the control socket.
pub(crate) const READING: &str = "GET, HEAD";
/// The methods of the admin listener.
const METHODS: &str = "GET, HEAD, OPTIONS";
/// The page runs its own script and asks this server, and nothing else.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; \
                      connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";

impl AdminAnswer {
    fn new(content_type: &'static str, content: String) -> AdminAnswer {
        AdminAnswer {
            status: Status::OK,
            content_type,
            content,
            allow: METHODS,
        }
    }

    /// A line of text with a status. `allow` are the methods that a 405 names.
    pub(crate) fn line(status: Status, text: &str, allow: &'static str) -> AdminAnswer {
        let answer = AdminAnswer::new(TEXT, format!("{text}\n"));
        AdminAnswer { status, allow, ..answer }
    }

    /// An answer that names its status.
    pub(super) fn error(status: Status) -> AdminAnswer {
        let text = format!("{} {}", status.code(), status.reason());
        AdminAnswer::line(status, &text, METHODS)
    }

    /// Encodes the response to `request`. The only encoder of what the server tells its operator.
    pub(crate) fn encode(&self, request: &Request) -> Vec<u8> {
        let mut head = ResponseHead::new(self.status);
        for (name, value) in [
            ("Content-Type", self.content_type),
            ("Cache-Control", "no-store"),
            ("X-Content-Type-Options", "nosniff"),
            ("Content-Security-Policy", POLICY),
        ] {
            head.fields.push(name.as_bytes(), value.as_bytes());
        }
        if self.status == Status::METHOD_NOT_ALLOWED || request.method == Method::Options {
            head.fields.push(b"Allow", self.allow.as_bytes());
        }
        let length = Some(self.content.len() as u64);
        let framing = Framing::of(&request.method, request.version, self.status, length);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let hop = HopFields {
            version: request.version,
            is_persistent: false,
            date: &date::format(now.as_secs()),
            alternative: None,
        };
        let mut out = Vec::new();
        encode_head(&mut out, &head, framing, &hop);
        if framing.has_content() {
            out.extend_from_slice(self.content.as_bytes());
        }
        out
    }
}

/// Answers a request whose method and origin were checked.
pub(super) fn of(admin: &Admin, request: &Request) -> AdminAnswer {
    match request.path() {
        b"/" => AdminAnswer::new("text/html; charset=utf-8", PAGE.to_owned()),
        b"/metrics" => {
            let format = MetricsFormat::of_accept(request.fields.value(b"accept"));
            let kind = format.content_type();
            let text = recent(admin, kind, || Some(metrics(&admin.snapshot(), format)));
            AdminAnswer::new(kind, text.unwrap_or_default())
        }
        b"/status" => {
            let json = || serde_json::to_string(&admin.snapshot()).ok().map(|json| json + "\n");
            match recent(admin, JSON, json) {
                Some(json) => AdminAnswer::new(JSON, json),
                None => AdminAnswer::error(Status::INTERNAL_SERVER_ERROR),
            }
        }
        // `OPTIONS *`: the server as a whole (RFC 9110, section 9.3.7).
        b"/healthz" | b"*" => AdminAnswer::new(TEXT, "ok\n".to_owned()),
        b"/readyz" => ready(admin, request),
        _ => AdminAnswer::error(Status::NOT_FOUND),
    }
}

/// Returns the text of that kind, which `make` makes. One that has taken long is told again for as
/// long as it took: many clients that ask for it leave half of the time to others.
fn recent(
    admin: &Admin,
    kind: &'static str,
    make: impl FnOnce() -> Option<String>,
) -> Option<String> {
    let mut recent = admin.recent.borrow_mut();
    let begun = Instant::now();
    recent.retain(|_, (until, _)| *until > begun);
    if let Some((_, text)) = recent.get(kind) {
        return Some(text.clone());
    }
    let text = make()?;
    let took = begun.elapsed();
    if took >= LONG {
        recent.insert(kind, (begun + 2 * took, text.clone()));
    }
    Some(text)
}

/// 200 if visitors get answers, with a line for each site that has a fault: one site must not take
/// the machine away from the others. 503 while the server starts or stops, while an address cannot
/// be listened on, or while no site is ready. With `site=NAME` the site's fault is a 503, too.
fn ready(admin: &Admin, request: &Request) -> AdminAnswer {
    let shared = &admin.shared;
    let mut obstacles = Vec::new();
    if !admin.has_started() {
        obstacles.push("the server is starting".to_owned());
    }
    if admin.is_draining() {
        obstacles.push("the server is stopping".to_owned());
    }
    let missing = &shared.facts.missing_listeners;
    let (of_owners, others): (Vec<_>, Vec<_>) =
        missing.iter().partition(|missing| missing.is_of_owner);
    obstacles.extend(others.iter().map(|missing| missing.reason.clone()));
    let faults: Vec<Option<String>> =
        (0..shared.config.sites.len()).map(|site| fault(shared, site)).collect();
    let wanted = request.query().and_then(site_in);
    let mut lines = Vec::new();
    match &wanted {
        Some(name) => {
            let Some(site) = shared.config.sites.iter().position(|site| site.name == *name) else {
                return AdminAnswer {
                    content: format!("there is no site {name}\n"),
                    ..AdminAnswer::error(Status::NOT_FOUND)
                };
            };
            obstacles.extend(faults[site].clone());
        }
        None if faults.iter().all(Option::is_some) => {
            obstacles.extend(faults.into_iter().flatten());
        }
        None => lines.extend(faults.into_iter().flatten()),
    }
    lines.extend(of_owners.iter().map(|missing| missing.reason.clone()));
    let status = if obstacles.is_empty() {
        Status::OK
    } else {
        Status::SERVICE_UNAVAILABLE
    };
    if obstacles.is_empty() {
        obstacles.push("ready".to_owned());
    }
    let sites = shared.config.sites.iter().enumerate();
    let named = sites.filter(|(_, site)| wanted.as_ref().is_none_or(|name| *name == site.name));
    for (number, site) in named {
        // Visitors get answers: those of the former release, with the former certificate.
        for topic in [ReasonTopic::HeldRelease, ReasonTopic::KeptFiles] {
            let why = shared.reasons.of(topic, number);
            lines.extend(why.map(|why| format!("site {}: {why}", site.name)));
        }
    }
    obstacles.append(&mut lines);
    AdminAnswer {
        content: obstacles.join("\n") + "\n",
        ..AdminAnswer::error(status)
    }
}

/// The reason why visitors of a site do not get answers; `None` if they do.
fn fault(shared: &FrontShared, site: usize) -> Option<String> {
    let name = &shared.config.sites.get(site)?.name;
    let has_worker = shared.pools.get(site)?.as_ref().is_none_or(|pool| pool.is_ready());
    if !has_worker {
        let why = shared.reasons.of(ReasonTopic::StartFailure, site);
        let why = why.unwrap_or_else(|| "it has no worker".to_owned());
        return Some(format!("site {name} is not ready: {why}"));
    }
    if let Some(why) = shared.reasons.of(ReasonTopic::MissingRoot, site) {
        return Some(format!("site {name} is not ready: {why}"));
    }
    let why = shared.tls.as_ref()?.closed(site)?;
    Some(format!("site {name} has no https: {why}"))
}

/// The value of `site` in a query. Names of sites are plain: nothing in them is encoded.
fn site_in(query: &[u8]) -> Option<String> {
    let mut parameters = query.split(|&byte| byte == b'&');
    let value = parameters.find_map(|parameter| parameter.strip_prefix(b"site="))?;
    Some(String::from_utf8_lossy(value).into_owned())
}
