//! A browser: keeps cookies, follows redirects, sends forms and uploads, and reports all details of
//! an unexpected page.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Mutex;
use std::time::Duration;

use serde_json::Value;
use ureq::{Agent, http};
use url::Url;

use crate::html::{self, Form};
use crate::server::Server;

/// One visitor of one server.
pub(crate) struct Browser<'s> {
    pub(crate) server: &'s Server,
    agent: Agent,
    /// The assets that it has in its cache.
    pub(crate) loaded: Mutex<BTreeSet<Url>>,
}

/// A request that is being put together.
pub(crate) struct Ask {
    method: &'static str,
    url: Url,
    fields: Vec<(String, String)>,
    body: Vec<u8>,
}

/// A file that goes along with a form.
pub(crate) struct Attachment<'a> {
    /// The name of the form's field.
    pub(crate) field: &'a str,
    pub(crate) name: &'a str,
    pub(crate) media_type: &'a str,
    pub(crate) content: &'a [u8],
}

/// A response, with the details that a failing test prints.
pub(crate) struct Page<'s> {
    server: &'s Server,
    pub(crate) url: Url,
    request: String,
    pub(crate) status: u16,
    fields: http::HeaderMap,
    pub(crate) body: Vec<u8>,
    /// The requests and statuses that led here by redirects.
    way: Vec<String>,
}

impl<'s> Browser<'s> {
    /// Without any cookies yet.
    pub(crate) fn new(server: &'s Server) -> Browser<'s> {
        let configuration = Agent::config_builder()
            .max_redirects(0)
            .max_redirects_will_error(false)
            .http_status_as_error(false)
            .timeout_global(Some(PATIENCE))
            .user_agent("Mozilla/5.0 (a test of Howdah)");
        Browser {
            server,
            agent: configuration.build().into(),
            loaded: Mutex::default(),
        }
    }

    /// The page that `path` leads to, redirects followed.
    pub(crate) fn visit(&self, path: &str) -> Page<'s> {
        self.follow(self.ask("GET", path))
    }

    /// Sends `form` of `page` with `values` filled in, and follows redirects.
    pub(crate) fn send_form(&self, page: &Page, form: Form, values: &[(&str, &str)]) -> Page<'s> {
        let mut fields = form.fields;
        for &(name, value) in values {
            fields.retain(|(known, _)| known != name);
            fields.push((name.to_owned(), value.to_owned()));
        }
        let body = url::form_urlencoded::Serializer::new(String::new())
            .extend_pairs(fields)
            .finish();
        let target = page.url.join(&form.action).unwrap();
        let ask = self
            .ask("POST", target.as_str())
            .field("Content-Type", "application/x-www-form-urlencoded")
            .field("Origin", &self.server.url(""))
            .field("Referer", page.url.as_str())
            .body(body);
        self.follow(ask)
    }

    /// Sends a form like [`Browser::send_form`], with a file.
    pub(crate) fn send_file(
        &self,
        page: &Page,
        form: Form,
        values: &[(&str, &str)],
        file: &Attachment,
    ) -> Page<'s> {
        let untouched = form.fields.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let untouched = untouched.filter(|(name, _)| values.iter().all(|(known, _)| known != name));
        let fields: Vec<_> = untouched.chain(values.iter().copied()).collect();
        let target = page.url.join(&form.action).unwrap();
        let Attachment { field, name, media_type, content } = file;
        let ask = self.ask("POST", target.as_str()).field("Referer", page.url.as_str());
        self.follow(ask.upload(&fields, field, name, media_type, content))
    }

    /// A request for `target`, a path or a whole URL.
    pub(crate) fn ask(&self, method: &'static str, target: &str) -> Ask {
        let base = Url::parse(&self.server.url("/")).unwrap();
        Ask {
            method,
            url: base.join(target).unwrap(),
            fields: Vec::new(),
            body: Vec::new(),
        }
    }

    /// The response to `ask` itself, also where it is a redirect.
    pub(crate) fn send(&self, ask: Ask) -> Page<'s> {
        let mut request = http::Request::builder().method(ask.method).uri(ask.url.as_str());
        let mut told = format!("{} {}\n", ask.method, ask.url);
        for (name, value) in &ask.fields {
            request = request.header(name, value);
            writeln!(told, "{name}: {value}").unwrap();
        }
        write!(told, "\n{}", excerpt(&ask.body)).unwrap();
        let answer = match ask.method {
            "GET" | "HEAD" | "DELETE" | "OPTIONS" => self.agent.run(request.body(()).unwrap()),
            _ => self.agent.run(request.body(ask.body).unwrap()),
        };
        let fail = |error: ureq::Error| -> ! {
            panic!("no response: {error}\n--- request\n{told}\n{}", self.server.description())
        };
        let mut answer = answer.unwrap_or_else(|error| fail(error));
        let body = answer.body_mut().with_config().limit(LARGEST_BODY).read_to_vec();
        Page {
            server: self.server,
            url: ask.url,
            status: answer.status().as_u16(),
            fields: answer.headers().clone(),
            body: body.unwrap_or_else(|error| fail(error)),
            request: told,
            way: Vec::new(),
        }
    }

    fn follow(&self, ask: Ask) -> Page<'s> {
        let mut page = self.send(ask);
        let mut way = Vec::new();
        while let Some(location) = page.redirect() {
            way.push(format!(
                "{} {} ->",
                page.request.lines().next().unwrap_or_default(),
                page.status
            ));
            if way.len() > MOST_REDIRECTS {
                page.way = way;
                page.fail("too many redirects");
            }
            page =
                self.send(self.ask("GET", location.as_str()).field("Referer", page.url.as_str()));
        }
        page.way = way;
        page
    }
}

