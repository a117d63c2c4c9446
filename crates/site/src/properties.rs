//! Properties of any input, which the fuzz target asserts, and a short run of them with every test.

use std::net::SocketAddr;

use howdah_config::{Config, HostPattern, RootTemplate, SiteSettings, TryStep};
use howdah_htaccess::ClientRequest;
use howdah_http::{Method, Request};

use crate::DirectiveHost;
use crate::documents::{PathKind, SiteHost};
use crate::path::{DocumentPath, Scratch};
use crate::resolution::Resolution;
use crate::resolve::resolve;
use crate::sites::Sites;

mod ruled;
#[cfg(test)]
mod smoke;

pub use ruled::directives;

/// `data` is a host, a target and a disk's answers, with a line feed between each.
///
/// Nothing that the disk is asked about and nothing that is accepted leaves its root or holds a
/// NUL, `.`, `..` or an empty component; a Location is printable and starts with one slash; a file
/// that is sent is not called like a PHP source; and a used buffer gives the same resolution as a
/// fresh one.
pub fn resolution(data: &[u8]) {
    let mut parts = data.splitn(3, |&byte| byte == b'\n');
    let mut part = || parts.next().unwrap_or_default();
    let (host, target, answers) = (part(), part(), part());
    let request = Request {
        method: Method::Get,
        authority: host.to_vec(),
        target: target.to_vec(),
        ..Request::default()
    };
    let end = SocketAddr::from(([127, 0, 0, 1], 80));
    let client = ClientRequest::new(&request, end, end, 0);
    let mut scratch = Scratch::default();
    for sites in [one_root(), root_per_host()] {
        let Some(site) = sites.find(request.host()) else {
            continue;
        };
        let resolved = |scratch: &mut Scratch| {
            let mut outside = Answers { answers, asked: 0 };
            resolve(site, &client, &mut outside, scratch).resolution
        };
        let used = resolved(&mut scratch);
        let fresh = resolved(&mut Scratch::default());
        assert_eq!(used, fresh);
        check(&used);
        match used {
            Resolution::File { path, .. } | Resolution::Directory { path } => scratch.reuse(path),
            Resolution::Php(script) => scratch.reuse(script.into_path()),
            _ => {}
        }
    }
}

fn one_root() -> Sites {
    compile(SiteSettings {
        root: RootTemplate::Fixed("/srv/www".into()),
        try_files: vec![
            TryStep::Uri,
            TryStep::UriSuffix(".html".to_owned()),
            TryStep::UriDirectory,
            TryStep::Path("/index.php".to_owned()),
        ],
        ..SiteSettings::default()
    })
}

fn root_per_host() -> Sites {
    compile(SiteSettings {
        hosts: vec![HostPattern::Wildcard("example".to_owned()), HostPattern::Default],
        root: RootTemplate::PerHost {
            before: "/srv/".to_owned(),
            after: "/public".to_owned(),
        },
        ..SiteSettings::default()
    })
}

fn compile(site: SiteSettings) -> Sites {
    Sites::compile(&Config { sites: vec![site], ..Config::default() })
}

fn check(resolution: &Resolution) {
    match resolution {
        Resolution::File { path, .. } => {
            check_path(path);
            let name = path.file_name().to_ascii_lowercase();
            for ending in [&b".php"[..], b".phtml", b".phar", b".phps"] {
                assert!(!name.ends_with(ending), "source sent: {path:?}");
            }
        }
        Resolution::Directory { path } | Resolution::Listing { path } => check_path(path),
        Resolution::Php(script) => {
            check_path(script.path());
            let path_info = script.path_info();
            assert!(path_info.is_empty() || path_info.starts_with(b"/"));
            assert!(!path_info.contains(&0) && memchr::memmem::find(path_info, b"/../").is_none());
        }
        Resolution::Redirect { status, location } => {
            assert!(status.is_redirection());
            assert!(location.starts_with(b"/") && !location.starts_with(b"//"));
            assert!(location.iter().all(u8::is_ascii_graphic));
            let path = location.split(|&byte| byte == b'?').next().unwrap_or_default();
            assert!(path.ends_with(b"/") && !path.contains(&b'\\'));
        }
        Resolution::Allow { status, methods, .. } => {
            assert!(matches!(status.code(), 200 | 405) && !methods.is_empty())
        }
        Resolution::Status(status) | Resolution::Page { status, .. } => {
            assert!(status.code() >= 400)
        }
        Resolution::Verify { .. }
        | Resolution::Proxy { .. }
        | Resolution::Discard { .. }
        | Resolution::Exhausted => {
            unreachable!("no directive asks for that")
        }
    }
}

fn check_path(path: &DocumentPath) {
    let absolute = path.as_c_path().to_bytes();
    let root = path.root_bytes();
    assert!(absolute.starts_with(root) && absolute[root.len()] == b'/');
    assert_eq!(&absolute[root.len() + 1..], path.relative());
    assert_eq!(path.url_path(), [b"/", path.relative()].concat());
    assert!(absolute.len() < 4096, "the disk was asked about a path that cannot be");
    if !path.relative().is_empty() {
        assert_eq!(path.relative_c_path().to_bytes(), path.relative());
        for component in path.relative().split(|&byte| byte == b'/') {
            assert!(!matches!(component, b"" | b"." | b".."), "{path:?}");
        }
    }
    if root != b"/srv/www" {
        let host = root.strip_prefix(b"/srv/").and_then(|rest| rest.strip_suffix(b"/public"));
        let host = host.expect("a root is one of the two templates");
        assert!(host.iter().all(|byte| byte.is_ascii_alphanumeric() || b".-".contains(byte)));
        assert!(host.split(|&byte| byte == b'.').all(|label| !label.is_empty()));
    }
}

/// A disk that gives the answers of a list, over and over.
struct Answers<'a> {
    answers: &'a [u8],
    asked: usize,
}

impl DirectiveHost for Answers<'_> {}

impl SiteHost for Answers<'_> {
    fn kind(&mut self, path: &DocumentPath) -> PathKind {
        check_path(path);
        let answer = match self.answers.len() {
            0 => 0,
            length => self.answers[self.asked % length],
        };
        self.asked += 1;
        [PathKind::Missing, PathKind::File, PathKind::Directory, PathKind::Forbidden]
            [usize::from(answer & 3)]
    }
}
