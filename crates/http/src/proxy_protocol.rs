//! The PROXY protocol, versions 1 and 2: a header before the first byte of a connection, in which a
//! proxy names the client (the specification is `proxy-protocol.txt` of HAProxy).
//!
//! The version 1 is a line of text, the version 2 is binary. A header that is not exactly as the
//! specification says is refused: what follows it could be anything.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::scan::decimal;

/// A header of the PROXY protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyHeader {
    /// The connection is the proxy's own (a health check), or its client has no address that can
    /// be told: the connection's own ends count.
    Local,
    /// The connection is made for a client.
    Proxied {
        /// The client's address.
        source: SocketAddr,
        /// The address that the client connected to.
        destination: SocketAddr,
        /// The client spoke TLS with the proxy.
        is_tls: bool,
    },
}

/// The length of a header as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderProgress {
    /// The header goes on. At least this many bytes are missing, and all of them are the header's.
    Missing(usize),
    /// The header is whole.
    Complete(ProxyHeader),
}

/// Bytes of the longest header that is read. Beyond it the connection is refused. The longest one
/// of version 1 has 107 bytes; version 2 has room for values that a proxy adds.
pub const LONGEST: usize = 4096;

/// Reads a header from `bytes`, which are all that has come of it. The caller adds bytes of the
/// connection one [`HeaderProgress::Missing`] after the other, so that none behind the header is
/// taken.
///
/// # Errors
/// The bytes are no such header.
pub fn read(bytes: &[u8]) -> Result<HeaderProgress, &'static str> {
    let start = bytes.len().min(SIGNATURE.len());
    if bytes[..start] == SIGNATURE[..start] && !bytes.is_empty() {
        return binary(bytes);
    }
    let start = bytes.len().min(WORD.len());
    if bytes[..start] != WORD[..start] {
        return Err("it does not begin with a PROXY header");
    }
    if bytes.len() < SIGNATURE.len() {
        // The shortest header of either version is longer.
        return Ok(HeaderProgress::Missing(SIGNATURE.len() - bytes.len()));
    }
    line(bytes)
}

/// Version 1: `PROXY TCP4 192.0.2.1 192.0.2.2 1234 80`, CRLF.
fn line(bytes: &[u8]) -> Result<HeaderProgress, &'static str> {
    let text = match bytes {
        [text @ .., b'\r', b'\n'] => text,
        _ if bytes.len() >= LONGEST_LINE => return Err("the PROXY header's line does not end"),
        _ => {
            let inner = bytes.strip_suffix(b"\r").unwrap_or(bytes);
            if inner.iter().any(|byte| !(b' '..=b'~').contains(byte)) {
                return Err("a byte in the PROXY header that no line has");
            }
            return Ok(HeaderProgress::Missing(if inner.len() < bytes.len() { 1 } else { 2 }));
        }
    };
    if text.iter().any(|byte| !(b' '..=b'~').contains(byte)) {
        return Err("a byte in the PROXY header that no line has");
    }
    let text = std::str::from_utf8(text).map_err(|_| BAD_LINE)?;
    let words: Vec<&str> = text.split(' ').collect();
    let (family, addresses) = match words[..] {
        // The rest of the line is for people.
        ["PROXY", "UNKNOWN", ..] => return Ok(HeaderProgress::Complete(ProxyHeader::Local)),
        ["PROXY", family, source, destination, from, to] => {
            (family, [(source, from), (destination, to)])
        }
        _ => return Err(BAD_LINE),
    };
    let end = |(address, port): (&str, &str)| -> Option<SocketAddr> {
        let address: IpAddr = match family {
            "TCP4" => address.parse::<Ipv4Addr>().ok()?.into(),
            "TCP6" => address.parse::<Ipv6Addr>().ok()?.into(),
            _ => return None,
        };
        let is_short = port.len() == 1 || !port.starts_with('0');
        let port = decimal(port.as_bytes()).filter(|_| is_short)?;
        Some((address, u16::try_from(port).ok()?).into())
    };
    match addresses.map(end) {
        [Some(source), Some(destination)] => Ok(HeaderProgress::Complete(ProxyHeader::Proxied {
            source,
            destination,
            is_tls: false,
        })),
        _ => Err(BAD_LINE),
    }
}

const BAD_LINE: &str = "the PROXY header's line is malformed";

