//! Properties that hold for every input, for fuzzing and for the tests.

use howdah_config::{Config, HostPattern, RootTemplate, Site as SiteConfig, TryStep};
use howdah_http::{Method, Request};

use crate::path::{DocumentPath, Scratch};
use crate::resolution::{Disk, Kind, Resolution};
use crate::resolve::resolve;
use crate::sites::Sites;

/// Resolves `target` on `host` with disk answers taken from `answers`, and panics if a property does not hold:
/// nothing the disk is asked about and nothing that is accepted leaves its root, holds a NUL, `.`, `..` or an empty
/// component; a Location is printable and starts with one slash; a file that is sent is not called like a PHP source;
/// and the same question gets the same answer with a used buffer as with a fresh one.
pub fn hold(host: &[u8], target: &[u8], answers: &[u8]) {
    let mut request = Request {
        method: Method::Get,
        ..Request::default()
    };
    request.authority.extend_from_slice(host);
    request.target.extend_from_slice(target);
    let mut scratch = Scratch::default();
    for sites in [fixed(), per_host()] {
        let Some(site) = sites.find(host) else { continue };
        let mut first = Answers { answers, asked: 0 };
        let resolution = resolve(site, &request, &mut first, &mut scratch);
        check(&resolution);
        let mut second = Answers { answers, asked: 0 };
        let again = resolve(site, &request, &mut second, &mut Scratch::default());
        assert_eq!(resolution, again);
        if let Resolution::File { path } | Resolution::Directory { path } = resolution {
            scratch.reuse(path);
        }
    }
}

fn fixed() -> Sites {
    compile(SiteConfig {
        root: RootTemplate::Fixed("/srv/www".into()),
        try_files: vec![
            TryStep::Uri,
            TryStep::UriSuffix(".html".to_owned()),
            TryStep::UriDirectory,
            TryStep::Path("/index.php".to_owned()),
        ],
        ..SiteConfig::default()
    })
}

fn per_host() -> Sites {
    compile(SiteConfig {
        hosts: vec![HostPattern::Wildcard("example".to_owned()), HostPattern::Default],
        root: RootTemplate::PerHost {
            before: "/srv/".to_owned(),
            after: "/public".to_owned(),
        },
        ..SiteConfig::default()
    })
}

fn compile(site: SiteConfig) -> Sites {
    Sites::compile(&Config {
        sites: vec![site],
        ..Config::default()
    })
}

fn check(resolution: &Resolution) {
    match resolution {
        Resolution::File { path } => {
            check_path(path);
            let name = path.file_name().to_ascii_lowercase();
            assert!(!name.ends_with(b".php") && !name.ends_with(b".phtml") && !name.ends_with(b".phar"));
        }
        Resolution::Directory { path } => check_path(path),
        Resolution::Php(script) => {
            check_path(script.path());
            assert!(script.path_info().is_empty() || script.path_info().starts_with(b"/"));
            assert!(!script.path_info().contains(&0));
        }
        Resolution::Redirect { status, location } => {
            assert!(status.is_redirection());
            assert!(location.starts_with(b"/") && !location.starts_with(b"//"));
            assert!(
                location
                    .iter()
                    .all(|byte| byte.is_ascii_graphic() && *byte != b'\\')
                    || location.contains(&b'?')
            );
            assert!(location.iter().all(u8::is_ascii_graphic));
        }
        Resolution::Allow { status, methods } => assert!(status.code() > 200 && !methods.is_empty()),
        Resolution::Status(status) => assert!(status.code() >= 400),
    }
}

fn check_path(path: &DocumentPath) {
    let absolute = path.as_c_path().to_bytes();
    let root = path.root_bytes();
    assert!(absolute.starts_with(root) && absolute[root.len()] == b'/');
    assert_eq!(&absolute[root.len() + 1..], path.relative());
    assert_eq!(path.url_path(), [b"/", path.relative()].concat());
    if !path.relative().is_empty() {
        for component in path.relative().split(|&byte| byte == b'/') {
            assert!(!matches!(component, b"" | b"." | b".."), "{path:?}");
        }
    }
    let expected: &[u8] = b"/srv/www";
    if root != expected {
        let host = root
            .strip_prefix(b"/srv/")
            .and_then(|rest| rest.strip_suffix(b"/public"));
        let host = host.expect("a root is one of the two templates");
        assert!(
            host.iter()
                .all(|byte| byte.is_ascii_alphanumeric() || b".-".contains(byte))
        );
        assert!(!host.is_empty() && !host.starts_with(b".") && !host.windows(2).any(|pair| pair == b".."));
    }
}

/// A disk that answers from a list, over and over.
struct Answers<'a> {
    answers: &'a [u8],
    asked: usize,
}

impl Disk for Answers<'_> {
    fn kind(&mut self, path: &DocumentPath) -> Kind {
        check_path(path);
        let answer = match self.answers.len() {
            0 => 0,
            length => self.answers[self.asked % length],
        };
        self.asked += 1;
        [Kind::Missing, Kind::File, Kind::Directory, Kind::Forbidden][usize::from(answer & 3)]
    }
}
