//! The messages between the process and the supervisor: one JSON object in each packet.

use serde::{Deserialize, Serialize};

/// The answer to a challenge, which the front gives to the authority.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ChallengeAnswer {
    /// HTTP-01: the content of `/.well-known/acme-challenge/TOKEN`.
    Http {
        /// The last part of the path.
        token: String,
        /// The content.
        content: String,
    },
    /// TLS-ALPN-01: the certificate for a handshake with the protocol `acme-tls/1`.
    Tls {
        /// The host name.
        name: String,
        /// The certificate, in PEM.
        certificate: String,
        /// The private key, in PEM.
        key: String,
    },
}

/// A message to the supervisor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToSupervisor {
    /// Answer a challenge from now on.
    Present {
        /// Repeated in [`ToProcess::Presented`] and [`ToSupervisor::Withdraw`].
        id: u64,
        /// The answer.
        answer: ChallengeAnswer,
    },
    /// Answer the challenge no longer.
    Withdraw {
        /// The number of the challenge.
        id: u64,
    },
    /// The folder has a new certificate of this name.
    Stored {
        /// The host name.
        name: String,
    },
    /// The state of a name, for `howdah status`.
    State {
        /// The host name.
        name: String,
        /// Text for a person.
        text: String,
        /// The time of the next renewal in seconds since 1970; `None` without a certificate.
        renewal: Option<u64>,
    },
    /// A line for the error log.
    Log {
        /// Whether it is an error, and not news.
        is_error: bool,
        /// Text for a person.
        text: String,
    },
}

/// A message to the process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToProcess {
    /// The front answers the challenge.
    Presented {
        /// The number of the challenge.
        id: u64,
    },
    /// A visitor asks for a name of a site whose certificates are ordered on demand.
    Demand(Demand),
}

/// A name that a visitor asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Demand {
    /// The host name.
    pub name: String,
    /// Whether the site has a folder for the name.
    pub has_folder: bool,
    /// The name of the site.
    pub site: String,
    /// The user who owns the name's folder; `None` without a folder, and if that is root, since no
    /// customer makes such a folder.
    pub owner: Option<u32>,
    /// The domain that the name belongs to, see [`domain`](crate::names::domain).
    pub domain: String,
}

/// Encodes a message as one packet.
pub fn encode(message: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(message).expect("these types have no value that JSON cannot hold")
}

/// Decodes one packet.
///
/// # Errors
/// The packet is malformed.
pub fn decode<'p, M: Deserialize<'p>>(packet: &'p [u8]) -> std::io::Result<M> {
    Ok(serde_json::from_slice(packet)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_the_way() {
        let answer = ChallengeAnswer::Http {
            token: "a".into(),
            content: "b\"\n".into(),
        };
        let present = ToSupervisor::Present { id: u64::MAX, answer };
        assert_eq!(decode::<ToSupervisor>(&encode(&present)).unwrap(), present);
        let stored = ToSupervisor::Stored { name: "example.org".into() };
        let packet = encode(&stored);
        assert_eq!(decode::<ToSupervisor>(&packet).unwrap(), stored);
        for end in 0..packet.len() {
            assert!(decode::<ToSupervisor>(&packet[..end]).is_err());
        }
    }
}
