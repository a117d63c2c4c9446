//! A browser: headless Chromium shows the demo page over HTTP/2 and over HTTP/3.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use aws_lc_rs::digest;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rcgen::{KeyPair, PublicKeyData};
use serde_json::{Value, json};
use tungstenite::{Message, WebSocket};

use crate::http3::configured;
use crate::support::{Client, Folder, PATIENCE, has_php, wait_until};
use crate::tls::client::{Authority, files};

/// The folder of the demo.
const DEMO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../demo");
/// Where screenshots are kept, if this variable is set: to look at them.
const SCREENSHOTS: &str = "SCREENSHOTS";

/// Visits that are repeated because they took too long.
const ATTEMPTS: usize = 10;

#[test]
fn chromium_shows_the_demo_over_http2_and_http3() {
    let Some(program) = chromium() else { return };
    if !has_php() {
        return;
    }
    let pair = Authority::new().certify(&["localhost"]);
    let pairs = files(&[("a", &pair)]);
    let state = Folder::writable();
    let config = format!(
        "listen = [{{ address = \"127.0.0.1:0\", tls = true }}]\n[[site]]\nroot = \"public\"\n\
         hosts = [\"localhost\"]\ntls = {{ cert = \"{0}/a.pem\", key = \"{0}/a.key\" }}\n\
         [site.php]\nworkers = 2\nstate_dir = \"state\"\nsandbox = \"off\"\n\
         env = {{ HOWDAH_DEMO_STATE = \"{1}/demo\" }}\n",
        pairs.path().display(),
        state.path().display(),
    );
    let content = demo();
    let content: Vec<(&str, &str)> =
        content.iter().map(|(name, text)| (&**name, &**text)).collect();
    let site = configured(&content, &config);
    let port = site.server.address().port();
    let url = format!("https://localhost:{port}/");
    let key = hash_of_key(&pair.key);
    for (protocol, more) in [
        ("h2", "--disable-quic".to_owned()),
        ("h3", format!("--origin-to-force-quic-on=localhost:{port}")),
    ] {
        let mut browser = Browser::start(&program, &[&key, &more]);
        let mut page = browser.visit(&url);
        // On a slow machine a handshake takes longer than Chromium waits.
        for _ in 0..ATTEMPTS {
            if !page.complaints.iter().any(|what| is_too_slow(what)) {
                break;
            }
            page = browser.visit(&url);
        }
        assert_eq!(page.complaints, [""; 0], "{protocol}");
        assert_eq!(page.title, "Guest-book on Howdah", "{protocol}");
        assert!(page.loaded.len() >= 3, "{protocol}: {:?}", page.loaded);
        for (resource, by) in &page.loaded {
            assert_eq!(by, protocol, "{resource}");
        }
        let image = image::load_from_memory(&page.screenshot).unwrap().to_rgb8();
        let colours: std::collections::HashSet<_> = image.pixels().collect();
        assert!(image.width() >= 400 && colours.len() > 50, "{protocol}: an empty page");
        if let Some(folder) = std::env::var_os(SCREENSHOTS) {
            fs::write(Path::new(&folder).join(format!("{protocol}.png")), &page.screenshot)
                .unwrap();
        }
    }
}

/// Chromium; `None`, and a message, where it is missing.
fn chromium() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join("chromium"));
    let found = found.into_iter().find(|program| program.exists());
    if found.is_none() {
        howdah_skip::skip!("there is no chromium; Debian's package has it");
    }
    found
}

/// The demo's files, each with its path as seen from the document root.
fn demo() -> Vec<(String, String)> {
    let mut found = Vec::new();
    for (folder, prefix) in [("public", ""), ("src", "../src/"), ("templates", "../templates/")] {
        for entry in Path::new(DEMO).join(folder).read_dir().unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            found.push((format!("{prefix}{name}"), fs::read_to_string(&path).unwrap()));
        }
    }
    found
}

/// The option that makes Chromium trust the certificate of a key.
fn hash_of_key(pem: &str) -> String {
    let key = KeyPair::from_pem(pem).unwrap().subject_public_key_info();
    let hash = BASE64_STANDARD.encode(digest::digest(&digest::SHA256, &key));
    format!("--ignore-certificate-errors-spki-list={hash}")
}

/// A running browser with one page. Its development protocol is JSON over a WebSocket.
struct Browser {
    process: Child,
    /// The browser's profile.
    _folder: Folder,
    page: WebSocket<TcpStream>,
    last: u64,
    events: Vec<Value>,
}

