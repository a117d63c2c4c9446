//! The keys of `[[site]]`.

use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use super::{Php, SiteTls};
use crate::kinds::{
    Accel, AccessLogTarget, Addresses, AtLeast, AutoSize, Charset, Coding, DirectiveName,
    EncodedSlashRule, ErrorPages, FieldName, FieldRules, FieldTable, FilePath, Flag, Format, Hosts,
    List, ModuleName, NameGlob, NamePattern, Optional, OverrideClasses, PhpTable, PlainName,
    RateLimit, RootPath, RuleLines, SymlinkPolicy, TimeSpan, TlsTable, Try, TypeGlob, UpstreamUrl,
};
use crate::listener::{ListenAddress, ListenerSettings};
use crate::section::section;
use crate::values::{
    AccessFormat, AccessTarget, AllowOverride, ContentCoding, EncodedSlashes, HostPattern, Rate,
    RootTemplate, Symlinks, TryStep, Upstream,
};

section! {
    /// A site: the names it answers for and what it serves. Each `[[site]]` begins another.
    pub struct SiteSettings {
        /// The name in logs and metrics, and of the PHP pool: letters, digits, `.`, `_` and `-`.
        name ("name"): String as PlainName = String::new(),
            "Unset is the first host without its `*.`, or `default` for `*`.";
        /// The host names: `"example.org"`, `"*.example.org"` for every name below it, `"*"` for
        /// all others. Ports are not part of it. The longest match wins.
        hosts ("hosts"): Vec<HostPattern> as Hosts = vec![HostPattern::Default],
            "A site without host names answers for all of them.";
        /// The listeners that the site answers on: addresses of the top-level `listen`. Elsewhere
        /// it does not exist.
        listen ("listen"): Vec<ListenAddress> as Addresses = Vec::new(),
            "Most servers have the same sites on all addresses.";
        /// The site's certificates: `"auto"` for those that the server orders (see `[acme]`),
        /// `{ cert = "FILE", key = "FILE" }`, a list of such tables, `"internal"` for one of the
        /// local authority, or `false` for none. See `[site.tls]` below and [https.md](https.md).
        tls ("tls"): SiteTls as TlsTable = SiteTls::default(),
            "Without a key it is `\"auto\"` for a site with a name on port 443 where \
                `terms_agreed` is set, else `false`: nobody can agree for you.";
        /// The document root: the folder that URLs are looked up in. `{host}` as a whole component
        /// of the path is replaced by the request's host name, so that one entry serves thousands
        /// of sites: `"/srv/www/{host}/public"`. A relative path starts at the folder of the
        /// configuration file.
        root ("root"): RootTemplate as RootPath = RootTemplate::Fixed(PathBuf::new()),
            "Must be given: a guess could publish the wrong folder.";
        /// The index files of a folder. The first that exists is used.
        index ("index"): Vec<String> as List<PlainName> =
            ["index.php", "index.html", "index.htm"].map(str::to_owned).to_vec(),
            "PHP is first because a site that has both wants its application to answer.";
        /// The steps that are tried for a path, in order. `$uri` is the file or script that the
        /// path names, or the index file of the folder that it names; `$uri/` is that folder even
        /// without an index file; `$uri.html` is the path with a suffix; a path such as
        /// `/index.php` is that script, which sees the URL in REQUEST_URI and always the query
        /// string; `=404` (last) is that status. The last step is final.
        try_files ("try"): Vec<TryStep> as Try = vec![TryStep::Uri],
            "A path that does not exist is 404. Frameworks need `[\"$uri\", \"/index.php\"]`.";
        /// The symbolic links below the root that are followed: `"owner"` (link and target have the
        /// same owner), `"inside"` (the target is inside the root) or `"follow"` (all). With
        /// `"owner"`, a link into a folder of another site is followed if it belongs to root.
        /// Links in the path of the root itself must belong to root, to the user of the front or to
        /// the owner of the folder that they lead to, and to root if they lead to folders of
        /// another site, unless it is `"follow"`.
        symlinks ("symlinks"): Symlinks as SymlinkPolicy = Symlinks::Owner,
            "On a shared host nobody can publish another user's files, and an owner's own links \
                work.";
        /// The meaning of an encoded slash, `%2F`, in the path of a URL, as Apache's
        /// `AllowEncodedSlashes`: `"refuse"` (`Off`: 404), `"keep"` (`NoDecode`: rules, scripts and
        /// upstreams see `%2F`, which never parts two names) or `"decode"` (`On`: a slash, before
        /// `..` is resolved and anything is looked up). `REQUEST_URI` always has what was sent.
        encoded_slashes ("encoded_slashes"): EncodedSlashes as EncodedSlashRule =
            EncodedSlashes::Refuse,
            "Apache's own. A name that a program in front of the server takes for one must not be \
                two for the server.";
        /// Files and folders whose names start with a dot are not served (404), except these.
        dot_names ("dot_names"): Vec<String> as List<NamePattern> = vec![".well-known".to_owned()],
            "Dot files hold secrets, histories and editors' backups. `.well-known` is meant for \
                the public.";
        /// Files and folders that are never served (403), even below a folder that is. A `*` at the
        /// end stands for any ending.
        refuse ("refuse"): Vec<String> as List<NamePattern> =
            [".ht*", ".user.ini", ".env*", ".git*", ".svn", ".hg", ".bzr"].map(str::to_owned).to_vec(),
            "Apache's own rule for `.ht*`, and names that have leaked passwords and sources \
                elsewhere.";
        /// Whether back-ups of PHP programs are refused (403), where no directive makes PHP run
        /// them: files that editors, package managers and people leave, such as `x.php~`,
        /// `x.php.bak`, `.x.php.swp`, `x.php.dpkg-old`, `x.php,v`, `x.php.1`, `x.php.txt` and
        /// `x.phar.gz`, and `x.inc`. `x.php.html` is none.
        refuse_backups ("refuse_backups"): bool as Flag = true,
            "Their source would be sent as text, with the passwords in it.";
        /// Whether `.htaccess` files are read: Apache's directives, for the folder that the file is
        /// in and all below it. [htaccess.md](htaccess.md) lists the directives.
        htaccess ("htaccess"): bool as Flag = true,
            "The files of an existing site map its URLs and protect its secrets.";
        /// The directives that `.htaccess` files may have, as Apache's `AllowOverride`: classes of
        /// directives, and with `Options=` which options. A directive that is not allowed is an
        /// error: 500 for what the file covers. With `"None"` and no `allow_override_list` they are
        /// not read.
        allow_override ("allow_override"): AllowOverride as OverrideClasses = AllowOverride::all(),
            "Anybody who may write such a file may also write a script, which may do more.";
        /// Directives that `.htaccess` files may use besides, as Apache's `AllowOverrideList`.
        allow_override_list ("allow_override_list"): Vec<String> as
            List<DirectiveName> = Vec::new(),
            "Everything is allowed already.";
        /// Directives for the whole site, as in a `.htaccess` file in its root;
        /// such a file adds to them. `htaccess` and `allow_override` say nothing about them.
        rules ("rules"): Option<String> as Optional<RuleLines> = None,
            "Most sites have their own in `.htaccess`.";
        /// Modules of Apache that `<IfModule>` finds besides the usual ones: `"brotli"`,
        /// `"substitute"`. [htaccess.md](htaccess.md) lists the usual ones.
        modules ("modules"): Vec<String> as List<ModuleName> = Vec::new(),
            "Debian's Apache has them off, and a `.htaccess` file from there was written without \
                them.";
        /// Servers that `RewriteRule … [P]` may hand requests on to: `"http://127.0.0.1:3000"`,
        /// over TLS `"https://127.0.0.1:3443"`, or on a socket `"unix:/run/app.sock|http://app"`.
        /// WebSockets are carried as well: `ws://` is the same as `http://`, `wss://` as
        /// `https://`. A rule whose URL begins with none of them is answered with 403. The limit of
        /// open files (`ulimit -n`) bounds the connections of all sites to their upstreams. See
        /// [upstreams.md](upstreams.md).
        upstreams ("upstreams"): Vec<Upstream> as List<UpstreamUrl> = Vec::new(),
            "A `.htaccess` file must not be able to make the server send requests to any machine.";
        /// The time that a connection to an upstream may take to be made. Beyond it: 503.
        upstream_connect_timeout ("upstream_connect_timeout"): Duration as TimeSpan =
            Duration::from_secs(10),
            "A server that lives answers after one round trip, and one that is gone should be \
                noticed before the visitor leaves.";
        /// The interval at which the names of upstreams are looked up again. Threads of their own
        /// do that; requests use the addresses that were found last.
        upstream_resolve ("upstream_resolve"): Duration as TimeSpan = Duration::from_secs(30),
            "The system's resolver does not tell how long an answer holds; half a minute is what \
                most changing names have.";
        /// The authorities that upstreams over TLS have their certificates from: a file in PEM. It
        /// takes the place of the system's.
        upstream_ca_file ("upstream_ca_file"): Option<PathBuf> as Optional<FilePath> = None,
            "The system knows the public authorities. Certificates are verified always.";
        /// The name that upstreams over TLS have in their certificates, and that they are told in
        /// the handshake (SNI).
        upstream_tls_name ("upstream_tls_name"): Option<String> as Optional<PlainName> = None,
            "Unset is the host of the upstream's URL.";
        /// The time that an upstream may take to take more of a request or to send more of its
        /// response. Beyond it: 504, or where the response is on its way, its end.
        upstream_timeout ("upstream_timeout"): Duration as TimeSpan = Duration::from_secs(60),
            "Apache's own for proxied requests, its Timeout.";
        /// The connections to each upstream that each thread keeps for further requests; 0 keeps
        /// none.
        upstream_kept ("upstream_kept"): usize as AtLeast<usize, 0> = 8,
            "A request over a kept connection saves a round trip, with TLS two or three. More \
                wait only after a rush.";
        /// The time that such a connection is kept. A request that was sent when the upstream
        /// closed it is sent again over a new one, if it is idempotent (GET, HEAD, PUT, DELETE,
        /// OPTIONS); others get 502.
        upstream_kept_timeout ("upstream_kept_timeout"): Duration as TimeSpan
            = Duration::from_secs(4),
            "Node.js, the most common upstream, closes its side after five seconds.";
        /// The time that an upstream that could not be reached is left alone. Until then its
        /// requests get 503 at once.
        upstream_retry ("upstream_retry"): Duration as TimeSpan = Duration::from_secs(1),
            "A server that restarts is found again at once, and one that is gone keeps no request \
                waiting.";
        /// The tunnels that the site may have at once: WebSockets that an upstream has accepted. A
        /// tunnel takes a connection of the client and one to the upstream, and no PHP worker.
        /// Beyond it: 503.
        tunnels ("tunnels"): usize as AtLeast<usize, 0> = 4096,
            "A quarter of the server's `connections`: one site's visitors leave room for the \
                others.";
        /// The tunnels of the site that one client may have at once. Beyond it: 429.
        client_tunnels ("client_tunnels"): usize as AtLeast<usize, 0> = 256,
            "An office behind one address has a hundred open pages; one visitor has a few.";
        /// The time that no byte may pass a tunnel in either direction. Beyond it the tunnel ends.
        tunnel_timeout ("tunnel_timeout"): Duration as TimeSpan = Duration::from_secs(60),
            "Apache's and nginx's own. Most WebSocket servers send a ping more often.";
        /// The pages for errors, by status: paths of the site, as
        /// `{ 404 = "/404.html", 503 = "/busy.php" }`, with every other character escaped as in a
        /// URL. A page is a file or a script. It keeps the status, and a script finds the original
        /// request in `REDIRECT_STATUS`, `REDIRECT_URL` and others, as with Apache's ErrorDocument.
        /// Errors of the server itself have them, too: 502, 503 and 504 of a pool, 413 of `body` in
        /// `[limits]`, 417, 400 for a path that cannot be, and 429 of `client_requests`, whose page
        /// must be no script. A request whose head cannot be read has no site, and gets the
        /// server's own page: 414, 421, 431, 505, 408 before its end, and every other 400.
        /// ErrorDocument in `rules` or a `.htaccess` file has precedence. Where a `.htaccess` file
        /// is broken, the page for 500 is still the configuration's.
        error_pages ("error_pages"): Vec<(u16, String)> as ErrorPages = Vec::new(),
            "The server's own pages name the error and nothing else.";
        /// The charset that is added to `text/html` and `text/plain` without one: Apache's
        /// AddDefaultCharset.
        charset ("charset"): Option<String> as Optional<Charset> = None,
            "It would overrule the charset that a page names itself.";
        /// Fields of responses by name or type of the content, one `[[site.fields]]` each. All that
        /// fit act, in order. See `[[site.fields]]` below.
        fields ("fields"): Vec<FieldRule> as FieldRules = Vec::new(),
            "A file is sent with its type, date and entity tag, a script's output with its own \
                fields.";
        /// Whether a folder without an index file is listed: as a page that can be sorted, or as
        /// JSON for a client that asks for `application/json`. Names that are not served are left
        /// out. `Options -Indexes` in a `.htaccess` file closes a folder, and with IndexOptions or
        /// any other directive of mod_autoindex it looks as with Apache.
        listing ("listing"): bool as Flag = false,
            "Nobody should publish a folder's names by forgetting an index file.";
        /// Whether responses have a `Server-Timing` field, which browsers show beside each request:
        /// `queue`, the time that a script's request waited for a worker; `php`, the time that the
        /// script took to begin its response; `total`, the time since the request's arrival.
        server_timing ("server_timing"): bool as Flag = false,
            "The times help attackers who guess what scripts do.";
        /// The compressed files that are looked for beside a file: `style.css.br`, `style.css.zst`,
        /// `style.css.gz`. A client that accepts the coding gets that file in place of `style.css`,
        /// with its media type. The client's preference (`q`) counts, then the order of this list.
        /// A compressed file that is older than the file itself is not used.
        precompressed ("precompressed"): Vec<ContentCoding> as List<Coding> = Vec::new(),
            "Files that only happen to have such names should not take the place of others.";
        /// The codings in which the server itself compresses files: text, scripts, style sheets,
        /// JSON, XML, SVG, uncompressed fonts and WebAssembly of at least 256 bytes. The client's
        /// preference counts, then the order of this list. Where a compressed file lies beside
        /// (`precompressed`), or where directives have chosen a filter, that one is sent. Files up
        /// to 1 MiB are compressed once and kept in memory.
        compress ("compress"): Vec<ContentCoding> as List<Coding> = Vec::new(),
            "As Apache, a site compresses what its directives say; new sites want \
                `[\"zstd\", \"br\", \"gzip\"]`.";
        /// Whether `compress` is for the output of scripts, too. Wherever a script pauses, its
        /// output is passed on at once.
        compress_scripts ("compress_scripts"): bool as Flag = false,
            "The length of a compressed page tells whoever can put text into it about its secrets \
                (BREACH).";
        /// Whether scripts may have the server send files below the site's own root: by their path
        /// in the field `X-Sendfile`, or by the path of a URL in `X-Accel-Redirect`. The front
        /// sends the file while the worker runs the next request. Names that are never served and
        /// sources of PHP are refused; `.htaccess` files do not count, since the script decides.
        /// The pool's user must be able to read the file. Without this key, `sendfile_roots` and
        /// `accel` both fields reach the client unchanged, for a proxy in front of Howdah.
        sendfile ("sendfile"): bool as Flag = false,
            "A script that passes on the fields of another server would let that server choose a \
                file.";
        /// Further folders below which `X-Sendfile` may name files, whatever they are called, even
        /// sources of PHP. A relative path starts at the folder of the configuration file.
        sendfile_roots ("sendfile_roots"): Vec<PathBuf> as List<FilePath> = Vec::new(),
            "Private files are best kept outside the root; only the operator can say where.";
        /// The folders that `X-Accel-Redirect` names by paths of URLs, as
        /// `{ "/protected/" = "/srv/files" }`: `/protected/a%20b.pdf` is then `/srv/files/a b.pdf`.
        /// The longest path that matches counts. Only scripts reach these folders: for a client's
        /// request such a path is one below the root, as every other. Files may have any name, as
        /// below `sendfile_roots`.
        accel ("accel"): Vec<(String, PathBuf)> as Accel = Vec::new(),
            "nginx's `internal` locations with `alias`, for applications that were written for \
                them.";
        /// Requests of one client to this site in a time, as `client_requests` of `[limits]`;
        /// `"off"` is no limit. They are counted apart from those to other sites.
        client_requests ("client_requests"): Option<Rate> as Optional<RateLimit> = None,
            "Unset is the value of `[limits]`.";
        /// Requests to this site that one client may send at once, as `client_burst` of `[limits]`.
        /// Needs `client_requests` of the site or of `[limits]`.
        client_burst ("client_burst"): Option<u32> as Optional<AtLeast<u32, 1>> = None,
            "Unset is the value of `[limits]`.";
        /// Bytes of the site's temporary files together, as `spill_total` of `[limits]` for all
        /// sites. `"auto"` is half of what is still free for all other sites together.
        spill_total ("spill_total"): Option<u64> as AutoSize = None,
            "A site alone may use a third; however many sites take all they may, the next one \
                finds room.";
        /// The site's access log, as `access` of `[log]`. Sites may share a file. The folder may
        /// belong to the site's owner: a symbolic link in the path counts if it belongs to root,
        /// or to the owner of the place that it leads to and stays in its folder.
        access_log ("access_log"): Option<AccessTarget> as Optional<AccessLogTarget> = None,
            "Unset is the server's access log.";
        /// The form of a line of the site's access log, as `format` of `[log]`.
        access_log_format ("access_log_format"): Option<AccessFormat> as Optional<Format> = None,
            "Unset is the format of `[log]`.";
        /// PHP: `false` for none, or a `[site.php]` table.
        php ("php"): Option<Php> as PhpTable = Some(Php::default()),
            "Howdah is a server for PHP sites. Without PHP its files are refused, never sent as \
                text.";
    }
}

