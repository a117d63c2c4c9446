//! Content codings that the site's configuration asks for: compressed files beside others
//! (`precompressed`), and compression by the server itself (`compress`).
//!
//! Directives come first: a response whose content they have encoded or filtered is left alone.

use howdah_files::{CodedFile, FileStore, NegotiatedForm};
use howdah_htaccess::modules::filter::Filter;
use howdah_http::{Fields, Request, ResponseHead, Status, codings, members};
use howdah_site::{ContentCoding, DocumentPath, FileHandle, Site};

use super::not_modified;
use crate::body::BodySource;
use crate::pipeline::{Head, Response};

/// Returns the file to send in place of the one at `path`, and the form in which it is sent.
/// `fields` are those of the request.
pub(crate) fn select(
    store: &mut FileStore,
    site: &Site,
    (path, file): (DocumentPath, FileHandle),
    fields: &Fields,
) -> (DocumentPath, FileHandle, NegotiatedForm) {
    let wanted = &site.config().precompressed;
    let mut found = store.variants(&path, file, wanted, |coding| site.sibling(&path, coding));
    if found.is_empty() {
        return (path, file, NegotiatedForm::Only);
    }
    let names: Vec<&str> = found.iter().map(|variant| variant.coding.token()).collect();
    match codings::preferred(fields, &names) {
        None => (path, file, NegotiatedForm::Varying),
        Some(index) => {
            let CodedFile { coding, path, file } = found.swap_remove(index);
            (path, file, NegotiatedForm::Coded(coding))
        }
    }
}

/// The part of a request that the choice of a coding depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CodingFacts<'a> {
    /// The request's fields as directives have left them.
    pub(crate) fields: &'a Fields,
    /// The variables that directives and the script have set; `None` for none.
    pub(crate) environment: Option<&'a Fields>,
}

/// Returns whether the site has content compressed: files, or the output of scripts. The variable
/// `no-gzip` of directives or of the script keeps the server from it, as it keeps mod_deflate.
pub(crate) fn compresses(site: &Site, is_script: bool, environment: Option<&Fields>) -> bool {
    let config = site.config();
    !config.compress.is_empty()
        && (!is_script || config.compress_scripts)
        && !environment.is_some_and(|environment| environment.contains(b"no-gzip"))
}

/// Has the content of `response` compressed, if the site says so and the client accepts a coding.
/// The response to a client that has the compressed content already becomes a 304.
pub(crate) fn compress(
    site: &Site,
    request: &Request,
    facts: CodingFacts<'_>,
    mut response: Response,
) -> Response {
    let length = response.length_hint.or(response.body.length());
    if !response.filters.is_empty() || !is_compressible(response.head.get(), length) {
        return response;
    }
    let mut head = match response.head {
        Head::Own(head) => head,
        shared => shared.get().clone(),
    };
    response.filters.extend(encode(site, facts, &mut head));
    let is_known = !response.filters.is_empty() && not_modified::is_known(request, &head);
    let response = Response { head: Head::Own(head), ..response };
    if is_known {
        not_modified::respond(response)
    } else {
        response
    }
}

/// Gives the head of a 304 or a 206 the fields that the 200 of the same file would have because its
/// content may be compressed (RFC 9110 §15.4.5): Vary, and with a 304 the entity tag. `whole` is
/// the head of the plain 200, for `length` bytes.
pub(crate) fn complete(
    site: &Site,
    facts: CodingFacts<'_>,
    mut whole: ResponseHead,
    length: u64,
    head: &mut ResponseHead,
) {
    if varies(head) || !is_compressible(&whole, Some(length)) {
        return;
    }
    head.fields.push(b"Vary", b"Accept-Encoding");
    whole.fields.remove(b"etag");
    let tag = head.fields.value(b"etag");
    tag.into_iter().for_each(|tag| whole.fields.push(b"ETag", tag));
    encode(site, facts, &mut whole);
    // A client that has named the tag of its copy gets that tag.
    if head.status == Status::NOT_MODIFIED
        && !facts.fields.contains(b"if-none-match")
        && let Some(tag) = whole.fields.value(b"etag")
    {
        head.fields.set(b"ETag", tag);
    }
}

