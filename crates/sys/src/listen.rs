//! Listening TCP sockets, with the options that `std` does not offer.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::check;

/// Listens on `address`. The socket is non-blocking, close-on-exec and has `SO_REUSEADDR`. An IPv6
/// socket accepts only IPv6, which allows both families to share a port. Accepted connections
/// inherit `TCP_NODELAY`.
///
/// # Errors
/// The error of `socket(2)`, `bind(2)` or `listen(2)`.
pub fn listen(address: SocketAddr, backlog: i32) -> io::Result<TcpListener> {
    let socket = bound(address)?;
    // SAFETY: no memory arguments.
    check(unsafe { libc::listen(socket.as_raw_fd(), backlog) })?;
    Ok(TcpListener::from(socket))
}

/// Finds out whether [`listen`] would get `address`, without listening there.
///
/// # Errors
/// The error of `socket(2)` or `bind(2)`.
pub fn try_to_bind(address: SocketAddr) -> io::Result<()> {
    bound(address).map(drop)
}

/// Returns a socket that is bound to `address`. Other sockets of this kind may be bound to the
/// address as well, as long as none listens.
fn bound(address: SocketAddr) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() {
        libc::AF_INET
    } else {
        libc::AF_INET6
    };
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: no memory arguments.
    let fd = check(unsafe { libc::socket(family, kind, 0) })?;
    // SAFETY: fresh descriptor, owned by nobody else.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    switch_on(&socket, libc::SOL_SOCKET, libc::SO_REUSEADDR)?;
    switch_on(&socket, libc::IPPROTO_TCP, libc::TCP_NODELAY)?;
    bind_to(&socket, address)?;
    Ok(socket)
}

/// Binds to `address`. An IPv6 socket gets IPv6 only.
///
/// # Errors
/// The error of `bind(2)`, such as `EADDRINUSE`, or of `setsockopt(2)`.
pub(crate) fn bind_to(socket: &OwnedFd, address: SocketAddr) -> io::Result<()> {
    match address {
        SocketAddr::V4(address) => {
            let raw = libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: address.port().to_be(),
                sin_addr: libc::in_addr {
                    s_addr: u32::from_ne_bytes(address.ip().octets()),
                },
                sin_zero: [0; 8],
            };
            bind(socket, &raw)
        }
        SocketAddr::V6(address) => {
            switch_on(socket, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY)?;
            let raw = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: address.port().to_be(),
                sin6_flowinfo: address.flowinfo(),
                sin6_addr: libc::in6_addr { s6_addr: address.ip().octets() },
                sin6_scope_id: address.scope_id(),
            };
            bind(socket, &raw)
        }
    }
}

fn switch_on(socket: &OwnedFd, level: libc::c_int, option: libc::c_int) -> io::Result<()> {
    set(socket, level, option, 1)
}

/// Sets an option that is a number.
///
/// # Errors
/// The error of `setsockopt(2)`.
pub(crate) fn set(
    socket: &OwnedFd,
    level: libc::c_int,
    option: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    let length = size_of_val(&value) as libc::socklen_t;
    // SAFETY: the value is a live int of the stated length.
    check(unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const value).cast(), length)
    })?;
    Ok(())
}

fn bind<Address>(socket: &OwnedFd, address: &Address) -> io::Result<()> {
    let length = size_of::<Address>() as libc::socklen_t;
    // SAFETY: `address` is a live socket address of the stated length.
    check(unsafe { libc::bind(socket.as_raw_fd(), std::ptr::from_ref(address).cast(), length) })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv6Addr, TcpStream};

    #[test]
    fn accepts_connections() {
        let listener = listen("127.0.0.1:0".parse().unwrap(), 16).unwrap();
        let address = listener.local_addr().unwrap();
        assert_eq!(listener.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock);
        let _client = TcpStream::connect(address).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        assert!(accepted.nodelay().unwrap());
    }

    #[test]
    fn a_taken_port_is_an_error() {
        let listener = listen("127.0.0.1:0".parse().unwrap(), 16).unwrap();
        let again = listen(listener.local_addr().unwrap(), 16);
        assert_eq!(again.unwrap_err().kind(), io::ErrorKind::AddrInUse);
    }

    #[test]
    fn a_trial_finds_a_taken_port_and_takes_none() {
        let listener = listen("127.0.0.1:0".parse().unwrap(), 16).unwrap();
        let address = listener.local_addr().unwrap();
        assert_eq!(try_to_bind(address).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        let free = "127.0.0.1:0".parse().unwrap();
        let other = bound(free).map(TcpListener::from).unwrap();
        let address = other.local_addr().unwrap();
        try_to_bind(address).unwrap();
        listen(address, 16).unwrap();
    }

    #[test]
    fn both_families_share_a_port() {
        let both = || {
            let six = listen(SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)), 16)?;
            let port = six.local_addr()?.port();
            listen(SocketAddr::from(([0, 0, 0, 0], port)), 16).map(drop)
        };
        if listen(SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)), 16).is_ok() {
            // Another program may have the port in the other family.
            assert!((0..100).any(|_| both().is_ok()));
        } // else a machine without IPv6
    }
}