impl Ask {
    pub(crate) fn field(mut self, name: &str, value: &str) -> Ask {
        self.fields.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn body(mut self, body: impl Into<Vec<u8>>) -> Ask {
        self.body = body.into();
        self
    }

    /// A form with `values` and one file.
    pub(crate) fn upload(
        self,
        values: &[(&str, &str)],
        field: &str,
        name: &str,
        media_type: &str,
        file: &[u8],
    ) -> Ask {
        let mut body = String::new();
        for (name, value) in values {
            write!(
                body,
                "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n"
            )
            .unwrap();
        }
        write!(
            body,
            "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{field}\"; \
             filename=\"{name}\"\r\n\
             Content-Type: {media_type}\r\n\r\n"
        )
        .unwrap();
        let mut body = body.into_bytes();
        body.extend_from_slice(file);
        body.extend_from_slice(format!("\r\n--{BOUNDARY}--\r\n").as_bytes());
        self.field("Content-Type", &format!("multipart/form-data; boundary={BOUNDARY}"))
            .body(body)
    }
}

impl Page<'_> {
    /// The response must have this status.
    pub(crate) fn is(&self, status: u16) -> &Self {
        self.must(self.status == status, || format!("the status is not {status}"))
    }

    /// The body must contain `text`.
    pub(crate) fn contains(&self, text: &str) -> &Self {
        self.must(self.text().contains(text), || format!("{text:?} is not in the body"))
    }

    /// The body must not contain `text`.
    pub(crate) fn lacks(&self, text: &str) -> &Self {
        self.must(!self.text().contains(text), || format!("{text:?} is in the body"))
    }

    /// `true` or a failed test.
    pub(crate) fn must(&self, holds: bool, why: impl FnOnce() -> String) -> &Self {
        if !holds {
            self.fail(&why());
        }
        self
    }

    /// Fails the test, and prints all details.
    pub(crate) fn fail(&self, why: &str) -> ! {
        let mut told = format!("{why}\n--- request\n");
        for step in &self.way {
            writeln!(told, "{step}").unwrap();
        }
        writeln!(told, "{}\n--- response\n{}", self.request, self.status).unwrap();
        for (name, value) in &self.fields {
            writeln!(told, "{name}: {}", String::from_utf8_lossy(value.as_bytes())).unwrap();
        }
        panic!("{told}\n{}\n{}", excerpt(&self.body), self.server.description())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| self.fail(&format!("not JSON: {error}")))
    }

    /// A field's value, or nothing.
    pub(crate) fn field(&self, name: &str) -> &str {
        self.fields.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// The values of all fields of this name.
    pub(crate) fn fields(&self, name: &str) -> Vec<String> {
        let values = self.fields.get_all(name).iter();
        values
            .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
            .collect()
    }

    /// The names of its fields, in small letters.
    pub(crate) fn field_names(&self) -> Vec<String> {
        self.fields.keys().map(|name| name.as_str().to_owned()).collect()
    }

    /// The content type without its parameters.
    pub(crate) fn media_type(&self) -> &str {
        self.field("content-type").split(';').next().unwrap_or_default().trim()
    }

    /// The form that has a field `field`.
    pub(crate) fn form_with(&self, field: &str) -> Form {
        let mut forms = html::forms(&self.text()).into_iter();
        let found = forms.find(|form| form.fields.iter().any(|(name, _)| name == field));
        found.unwrap_or_else(|| self.fail(&format!("there is no form with a field {field:?}")))
    }

    /// The form that is sent to a URL which contains `action`.
    pub(crate) fn form_to(&self, action: &str) -> Form {
        let mut forms = html::forms(&self.text()).into_iter();
        let found = forms.find(|form| form.action.contains(action));
        found.unwrap_or_else(|| self.fail(&format!("there is no form to {action:?}")))
    }

    /// Where the picture with this alternative text comes from.
    pub(crate) fn picture(&self, alternative: &str) -> String {
        let text = self.text();
        let mut tags = html::tags(&text).into_iter();
        let found = tags.find(|tag| tag.name == "img" && tag.attribute("alt") == Some(alternative));
        let source = found.and_then(|tag| tag.attribute("src").map(str::to_owned));
        source.unwrap_or_else(|| self.fail(&format!("there is no picture of {alternative:?}")))
    }

    /// Returns the text between `before` and `after` in the body.
    pub(crate) fn between(&self, before: &str, after: &str) -> String {
        let text = self.text();
        let found = text.split_once(before).and_then(|(_, rest)| rest.split_once(after));
        found.map_or_else(
            || self.fail(&format!("nothing between {before:?} and {after:?}")),
            |(found, _)| found.to_owned(),
        )
    }

    fn redirect(&self) -> Option<Url> {
        let location = matches!(self.status, 301..=303).then(|| self.field("location"))?;
        self.url.join(location).ok()
    }
}

const PATIENCE: Duration = Duration::from_secs(120);
const MOST_REDIRECTS: usize = 5;
const LARGEST_BODY: u64 = 64 << 20;
const BOUNDARY: &str = "----a-boundary-that-no-file-contains";

/// Enough of a body to see what it is.
fn excerpt(body: &[u8]) -> String {
    const ENOUGH: usize = 3000;
    let start = String::from_utf8_lossy(&body[..body.len().min(ENOUGH)]).into_owned();
    match body.len().checked_sub(ENOUGH) {
        Some(more) if more > 0 => format!("{start}\n… and {more} bytes more\n"),
        _ => start,
    }
}
