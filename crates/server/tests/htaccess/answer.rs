//! A response in a form that can be compared between two servers and recorded: lines, without
//! values that must differ (ports, folders, times) and without self-evident ones.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read};

use serde_json::{Map, Value};

use crate::case::Request;
use crate::client::{Response, text};
use crate::dates;

/// A server's answer. The first line is the status. No line is empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer(pub Vec<String>);

/// The server that answered.
#[derive(Debug, Clone)]
pub struct Place {
    pub host: String,
    pub port: u16,
    /// The document root.
    pub root: String,
}

/// Response fields that differ by nature, or that only say how the connection goes on.
const UNSAID_FIELDS: &[&str] = &[
    "date",
    "server",
    "connection",
    "keep-alive",
    "content-length",
    "transfer-encoding",
    "x-powered-by",
];

/// Variables that differ by nature: what the server is called, how it is run, when and from which
/// port was asked.
const UNSAID_VARIABLES: &[&str] = &[
    "PATH",
    "SERVER_SOFTWARE",
    "SERVER_SIGNATURE",
    "SERVER_ADMIN",
    "REMOTE_PORT",
    "REQUEST_TIME",
    "REQUEST_TIME_FLOAT",
    "REMOTE_HOST", // looked up once for a connection, which may have been before
    "UNIQUE_ID",
    "HOWDAH_WORKER_REQUESTS",
    "HOWDAH_POOL",
    "PHP_SELF", // SCRIPT_NAME and PATH_INFO, which are there
];

impl Answer {
    /// Returns the answer of a server, or a note that there was none.
    pub fn new(place: &Place, request: &Request, response: io::Result<Response>) -> Answer {
        match response {
            Ok(response) => Reader { place, request }.answer(response),
            Err(error) => Answer(vec![format!("no answer: {error}")]),
        }
    }

    /// The lines of this one that the other lacks.
    pub fn without(&self, other: &Answer) -> Vec<String> {
        self.0.iter().filter(|line| !other.0.contains(line)).cloned().collect()
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|line| writeln!(f, "  {line}"))
    }
}

struct Reader<'a> {
    place: &'a Place,
    request: &'a Request,
}

