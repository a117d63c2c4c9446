//! Certificates and keys that a front gets: memory files, which only their descriptors lead to.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::OwnedFd;

use howdah_ipc::packet::{PacketReader, PacketWriter};
use howdah_sys::memory;

use crate::tls::{PairText, TicketKeys};

/// Writes certificates and keys to a memory file, which only its descriptors lead to.
///
/// # Errors
/// The error of a system call.
pub(crate) fn write_pairs(pairs: &[PairText]) -> io::Result<OwnedFd> {
    let packet = PacketWriter::default().list(pairs, |out, pair| {
        out.text(&pair.certificate_name)
            .text(&pair.key_name)
            .bytes(&pair.certificate)
            .bytes(&pair.key)
    });
    write_memory(&packet.finish())
}

/// Writes the keys of session tickets to a memory file.
///
/// # Errors
/// The error of a system call.
pub(crate) fn write_ticket_keys(keys: &TicketKeys) -> io::Result<OwnedFd> {
    write_memory(&keys.to_bytes())
}

/// Reads what [`write_ticket_keys`] has written.
///
/// # Errors
/// The error of a system call.
pub(crate) fn read_ticket_keys(file: OwnedFd) -> io::Result<TicketKeys> {
    Ok(TicketKeys::from_bytes(&read_memory(file)?))
}

/// Writes bytes to a memory file, which only its descriptor leads to.
///
/// # Errors
/// The error of a system call.
pub(in crate::supervisor) fn write_memory(bytes: &[u8]) -> io::Result<OwnedFd> {
    let mut file = File::from(memory::sealed_file(c"howdah-keys", bytes.len())?);
    file.write_all(bytes)?;
    Ok(file.into())
}

/// Reads what [`write_memory`] has written.
///
/// # Errors
/// The error of a system call.
pub(crate) fn read_memory(file: OwnedFd) -> io::Result<Vec<u8>> {
    let (mut file, mut content) = (File::from(file), Vec::new());
    file.rewind()?;
    file.read_to_end(&mut content)?;
    Ok(content)
}

/// Reads what [`write_pairs`] has written.
///
/// # Errors
/// The content is malformed, or the error of a system call.
pub(crate) fn read_pairs(file: OwnedFd) -> io::Result<Vec<PairText>> {
    let content = read_memory(file)?;
    PacketReader::new(&content).list(|pair| {
        Ok(PairText {
            certificate_name: pair.text()?,
            key_name: pair.text()?,
            certificate: pair.bytes()?.to_vec(),
            key: pair.bytes()?.to_vec(),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_survive_the_way() {
        let pair = |name: &str| PairText {
            certificate_name: name.into(),
            key_name: "key".into(),
            certificate: b"-----BEGIN\n".to_vec(),
            key: Vec::new(),
        };
        for pairs in [vec![], vec![pair("a"), pair("b")]] {
            assert_eq!(read_pairs(write_pairs(&pairs).unwrap()).unwrap(), pairs);
        }
        let keys = TicketKeys::default().rotated().unwrap();
        assert_eq!(read_ticket_keys(write_ticket_keys(&keys).unwrap()).unwrap(), keys);
    }
}
