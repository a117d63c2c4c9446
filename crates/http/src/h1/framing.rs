//! The framing of a request: where it ends, and whether another follows (RFC 9112 §6, §9.3).

use crate::{
    Content, Limits, Refusal, Request, Status, Version, authority::check_authority, members, scan,
};

/// The fields that matter to the connection itself, noted while the head is read.
#[derive(Default)]
pub(super) struct FramingFields {
    /// Index of the Host line.
    host: Option<usize>,
    content_length: Option<u64>,
    coding: Option<TransferCodings>,
    close: bool,
    keep_alive: bool,
    expects: Option<Expectation>,
}

/// The transfer codings, over all lines (RFC 9112 §6.1).
struct TransferCodings {
    /// The last one so far is `chunked`.
    ends_chunked: bool,
    /// Some other than `chunked` has been named.
    others: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Expectation {
    Continue,
    Unknown,
}

impl FramingFields {
    /// Looks at one line; `index` is its place among the lines.
    ///
    /// # Errors
    /// The line breaks the rules of framing, or is there twice (400).
    #[inline(always)]
    pub(super) fn note(
        &mut self,
        name: &[u8],
        value: &[u8],
        index: usize,
        version: Version,
    ) -> Result<(), Refusal> {
        match name.len() {
            4 if name.eq_ignore_ascii_case(b"host") => self.note_host(index),
            6 if name.eq_ignore_ascii_case(b"expect") => {
                self.note_expectations(value);
                Ok(())
            }
            10 if name.eq_ignore_ascii_case(b"connection") => {
                self.note_connection(value);
                Ok(())
            }
            14 if name.eq_ignore_ascii_case(b"content-length") => self.note_length(value),
            17 if name.eq_ignore_ascii_case(b"transfer-encoding") => {
                self.note_codings(value, version)
            }
            _ => Ok(()),
        }
    }

    /// Checks the framing of the whole head. Returns whether the connection persists and whether
    /// the client waits for 100 Continue.
    ///
    /// # Errors
    /// The lines contradict each other or Host is missing (400), the content is too long (413), or
    /// its transfer coding or the expectation is not known (501, 417).
    #[inline]
    pub(super) fn conclude(
        self,
        limits: &Limits,
        into: &mut Request,
    ) -> Result<(bool, bool), Refusal> {
        self.conclude_host(into)?;
        into.content = self.content(limits)?;
        let expect_continue = match self.expects {
            _ if into.version == Version::Http10 => false, // RFC 9110 §10.1.1
            Some(Expectation::Unknown) => return Err(EXPECTATION),
            expects => expects.is_some() && into.content != Content::None,
        };
        let persistent = !self.close && (into.version != Version::Http10 || self.keep_alive);
        Ok((persistent, expect_continue))
    }

    #[inline]
    fn note_host(&mut self, index: usize) -> Result<(), Refusal> {
        match self.host.replace(index) {
            None => Ok(()),
            Some(_) => Err(Refusal::bad("more than one Host")), // RFC 9112 §3.2
        }
    }

    /// RFC 9112 §9.1. Other options name fields that only a proxy would have to drop.
    fn note_connection(&mut self, value: &[u8]) {
        for option in members(value) {
            self.close |= option.eq_ignore_ascii_case(b"close");
            self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
        }
    }

    fn note_expectations(&mut self, value: &[u8]) {
        for expectation in members(value) {
            let known = expectation.eq_ignore_ascii_case(b"100-continue");
            if !known {
                self.expects = Some(Expectation::Unknown);
            } else if self.expects.is_none() {
                self.expects = Some(Expectation::Continue);
            }
        }
    }

    /// RFC 9112 §6.3 lets a recipient repair identical duplicates; refusing them leaves no room to
    /// disagree.
    fn note_length(&mut self, value: &[u8]) -> Result<(), Refusal> {
        let length = scan::decimal(value).ok_or_else(|| bad_length(value))?;
        if self.content_length.replace(length).is_some() {
            return Err(Refusal::bad("more than one Content-Length"));
        }
        if self.coding.is_some() {
            return Err(BOTH);
        }
        Ok(())
    }

    fn note_codings(&mut self, value: &[u8], version: Version) -> Result<(), Refusal> {
        if version == Version::Http10 {
            return Err(Refusal::bad("Transfer-Encoding in HTTP/1.0")); // RFC 9112 §6.1
        }
        if self.content_length.is_some() {
            return Err(BOTH);
        }
        let coding = self
            .coding
            .get_or_insert(TransferCodings { ends_chunked: false, others: false });
        for member in value.split(|&byte| byte == b',').map(scan::trim) {
            if member.is_empty() {
                return Err(Refusal::bad("empty member in Transfer-Encoding"));
            }
            if coding.ends_chunked {
                return Err(Refusal::bad("transfer coding behind chunked"));
            }
            coding.ends_chunked = member.eq_ignore_ascii_case(b"chunked");
            coding.others |= !coding.ends_chunked;
        }
        Ok(())
    }

    /// RFC 9112 §6.3, for a request.
    #[inline]
    fn content(&self, limits: &Limits) -> Result<Content, Refusal> {
        match (&self.coding, self.content_length) {
            (None, None) => Ok(Content::None),
            (None, Some(length)) if limits.body_exceeded_by(length) => Err(Refusal {
                status: Status::CONTENT_TOO_LARGE,
                why: "Content-Length over the body limit, `body`",
            }),
            (None, Some(length)) => Ok(Content::Length(length)),
            (Some(TransferCodings { ends_chunked: false, .. }), _) => {
                Err(Refusal::bad("Transfer-Encoding that does not end in chunked"))
            }
            (Some(TransferCodings { others: true, .. }), _) => Err(Refusal {
                status: Status::NOT_IMPLEMENTED,
                why: "transfer coding other than chunked",
            }),
            (Some(_), _) => Ok(Content::Unknown),
        }
    }

    /// RFC 9112 §3.2, §3.3: every HTTP/1.1 request has one good Host, even where the target's own
    /// authority wins.
    #[inline]
    fn conclude_host(&self, into: &mut Request) -> Result<(), Refusal> {
        let Request { target, authority, fields, .. } = into;
        let host = self.host.and_then(|index| fields.value_at(index));
        match host {
            None if into.version == Version::Http10 => Ok(()),
            None => Err(Refusal::bad("HTTP/1.1 without Host")),
            Some([])
                if into.version == Version::Http10 || !authority.is_empty() || target == b"*" =>
            {
                Ok(())
            }
            Some(host) => {
                let kept = authority.len();
                check_authority(host, authority).map_err(Refusal::bad)?;
                if kept > 0 {
                    authority.truncate(kept);
                }
                Ok(())
            }
        }
    }
}

#[cold]
fn bad_length(value: &[u8]) -> Refusal {
    let digits = |part: &[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_digit);
    Refusal::bad(match value {
        [] => "empty Content-Length",
        _ if digits(value) => "Content-Length beyond 64 bits",
        _ if value.contains(&b',') && members(value).all(digits) => {
            "list of numbers in Content-Length"
        }
        _ => "Content-Length that is not a number",
    })
}

const BOTH: Refusal = Refusal::bad("both Content-Length and Transfer-Encoding");

const EXPECTATION: Refusal = Refusal {
    status: Status::EXPECTATION_FAILED,
    why: "expectation other than 100-continue",
};
