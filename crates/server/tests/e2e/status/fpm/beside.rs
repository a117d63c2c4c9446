//! The status page beside the one of a php-fpm of Debian.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::site::{Options, Site};
use crate::support::{Folder, has_php, is_root, wait_until};

/// Time after which php-fpm is asked again.
const ANSWER: Duration = Duration::from_secs(30);
const PROGRAM: &str = "/usr/sbin/php-fpm8.2";

/// A php-fpm with two workers that runs until the test ends.
struct PhpFpm {
    child: Child,
    folder: Folder,
}

impl Drop for PhpFpm {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl PhpFpm {
    /// `None` where it is not installed, and where it does not start.
    fn start() -> Option<PhpFpm> {
        if !Path::new(PROGRAM).exists() {
            howdah_skip::skip!("no {PROGRAM}; scripts/install-packages.sh test installs it");
            return None;
        }
        let folder = Folder::new();
        let path = folder.path().display();
        let user = if is_root() { "user = nobody\n" } else { "" };
        let config = format!(
            "[global]\nerror_log = {path}/log\ndaemonize = no\n[www]\n{user}\
             listen = {path}/socket\npm = static\npm.max_children = 2\n\
             pm.status_path = /fpm-status\nping.path = /fpm-ping\n"
        );
        let file = folder.file("php-fpm.conf", config);
        let child = Command::new(PROGRAM)
            .args(["-n", "-y"])
            .arg(file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut php_fpm = PhpFpm { child, folder };
        let mut has_ended = false;
        wait_until("php-fpm has both workers", || {
            has_ended = php_fpm.child.try_wait().unwrap().is_some();
            let page = php_fpm.try_ask("/fpm-status", "full").unwrap_or_default();
            has_ended || page.matches("\npid:").count() == 2
        });
        if has_ended {
            let log = std::fs::read_to_string(php_fpm.folder.path().join("log"));
            howdah_skip::skip!("php-fpm does not start: {}", log.unwrap_or_default());
        }
        (!has_ended).then_some(php_fpm)
    }

    fn socket(&self) -> std::path::PathBuf {
        self.folder.path().join("socket")
    }

    /// Returns the fields and the content of a response.
    fn ask(&self, path: &str, query: &str) -> (String, String) {
        let mut answer = None;
        wait_until("php-fpm answers", || {
            let text = self.try_ask(path, query).unwrap_or_default();
            answer = text
                .split_once("\r\n\r\n")
                .map(|(head, content)| (head.to_owned(), content.to_owned()));
            answer.is_some()
        });
        answer.unwrap()
    }

    /// Asks as a web server does.
    fn try_ask(&self, path: &str, query: &str) -> io::Result<String> {
        let mut socket = UnixStream::connect(self.socket())?;
        socket.set_read_timeout(Some(ANSWER))?;
        let variables = [
            ("REQUEST_METHOD", "GET"),
            ("SCRIPT_NAME", path),
            ("SCRIPT_FILENAME", path),
            ("REQUEST_URI", path),
            ("QUERY_STRING", query),
        ];
        let mut pairs = Vec::new();
        for (name, value) in variables {
            pairs.extend([name.len() as u8, value.len() as u8]);
            pairs.extend([name.as_bytes(), value.as_bytes()].concat());
        }
        // Begin: a responder that closes the connection. Then the variables, and no content.
        for (kind, content) in [(1, &[0, 1, 0, 0, 0, 0, 0, 0][..]), (4, &pairs), (4, &[]), (5, &[])]
        {
            let length = (content.len() as u16).to_be_bytes();
            socket.write_all(&[1, kind, 0, 1, length[0], length[1], 0, 0])?;
            socket.write_all(content)?;
        }
        let mut bytes = Vec::new();
        socket.read_to_end(&mut bytes)?;
        let (mut rest, mut output) = (bytes.as_slice(), Vec::new());
        while let [1, kind, _, _, high, low, padding, _, more @ ..] = rest {
            let (content, more) = more.split_at(usize::from(u16::from_be_bytes([*high, *low])));
            if *kind == 6 {
                output.extend_from_slice(content);
            }
            rest = &more[usize::from(*padding)..];
        }
        String::from_utf8(output).map_err(io::Error::other)
    }
}

/// A value of a field in the head of a response.
fn field<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    let mut fields = head.lines().filter_map(|line| line.split_once(": "));
    fields
        .find(|(known, _)| known.eq_ignore_ascii_case(name))
        .map(|(_, value)| value)
}

/// The text without what is between `from` and `to`.
fn without(text: &str, from: &str, to: &str) -> String {
    let mut parts = text.split(from);
    let mut rest = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        rest += from;
        rest += part.find(to).map_or(part, |end| &part[end..]);
    }
    rest
}

