//! The access logs: one line per request, in the log of its site.

mod json;
mod own;
mod time;

use std::cell::RefCell;
use std::io::Write;
use std::net::IpAddr;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use howdah_config::{AccessFormat, Config, EncodedSlashes, ListenAddress, LogFormat};
use howdah_http::{Fields, Request, ResponseHead, Status};
use howdah_php::RunReport;

use super::Excuse;
use crate::front::WallTime;
use crate::log::{LineOrigin, LogWriter, SiteLogs};
use crate::net::Peer;

/// Bytes of a value in a line. A longer one is cut there, and [`CUT`] follows. A client pays a byte
/// of HTTP/2 for a value of 4 KB that it has sent before, and each of its bytes may take four here.
/// Apache and nginx accept no field and no target of more than 8 KB by default.
const LONGEST_VALUE: usize = 8 * 1024;
/// Bytes of all values of a line. Beyond them a further value is cut at [`SHORT_VALUE`]. Lines of
/// all sites wait in the same queue.
const LONGEST_LINE: usize = 16 * 1024;
/// Bytes of a value that each line has, however long the values before are.
const SHORT_VALUE: usize = 256;
/// The end of a value that was cut.
const CUT: &[u8] = b"...";
/// Bytes after which a busy thread hands its lines over.
const FULL: usize = 32 * 1024;

/// The record of one request, whatever protocol brought it and however it ended.
#[derive(Debug)]
pub(crate) struct RequestRecord<'r> {
    /// The site's name, `-` where the request belongs to none.
    pub(crate) site: &'r str,
    /// The meaning of encoded slashes in its paths.
    pub(crate) encoded_slashes: EncodedSlashes,
    pub(crate) peer: &'r Peer,
    pub(crate) began: WallTime,
    pub(crate) took: Duration,
    /// The request. Of a refused head, as much as is known.
    pub(crate) request: &'r Request,
    pub(crate) response: RecordedResponse<'r>,
    /// Bytes of content that the client took.
    pub(crate) sent: u64,
    /// Whether the response was sent completely.
    pub(crate) complete: bool,
    pub(crate) connection: ConnectionFacts,
}

/// The response of a record, and what led to it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecordedResponse<'r> {
    pub(crate) head: &'r ResponseHead,
    /// Why a status of 5xx is no error of the site's configuration; `None` where it is one.
    pub(crate) excuse: Option<Excuse>,
    /// Whether a script or an upstream was to make it.
    pub(crate) is_made: bool,
    /// The length of the content, where the head states one.
    pub(crate) length: Option<u64>,
    /// The user who has authenticated, or has tried to.
    pub(crate) user: Option<&'r [u8]>,
    /// `None` where the log's format does not tell it.
    pub(crate) notes: Option<&'r ResolutionNotes>,
}

/// The way a request was resolved, for formats that tell so.
#[derive(Debug, Default)]
pub(crate) struct ResolutionNotes {
    /// The path that was asked for, or that of the file which answers for a folder or for a name
    /// without its extension. `None`: as in the request.
    pub(crate) path: Option<Vec<u8>>,
    /// The query that rules have left, if there is one. `None`: as in the request.
    pub(crate) query: Option<Option<Vec<u8>>>,
    /// The file that was found; empty for none.
    pub(crate) file: Vec<u8>,
    /// Apache's name of the handler; empty for none.
    pub(crate) handler: Vec<u8>,
    /// The variables that the format tells, as directives and then the script have set them: the
    /// last value of a name counts.
    pub(crate) environment: Fields,
    /// The notes that the format tells, in the same order.
    pub(crate) notes: Fields,
    /// The time from the request to the head of its response.
    pub(crate) first_byte: Option<Duration>,
    /// The run of the script, once the response has ended.
    pub(crate) run: RunReport,
}

impl ResolutionNotes {
    /// Adds what `log` tells of the variables and notes that the script has set.
    pub(crate) fn add(
        &mut self,
        log: AccessLog<'_>,
        variables: Option<&Fields>,
        notes: Option<&Fields>,
    ) {
        if let Some(variables) = variables {
            log.add_variables(variables, &mut self.environment);
        }
        if let Some(notes) = notes {
            log.add_notes(notes, &mut self.notes);
        }
    }
}

/// The share of a connection's work that belongs to one request.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ConnectionFacts {
    /// All bytes of the request that were received, with its head.
    pub(crate) received: u64,
    /// All bytes of the response that were sent, with its head.
    pub(crate) sent: u64,
    /// Requests that came before on the connection.
    pub(crate) earlier: u64,
    /// Whether another request may follow.
    pub(crate) persists: bool,
}

impl RequestRecord<'_> {
    /// The client's address.
    fn client(&self) -> IpAddr {
        self.peer.remote.ip()
    }

    fn status(&self) -> Status {
        self.response.head.status
    }
}

