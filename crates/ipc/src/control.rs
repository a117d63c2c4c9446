//! The messages between supervisor, front and zygote, one per packet of a [`SeqPacket`].
//!
//! A message is a kind byte, followed by the fields of the variant in order. A number takes 8
//! bytes. A text is an 8-byte length and its bytes.
//!
//! The encoding has no version. Supervisor, front and zygote have to be built from the same
//! sources of this crate, and the zygote's program may have been replaced since the supervisor
//! started. Therefore the first message begins with [`BUILD`].

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use howdah_sys::seqpacket::{MOST_DESCRIPTORS, SeqPacket};

use crate::layout::Geometry;
use crate::worker_set::WorkerSet;

/// Largest number of bytes in one message.
pub const MOST_BYTES: usize = 256 * 1024;

/// A number of the sources that both sides of the shared memory have to be built from.
pub const BUILD: u64 = {
    let sources: [&[u8]; 12] = [
        include_bytes!("control.rs"),
        include_bytes!("figures.rs"),
        include_bytes!("flow_control.rs"),
        include_bytes!("layout.rs"),
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

/// Settings of a pool, which the zygote needs before PHP starts. The supervisor's first message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PoolSettings {
    /// The pool's name, as it appears in logs.
    pub pool: String,
    /// Path of a `php.ini` file that replaces PHP's own choice; empty for none.
    pub ini_file: String,
    /// Number of requests after which a worker ends; 0: never.
    pub max_requests: u64,
    /// Bytes of its own memory beyond which a worker ends; 0: any.
    pub max_memory: u64,
    /// Ini values that scripts may change.
    pub ini: Vec<(String, String)>,
    /// Ini values that scripts may not change.
    pub admin_ini: Vec<(String, String)>,
    /// Environment for `getenv`, added to an otherwise empty one.
    pub environment: Vec<(String, String)>,
    /// Folder of this pool's temporary files, sessions and uploads.
    pub state_dir: String,
    /// Working directory outside of scripts; empty for any.
    pub working_directory: String,
    /// Scripts have the functions of PHP's pcntl extension.
    pub pcntl: bool,
    /// The name under which PHP says that it runs; empty for the usual one.
    pub sapi: String,
    /// Apache's modules whose directives have an effect, separated by spaces, for scripts.
    pub modules: String,
    /// Whether other processes of the same user may not look into the zygote and its workers.
    pub is_opaque: bool,
    /// Whether a worker may send signals only to itself and its children.
    pub separates_workers: bool,
    /// Processor time after which a worker is replaced, in seconds; 0: any.
    pub processor_seconds: u64,
    /// Milliseconds after which a running script is logged with its backtrace; 0: never.
    pub slow_milliseconds: u64,
    /// Frames of such a backtrace.
    pub slow_trace_depth: u64,
    /// The version of PHP that the program must have, as `8.2`; empty for any.
    pub php_version: String,
    /// The folder that the former generation's release was in, and the folder that the release is
    /// in now; both are empty if they are the same.
    pub former_release: String,
    /// See `former_release`.
    pub release: String,
}

/// A message from the supervisor or from the front to the zygote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToZygote {
    /// From the supervisor: how to start PHP. Sent once, as the first message. A descriptor that
    /// comes with it has the list of scripts that opcache gets before PHP is ready; see
    /// [`ToZygote::ListScripts`].
    Settings(Box<PoolSettings>),
    /// From the front: some of a region's descriptors; see [`Attach`].
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
    Clean(Cleaning),
    /// From the supervisor: write the paths of the scripts that opcache has to the descriptor that
    /// comes with this message, those that were used most first, each with a NUL at its end.
    ListScripts,
    /// From the supervisor, after the death of another zygote of the pool: compile the scripts of
    /// such lists beside the pool's requests. The lists are files, the best one first.
    CompileScripts,
}