/// Changes the head of compressible content to that of the coding which the client prefers. Returns
/// the filter that makes the coding; `None` where the content is sent as it is. The variable
/// `no-brotli` leaves Brotli out, as with mod_brotli.
fn encode(site: &Site, facts: CodingFacts<'_>, head: &mut ResponseHead) -> Option<Filter> {
    if !varies(head) {
        head.fields.push(b"Vary", b"Accept-Encoding");
    }
    let without_brotli = facts.environment.is_some_and(|known| known.contains(b"no-brotli"));
    let is_offered =
        |coding: &&ContentCoding| !(without_brotli && matches!(coding, ContentCoding::Brotli));
    let offered: Vec<ContentCoding> =
        site.config().compress.iter().filter(is_offered).copied().collect();
    let tokens: Vec<&str> = offered.iter().map(|coding| coding.token()).collect();
    let coding = *offered.get(codings::preferred(facts.fields, &tokens)?)?;
    let filter = match coding {
        ContentCoding::Brotli => Filter::Brotli,
        ContentCoding::Gzip => Filter::Deflate,
        ContentCoding::Zstandard => Filter::Zstandard,
    };
    for name in ["Content-Length", "Content-MD5", "Accept-Ranges"] {
        head.fields.remove(name.as_bytes());
    }
    head.fields.set(b"Content-Encoding", coding.token().as_bytes());
    if let Some(tag) = head.fields.value(b"etag").and_then(|tag| weak(tag, coding.token())) {
        head.fields.set(b"ETag", &tag);
    }
    Some(filter)
}

/// Returns whether Vary says that the response depends on Accept-Encoding.
fn varies(head: &ResponseHead) -> bool {
    let has = |name: &[u8]| name == b"*" || name.eq_ignore_ascii_case(b"accept-encoding");
    head.fields.values(b"vary").flat_map(members).any(has)
}

/// Describes the effect of [`compress`] on a head, for `howdah explain`.
pub(crate) fn explained(
    site: &Site,
    facts: CodingFacts<'_>,
    head: &mut ResponseHead,
    is_script: bool,
) -> Option<Filter> {
    let applies = compresses(site, is_script, facts.environment) && is_compressible(head, None);
    applies.then(|| encode(site, facts, head))?
}

/// The tag of the content in another coding: weak, since another version of the server may compress
/// it differently.
fn weak(tag: &[u8], coding: &str) -> Option<Vec<u8>> {
    let strong = tag.strip_prefix(b"W/").unwrap_or(tag);
    let start = strong.strip_suffix(b"\"").filter(|start| start.len() > 1)?;
    Some([b"W/", start, b"-", coding.as_bytes(), b"\""].concat())
}

fn is_compressible(head: &ResponseHead, length: Option<u64>) -> bool {
    let is_fixed = |member: &[u8]| member.eq_ignore_ascii_case(b"no-transform");
    head.status == Status::OK
        && !head.fields.values(b"cache-control").flat_map(members).any(is_fixed)
        && !head.fields.contains(b"content-encoding")
        && !head.fields.contains(b"content-range")
        && length.is_none_or(|length| length >= SHORTEST)
        && head.fields.value(b"content-type").is_some_and(is_text)
}

/// Returns whether content of that media type becomes much shorter. Events are no such type: their
/// reader waits for each of them.
fn is_text(media_type: &[u8]) -> bool {
    let end = media_type.iter().position(|byte| b"; \t".contains(byte));
    let kind = media_type[..end.unwrap_or(media_type.len())].to_ascii_lowercase();
    let is_listed = TEXTS.iter().any(|text| text.as_bytes() == kind);
    let is_text = kind.starts_with(b"text/") && kind != b"text/event-stream";
    is_text || is_listed || kind.ends_with(b"+json") || kind.ends_with(b"+xml")
}

/// Media types that are text, or become as much shorter as text.
const TEXTS: [&str; 14] = [
    "application/javascript",
    "application/json",
    "application/ld+json",
    "application/pgp-keys",
    "application/sql",
    "application/vnd.ms-fontobject",
    "application/wasm",
    "application/x-httpd-php",
    "application/x-javascript",
    "application/xml",
    "font/otf",
    "font/ttf",
    "image/bmp",
    "image/vnd.microsoft.icon",
];

/// Bytes of the shortest content that is compressed. Shorter content fits into the same packet
/// either way.
pub(super) const SHORTEST: u64 = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_compressed_and_pictures_are_not() {
        for text in
            ["text/html; charset=utf-8", "TEXT/CSS", "image/svg+xml", "application/manifest+json"]
        {
            assert!(is_text(text.as_bytes()), "{text}");
        }
        for other in ["image/png", "font/woff2", "text/event-stream", "application/zip", ""] {
            assert!(!is_text(other.as_bytes()), "{other}");
        }
    }

    #[test]
    fn tags_of_compressed_content_are_weak() {
        for (tag, expected) in [
            ("\"a\"", Some("W/\"a-br\"")),
            ("W/\"a\"", Some("W/\"a-br\"")),
            ("a", None),
            ("\"", None),
        ] {
            assert_eq!(weak(tag.as_bytes(), "br"), expected.map(|tag| tag.as_bytes().to_vec()));
        }
    }
}
