//! The filters of mod_deflate and mod_brotli at work on content.

use std::io::Write;
use std::sync::Arc;

use brotli::CompressorWriter;
use flate2::write::{GzEncoder, MultiGzDecoder};
use flate2::{Compression, GzBuilder};

use super::Filter;
use crate::transform::{Broken, Transform};

impl Filter {
    /// Begins a response.
    pub fn transform(&self) -> Box<dyn Transform> {
        match self {
            Filter::Deflate => Box::new(Deflate(
                GzBuilder::new()
                    .operating_system(UNIX)
                    .write(Vec::new(), Compression::default()),
            )),
            Filter::Inflate => Box::new(Inflate(MultiGzDecoder::new(Vec::new()))),
            Filter::Brotli => Box::new(Brotli(Some(CompressorWriter::new(
                Vec::new(),
                BROTLI_BUFFER,
                BROTLI_QUALITY,
                BROTLI_WINDOW,
            )))),
            Filter::Substitute(filter) => Arc::clone(filter).transform(),
        }
    }
}

/// The operating system in gzip's header.
const UNIX: u8 = 3;
/// The bytes that are compressed at once.
const BROTLI_BUFFER: usize = 16 * 1024;
/// mod_brotli's default of BrotliCompressionQuality.
const BROTLI_QUALITY: u32 = 5;
/// mod_brotli's default of BrotliCompressionWindow.
const BROTLI_WINDOW: u32 = 18;

struct Deflate(GzEncoder<Vec<u8>>);

impl Transform for Deflate {
    fn push(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<(), Broken> {
        self.0.write_all(input).map_err(|_| NOT_COMPRESSED)?;
        out.append(self.0.get_mut());
        Ok(())
    }

    fn flush(&mut self, out: &mut Vec<u8>) -> Result<(), Broken> {
        self.0.flush().map_err(|_| NOT_COMPRESSED)?;
        out.append(self.0.get_mut());
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Broken> {
        self.0.try_finish().map_err(|_| NOT_COMPRESSED)?;
        out.append(self.0.get_mut());
        Ok(())
    }
}

struct Inflate(MultiGzDecoder<Vec<u8>>);

impl Transform for Inflate {
    fn push(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<(), Broken> {
        self.0.write_all(input).map_err(|_| NOT_GZIP)?;
        out.append(self.0.get_mut());
        Ok(())
    }

    fn flush(&mut self, out: &mut Vec<u8>) -> Result<(), Broken> {
        self.0.flush().map_err(|_| NOT_GZIP)?;
        out.append(self.0.get_mut());
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Broken> {
        self.0.try_finish().map_err(|_| NOT_GZIP)?;
        out.append(self.0.get_mut());
        Ok(())
    }
}

/// The compressor; `None` when it is finished.
struct Brotli(Option<CompressorWriter<Vec<u8>>>);

impl Transform for Brotli {
    fn push(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<(), Broken> {
        let writer = self.0.as_mut().ok_or(FINISHED)?;
        writer.write_all(input).map_err(|_| NOT_COMPRESSED)?;
        out.append(writer.get_mut());
        Ok(())
    }

    fn flush(&mut self, out: &mut Vec<u8>) -> Result<(), Broken> {
        let writer = self.0.as_mut().ok_or(FINISHED)?;
        writer.flush().map_err(|_| NOT_COMPRESSED)?;
        out.append(writer.get_mut());
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Broken> {
        let writer = self.0.take().ok_or(FINISHED)?;
        out.append(&mut writer.into_inner());
        Ok(())
    }
}

const NOT_COMPRESSED: Broken = Broken("the content could not be compressed");
const NOT_GZIP: Broken = Broken("the content is not what gzip makes");
const FINISHED: Broken = Broken("the content has ended already");

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn page() -> Vec<u8> {
        (0..20_000u32)
            .flat_map(|number| format!("<p>{number}</p>\n").into_bytes())
            .collect()
    }

    fn through(filter: &Filter, input: &[u8], piece: usize) -> Vec<u8> {
        let mut transform = filter.transform();
        let mut out = Vec::new();
        for piece in input.chunks(piece) {
            transform.push(piece, &mut out).unwrap();
        }
        transform.finish(&mut out).unwrap();
        out
    }

    fn unpacked(filter: &Filter, packed: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        match filter {
            Filter::Brotli => brotli::Decompressor::new(packed, 4096).read_to_end(&mut out),
            _ => flate2::read::GzDecoder::new(packed).read_to_end(&mut out),
        }
        .unwrap();
        out
    }

    #[test]
    fn what_is_compressed_comes_back() {
        for filter in [Filter::Deflate, Filter::Brotli] {
            for (input, piece) in [(page(), 1000), (page(), 1_000_000), (Vec::new(), 1)] {
                let packed = through(&filter, &input, piece);
                assert!(packed.len() < input.len() / 3 + 30, "{filter:?}");
                assert!(unpacked(&filter, &packed) == input, "{filter:?}");
                if let Filter::Deflate = filter {
                    assert!(through(&Filter::Inflate, &packed, 100) == input);
                }
            }
        }
    }

    #[test]
    fn what_was_flushed_can_be_read() {
        let mut deflate = Filter::Deflate.transform();
        let mut out = Vec::new();
        deflate.push(b"first", &mut out).unwrap();
        deflate.flush(&mut out).unwrap();
        let mut reader = flate2::read::GzDecoder::new(&out[..]);
        let mut text = [0; 5];
        reader.read_exact(&mut text).unwrap();
        assert_eq!(&text, b"first");

        let mut brotli = Filter::Brotli.transform();
        let mut out = Vec::new();
        brotli.push(b"first", &mut out).unwrap();
        brotli.flush(&mut out).unwrap();
        let mut text = [0; 5];
        brotli::Decompressor::new(&out[..], 4096).read_exact(&mut text).unwrap();
        assert_eq!(&text, b"first");
    }

    #[test]
    fn what_is_not_compressed_cannot_be_inflated() {
        let mut inflate = Filter::Inflate.transform();
        let outcome = inflate.push(b"<p>plain</p>", &mut Vec::new());
        assert_eq!(outcome, Err(NOT_GZIP));
    }
}
