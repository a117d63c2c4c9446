//! The control socket, through which `howdah status`, `reload` and `stop` reach the supervisor.
//!
//! A client sends one word and a line feed. The answer is a line with `ok` or `refused`, followed
//! by text for a person up to the end of the stream. Or it speaks HTTP ([`request`]).
//!
//! Commands that change something are for root and the server's own user. A group of the
//! configuration may ask for the state.

mod command;
mod request;

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use howdah_http::Status;
use howdah_sys::credentials::{group_number, own_user};
use howdah_sys::socket::peer_user;

pub(crate) use self::command::{ControlCommand, ask};
use super::unix_socket::{self, SocketFile};

/// Maximum number of clients at a time. Further clients wait in the listen queue.
const MOST_CLIENTS: usize = 32;
/// Maximum bytes of a command. A longer line is no command, and is refused.
const LONGEST_COMMAND: usize = 16;
/// Time in which a client must send its command.
const PATIENCE: Duration = Duration::from_secs(5);

/// The control socket and its connected clients.
#[derive(Debug)]
pub(super) struct ControlSocket {
    pub(super) path: PathBuf,
    pub(super) listener: UnixListener,
    file: Option<SocketFile>,
    clients: Vec<ControlClient>,
    next_id: u64,
}

/// A connected client.
#[derive(Debug)]
struct ControlClient {
    id: u64,
    stream: UnixStream,
    received: Vec<u8>,
    /// The client is root or the server's own user.
    may_command: bool,
    /// `None` until the client has sent its command.
    command: Option<ControlCommand>,
    /// The command is being carried out.
    is_begun: bool,
    since: Instant,
}

impl ControlSocket {
    /// Creates the socket at `path`, accessible for its owner only. Replaces a socket that no
    /// process listens on. See [`ControlSocket::open_to`] for a group.
    ///
    /// # Errors
    /// The reason, as text for the operator.
    pub(super) fn bind(path: &Path) -> Result<ControlSocket, String> {
        let told = |error: io::Error| match error.kind() {
            io::ErrorKind::AddrInUse => format!(
                "another howdah listens at {}; stop it, or set `control` to another place",
                path.display()
            ),
            _ => format!(
                "cannot create the control socket {}: {error}; set `control` to a place that can \
                 be written to",
                path.display()
            ),
        };
        let (listener, file) = unix_socket::bind(path).map_err(told)?;
        ControlSocket::of(path.to_owned(), listener, Some(file)).map_err(told)
    }

    /// Uses a socket that is already bound. `file`: what is removed at its end.
    ///
    /// # Errors
    /// The socket cannot be set to non-blocking.
    pub(super) fn of(
        path: PathBuf,
        listener: UnixListener,
        file: Option<SocketFile>,
    ) -> io::Result<ControlSocket> {
        unix_socket::prepare(&listener)?;
        Ok(ControlSocket {
            path,
            listener,
            file,
            clients: Vec::new(),
            next_id: 1,
        })
    }

    /// Lets the members of `group` connect as well, or nobody but the owner.
    ///
    /// # Errors
    /// The reason, as text for the operator.
    pub(super) fn open_to(&self, group: Option<&str>) -> Result<(), String> {
        let told = |error: io::Error| {
            let path = self.path.display();
            format!("cannot open the control socket {path} to `control_group`: {error}")
        };
        let Some(group) = group else {
            return unix_socket::give(&self.path, None, None, 0o600).map_err(told);
        };
        let number = group_number(group).map_err(told)?;
        let number = number.ok_or_else(|| format!("`control_group`: there is no group {group}"))?;
        unix_socket::give(&self.path, None, Some(number), 0o660).map_err(told)
    }

    /// Takes over the clients of a former socket. Closes the former socket, and removes it unless
    /// it has the same path.
    pub(super) fn succeed(&mut self, former: ControlSocket) {
        self.next_id = former.next_id;
        if former.path != self.path {
            former.remove();
        }
        self.clients = former.clients;
    }

    /// Removes the file of the socket.
    pub(super) fn remove(&self) {
        self.file.iter().for_each(SocketFile::remove);
    }

    /// Accepts the clients that have connected.
    pub(super) fn accept(&mut self) {
        while self.clients.len() < MOST_CLIENTS {
            let Ok((stream, _)) = self.listener.accept() else {
                return;
            };
            if stream.set_nonblocking(true).is_ok() {
                let (id, since) = (self.next_id, Instant::now());
                let user = peer_user(stream.as_fd());
                let may_command = user.is_ok_and(|user| user == 0 || user == own_user());
                self.next_id += 1;
                self.clients.push(ControlClient {
                    id,
                    stream,
                    received: Vec::new(),
                    may_command,
                    command: None,
                    is_begun: false,
                    since,
                });
            }
        }
    }

    /// Returns whether another client can be accepted.
    pub(super) fn can_accept(&self) -> bool {
        self.clients.len() < MOST_CLIENTS
    }