/// Cleaning of an unused slot by the zygote. The front must not clean it: these calls may wait for
/// processes of the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "the slot stays unusable until the zygote has cleaned it"]
pub struct Cleaning {
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
        /// The scripts that were compiled before; `None` if there was no list of them.
        warmup: Option<OpcacheWarmup>,
    },
    /// To the supervisor: PHP could not start.
    Failed {
        /// Why, for a person.
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
pub struct Attach {
    /// Sizes of the region.
    pub geometry: Geometry,
    /// All descriptors, in the order given above.
    pub descriptors: Vec<OwnedFd>,
}

impl Attach {
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
        let mut out = Writer(Vec::new());
        match self {
            ToZygote::Settings(settings) => {
                out.kind(1);
                out.number(BUILD);
                out.text(&settings.pool);
                out.text(&settings.ini_file);
                out.number(settings.max_requests);
                out.number(settings.max_memory);
                out.pairs(&settings.ini);
                out.pairs(&settings.admin_ini);
                out.pairs(&settings.environment);
                out.text(&settings.state_dir);
                out.text(&settings.working_directory);
                out.number(settings.pcntl.into());
                out.text(&settings.sapi);
                out.text(&settings.modules);
                out.number(settings.is_opaque.into());
                out.number(settings.separates_workers.into());
                out.number(settings.processor_seconds);
                out.number(settings.slow_milliseconds);
                out.number(settings.slow_trace_depth);
                out.text(&settings.php_version);
                out.text(&settings.former_release);
                out.text(&settings.release);
            }
            ToZygote::Attach { geometry, total } => {
                out.kind(2);
                for size in [geometry.slots, geometry.workers, geometry.threads] {
                    out.number(size as u64);
                }
                out.number(geometry.request_bytes as u64);
                out.number(geometry.ring_bytes as u64);
                out.number(*total);
            }
            ToZygote::Keep(workers) => {
                out.kind(3);
                out.number(workers.words().len() as u64);
                workers.words().iter().for_each(|word| out.number(*word));
            }
            ToZygote::Kill { worker, pid, signal } => {
                out.kind(4);
                out.number(*worker);
                out.number(*pid);
                out.number(*signal);
            }
            ToZygote::Stop => out.kind(5),
            ToZygote::Clean(Cleaning { slot, kept }) => {
                out.kind(6);
                out.number(*slot);
                out.number(*kept);
            }
            ToZygote::ListScripts => out.kind(7),
            ToZygote::CompileScripts => out.kind(8),
        }
        out.0
    }

    /// Decodes one packet.
    ///
    /// # Errors
    /// The packet is not a message of this type.
    pub fn decode(bytes: &[u8]) -> io::Result<ToZygote> {
        let mut input = Reader(bytes);
        let message = match input.kind()? {
            1 if input.number()? != BUILD => {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    "this program and howdah were built from different sources: install the same \
                     version of both, then restart howdah, or send it SIGUSR2",
                ));
            }
            1 => ToZygote::Settings(Box::new(PoolSettings {
                pool: input.text()?,
                ini_file: input.text()?,
                max_requests: input.number()?,
                max_memory: input.number()?,
                ini: input.pairs()?,
                admin_ini: input.pairs()?,
                environment: input.pairs()?,
                state_dir: input.text()?,
                working_directory: input.text()?,
                pcntl: input.flag()?,
                sapi: input.text()?,
                modules: input.text()?,
                is_opaque: input.flag()?,
                separates_workers: input.flag()?,
                processor_seconds: input.number()?,
                slow_milliseconds: input.number()?,
                slow_trace_depth: input.number()?,
                php_version: input.text()?,
                former_release: input.text()?,
                release: input.text()?,
            })),
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
                let words = (0..input.number()?).map(|_| input.number());
                let words = words.collect::<io::Result<_>>()?;
                ToZygote::Keep(WorkerSet::of_words(words).ok_or_else(malformed)?)
            }
            4 => ToZygote::Kill {
                worker: input.number()?,
                pid: input.number()?,
                signal: input.number()?,
            },
            5 => ToZygote::Stop,
            6 => ToZygote::Clean(Cleaning {
                slot: input.number()?,
                kept: input.number()?,
            }),
            7 => ToZygote::ListScripts,
            8 => ToZygote::CompileScripts,
            _ => return Err(malformed()),
        };
        Ok(message)
    }
}