/// One thread's access logs. The lines of each are handed over together.
#[derive(Debug)]
pub(crate) struct AccessLogs {
    /// By site; the last one is for requests of no site. `None`: there is no log.
    sites: Box<[Option<SiteFormat>]>,
    logs: Box<[ThreadLines]>,
    /// The logs that have lines.
    waiting: RefCell<Vec<usize>>,
    /// The configured port of each listener; 0 where the configuration has none.
    ports: Box<[u16]>,
}

/// The log of a site, by its place, and the format of its lines.
#[derive(Debug)]
struct SiteFormat {
    log: usize,
    /// The site; `None` for requests of no site.
    origin: LineOrigin,
    format: AccessFormat,
}

/// Lines of one log that are not handed over.
#[derive(Debug)]
struct ThreadLines {
    lines: RefCell<LineBuffer>,
    writer: LogWriter,
}

/// Lines of sites that have the same log.
#[derive(Debug, Default)]
struct LineBuffer {
    bytes: Vec<u8>,
    /// The place where the last line begins.
    begin: usize,
    /// The sites of the lines, each with the place where its lines end.
    parts: Vec<(LineOrigin, usize)>,
}

impl LineBuffer {
    /// Begins a line.
    fn begin_line(&mut self) {
        self.begin = self.bytes.len();
    }

    /// Ends a line, which is about that site.
    fn end_line(&mut self, origin: LineOrigin) {
        let end = self.bytes.len();
        match self.parts.last_mut() {
            Some((last, until)) if *last == origin => *until = end,
            _ => self.parts.push((origin, end)),
        }
    }

    /// Returns how many bytes the next value of the line may have.
    fn room(&self) -> usize {
        room_after(self.bytes.len() - self.begin)
    }
}

/// Returns how many bytes a value may have behind `used` bytes of its line.
fn room_after(used: usize) -> usize {
    LONGEST_LINE.saturating_sub(used).clamp(SHORT_VALUE, LONGEST_VALUE)
}

impl Deref for LineBuffer {
    type Target = Vec<u8>;

    fn deref(&self) -> &Vec<u8> {
        &self.bytes
    }
}

impl DerefMut for LineBuffer {
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }
}

/// The access log of one site.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AccessLog<'l> {
    logs: &'l AccessLogs,
    site: &'l SiteFormat,
}

impl AccessLogs {
    pub(crate) fn new(config: &Config, logs: &SiteLogs<LogWriter>) -> AccessLogs {
        let common = &config.log.format;
        let own = config.sites.iter().map(|site| config.log.format_of(site));
        let formats = own.enumerate().map(|(site, format)| (Some(site), format));
        let formats = formats.chain([(None, common)]);
        AccessLogs {
            sites: formats
                .map(|(site, format)| {
                    let format = format.clone();
                    logs.index(site).map(|log| SiteFormat { log, origin: site, format })
                })
                .collect(),
            logs: logs
                .all()
                .map(|writer| ThreadLines {
                    lines: RefCell::default(),
                    writer: writer.clone(),
                })
                .collect(),
            waiting: RefCell::default(),
            ports: config.listen.iter().map(|listener| port_of(&listener.address)).collect(),
        }
    }

    /// Returns the log of the site with that number, or of requests of no site. `None`: it is off.
    #[inline]
    pub(crate) fn of(&self, site: Option<usize>) -> Option<AccessLog<'_>> {
        let last = self.sites.len() - 1;
        let site = self.sites[site.map_or(last, |site| site.min(last))].as_ref()?;
        Some(AccessLog { logs: self, site })
    }

    /// Hands over the lines. Called before the thread sleeps, so that no line is held back.
    #[inline]
    pub(crate) fn flush(&self) {
        for log in self.waiting.borrow_mut().drain(..) {
            self.logs[log].hand_over();
        }
    }
}

/// Returns the port of a listener's address; 0 where it has none of its own.
fn port_of(address: &ListenAddress) -> u16 {
    match address {
        ListenAddress::Tcp(address) => address.port(),
        ListenAddress::Unix(_) => 0,
    }
}

impl ThreadLines {
    fn hand_over(&self) {
        let mut lines = self.lines.borrow_mut();
        let LineBuffer { bytes, parts, .. } = &mut *lines;
        let mut begin = 0;
        for (origin, end) in parts.drain(..) {
            self.writer.write(origin, &bytes[begin..end]);
            begin = end;
        }
        bytes.clear();
    }
}

