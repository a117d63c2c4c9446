//! Facts about an encrypted connection, under the names of Apache's mod_ssl.

use std::borrow::Cow;
use std::sync::Arc;

/// Facts about an encrypted connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// The version of TLS, as `TLSv1.3`.
    pub protocol: &'static str,
    /// The cipher suite, by OpenSSL's name.
    pub cipher: &'static str,
    /// Bits of the cipher's key.
    pub cipher_bits: u16,
    /// The handshake continued an earlier session.
    pub is_resumed: bool,
    /// Random bytes that tell the connection's session from others. `None` with TLS 1.2, where
    /// tickets have taken the place of identifiers.
    pub session: Option<[u8; 32]>,
    /// The library that encrypts, with its version.
    pub library: &'static str,
    /// The name that the client asked for (SNI); `None` if it asked for none.
    pub server_name: Option<Box<str>>,
    /// The certificate that the client has seen.
    pub server: Option<Arc<CertificateVariables>>,
    /// The certificate that the client has shown; `None` if it has shown none.
    pub client: Option<Box<CertificateVariables>>,
}

/// The variables of a certificate, computed once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateVariables {
    /// The beginning of its variables' names: `SSL_CLIENT_` or `SSL_SERVER_`.
    pub prefix: &'static str,
    /// The end of its validity, in seconds since 1970.
    pub ends: i64,
    /// The variables with their whole names and their values.
    pub variables: Vec<(Box<str>, Box<str>)>,
}

/// The variables that scripts get, as `SSLOptions` chooses them with `StdEnvVars`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptVariables {
    /// The name that the client asked for.
    ServerName,
    /// The variables of the connection and of the client's certificate.
    Connection,
    /// All that mod_ssl gives, also those of the server's certificate.
    All,
}

impl Tls {
    /// Gives `out` the variables for a script that have a value. `now` is in seconds since 1970.
    pub fn variables(&self, which: ScriptVariables, now: i64, out: &mut impl FnMut(&[u8], &[u8])) {
        if let Some(name) = &self.server_name {
            out(b"SSL_TLS_SNI", name.as_bytes());
        }
        let (names, server) = match which {
            ScriptVariables::ServerName => return,
            ScriptVariables::Connection => (&NAMES[..OF_CONNECTION], None),
            ScriptVariables::All => (&NAMES[..], self.server.as_deref()),
        };
        for name in names {
            if let Some(value) = self.variable(name.as_bytes(), now) {
                out(name.as_bytes(), value.as_bytes());
            }
        }
        for certificate in self.client.as_deref().into_iter().chain(server) {
            for (name, value) in certificate.variables.iter().filter(|named| is_listed(named)) {
                out(name.as_bytes(), value.as_bytes());
            }
        }
        if let Some(client) = &self.client {
            out(REMAINING_TIME, client.remaining_days(now).to_string().as_bytes());
        }
    }

    /// Gives `out` the certificates of both sides in PEM, as `SSLOptions +ExportCertData` does.
    /// They are long, therefore scripts get them on demand alone. Without a certificate of the
    /// client its variable is empty.
    pub fn certificates(&self, out: &mut impl FnMut(&[u8], &[u8])) {
        if self.client.is_none() {
            out(b"SSL_CLIENT_CERT", b"");
        }
        for certificate in self.client.as_deref().into_iter().chain(self.server.as_deref()) {
            for (name, value) in certificate.variables.iter().filter(|named| is_whole(named)) {
                out(name.as_bytes(), value.as_bytes());
            }
        }
    }

