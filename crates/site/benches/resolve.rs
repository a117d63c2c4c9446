//! Time that directives add to resolving a request, with a disk that answers at once: `cargo bench
//! -p howdah-site`.

#![allow(clippy::unwrap_used)]

use std::hint::black_box;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use howdah_config::{Config, RootTemplate, SiteSettings};
use howdah_htaccess::compile;
use howdah_http::Request;
use howdah_site::{
    ClientRequest, DirectiveHost, DocumentLook, DocumentPath, FileHandle, MergedCopies, PathKind,
    Resolution, Rules, Scratch, SiteHost, Sites, resolve,
};

/// Every name with a dot is a file, every other a folder; `none` is missing.
struct Quick {
    rules: Option<Rc<Rules>>,
}

impl DirectiveHost for Quick {}

impl SiteHost for Quick {
    fn kind(&mut self, path: &DocumentPath) -> PathKind {
        let name = path.file_name();
        match name {
            b"none" => PathKind::Missing,
            _ if name.contains(&b'.') => PathKind::File,
            _ => PathKind::Directory,
        }
    }

    fn look(&mut self, path: &DocumentPath) -> DocumentLook {
        DocumentLook {
            kind: self.kind(path),
            file: FileHandle::NONE,
            rules: self.rules.clone(),
        }
    }
}

const WORDPRESS: &str = "<IfModule mod_rewrite.c>
RewriteEngine On
RewriteRule .* - [E=HTTP_AUTHORIZATION:%{HTTP:Authorization}]
RewriteBase /
RewriteRule ^index\\.php$ - [L]
RewriteCond %{REQUEST_FILENAME} !-f
RewriteCond %{REQUEST_FILENAME} !-d
RewriteRule . /index.php [L]
</IfModule>
";

const PROTECTED: &str = "Options -Indexes
<Files .htaccess>
Require all denied
</Files>
<FilesMatch \"\\.(engine|inc|install|module|sh|sql|theme|twig|tpl(\\.php)?)$\">
Require all denied
</FilesMatch>
";

const HEADERS: &str = "Header set X-Content-Type-Options nosniff\nExpiresActive On\n\
    ExpiresDefault \"access plus 1 month\"\n";

fn main() {
    let rows = [
        ("no directives", ""),
        ("a comment", "# none\n"),
        ("WordPress", WORDPRESS),
        ("Options and Files", PROTECTED),
        ("Header and Expires", HEADERS),
    ];
    for (name, text) in rows {
        for target in ["/wp-content/themes/x/style.css", "/none", "/"] {
            measure(name, text, target);
        }
    }
}

fn measure(name: &str, text: &str, target: &str) {
    let sites = Sites::compile(&Config {
        sites: vec![SiteSettings {
            root: RootTemplate::Fixed("/srv/www/example".into()),
            ..SiteSettings::default()
        }],
        ..Config::default()
    });
    let site = sites.find(b"x").unwrap();
    let compiled =
        || Arc::new(compile(text.as_bytes(), &site.htaccess_context(b"/srv/www/example/")));
    let mut disk = Quick {
        rules: (!text.is_empty()).then(|| Rules::below(None, compiled(), &MergedCopies::default())),
    };
    let mut request = Request::new();
    request.target = target.into();
    request.fields.push(
        b"User-Agent",
        b"Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
    );
    let end = SocketAddr::from(([127, 0, 0, 1], 80));
    let client = ClientRequest::new(&request, end, end, 0);
    let mut scratch = Scratch::default();
    let mut once = || {
        let resolved = resolve(site, black_box(&client), &mut disk, &mut scratch);
        match resolved.resolution {
            Resolution::File { path, .. } => scratch.reuse(path),
            Resolution::Php(script) => scratch.reuse(script.into_path()),
            _ => {}
        }
    };
    let least = (0..20)
        .map(|_| {
            let start = Instant::now();
            (0..20_000).for_each(|_| once());
            start.elapsed().as_nanos() as f64 / 20_000.0
        })
        .fold(f64::INFINITY, f64::min);
    println!("{name:<20} {target:<32} {least:>6.0} ns");
}
