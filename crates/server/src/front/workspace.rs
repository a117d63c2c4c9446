//! The buffers of a connection that serves requests. An idle connection has none.

use howdah_http::Request;

use crate::net::ReceiveBuffer;
use crate::pipeline::ScratchBuffers;

/// Buffers and the present request. Each thread keeps some for the next connections.
#[derive(Debug, Default)]
pub(crate) struct Workspace {
    pub(crate) input: ReceiveBuffer,
    pub(crate) request: Request,
    /// Bytes of the response that must be in one piece before they are sent.
    pub(crate) out: Vec<u8>,
    pub(crate) scratch: ScratchBuffers,
}

impl Workspace {
    /// Empties the buffers for the next connection. They keep enough memory for a usual request.
    pub(crate) fn clean(&mut self) {
        self.input.clear();
        self.input.shrink();
        self.request.reset();
        for buffer in [&mut self.out, &mut self.scratch.head, &mut self.scratch.content] {
            buffer.clear();
            buffer.shrink_to(MOST_KEPT);
        }
    }
}

/// Bytes that a buffer may keep between connections. A larger buffer shrinks to them.
const MOST_KEPT: usize = 128 * 1024;