    /// Returns a variable, whose name is in capitals, such as `SSL_CLIENT_S_DN_EMAIL`. `None` for
    /// an unknown name and for a variable without a value. `now` is in seconds since 1970.
    pub fn variable(&self, name: &[u8], now: i64) -> Option<Cow<'_, str>> {
        Some(Cow::Borrowed(match name {
            b"HTTPS" => "on",
            b"SSL_TLS_SNI" => self.server_name.as_deref()?,
            b"SSL_PROTOCOL" => self.protocol,
            b"SSL_CIPHER" => self.cipher,
            b"SSL_CIPHER_USEKEYSIZE" | b"SSL_CIPHER_ALGKEYSIZE" if self.cipher_bits == 128 => "128",
            b"SSL_CIPHER_USEKEYSIZE" | b"SSL_CIPHER_ALGKEYSIZE" => "256",
            b"SSL_CIPHER_EXPORT" => "false",
            b"SSL_SESSION_RESUMED" if self.is_resumed => "Resumed",
            b"SSL_SESSION_RESUMED" => "Initial",
            b"SSL_SESSION_ID" => {
                let digits = hexadecimal(&self.session?).to_ascii_lowercase();
                return Some(digits.into());
            }
            b"SSL_SECURE_RENEG" => "true",
            b"SSL_COMPRESS_METHOD" => "NULL",
            b"SSL_CLIENT_VERIFY" if self.client.is_none() => "NONE",
            b"SSL_CLIENT_VERIFY" => "SUCCESS",
            b"SSL_VERSION_INTERFACE" => INTERFACE,
            b"SSL_VERSION_LIBRARY" | b"SSL_VERSION_LIBRARY_INTERFACE" => self.library,
            name => {
                let of_client = self.client.as_deref().and_then(|client| client.find(name, now));
                let of_server = || self.server.as_deref()?.find(name, now);
                return of_client.or_else(of_server);
            }
        }))
    }
}

impl CertificateVariables {
    /// Returns the whole days until the certificate ends.
    pub fn remaining_days(&self, now: i64) -> i64 {
        const DAY: i64 = 24 * 60 * 60;
        (self.ends.saturating_sub(now) / DAY).max(0)
    }

    fn find(&self, name: &[u8], now: i64) -> Option<Cow<'_, str>> {
        let rest = name.strip_prefix(self.prefix.as_bytes())?;
        if rest == b"V_REMAIN" {
            return Some(self.remaining_days(now).to_string().into());
        }
        // Parts of a name are counted from 0, and the first one has the plain name as well.
        let plain = name.strip_suffix(b"_0").filter(|_| rest.get(1..5) == Some(b"_DN_"));
        let name = plain.unwrap_or(name);
        let is_it = |known: &str| known.as_bytes().eq_ignore_ascii_case(name);
        let found = self.variables.iter().find(|(known, _)| is_it(known));
        found.map(|(_, value)| Cow::Borrowed(&**value))
    }
}

