//! A document root in a temporary folder, and a store that answers for it.
#![allow(dead_code)] // Each test file uses its part.
#![allow(clippy::unwrap_used)] // A test's tools may panic as the test itself.

use std::fs;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use howdah_config::{Config, ContentCoding};
use howdah_files::{
    FileAnswer, FileBody, FileStore, NoAnswer, RequestedPart, StoreFigures, StoreLimits,
};
use howdah_http::{Method, Request, ResponseHead, Status};
use howdah_site::{ClientRequest, DirectiveHost, DocumentPath, PathKind, Scratch, SiteHost, Sites};

/// A folder that is removed at the end of the test, with a document root `www` in it.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Folder {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path =
            std::env::temp_dir().join(format!("howdah-files-{}-{number}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(path.join("www")).unwrap();
        Folder(path.canonicalize().unwrap())
    }

    pub fn outside(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub fn root(&self) -> PathBuf {
        self.0.join("www")
    }

    /// A path below the document root.
    pub fn at(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    /// Writes a file below the document root, with the folders on its way, and lets it look an hour
    /// old.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.at(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        age(&path, 3600);
        path
    }

    pub fn link(&self, target: impl AsRef<Path>, name: &str) -> PathBuf {
        std::os::unix::fs::symlink(target, self.at(name)).unwrap();
        self.at(name)
    }

    /// Swaps a link as deployment tools do: a new one is renamed over the old one.
    pub fn swap_link(&self, target: impl AsRef<Path>, name: &str) {
        let new = self.outside("new-link");
        std::os::unix::fs::symlink(target, &new).unwrap();
        fs::rename(new, self.at(name)).unwrap();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The figures of a store without its look-ups, which need not ask the disk.
pub fn findings(store: &FileStore) -> StoreFigures {
    StoreFigures { lookups: 0, ..store.figures() }
}

/// A store in front of one document root, under one rule for links.
pub struct Counter {
    pub store: FileStore,
    sites: Sites,
    /// The host that is asked for.
    pub host: &'static str,
    now: u64,
}

impl Counter {
    pub fn new(folder: &Folder) -> Counter {
        Counter::with(folder, "owner", StoreLimits::default())
    }

    pub fn with(folder: &Folder, symlinks: &str, limits: StoreLimits) -> Counter {
        Counter::at(&folder.root(), symlinks, limits)
    }

    pub fn at(root: &Path, symlinks: &str, limits: StoreLimits) -> Counter {
        let text = format!(
            "[[site]]\nhosts = [\"*\"]\nroot = {:?}\nsymlinks = {symlinks:?}\nphp = false\n",
            root.display().to_string()
        );
        Counter::of(&text, limits)
    }

    /// The store in front of the sites of a configuration.
    pub fn of(text: &str, limits: StoreLimits) -> Counter {
        let sites = Sites::compile(&Config::parse(text, "test.toml").unwrap());
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
        let mut store = FileStore::new(limits);
        store.tick(now);
        Counter { store, sites, host: "", now }
    }

    /// The seconds go on without the test waiting for them.
    pub fn wait(&mut self, seconds: u64) {
        self.now += seconds;
        self.store.tick(self.now);
    }

    pub fn kind(&mut self, name: &str) -> PathKind {
        let path = self.path(name);
        self.store.kind(&path)
    }

    /// Answers a plain GET after the events have been read, as the event loop does.
    pub fn get(&mut self, name: &str) -> Seen {
        self.store.drain_events();
        self.request(Method::Get, name, &[])
    }

    /// The same without a look at the events.
    pub fn get_deaf(&mut self, name: &str) -> Seen {
        self.request(Method::Get, name, &[])
    }

    pub fn request(&mut self, method: Method, name: &str, fields: &[(&str, &str)]) -> Seen {
        let path = self.path(name);
        let mut request = Request::new();
        request.method = method;
        fields
            .iter()
            .for_each(|(name, value)| request.fields.push(name.as_bytes(), value.as_bytes()));
        let file = self.store.look(&path).file;
        Seen::of(self.store.answer(&request, &path, file))
    }

    /// The path that `site` asks the disk for.
    pub fn path(&self, name: &str) -> DocumentPath {
        path_on(&self.sites, self.host.as_bytes(), name)
    }

    /// The path at which the content of the file at `path` may lie in that coding.
    pub fn variant(&self, path: &DocumentPath, coding: ContentCoding) -> Option<DocumentPath> {
        self.sites.find(self.host.as_bytes()).unwrap().sibling(path, coding)
    }
}

/// The path that the site of `host` asks the disk for.
pub fn path_on(sites: &Sites, host: &[u8], name: &str) -> DocumentPath {
    struct Asked(Option<DocumentPath>);
    impl DirectiveHost for Asked {}

    impl SiteHost for Asked {
        fn kind(&mut self, path: &DocumentPath) -> PathKind {
            self.0.get_or_insert_with(|| path.clone());
            PathKind::File
        }
    }
    let mut asked = Asked(None);
    let mut request = Request::new();
    request.target = format!("/{name}").into_bytes();
    request.authority = host.to_vec();
    let site = sites.find(host).unwrap();
    howdah_site::resolve(site, &client(&request), &mut asked, &mut Scratch::default());
    asked.0.unwrap_or_else(|| panic!("the disk is not asked about {name}"))
}

/// A client of this machine with that request.
pub fn client(request: &Request) -> ClientRequest<'_> {
    let end = SocketAddr::from(([127, 0, 0, 1], 80));
    ClientRequest::new(request, end, end, 0)
}

/// An answer, with its content as a client gets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    pub status: u16,
    /// Name in lower case, value.
    pub fields: Vec<(String, String)>,
    pub length: Option<u64>,
    pub content: Vec<u8>,
    pub from_memory: bool,
}

impl Seen {
    pub fn of(answer: Result<FileAnswer, NoAnswer>) -> Seen {
        let answer = match answer {
            Ok(answer) => answer,
            Err(none) => return Seen::without_content(none.status()),
        };
        let mut head = answer.head();
        let is_whole = matches!(answer.asked, RequestedPart::Whole);
        let body = answer.asked.select(&mut head, answer.body);
        let mut fields = fields_of(&head);
        if is_whole {
            let length = answer.representation.head().length();
            fields.push(("content-length".to_owned(), length.to_string()));
        }
        Seen {
            status: head.status.code(),
            fields,
            length: (!is_whole).then(|| body.length()),
            content: content(&body),
            from_memory: matches!(body, FileBody::Memory(..)),
        }
    }

    fn without_content(status: Status) -> Seen {
        Seen {
            status: status.code(),
            fields: Vec::new(),
            length: None,
            content: Vec::new(),
            from_memory: false,
        }
    }

    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|field| field.0 == name).map(|field| field.1.as_str())
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.content).unwrap()
    }

    /// Status and content.
    pub fn brief(&self) -> (u16, &str) {
        (self.status, self.text())
    }
}

