//! Formats of the access log, in the words of Apache's `LogFormat`.

use std::fmt;

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
    /// `%f`: the file that was found for the request.
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
    /// `%p`: the port that the client asked.
    Port,
    /// `%{local}p`: the port that the client reached.
    LocalPort,
    /// `%{remote}p`: the client's port.
    RemotePort,
    /// `%q`: the query with its `?`, or nothing.
    Query,
    /// `%r`: the request line.
    RequestLine,
    /// `%s`, `%>s`: the status.
    Status,
    /// `%t`: the time of the request, as `[06/Nov/1994:08:49:37 +0000]`.
    Time,
    /// `%{sec}t`: the same in seconds since 1970.
    TimeSeconds,
    /// `%{msec}t`: in milliseconds.
    TimeMilliseconds,
    /// `%{usec}t`: in microseconds.
    TimeMicroseconds,
    /// `%u`: the user who has authenticated.
    User,
    /// `%U`: the path of the URL.
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
                    None => plain.push('%'),
                    Some(value) => {
                        if !plain.is_empty() {
                            parts.push(LogPart::Text(std::mem::take(&mut plain)));
                        }
                        parts.extend(value.map(LogPart::Value).or(Some(dash())));
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

    /// Returns whether a line tells how the request was resolved: its file, handler or environment.
    pub fn tells_resolution(&self) -> bool {
        self.parts.iter().any(|part| {
            matches!(
                part,
                LogPart::Value(LogValue::Environment(_) | LogValue::File | LogValue::Handler)
            )
        })
    }

    /// Returns whether a line tells how a script has run.
    pub fn tells_script(&self) -> bool {
        use LogValue::{QueueTime, ScriptMemory, ScriptTime, Worker};
        self.tells_cpu()
            || self.parts.iter().any(|part| {
                matches!(part, LogPart::Value(QueueTime | ScriptMemory | ScriptTime | Worker))
            })
    }

    /// Returns whether a line tells a script's time on a processor, which workers measure on
    /// request.
    pub fn tells_cpu(&self) -> bool {
        self.parts.contains(&LogPart::Value(LogValue::ScriptCpu))
    }

    /// Returns the parts of a line, in order.
    pub fn parts(&self) -> &[LogPart] {
        &self.parts
    }
}

/// As in the configuration.
impl fmt::Display for LogFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Returns the dash that stands for an unknown value, as in Apache's log.
fn dash() -> LogPart {
    LogPart::Text("-".to_owned())
}

/// Reads a word behind its `%`. `None` is a percent sign, `Some(None)` a value that is never known.
fn word(rest: &mut std::str::Chars<'_>) -> Result<Option<Option<LogValue>>, (String, String)> {
    let mut argument = None;
    loop {
        let Some(character) = rest.next() else {
            return Err(mistake("a log format ends in `%`", "write `%%` for a percent sign"));
        };
        match character {
            // Which of several internal requests is meant: there is one record for all of them.
            '>' | '<' => {}
            '{' => {
                let Some((inner, after)) = rest.as_str().split_once('}') else {
                    return Err(mistake("`%{` without its `}` in a log format", WORDS));
                };
                argument = Some(inner);
                *rest = after.chars();
            }
            '!' | '0'..='9' => {
                return Err(mistake("a condition on the status in a log format", WORDS));
            }
            '%' if argument.is_none() => return Ok(None),
            // Two letters follow, as in Apache's `%^FB`.
            '^' => {
                let letters: String = rest.by_ref().take(2).collect();
                return script_value(&letters, argument).map(|value| Some(Some(value)));
            }
            letter => return value(letter, argument).map(Some),
        }
    }
}

/// A property of the script that answered the request.
fn script_value(letters: &str, argument: Option<&str>) -> Result<LogValue, (String, String)> {
    Ok(match (letters, argument) {
        ("pt", None) => LogValue::ScriptTime,
        ("pq", None) => LogValue::QueueTime,
        ("pm", None) => LogValue::ScriptMemory,
        ("pc", None) => LogValue::ScriptCpu,
        ("pw", None) => LogValue::Worker,
        _ => {
            let argument = argument.map(|inner| format!("{{{inner}}}")).unwrap_or_default();
            let message = format!("`%{argument}^{letters}` is not known in a log format");
            return Err(mistake(&message, WORDS));
        }
    })
}

fn value(letter: char, argument: Option<&str>) -> Result<Option<LogValue>, (String, String)> {
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
        ('t', None) => LogValue::Time,
        ('t', Some("sec")) => LogValue::TimeSeconds,
        ('t', Some("msec")) => LogValue::TimeMilliseconds,
        ('t', Some("usec")) => LogValue::TimeMicroseconds,
        ('u', None) => LogValue::User,
        ('U', None) => LogValue::Path,
        ('v', None) => LogValue::Site,
        ('V', None) => LogValue::Host,
        ('X', None) => LogValue::Completion,
        // The name that identd gives.
        ('l', None) => return Ok(None),
        ('n', Some(_)) => {
            let message = format!("`%{{…}}{letter}` in a log format: notes stay with their script");
            return Err(mistake(&message, "let the script set a field and write `%{NAME}o`"));
        }
        _ => {
            let argument = argument.map(|inner| format!("{{{inner}}}")).unwrap_or_default();
            let message = format!("`%{argument}{letter}` is not known in a log format");
            return Err(mistake(&message, WORDS));
        }
    }))
}

fn mistake(message: &str, help: &str) -> (String, String) {
    (message.to_owned(), help.to_owned())
}

const LINES: &str = "a record is one line; leave it out";

const WORDS: &str = "the words are %h %a %{c}a %A %B %b %{NAME}C %D %{NAME}e %f %H %{NAME}i %I %k \
                     %l %m %{NAME}o %O %p %{local}p %{remote}p %P %q %r %R %>s %S %t %{sec}t \
                     %{msec}t %{usec}t %T %{ms}T %u %U %v %V %X %%, and for scripts %^pt %^pq %^pm \
                     %^pc %^pw";

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
            ("%h %l", vec![value(LogValue::Client), text(" "), text("-")]),
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
                "%{us}T%{msec}t",
                vec![value(LogValue::Microseconds), value(LogValue::TimeMilliseconds)],
            ),
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
            ("%{X}n", "notes stay with their script"),
            ("%o", "`%o` is not known"),
            ("%i", "`%i` is not known"),
            ("%{}i", "`%{}i` is not known"),
            ("%400{Referer}i", "a condition"),
            ("a\\nb", "`\\n`"),
            ("a\nb", "a control character"),
            ("%{%H:%M}t", "is not known"),
            ("%^FB", "`%^FB` is not known"),
            ("%{ms}^pt", "`%{ms}^pt` is not known"),
            ("%^p", "%^pt %^pq %^pm"),
        ] {
            let (message, help) = LogFormat::parse(format).unwrap_err();
            assert!(format!("{message} {help}").contains(why), "{format}: {message} {help}");
        }
    }
}
