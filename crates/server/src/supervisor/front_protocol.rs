//! The messages between the supervisor and the front, and the values that a front starts with.
//!
//! Each packet is one message: a kind byte, followed by the fields of the variant in order. A
//! number takes 8 bytes. A text is an 8-byte length and its bytes. Both ends are the same program,
//! except after a take-over, when they may be two versions of it. Then only [`ToFront::Drain`] and
//! [`FromFront::Drained`] are sent; their encoding must not change.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use howdah_acme::message::{self, Answer};
use howdah_config::Config;
use howdah_sys::credentials::Identity;
use howdah_sys::memory;
use howdah_sys::seqpacket::SeqPacket;

use crate::front::pulse::Pulse;
use crate::log::{ErrorLog, LogTarget, SiteLogs};
use crate::net::Listener;
use crate::observe::FrontCounters;
use crate::quic::QuicStart;
use crate::status::ServerFacts;
use crate::tls::{PairText, TicketKeys, TlsStart};

/// The values that a front starts with.
#[derive(Debug)]
pub(crate) struct FrontStart {
    pub(crate) config: Arc<Config>,
    /// The listeners, set to non-blocking.
    pub(crate) listeners: Vec<Listener>,
    /// The channel to the supervisor.
    pub(crate) channel: SeqPacket,
    pub(crate) pools: Vec<PoolChannel>,
    pub(crate) log: Arc<ErrorLog>,
    /// Challenges that the front answers from its start, with their numbers.
    pub(crate) answers: Vec<(u64, Answer)>,
    pub(crate) access: SiteLogs<LogTarget>,
    /// The heartbeats of the front's threads, for the supervisor.
    pub(crate) pulse: Arc<Pulse>,
    /// The listeners for monitors, set to non-blocking.
    pub(crate) admin: Vec<Listener>,
    /// The front's counters, which outlive it.
    pub(crate) counters: Arc<FrontCounters>,
    /// The server, with the counters of all fronts.
    pub(crate) facts: ServerFacts,
    /// Certificates and keys.
    pub(crate) tls: TlsStart,
    /// Sockets and keys of HTTP/3; `None` if no listener has it.
    pub(crate) quic: Option<QuicStart>,
}

/// The channel to a pool's zygote.
#[derive(Debug)]
pub(crate) struct PoolChannel {
    /// Index of the pool's site in the configuration.
    pub(crate) site: usize,
    pub(crate) name: String,
    /// `None` if the pool did not start. A zygote comes later.
    pub(crate) zygote: Option<SeqPacket>,
    /// The user that the pool runs as; `None` for the user of the front.
    pub(crate) user: Option<Arc<Identity>>,
}

/// A message from the supervisor to the front.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ToFront {
    /// Accept no more connections, finish all requests, stop the zygotes, send
    /// [`FromFront::Drained`] and end.
    Drain {
        /// Connections without a request may wait for one more request, because another front
        /// serves the address from now on.
        keep_idle: bool,
    },
    /// A pool has a new zygote, whose socket is attached to the message.
    PoolReplaced {
        /// Index in [`FrontStart::pools`].
        pool: usize,
    },
    /// Report the front's state for `howdah status`.
    Status {
        /// Repeated in the answer.
        id: u64,
    },
    /// Answer `howdah status --json`. The connection to the client is attached to the message.
    StatusJson {
        /// Repeated in the answer.
        id: u64,
    },
    /// Answer a request of HTTP that a client of the control socket has sent. The connection to the
    /// client is attached to the message.
    Monitor {
        /// Repeated in the answer.
        id: u64,
        /// The bytes that were read from the connection.
        received: Vec<u8>,
    },
    /// Use new log files. The descriptors of some of [`log_files`] are attached.
    ReopenLogs {
        /// The place of the first one among all of them.
        first: usize,
    },
    /// Answer a challenge of an authority for certificates from now on, and send
    /// [`FromFront::Presented`].
    Present {
        /// Number of the challenge.
        id: u64,
        /// The answer.
        answer: Answer,
    },
    /// Answer the challenge no longer.
    Withdraw {
        /// Number of the challenge.
        id: u64,
    },
    /// A site has other certificates. They are in the attached memory file ([`write_pairs`]).
    Certificates {
        /// Index of the site in the configuration.
        site: usize,
    },
    /// A site has another certificate of one name, or the first one. It is in the attached memory
    /// file ([`write_pairs`]).
    OneCertificate {
        /// Index of the site in the configuration.
        site: usize,
    },
    /// A site has other authorities of clients. They are in the attached memory file, in PEM.
    ClientAuthorities {
        /// Index of the site in the configuration.
        site: usize,
    },
    /// The files of a site still cannot be used, now for this reason, or they can be.
    Closed {
        /// Index of the site in the configuration.
        site: usize,
        /// The reason, for the operator; `None`: they can be used, and the site is open.
        why: Option<String>,
    },
    /// Read the packets of HTTP/3 from now on. Until then the former front does.
    ReadPackets,
    /// Session tickets have other keys. They are in the attached memory file
    /// ([`write_ticket_keys`]).
    TicketKeys,
}

