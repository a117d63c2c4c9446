//! Servers that requests may be handed on to.

use toml::Spanned;
use toml::de::DeValue;

use super::{ValueError, ValueKind, quoted, read_string};
use crate::diagnostic::MistakeCollector;
use crate::values::Upstream;

/// `http://127.0.0.1:3000`, `wss://[::1]:8443`, `unix:/run/app.sock|http://app`.
pub(crate) struct UpstreamUrl;

impl ValueKind for UpstreamUrl {
    type Value = Upstream;

    fn name() -> String {
        "the URL of a server".to_owned()
    }

    fn show(value: &Upstream) -> String {
        quoted(&value.to_string())
    }

    fn read(value: &Spanned<DeValue<'_>>, report: &mut MistakeCollector<'_>) -> Option<Upstream> {
        read_string(value, report, "a URL such as `\"http://127.0.0.1:3000\"`", parse)
    }
}

fn parse(text: &str) -> Result<Upstream, ValueError> {
    const FORMS: &str = "write `\"http://127.0.0.1:3000\"` or `\"unix:/run/app.sock|http://app\"`";
    let wrong =
        |message: &str, help: &str| Err(ValueError::new(format!("`{text}` {message}"), help));
    let Some((upstream, rest)) = Upstream::split(text.as_bytes()) else {
        return wrong("is not the URL of a server", FORMS);
    };
    if !matches!(rest, b"" | b"/") {
        return wrong("goes on behind the server's name", "leave out the path: rules give it");
    }
    if upstream.name().is_some_and(|name| !is_name(name)) {
        return wrong("has neither an address nor a name", FORMS);
    }
    Ok(upstream)
}

/// Returns whether this can be the name of a host (RFC 1123 §2.1). Text whose last part begins with
/// a digit is an address with a mistake.
fn is_name(host: &str) -> bool {
    let host = host.strip_suffix('.').unwrap_or(host);
    let is_label = |label: &str| {
        let bounds = [label.chars().next(), label.chars().next_back()];
        label.len() <= 63 && bounds.iter().all(|end| end.is_some_and(|end| end != '-'))
    };
    let last = host.rsplit('.').next().unwrap_or_default();
    host.len() <= 253
        && host.split('.').all(is_label)
        && !last.starts_with(|first: char| first.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upstreams() {
        let rows = [
            ("http://127.0.0.1:3000", "http://127.0.0.1:3000"),
            ("HTTP://LocalHost/", "http://localhost"),
            ("http://127.0.0.1:80", "http://127.0.0.1"),
            ("http://[::1]:3000/", "http://[::1]:3000"),
            ("unix:/run/App.sock|http://App", "unix:/run/App.sock|http://app"),
            ("", ""),
            ("127.0.0.1:3000", ""),
            ("https://127.0.0.1", "https://127.0.0.1"),
            ("https://127.0.0.1:443", "https://127.0.0.1"),
            ("https://127.0.0.1:80", "https://127.0.0.1:80"),
            ("WS://127.0.0.1:3000", "ws://127.0.0.1:3000"),
            ("wss://localhost:443/", "wss://localhost"),
            ("unix:/run/a.sock|https://a/", "unix:/run/a.sock|https://a"),
            ("ftp://127.0.0.1", ""),
            ("http://127.0.0.1/app", ""),
            ("http://user@127.0.0.1", ""),
            ("http://App.example:3000", "http://app.example:3000"),
            ("https://app", "https://app"),
            ("http://app.example.", "http://app.example."),
            ("http://a_b.example", "http://a_b.example"),
            ("http://127.0.0.1.5", ""),
            ("http://127.1", ""),
            ("http://0x7f000001", ""),
            ("http://-a.example", ""),
            ("http://a..example", ""),
            ("http://127.0.0.1:0", ""),
            ("http://127.0.0.1:65536", ""),
            ("http://127.0.0.1:+1", ""),
            ("http://::1", ""),
            ("http://", ""),
            ("unix:run/a.sock|http://a", ""),
            ("unix:/run/a.sock", ""),
            ("unix:|http://a", ""),
        ];
        for (text, expected) in rows {
            let found = parse(text).map(|upstream| upstream.to_string()).unwrap_or_default();
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn what_an_upstream_serves() {
        let served = |upstream: &str, url: &str| {
            let Ok(upstream) = parse(upstream) else {
                panic!("{upstream}")
            };
            upstream
                .path_of(url.as_bytes())
                .map(|rest| String::from_utf8_lossy(rest).into_owned())
        };
        let tcp = "http://127.0.0.1:3000";
        let unix = "unix:/run/a.sock|http://app";
        let rows = [
            (tcp, "http://127.0.0.1:3000/a?b=c", Some("/a?b=c")),
            (tcp, "HTTP://127.0.0.1:3000", Some("")),
            (tcp, "http://127.0.0.1:3000?x", Some("?x")),
            (tcp, "http://127.0.0.1:30001/", None),
            (tcp, "http://127.0.0.1/", None),
            (tcp, "http://127.0.0.1:3000@evil.example/", None),
            (tcp, "http://127.0.0.1:3000.evil.example/", None),
            (tcp, "http://127.0.0.1:3000\\@evil.example/", None),
            (tcp, "https://127.0.0.1:3000/", None),
            (tcp, "wss://127.0.0.1:3000/", None),
            (tcp, "ws://127.0.0.1:3000/chat", Some("/chat")),
            ("wss://[::1]", "https://[::1]/x", Some("/x")),
            ("wss://[::1]", "https://[::1]:443/x", Some("/x")),
            ("wss://[::1]", "ws://[::1]/x", None),
            (tcp, "unix:/run/a.sock|http://127.0.0.1:3000/", None),
            (tcp, "/a", None),
            (unix, "unix:/run/a.sock|http://app/x", Some("/x")),
            (unix, "unix:/run/a.sock%7chttp://app/%7c", Some("/%7c")),
            (unix, "unix:/run/b.sock|http://app/x", None),
            (unix, "unix:/run/a.sock|http://other/x", None),
            (unix, "http://app/x", Some("/x")),
        ];
        for (upstream, url, expected) in rows {
            assert_eq!(served(upstream, url).as_deref(), expected, "{upstream} {url}");
        }
    }
}
