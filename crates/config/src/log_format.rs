//! Formats of the access log, in the words of Apache's `LogFormat`.

mod time;

use std::fmt;

pub use time::{LoggedTime, TimeField, TimeForm, TimePart, TimePattern};

/// A line of the access log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFormat {
    text: String,
    parts: Vec<LogPart>,
}

/// A part of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogPart {
    /// This text.
    Text(String),
    /// A property of the request.
    Value(LogValue),
    /// A property of the request where the status is one of these, else a dash.
    Conditional(StatusCondition, LogValue),
}

/// A condition on the status of the response, as in `%400,501{User-Agent}i`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatusCondition {
    statuses: Vec<u16>,
    /// The condition begins with `!`: the status is none of these.
    is_negated: bool,
}

impl StatusCondition {
    /// Returns whether the condition holds for a status. It always does without any status.
    pub fn holds(&self, status: u16) -> bool {
        self.statuses.is_empty() || self.statuses.contains(&status) != self.is_negated
    }

    /// Reads the rest of a number that begins with that digit.
    fn add(&mut self, digit: char, rest: &mut std::str::Chars<'_>) {
        let text = rest.as_str();
        let end = text.find(|next: char| !next.is_ascii_digit()).unwrap_or(text.len());
        let number = format!("{digit}{}", &text[..end]).parse();
        // A number that no status has never holds.
        self.statuses.push(number.unwrap_or(u16::MAX));
        *rest = text[end..].chars();
    }
}

/// A property of a request. The comments name Apache's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogValue {
    /// `%h`, `%a`: the client's address.
    Client,
    /// `%{c}a`: the address at the other end of the connection.
    Hop,
    /// `%A`: the address that the client connected to.
    LocalAddress,
    /// `%B`: bytes of content that were sent.
    Bytes,
    /// `%b`: the same, `-` for 0.
    BytesOrDash,
    /// `%O`: all bytes that were sent, with the head.
    AllBytesSent,
    /// `%I`: all bytes of the request that were received, with its head.
    AllBytesReceived,
    /// `%S`: `%I` and `%O` together.
    AllBytes,
    /// `%T`, `%{s}T`: how long the request took, in seconds.
    Seconds,
    /// `%{ms}T`: in milliseconds.
    Milliseconds,
    /// `%D`, `%{us}T`: in microseconds.
    Microseconds,
    /// `%{NAME}i`: a field of the request.
    Field(String),
    /// `%{NAME}o`: a field of the response.
    ResponseField(String),
    /// `%{NAME}C`: a cookie of the request.
    Cookie(String),
    /// `%{NAME}e`: an environment variable that directives have set.
    Environment(String),
    /// `%f`: the file that was found for the request, or that is missing; the URL of a redirect
    /// that a RewriteRule has made.
    File,
    /// `%R`: the handler of that file.
    Handler,
    /// `%k`: requests that came before on the connection.
    Earlier,
    /// `%P`, `%{pid}P`: the number of the front's process.
    Process,
    /// `%H`: the protocol version.
    Protocol,
    /// `%m`: the method.
    Method,
    /// `%p`, `%{canonical}p`: the port of the listener.
    Port,
    /// `%{local}p`: the port that the client reached.
    LocalPort,
    /// `%{remote}p`: the client's port.
    RemotePort,
    /// `%q`: the query with its `?`, or nothing; that which rules have made of it.
    Query,
    /// `%r`: the request line.
    RequestLine,
    /// `%s`, `%>s`: the status.
    Status,
    /// `%t`, `%{FORM}t`, `%{begin:FORM}t`, `%{end:FORM}t`: a time of the request.
    Time(LoggedTime, TimeForm),
    /// `%{NAME}n`: a note of a directive or of a script.
    Note(String),
    /// `%{NAME}x`, `%{cipher}c`: a variable of mod_ssl, in upper case.
    Tls(String),
    /// `%^FB`: the time until the head of the response was there, in microseconds.
    FirstByte,
    /// `%{tid}P`: the number of the front's thread.
    Thread,
    /// `%{hextid}P`: the same in hexadecimal digits.
    ThreadInHex,
    /// `%u`: the user who has authenticated, or has tried to.
    User,
    /// `%U`: the path of the URL, decoded and normal, without the query; of a folder with an index
    /// file, that of the file.
    Path,
    /// `%v`: the site's name.
    Site,
    /// `%V`: the host that the client named.
    Host,
    /// `%^pt`: how long the script ran, in microseconds.
    ScriptTime,
    /// `%^pq`: how long the request waited for a worker, in microseconds.
    QueueTime,
    /// `%^pm`: bytes of memory that PHP had for the script at most.
    ScriptMemory,
    /// `%^pc`: the script's time on a processor, in microseconds.
    ScriptCpu,
    /// `%^pw`: the process of the script's worker.
    Worker,
    /// `%X`: `X` where the connection broke before the end of the response, else `+`.
    Completion,
}

