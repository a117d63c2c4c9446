//! Bringing files into the kernel's memory, on threads that may wait for the disk.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

use howdah_sys::page_cache;

use crate::answer::{FileAnswer, RequestedPart};
use crate::body::FileBody;

/// Reads that part of a file, so that it is in the kernel's memory afterwards. Waits for the disk,
/// until `goes_on` says no between two reads. Where a read fails, or the file ends, so does this:
/// sending the file meets the same.
pub fn fetch(file: &File, mut part: Range<u64>, goes_on: impl Fn() -> bool) {
    if part.end.saturating_sub(part.start) > FETCHED as u64 {
        // The next parts come while this one is sent. Without the advice they come later.
        let ahead = part.start..part.end.saturating_add(AHEAD);
        let _ = page_cache::read_ahead(file.as_fd(), &ahead);
    }
    let mut buffer = Vec::new();
    while goes_on() && part.start < part.end {
        let most = usize::try_from(part.end - part.start).unwrap_or(FETCHED).min(FETCHED);
        buffer.resize(most, 0);
        match file.read_at(&mut buffer, part.start) {
            Ok(count) if count > 0 => part.start += count as u64,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(_) | Err(_) => break,
        }
    }
}

impl FileAnswer {
    /// Brings content that is short and in one part into the kernel's memory. Waits for the disk.
    pub fn fetch_short(&self) {
        let body = match &self.asked {
            RequestedPart::Whole => &self.body,
            RequestedPart::Part(part) => &part.body,
            RequestedPart::NotModified | RequestedPart::Parts(_) | RequestedPart::Failed(_) => {
                return;
            }
        };
        if let FileBody::File { file, offset, length } = body
            && *length <= FETCHED as u64
        {
            fetch(file.file(), *offset..offset.saturating_add(*length), || true);
        }
    }
}

/// Bytes of a document that are read at a time.
const FETCHED: usize = 128 * 1024;
/// Bytes behind a longer part that is read, which the disk is asked for at the same time.
const AHEAD: u64 = 1 << 20;