section! {
    /// Fields of responses. `match` and `type` choose the responses; without both, all of the
    /// site's. Fields are set as nginx's `add_header` does, in responses with the status 200, 201,
    /// 204, 206, 301, 302, 303, 304, 307 and 308: no error page gets one, be it a file or made by a
    /// script. Pages and redirects of the server's own are left alone. A script's Cache-Control and
    /// Expires stay, as well as those of directives: where a response has one of the two, both are
    /// left as they are. `Header` in `rules` and in a `.htaccess` file comes later and has
    /// precedence; `Header always set` in `rules` sets a field in errors, too.
    pub struct FieldRule {
        /// Names of files as `"*.css"`, or paths as `"/assets/**"`: `*` stands for any characters
        /// but `/`, `**` for any characters, `?` for one.
        names ("match"): Vec<String> as List<NameGlob> = Vec::new(),
            "Unset is every file and script.";
        /// Media types of the content, as `"text/css"` or `"image/*"`.
        types ("type"): Vec<String> as List<TypeGlob> = Vec::new(),
            "Unset is every type.";
        /// Fields to set, in place of those that the response has:
        /// `{ Cache-Control = "public, max-age=31536000, immutable" }`. To replace a script's own
        /// Cache-Control and Expires, name both in `unset` as well.
        set ("set"): Vec<(String, String)> as FieldTable = Vec::new(),
            "A rule may do nothing but `unset` fields.";
        /// Names of fields to remove, before `set` acts: from errors of scripts, too.
        unset ("unset"): Vec<String> as List<FieldName> = Vec::new(),
            "A rule may do nothing but `set` fields.";
    }
}