impl LogFormat {
    /// Parses a format.
    ///
    /// # Errors
    /// The mistake, and advice.
    pub(crate) fn parse(text: &str) -> Result<LogFormat, (String, String)> {
        let mut parts = Vec::new();
        let mut plain = String::new();
        let mut rest = text.chars();
        while let Some(character) = rest.next() {
            match character {
                '\\' => match rest.next() {
                    Some('n') => return Err(mistake("`\\n` in a log format", LINES)),
                    Some('t') => plain.push('\t'),
                    Some(other) => plain.push(other),
                    None => plain.push('\\'),
                },
                '%' => match word(&mut rest)? {
                    LogPart::Text(text) => plain.push_str(&text),
                    value => {
                        if !plain.is_empty() {
                            parts.push(LogPart::Text(std::mem::take(&mut plain)));
                        }
                        parts.push(value);
                    }
                },
                _ if character.is_control() && character != '\t' => {
                    return Err(mistake("a control character in a log format", LINES));
                }
                _ => plain.push(character),
            }
        }
        if !plain.is_empty() {
            parts.push(LogPart::Text(plain));
        }
        Ok(LogFormat { text: text.to_owned(), parts })
    }

    /// Returns whether a line tells how the request was resolved: its path, query, file, handler,
    /// environment or notes, and when its head was there.
    pub fn tells_resolution(&self) -> bool {
        use LogValue::{Environment, File, FirstByte, Handler, Note, Path, Query};
        self.values().any(|value| {
            matches!(value, Environment(_) | File | FirstByte | Handler | Note(_) | Path | Query)
        })
    }

    /// Returns whether a line tells the file that the request was for.
    pub fn tells_file(&self) -> bool {
        self.values().any(|value| *value == LogValue::File)
    }

    /// Returns whether a line tells how a script has run.
    pub fn tells_script(&self) -> bool {
        use LogValue::{QueueTime, ScriptMemory, ScriptTime, Worker};
        self.tells_cpu()
            || self
                .values()
                .any(|value| matches!(value, QueueTime | ScriptMemory | ScriptTime | Worker))
    }

    /// Returns whether a line tells a script's time on a processor, which workers measure on
    /// request.
    pub fn tells_cpu(&self) -> bool {
        self.values().any(|value| *value == LogValue::ScriptCpu)
    }

    /// Returns the names of the variables that a line tells.
    pub fn told_variables(&self) -> impl Iterator<Item = &str> {
        self.values().filter_map(|value| match value {
            LogValue::Environment(name) => Some(name.as_str()),
            _ => None,
        })
    }

    /// Returns the names of the notes that a line tells.
    pub fn told_notes(&self) -> impl Iterator<Item = &str> {
        self.values().filter_map(|value| match value {
            LogValue::Note(name) => Some(name.as_str()),
            _ => None,
        })
    }

