//! One PHP request: passes the request to PHP, and PHP's response to a [`ResponseSink`].

mod ini_values;
mod looked_up;
mod sink;
mod sub_request;
mod variables;

use std::ffi::{CStr, OsStr, c_int};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

use howdah_ipc::pool_state::{PoolStatePiece, PoolStateQuestion};
use howdah_ipc::request::{DecodedRequest, EntryPairs, FixedText};
use howdah_ipc::response::{HeadKind, MOST_FIELDS, MOST_HEAD};

pub use self::sink::{ClientGone, Field, HeadError, ResponseSink};
use self::sub_request::SubRequests;
use self::variables::VariableCursor;
use crate::body::BodyReader;
use crate::children;
use crate::chroot::{self, PoolRoot};
use crate::head::{ScriptHead, StatusField};
use crate::listed::{self, ListedEntry, ListedValue};
use crate::log::{self, Level, LogContext};
use crate::lookup::EncodedSlashMeaning;
use crate::questions::Questions;
use crate::refusal::ScriptRefusal;
use crate::sapi::{self, raw};
use crate::text_table::TextTable;
use crate::time_out;
use crate::user_ini::UserIniCache;

/// Facts about the worker that PHP and the script need.
#[derive(Debug, Clone, Copy)]
pub struct WorkerFacts<'f> {
    /// `HOWDAH_POOL` in `$_SERVER`.
    pub pool: &'f CStr,
    /// `HOWDAH_WORKER_REQUESTS` in `$_SERVER`: number of requests that this worker has served
    /// before.
    pub served: u64,
    /// A session that the script starts deletes old sessions.
    pub collects_sessions: bool,
    /// The use of PHP's caches is asked for after the script.
    pub asks_caches: bool,
    /// Apache's modules whose directives have an effect, separated by spaces.
    pub modules: &'f str,
    /// The meaning of `%2F` in a path.
    pub slashes: EncodedSlashMeaning,
    /// The root folder of the worker, if it has one of its own.
    pub root: Option<&'f PoolRoot>,
    /// Working directory of what runs after the script; `None` for the script's folder.
    pub working_directory: Option<&'f Path>,
}

/// A PHP request that is about to run or is running.
pub struct PhpRequest<'c> {
    request: DecodedRequest<'c>,
    body: BodyReader<'c>,
    client: &'c mut dyn ResponseSink,
    facts: WorkerFacts<'c>,
    stage: ResponseStage,
    status_field: StatusField,
    variables: VariableCursor<'c>,
    /// The list that the script has asked for last, and the position in it.
    list: std::vec::IntoIter<ListedEntry<'c>>,
    listed: Option<ListedEntry<'c>>,
    /// Variables that the script has set with `apache_setenv()`.
    changed: TextTable,
    /// The texts that the script has set with `apache_note()`.
    notes: TextTable,
    former_note: Option<Vec<u8>>,
    /// The answer to the last `fpm_get_status()`, followed by a NUL.
    fpm_status: Vec<u8>,
    sub_requests: SubRequests,
    ini: Option<EntryPairs<'c>>,
    /// Buffer for the text of `PHP_SELF`.
    php_self: Vec<u8>,
    served: [u8; 24],
    /// The questions that are asked after the script.
    questions: Questions,
    /// Set by the engine, which owns the cache and outlives the request.
    pub(crate) user_ini: Option<*mut UserIniCache>,
}

/// Progress of the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ResponseStage {
    /// The final head was not sent yet.
    Head,
    /// The final head was sent; the body is sent as the script writes it.
    Body,
    /// The head was replaced by an error response; the script's body is discarded.
    Discard,
    /// The response is complete.
    Ended,
}

