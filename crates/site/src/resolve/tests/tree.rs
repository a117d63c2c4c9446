//! A file system in memory, and resolutions in one line.

use std::collections::HashMap;

use crate::DirectiveHost;
use crate::documents::{PathKind, SiteHost};
use crate::path::DocumentPath;
use crate::resolution::Resolution;

/// A file system in memory: folders end in `/`, `!` marks what is forbidden. It counts how often it
/// is asked.
pub(super) struct FileSystem {
    kinds: HashMap<String, PathKind>,
    pub(super) asked: usize,
}

impl FileSystem {
    pub(super) fn new(names: &[&str]) -> FileSystem {
        let mut kinds = HashMap::from([("/srv/".to_owned(), PathKind::Directory)]);
        for name in names {
            let (name, kind) = match (name.strip_suffix('/'), name.strip_suffix('!')) {
                (Some(name), _) => (name, PathKind::Directory),
                (None, Some(name)) => (name, PathKind::Forbidden),
                (None, None) => (*name, PathKind::File),
            };
            kinds.insert(format!("/srv/{name}"), kind);
        }
        FileSystem { kinds, asked: 0 }
    }
}

impl DirectiveHost for FileSystem {}

impl SiteHost for FileSystem {
    fn kind(&mut self, path: &DocumentPath) -> PathKind {
        self.asked += 1;
        let name = String::from_utf8_lossy(path.absolute_bytes());
        self.kinds.get(name.as_ref()).copied().unwrap_or(PathKind::Missing)
    }
}

/// A resolution in one line: `file a.txt`, `php dump.php + /info < /url`, `folder empty`, `301
/// /dir/`, `405 …`, `404`.
pub(super) fn shown(resolution: &Resolution) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match resolution {
        Resolution::File { path, .. } => format!("file {}", text(path.relative())),
        Resolution::Directory { path } => format!("folder {}", text(path.relative())),
        Resolution::Php(script) => {
            let mut line = format!("php {}", text(script.path().relative()));
            if !script.path_info().is_empty() {
                line += &format!(" + {}", text(script.path_info()));
            }
            if let Some(url) = script.redirect_url() {
                line += &format!(" < {}", text(url));
            }
            line
        }
        Resolution::Redirect { status, location } => format!("{status} {}", text(location)),
        Resolution::Listing { path } => format!("listing {}", text(path.relative())),
        Resolution::Page { status, body } => format!("{status} {}", text(body)),
        Resolution::Verify { .. } => "verify".to_owned(),
        Resolution::Proxy { upstream, target } => format!("proxy {upstream} {}", text(target)),
        Resolution::Discard { most } => format!("discard {most}"),
        Resolution::Exhausted => "exhausted".to_owned(),
        Resolution::Allow { status, methods, .. } => format!("{status} {methods}"),
        Resolution::Status(status) => status.to_string(),
    }
}
