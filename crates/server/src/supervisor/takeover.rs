//! Hands everything over to another program: the new version of this one, executed with `exec` in
//! the same process.
//!
//! The state for the successor is text in a memory file. An environment variable names its
//! descriptor. The successor ignores lines that it does not know, because versions may differ.
//!
//! ```text
//! next 4                              number of the next generation
//! state /tmp/howdah-77-0a1b2c3d       folder to remove at the end
//! tickets 4                           descriptor of a memory file with the keys of session tickets
//! control 5 /run/howdah.sock          descriptor, path
//! listener 6 127.0.0.1:0              descriptor, address as configured
//! socket 7 /run/howdah/web.sock       descriptor, path: a listener as well
//! admin-listener 8 127.0.0.1:9180     as `listener` and `socket`, for monitors
//! datagram-secret 9                   descriptor of a memory file with the keys of HTTP/3
//! mailbox 10 11                       reader and writer of packets between generations
//! datagrams 12 127.0.0.1:443          descriptor of a UDP socket, address
//! connections 77                      connections that were accepted since the start
//! limits http2.pings:3                how often clients have met which limits of protocols
//! counters 0:12,1:3400 shop           numbers of a site, its name
//! generation 3 serving                number, `serving` or `draining`; what follows belongs to it
//! front 1234 9                        process, descriptor of its channel
//! pool 1235 10 11 shop                zygote, descriptors of its socket and its log, name
//! place 4 2                           that pool's position at its front, its zygote's number there
//! outputs 12                          descriptor of the socket with its workers' pipes
//! lender 12 0123456789abcdef          descriptor to write that pool's log, number of its settings
//! scripts 33 12 shop                  user, descriptor of a pipe with a list of scripts, name
//! shared-memory 13 14 15 shop         descriptors of a pool's shared memory, name
//! worker-memory 9437184 1024 7 8 shop numbers of a [`PoolMeasurement`], name
//! held refused shop…                  a release that is not served: site, folders, reason
//! closed shop                         name of a site with files that cannot be used
//! authorities 13 /etc/ssl/clients.pem descriptor of a memory file with the content of that file
//! pairs 14                            descriptor of a memory file with certificates and keys
//! ```

use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

use howdah_sys::descriptor;
use howdah_sys::memory;
use howdah_sys::process::{self, Pid};
use howdah_sys::seqpacket::SeqPacket;
use howdah_sys::shared_memory::SharedMemorySpace;

use super::environment::{Environment, variable};
use super::held_releases::{HeldRelease, handover};
use super::pool_memory;
use super::worker_memory::{self, PoolMeasurement};
use crate::observe::Totals;

/// The environment variable with the number of the memory file's descriptor.
const VARIABLE: &str = "HOWDAH_TAKE_OVER";

/// Everything that the former program has handed over.
#[derive(Debug, Default)]
pub(super) struct Inheritance {
    pub(super) next_number: u64,
    pub(super) state: Option<PathBuf>,
    pub(super) tickets: Option<OwnedFd>,
    pub(super) control: Option<(UnixListener, PathBuf)>,
    pub(super) listeners: Vec<(TcpListener, SocketAddr)>,
    pub(super) sockets: Vec<(UnixListener, PathBuf)>,
    pub(super) admin_listeners: Vec<(TcpListener, SocketAddr)>,
    pub(super) admin_sockets: Vec<(UnixListener, PathBuf)>,
    pub(super) datagrams: InheritedDatagrams,
    pub(super) totals: Totals,
    pub(super) generations: Vec<InheritedGeneration>,
    pub(super) lists: Vec<InheritedList>,
    /// By the name of the pool.
    pub(super) pool_memory: Vec<(String, SharedMemorySpace)>,
    pub(super) measurements: Vec<PoolMeasurement>,
    /// The releases that are not served.
    pub(super) held: Vec<HeldRelease>,
    /// The names of the sites that are closed, or have a pair left out.
    pub(super) closed: Vec<String>,
    /// The authorities of clients in memory files, and the names of the files that they are from.
    pub(super) authorities: Vec<(OwnedFd, PathBuf)>,
    /// The certificates and keys that are in use, of files, in a memory file.
    pub(super) pairs: Option<OwnedFd>,
}

/// The part that belongs to HTTP/3.
#[derive(Debug, Default)]
pub(super) struct InheritedDatagrams {
    pub(super) secret: Option<OwnedFd>,
    /// Reader and writer of each.
    pub(super) mailboxes: Vec<(SeqPacket, SeqPacket)>,
    pub(super) sockets: Vec<(UdpSocket, SocketAddr)>,
}

/// A generation that continues under the successor.
#[derive(Debug)]
pub(super) struct InheritedGeneration {
    pub(super) number: u64,
    pub(super) serving: bool,
    pub(super) front: Option<(Pid, SeqPacket)>,
    pub(super) pools: Vec<InheritedPool>,
}