/// Version 2: the signature, version and command, family and protocol, the length of what follows,
/// the addresses, and values with types and lengths.
fn binary(bytes: &[u8]) -> Result<HeaderProgress, &'static str> {
    let Some((fixed, rest)) = bytes.split_at_checked(FIXED) else {
        return Ok(HeaderProgress::Missing(FIXED - bytes.len()));
    };
    let length = usize::from(u16::from_be_bytes([fixed[14], fixed[15]]));
    let is_local = match fixed[12] {
        0x20 => true,
        0x21 => false,
        _ => return Err("the PROXY header's version or command is unknown"),
    };
    if FIXED + length > LONGEST {
        return Err("the PROXY header is longer than is read");
    }
    if rest.len() < length {
        return Ok(HeaderProgress::Missing(length - rest.len()));
    }
    if rest.len() > length {
        return Err("bytes behind the PROXY header");
    }
    if is_local {
        return Ok(HeaderProgress::Complete(ProxyHeader::Local));
    }
    let (ends, values) = match fixed[13] {
        // TCP over IPv4.
        0x11 => {
            let (ends, values) = rest.split_first_chunk::<12>().ok_or(SHORT)?;
            let [a, b, c, d, e, f, g, h, from @ .., i, j] = *ends;
            let source = Ipv4Addr::new(a, b, c, d);
            let destination = Ipv4Addr::new(e, f, g, h);
            ((end(source, from), end(destination, [i, j])), values)
        }
        // TCP over IPv6.
        0x21 => {
            let (source, rest) = rest.split_first_chunk::<16>().ok_or(SHORT)?;
            let (destination, rest) = rest.split_first_chunk::<16>().ok_or(SHORT)?;
            let (from, rest) = rest.split_first_chunk::<2>().ok_or(SHORT)?;
            let (to, values) = rest.split_first_chunk::<2>().ok_or(SHORT)?;
            let (source, destination) = (Ipv6Addr::from(*source), Ipv6Addr::from(*destination));
            ((end(source, *from), end(destination, *to)), values)
        }
        // Unspecified, UDP or Unix sockets: nothing that this server could use.
        0x00 | 0x12 | 0x22 | 0x31 | 0x32 => {
            return Ok(HeaderProgress::Complete(ProxyHeader::Local));
        }
        _ => return Err("the PROXY header's family is unknown"),
    };
    let (source, destination) = ends;
    let is_tls = says_tls(values)?;
    Ok(HeaderProgress::Complete(ProxyHeader::Proxied { source, destination, is_tls }))
}

fn end(address: impl Into<IpAddr>, port: [u8; 2]) -> SocketAddr {
    SocketAddr::new(address.into().to_canonical(), u16::from_be_bytes(port))
}

const SHORT: &str = "the PROXY header is too short for its addresses";

/// Returns whether a value of the type PP2_TYPE_SSL says that the client spoke TLS.
fn says_tls(mut values: &[u8]) -> Result<bool, &'static str> {
    let mut is_tls = false;
    while let Some((head, rest)) = values.split_first_chunk::<3>() {
        let [kind, high, low] = *head;
        let length = usize::from(u16::from_be_bytes([high, low]));
        let (value, after) = rest.split_at_checked(length).ok_or(BAD_VALUES)?;
        if kind == TYPE_SSL {
            // One byte of flags, and the result of checking the client's certificate.
            let (fixed, _) = value.split_first_chunk::<5>().ok_or(SHORT_SSL)?;
            is_tls |= fixed[0] & CLIENT_SSL != 0;
        }
        values = after;
    }
    match values {
        [] => Ok(is_tls),
        _ => Err(BAD_VALUES),
    }
}

const BAD_VALUES: &str = "the values of the PROXY header are malformed";
const SHORT_SSL: &str = "the value of TLS (PP2_TYPE_SSL) in the PROXY header has less than 5 bytes";
const TYPE_SSL: u8 = 0x20;
const CLIENT_SSL: u8 = 0x01;