    /// All clients, with the descriptors to wait for.
    pub(super) fn clients(&self) -> impl Iterator<Item = (u64, BorrowedFd<'_>)> {
        self.clients.iter().map(|client| (client.id, client.stream.as_fd()))
    }

    /// Reads from a client. Returns its command once it is complete. A client that disconnects or
    /// sends an unknown command is dropped. `None`: there is no complete command.
    pub(super) fn listen(&mut self, id: u64) -> Option<ControlCommand> {
        let position = self.clients.iter().position(|client| client.id == id)?;
        let client = &mut self.clients[position];
        let mut buffer = [0; 512];
        match client.stream.read(&mut buffer) {
            Ok(length) if length > 0 && client.command.is_none() => {
                client.received.extend_from_slice(&buffer[..length])
            }
            // The content of a request, which no command has.
            Ok(length) if length > 0 && client.is_http() => return None,
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) =>
            {
                return None;
            }
            Ok(_) | Err(_) => {
                self.clients.swap_remove(position);
                return None;
            }
        }
        match client.asked()? {
            Ok(command) if command.is_question() || client.may_command => {
                client.command = Some(command);
                Some(command)
            }
            Ok(_) => {
                self.refuse(id, Status::FORBIDDEN, NOT_ALLOWED);
                None
            }
            Err(status) => {
                let mistake = request::mistake(&client.received, status);
                self.refuse(id, status, mistake);
                None
            }
        }
    }

    /// The bytes that a client has sent, for the front, which answers it.
    pub(super) fn received(&self, id: u64) -> &[u8] {
        let client = self.clients.iter().find(|client| client.id == id);
        client.map_or(&[], |client| &client.received)
    }

    /// Answers a client and closes its connection.
    pub(super) fn answer(&mut self, id: u64, answer: Result<&str, &str>) {
        match answer {
            Ok(text) => self.end(id, "ok", Status::OK, text),
            Err(text) => {
                let client = self.clients.iter().find(|client| client.id == id);
                let command = client.and_then(|client| client.command);
                let status = match command.is_some_and(ControlCommand::is_question) {
                    true => Status::SERVICE_UNAVAILABLE,
                    false => Status::CONFLICT,
                };
                self.refuse(id, status, text);
            }
        }
    }

    /// Refuses a client's command and closes the connection. A client that speaks HTTP gets this
    /// status.
    fn refuse(&mut self, id: u64, status: Status, text: &str) {
        self.end(id, "refused", status, text);
    }

    fn end(&mut self, id: u64, first: &str, status: Status, text: &str) {
        let Some(position) = self.clients.iter().position(|client| client.id == id) else {
            return;
        };
        let mut client = self.clients.swap_remove(position);
        let answer = if client.is_http() {
            request::response(&client.received, status, text)
        } else {
            format!("{first}\n{text}\n").into_bytes()
        };
        // A client that has disconnected or does not read gets no answer.
        let _ = client.stream.write_all(&answer);
    }

    /// Returns a descriptor of a client's connection, for a process that answers the client.
    ///
    /// # Errors
    /// The process has no more descriptors, or the client is gone.
    pub(super) fn connection(&self, id: u64) -> io::Result<OwnedFd> {
        let client = self.clients.iter().find(|client| client.id == id);
        let client = client.ok_or(io::ErrorKind::NotConnected)?;
        client.stream.as_fd().try_clone_to_owned()
    }

    /// Forgets a client that another process answers.
    pub(super) fn forget(&mut self, id: u64) {
        self.clients.retain(|client| client.id != id);
    }

    /// Notes that `command` is carried out for all clients that have asked for it by now.
    pub(super) fn begin_all(&mut self, command: ControlCommand) {
        self.set_begun(command, true);
    }

    /// Notes that `command` is to be carried out later, for all clients that have asked for it.
    pub(super) fn put_off_all(&mut self, command: ControlCommand) {
        self.set_begun(command, false);
    }

    fn set_begun(&mut self, command: ControlCommand, is_begun: bool) {
        let asked = self.clients.iter_mut().filter(|client| client.command == Some(command));
        asked.for_each(|client| client.is_begun = is_begun);
    }

    /// Answers all clients that asked for `command`.
    pub(super) fn answer_all(&mut self, command: ControlCommand, answer: Result<&str, &str>) {
        self.answer_those(command, answer, |_| true);
    }

    /// Answers the clients for which `command` has begun.
    pub(super) fn answer_begun(&mut self, command: ControlCommand, answer: Result<&str, &str>) {
        self.answer_those(command, answer, |client| client.is_begun);
    }

    fn answer_those(
        &mut self,
        command: ControlCommand,
        answer: Result<&str, &str>,
        is_meant: impl Fn(&ControlClient) -> bool,
    ) {
        let asked = self.clients.iter().filter(|client| client.command == Some(command));
        let all: Vec<u64> =
            asked.filter(|client| is_meant(client)).map(|client| client.id).collect();
        for id in all {
            self.answer(id, answer);
        }
    }

    /// Clients that have waited for the answer to `command` for longer than `patience`.
    pub(super) fn overdue(
        &self,
        command: ControlCommand,
        now: Instant,
        patience: Duration,
    ) -> Vec<u64> {
        let overdue = |client: &&ControlClient| {
            client.command == Some(command) && now - client.since >= patience
        };
        self.clients.iter().filter(overdue).map(|client| client.id).collect()
    }

    /// Drops clients that have not sent a command in time.
    pub(super) fn drop_silent(&mut self, now: Instant) {
        self.clients
            .retain(|client| client.command.is_some() || now - client.since < PATIENCE);
    }

    /// Returns whether a client is connected, which requires checks of its deadline.
    pub(super) fn is_busy(&self) -> bool {
        !self.clients.is_empty()
    }
}

