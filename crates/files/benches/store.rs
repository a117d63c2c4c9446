//! Time of the store's operations: a hit, a check against the disk, a file that is seen for the
//! first time.
//!
//! `cargo bench -p howdah-files`. Each figure is the smallest of several rounds: the time of the
//! code when nothing else runs, not the throughput of a server.

use std::fs;
use std::hint::black_box;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Instant;

use howdah_config::Config;
use howdah_files::{FileAnswer, FileStore, RequestedPart, StoreLimits};
use howdah_http::Request;
use howdah_site::{ClientRequest, DirectiveHost, DocumentPath, PathKind, Scratch, SiteHost, Sites};

fn main() {
    let folder = Folder::new();
    fs::create_dir_all(folder.0.join("assets/css")).expect("a temporary folder can be written");
    fs::write(folder.0.join("HelloWorld.txt"), "Hello, EvaluationContext!\n").expect("as above");
    fs::write(folder.0.join("assets/css/large.css"), vec![b' '; 100_000]).expect("as above");
    for number in 0..FILES {
        fs::write(folder.0.join(format!("assets/css/{number}.css")), vec![b' '; 2000])
            .expect("as above");
    }
    let sites = sites(&folder.0);
    let mut store = FileStore::new(StoreLimits::default());
    store.tick(1);
    hits(&sites, &mut store);
    hits_in_turn(&sites, &mut store);
    resolving(&sites, &mut store);
    checks(&sites, &mut store);
    first_opens(&sites);
}

fn hits(sites: &Sites, store: &mut FileStore) {
    let plain = request(&[]);
    let small = path(sites, "/HelloWorld.txt");
    let large = path(sites, LARGE);
    let mut hit = |name: &str, request: &Request, path: &DocumentPath| {
        measure(name, HITS, || {
            let look = store.look(black_box(path));
            assert!(look.kind == PathKind::File);
            drop(black_box(store.answer(black_box(request), path, look.file)));
        });
    };
    hit("hit, small file", &plain, &small);
    hit("hit, small file, a browser's fields", &request(BROWSER), &small);
    hit("hit, 100 kB file", &plain, &large);
    let conditional = request(&[("If-None-Match", "\"0-0\"")]);
    hit("If-None-Match that does not match", &conditional, &small);
    hit("range", &request(&[("Range", "bytes=0-4")]), &small);
}

fn hits_in_turn(sites: &Sites, store: &mut FileStore) {
    let plain = request(&[]);
    let alternating = numbered(sites, 64);
    let mut next = 0;
    hit_each(store, &plain, &alternating);
    measure("hit, 64 files in turn", HITS, || {
        next = (next + 1) % alternating.len();
        let look = store.look(&alternating[next]);
        assert!(look.kind == PathKind::File);
        drop(black_box(store.answer(&plain, &alternating[next], look.file)));
    });
}

fn resolving(sites: &Sites, store: &mut FileStore) {
    let mut scratch = Scratch::default();
    let mut request = request(&[]);
    request.target = b"/HelloWorld.txt".to_vec();
    let site = sites.find(b"x").expect("the default site");
    measure("resolve and hit", HITS, || {
        let resolved =
            howdah_site::resolve(site, &client(black_box(&request)), store, &mut scratch);
        let howdah_site::Resolution::File { path, file } = resolved.resolution else {
            panic!("{resolved:?}")
        };
        drop(black_box(store.answer(&request, &path, file)));
        scratch.reuse(path);
    });
}

fn checks(sites: &Sites, store: &mut FileStore) {
    let small = path(sites, "/HelloWorld.txt");
    let mut now = 1;
    measure("check after a second", HITS / 100, || {
        now += 1;
        store.tick(now);
        assert!(store.kind(&small) == PathKind::File);
    });
}

fn first_opens(sites: &Sites) {
    let plain = request(&[]);
    let paths = numbered(sites, FILES);
    measure("first open, 2 kB file in a known folder", 1, || {
        hit_each(&mut store_at(1), &plain, &paths)
    })
    .per(FILES);
    let large = path(sites, LARGE);
    measure("first open, new store: two folders to watch", 200, || {
        hit_each(&mut store_at(1), &plain, std::slice::from_ref(&large));
    });
}

