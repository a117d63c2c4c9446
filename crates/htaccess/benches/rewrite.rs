//! Nanoseconds per request for rewrite rules and redirects, in a bare loop with warm caches.
//!
//! `cargo bench -p howdah-htaccess --bench rewrite -- [WORD]`, where WORD selects the lines that
//! contain it. The best of several rounds is the time of the code; the rest is the machine.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use howdah_htaccess::modules::{alias, rewrite};
use howdah_htaccess::transaction::FileKind;
use howdah_htaccess::{
    ClientRequest, CompileContext, DirectiveHost, DirectiveSettings, EvaluationContext,
    RequestState, Transaction, compile,
};
use howdah_http::Request;

fn main() {
    for (name, rules) in [("wordpress", WORDPRESS), ("drupal", DRUPAL), ("laravel", LARAVEL)] {
        let settings = compiled(rules);
        rewriting(name, "static file", &settings, "/wp-content/themes/x/style.css", FileKind::File);
        rewriting(name, "script", &settings, "/index.php", FileKind::File);
        rewriting(
            name,
            "pretty URL",
            &settings,
            "/2024/05/some-long-title-of-a-post/",
            FileKind::Missing,
        );
    }
    let rules: String = (0..5000)
        .map(|number| format!("RewriteRule ^old/page-{number}\\.html$ /new/{number} [R=301,L]\n"))
        .collect();
    let settings = compiled(&format!("RewriteEngine On\n{rules}"));
    rewriting("5,000 rules", "none", &settings, "/style.css", FileKind::File);
    rewriting("5,000 rules", "last", &settings, "/old/page-4999.html", FileKind::Missing);
    let rules: String = (0..5000)
        .map(|number| format!("RewriteRule ^old/page-{number}/(.*)$ /new/{number}/$1 [R=301,L]\n"))
        .collect();
    let settings = compiled(&format!("RewriteEngine On\n{rules}"));
    rewriting("5,000 expressions", "none", &settings, "/style.css", FileKind::File);
    rewriting("5,000 expressions", "last", &settings, "/old/page-4999/x", FileKind::Missing);
    let bots: String = (0..7800)
        .map(|number| format!("RewriteCond %{{HTTP_USER_AGENT}} ^.*Robot{number}x [NC,OR]\n"))
        .collect();
    let bots = format!(
        "RewriteEngine On\n{bots}RewriteCond %{{HTTP_USER_AGENT}} last [NC]\nRewriteRule ^ - [F]\n"
    );
    rewriting("7,800 bots", "a browser", &compiled(&bots), "/style.css", FileKind::File);
    let redirects: String = (0..5000)
        .map(|number| format!("Redirect 301 /old/page-{number} /new/{number}\n"))
        .collect();
    let settings = compiled(&redirects);
    redirecting("5,000 redirects", "none", &settings, "/wp-content/themes/x/style.css");
    redirecting("5,000 redirects", "last", &settings, "/old/page-4999");
}

fn compiled(rules: &str) -> DirectiveSettings {
    let start = Instant::now();
    let compiled = compile(rules.as_bytes(), &CompileContext::new("bench", b"/srv/"));
    assert!(compiled.mistake.is_none(), "{:?}", compiled.mistake);
    println!("compiled {:>7} bytes in {:?}", rules.len(), start.elapsed());
    compiled.settings
}

fn rewriting(rules: &str, what: &str, settings: &DirectiveSettings, path: &str, found: FileKind) {
    let config = settings.rewrite.as_deref().expect("rules");
    measure(&format!("{rules}, {what}"), path, found, |transaction| {
        black_box(rewrite::fixup(transaction, config, &mut Nothing));
    });
}

fn redirecting(rules: &str, what: &str, settings: &DirectiveSettings, path: &str) {
    let config = settings.alias.as_deref().expect("redirects");
    measure(&format!("{rules}, {what}"), path, FileKind::Missing, |transaction| {
        black_box(alias::fixup(transaction, config, &mut Nothing));
    });
}