impl FromZygote {
    /// Encodes the message as one packet.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer(Vec::new());
        match self {
            FromZygote::Ready { php_version, opcache, warmup } => {
                out.kind(1);
                out.text(php_version);
                out.text(opcache);
                out.number(warmup.is_some().into());
                if let Some(OpcacheWarmup { scripts, microseconds }) = warmup {
                    out.number(*scripts);
                    out.number(*microseconds);
                }
            }
            FromZygote::Failed { reason } => {
                out.kind(2);
                out.text(reason);
            }
            FromZygote::Started { worker, pid } => {
                out.kind(3);
                out.number(*worker);
                out.number(*pid);
            }
            FromZygote::Died { worker, pid, status } => {
                out.kind(4);
                out.number(*worker);
                out.number(*pid);
                out.number(*status);
            }
            FromZygote::Cleaned { slot } => {
                out.kind(5);
                out.number(*slot);
            }
        }
        out.0
    }

    /// Decodes one packet.
    ///
    /// # Errors
    /// The packet is not a message of this type.
    pub fn decode(bytes: &[u8]) -> io::Result<FromZygote> {
        let mut input = Reader(bytes);
        let message = match input.kind()? {
            1 => FromZygote::Ready {
                php_version: input.text()?,
                opcache: input.text()?,
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
            },
            5 => FromZygote::Cleaned { slot: input.number()? },
            _ => return Err(malformed()),
        };
        Ok(message)
    }
}

struct Writer(Vec<u8>);

impl Writer {
    fn kind(&mut self, kind: u8) {
        self.0.push(kind);
    }

    fn number(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_ne_bytes());
    }

    fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.0.extend_from_slice(text.as_bytes());
    }

    fn pairs(&mut self, pairs: &[(String, String)]) {
        self.number(pairs.len() as u64);
        for (name, value) in pairs {
            self.text(name);
            self.text(value);
        }
    }
}

struct Reader<'b>(&'b [u8]);

impl Reader<'_> {
    fn kind(&mut self) -> io::Result<u8> {
        let (kind, rest) = self.0.split_first().ok_or_else(malformed)?;
        self.0 = rest;
        Ok(*kind)
    }

    fn number(&mut self) -> io::Result<u64> {
        let (number, rest) = self.0.split_first_chunk::<8>().ok_or_else(malformed)?;
        self.0 = rest;
        Ok(u64::from_ne_bytes(*number))
    }

    fn flag(&mut self) -> io::Result<bool> {
        match self.number()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(malformed()),
        }
    }

    fn size(&mut self) -> io::Result<usize> {
        usize::try_from(self.number()?).map_err(|_| malformed())
    }

    fn text(&mut self) -> io::Result<String> {
        let length = self.size()?;
        let (text, rest) = self.0.split_at_checked(length).ok_or_else(malformed)?;
        self.0 = rest;
        String::from_utf8(text.to_vec()).map_err(|_| malformed())
    }

    fn pairs(&mut self) -> io::Result<Vec<(String, String)>> {
        (0..self.number()?).map(|_| Ok((self.text()?, self.text()?))).collect()
    }
}

fn malformed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a control message is malformed")
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
                working_directory: "/srv".into(),
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
            ToZygote::Clean(Cleaning { slot: 3, kept: 65_536 }),
            ToZygote::ListScripts,
            ToZygote::CompileScripts,
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
            warmup,
        };
        let from = [
            ready(None),
            ready(Some(OpcacheWarmup { scripts: 312, microseconds: 41_000 })),
            FromZygote::Failed { reason: "no".into() },
            FromZygote::Started { worker: 1, pid: 77 },
            FromZygote::Died { worker: 1, pid: 77, status: 9 },
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
