//! WordPress over https, as curl uses it with HTTP/1.1 and HTTP/2, and the `h3` crate with HTTP/3:
//! from the installer on every address is one of https.

use std::fs;
use std::path::Path;
use std::process::Command;

use image::ImageFormat;

use crate::folder::give_to_php;
use crate::guide::configuration;
use crate::http3::{Answer, Http3};
use crate::packages::installed;
use crate::picture::draw;
use crate::server::Server;
use crate::support::Folder;
use crate::wordpress::TITLE;
use crate::wordpress_sqlite::{MAIL, site};

const CURL: &str = "/usr/bin/curl";

/// A visitor that speaks one version of HTTP.
struct Visitor<'s> {
    server: &'s Server,
    folder: &'s Path,
    version: &'static str,
    http3: Http3,
}

/// A page, redirects followed.
struct Visited {
    /// The version, the status, and the number of redirects.
    way: String,
    url: String,
    /// The heads of all responses.
    heads: String,
    content: Vec<u8>,
    text: String,
}

impl Visitor<'_> {
    fn base(&self) -> String {
        format!("https://localhost:{}", self.server.address().port())
    }

    fn visit(&self, path: &str, form: &[(&str, &str)]) -> Visited {
        let mut encoded = url::form_urlencoded::Serializer::new(String::new());
        let encoded = encoded.extend_pairs(form).finish().into_bytes();
        let content = ("application/x-www-form-urlencoded", &encoded[..]);
        self.ask(path, (!form.is_empty()).then_some(content))
    }

    /// Sends a form with a file.
    fn upload(&self, path: &str, form: &[(&str, &str)], name: &str, file: &[u8]) -> Visited {
        const BETWEEN: &str = "---------------------------19660729";
        let mut content = Vec::new();
        for (field, value) in form {
            let part = format!("Content-Disposition: form-data; name=\"{field}\"\r\n\r\n{value}");
            content.extend_from_slice(format!("--{BETWEEN}\r\n{part}\r\n").as_bytes());
        }
        let head = format!(
            "--{BETWEEN}\r\nContent-Disposition: form-data; name=\"async-upload\"; \
             filename=\"{name}\"\r\nContent-Type: image/png\r\n\r\n"
        );
        content.extend_from_slice(head.as_bytes());
        content.extend_from_slice(file);
        content.extend_from_slice(format!("\r\n--{BETWEEN}--\r\n").as_bytes());
        self.ask(path, Some((&format!("multipart/form-data; boundary={BETWEEN}"), &content)))
    }

    fn ask(&self, path: &str, content: Option<(&str, &[u8])>) -> Visited {
        if self.version == "3" {
            let url = format!("{}{path}", self.base());
            let Answer { status, redirects, url, heads, content } = self.http3.ask(&url, content);
            let text = String::from_utf8_lossy(&content).into_owned();
            return Visited {
                way: format!("3 {status} {redirects}"),
                url,
                heads,
                content,
                text,
            };
        }
        let file = |name: &str| self.folder.join(format!("{name}{}", self.version));
        let mut curl = Command::new(CURL);
        curl.args(["-sS", "-k", "-L", "--max-redirs", "5", "--max-time", "300"]);
        curl.arg(format!("--http{}", self.version));
        curl.args(["--resolve", &format!("localhost:{}:127.0.0.1", self.server.address().port())]);
        for name in ["-b", "-c"] {
            curl.arg(name).arg(file("cookies"));
        }
        curl.arg("-D").arg(file("heads")).arg("-o").arg(file("page"));
        curl.args(["-w", "%{http_version} %{http_code} %{num_redirects} %{url_effective}"]);
        if let Some((kind, bytes)) = content {
            fs::write(file("content"), bytes).unwrap();
            curl.arg("-H").arg(format!("Content-Type: {kind}"));
            curl.arg("--data-binary").arg(format!("@{}", file("content").display()));
        }
        let output = curl.arg(format!("{}{path}", self.base())).output().unwrap();
        let told = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{path}: {}", String::from_utf8_lossy(&output.stderr));
        let (way, url) = told.rsplit_once(' ').unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let content = fs::read(file("page")).unwrap();
        Visited {
            way: way.to_owned(),
            url: url.to_owned(),
            heads: text(&fs::read(file("heads")).unwrap()),
            text: text(&content),
            content,
        }
    }

    /// A page with status 200 after that many redirects, which contains `content` and nothing that
    /// a browser would load in the clear.
    fn must_see(&self, visited: &Visited, redirects: usize, url: &str, content: &str) {
        let Visited { way, url: seen, heads, text, .. } = visited;
        assert_eq!(way, &format!("{} 200 {redirects}", self.version), "{heads}{text}");
        assert_eq!(seen, &format!("{}{url}", self.base()));
        assert!(text.contains(content), "{content}\n{text}");
        for mixed in ["src=\"http:", "src='http:", "http://localhost", "http:\\/\\/localhost"] {
            assert!(!text.contains(mixed), "{mixed}\n{text}");
        }
    }
}

