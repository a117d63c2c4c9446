//! `howdah-php run`: runs a script in a loop, without a server.
//!
//! The time per request is the lower limit for the time that Howdah can reach with the script.
//! Scripts behave as in a worker, because both use the same [`PhpRequest`].

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use howdah_ipc::request::{DecodedRequest, RequestEncoder};
use howdah_ipc::response::HeadKind;

use crate::EXIT_USAGE;
use crate::body::BodyReader;
use crate::children;
use crate::ini::{IniPair, PoolIni};
use crate::log::{self, Level};
use crate::lookup::EncodedSlashMeaning;
use crate::php_request::{ClientGone, Field, HeadError, PhpRequest, ResponseSink, WorkerFacts};
use crate::process;
use crate::sapi::{Engine, EngineOptions, RequestOutcome};
use crate::unread_ini;

const USAGE: &str = "\
usage: howdah-php run SCRIPT [OPTION]...
  --repeat N              run it N times; the time per request goes to stderr
  --discard               throw the output away
  --head                  print status line and fields before the body
  --close-after BYTES     be a client that disconnects after BYTES bytes of the body
  --method METHOD         GET
  --uri URI               path and query; the script's own path below the document root
  --path-info TEXT        PATH_INFO
  --root DIR              document root; the script's folder
  --body FILE             content of the request
  --inline-body           hand the content over in memory, not by descriptor
  --field 'NAME: VALUE'   header field of the request, repeatable
  --request-ini NAME=VALUE  ini value of the request, repeatable
  -d NAME=VALUE           ini value of the pool, repeatable
  --admin NAME=VALUE      ini value that scripts cannot change, repeatable
  --ini-file FILE         instead of PHP's own php.ini
  --sapi NAME             instead of apache2handler
  --pcntl                 with the functions of PHP's pcntl extension";

/// The command line: the script, the number of runs, and the parts of the response to print.
#[derive(Debug, Default)]
struct RunOptions {
    script: PathBuf,
    repeat: u64,
    output: OutputOptions,
    method: String,
    uri: Option<String>,
    path_info: String,
    root: Option<PathBuf>,
    body: Option<PathBuf>,
    inline_body: bool,
    fields: Vec<IniPair>,
    request_ini: Vec<IniPair>,
    ini: Vec<IniPair>,
    admin_ini: Vec<IniPair>,
    ini_file: Option<PathBuf>,
    has_pcntl: bool,
    sapi: Option<String>,
}

/// Prints or discards the response.
#[derive(Debug, Clone, Default)]
struct OutputOptions {
    discard: bool,
    show_head: bool,
    close_after: Option<usize>,
    written: usize,
}

/// Runs the script that the command line names.
pub fn main(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let options = match RunOptions::parse(arguments) {
        Ok(options) => options,
        Err(problem) => {
            eprintln!("howdah-php run: {problem}\n{USAGE}");
            return ExitCode::from(EXIT_USAGE);
        }
    };
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("howdah-php run: {problem}");
            ExitCode::FAILURE
        }
    }
}

impl RunOptions {
    fn parse(mut arguments: impl Iterator<Item = OsString>) -> Result<RunOptions, String> {
        let mut options = RunOptions {
            repeat: 1,
            method: "GET".to_owned(),
            ..RunOptions::default()
        };
        while let Some(argument) = arguments.next() {
            let mut value =
                || arguments.next().ok_or_else(|| format!("{} needs a value", argument.display()));
            match argument.to_str() {
                Some("--repeat") => options.repeat = number(&value()?)?,
                Some("--discard") => options.output.discard = true,
                Some("--head") => options.output.show_head = true,
                Some("--close-after") => options.output.close_after = Some(number(&value()?)?),
                Some("--method") => options.method = text(value()?)?,
                Some("--uri") => options.uri = Some(text(value()?)?),
                Some("--path-info") => options.path_info = text(value()?)?,
                Some("--root") => options.root = Some(value()?.into()),
                Some("--body") => options.body = Some(value()?.into()),
                Some("--inline-body") => options.inline_body = true,
                Some("--field") => options.fields.push(pair(&text(value()?)?, ':')?),
                Some("--request-ini") => options.request_ini.push(pair(&text(value()?)?, '=')?),
                Some("-d") => options.ini.push(pair(&text(value()?)?, '=')?),
                Some("--admin") => options.admin_ini.push(pair(&text(value()?)?, '=')?),
                Some("--sapi") => options.sapi = Some(text(value()?)?),
                Some("--pcntl") => options.has_pcntl = true,
                Some("--ini-file") => options.ini_file = Some(value()?.into()),
                Some(option) if option.starts_with('-') => {
                    return Err(format!("unknown option {option}"));
                }
                _ if options.script.as_os_str().is_empty() => options.script = absolute(&argument)?,
                _ => return Err(format!("one script only, not also {}", argument.display())),
            }
        }
        if options.script.as_os_str().is_empty() {
            Err("no script given".to_owned())
        } else {
            Ok(options)
        }
    }

