//! The listening sockets. The supervisor keeps them open when fronts are replaced.

mod unix;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::rc::Rc;

use howdah_config::{Config, ListenAddress, ListenerSettings};
use howdah_sys::credentials::Identity;
use howdah_sys::listen;

use super::unix_socket::SocketFile;
use crate::net::{self, ListenerSocket};
use crate::operator_path;
use crate::status::MissingListener;

/// Maximum number of connections that wait to be accepted, limited by `net.core.somaxconn`.
const BACKLOG: i32 = 4096;

/// One listening socket.
#[derive(Debug, Clone)]
pub(super) struct BoundListener {
    /// The configured address. Its port may be 0.
    pub(super) configured: ListenAddress,
    /// The actual address.
    pub(super) actual: ListenAddress,
    /// The listener's place in the configuration.
    number: usize,
    /// Connections are encrypted.
    is_encrypted: bool,
    pub(super) socket: Rc<BoundSocket>,
}

/// A listening socket. The file of a Unix socket is removed when the last use of the socket ends.
#[derive(Debug)]
pub(super) struct BoundSocket {
    socket: OwnedFd,
    file: Option<SocketFile>,
}

impl BoundSocket {
    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for BoundSocket {
    fn drop(&mut self) {
        self.file.iter().for_each(SocketFile::remove);
    }
}

impl BoundListener {
    /// Uses a TCP socket that is already listening.
    ///
    /// # Errors
    /// The socket's address cannot be read.
    pub(super) fn tcp(configured: SocketAddr, socket: TcpListener) -> io::Result<BoundListener> {
        Ok(BoundListener {
            configured: ListenAddress::Tcp(configured),
            actual: ListenAddress::Tcp(socket.local_addr()?),
            number: 0,
            is_encrypted: false,
            socket: Rc::new(BoundSocket { socket: socket.into(), file: None }),
        })
    }

    /// Uses a Unix socket that is already listening at `path`. `file`: what is removed at its end.
    pub(super) fn unix(
        path: &Path,
        socket: UnixListener,
        file: Option<SocketFile>,
    ) -> BoundListener {
        let address = ListenAddress::Unix(path.to_owned());
        BoundListener {
            configured: address.clone(),
            actual: address,
            number: 0,
            is_encrypted: false,
            socket: Rc::new(BoundSocket { socket: socket.into(), file }),
        }
    }

    /// Returns whether this is a listener for `address` that clients can reach: the file of a Unix
    /// socket may have been removed.
    fn serves(&self, address: &ListenAddress) -> bool {
        self.configured == *address
            && match address {
                ListenAddress::Tcp(_) => true,
                ListenAddress::Unix(path) => unix::is_there(path),
            }
    }

    /// The listener's place in the configuration.
    pub(super) fn number(&self) -> usize {
        self.number
    }

    /// Returns whether the listener's UDP port is for HTTP/3.
    pub(super) fn has_http3(&self, config: &Config) -> bool {
        config
            .listen
            .get(self.number)
            .is_some_and(|settings| has_http3(settings, config))
    }

    /// Returns the address as a URL without a path.
    pub(super) fn url(&self) -> String {
        let scheme = if self.is_encrypted { "https" } else { "http" };
        format!("{scheme}://{}", self.actual)
    }

