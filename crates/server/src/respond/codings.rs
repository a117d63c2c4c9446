//! Content codings that the site's configuration asks for: compressed files beside others
//! (`precompressed`), and compression by the server itself (`compress`).
//!
//! Directives come first: a response whose content they have encoded or filtered is left alone.

use howdah_files::{CodedFile, FileStore, NegotiatedForm, RequestedPart};
use howdah_htaccess::modules::filter::Filter;
use howdah_http::{Fields, ResponseHead, Status, codings, members};
use howdah_site::{ContentCoding, DocumentPath, FileHandle, Site};

use super::not_modified;
use crate::body::{BodySource, FilterRoom, compressor};
use crate::pipeline::{RequestContext, Response, ResponseHeadSource};

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
    /// The part of a file that is asked for; `None` for other content. A part is one of the plain
    /// content.
    pub(crate) asked: Option<&'a RequestedPart>,
}

/// Returns whether the site has content compressed: files, or the output of scripts. The variable
/// `no-gzip` of directives or of the script keeps the server from it, as it keeps mod_deflate.
pub(crate) fn compresses(site: &Site, is_script: bool, environment: Option<&Fields>) -> bool {
    let config = site.config();
    !config.compress.is_empty()
        && (!is_script || config.compress_scripts)
        && !environment.is_some_and(|environment| environment.contains(b"no-gzip"))
}

/// Lets a filter compress the content of `response`, if the site says so, and the client accepts a
/// coding and has memory left for it. The response to a client that has the compressed content
/// already becomes a 304.
pub(crate) fn compress(
    context: &RequestContext<'_, '_>,
    site: &Site,
    facts: CodingFacts<'_>,
    mut response: Response,
) -> Response {
    let length = response.length_hint.or(response.body.length());
    if !response.filters.is_empty() || !is_compressible(response.head.get(), facts, length) {
        return response;
    }
    response.own_head();
    let ResponseHeadSource::Own(head) = &mut response.head else {
        return response;
    };
    vary(head);
    let Some(coding) = preferred(site, facts) else {
        return response;
    };
    let tag = coded_tag(head, coding);
    let etag = tag.as_deref().or(head.fields.value(b"etag"));
    if head.status == Status::OK && not_modified::is_known(context.request, etag) {
        encode(head, coding, tag);
        return not_modified::respond(response);
    }
    let filter = compressor(coding);
    let cache = context.thread.compressed_cache();
    let kept = response.representation.as_ref().and_then(|of| cache.find(of, coding));
    let room = match kept {
        Some(_) => FilterRoom::default(),
        None => {
            let place = context.thread.filter_place(Some(site), context.peer);
            FilterRoom::of(&response, context.request, place)
        }
    };
    if let ResponseHeadSource::Own(head) = &mut response.head
        && room.bytes().is_none_or(|bytes| filter.memory() <= bytes)
    {
        encode(head, coding, tag);
        response.filters.push(filter);
    }
    room.fill(&mut response);
    response
}

/// Returns the coding that the client prefers of those that the site compresses with. `None`: the
/// content is to be sent as it is, as a part of it always is. The variable `no-brotli` leaves
/// Brotli out, as with mod_brotli.
fn preferred(site: &Site, facts: CodingFacts<'_>) -> Option<ContentCoding> {
    let without_brotli = facts.environment.is_some_and(|known| known.contains(b"no-brotli"));
    let is_offered =
        |coding: &&ContentCoding| !(without_brotli && matches!(coding, ContentCoding::Brotli));
    let offered: Vec<ContentCoding> =
        site.config().compress.iter().filter(is_offered).copied().collect();
    let tokens: Vec<&str> = offered.iter().map(|coding| coding.token()).collect();
    let preferred = codings::preferred(facts.fields, &tokens)
        .filter(|_| !facts.asked.is_some_and(RequestedPart::is_part))?;
    offered.get(preferred).copied()
}

/// Changes the head of content to that of the content in `coding`, with that entity tag.
fn encode(head: &mut ResponseHead, coding: ContentCoding, tag: Option<Vec<u8>>) {
    for name in ["Content-Length", "Content-MD5", "Accept-Ranges"] {
        head.fields.remove(name.as_bytes());
    }
    head.fields.set(b"Content-Encoding", coding.token().as_bytes());
    tag.iter().for_each(|tag| head.fields.set(b"ETag", tag));
}

/// Adds Accept-Encoding to Vary.
fn vary(head: &mut ResponseHead) {
    if !varies(head) {
        head.fields.push(b"Vary", b"Accept-Encoding");
    }
}

/// Returns whether Vary says that the response depends on Accept-Encoding.
fn varies(head: &ResponseHead) -> bool {
    let has = |name: &[u8]| name == b"*" || name.eq_ignore_ascii_case(b"accept-encoding");
    head.fields.values(b"vary").flat_map(members).any(has)
}

/// Changes a head like [`compress`], for `howdah explain`. Returns the filter that would compress
/// the content. `None`: the content would be sent as it is.
pub(crate) fn explained(
    site: &Site,
    facts: CodingFacts<'_>,
    head: &mut ResponseHead,
    is_script: bool,
) -> Option<Filter> {
    if !compresses(site, is_script, facts.environment) || !is_compressible(head, facts, None) {
        return None;
    }
    vary(head);
    let coding = preferred(site, facts)?;
    let tag = coded_tag(head, coding);
    encode(head, coding, tag);
    Some(compressor(coding))
}

/// Returns the entity tag of the content in a coding, made of that of the plain content in `head`.
fn coded_tag(head: &ResponseHead, coding: ContentCoding) -> Option<Vec<u8>> {
    weak(head.fields.value(b"etag")?, coding.token())
}

/// The tag of the content in another coding: weak, since another version of the server may compress
/// it differently.
fn weak(tag: &[u8], coding: &str) -> Option<Vec<u8>> {
    let strong = tag.strip_prefix(b"W/").unwrap_or(tag);
    let start = strong.strip_suffix(b"\"").filter(|start| start.len() > 1)?;
    Some([b"W/", start, b"-", coding.as_bytes(), b"\""].concat())
}

/// Returns whether the content is compressed for clients that accept a coding. A 304 for a file has
/// the fields of the 200 (RFC 9110 §15.4.5).
fn is_compressible(head: &ResponseHead, facts: CodingFacts<'_>, length: Option<u64>) -> bool {
    let is_fixed = |member: &[u8]| member.eq_ignore_ascii_case(b"no-transform");
    let is_known = matches!(facts.asked, Some(RequestedPart::NotModified));
    (head.status == Status::OK || is_known)
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
