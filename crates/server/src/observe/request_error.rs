//! Errors of requests. This module alone decides who is at fault, which status the client gets, and
//! what the log says.

use std::borrow::Cow;
use std::fmt;
use std::net::SocketAddr;

use howdah_files::NoAnswer;
use howdah_http::{Request, Status};
use howdah_php::{DispatchError, ExchangeError, LostWorker};
use howdah_site::{Script, Site};

use super::culprit::{Culprit, Excuse};
use super::{DirectiveMessage, Phase};
use crate::body::{BodyError, MalformedChunks, PumpError, SourceError};
use crate::budget::BudgetUsedUp;
use crate::log::ErrorLog;
use crate::net::{ConnectionError, Peer, TooManyTunnels};
use crate::respond::UpstreamError;

/// The error of a request that did not get its usual response.
#[derive(Debug)]
pub(crate) struct RequestError {
    pub(crate) culprit: Culprit,
    /// The status for the client; `None` if the client is gone, or already has the head of a
    /// response.
    pub(crate) status: Option<Status>,
    /// The name of the request's site; `None` if the site was not found yet.
    site: Option<String>,
    /// The client that caused the error.
    client: Option<SocketAddr>,
    text: String,
}

/// A request that has no response yet.
#[derive(Debug)]
pub(crate) enum RespondError {
    /// The response is the page of this status. Nothing is logged.
    Status(Status),
    Error(RequestError),
}

impl RespondError {
    /// The status for the client; `None` if the client is gone.
    pub(crate) fn status(&self) -> Option<Status> {
        match self {
            RespondError::Status(status) => Some(*status),
            RespondError::Error(error) => error.status,
        }
    }
}

impl From<Status> for RespondError {
    fn from(status: Status) -> RespondError {
        RespondError::Status(status)
    }
}

impl From<RequestError> for RespondError {
    fn from(error: RequestError) -> RespondError {
        RespondError::Error(error)
    }
}

/// The circumstances of an error: the request, its client and its step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ErrorContext<'r> {
    pub(crate) peer: &'r Peer,
    /// `None` until the site is known.
    pub(crate) site: Option<&'r Site>,
    pub(crate) phase: Phase,
    pub(crate) request: &'r Request,
}

impl ErrorContext<'_> {
    fn error(&self, culprit: Culprit, status: Option<Status>, why: &str) -> RequestError {
        self.error_of_text(culprit, status, format!("{why}, {self}"))
    }

    fn error_of_text(
        &self,
        culprit: Culprit,
        status: Option<Status>,
        text: String,
    ) -> RequestError {
        let site = self.site.map(|site| site.name().to_owned());
        RequestError {
            culprit,
            status,
            site,
            client: None,
            text,
        }
    }

    /// The way in which a client has left. A stream also ends with its connection.
    fn closed(&self) -> &'static str {
        match self.request.version.has_streams() {
            true => "the client reset the stream, or closed the connection",
            false => "the client closed the connection",
        }
    }

    /// The error of a client. Its line begins with the status.
    fn error_of_client(&self, culprit: Culprit, status: Option<Status>, why: &str) -> RequestError {
        let text = match status {
            Some(status) => format!("{status}: {why}"),
            None => why.to_owned(),
        };
        RequestError {
            client: Some(self.peer.remote),
            ..self.error(culprit, status, &text)
        }
    }
}

impl RequestError {
    /// The request's head broke the rules of HTTP.
    pub(crate) fn head(situation: ErrorContext<'_>, status: Status, why: &str) -> RequestError {
        let ErrorContext { peer, phase, .. } = situation;
        let text = format!("{status}: {why}, {phase}");
        RequestError {
            client: Some(peer.remote),
            ..situation.error_of_text(Culprit::Client, Some(status), text)
        }
    }

    /// The client sends more requests than it may.
    pub(crate) fn too_many(situation: ErrorContext<'_>) -> RequestError {
        let why = "the client sends more requests than `client_requests` allows";
        situation.error_of_client(Culprit::Client, Some(Status::TOO_MANY_REQUESTS), why)
    }

    /// The client or the site has as many tunnels as it may have.
    pub(crate) fn too_many_tunnels(
        situation: ErrorContext<'_>,
        refused: TooManyTunnels,
    ) -> RequestError {
        let (culprit, status, why) = match refused {
            TooManyTunnels::Client => (
                Culprit::Client,
                Status::TOO_MANY_REQUESTS,
                "the client has as many tunnels as `client_tunnels` of the site allows",
            ),
            TooManyTunnels::Site => (
                Culprit::Load(Excuse::Always),
                Status::SERVICE_UNAVAILABLE,
                "the site has as many tunnels as its `tunnels` allows",
            ),
        };
        situation.error_of_client(culprit, Some(status), why)
    }