/// Measures `evaluate` without the time for building the request's state.
fn measure(name: &str, path: &str, found: FileKind, evaluate: impl Fn(&mut Transaction<'_>)) {
    if std::env::args()
        .skip(1)
        .any(|word| !word.starts_with('-') && !name.contains(&word))
    {
        return;
    }
    let mut request = Request::new();
    request.target = path.into();
    request.authority = b"www.example.org".to_vec();
    request.fields.push(b"Host", b"www.example.org");
    request.fields.push(b"User-Agent", BROWSER);
    request.fields.push(b"Accept", b"text/html,application/xhtml+xml,*/*;q=0.8");
    let state = RequestState {
        uri: path.into(),
        document_root: Arc::from(&b"/srv"[..]),
        filename: format!("/srv{path}").into(),
        found,
        ..RequestState::default()
    };
    let address = "192.0.2.1:80".parse().expect("an address");
    let client = ClientRequest::new(&request, address, address, 1_700_000_000_000_000);
    let mut best = f64::MAX;
    for _ in 0..200 {
        let mut transactions: Vec<Transaction<'_>> =
            (0..200).map(|_| Transaction { client, state: state.clone() }).collect();
        let start = Instant::now();
        transactions.iter_mut().for_each(&evaluate);
        best = best.min(start.elapsed().as_nanos() as f64 / 200.0);
    }
    println!("{best:>9.0} ns  {name}");
}

/// A compile context that asks nothing of the disk: the file of the URL is known.
struct Nothing;

impl DirectiveHost for Nothing {}

impl EvaluationContext for Nothing {
    fn host(&mut self) -> &mut dyn DirectiveHost {
        self
    }
}

const BROWSER: &[u8] = b"Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0";

/// WordPress's rules for pretty permalinks.
const WORDPRESS: &str = r"
RewriteEngine On
RewriteRule .* - [E=HTTP_AUTHORIZATION:%{HTTP:Authorization}]
RewriteBase /
RewriteRule ^index\.php$ - [L]
RewriteCond %{REQUEST_FILENAME} !-f
RewriteCond %{REQUEST_FILENAME} !-d
RewriteRule . /index.php [L]
";

/// The rules of Drupal's file: hidden folders, old scripts, clean URLs, compressed files.
const DRUPAL: &str = r#"
RewriteEngine on
RewriteRule ^ - [E=protossl]
RewriteCond %{HTTPS} on
RewriteRule ^ - [E=protossl:s]
RewriteRule "/\.|^\.(?!well-known/)" - [F]
RewriteCond %{REQUEST_URI} ^(.*)?/(install\.php) [OR]
RewriteCond %{REQUEST_URI} ^(.*)?/(rebuild\.php)
RewriteCond %{REQUEST_URI} !core
RewriteRule ^ %1/core/%2 [L,QSA,R=301]
RewriteCond %{REQUEST_FILENAME} !-f
RewriteCond %{REQUEST_FILENAME} !-d
RewriteCond %{REQUEST_URI} !=/favicon.ico
RewriteRule ^ index.php [L]
RewriteCond %{REQUEST_URI} !/core/[^/]*\.php$
RewriteCond %{REQUEST_URI} !/core/modules/system/tests/https?\.php
RewriteCond %{REQUEST_URI} !/core/modules/statistics/statistics\.php$
RewriteRule "^(.+/.*|autoload)\.php($|/)" - [F]
"#;

/// Laravel's rules.
const LARAVEL: &str = r"
RewriteEngine On
RewriteCond %{HTTP:Authorization} .
RewriteRule .* - [E=HTTP_AUTHORIZATION:%{HTTP:Authorization}]
RewriteCond %{REQUEST_FILENAME} !-d
RewriteCond %{REQUEST_URI} (.+)/$
RewriteRule ^ %1 [L,R=301]
RewriteCond %{REQUEST_FILENAME} !-d
RewriteCond %{REQUEST_FILENAME} !-f
RewriteRule ^ index.php [L]
";
