//! An in-memory tree of files with its `.htaccess`, and the resolution of a request for one of
//! them, in one line.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::rc::Rc;
use std::sync::Arc;

use howdah_config::{Config, RootTemplate, SiteSettings};
use howdah_htaccess::Unrepeatable;
use howdah_htaccess::host::{DirectiveHost, PasswordVerdict, Probe, ProbeKind};
use howdah_htaccess::{ClientRequest, compile};
use howdah_http::{Method, Request, Status};

use crate::documents::{DocumentLook, FileHandle, PathKind, SiteHost};
use crate::path::{DocumentPath, Scratch};
use crate::resolution::{Resolution, Resolved};
use crate::resolution_cache::ResolutionCache;
use crate::ruled_request::RuledRequest;
use crate::rules::{MergedCopies, Rules};
use crate::sites::{Site, Sites};

/// The document root of every tree.
pub const ROOT: &str = "/srv/www";

/// A tree of files in memory. Files that are called `.htaccess` have contents, the others have
/// none.
pub struct Tree {
    pub sites: Sites,
    kinds: BTreeMap<String, PathKind>,
    htaccess: HashMap<String, String>,
    rules: RefCell<HashMap<String, Option<Rc<Rules>>>>,
    /// The files that directives may read.
    contents: HashMap<String, String>,
    /// The files and folders that are links.
    links: HashSet<String>,
    /// Whether the comparison of a password is put off.
    pub is_slow: bool,
    /// The number of times that the disk was asked.
    pub asked: usize,
    /// Changes with the files.
    pub epoch: u64,
    pub cache: ResolutionCache<()>,
}

impl Tree {
    /// `files` are separated by white space: `a/b.php` is a file, `a/c/` a folder, `d!` something
    /// that may not be read, `l@` a link to a file and `l/@` one to a folder. Folders on the way
    /// are there. `htaccess` has the folder (with its slash at the end, empty for the root) and the
    /// content of each file.
    pub fn new(files: &str, htaccess: &[(&str, &str)]) -> Tree {
        Tree::with(files, htaccess, |_| ())
    }

    pub fn with(
        files: &str,
        htaccess: &[(&str, &str)],
        change: impl FnOnce(&mut SiteSettings),
    ) -> Tree {
        let mut site = SiteSettings {
            root: RootTemplate::Fixed(ROOT.into()),
            ..SiteSettings::default()
        };
        change(&mut site);
        let mut tree = Tree {
            sites: Sites::compile(&Config { sites: vec![site], ..Config::default() }),
            kinds: BTreeMap::from([(String::new(), PathKind::Directory)]),
            htaccess: HashMap::new(),
            rules: RefCell::default(),
            contents: HashMap::new(),
            links: HashSet::new(),
            is_slow: false,
            asked: 0,
            epoch: 0,
            cache: ResolutionCache::new(),
        };
        files.split_whitespace().for_each(|name| tree.add(name));
        for (folder, text) in htaccess {
            tree.add(&format!("{folder}.htaccess"));
            tree.htaccess
                .insert(folder.trim_end_matches('/').to_owned(), (*text).to_owned());
        }
        tree
    }

    /// A file that directives may name.
    pub fn put(&mut self, path: &str, content: &str) {
        self.epoch += 1;
        self.contents.insert(path.to_owned(), content.to_owned());
    }

    pub fn add(&mut self, name: &str) {
        self.epoch += 1;
        for (at, _) in name.match_indices('/') {
            self.kinds.insert(name[..at].to_owned(), PathKind::Directory);
        }
        if let Some(name) = name.strip_suffix('@') {
            self.links.insert(name.trim_end_matches('/').to_owned());
            let kind = if name.ends_with('/') {
                PathKind::Directory
            } else {
                PathKind::File
            };
            self.kinds.insert(name.trim_end_matches('/').to_owned(), kind);
        } else if let Some(name) = name.strip_suffix('!') {
            self.kinds.insert(name.to_owned(), PathKind::Forbidden);
        } else if !name.ends_with('/') {
            self.kinds.insert(name.to_owned(), PathKind::File);
        }
    }

