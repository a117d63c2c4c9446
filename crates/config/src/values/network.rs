//! Fields in which proxies name their clients.

/// A field in which a trusted proxy speaks for its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForwardedField {
    /// Forwarded (RFC 7239): all of it.
    Forwarded,
    /// X-Forwarded-For: the client's address.
    For,
    /// X-Forwarded-Proto: the scheme.
    Proto,
    /// X-Forwarded-Host: the host.
    Host,
    /// X-Forwarded-Port: the port that the client asked.
    Port,
}

impl ForwardedField {
    /// Every field.
    pub const ALL: [ForwardedField; 5] = [
        ForwardedField::For,
        ForwardedField::Proto,
        ForwardedField::Host,
        ForwardedField::Port,
        ForwardedField::Forwarded,
    ];

    /// The field's name.
    pub fn name(self) -> &'static str {
        match self {
            ForwardedField::Forwarded => "Forwarded",
            ForwardedField::For => "X-Forwarded-For",
            ForwardedField::Proto => "X-Forwarded-Proto",
            ForwardedField::Host => "X-Forwarded-Host",
            ForwardedField::Port => "X-Forwarded-Port",
        }
    }
}
