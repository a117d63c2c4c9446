//! A short, repeatable run of the properties over made-up requests.

use super::{directives, resolution};

/// Pieces that mean something somewhere; made-up paths are strung together from them.
const PIECES: [&str; 34] = [
    "/",
    "//",
    "/./",
    "/../",
    "..",
    ".",
    "%2e",
    "%2E%2e",
    "%2f",
    "%5c",
    "\\",
    "%00",
    "%",
    "%2",
    "%zz",
    "%25",
    "%c3%a9",
    "a",
    "index.php",
    "/index.php/",
    ".php",
    ".phtml",
    ".PHP",
    ".phps",
    ".htaccess",
    ".well-known",
    ".git",
    "?",
    "?q=1",
    "*",
    " ",
    "~",
    "+",
    "\u{e9}",
];

const HOSTS: [&str; 10] = [
    "example.org",
    "a.example",
    "..",
    "../..",
    "a/b.example",
    "[::1]:80",
    "UPPER.example.:81",
    "",
    "a_b.example",
    ".",
];

#[test]
fn nothing_leaves_the_root() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for _ in 0..15_000 {
        let mut data = HOSTS[random.below(HOSTS.len())].as_bytes().to_vec();
        data.extend_from_slice(b"\n/");
        for _ in 0..random.below(9) {
            data.extend_from_slice(PIECES[random.below(PIECES.len())].as_bytes());
        }
        data.push(b'\n');
        data.extend((0..random.below(6)).map(|_| random.below(4) as u8));
        resolution(&data);
    }
}

#[test]
fn any_bytes_at_all() {
    let mut random = Random(0x1234_5678_9abc_def1);
    for _ in 0..15_000 {
        let data: Vec<u8> = (0..random.below(60)).map(|_| random.below(256) as u8).collect();
        resolution(&data);
        resolution(&[b"a.example\n/", &data[..]].concat());
    }
}

#[test]
fn long_paths_are_not_asked_about() {
    for length in [4000, 4085, 4086, 4087, 4088, 4096, 8000] {
        let target = [b"h\n/".to_vec(), vec![b'a'; length], b"\n\0".to_vec()].concat();
        resolution(&target);
    }
}

/// Lines of directives; made-up files are strung together from them.
const LINES: [&str; 44] = [
    "RewriteEngine On",
    "RewriteEngine Off",
    "RewriteBase /",
    "RewriteBase /a/",
    "RewriteRule ^(.*)$ /index.php?q=$1 [L,QSA]",
    "RewriteRule . index.php",
    "RewriteRule ^a/(.*) ../$1",
    "RewriteRule (.*) /../../etc/$1",
    "RewriteRule (.*) $1/x.html [N=20]",
    "RewriteRule ^x - [F]",
    "RewriteRule ^y http://other.example/%{QUERY_STRING} [R=301,NE]",
    "RewriteRule (.+) /$1%2e%2e/ [PT]",
    "RewriteRule ^ - [E=V:%{REQUEST_URI},S=2]",
    "RewriteRule (.*) /b.txt [END]",
    "RewriteRule ^(.)(.*)$ $2$1 [C]",
    "RewriteRule (.*) - [H=application/x-httpd-php,T=text/plain]",
    "RewriteCond %{REQUEST_FILENAME} !-f",
    "RewriteCond %{LA-U:REQUEST_FILENAME} (.*)",
    "RewriteCond /x.html -U",
    "RewriteCond %{REQUEST_URI} -F [OR]",
    "RewriteCond %{ENV:REDIRECT_STATUS} =200",
    "Redirect /b /c",
    "RedirectMatch 410 ^/c",
    "RedirectMatch ^/(.*)$ /a/$1",
    "ErrorDocument 404 /index.php",
    "ErrorDocument 403 /none",
    "ErrorDocument 500 text",
    "ErrorDocument 404 http://other.example/",
    "DirectoryIndex none x.html /index.php",
    "DirectoryIndex ../../x a/",
    "DirectorySlash Off",
    "FallbackResource /index.php",
    "FallbackResource /none",
    "Options +Indexes +MultiViews -FollowSymLinks",
    "Options SymLinksIfOwnerMatch",
    "Require all denied",
    "Require ip 127",
    "AddHandler application/x-httpd-php .html",
    "AcceptPathInfo On",
    "SetHandler default-handler",
    "php_flag engine off",
    "<Files x*>\nRequire all denied\n</Files>",
    "<FilesMatch \"\\.(php|txt)$\">\nSetHandler none\n</FilesMatch>",
    "NoSuchDirective",
];

#[test]
fn directives_lead_nowhere_else() {
    let mut random = Random(0x0dd_ba11_5eed);
    for _ in 0..4_000 {
        let mut data = b"/".to_vec();
        for _ in 0..random.below(6) {
            data.extend_from_slice(PIECES[random.below(PIECES.len())].as_bytes());
        }
        for lines in [7, 4] {
            data.push(0);
            for _ in 0..random.below(lines) {
                // The last makes the whole file a mistake, so it is rare.
                let kinds = LINES.len() - usize::from(random.below(20) > 0);
                data.extend_from_slice(LINES[random.below(kinds)].as_bytes());
                data.push(b'\n');
            }
        }
        directives(&data);
    }
}

/// xorshift64: the same numbers on every run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as usize % limit
    }
}
