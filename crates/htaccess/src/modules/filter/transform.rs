//! The filters of mod_deflate and mod_brotli, and Zstandard, at work on content.

use std::io::Write;
use std::sync::Arc;

use brotli::CompressorWriter;
use flate2::write::{GzEncoder, MultiGzDecoder};
use flate2::{Compression, GzBuilder};
use zstd_safe::zstd_sys::ZSTD_EndDirective;
use zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer};

use super::{Filter, InflateLimits};
use crate::transform::{OUTPUT, Transform, TransformError};

impl Filter {
    /// Begins a response.
    pub fn transform(&self) -> Box<dyn Transform> {
        match self {
            Filter::Deflate => Box::new(Deflate(
                GzBuilder::new()
                    .operating_system(UNIX)
                    .write(Vec::new(), Compression::default()),
            )),
            Filter::Inflate(limits) => Box::new(Inflate::new(*limits)),
            Filter::Brotli => Box::new(Brotli(Some(CompressorWriter::new(
                Vec::new(),
                BROTLI_BUFFER,
                BROTLI_QUALITY,
                BROTLI_WINDOW,
            )))),
            Filter::Zstandard => Box::new(Zstandard::new()),
            Filter::Substitute(filter) => Arc::clone(filter).transform(),
        }
    }

    /// Returns the bytes of memory that the filter takes for a response, about: those of its tables
    /// and its window, and of lines of usual length.
    pub fn memory(&self) -> usize {
        match self {
            Filter::Deflate => DEFLATE_MEMORY,
            Filter::Inflate(_) => INFLATE_MEMORY,
            Filter::Brotli => BROTLI_MEMORY,
            Filter::Zstandard => ZSTANDARD_MEMORY,
            Filter::Substitute(_) => OUTPUT,
        }
    }
}

/// Bytes that a compressor takes, measured at the settings below.
const DEFLATE_MEMORY: usize = 320 * 1024;
const INFLATE_MEMORY: usize = 80 * 1024;
const BROTLI_MEMORY: usize = 2_560 * 1024;
const ZSTANDARD_MEMORY: usize = 1_280 * 1024;

/// The operating system in gzip's header.
const UNIX: u8 = 3;
/// The bytes that are compressed at once.
const BROTLI_BUFFER: usize = 16 * 1024;
/// mod_brotli's default of BrotliCompressionQuality.
const BROTLI_QUALITY: u32 = 5;
/// mod_brotli's default of BrotliCompressionWindow.
const BROTLI_WINDOW: u32 = 18;
/// The level that makes text as short as gzip does, in half to four fifths of the time. Window and
/// tables are smaller than this level's own: a response takes 1.2 MiB in place of 5.2 MiB, and
/// content of 110 KB becomes longer by 0.2 %. A client needs a window of 128 KiB; RFC 9659 allows
/// 8 MiB.
const ZSTANDARD: [CParameter; 4] = [
    CParameter::CompressionLevel(5),
    CParameter::WindowLog(17),
    CParameter::HashLog(16),
    CParameter::ChainLog(15),
];
/// Bytes of room for output at each call of zstd.
const ZSTANDARD_ROOM: usize = 16 * 1024;

struct Deflate(GzEncoder<Vec<u8>>);

impl Transform for Deflate {
    fn push(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<usize, TransformError> {
        self.0.write_all(input).map_err(|_| NOT_COMPRESSED)?;
        out.append(self.0.get_mut());
        Ok(input.len())
    }

    fn flush(&mut self, out: &mut Vec<u8>) -> Result<(), TransformError> {
        self.0.flush().map_err(|_| NOT_COMPRESSED)?;
        out.append(self.0.get_mut());
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), TransformError> {
        self.0.try_finish().map_err(|_| NOT_COMPRESSED)?;
        out.append(self.0.get_mut());
        Ok(())
    }

    fn memory(&self) -> usize {
        DEFLATE_MEMORY
    }
}

/// gzip's decompressor, with mod_deflate's guard against content that unpacks to a multiple of its
/// length (`check_ratio`).
struct Inflate {
    decoder: MultiGzDecoder<Vec<u8>>,
    limits: InflateLimits,
    /// Bytes taken.
    taken: u64,
    /// Bytes unpacked, in whole blocks of [`INFLATE_BLOCK`] and beyond them.
    blocks: u64,
    beyond: usize,
    /// Blocks in a row at whose end the ratio was over its limit.
    hits: u32,
}

impl Inflate {
    fn new(limits: InflateLimits) -> Inflate {
        Inflate {
            decoder: MultiGzDecoder::new(Vec::new()),
            limits,
            taken: 0,
            blocks: 0,
            beyond: 0,
            hits: 0,
        }
    }