    /// Returns the listener for a front, with a descriptor of its own.
    ///
    /// # Errors
    /// The process has no more descriptors.
    pub(super) fn for_front(&self) -> io::Result<net::Listener> {
        let socket = self.socket.as_fd().try_clone_to_owned()?;
        let socket = match self.actual {
            ListenAddress::Tcp(_) => ListenerSocket::Tcp(socket.into()),
            ListenAddress::Unix(_) => ListenerSocket::Unix(socket.into()),
        };
        Ok(net::Listener {
            socket,
            address: self.actual.clone(),
            number: self.number,
        })
    }
}

/// Returns whether the UDP port of a listener with these settings is for HTTP/3. Packets cannot
/// carry a header of the PROXY protocol.
pub(super) fn has_http3(settings: &ListenerSettings, config: &Config) -> bool {
    let has_sites = config.sites.iter().any(|site| site.tls.is_on());
    settings.tls && config.http3.enabled && !settings.proxy_protocol && has_sites
}

/// The listeners for a configuration.
#[derive(Debug, Default)]
pub(super) struct PreparedListeners {
    pub(super) listeners: Vec<BoundListener>,
    /// The addresses that cannot be listened on.
    pub(super) missing: Vec<MissingListener>,
    /// About addresses that were left out.
    pub(super) warnings: Vec<String>,
}

/// The listeners that the configuration wants.
#[derive(Debug, Clone, Copy)]
pub(super) struct WantedListeners<'c> {
    pub(super) settings: &'c [ListenerSettings],
    /// The words for the place where the operator names them.
    pub(super) key: &'static str,
}

