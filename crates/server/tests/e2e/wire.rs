//! A client that sends a test's bytes unchanged, and checks every byte of the response.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rustls::ClientConnection;

use crate::support::PATIENCE;

/// One connection, and what went over it; printed if the test fails.
#[derive(Debug)]
pub struct Wire {
    stream: TcpStream,
    /// The encryption of what goes over the stream.
    tls: Option<Box<ClientConnection>>,
    /// Received and not yet read.
    input: Vec<u8>,
    sent: Vec<u8>,
    received: Vec<u8>,
    ended: bool,
}

/// A response whose framing was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    pub status: u16,
    pub reason: String,
    /// Field lines in order, as they came.
    pub fields: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// Status and fields of the 1xx responses before it.
    pub interim: Vec<(u16, Vec<(String, String)>)>,
    /// The delimitation of the body.
    pub framing: Framing,
}

/// The delimitation of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    None,
    Length,
    Chunked,
    Close,
}

/// Bytes of each direction that a failing test prints.
const SHOWN: usize = 4096;

impl Wire {
    pub fn connect(address: SocketAddr) -> Wire {
        Wire::over(TcpStream::connect_timeout(&address, PATIENCE).unwrap())
    }

    /// From an address of this machine's own such as 127.0.0.9. All of these are one client.
    pub fn connect_from(client: [u8; 4], address: SocketAddr) -> Wire {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        let stream = runtime.block_on(async {
            let socket = tokio::net::TcpSocket::new_v4().unwrap();
            socket.bind((client, 0).into()).unwrap();
            socket.connect(address).await.unwrap().into_std().unwrap()
        });
        stream.set_nonblocking(false).unwrap();
        Wire::over(stream)
    }

    /// Connects as a client with any address, which the header of the PROXY protocol names. The
    /// listener has to take that protocol.
    pub fn connect_as(client: [u8; 4], address: SocketAddr) -> Wire {
        let mut wire = Wire::connect(address);
        let [client, port] = [Ipv4Addr::from(client).to_string(), wire.port().to_string()];
        wire.send(format!("PROXY TCP4 {client} 127.0.0.1 {port} {}\r\n", address.port()));
        wire
    }

    fn over(stream: TcpStream) -> Wire {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Wire {
            stream,
            tls: None,
            input: Vec::new(),
            sent: Vec::new(),
            received: Vec::new(),
            ended: false,
        }
    }

    /// Over TLS. The handshake is made with the first bytes.
    pub fn encrypted(address: SocketAddr, tls: ClientConnection) -> Wire {
        Wire::connect(address).encrypt(tls)
    }

    /// Goes on over TLS.
    pub fn encrypt(mut self, tls: ClientConnection) -> Wire {
        self.tls = Some(Box::new(tls));
        self
    }

