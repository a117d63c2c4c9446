//! The messages between supervisor, front and zygote, one per packet of a [`SeqPacket`].
//!
//! The encoding ([`packet`](crate::packet)) has no version. Supervisor, front and zygote have to be
//! built from the same sources of this crate, and the zygote's program may have been replaced since
//! the supervisor started. Therefore the first message begins with [`BUILD`].

mod pool_settings;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use howdah_sys::seqpacket::{MOST_DESCRIPTORS, SeqPacket};

pub use self::pool_settings::{OVERTIME, PoolSettings};
use crate::layout::Geometry;
use crate::packet::{PacketReader, PacketWriter, malformed};
use crate::worker_set::WorkerSet;

/// Largest number of bytes in one message. The receiver takes a longer one for malformed.
pub const MOST_BYTES: usize = 256 * 1024;

/// A number of the sources that both sides of the shared memory have to be built from.
pub const BUILD: u64 = {
    let sources: [&[u8]; 14] = [
        include_bytes!("control.rs"),
        include_bytes!("control/pool_settings.rs"),
        include_bytes!("figures.rs"),
        include_bytes!("flow_control.rs"),
        include_bytes!("layout.rs"),
        include_bytes!("packet.rs"),
        include_bytes!("queue.rs"),
        include_bytes!("region.rs"),
        include_bytes!("request.rs"),
        include_bytes!("response.rs"),
        include_bytes!("slot.rs"),
        include_bytes!("sub_request.rs"),
        include_bytes!("time_grant.rs"),
        include_bytes!("worker_set.rs"),
    ];
    // FNV-1a, of 64 bits.
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut number = 0;
    while number < sources.len() {
        let mut at = 0;
        while at < sources[number].len() {
            hash = (hash ^ sources[number][at] as u64).wrapping_mul(0x0100_0000_01b3);
            at += 1;
        }
        number += 1;
    }
    hash
};

/// A message from the supervisor or from the front to the zygote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToZygote {
    /// From the supervisor: how to start PHP. Sent once, as the first message. A descriptor that
    /// comes with it has the list of scripts that opcache gets before PHP is ready; see
    /// [`ToZygote::ListScripts`].
    Settings(Box<PoolSettings>),
    /// From the front: some of a region's descriptors; see [`AttachMessage`].
    Attach {
        /// Sizes of the region.
        geometry: Geometry,
        /// Number of descriptors in all packets together.
        total: u64,
    },
    /// From the front: keep these workers alive, and let the others finish and end.
    Keep(WorkerSet),
    /// From the front: send a signal to a worker, unless the worker was replaced in the meantime.
    Kill {
        /// Index of the worker.
        worker: u64,
        /// Process that the worker had when the front decided. The signal is sent to no other
        /// process.
        pid: u64,
        /// The signal's number.
        signal: u64,
    },
    /// Lets every worker finish its request, then end.
    Stop,
    /// From the front: clean a slot that no worker uses. The zygote answers with
    /// [`FromZygote::Cleaned`].
    Clean(SlotCleaning),
    /// From the supervisor: write the paths of the scripts that opcache has to the descriptor that
    /// comes with this message, those that were used most first, each with a NUL at its end.
    ListScripts,
    /// From the supervisor, after the death of another zygote of the pool: compile the scripts of
    /// such lists beside the pool's requests. The lists are files, the best one first.
    CompileScripts,
    /// From the supervisor, where PHP does not start anew: fork a zygote for another generation, in
    /// which PHP has started as in this one. The twin's sockets to the supervisor and to the front
    /// come with the message, and it sends [`FromZygote::Ready`] through both.
    ForkTwin,
}

/// Cleaning of an unused slot by the zygote. The front must not clean it: these calls may wait for
/// processes of the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "the slot stays unusable until the zygote has cleaned it"]
pub struct SlotCleaning {
    /// Index of the slot. The zygote closes the descriptors that are left in the slot's socket.
    pub slot: u64,
    /// The memory of the slot's ring behind this number of bytes is released to the kernel.
    pub kept: u64,
}

/// A message from the zygote to the supervisor or to the front.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FromZygote {
    /// To both: PHP has started.
    Ready {
        /// Version of PHP, for example `8.2.29`.
        php_version: String,
        /// `on`, or the reason why opcache is off.
        opcache: String,
        /// A number of PHP, its extensions and its settings: another one where these differ.
        settings: u64,
        /// The scripts that were compiled before; `None` if there was no list of them.
        warmup: Option<OpcacheWarmup>,
    },
    /// To the supervisor: PHP could not start.
    Failed {
        /// The reason, for a person.
        reason: String,
    },
    /// To the front: a worker is alive.
    Started {
        /// Index of the worker.
        worker: u64,
        /// Process of the worker.
        pid: u64,
    },
    /// To the front: a worker is dead.
    Died {
        /// Index of the worker.
        worker: u64,
        /// Process of the worker.
        pid: u64,
        /// Exit status as `wait(2)` returns it.
        status: u64,
        /// Nanoseconds that the worker was on a processor, with the programs that its scripts have
        /// started and waited for.
        processor: u64,
    },
    /// To the front: the slot was cleaned.
    Cleaned {
        /// Index of the slot.
        slot: u64,
    },
}

