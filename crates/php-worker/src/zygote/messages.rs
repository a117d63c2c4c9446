//! The messages that a zygote receives.

use std::io;
use std::os::fd::OwnedFd;

use howdah_ipc::control::{MOST_BYTES, PoolSettings, ToZygote};
use howdah_sys::seqpacket::SeqPacket;

/// Receives the pool's settings, the supervisor's first message, and the list of scripts that comes
/// with them, if there is one.
///
/// # Errors
/// The reason, as text for the operator.
pub(super) fn settings(supervisor: &SeqPacket) -> Result<(PoolSettings, Option<OwnedFd>), String> {
    let mut buffer = vec![0; MOST_BYTES];
    match receive(supervisor, &mut buffer) {
        Ok(Some((ToZygote::Settings(settings), mut descriptors))) => {
            Ok((*settings, descriptors.pop()))
        }
        Ok(_) => Err("no settings came from the supervisor".to_owned()),
        Err(error) => Err(format!("cannot read the supervisor's settings: {error}")),
    }
}

/// Receives a message and its descriptors; `None` at the end of the stream.
///
/// # Errors
/// `InvalidData` for a message that is too long or has no meaning, or the error of `recvmsg(2)`.
pub(super) fn receive(
    socket: &SeqPacket,
    buffer: &mut [u8],
) -> io::Result<Option<(ToZygote, Vec<OwnedFd>)>> {
    let received = match socket.receive(buffer) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(None),
        other => other?,
    };
    if received.length == 0 {
        return Ok(None);
    }
    if received.truncated {
        return Err(unexpected("a message that is too long"));
    }
    Ok(Some((ToZygote::decode(&buffer[..received.length])?, received.descriptors)))
}

/// The error of a message that should not have come.
pub(super) fn unexpected(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the zygote was sent {what}"))
}