    fn values(&self) -> impl Iterator<Item = &LogValue> {
        self.parts.iter().filter_map(|part| match part {
            LogPart::Text(_) => None,
            LogPart::Value(value) | LogPart::Conditional(_, value) => Some(value),
        })
    }

    /// Returns the parts of a line, in order.
    pub fn parts(&self) -> &[LogPart] {
        &self.parts
    }
}

/// Writes the value in the form that the configuration has.
impl fmt::Display for LogFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Reads a word behind its `%`. A text is a percent sign, or the dash of a value that is never
/// known.
fn word(rest: &mut std::str::Chars<'_>) -> Result<LogPart, (String, String)> {
    let (mut argument, mut condition) = (None, StatusCondition::default());
    if let Some(after) = rest.as_str().strip_prefix('%') {
        *rest = after.chars();
        return Ok(LogPart::Text("%".to_owned()));
    }
    let value = loop {
        let Some(character) = rest.next() else {
            return Err(mistake("a log format ends in `%`", "write `%%` for a percent sign"));
        };
        match character {
            // They choose among internal requests; here is one record for all of them.
            '>' | '<' | ',' => {}
            '!' => condition.is_negated = !condition.is_negated,
            '0'..='9' => condition.add(character, rest),
            '{' => {
                let Some((inner, after)) = rest.as_str().split_once('}') else {
                    return Err(mistake("`%{` without its `}` in a log format", WORDS));
                };
                argument = Some(inner);
                *rest = after.chars();
            }
            // Two letters follow, as in Apache's `%^FB`.
            '^' => {
                let letters: String = rest.by_ref().take(2).collect();
                break value_of_letters(&letters, argument)?;
            }
            letter => break value(letter, argument)?,
        }
    };
    Ok(match value {
        // The condition does not matter.
        None => LogPart::Text("-".to_owned()),
        Some(value) if condition.statuses.is_empty() => LogPart::Value(value),
        Some(value) => LogPart::Conditional(condition, value),
    })
}

/// Words of two letters: properties of the script that answered the request are Howdah's own.
/// `None`: a value that is never known.
fn value_of_letters(
    letters: &str,
    argument: Option<&str>,
) -> Result<Option<LogValue>, (String, String)> {
    Ok(Some(match (letters, argument) {
        ("pt", None) => LogValue::ScriptTime,
        ("pq", None) => LogValue::QueueTime,
        ("pm", None) => LogValue::ScriptMemory,
        ("pc", None) => LogValue::ScriptCpu,
        ("pw", None) => LogValue::Worker,
        ("FB", None) => LogValue::FirstByte,
        // Trailers of a request, which nothing sees, and of a response.
        ("ti" | "to", Some(name)) if !name.is_empty() => return Ok(None),
        _ => return Err(unknown(&format!("^{letters}"), argument)),
    }))
}

fn unknown(word: &str, argument: Option<&str>) -> (String, String) {
    let argument = argument.map(|inner| format!("{{{inner}}}")).unwrap_or_default();
    mistake(&format!("`%{argument}{word}` is not known in a log format"), WORDS)
}

