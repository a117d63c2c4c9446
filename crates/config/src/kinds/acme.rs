//! Values about authorities for certificates.

use toml::Spanned;
use toml::de::DeValue;

use super::names::text_kind;
use super::words::word_kind;
use super::{ValueError, ValueKind, quoted, read_string};
use crate::diagnostic::MistakeCollector;
use crate::values::AcmeChallenge;

text_kind!(
    /// The URL of a directory of an authority.
    DirectoryUrl, "a URL", |text| {
        let host = text.strip_prefix("https://").and_then(|rest| rest.split('/').next());
        let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic());
        if host.is_none_or(str::is_empty) || !is_plain {
            return Err(ValueError::new(
                format!("`{text}` is not the URL of a directory"),
                "give a URL that begins with `https://`; the authority tells it",
            ));
        }
        Ok(())
    }
);

text_kind!(
    /// The URL that is asked about names.
    AskUrl, "a URL", |text| {
        let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
        let host = rest.and_then(|rest| rest.split(['/', '?']).next());
        let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#');
        if host.is_none_or(str::is_empty) || !is_plain {
            return Err(ValueError::new(
                format!("`{text}` is not a URL that can be asked"),
                "give one that begins with `http://` or `https://`, as in \
                 `\"http://127.0.0.1:8000/may-have-certificate\"`",
            ));
        }
        Ok(())
    }
);

text_kind!(
    /// An address for mail.
    Email, "an address for mail", |text| {
        let is_plain = |part: &str| {
            !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_graphic() && byte != b',')
        };
        let scheme = text.get(..7).filter(|start| start.eq_ignore_ascii_case("mailto:"));
        match text.split_once('@').filter(|_| scheme.is_none()) {
            Some((user, host)) if is_plain(user) && is_plain(host) => Ok(()),
            _ => Err(ValueError::new(
                format!("`{text}` is not an address for mail"),
                "give one address, without `mailto:`, as in `\"admin@example.org\"`",
            )),
        }
    }
);

word_kind!(
    /// A challenge of ACME.
    Challenge, AcmeChallenge, "is not a challenge",
    AcmeChallenge::ALL.map(|challenge| (challenge.name(), challenge))
);
