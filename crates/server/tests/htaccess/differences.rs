//! The intended differences between Howdah and Apache, with their reasons. A difference that no
//! case shows any more fails the suite.

use crate::answer::Answer;

/// A decided difference.
pub struct Decided {
    /// The cases: `file: title`, with `*` for anything.
    pub cases: &'static str,
    /// The request, as it is written, with `*` for anything.
    pub request: &'static str,
    /// A line that Apache's answer has and Howdah's lacks, with `*` for anything; empty for none.
    pub apache: &'static str,
    /// A line that Howdah's answer has and Apache's lacks.
    pub howdah: &'static str,
    /// Whether the answers have nothing more in common, so that the other lines say nothing.
    pub is_all: bool,
    pub why: &'static str,
}

/// A difference in one line.
const fn line(
    cases: &'static str,
    apache: &'static str,
    howdah: &'static str,
    why: &'static str,
) -> Decided {
    Decided {
        cases,
        request: "*",
        apache,
        howdah,
        is_all: false,
        why,
    }
}

/// A difference in one line of the answers to some requests.
const fn part(
    cases: &'static str,
    request: &'static str,
    apache: &'static str,
    howdah: &'static str,
    why: &'static str,
) -> Decided {
    Decided {
        request,
        ..line(cases, apache, howdah, why)
    }
}

/// Another answer altogether, known by a line of each.
const fn answer(
    cases: &'static str,
    request: &'static str,
    apache: &'static str,
    howdah: &'static str,
    why: &'static str,
) -> Decided {
    Decided {
        is_all: true,
        ..part(cases, request, apache, howdah, why)
    }
}

const UNTYPED: &str =
    "without a type a browser guesses, and a visitor's upload could become a page of the site";
const UTF_8: &str = "messages are in the encoding in which files are written today";
const LISTED: &str = "a listing is in the encoding of Debian's autoindex.conf, and of file names";
const NO_TRACE: &str =
    "Howdah names the methods that it answers for a file; Apache names TRACE, too, or alone";
const ITS_PATH: &str = "the path of a path: not the result of a rule, an index file or a fallback";
const TAKEN_AWAY: &str =
    "whoever takes PHP's handler or type away wants scripts not to run; they are not sent either";
const NOT_SHOWN: &str = "the source of a script is never shown";
const NO_SSL: &str = "the Apache beside has no mod_ssl";
const NO_DIGEST: &str = "HTTP has dropped Content-MD5 (RFC 7231)";
const HAS_PAGE: &str = "a 500 has a page; Apache's ends without any where a field cannot be sent";
const LIKE_ITS_200: &str =
    "a 304 has the fields by which caches tell responses apart (RFC 9110, 15.4.5)";
const NO_SCRIPT: &str = "there is no script of that name";