    /// Takes a part of `input`. Each call unpacks a few blocks at most.
    fn step(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<usize, TransformError> {
        let count = self.decoder.write(input).map_err(|_| NOT_GZIP)?;
        if count == 0 {
            return Err(NOT_GZIP);
        }
        self.taken += count as u64;
        self.beyond += self.decoder.get_ref().len();
        while self.beyond >= INFLATE_BLOCK {
            self.beyond -= INFLATE_BLOCK;
            self.blocks += 1;
            self.check_ratio()?;
        }
        out.append(self.decoder.get_mut());
        Ok(count)
    }

    fn check_ratio(&mut self) -> Result<(), TransformError> {
        let ratio = self.blocks * INFLATE_BLOCK as u64 / self.taken;
        if ratio < u64::from(self.limits.ratio.unwrap_or(INFLATE_RATIO)) {
            self.hits = 0;
            return Ok(());
        }
        self.hits += 1;
        match self.hits > self.limits.burst.unwrap_or(INFLATE_BURST) {
            true => Err(TOO_MUCH),
            false => Ok(()),
        }
    }
}

/// mod_deflate's default of DeflateBufferSize.
const INFLATE_BLOCK: usize = 8096;
/// mod_deflate's default of DeflateInflateRatioLimit.
const INFLATE_RATIO: u32 = 200;
/// mod_deflate's default of DeflateInflateRatioBurst.
const INFLATE_BURST: u32 = 3;

impl Transform for Inflate {
    fn push(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<usize, TransformError> {
        let mut taken = 0;
        while taken < input.len() && out.len() < OUTPUT {
            taken += self.step(&input[taken..], out)?;
        }
        Ok(taken)
    }

    fn flush(&mut self, out: &mut Vec<u8>) -> Result<(), TransformError> {
        self.decoder.flush().map_err(|_| NOT_GZIP)?;
        out.append(self.decoder.get_mut());
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), TransformError> {
        self.decoder.try_finish().map_err(|_| NOT_GZIP)?;
        out.append(self.decoder.get_mut());
        Ok(())
    }

    fn memory(&self) -> usize {
        INFLATE_MEMORY
    }
}

/// The compressor; `None` when it is finished.
struct Brotli(Option<CompressorWriter<Vec<u8>>>);

impl Transform for Brotli {
    fn push(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<usize, TransformError> {
        let writer = self.0.as_mut().ok_or(FINISHED)?;
        writer.write_all(input).map_err(|_| NOT_COMPRESSED)?;
        out.append(writer.get_mut());
        Ok(input.len())
    }

    fn flush(&mut self, out: &mut Vec<u8>) -> Result<(), TransformError> {
        let writer = self.0.as_mut().ok_or(FINISHED)?;
        writer.flush().map_err(|_| NOT_COMPRESSED)?;
        out.append(writer.get_mut());
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), TransformError> {
        let writer = self.0.take().ok_or(FINISHED)?;
        out.append(&mut writer.into_inner());
        Ok(())
    }

    fn memory(&self) -> usize {
        BROTLI_MEMORY
    }
}

/// Zstandard's compressor, which writes into the output without a buffer of its own.
struct Zstandard(CCtx<'static>);

impl Zstandard {
    fn new() -> Zstandard {
        let mut context = CCtx::create();
        for parameter in ZSTANDARD {
            context
                .set_parameter(parameter)
                .expect("zstd knows the parameter and allows the value");
        }
        Zstandard(context)
    }

    /// Takes `input`, then does what `then` says, and appends all output that there is.
    fn run(
        &mut self,
        input: &[u8],
        then: ZSTD_EndDirective,
        out: &mut Vec<u8>,
    ) -> Result<(), TransformError> {
        let mut input = InBuffer::around(input);
        loop {
            out.reserve(ZSTANDARD_ROOM);
            let end = out.len();
            let mut room = OutBuffer::around_pos(out, end);
            let left = self.0.compress_stream2(&mut room, &mut input, then);
            let left = left.map_err(|_| NOT_COMPRESSED)?;
            let is_done = match then {
                ZSTD_EndDirective::ZSTD_e_continue => input.pos == input.src.len(),
                // The bytes that did not fit into the room.
                ZSTD_EndDirective::ZSTD_e_flush | ZSTD_EndDirective::ZSTD_e_end => left == 0,
            };
            if is_done {
                return Ok(());
            }
        }
    }
}

impl Transform for Zstandard {
    fn push(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<usize, TransformError> {
        self.run(input, ZSTD_EndDirective::ZSTD_e_continue, out)?;
        Ok(input.len())
    }

    fn flush(&mut self, out: &mut Vec<u8>) -> Result<(), TransformError> {
        self.run(b"", ZSTD_EndDirective::ZSTD_e_flush, out)
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), TransformError> {
        self.run(b"", ZSTD_EndDirective::ZSTD_e_end, out)
    }

    fn memory(&self) -> usize {
        ZSTANDARD_MEMORY
    }
}

const NOT_COMPRESSED: TransformError = TransformError("the content could not be compressed");
const NOT_GZIP: TransformError = TransformError("the content is not what gzip makes");
const TOO_MUCH: TransformError =
    TransformError("the compressed content unpacks to more than DeflateInflateRatioLimit allows");
const FINISHED: TransformError = TransformError("the content has ended already");

#[cfg(test)]
mod tests {
    use std::io::Read;

    use zstd_safe::{DCtx, DParameter};

    use super::*;
    use crate::mutation::Mutator;

    const INFLATE: Filter = Filter::Inflate(InflateLimits { ratio: None, burst: None });

    fn page() -> Vec<u8> {
        (0..20_000u32)
            .flat_map(|number| format!("<p>{number}</p>\n").into_bytes())
            .collect()
    }

    fn through(filter: &Filter, input: &[u8], piece: usize) -> Vec<u8> {
        let mut transform = filter.transform();
        let mut out = Vec::new();
        for piece in input.chunks(piece) {
            push(&mut *transform, piece, &mut out).unwrap();
        }
        transform.finish(&mut out).unwrap();
        out
    }

    /// Pushes all of `input`, and takes the output away as often as it is wanted.
    fn push(
        transform: &mut dyn Transform,
        mut input: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), TransformError> {
        while !input.is_empty() {
            let mut part = Vec::new();
            let taken = transform.push(input, &mut part)?;
            assert!((1..=input.len()).contains(&taken) && part.len() <= 2 * OUTPUT + input.len());
            out.append(&mut part);
            input = &input[taken..];
        }
        Ok(())
    }

    fn unpacked(filter: &Filter, packed: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        match filter {
            Filter::Brotli => brotli::Decompressor::new(packed, 4096).read_to_end(&mut out),
            Filter::Zstandard => return unpacked_zstandard(packed),
            _ => flate2::read::GzDecoder::new(packed).read_to_end(&mut out),
        }
        .unwrap();
        out
    }

    /// Unpacks the content up to the first byte that cannot be read.
    fn unpacked_zstandard(packed: &[u8]) -> Vec<u8> {
        let mut context = DCtx::create();
        context.set_parameter(DParameter::WindowLogMax(17)).unwrap();
        let mut input = InBuffer::around(packed);
        let mut out = Vec::new();
        loop {
            out.reserve(1 << 16);
            let end = out.len();
            let mut room = OutBuffer::around_pos(&mut out, end);
            context.decompress_stream(&mut room, &mut input).unwrap();
            if out.len() == end {
                assert_eq!(input.pos, packed.len());
                return out;
            }
        }
    }

    #[test]
    fn what_is_compressed_comes_back() {
        for filter in [Filter::Deflate, Filter::Brotli, Filter::Zstandard] {
            for (input, piece) in [(page(), 1000), (page(), 1_000_000), (Vec::new(), 1)] {
                let packed = through(&filter, &input, piece);
                assert!(packed.len() < input.len() / 3 + 30, "{filter:?}");
                assert!(unpacked(&filter, &packed) == input, "{filter:?}");
                if let Filter::Deflate = filter {
                    assert!(through(&INFLATE, &packed, 100) == input);
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

        let mut zstandard = Filter::Zstandard.transform();
        let mut out = Vec::new();
        zstandard.push(b"first", &mut out).unwrap();
        zstandard.flush(&mut out).unwrap();
        assert_eq!(unpacked_zstandard(&out), b"first");
    }

    /// However content is cut into pieces and flushed, each flush gives all of it so far, and the
    /// end gives the whole.
    #[test]
    fn pieces_and_flushes_change_nothing() {
        let mut random = Mutator(11);
        for round in 0..16 {
            let mut content = page();
            content.truncate(random.below(if round % 4 == 0 { 200_000 } else { 5_000 }));
            if round % 3 == 0 {
                // Not compressible.
                content.iter_mut().for_each(|byte| *byte = random.next() as u8);
            }
            let mut transform = Filter::Zstandard.transform();
            let (mut out, mut done) = (Vec::new(), 0);
            while done < content.len() {
                let count = 1 + random.below(content.len() - done).min(random.below(40_000));
                let end = content.len().min(done + count);
                transform.push(&content[done..end], &mut out).unwrap();
                done = end;
                if random.below(4) == 0 {
                    transform.flush(&mut out).unwrap();
                    assert!(unpacked_zstandard(&out) == content[..done], "{round}: to {done}");
                }
                if random.below(8) == 0 {
                    transform.flush(&mut out).unwrap();
                    let length = out.len();
                    transform.flush(&mut out).unwrap();
                    assert_eq!(out.len(), length, "there was nothing to flush");
                }
            }
            transform.finish(&mut out).unwrap();
            assert!(unpacked_zstandard(&out) == content, "{round}: {}", content.len());
        }
    }

    /// Thousands of slow clients may read compressed pages.
    #[test]
    fn a_compressor_takes_little_memory() {
        let mut compressor = Zstandard::new();
        let mut out = Vec::new();
        for piece in page().chunks(16 * 1024) {
            compressor.push(piece, &mut out).unwrap();
        }
        let taken = compressor.0.sizeof();
        assert!(taken < 5 << 18, "{taken} bytes");
    }

    #[test]
    fn what_unpacks_to_a_multiple_of_its_length_is_given_up() {
        let zeros = vec![0; 4 << 20];
        let bomb = through(&Filter::Deflate, &zeros, 1 << 20);
        let mut out = Vec::new();
        let outcome = push(&mut *INFLATE.transform(), &bomb, &mut out);
        assert_eq!(outcome, Err(TOO_MUCH));
        assert!(out.len() < 200 * 1024, "{} bytes", out.len());
        let more = InflateLimits { ratio: Some(2000), burst: None };
        assert!(through(&Filter::Inflate(more), &bomb, 1 << 20) == zeros);
        // A short stretch of it is not.
        let page = [page(), vec![0; 16 * 1024], page()].concat();
        let packed = through(&Filter::Deflate, &page, 1 << 20);
        assert!(through(&INFLATE, &packed, 1 << 20) == page);
    }

    #[test]
    fn blocks_over_the_limit_are_counted_in_a_row() {
        let of = |limits, taken: &[u64]| {
            let mut inflate = Inflate::new(limits);
            let is_allowed = |taken: &&u64| {
                (inflate.taken, inflate.blocks) = (**taken, inflate.blocks + 1);
                inflate.check_ratio().is_ok()
            };
            taken.iter().take_while(is_allowed).count()
        };
        let limits = InflateLimits { ratio: Some(2), burst: Some(2) };
        assert_eq!(of(limits, &[4048, 8096, 12_144]), 2);
        assert_eq!(of(limits, &[4048, 8096, 12_145, 16_192, 20_240, 24_288]), 5);
        assert_eq!(of(InflateLimits::default(), &[40, 80, 120, 160]), 3);
        assert_eq!(of(InflateLimits::default(), &[41, 81, 122, 162]), 4);
    }

    #[test]
    fn compressors_take_no_more_memory_than_is_counted() {
        let all = [Filter::Deflate, INFLATE, Filter::Brotli, Filter::Zstandard];
        for filter in all {
            assert_eq!(filter.transform().memory(), filter.memory(), "{filter:?}");
        }
        let mut zstandard = Zstandard::new();
        zstandard.push(&page(), &mut Vec::new()).unwrap();
        assert!(zstandard.0.sizeof() <= ZSTANDARD_MEMORY);
    }

    #[test]
    fn what_is_not_compressed_cannot_be_inflated() {
        let mut inflate = INFLATE.transform();
        let outcome = inflate.push(b"<p>plain</p>", &mut Vec::new());
        assert_eq!(outcome, Err(NOT_GZIP));
    }
}
