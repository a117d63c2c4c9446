//! The least that a server of PHP's output has to do: each piece is copied once, as a script's
//! output is into the memory that it shares with the server, and sent from there. Nothing is parsed
//! but the end of a request, no script runs, and nobody is woken. `scripts/measure-floor` compares
//! servers with it.
//!
//! ```text
//! copy_floor PIECES LENGTH [RING]
//! ```
//!
//! Answers every request on a free port of 127.0.0.1, which it prints, with PIECES pieces of LENGTH
//! bytes. Pieces go through RING bytes of memory (65536), and are sent when half of it is full.
//! Each connection has a thread.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::{env, thread};

fn main() -> io::Result<()> {
    let mut numbers = env::args().skip(1).map(|word| word.parse::<usize>());
    let (Some(Ok(pieces)), Some(Ok(length))) = (numbers.next(), numbers.next()) else {
        return Err(io::Error::other("usage: copy_floor PIECES LENGTH [RING]"));
    };
    let ring = numbers.next().and_then(Result::ok).unwrap_or(65_536).max(2);
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("{}", listener.local_addr()?.port());
    for stream in listener.incoming() {
        let stream = stream?;
        stream.set_nodelay(true)?;
        thread::spawn(move || serve(stream, pieces, length, ring));
    }
    Ok(())
}

/// Answers the requests of a connection until it ends.
fn serve(mut stream: TcpStream, pieces: usize, length: usize, ring: usize) -> io::Result<()> {
    let piece = vec![b'x'; length];
    let mut ring = vec![0; ring];
    let mut request = [0; 4096];
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", pieces * length);
    loop {
        let mut received = 0;
        while !request[..received].ends_with(b"\r\n\r\n") {
            match stream.read(&mut request[received..])? {
                0 => return Ok(()),
                read => received += read,
            }
        }
        stream.write_all(head.as_bytes())?;
        let mut filled = 0;
        for _ in 0..pieces {
            let mut rest = &piece[..];
            while !rest.is_empty() {
                let part = rest.len().min(ring.len() - filled);
                ring[filled..filled + part].copy_from_slice(&rest[..part]);
                (filled, rest) = (filled + part, &rest[part..]);
                if filled * 2 >= ring.len() {
                    stream.write_all(&ring[..filled])?;
                    filled = 0;
                }
            }
        }
        stream.write_all(&ring[..filled])?;
    }
}