    fn rules(&self, folder: &str) -> Option<Rc<Rules>> {
        if let Some(known) = self.rules.borrow().get(folder) {
            return known.clone();
        }
        let above = match folder.rsplit_once('/') {
            Some((above, _)) => self.rules(above),
            None if folder.is_empty() => self.site_rules(),
            None => self.rules(""),
        };
        let rules = match self.htaccess.get(folder) {
            Some(text) => {
                let absolute = format!("{ROOT}/{folder}/").replace("//", "/");
                let site = self.sites.iter().next().unwrap();
                let compiled =
                    compile(text.as_bytes(), &site.htaccess_context(absolute.as_bytes()));
                Some(Rules::below(above.as_ref(), Arc::new(compiled), &MergedCopies::default()))
            }
            None => above,
        };
        self.rules.borrow_mut().insert(folder.to_owned(), rules.clone());
        rules
    }

    fn site_rules(&self) -> Option<Rc<Rules>> {
        let site = self.sites.iter().next().unwrap();
        let (text, context) = site.rules(format!("{ROOT}/").as_bytes())?;
        let compiled = Arc::new(compile(text.as_bytes(), &context));
        Some(Rules::below(None, compiled, &MergedCopies::default()))
    }

    pub fn get(&mut self, target: &str) -> String {
        shown(&self.resolved("GET", target, ""))
    }

    pub fn request(&mut self, method: &str, target: &str, fields: &str) -> String {
        shown(&self.resolved(method, target, fields))
    }

    pub fn resolved(&mut self, method: &str, target: &str, fields: &str) -> Resolved {
        self.ask(method, target, fields, &mut Scratch::default(), false)
    }

    pub fn ask(
        &mut self,
        method: &str,
        target: &str,
        fields: &str,
        scratch: &mut Scratch,
        explained: bool,
    ) -> Resolved {
        let request = request(method, target, fields);
        let client = client(&request);
        let sites = self.sites.clone();
        let site = sites.iter().next().unwrap();
        if explained {
            crate::explain(site, &client, self, scratch)
        } else {
            let resolved = crate::resolve(site, &client, self, scratch);
            self.ask_cached(site, &client, scratch, &resolved);
            resolved
        }
    }

    /// A cache gives the same: before there is an entry, when one is made, and from the entry.
    fn ask_cached(
        &mut self,
        site: &Site,
        client: &ClientRequest<'_>,
        scratch: &mut Scratch,
        expected: &Resolved,
    ) {
        let mut cache = std::mem::take(&mut self.cache);
        let asked = self.asked;
        for round in 1..=3 {
            let cached = crate::resolve_cached(site, client, self, scratch, &mut cache);
            let resolved = cached.resolved;
            assert_eq!(
                format!("{resolved:?}"),
                format!("{expected:?}"),
                "round {round} of {:?}",
                client.request()
            );
        }
        self.asked = asked;
        self.cache = cache;
    }
}

impl Tree {
    /// Resolves an error that occurs after `target` was resolved.
    pub fn later(&mut self, target: &str, ruled: Option<Rc<RuledRequest>>, status: u16) -> String {
        let request = Request {
            target: target.as_bytes().to_vec(),
            ..Request::default()
        };
        let sites = self.sites.clone();
        let site = sites.iter().next().unwrap();
        let status = Status::new(status).unwrap();
        shown(&crate::error(site, &client(&request), ruled, status, self, &mut Scratch::default()))
    }
}

/// A request to `example.org` with these lines of fields.
pub fn request(method: &str, target: &str, fields: &str) -> Request {
    let mut request = Request {
        method: Method::from_bytes(method.as_bytes()).unwrap(),
        target: target.into(),
        authority: b"example.org".to_vec(),
        ..Request::default()
    };
    for line in fields.lines() {
        let (name, value) = line.split_once(": ").unwrap();
        request.fields.push(name.as_bytes(), value.as_bytes());
    }
    request
}

/// Somebody on 192.0.2.1, at a fixed time.
pub fn client(request: &Request) -> ClientRequest<'_> {
    ClientRequest::new(
        request,
        SocketAddr::from(([192, 0, 2, 1], 41000)),
        SocketAddr::from(([192, 0, 2, 2], 80)),
        1_700_000_000_000_000,
    )
}

impl SiteHost for Tree {
    fn epoch(&self) -> Option<u64> {
        Some(self.epoch)
    }

    fn kind(&mut self, path: &DocumentPath) -> PathKind {
        self.asked += 1;
        let name = std::str::from_utf8(path.relative()).unwrap_or("?");
        self.kinds.get(name).copied().unwrap_or(PathKind::Missing)
    }

