//! Files of Unix sockets that the supervisor listens on: made, and given to their users.
//!
//! Such a file may lie in a folder of a site's owner, who can put another file in its place at any
//! moment. Therefore the supervisor changes the very file that it has checked, and never the target
//! of a link.

use std::fs::{self, Permissions};
use std::io::{
    self,
    ErrorKind::{ConnectionRefused, NotFound},
};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown};
use std::os::unix::net::UnixListener;
use std::path::Path;

use howdah_sys::process;
use howdah_sys::socket::refuse_descriptors;
use socket2::{Domain, SockAddr, Socket, Type};

use crate::operator_path::{self, PathInFolder};

/// Listens at `path`, for this process's user alone. Replaces a socket that no process listens on,
/// as a server leaves it that was killed.
///
/// # Errors
/// `AddrInUse` if a program listens there; another kind of file is there; a link leads to another's
/// place, see [`operator_path::resolved`]; or the error of `bind(2)`.
pub(super) fn bind(path: &Path) -> io::Result<(UnixListener, SocketFile)> {
    let place = PathInFolder::unfollowed(path)?;
    let file = place.in_process();
    if is_taken(&file) {
        return Err(io::ErrorKind::AddrInUse.into());
    }
    match fs::symlink_metadata(&file) {
        Ok(found) if found.file_type().is_socket() => fs::remove_file(&file)?,
        Ok(_) => return Err(not_a_socket()),
        Err(error) if error.kind() == NotFound => {}
        Err(error) => return Err(error),
    }
    let former = process::set_umask(0o177);
    // By the path that people know: the system's lists of sockets show it.
    let bound = UnixListener::bind(&place.real);
    process::set_umask(former);
    let listener = bound?;
    prepare(&listener)?;
    // A folder that was exchanged meanwhile has no socket that listens.
    let is_there = is_taken(&file);
    match SocketFile::in_place(place).filter(|_| is_there) {
        Some(file) => {
            // The connection that has asked is no client: it sends nothing.
            let _ = listener.accept();
            Ok((listener, file))
        }
        None => Err(io::Error::other("a folder on its way was exchanged meanwhile")),
    }
}

/// The file of a socket that this process listens on.
#[derive(Debug)]
pub(super) struct SocketFile {
    /// The folder is kept open: by the time of the removal the path may lead to another one, where
    /// this process has rights that the owner of a folder on the way does not have.
    place: PathInFolder,
    /// Device and inode: another socket may take the name.
    identity: (u64, u64),
    /// A child that ends must not remove the file.
    process: u32,
}

impl SocketFile {
    /// The file of a socket that was bound at `path` by a former program. `None` if there is no
    /// socket, or a link leads to another's place.
    pub(super) fn at(path: &Path) -> Option<SocketFile> {
        SocketFile::in_place(PathInFolder::unfollowed(path).ok()?)
    }

    fn in_place(place: PathInFolder) -> Option<SocketFile> {
        let identity = identity(&place.in_process())?;
        Some(SocketFile {
            place,
            identity,
            process: std::process::id(),
        })
    }

    /// Removes the file from the folder that it was made in, unless another socket has taken its
    /// place.
    pub(super) fn remove(&self) {
        let file = self.place.in_process();
        if self.process == std::process::id() && identity(&file) == Some(self.identity) {
            // A file that cannot be removed is replaced at the next start.
            let _ = fs::remove_file(file);
        }
    }
}

/// Returns device and inode of the socket at `path`; `None` if there is none.
pub(super) fn identity(path: &Path) -> Option<(u64, u64)> {
    let found = fs::symlink_metadata(path).ok()?;
    found.file_type().is_socket().then(|| (found.dev(), found.ino()))
}

/// Sets the listener to non-blocking, and has it refuse descriptors from its clients.
///
/// # Errors
/// The error of `ioctl(2)`.
pub(super) fn prepare(listener: &UnixListener) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    // Older kernels cannot.
    let _ = refuse_descriptors(listener.as_fd());
    Ok(())
}

/// Returns whether a program has a socket at `path`. Does not wait for one that accepts no
/// connection.
pub(super) fn is_taken(path: &Path) -> bool {
    let connect = |address: &SockAddr| {
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        socket.set_nonblocking(true)?;
        socket.connect(address)
    };
    let Ok(address) = SockAddr::unix(path) else {
        return false;
    };
    let connected: io::Result<()> = connect(&address);
    // Others say that a program is busy, or that its socket is of another type.
    connected.map_or_else(|error| !matches!(error.kind(), NotFound | ConnectionRefused), |()| true)
}

/// Gives the socket at `path` its owner, its group, each if there is one, and its permissions.
///
/// # Errors
/// The file is no socket, a link leads to another's place, or the error of `open(2)`, `chown(2)` or
/// `chmod(2)`.
pub(super) fn give(
    path: &Path,
    owner: Option<u32>,
    group: Option<u32>,
    mode: u32,
) -> io::Result<()> {
    // The file that is open, whatever is at its path by now.
    let opened = PathInFolder::unfollowed(path)?.point()?;
    let file = operator_path::path_of(&opened);
    if !fs::metadata(&file)?.file_type().is_socket() {
        return Err(not_a_socket());
    }
    chown(&file, owner, group)?;
    fs::set_permissions(&file, Permissions::from_mode(mode))
}

pub(super) fn not_a_socket() -> io::Error {
    io::Error::other("the file is not a socket")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_program_that_accepts_no_connection_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
        listener.bind(&SockAddr::unix(&path).unwrap()).unwrap();
        listener.listen(0).unwrap();
        let _waiting = UnixStream::connect(&path).unwrap();
        assert!(is_taken(&path));
        assert_eq!(bind(&path).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        drop(listener);
        assert!(!is_taken(&path));
    }

    #[test]
    fn nobody_has_connected_to_a_socket_that_was_just_made() {
        let folder = tempfile::tempdir().unwrap();
        let (listener, _file) = bind(&folder.path().join("socket")).unwrap();
        assert_eq!(listener.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn a_file_in_the_place_of_the_socket_keeps_its_owner_and_permissions() {
        let folder = tempfile::tempdir().unwrap();
        let (socket, secret) = (folder.path().join("socket"), folder.path().join("secret"));
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        let (listener, _file) = bind(&socket).unwrap();
        assert_eq!(mode(&socket), 0o600);
        give(&socket, None, None, 0o660).unwrap();
        assert_eq!(mode(&socket), 0o660);

        fs::write(&secret, "secret").unwrap();
        fs::set_permissions(&secret, Permissions::from_mode(0o600)).unwrap();
        let links: [fn(&Path, &Path) -> io::Result<()>; 2] =
            [|from, to| symlink(from, to), |from, to| fs::hard_link(from, to)];
        for link in links {
            fs::remove_file(&socket).unwrap();
            link(&secret, &socket).unwrap();
            assert!(give(&socket, None, None, 0o666).is_err());
            assert_eq!(mode(&secret), 0o600);
            assert!(bind(&socket).is_err());
        }
        drop(listener);
    }
}
