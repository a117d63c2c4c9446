//! The proxies that are trusted, and the fields in which they speak for their clients.

use toml::Spanned;
use toml::de::DeValue;

use super::names::text_kind;
use super::{Flag, List, ValueError, ValueKind, quoted, read_string};
use crate::diagnostic::MistakeCollector;
use crate::listener::{Network, TrustedProxies};
use crate::values::ForwardedField;

/// A list of networks and `"unix"`.
pub(crate) struct Proxies;

impl ValueKind for Proxies {
    type Value = TrustedProxies;

    fn name() -> String {
        "a list of IP addresses, networks and `\"unix\"`".to_owned()
    }

    fn show(value: &TrustedProxies) -> String {
        let networks = value.networks.iter().map(|network| quoted(&network.to_string()));
        let unix = value.unix.then(|| quoted("unix"));
        format!("[{}]", networks.chain(unix).collect::<Vec<_>>().join(", "))
    }

    fn read(
        value: &Spanned<DeValue<'_>>,
        report: &mut MistakeCollector<'_>,
    ) -> Option<TrustedProxies> {
        let mut trusted = TrustedProxies::default();
        for one in List::<Proxy>::read(value, report)? {
            match one {
                Some(network) => trusted.networks.push(network),
                None => trusted.unix = true,
            }
        }
        Some(trusted)
    }
}

/// A network, or `"unix"`, which is `None`.
struct Proxy;

impl ValueKind for Proxy {
    type Value = Option<Network>;

    fn name() -> String {
        "a network".to_owned()
    }

    fn show(_: &Option<Network>) -> String {
        String::new()
    }

    fn read(
        value: &Spanned<DeValue<'_>>,
        report: &mut MistakeCollector<'_>,
    ) -> Option<Option<Network>> {
        read_string(value, report, "a network such as `\"10.0.0.0/8\"`", |text| match text {
            "unix" => Ok(None),
            _ => Network::parse(text)
                .map(Some)
                .map_err(|(message, help)| ValueError::new(message, help)),
        })
    }
}

/// `true` for everyone, `false` for nobody, or a list as [`Proxies`].
pub(crate) struct TrustedValue;

impl ValueKind for TrustedValue {
    type Value = Option<TrustedProxies>;

    fn name() -> String {
        format!("`true`, `false`, or {}", Proxies::name())
    }

    fn show(value: &Self::Value) -> String {
        value.as_ref().map_or_else(|| "unset".to_owned(), Proxies::show)
    }

    fn read(
        value: &Spanned<DeValue<'_>>,
        report: &mut MistakeCollector<'_>,
    ) -> Option<Option<TrustedProxies>> {
        if value.get_ref().as_bool().is_some() {
            let everyone = Flag::read(value, report)?;
            return Some(Some(TrustedProxies { everyone, ..TrustedProxies::default() }));
        }
        Proxies::read(value, report).map(Some)
    }
}

/// A field in which a trusted proxy speaks for its client.
pub(crate) struct ForwardedName;

impl ValueKind for ForwardedName {
    type Value = ForwardedField;

    fn name() -> String {
        let names = ForwardedField::ALL.map(|field| format!("`{}`", quoted(field.name())));
        names.join(", ")
    }

    fn show(value: &ForwardedField) -> String {
        quoted(value.name())
    }

    fn read(
        value: &Spanned<DeValue<'_>>,
        report: &mut MistakeCollector<'_>,
    ) -> Option<ForwardedField> {
        read_string(value, report, "the name of a field", |text| {
            let named = |field: &ForwardedField| field.name().eq_ignore_ascii_case(text);
            ForwardedField::ALL.into_iter().find(named).ok_or_else(|| {
                ValueError::new(
                    format!("`{text}` is not a field that tells more than an address"),
                    format!(
                        "give one of {}; a field with the address alone is `client_address_header`",
                        Self::name()
                    ),
                )
            })
        })
    }
}

text_kind!(
    /// The name of a field that has the client's address.
    AddressField, "the name of a field", |text| {
        let is_token =
            |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if text.eq_ignore_ascii_case(ForwardedField::Forwarded.name()) {
            return Err(ValueError::new(
                "Forwarded has more than an address",
                "write `forwarded_fields = [\"Forwarded\"]` instead",
            ));
        }
        if text.is_empty() || !text.bytes().all(is_token) {
            return Err(ValueError::new(
                format!("`{text}` is not the name of a field"),
                "give a name such as `\"CF-Connecting-IP\"`",
            ));
        }
        Ok(())
    }
);
