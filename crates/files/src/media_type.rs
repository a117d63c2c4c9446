//! Content types, by the end of a file's name: those of the system's file, then those of a built-in
//! table.

use crate::system_types;

/// Returns the media type for a file of that name.
///
/// Only the last extension counts, in any case: `page.html.bak` is not a page. The types of
/// [`use_system_types`](crate::use_system_types) come before the built-in ones. An unknown
/// extension gives `application/octet-stream`, as with nginx: without any type (Apache's way) a
/// browser guesses from the bytes, and what a visitor uploaded could become a page of the site.
///
/// No `charset` is added to `text/*`, as neither Apache nor nginx does in Debian: it would overrule
/// the page's own `<meta charset>`, and a site that has been Latin-1 for twenty years would break.
pub fn media_type(name: &[u8]) -> &'static str {
    extension(name).and_then(of_extension).unwrap_or(UNKNOWN)
}

/// The type that goes with an extension, which has no dot. `None` if neither the system nor the
/// built-in table has one.
pub(crate) fn of_extension(extension: &str) -> Option<&'static str> {
    system_types::of_extension(extension).or_else(|| built_in(extension))
}

/// The type of the built-in table.
fn built_in(extension: &str) -> Option<&'static str> {
    if NONE.iter().any(|none| none.eq_ignore_ascii_case(extension)) {
        return None;
    }
    match OVERRIDES.iter().find(|(known, _)| known.eq_ignore_ascii_case(extension)) {
        Some((_, media_type)) => Some(media_type),
        None => mime_guess::from_ext(extension).first_raw(),
    }
}

/// Returns whether a file of that name is PHP's, and must not be sent as text by any mistake of
/// ours: what Debian's Apache runs (`.php`, `.phtml`, `.phar`) or refuses (`.phps`), the names of
/// old versions, and any of them in capitals.
pub(crate) fn is_script(name: &[u8]) -> bool {
    extension(name).is_some_and(is_of_scripts)
}

/// The same by the extension, without its dot.
pub(crate) fn is_of_scripts(extension: &str) -> bool {
    let is_php = extension.len() >= 3 && extension.as_bytes()[..3].eq_ignore_ascii_case(b"php");
    let others = ["phtml", "phar", "pht", "phps"];
    others.iter().any(|other| extension.eq_ignore_ascii_case(other))
        || (is_php && extension.bytes().skip(3).all(|byte| byte.is_ascii_digit()))
}

/// Behind the last dot.
fn extension(name: &[u8]) -> Option<&str> {
    let dot = name.iter().rposition(|&byte| byte == b'.')?;
    std::str::from_utf8(&name[dot + 1..]).ok()
}

const UNKNOWN: &str = "application/octet-stream";

/// Extensions that the table of `mime_guess` has a type for and Debian's `/etc/mime.types` has
/// none, since they are names of codings (AddEncoding), languages (AddLanguage) and handlers first.
const NONE: &[&str] = &["cs", "in", "run", "z"];

