//! The content of the request, as the script reads it.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// Content that is there as a whole before the script starts.
#[derive(Debug)]
pub enum Body<'b> {
    /// What is left of bytes in memory; empty for a request without content.
    Inline(&'b [u8]),
    /// An unlinked file. It is read by position: the descriptor's own offset is shared with whoever
    /// wrote it.
    File {
        /// The file.
        file: File,
        /// Where the next read begins.
        position: u64,
    },
}

impl Body<'_> {
    /// Fills `room` as far as there is content; a shorter answer means the end.
    pub fn read(&mut self, room: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Body::Inline(rest) => {
                let (now, later) = rest.split_at(rest.len().min(room.len()));
                room[..now.len()].copy_from_slice(now);
                *rest = later;
                Ok(now.len())
            }
            Body::File { file, position } => {
                let mut filled = 0;
                while filled < room.len() {
                    match file.read_at(&mut room[filled..], *position) {
                        Ok(0) => break,
                        Ok(read) => {
                            filled += read;
                            *position += read as u64;
                        }
                        Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                        Err(error) => return Err(error),
                    }
                }
                Ok(filled)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn memory_and_file_read_alike() {
        let path = std::env::temp_dir().join(format!("howdah-body-{}", std::process::id()));
        let mut file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&path)
            .unwrap();
        file.write_all(b"0123456789").unwrap(); // The offset stands at the end now.
        std::fs::remove_file(&path).unwrap();
        for mut body in [Body::Inline(b"0123456789"), Body::File { file, position: 0 }] {
            let mut room = [0; 4];
            let mut all = Vec::new();
            loop {
                let read = body.read(&mut room).unwrap();
                all.extend_from_slice(&room[..read]);
                if read < room.len() {
                    break;
                }
            }
            assert_eq!(all, b"0123456789");
            assert_eq!(body.read(&mut room).unwrap(), 0);
        }
    }
}
