//! Addresses to listen on.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use toml::Spanned;
use toml::de::DeValue;

use super::{List, Problem, ValueKind, quoted, read_string};
use crate::diagnostic::MistakeCollector;

/// A list of addresses. `":80"` is two addresses.
pub(crate) struct Addresses;

impl ValueKind for Addresses {
    type Value = Vec<SocketAddr>;

    fn name() -> String {
        "a list of addresses".to_owned()
    }

    fn show(value: &Vec<SocketAddr>) -> String {
        format!(
            "[{}]",
            value
                .iter()
                .map(|address| quoted(&address.to_string()))
                .collect::<Vec<_>>()
                .join(", ")
        )
    }

    fn read(
        value: &Spanned<DeValue<'_>>,
        report: &mut MistakeCollector<'_>,
    ) -> Option<Vec<SocketAddr>> {
        let addresses: Vec<_> =
            List::<Address>::read(value, report)?.into_iter().flatten().collect();
        if addresses.is_empty() {
            let help = "give at least one, as in `[\"127.0.0.1:8080\"]`";
            report.add(value.span(), "the list of addresses is empty", Some(help.to_owned()));
            return None;
        }
        for (number, address) in addresses.iter().enumerate() {
            if address.port() != 0 && addresses[..number].contains(address) {
                report.add(
                    value.span(),
                    format!("{address} is listed twice"),
                    Some("leave one out".to_owned()),
                );
                return None;
            }
        }
        Some(addresses)
    }
}

struct Address;

impl ValueKind for Address {
    type Value = Vec<SocketAddr>;

    fn name() -> String {
        "an address".to_owned()
    }

    fn show(_: &Vec<SocketAddr>) -> String {
        String::new()
    }

    fn read(
        value: &Spanned<DeValue<'_>>,
        report: &mut MistakeCollector<'_>,
    ) -> Option<Vec<SocketAddr>> {
        read_string(value, report, "an address such as `\"127.0.0.1:8080\"`", |text| {
            listen_addresses(text).map_err(|(message, help)| Problem::new(message, help))
        })
    }
}

/// Returns the addresses that `text` names: `127.0.0.1:8080`, `[::1]:8080`, or `:80` and `*:80` for
/// the port of both address families (the IPv6 socket must then be bound for IPv6 only).
///
/// # Errors
/// The description of the mistake, and advice.
pub fn listen_addresses(text: &str) -> Result<Vec<SocketAddr>, (String, String)> {
    const FORMS: &str =
        "write `\"127.0.0.1:8080\"`, `\"[::1]:8080\"`, or `\":80\"` for every address";
    let wrong = |message: &str, help: &str| Err((format!("`{text}` {message}"), help.to_owned()));
    if let Some(port) = text.strip_prefix("*:").or_else(|| text.strip_prefix(':'))
        && port.bytes().all(|byte| byte.is_ascii_digit())
    {
        return match port.parse() {
            Ok(port) => {
                Ok(vec![(Ipv4Addr::UNSPECIFIED, port).into(), (Ipv6Addr::UNSPECIFIED, port).into()])
            }
            Err(_) => wrong("has no port from 0 to 65535", FORMS),
        };
    }
    if let Ok(address) = text.parse() {
        return Ok(vec![address]);
    }
    if text.bytes().all(|byte| byte.is_ascii_digit()) && !text.is_empty() {
        return wrong(
            "is a port without an address",
            &format!("write `\":{text}\"` or `\"127.0.0.1:{text}\"`"),
        );
    }
    if text.parse::<Ipv4Addr>().is_ok() {
        return wrong("has no port", &format!("write `\"{text}:80\"`"));
    }
    if text.parse::<Ipv6Addr>().is_ok() {
        return wrong(
            "is an IPv6 address without brackets and port",
            &format!("write `\"[{text}]:80\"`"),
        );
    }
    if let Some(port) = text.strip_prefix("localhost:") {
        return wrong("names a host", &format!("write the address itself: `\"127.0.0.1:{port}\"`"));
    }
    wrong("is not an address with a port", FORMS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let rows: [(&str, &[&str]); 14] = [
            ("127.0.0.1:8080", &["127.0.0.1:8080"]),
            ("[::]:80", &["[::]:80"]),
            ("[::1]:0", &["[::1]:0"]),
            (":80", &["0.0.0.0:80", "[::]:80"]),
            ("*:80", &["0.0.0.0:80", "[::]:80"]),
            ("", &[]),
            (":", &[]),
            ("80", &[]),
            (":65536", &[]),
            ("127.0.0.1", &[]),
            ("::1", &[]),
            ("localhost:80", &[]),
            ("example.org:80", &[]),
            ("1.2.3.4:x", &[]),
        ];
        for (text, expected) in rows {
            let found: Vec<String> = listen_addresses(text)
                .unwrap_or_default()
                .iter()
                .map(SocketAddr::to_string)
                .collect();
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn messages_say_what_to_write() {
        for (text, help) in [
            ("8080", "`\":8080\"`"),
            ("10.0.0.1", "`\"10.0.0.1:80\"`"),
            ("::1", "`\"[::1]:80\"`"),
            ("localhost:81", "`\"127.0.0.1:81\"`"),
        ] {
            let (_, shown) = listen_addresses(text).unwrap_err();
            assert!(shown.contains(help), "{text}: {shown}");
        }
    }
}