#[test]
fn wordpress_over_https() {
    if !installed(&[CURL]) {
        return;
    }
    let folder = Folder::new();
    let Some(site) = site(&folder) else {
        return;
    };
    give_to_php(&site.join("wp-content"));
    let own = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    folder.file("own.pem", own.cert.pem());
    folder.file("own.key", own.signing_key.serialize_pem());
    let tls = "[[site]]\nhosts = [\"localhost\"]\n\
        tls = { cert = \"@folder@/own.pem\", key = \"@folder@/own.key\" }\n";
    let settings = configuration("WordPress", "@folder@/site").replacen("[[site]]\n", tls, 1);
    // The port is free for TCP; another program may have it for UDP.
    let start = || {
        let server = Server::start_encrypted(&folder, &(settings.clone() + MAIL));
        let log = fs::read_to_string(folder.path().join("error.log")).unwrap_or_default();
        (server, log.matches("no HTTP/3 on").count())
    };
    let mut starts = std::iter::repeat_with(start).take(20).enumerate();
    let (_, (server, _)) = starts.find(|(number, (_, refused))| refused <= number).unwrap();
    let visitor = |version| Visitor {
        server: &server,
        folder: folder.path(),
        version,
        http3: Http3::new(server.address().port(), &own.cert.pem()),
    };

    let installer = visitor("2");
    let form = installer.visit("/", &[]);
    installer.must_see(&form, 1, "/wp-admin/install.php", "weblog_title");
    let password = "a long pass phrase & more";
    let values = [
        ("weblog_title", TITLE),
        ("user_name", "mahout"),
        ("admin_password", password),
        ("admin_password2", password),
        ("pw_weak", "1"),
        ("admin_email", "mahout@example.org"),
    ];
    let done = installer.visit("/wp-admin/install.php?step=2", &values);
    installer.must_see(&done, 0, "/wp-admin/install.php?step=2", "Success!");
    for version in ["1.1", "2", "3"] {
        let visitor = visitor(version);
        visitor.must_see(&visitor.visit("/", &[]), 0, "/", TITLE);
        let form = visitor.visit("/wp-admin/", &[]);
        assert!(form.url.starts_with(&format!("{}/wp-login.php?", visitor.base())), "{}", form.url);
        let values = [("log", "mahout"), ("pwd", password), ("testcookie", "1")];
        let dashboard = visitor.visit("/wp-login.php", &values);
        visitor.must_see(&dashboard, 1, "/wp-admin/", "wpadminbar");
        let is_cookie =
            |line: &&str| line.to_ascii_lowercase().starts_with("set-cookie: wordpress");
        let cookies: Vec<&str> = dashboard.heads.lines().filter(is_cookie).collect();
        assert!(cookies.len() >= 3, "{}", dashboard.heads);
        let is_secure = |cookie: &&str| cookie.to_ascii_lowercase().contains("; secure");
        assert!(cookies.iter().all(is_secure), "{cookies:?}");

        let form = visitor.visit("/wp-admin/media-new.php", &[]);
        visitor.must_see(&form, 0, "/wp-admin/media-new.php", "async-upload");
        let nonce = form.text.split("name=\"_wpnonce\" value=\"").nth(1).unwrap();
        let nonce = nonce.split('"').next().unwrap();
        let picture = draw(300, 200, ImageFormat::Png);
        let name = format!("elephant-{}.png", version.replace('.', "-"));
        let values = [("action", "upload-attachment"), ("_wpnonce", nonce), ("name", &name)];
        let told = visitor.upload("/wp-admin/async-upload.php", &values, &name, &picture);
        let told: serde_json::Value = serde_json::from_str(&told.text).expect(&told.text);
        assert_eq!(told["success"], true, "{told}");
        let url = told["data"]["url"].as_str().unwrap();
        let path = url.strip_prefix(&visitor.base()).expect(url);
        let shown = visitor.visit(path, &[]);
        assert_eq!(shown.way, format!("{version} 200 0"), "{url}");
        assert!(shown.content == picture, "{url}");
    }
    server.stop_knowing(&["wp-content/database/.htaccess: it cannot be read"]);
}