/// A page that was loaded.
struct Page {
    title: String,
    /// The page and what it has loaded, each with its protocol.
    loaded: Vec<(String, String)>,
    /// Errors on the console, exceptions, and what could not be loaded.
    complaints: Vec<String>,
    /// PNG.
    screenshot: Vec<u8>,
}

impl Browser {
    fn start(program: &Path, more: &[&str]) -> Browser {
        let folder = Folder::new();
        let mut command = Command::new(program);
        command.args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"]);
        command.args(["--disable-background-networking", "--disable-component-update"]);
        command.args(["--disable-sync", "--disable-dev-shm-usage", "--remote-debugging-port=0"]);
        command.arg(format!("--user-data-dir={}", folder.path().display()));
        // Not the address of IPv6, where the server does not listen.
        command.arg("--host-resolver-rules=MAP localhost 127.0.0.1");
        command.args(more).arg("about:blank");
        command.env("HOME", folder.path()).process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = command.spawn().unwrap();
        let mut port = None;
        wait_until("Chromium listens", || {
            let text = fs::read_to_string(folder.path().join("DevToolsActivePort"));
            port = text.ok().and_then(|text| text.lines().next()?.parse::<u16>().ok());
            port.is_some()
        });
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port.unwrap()));
        let mut target = None;
        wait_until("Chromium has a page", || {
            let listed = Client::connect(address).get("/json/list");
            let listed: Value = serde_json::from_slice(&listed.body).unwrap();
            let mut pages = listed.as_array().into_iter().flatten();
            let page = pages.find(|one| one["type"] == "page").cloned();
            target = page.and_then(|page| Some(page["webSocketDebuggerUrl"].as_str()?.to_owned()));
            target.is_some()
        });
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let (page, _) = tungstenite::client(target.unwrap(), stream).unwrap();
        Browser {
            process,
            _folder: folder,
            page,
            last: 0,
            events: Vec::new(),
        }
    }

    /// Loads a page, and all that belongs to it.
    fn visit(&mut self, url: &str) -> Page {
        self.events.clear();
        for domain in ["Page", "Runtime", "Log", "Network"] {
            self.command(&format!("{domain}.enable"), json!({}));
        }
        self.command("Page.navigate", json!({ "url": url }));
        while !self.events.iter().any(|event| event["method"] == "Page.loadEventFired") {
            self.receive();
        }
        let seen = "JSON.stringify([document.title, performance.getEntries()\
            .filter(one => 'nextHopProtocol' in one).map(one => [one.name, one.nextHopProtocol])])";
        let seen = self.command("Runtime.evaluate", json!({ "expression": seen }));
        let seen = seen["result"]["value"].as_str().unwrap().to_owned();
        let (title, loaded) = serde_json::from_str(&seen).unwrap();
        let taken = self.command("Page.captureScreenshot", json!({ "format": "png" }));
        Page {
            title,
            loaded,
            complaints: self.events.iter().filter_map(complaint).collect(),
            screenshot: BASE64_STANDARD.decode(taken["data"].as_str().unwrap()).unwrap(),
        }
    }

    /// Sends a command, and returns its result.
    fn command(&mut self, method: &str, parameters: Value) -> Value {
        self.last += 1;
        let text = json!({ "id": self.last, "method": method, "params": parameters }).to_string();
        self.page.send(Message::text(text)).unwrap();
        loop {
            let mut message = self.receive();
            if message["id"] == self.last {
                assert!(message.get("error").is_none(), "{method}: {message}");
                return message["result"].take();
            }
        }
    }

    /// Receives a message, and keeps it if it is an event.
    fn receive(&mut self) -> Value {
        let message = self.page.read().unwrap();
        let message: Value = serde_json::from_str(message.to_text().unwrap()).unwrap();
        if message.get("method").is_some() {
            self.events.push(message.clone());
        }
        message
    }
}

/// Returns whether a complaint is that the browser has not waited long enough.
fn is_too_slow(complaint: &str) -> bool {
    ["ERR_QUIC_", "TIMED_OUT"].iter().any(|error| complaint.contains(error))
}

/// The error that an event tells of; `None` for other events.
fn complaint(event: &Value) -> Option<String> {
    let is_one = match event["method"].as_str()? {
        "Runtime.exceptionThrown" | "Network.loadingFailed" => true,
        "Runtime.consoleAPICalled" => event["params"]["type"] == "error",
        "Log.entryAdded" => event["params"]["entry"]["level"] == "error",
        _ => false,
    };
    is_one.then(|| event.to_string())
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Its helpers end with it.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
