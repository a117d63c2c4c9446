//! What a connection needs while it works on requests, and an idle one does without.

use howdah_http::Request;
use howdah_site::Scratch;

use super::buffer::Buffer;

/// Buffers and the present request. Threads keep a few to hand out again.
#[derive(Debug, Default)]
pub(super) struct Workspace {
    pub(super) input: Buffer,
    pub(super) request: Request,
    /// Bytes of the response that must be in one piece before they are sent.
    pub(super) out: Vec<u8>,
    pub(super) scratch: Scratch,
    /// A worker's response head.
    pub(super) head: Vec<u8>,
}

impl Workspace {
    /// Ready for the next connection, with the memory that a usual request takes and no more.
    pub(super) fn clean(&mut self) {
        self.input.clear();
        self.input.shrink();
        self.request.reset();
        for buffer in [&mut self.out, &mut self.head] {
            buffer.clear();
            buffer.shrink_to(MOST_KEPT);
        }
    }
}

/// Bytes that a buffer may keep between connections.
const MOST_KEPT: usize = 128 * 1024;
