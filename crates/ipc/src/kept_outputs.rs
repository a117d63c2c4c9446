//! The message of a zygote with the reading ends of the pipes that its workers write to. It lies in
//! a socket, and the supervisor reads it when the zygote has died.

use std::io;

use crate::packet::{PacketReader, PacketWriter, malformed};

/// The workers whose pipes come with the message, in order. The pipes are the attached descriptors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptOutputs {
    /// The workers' processes.
    pub workers: Vec<u64>,
}

impl KeptOutputs {
    /// Encodes the message as one packet.
    pub fn encode(&self) -> Vec<u8> {
        let out = PacketWriter::of_kind(1);
        out.list(&self.workers, |out, worker| out.number(*worker)).finish()
    }

    /// Decodes one packet.
    ///
    /// # Errors
    /// The packet is malformed.
    pub fn decode(bytes: &[u8]) -> io::Result<KeptOutputs> {
        let mut input = PacketReader::new(bytes);
        match input.kind()? {
            1 => Ok(KeptOutputs {
                workers: input.list(PacketReader::number)?,
            }),
            _ => Err(malformed()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_survives_the_trip() {
        for workers in [vec![], vec![7], (0..253).collect()] {
            let message = KeptOutputs { workers };
            assert_eq!(KeptOutputs::decode(&message.encode()).unwrap(), message);
        }
        assert!(KeptOutputs::decode(b"").is_err() && KeptOutputs::decode(&[2]).is_err());
    }
}