/// The scripts that a zygote has compiled before its first request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OpcacheWarmup {
    /// Number of scripts that opcache has now.
    pub scripts: u64,
    /// Time that it took.
    pub microseconds: u64,
}

/// A region and all of its descriptors: the memory file, one doorbell per front thread, one socket
/// per slot.
#[derive(Debug)]
pub struct AttachMessage {
    /// Sizes of the region.
    pub geometry: Geometry,
    /// All descriptors, in the order given above.
    pub descriptors: Vec<OwnedFd>,
}

impl AttachMessage {
    /// Sends the region and its descriptors, in as many packets as the kernel's limit requires.
    /// Never waits.
    ///
    /// # Errors
    /// A packet could not be sent: the zygote is gone, or does not read.
    pub fn send(&self, to: &SeqPacket) -> io::Result<()> {
        let message = ToZygote::Attach {
            geometry: self.geometry,
            total: self.descriptors.len() as u64,
        }
        .encode();
        for part in self.descriptors.chunks(MOST_DESCRIPTORS) {
            let part: Vec<BorrowedFd<'_>> = part.iter().map(AsFd::as_fd).collect();
            to.send_now(&message, &part)?;
        }
        Ok(())
    }
}

impl ToZygote {
    /// Encodes the message as one packet.
    pub fn encode(&self) -> Vec<u8> {
        let out = match self {
            ToZygote::Settings(settings) => settings.append_to(PacketWriter::of_kind(1)),
            ToZygote::Attach { geometry, total } => PacketWriter::of_kind(2)
                .size(geometry.slots)
                .size(geometry.workers)
                .size(geometry.threads)
                .size(geometry.request_bytes)
                .size(geometry.ring_bytes)
                .number(*total),
            ToZygote::Keep(workers) => {
                PacketWriter::of_kind(3).list(workers.words(), |out, word| out.number(*word))
            }
            ToZygote::Kill { worker, pid, signal } => {
                PacketWriter::of_kind(4).number(*worker).number(*pid).number(*signal)
            }
            ToZygote::Stop => PacketWriter::of_kind(5),
            ToZygote::Clean(SlotCleaning { slot, kept }) => {
                PacketWriter::of_kind(6).number(*slot).number(*kept)
            }
            ToZygote::ListScripts => PacketWriter::of_kind(7),
            ToZygote::CompileScripts => PacketWriter::of_kind(8),
            ToZygote::ForkTwin => PacketWriter::of_kind(9),
        };
        out.finish()
    }

    /// Decodes one packet.
    ///
    /// # Errors
    /// The packet is not a message of this type.
    pub fn decode(bytes: &[u8]) -> io::Result<ToZygote> {
        let mut input = PacketReader::new(bytes);
        let message = match input.kind()? {
            1 if input.number()? != BUILD => {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    "this program and howdah were built from different sources: install the same \
                     version of both, then restart howdah, or send it SIGUSR2",
                ));
            }
            1 => ToZygote::Settings(Box::new(PoolSettings::take_from(&mut input)?)),
            2 => ToZygote::Attach {
                geometry: Geometry {
                    slots: input.size()?,
                    workers: input.size()?,
                    threads: input.size()?,
                    request_bytes: input.size()?,
                    ring_bytes: input.size()?,
                },
                total: input.number()?,
            },
            3 => {
                let words = input.list(PacketReader::number)?;
                ToZygote::Keep(WorkerSet::of_words(words).ok_or_else(malformed)?)
            }
            4 => ToZygote::Kill {
                worker: input.number()?,
                pid: input.number()?,
                signal: input.number()?,
            },
            5 => ToZygote::Stop,
            6 => ToZygote::Clean(SlotCleaning {
                slot: input.number()?,
                kept: input.number()?,
            }),
            7 => ToZygote::ListScripts,
            8 => ToZygote::CompileScripts,
            9 => ToZygote::ForkTwin,
            _ => return Err(malformed()),
        };
        Ok(message)
    }
}

