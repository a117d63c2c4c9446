//! Reading the content of a request for the script.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// The content of a request, which is complete before the script starts.
#[derive(Debug)]
pub enum BodyReader<'b> {
    /// The remaining bytes in memory; empty for a request without content.
    Inline(&'b [u8]),
    /// An unlinked file. It is read by position, because the descriptor's own offset is shared with
    /// the process that wrote the file.
    File {
        /// The file.
        file: File,
        /// Offset of the next read.
        position: u64,
    },
}

impl BodyReader<'_> {
    /// Fills `into` with content. Returns fewer bytes than fit only at the end of the content.
    ///
    /// # Errors
    /// The file could not be read.
    pub fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        match self {
            BodyReader::Inline(rest) => {
                let (now, later) = rest.split_at(rest.len().min(into.len()));
                into[..now.len()].copy_from_slice(now);
                *rest = later;
                Ok(now.len())
            }
            BodyReader::File { file, position } => {
                let mut filled = 0;
                while filled < into.len() {
                    match file.read_at(&mut into[filled..], *position) {
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
        file.write_all(b"0123456789").unwrap(); // The offset is at the end now.
        std::fs::remove_file(&path).unwrap();
        for mut body in [BodyReader::Inline(b"0123456789"), BodyReader::File { file, position: 0 }]
        {
            let mut into = [0; 4];
            let mut all = Vec::new();
            loop {
                let read = body.read(&mut into).unwrap();
                all.extend_from_slice(&into[..read]);
                if read < into.len() {
                    break;
                }
            }
            assert_eq!(all, b"0123456789");
            assert_eq!(body.read(&mut into).unwrap(), 0);
        }
    }
}
