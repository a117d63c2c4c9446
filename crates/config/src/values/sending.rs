//! Codings of content.

/// A content coding (RFC 9110 §8.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ContentCoding {
    /// Brotli (RFC 7932).
    Brotli,
    /// Zstandard (RFC 8878).
    Zstandard,
    /// gzip (RFC 1952).
    Gzip,
}

impl ContentCoding {
    /// All codings.
    pub const ALL: [ContentCoding; 3] =
        [ContentCoding::Brotli, ContentCoding::Zstandard, ContentCoding::Gzip];

    /// The coding's name in HTTP and in the configuration.
    pub fn token(self) -> &'static str {
        match self {
            ContentCoding::Brotli => "br",
            ContentCoding::Zstandard => "zstd",
            ContentCoding::Gzip => "gzip",
        }
    }

    /// The ending of files with this coding.
    pub fn suffix(self) -> &'static str {
        match self {
            ContentCoding::Brotli => ".br",
            ContentCoding::Zstandard => ".zst",
            ContentCoding::Gzip => ".gz",
        }
    }
}
