//! The messages between the supervisor and the front, and the values that a front starts with.
//!
//! Each packet is one message, encoded by [`packet`](howdah_ipc::packet). Both ends are the same
//! program, except after a take-over, when they may be two versions of it. Then only
//! [`ToFront::Drain`] and [`FromFront::Drained`] are sent; their encoding must not change.

mod key_files;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use howdah_acme::message::{self, ChallengeAnswer, Demand};
use howdah_config::Config;
use howdah_files::SiteFolders;
use howdah_ipc::packet::{PacketReader, PacketWriter, malformed};
use howdah_sys::credentials::Identity;
use howdah_sys::memory::SharedNumbers;
use howdah_sys::seqpacket::SeqPacket;

use crate::front::ReasonTopic;
use crate::front::pulse::Pulse;
use crate::log::{ErrorLog, LogTarget, SiteLogs};
use crate::net::Listener;
use crate::observe::FrontCounters;
use crate::quic::QuicStart;
use crate::status::ServerFacts;
use crate::tls::TlsStart;

pub(super) use self::key_files::write_memory;
pub(crate) use self::key_files::{
    read_memory, read_pairs, read_ticket_keys, write_pairs, write_ticket_keys,
};

/// The values that a front starts with.
#[derive(Debug)]
pub(crate) struct FrontStart {
    pub(crate) config: Arc<Config>,
    /// The folders of the sites, where links of others must not lead.
    pub(crate) site_folders: SiteFolders,
    /// The listeners, set to non-blocking.
    pub(crate) listeners: Vec<Listener>,
    /// The channel to the supervisor.
    pub(crate) channel: SeqPacket,
    pub(crate) pools: Vec<PoolChannel>,
    pub(crate) log: Arc<ErrorLog>,
    /// Challenges that the front answers from its start, with their numbers.
    pub(crate) answers: Vec<(u64, ChallengeAnswer)>,
    pub(crate) access: SiteLogs<LogTarget>,
    /// The heartbeats of the front's threads, for the supervisor.
    pub(crate) pulse: Arc<Pulse>,
    /// The listeners for monitors, set to non-blocking.
    pub(crate) admin: Vec<Listener>,
    /// The front's counters, which outlive it.
    pub(crate) counters: Arc<FrontCounters>,
    /// The measured memory of each site's workers, by
    /// [`MemoryRecord`](howdah_php::MemoryRecord).
    pub(crate) worker_memory: Arc<SharedNumbers>,
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
    /// The time that requests wait for such a zygote, before they are answered with 503.
    pub(crate) grace: Duration,
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
    /// Whether tunnels may go on for longer than `drain_timeout` while the front drains. Only a
    /// front of this program understands it.
    KeepTunnels(bool),
    /// A pool has a new zygote, whose socket is attached to the message.
    PoolReplaced {
        /// Index in [`FrontStart::pools`].
        pool: usize,
        /// Number of the zygote among those of the pool that this front has got. A first one, that
        /// of [`PoolChannel`], has the number 0.
        zygote: u64,
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
        answer: ChallengeAnswer,
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
    /// The next renewals of certificates that are ordered.
    Renewals {
        /// Host names, with the time in seconds since 1970; `None`: no renewal is planned.
        names: Vec<(String, Option<u64>)>,
    },
    /// The reason why something of a site is not as it should be; `None` if it is.
    Reason {
        topic: ReasonTopic,
        /// Index of the site in the configuration.
        site: usize,
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
    /// The front, told to drain, accepts no more connections.
    Closed,
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
    Demand(Demand),
    /// [`ToFront::StatusJson`] or [`ToFront::Monitor`] has arrived: the front answers the client.
    StatusTaken {
        /// The number from the question.
        id: u64,
    },
    /// A worker of the pool has violated the protocol. The zygote must be killed and replaced, if
    /// that has not happened yet.
    PoolBroken {
        /// Index in [`FrontStart::pools`].
        pool: usize,
        /// Number of the zygote, as in [`ToFront::PoolReplaced`]. `None`: the front is one of a
        /// former program, which names none.
        zygote: Option<u64>,
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

impl ToFront {
    /// Encodes the message as one packet.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let out = match self {
            ToFront::Drain { keep_idle } => PacketWriter::of_kind(1).flag(*keep_idle),
            ToFront::KeepTunnels(keep) => PacketWriter::of_kind(15).flag(*keep),
            ToFront::PoolReplaced { pool, zygote } => {
                PacketWriter::of_kind(2).size(*pool).number(*zygote)
            }
            ToFront::Status { id } => PacketWriter::of_kind(3).number(*id),
            ToFront::ReopenLogs { first } => PacketWriter::of_kind(4).size(*first),
            ToFront::Present { id, answer } => {
                let answer = String::from_utf8_lossy(&message::encode(answer)).into_owned();
                PacketWriter::of_kind(20).number(*id).text(&answer)
            }
            ToFront::Withdraw { id } => PacketWriter::of_kind(21).number(*id),
            ToFront::StatusJson { id } => PacketWriter::of_kind(7).number(*id),
            ToFront::Monitor { id, received } => {
                PacketWriter::of_kind(12).number(*id).bytes(received)
            }
            ToFront::TicketKeys => PacketWriter::of_kind(6),
            ToFront::Reason { topic, site, why } => {
                let why = why.as_deref().unwrap_or_default();
                PacketWriter::of_kind(14).size(*topic as usize).size(*site).text(why)
            }
            ToFront::ReadPackets => PacketWriter::of_kind(8),
            ToFront::Certificates { site } => PacketWriter::of_kind(5).size(*site),
            ToFront::OneCertificate { site } => PacketWriter::of_kind(9).size(*site),
            ToFront::Closed { site, why } => {
                let why = why.as_deref().unwrap_or_default();
                PacketWriter::of_kind(10).size(*site).text(why)
            }
            ToFront::ClientAuthorities { site } => PacketWriter::of_kind(11).size(*site),
            ToFront::Renewals { names } => {
                PacketWriter::of_kind(13).list(names, |out, (name, next)| {
                    out.text(name).flag(next.is_some()).number(next.unwrap_or_default())
                })
            }
        };
        out.finish()
    }

    /// Decodes one packet.
    ///
    /// # Errors
    /// The packet is malformed.
    pub(crate) fn decode(bytes: &[u8]) -> io::Result<ToFront> {
        let mut input = PacketReader::new(bytes);
        Ok(match input.kind()? {
            1 => ToFront::Drain { keep_idle: input.flag()? },
            15 => ToFront::KeepTunnels(input.flag()?),
            2 => ToFront::PoolReplaced {
                pool: input.size()?,
                zygote: input.number()?,
            },
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
            14 => ToFront::Reason {
                topic: *ReasonTopic::ALL.get(input.size()?).ok_or_else(malformed)?,
                site: input.size()?,
                why: Some(input.text()?).filter(|why| !why.is_empty()),
            },
            8 => ToFront::ReadPackets,
            5 => ToFront::Certificates { site: input.size()? },
            9 => ToFront::OneCertificate { site: input.size()? },
            10 => ToFront::Closed {
                site: input.size()?,
                why: Some(input.text()?).filter(|why| !why.is_empty()),
            },
            11 => ToFront::ClientAuthorities { site: input.size()? },
            13 => {
                let entry = |input: &mut PacketReader<'_>| {
                    let (name, is_planned) = (input.text()?, input.flag()?);
                    let next = input.number()?;
                    Ok((name, is_planned.then_some(next)))
                };
                ToFront::Renewals { names: input.list(entry)? }
            }
            _ => return Err(malformed()),
        })
    }
}

impl FromFront {
    /// Encodes the message as one packet.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let out = match self {
            FromFront::Ready { pools } => PacketWriter::of_kind(1).list(
                pools,
                |out, PoolFacts { php_version, opcache, workers }| {
                    out.text(php_version).text(opcache).size(*workers)
                },
            ),
            FromFront::Drained => PacketWriter::of_kind(2),
            FromFront::Closed => PacketWriter::of_kind(23),
            FromFront::Status { id, text } => PacketWriter::of_kind(3).number(*id).text(text),
            FromFront::PoolBroken { pool, zygote: None, reason } => {
                PacketWriter::of_kind(4).size(*pool).text(reason)
            }
            FromFront::PoolBroken { pool, zygote: Some(zygote), reason } => {
                PacketWriter::of_kind(22).size(*pool).text(reason).number(*zygote)
            }
            FromFront::Presented { id } => PacketWriter::of_kind(20).number(*id),
            FromFront::StatusTaken { id } => PacketWriter::of_kind(5).number(*id),
            FromFront::Demand(demand) => PacketWriter::of_kind(24)
                .text(&demand.name)
                .flag(demand.has_folder)
                .text(&demand.site)
                .text(&demand.domain)
                .list(demand.owner.as_slice(), |out, owner| out.number(u64::from(*owner))),
        };
        out.finish()
    }

    /// Decodes one packet.
    ///
    /// # Errors
    /// The packet is malformed.
    pub(crate) fn decode(bytes: &[u8]) -> io::Result<FromFront> {
        let mut input = PacketReader::new(bytes);
        Ok(match input.kind()? {
            1 => {
                let facts = |input: &mut PacketReader<'_>| {
                    Ok(PoolFacts {
                        php_version: input.text()?,
                        opcache: input.text()?,
                        workers: input.size()?,
                    })
                };
                FromFront::Ready { pools: input.list(facts)? }
            }
            2 => FromFront::Drained,
            23 => FromFront::Closed,
            3 => FromFront::Status { id: input.number()?, text: input.text()? },
            4 => FromFront::PoolBroken {
                pool: input.size()?,
                reason: input.text()?,
                zygote: None,
            },
            22 => FromFront::PoolBroken {
                pool: input.size()?,
                reason: input.text()?,
                zygote: Some(input.number()?),
            },
            20 => FromFront::Presented { id: input.number()? },
            5 => FromFront::StatusTaken { id: input.number()? },
            // From a front of an older program.
            21 => FromFront::Demand(Demand {
                name: input.text()?,
                has_folder: input.flag()?,
                site: String::new(),
                owner: None,
                domain: String::new(),
            }),
            24 => {
                let (name, has_folder) = (input.text()?, input.flag()?);
                let (site, domain) = (input.text()?, input.text()?);
                let owners = input.list(PacketReader::number)?;
                let owner = owners.first().and_then(|owner| u32::try_from(*owner).ok());
                FromFront::Demand(Demand { name, has_folder, site, owner, domain })
            }
            _ => return Err(malformed()),
        })
    }
}

#[cfg(test)]
mod tests;