    /// Returns the request's content, if it goes into the slot, and its length.
    fn read_body(&self) -> Result<(Vec<u8>, u64), String> {
        let Some(path) = &self.body else {
            return Ok((Vec::new(), 0));
        };
        let unreadable = |error| format!("{}: {error}", path.display());
        let length = path.metadata().map_err(unreadable)?.len();
        let body = match self.inline_body {
            true => std::fs::read(path).map_err(unreadable)?,
            false => Vec::new(),
        };
        Ok((body, length))
    }

    /// Encodes the request as the front does.
    fn encode<'e>(
        &self,
        encoder: &'e mut RequestEncoder,
        body: &[u8],
        body_length: u64,
    ) -> Result<&'e [u8], String> {
        let folder = self.script.parent().unwrap_or(Path::new("/"));
        let root = self.root.as_deref().unwrap_or(folder);
        let below = self.script.strip_prefix(root).unwrap_or(&self.script);
        let script_name = format!("/{}", below.display());
        let uri = self.uri.clone().unwrap_or_else(|| format!("{script_name}{}", self.path_info));
        let query = uri.split_once('?').map(|(_, query)| query.as_bytes());
        let field = |wanted: &str| {
            let found = self.fields.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted));
            found.map(|(_, value)| value.as_bytes())
        };
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_err(|error| error.to_string())?;
        let root = root.as_os_str().as_bytes();
        let script = self.script.as_os_str().as_bytes();
        let lines: Vec<String> =
            self.fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        encoder.begin(
            u64::try_from(now.as_micros()).unwrap_or(u64::MAX),
            [
                Some(self.method.as_bytes()),
                Some(script),
                Some(uri.as_bytes()),
                query,
                field("content-type"),
                field("cookie"),
                field("authorization"),
                Some(root),
                Some(lines.concat().as_bytes()),
            ],
        );
        let variables: [(&str, &[u8]); 12] = [
            ("GATEWAY_INTERFACE", b"CGI/1.1"),
            ("SERVER_SOFTWARE", b"Howdah"),
            ("SERVER_PROTOCOL", b"HTTP/1.1"),
            ("SERVER_NAME", b"localhost"),
            ("SERVER_PORT", b"80"),
            ("REMOTE_ADDR", b"127.0.0.1"),
            ("REQUEST_METHOD", self.method.as_bytes()),
            ("REQUEST_URI", uri.as_bytes()),
            ("QUERY_STRING", query.unwrap_or_default()),
            ("DOCUMENT_ROOT", root),
            ("SCRIPT_FILENAME", script),
            ("SCRIPT_NAME", script_name.as_bytes()),
        ];
        let entries = encoder.entries();
        for (name, value) in variables {
            entries.variable(name.as_bytes(), value);
        }
        if !self.path_info.is_empty() {
            entries.variable(b"PATH_INFO", self.path_info.as_bytes());
        }
        if body_length > 0 {
            entries.variable(b"CONTENT_LENGTH", body_length.to_string().as_bytes());
        }
        self.encode_fields(encoder);
        let inline = self.inline_body || body_length == 0;
        Ok(if inline {
            encoder.finish_inline(body)
        } else {
            encoder.finish_file(body_length)
        })
    }

    /// Encodes the variables of the request's fields, and the values of ini settings.
    fn encode_fields(&self, encoder: &mut RequestEncoder) {
        let entries = encoder.entries();
        for (name, value) in &self.fields {
            let name = name.to_ascii_uppercase().replace('-', "_");
            let name = if name == "CONTENT_TYPE" {
                name
            } else {
                format!("HTTP_{name}")
            };
            entries.variable(name.as_bytes(), value.as_bytes());
        }
        for (name, value) in &self.request_ini {
            entries.ini(name.as_bytes(), value.as_bytes());
        }
    }
}