fn fields_of(head: &ResponseHead) -> Vec<(String, String)> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let fields = head.fields.iter();
    fields.map(|(name, value)| (text(name).to_lowercase(), text(value))).collect()
}

/// Takes a body through a socket.
pub fn content(body: &FileBody) -> Vec<u8> {
    match body {
        FileBody::None => Vec::new(),
        FileBody::Memory(bytes, range) => bytes[range.clone()].to_vec(),
        FileBody::Multipart(parts) => parts.iter().flat_map(content).collect(),
        FileBody::File { file, offset, length } => {
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            let mut received = Vec::new();
            while (received.len() as u64) < *length {
                let done = received.len() as u64;
                let sent =
                    file.send(ours.as_fd(), offset + done, (length - done).min(60_000)).unwrap();
                assert!(sent > 0, "the file is shorter than promised");
                let mut part = vec![0; sent];
                theirs.read_exact(&mut part).unwrap();
                received.extend(part);
            }
            let mut read = vec![0; received.len()];
            let mut filled = 0;
            while filled < read.len() {
                filled += file.read_at(&mut read[filled..], offset + filled as u64).unwrap();
            }
            assert!(read == received, "sending and reading differ");
            received
        }
    }
}

/// Sets the modification time to this many seconds ago.
pub fn age(path: &Path, seconds: u64) {
    let time = SystemTime::now() - Duration::from_secs(seconds);
    fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
}

/// Appends without touching what is there.
pub fn append(path: &Path, content: &str) {
    fs::File::options()
        .append(true)
        .open(path)
        .unwrap()
        .write_all(content.as_bytes())
        .unwrap();
}

/// Returns whether the test runs as root, who may give files away but is refused none.
pub fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/self").unwrap().uid() == 0
}
