//! The listening sockets. The supervisor keeps them open when fronts are replaced.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;

use howdah_sys::listen;

/// Maximum number of connections that wait to be accepted, limited by `net.core.somaxconn`.
const BACKLOG: i32 = 4096;

/// One listening socket.
#[derive(Debug, Clone)]
pub(super) struct Listener {
    /// The configured address. Its port may be 0.
    pub(super) configured: SocketAddr,
    /// The actual address.
    pub(super) actual: SocketAddr,
    pub(super) socket: Rc<TcpListener>,
}

impl Listener {
    /// Uses a socket that is already listening.
    ///
    /// # Errors
    /// The socket's address cannot be read.
    pub(super) fn of(configured: SocketAddr, socket: TcpListener) -> io::Result<Listener> {
        Ok(Listener {
            configured,
            actual: socket.local_addr()?,
            socket: Rc::new(socket),
        })
    }
}

/// Returns the listeners for `addresses`, and warnings about addresses that were left out.
/// Listeners in `present` are reused, others are created.
///
/// # Errors
/// The reason, as text for the operator.
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

/// `:80` means both address families. IPv6 may be missing on the machine.
fn is_spare(address: SocketAddr, all: &[SocketAddr], error: &io::Error) -> bool {
    let both = SocketAddr::from(([0, 0, 0, 0], address.port()));
    let no_family = matches!(error.raw_os_error(), Some(EAFNOSUPPORT))
        || error.kind() == io::ErrorKind::AddrNotAvailable;
    address.is_ipv6() && address.ip().is_unspecified() && all.contains(&both) && no_family
}

/// Linux's number for this error on every architecture.
const EAFNOSUPPORT: i32 = 97;

fn refusal(address: SocketAddr, error: &io::Error) -> String {
    let advice = match error.kind() {
        io::ErrorKind::AddrInUse => {
            "another program listens there; stop it, or choose another port with --listen or `listen`"
        }
        io::ErrorKind::PermissionDenied => {
            "only root may use ports below 1024; choose another port, or start howdah as root"
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
