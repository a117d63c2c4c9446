//! Isolation of a pool: the sandbox, and what may be connected to.

use std::net::SocketAddr;
use std::path::PathBuf;

use toml::Spanned;
use toml::de::DeValue;

use super::names::text_kind;
use super::words::word_kind;
use super::{ValueError, ValueKind, quoted, read_string};
use crate::diagnostic::MistakeCollector;
use crate::values::{Destination, Sandbox};

word_kind!(
    /// `"off"`, `"standard"` or `"strict"`.
    SandboxLevel, Sandbox, "is not a level of the sandbox",
    Sandbox::ALL.map(|level| (level.name(), level))
);

/// `"127.0.0.1:3306"`, `"*:443"`, `"unix:/run/mysqld/mysqld.sock"` or `"udp"`.
pub(crate) struct ConnectTo;

impl ValueKind for ConnectTo {
    type Value = Destination;

    fn name() -> String {
        "an address such as `\"127.0.0.1:3306\"`, `\"*:443\"`, `\"unix:/run/mysqld/mysqld.sock\"` \
         or `\"udp\"`"
            .to_owned()
    }

    fn show(value: &Destination) -> String {
        quoted(&value.to_string())
    }

    fn read(
        value: &Spanned<DeValue<'_>>,
        report: &mut MistakeCollector<'_>,
    ) -> Option<Destination> {
        read_string(value, report, &Self::name(), destination)
    }
}

fn destination(text: &str) -> Result<Destination, ValueError> {
    const FORMS: &str =
        "write `\"127.0.0.1:3306\"`, `\"*:443\"`, `\"unix:/run/mysqld/mysqld.sock\"` or `\"udp\"`";
    let wrong = |what: &str| ValueError::new(format!("`{text}` {what}"), FORMS);
    if text == "udp" {
        return Ok(Destination::Udp);
    }
    if let Some(path) = text.strip_prefix("unix:") {
        return if path.starts_with('/') && !path.contains('\0') {
            Ok(Destination::Unix(PathBuf::from(path)))
        } else {
            Err(wrong("has no path that starts with `/`"))
        };
    }
    let port = |digits: &str| match digits.parse() {
        Ok(port) if port > 0 && digits.bytes().all(|byte| byte.is_ascii_digit()) => Ok(port),
        _ => Err(wrong("has no port from 1 to 65535")),
    };
    if let Some(digits) = text.strip_prefix("*:") {
        return Ok(Destination::Port(port(digits)?));
    }
    match text.parse::<SocketAddr>() {
        Ok(address) if address.port() > 0 => Ok(Destination::Tcp(address)),
        Ok(_) => Err(wrong("has no port from 1 to 65535")),
        Err(_) => Err(wrong("is not an address with a port")),
    }
}

text_kind!(
    /// The name of a PHP function.
    FunctionName, "the name of a PHP function", |text| {
        let plain = text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'\\');
        if text.is_empty() || !plain {
            return Err(ValueError::new(
                format!("`{text}` is not the name of a function"),
                "give each function on its own: `[\"exec\", \"shell_exec\"]`",
            ));
        }
        Ok(())
    }
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn destinations() {
        let rows = [
            ("127.0.0.1:3306", true),
            ("[::1]:3306", true),
            ("*:443", true),
            ("unix:/run/mysqld/mysqld.sock", true),
            ("udp", true),
            ("", false),
            ("3306", false),
            ("*:0", false),
            ("*:+1", false),
            ("*:65536", false),
            ("127.0.0.1:0", false),
            ("127.0.0.1", false),
            ("localhost:3306", false),
            ("unix:run/x", false),
            ("unix:@abstract", false),
        ];
        for (text, is_good) in rows {
            match destination(text) {
                Ok(found) => assert_eq!((found.to_string().as_str(), true), (text, is_good)),
                Err(problem) => assert!(!is_good, "{text}: {}", problem.message),
            }
        }
    }
}