/// A message from the front to the supervisor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FromFront {
    /// The front answers requests from now on. Sent once.
    Ready {
        /// In the order of [`FrontStart::pools`].
        pools: Vec<PoolFacts>,
    },
    /// All requests have finished.
    Drained,
    /// The answer to [`ToFront::Status`].
    Status {
        /// The number from the question.
        id: u64,
        /// Text for a person.
        text: String,
    },
    /// The front answers the challenge.
    Presented {
        /// Number of the challenge.
        id: u64,
    },
    /// A visitor asks for a name of a site whose certificates are ordered on demand.
    Demand {
        /// The host name.
        name: String,
        /// Whether the site has a folder for the name.
        has_folder: bool,
    },
    /// [`ToFront::StatusJson`] or [`ToFront::Monitor`] has arrived: the front answers the client.
    StatusTaken {
        /// The number from the question.
        id: u64,
    },
    /// A worker of the pool has violated the protocol. The pool must be killed and replaced.
    PoolBroken {
        /// Index in [`FrontStart::pools`].
        pool: usize,
        /// The violation, for the log.
        reason: String,
    },
}

/// Facts that a pool reported when it was ready.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PoolFacts {
    /// Version of PHP, for example `8.2.29`; empty for a pool that did not start.
    pub(crate) php_version: String,
    /// `on`, or the reason why opcache is off.
    pub(crate) opcache: String,
    /// Number of workers that are ready.
    pub(crate) workers: usize,
}

/// Returns the logs that are files, in the order of [`ToFront::ReopenLogs`]: the error log, then
/// the access logs.
pub(crate) fn log_files<'l>(
    log: &'l ErrorLog,
    access: impl Iterator<Item = &'l LogTarget>,
) -> impl Iterator<Item = &'l LogTarget> {
    [log.target()]
        .into_iter()
        .chain(access)
        .filter(|target| target.path().is_some())
}

/// Writes certificates and keys to a memory file, which only its descriptors lead to.
///
/// # Errors
/// The error of a system call.
pub(crate) fn write_pairs(pairs: &[PairText]) -> io::Result<OwnedFd> {
    let mut out = Writer(Vec::new()).number(pairs.len() as u64);
    for PairText {
        certificate_name,
        key_name,
        certificate,
        key,
    } in pairs
    {
        out = out.text(certificate_name).text(key_name).bytes(certificate).bytes(key);
    }
    write_memory(&out.0)
}

/// Writes the keys of session tickets to a memory file.
///
/// # Errors
/// The error of a system call.
pub(crate) fn write_ticket_keys(keys: &TicketKeys) -> io::Result<OwnedFd> {
    write_memory(&keys.to_bytes())
}

/// Reads what [`write_ticket_keys`] has written.
///
/// # Errors
/// The error of a system call.
pub(crate) fn read_ticket_keys(file: OwnedFd) -> io::Result<TicketKeys> {
    Ok(TicketKeys::from_bytes(&read_memory(file)?))
}

/// Writes bytes to a memory file, which only its descriptor leads to.
pub(super) fn write_memory(bytes: &[u8]) -> io::Result<OwnedFd> {
    let mut file = File::from(memory::sealed_file(c"howdah-keys", bytes.len())?);
    file.write_all(bytes)?;
    Ok(file.into())
}

/// Reads what [`write_memory`] has written.
pub(crate) fn read_memory(file: OwnedFd) -> io::Result<Vec<u8>> {
    let (mut file, mut content) = (File::from(file), Vec::new());
    file.rewind()?;
    file.read_to_end(&mut content)?;
    Ok(content)
}

/// Reads what [`write_pairs`] has written.
///
/// # Errors
/// The content is malformed, or the error of a system call.
pub(crate) fn read_pairs(file: OwnedFd) -> io::Result<Vec<PairText>> {
    let content = read_memory(file)?;
    let mut input = Reader(&content);
    let count = input.number()?;
    let pair = |_| {
        Ok(PairText {
            certificate_name: input.text()?,
            key_name: input.text()?,
            certificate: input.bytes()?.to_vec(),
            key: input.bytes()?.to_vec(),
        })
    };
    (0..count).map(pair).collect()
}

