//! `%q`, `%U` and `%f` of access logs, beside Apache's: what rules make of them.

use crate::apache::Apache;
use crate::site::{Options, Site};
use crate::support::{has_php, wait_until};
use crate::wire::Wire;

const RULES: &str = "RewriteEngine On
RewriteRule ^old$ /new [R=301,L]
RewriteRule ^oldq$ /new?a=b%20c [R=302,L]
RewriteRule ^bare$ /new? [R,L]
RewriteRule ^far$ http://far.example/x?y [R,L]
RewriteRule ^in$ /x.txt?x=y [L]
RewriteRule ^inq$ /x.txt? [L]
RewriteRule ^more$ /x.txt?x=y [QSA,L]
RewriteRule ^toindex$ /dir/ [L]
RewriteRule ^tophp$ /p.php/info?k=v [L]
RewriteRule ^gone$ - [G]
RewriteRule ^shut$ - [F]
RewriteRule ^dir/deep/(.*)$ /new/$1 [R,L]
Redirect 301 /alias /b
RedirectMatch 302 ^/am(.*) /b$1
Redirect gone /goner
ErrorDocument 404 /missing.html
ErrorDocument 410 /missing.html?of=410
Options +MultiViews
";

const ASKED: [&str; 37] = [
    "/x.txt",
    "/x.txt?",
    "/x.txt?a=b",
    "/x.txt?a%20b\"c",
    "/dir/",
    "/dir/?x=1",
    "/dir",
    "/dir?x",
    "/old",
    "/old?z=1",
    "/oldq",
    "/oldq?z=1",
    "/bare?z=1",
    "/far",
    "/in",
    "/in?z=1",
    "/inq?z=1",
    "/more?z=1",
    "/toindex",
    "/toindex?q",
    "/tophp",
    "/tophp?z",
    "/gone",
    "/shut?q",
    "/dir/deep/x?y",
    "/alias",
    "/alias/x?y",
    "/am1?y",
    "/goner?y",
    "/none",
    "/none?q=1",
    "/p.php/info?x",
    "/mv?q",
    "/%78.txt?q",
    "/dir/../x.txt?q",
    "//x.txt?q",
    "/plain/?q",
];

const FILES: [(&str, &str); 7] = [
    ("x.txt", "content"),
    ("p.php", "<?php echo 1;"),
    ("dir/index.html", "x"),
    ("mv.html", "x"),
    ("missing.html", "nothing here"),
    ("plain/index.php", "<?php echo 1;"),
    (".htaccess", RULES),
];

/// Returns the lines of both logs, ours and Apache's, in the order of the requests.
fn logged(files: &[(&str, &str)], asked: &[&str]) -> [Vec<String>; 2] {
    // The number puts the lines in order: those of different connections may change places.
    let format = "%{N}i|%>s|%U|%q|%f";
    let own = format!("name = \"logs.test\"\naccess_log_format = '{format}'");
    let site = Site::with(files, &Options { site: &own, ..Options::default() });
    let folder = site.path().join("apache");
    let log = format!("CustomLog {}/access.log '{format}'\n", folder.display());
    let apache = Apache::with(&folder, &site.root(), &["alias", "negotiation"], &log);
    for address in [site.server.address(), apache.address()] {
        for (number, target) in asked.iter().enumerate() {
            let number = format!("{number:02}");
            let fields = [("Host", "logs.test"), ("N", &number)];
            Wire::connect(address).ask("GET", target, &fields, b"");
        }
    }
    let lines = |log: String| {
        let mut lines: Vec<String> = log.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let both = || [lines(site.access_log()), lines(apache.access_log())];
    wait_until("all lines are written", || both().iter().all(|lines| lines.len() == asked.len()));
    both()
}

#[test]
fn what_rules_make_of_a_request_is_logged_as_apache_does() {
    if !has_php() || !Apache::is_here() {
        return;
    }
    let [ours, theirs] = logged(&FILES, &ASKED);
    let all = ASKED.iter().zip(ours.iter().zip(&theirs));
    let differ: Vec<_> = all.filter(|(_, (ours, theirs))| ours != theirs).collect();
    assert!(differ.is_empty(), "{differ:#?}");
    // Without a file of directives.
    let asked = ["/dir/?x", "/dir", "/plain/", "/x.txt?", "/x.txt/more?x", "/none?x", "/p.php/a?b"];
    let [ours, theirs] = logged(&FILES[..6], &asked);
    assert_eq!(ours, theirs);
}