impl SiteSettings {
    /// Makes every relative path of the site start at `folder`, except those of listeners.
    pub(crate) fn anchor(&mut self, folder: &Path) {
        self.root.anchor(folder);
        let accel = self.accel.iter_mut().map(|(_, path)| path);
        let tls = &mut self.tls;
        let pairs = tls.cert.iter_mut().chain(&mut tls.key).chain(&mut tls.client_ca);
        let authority = self.upstream_ca_file.iter_mut();
        for path in self.sendfile_roots.iter_mut().chain(accel).chain(pairs).chain(authority) {
            *path = folder.join(&*path);
        }
        if let Some(php) = &mut self.php {
            // With `chroot`, the working directory is a path below it.
            let outside = if php.chroot.is_some() { Path::new("/") } else { folder };
            php.chdir.iter_mut().for_each(|path| *path = outside.join(&*path));
            let named = [&mut php.program, &mut php.ini_file, &mut php.state_dir, &mut php.chroot];
            let listed = php.readable.iter_mut().chain(&mut php.writable);
            for path in named.into_iter().flatten().chain(listed) {
                *path = folder.join(&*path);
            }
        }
    }

    /// Returns whether the site answers on a listener.
    pub fn answers_on(&self, listener: &ListenerSettings) -> bool {
        self.listen.is_empty() || self.listen.contains(&listener.address)
    }

