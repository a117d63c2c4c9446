//! Looking up a URI of the site for `apache_lookup_uri()`, as far as a worker knows: by the
//! document root alone. Directives and the site's settings, which the front obeys, decide about the
//! file that answers for a folder, and are not asked otherwise.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use howdah_ipc::control::PoolSettings;

use crate::listed::{ListedEntry, ListedValue};

/// The request of the script that asks.
#[derive(Debug, Clone, Copy)]
pub struct AskingRequest<'r> {
    /// The document root.
    pub root: &'r [u8],
    /// Path and query as the client sent them.
    pub uri: &'r [u8],
    pub method: &'r [u8],
    pub protocol: &'r [u8],
    /// Time of the request in seconds since 1970.
    pub time: u64,
    pub slashes: EncodedSlashMeaning,
}

/// The meaning of `%2F` in a path of the site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EncodedSlashMeaning {
    /// There is no such path.
    Refused,
    /// Three bytes of a name.
    Kept,
    /// A slash.
    Decoded,
}

impl EncodedSlashMeaning {
    /// Returns what the settings of a pool say.
    pub fn of(settings: &PoolSettings) -> EncodedSlashMeaning {
        match (settings.allows_encoded_slashes, settings.decodes_encoded_slashes) {
            (false, _) => EncodedSlashMeaning::Refused,
            (true, false) => EncodedSlashMeaning::Kept,
            (true, true) => EncodedSlashMeaning::Decoded,
        }
    }
}

/// The file that answers for a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderIndex {
    /// Its path, as the worker sees it.
    pub path: Vec<u8>,
    /// Whether PHP makes the answer.
    pub is_script: bool,
}

/// Returns the properties of what `uri` leads to, under the names that Apache's module gives them.
/// `index` finds the file that answers for a folder. None if `uri` cannot be asked for, and for a
/// folder without its slash, which is redirected.
pub fn properties(
    asker: &AskingRequest<'_>,
    uri: &[u8],
    index: impl FnOnce() -> Option<FolderIndex>,
) -> Vec<ListedEntry<'static>> {
    let Some(mut target) = Target::of(asker.uri, uri, asker.slashes) else {
        return Vec::new();
    };
    let exists = |path: &[u8]| Path::new(OsStr::from_bytes(path)).try_exists().unwrap_or(false);
    let (mut filename, path_info) = split(asker.root, &target.path, exists);
    let mut is_folder = Path::new(OsStr::from_bytes(&filename)).is_dir();
    if is_folder && !filename.ends_with(b"/") {
        return Vec::new();
    }
    let mut is_script = false;
    if is_folder
        && let Some(found) = index()
        && let Some(below) = below(asker.root, &found.path)
    {
        target.path = below.to_vec();
        filename = found.path;
        (is_folder, is_script) = (false, found.is_script);
    }
    let number = |name: &'static str, number| ListedEntry {
        name: name.as_bytes(),
        value: ListedValue::Number(number),
    };
    let text = |name: &'static str, text: Vec<u8>| ListedEntry {
        name: name.as_bytes(),
        value: ListedValue::Text(Cow::Owned(text)),
    };
    let request_line = [asker.method, b" ", asker.uri, b" ", asker.protocol].concat();
    let mut listed = vec![
        number("status", 200),
        text("the_request", request_line),
        text("method", b"GET".to_vec()),
        number("mtime", 0),
        number("clength", 0),
        number("chunked", 0),
    ];
    if is_folder {
        listed.push(text("content_type", FOLDER.to_vec()));
        listed.push(text("handler", FOLDER.to_vec()));
    }
    if is_script {
        listed.push(text("handler", SCRIPT.to_vec()));
    }
    listed.extend([
        number("no_cache", 0),
        number("no_local_copy", 1),
        text("unparsed_uri", target.unparsed),
        text("uri", target.path),
        text("filename", filename),
        text("path_info", path_info),
    ]);
    listed.extend(target.query.map(|query| text("args", query)));
    listed.extend([
        number("allowed", 0),
        number("sent_bodyct", 0),
        number("bytes_sent", 0),
        number("request_time", asker.time),
    ]);
    listed
}

/// Returns `uri`, from the site's root, as the target of a request. A relative one starts at the
/// folder of the `present` one. `None` for one that no client may ask for. The server, which is
/// asked for the target, decides about `%2F`.
pub fn joined(present: &[u8], uri: &[u8]) -> Option<Vec<u8>> {
    let target = Target::of(present, uri, EncodedSlashMeaning::Kept)?.unparsed;
    let mut out = Vec::with_capacity(target.len());
    for byte in target {
        match byte {
            b'\0'..=b' ' | b'#' | 0x7F => out.extend_from_slice(format!("%{byte:02X}").as_bytes()),
            byte => out.push(byte),
        }
    }
    Some(out)
}

/// The type and the handler of folders.
const FOLDER: &[u8] = b"httpd/unix-directory";
/// The handler of scripts.
const SCRIPT: &[u8] = b"application/x-httpd-php";

/// Returns the part of `path` below the document root, with its slash. `None`: it is elsewhere.
fn below<'p>(root: &[u8], path: &'p [u8]) -> Option<&'p [u8]> {
    let root = root.strip_suffix(b"/").unwrap_or(root);
    path.strip_prefix(root).filter(|below| below.starts_with(b"/"))
}

/// The parts of a URI of this site.
#[derive(Debug, PartialEq, Eq)]
struct Target {
    /// The whole, from the site's root.
    unparsed: Vec<u8>,
    /// Decoded, without `.` and `..`.
    path: Vec<u8>,
    query: Option<Vec<u8>>,
}

