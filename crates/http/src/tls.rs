//! Facts about an encrypted connection, under the names of Apache's mod_ssl.

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
    /// The name that the client asked for (SNI); `None` if it asked for none.
    pub server_name: Option<Box<str>>,
    /// The variables `SSL_CLIENT_…` of the certificate that the client has shown, each with its
    /// value. Empty if it has shown none.
    pub client: Vec<(String, String)>,
}

impl Tls {
    /// Gives `out` every variable with a value.
    pub fn variables(&self, out: &mut impl FnMut(&[u8], &[u8])) {
        if let Some(name) = &self.server_name {
            out(b"SSL_TLS_SNI", name.as_bytes());
        }
        for name in NAMES {
            if let Some(value) = self.variable(name.as_bytes()) {
                out(name.as_bytes(), value.as_bytes());
            }
        }
        // The certificate itself is long; rules can pass it on.
        for (name, value) in self.client.iter().filter(|(name, _)| name != CERTIFICATE) {
            out(name.as_bytes(), value.as_bytes());
        }
    }

    /// Returns a variable; `None` for an unknown name and for a variable without a value.
    pub fn variable(&self, name: &[u8]) -> Option<&str> {
        Some(match name {
            b"HTTPS" => "on",
            b"SSL_TLS_SNI" => self.server_name.as_deref()?,
            b"SSL_PROTOCOL" => self.protocol,
            b"SSL_CIPHER" => self.cipher,
            b"SSL_CIPHER_USEKEYSIZE" | b"SSL_CIPHER_ALGKEYSIZE" if self.cipher_bits == 128 => "128",
            b"SSL_CIPHER_USEKEYSIZE" | b"SSL_CIPHER_ALGKEYSIZE" => "256",
            b"SSL_CIPHER_EXPORT" => "false",
            b"SSL_SESSION_RESUMED" if self.is_resumed => "Resumed",
            b"SSL_SESSION_RESUMED" => "Initial",
            b"SSL_SECURE_RENEG" => "true",
            b"SSL_COMPRESS_METHOD" => "NULL",
            b"SSL_CLIENT_VERIFY" if self.client.is_empty() => "NONE",
            b"SSL_CLIENT_VERIFY" => "SUCCESS",
            name => {
                let of_client = self.client.iter().find(|(known, _)| known.as_bytes() == name);
                return of_client.map(|(_, value)| value.as_str());
            }
        })
    }
}

/// The client's certificate in PEM.
const CERTIFICATE: &str = "SSL_CLIENT_CERT";

/// The variables besides `HTTPS` and `SSL_TLS_SNI`.
const NAMES: [&str; 9] = [
    "SSL_PROTOCOL",
    "SSL_CIPHER",
    "SSL_CIPHER_USEKEYSIZE",
    "SSL_CIPHER_ALGKEYSIZE",
    "SSL_CIPHER_EXPORT",
    "SSL_SESSION_RESUMED",
    "SSL_SECURE_RENEG",
    "SSL_COMPRESS_METHOD",
    "SSL_CLIENT_VERIFY",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_have_the_names_of_mod_ssl() {
        let mut tls = Tls {
            protocol: "TLSv1.3",
            cipher: "TLS_AES_128_GCM_SHA256",
            cipher_bits: 128,
            is_resumed: false,
            server_name: None,
            client: Vec::new(),
        };
        let all = |tls: &Tls| {
            let mut all = Vec::new();
            tls.variables(&mut |name, value| {
                all.push(String::from_utf8([name, b"=", value].concat()).unwrap());
            });
            all.join(" ")
        };
        assert_eq!(
            all(&tls),
            "SSL_PROTOCOL=TLSv1.3 SSL_CIPHER=TLS_AES_128_GCM_SHA256 SSL_CIPHER_USEKEYSIZE=128 \
             SSL_CIPHER_ALGKEYSIZE=128 SSL_CIPHER_EXPORT=false SSL_SESSION_RESUMED=Initial \
             SSL_SECURE_RENEG=true SSL_COMPRESS_METHOD=NULL SSL_CLIENT_VERIFY=NONE"
        );
        tls.is_resumed = true;
        tls.server_name = Some("a.example".into());
        assert!(all(&tls).starts_with("SSL_TLS_SNI=a.example SSL_PROTOCOL="));
        assert_eq!(tls.variable(b"SSL_SESSION_RESUMED"), Some("Resumed"));
        let client = [("SSL_CLIENT_S_DN_CN", "ann"), ("SSL_CLIENT_CERT", "-----BEGIN")];
        tls.client = client.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        assert!(all(&tls).ends_with("SSL_CLIENT_VERIFY=SUCCESS SSL_CLIENT_S_DN_CN=ann"));
        assert_eq!(tls.variable(b"SSL_CLIENT_CERT"), Some("-----BEGIN"));
        assert_eq!((tls.variable(b"HTTPS"), tls.variable(b"SSL_X")), (Some("on"), None));
    }
}
