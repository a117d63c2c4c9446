//! Files with tens of thousands of lines of one directive: the work that they take for a request
//! is counted, and grows with the lines.

use std::time::{Duration, Instant};

use howdah_htaccess::WorkBudget;
use howdah_htaccess::response::ResponseProperties;
use howdah_http::{ResponseHead, Status};

use super::tree::{Tree, client, request};
use crate::path::Scratch;
use crate::resolution::Resolution;

/// The name of a list, its first lines, its line of each number, and its end.
type List = (&'static str, &'static str, fn(usize) -> String, End);

/// The work of a list as it gets longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Grows,
    TooMuch,
}
use End::{Grows, TooMuch};

const LISTS: &[List] = &[
    ("SetEnv", "", |n| format!("SetEnv w{n} 1"), TooMuch),
    ("SetEnv of one name", "", |n| format!("SetEnv w {n}"), Grows),
    ("SetEnv and UnsetEnv", "", |n| format!("SetEnv w{n} 1\nUnsetEnv w{}", n / 2), Grows),
    ("PassEnv", "", |n| format!("PassEnv w{n}"), Grows),
    ("SetEnv and PassEnv", "", |n| format!("SetEnv w{n} 1\nPassEnv w{n}"), TooMuch),
    ("SetEnvIf", "", |n| format!("SetEnvIf Host . w{n}=1"), TooMuch),
    ("SetEnvIf of variables", "", |n| format!("SetEnvIf w{n} ^$ w{}=1", n + 1), TooMuch),
    ("SetEnvIf unset", "SetEnvIf Host . a=1\n", |n| format!("SetEnvIf Host . !w{n}"), Grows),
    (
        "SetEnvIfExpr",
        "",
        |n| format!("SetEnvIfExpr \"reqenv('w{n}') == ''\" w{}=1", n + 1),
        TooMuch,
    ),
    ("BrowserMatch", "", |n| format!("BrowserMatch Moz w{n}=1"), TooMuch),
    (
        "RewriteRule with E",
        "RewriteEngine On\n",
        |n| format!("RewriteRule . - [E=w{n}:1]"),
        TooMuch,
    ),
    (
        "RewriteRule with E=!",
        "RewriteEngine On\nRewriteRule . - [E=a:1]\n",
        |n| format!("RewriteRule . - [E=!w{n}]"),
        Grows,
    ),
    (
        "RewriteRule with many E",
        "RewriteEngine On\n",
        |n| {
            let flags: Vec<_> = (0..20).map(|k| format!("E=w{n}x{k}:1")).collect();
            format!("RewriteRule . - [{}]", flags.join(","))
        },
        TooMuch,
    ),
    (
        "RewriteCond ENV",
        "RewriteEngine On\n",
        |n| format!("RewriteCond %{{ENV:w{n}}} =\"\"\nRewriteRule . - [E=w{}:1]", n + 1),
        TooMuch,
    ),
    (
        "RewriteRule with CO",
        "RewriteEngine On\n",
        |n| format!("RewriteRule . - [CO=w{n}:1:.example.org]"),
        TooMuch,
    ),
    (
        "RewriteCond fields",
        "RewriteEngine On\n",
        |n| format!("RewriteCond %{{HTTP:X-{n}}} =\"\"\nRewriteRule . - [E=w:1]"),
        Grows,
    ),
    ("Header set", "", |n| format!("Header set v{n} 1"), TooMuch),
    ("Header unset", "", |n| format!("Header unset v{n}"), Grows),
    ("Header always set", "", |n| format!("Header always set v{n} 1"), TooMuch),
    ("Header add", "", |n| format!("Header add v{n} 1"), TooMuch),
    ("Header setifempty", "", |n| format!("Header setifempty v{n} 1"), TooMuch),
    ("Header append", "", |n| format!("Header append Vary w{n}"), TooMuch),
    ("Header merge", "", |n| format!("Header merge Vary w{n}"), TooMuch),
    (
        "Header edit",
        "Header set A b\n",
        |n| format!("Header edit A ^(.*)$ \"$1 w{n}\""),
        TooMuch,
    ),
    ("Header note", "Header set A b\n", |n| format!("Header note A w{n}"), TooMuch),
    ("Header echo", "", |n| format!("Header echo ^Host{}?$", n % 10), TooMuch),
    (
        "Header of variables",
        "SetEnv a b\n",
        |n| format!("SetEnv w{n} 1\nHeader set A %{{w{n}}}e env=w{n}"),
        TooMuch,
    ),
    ("RequestHeader set", "", |n| format!("RequestHeader set v{n} 1"), TooMuch),
    ("RequestHeader append", "", |n| format!("RequestHeader append Vary w{n}"), TooMuch),
    ("RequestHeader merge", "", |n| format!("RequestHeader merge Vary w{n}"), TooMuch),
    (
        "RequestHeader unset",
        "RequestHeader set A b\n",
        |n| format!("RequestHeader unset w{n}"),
        Grows,
    ),
    ("AddType", "", |n| format!("AddType text/x-{n} .w{n}"), Grows),
    ("AddType of one", "", |n| format!("AddType text/x-{n} .txt"), Grows),
    ("AddEncoding", "", |n| format!("AddEncoding x-{n} .w{n}"), Grows),
    ("AddLanguage", "", |n| format!("AddLanguage x-{n} .w{n}"), Grows),
    ("AddCharset", "", |n| format!("AddCharset x-{n} .w{n}"), Grows),
    ("AddHandler", "", |n| format!("AddHandler x-{n} .w{n}"), Grows),
    ("RemoveType", "", |n| format!("AddType text/x-{n} .w{n}\nRemoveType .w{}", n / 2), Grows),
    ("ErrorDocument", "", |n| format!("ErrorDocument {} /w{n}", [403, 404, 500][n % 3]), Grows),
    (
        "ExpiresByType",
        "ExpiresActive On\n",
        |n| format!("ExpiresByType text/x-{} \"access plus 1 day\"", n % 1999),
        Grows,
    ),
    ("Require env", "", |n| format!("Require env w{n}"), Grows),
    (
        "Require env of many",
        "",
        |n| format!("SetEnvIf Host . w{n}=1\nRequire env u{n}"),
        TooMuch,
    ),
    ("Require ip", "", |n| format!("Require ip 10.{}.{}.1", n / 250 % 250, n % 250), Grows),
    (
        "Require not ip",
        "Require all granted\n<RequireAll>\nRequire all granted\n</RequireAll>\n",
        |n| format!("Require ip 10.{}.{}.1", n / 250 % 250, n % 250),
        Grows,
    ),
    ("Require host", "", |n| format!("Require host w{n}.example.org"), Grows),
    (
        "Require user",
        "AuthType Basic\nAuthName a\nAuthUserFile /srv/www/users\n",
        |n| format!("Require user w{n}"),
        Grows,
    ),
    ("Require expr", "", |n| format!("Require expr \"reqenv('w{n}') == 'x'\""), Grows),
    ("Allow from env", "Order Deny,Allow\n", |n| format!("Deny from env=w{n}"), Grows),
    (
        "Deny from",
        "Order Allow,Deny\nAllow from all\n",
        |n| format!("Deny from 10.{}.{}.1", n / 250 % 250, n % 250),
        Grows,
    ),
    (
        "AddDescription",
        "Options +Indexes\n",
        |n| format!("AddDescription \"w {n}\" w{n}.txt"),
        Grows,
    ),
    ("AddIcon", "Options +Indexes\n", |n| format!("AddIcon /w{n}.png .w{n}"), Grows),
    ("IndexIgnore", "Options +Indexes\n", |n| format!("IndexIgnore w{n}.txt"), Grows),
    ("Redirect", "", |n| format!("Redirect 301 /w{n} /x"), Grows),
    ("RedirectMatch", "", |n| format!("RedirectMatch 301 ^/w{n}$ /x"), Grows),
    ("RedirectMatch for PCRE", "", |n| format!("RedirectMatch 301 ^/(a|b)?w{n}$ /x"), Grows),
    ("FileETag", "", |n| format!("FileETag {}MTime", if n % 2 == 0 { "+" } else { "-" }), Grows),
    ("DirectoryIndex", "", |n| format!("DirectoryIndex w{n}.html"), TooMuch),
    ("php_value", "", |n| format!("php_value error_prepend_string w{n}"), Grows),
    ("Options", "", |n| format!("Options {}Indexes", if n % 2 == 0 { "+" } else { "-" }), Grows),
    ("Files", "", |n| format!("<Files w{n}.txt>\nSetEnv w{n} 1\n</Files>"), Grows),
    ("Files that match", "", |n| format!("<Files *.txt>\nSetEnv w{n} 1\n</Files>"), TooMuch),
    (
        "FilesMatch",
        "",
        |n| format!("<FilesMatch (x|y)\\.txt>\nHeader set w{n} 1\n</FilesMatch>"),
        TooMuch,
    ),
    ("If", "", |n| format!("<If \"reqenv('w{n}') == ''\">\nSetEnv w{n} 1\n</If>"), TooMuch),
    ("If that adds fields", "", |n| format!("<If true>\nHeader set w{n} 1\n</If>"), TooMuch),
    (
        "AddOutputFilterByType",
        "",
        |n| format!("AddOutputFilterByType DEFLATE text/x-{n}"),
        Grows,
    ),
    ("FilterProvider", "", |n| format!("FilterDeclare w{n}"), Grows),
    ("Substitute", "", |n| format!("Substitute s/w{n}/x/"), Grows),
    ("SetInputFilter", "", |n| format!("AddInputFilter w{n} .w{n}"), Grows),
    ("SSLRequire", "", |n| format!("RewriteRule ^w{n}$ - [F]"), Grows),
];