impl Target {
    /// Takes a URI apart. A relative one starts at the folder of the `present` one. `None` for one
    /// that no client may ask for.
    fn of(present: &[u8], uri: &[u8], slashes: EncodedSlashMeaning) -> Option<Target> {
        let mut unparsed = Vec::new();
        if !uri.starts_with(b"/") {
            let path = present.split(|byte| *byte == b'?').next()?;
            unparsed.extend_from_slice(&path[..path.iter().rposition(|byte| *byte == b'/')? + 1]);
        }
        unparsed.extend_from_slice(uri);
        let mut parts = unparsed.splitn(2, |byte| *byte == b'?');
        let path = without_dots(&decoded(parts.next()?, slashes)?);
        let query = parts.next().map(<[u8]>::to_vec);
        Some(Target { path, query, unparsed })
    }
}

/// Decodes `%XX`. `None` for an escape that is none, for an encoded NUL, and for an encoded `/`
/// where it is refused.
fn decoded(text: &[u8], slashes: EncodedSlashMeaning) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'%' {
            out.push(*first);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2)?;
        let digits = str::from_utf8(digits).ok().filter(|digits| !digits.starts_with('+'))?;
        let byte = u8::from_str_radix(digits, 16).ok()?;
        match (byte, slashes) {
            (0, _) | (b'/', EncodedSlashMeaning::Refused) => return None,
            (b'/', EncodedSlashMeaning::Kept) => {
                out.push(b'%');
                out.extend_from_slice(digits.as_bytes());
            }
            _ => out.push(byte),
        }
        rest = after;
    }
    Some(out)
}

/// Obeys `.` and `..`, and joins slashes. The result starts with a slash and stays below the root.
fn without_dots(path: &[u8]) -> Vec<u8> {
    let mut kept: Vec<&[u8]> = Vec::new();
    let mut is_folder = true;
    for part in path.split(|byte| *byte == b'/') {
        is_folder = matches!(part, b"" | b"." | b"..");
        match part {
            b"" | b"." => {}
            b".." => drop(kept.pop()),
            name => kept.push(name),
        }
    }
    let mut out = Vec::with_capacity(path.len() + 1);
    for part in &kept {
        out.push(b'/');
        out.extend_from_slice(part);
    }
    if is_folder || kept.is_empty() {
        out.push(b'/');
    }
    out
}

/// Divides a path into the file that it names and the rest behind that file. A file that is missing
/// has the first missing name as its last, as in Apache.
fn split(root: &[u8], path: &[u8], exists: impl Fn(&[u8]) -> bool) -> (Vec<u8>, Vec<u8>) {
    let root = root.strip_suffix(b"/").unwrap_or(root);
    let whole = [root, path].concat();
    let ends = (root.len() + 1..whole.len()).filter(|at| whole[*at] == b'/');
    for end in ends.chain([whole.len()]) {
        // A file with a slash behind it does not exist.
        let below = whole.get(..=end).unwrap_or(&whole);
        if !exists(below) {
            return (whole[..end].to_vec(), whole[end..].to_vec());
        }
    }
    (whole, Vec::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_is_taken_apart() {
        let target = |unparsed: &str, path: &str, query: Option<&str>| {
            Some(Target {
                unparsed: unparsed.into(),
                path: path.into(),
                query: query.map(Into::into),
            })
        };
        let cases = [
            ("/a.php", target("/a.php", "/a.php", None)),
            ("b%20c?x=%2F", target("/in/b%20c?x=%2F", "/in/b c", Some("x=%2F"))),
            ("../up/./x//y/", target("/in/../up/./x//y/", "/up/x/y/", None)),
            ("/../../x/..", target("/../../x/..", "/", None)),
            ("", target("/in/", "/in/", None)),
            ("?q", target("/in/?q", "/in/", Some("q"))),
            ("/a%2fb", None),
            ("/a%00", None),
            ("/a%+1", None),
        ];
        let of =
            |uri: &str, slashes| Target::of(b"/in/page.php?/not/this", uri.as_bytes(), slashes);
        for (uri, expected) in cases {
            assert_eq!(of(uri, EncodedSlashMeaning::Refused), expected, "{uri}");
        }
        let cases = [
            ("/a%2fb%20c", target("/a%2fb%20c", "/a%2fb c", None), "/a/b c"),
            ("/x/..%2F..%2F", target("/x/..%2F..%2F", "/x/..%2F..%2F", None), "/"),
        ];
        for (uri, kept, decoded) in cases {
            assert_eq!(of(uri, EncodedSlashMeaning::Kept), kept, "{uri}");
            let path = of(uri, EncodedSlashMeaning::Decoded).unwrap().path;
            assert_eq!(path, decoded.as_bytes(), "{uri}");
        }
        assert_eq!(joined(b"/in/page.php", b"/a%2Fb").unwrap(), b"/a%2Fb");
    }

    #[test]
    fn the_file_ends_where_the_disk_does() {
        let there: [&[u8]; 5] = [b"/r/", b"/r/in/", b"/r/in/a.php", b"/r/in", b"/r/x.php"];
        let cases = [
            ("/in/a.php", "/r/in/a.php", ""),
            ("/x.php/more/of", "/r/x.php", "/more/of"),
            ("/in/", "/r/in/", ""),
            ("/none/at/all", "/r/none", "/at/all"),
            ("/in/none", "/r/in/none", ""),
            ("/", "/r/", ""),
        ];
        for (path, file, rest) in cases {
            let found = split(b"/r", path.as_bytes(), |path| there.contains(&path));
            assert_eq!(found, (file.into(), rest.into()), "{path}");
        }
    }
}
