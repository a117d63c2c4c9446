//! Addresses to listen on.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use toml::Spanned;
use toml::de::DeValue;

use super::{List, Table, ValueError, ValueKind, quoted, read_string, wrong_type};
use crate::diagnostic::MistakeCollector;
use crate::listener::{ListenAddress, ListenerSettings, UNIX};
use crate::settings::ListenerTable;

/// A list of listeners: addresses, or tables with an address and settings. `":80"` is two
/// addresses.
pub(crate) struct Listeners;

impl ValueKind for Listeners {
    type Value = Vec<ListenerSettings>;

    fn name() -> String {
        "a list of addresses, or of tables with the keys of [listeners](#listeners)".to_owned()
    }

    fn show(value: &Vec<ListenerSettings>) -> String {
        let addresses = value.iter().map(|listener| quoted(&listener.address.to_string()));
        format!("[{}]", addresses.collect::<Vec<_>>().join(", "))
    }

    fn read(
        value: &Spanned<DeValue<'_>>,
        report: &mut MistakeCollector<'_>,
    ) -> Option<Vec<ListenerSettings>> {
        let listeners: Vec<_> =
            List::<OneListener>::read(value, report)?.into_iter().flatten().collect();
        let addresses = listeners.iter().map(|listener| &listener.address);
        check_addresses(value, &addresses.collect::<Vec<_>>(), report)?;
        Some(listeners)
    }
}

/// A list of addresses of listeners.
pub(crate) struct Addresses;

impl ValueKind for Addresses {
    type Value = Vec<ListenAddress>;

    fn name() -> String {
        "a list of addresses".to_owned()
    }

    fn show(value: &Vec<ListenAddress>) -> String {
        if value.is_empty() {
            return "all listeners".to_owned();
        }
        let addresses = value.iter().map(|address| quoted(&address.to_string()));
        format!("[{}]", addresses.collect::<Vec<_>>().join(", "))
    }

    fn read(
        value: &Spanned<DeValue<'_>>,
        report: &mut MistakeCollector<'_>,
    ) -> Option<Vec<ListenAddress>> {
        let addresses: Vec<_> =
            List::<Address>::read(value, report)?.into_iter().flatten().collect();
        check_addresses(value, &addresses.iter().collect::<Vec<_>>(), report)?;
        Some(addresses)
    }
}

/// Reports an empty list, and an address that is listed twice.
fn check_addresses(
    value: &Spanned<DeValue<'_>>,
    addresses: &[&ListenAddress],
    report: &mut MistakeCollector<'_>,
) -> Option<()> {
    if addresses.is_empty() {
        let help = "give at least one, as in `[\"127.0.0.1:8080\"]`";
        report.add(value.span(), "the list of addresses is empty", Some(help.to_owned()));
        return None;
    }
    for (number, address) in addresses.iter().enumerate() {
        if addresses[..number].iter().any(|other| other.conflicts_with(address)) {
            report.add(
                value.span(),
                format!("{address} is listed twice"),
                Some("leave one out".to_owned()),
            );
            return None;
        }
    }
    Some(())
}

/// An address, or a table.
struct OneListener;

impl ValueKind for OneListener {
    type Value = Vec<ListenerSettings>;

    fn name() -> String {
        "an address".to_owned()
    }

    fn show(_: &Vec<ListenerSettings>) -> String {
        String::new()
    }