/// Returns the paths of the first `count` files of 2 kB.
fn numbered(sites: &Sites, count: usize) -> Vec<DocumentPath> {
    (0..count)
        .map(|number| path(sites, &format!("/assets/css/{number}.css")))
        .collect()
}

/// Prints the smallest time per call over some rounds of `count` calls.
fn measure(name: &str, count: usize, mut call: impl FnMut()) -> Measured {
    let least = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            (0..count).for_each(|_| call());
            start.elapsed().as_nanos() as f64 / count as f64
        })
        .fold(f64::INFINITY, f64::min);
    println!("{name:<48} {least:>10.0} ns");
    Measured(least)
}

struct Measured(f64);

impl Measured {
    fn per(&self, count: usize) {
        println!("{:<48} {:>10.0} ns", "  of these, each", self.0 / count as f64);
    }
}

fn hit_each(store: &mut FileStore, request: &Request, paths: &[DocumentPath]) {
    for path in paths {
        let look = store.look(path);
        assert!(look.kind == PathKind::File);
        let answer = store.answer(request, path, look.file);
        assert!(matches!(answer, Ok(FileAnswer { asked: RequestedPart::Whole, .. })));
    }
}

fn store_at(now: u64) -> FileStore {
    let mut store = FileStore::new(StoreLimits::default());
    store.tick(now);
    store
}

fn sites(root: &Path) -> Sites {
    let text = format!(
        "[[site]]\nhosts = [\"*\"]\nroot = {:?}\nphp = false\n",
        root.display().to_string()
    );
    Sites::compile(&Config::parse(&text, "bench.toml").expect("the configuration is right"))
}

fn request(fields: &[(&str, &str)]) -> Request {
    let mut request = Request::new();
    request.authority = b"x".to_vec();
    fields
        .iter()
        .for_each(|(name, value)| request.fields.push(name.as_bytes(), value.as_bytes()));
    request
}

/// The path that `site` asks for when it resolves `url`.
fn path(sites: &Sites, url: &str) -> DocumentPath {
    struct Asked(Option<DocumentPath>);
    impl DirectiveHost for Asked {}

    impl SiteHost for Asked {
        fn kind(&mut self, path: &DocumentPath) -> PathKind {
            self.0.get_or_insert_with(|| path.clone());
            PathKind::File
        }
    }
    let mut asked = Asked(None);
    let mut request = request(&[]);
    request.target = url.as_bytes().to_vec();
    let site = sites.find(b"x").expect("the default site");
    howdah_site::resolve(site, &client(&request), &mut asked, &mut Scratch::default());
    asked.0.expect("the disk is asked about it")
}

fn client(request: &Request) -> ClientRequest<'_> {
    let end = SocketAddr::from(([127, 0, 0, 1], 80));
    ClientRequest::new(request, end, end, 0)
}

struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        let path = std::env::temp_dir().join(format!("howdah-files-bench-{}", std::process::id()));
        fs::create_dir_all(&path).expect("the temporary folder can be written to");
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const ROUNDS: usize = 7;
const LARGE: &str = "/assets/css/large.css";
const HITS: usize = 200_000;
const FILES: usize = 1000;

/// Request fields of Firefox.
const BROWSER: &[(&str, &str)] = &[
    ("Host", "example.org"),
    ("User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"),
    ("Accept", "text/css,*/*;q=0.1"),
    ("Accept-Language", "de,en-US;q=0.7,en;q=0.3"),
    ("Accept-Encoding", "gzip, deflate, br, zstd"),
    ("Connection", "keep-alive"),
    ("Referer", "https://example.org/"),
    ("Cookie", "a=b; c=d"),
    ("Sec-Fetch-Dest", "style"),
    ("Sec-Fetch-Mode", "no-cors"),
    ("Sec-Fetch-Site", "same-origin"),
    ("Priority", "u=2"),
];