    /// The site refuses the request.
    pub(crate) fn forbidden(situation: ErrorContext<'_>, status: Status) -> RequestError {
        situation.error_of_client(Culprit::Client, Some(status), "the site refuses it")
    }

    /// A crew does not take the request: too many of the site, or of the client, wait already.
    pub(crate) fn too_many_waiting(situation: ErrorContext<'_>, why: &str) -> RequestError {
        let culprit = Culprit::Load(Excuse::Always);
        situation.error_of_client(culprit, Some(Status::SERVICE_UNAVAILABLE), why)
    }

    /// The variables and fields that directives have set have no room beside those of others.
    pub(crate) fn too_many_variables(
        situation: ErrorContext<'_>,
        no_room: BudgetUsedUp,
    ) -> RequestError {
        let status = Some(Status::SERVICE_UNAVAILABLE);
        situation.error_of_client(Culprit::Load(Excuse::Always), status, &no_room.to_string())
    }

    /// The file cannot be sent: its descriptor has no place.
    pub(crate) fn too_many_files(
        situation: ErrorContext<'_>,
        no_room: BudgetUsedUp,
    ) -> RequestError {
        let why = format!("the file is not sent: {no_room}");
        let culprit = Culprit::Load(Excuse::Always);
        situation.error_of_client(culprit, Some(Status::SERVICE_UNAVAILABLE), &why)
    }

    /// There is no descriptor to ask the disk with. Nobody knows what is at the request's path, or
    /// which directives protect it.
    pub(crate) fn no_descriptors(situation: ErrorContext<'_>) -> RequestError {
        let culprit = Culprit::Load(Excuse::Always);
        situation.error(culprit, Some(Status::SERVICE_UNAVAILABLE), NO_DESCRIPTORS)
    }

    /// The store has no answer for a file.
    pub(crate) fn no_answer(situation: ErrorContext<'_>, reason: NoAnswer) -> RespondError {
        let status = reason.status();
        match reason {
            NoAnswer::Status(status) => RespondError::Status(status),
            NoAnswer::NoDescriptors => RequestError::no_descriptors(situation).into(),
            NoAnswer::Disk(error) => {
                let why = format!("{}: the file cannot be read: {error}", status.code());
                situation.error(Culprit::Server, Some(status), &why).into()
            }
            NoAnswer::Postponed => {
                let why = "the file could not be looked at without waiting for the disk";
                let culprit = Culprit::Load(Excuse::Always);
                situation.error_of_client(culprit, Some(status), why).into()
            }
        }
    }

    /// The request's content was not received.
    pub(crate) fn body(situation: ErrorContext<'_>, error: &BodyError) -> RequestError {
        let (culprit, why) = match error {
            BodyError::Refused(refusal) => (Culprit::Client, refusal.why.to_owned()),
            BodyError::TimedOut => {
                (Culprit::Client, "nothing was received for `body_timeout`".to_owned())
            }
            BodyError::TooSlow => {
                (Culprit::Client, "its content arrived more slowly than `body_rate`".to_owned())
            }
            BodyError::Closed => (Culprit::Client, situation.closed().to_owned()),
            BodyError::Discarded => {
                let why = "the rules changed after its content was discarded";
                (Culprit::Server, why.to_owned())
            }
            BodyError::NoRoom(full) => {
                (Culprit::Load(Excuse::Always), format!("its content cannot be stored: {full}"))
            }
            BodyError::Storage(failure) => {
                let culprit = match error.status() {
                    Some(Status::INSUFFICIENT_STORAGE) => Culprit::Disk,
                    Some(Status::SERVICE_UNAVAILABLE) => Culprit::Load(Excuse::Always),
                    _ => Culprit::Server,
                };
                let folder = std::env::temp_dir();
                let why =
                    format!("its content cannot be stored in {}: {failure}", folder.display());
                (culprit, why)
            }
        };
        situation.error_of_client(culprit, error.status(), &why)
    }

    /// The pool did not take the request. `lane` is the name of the request's lane.
    pub(crate) fn refused(
        situation: ErrorContext<'_>,
        refused: DispatchError,
        lane: Option<&str>,
    ) -> RequestError {
        let busy = Culprit::Load(Excuse::ScriptsEnd);
        let (culprit, status, why) = match refused {
            DispatchError::QueueFull => {
                (busy, Status::SERVICE_UNAVAILABLE, "all workers are busy and the queue is full")
            }
            DispatchError::LaneFull => (busy, Status::SERVICE_UNAVAILABLE, "the queue is full"),
            DispatchError::QueueTimeout => (busy, Status::SERVICE_UNAVAILABLE, NOT_BEGUN),
            DispatchError::CutOff => {
                (Culprit::Load(Excuse::Always), Status::SERVICE_UNAVAILABLE, CUT_OFF)
            }
            DispatchError::DoesNotStart => (
                Culprit::Site,
                Status::SERVICE_UNAVAILABLE,
                "its pool does not start; the messages about the pool say why",
            ),
            DispatchError::TooLarge => (
                Culprit::Client,
                Status::REQUEST_HEADER_FIELDS_TOO_LARGE,
                "the request's head is too large for the server variables of a worker",
            ),
        };
        let is_of_lane = matches!(refused, DispatchError::LaneFull | DispatchError::QueueTimeout);
        let place = lane.filter(|_| is_of_lane);
        let place = place.map(|lane| format!(" in the lane {lane}")).unwrap_or_default();
        situation.error_of_client(culprit, Some(status), &format!("{why}{place}"))
    }

