//! The control socket, through which `howdah status`, `reload` and `stop` reach the supervisor.
//!
//! A client sends one word and a line feed. The answer is `ok` or `refused` on a line of its own,
//! then text for a person, up to the end of the stream.

use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use howdah_sys::process;

/// Clients at a time. More have to wait until one is answered.
const MOST_CLIENTS: usize = 32;
/// No command is longer.
const LONGEST_COMMAND: usize = 16;
/// How long a client may take to say what it wants.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a client can ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Command {
    /// Say how the server is.
    Status,
    /// Read the configuration again, and start PHP anew.
    Reload,
    /// Finish, and end.
    Stop,
}

impl Command {
    /// The word on the wire, and on the command line.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Command::Status => "status",
            Command::Reload => "reload",
            Command::Stop => "stop",
        }
    }

    fn of_line(line: &[u8]) -> Option<Command> {
        [Command::Status, Command::Reload, Command::Stop]
            .into_iter()
            .find(|command| command.word().as_bytes() == line)
    }
}

/// The socket and whoever has connected to it.
#[derive(Debug)]
pub(super) struct Control {
    pub(super) path: PathBuf,
    pub(super) listener: UnixListener,
    clients: Vec<Client>,
    next_id: u64,
}

/// Somebody who wants something.
#[derive(Debug)]
struct Client {
    id: u64,
    stream: UnixStream,
    received: Vec<u8>,
    /// Set once it is known.
    command: Option<Command>,
    since: Instant,
}

impl Control {
    /// Makes the socket at `path`, for its owner alone. One that nobody listens to any more is
    /// replaced.
    pub(super) fn bind(path: &Path) -> Result<Control, String> {
        let told = |error: io::Error| {
            let path = path.display();
            format!(
                "cannot make the control socket {path}: {error}; set `control` to a place that can be written to"
            )
        };
        if UnixStream::connect(path).is_ok() {
            let path = path.display();
            return Err(format!(
                "another howdah listens at {path}; stop it, or set `control` to another place"
            ));
        }
        match fs::symlink_metadata(path) {
            Ok(found) if found.file_type().is_socket() => fs::remove_file(path).map_err(told)?,
            Ok(_) => return Err(told(io::Error::other("something else is there"))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(told(error)),
        }
        let former = process::set_umask(0o177);
        let bound = UnixListener::bind(path);
        process::set_umask(former);
        Control::of(path.to_owned(), bound.map_err(told)?).map_err(told)
    }

    /// From a socket that is bound already.
    pub(super) fn of(path: PathBuf, listener: UnixListener) -> io::Result<Control> {
        listener.set_nonblocking(true)?;
        Ok(Control {
            path,
            listener,
            clients: Vec::new(),
            next_id: 1,
        })
    }

    /// Takes over those who wait at another socket, which is closed, and goes away unless it is at
    /// the same place.
    pub(super) fn succeed(&mut self, former: Control) {
        self.next_id = former.next_id;
        self.clients = former.clients;
        if former.path != self.path {
            let _ = fs::remove_file(&former.path);
        }
    }

    /// Lets those in who wait at the door.
    pub(super) fn accept(&mut self) {
        while self.clients.len() < MOST_CLIENTS {
            let Ok((stream, _)) = self.listener.accept() else {
                return;
            };
            if stream.set_nonblocking(true).is_ok() {
                let (id, since) = (self.next_id, Instant::now());
                self.next_id += 1;
                self.clients.push(Client {
                    id,
                    stream,
                    received: Vec::new(),
                    command: None,
                    since,
                });
            }
        }
    }

    /// Whether there is room for another client.
    pub(super) fn has_room(&self) -> bool {
        self.clients.len() < MOST_CLIENTS
    }

    /// Everybody, with what to wait for them by.
    pub(super) fn clients(&self) -> impl Iterator<Item = (u64, BorrowedFd<'_>)> {
        self.clients.iter().map(|client| (client.id, client.stream.as_fd()))
    }

    /// Reads what a client says. `Some` once it has said what it wants. Whoever leaves, or talks
    /// nonsense, is forgotten.
    pub(super) fn listen(&mut self, id: u64) -> Option<Command> {
        let position = self.clients.iter().position(|client| client.id == id)?;
        let client = &mut self.clients[position];
        let mut room = [0; LONGEST_COMMAND];
        match client.stream.read(&mut room) {
            Ok(length) if length > 0 && client.command.is_none() => {
                client.received.extend_from_slice(&room[..length])
            }
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
        if let Some(line) = client.received.strip_suffix(b"\n") {
            client.command = Command::of_line(line);
        }
        if client.command.is_none() && client.received.len() >= LONGEST_COMMAND
            || client.command.is_none() && client.received.ends_with(b"\n")
        {
            self.answer(id, Err("there is no such command"));
            return None;
        }
        client.command
    }

    /// Answers a client and lets it go.
    pub(super) fn answer(&mut self, id: u64, answer: Result<&str, &str>) {
        let Some(position) = self.clients.iter().position(|client| client.id == id) else {
            return;
        };
        let mut client = self.clients.swap_remove(position);
        let (first, text) = match answer {
            Ok(text) => ("ok", text),
            Err(text) => ("refused", text),
        };
        // A client that has gone, or does not read, misses its answer.
        let _ = client.stream.write_all(format!("{first}\n{text}\n").as_bytes());
    }

    /// Answers everybody who asked for `command`.
    pub(super) fn answer_all(&mut self, command: Command, answer: Result<&str, &str>) {
        let all: Vec<u64> = self
            .clients
            .iter()
            .filter(|client| client.command == Some(command))
            .map(|client| client.id)
            .collect();
        for id in all {
            self.answer(id, answer);
        }
    }

    /// Those who have been asking for `command` for longer than `patience`.
    pub(super) fn tired(&self, command: Command, now: Instant, patience: Duration) -> Vec<u64> {
        let tired =
            |client: &&Client| client.command == Some(command) && now - client.since >= patience;
        self.clients.iter().filter(tired).map(|client| client.id).collect()
    }

    /// Forgets those who never say what they want.
    pub(super) fn drop_silent(&mut self, now: Instant) {
        self.clients
            .retain(|client| client.command.is_some() || now - client.since < PATIENCE);
    }

    /// Whether somebody is there, so that time matters.
    pub(super) fn is_busy(&self) -> bool {
        !self.clients.is_empty()
    }
}

impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

/// How long `status` and `reload` wait for an answer: a reload starts PHP, which may take a minute.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(90);

/// The client's part: asks the server at `path`. `Err` is what went wrong, for a person.
pub(crate) fn ask(path: &Path, command: Command) -> Result<String, String> {
    let place = path.display();
    let mut stream = UnixStream::connect(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            format!("no howdah runs with the control socket {place}; name its configuration with --config, or its socket with --control")
        }
        _ => format!("cannot reach the control socket {place}: {error}"),
    })?;
    let lost = |error: io::Error| format!("lost the server at {place}: {error}");
    if command != Command::Stop {
        stream.set_read_timeout(Some(ANSWER_TIMEOUT)).map_err(lost)?;
    }
    stream.write_all(format!("{}\n", command.word()).as_bytes()).map_err(lost)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(lost)?;
    match answer.split_once('\n') {
        Some(("ok", text)) => Ok(text.trim_end().to_owned()),
        Some(("refused", text)) => Err(text.trim_end().to_owned()),
        _ => Err(format!("the server at {place} went away without an answer; its log may say why")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("howdah-control-{}-{name}", std::process::id()))
    }