/// The first bytes of version 2.
const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// Bytes of version 2 before the addresses.
const FIXED: usize = 16;
/// The first bytes of version 1.
const WORD: [u8; 6] = *b"PROXY ";
/// Bytes of the longest header of version 1.
const LONGEST_LINE: usize = 107;

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads byte by byte, as many as are asked for.
    fn read_all(bytes: &[u8]) -> Result<(ProxyHeader, usize), &'static str> {
        let mut length = 0;
        loop {
            match read(&bytes[..length])? {
                HeaderProgress::Complete(header) => return Ok((header, length)),
                HeaderProgress::Missing(count) => length += count,
            }
            if length > bytes.len() {
                return Err("cut off");
            }
        }
    }

    fn shown(header: ProxyHeader) -> String {
        match header {
            ProxyHeader::Local => "local".to_owned(),
            ProxyHeader::Proxied { source, destination, is_tls } => {
                format!("{source} {destination}{}", if is_tls { " tls" } else { "" })
            }
        }
    }

    #[test]
    fn lines() {
        let rows = [
            ("PROXY TCP4 192.0.2.1 192.0.2.2 1234 80\r\n", "192.0.2.1:1234 192.0.2.2:80"),
            ("PROXY TCP6 2001:db8::1 ::1 65535 0\r\n", "[2001:db8::1]:65535 [::1]:0"),
            ("PROXY UNKNOWN\r\n", "local"),
            ("PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n", "local"),
        ];
        for (line, expected) in rows {
            let followed = format!("{line}GET / HTTP/1.1\r\n\r\n");
            let (header, length) = read_all(followed.as_bytes()).unwrap();
            assert_eq!((shown(header).as_str(), length), (expected, line.len()), "{line}");
        }
        let long = format!("PROXY UNKNOWN {}\r\n", "a".repeat(100));
        for line in [
            "GET / HTTP/1.1\r\n\r\n",
            "PROXY\r\n         ",
            "PROXY TCP4\r\n     ",
            "proxy UNKNOWN\r\n",
            "PROXY TCP4 192.0.2.1 192.0.2.2 1234\r\n",
            "PROXY TCP4 192.0.2.1 192.0.2.2 1234 80 1\r\n",
            "PROXY TCP4 192.0.2.1  192.0.2.2 1234 80\r\n",
            "PROXY TCP4 ::1 ::1 1234 80\r\n",
            "PROXY TCP6 192.0.2.1 192.0.2.2 1234 80\r\n",
            "PROXY TCP4 192.0.2.1 192.0.2.2 01 80\r\n",
            "PROXY TCP4 192.0.2.1 192.0.2.2 65536 80\r\n",
            "PROXY TCP4 192.0.2.1 192.0.2.2 +1 80\r\n",
            "PROXY TCP4 192.0.2.1 192.0.2.2 1234 80\n      ",
            "PROXY UDP4 192.0.2.1 192.0.2.2 1234 80\r\n",
            "PROXY UNKNOWN\0\r\n",
            &long,
            "",
        ] {
            assert!(read_all(line.as_bytes()).is_err(), "{line}");
        }
    }

    #[test]
    fn no_byte_behind_the_header_is_asked_for_however_the_bytes_come() {
        let headers = [
            b"PROXY UNKNOWN\r\n".to_vec(),
            b"PROXY TCP4 192.0.2.1 192.0.2.2 1234 80\r\n".to_vec(),
            version_2(0x20, 0, b""),
            version_2(0x21, 0x11, &[1; 12]),
        ];
        for header in headers {
            for length in 0..header.len() {
                let progress = read(&header[..length]).unwrap();
                let HeaderProgress::Missing(count) = progress else {
                    panic!("{length} of {header:?}: {progress:?}");
                };
                assert!((1..=header.len() - length).contains(&count), "{length}: {count}");
            }
        }
        let endless = [b'P', b'R', b'O', b'X', b'Y', b' '].into_iter().chain([b'a'; 101]);
        let endless: Vec<u8> = endless.collect();
        assert_eq!(read(&endless[..106]), Ok(HeaderProgress::Missing(2)));
        assert!(read(&endless).is_err());
    }

    fn version_2(command: u8, family: u8, payload: &[u8]) -> Vec<u8> {
        let length = u16::try_from(payload.len()).unwrap().to_be_bytes();
        [&SIGNATURE[..], &[command, family], &length, payload].concat()
    }

    #[test]
    fn binary_headers() {
        let four = [192, 0, 2, 1, 192, 0, 2, 2, 4, 210, 0, 80];
        let mut six = [0; 36];
        (six[15], six[31], six[33], six[35]) = (1, 2, 3, 4);
        let ssl = [0x20, 0, 5, 1, 0, 0, 0, 0];
        let not_ssl = [0x20, 0, 5, 0, 0, 0, 0, 0];
        let authority = [&[2, 0, 3][..], b"abc"].concat();
        let with = |values: &[u8]| [&four[..], values].concat();
        let rows = [
            (version_2(0x21, 0x11, &four), "192.0.2.1:1234 192.0.2.2:80"),
            (version_2(0x21, 0x21, &six), "[::1]:3 [::2]:4"),
            (version_2(0x21, 0x11, &with(&ssl)), "192.0.2.1:1234 192.0.2.2:80 tls"),
            (version_2(0x21, 0x11, &with(&not_ssl)), "192.0.2.1:1234 192.0.2.2:80"),
            (version_2(0x21, 0x11, &with(&authority)), "192.0.2.1:1234 192.0.2.2:80"),
            (version_2(0x20, 0x00, &[]), "local"),
            (version_2(0x20, 0x11, &four), "local"),
            (version_2(0x21, 0x00, b"anything"), "local"),
            (version_2(0x21, 0x31, &[0; 216]), "local"),
        ];
        for (bytes, expected) in rows {
            let followed = [&bytes[..], b"GET / HTTP/1.1\r\n"].concat();
            let (header, length) = read_all(&followed).unwrap();
            assert_eq!((shown(header).as_str(), length), (expected, bytes.len()));
        }
        for bytes in [
            version_2(0x11, 0x11, &four),
            version_2(0x22, 0x11, &four),
            version_2(0x21, 0x41, &four),
            version_2(0x21, 0x11, &four[..11]),
            version_2(0x21, 0x21, &six[..35]),
            version_2(0x21, 0x11, &with(&[0x20, 0, 9, 1])),
            version_2(0x21, 0x11, &with(&[0x20, 0])),
            version_2(0x21, 0x11, &[0; LONGEST]),
        ] {
            assert!(read_all(&bytes).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn a_value_of_tls_that_is_too_short_is_refused() {
        let four = [192, 0, 2, 1, 192, 0, 2, 2, 4, 210, 0, 80];
        for length in 0..=8_u8 {
            let value = [&four[..], &[TYPE_SSL, 0, length], &[CLIENT_SSL; 8][..length.into()]];
            let read = read_all(&version_2(0x21, 0x11, &value.concat()));
            match length {
                0..5 => assert_eq!(read, Err(SHORT_SSL), "{length}"),
                _ => assert_eq!(shown(read.unwrap().0), "192.0.2.1:1234 192.0.2.2:80 tls"),
            }
        }
    }

    #[test]
    fn no_more_is_read_than_a_header_may_have() {
        let local = |payload: usize| version_2(0x20, 0, &vec![0; payload]);
        assert!(read_all(&local(LONGEST - FIXED)).is_ok());
        assert_eq!(
            read_all(&local(LONGEST - FIXED + 1)),
            Err("the PROXY header is longer than is read")
        );
        let line = |length: usize| format!("{:x<1$}\r\n", "PROXY UNKNOWN ", length - 2);
        assert!(read_all(line(LONGEST_LINE).as_bytes()).is_ok());
        let end = "the PROXY header's line does not end";
        assert_eq!(read_all(line(LONGEST_LINE + 2).as_bytes()), Err(end));
        assert_eq!(read(&line(LONGEST_LINE).as_bytes()[..LONGEST_LINE - 1]), missing(1));
        assert!(read(&[&local(3)[..], b"G"].concat()).is_err());
        // Not a byte behind the header is asked for, whatever has come of it.
        let headers = [local(5), b"PROXY TCP4 192.0.2.1 192.0.2.2 1234 80\r\n".to_vec()];
        for header in &headers {
            for come in 0..header.len() {
                let Ok(HeaderProgress::Missing(count)) = read(&header[..come]) else {
                    panic!("{come} of {header:?}");
                };
                assert!((1..=header.len() - come).contains(&count), "{come} of {header:?}");
            }
        }
        for bytes in [&b"PROXY UNKNOWN\0"[..], b"PROXY UNKNOWN \x7f\r\n", b"\r\n\r\n\0\r\nQUIX"] {
            assert!(read(bytes).is_err(), "{bytes:?}");
        }
    }

    fn missing(count: usize) -> Result<HeaderProgress, &'static str> {
        Ok(HeaderProgress::Missing(count))
    }
}
