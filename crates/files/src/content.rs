//! Reads a file that another process may be writing.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

use howdah_sys::open::Lookup;
use howdah_sys::page_cache;
use howdah_sys::stat::Stat;

use crate::entry::{is_settled, now};

/// Returns the whole file, unless it is longer than `most` bytes, and its state then. A file that
/// is being written is read again. If the file keeps changing, the most trustworthy reading is
/// returned: a later write will be noticed.
///
/// The results of several `read(2)` calls are not joined if that can be avoided. A file that is cut
/// and written anew between two calls would appear as the beginning of one state and the end of
/// another: content that never existed, and among directives a mistake that no author made.
///
/// With [`Lookup::Cached`], `WouldBlock` says that a part of the file is on the disk only.
///
/// # Errors
/// The file or its state cannot be read. With [`Lookup::Cached`], `WouldBlock` where a part of the
/// file is on the disk only.
pub(crate) fn read(
    file: &File,
    mut stat: Stat,
    most: u64,
    lookup: Lookup,
) -> io::Result<(Option<Vec<u8>>, Stat)> {
    let mut best: Option<ReadAttempt> = None;
    for _ in 0..ATTEMPTS {
        if stat.size > most {
            return Ok((None, stat));
        }
        let began = now();
        let (bytes, in_one) = read_once(file, stat.size as usize, lookup)?;
        let after = Stat::of(file.as_fd())?;
        let at_rest = after == stat && bytes.len() as u64 == stat.size;
        // Where the times are too recent to prove anything, two readings have to agree.
        let is_certain = in_one && is_settled(&stat, began);
        let agrees = best.as_ref().is_some_and(|best| best.bytes == bytes);
        if at_rest && (is_certain || agrees) {
            return Ok((Some(bytes), stat));
        }
        let reading = ReadAttempt { trust: (at_rest, in_one), bytes, stat };
        if best.as_ref().is_none_or(|best| best.trust <= reading.trust) {
            best = Some(reading);
        }
        stat = after;
    }
    Ok(best.map_or((None, stat), |best| (Some(best.bytes), best.stat)))
}

/// One reading, and the file's state just before.
struct ReadAttempt {
    /// Whether nothing seems to have changed meanwhile, and whether one call returned everything.
    /// More is better.
    trust: (bool, bool),
    bytes: Vec<u8>,
    stat: Stat,
}

/// Reads from the first byte on, with room for more than `size` bytes, to notice growth. Also
/// returns whether one call returned everything, as it does for any file on a local disk that does
/// not change.
fn read_once(file: &File, size: usize, lookup: Lookup) -> io::Result<(Vec<u8>, bool)> {
    let mut bytes = vec![0; (size + 1).next_multiple_of(ROOM)];
    let (mut length, mut calls) = (0, 0);
    loop {
        let (room, offset) = (&mut bytes[length..], length as u64);
        let read = match lookup {
            Lookup::Full => file.read_at(room, offset),
            Lookup::Cached => page_cache::read(file.as_fd(), room, offset),
        };
        match read {
            Ok(0) => break,
            Ok(count) => {
                length += count;
                calls += 1;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        if length >= size {
            break;
        }
    }
    let in_one = calls <= 1 && length < bytes.len();
    bytes.truncate(length);
    Ok((bytes, in_one))
}

/// Bytes: the buffer's size is a multiple of this.
const ROOM: usize = 4096;

/// Readings of a file that changes while it is read.
const ATTEMPTS: u32 = 10;

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn no_mixture_of_what_was_there_at_different_times() {
        let states: [&[u8]; 4] = [b"", &[b'a'; 10], &[b'b'; 17], &[b'c'; 3000]];
        let path = std::env::temp_dir().join(format!("howdah-content-{}", std::process::id()));
        std::fs::write(&path, states[1]).unwrap();
        let end = Instant::now() + Duration::from_secs(1);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while Instant::now() < end {
                    for state in states {
                        std::fs::write(&path, state).unwrap();
                    }
                }
            });
            while Instant::now() < end {
                let file = File::open(&path).unwrap();
                let stat = Stat::of(file.as_fd()).unwrap();
                let content = read(&file, stat, 1 << 20, Lookup::Full).unwrap().0.unwrap();
                assert!(states.contains(&&*content), "{}", String::from_utf8_lossy(&content));
            }
        });
        let file = File::open(&path).unwrap();
        let stat = Stat::of(file.as_fd()).unwrap();
        assert_eq!(
            read(&file, stat, 3000, Lookup::Full).unwrap(),
            (Some(states[3].to_vec()), stat)
        );
        assert_eq!(read(&file, stat, 2999, Lookup::Full).unwrap(), (None, stat));
        std::fs::remove_file(&path).unwrap();
    }
}
