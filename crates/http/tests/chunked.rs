//! Chunked content against RFC 9112 §7.1.

use howdah_http::{Limits, Refusal, h1::ChunkedDecoder};

/// Decodes `input` in pieces of `piece` bytes. Returns the content, how many bytes were used, and
/// whether the content ended.
fn decode(input: &[u8], piece: usize, limits: &Limits) -> Result<(Vec<u8>, usize, bool), Refusal> {
    decode_with(&mut ChunkedDecoder::new(limits), input, piece)
}

fn decode_with(
    decoder: &mut ChunkedDecoder,
    input: &[u8],
    piece: usize,
) -> Result<(Vec<u8>, usize, bool), Refusal> {
    let (mut content, mut used) = (Vec::new(), 0);
    for piece in input.chunks(piece) {
        let mut rest = piece;
        while !rest.is_empty() && !decoder.is_done() {
            let decoded = decoder.decode(rest)?;
            assert!(decoded.consumed > 0, "no progress");
            content.extend_from_slice(&rest[decoded.data.clone()]);
            rest = &rest[decoded.consumed..];
            used += decoded.consumed;
        }
    }
    Ok((content, used, decoder.is_done()))
}

#[test]
fn good_content_in_pieces_of_every_size() {
    let table = [
        ("0\r\n\r\n", ""),
        ("5\r\nhello\r\n0\r\n\r\n", "hello"),
        ("5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n", "hello world"),
        ("A\r\n0123456789\r\na\r\n0123456789\r\n0\r\n\r\n", "01234567890123456789"),
        ("0005\r\nhello\r\n0000\r\n\r\n", "hello"),
        ("5;a\r\nhello\r\n0\r\n\r\n", "hello"),
        ("5;a=b;c=\"d e\"\r\nhello\r\n0;x\r\n\r\n", "hello"),
        ("5 ;a\r\nhello\r\n0\t;x\r\n\r\n", "hello"),
        ("5\r\nhe\r\no\r\n0\r\n\r\n", "he\r\no"),
        ("1\r\nx\r\n0\r\nChecksum: abc\r\n\r\n", "x"),
        ("1\r\nx\r\n0\r\nA: b\r\nContent-Length: 5\r\n\r\n", "x"),
    ];
    for (input, content) in table {
        for piece in 1..=input.len() {
            let sent = format!("{input}GET / HTTP/1.1\r\n");
            let expected = Ok((content.as_bytes().to_vec(), input.len(), true));
            assert_eq!(
                decode(sent.as_bytes(), piece, &Limits::default()),
                expected,
                "{input:?} by {piece}"
            );
        }
    }
}

#[test]
fn trailer_fields_are_kept_where_they_are_wanted() {
    let (chunks, trailers) = ("1\r\nx\r\n0\r\n", "A: b\r\nChecksum: c \r\n\r\n");
    for piece in 1..=trailers.len() {
        let mut decoder = ChunkedDecoder::new(&Limits::default());
        decoder.keep_trailers();
        assert!(!decoder.is_in_trailers());
        decode_with(&mut decoder, chunks.as_bytes(), piece).unwrap();
        assert!(decoder.is_in_trailers());
        decode_with(&mut decoder, trailers.as_bytes(), piece).unwrap();
        assert!(!decoder.is_in_trailers());
        let fields = decoder.take_trailers().unwrap();
        assert!(fields.iter().eq([(&b"A"[..], &b"b"[..]), (b"Checksum", b"c")]), "{fields:?}");
        assert_eq!(decoder.take_trailers(), None);
    }
    let mut decoder = ChunkedDecoder::new(&Limits::default());
    decoder.keep_trailers();
    decode_with(&mut decoder, b"0\r\n\r\n", 9).unwrap();
    assert_eq!(decoder.take_trailers(), None, "there are none");
}

#[test]
fn content_that_is_cut_short_is_not_done() {
    let input = b"5;a=b\r\nhello\r\n0\r\nX: y\r\n\r\n";
    for end in 0..input.len() {
        let (_, used, done) = decode(&input[..end], 64, &Limits::default()).unwrap();
        assert_eq!((used, done), (end, false));
    }
}

#[test]
fn bad_content() {
    let long = format!("5;{}\r\n", "x".repeat(5000));
    let table = [
        ("\r\n", "without a size"),
        (";a\r\n", "without a size"),
        ("x\r\n", "without a size"),
        ("-1\r\n", "without a size"),
        (" 5\r\n", "without a size"),
        ("0x5\r\n", "not hexadecimal"),
        ("5g\r\n", "not hexadecimal"),
        ("5\nhello", "bare LF"),
        ("5\rhello", "bare CR"),
        ("5\r\r\n", "bare CR"),
        ("5 \r\n", "white space behind"),
        ("5 5\r\n", "white space behind"),
        ("5;a\nhello", "bare LF"),
        ("5;a\rb\r\n", "bare CR"),
        ("5;a\0\r\n", "control byte"),
        ("5;\u{1}\r\n", "control byte"),
        (&long, "out of proportion"),
        ("5\r\nhello!\r\n", "longer than its size"),
        ("5\r\nhello\n0\r\n\r\n", "longer than its size"),
        ("5\r\nhello\r0\r\n\r\n", "longer than its size"),
        ("5\r\nhello0\r\n\r\n", "longer than its size"),
        ("00000000000000001\r\n", "more than 16 digits"),
        ("10000000000000000\r\n", "more than 16 digits"),
        ("0\r\n\n", "bare LF"),
        ("0\r\n\rX\n", "bare CR"),
        ("0\r\n X: y\r\n\r\n", "white space before the first"),
        ("0\r\nX: y\r\n z\r\n\r\n", "folded"),
        ("0\r\nX : y\r\n\r\n", "before the colon"),
        ("0\r\nX\r\n\r\n", "without a colon"),
        ("0\r\nX: y\n\r\n", "bare LF"),
        ("0\r\nX: \0\r\n\r\n", "NUL"),
    ];
    for (input, why) in table {
        for piece in [1, 2, 3, 7, input.len()] {
            let refusal = decode(input.as_bytes(), piece, &Limits::default()).expect_err(input);
            assert_eq!(refusal.status.code(), 400, "{input:?}: {refusal}");
            assert!(refusal.why.contains(why), "{input:?} by {piece}: {refusal}");
        }
    }
}

