//! `.htaccess` files of real sites: those of the two most widespread applications, and lists that
//! have grown over the years.

use std::borrow::Cow;

/// Number of redirects of a shop's old URLs.
const REDIRECTS: usize = 5000;
/// Number of robots that are refused.
const BAD_BOTS: usize = 7800;
/// A browser's User-Agent, which the list of bad bots is compared with.
pub const BROWSER: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0";

/// A folder without a file, to compare the others with.
pub const PLAIN: &str = "plain";
/// A second folder without a file: its difference to the first is chance.
pub const AGAIN: &str = "again";
/// A folder with many folders below, each with a file of its own.
pub const FOLDERS: &str = "folders";

/// Every set of rules by name, with the content of its file; `None` is no file.
pub fn all() -> [(&'static str, Option<Cow<'static, str>>); 6] {
    [
        (PLAIN, None),
        (AGAIN, None),
        ("wordpress", Some(WORDPRESS.into())),
        ("drupal", Some(DRUPAL.into())),
        ("redirects", Some(redirects().into())),
        ("bad-bots", Some(bad_bots().into())),
    ]
}

/// Redirects from a shop's old URLs, as a move to a new system leaves them.
fn redirects() -> String {
    (0..REDIRECTS)
        .map(|number| format!("Redirect 301 /shop/article-{number}.html /products/{number}/\n"))
        .collect()
}

/// Refuses robots by name; no browser's name is among them.
fn bad_bots() -> String {
    let condition = |number: usize| {
        format!("RewriteCond %{{HTTP_USER_AGENT}} ^.*Harvester{number:04}Bot.*$ [NC,OR]\n")
    };
    let conditions: String = (0..BAD_BOTS - 1).map(condition).collect();
    format!(
        "RewriteEngine On\n{conditions}RewriteCond %{{HTTP_USER_AGENT}} ^.*LastOfTheBots.*$ [NC]\n\
         RewriteRule ^ - [F]\n"
    )
}

/// The `.htaccess` file of one of many folders.
pub fn of_folder(number: usize) -> String {
    format!(
        "Options -Indexes\n<FilesMatch \"\\.(inc|log)$\">\nRequire all denied\n</FilesMatch>\n\
         RewriteEngine On\nRewriteRule ^old-{number}$ new-{number} [R=301,L]\n"
    )
}

/// The rules of a front controller with pretty URLs, in WordPress's form.
pub const WORDPRESS: &str = r##"<IfModule mod_rewrite.c>
RewriteEngine On
RewriteRule .* - [E=HTTP_AUTHORIZATION:%{HTTP:Authorization}]
RewriteBase /
RewriteRule ^index\.php$ - [L]
RewriteCond %{REQUEST_FILENAME} !-f
RewriteCond %{REQUEST_FILENAME} !-d
RewriteRule . /index.php [L]
</IfModule>
"##;

/// Rules as Drupal's documentation describes its file: protected sources and hidden files, expiry
/// after two weeks, no type sniffing, clean URLs, ready-compressed style sheets and scripts.
pub const DRUPAL: &str = r##"<FilesMatch "\.(engine|inc|install|make|module|profile|po|sh|sql|theme|twig|tpl(\.php)?|xtmpl|yml)(~|\.sw[op]|\.bak|\.orig|\.save)?$|^(\.(?!well-known).*|Entries.*|Repository|Root|Tag|Template|composer\.(json|lock)|web\.config)$">
  <IfModule mod_authz_core.c>
    Require all denied
  </IfModule>
  <IfModule !mod_authz_core.c>
    Order allow,deny
  </IfModule>
</FilesMatch>
Options -Indexes
DirectoryIndex index.php index.html index.htm
AddType image/svg+xml svg svgz
AddEncoding gzip svgz
<IfModule mod_php.c>
  php_value assert.active 0
</IfModule>
<IfModule mod_expires.c>
  ExpiresActive On
  ExpiresDefault A1209600
  <FilesMatch \.php$>
    ExpiresActive Off
  </FilesMatch>
</IfModule>
<IfModule mod_headers.c>
  Header always set X-Content-Type-Options nosniff
  RequestHeader unset Proxy
</IfModule>
<IfModule mod_rewrite.c>
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
  RewriteRule "^(.+/.*|autoload)\.php($|/)" - [F]
  <IfModule mod_deflate.c>
    RewriteCond %{HTTP:Accept-encoding} gzip
    RewriteCond %{REQUEST_FILENAME}\.gz -s
    RewriteRule ^(.*css_[a-zA-Z0-9-_]+)\.css$ $1\.css\.gz [QSA]
    RewriteCond %{HTTP:Accept-encoding} gzip
    RewriteCond %{REQUEST_FILENAME}\.gz -s
    RewriteRule ^(.*js_[a-zA-Z0-9-_]+)\.js$ $1\.js\.gz [QSA]
    RewriteRule \.css\.gz$ - [T=text/css,E=no-gzip:1]
    RewriteRule \.js\.gz$ - [T=text/javascript,E=no-gzip:1]
    <FilesMatch "(\.js\.gz|\.css\.gz)$">
      Header set Content-Encoding gzip
      Header append Vary Accept-Encoding
    </FilesMatch>
  </IfModule>
</IfModule>
"##;