fn value(letter: char, argument: Option<&str>) -> Result<Option<LogValue>, (String, String)> {
    // The case of these arguments does not matter to Apache.
    let lower = argument.filter(|_| "TpPc".contains(letter)).map(str::to_ascii_lowercase);
    let argument = lower.as_deref().or(argument);
    Ok(Some(match (letter, argument) {
        ('h' | 'a', None) => LogValue::Client,
        ('a' | 'h', Some("c")) => LogValue::Hop,
        ('A', None) => LogValue::LocalAddress,
        ('B', None) => LogValue::Bytes,
        ('b', None) => LogValue::BytesOrDash,
        ('D', None) | ('T', Some("us")) => LogValue::Microseconds,
        ('T', Some("ms")) => LogValue::Milliseconds,
        ('T', None | Some("s")) => LogValue::Seconds,
        ('i', Some(name)) if !name.is_empty() => LogValue::Field(name.to_owned()),
        ('o', Some(name)) if !name.is_empty() => LogValue::ResponseField(name.to_owned()),
        ('C', Some(name)) if !name.is_empty() => LogValue::Cookie(name.to_owned()),
        ('e', Some(name)) if !name.is_empty() => LogValue::Environment(name.to_owned()),
        ('f', None) => LogValue::File,
        ('R', None) => LogValue::Handler,
        ('k', None) => LogValue::Earlier,
        ('P', None | Some("pid")) => LogValue::Process,
        ('P', Some("tid")) => LogValue::Thread,
        ('P', Some("hextid")) => LogValue::ThreadInHex,
        ('O', None) => LogValue::AllBytesSent,
        ('I', None) => LogValue::AllBytesReceived,
        ('S', None) => LogValue::AllBytes,
        ('H', None) => LogValue::Protocol,
        ('m', None) => LogValue::Method,
        ('p', None | Some("canonical")) => LogValue::Port,
        ('p', Some("local")) => LogValue::LocalPort,
        ('p', Some("remote")) => LogValue::RemotePort,
        ('q', None) => LogValue::Query,
        ('r', None) => LogValue::RequestLine,
        ('s', None) => LogValue::Status,
        ('t', form) => {
            let (time, form) = time::parse(form.unwrap_or_default())
                .ok_or_else(|| mistake("a line break in a log format", LINES))?;
            LogValue::Time(time, form)
        }
        ('u', None) => LogValue::User,
        ('U', None) => LogValue::Path,
        ('v', None) => LogValue::Site,
        ('V', None) => LogValue::Host,
        ('X', None) => LogValue::Completion,
        ('n', Some(name)) if !name.is_empty() => LogValue::Note(name.to_owned()),
        ('x' | 'c', Some(name)) => {
            let name = match letter {
                'x' => Some(name),
                _ => short_tls_name(name),
            };
            let name = name.map(str::to_ascii_uppercase);
            let is_known = |name: &String| name.starts_with("SSL_") || name == "HTTPS";
            LogValue::Tls(
                name.filter(is_known).ok_or_else(|| unknown(&letter.to_string(), argument))?,
            )
        }
        // The name that identd gives, and the number of an error's line, which is in no such line.
        ('l', None) | ('L', None | Some("c")) => return Ok(None),
        _ => return Err(unknown(&letter.to_string(), argument)),
    }))
}

/// The names of `%{…}c`, in lower case, as variables of mod_ssl.
fn short_tls_name(name: &str) -> Option<&'static str> {
    Some(match name {
        "version" => "SSL_PROTOCOL",
        "cipher" => "SSL_CIPHER",
        "subjectdn" | "clientcert" => "SSL_CLIENT_S_DN",
        "issuerdn" | "cacert" => "SSL_CLIENT_I_DN",
        // A client's certificate that is not valid gets no request: both are always a dash.
        "errcode" | "errstr" => "SSL_CLIENT_VERIFY_ERRSTR",
        _ => return None,
    })
}

fn mistake(message: &str, help: &str) -> (String, String) {
    (message.to_owned(), help.to_owned())
}

const LINES: &str = "a record is one line; leave it out";

