//! Random rules.

/// Rules that follow from a seed.
pub struct Rules {
    state: u64,
}

/// The requests for random rules.
pub const TARGETS: &[&str] = &[
    "/",
    "/a.txt",
    "/a.txt?q=1",
    "/b.txt",
    "/page.html",
    "/dump.php",
    "/dump.php?q=2",
    "/dump.php/info",
    "/dir",
    "/dir/",
    "/dir/a.txt",
    "/dir/dump.php?q=1",
    "/dir/none",
    "/files/",
    "/none",
    "/none/deep",
    "/x",
    "/x/y?z",
    "/html/",
    "/deep/er/a.txt",
    "/secret/s.txt",
    "POST /dump.php | = body",
    "POST /x | X-A: 1 | = body",
    "HEAD /a.txt",
    "/a.txt | X-A: 1",
    "/dir/a.txt | X-A: 2",
    "/dump.php | X-A: 1 | User-Agent: Bot",
    "/x?q=1 | User-Agent: Bot",
    "/image.png | Accept-Encoding: gzip",
    "/a%20b",
    "/README",
];

const PATTERNS: &[&str] = &[
    "^x$",
    "^x",
    "^(.*)$",
    ".",
    "^a\\.txt$",
    "^(a|b)\\.(txt)$",
    "\\.txt$",
    "!\\.txt$",
    "^dir/(.*)$",
    "^none",
    "^(.+)/(.*)$",
    "^$",
    "php",
    "^([^/]+)$",
    "!^x",
    "^(.*)\\.html$",
    "^.+$",
];
const SUBSTITUTIONS: &[&str] = &[
    "-",
    "/a.txt",
    "b.txt",
    "/dump.php?p=$1",
    "dump.php",
    "/dir/$1",
    "dir/",
    "/none",
    "x",
    "/x?y=%1",
    "/page.html",
    "$1",
    "/$1",
    "http://o.example/$1",
    "/dump.php/$1",
    "/y?%{QUERY_STRING}",
    "index.php",
    "/secret/s.txt",
    "%{REQUEST_URI}x",
];
const FLAGS: &[&str] = &[
    "L",
    "L",
    "L",
    "END",
    "R",
    "R=301",
    "F",
    "G",
    "NC",
    "QSA",
    "QSD",
    "NE",
    "B",
    "PT",
    "C",
    "S=1",
    "E=V:$1",
    "E=V:1",
    "E=W:%{ENV:V}",
    "E=!V",
    "T=text/x-r",
    "NS",
    "R=404",
    "CO=c:d:o.example",
    "DPI",
];
const STRINGS: &[&str] = &[
    "%{REQUEST_URI}",
    "%{QUERY_STRING}",
    "%{REQUEST_FILENAME}",
    "%{HTTP:X-A}",
    "%{ENV:V}",
    "%{ENV:REDIRECT_STATUS}",
    "$1",
    "%{REQUEST_METHOD}",
    "%{HTTP_USER_AGENT}",
    "%1",
    "%{THE_REQUEST}",
    "%{DOCUMENT_ROOT}/$1",
    "%{PATH_INFO}",
    "%{ENV:REDIRECT_V}",
];
const TESTS: &[&str] = &[
    "-f",
    "!-f",
    "-d",
    "!-d",
    "^$",
    "!^$",
    "=1",
    "^/x",
    "txt",
    "(.)",
    "!bot [NC]",
    "bot [NC]",
    "POST",
    ">a",
    "q=(\\d)",
    "200",
    "!x",
    "-s",
    "-eq1",
    "^(.*)$",
    "(.)(.) [OR]",
    "x [OR]",
    "!-f [OR]",
    "-U",
];
const PLAIN: &[&str] = &[
    "Header set X-H 1",
    "Header append X-H 2",
    "Header always set X-H 3",
    "Header always append X-H 4",
    "Header unset X-H",
    "Header edit X-H (\\d) <$1>",
    "Header merge X-H 1",
    "Header set X-V \"%{V}e\" env=V",
    "Header always set X-S \"expr=%{REQUEST_STATUS}\"",
    "Header set X-U \"expr=%{REQUEST_URI}\" \"expr=%{QUERY_STRING} =~ /q/\"",
    "Header add X-H 5",
    "RequestHeader set X-A new",
    "RequestHeader append X-A more",
    "RequestHeader unset X-A",
    "SetEnv V set",
    "UnsetEnv V",
    "SetEnvIf X-A (.*) V=if-$1",
    "SetEnvIf Request_URI (x|dir) V=$1 W",
    "SetEnvIfNoCase User-Agent bot V=bot",
    "BrowserMatch Bot !V",
    "SetEnvIfExpr \"%{REQUEST_METHOD} == 'POST'\" V=post",
    "ForceType text/x-forced",
    "AddType text/x-added .txt .html",
    "AddCharset utf-8 .txt",
    "AddDefaultCharset iso-8859-15",
    "AddHandler application/x-httpd-php .unknown",
    "SetHandler default-handler",
    "RemoveType .txt",
    "AddLanguage de .txt",
    "ExpiresActive On",
    "ExpiresDefault A60",
    "ExpiresByType text/plain A120",
    "FileETag None",
    "DirectoryIndex a.txt",
    "DirectoryIndex none index.php",
    "DirectoryIndex disabled",
    "DirectorySlash Off",
    "FallbackResource /dump.php",
    "FallbackResource disabled",
    "ErrorDocument 404 /b.txt",
    "ErrorDocument 404 \"not there\"",
    "ErrorDocument 403 /dump.php?denied",
    "ErrorDocument 403 \"denied\"",
    "ErrorDocument 404 /none-either",
    "Options +Indexes",
    "Options -Indexes",
    "Options +MultiViews",
    "AcceptPathInfo Off",
    "AcceptPathInfo On",
    "Redirect /x http://o.example/r",
    "Redirect 301 /none /a.txt",
    "Redirect 410 /dir/none",
    "RedirectMatch ^/(none|x)/(.*)$ /r/$2",
    "RedirectMatch 404 ^/secret",
    "LimitRequestBody 3",
    "php_value precision 7",
    "php_flag display_errors On",
    "AddOutputFilterByType DEFLATE text/plain",
    "SetOutputFilter DEFLATE",
];
const ACCESS: &[&str] = &[
    "Require all granted",
    "Require all denied",
    "Require method GET HEAD",
    "Require env V",
    "Require expr \"%{QUERY_STRING} =~ /q/\"",
    "Require ip 127.0.0.1",
    "Require not env V",
    "Order allow,deny",
    "Order deny,allow",
    "Deny from all",
    "Allow from all",
    "Allow from env=V",
    "Deny from env=V",
    "Satisfy any",
];
const SECTIONS: &[(&str, &str)] = &[
    ("<Files \"a.txt\">", "</Files>"),
    ("<Files \"*.php\">", "</Files>"),
    ("<FilesMatch \"^(a|b|x)\">", "</FilesMatch>"),
    ("<FilesMatch \"(txt|html)$\">", "</FilesMatch>"),
    ("<If \"%{QUERY_STRING} =~ /q/\">", "</If>"),
    ("<If \"%{REQUEST_URI} =~ m#^/dir#\">", "</If>"),
    ("<If \"-n req('X-A')\">", "</If>"),
    ("<If \"%{REQUEST_METHOD} == 'POST'\">", "</If>"),
    ("<IfModule mod_rewrite.c>", "</IfModule>"),
    ("<IfModule !mod_rewrite.c>", "</IfModule>"),
    ("<Limit POST>", "</Limit>"),
    ("<LimitExcept GET>", "</LimitExcept>"),
];
const GROUPS: &[(&str, &str)] = &[
    ("<RequireAll>", "</RequireAll>"),
    ("<RequireAny>", "</RequireAny>"),
    ("<RequireNone>", "</RequireNone>"),
];

