//! One request, between PHP and whoever wants the response.

use std::ffi::CStr;
use std::io;
use std::ptr;
use std::time::{Duration, Instant};

use howdah_ipc::request::{Fixed, Pairs, Request};
use howdah_ipc::response::HeadKind;

use crate::body::Body;
use crate::head::Head;
use crate::log::{self, About, Level};
use crate::sapi::raw;
use crate::user_ini::UserIni;

/// Nobody wants the rest of the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gone;

/// Why a head was not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeadRefused {
    /// Nobody wants it.
    Gone,
    /// It is longer than a head may be.
    TooLong,
}

/// Name and value of a header field.
pub type Field<'f> = (&'f [u8], &'f [u8]);

/// Whoever gets the response of a request.
pub trait Client {
    /// A head: any number of interim ones, then a final one before the first byte of the body.
    fn head(
        &mut self,
        kind: HeadKind,
        status: u16,
        reason: &[u8],
        fields: &mut dyn Iterator<Item = Field<'_>>,
    ) -> Result<(), HeadRefused>;
    /// Bytes of the body.
    fn write(&mut self, bytes: &[u8]) -> Result<(), Gone>;
    /// What was written is to reach the client now.
    fn flush(&mut self) -> Result<(), Gone>;
    /// The response is complete.
    fn end(&mut self);
}

/// What the worker that runs a request tells it about itself, in `$_SERVER`.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'f> {
    /// `HOWDAH_POOL`
    pub pool: &'f CStr,
    /// `HOWDAH_WORKER_REQUESTS`: requests that this worker has served before this one.
    pub served: u64,
    /// Whether a session that the script starts has old ones deleted.
    pub collects_sessions: bool,
}

/// A request that is about to run, or running.
pub struct Call<'c> {
    request: Request<'c>,
    body: Body<'c>,
    client: &'c mut dyn Client,
    facts: Facts<'c>,
    stage: Stage,
    begun: Instant,
    variables: Variables<'c>,
    own_variables: Option<Pairs<'c>>,
    ini: Option<Pairs<'c>>,
    /// Where the texts of some variables are put together.
    php_self: Vec<u8>,
    served: [u8; 24],
    /// Set by the engine, which owns it and outlives the call.
    pub(crate) user_ini: Option<*mut UserIni>,
}

/// How far the response has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The final head is still to come.
    Head,
    /// The body goes out as it comes.
    Body,
    /// The head was an error of ours; the script's body is not for it.
    Discard,
    /// The client has everything it will get.
    Ended,
}

/// Where the walk through `$_SERVER` stands.
enum Variables<'c> {
    Sent(Pairs<'c>),
    PhpSelf,
    Requests,
    Pool,
    Done,
}

