//! Content as a client unpacks it.

use std::io::Read;

use crate::wire::Reply;

pub(super) fn unpacked(reply: &Reply) -> String {
    let coding = reply.field("content-encoding").unwrap_or_default();
    let (text, is_whole) = readable(coding, &reply.body);
    assert!(is_whole, "{coding} ends early");
    text
}

/// The text that `packed` holds so far, and whether it is the whole content.
pub(super) fn readable(coding: &str, packed: &[u8]) -> (String, bool) {
    if coding == "zstd" {
        return readable_zstandard(packed);
    }
    let mut reader: Box<dyn Read> = match coding {
        "gzip" => Box::new(flate2::read::GzDecoder::new(packed)),
        "br" => Box::new(brotli_decompressor::Decompressor::new(packed, 4096)),
        other => panic!("no coding {other:?}"),
    };
    let mut text = String::new();
    let mut part = [0; 4096];
    loop {
        match reader.read(&mut part) {
            Ok(0) => return (text, true),
            Ok(count) => text.push_str(std::str::from_utf8(&part[..count]).unwrap()),
            Err(_) => return (text, false),
        }
    }
}

fn readable_zstandard(packed: &[u8]) -> (String, bool) {
    let mut context = zstd_safe::DCtx::create();
    // The client needs no larger window than 128 KiB.
    context.set_parameter(zstd_safe::DParameter::WindowLogMax(17)).unwrap();
    let mut input = zstd_safe::InBuffer::around(packed);
    let mut content = Vec::new();
    loop {
        content.reserve(64 * 1024);
        let end = content.len();
        let mut room = zstd_safe::OutBuffer::around_pos(&mut content, end);
        let left = context.decompress_stream(&mut room, &mut input).unwrap();
        let is_stuck = input.pos == packed.len() && content.len() < content.capacity();
        if left == 0 || is_stuck {
            assert_eq!(input.pos, packed.len(), "one frame");
            return (String::from_utf8(content).unwrap(), left == 0);
        }
    }
}