/// Writes bytes as upper-case hexadecimal digits.
pub fn hexadecimal(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from(b"0123456789ABCDEF"[usize::from(value)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// Returns whether a variable is a whole certificate: one side's own, or one of the authorities
/// between it and the root.
fn is_whole((name, _): &(Box<str>, Box<str>)) -> bool {
    name.ends_with("_CERT") || name.contains("_CERT_CHAIN_")
}

/// Returns whether scripts get a variable without a further option. mod_ssl tells them the names of
/// services of the server's certificate and those of users of the client's. Rules see both.
fn is_listed(named: &(Box<str>, Box<str>)) -> bool {
    let is_for_rules = ["SSL_SERVER_SAN_OTHER_msUPN_", "SSL_CLIENT_SAN_OTHER_dnsSRV_"]
        .map(|prefix| named.0.starts_with(prefix));
    !is_whole(named) && is_for_rules == [false, false]
}

/// The days until the client's certificate ends.
const REMAINING_TIME: &[u8] = b"SSL_CLIENT_V_REMAIN";
/// The counterpart of mod_ssl's own name and version.
const INTERFACE: &str = concat!("Howdah/", env!("CARGO_PKG_VERSION"));

/// The variables besides `HTTPS`, `SSL_TLS_SNI` and those of certificates.
const NAMES: [&str; 12] = [
    "SSL_PROTOCOL",
    "SSL_CIPHER",
    "SSL_CIPHER_USEKEYSIZE",
    "SSL_CIPHER_ALGKEYSIZE",
    "SSL_CIPHER_EXPORT",
    "SSL_SESSION_RESUMED",
    "SSL_SECURE_RENEG",
    "SSL_COMPRESS_METHOD",
    "SSL_CLIENT_VERIFY",
    "SSL_SESSION_ID",
    "SSL_VERSION_INTERFACE",
    "SSL_VERSION_LIBRARY",
];
/// The first of [`NAMES`], which scripts get where no directive has chosen.
const OF_CONNECTION: usize = 9;

#[cfg(test)]
mod tests {
    use super::*;

    fn certificate(prefix: &'static str, variables: &[(&str, &str)]) -> CertificateVariables {
        let owned = |(name, value): &(&str, &str)| ((*name).into(), (*value).into());
        CertificateVariables {
            prefix,
            ends: 10 * 86_400,
            variables: variables.iter().map(owned).collect(),
        }
    }

    fn tls() -> Tls {
        Tls {
            protocol: "TLSv1.3",
            cipher: "TLS_AES_128_GCM_SHA256",
            cipher_bits: 128,
            is_resumed: false,
            session: Some([0xf0; 32]),
            library: "library/1",
            server_name: None,
            server: Some(Arc::new(certificate("SSL_SERVER_", &[("SSL_SERVER_A_KEY", "k")]))),
            client: None,
        }
    }

    fn all(tls: &Tls, which: ScriptVariables) -> String {
        let mut all = Vec::new();
        tls.variables(which, 86_400, &mut |name, value| {
            all.push(String::from_utf8([name, b"=", value].concat()).unwrap());
        });
        all.join(" ")
    }

    #[test]
    fn variables_have_the_names_of_mod_ssl() {
        let mut tls = tls();
        let connection = "SSL_PROTOCOL=TLSv1.3 SSL_CIPHER=TLS_AES_128_GCM_SHA256 \
             SSL_CIPHER_USEKEYSIZE=128 SSL_CIPHER_ALGKEYSIZE=128 SSL_CIPHER_EXPORT=false \
             SSL_SESSION_RESUMED=Initial SSL_SECURE_RENEG=true SSL_COMPRESS_METHOD=NULL \
             SSL_CLIENT_VERIFY=NONE";
        assert_eq!(all(&tls, ScriptVariables::Connection), connection);
        let told = all(&tls, ScriptVariables::All);
        let rest = format!(
            " SSL_SESSION_ID={} SSL_VERSION_INTERFACE=Howdah/{} SSL_VERSION_LIBRARY=library/1 \
             SSL_SERVER_A_KEY=k",
            "f0".repeat(32),
            env!("CARGO_PKG_VERSION")
        );
        assert_eq!(told, connection.to_owned() + &rest);
        assert_eq!(all(&tls, ScriptVariables::ServerName), "");
        tls.is_resumed = true;
        tls.server_name = Some("a.example".into());
        tls.session = None;
        let told = all(&tls, ScriptVariables::All);
        assert!(told.starts_with("SSL_TLS_SNI=a.example SSL_PROTOCOL="));
        assert!(!told.contains("SSL_SESSION_ID"));
        assert_eq!(all(&tls, ScriptVariables::ServerName), "SSL_TLS_SNI=a.example");
        assert_eq!(tls.variable(b"SSL_SESSION_RESUMED", 0).unwrap(), "Resumed");
        tls.cipher_bits = 256;
        assert_eq!(tls.variable(b"SSL_CIPHER_USEKEYSIZE", 0).unwrap(), "256");
        assert_eq!(
            (tls.variable(b"HTTPS", 0).unwrap(), tls.variable(b"SSL_X", 0)),
            ("on".into(), None)
        );
    }

    #[test]
    fn scripts_are_told_the_names_of_a_user_and_of_a_server_s_services() {
        let shown = |prefix: &'static str| {
            let [users, services] =
                ["SAN_OTHER_msUPN_0", "SAN_OTHER_dnsSRV_0"].map(|name| format!("{prefix}{name}"));
            certificate(prefix, &[(&users, "ann"), (&services, "_imaps")])
        };
        let mut tls = tls();
        tls.client = Some(Box::new(shown("SSL_CLIENT_")));
        tls.server = Some(Arc::new(shown("SSL_SERVER_")));
        let told = all(&tls, ScriptVariables::All);
        assert!(told.contains(" SSL_CLIENT_SAN_OTHER_msUPN_0=ann "), "{told}");
        assert!(told.contains(" SSL_SERVER_SAN_OTHER_dnsSRV_0=_imaps"), "{told}");
        assert_eq!(told.matches("SAN_OTHER").count(), 2, "{told}");
        for (name, value) in [
            (&b"SSL_CLIENT_SAN_OTHER_MSUPN_0"[..], Some("ann")),
            (b"SSL_CLIENT_SAN_OTHER_MSUPN_1", None),
            (b"SSL_SERVER_SAN_OTHER_MSUPN_0", Some("ann")),
            (b"SSL_CLIENT_SAN_OTHER_DNSSRV_0", Some("_imaps")),
        ] {
            assert_eq!(tls.variable(name, 0).as_deref(), value, "{name:?}");
        }
    }

    #[test]
    fn certificates_have_the_days_that_they_are_valid() {
        let mut tls = tls();
        let shown = [
            ("SSL_CLIENT_S_DN_CN", "visitor"),
            ("SSL_CLIENT_CERT", "-----BEGIN"),
            ("SSL_CLIENT_CERT_CHAIN_0", "-----CHAIN"),
        ];
        tls.client = Some(Box::new(certificate("SSL_CLIENT_", &shown)));
        let end = "SSL_CLIENT_VERIFY=SUCCESS SSL_CLIENT_S_DN_CN=visitor SSL_CLIENT_V_REMAIN=9";
        let told = all(&tls, ScriptVariables::Connection);
        assert!(told.ends_with(end), "{told}");
        let mut told = Vec::new();
        tls.certificates(&mut |name, value| told.extend([name, b"=", value].concat()));
        assert_eq!(told, b"SSL_CLIENT_CERT=-----BEGINSSL_CLIENT_CERT_CHAIN_0=-----CHAIN");
        assert_eq!(tls.variable(b"SSL_CLIENT_CERT", 0).unwrap(), "-----BEGIN");
        assert_eq!(tls.variable(b"SSL_CLIENT_S_DN_CN_0", 0).unwrap(), "visitor");
        assert_eq!(tls.variable(b"SSL_CLIENT_CERT_0", 0), None);
        for (now, days) in [(0, "10"), (1, "9"), (11 * 86_400, "0"), (i64::MAX, "0")] {
            assert_eq!(tls.variable(b"SSL_CLIENT_V_REMAIN", now).unwrap(), days, "{now}");
            assert_eq!(tls.variable(b"SSL_SERVER_V_REMAIN", now).unwrap(), days, "{now}");
        }
        let shown = [("SSL_CLIENT_S_DN_Email", "a@b"), ("SSL_CLIENT_SAN_Email_0", "c@d")];
        tls.client = Some(Box::new(certificate("SSL_CLIENT_", &shown)));
        assert!(all(&tls, ScriptVariables::All).contains("SSL_CLIENT_SAN_Email_0=c@d"));
        for (name, value) in [
            (&b"SSL_CLIENT_S_DN_EMAIL"[..], "a@b"),
            (b"SSL_CLIENT_S_DN_EMAIL_0", "a@b"),
            (b"SSL_CLIENT_S_DN_Email", "a@b"),
            (b"SSL_CLIENT_SAN_EMAIL_0", "c@d"),
        ] {
            assert_eq!(tls.variable(name, 0).as_deref(), Some(value), "{name:?}");
        }
        tls.client = None;
        assert_eq!(tls.variable(b"SSL_CLIENT_V_REMAIN", 0), None);
        let mut told = Vec::new();
        tls.certificates(&mut |name, value| told.extend([name, b"=", value].concat()));
        assert_eq!(told, b"SSL_CLIENT_CERT=");
    }
}