/// The work of a request for `/x.txt`, and of the head of its response, in a folder with
/// `lines` lines of a list. `None` where it is more than the budget, or more is set than may be.
fn work(list: &List, lines: usize, budget: u64) -> Option<u64> {
    let (_, first, line, _) = list;
    let lines: Vec<String> = (0..lines).map(line).collect();
    let text = format!("{first}{}\n", lines.join("\n"));
    let mut tree = Tree::new("x.txt", &[("", &text)]);
    let sites = tree.sites.clone();
    let site = sites.iter().next().unwrap();
    let mut request = request("GET", "/x.txt", "Host: example.org\nUser-Agent: Mozilla/5.0");
    request.authority = b"example.org".to_vec();
    let budget = WorkBudget::new(budget);
    let client = client(&request).within(&budget);
    let scratch = &mut Scratch::default();
    let resolved = crate::resolve(site, &client, &mut tree, scratch);
    let mut is_refused = resolved.resolution == Resolution::Status(Status::INTERNAL_SERVER_ERROR);
    if let (Some(mut ruled), Resolution::File { .. }) = (resolved.ruled, resolved.resolution) {
        let mut head = ResponseHead::default();
        head.fields.push(b"Content-Type", b"text/plain");
        let about = ResponseProperties::default();
        let answered =
            crate::respond(site, &client, &mut ruled, &mut head, about, &mut tree, scratch);
        is_refused = answered.is_err();
        assert!(is_refused || !budget.is_exhausted(), "{}", list.0);
    }
    (!is_refused && !budget.is_exhausted()).then(|| budget.used())
}