impl AccessLog<'_> {
    /// Returns whether the format tells how requests were resolved, or how scripts ran.
    pub(crate) fn takes_notes(self) -> bool {
        let own = self.site.format.own();
        self.tells_script() || own.is_some_and(LogFormat::tells_resolution)
    }

    /// Returns whether the format tells the file that a request was for.
    pub(crate) fn tells_file(self) -> bool {
        self.site.format.own().is_some_and(LogFormat::tells_file)
    }

    /// Returns whether the format tells how scripts ran.
    pub(crate) fn tells_script(self) -> bool {
        let format = &self.site.format;
        matches!(format, AccessFormat::Json) || format.own().is_some_and(LogFormat::tells_script)
    }

    /// Adds those of the variables that the format tells to `told`.
    pub(crate) fn add_variables(self, variables: &Fields, told: &mut Fields) {
        let names = self.site.format.own().into_iter().flat_map(LogFormat::told_variables);
        add_told(names, variables, told);
    }

    /// Adds those of the notes that the format tells to `told`.
    pub(crate) fn add_notes(self, notes: &Fields, told: &mut Fields) {
        let names = self.site.format.own().into_iter().flat_map(LogFormat::told_notes);
        add_told(names, notes, told);
    }

    /// Adds a line.
    pub(crate) fn record(self, record: &RequestRecord<'_>) {
        let log = &self.logs.logs[self.site.log];
        let mut lines = log.lines.borrow_mut();
        if lines.is_empty() {
            self.logs.waiting.borrow_mut().push(self.site.log);
        }
        lines.begin_line();
        match &self.site.format {
            AccessFormat::Combined => combined(&mut lines, record),
            AccessFormat::Json => json::line(&mut lines, record),
            AccessFormat::Own(format) => {
                let port = self.logs.ports.get(record.peer.listener).copied();
                own::line(&mut lines, format, record, port.unwrap_or_default());
            }
        }
        lines.end_line(self.site.origin);
        let is_full = lines.len() >= FULL;
        drop(lines);
        if is_full {
            log.hand_over();
        }
    }
}

/// Adds the last value of each of the names. They are held until the client has taken the response,
/// so a value is cut where its line would cut it.
fn add_told<'n>(names: impl Iterator<Item = &'n str>, set: &Fields, told: &mut Fields) {
    for name in names {
        if let Some(value) = set.values(name.as_bytes()).last() {
            // One byte more, as a sign that it was cut.
            told.push(name.as_bytes(), &value[..value.len().min(LONGEST_VALUE + 1)]);
        }
    }
}

/// Apache's `combined`: `%h - %u [%t] "%r" %>s %b "%{Referer}i" "%{User-Agent}i"`, in UTC.
fn combined(out: &mut LineBuffer, record: &RequestRecord<'_>) {
    let request = record.request;
    let _ = write!(out, "{} - ", record.client());
    user(out, record);
    out.push(b' ');
    time::common(out, record.began.seconds());
    out.extend_from_slice(b" \"");
    request_line(out, request);
    let _ = write!(out, "\" {} ", record.status().code());
    bytes_or_dash(out, record.sent);
    for name in [&b"referer"[..], b"user-agent"] {
        out.extend_from_slice(b" \"");
        escape(out, request.fields.value(name).unwrap_or(b"-"));
        out.push(b'"');
    }
    out.push(b'\n');
}

/// The user; `-` where the request names none, `""` for an empty name, as in Apache's log.
fn user(out: &mut LineBuffer, record: &RequestRecord<'_>) {
    match record.response.user {
        None => out.push(b'-'),
        Some(b"") => out.extend_from_slice(b"\"\""),
        Some(user) => escape(out, user),
    }
}

/// Method, target and version; of a refused head the first line as received; `-` where there is
/// none.
fn request_line(out: &mut LineBuffer, request: &Request) {
    if !request.refused_line.is_empty() {
        escape(out, &request.refused_line);
    } else if is_unread(request) {
        out.push(b'-');
    } else {
        escape(out, request.method.as_str().as_bytes());
        out.push(b' ');
        escape(out, &request.origin);
        escape(out, &request.target);
        let _ = write!(out, " {}", request.version.as_str());
    }
}

/// Returns whether the head could not be read: method and version are unknown as well.
fn is_unread(request: &Request) -> bool {
    request.target.is_empty()
}

fn bytes_or_dash(out: &mut Vec<u8>, sent: u64) {
    match sent {
        0 => out.push(b'-'),
        sent => write!(out, "{sent}").unwrap_or_default(),
    }
}

/// Escapes as Apache's log does: quotes, backslashes and unprintable bytes. No client can forge a
/// line. A value that is longer than [`LONGEST_VALUE`], or for which the line has no room, is cut.
fn escape(out: &mut LineBuffer, bytes: &[u8]) {
    let most = out.len() + out.room();
    for &byte in bytes {
        if out.len() >= most {
            return out.extend_from_slice(CUT);
        }
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b' '..=b'~' => out.push(byte),
            b'\x08' => out.extend_from_slice(b"\\b"),
            b'\t' => out.extend_from_slice(b"\\t"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\x0b' => out.extend_from_slice(b"\\v"),
            b'\r' => out.extend_from_slice(b"\\r"),
            _ => {
                let _ = write!(out, "\\x{byte:02x}");
            }
        }
    }
}

#[cfg(test)]
mod tests;