impl Reader<'_> {
    fn answer(&self, mut response: Response) -> Answer {
        let mut lines = vec![response.status.to_string()];
        if let Err(error) = decode(&mut response) {
            lines.push(format!("body cannot be decoded: {error}"));
        }
        let body = self.without_boundary(&mut response);
        let is_default = is_default_page(&body);
        self.fields(&response, is_default, &mut lines);
        match said_by_php(&body) {
            Some((before, said, after)) => {
                self.script(&said, &mut lines);
                let around = [("before", before), ("after", after)];
                let around = around.into_iter().filter(|(_, text)| !text.is_empty());
                lines.extend(
                    around.map(|(place, text)| {
                        format!("{place} it: {}", shortened(&self.tidy(text)))
                    }),
                );
            }
            None if is_default => lines.push("body: default page".to_owned()),
            None if response.body.is_empty() => {}
            None => lines.push(format!("body: {}", shortened(&self.tidy(&self.listing(body))))),
        }
        Answer(lines)
    }

    /// The body, and fields, in which a boundary between ranges has a fixed name.
    fn without_boundary(&self, response: &mut Response) -> String {
        let body = text(&response.body);
        let is_type = |(name, _): &&mut (String, String)| name == "content-type";
        let Some((_, value)) = response.fields.iter_mut().find(is_type) else {
            return body;
        };
        match value.split_once("boundary=") {
            Some((before, boundary)) if before.starts_with("multipart/byteranges") => {
                // Names of fields have no case.
                let body = body
                    .replace(boundary, "{boundary}")
                    .replace("Content-type:", "Content-Type:")
                    .replace("Content-range:", "Content-Range:");
                *value = format!("{before}boundary={{boundary}}");
                body
            }
            _ => body,
        }
    }

    fn fields(&self, response: &Response, is_default: bool, lines: &mut Vec<String>) {
        let date = response.field("date").and_then(dates::parse);
        // A default page cannot be recognised by its body in the response to HEAD.
        let is_default = is_default || self.request.method == "HEAD" && response.status >= 300;
        let mut fields: Vec<(String, String)> = Vec::new();
        for (name, value) in &response.fields {
            let of_default_page =
                is_default && matches!(&**name, "content-type" | "content-language");
            let of_no_content = response.status == 304 && name == "accept-ranges";
            if UNSAID_FIELDS.contains(&name.as_str()) || of_default_page || of_no_content {
                continue;
            }
            let value = self.field_value(name, value, date);
            fields.push((name.clone(), value));
        }
        fields.sort_by(|one, other| one.0.cmp(&other.0)); // Stable: the order within a name counts.
        let usual =
            [("accept-ranges", "bytes"), ("etag", "{etag}"), ("last-modified", "{modified}")];
        let is = |(name, value): (&str, &str)| {
            fields.iter().any(|field| field.0 == name && field.1 == value)
        };
        if usual.into_iter().all(is) {
            lines.push("as a file".to_owned());
            fields.retain(|(name, value)| !usual.contains(&(name.as_str(), value.as_str())));
        }
        lines.extend(fields.iter().map(|(name, value)| format!("{name}: {value}")));
    }

    fn field_value(&self, name: &str, value: &str, date: Option<i64>) -> String {
        let value = self.tidy(value);
        let value = dates::relative(&value, date);
        match name {
            "location" | "content-location" => {
                let path =
                    value.strip_prefix("http://{host}").or(value.strip_prefix("http://{name}"));
                path.map_or(value.clone(), str::to_owned)
            }
            "etag" => etag(&value),
            "vary" | "allow" => {
                let mut names: Vec<_> =
                    value.split(',').map(|name| name.trim().to_ascii_lowercase()).collect();
                names.sort();
                names.join(", ")
            }
            "cache-control" => dates::age_from_modified(&value, date),
            _ => value,
        }
    }

    /// Adds the data that PHP saw.
    fn script(&self, said: &Map<String, Value>, lines: &mut Vec<String>) {
        let script = said.get("php").and_then(Value::as_str).unwrap_or_default();
        let script = self.tidy(script);
        lines.push(format!("php: {}", script.strip_prefix("{root}").unwrap_or(&script)));
        let mut variables = self.map(said.get("server"));
        variables.retain(|name, _| !UNSAID_VARIABLES.contains(&name.as_str()));
        self.against(&self.usual_variables(&script), variables, "$", lines);
        let headers = self.map(said.get("headers"));
        let headers: BTreeMap<_, _> = headers
            .into_iter()
            .map(|(name, value)| (name.to_ascii_lowercase(), value))
            .collect();
        self.against(&self.usual_headers(), headers, "getallheaders ", lines);
        for (table, prefix) in [("ini", "ini "), ("getenv", "getenv ")] {
            let values = self.map(said.get(table));
            lines.extend(values.iter().map(|(name, value)| format!("{prefix}{name}={value}")));
        }
        let input = said.get("input").and_then(Value::as_str).unwrap_or_default();
        if input != self.request.body {
            lines.push(format!("php://input={input}"));
        }
    }

    fn map(&self, values: Option<&Value>) -> BTreeMap<String, String> {
        let values = values.and_then(Value::as_object).into_iter().flatten();
        let one = |(name, value): (&String, &Value)| {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            (name.clone(), self.tidy(&value))
        };
        values.map(one).collect()
    }

    /// Notes what is not as usual.
    fn against(
        &self,
        usual: &BTreeMap<String, String>,
        found: BTreeMap<String, String>,
        prefix: &str,
        lines: &mut Vec<String>,
    ) {
        for name in usual.keys().filter(|name| !found.contains_key(*name)) {
            lines.push(format!("{prefix}{name} is missing"));
        }
        for (name, value) in found {
            if usual.get(&name) != Some(&value) {
                lines.push(format!("{prefix}{name}={value}"));
            }
        }
    }

    fn usual_headers(&self) -> BTreeMap<String, String> {
        let request = self.request;
        let mut headers = BTreeMap::from([("host".to_owned(), "{host}".to_owned())]);
        let sent = request.fields.iter().filter(|(_, value)| !value.starts_with("digest "));
        headers.extend(sent.map(|(name, value)| (name.to_ascii_lowercase(), value.clone())));
        if !request.body.is_empty() || matches!(&*request.method, "POST" | "PUT") {
            headers.insert("content-length".to_owned(), request.body.len().to_string());
        }
        headers
    }

    fn usual_variables(&self, script: &str) -> BTreeMap<String, String> {
        let request = self.request;
        let (_, query) = request.target.split_once('?').unwrap_or_default();
        let mut variables: BTreeMap<String, String> = [
            ("CONTEXT_DOCUMENT_ROOT", "{root}"),
            ("CONTEXT_PREFIX", ""),
            ("DOCUMENT_ROOT", "{root}"),
            ("GATEWAY_INTERFACE", "CGI/1.1"),
            ("QUERY_STRING", query),
            ("REMOTE_ADDR", "127.0.0.1"),
            ("REQUEST_METHOD", &request.method),
            ("REQUEST_SCHEME", "http"),
            ("REQUEST_URI", &request.target),
            ("SCRIPT_FILENAME", script),
            ("SCRIPT_NAME", script.strip_prefix("{root}").unwrap_or(script)),
            ("SERVER_ADDR", "127.0.0.1"),
            ("SERVER_NAME", "{name}"),
            ("SERVER_PORT", "{port}"),
            ("SERVER_PROTOCOL", &request.version),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
        // Apache tells scripts only the user and the password.
        let hidden = |name: &str| matches!(name, "authorization" | "proxy-authorization");
        for (name, value) in self.usual_headers().into_iter().filter(|(name, _)| !hidden(name)) {
            let name = name.to_ascii_uppercase().replace('-', "_");
            let prefix = if name.starts_with("CONTENT_") { "" } else { "HTTP_" };
            variables.insert(format!("{prefix}{name}"), value);
        }
        variables
    }

    /// Returns the text without the parts that differ between the two servers.
    fn tidy(&self, text: &str) -> String {
        let Place { host, port, root } = self.place;
        let port = port.to_string();
        let label = host.split('.').next().unwrap_or(host);
        let forest = root.strip_suffix(&format!("/sites/{host}")).unwrap_or(root);
        let text = ["nonce=\"", "response=\"", "rspauth=\""]
            .iter()
            .fold(text.to_owned(), quoted_replaced);
        let text = text
            .replace(&format!("{host}:{port}"), "{host}")
            .replace(root, "{root}")
            .replace(forest, "{forest}")
            .replace(host, "{name}")
            .replace(label, "{label}");
        number_replaced(&text, &port, "{port}")
    }

    /// A folder's listing, as a list: what is linked, and what is said, without the ornaments.
    fn listing(&self, body: String) -> String {
        if !body.contains("<title>Index of ") {
            return body;
        }
        let mut text = String::from("listing ");
        let mut rest = body.as_str();
        while let Some((before, tag)) = rest.split_once('<') {
            let (tag, after) = tag.split_once('>').unwrap_or((tag, ""));
            text.push_str(before);
            text.push(' ');
            if let Some((_, link)) = tag.split_once("href=\"") {
                text.push_str(&format!("[{}] ", link.split('"').next().unwrap_or_default()));
            }
            rest = after;
        }
        text.push_str(rest);
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }
}