    /// The place where the site's pool keeps its state: the folder configured, or the usual place
    /// for who runs the server. The caller makes it, for its owner alone, and must not trust one
    /// that it finds with another owner.
    pub fn state_dir(&self, as_root: bool, uid: u32, temporary: &Path) -> PathBuf {
        let php = self.php.as_ref();
        let chroot = php.and_then(|php| php.chroot.as_deref()).unwrap_or(Path::new("/"));
        match php.and_then(|php| php.state_dir.as_ref()) {
            Some(path) => path.clone(),
            None if as_root => chroot.join("var/lib/howdah").join(&self.name),
            None => temporary.join(format!("howdah-{uid}")).join(&self.name),
        }
    }

    /// The name of a site that was given none.
    pub(crate) fn name_from_hosts(&self) -> String {
        match self.hosts.first() {
            Some(HostPattern::Exact(name)) if name.starts_with('[') => {
                name.trim_matches(['[', ']']).replace(':', "-")
            }
            Some(HostPattern::Exact(name) | HostPattern::Wildcard(name)) => name.clone(),
            Some(HostPattern::Default) | None => "default".to_owned(),
        }
    }
}

impl RootTemplate {
    fn anchor(&mut self, folder: &Path) {
        match self {
            RootTemplate::Fixed(path) => *path = without_dots(&folder.join(&*path)),
            RootTemplate::PerHost { before, .. } => {
                // A folder that is not UTF-8 cannot have been named in the file, only on the
                // command line.
                let folders = without_dots(&folder.join(&*before)).to_string_lossy().into_owned();
                *before = match folders.is_empty() || folders.ends_with('/') {
                    true => folders,
                    false => folders + "/",
                };
            }
        }
    }
}