impl FromZygote {
    /// Encodes the message as one packet.
    pub fn encode(&self) -> Vec<u8> {
        let out = match self {
            FromZygote::Ready { php_version, opcache, settings, warmup } => {
                let out = PacketWriter::of_kind(1).text(php_version).text(opcache);
                let out = out.number(*settings);
                match warmup {
                    Some(OpcacheWarmup { scripts, microseconds }) => {
                        out.flag(true).number(*scripts).number(*microseconds)
                    }
                    None => out.flag(false),
                }
            }
            FromZygote::Failed { reason } => PacketWriter::of_kind(2).text(reason),
            FromZygote::Started { worker, pid } => {
                PacketWriter::of_kind(3).number(*worker).number(*pid)
            }
            FromZygote::Died { worker, pid, status, processor } => PacketWriter::of_kind(4)
                .number(*worker)
                .number(*pid)
                .number(*status)
                .number(*processor),
            FromZygote::Cleaned { slot } => PacketWriter::of_kind(5).number(*slot),
        };
        out.finish()
    }

    /// Decodes one packet.
    ///
    /// # Errors
    /// The packet is not a message of this type.
    pub fn decode(bytes: &[u8]) -> io::Result<FromZygote> {
        let mut input = PacketReader::new(bytes);
        let message = match input.kind()? {
            1 => FromZygote::Ready {
                php_version: input.text()?,
                opcache: input.text()?,
                settings: input.number()?,
                warmup: match input.flag()? {
                    true => Some(OpcacheWarmup {
                        scripts: input.number()?,
                        microseconds: input.number()?,
                    }),
                    false => None,
                },
            },
            2 => FromZygote::Failed { reason: input.text()? },
            3 => FromZygote::Started {
                worker: input.number()?,
                pid: input.number()?,
            },
            4 => FromZygote::Died {
                worker: input.number()?,
                pid: input.number()?,
                status: input.number()?,
                processor: input.number()?,
            },
            5 => FromZygote::Cleaned { slot: input.number()? },
            _ => return Err(malformed()),
        };
        Ok(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to_zygote() -> Vec<ToZygote> {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        vec![
            ToZygote::Settings(Box::new(PoolSettings {
                pool: "shop".into(),
                ini_file: String::new(),
                max_requests: 500,
                max_memory: 1 << 30,
                ini: vec![pair("memory_limit", "64M")],
                admin_ini: vec![pair("opcache.enable", "1"), pair("x", "")],
                environment: vec![],
                state_dir: "/tmp/x".into(),
                repairs_state: true,
                allows_encoded_slashes: true,
                decodes_encoded_slashes: false,
                working_directory: "/srv".into(),
                chroot: "/srv/jail".into(),
                chroot_folder: "/disk/jail".into(),
                pcntl: true,
                sapi: "fpm-fcgi".into(),
                modules: "core mod_rewrite".into(),
                is_opaque: true,
                separates_workers: false,
                processor_seconds: 60,
                slow_milliseconds: 1500,
                slow_trace_depth: 20,
                php_version: "8.2".into(),
                former_release: "/srv/releases/7".into(),
                release: "/srv/releases/8".into(),
            })),
            ToZygote::Attach {
                geometry: Geometry::for_pool(4, 2),
                total: 11,
            },
            ToZygote::Keep([0, 2, 900].into_iter().collect()),
            ToZygote::Kill { worker: 1, pid: 2, signal: 9 },
            ToZygote::Stop,
            ToZygote::Clean(SlotCleaning { slot: 3, kept: 65_536 }),
            ToZygote::ListScripts,
            ToZygote::CompileScripts,
            ToZygote::ForkTwin,
        ]
    }

    #[test]
    fn messages_survive_the_trip() {
        for message in to_zygote() {
            assert_eq!(ToZygote::decode(&message.encode()).unwrap(), message);
        }
        let ready = |warmup| FromZygote::Ready {
            php_version: "8.2".into(),
            opcache: "on".into(),
            settings: 1 << 63,
            warmup,
        };
        let from = [
            ready(None),
            ready(Some(OpcacheWarmup { scripts: 312, microseconds: 41_000 })),
            FromZygote::Failed { reason: "no".into() },
            FromZygote::Started { worker: 1, pid: 77 },
            FromZygote::Died {
                worker: 1,
                pid: 77,
                status: 9,
                processor: 1 << 40,
            },
            FromZygote::Cleaned { slot: 4000 },
        ];
        for message in from {
            assert_eq!(FromZygote::decode(&message.encode()).unwrap(), message);
        }
    }

    #[test]
    fn a_cut_message_is_an_error() {
        for message in to_zygote() {
            let bytes = message.encode();
            for cut in 0..bytes.len() {
                assert!(ToZygote::decode(&bytes[..cut]).is_err(), "{message:?} cut at {cut}");
            }
        }
    }
}