    fn read(
        value: &Spanned<DeValue<'_>>,
        report: &mut MistakeCollector<'_>,
    ) -> Option<Vec<ListenerSettings>> {
        if !value.get_ref().is_table() {
            let addresses = Address::read(value, report)?;
            return Some(addresses.into_iter().map(ListenerSettings::new).collect());
        }
        let table = Table::<ListenerTable>::read(value, report)?;
        let position = |key: &str| {
            let given = value.get_ref().get(key);
            given.map_or_else(|| value.span(), Spanned::span)
        };
        if value.get_ref().get("address").is_none() {
            let help = "add `address = \"127.0.0.1:8080\"`";
            report.add(value.span(), "the listener has no address", Some(help.to_owned()));
            return None;
        }
        let is_tcp = table.address.iter().any(|at| matches!(at, ListenAddress::Tcp(_)));
        if table.tls == Some(true) && !is_tcp {
            let help = "leave `tls` out: what speaks to a Unix socket is on this machine";
            report.add(position("tls"), "`tls` on a Unix socket", Some(help.to_owned()));
        }
        for key in ["mode", "owner", "group"] {
            if is_tcp && value.get_ref().get(key).is_some() {
                let message = format!("`{key}` of a listener that is not a Unix socket");
                let help = "leave it out, or write `address = \"unix:/run/howdah/web.sock\"`";
                report.add(position(key), message, Some(help.to_owned()));
            }
        }
        let ListenerTable {
            address,
            proxy_protocol,
            trusted,
            mode,
            owner,
            group,
            tls,
        } = table;
        let listener = |address: ListenAddress| ListenerSettings {
            tls: tls.unwrap_or(address.is_for_https()),
            address,
            proxy_protocol,
            trusted: trusted.clone(),
            mode,
            owner: owner.clone(),
            group: group.clone(),
        };
        Some(address.into_iter().map(listener).collect())
    }
}

/// The text of an address.
pub(crate) struct Address;

impl ValueKind for Address {
    type Value = Vec<ListenAddress>;

    fn name() -> String {
        "an address".to_owned()
    }

    fn show(value: &Vec<ListenAddress>) -> String {
        if value.is_empty() {
            "must be given".to_owned()
        } else {
            Addresses::show(value)
        }
    }

    fn read(
        value: &Spanned<DeValue<'_>>,
        report: &mut MistakeCollector<'_>,
    ) -> Option<Vec<ListenAddress>> {
        read_string(value, report, "an address such as `\"127.0.0.1:8080\"`", |text| {
            listen_addresses(text).map_err(|(message, help)| ValueError::new(message, help))
        })
    }
}

/// An address, or none.
pub(crate) struct AdminAddress;

impl ValueKind for AdminAddress {
    type Value = Vec<ListenAddress>;

    fn name() -> String {
        Address::name()
    }

    fn show(value: &Vec<ListenAddress>) -> String {
        match value.first() {
            None => "unset".to_owned(),
            Some(address) => quoted(&address.to_string()),
        }
    }

    fn read(
        value: &Spanned<DeValue<'_>>,
        report: &mut MistakeCollector<'_>,
    ) -> Option<Vec<ListenAddress>> {
        Address::read(value, report)
    }
}

/// The permissions of a file, in octal: `"0660"` or `0o660`.
pub(crate) struct Mode;

impl ValueKind for Mode {
    type Value = u32;

    fn name() -> String {
        "permissions in octal, as in `\"0660\"`".to_owned()
    }

    fn show(value: &u32) -> String {
        quoted(&format!("{value:04o}"))
    }

    fn read(value: &Spanned<DeValue<'_>>, report: &mut MistakeCollector<'_>) -> Option<u32> {
        let help = "write `\"0660\"` for owner and group, `\"0666\"` for everyone";
        permissions(value, report, &Self::name(), help)
    }
}

/// The permissions that new files do not get, in octal: `"0022"` or `0o022`.
pub(crate) struct Umask;

impl ValueKind for Umask {
    type Value = u32;

    fn name() -> String {
        "permissions in octal, as in `\"0022\"`".to_owned()
    }

    fn show(value: &u32) -> String {
        Mode::show(value)
    }

    fn read(value: &Spanned<DeValue<'_>>, report: &mut MistakeCollector<'_>) -> Option<u32> {
        let help = "write `\"0022\"` to keep others from writing, `\"0077\"` from reading as well";
        let mask = permissions(value, report, &Self::name(), help)?;
        if mask & 0o700 != 0 {
            let message = "these permissions are the owner's: PHP could not use its own files";
            report.add(value.span(), message.to_owned(), Some(help.to_owned()));
            return None;
        }
        Some(mask)
    }
}