/// A pool that continues under the successor.
#[derive(Debug)]
pub(super) struct InheritedPool {
    pub(super) name: String,
    pub(super) zygote: Pid,
    pub(super) socket: SeqPacket,
    pub(super) log: OwnedFd,
    /// `None` if the former program does not tell it.
    pub(super) place: Option<FrontPlace>,
    /// The socket with the pipes of the workers' output; `None` as for the place.
    pub(super) outputs: Option<SeqPacket>,
    /// The zygote may be asked for a twin.
    pub(super) lender: Option<InheritedLender>,
}

/// The words by which a front names a pool and its zygote. Pools without a zygote are not handed
/// over, so that the order of the others says nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FrontPlace {
    /// Index in [`FrontStart::pools`](super::front_protocol::FrontStart::pools).
    pub(super) position: usize,
    /// Number of the zygote, as in
    /// [`ToFront::PoolReplaced`](super::front_protocol::ToFront::PoolReplaced). `None` if no
    /// program knows it any more.
    pub(super) zygote: Option<u64>,
}

/// The parts of a zygote that another program has started, and that a twin needs.
#[derive(Debug)]
pub(super) struct InheritedLender {
    /// The end of the log's pipe that the pool writes to.
    pub(super) log: OwnedFd,
    /// The number of the settings that the zygote was started with; see
    /// [`settings_number`](super::kept_pools::settings_number).
    pub(super) settings: String,
}

/// The list of the scripts that a pool has used most.
#[derive(Debug)]
pub(super) struct InheritedList {
    pub(super) site: String,
    /// The number of the user that the pool runs as.
    pub(super) uid: u32,
    /// The end of a pipe that the pool's zygote writes to.
    pub(super) pipe: OwnedFd,
}

/// Builds the lines of the memory file, and collects the descriptors that they name.
#[derive(Debug, Default)]
pub(super) struct Handover<'d> {
    text: Vec<u8>,
    descriptors: Vec<BorrowedFd<'d>>,
}

impl<'d> Handover<'d> {
    /// Adds a line: words, descriptors, and a final text that may contain spaces.
    ///
    /// # Errors
    /// `rest` has a line feed.
    pub(super) fn line(
        &mut self,
        words: &[&str],
        descriptors: &[BorrowedFd<'d>],
        rest: &OsStr,
    ) -> io::Result<()> {
        if rest.as_bytes().contains(&b'\n') {
            let error =
                format!("cannot hand over {:?}: the name contains a line feed", rest.display());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, error));
        }
        let numbers = descriptors.iter().map(|descriptor| descriptor.as_raw_fd().to_string());
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).chain(numbers).collect();
        self.text.extend_from_slice(words.join(" ").as_bytes());
        if !rest.is_empty() {
            self.text.push(b' ');
            self.text.extend_from_slice(rest.as_bytes());
        }
        self.text.push(b'\n');
        self.descriptors.extend_from_slice(descriptors);
        Ok(())
    }

    /// Executes the program at the path of this one. Returns only if that failed, without effect.
    pub(super) fn execute(self, environment: &Environment) -> io::Error {
        let file = match self.file() {
            Ok(file) => file,
            Err(error) => return error,
        };
        let (arguments, variables) = match (arguments(), variables(environment, Some(&file))) {
            (Ok(arguments), Ok(variables)) => (arguments, variables),
            (Err(error), _) | (_, Err(error)) => return error,
        };
        let all = || self.descriptors.iter().copied().chain([file.as_fd()]);
        let inherited =
            all().try_for_each(|descriptor| descriptor::set_inheritable(descriptor, true));
        let error = match inherited {
            Ok(()) => process::execute(&environment.executable, &arguments, &variables),
            Err(error) => error,
        };
        for descriptor in all() {
            // The opposite call has succeeded before, therefore this one cannot fail.
            let _ = descriptor::set_inheritable(descriptor, false);
        }
        error
    }

    fn file(&self) -> io::Result<File> {
        let mut file = File::from(memory::sealed_file(c"howdah", self.text.len())?);
        file.write_all(&self.text)?;
        file.rewind()?;
        Ok(file)
    }
}

