//! Properties of any directives.

use std::rc::Rc;
use std::sync::Arc;

use howdah_htaccess::Unrepeatable;
use howdah_htaccess::host::{DirectiveHost, PasswordVerdict, Probe, ProbeKind};
use howdah_htaccess::{ClientRequest, CompileContext, compile};
use howdah_http::{Method, Request};

use super::{check, check_path, one_root};
use crate::documents::{DocumentLook, FileHandle, PathKind, SiteHost};
use crate::path::{DocumentPath, Scratch};
use crate::resolution::Resolution;
use crate::rules::{MergedCopies, Rules};

/// `data` is a target, the content of the root's `.htaccess` and that of the folder `a`, with a
/// zero byte between each.
///
/// Nothing that is accepted leaves the root, what is redirected to can be sent, nothing panics, the
/// disk is asked no more often than rounds and sub-requests allow, a used buffer gives the same as
/// a fresh one, and `explain` has the same result.
pub fn directives(data: &[u8]) {
    let mut parts = data.splitn(3, |&byte| byte == 0);
    let mut part = || parts.next().unwrap_or_default();
    let (target, root, folder) = (part(), part(), part());
    if target.iter().any(|byte| !byte.is_ascii_graphic() && byte.is_ascii()) {
        return;
    }
    let request = Request {
        method: Method::Get,
        authority: b"example.org".to_vec(),
        target: target.to_vec(),
        ..Request::default()
    };
    let end = std::net::SocketAddr::from(([127, 0, 0, 1], 80));
    let client = ClientRequest::new(&request, end, end, 0);
    let sites = one_root();
    let Some(site) = sites.find(b"example.org") else {
        return;
    };
    let mut host = RuledTree::new(root, folder);
    let mut scratch = Scratch::default();
    let first = crate::resolve(site, &client, &mut host, &mut scratch).resolution;
    assert!(host.asked < MOST_QUESTIONS, "the disk was asked {} times", host.asked);
    check_ruled(&first);
    let again = crate::resolve(site, &client, &mut host, &mut scratch).resolution;
    assert_eq!(first, again);
    let explained = crate::explain(site, &client, &mut host, &mut Scratch::default());
    assert_eq!(first, explained.resolution);
}

fn check_ruled(resolution: &Resolution) {
    match resolution {
        Resolution::Redirect { status, .. } => assert!(status.is_redirection()),
        Resolution::Status(_) | Resolution::Page { .. } => {}
        Resolution::Verify { .. } | Resolution::Discard { .. } | Resolution::Exhausted => {}
        Resolution::Proxy { target, .. } => {
            assert!(target.starts_with(b"/") && target.iter().all(u8::is_ascii_graphic));
        }
        other => check(other),
    }
}

/// Names of one letter are folders, those that hold a dot are files, all others are missing.
struct RuledTree {
    root: Rc<Rules>,
    folder: Rc<Rules>,
    asked: u64,
}

impl RuledTree {
    fn new(root: &[u8], folder: &[u8]) -> RuledTree {
        let compiled = |content: &[u8], folder: &[u8]| {
            Arc::new(compile(content, &CompileContext::new("test", folder)))
        };
        let copies = MergedCopies::default();
        let root = Rules::below(None, compiled(root, b"/srv/www/"), &copies);
        let folder = Rules::below(Some(&root), compiled(folder, b"/srv/www/a/"), &copies);
        RuledTree { root, folder, asked: 0 }
    }
}

impl SiteHost for RuledTree {
    fn kind(&mut self, path: &DocumentPath) -> PathKind {
        self.asked += 1;
        check_path(path);
        match path.file_name() {
            b"" | [_] => PathKind::Directory,
            name if name.contains(&b'.') => PathKind::File,
            _ => PathKind::Missing,
        }
    }

    fn look(&mut self, path: &DocumentPath) -> DocumentLook {
        let is_below = path.relative() == b"a" || path.relative().starts_with(b"a/");
        let rules = if is_below { &self.folder } else { &self.root };
        let rules = Some(Rc::clone(rules));
        DocumentLook {
            kind: self.kind(path),
            file: FileHandle::NONE,
            rules,
        }
    }
}

impl DirectiveHost for RuledTree {
    fn probe(&mut self, path: &[u8]) -> Option<Probe> {
        self.asked += 1;
        Some(Probe {
            kind: if path.contains(&b'.') {
                ProbeKind::File
            } else {
                ProbeKind::Directory
            },
            size: path.len() as u64,
            modified: 0,
            mode: 0o644,
        })
    }

    fn entries(&mut self, _folder: &[u8]) -> Vec<Box<[u8]>> {
        [&b"x.html"[..], b"x.de.html", b"index.php"].map(Box::from).to_vec()
    }

    fn verify(&mut self, _: Unrepeatable, hash: &[u8], password: &[u8]) -> PasswordVerdict {
        if hash == password {
            PasswordVerdict::Yes
        } else {
            PasswordVerdict::No
        }
    }
}

/// A few questions for each of eleven rounds and of 200 sub-requests.
const MOST_QUESTIONS: u64 = 100_000;
