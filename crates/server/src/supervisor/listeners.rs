//! The sockets that clients connect to. The supervisor keeps them open while fronts come and go.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;

use howdah_sys::listen;

/// Connections that may wait to be accepted, as far as `net.core.somaxconn` lets them.
const BACKLOG: i32 = 4096;

/// One listening socket.
#[derive(Debug, Clone)]
pub(super) struct Listener {
    /// As configured, perhaps with port 0.
    pub(super) configured: SocketAddr,
    /// As it really is.
    pub(super) actual: SocketAddr,
    pub(super) socket: Rc<TcpListener>,
}

impl Listener {
    /// From a socket that listens already.
    pub(super) fn of(configured: SocketAddr, socket: TcpListener) -> io::Result<Listener> {
        Ok(Listener {
            configured,
            actual: socket.local_addr()?,
            socket: Rc::new(socket),
        })
    }
}

/// The sockets for `addresses`: those of `present` where there is one, new ones otherwise. Also
/// says what was left out.
pub(super) fn prepare(
    addresses: &[SocketAddr],
    present: &[Listener],
) -> Result<(Vec<Listener>, Vec<String>), String> {
    let mut left = present.to_vec();
    let (mut prepared, mut warnings) = (Vec::new(), Vec::new());
    for &address in addresses {
        if let Some(position) = left.iter().position(|listener| listener.configured == address) {
            prepared.push(left.swap_remove(position));
            continue;
        }
        match listen::listen(address, BACKLOG).and_then(|socket| Listener::of(address, socket)) {
            Ok(listener) => prepared.push(listener),
            Err(error) if is_spare(address, addresses, &error) => {
                warnings.push(format!("not listening on {address}: this machine has no IPv6"));
            }
            Err(error) => return Err(refusal(address, &error)),
        }
    }
    Ok((prepared, warnings))
}

/// `:80` stands for both families, also where there is no IPv6.
fn is_spare(address: SocketAddr, all: &[SocketAddr], error: &io::Error) -> bool {
    let both = SocketAddr::from(([0, 0, 0, 0], address.port()));
    let no_family = matches!(error.raw_os_error(), Some(EAFNOSUPPORT))
        || error.kind() == io::ErrorKind::AddrNotAvailable;
    address.is_ipv6() && address.ip().is_unspecified() && all.contains(&both) && no_family
}

/// Linux's number on every architecture.
const EAFNOSUPPORT: i32 = 97;

fn refusal(address: SocketAddr, error: &io::Error) -> String {
    let advice = match error.kind() {
        io::ErrorKind::AddrInUse => {
            "another program listens there; stop it, or choose another port with --listen or `listen`"
        }
        io::ErrorKind::PermissionDenied => {
            "ports below 1024 are for root; choose another, or start as root"
        }
        io::ErrorKind::AddrNotAvailable => "this machine has no such address; see `ip address`",
        _ => "choose another address with --listen or `listen`",
    };
    format!("cannot listen on {address}: {error}: {advice}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn any_port() -> SocketAddr {
        "127.0.0.1:0".parse().unwrap()
    }

    #[test]
    fn keeps_what_is_there_and_binds_what_is_new() {
        let (first, _) = prepare(&[any_port()], &[]).unwrap();
        assert_ne!(first[0].actual.port(), 0);
        let (second, _) = prepare(&[any_port(), any_port()], &first).unwrap();
        assert_eq!(second[0].actual, first[0].actual);
        assert_ne!(second[1].actual, first[0].actual);
        let (third, _) = prepare(&[any_port()], &second).unwrap();
        assert!(
            Rc::ptr_eq(&third[0].socket, &second[0].socket)
                || Rc::ptr_eq(&third[0].socket, &second[1].socket)
        );
    }

    #[test]
    fn a_taken_port_is_named() {
        let (first, _) = prepare(&[any_port()], &[]).unwrap();
        let refused = prepare(&[first[0].actual], &[]).unwrap_err();
        assert!(
            refused.starts_with(&format!("cannot listen on {}: ", first[0].actual)),
            "{refused}"
        );
        assert!(refused.contains("another program listens there"), "{refused}");
    }
}