/// Extensions for which the table of `mime_guess` says something else than `/etc/mime.types`, to
/// which directives such as ExpiresByType are written, or means something that no web site does.
const OVERRIDES: &[(&str, &str)] = &[
    ("asc", "application/pgp-keys"),
    ("atom", "application/atom+xml"),
    ("c", "text/x-csrc"),
    ("cer", "application/pkix-cert"),
    ("cjs", "text/javascript"),
    ("cpp", "text/x-c++src"),
    ("cur", "image/x-icon"),
    ("deb", "application/vnd.debian.binary-package"),
    ("dmg", "application/x-apple-diskimage"),
    ("dtd", "application/xml-dtd"),
    ("exe", "application/x-msdos-program"),
    ("h", "text/x-chdr"),
    ("ico", "image/vnd.microsoft.icon"),
    ("inc", UNKNOWN), // in a PHP site that is source
    ("iso", "application/x-iso9660-image"),
    ("java", "text/x-java"),
    ("js", "text/javascript"), // RFC 9239
    ("m3u", "audio/mpegurl"),
    ("m3u8", "application/vnd.apple.mpegurl"), // RFC 8216
    ("m4a", "audio/mp4"),
    ("m4v", "video/mp4"),
    ("manifest", "text/cache-manifest"),
    ("map", "application/json"), // source maps
    ("md", "text/markdown"),
    ("mid", "audio/midi"),
    ("midi", "audio/midi"),
    ("mjs", "text/javascript"), // RFC 9239; a browser runs a module under no other type
    ("obj", "model/obj"),
    ("otf", "font/otf"),
    ("p12", "application/pkcs12"),
    ("pem", "application/pem-certificate-chain"),
    ("pl", "text/x-perl"),
    ("pot", "text/plain"), // translations, not slides
    ("psd", "image/vnd.adobe.photoshop"),
    ("py", "text/x-python"),
    ("rar", "application/vnd.rar"),
    ("rb", "application/x-ruby"),
    ("rpm", "application/x-redhat-package-manager"),
    ("rss", "application/rss+xml"), // mime.types has x-rss+xml, for which no site has a directive
    ("sh", "text/x-sh"),
    ("sql", "application/sql"),
    ("srt", "text/plain"),
    ("stl", "model/stl"),
    ("swf", "application/vnd.adobe.flash.movie"),
    ("tgz", "application/x-gtar-compressed"),
    ("ts", "video/mp2t"), // as nginx and Apache's own mime.types have it: streams, not TypeScript
    ("usdz", "model/vnd.usdz+zip"),
    ("vcf", "text/vcard"),
    ("wav", "audio/x-wav"),
    ("webmanifest", "application/manifest+json"),
    ("woff", "font/woff"), // RFC 8081
    ("xml", "application/xml"),
    ("xsl", "application/xslt+xml"),
    ("xslt", "application/xslt+xml"),
    ("zst", "application/zstd"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_common_files() {
        let rows = [
            ("index.html", "text/html"),
            ("INDEX.HTM", "text/html"),
            ("style.css", "text/css"),
            ("app.js", "text/javascript"),
            ("app.mjs", "text/javascript"),
            ("app.min.js.map", "application/json"),
            ("data.json", "application/json"),
            ("a.txt", "text/plain"),
            ("feed.xml", "application/xml"),
            ("feed.rss", "application/rss+xml"),
            ("a.svg", "image/svg+xml"),
            ("a.png", "image/png"),
            ("a.jpg", "image/jpeg"),
            ("a.jpeg", "image/jpeg"),
            ("a.gif", "image/gif"),
            ("a.webp", "image/webp"),
            ("a.avif", "image/avif"),
            ("favicon.ico", "image/vnd.microsoft.icon"),
            ("README.md", "text/markdown"),
            ("a.woff", "font/woff"),
            ("a.woff2", "font/woff2"),
            ("a.ttf", "font/ttf"),
            ("a.otf", "font/otf"),
            ("a.eot", "application/vnd.ms-fontobject"),
            ("a.pdf", "application/pdf"),
            ("a.zip", "application/zip"),
            ("a.tar.gz", "application/gzip"),
            ("a.wasm", "application/wasm"),
            ("a.mp4", "video/mp4"),
            ("a.webm", "video/webm"),
            ("a.m3u8", "application/vnd.apple.mpegurl"),
            ("a.ts", "video/mp2t"),
            ("a.mp3", "audio/mpeg"),
            ("a.m4a", "audio/mp4"),
            ("a.ogg", "audio/ogg"),
            ("a.csv", "text/csv"),
            ("a.ics", "text/calendar"),
            ("a.vtt", "text/vtt"),
            ("site.webmanifest", "application/manifest+json"),
        ];
        let wrong: Vec<_> = rows
            .iter()
            .map(|&(name, expected)| (name, expected, media_type(name.as_bytes())))
            .filter(|(_, expected, found)| expected != found)
            .collect();
        assert!(wrong.is_empty(), "{wrong:?}");
    }

    #[test]
    fn names_without_a_type() {
        for name in [
            "LICENSE",
            "a.",
            "",
            "a.unheard-of",
            "page.html.unheard-of",
            "page.html.cs",
            "page.html.Z",
            "a.\u{fc}",
        ] {
            assert_eq!(media_type(name.as_bytes()), UNKNOWN, "{name}");
        }
        assert_eq!(media_type(b"a.\xff"), UNKNOWN);
    }

    #[test]
    fn scripts() {
        for name in
            ["a.php", "a.PHP", "a.phtml", "a.phar", "a.pht", "a.phps", "a.php3", "a.php82", ".php"]
        {
            assert!(is_script(name.as_bytes()), "{name}");
        }
        for name in ["a.php.bak", "a.php~", "php", "a.phpx", "a.txt", "a.html", "a.php."] {
            assert!(!is_script(name.as_bytes()), "{name}");
        }
    }
}
