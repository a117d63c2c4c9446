//! A client that keeps its connection, and takes what comes.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::case::Request;
use crate::digest;
use crate::support::PATIENCE;

/// A server, and the connection to it if there is one.
pub struct Client {
    address: SocketAddr,
    connection: Option<BufReader<TcpStream>>,
}

/// A response as it came.
#[derive(Debug, Clone, Default)]
pub struct Response {
    pub status: u16,
    /// Names in lower case.
    pub fields: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Response {
    /// The first field of that name, which is given in lower case.
    pub fn field(&self, name: &str) -> Option<&str> {
        let found = self.fields.iter().find(|(field, _)| field == name);
        found.map(|(_, value)| value.as_str())
    }
}

impl Client {
    pub fn new(address: SocketAddr) -> Client {
        Client { address, connection: None }
    }

    /// Sends a request to a host and reads the response. A connection that was closed meanwhile is
    /// opened again.
    pub fn ask(&mut self, host: &str, request: &Request) -> io::Result<Response> {
        let mut request = request.clone();
        if let Some(at) = request.fields.iter().position(|(_, value)| value.starts_with("digest "))
        {
            let (_, credentials) = request.fields.remove(at);
            let challenge = self.ask(host, &request)?;
            let fields = &mut request.fields;
            let authorization =
                digest::authorization(&credentials, &challenge, &request.method, &request.target);
            fields.push(("Authorization".to_owned(), authorization));
        }
        let bytes = self.bytes(host, &request);
        if let Some(mut kept) = self.connection.take()
            && let Ok(response) = self.exchange(&mut kept, &bytes, &request.method)
        {
            self.keep(kept, &request, &response);
            return Ok(response);
        }
        let stream = TcpStream::connect_timeout(&self.address, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        let mut fresh = BufReader::new(stream);
        let response = self.exchange(&mut fresh, &bytes, &request.method)?;
        self.keep(fresh, &request, &response);
        Ok(response)
    }

    fn keep(&mut self, connection: BufReader<TcpStream>, request: &Request, response: &Response) {
        let closes = response
            .field("connection")
            .is_some_and(|value| value.eq_ignore_ascii_case("close"));
        let is_framed = response.field("content-length").is_some()
            || response.field("transfer-encoding").is_some()
            || matches!(response.status, 204 | 304)
            || request.method == "HEAD";
        if !closes && is_framed && request.version == "HTTP/1.1" && connection.buffer().is_empty() {
            self.connection = Some(connection);
        }
    }

    fn bytes(&self, host: &str, request: &Request) -> Vec<u8> {
        let mut head = format!("{} {} {}\r\n", request.method, request.target, request.version);
        let mut add = |name: &str, value: &str| head += &format!("{name}: {value}\r\n");
        if !request.fields.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            add("Host", &format!("{host}:{}", self.address.port()));
        }
        for (name, value) in &request.fields {
            add(name, &value.replace("{host}", &format!("{host}:{}", self.address.port())));
        }
        if !request.body.is_empty() || matches!(&*request.method, "POST" | "PUT") {
            add("Content-Length", &request.body.len().to_string());
        }
        head += "\r\n";
        head += &request.body;
        head.into_bytes()
    }

    fn exchange(
        &self,
        connection: &mut BufReader<TcpStream>,
        bytes: &[u8],
        method: &str,
    ) -> io::Result<Response> {
        connection.get_mut().write_all(bytes)?;
        loop {
            let mut response = head(connection)?;
            if response.status >= 200 {
                if method != "HEAD" && !matches!(response.status, 204 | 304) {
                    response.body = body(connection, &response)?;
                }
                return Ok(response);
            }
        }
    }
}

fn head(connection: &mut BufReader<TcpStream>) -> io::Result<Response> {
    let status_line = line(connection)?;
    let status = status_line.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status =
        status.ok_or_else(|| io::Error::other(format!("no status line: {status_line:?}")))?;
    let mut response = Response { status, ..Response::default() };
    loop {
        let line = line(connection)?;
        match line.split_once(':') {
            Some((name, value)) => {
                response.fields.push((name.to_ascii_lowercase(), value.trim().to_owned()));
            }
            None if line.is_empty() => return Ok(response),
            None => return Err(io::Error::other(format!("no field line: {line:?}"))),
        }
    }
}

fn body(connection: &mut BufReader<TcpStream>, response: &Response) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    if response.field("transfer-encoding").is_some() {
        loop {
            let size = line(connection)?;
            let size = usize::from_str_radix(size.trim(), 16)
                .map_err(|_| io::Error::other(format!("no chunk size: {size:?}")))?;
            let mut chunk = vec![0; size];
            connection.read_exact(&mut chunk)?;
            body.append(&mut chunk);
            line(connection)?;
            if size == 0 {
                return Ok(body);
            }
        }
    }
    match response.field("content-length").map(str::parse) {
        Some(Ok(length)) => {
            body.resize(length, 0);
            connection.read_exact(&mut body)?;
        }
        Some(Err(_)) => return Err(io::Error::other("Content-Length is no number")),
        None => drop(connection.read_to_end(&mut body)?),
    }
    Ok(body)
}

/// A line without its end; bytes that are not UTF-8 are written as `\xHH`.
fn line(connection: &mut BufReader<TcpStream>) -> io::Result<String> {
    let mut line = Vec::new();
    connection.read_until(b'\n', &mut line)?;
    match line.strip_suffix(b"\r\n") {
        Some(line) => Ok(text(line)),
        None => Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            format!("the response ends after {:?}", text(&line)),
        )),
    }
}

/// Bytes for people: as they are if they are UTF-8, else escaped.
pub fn text(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.escape_ascii().to_string(),
    }
}