impl<'c> PhpRequest<'c> {
    /// Creates a PHP request from an encoded request, its content, and the receiver of its
    /// response.
    pub fn new(
        request: DecodedRequest<'c>,
        body: BodyReader<'c>,
        client: &'c mut dyn ResponseSink,
        facts: WorkerFacts<'c>,
    ) -> PhpRequest<'c> {
        PhpRequest {
            request,
            body,
            client,
            facts,
            stage: ResponseStage::Head,
            status_field: StatusField::default(),
            variables: VariableCursor::Done,
            list: Vec::new().into_iter(),
            listed: None,
            changed: TextTable::default(),
            notes: TextTable::default(),
            former_note: None,
            fpm_status: Vec::new(),
            sub_requests: SubRequests::default(),
            ini: None,
            php_self: Vec::new(),
            served: [0; 24],
            questions: Questions::new(facts.collects_sessions, facts.asks_caches),
            user_ini: None,
        }
    }

    /// The request as the shim's C structure, except for its context and `ini`, which the caller
    /// sets.
    pub(crate) fn raw_request(&self) -> raw::Request {
        let text = |which| {
            self.request
                .fixed(which)
                .map_or(ptr::null(), |text: &[u8]| text.as_ptr().cast())
        };
        raw::Request {
            context: ptr::null_mut(),
            method: text(FixedText::Method),
            script: self.script().map_or(ptr::null(), |path| path.as_ptr().cast()),
            uri: text(FixedText::RequestUri),
            query_string: text(FixedText::QueryString),
            content_type: text(FixedText::ContentType),
            cookie: text(FixedText::Cookie),
            authorization: text(FixedText::Authorization),
            content_length: i64::try_from(self.request.body_length).unwrap_or(i64::MAX),
            time: self.request.time as f64 / 1e6,
            ini: raw::INI_AS_BEFORE,
            status: match self.request.status {
                0 => 200,
                status => status.into(),
            },
            collects_sessions: self.facts.collects_sessions.into(),
        }
    }

    /// The path of the script as the worker sees it, followed by a NUL.
    fn script(&self) -> Option<&'c [u8]> {
        let path = self.request.fixed(FixedText::Script)?;
        Some(chroot::inside(self.facts.root, path))
    }

    /// The document root as the worker sees it.
    fn document_root(&self) -> &'c [u8] {
        let path = self.request.fixed(FixedText::DocumentRoot).unwrap_or_default();
        chroot::inside(self.facts.root, path)
    }

    /// The ini values of the request in encoded form.
    pub(crate) fn ini_bytes(&self) -> &'c [u8] {
        self.request.ini_bytes()
    }

    pub(crate) fn log(&self, level: Level, message: &[u8]) {
        let text = |which| self.request.fixed(which).unwrap_or_default();
        let about = LogContext {
            script: text(FixedText::Script),
            method: text(FixedText::Method),
            host: self.variable(b"HTTP_HOST").unwrap_or_default(),
            uri: text(FixedText::RequestUri),
        };
        log::write(level, message, Some(about));
    }

    /// Sets a note, unless `value` is `None`. Returns the former one; it is valid until the next
    /// call.
    pub(crate) fn note(&mut self, name: &[u8], value: Option<&[u8]>) -> Option<raw::Text> {
        let notes = self.sub_requests.notes().unwrap_or(&mut self.notes);
        self.former_note = notes.find(name).map(<[u8]>::to_vec);
        if let Some(value) = value {
            notes.set(name, value);
        }
        self.former_note.as_deref().map(raw_bytes)
    }

    /// The effect of `Status:` fields on the status.
    pub(crate) fn status_field(&mut self) -> &mut StatusField {
        &mut self.status_field
    }

    /// Sends the head of the response, or an interim one. Before a final head, the front gets the
    /// variables and the notes that the script has set.
    ///
    /// # Errors
    /// The client is gone, or a head was sent before. A head that is too long is answered with the
    /// server's page for 500 in its place.
    pub(crate) fn head(
        &mut self,
        kind: HeadKind,
        head: &ScriptHead<'_, raw::Text>,
    ) -> Result<(), ClientGone> {
        if !children::is_worker() {
            return Ok(());
        }
        if self.stage != ResponseStage::Head {
            return Err(ClientGone);
        }
        if kind == HeadKind::Final {
            self.tell(HeadKind::Environment)?;
            self.tell(HeadKind::Notes)?;
        }
        match self.client.head(kind, head.status, head.reason, &mut head.fields()) {
            Ok(()) if kind == HeadKind::Interim => Ok(()),
            Ok(()) => {
                self.stage = ResponseStage::Body;
                Ok(())
            }
            Err(HeadError::ClientGone) => Err(ClientGone),
            Err(HeadError::TooLong) => {
                let what = format!(
                    "the response was replaced by an error: the script's header fields have more \
                     than {} KB together, or are more than {MOST_FIELDS}; send fewer or shorter \
                     fields",
                    MOST_HEAD / 1024
                );
                self.log(Level::Error, what.as_bytes());
                if kind == HeadKind::Final {
                    self.stage = ResponseStage::Discard;
                    self.send_refusal();
                }
                Ok(())
            }
        }
    }

    /// Asks the server to answer with its page for 500.
    fn send_refusal(&mut self) {
        let _ = self.client.head(HeadKind::Refused, 500, b"", &mut std::iter::empty());
    }

    /// Tells the server the variables or the notes that the script has set. Directives for the
    /// response see the variables, the access log sees both.
    fn tell(&mut self, kind: HeadKind) -> Result<(), ClientGone> {
        let (texts, of) = match kind {
            HeadKind::Notes => (&self.notes, "the notes of apache_note()"),
            _ => (&self.changed, "the variables of apache_setenv()"),
        };
        if texts.is_empty() {
            return Ok(());
        }
        match self.client.tell(kind, &mut texts.iter()) {
            Ok(()) => Ok(()),
            Err(HeadError::ClientGone) => Err(ClientGone),
            Err(HeadError::TooLong) => {
                let what = format!(
                    "the server does not see {of}: they have more than {} KB together",
                    MOST_HEAD / 1024
                );
                self.log(Level::Warning, what.as_bytes());
                Ok(())
            }
        }
    }

    /// Sends output of the script. The output of a child process is discarded. Output that nobody
    /// gets is a sign of life, too.
    ///
    /// # Errors
    /// The client is gone.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), ClientGone> {
        if !children::is_worker() {
            return Ok(());
        }
        let written = self.send(bytes).inspect_err(|_| self.check_time());
        if written.is_err() || self.stage != ResponseStage::Body {
            self.client.show_life();
        }
        written
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), ClientGone> {
        match self.stage {
            ResponseStage::Body => self.client.write(bytes),
            // php-fpm lets a script continue after fastcgi_finish_request() while it prints little,
            // and ends it in the middle of a longer output. A half-run script serves no purpose,
            // therefore all output is accepted and discarded here.
            ResponseStage::Discard | ResponseStage::Ended => Ok(()),
            ResponseStage::Head => Err(ClientGone),
        }
    }

    /// Sends everything that has left PHP's buffers. A sign of life, even if nothing has.
    ///
    /// # Errors
    /// The client is gone.
    pub(crate) fn flush(&mut self) -> Result<(), ClientGone> {
        if !children::is_worker() {
            return Ok(());
        }
        self.client.show_life();
        match self.stage {
            ResponseStage::Ended => Ok(()),
            _ => self.client.flush().inspect_err(|_| self.check_time()),
        }
    }

    /// Ends the script's time if output was refused for that: the front's signal may come later.
    fn check_time(&self) {
        if self.client.is_late() {
            time_out::ask();
        }
    }

    /// Answers with 500 if PHP gave up before it sent a head: it could not start the request. PHP
    /// has logged the reason.
    pub(crate) fn give_up(&mut self) {
        if self.stage != ResponseStage::Head {
            return;
        }
        self.stage = ResponseStage::Discard;
        self.send_refusal();
        self.log(
            Level::Error,
            b"PHP could not start the request, see the message before; check the values of \
              php_value and php_flag, and the .user.ini files; the worker is replaced",
        );
    }

    /// Completes the response. Returns whether it was not complete before.
    pub(crate) fn end(&mut self) -> bool {
        if self.stage == ResponseStage::Ended || !children::is_worker() {
            return false;
        }
        self.stage = ResponseStage::Ended;
        self.client.end();
        true
    }

    /// Passes on the time limit that was set for the script: by itself, a `.htaccess` file or a
    /// `.user.ini` file.
    pub(crate) fn time_limit(&mut self, seconds: i64) {
        if children::is_worker() {
            self.client.time_limit(seconds);
        }
    }

    /// Returns the next entry of a list of the shim's. `first` is what the list is about, and asks
    /// for its first entry. The pair is valid until the next call; it has no NULs. `None` behind
    /// the last one.
    pub(crate) fn next_listed(&mut self, list: c_int, first: Option<&[u8]>) -> Option<raw::Pair> {
        if let Some(about) = first {
            let entries = match list {
                raw::FIELDS => listed::fields(self.request.fields()),
                raw::MODULES => {
                    self.facts.modules.split(' ').filter_map(ListedEntry::value).collect()
                }
                _ => self.look_up(about),
            };
            self.list = entries.into_iter();
        }
        self.listed = self.list.next();
        let ListedEntry { name, value } = self.listed.as_ref()?;
        let none = raw::Text { at: ptr::null(), length: 0 };
        Some(raw::Pair {
            name: if name.is_empty() { none } else { raw_bytes(name) },
            value: match value {
                ListedValue::Text(text) => raw_bytes(text),
                ListedValue::Number(number) => raw::Text { length: *number as usize, ..none },
            },
        })
    }

    /// Asks the front for what `fpm_get_status()` returns, as JSON. The text is valid until the
    /// next call. `None`: the front gives no answer.
    pub(crate) fn fpm_status(&mut self) -> Option<raw::Text> {
        if !children::is_worker() || self.stage == ResponseStage::Ended {
            return None;
        }
        self.fpm_status.clear();
        let mut next = Some(0);
        while let Some(first) = next {
            let answer = self.client.ask(&PoolStateQuestion { first }.encode())?;
            let piece = PoolStatePiece::decode(&answer)?;
            self.fpm_status.extend_from_slice(piece.json);
            next = piece.next.filter(|next| *next > first);
        }
        self.fpm_status.push(0);
        Some(raw_bytes(&self.fpm_status[..self.fpm_status.len() - 1]))
    }

    /// Takes the answer to the last question. Returns the next one. `None` if no other follows, and
    /// in a child process of the script.
    pub(crate) fn question(&mut self, answer: i64) -> Option<&'static CStr> {
        if !children::is_worker() {
            return None;
        }
        let next = self.questions.next(answer, sapi::has_failed());
        if next.is_none()
            && let Some(caches) = self.questions.caches()
        {
            self.client.note_caches(caches);
        }
        next
    }

    /// Returns whether the request had a session, if it was selected to delete old ones.
    pub(crate) fn had_session(&self) -> bool {
        self.questions.had_session()
    }

    /// Notes what the script has used, and leaves its folder. PHP runs shutdown functions and
    /// destructors and frees the script's memory afterwards.
    pub(crate) fn ended(&mut self) {
        if let Some(folder) = self.facts.working_directory
            && let Err(error) = std::env::set_current_dir(folder)
        {
            let what = format!(
                "shutdown functions run in the script's folder, because the folder {} of `chdir` \
                 cannot be entered: {error}",
                folder.display()
            );
            self.log(Level::Warning, what.as_bytes());
        }
        if children::is_worker() {
            self.client.note_peak(sapi::memory_peak());
        }
    }

    /// Fills `into` with content of the request. Returns the number of bytes; 0 at the end and
    /// after an error.
    pub(crate) fn read_body(&mut self, buffer: &mut [u8]) -> usize {
        self.body.read(buffer).unwrap_or_else(|error: io::Error| {
            self.log(
                Level::Error,
                format!("cannot read the request's content: {error}").as_bytes(),
            );
            0
        })
    }

    /// Logs why PHP did not open the script. Returns the status and the content of the response.
    pub(crate) fn refuse(&self) -> (c_int, &'static CStr) {
        let script = self.script().unwrap_or_default();
        let refusal = ScriptRefusal::of(Path::new(OsStr::from_bytes(script)));
        self.log(Level::Notice, refusal.reason.as_bytes());
        (refusal.status, refusal.page)
    }
}

fn raw_pair((name, value): (&[u8], &[u8])) -> raw::Pair {
    raw::Pair {
        name: raw_text(name),
        value: raw_text(value),
    }
}

/// `text` must be followed by a NUL, which is the case for all texts of a request.
fn raw_text(text: &[u8]) -> raw::Text {
    raw_bytes(text)
}

fn raw_bytes(bytes: &[u8]) -> raw::Text {
    raw::Text {
        at: bytes.as_ptr().cast(),
        length: bytes.len(),
    }
}
