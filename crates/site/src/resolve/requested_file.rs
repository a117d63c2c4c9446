//! The parts of a resolution that logs tell.

use howdah_config::EncodedSlashes;
use howdah_htaccess::ClientRequest;

use super::methods::without_path;
use crate::documents::SiteHost;
use crate::normal::normalize;
use crate::path::Scratch;
use crate::phases::RequestEvaluation;
use crate::sites::Site;

/// Returns the file that the request of `client` is for, which may be missing: the path in the
/// document root up to the first name that is missing, as Apache's `r->filename`. Empty where the
/// URL's path has no meaning. For a request whose resolution has neither a path nor a
/// [`RuledRequest`](crate::RuledRequest): it is resolved once more.
pub fn requested_file(
    site: &Site,
    client: &ClientRequest<'_>,
    host: &mut impl SiteHost,
) -> Vec<u8> {
    if without_path(client.request()).is_some() {
        return Vec::new();
    }
    let mut scratch = Scratch::default();
    let resolved = RequestEvaluation::new(site, *client, host, &mut scratch).run(None, None);
    resolved.ruled.map(|ruled| ruled.state.filename.clone()).unwrap_or_default()
}

/// Returns the path of a URL as Apache's log has it: decoded and normal, with its slash at the end.
/// A path that has no normal form is returned as it was sent.
pub fn logged_path(raw: &[u8], slashes: EncodedSlashes) -> Vec<u8> {
    // A slash that is refused is decoded here.
    let slashes = match slashes {
        EncodedSlashes::Keep => EncodedSlashes::Keep,
        EncodedSlashes::Refuse | EncodedSlashes::Decode => EncodedSlashes::Decode,
    };
    let mut path = vec![b'/'];
    match normalize(raw, slashes, &mut path) {
        Err(_) => raw.to_vec(),
        Ok(shape) => {
            if shape.slash && path.len() > 1 {
                path.push(b'/');
            }
            path
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logged_paths_are_decoded_and_normal() {
        for (raw, expected) in [
            ("/", "/"),
            ("/a%20b/../c//d/", "/c/d/"),
            ("/a%2Fb", "/a/b"),
            ("/a%0a", "/a\n"),
            ("/..", "/.."),
            ("/a%zz", "/a%zz"),
            ("*", "*"),
            ("", ""),
        ] {
            let found = logged_path(raw.as_bytes(), EncodedSlashes::Refuse);
            assert_eq!(String::from_utf8(found).unwrap(), expected, "{raw}");
        }
        assert_eq!(logged_path(b"/a%2Fb", EncodedSlashes::Keep), b"/a%2Fb");
    }
}
