//! The UDP sockets of listeners with HTTP/3, and what all fronts share for their connections. The
//! supervisor keeps them when fronts are replaced, as it keeps listeners.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;

use howdah_config::{Config, ListenAddress};
use howdah_sys::datagram;
use howdah_sys::seqpacket::SeqPacket;

use super::front_protocol;
use super::listeners::BoundListener;
use super::takeover::{Handover, InheritedDatagrams};
use crate::quic::{DatagramSocket, Mailbox, QuicListener, QuicSecret, QuicStart, SLOTS};
use crate::status::MissingListener;

/// The most sockets of a listener. More threads only send.
const MOST_SOCKETS: usize = 64;

/// Sockets, mailboxes and keys. Clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct Datagrams {
    groups: Vec<SocketGroup>,
    /// The state that all generations share; `None` as long as none has had HTTP/3.
    common: Option<Rc<PacketRouting>>,
}

/// The sockets of one address.
#[derive(Debug, Clone)]
struct SocketGroup {
    address: SocketAddr,
    /// The number of the listener in the configuration.
    number: usize,
    sockets: Rc<Vec<UdpSocket>>,
}

#[derive(Debug)]
struct PacketRouting {
    secret: QuicSecret,
    mailboxes: Vec<Mailbox>,
}

impl Datagrams {
    /// Returns the sockets for those of `listeners` that have HTTP/3, one for each of `threads`,
    /// and the addresses that there are none for. Sockets that are there are kept, also in their
    /// number: the kernel gives a client's packets to the same one then.
    pub(super) fn prepare(
        &self,
        config: &Config,
        listeners: &[BoundListener],
        threads: usize,
    ) -> (Datagrams, Vec<MissingListener>) {
        let mut missing = Vec::new();
        let mut groups: Vec<SocketGroup> = Vec::new();
        for listener in listeners.iter().filter(|listener| listener.has_http3(config)) {
            let ListenAddress::Tcp(address) = listener.actual else {
                continue;
            };
            let number = listener.number();
            let kept = self.groups.iter().find(|group| group.address == address);
            let sockets = match kept {
                Some(group) => Ok(Rc::clone(&group.sockets)),
                None => datagram::bind_group(address, threads.clamp(1, MOST_SOCKETS)).map(Rc::new),
            };
            match sockets {
                Ok(sockets) => groups.push(SocketGroup { address, number, sockets }),
                Err(error) => missing.push(MissingListener {
                    address: address.to_string(),
                    reason: refusal(address, &error),
                    is_of_owner: false,
                }),
            }
        }
        let common = match (&self.common, groups.is_empty()) {
            (Some(common), _) => Some(Rc::clone(common)),
            (None, true) => None,
            (None, false) => match PacketRouting::make() {
                Ok(common) => Some(Rc::new(common)),
                Err(why) => {
                    missing.extend(groups.drain(..).map(|group| MissingListener {
                        address: group.address.to_string(),
                        reason: format!(
                            "no HTTP/3 on {}: {why}; HTTP/1 and HTTP/2 are served there",
                            group.address
                        ),
                        is_of_owner: false,
                    }));
                    None
                }
            },
        };
        (Datagrams { groups, common }, missing)
    }

    /// Returns descriptors for the front of that generation; `None` if no listener has HTTP/3.
    ///
    /// # Errors
    /// The process has no more descriptors.
    pub(super) fn for_front(&self, generation: u64) -> io::Result<Option<QuicStart>> {
        let Some(common) = self.common.as_ref().filter(|_| !self.groups.is_empty()) else {
            return Ok(None);
        };
        let listener = |group: &SocketGroup| {
            Ok(QuicListener {
                number: group.number,
                address: group.address,
                sockets: group
                    .sockets
                    .iter()
                    .map(|socket| DatagramSocket::new(socket.try_clone()?))
                    .collect::<io::Result<_>>()?,
            })
        };
        let copy = |end: &SeqPacket| end.as_fd().try_clone_to_owned().map(SeqPacket::from);
        let mailbox = |Mailbox { reader, writer }: &Mailbox| {
            Ok(Mailbox {
                reader: copy(reader)?,
                writer: copy(writer)?,
            })
        };
        Ok(Some(QuicStart {
            listeners: self.groups.iter().map(listener).collect::<io::Result<_>>()?,
            mailboxes: common.mailboxes.iter().map(mailbox).collect::<io::Result<_>>()?,
            secret: common.secret.clone(),
            generation,
        }))
    }

    /// Returns the memory file with the secret; `None` if there is no HTTP/3.
    ///
    /// # Errors
    /// The error of a system call.
    pub(super) fn write_secret(&self) -> io::Result<Option<OwnedFd>> {
        let Some(common) = &self.common else {
            return Ok(None);
        };
        front_protocol::write_memory(common.secret.as_bytes()).map(Some)
    }

