//! The successor's side: reads the lines that the former program has handed over.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

use howdah_sys::descriptor;
use howdah_sys::process::Pid;
use howdah_sys::seqpacket::SeqPacket;
use howdah_sys::shared_memory::SharedMemorySpace;

use super::super::held_releases::{HeldRelease, handover};
use super::super::pool_memory;
use super::super::worker_memory::{self, PoolMeasurement};
use super::VARIABLE;
use crate::observe::Totals;
use crate::protocols;

/// Everything that the former program has handed over.
#[derive(Debug, Default)]
pub(in crate::supervisor) struct Inheritance {
    pub(in crate::supervisor) next_number: u64,
    pub(in crate::supervisor) state: Option<PathBuf>,
    pub(in crate::supervisor) tickets: Option<OwnedFd>,
    pub(in crate::supervisor) control: Option<(UnixListener, PathBuf)>,
    pub(in crate::supervisor) listeners: Vec<(TcpListener, SocketAddr)>,
    pub(in crate::supervisor) sockets: Vec<(UnixListener, PathBuf)>,
    pub(in crate::supervisor) admin_listeners: Vec<(TcpListener, SocketAddr)>,
    pub(in crate::supervisor) admin_sockets: Vec<(UnixListener, PathBuf)>,
    pub(in crate::supervisor) datagrams: InheritedDatagrams,
    pub(in crate::supervisor) totals: Totals,
    pub(in crate::supervisor) generations: Vec<InheritedGeneration>,
    pub(in crate::supervisor) lists: Vec<InheritedList>,
    /// By the name of the pool.
    pub(in crate::supervisor) pool_memory: Vec<(String, SharedMemorySpace)>,
    pub(in crate::supervisor) measurements: Vec<PoolMeasurement>,
    /// The releases that are not served.
    pub(in crate::supervisor) held: Vec<HeldRelease>,
    /// The names of the sites that are closed, or have a pair left out.
    pub(in crate::supervisor) closed: Vec<String>,
    /// The authorities of clients in memory files, and the names of the files that they are from.
    pub(in crate::supervisor) authorities: Vec<(OwnedFd, PathBuf)>,
    /// The certificates and keys that are in use, of files, in a memory file.
    pub(in crate::supervisor) pairs: Option<OwnedFd>,
}

/// The part that belongs to HTTP/3.
#[derive(Debug, Default)]
pub(in crate::supervisor) struct InheritedDatagrams {
    pub(in crate::supervisor) secret: Option<OwnedFd>,
    /// Reader and writer of each.
    pub(in crate::supervisor) mailboxes: Vec<(SeqPacket, SeqPacket)>,
    pub(in crate::supervisor) sockets: Vec<(UdpSocket, SocketAddr)>,
}

/// A generation that continues under the successor.
#[derive(Debug)]
pub(in crate::supervisor) struct InheritedGeneration {
    pub(in crate::supervisor) number: u64,
    pub(in crate::supervisor) serving: bool,
    pub(in crate::supervisor) front: Option<(Pid, SeqPacket)>,
    pub(in crate::supervisor) pools: Vec<InheritedPool>,
}

/// A pool that continues under the successor.
#[derive(Debug)]
pub(in crate::supervisor) struct InheritedPool {
    pub(in crate::supervisor) name: String,
    pub(in crate::supervisor) zygote: Pid,
    pub(in crate::supervisor) socket: SeqPacket,
    pub(in crate::supervisor) log: OwnedFd,
    /// `None` if the former program does not tell it.
    pub(in crate::supervisor) place: Option<FrontPlace>,
    /// The socket with the pipes of the workers' output; `None` as for the place.
    pub(in crate::supervisor) outputs: Option<SeqPacket>,
    /// The zygote may be asked for a twin.
    pub(in crate::supervisor) lender: Option<InheritedLender>,
}

/// The words by which a front names a pool and its zygote. Pools without a zygote are not handed
/// over, so that the order of the others says nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::supervisor) struct FrontPlace {
    /// Index in [`FrontStart::pools`](super::super::front_protocol::FrontStart::pools).
    pub(in crate::supervisor) position: usize,
    /// Number of the zygote, as in
    /// [`ToFront::PoolReplaced`](super::super::front_protocol::ToFront::PoolReplaced). `None` if no
    /// program knows it any more.
    pub(in crate::supervisor) zygote: Option<u64>,
}