    /// The encryption.
    pub fn tls(&self) -> &ClientConnection {
        self.tls.as_ref().unwrap()
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.tls {
            None => self.stream.write_all(bytes),
            Some(tls) => {
                let mut stream = rustls::Stream::new(&mut **tls, &mut self.stream);
                stream.write_all(bytes)?;
                stream.flush()
            }
        }
    }

    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        match &mut self.tls {
            None => self.stream.read(room),
            Some(tls) => rustls::Stream::new(&mut **tls, &mut self.stream).read(room),
        }
    }

    /// This end's port: the server's log names it.
    pub fn port(&self) -> u16 {
        self.stream.local_addr().unwrap().port()
    }

    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Sends bytes as they are.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let bytes = bytes.as_ref();
        note(&mut self.sent, bytes);
        self.write_all(bytes).unwrap();
    }

    /// Sends bytes to a server that may have closed already.
    pub fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        note(&mut self.sent, bytes.as_ref());
        self.write_all(bytes.as_ref()).is_ok()
    }

    /// Sends a request; a body gets its Content-Length.
    pub fn request(&mut self, method: &str, target: &str, fields: &[(&str, &str)], body: &[u8]) {
        let mut head = format!("{method} {target} HTTP/1.1\r\n");
        if !fields.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            head += "Host: localhost\r\n";
        }
        for (name, value) in fields {
            head += &format!("{name}: {value}\r\n");
        }
        if !body.is_empty() {
            head += &format!("Content-Length: {}\r\n", body.len());
        }
        head += "\r\n";
        self.send([head.as_bytes(), body].concat());
    }

    /// Reads that many bytes of a reply, whatever they are.
    pub fn read_some(&mut self, count: usize) {
        while self.input.len() < count && self.fill() {}
    }

    /// Returns what was read and not yet looked at.
    pub fn take_input(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.input)
    }

    /// Sends a request and reads the reply.
    pub fn ask(
        &mut self,
        method: &str,
        target: &str,
        fields: &[(&str, &str)],
        body: &[u8],
    ) -> Reply {
        self.request(method, target, fields, body);
        self.reply(method)
    }

    pub fn get(&mut self, target: &str) -> Reply {
        self.ask("GET", target, &[], b"")
    }

    /// Reads the reply to a request of that method.
    pub fn reply(&mut self, method: &str) -> Reply {
        let mut interim = Vec::new();
        loop {
            let (status, reason, fields) = self.head();
            if (100..200).contains(&status) {
                assert!(
                    !has(&fields, "content-length") && !has(&fields, "transfer-encoding"),
                    "{fields:?}"
                );
                interim.push((status, fields));
                continue;
            }
            check_fields(status, &fields);
            let mut reply = Reply {
                status,
                reason,
                fields,
                body: Vec::new(),
                interim,
                framing: Framing::None,
            };
            self.read_body(method, &mut reply);
            return reply;
        }
    }

    /// Reads a reply's head alone: status, reason, fields.
    pub fn head(&mut self) -> (u16, String, Vec<(String, String)>) {
        let status_line = self.line();
        let mut parts = status_line.splitn(3, ' ');
        assert_eq!(parts.next(), Some("HTTP/1.1"), "{status_line:?}");
        let status = parts
            .next()
            .filter(|status| status.len() == 3)
            .and_then(|status| status.parse().ok());
        let status: u16 = status.unwrap_or_else(|| panic!("no status in {status_line:?}"));
        let reason = parts
            .next()
            .unwrap_or_else(|| panic!("no space after the status in {status_line:?}"));
        let mut fields = Vec::new();
        loop {
            let line = self.line();
            if line.is_empty() {
                return (status, reason.to_owned(), fields);
            }
            let (name, value) =
                line.split_once(':').unwrap_or_else(|| panic!("no field line: {line:?}"));
            let token =
                |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
            assert!(!name.is_empty() && name.bytes().all(token), "field name {name:?}");
            fields.push((name.to_owned(), value.trim_matches([' ', '\t']).to_owned()));
        }
    }

    fn read_body(&mut self, method: &str, reply: &mut Reply) {
        if method == "HEAD" || matches!(reply.status, 204 | 304) {
            return;
        }
        if reply.field("transfer-encoding").is_some() {
            assert_eq!(reply.field("transfer-encoding"), Some("chunked"));
            reply.framing = Framing::Chunked;
            while let Some(chunk) = self.chunk() {
                reply.body.extend(chunk);
            }
        } else if let Some(length) =
            reply.field("content-length").map(|length| length.parse().unwrap())
        {
            reply.framing = Framing::Length;
            reply.body = self.exactly(length);
        } else {
            assert!(reply.is_last(), "no length, and the connection is not closed: {reply:?}");
            reply.framing = Framing::Close;
            while self.fill() {}
            reply.body = std::mem::take(&mut self.input);
        }
    }

    /// The next chunk; `None` after the last one.
    pub fn chunk(&mut self) -> Option<Vec<u8>> {
        let line = self.line();
        let digits = !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_hexdigit());
        assert!(digits, "chunk size {line:?}");
        let size = usize::from_str_radix(&line, 16).unwrap();
        let chunk = self.exactly(size);
        assert_eq!(self.line(), "", "after a chunk of {size}");
        (size > 0).then_some(chunk)
    }

    /// Reads this many bytes.
    pub fn exactly(&mut self, length: usize) -> Vec<u8> {
        let read = self.exactly_or_end(length);
        read.unwrap_or_else(|read| panic!("the connection ended after {read} of {length} bytes"))
    }

    /// Reads this many bytes. The number that has arrived, if the connection ends before.
    pub fn exactly_or_end(&mut self, length: usize) -> Result<Vec<u8>, usize> {
        while self.input.len() < length {
            if !self.fill() {
                return Err(self.input.len());
            }
        }
        Ok(self.input.drain(..length).collect())
    }

    /// Reads until `what` has arrived. Returns everything up to its end.
    pub fn until(&mut self, what: &str) -> Vec<u8> {
        loop {
            if let Some(at) = find(&self.input, what.as_bytes()) {
                return self.input.drain(..at + what.len()).collect();
            }
            assert!(self.fill(), "the connection ended before {what:?} came");
        }
    }

    /// The server must close the connection, without a byte more.
    pub fn expect_close(&mut self) {
        assert!(self.input.is_empty(), "left over: {:?}", String::from_utf8_lossy(&self.input));
        let more = self.fill();
        assert!(!more, "{:?} instead of the end", String::from_utf8_lossy(&self.input));
    }

    /// Returns whether nothing arrives for so long, neither a byte nor the end of the connection.
    pub fn is_silent_for(&self, time: Duration) -> bool {
        self.stream.set_read_timeout(Some(time)).unwrap();
        let peeked = self.stream.peek(&mut [0]);
        self.stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let waited = [ErrorKind::WouldBlock, ErrorKind::TimedOut];
        peeked.is_err_and(|error| waited.contains(&error.kind()))
    }

    /// Everything until the connection ends, whether by close or by reset.
    pub fn rest(&mut self) -> Vec<u8> {
        while self.fill() {}
        std::mem::take(&mut self.input)
    }

    /// Reads to the end. Returns whether the server has ended its side in order: over TLS, with a
    /// goodbye.
    pub fn ends_in_order(&mut self) -> bool {
        let mut room = vec![0; 1 << 16];
        loop {
            match self.read(&mut room) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(_) => return false,
            }
        }
    }

    /// Reads a reply, or whatever there is until the connection ends.
    pub fn rest_or_reply(&mut self) -> Vec<u8> {
        loop {
            if let Some(end) = find(&self.input, b"\r\n\r\n") {
                let head = String::from_utf8_lossy(&self.input[..end]).to_ascii_lowercase();
                if head.contains("content-length:") || self.input.ends_with(b"\r\n0\r\n\r\n") {
                    return self.reply("GET").body;
                }
            }
            if !self.fill() {
                return std::mem::take(&mut self.input);
            }
        }
    }

    /// Returns the bytes that arrive within `patience`; maybe none.
    pub fn within(&mut self, patience: Duration) -> Vec<u8> {
        let end = Instant::now() + patience;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() || self.ended {
                break;
            }
            self.stream.set_read_timeout(Some(left)).unwrap();
            self.fill_some();
        }
        self.stream.set_read_timeout(Some(PATIENCE)).unwrap();
        std::mem::take(&mut self.input)
    }

    /// Says that nothing more is sent.
    pub fn finish_sending(&self) {
        self.stream.shutdown(Shutdown::Write).unwrap();
    }

    fn line(&mut self) -> String {
        loop {
            if let Some(end) = find(&self.input, b"\r\n") {
                let line: Vec<u8> = self.input.drain(..end + 2).take(end).collect();
                assert!(
                    !line.contains(&b'\n') && !line.contains(&b'\r') && !line.contains(&0),
                    "{line:?}"
                );
                return String::from_utf8(line).unwrap();
            }
            assert!(
                self.fill(),
                "the connection ended within a line: {:?}",
                String::from_utf8_lossy(&self.input)
            );
        }
    }

    /// Reads on. `false`: the connection has ended.
    fn fill(&mut self) -> bool {
        match self.fill_some() {
            Some(more) => more,
            None => panic!("nothing comes, and the connection stays open"),
        }
    }

    /// Reads on like `fill`. `None`: nothing came in time.
    fn fill_some(&mut self) -> Option<bool> {
        let mut room = [0; 64 * 1024];
        match self.read(&mut room) {
            Ok(0) => self.ended = true,
            Ok(count) => {
                note(&mut self.received, &room[..count]);
                self.input.extend_from_slice(&room[..count]);
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return None;
            }
            Err(error) if error.kind() == ErrorKind::ConnectionReset => self.ended = true,
            Err(error) => panic!("{error}"),
        }
        Some(!self.ended)
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- sent\n{}", self.sent.escape_ascii().to_string().replace("\\r\\n", "\n"));
            eprintln!(
                "--- received\n{}",
                self.received.escape_ascii().to_string().replace("\\r\\n", "\n")
            );
        }
    }
}