    /// The worker did not answer correctly.
    pub(crate) fn script(
        situation: ErrorContext<'_>,
        script: &Script,
        failure: ExchangeError,
    ) -> RequestError {
        let mut error = RequestError::response(situation, failure);
        error.text = format!("{}: {}", script.path().absolute().display(), error.text);
        error
    }

    /// A script divides its output into chunks, and they turn out to be malformed later.
    pub(crate) fn chunks(
        situation: ErrorContext<'_>,
        script: &Script,
    ) -> impl FnOnce(MalformedChunks) -> RequestError + use<> {
        let request = ErrorContext { phase: Phase::Sending, ..situation }.to_string();
        let script = script.path().absolute().display().to_string();
        let mut error = situation.error_of_text(Culprit::Script, None, String::new());
        move |MalformedChunks { why, is_content_whole }| {
            let effect = match is_content_whole {
                true => "the fields behind the last chunk of its output are left out",
                false => "its output is not in valid chunks, and the rest is sent unchanged",
            };
            error.text = format!("{script}: {effect}: {why}, {request}");
            error
        }
    }

    /// A script has named a file that is not sent.
    pub(crate) fn sendfile(
        situation: ErrorContext<'_>,
        script: &Script,
        status: Status,
        what: &str,
    ) -> RequestError {
        let script = script.path().absolute().display();
        situation.error(Culprit::Script, Some(status), &format!("{script}: {what}"))
    }

    /// The same as [`RequestError::script`], after the head was sent.
    fn response(situation: ErrorContext<'_>, failure: ExchangeError) -> RequestError {
        let (status, why) = match failure {
            ExchangeError::WorkerDied(LostWorker { pid, status }) => {
                let end = crate::log::WaitStatus(status);
                (Status::BAD_GATEWAY, format!("its worker {pid} {end}"))
            }
            ExchangeError::NotBegun => (Status::SERVICE_UNAVAILABLE, NOT_BEGUN.to_owned()),
            ExchangeError::PoolDied | ExchangeError::NotTaken => {
                (Status::BAD_GATEWAY, "its pool's zygote died".to_owned())
            }
            ExchangeError::Silent => (Status::GATEWAY_TIMEOUT, SILENT.to_owned()),
            ExchangeError::TimedOut => (
                Status::GATEWAY_TIMEOUT,
                "it ran longer than `request_terminate_timeout`, and is ended".to_owned(),
            ),
            ExchangeError::CutOff => {
                (Status::SERVICE_UNAVAILABLE, format!("{CUT_OFF}, and it is ended"))
            }
            ExchangeError::Malformed(corrupt) => (Status::BAD_GATEWAY, corrupt.to_string()),
        };
        let culprit = match failure {
            ExchangeError::NotBegun => Culprit::Load(Excuse::ScriptsEnd),
            ExchangeError::CutOff => Culprit::Load(Excuse::Always),
            _ => Culprit::Script,
        };
        situation.error(culprit, Some(status), &why)
    }

    /// An upstream did not answer correctly.
    pub(crate) fn upstream(situation: ErrorContext<'_>, error: &UpstreamError) -> RequestError {
        let culprit = match error.no_room() {
            Some(BudgetUsedUp::Site(_)) => Culprit::Load(Excuse::UpstreamsAnswer),
            Some(BudgetUsedUp::Client(_) | BudgetUsedUp::Total(_)) => Culprit::Load(Excuse::Always),
            None => Culprit::Upstream,
        };
        situation.error(culprit, Some(error.status()), &error.to_string())
    }

    /// A directive's message.
    pub(crate) fn directives(
        situation: ErrorContext<'_>,
        (place, what): &DirectiveMessage,
    ) -> RequestError {
        let what = in_ascii(what);
        match place {
            Some(place) => situation.error(Culprit::Site, None, &format!("{place}: {what}")),
            // A message without a place is about the request, such as a wrong password.
            None => situation.error_of_client(Culprit::Site, None, &what),
        }
    }

