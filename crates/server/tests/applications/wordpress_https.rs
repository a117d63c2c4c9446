//! WordPress over https, as curl uses it with HTTP/1.1 and HTTP/2: from the installer on every
//! address is one of https.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::folder::give_to_php;
use crate::guide::configuration;
use crate::packages::installed;
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
}

/// A page, redirects followed.
struct Visited {
    /// The version, the status, and the number of redirects.
    way: String,
    url: String,
    /// The heads of all responses.
    heads: String,
    text: String,
}

impl Visitor<'_> {
    fn base(&self) -> String {
        format!("https://localhost:{}", self.server.address().port())
    }

    fn visit(&self, path: &str, form: &[(&str, &str)]) -> Visited {
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
        for (name, value) in form {
            curl.args(["--data-urlencode", &format!("{name}={value}")]);
        }
        let output = curl.arg(format!("{}{path}", self.base())).output().unwrap();
        let told = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{path}: {}", String::from_utf8_lossy(&output.stderr));
        let (way, url) = told.rsplit_once(' ').unwrap();
        let read =
            |name: &str| String::from_utf8_lossy(&fs::read(file(name)).unwrap()).into_owned();
        Visited {
            way: way.to_owned(),
            url: url.to_owned(),
            heads: read("heads"),
            text: read("page"),
        }
    }

    /// A page with status 200 after that many redirects, which contains `content` and nothing that
    /// a browser would load in the clear.
    fn must_see(&self, visited: &Visited, redirects: usize, url: &str, content: &str) {
        let Visited { way, url: seen, heads, text } = visited;
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
    if !installed("wordpress_over_https", &[CURL]) {
        return;
    }
    let folder = Folder::new();
    let Some(site) = site("wordpress_over_https", &folder) else {
        return;
    };
    give_to_php(&site.join("wp-content"));
    let own = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    folder.file("own.pem", own.cert.pem());
    folder.file("own.key", own.signing_key.serialize_pem());
    let tls = "[[site]]\nhosts = [\"localhost\"]\n\
        tls = { cert = \"@folder@/own.pem\", key = \"@folder@/own.key\" }\n";
    let settings = configuration("WordPress", "@folder@/site").replacen("[[site]]\n", tls, 1);
    let server = Server::start_encrypted(&folder, &(settings + MAIL));
    let visitor = |version| Visitor {
        server: &server,
        folder: folder.path(),
        version,
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
    for version in ["1.1", "2"] {
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
    }
    server.stop_knowing(&["wp-content/database/.htaccess: it cannot be read"]);
}