/// Returns the path without `.` and without `..` and the name before it, as Apache takes
/// DocumentRoot: scripts compare it with the paths of their files.
fn without_dots(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match (part, plain.components().next_back()) {
            (Component::CurDir, _) | (Component::ParentDir, Some(Component::RootDir)) => {}
            (Component::ParentDir, Some(Component::Normal(_))) => {
                plain.pop();
            }
            (part, _) => plain.push(part),
        }
    }
    match plain.as_os_str().is_empty() {
        true => path.to_owned(),
        false => plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_have_no_dots() {
        for (folder, root, expected) in [
            ("/etc/howdah/sites", "../../www", "/etc/www"),
            ("/etc/howdah", "./public/", "/etc/howdah/public"),
            ("/etc", "../../../srv", "/srv"),
            ("/etc", "/srv/x/../www/.", "/srv/www"),
            ("", "../www", "../www"),
            ("", ".", "."),
            ("a", "../../www", "../www"),
        ] {
            let mut fixed = RootTemplate::Fixed(root.into());
            fixed.anchor(Path::new(folder));
            assert_eq!(fixed, RootTemplate::Fixed(expected.into()), "{folder} {root}");
        }
        for (folder, before, expected) in
            [("/etc", "../srv/", "/srv/"), ("/etc", "", "/etc/"), ("", "", ""), ("/etc", "/", "/")]
        {
            let template = |before: &str| RootTemplate::PerHost {
                before: before.to_owned(),
                after: "/public".to_owned(),
            };
            let mut root = template(before);
            root.anchor(Path::new(folder));
            assert_eq!(root, template(expected), "{folder} {before}");
        }
    }
}