impl ToFront {
    /// Encodes the message as one packet.
    pub(crate) fn encode(&self) -> Vec<u8> {
        match self {
            ToFront::Drain { keep_idle } => Writer::kind(1).number(u64::from(*keep_idle)).0,
            ToFront::PoolReplaced { pool } => Writer::kind(2).number(*pool as u64).0,
            ToFront::Status { id } => Writer::kind(3).number(*id).0,
            ToFront::ReopenLogs { first } => Writer::kind(4).number(*first as u64).0,
            ToFront::Present { id, answer } => {
                let answer = String::from_utf8_lossy(&message::encode(answer)).into_owned();
                Writer::kind(20).number(*id).text(&answer).0
            }
            ToFront::Withdraw { id } => Writer::kind(21).number(*id).0,
            ToFront::StatusJson { id } => Writer::kind(7).number(*id).0,
            ToFront::Monitor { id, received } => Writer::kind(12).number(*id).bytes(received).0,
            ToFront::TicketKeys => Writer::kind(6).0,
            ToFront::ReadPackets => Writer::kind(8).0,
            ToFront::Certificates { site } => Writer::kind(5).number(*site as u64).0,
            ToFront::OneCertificate { site } => Writer::kind(9).number(*site as u64).0,
            ToFront::Closed { site, why } => {
                let why = why.as_deref().unwrap_or_default();
                Writer::kind(10).number(*site as u64).text(why).0
            }
            ToFront::ClientAuthorities { site } => Writer::kind(11).number(*site as u64).0,
        }
    }

    /// Decodes one packet.
    ///
    /// # Errors
    /// The packet is malformed.
    pub(crate) fn decode(bytes: &[u8]) -> io::Result<ToFront> {
        let (kind, mut input) = Reader::kind(bytes)?;
        Ok(match kind {
            1 => ToFront::Drain { keep_idle: input.number()? != 0 },
            2 => ToFront::PoolReplaced { pool: input.size()? },
            3 => ToFront::Status { id: input.number()? },
            4 => ToFront::ReopenLogs { first: input.size()? },
            20 => ToFront::Present {
                id: input.number()?,
                answer: message::decode(input.text()?.as_bytes())?,
            },
            21 => ToFront::Withdraw { id: input.number()? },
            7 => ToFront::StatusJson { id: input.number()? },
            12 => ToFront::Monitor {
                id: input.number()?,
                received: input.bytes()?.to_vec(),
            },
            6 => ToFront::TicketKeys,
            8 => ToFront::ReadPackets,
            5 => ToFront::Certificates { site: input.size()? },
            9 => ToFront::OneCertificate { site: input.size()? },
            10 => ToFront::Closed {
                site: input.size()?,
                why: Some(input.text()?).filter(|why| !why.is_empty()),
            },
            11 => ToFront::ClientAuthorities { site: input.size()? },
            _ => return Err(malformed()),
        })
    }
}

impl FromFront {
    /// Encodes the message as one packet.
    pub(crate) fn encode(&self) -> Vec<u8> {
        match self {
            FromFront::Ready { pools } => {
                let mut out = Writer::kind(1).number(pools.len() as u64);
                for PoolFacts { php_version, opcache, workers } in pools {
                    out = out.text(php_version).text(opcache).number(*workers as u64);
                }
                out.0
            }
            FromFront::Drained => Writer::kind(2).0,
            FromFront::Status { id, text } => Writer::kind(3).number(*id).text(text).0,
            FromFront::PoolBroken { pool, reason } => {
                Writer::kind(4).number(*pool as u64).text(reason).0
            }
            FromFront::Presented { id } => Writer::kind(20).number(*id).0,
            FromFront::StatusTaken { id } => Writer::kind(5).number(*id).0,
            FromFront::Demand { name, has_folder } => {
                Writer::kind(21).text(name).number(u64::from(*has_folder)).0
            }
        }
    }

    /// Decodes one packet.
    ///
    /// # Errors
    /// The packet is malformed.
    pub(crate) fn decode(bytes: &[u8]) -> io::Result<FromFront> {
        let (kind, mut input) = Reader::kind(bytes)?;
        Ok(match kind {
            1 => {
                let count = input.number()?;
                let facts = |_| {
                    Ok(PoolFacts {
                        php_version: input.text()?,
                        opcache: input.text()?,
                        workers: input.size()?,
                    })
                };
                FromFront::Ready {
                    pools: (0..count).map(facts).collect::<io::Result<_>>()?,
                }
            }
            2 => FromFront::Drained,
            3 => FromFront::Status { id: input.number()?, text: input.text()? },
            4 => FromFront::PoolBroken {
                pool: input.size()?,
                reason: input.text()?,
            },
            20 => FromFront::Presented { id: input.number()? },
            5 => FromFront::StatusTaken { id: input.number()? },
            21 => FromFront::Demand {
                name: input.text()?,
                has_folder: input.number()? != 0,
            },
            _ => return Err(malformed()),
        })
    }
}

struct Writer(Vec<u8>);

impl Writer {
    fn kind(kind: u8) -> Writer {
        Writer(vec![kind])
    }

