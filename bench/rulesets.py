"""Folders with `.htaccess` files such as sites have: what applications bring along, and what grows over the years."""

from pathlib import Path

REDIRECTS = 5000
BAD_BOTS = 7800
# What the list of bad bots has to be compared with on nearly every request.
BROWSER = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"

# What a front controller with pretty addresses needs, in the form that WordPress writes.
WORDPRESS = """
<IfModule mod_rewrite.c>
RewriteEngine On
RewriteRule .* - [E=HTTP_AUTHORIZATION:%{HTTP:Authorization}]
RewriteBase /
RewriteRule ^index\\.php$ - [L]
RewriteCond %{REQUEST_FILENAME} !-f
RewriteCond %{REQUEST_FILENAME} !-d
RewriteRule . /index.php [L]
</IfModule>
"""

# What Drupal's documentation says that its file does: sources and hidden files protected, a year's caching for files, no type
# sniffing, clean addresses, ready-compressed style sheets and scripts.
DRUPAL = """
<FilesMatch "\\.(engine|inc|install|make|module|profile|po|sh|sql|theme|twig|tpl(\\.php)?|xtmpl|yml)(~|\\.sw[op]|\\.bak|\\.orig|\\.save)?$|^(\\.(?!well-known).*|Entries.*|Repository|Root|Tag|Template|composer\\.(json|lock)|web\\.config)$">
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
  <FilesMatch \\.php$>
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
  RewriteRule "/\\.|^\\.(?!well-known/)" - [F]
  RewriteCond %{REQUEST_URI} ^(.*)?/(install\\.php) [OR]
  RewriteCond %{REQUEST_URI} ^(.*)?/(rebuild\\.php)
  RewriteCond %{REQUEST_URI} !core
  RewriteRule ^ %1/core/%2 [L,QSA,R=301]
  RewriteCond %{REQUEST_FILENAME} !-f
  RewriteCond %{REQUEST_FILENAME} !-d
  RewriteCond %{REQUEST_URI} !=/favicon.ico
  RewriteRule ^ index.php [L]
  RewriteCond %{REQUEST_URI} !/core/[^/]*\\.php$
  RewriteCond %{REQUEST_URI} !/core/modules/system/tests/https?\\.php
  RewriteRule "^(.+/.*|autoload)\\.php($|/)" - [F]
  <IfModule mod_deflate.c>
    RewriteCond %{HTTP:Accept-encoding} gzip
    RewriteCond %{REQUEST_FILENAME}\\.gz -s
    RewriteRule ^(.*css_[a-zA-Z0-9-_]+)\\.css$ $1\\.css\\.gz [QSA]
    RewriteCond %{HTTP:Accept-encoding} gzip
    RewriteCond %{REQUEST_FILENAME}\\.gz -s
    RewriteRule ^(.*js_[a-zA-Z0-9-_]+)\\.js$ $1\\.js\\.gz [QSA]
    RewriteRule \\.css\\.gz$ - [T=text/css,E=no-gzip:1]
    RewriteRule \\.js\\.gz$ - [T=text/javascript,E=no-gzip:1]
    <FilesMatch "(\\.js\\.gz|\\.css\\.gz)$">
      Header set Content-Encoding gzip
      Header append Vary Accept-Encoding
    </FilesMatch>
  </IfModule>
</IfModule>
"""


def redirects() -> str:
    """A shop's old addresses, as the move to a new system leaves them."""
    return "".join(f"Redirect 301 /shop/article-{n}.html /products/{n}/\n" for n in range(REDIRECTS))


def bad_bots() -> str:
    """Names of robots, none of them a browser's, and what robots get."""
    conditions = "".join(f"RewriteCond %{{HTTP_USER_AGENT}} ^.*Harvester{n:04d}Bot.*$ [NC,OR]\n" for n in range(BAD_BOTS - 1))
    return f"RewriteEngine On\n{conditions}RewriteCond %{{HTTP_USER_AGENT}} ^.*LastOfTheBots.*$ [NC]\nRewriteRule ^ - [F]\n"


def rulesets() -> dict[str, str | None]:
    """By name; `none` is a folder without the file, and `again` another: what differs between these two is chance."""
    return {"none": None, "again": None, "wordpress": WORDPRESS, "drupal": DRUPAL, "redirects": redirects(), "bad-bots": bad_bots()}


def host(name: str) -> str:
    """The host, and the folder, of a set of rules: all of one length, since PHP's allocator has sizes."""
    return f"{name:0<9}"


FOLDER_RULES = """
Options -Indexes
<FilesMatch "\\.(inc|log)$">
Require all denied
</FilesMatch>
RewriteEngine On
RewriteRule ^old-{number}$ new-{number} [R=301,L]
"""


def write_folders(root: Path, count: int) -> list[str]:
    """So many folders with a file and an `.htaccess` each; answers the paths of their files."""
    paths = []
    for number in range(count):
        folder = root / f"{number // 1000:03d}" / f"{number % 1000:03d}"
        folder.mkdir(parents=True)
        (folder / "a.txt").write_bytes(b"a")
        (folder / ".htaccess").write_text(FOLDER_RULES.format(number=number))
        paths.append(f"/{number // 1000:03d}/{number % 1000:03d}/a.txt")
    return paths