impl Rules {
    pub fn new(seed: u64) -> Rules {
        Rules {
            state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(0x1234_5678),
        }
    }

    /// Rules for a file.
    pub fn file(&mut self) -> String {
        let mut lines = Vec::new();
        if self.chance(75) {
            lines.push("RewriteEngine On".to_owned());
        }
        for _ in 0..2 + self.below(6) {
            self.item(&mut lines, true);
        }
        lines.iter().map(|line| format!("{line}\n")).collect()
    }

    fn item(&mut self, lines: &mut Vec<String>, outside: bool) {
        match self.below(100) {
            0..40 => self.rule(lines),
            40..75 => lines.push(self.pick(PLAIN).to_owned()),
            75..83 => lines.push(self.pick(ACCESS).to_owned()),
            83..87 => {
                let (begin, end) = *self.any(GROUPS);
                lines.push(begin.to_owned());
                for _ in 0..1 + self.below(3) {
                    lines.push(self.pick(&ACCESS[..7]).to_owned());
                }
                lines.push(end.to_owned());
            }
            _ if outside => {
                let (begin, end) = *self.any(SECTIONS);
                lines.push(begin.to_owned());
                for _ in 0..1 + self.below(3) {
                    self.item(lines, false);
                }
                lines.push(end.to_owned());
            }
            _ => lines.push(self.pick(PLAIN).to_owned()),
        }
    }

    fn rule(&mut self, lines: &mut Vec<String>) {
        for _ in 0..self.below(3) {
            let (string, test) = (self.pick(STRINGS), self.pick(TESTS));
            lines.push(format!("RewriteCond {string} {test}"));
        }
        let (pattern, substitution) = (self.pick(PATTERNS), self.pick(SUBSTITUTIONS));
        let mut flags: Vec<&str> = Vec::new();
        for _ in 0..self.below(4) {
            flags.push(self.pick(FLAGS));
        }
        let flags = if flags.is_empty() {
            String::new()
        } else {
            format!(" [{}]", flags.join(","))
        };
        lines.push(format!("RewriteRule {pattern} {substitution}{flags}"));
    }

    /// One of them.
    pub fn pick<'t>(&mut self, texts: &[&'t str]) -> &'t str {
        texts[self.below(texts.len())]
    }

    fn any<'t, T>(&mut self, all: &'t [T]) -> &'t T {
        &all[self.below(all.len())]
    }

    /// Returns `true` with this probability in percent.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// Below a limit (xorshift with a multiplication).
    fn below(&mut self, limit: usize) -> usize {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        let mixed = self.state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33;
        usize::try_from(mixed).unwrap() % limit
    }
}
