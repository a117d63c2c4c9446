//! UDP sockets that share a port.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{FromRawFd, OwnedFd};

use crate::check;
use crate::listen::{bind_to, set};

/// Bytes of packets that wait in a socket, as far as `net.core.rmem_max` allows.
const RECEIVE_BUFFER: libc::c_int = 4 << 20;

/// Binds `count` sockets to `address`, which share its packets (`SO_REUSEPORT`): those of one
/// client always come to the same socket. The sockets are non-blocking and close-on-exec.
///
/// # Errors
/// `AddrInUse` where another program has a socket on the port, also one that would share it, and
/// other errors of `socket(2)` and `bind(2)`.
pub fn bind_group(address: SocketAddr, count: usize) -> io::Result<Vec<UdpSocket>> {
    // A socket that does not share finds all others.
    bind_to(&socket(address)?, address)?;
    let member = || {
        let socket = socket(address)?;
        set(&socket, libc::SOL_SOCKET, libc::SO_REUSEPORT, 1)?;
        set(&socket, libc::SOL_SOCKET, libc::SO_RCVBUF, RECEIVE_BUFFER)?;
        bind_to(&socket, address)?;
        Ok(UdpSocket::from(socket))
    };
    (0..count).map(|_| member()).collect()
}

fn socket(address: SocketAddr) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() {
        libc::AF_INET
    } else {
        libc::AF_INET6
    };
    let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: no memory arguments.
    let fd = check(unsafe { libc::socket(family, kind, 0) })?;
    // SAFETY: fresh descriptor, owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An address whose UDP port is free.
    /// Binds sockets to a port that no other program takes at that moment.
    fn group(count: usize) -> Vec<UdpSocket> {
        let free = || UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut attempts = (0..100).map(|_| bind_group(free(), count));
        attempts.find_map(Result::ok).expect("a free port")
    }

    #[test]
    fn packets_of_a_client_come_to_one_of_the_sockets() {
        let sockets = group(4);
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        client.connect(sockets[0].local_addr().unwrap()).unwrap();
        for _ in 0..3 {
            client.send(b"packet").unwrap();
        }
        let got: Vec<usize> = sockets
            .iter()
            .map(|socket| (0..).take_while(|_| socket.recv(&mut [0; 16]).is_ok()).count())
            .collect();
        assert_eq!(got.iter().sum::<usize>(), 3);
        assert!(got.contains(&3), "{got:?}");
    }

    #[test]
    fn a_port_of_another_program_is_an_error() {
        let group = group(2);
        let address = group[0].local_addr().unwrap();
        assert_eq!(bind_group(address, 2).unwrap_err().kind(), io::ErrorKind::AddrInUse);
    }
}