    /// The paths that the site's directives look at lead through too many symbolic links.
    pub(crate) fn too_many_links(situation: ErrorContext<'_>) -> RequestError {
        situation.error(Culprit::Site, Some(Status::INTERNAL_SERVER_ERROR), TOO_MANY_LINKS)
    }

    /// The client has left before it had its response.
    pub(crate) fn gone(situation: ErrorContext<'_>) -> RequestError {
        situation.error_of_client(Culprit::Client, None, situation.closed())
    }

    /// The content of the response broke off. `None` if the client has left: the access log tells
    /// that.
    pub(crate) fn content(situation: ErrorContext<'_>, error: PumpError) -> Option<RequestError> {
        let why = match error {
            PumpError::Client(ConnectionError::Broken) => return None,
            PumpError::Client(ConnectionError::TimedOut) => {
                return Some(situation.error_of_client(Culprit::Client, None, TAKES_TOO_LITTLE));
            }
            PumpError::Source(error) => return Some(RequestError::source(situation, error)),
            PumpError::Spool(error) => {
                format!("the content for a slow client cannot be stored: {error}")
            }
            PumpError::Filter(broken) => broken.0.to_owned(),
            PumpError::Busy => {
                let why =
                    "too many responses of the site wait for their substitutions (Substitute)";
                let status = Some(Status::SERVICE_UNAVAILABLE);
                return Some(situation.error(Culprit::Load(Excuse::Always), status, why));
            }
            PumpError::Memory => {
                return Some(situation.error_of_client(Culprit::Client, None, NO_MEMORY));
            }
            PumpError::ShortFile => {
                "the file became shorter while it was sent; its response was broken off".to_owned()
            }
            PumpError::File(error) => format!("the file cannot be read: {error}"),
            PumpError::Short => {
                let why =
                    "the script ended before it had sent as many bytes as its Content-Length says";
                why.to_owned()
            }
        };
        Some(situation.error(Culprit::Server, None, &why))
    }

    /// The source of the content broke off.
    pub(crate) fn source(situation: ErrorContext<'_>, error: SourceError) -> RequestError {
        match error {
            SourceError::Script(failure) => RequestError::response(situation, failure),
            SourceError::Upstream(error) => RequestError::upstream(situation, &error),
            SourceError::FileChanged => {
                let why = "the file was changed while it was sent; its response was broken off";
                situation.error(Culprit::Site, None, why)
            }
        }
    }

    /// Writes the error's line.
    pub(crate) fn log(&self, log: &ErrorLog) {
        let (level, site) = (self.culprit.level(), self.site.as_deref());
        match self.client {
            Some(client) => log.say_of_client(level, site, client, &self.text),
            None => log.say(level, site, &self.text),
        }
    }
}

const SILENT: &str =
    "the script sent nothing within `request_timeout` and its own time limit; it is ended";
const TAKES_TOO_LITTLE: &str =
    "nothing was taken for `send_timeout`, or less than `send_rate`; the response was broken off";
const NO_MEMORY: &str =
    "the client's responses use all of `client_memory`; the response was broken off";
const TOO_MANY_LINKS: &str = "its paths take too many steps through symbolic links or MultiViews \
    folders; shorten the links, or divide the folders";
const CUT_OFF: &str = "`drain_timeout` is over after a reload or a stop";
const NO_DESCRIPTORS: &str = "503: the server has as many files open as it may, so that nobody \
    knows what is at the path; raise the limit of open files with `ulimit -n` or LimitNOFILE, or \
    lower `connections` of `[limits]`";
const NOT_BEGUN: &str = "no worker became free within `queue_timeout`";

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Returns a text that may hold parts of a URL with bytes beyond ASCII as `\xHH`, as Apache's log
/// has them.
fn in_ascii(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return text.into();
    }
    let mut escaped = String::with_capacity(2 * text.len());
    for character in text.chars() {
        if character.is_ascii() {
            escaped.push(character);
            continue;
        }
        for byte in character.encode_utf8(&mut [0; 4]).bytes() {
            escaped.push_str(&format!("\\x{byte:02x}"));
        }
    }
    escaped.into()
}

/// The most bytes of a target in a message. The access log has more.
const LONGEST_TARGET: usize = 1024;

impl fmt::Display for ErrorContext<'_> {
    /// `while sending the response to GET http://host/path from 192.0.2.1:4711`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ErrorContext { peer, phase, request, .. } = self;
        let shown = &request.target[..request.target.len().min(LONGEST_TARGET)];
        let (host, target) = (request.authority.escape_ascii(), shown.escape_ascii());
        let (method, scheme) = (request.method.as_str(), request.scheme.as_str());
        write!(f, "{phase} {method} {scheme}://{host}{target} from {}", peer.remote)
    }
}

#[cfg(test)]
mod tests;