/// Reads permissions in octal.
fn permissions(
    value: &Spanned<DeValue<'_>>,
    report: &mut MistakeCollector<'_>,
    name: &str,
    help: &str,
) -> Option<u32> {
    let parsed = match value.get_ref() {
        DeValue::String(text) => u32::from_str_radix(text, 8).ok(),
        // `mode = 660` is decimal in TOML, and hardly what was meant.
        DeValue::Integer(number) if number.radix() == 8 => {
            u32::from_str_radix(number.as_str(), 8).ok()
        }
        DeValue::Integer(_) => None,
        other => {
            wrong_type(value, other, report, name);
            return None;
        }
    };
    let permissions = parsed.filter(|bits| *bits <= 0o777);
    if permissions.is_none() {
        report.add(value.span(), "these are no permissions in octal", Some(help.to_owned()));
    }
    permissions
}

/// Returns the addresses that `text` names: `127.0.0.1:8080`, `[::1]:8080`, `unix:/run/a.sock`, or
/// `:80` and `*:80` for the port of both address families (the IPv6 socket must then be bound for
/// IPv6 only).
///
/// # Errors
/// The description of the mistake, and advice.
pub fn listen_addresses(text: &str) -> Result<Vec<ListenAddress>, (String, String)> {
    const FORMS: &str = "write `\"127.0.0.1:8080\"`, `\"[::1]:8080\"`, `\":80\"` for every \
        address, or `\"unix:/run/howdah/web.sock\"`";
    let wrong = |message: &str, help: &str| Err((format!("`{text}` {message}"), help.to_owned()));
    let tcp = |addresses: &[SocketAddr]| {
        Ok(addresses.iter().map(|address| ListenAddress::Tcp(*address)).collect())
    };
    if let Some(path) = text.strip_prefix(UNIX) {
        return match path.len() {
            _ if path.contains('\0') => wrong("has a NUL", FORMS),
            0 => wrong("has no path", FORMS),
            1..=LONGEST_SOCKET_PATH => Ok(vec![ListenAddress::Unix(PathBuf::from(path))]),
            _ => wrong(
                "has a path that is too long",
                &format!("the path of a Unix socket has at most {LONGEST_SOCKET_PATH} bytes"),
            ),
        };
    }
    if let Some(port) = text.strip_prefix("*:").or_else(|| text.strip_prefix(':'))
        && port.bytes().all(|byte| byte.is_ascii_digit())
    {
        return match port.parse() {
            Ok(port) => {
                tcp(&[(Ipv4Addr::UNSPECIFIED, port).into(), (Ipv6Addr::UNSPECIFIED, port).into()])
            }
            Err(_) => wrong("has no port from 0 to 65535", FORMS),
        };
    }
    if let Ok(address) = text.parse() {
        return tcp(&[address]);
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
    if text.starts_with('/') {
        return wrong("is a path", &format!("write `\"{UNIX}{text}\"` for a Unix socket"));
    }
    wrong("is not an address with a port", FORMS)
}

/// Bytes of the longest path of a Unix socket (`sun_path` of unix(7), without its NUL). A longer
/// one is a mistake in the configuration.
const LONGEST_SOCKET_PATH: usize = 107;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let long = format!("unix:/{}", "a".repeat(107));
        let rows: [(&str, &[&str]); 18] = [
            ("127.0.0.1:8080", &["127.0.0.1:8080"]),
            ("[::]:80", &["[::]:80"]),
            ("[::1]:0", &["[::1]:0"]),
            (":80", &["0.0.0.0:80", "[::]:80"]),
            ("*:80", &["0.0.0.0:80", "[::]:80"]),
            ("unix:/run/a b.sock", &["unix:/run/a b.sock"]),
            ("unix:", &[]),
            ("unix:/a\0b", &[]),
            (&long, &[]),
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
                .map(ListenAddress::to_string)
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
            ("/run/x.sock", "`\"unix:/run/x.sock\"`"),
        ] {
            let (_, shown) = listen_addresses(text).unwrap_err();
            assert!(shown.contains(help), "{text}: {shown}");
        }
    }
}