fn run(options: &RunOptions) -> Result<(), String> {
    let mut engine = Engine::start(
        &EngineOptions {
            ini_file: options.ini_file.as_deref(),
            has_pcntl: options.has_pcntl,
            sapi: options.sapi.as_deref().unwrap_or_default(),
            own_folders: "",
        },
        &PoolIni::new(&options.ini, &options.admin_ini),
    )
    .map_err(|reason| format!("PHP did not start: {reason}"))?;
    if options.repeat == 0 {
        // PHP's settings alone are looked at.
        let scanned = std::env::var(unread_ini::SCAN_FOLDERS).ok();
        unread_ini::tell(&engine.facts().ini_folder, scanned.as_deref());
        log::write(Level::Notice, b"PHP has started", None);
    }
    children::prepare(std::iter::empty()).map_err(|error| error.to_string())?;
    let (body, body_length) = options.read_body()?;
    let mut encoder = RequestEncoder::default();
    let encoded = options.encode(&mut encoder, &body, body_length)?;
    let (begun, processor_begun) = (Instant::now(), process::processor_time());
    for served in 0..options.repeat {
        let request = DecodedRequest::decode(encoded).ok_or("the request is too long")?;
        let content = match &options.body {
            Some(path) if !options.inline_body => {
                let file =
                    File::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
                BodyReader::File { file, position: 0 }
            }
            _ => BodyReader::Inline(request.inline_body()),
        };
        let mut output = options.output.clone();
        let call = PhpRequest::new(
            request,
            content,
            &mut output,
            WorkerFacts {
                pool: c"run",
                served,
                collects_sessions: false,
                asks_caches: false,
                modules: "",
                slashes: EncodedSlashMeaning::Refused,
                root: None,
                working_directory: None,
            },
        );
        if engine.execute(call) == RequestOutcome::Broken {
            return Err("PHP's state is broken, a worker would end here".to_owned());
        }
    }
    if options.repeat > 1 {
        let spent = process::processor_time() - processor_begun;
        tell_times(options.repeat, begun.elapsed().as_secs_f64(), spent);
    }
    engine.stop();
    Ok(())
}

/// Writes the time that each of the requests took, from the seconds of all.
fn tell_times(requests: u64, elapsed: f64, processor: f64) {
    let each = |seconds: f64| seconds * 1e6 / requests as f64;
    let (elapsed, processor) = (each(elapsed), each(processor));
    eprintln!("{requests} requests, each {elapsed:.2} µs, {processor:.2} µs of the processor");
}

impl ResponseSink for OutputOptions {
    fn head(
        &mut self,
        kind: HeadKind,
        status: u16,
        reason: &[u8],
        fields: &mut dyn Iterator<Item = Field<'_>>,
    ) -> Result<(), HeadError> {
        let mut head = format!("HTTP/1.1 {status} ").into_bytes();
        head.extend_from_slice(reason);
        head.extend_from_slice(b"\r\n");
        for (name, value) in fields {
            for part in [name, b": ", value, b"\r\n"] {
                head.extend_from_slice(part);
            }
        }
        head.extend_from_slice(b"\r\n");
        let _ = kind; // An interim head looks the same, and another follows.
        if self.show_head && !self.discard {
            self.put(&head).map_err(|ClientGone| HeadError::ClientGone)
        } else {
            Ok(())
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), ClientGone> {
        if self.discard {
            return Ok(());
        }
        let Some(close_after) = self.close_after else {
            return self.put(bytes);
        };
        let wanted = close_after - self.written;
        if bytes.len() <= wanted {
            self.written += bytes.len();
            return self.put(bytes);
        }
        self.written = close_after;
        self.put(&bytes[..wanted])?;
        Err(ClientGone)
    }

    fn flush(&mut self) -> Result<(), ClientGone> {
        if self.close_after.is_some_and(|close_after| self.written >= close_after) {
            Err(ClientGone)
        } else {
            Ok(())
        }
    }

    fn end(&mut self) {}

    fn time_limit(&mut self, _seconds: i64) {}
}

impl OutputOptions {
    fn put(&self, bytes: &[u8]) -> Result<(), ClientGone> {
        let mut stdout = std::io::stdout().lock();
        stdout.write_all(bytes).and_then(|()| stdout.flush()).map_err(|_| ClientGone)
    }
}

fn text(value: OsString) -> Result<String, String> {
    value.into_string().map_err(|value| format!("not UTF-8: {}", value.display()))
}

fn number<N: std::str::FromStr>(value: &OsStr) -> Result<N, String> {
    let parsed = value.to_str().and_then(|value| value.parse().ok());
    parsed.ok_or_else(|| format!("not a number: {}", value.display()))
}

fn pair(value: &str, separator: char) -> Result<IniPair, String> {
    let (name, value) = value
        .split_once(separator)
        .ok_or_else(|| format!("no {separator:?} in {value:?}"))?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

fn absolute(path: &OsStr) -> Result<PathBuf, String> {
    std::path::absolute(path).map_err(|error| format!("{}: {error}", path.display()))
}