/// A script's output, and the text before and behind it.
fn said_by_php(body: &str) -> Option<(&str, Map<String, Value>, &str)> {
    let (before, from) = body.split_at(body.find("{\"php\":")?);
    let mut values = serde_json::Deserializer::from_str(from).into_iter();
    let said = values.next()?.ok()?;
    Some((before, said, &from[values.byte_offset()..]))
}

/// A number replaced where it is not a part of a longer one.
fn number_replaced(text: &str, number: &str, by: &str) -> String {
    let mut result = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(number) {
        let is_digit = |letter: Option<char>| letter.is_some_and(|letter| letter.is_ascii_digit());
        let is_whole = !is_digit(before.chars().next_back()) && !is_digit(after.chars().next());
        result.push_str(before);
        result.push_str(if is_whole { by } else { number });
        rest = after;
    }
    result + rest
}

/// A server's own page for a status. The document type of Apache's pages has changed once.
fn is_default_page(body: &str) -> bool {
    const HEADS: [&str; 3] = [
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>",
        "<!DOCTYPE HTML PUBLIC \"-//IETF//DTD HTML 2.0//EN\">\n<html><head>\n<title>",
        "<!DOCTYPE HTML PUBLIC \"-//W3C//DTD HTML 4.01//EN\" \
         \"http://www.w3.org/TR/html4/strict.dtd\">\n<html><head>\n<title>",
    ];
    let is_status =
        |page: &str| page.len() > 3 && page.bytes().take(3).all(|byte| byte.is_ascii_digit());
    HEADS.iter().any(|head| body.strip_prefix(head).is_some_and(is_status))
}

/// An entity tag says only whether it is weak, and which filter has changed it.
fn etag(value: &str) -> String {
    let suffix = ["-gzip", "-br"]
        .into_iter()
        .find(|suffix| value.trim_end_matches('"').ends_with(suffix));
    let weak = if value.starts_with("W/") { "W/" } else { "" };
    format!("{weak}{{etag}}{}", suffix.unwrap_or_default())
}

/// The quoted value behind `prefix`, which is another each time (Digest), replaced by dots.
fn quoted_replaced(text: String, prefix: &&str) -> String {
    match text.split_once(prefix) {
        Some((before, after)) => {
            let (_, rest) = after.split_once('"').unwrap_or_default();
            format!("{before}{prefix}…\"{rest}")
        }
        None => text,
    }
}

/// On one line, and no longer than can be read; what is longer is told apart by its length and a
/// sum.
fn shortened(body: &str) -> String {
    const ROOM: usize = 600;
    let line = body.replace('\\', "\\\\").replace('\n', "\\n").replace('\r', "\\r");
    if line.len() <= ROOM {
        return line;
    }
    let sum = line
        .bytes()
        .fold(0u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    let start: String = line.chars().take(ROOM / 2).collect();
    format!("{start}… ({} bytes, sum {sum:08x})", body.len())
}

/// Undoes the Content-Encoding, if that is one of a filter's.
fn decode(response: &mut Response) -> io::Result<()> {
    let mut decoded = Vec::new();
    if response.body.is_empty() {
        return Ok(());
    }
    match response.field("content-encoding") {
        Some("gzip" | "x-gzip") if response.body.starts_with(&[0x1f, 0x8b]) => {
            flate2::read::GzDecoder::new(&response.body[..]).read_to_end(&mut decoded)?;
        }
        Some("br") => {
            brotli_decompressor::Decompressor::new(&response.body[..], 4096)
                .read_to_end(&mut decoded)?;
        }
        _ => return Ok(()),
    }
    response.body = decoded;
    Ok(())
}