/// The form of a page in each format: all that is not a value.
fn form(query: &str, page: &str) -> String {
    match query.split(['&', '=']).next().unwrap_or_default() {
        "json" => {
            serde_json::from_str::<Value>(page).unwrap_or_else(|error| panic!("{error}: {page}"));
            let words = page.split('"').skip(1).step_by(2);
            let is_name = |word: &&str| page.contains(&format!("\"{word}\":"));
            words.filter(is_name).collect::<Vec<_>>().join("\n")
        }
        "html" => {
            let tables = page.split_once("<table").unwrap().1.rsplit_once("</table>").unwrap().0;
            without(tables, "<td>", "</td>")
        }
        "xml" => page.lines().map(|line| without(line, ">", "<") + "\n").collect(),
        "openmetrics" => {
            let value = |line: &str| match line.rsplit_once(' ') {
                Some((name, _)) if !line.starts_with('#') => name.to_owned(),
                _ => line.to_owned(),
            };
            // Descriptions are for people.
            let lines = page.lines().filter(|line| !line.starts_with("# HELP"));
            lines.map(|line| value(line) + "\n").collect()
        }
        _ => {
            // A label with its spaces.
            let label = |line: &str| {
                let end = line.find(':').map_or(line.len(), |end| end + 1);
                let spaces = line[end..].len() - line[end..].trim_start().len();
                line[..end + spaces].to_owned() + "\n"
            };
            page.lines().map(label).collect()
        }
    }
}

#[test]
fn every_format_has_the_form_of_php_fpms_own_page() {
    let Some(php_fpm) = PhpFpm::start().filter(|_| has_php()) else {
        return;
    };
    let options = Options {
        site: "name = \"www\"",
        php: "workers = 2\nmode = \"static\"\nstatus_path = \"/fpm-status\"\n\
              ping_path = \"/fpm-ping\"\n",
        ..Options::default()
    };
    let site = Site::with(&[], &options);
    wait_until("both workers are there", || site.server.workers().len() == 2);
    wait_until("the pool knows both workers", || {
        site.get("/fpm-status?full").text().matches("\npid:").count() == 2
    });
    for query in [
        "",
        "full",
        "json",
        "json&full",
        "json=1&full=1",
        "json=&_=7",
        "html",
        "html&full",
        "xml",
        "xml&full",
        "openmetrics",
    ] {
        let (head, page) = php_fpm.ask("/fpm-status", query);
        let reply = site.get(&format!("/fpm-status?{query}"));
        assert_eq!(form(query, reply.text()), form(query, &page), "{query}: {page}");
        let name = "content-type";
        let media_type = |value: &str| value.to_ascii_lowercase().replace(' ', "");
        assert_eq!(reply.field(name).map(media_type), field(&head, name).map(media_type));
        for name in ["cache-control", "expires"] {
            assert_eq!(reply.field(name), field(&head, name), "{name} of {query}");
        }
    }
    let (head, page) = php_fpm.ask("/fpm-ping", "");
    let reply = site.get("/fpm-ping");
    assert_eq!(reply.text(), page);
    for name in ["content-type", "cache-control", "expires"] {
        assert_eq!(reply.field(name), field(&head, name), "{name} of ping");
    }
}
