//! Sizes and times of the codings: `cargo bench -p howdah-htaccess --bench codings -- FILE…`.
//!
//! Each file passes each coding in pieces of 16 KiB, as content passes the server's filters. The
//! shortest of many rounds is the time of the code; the rest is the machine.

use std::path::Path;
use std::time::{Duration, Instant};

use howdah_htaccess::modules::filter::{Filter, TransformError};

const CODINGS: [(&str, Filter); 3] =
    [("gzip", Filter::Deflate), ("Brotli", Filter::Brotli), ("Zstandard", Filter::Zstandard)];
/// Bytes that the filters get at once.
const PIECE: usize = 16 * 1024;
const ROUNDS: usize = 200;

fn main() {
    let files = std::env::args().skip(1).filter(|argument| argument != "--bench");
    println!("| content | bytes | {} |", CODINGS.map(|(name, _)| name).join(" | "));
    println!("|---|---:|{}", "---:|".repeat(CODINGS.len()));
    for file in files {
        let content = std::fs::read(&file).unwrap_or_else(|error| panic!("{file}: {error}"));
        let results = CODINGS.each_ref().map(|(_, filter)| {
            let (length, time) = measured(filter, &content);
            format!("{length}, {} µs", time.as_micros())
        });
        let name = Path::new(&file).file_name().unwrap_or_default().to_string_lossy();
        println!("| {name} | {} | {} |", content.len(), results.join(" | "));
    }
}

/// Returns the length of the compressed content, and the shortest time.
fn measured(filter: &Filter, content: &[u8]) -> (usize, Duration) {
    let mut length = 0;
    let times = (0..ROUNDS).map(|_| {
        let began = Instant::now();
        length = compressed(filter, content).expect("nothing to fail on").len();
        began.elapsed()
    });
    let shortest = times.min().unwrap_or_default();
    (length, shortest)
}

fn compressed(filter: &Filter, content: &[u8]) -> Result<Vec<u8>, TransformError> {
    let mut transform = filter.transform();
    let mut out = Vec::new();
    for piece in content.chunks(PIECE) {
        transform.push(piece, &mut out)?;
    }
    transform.finish(&mut out)?;
    Ok(out)
}