impl Inheritance {
    /// Reads the lines of the former program. `None`: this program replaces no other one.
    ///
    /// # Errors
    /// The variable or the memory file is malformed.
    pub(super) fn claim() -> io::Result<Option<Inheritance>> {
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

    fn read(&mut self, words: &mut LineWords<'_>) -> io::Result<()> {
        match words.next() {
            b"next" => self.next_number = words.parse()?,
            b"state" => self.state = Some(words.rest().into()),
            b"tickets" => self.tickets = Some(words.descriptor()?),
            b"control" => self.control = Some((words.descriptor()?.into(), words.rest().into())),
            b"listener" => self.listeners.push((words.descriptor()?.into(), words.parse()?)),
            b"socket" => self.sockets.push((words.descriptor()?.into(), words.rest().into())),
            b"admin-listener" => {
                self.admin_listeners.push((words.descriptor()?.into(), words.parse()?));
            }
            b"admin-socket" => {
                self.admin_sockets.push((words.descriptor()?.into(), words.rest().into()));
            }
            b"datagram-secret" => self.datagrams.secret = Some(words.descriptor()?),
            b"mailbox" => {
                let ends = (words.descriptor()?.into(), words.descriptor()?.into());
                self.datagrams.mailboxes.push(ends);
            }
            b"datagrams" => {
                let socket = words.descriptor()?.into();
                self.datagrams.sockets.push((socket, words.parse()?));
            }
            b"connections" => self.totals.connections = words.parse()?,
            b"limits" => self.totals.limits.decode(&words.rest().to_string_lossy()),
            b"counters" => {
                let numbers = String::from_utf8_lossy(words.next()).into_owned();
                self.totals.decode(&words.rest().to_string_lossy(), &numbers);
            }
            b"generation" => self.generations.push(InheritedGeneration {
                number: words.parse()?,
                serving: words.next() == b"serving",
                front: None,
                pools: Vec::new(),
            }),
            b"front" => {
                let front = (words.pid()?, words.descriptor()?.into());
                self.generations.last_mut().ok_or_else(malformed)?.front = Some(front);
            }
            b"pool" => {
                let pool = InheritedPool {
                    zygote: words.pid()?,
                    socket: words.descriptor()?.into(),
                    log: words.descriptor()?,
                    name: words.rest().to_string_lossy().into_owned(),
                    place: None,
                    outputs: None,
                    lender: None,
                };
                self.generations.last_mut().ok_or_else(malformed)?.pools.push(pool);
            }
            b"place" => {
                let position = words.parse()?;
                let zygote = (!words.0.is_empty()).then(|| words.parse()).transpose()?;
                self.last_pool()?.place = Some(FrontPlace { position, zygote });
            }
            b"outputs" => {
                let outputs = words.descriptor()?;
                self.last_pool()?.outputs = Some(outputs.into());
            }
            b"lender" => {
                let lender = InheritedLender {
                    log: words.descriptor()?,
                    settings: words.rest().to_string_lossy().into_owned(),
                };
                self.last_pool()?.lender = Some(lender);
            }
            b"scripts" => self.lists.push(InheritedList {
                uid: words.parse()?,
                pipe: words.descriptor()?,
                site: words.rest().to_string_lossy().into_owned(),
            }),
            word if word == pool_memory::WORD.as_bytes() => {
                let space = [words.descriptor()?, words.descriptor()?, words.descriptor()?];
                let pool = words.rest().to_string_lossy().into_owned();
                self.pool_memory.push((pool, SharedMemorySpace::from_descriptors(space)));
            }
            word if word == worker_memory::WORD.as_bytes() => {
                let numbers = [words.parse()?, words.parse()?, words.parse()?, words.parse()?];
                self.measurements.push(PoolMeasurement::new(numbers, words.rest()));
            }
            word if word == handover::WORD.as_bytes() => {
                let kind = words.next();
                self.held.push(HeldRelease::decode(kind, words.rest()).ok_or_else(malformed)?);
            }
            b"closed" => self.closed.push(words.rest().to_string_lossy().into_owned()),
            b"authorities" => {
                self.authorities.push((words.descriptor()?, words.rest().into()));
            }
            b"pairs" => self.pairs = Some(words.descriptor()?),
            _ => {}
        }
        Ok(())
    }

    /// The pool that the present line is about.
    fn last_pool(&mut self) -> io::Result<&mut InheritedPool> {
        let pools = self.generations.last_mut().map(|generation| &mut generation.pools);
        pools.and_then(|pools| pools.last_mut()).ok_or_else(malformed)
    }
}

/// The environment variables for another run of this program.
///
/// # Errors
/// A variable has a NUL byte.
pub(super) fn variables(
    environment: &Environment,
    inheritance: Option<&File>,
) -> io::Result<Vec<CString>> {
    let mut variables = Vec::new();
    for (name, value) in environment.variables.iter().filter(|(name, _)| name != VARIABLE) {
        variables.push(variable(name, value)?);
    }
    if let Some(file) = inheritance {
        for (name, value) in &environment.for_manager {
            variables.push(variable(name, value)?);
        }
        variables.push(variable(OsStr::new(VARIABLE), file.as_raw_fd().to_string().as_ref())?);
    }
    Ok(variables)
}

/// The arguments of this process.
fn arguments() -> io::Result<Vec<CString>> {
    std::env::args_os()
        .map(|argument| Ok(CString::new(argument.as_bytes())?))
        .collect()
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
}

fn malformed() -> io::Error {
    let error = format!("{VARIABLE} is set, but howdah has not set it; unset it");
    io::Error::new(io::ErrorKind::InvalidData, error)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::os::fd::IntoRawFd;

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