impl<'c> Call<'c> {
    /// A request with its content, and who gets the response.
    pub fn new(
        request: Request<'c>,
        body: Body<'c>,
        client: &'c mut dyn Client,
        facts: Facts<'c>,
    ) -> Call<'c> {
        Call {
            request,
            body,
            client,
            facts,
            stage: Stage::Head,
            begun: Instant::now(),
            variables: Variables::Done,
            own_variables: None,
            ini: None,
            php_self: Vec::new(),
            served: [0; 24],
            user_ini: None,
        }
    }

    /// For the shim; the context is left to the caller.
    pub(crate) fn raw_request(&self) -> raw::Request {
        let text = |which| {
            self.request
                .fixed(which)
                .map_or(ptr::null(), |text: &[u8]| text.as_ptr().cast())
        };
        raw::Request {
            context: ptr::null_mut(),
            method: text(Fixed::Method),
            script: text(Fixed::Script),
            uri: text(Fixed::RequestUri),
            query_string: text(Fixed::QueryString),
            content_type: text(Fixed::ContentType),
            cookie: text(Fixed::Cookie),
            authorization: text(Fixed::Authorization),
            content_length: i64::try_from(self.request.body_length).unwrap_or(i64::MAX),
            time: self.request.time as f64 / 1e6,
            ini: raw_bytes(self.request.ini_bytes()),
            status: self.request.status.into(),
            collects_sessions: self.facts.collects_sessions.into(),
        }
    }

    pub(crate) fn log(&self, level: Level, message: &[u8]) {
        let text = |which| self.request.fixed(which).unwrap_or_default();
        let about = About {
            script: text(Fixed::Script),
            method: text(Fixed::Method),
            host: self.variable(b"HTTP_HOST").unwrap_or_default(),
            uri: text(Fixed::RequestUri),
        };
        log::write(level, message, Some(about));
    }

    pub(crate) fn variable(&self, wanted: &[u8]) -> Option<&'c [u8]> {
        self.request
            .variables()
            .find(|(name, _)| *name == wanted)
            .map(|(_, value)| value)
    }

    pub(crate) fn head(&mut self, kind: HeadKind, head: &Head<'_, raw::Text>) -> Result<(), Gone> {
        if self.stage != Stage::Head {
            return Err(Gone);
        }
        match self.client.head(kind, head.status, head.reason, &mut head.fields()) {
            Ok(()) if kind == HeadKind::Interim => Ok(()),
            Ok(()) => {
                self.stage = Stage::Body;
                Ok(())
            }
            Err(HeadRefused::Gone) => Err(Gone),
            Err(HeadRefused::TooLong) => {
                self.log(Level::Error, b"the script's header fields are too long");
                if kind == HeadKind::Final {
                    self.stage = Stage::Discard;
                    let _ = self.client.head(kind, 500, b"", &mut std::iter::empty());
                }
                Ok(())
            }
        }
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), Gone> {
        match self.stage {
            Stage::Body => self.client.write(bytes),
            // php-fpm lets a script go on after fastcgi_finish_request() as long as it prints a
            // little, and then ends it in the middle. Nobody can want the second half of that.
            Stage::Discard | Stage::Ended => Ok(()),
            Stage::Head => Err(Gone),
        }
    }

    pub(crate) fn flush(&mut self) -> Result<(), Gone> {
        if self.stage == Stage::Ended {
            Ok(())
        } else {
            self.client.flush()
        }
    }

    /// Whether the response was not complete before.
    pub(crate) fn end(&mut self) -> bool {
        if self.stage == Stage::Ended {
            return false;
        }
        self.stage = Stage::Ended;
        self.client.end();
        true
    }

    pub(crate) fn next_variable(&mut self, first: bool) -> Option<raw::Pair> {
        if first {
            self.variables = Variables::Sent(self.request.variables());
        }
        if let Variables::Sent(pairs) = &mut self.variables {
            if let Some(pair) = pairs.next() {
                return Some(raw_pair(pair));
            }
            self.variables = Variables::PhpSelf;
        }
        let (name, value, next) = match self.variables {
            Variables::PhpSelf => (c"PHP_SELF", self.php_self(), Variables::Requests),
            Variables::Requests => {
                let length = write_number(&mut self.served, self.facts.served);
                (c"HOWDAH_WORKER_REQUESTS", raw_text(&self.served[..length]), Variables::Pool)
            }
            Variables::Pool => {
                (c"HOWDAH_POOL", raw_text(self.facts.pool.to_bytes()), Variables::Done)
            }
            Variables::Sent(_) | Variables::Done => return None,
        };
        self.variables = next;
        Some(raw::Pair { name: raw_text(name.to_bytes()), value })
    }

    pub(crate) fn next_own_variable(&mut self, first: bool) -> Option<raw::Pair> {
        if first {
            self.own_variables = Some(self.request.own_variables());
        }
        self.own_variables.as_mut()?.next().map(raw_pair)
    }

    /// SCRIPT_NAME and PATH_INFO.
    fn php_self(&mut self) -> raw::Text {
        let script_name = self.variable(b"SCRIPT_NAME").unwrap_or(c"".to_bytes());
        let Some(path_info) = self.variable(b"PATH_INFO") else {
            return raw_text(script_name);
        };
        self.php_self = [script_name, path_info, b"\0"].concat();
        raw_text(&self.php_self[..self.php_self.len() - 1])
    }

    /// Whether a time-out signal that just came can be meant for this request.
    pub(crate) fn is_overdue(&self) -> bool {
        self.begun.elapsed() >= YOUNGEST_OVERDUE
    }

    /// Fills `room` with content of the request as far as there is any.
    pub(crate) fn read_body(&mut self, room: &mut [u8]) -> usize {
        self.body.read(room).unwrap_or_else(|error: io::Error| {
            self.log(
                Level::Error,
                format!("cannot read the request's content: {error}").as_bytes(),
            );
            0
        })
    }

    pub(crate) fn next_ini(&mut self, first: bool) -> Option<raw::Pair> {
        if first {
            self.ini = Some(self.request.ini());
        }
        self.ini.as_mut()?.next().map(raw_pair)
    }

    pub(crate) fn plan_user_ini(&mut self, seconds_to_live: i64) -> Option<raw::UserIni> {
        let script = self.request.fixed(Fixed::Script)?;
        let root = self.request.fixed(Fixed::DocumentRoot).unwrap_or_default();
        let now = self.request.time / 1_000_000;
        // SAFETY: the engine set it to its own field for the time of this request, and does not
        // touch it meanwhile.
        let user_ini = unsafe { &mut *self.user_ini? };
        let plan = user_ini.plan(root, script, now, u64::try_from(seconds_to_live).unwrap_or(0))?;
        Some(raw::UserIni {
            table: plan.table,
            directories: plan.directories,
            directory_count: plan.count,
        })
    }
}

/// A request younger than this is not the one that the front has lost patience with: the signal
/// came late, and was meant for the request before.
const YOUNGEST_OVERDUE: Duration = Duration::from_millis(100);

fn raw_pair((name, value): (&[u8], &[u8])) -> raw::Pair {
    raw::Pair {
        name: raw_text(name),
        value: raw_text(value),
    }
}

/// `text` must be followed by a NUL, as those of a request are.
fn raw_text(text: &[u8]) -> raw::Text {
    raw_bytes(text)
}

fn raw_bytes(bytes: &[u8]) -> raw::Text {
    raw::Text {
        at: bytes.as_ptr().cast(),
        length: bytes.len(),
    }
}

/// Writes `number` and a NUL; says how many digits there are.
fn write_number(room: &mut [u8; 24], mut number: u64) -> usize {
    let mut digits = [0; 20];
    let mut first = digits.len();
    loop {
        first -= 1;
        digits[first] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    let length = digits.len() - first;
    room[..length].copy_from_slice(&digits[first..]);
    room[length] = 0;
    length
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_with_their_nul() {
        for number in [0, 7, 10, 1234, u64::MAX] {
            let mut room = [b'x'; 24];
            let length = write_number(&mut room, number);
            assert_eq!(&room[..length], number.to_string().as_bytes());
            assert_eq!(room[length], 0);
        }
    }
}