impl ControlClient {
    fn is_http(&self) -> bool {
        request::is_http(&self.received)
    }

    /// Returns the command that the client has sent, or the status that HTTP has for no command.
    /// `None` while it is not complete.
    fn asked(&self) -> Option<Result<ControlCommand, Status>> {
        if self.is_http() {
            return request::command(&self.received);
        }
        let command = self.received.strip_suffix(b"\n").and_then(ControlCommand::of_line);
        let is_over = self.received.len() >= LONGEST_COMMAND || self.received.ends_with(b"\n");
        match command {
            Some(command) => Some(Ok(command)),
            None if is_over => Some(Err(Status::NOT_FOUND)),
            None => None,
        }
    }
}

/// The reason why a member of the group gets no reload and no stop.
const NOT_ALLOWED: &str = "only root and the user that runs the server may do that";

impl AsFd for ControlSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn place(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("howdah-control-{}-{name}", std::process::id()))
    }

    /// Serves until a client has sent its command.
    fn next_command(control: &mut ControlSocket) -> (u64, ControlCommand) {
        loop {
            control.accept();
            let ids: Vec<u64> = control.clients().map(|(id, _)| id).collect();
            for id in ids {
                if let Some(command) = control.listen(id) {
                    return (id, command);
                }
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_question_is_answered() {
        let path = place("answer");
        let mut control = ControlSocket::bind(&path).unwrap();
        for (answer, expected) in [(Ok("all is well"), Ok("all is well")), (Err("no"), Err("no"))] {
            let asked = {
                let path = path.clone();
                std::thread::spawn(move || ask(&path, ControlCommand::Status))
            };
            let (id, command) = next_command(&mut control);
            assert_eq!(command, ControlCommand::Status);
            control.answer(id, answer);
            let told = asked.join().unwrap();
            assert_eq!(told.as_deref().map_err(String::as_str), expected);
        }
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn only_its_owner_may_connect() {
        use std::os::unix::fs::PermissionsExt;
        let path = place("mode");
        let _control = ControlSocket::bind(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_living_server_is_not_pushed_aside_and_a_dead_one_is() {
        let path = place("twice");
        let first = ControlSocket::bind(&path).unwrap();
        assert!(ControlSocket::bind(&path).unwrap_err().contains("another howdah listens"));
        drop(first);
        // The socket may live on for a moment in a child that another test has just forked.
        let until = Instant::now() + Duration::from_secs(60);
        while let Err(error) = ControlSocket::bind(&path) {
            assert!(Instant::now() < until, "{error}");
        }
        fs::remove_file(&path).unwrap();
        assert!(ask(&path, ControlCommand::Stop).unwrap_err().contains("no howdah runs"));
    }

    #[test]
    fn what_is_no_socket_is_left_alone() {
        let path = place("file");
        fs::write(&path, "precious").unwrap();
        assert!(ControlSocket::bind(&path).unwrap_err().contains("the file is not a socket"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_former_socket_is_removed_where_it_was_made() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["run", "other"] {
            fs::create_dir(at(name)).unwrap();
        }
        let former = ControlSocket::bind(&at("run/control")).unwrap();
        fs::write(at("other/control"), "precious").unwrap();
        fs::rename(at("run"), at("former")).unwrap();
        std::os::unix::fs::symlink("other", at("run")).unwrap();
        ControlSocket::bind(&at("next")).unwrap().succeed(former);
        assert!(at("other/control").exists(), "the file of another folder is removed");
        assert!(!at("former/control").exists());
    }

    #[test]
    fn nonsense_is_refused() {
        let path = place("nonsense");
        let mut control = ControlSocket::bind(&path).unwrap();
        for nonsense in [&b"dance\n"[..], b"statusstatusstatusstatus", b"\n"] {
            let mut client = UnixStream::connect(&path).unwrap();
            client.write_all(nonsense).unwrap();
            while control.clients().next().is_none() {
                control.accept();
            }
            while control.is_busy() {
                let (id, _) = control.clients().next().unwrap();
                assert_eq!(control.listen(id), None);
            }
            let mut answer = String::new();
            // Unread bytes reset the connection. The answer was sent before.
            let _ = client.read_to_string(&mut answer);
            assert!(answer.is_empty() || answer.starts_with("refused\n"), "{answer}");
        }
        fs::remove_file(&path).unwrap();
    }
}