/// The parts of a zygote that another program has started, and that a twin needs.
#[derive(Debug)]
pub(in crate::supervisor) struct InheritedLender {
    /// The end of the log's pipe that the pool writes to.
    pub(in crate::supervisor) log: OwnedFd,
    /// The number of the settings that the zygote was started with; see
    /// [`settings_number`](super::super::kept_pools::settings_number).
    pub(in crate::supervisor) settings: String,
}

/// The list of the scripts that a pool has used most.
#[derive(Debug)]
pub(in crate::supervisor) struct InheritedList {
    pub(in crate::supervisor) site: String,
    /// The number of the user that the pool runs as.
    pub(in crate::supervisor) uid: u32,
    /// The end of a pipe that the pool's zygote writes to.
    pub(in crate::supervisor) pipe: OwnedFd,
}

impl Inheritance {
    /// Reads the lines of the former program. `None`: this program replaces no other one.
    ///
    /// # Errors
    /// The variable or the memory file is malformed.
    pub(in crate::supervisor) fn claim() -> io::Result<Option<Inheritance>> {
        let Some(number) = std::env::var_os(VARIABLE) else {
            return Ok(None);
        };
        let number: RawFd =
            number.to_str().and_then(|number| number.parse().ok()).ok_or_else(malformed)?;
        let mut text = Vec::new();
        File::from(descriptor::inherited(number)?).read_to_end(&mut text)?;
        let mut inheritance = Inheritance::default();
        for line in text.split(|&byte| byte == b'\n') {
            inheritance.read(&mut LineWords(line))?;
        }
        Ok(Some(inheritance))
    }

    /// Reads one line. [The module](super) has a list of them.
    fn read(&mut self, words: &mut LineWords<'_>) -> io::Result<()> {
        match words.next() {
            b"next" => self.next_number = words.parse()?,
            b"state" => self.state = Some(words.rest().into()),
            b"tickets" => self.tickets = Some(words.descriptor()?),
            b"control" => self.control = Some(words.socket()?),
            b"listener" => self.listeners.push(words.listener()?),
            b"socket" => self.sockets.push(words.socket()?),
            b"admin-listener" => self.admin_listeners.push(words.listener()?),
            b"admin-socket" => self.admin_sockets.push(words.socket()?),
            b"datagram-secret" => self.datagrams.secret = Some(words.descriptor()?),
            b"mailbox" => {
                let ends = (words.descriptor()?.into(), words.descriptor()?.into());
                self.datagrams.mailboxes.push(ends);
            }
            b"datagrams" => {
                self.datagrams.sockets.push((words.descriptor()?.into(), words.parse()?));
            }
            b"connections" => self.totals.connections = words.parse()?,
            b"limits" => self.totals.limits.decode(&words.text(), &protocols::counted_limits()),
            b"counters" => {
                let numbers = String::from_utf8_lossy(words.next());
                self.totals.decode(&words.text(), &numbers);
            }
            b"generation" => self.generations.push(InheritedGeneration::read(words)?),
            b"front" => {
                let front = (words.pid()?, words.descriptor()?.into());
                self.last_generation()?.front = Some(front);
            }
            b"pool" => {
                let pool = InheritedPool::read(words)?;
                self.last_generation()?.pools.push(pool);
            }
            b"place" => self.last_pool()?.place = Some(FrontPlace::read(words)?),
            b"outputs" => self.last_pool()?.outputs = Some(words.descriptor()?.into()),
            b"lender" => self.last_pool()?.lender = Some(InheritedLender::read(words)?),
            b"scripts" => self.lists.push(InheritedList::read(words)?),
            word if word == pool_memory::WORD.as_bytes() => {
                let space = [words.descriptor()?, words.descriptor()?, words.descriptor()?];
                let space = SharedMemorySpace::from_descriptors(space);
                self.pool_memory.push((words.text(), space));
            }
            word if word == worker_memory::WORD.as_bytes() => {
                let numbers = [words.parse()?, words.parse()?, words.parse()?, words.parse()?];
                self.measurements.push(PoolMeasurement::new(numbers, words.rest()));
            }
            word if word == handover::WORD.as_bytes() => {
                let kind = words.next();
                self.held.push(HeldRelease::decode(kind, words.rest()).ok_or_else(malformed)?);
            }
            b"closed" => self.closed.push(words.text()),
            b"authorities" => self.authorities.push((words.descriptor()?, words.rest().into())),
            b"pairs" => self.pairs = Some(words.descriptor()?),
            _ => {}
        }
        Ok(())
    }