impl Reply {
    /// The only field of that name.
    pub fn field(&self, name: &str) -> Option<&str> {
        let values = self.all(name);
        assert!(values.len() <= 1, "{name} more than once: {values:?}");
        values.first().copied()
    }

    /// Every field of that name.
    pub fn all(&self, name: &str) -> Vec<&str> {
        let same = self.fields.iter().filter(|(field, _)| field.eq_ignore_ascii_case(name));
        same.map(|(_, value)| value.as_str()).collect()
    }

    /// The body as text.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// The body as JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// Returns whether the server closes the connection after it.
    pub fn is_last(&self) -> bool {
        self.field("connection")
            .is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }
}

fn check_fields(status: u16, fields: &[(String, String)]) {
    let count = |name| fields.iter().filter(|(field, _)| field.eq_ignore_ascii_case(name)).count();
    assert!(count("date") == 1, "one Date in {fields:?}");
    assert!(
        count("content-length") + count("transfer-encoding") <= 1,
        "one kind of framing in {fields:?}"
    );
    assert!(
        count("connection") <= 1 && count("content-type") <= 1 && count("server") == 1,
        "{fields:?}"
    );
    if status == 204 {
        assert!(count("content-length") + count("transfer-encoding") == 0, "{fields:?}");
    }
}

fn has(fields: &[(String, String)], name: &str) -> bool {
    fields.iter().any(|(field, _)| field.eq_ignore_ascii_case(name))
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

fn note(transcript: &mut Vec<u8>, bytes: &[u8]) {
    let room = SHOWN.saturating_sub(transcript.len());
    transcript.extend_from_slice(&bytes[..bytes.len().min(room)]);
}