    /// Serves until a client has said what it wants.
    fn next_command(control: &mut Control) -> (u64, Command) {
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
        let mut control = Control::bind(&path).unwrap();
        for (answer, expected) in [(Ok("all is well"), Ok("all is well")), (Err("no"), Err("no"))] {
            let asked = {
                let path = path.clone();
                std::thread::spawn(move || ask(&path, Command::Status))
            };
            let (id, command) = next_command(&mut control);
            assert_eq!(command, Command::Status);
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
        let _control = Control::bind(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_living_server_is_not_pushed_aside_and_a_dead_one_is() {
        let path = place("twice");
        let first = Control::bind(&path).unwrap();
        assert!(Control::bind(&path).unwrap_err().contains("another howdah listens"));
        drop(first);
        Control::bind(&path).unwrap();
        fs::remove_file(&path).unwrap();
        assert!(ask(&path, Command::Stop).unwrap_err().contains("no howdah runs"));
    }

    #[test]
    fn what_is_no_socket_is_left_alone() {
        let path = place("file");
        fs::write(&path, "precious").unwrap();
        assert!(Control::bind(&path).unwrap_err().contains("something else is there"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn nonsense_is_refused() {
        let path = place("nonsense");
        let mut control = Control::bind(&path).unwrap();
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
            // What was not read makes the end abrupt; the answer came all the same.
            let _ = client.read_to_string(&mut answer);
            assert!(answer.is_empty() || answer.starts_with("refused\n"), "{answer}");
        }
        fs::remove_file(&path).unwrap();
    }
}