/// Lists whose lines are looked up take work that grows with their number. The others fail, since
/// each line is compared with all before it, or since they set more than may be.
#[test]
fn the_work_of_a_list_grows_with_its_lines_or_is_too_much() {
    let mut wrong = Vec::new();
    for list in LISTS {
        let (name, _, _, expected) = list;
        let found = match [3_000, 6_000].map(|lines| work(list, lines, 7_000_000)) {
            [Some(one), Some(two)] if two <= 2 * one + one / 8 + 1_000 => Grows,
            [_, None] => TooMuch,
            [one, two] => {
                wrong.push(format!("{name}: {one:?}, then {two:?} steps"));
                continue;
            }
        };
        if found != *expected {
            wrong.push(format!("{name}: {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Makes the same lists with the default budget and as many lines as fit into a file. Run it alone,
/// and with `--release`.
#[test]
#[ignore = "looks at the time"]
fn a_list_takes_seconds_at_most() {
    for list in LISTS {
        for lines in [30_000, 60_000] {
            let began = Instant::now();
            let steps = work(list, lines, 50_000_000);
            let took = began.elapsed();
            println!("{:28} {lines:6} lines: {steps:9?} steps, {} ms", list.0, took.as_millis());
            assert!(took < Duration::from_secs(30), "{}: {took:?}", list.0);
        }
    }
}