#[test]
fn the_body_limit_counts_all_chunks_before_they_arrive() {
    let limits = Limits { body: 10, ..Limits::default() };
    assert!(decode(b"5\r\nhello\r\n5\r\nworld\r\n0\r\n\r\n", 64, &limits).unwrap().2);
    for input in ["b\r\n", "5\r\nhello\r\n6\r\n", "7fffffffffffffff\r\n", "ffffffffffffffff\r\n"] {
        assert_eq!(
            decode(input.as_bytes(), 64, &limits).unwrap_err().status.code(),
            413,
            "{input}"
        );
    }
    let unlimited = Limits { body: 0, ..Limits::default() };
    assert!(decode(b"7fffffffffffffff\r\nx", 64, &unlimited).is_ok());
    assert_eq!(decode(b"8000000000000000\r\n", 64, &unlimited).unwrap_err().status.code(), 413);
    let overflow = b"1\r\nx\r\nffffffffffffffff\r\n";
    assert_eq!(decode(overflow, 64, &unlimited).unwrap_err().status.code(), 413);
}

#[test]
fn the_trailer_section_has_the_limits_of_field_lines() {
    let limits = Limits {
        field_line: 10,
        fields_total: 30,
        field_count: 3,
        ..Limits::default()
    };
    let trailer = |values: &[usize]| {
        let lines: String =
            values.iter().map(|length| format!("X: {}\r\n", "v".repeat(*length))).collect();
        format!("0\r\n{lines}\r\n")
    };
    let table: [(&[usize], bool); 6] = [
        (&[7], true),
        (&[8], false),
        (&[1, 1, 1], true),
        (&[0, 0, 0, 0], false),
        (&[7, 7, 1], true),
        (&[7, 7, 2], false),
    ];
    for (values, fits) in table {
        for piece in [1, 64] {
            let outcome = decode(trailer(values).as_bytes(), piece, &limits);
            match outcome {
                Ok((_, _, done)) => assert!(fits && done, "{values:?}"),
                Err(refusal) => {
                    assert!(!fits && refusal.status.code() == 431, "{values:?}: {refusal}")
                }
            }
        }
    }
    let endless = format!("0\r\n{}", "a".repeat(13));
    assert_eq!(decode(endless.as_bytes(), 1, &limits).unwrap_err().status.code(), 431);
}

/// Content pays for extensions: signed uploads of any length pass, extensions without content do
/// not.
#[test]
fn extensions_in_proportion_to_content() {
    let signed = format!("400;chunk-signature={}\r\n{}\r\n", "f".repeat(64), "x".repeat(1024));
    let input = signed.repeat(200) + "0\r\n\r\n";
    assert!(decode(input.as_bytes(), 4096, &Limits::default()).unwrap().2);
    let padded = format!("1;{}\r\nx\r\n", "f".repeat(100)).repeat(50);
    let refusal = decode(padded.as_bytes(), 4096, &Limits::default()).unwrap_err();
    assert!(refusal.why.contains("out of proportion"));
}

#[test]
fn extensions_may_be_4096_bytes_ahead_of_the_content() {
    let ahead = |bytes: usize| format!("1;{}\r\nx\r\n0\r\n\r\n", "f".repeat(bytes - 1));
    assert!(decode(ahead(4096).as_bytes(), 4096, &Limits::default()).unwrap().2);
    let refusal = decode(ahead(4097).as_bytes(), 4096, &Limits::default()).unwrap_err();
    assert!(refusal.why.contains("out of proportion"));
}

#[test]
fn a_chunk_s_content_is_given_out_in_one_piece_with_its_end() {
    let mut decoder = ChunkedDecoder::new(&Limits::default());
    let input = b"5\r\nhello\r\n0\r\n\r\n";
    let first = decoder.decode(input).unwrap();
    assert_eq!((first.consumed, first.data, first.done), (10, 3..8, false));
    let last = decoder.decode(&input[10..]).unwrap();
    assert_eq!((last.consumed, last.data.is_empty(), last.done), (5, true, true));
    assert_eq!(decoder.announced(), 5);
    assert_eq!(decoder.decode(b"more").unwrap().consumed, 0);
}
