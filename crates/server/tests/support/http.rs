//! A minimal client, which hides nothing of the protocol.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

use super::PATIENCE;

/// A connection.
#[derive(Debug)]
pub struct Client {
    stream: BufReader<TcpStream>,
}

/// A response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    pub status: u16,
    /// Field lines in order, names in lower case.
    pub fields: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Client {
    /// Connects.
    pub fn connect(address: SocketAddr) -> Client {
        Client::try_connect(address).unwrap()
    }

    /// Connects, or says why not.
    pub fn try_connect(address: SocketAddr) -> io::Result<Client> {
        let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(Client { stream: BufReader::new(stream) })
    }

    /// Sends bytes as they are.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.stream.get_mut().write_all(bytes.as_ref())
    }

    /// Asks for `target` and reads the answer.
    pub fn get(&mut self, target: &str) -> Response {
        self.try_get(target).unwrap()
    }

    /// Asks for `target`, or says why there was no whole answer.
    pub fn try_get(&mut self, target: &str) -> io::Result<Response> {
        self.ask(target)?;
        self.answer()
    }

    /// Asks for `target` and does not wait.
    pub fn ask(&mut self, target: &str) -> io::Result<()> {
        self.send(format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n"))
    }

    /// Waits until `part` of an answer has come, without taking it.
    pub fn wait_for(&mut self, part: &[u8]) {
        // The bytes stay in the kernel's buffer.
        super::wait_until("a part of the answer has come", || {
            let mut room = [0; 4096];
            let length = self.stream.get_ref().peek(&mut room).unwrap();
            room[..length].windows(part.len()).any(|window| window == part)
        });
    }

    /// Reads an answer to a GET.
    pub fn answer(&mut self) -> io::Result<Response> {
        let status_line = self.line()?;
        let status = status_line.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status =
            status.ok_or_else(|| io::Error::other(format!("no status line: {status_line:?}")))?;
        let mut fields = Vec::new();
        loop {
            let line = self.line()?;
            match line.split_once(':') {
                Some((name, value)) => {
                    fields.push((name.to_ascii_lowercase(), value.trim().to_owned()))
                }
                None if line.is_empty() => break,
                None => return Err(io::Error::other(format!("no field line: {line:?}"))),
            }
        }
        let mut response = Response { status, fields, body: Vec::new() };
        if status >= 200 && status != 204 && status != 304 {
            self.read_body(&mut response)?;
        }
        Ok(response)
    }

    /// Returns whether the server has closed the connection.
    pub fn is_closed(&mut self) -> bool {
        matches!(self.stream.fill_buf(), Ok([]) | Err(_))
    }

    fn read_body(&mut self, response: &mut Response) -> io::Result<()> {
        if response.field("transfer-encoding") == Some("chunked") {
            loop {
                let line = self.line()?;
                let size = usize::from_str_radix(&line, 16)
                    .map_err(|_| io::Error::other(format!("no chunk size: {line:?}")))?;
                let mut chunk = vec![0; size];
                self.stream.read_exact(&mut chunk)?;
                response.body.append(&mut chunk);
                self.line()?;
                if size == 0 {
                    return Ok(());
                }
            }
        }
        match response.field("content-length").map(str::parse) {
            Some(Ok(length)) => {
                response.body = vec![0; length];
                self.stream.read_exact(&mut response.body)
            }
            Some(Err(_)) => Err(io::Error::other("Content-Length is no number")),
            None => self.stream.read_to_end(&mut response.body).map(drop),
        }
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        match line.strip_suffix("\r\n") {
            Some(line) => Ok(line.to_owned()),
            None => Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                format!("the answer ends after {line:?}"),
            )),
        }
    }
}

impl Response {
    /// The first field of that name, which is given in lower case.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields
            .iter()
            .find(|(field, _)| field == name)
            .map(|(_, value)| value.as_str())
    }

    /// The body as text.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// Returns whether the server closes the connection after it.
    pub fn is_last(&self) -> bool {
        self.field("connection")
            .is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }
}