    /// Hands everything over to another program. `secret` is from
    /// [`write_secret`](Datagrams::write_secret).
    ///
    /// # Errors
    /// An address cannot be written.
    pub(super) fn hand_over<'d>(
        &'d self,
        secret: Option<&'d OwnedFd>,
        handover: &mut Handover<'d>,
    ) -> io::Result<()> {
        let none = std::ffi::OsStr::new("");
        let (Some(common), Some(secret)) = (&self.common, secret) else {
            return Ok(());
        };
        handover.line(&["datagram-secret"], &[secret.as_fd()], none)?;
        for Mailbox { reader, writer } in &common.mailboxes {
            handover.line(&["mailbox"], &[reader.as_fd(), writer.as_fd()], none)?;
        }
        for group in &self.groups {
            for socket in &*group.sockets {
                let address = group.address.to_string();
                handover.line(&["datagrams"], &[socket.as_fd()], address.as_ref())?;
            }
        }
        Ok(())
    }

    /// Takes over what another program has handed over.
    ///
    /// # Errors
    /// The error of a system call.
    pub(super) fn inherit(inherited: InheritedDatagrams) -> io::Result<Datagrams> {
        let InheritedDatagrams { secret, mailboxes, sockets } = inherited;
        let Some(secret) = secret else {
            return Ok(Datagrams::default());
        };
        let bytes = front_protocol::read_memory(secret)?;
        let secret = QuicSecret::from_bytes(&bytes).ok_or(io::ErrorKind::InvalidData)?;
        let mailboxes: Vec<_> = mailboxes
            .into_iter()
            .map(|(reader, writer)| Mailbox { reader, writer })
            .collect();
        let mut groups: Vec<(SocketAddr, Vec<UdpSocket>)> = Vec::new();
        for (socket, address) in sockets {
            match groups.iter_mut().find(|(own, _)| *own == address) {
                Some((_, sockets)) => sockets.push(socket),
                None => groups.push((address, vec![socket])),
            }
        }
        let group = |(address, sockets)| SocketGroup {
            address,
            number: 0,
            sockets: Rc::new(sockets),
        };
        Ok(Datagrams {
            groups: groups.into_iter().map(group).collect(),
            common: (mailboxes.len() == SLOTS)
                .then(|| Rc::new(PacketRouting { secret, mailboxes })),
        })
    }
}

/// Returns why a server that starts now would have no HTTP/3 at `address`; `None` if it would.
pub(super) fn obstacle(address: SocketAddr) -> Option<String> {
    let error = datagram::bind_group(address, 1).err()?;
    Some(refusal(address, &error))
}

impl PacketRouting {
    fn make() -> Result<PacketRouting, String> {
        let mailbox = |_| {
            let (reader, writer) = SeqPacket::pair()?;
            reader.set_nonblocking(true)?;
            Ok(Mailbox { reader, writer })
        };
        let mailboxes = (0..SLOTS).map(mailbox).collect::<io::Result<_>>();
        Ok(PacketRouting {
            secret: QuicSecret::generate()?,
            mailboxes: mailboxes.map_err(|error| error.to_string())?,
        })
    }
}

fn refusal(address: SocketAddr, error: &io::Error) -> String {
    let advice = match error.kind() {
        io::ErrorKind::AddrInUse => {
            "another program has the UDP port; stop it, or set `enabled = false` in [http3]"
        }
        io::ErrorKind::PermissionDenied => {
            "the UDP port is refused; set `enabled = false` in [http3] if that is meant"
        }
        _ => "set `enabled = false` in [http3] if the machine has no UDP",
    };
    format!("no HTTP/3 on {address}: {error}: {advice}; HTTP/1 and HTTP/2 are served there")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::supervisor::listeners;
    use std::net::TcpListener;

    /// A configuration with a listener for TLS on a free port, and the listener.
    fn listener() -> (Config, Vec<BoundListener>) {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let text = format!(
            "listen = [{{ address = \"{address}\", tls = true }}]\n[[site]]\nroot = \"/\"\n\
             php = false\ntls = \"internal\"\n"
        );
        let config = Config::parse(&text, "howdah.toml").unwrap();
        let wanted = listeners::WantedListeners::for_visitors(&config.listen);
        let prepared = listeners::prepare(wanted, &[], None, |_| false).unwrap();
        (config, prepared.listeners)
    }

    #[test]
    fn sockets_and_keys_are_kept() {
        let (config, listeners) = listener();
        let (first, missing) = Datagrams::default().prepare(&config, &listeners, 2);
        assert_eq!(missing, []);
        let (second, missing) = first.prepare(&config, &listeners, 3);
        assert_eq!(missing, []);
        assert!(Rc::ptr_eq(&first.groups[0].sockets, &second.groups[0].sockets));
        let [first, second] = [first, second].map(|all| all.for_front(7).unwrap().unwrap());
        assert_eq!(first.secret, second.secret);
        assert_eq!((first.listeners[0].sockets.len(), first.mailboxes.len()), (2, SLOTS));
        assert_eq!(first.descriptors().count(), 2 + 2 * SLOTS);
    }

    #[test]
    fn a_taken_port_is_named_and_leaves_the_others() {
        let (config, listeners) = listener();
        let ListenAddress::Tcp(address) = listeners[0].actual else {
            unreachable!()
        };
        let _taken = UdpSocket::bind(address).unwrap();
        let (none, missing) = Datagrams::default().prepare(&config, &listeners, 2);
        assert!(none.for_front(1).unwrap().is_none());
        let [MissingListener { address: named, reason, .. }] = &missing[..] else {
            panic!("{missing:?}")
        };
        assert_eq!(*named, address.to_string());
        assert!(reason.starts_with(&format!("no HTTP/3 on {address}: ")), "{reason}");
        assert!(reason.contains("another program has the UDP port"), "{reason}");
    }

    #[test]
    fn no_port_is_opened_where_http3_is_off() {
        let (mut config, listeners) = listener();
        config.http3.enabled = false;
        let (none, missing) = Datagrams::default().prepare(&config, &listeners, 2);
        assert!(none.groups.is_empty() && missing.is_empty());
    }
}