impl<'c> WantedListeners<'c> {
    /// The listeners for visitors.
    pub(super) fn for_visitors(settings: &'c [ListenerSettings]) -> WantedListeners<'c> {
        WantedListeners { settings, key: "--listen or `listen`" }
    }

    /// The listeners for monitors.
    pub(super) fn for_monitors(settings: &'c [ListenerSettings]) -> WantedListeners<'c> {
        WantedListeners { settings, key: "`admin`" }
    }
}

/// Returns the listeners for `wanted`. Listeners in `present` are reused, others are created. Unix
/// sockets are for the group of `front` unless their settings name another.
///
/// # Errors
/// The reason, as text for the operator: an address cannot be listened on and `may_miss` says that
/// the address must not be missing.
pub(super) fn prepare(
    wanted: WantedListeners<'_>,
    present: &[BoundListener],
    front: Option<&Identity>,
    may_miss: impl Fn(&ListenAddress) -> bool,
) -> Result<PreparedListeners, String> {
    let mut left = present.to_vec();
    let mut prepared = PreparedListeners::default();
    for (number, settings) in wanted.settings.iter().enumerate() {
        let address = &settings.address;
        let kept = left.iter().position(|listener| listener.serves(address));
        let made = match kept {
            Some(position) => Ok(left.swap_remove(position)),
            None => bind(address, wanted),
        };
        match made {
            Ok(listener) => prepared.listeners.push(BoundListener {
                number,
                is_encrypted: settings.tls,
                ..listener
            }),
            Err(UnboundReason::WithoutIpv6) => {
                let warning = format!("not listening on {address}: this machine has no IPv6");
                prepared.warnings.push(warning);
            }
            Err(UnboundReason::For(reason)) if may_miss(address) => {
                prepared.missing.push(MissingListener::new(address, reason));
                continue;
            }
            Err(UnboundReason::For(reason)) => return Err(reason),
        }
        let ListenAddress::Unix(path) = address else {
            continue;
        };
        if let Err(reason) = unix::give(path, settings, front) {
            if !(may_miss(address) && operator_path::is_anothers(path)) {
                return Err(reason);
            }
            // The owner of a folder on the way has put something else in the place of the socket.
            prepared.listeners.pop();
            prepared.missing.push(MissingListener::new(address, reason));
        }
    }
    Ok(prepared)
}

impl PreparedListeners {
    /// Refuses listeners of which each is missing.
    ///
    /// # Errors
    /// The reason for each, as text for the operator.
    pub(super) fn unless_empty(self) -> Result<PreparedListeners, String> {
        if !self.listeners.is_empty() {
            return Ok(self);
        }
        let reasons = self.missing.into_iter().map(|missing| missing.reason);
        Err(reasons.collect::<Vec<_>>().join("\n"))
    }
}

/// The reason why there is no listener for an address.
enum UnboundReason {
    /// The address is the second one of a port, for IPv6, which the machine does not have.
    WithoutIpv6,
    /// For this reason, which is text for the operator.
    For(String),
}

fn bind(
    address: &ListenAddress,
    wanted: WantedListeners<'_>,
) -> Result<BoundListener, UnboundReason> {
    match address {
        ListenAddress::Tcp(address) => listen::listen(*address, BACKLOG)
            .and_then(|socket| BoundListener::tcp(*address, socket))
            .map_err(|error| match is_spare(*address, wanted.settings, &error) {
                true => UnboundReason::WithoutIpv6,
                false => UnboundReason::For(refusal(*address, &error, wanted.key)),
            }),
        ListenAddress::Unix(path) => {
            let bound = unix::bind(path, wanted.key);
            bound
                .map(|(socket, file)| BoundListener::unix(path, socket, Some(file)))
                .map_err(UnboundReason::For)
        }
    }
}

/// Returns why a server that starts now could not listen on the address with that number; `None` if
/// it could.
pub(super) fn obstacle(number: usize, wanted: WantedListeners<'_>) -> Option<String> {
    match &wanted.settings[number].address {
        ListenAddress::Tcp(address) => {
            let error = listen::try_to_bind(*address).err()?;
            let is_spare = is_spare(*address, wanted.settings, &error);
            (!is_spare).then(|| refusal(*address, &error, wanted.key))
        }
        ListenAddress::Unix(path) => unix::obstacle(path, wanted.key),
    }
}

/// Returns the mistakes in the owners and groups of `listeners`. A server does not start with them.
pub(super) fn unknown_users(listeners: &[ListenerSettings]) -> Vec<String> {
    let sockets = listeners
        .iter()
        .filter(|settings| matches!(settings.address, ListenAddress::Unix(_)));
    sockets.filter_map(unix::unknown_user).collect()
}

/// Returns whether the server could listen on `address` now.
pub(super) fn can_bind(address: &ListenAddress) -> bool {
    match address {
        ListenAddress::Tcp(address) => listen::try_to_bind(*address).is_ok(),
        ListenAddress::Unix(path) => unix::can_bind(path),
    }
}

/// `:80` means both address families. IPv6 may be missing on the machine.
fn is_spare(address: SocketAddr, all: &[ListenerSettings], error: &io::Error) -> bool {
    let both = ListenAddress::Tcp(SocketAddr::from(([0, 0, 0, 0], address.port())));
    let no_family = matches!(error.raw_os_error(), Some(EAFNOSUPPORT))
        || error.kind() == io::ErrorKind::AddrNotAvailable;
    address.is_ipv6()
        && address.ip().is_unspecified()
        && all.iter().any(|settings| settings.address == both)
        && no_family
}

/// Linux's number for this error on every architecture.
const EAFNOSUPPORT: i32 = 97;

fn refusal(address: SocketAddr, error: &io::Error, key: &str) -> String {
    let other = |what: &str| format!("choose another {what} with {key}");
    let advice = match error.kind() {
        io::ErrorKind::AddrInUse => {
            format!("another program listens there; stop it, or {}", other("port"))
        }
        io::ErrorKind::PermissionDenied => {
            "only root may use ports below 1024; start howdah as root, which gives up its rights \
             afterwards, give it the right (`setcap cap_net_bind_service=ep` on the program, or \
             `AmbientCapabilities=CAP_NET_BIND_SERVICE` in a unit of systemd), or choose another \
             port"
                .to_owned()
        }
        io::ErrorKind::AddrNotAvailable => {
            "this machine has no such address; see `ip address`".to_owned()
        }
        _ => other("address"),
    };
    format!("cannot listen on {address}: {error}: {advice}")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn any_port() -> ListenerSettings {
        "127.0.0.1:0".parse::<SocketAddr>().unwrap().into()
    }

    /// The listeners for `wanted`, of which none may be missing.
    fn all(
        wanted: &[ListenerSettings],
        present: &[BoundListener],
    ) -> Result<Vec<BoundListener>, String> {
        let wanted = WantedListeners::for_visitors(wanted);
        prepare(wanted, present, None, |_| false).map(|prepared| prepared.listeners)
    }

    #[test]
    fn an_address_that_may_be_missing_leaves_the_others() {
        let first = all(&[any_port()], &[]).unwrap();
        let taken = ListenerSettings::new(first[0].actual.clone());
        let wanted = [taken.clone(), any_port()];
        let prepare = |wanted| prepare(wanted, &[], None, |_| true).unwrap().unless_empty();
        let prepared = prepare(WantedListeners::for_visitors(&wanted)).unwrap();
        assert_eq!((prepared.listeners.len(), prepared.listeners[0].number()), (1, 1));
        assert_eq!(prepared.missing[0].address, first[0].actual.to_string());
        assert!(!can_bind(&taken.address) && can_bind(&any_port().address));
        let taken = [taken];
        for (wanted, key) in [
            (WantedListeners::for_visitors(&taken), "--listen or `listen`"),
            (WantedListeners::for_monitors(&taken), "`admin`"),
        ] {
            let none = prepare(wanted).unwrap_err();
            let advice = format!("stop it, or choose another port with {key}");
            assert!(none.ends_with(&advice), "{none}");
        }
    }

    #[test]
    fn keeps_what_is_there_and_binds_what_is_new() {
        let first = all(&[any_port()], &[]).unwrap();
        assert_ne!(first[0].actual, any_port().address);
        let second = all(&[any_port(), any_port()], &first).unwrap();
        assert_eq!(second[0].actual, first[0].actual);
        assert_ne!(second[1].actual, first[0].actual);
        let third = all(&[any_port()], &second).unwrap();
        assert!(
            Rc::ptr_eq(&third[0].socket, &second[0].socket)
                || Rc::ptr_eq(&third[0].socket, &second[1].socket)
        );
    }

    #[test]
    fn a_taken_port_is_named() {
        let first = all(&[any_port()], &[]).unwrap();
        let taken = ListenerSettings::new(first[0].actual.clone());
        let refused = all(&[taken], &[]).unwrap_err();
        assert!(
            refused.starts_with(&format!("cannot listen on {}: ", first[0].actual)),
            "{refused}"
        );
        assert!(refused.contains("another program listens there"), "{refused}");
    }

    #[test]
    fn a_change_that_fails_leaves_no_socket_behind() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| ListenerSettings::new(ListenAddress::Unix(folder.path().join(name)));
        let first = all(&[at("kept")], &[]).unwrap();
        fs::write(folder.path().join("file"), "").unwrap();
        let refused = all(&[at("kept"), at("new"), at("file")], &first).unwrap_err();
        assert!(refused.contains("is not a socket"), "{refused}");
        assert!(folder.path().join("kept").exists() && !folder.path().join("new").exists());
        assert!(folder.path().join("file").exists());
    }

    #[test]
    fn the_end_of_a_listener_removes_nothing_where_a_link_leads_by_then() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["run", "other"] {
            fs::create_dir(at(name)).unwrap();
        }
        let wanted = [ListenerSettings::new(ListenAddress::Unix(at("run/web.sock")))];
        let listeners = all(&wanted, &[]).unwrap();
        // The same file has the name in both folders: its identity does not tell them apart.
        fs::hard_link(at("run/web.sock"), at("other/web.sock")).unwrap();
        fs::rename(at("run"), at("former")).unwrap();
        symlink("other", at("run")).unwrap();
        drop(listeners);
        assert!(at("other/web.sock").exists(), "the file of another folder is removed");
        assert!(!at("former/web.sock").exists());
    }

    #[test]
    fn another_file_in_the_place_of_a_socket_is_not_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("web.sock");
        let wanted = [ListenerSettings::new(ListenAddress::Unix(path.clone()))];
        let listeners = all(&wanted, &[]).unwrap();
        fs::remove_file(&path).unwrap();
        let _other = UnixListener::bind(&path).unwrap();
        drop(listeners);
        assert!(path.exists());
    }
}
