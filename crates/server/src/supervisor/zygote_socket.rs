//! The supervisor's end of a zygote's socket, which other processes than the zygote may write to.
//!
//! Where the sandbox is off, scripts can take their zygote's end, and send messages with
//! descriptors. The kernel closes the descriptors of a message that nobody receives together with
//! the supervisor's end. Closing may wait for hours: a TCP connection with `SO_LINGER` waits for a
//! stranger to take its bytes. A process that ends waits for none of that, therefore another one
//! has the last descriptor of each such socket.

use std::cell::RefCell;
use std::io::{self, PipeWriter, Read};
use std::ops::Deref;
use std::os::fd::AsRawFd;
use std::rc::Rc;

use howdah_sys::process;
use howdah_sys::seqpacket::SeqPacket;

thread_local! {
    /// The sockets that [`close_dropped`] is to close.
    static DROPPED: RefCell<Vec<Rc<SeqPacket>>> = const { RefCell::new(Vec::new()) };
}

/// The supervisor's end of a zygote's socket. It stays open until [`close_dropped`].
#[derive(Debug)]
pub(super) struct ZygoteSocket(Rc<SeqPacket>);

impl From<SeqPacket> for ZygoteSocket {
    fn from(socket: SeqPacket) -> ZygoteSocket {
        ZygoteSocket(Rc::new(socket))
    }
}

impl Deref for ZygoteSocket {
    type Target = SeqPacket;

    fn deref(&self) -> &SeqPacket {
        &self.0
    }
}

impl Drop for ZygoteSocket {
    fn drop(&mut self) {
        // The zygote hears of it at once.
        self.0.shut_down();
        DROPPED.with_borrow_mut(|dropped| dropped.push(Rc::clone(&self.0)));
    }
}

/// Closes the sockets that were dropped since the last call. Never waits for what they hold.
pub(super) fn close_dropped() {
    let sockets = DROPPED.take();
    if sockets.is_empty() {
        return;
    }
    match hold_elsewhere(&sockets) {
        // In this order: the other process ends, and has the last descriptors then.
        Ok(hold) => {
            drop(sockets);
            drop(hold);
        }
        // Without another process they stay open until there is one.
        Err(_) => DROPPED.with_borrow_mut(|dropped| dropped.extend(sockets)),
    }
}

/// Starts a process that has the sockets, too, and ends when the result is dropped.
fn hold_elsewhere(sockets: &[Rc<SeqPacket>]) -> io::Result<PipeWriter> {
    let (mut end, hold) = io::pipe()?;
    let kept = sockets.iter().map(|socket| socket.as_raw_fd());
    let kept: Vec<_> = kept.chain([end.as_raw_fd()]).collect();
    process::fork(&kept, move || u8::from(end.read(&mut [0]).is_err()))?;
    Ok(hold)
}
