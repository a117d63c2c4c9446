//! The stack of a script, read from outside: without PHP's help, at any moment.
//!
//! PHP links its frames: `EG(current_execute_data)` is the innermost one, and each has a function
//! and the instruction that it executes. Reading them takes no lock and no memory, therefore a
//! signal handler can do it, and so can another thread while PHP waits in a function of its own.
//! Each address is checked before it is read: a frame that is being made or removed cuts the
//! backtrace short, and does no harm.

use std::ptr;

use crate::sapi::raw;

/// Bytes of a name or a path that are shown. The rest is left out.
pub const LONGEST_TEXT: usize = 256;

/// Kind of a function that is written in C (`ZEND_INTERNAL_FUNCTION`). The others are written in
/// PHP.
const INTERNAL: u8 = 1;

/// A frame of the stack. Every text is cut at [`LONGEST_TEXT`] bytes.
#[derive(Debug, Default)]
pub struct Frame {
    /// The class of a method; empty for a function.
    pub class: FrameText,
    /// Name of the function; empty for the code of a file.
    pub function: FrameText,
    /// Path of the file; empty for a function that is written in C.
    pub file: FrameText,
    /// The line that is executed.
    pub line: u32,
    /// Whether no frame called this one.
    pub is_outermost: bool,
}

/// A text of a frame.
#[derive(Debug)]
pub struct FrameText {
    bytes: [u8; LONGEST_TEXT],
    length: usize,
}

impl Default for FrameText {
    fn default() -> FrameText {
        FrameText { bytes: [0; LONGEST_TEXT], length: 0 }
    }
}

impl FrameText {
    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// Calls `each` for at most `most` frames, the innermost one first. Returns whether there are more.
/// Async-signal-safe, if `each` is.
///
/// No other thread may run PHP meanwhile.
pub fn walk(most: usize, mut each: impl FnMut(&Frame)) -> bool {
    let layout = raw::layout();
    let mut at: usize = read(layout.frame as usize).unwrap_or(0);
    for _ in 0..most {
        if at == 0 {
            return false;
        }
        let Some((frame, previous)) = frame(layout, at) else {
            return true;
        };
        if let Some(frame) = frame {
            each(&frame);
        }
        at = previous;
    }
    at != 0
}

/// Reads a frame, and the address of the one that has called it. The inner `None` is a frame that
/// belongs to no function. The outer one: it cannot be read.
fn frame(layout: &raw::Layout, at: usize) -> Option<(Option<Frame>, usize)> {
    let previous = read(at + layout.previous)?;
    let function: usize = read(at + layout.function)?;
    if function == 0 {
        return Some((None, previous));
    }
    let mut frame = Frame {
        is_outermost: previous == 0,
        ..Frame::default()
    };
    frame.function.read(layout, read(function + layout.name)?);
    let scope: usize = read(function + layout.scope)?;
    if scope != 0 {
        frame.class.read(layout, read(scope + layout.class_name)?);
    }
    let kind: u8 = read(function)?;
    if kind != INTERNAL {
        frame.file.read(layout, read(function + layout.file)?);
        let opline: usize = read(at + layout.opline)?;
        // A function that has called nothing yet has not noted where it is. PHP takes its first
        // line then.
        let opline = match opline {
            0 => read(function + layout.oplines)?,
            noted => noted,
        };
        frame.line = read(opline + layout.line).unwrap_or(0);
    }
    Some((Some(frame), previous))
}

impl FrameText {
    /// Copies the PHP string at this address; 0 is none. A string that cannot be read stays empty.
    fn read(&mut self, layout: &raw::Layout, string: usize) {
        if string == 0 {
            return;
        }
        let Some(length) = read::<usize>(string + layout.length) else {
            return;
        };
        let length = length.min(LONGEST_TEXT);
        let at = string + layout.text;
        // It is shorter than a page: both ends are in the only pages that it can touch.
        if length > 0 && is_readable(at) && is_readable(at + length - 1) {
            let from = ptr::with_exposed_provenance::<u8>(at);
            // SAFETY: as in `read`; `bytes` is memory of our own with room for so much.
            unsafe { from.copy_to_nonoverlapping(self.bytes.as_mut_ptr(), length) };
            self.length = length;
        }
    }
}

/// Reads a number at this address; `None` if no memory is there.
fn read<T: Copy>(address: usize) -> Option<T> {
    let last = address.checked_add(size_of::<T>() - 1)?;
    if !is_readable(address) || (last / PROBED != address / PROBED && !is_readable(last)) {
        return None;
    }
    // SAFETY: the memory can be read, as the kernel says. Only integers are read, for which any
    // bytes are valid. The caller of `walk` keeps PHP from running, so that the memory stays.
    Some(unsafe { ptr::with_exposed_provenance::<T>(address).read_unaligned() })
}

/// Bytes that the kernel reads to find out whether they are there.
const PROBED: usize = 8;

/// Returns whether memory can be read at this address. Costs a system call.
///
/// The kernel copies eight bytes from there before it finds that the call has no meaning. The call
/// needs no right and no descriptor, and sandboxes allow it, unlike the calls that are made for
/// reading a process.
fn is_readable(address: usize) -> bool {
    const NO_SUCH_ACTION: libc::c_int = libc::c_int::MAX;
    let aligned = address / PROBED * PROBED;
    if aligned == 0 {
        return false;
    }
    // SAFETY: the kernel checks the address, and changes nothing: there is no such action.
    let result = unsafe {
        libc::syscall(libc::SYS_rt_sigprocmask, NO_SUCH_ACTION, aligned, 0_usize, PROBED)
    };
    // SAFETY: the address of this thread's own number.
    result == 0 || unsafe { *libc::__errno_location() } != libc::EFAULT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_is_not_there_is_not_read() {
        let number = 7_u64;
        assert_eq!(read::<u64>(&raw const number as usize), Some(7));
        // SAFETY: a new mapping.
        let page = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            libc::mmap(ptr::null_mut(), 8192, libc::PROT_READ, flags, -1, 0)
        } as usize;
        assert_eq!(read::<u64>(page), Some(0));
        // SAFETY: the second page of that mapping, which nothing uses.
        unsafe { libc::munmap((page + 4096) as *mut _, 4096) };
        assert_eq!((read::<u8>(page + 4095), read::<u8>(page + 4096)), (Some(0), None));
        assert_eq!((read::<u64>(page + 4092), read::<u64>(0), read::<u8>(1)), (None, None, None));
    }
}