    fn look(&mut self, path: &DocumentPath) -> DocumentLook {
        let kind = self.kind(path);
        let mut folder = std::str::from_utf8(path.relative()).unwrap_or("?");
        while self.kinds.get(folder) != Some(&PathKind::Directory) {
            folder = folder.rsplit_once('/').map_or("", |(above, _)| above);
        }
        DocumentLook {
            kind,
            file: FileHandle::NONE,
            rules: self.rules(folder),
        }
    }

    fn read_document(&mut self, path: &DocumentPath) -> Option<Arc<[u8]>> {
        self.read(path.absolute().as_os_str().as_bytes())
    }

    fn media_type(extension: &[u8]) -> Option<&'static str> {
        match extension {
            b"html" => Some("text/html"),
            b"txt" => Some("text/plain"),
            _ => None,
        }
    }
}

impl DirectiveHost for Tree {
    fn probe(&mut self, path: &[u8]) -> Option<Probe> {
        self.asked += 1;
        let path = std::str::from_utf8(path).ok()?.strip_prefix(ROOT)?.trim_matches('/');
        let kind = match self.kinds.get(path)? {
            PathKind::File => ProbeKind::File,
            PathKind::Directory => ProbeKind::Directory,
            PathKind::Missing | PathKind::Forbidden => return None,
        };
        Some(Probe { kind, size: 1, modified: 0, mode: 0o644 })
    }

    fn probe_link(&mut self, path: &[u8]) -> Option<Probe> {
        let probe = self.probe(path)?;
        let name = std::str::from_utf8(path).ok()?.strip_prefix(ROOT)?.trim_matches('/');
        let kind = if self.links.contains(name) {
            ProbeKind::Link
        } else {
            probe.kind
        };
        Some(Probe { kind, ..probe })
    }

    fn read(&mut self, path: &[u8]) -> Option<Arc<[u8]>> {
        let content = self.contents.get(std::str::from_utf8(path).ok()?)?;
        Some(content.as_bytes().into())
    }

    fn entries(&mut self, folder: &[u8]) -> Vec<Box<[u8]>> {
        let folder = std::str::from_utf8(folder)
            .unwrap_or("?")
            .strip_prefix(ROOT)
            .unwrap_or("?")
            .trim_matches('/');
        let names = self
            .kinds
            .keys()
            .filter(|name| name.rsplit_once('/').map_or("", |(above, _)| above) == folder);
        let names = names.filter(|name| !name.is_empty());
        names
            .map(|name| name.rsplit('/').next().unwrap_or(name).as_bytes().into())
            .collect()
    }

    /// A password fits its hash where it is the same.
    fn verify(&mut self, _: Unrepeatable, hash: &[u8], password: &[u8]) -> PasswordVerdict {
        if self.is_slow {
            PasswordVerdict::Later
        } else if hash == password {
            PasswordVerdict::Yes
        } else {
            PasswordVerdict::No
        }
    }
}

/// `file a.txt`, `php dump.php + /info`, `404 file error.html`, `301 /dir/`, `403`, `listing dir`.
pub fn shown(resolved: &Resolved) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let status = match &resolved.ruled {
        Some(ruled) if ruled.state.status.code() != 200 => {
            format!("{} ", ruled.state.status.code())
        }
        _ => String::new(),
    };
    match &resolved.resolution {
        Resolution::File { path, .. } => format!("{status}file {}", text(path.relative())),
        Resolution::Directory { path } => format!("{status}folder {}", text(path.relative())),
        Resolution::Listing { path } => format!("{status}listing {}", text(path.relative())),
        Resolution::Page { status, body } => format!("{} page {}", status.code(), text(body)),
        Resolution::Php(script) => {
            let mut line = format!("{status}php {}", text(script.path().relative()));
            if !script.path_info().is_empty() {
                line += &format!(" + {}", text(script.path_info()));
            }
            line
        }
        Resolution::Redirect { status, location } => {
            format!("{} {}", status.code(), text(location))
        }
        Resolution::Allow { status, .. } | Resolution::Status(status) => status.code().to_string(),
        Resolution::Verify { .. } => "verify".to_owned(),
        Resolution::Proxy { upstream, target } => {
            format!("{status}proxy {upstream} {}", text(target))
        }
        Resolution::Discard { most } => format!("discard {most}"),
        Resolution::Exhausted => "exhausted".to_owned(),
    }
}