const WORDS: &str = "the words are %h %a %{c}a %A %B %b %{cipher}c %{NAME}C %D %{NAME}e %f %H \
                     %{NAME}i %I %k %l %L %m %{NAME}n %{NAME}o %O %p %{local}p %{remote}p %P \
                     %{tid}P %q %r %R %>s %S %t %{sec}t %{msec_frac}t %{end:%T}t %T %{ms}T %u %U \
                     %v %V %{SSL_NAME}x %X %^FB %%, for scripts %^pt %^pq %^pm %^pc %^pw, and each \
                     with statuses, as in %400,501{NAME}i and %!200b";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats() {
        let text = |text: &str| LogPart::Text(text.to_owned());
        let value = LogPart::Value;
        let rows = [
            ("", vec![]),
            ("a%%b", vec![text("a%b")]),
            ("%h %l", vec![value(LogValue::Client), text(" -")]),
            ("%>s%<s", vec![value(LogValue::Status), value(LogValue::Status)]),
            ("\\\"%r\\\"\\t", vec![text("\""), value(LogValue::RequestLine), text("\"\t")]),
            ("%{User-Agent}i", vec![value(LogValue::Field("User-Agent".to_owned()))]),
            ("%{X-Y}o", vec![value(LogValue::ResponseField("X-Y".to_owned()))]),
            (
                "%{id}C%{A}e",
                vec![
                    value(LogValue::Cookie("id".to_owned())),
                    value(LogValue::Environment("A".to_owned())),
                ],
            ),
            (
                "%I%O%S",
                vec![
                    value(LogValue::AllBytesReceived),
                    value(LogValue::AllBytesSent),
                    value(LogValue::AllBytes),
                ],
            ),
            ("%>{c}a%{c}>a", vec![value(LogValue::Hop), value(LogValue::Hop)]),
            ("%^pt %>^pw", vec![value(LogValue::ScriptTime), text(" "), value(LogValue::Worker)]),
            (
                "%{US}T%{msec}t%t",
                vec![
                    value(LogValue::Microseconds),
                    value(LogValue::Time(LoggedTime::Begin, TimeForm::Milliseconds)),
                    value(LogValue::Time(LoggedTime::Begin, TimeForm::Common)),
                ],
            ),
            (
                "%!200,304{Referer}i%404>b%!m%999999b",
                vec![
                    LogPart::Conditional(
                        StatusCondition {
                            statuses: vec![200, 304],
                            is_negated: true,
                        },
                        LogValue::Field("Referer".to_owned()),
                    ),
                    LogPart::Conditional(
                        StatusCondition { statuses: vec![404], is_negated: false },
                        LogValue::BytesOrDash,
                    ),
                    value(LogValue::Method),
                    LogPart::Conditional(
                        StatusCondition {
                            statuses: vec![u16::MAX],
                            is_negated: false,
                        },
                        LogValue::BytesOrDash,
                    ),
                ],
            ),
            (
                "%{ssl_protocol}x%{Cipher}c%{X}n",
                vec![
                    value(LogValue::Tls("SSL_PROTOCOL".to_owned())),
                    value(LogValue::Tls("SSL_CIPHER".to_owned())),
                    value(LogValue::Note("X".to_owned())),
                ],
            ),
            ("%L %200l %{X}^ti %{X}^to", vec![text("- - - -")]),
        ];
        for (format, expected) in rows {
            let parsed = LogFormat::parse(format).unwrap();
            assert_eq!(parsed.parts(), expected, "{format}");
            assert_eq!(parsed.to_string(), format);
        }
        for (format, why) in [
            ("%", "ends in `%`"),
            ("%{a", "without its `}`"),
            ("%z", "`%z` is not known"),
            ("%n", "`%n` is not known"),
            ("%{REMOTE_ADDR}x", "`%{REMOTE_ADDR}x` is not known"),
            ("%{none}c", "`%{none}c` is not known"),
            ("%o", "`%o` is not known"),
            ("%i", "`%i` is not known"),
            ("%{}i", "`%{}i` is not known"),
            ("%400,", "ends in `%`"),
            ("a\\nb", "`\\n`"),
            ("a\nb", "a control character"),
            ("%{%H%n}t", "a line break"),
            ("%^FU", "`%^FU` is not known"),
            ("%^ti", "`%^ti` is not known"),
            ("%{ms}^pt", "`%{ms}^pt` is not known"),
            ("%^p", "%^pt %^pq %^pm"),
        ] {
            let (message, help) = LogFormat::parse(format).unwrap_err();
            assert!(format!("{message} {help}").contains(why), "{format}: {message} {help}");
        }
    }
}
