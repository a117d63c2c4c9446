//! Texts and names: of files, of hosts.

use std::net::{Ipv4Addr, Ipv6Addr};

use toml::Spanned;
use toml::de::DeValue;

use super::words::word_kind;
use super::{List, ValueError, ValueKind, quoted, read_string};
use crate::diagnostic::MistakeCollector;
use crate::values::{HostPattern, PoolMode, Sapi, UserName};

/// Declares a kind that is a checked string, which is not empty: its name, the words for it in the
/// manual and in messages, where both have others (`"names" => "a name"`), and the check.
macro_rules! text_kind {
    ($(#[$doc:meta])+ $Name:ident, $words:literal, $check:expr) => {
        text_kind!($(#[$doc])+ $Name, $words => $words, $check);
    };
    ($(#[$doc:meta])+ $Name:ident, $words:literal => $expected:literal, $check:expr) => {
        $(#[$doc])+
        pub(crate) struct $Name;

        impl ValueKind for $Name {
            type Value = String;

            fn name() -> String {
                $words.to_owned()
            }

            fn show(value: &String) -> String {
                if value.is_empty() { "unset".to_owned() } else { quoted(value) }
            }

            fn read(
                value: &Spanned<DeValue<'_>>,
                report: &mut MistakeCollector<'_>,
            ) -> Option<String> {
                let check: fn(&str) -> Result<(), ValueError> = $check;
                read_string(value, report, $expected, |text| check(text).map(|()| text.to_owned()))
            }
        }
    };
}

text_kind!(
    /// Any text but the empty one.
    Text, "a name", |text| {
        if text.is_empty() || text.contains('\0') {
            return Err(ValueError::new(
                "the name is empty or holds a NUL",
                "give a name, or leave the key out",
            ));
        }
        Ok(())
    }
);

pub(super) use text_kind;

/// The name of a user, with its place in the file.
pub(crate) struct User;

impl ValueKind for User {
    type Value = UserName;

    fn name() -> String {
        Text::name()
    }

    fn show(value: &UserName) -> String {
        quoted(value)
    }

    fn read(value: &Spanned<DeValue<'_>>, report: &mut MistakeCollector<'_>) -> Option<UserName> {
        let name = Text::read(value, report)?;
        Some(UserName::at(&name, report.place_of(value.span().start)))
    }
}

text_kind!(
    /// A name that is safe as one component of a path and in a log line.
    PlainName, "a name", |text| {
        if !is_plain_name(text) {
            return Err(ValueError::new(
                format!("`{text}` is not a plain name"),
                "use letters, digits, `.`, `_` and `-`, with no `.` or `-` at the start",
            ));
        }
        Ok(())
    }
);

text_kind!(
    /// The name of a file or folder, perhaps with a `*` at its end.
    NamePattern, "a file name, perhaps with a `*` at its end", |text| {
        let stem = text.strip_suffix('*').unwrap_or(text);
        if stem.is_empty() || stem.contains(['/', '*', '\0']) {
            return Err(ValueError::new(
                format!("`{text}` is not the name of a file or folder"),
                "give one name without `/`; a `*` is allowed at its end only",
            ));
        }
        Ok(())
    }
);

text_kind!(
    /// The path of a page of the server's own.
    PagePath, "a path", |text| {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._~-".contains(&byte);
        let is_path = text.starts_with('/') && text.len() > 1 && text.bytes().all(is_plain);
        let has_dots = text.split('/').any(|part| part == ".." || part == ".");
        if !is_path || text.contains("//") || has_dots {
            return Err(ValueError::new(
                format!("`{text}` is not the path of a page"),
                "begin with `/`, and use letters, digits, `.`, `_`, `~`, `-` and `/`",
            ));
        }
        Ok(())
    }
);

text_kind!(
    /// A version of PHP: two numbers.
    PhpVersion, "a version of PHP such as `\"8.2\"`", |text| {
        let is_number = |part: &str| {
            (1..=3).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit())
        };
        let parts = text.split_once('.');
        if !parts.is_some_and(|(major, minor)| is_number(major) && is_number(minor)) {
            return Err(ValueError::new(
                format!("`{text}` is not a version of PHP"),
                "give two numbers in quotes, as `\"8.2\"`",
            ));
        }
        Ok(())
    }
);

text_kind!(
    /// A file to include, perhaps several.
    IncludePattern, "a path, perhaps with `*` and `?` in its names",
    |text| super::paths::check_path(text)
);

text_kind!(
    /// A module of Apache that is off unless it is named.
    ModuleName, "`\"brotli\"` or `\"substitute\"`", |text| {
        if ["brotli", "substitute"].contains(&text) {
            return Ok(());
        }
        Err(ValueError::new(
            format!("`{text}` is not a module that can be turned on"),
            "give `\"brotli\"` or `\"substitute\"`; all others are on, or not there",
        ))
    }
);

text_kind!(
    /// The ending of a file name, from the dot on.
    Extension, "a file name's ending", |text| {
        let body = text.strip_prefix('.').unwrap_or_default();
        if body.is_empty() || !body.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return Err(ValueError::new(
                format!("`{text}` is not a file name's ending"),
                "give a dot and letters or digits, as in `\".php\"`",
            ));
        }
        if body.eq_ignore_ascii_case("phps") {
            return Err(ValueError::new(
                "`.phps` shows source code and does not run",
                "leave it out",
            ));
        }
        Ok(())
    }
);

fn is_plain_name(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 255
        && !text.starts_with(['.', '-'])
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

/// Host names and patterns.
pub(crate) struct Hosts;

impl ValueKind for Hosts {
    type Value = Vec<HostPattern>;

    fn name() -> String {
        "a list of host names".to_owned()
    }

    fn show(value: &Vec<HostPattern>) -> String {
        List::<HostKind>::show(value)
    }

    fn read(
        value: &Spanned<DeValue<'_>>,
        report: &mut MistakeCollector<'_>,
    ) -> Option<Vec<HostPattern>> {
        let hosts = List::<HostKind>::read(value, report)?;
        if hosts.is_empty() {
            let help = "give at least one name; `\"*\"` is every name that no other site has";
            report.add(value.span(), "the list of hosts is empty", Some(help.to_owned()));
            return None;
        }
        Some(hosts)
    }
}

struct HostKind;

impl ValueKind for HostKind {
    type Value = HostPattern;

    fn name() -> String {
        "a host name".to_owned()
    }

    fn show(value: &HostPattern) -> String {
        quoted(&value.to_string())
    }

    fn read(
        value: &Spanned<DeValue<'_>>,
        report: &mut MistakeCollector<'_>,
    ) -> Option<HostPattern> {
        read_string(value, report, "a host name", host_pattern)
    }
}

fn host_pattern(text: &str) -> Result<HostPattern, ValueError> {
    if text == "*" {
        return Ok(HostPattern::Default);
    }
    let problem =
        |message: &str, help: &str| Err(ValueError::new(format!("`{text}` {message}"), help));
    if text.contains("://") || text.contains('/') {
        return problem(
            "is a URL or a path, not a host name",
            "give the host name alone, as in `\"example.org\"`",
        );
    }
    if let Some(inside) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return match inside.parse::<Ipv6Addr>() {
            Ok(address) => Ok(HostPattern::Exact(format!("[{address}]"))),
            Err(_) => problem("is not an IPv6 address", "write it as in `\"[::1]\"`"),
        };
    }
    if text.parse::<Ipv6Addr>().is_ok() {
        return problem("is an IPv6 address without brackets", "write it as in `\"[::1]\"`");
    }
    if text.contains(':') {
        return problem("holds a port", "leave the port out: it belongs to `listen`");
    }
    let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
    let (wildcard, plain) = match name.strip_prefix("*.") {
        Some(suffix) => (true, suffix),
        None => (false, name.as_str()),
    };
    if plain.contains('*') {
        return problem(
            "has a `*` in the wrong place",
            "a `*` stands alone (`\"*\"`) or for whole labels at the start (`\"*.example.org\"`)",
        );
    }
    if !plain.is_ascii() {
        return problem(
            "is not ASCII",
            "write an international name as browsers send it, in its `xn--` form",
        );
    }
    if wildcard && plain.parse::<Ipv4Addr>().is_ok() {
        return problem("is a wildcard on an IP address", "give the address itself, or `\"*\"`");
    }
    if let Err(why) = check_host_name(plain) {
        return problem(why, "give a host name such as `\"www.example.org\"`");
    }
    Ok(if wildcard {
        HostPattern::Wildcard(plain.to_owned())
    } else {
        HostPattern::Exact(plain.to_owned())
    })
}

/// Returns whether `name` is a host name (RFC 1123 §2.1): labels of letters, digits and inner
/// hyphens. Underscores are permitted because some internal networks use them; they are not
/// permitted in names that become paths.
fn check_host_name(name: &str) -> Result<(), &'static str> {
    if name.len() > 253 {
        return Err("is longer than 253 characters");
    }
    for label in name.split('.') {
        if label.is_empty() {
            return Err("has an empty label");
        }
        if label.len() > 63 {
            return Err("has a label of more than 63 characters");
        }
        if label.starts_with('-') || label.ends_with('-') {
            return Err("has a label that starts or ends with `-`");
        }
        if !label
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
        {
            return Err("holds a character that host names cannot have");
        }
    }
    Ok(())
}

word_kind!(
    /// `"apache2handler"` or `"fpm-fcgi"`.
    SapiName, Sapi, "is not a name that PHP can run under here",
    Sapi::ALL.map(|sapi| (sapi.name(), sapi))
);

word_kind!(
    /// The mode of a pool.
    ModeName, PoolMode, "is no mode of a pool",
    PoolMode::ALL.map(|mode| (mode.name(), mode))
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_patterns() {
        let exact = |name: &str| Some(HostPattern::Exact(name.to_owned()));
        let wildcard = |name: &str| Some(HostPattern::Wildcard(name.to_owned()));
        let rows = [
            ("*", Some(HostPattern::Default)),
            ("example.org", exact("example.org")),
            ("Example.ORG.", exact("example.org")),
            ("localhost", exact("localhost")),
            ("my_host", exact("my_host")),
            ("127.0.0.1", exact("127.0.0.1")),
            ("[::1]", exact("[::1]")),
            ("[0:0::0:1]", exact("[::1]")),
            ("*.example.org", wildcard("example.org")),
            ("*.Example.org.", wildcard("example.org")),
            ("*.org", wildcard("org")),
            ("", None),
            ("*.", None),
            ("**", None),
            ("*example.org", None),
            ("www.*.org", None),
            ("a..b", None),
            ("-a.org", None),
            ("a-.org", None),
            ("::1", None),
            ("[::g]", None),
            ("example.org:80", None),
            ("http://example.org", None),
            ("example.org/", None),
            ("bücher.example", None),
            ("a b", None),
            ("*.127.0.0.1", None),
        ];
        for (text, expected) in rows {
            assert_eq!(host_pattern(text).ok(), expected, "{text}");
        }
    }

    #[test]
    fn plain_names() {
        for (text, expected) in [
            ("blog", true),
            ("example.org", true),
            ("a_b-1", true),
            ("", false),
            ("..", false),
            (".a", false),
            ("a/b", false),
            ("-a", false),
            ("é", false),
        ] {
            assert_eq!(is_plain_name(text), expected, "{text}");
        }
    }
}