    /// Returns the generation that the present line belongs to.
    fn last_generation(&mut self) -> io::Result<&mut InheritedGeneration> {
        self.generations.last_mut().ok_or_else(malformed)
    }

    /// Returns the pool that the present line is about.
    fn last_pool(&mut self) -> io::Result<&mut InheritedPool> {
        self.last_generation()?.pools.last_mut().ok_or_else(malformed)
    }
}

impl InheritedGeneration {
    /// Reads the line `generation`; its front and its pools follow.
    fn read(words: &mut LineWords<'_>) -> io::Result<InheritedGeneration> {
        Ok(InheritedGeneration {
            number: words.parse()?,
            serving: words.next() == b"serving",
            front: None,
            pools: Vec::new(),
        })
    }
}

impl InheritedPool {
    /// Reads the line `pool`; its place, its outputs and its lender follow.
    fn read(words: &mut LineWords<'_>) -> io::Result<InheritedPool> {
        Ok(InheritedPool {
            zygote: words.pid()?,
            socket: words.descriptor()?.into(),
            log: words.descriptor()?,
            name: words.text(),
            place: None,
            outputs: None,
            lender: None,
        })
    }
}

impl FrontPlace {
    /// Reads the line `place`.
    fn read(words: &mut LineWords<'_>) -> io::Result<FrontPlace> {
        let position = words.parse()?;
        let zygote = (!words.0.is_empty()).then(|| words.parse()).transpose()?;
        Ok(FrontPlace { position, zygote })
    }
}

impl InheritedLender {
    /// Reads the line `lender`.
    fn read(words: &mut LineWords<'_>) -> io::Result<InheritedLender> {
        Ok(InheritedLender {
            log: words.descriptor()?,
            settings: words.text(),
        })
    }
}

impl InheritedList {
    /// Reads the line `scripts`.
    fn read(words: &mut LineWords<'_>) -> io::Result<InheritedList> {
        Ok(InheritedList {
            uid: words.parse()?,
            pipe: words.descriptor()?,
            site: words.text(),
        })
    }
}

/// Reads the words of a line.
struct LineWords<'l>(&'l [u8]);

impl<'l> LineWords<'l> {
    fn next(&mut self) -> &'l [u8] {
        let end = self.0.iter().position(|&byte| byte == b' ').unwrap_or(self.0.len());
        let (word, rest) = self.0.split_at(end);
        self.0 = rest.strip_prefix(b" ").unwrap_or(rest);
        word
    }

    fn rest(&mut self) -> &'l OsStr {
        OsStr::from_bytes(std::mem::take(&mut self.0))
    }

    /// The rest of the line as a name.
    fn text(&mut self) -> String {
        self.rest().to_string_lossy().into_owned()
    }

    fn parse<Value: std::str::FromStr>(&mut self) -> io::Result<Value> {
        let word = std::str::from_utf8(self.next()).ok();
        word.and_then(|word| word.parse().ok()).ok_or_else(malformed)
    }

    fn descriptor(&mut self) -> io::Result<OwnedFd> {
        descriptor::inherited(self.parse()?)
    }

    fn pid(&mut self) -> io::Result<Pid> {
        Pid::from_number(self.parse()?).ok_or_else(malformed)
    }

    /// A descriptor, and the address that the configuration has for it.
    fn listener(&mut self) -> io::Result<(TcpListener, SocketAddr)> {
        Ok((self.descriptor()?.into(), self.parse()?))
    }

    /// A descriptor and its path.
    fn socket(&mut self) -> io::Result<(UnixListener, PathBuf)> {
        Ok((self.descriptor()?.into(), self.rest().into()))
    }
}

fn malformed() -> io::Error {
    let error = format!("{VARIABLE} is set, but howdah has not set it; unset it");
    io::Error::new(io::ErrorKind::InvalidData, error)
}

#[cfg(test)]
pub(in crate::supervisor) mod tests {
    use super::super::Handover;
    use super::*;
    use std::os::fd::{AsFd, IntoRawFd};