/// All of them.
#[rustfmt::skip] // One line each.
pub const DECIDED: &[Decided] = &[
    // Ranges.
    line("ranges: *", "", "content-range: bytes */10", "a 416 tells the length (RFC 9110, section 15.5.17)"),
    answer("ranges: *", "POST /a.txt*", "206", "200", "a range is for GET (RFC 9110, section 14.2)"),
    // All answers.
    line("*", "", "$HTTP_AUTHORIZATION=*", "scripts see it without the rules that every application carries for that"),
    line("*", "", "content-type: application/octet-stream", UNTYPED),
    line("*", "allow: *", "allow: get, head, options, post", NO_TRACE),
    line("*", "content-type: text/html; charset=iso-8859-1", "content-type: text/html; charset=utf-8", UTF_8),
    line("*", "content-type: text/*;charset=ISO-8859-1", "content-type: text/*;charset=UTF-8", LISTED),
    line("*", "x-*text/html; charset=iso-8859-1*", "x-*text/html; charset=utf-8*", UTF_8),
    line("*", "$PATH_TRANSLATED=redirect:*", "$PATH_TRANSLATED={root}*", ITS_PATH),
    line("*", "$PATH_TRANSLATED={root}/*", "$PATH_TRANSLATED={root}*", ITS_PATH),
    answer("*", "*", "body: <?php*", "403", "a script that PHP is not to run is not sent as text"),
    answer("*", "*", "before it: *", "413", "content that is too long is refused, and not given to the script as well"),
    part("*", "*%00*", "404", "400", "a NUL is never meant; 400 says whose mistake it is"),
    part("*", "OPTIONS *", "content-type: httpd/unix-directory", "", "a folder has no media type"),
    part("filters: conditional requests for a compressed file", "/big.txt *", "", "vary: accept-encoding", LIKE_ITS_200),
    part("filters: conditional requests for a compressed file", "/big.txt *If-Modified*", "etag: {etag}", "etag: {etag}-gzip", LIKE_ITS_200),
    part("corpus: *roundcube*", "OPTIONS *", "vary: accept-encoding", "", "what has no content is not compressed"),

    // Methods and names.
    part("core: methods on files", "FOO *", "501", "405", "the method is known well enough to be refused for a file"),
    part("core: a file of rules in a folder *", "*.ht*", "404", "403", "a name that is refused is refused whether it is there or not"),
    answer("core: dot files and backups*", "/.htdir/x", "200", "403", "a name that is refused is refused for folders, too"),
    part("core: *", "/dangling", "403", "404", "what a link leads to is not there"),
    line("core: *ContentDigest*", "content-md5: *", "", NO_DIGEST),

    // PHP.
    answer("mime: Remove* .php", "/dump.php", "php: *", "403", TAKEN_AWAY),
    answer("mime: Remove* .php", "/dump.php/x.txt", "php: *", "404", TAKEN_AWAY),
    answer("mime: uploads in which nothing may run: Remove*", "/dir/*", "php: *", "403", TAKEN_AWAY),
    answer("corpus: thirtybees*/upload/.htaccess", "*", "php: *", "40*", TAKEN_AWAY),
    answer("corpus: mautic*/images/.htaccess", "*", "php: *", "40*", TAKEN_AWAY),
    part("corpus: *", "*.php/*", "404", "403", "without PHP a script is not sent as text, whatever follows its name"),
    answer("mime: SetHandler cgi-script", "*", "as a file", "403", "programs that do not run are not sent either; Apache sends them where mod_cgi is not loaded"),
    answer("mime: handlers for other names of PHP: *", "*", "body: <?php*", "body: run", "the names that hosts have given PHP's handler run PHP here; an Apache without them sends the source"),
    answer("mime: handlers for other names of PHP: *source", "*", "body: <code>*", "403", NOT_SHOWN),
    answer("rewrite-rounds: a handler*php", "*", "500", "404", NO_SCRIPT),
    answer("rewrite-rounds: a handler*php", "*", "403", "404", NO_SCRIPT),
    line("php: .user.ini*", "", "ini serialize_precision=6", "Howdah reads .user.ini, mod_php does not"),
    answer("php: *", "*Status:+404", "200", "404", "Status is the status, as with every other way to run PHP"),

    // Files, their fields and their filters.
    answer("filters: *BROTLI_COMPRESS*", "*Accept-Encoding: *", "200", "content-encoding: gzip", "a client that takes gzip and no Brotli gets gzip"),
    answer("filters: *", "*Range: *", "206", "200", "ranges of what is compressed anew each time fit no other answer's"),
    answer("headers: headers on *", "*Range: bytes=99-", "416", "416", "the length is told instead of a page (RFC 9110, section 15.5.17)"),
    answer("headers: Header always set Content-Length 5", "*", "*", "*", "a length that is not the content's would break the connection: it is left out"),
    line("headers: Header always set \"X A\" 1", "", "body: default page", HAS_PAGE),
    line("headers: RequestHeader: add X-Any 1", "getallheaders x-any=1", "getallheaders x-any=aba, 1", "a field that was sent and added has both values"),
    line("headers: Header always set X-A \"line\\nline\"", "", "body: default page", HAS_PAGE),
    line("expressions: functions by their short form: a*b", "", "body: default page", HAS_PAGE),
    line("expressions: * HANDLER", "x-v: <*>", "x-v: <>", "no handler is made of a media type"),
    line("rewrite-flags: T: *", "content-type: text/plain;charset=utf-8", "content-type: text/plain; charset=utf-8", "a space"),
    answer("negotiation: type maps", "/doc.var*", "200", "403", "type maps are not read, and not sent as text either"),
    line("autoindex: * ScanHTMLTitles", "body: listing *", "body: listing *", "files are not read for a listing"),

    // Things that this Apache does not have.
    answer("language: a mistake: SSLRequireSSL", "*", "500", "403", NO_SSL),
    answer("language: a mistake: SSLOptions *", "*", "500", "*", NO_SSL),
    line("language: IfModule: mod_ssl.c", "", "x-in: 1", NO_SSL),
    line("headers: *%{HTTPS}s*", "*(null)*", "*off*", NO_SSL),
    line("language: a mistake: ContentDigest On", "content-md5: *", "", NO_DIGEST),

    // Random rules.
    line("random: *", "$PATH_TRANSLATED=http:*", "$PATH_TRANSLATED={root}*", ITS_PATH),
    line("random: *", "", "$PATH_TRANSLATED={root}*", "the path of a path, also where Apache has no sub-request left to find it by"),
    part("random: *", "/dump.php/info", "$SCRIPT_NAME=/dump.php/info", "", "a script's name is its path, also where DPI has left out the path behind it"),
    part("random: *", "/dump.php/info", "set-cookie: *", "", "no rules are asked for PATH_TRANSLATED"),
    part("random: *", "*", "302", "500", "rules that go on for ever: Apache ends with a redirect that leads nowhere"),
];

/// Returns the lines of Apache's and of Howdah's answer that differ, without the intended
/// differences.
pub fn left(
    case: &str,
    request: &str,
    apache: &Answer,
    howdah: &Answer,
    mut used: impl FnMut(usize),
) -> (Vec<String>, Vec<String>) {
    let (mut theirs, mut ours) = (apache.without(howdah), howdah.without(apache));
    for (number, decided) in DECIDED.iter().enumerate() {
        let has = |lines: &[String], answer: &Answer, pattern: &str| {
            let lines = if decided.is_all { &answer.0 } else { lines };
            pattern.is_empty() || lines.iter().any(|line| matches(pattern, line))
        };
        let is_about = matches(decided.cases, case) && matches(decided.request, request);
        let differs = !theirs.is_empty() || !ours.is_empty();
        if !(is_about
            && differs
            && has(&theirs, apache, decided.apache)
            && has(&ours, howdah, decided.howdah))
        {
            continue;
        }
        used(number);
        if decided.is_all {
            return (Vec::new(), Vec::new());
        }
        theirs.retain(|line| !matches(decided.apache, line));
        ours.retain(|line| !matches(decided.howdah, line));
    }
    (theirs, ours)
}

/// Returns whether a text matches the pattern, in which `*` matches anything.
fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else {
        return false;
    };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    true
}

#[test]
fn patterns() {
    let rows = [
        ("a", "a", true),
        ("a", "ab", false),
        ("", "", true),
        ("a*", "abc", true),
        ("*c", "abc", true),
        ("a*c", "abd", false),
        ("a*b*c", "a1b2c", true),
        ("a*b*c", "a1c", false),
    ];
    for (pattern, text, expected) in rows {
        assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
    }
}