    fn number(mut self, number: u64) -> Writer {
        self.0.extend_from_slice(&number.to_ne_bytes());
        self
    }

    fn text(self, text: &str) -> Writer {
        self.bytes(text.as_bytes())
    }

    fn bytes(self, bytes: &[u8]) -> Writer {
        let mut out = self.number(bytes.len() as u64);
        out.0.extend_from_slice(bytes);
        out
    }
}

struct Reader<'b>(&'b [u8]);

impl<'b> Reader<'b> {
    fn kind(bytes: &'b [u8]) -> io::Result<(u8, Reader<'b>)> {
        let (kind, rest) = bytes.split_first().ok_or_else(malformed)?;
        Ok((*kind, Reader(rest)))
    }

    fn number(&mut self) -> io::Result<u64> {
        let (number, rest) = self.0.split_first_chunk::<8>().ok_or_else(malformed)?;
        self.0 = rest;
        Ok(u64::from_ne_bytes(*number))
    }

    fn size(&mut self) -> io::Result<usize> {
        usize::try_from(self.number()?).map_err(|_| malformed())
    }

    fn text(&mut self) -> io::Result<String> {
        String::from_utf8(self.bytes()?.to_vec()).map_err(|_| malformed())
    }

    fn bytes(&mut self) -> io::Result<&'b [u8]> {
        let length = self.size()?;
        let (bytes, rest) = self.0.split_at_checked(length).ok_or_else(malformed)?;
        self.0 = rest;
        Ok(bytes)
    }
}

fn malformed() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        "a message between supervisor and front is malformed",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to_front() -> Vec<ToFront> {
        vec![
            ToFront::Drain { keep_idle: true },
            ToFront::Drain { keep_idle: false },
            ToFront::PoolReplaced { pool: 3 },
            ToFront::Status { id: u64::MAX },
            ToFront::ReopenLogs { first: 200 },
            ToFront::Present {
                id: 9,
                answer: Answer::Http { token: "a".into(), content: "a.b".into() },
            },
            ToFront::Withdraw { id: 9 },
            ToFront::StatusJson { id: 9 },
            ToFront::Monitor {
                id: 9,
                received: b"GET / HTTP/1.1\r\n".to_vec(),
            },
            ToFront::Certificates { site: 2 },
            ToFront::OneCertificate { site: 2 },
            ToFront::Closed { site: 2, why: Some("no key".into()) },
            ToFront::Closed { site: 2, why: None },
            ToFront::ClientAuthorities { site: 2 },
            ToFront::TicketKeys,
            ToFront::ReadPackets,
        ]
    }

    fn from_front() -> Vec<FromFront> {
        let facts = |workers| PoolFacts {
            php_version: "8.2.29".into(),
            opcache: "on".into(),
            workers,
        };
        vec![
            FromFront::Ready { pools: vec![] },
            FromFront::Ready { pools: vec![facts(8), facts(0)] },
            FromFront::Drained,
            FromFront::Status { id: 7, text: "all\nwell".into() },
            FromFront::PoolBroken { pool: 1, reason: "nonsense".into() },
            FromFront::Presented { id: 9 },
            FromFront::StatusTaken { id: 9 },
            FromFront::Demand {
                name: "example.org".into(),
                has_folder: true,
            },
        ]
    }

    #[test]
    fn messages_survive_the_way() {
        for message in to_front() {
            assert_eq!(ToFront::decode(&message.encode()).unwrap(), message);
        }
        for message in from_front() {
            assert_eq!(FromFront::decode(&message.encode()).unwrap(), message);
        }
    }

    #[test]
    fn certificates_survive_the_way() {
        let pair = |name: &str| PairText {
            certificate_name: name.into(),
            key_name: "key".into(),
            certificate: b"-----BEGIN\n".to_vec(),
            key: Vec::new(),
        };
        for pairs in [vec![], vec![pair("a"), pair("b")]] {
            assert_eq!(read_pairs(write_pairs(&pairs).unwrap()).unwrap(), pairs);
        }
        let keys = TicketKeys::default().rotated().unwrap();
        assert_eq!(read_ticket_keys(write_ticket_keys(&keys).unwrap()).unwrap(), keys);
    }

    #[test]
    fn a_message_that_is_cut_off_is_malformed() {
        for bytes in to_front().iter().map(ToFront::encode) {
            for end in 0..bytes.len() {
                assert!(ToFront::decode(&bytes[..end]).is_err());
            }
        }
        for bytes in from_front().iter().map(FromFront::encode) {
            for end in 0..bytes.len() {
                assert!(FromFront::decode(&bytes[..end]).is_err());
            }
        }
        assert!(ToFront::decode(&[99]).is_err());
        let endless = [&[1][..], &u64::MAX.to_ne_bytes()].concat();
        assert!(FromFront::decode(&endless).is_err());
    }
}