    /// The situation after `exec`: the descriptors have no owner in this program yet.
    pub(in crate::supervisor) fn inherit(handover: Handover<'_>) -> io::Result<Inheritance> {
        let text = String::from_utf8(handover.text).unwrap();
        for descriptor in &handover.descriptors {
            descriptor::set_inheritable(*descriptor, true).unwrap();
        }
        let mut inheritance = Inheritance::default();
        for line in text.as_bytes().split(|&byte| byte == b'\n') {
            inheritance.read(&mut LineWords(line))?;
        }
        Ok(inheritance)
    }

    #[test]
    fn everything_is_found_again() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (channel, peer) = SeqPacket::pair().unwrap();
        let (log, _writer) = io::pipe().unwrap();
        // The owners are leaked below, because `exec` drops none.
        let (listener, channel, log) =
            (OwnedFd::from(listener), OwnedFd::from(channel), OwnedFd::from(log));
        let pipe = OwnedFd::from(io::pipe().unwrap().0);
        let mut handover = Handover::default();
        let none = OsStr::new("");
        handover.line(&["next", "4"], &[], none).unwrap();
        handover.line(&["state"], &[], OsStr::new("/tmp/with spaces")).unwrap();
        handover.line(&["news"], &[], OsStr::new("of a later version")).unwrap();
        handover
            .line(&["listener"], &[listener.as_fd()], OsStr::new("127.0.0.1:0"))
            .unwrap();
        handover.line(&["connections", "9"], &[], none).unwrap();
        handover.line(&["limits"], &[], OsStr::new("http2.pings:6")).unwrap();
        handover.line(&["counters", "0:7,3:1"], &[], OsStr::new("shop")).unwrap();
        handover.line(&["generation", "2", "draining"], &[], none).unwrap();
        handover.line(&["generation", "3", "serving"], &[], none).unwrap();
        handover.line(&["front", "77"], &[channel.as_fd()], none).unwrap();
        handover
            .line(&["pool", "78"], &[peer.as_fd(), log.as_fd()], OsStr::new("shop"))
            .unwrap();
        handover.line(&["place", "4", "2"], &[], none).unwrap();
        handover.line(&["scripts", "33"], &[pipe.as_fd()], OsStr::new("shop")).unwrap();
        handover
            .line(&["worker-memory", "7", "0", "8", "9"], &[], OsStr::new("shop"))
            .unwrap();
        let found = inherit(handover).unwrap();
        let _ = pipe.into_raw_fd();
        let _ = (listener.into_raw_fd(), channel.into_raw_fd(), log.into_raw_fd());
        let _ = OwnedFd::from(peer).into_raw_fd();

        assert_eq!(found.next_number, 4);
        assert_eq!((found.totals.connections, found.totals.site("shop").requests()), (9, 7));
        assert_eq!(found.totals.limits.by_name()["http2"]["pings"], 6);
        assert_eq!(found.state, Some("/tmp/with spaces".into()));
        assert_eq!(found.listeners[0].0.local_addr().unwrap(), address);
        assert_eq!(found.listeners[0].1.to_string(), "127.0.0.1:0");
        let [draining, serving] = &found.generations[..] else {
            panic!("{found:?}")
        };
        assert!(!draining.serving && draining.front.is_none() && draining.pools.is_empty());
        assert!(serving.serving);
        let (pid, channel) = serving.front.as_ref().unwrap();
        assert_eq!(pid.number(), 77);
        let pool = &serving.pools[0];
        assert_eq!((pool.zygote.number(), pool.name.as_str()), (78, "shop"));
        assert_eq!(pool.place, Some(FrontPlace { position: 4, zygote: Some(2) }));
        assert_eq!((found.lists[0].uid, found.lists[0].site.as_str()), (33, "shop"));
        let [PoolMeasurement { pool: name, subject: 9, measured }] = &found.measurements[..] else {
            panic!("{found:?}")
        };
        let numbers = (measured.resting, measured.script, measured.settings);
        assert_eq!((name.as_str(), numbers), ("shop", (7, 0, 8)));
        pool.socket.send(b"x", &[]).unwrap();
        assert_eq!(channel.receive(&mut [0; 8]).unwrap().length, 1);
    }

    #[test]
    fn nonsense_is_an_error() {
        for line in [
            "listener 0 127.0.0.1:1",
            "listener x y",
            "front 1 9999",
            "pool 77 9999",
            "place 1 2",
            "next many",
            "worker-memory 7 -1 8 9 shop",
        ] {
            let mut inheritance = Inheritance::default();
            assert!(inheritance.read(&mut LineWords(line.as_bytes())).is_err(), "{line}");
        }
    }
}
