//! Every key of the configuration file, each declared once.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::kinds::{
    Access, Addresses, AtLeast, Counted, DirectiveName, Environment, Errors, Extension, File, Flag,
    Format, Hosts, Ini, Level, List, NamePattern, Optional, Overrides, PhpTable, PlainName, Root,
    Rules, Sites, Size, Span, SymlinkPolicy, Table, Text, Try, UpstreamUrl,
};
use crate::section::section;
use crate::values::{
    AccessFormat, AccessTarget, AllowOverride, Count, ErrorTarget, HostPattern, LogLevel,
    RootTemplate, Symlinks, TryStep, Upstream,
};

section! {
    /// The server as a whole. These keys are written at the top of the file, above the first
    /// `[table]`.
    pub struct Config {
        /// Addresses to accept connections on. `"127.0.0.1:8080"` and `"[::1]:8080"` name one
        /// address each; `":80"` is port 80 on every address of both families.
        listen ("listen"): Vec<SocketAddr> as Addresses =
            vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 8080))],
            "A server that nobody has configured yet should not be reachable from other machines.";
        /// Event-loop threads of the front.
        threads ("threads"): Count as Counted = Count::Auto,
            "`auto` is one per processor. An event loop never waits, so more threads would only take turns.";
        /// The user that the front runs as when the server is started as root; ignored otherwise.
        user ("user"): Option<String> as Optional<Text> = Some("www-data".to_owned()),
            "Debian's user for web servers; root must never touch a request.";
        /// The group that the front runs as when the server is started as root; ignored otherwise.
        group ("group"): Option<String> as Optional<Text> = None,
            "Unset is the primary group of `user`.";
        /// The socket through which `howdah status`, `reload` and `stop` reach the server.
        control ("control"): Option<PathBuf> as Optional<File> = None,
            "Unset is `/run/howdah.sock` as root, else `howdah.sock` in `$XDG_RUNTIME_DIR`, else no socket.";
        /// A file that holds the supervisor's process id while the server runs.
        pid_file ("pid_file"): Option<PathBuf> as Optional<File> = None,
            "Unset is no file: service managers follow the process itself.";
        /// Limits on what a client may send, and on the time that it may take.
        limits ("limits"): Limits as Table<Limits> = Limits::default(),
            "See `[limits]` below.";
        /// Where logs go.
        log ("log"): Log as Table<Log> = Log::default(),
            "See `[log]` below.";
        /// The sites, one `[[site]]` each. There must be at least one.
        sites ("site"): Vec<Site> as Sites = Vec::new(),
            "A server without a site has nothing to serve, so it must be given.";
    }
}

section! {
    /// Limits on what a client may send, and on the time that it may take. Each limit names the
    /// answer to a client that exceeds it.
    pub struct Limits {
        /// Connections open at once, over all listeners. Further ones wait in the kernel's
        /// queue.
        connections ("connections"): usize as AtLeast<usize, 1> = 16_384,
            "Holds 10,000 idle browsers with room to spare, in a few dozen megabytes.";
        /// Bytes in a request line. Beyond it: 414.
        request_line ("request_line"): usize as Size<usize> = 8190,
            "Apache's LimitRequestLine.";
        /// Bytes in one header field line. Beyond it: 431.
        field_line ("field_line"): usize as Size<usize> = 16 << 10,
            "Twice Apache's, since single sign-on cookies outgrow 8K.";
        /// Bytes in all header field lines together. Beyond it: 431.
        fields_total ("fields_total"): usize as Size<usize> = 64 << 10,
            "Four of the longest lines; it bounds what a connection can make the server hold.";
        /// Header field lines. Beyond it: 431.
        field_count ("field_count"): usize as AtLeast<usize, 1> = 100,
            "Apache's LimitRequestFields.";
        /// Bytes in a request body; 0 is no limit. Beyond it: 413. PHP's own `post_max_size`
        /// applies as well.
        body ("body"): u64 as Size<u64> = 2 << 30,
            "Lets a 1 GB upload through with its multipart wrapping, and still bounds the temporary disk space.";
        /// From the first byte of a request (or the connection's start) to the end of its header.
        /// Beyond it: 408.
        head_timeout ("head_timeout"): Duration as Span = Duration::from_secs(20),
            "Apache's RequestReadTimeout: enough for slow phones, too short for slow-header attacks.";
        /// Between two reads of a request body. Beyond it: 408.
        body_timeout ("body_timeout"): Duration as Span = Duration::from_secs(30),
            "A stalled upload frees its place. One that moves, however slowly, goes on.";
        /// Between two writes of a response that the client takes. Beyond it the connection is
        /// closed.
        send_timeout ("send_timeout"): Duration as Span = Duration::from_secs(60),
            "nginx's send_timeout; slow readers cost no PHP worker, only memory and disk.";
        /// How long an idle connection is kept for the next request. Beyond it the connection is
        /// closed.
        keep_alive_timeout ("keep_alive_timeout"): Duration as Span = Duration::from_secs(30),
            "An idle connection costs little, and the next click usually comes within half a minute.";
        /// Requests on one connection; 0 is no limit. The last response says `Connection: close`.
        keep_alive_requests ("keep_alive_requests"): u64 as AtLeast<u64, 0> = 10_000,
            "Spreads long-lived clients over the threads anew from time to time.";
        /// On stop and reload: how long requests in flight may take to finish. Beyond it they are
        /// cut off.
        drain_timeout ("drain_timeout"): Duration as Span = Duration::from_secs(60),
            "The same as a site's `request_timeout`, so that every request that may still run can finish.";
        /// Bytes of one request body or of one response to a slow reader that are held in memory.
        /// Beyond it they go to an unlinked temporary file.
        spill_memory ("spill_memory"): usize as Size<usize> = 64 << 10,
            "Most forms and pages fit; a thousand slow readers still take only 64 MB.";
        /// Bytes of one response to a slow reader that are held in a temporary file; 0 is no file.
        /// Beyond it the script waits for its reader.
        spill_file ("spill_file"): u64 as Size<u64> = 1 << 30,
            "nginx's fastcgi_max_temp_file_size.";
    }
}

section! {
    /// Where logs go.
    pub struct Log {
        /// The access log: `"off"`, `"-"` for standard output, or a file that lines are added to.
        access ("access"): AccessTarget as Access = AccessTarget::Stdout,
            "journald and Docker collect standard output, and a server without a log is hard to operate.";
        /// How a line of the access log looks: `"combined"` or `"json"`.
        format ("format"): AccessFormat as Format = AccessFormat::Combined,
            "The format that all log analysers read.";
        /// The error log: `"-"` for standard error, or a file that lines are added to. PHP's errors
        /// go there too.
        error ("error"): ErrorTarget as Errors = ErrorTarget::Stderr,
            "Visible in a terminal, and collected by service managers.";
        /// The least serious lines that the error log gets: `"error"` (a request, a process or a
        /// site failed), `"warning"` (something needs attention), `"notice"` (a start, a reload) or
        /// `"info"` (mistakes of clients and other ordinary events). Ten lines of one kind are
        /// written within ten seconds; further ones are counted, and the count is written.
        level ("level"): LogLevel as Level = LogLevel::Info,
            "Everything that helps to find a mistake; floods of one kind are counted, not written.";
    }
}

section! {
    /// A site: the names it answers for and what it serves. Each `[[site]]` begins another.
    pub struct Site {
        /// The name in logs and metrics, and of the PHP pool: letters, digits, `.`, `_` and `-`.
        name ("name"): String as PlainName = String::new(),
            "Unset is the first host without its `*.`, or `default` for `*`.";
        /// The host names: `"example.org"`, `"*.example.org"` for every name below it, `"*"` for
        /// all others. Ports are not part of it. The longest match wins.
        hosts ("hosts"): Vec<HostPattern> as Hosts = vec![HostPattern::Default],
            "A site without host names answers for all of them.";
        /// The document root: the folder that URLs are looked up in. `{host}` as a whole component
        /// of the path is replaced by the request's host name, so that one entry serves thousands
        /// of sites: `"/srv/www/{host}/public"`. A relative path starts at the folder of the
        /// configuration file.
        root ("root"): RootTemplate as Root = RootTemplate::Fixed(PathBuf::new()),
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
        /// Which symbolic links below the root are followed: `"owner"` (link and target have the
        /// same owner), `"inside"` (the target is inside the root) or `"follow"` (all).
        symlinks ("symlinks"): Symlinks as SymlinkPolicy = Symlinks::Owner,
            "On a shared host nobody can publish another user's files, and an owner's own links work.";
        /// Files and folders whose names start with a dot are not served (404), except these.
        dot_names ("dot_names"): Vec<String> as List<NamePattern> = vec![".well-known".to_owned()],
            "Dot files hold secrets, histories and editors' backups. `.well-known` is meant for the public.";
        /// Files and folders that are never served (403), even below a folder that is. A `*` at the
        /// end stands for any ending.
        refuse ("refuse"): Vec<String> as List<NamePattern> =
            [".ht*", ".user.ini", ".env*", ".git*", ".svn", ".hg", ".bzr"].map(str::to_owned).to_vec(),
            "Apache's own rule for `.ht*`, and names that have leaked passwords and sources elsewhere.";
        /// Whether `.htaccess` files are read: Apache's directives, for the folder that the file is
        /// in and all below it. What they may say is in [htaccess.md](htaccess.md).
        htaccess ("htaccess"): bool as Flag = true,
            "The files of an existing site map its URLs and protect its secrets.";
        /// The directives that `.htaccess` files may have, as Apache's `AllowOverride`: classes of
        /// directives, and with `Options=` which options. A directive that is not allowed is an
        /// error: 500 for what the file covers. With `"None"` and no `allow_override_list` they are
        /// not read.
        allow_override ("allow_override"): AllowOverride as Overrides = AllowOverride::all(),
            "Anybody who may write such a file may also write a script, which may do more.";
        /// Directives that `.htaccess` files may use besides, as Apache's `AllowOverrideList`.
        allow_override_list ("allow_override_list"): Vec<String> as List<DirectiveName> = Vec::new(),
            "Everything is allowed already.";
        /// Directives for the whole site, as they would stand in a `.htaccess` file in its root;
        /// such a file adds to them. `htaccess` and `allow_override` say nothing about them.
        rules ("rules"): Option<String> as Optional<Rules> = None,
            "Most sites have their own in `.htaccess`.";
        /// Servers that `RewriteRule … [P]` may hand requests on to: `"http://127.0.0.1:3000"`, or
        /// on a socket `"unix:/run/app.sock|http://app"`. A rule whose URL begins with none of them
        /// is answered with 403.
        upstreams ("upstreams"): Vec<Upstream> as List<UpstreamUrl> = Vec::new(),
            "A `.htaccess` file must not be able to make the server send requests to any machine.";
        /// How long an upstream may take to be reached, to take more of a request or to send more
        /// of its response. Beyond it: 504, or where the response is on its way, its end.
        upstream_timeout ("upstream_timeout"): Duration as Span = Duration::from_secs(60),
            "Apache's own for proxied requests, its Timeout.";
        /// PHP: `false` for none, or a `[site.php]` table.
        php ("php"): Option<Php> as PhpTable = Some(Php::default()),
            "Howdah is a server for PHP sites. Without PHP its files are refused, never sent as text.";
    }
}

section! {
    /// A site's PHP pool.
    pub struct Php {
        /// The `howdah-php` program to run; one built against another PHP serves that version.
        program ("program"): Option<PathBuf> as Optional<File> = None,
            "Unset is the `howdah-php` beside the `howdah` that runs.";
        /// The php.ini to read.
        ini_file ("ini_file"): Option<PathBuf> as Optional<File> = None,
            "Unset is the one that `howdah-php` finds for itself, with the distribution's extensions.";
        /// PHP processes, each of which runs one request at a time.
        workers ("workers"): Count as Counted = Count::Auto,
            "`auto` is four per processor: scripts spend most of their time waiting for databases.";
        /// Requests that may wait for a free worker. Beyond it: 503 with Retry-After.
        queue ("queue"): usize as AtLeast<usize, 0> = 1024,
            "Takes a burst; a longer queue would only be answered after its visitors have left.";
        /// How long a request may wait for a free worker. Beyond it: 503 with Retry-After.
        queue_timeout ("queue_timeout"): Duration as Span = Duration::from_secs(15),
            "Few visitors wait longer, and what they no longer want is not worth running.";
        /// How long a script may run, in wall-clock time. Beyond it the worker is killed:
        /// 504.
        request_timeout ("request_timeout"): Duration as Span = Duration::from_secs(60),
            "nginx's fastcgi_read_timeout. PHP's `max_execution_time` counts only processor time and ends earlier.";
        /// Requests after which a worker is replaced by a fresh one; 0 is never.
        max_requests ("max_requests"): u64 as AtLeast<u64, 0> = 100_000,
            "Bounds what a leaking extension can take; forking a worker that seldom costs nothing measurable.";
        /// The user that the pool runs as when the server is started as root; ignored otherwise.
        user ("user"): Option<String> as Optional<Text> = None,
            "Unset is the server's `user`; give each site its own to keep sites from reading each other.";
        /// The group that the pool runs as when the server is started as root; ignored otherwise.
        group ("group"): Option<String> as Optional<Text> = None,
            "Unset is the primary group of the pool's user.";
        /// php.ini values that scripts may change with `ini_set`, as `{ memory_limit = "256M" }`.
        /// `true` and `false` are written as `1` and `0`.
        ini ("ini"): Vec<(String, String)> as Ini = Vec::new(),
            "The distribution's php.ini decides.";
        /// php.ini values that scripts and `.user.ini` files cannot change.
        admin_ini ("admin_ini"): Vec<(String, String)> as Ini = Vec::new(),
            "The distribution's php.ini decides.";
        /// Environment variables that scripts see. Nothing else of the server's environment reaches
        /// them, except `PATH`.
        env ("env"): Vec<(String, String)> as Environment = Vec::new(),
            "The server's own environment may hold secrets that are none of a script's business.";
        /// The folder below which the pool keeps its temporary files, uploads and sessions.
        /// Sessions older than `session.gc_maxlifetime` are deleted about every ten minutes, by a
        /// request that has a session, unless `ini` or `admin_ini` say otherwise with
        /// `session.gc_probability` or keep sessions elsewhere with `session.save_path`.
        state_dir ("state_dir"): Option<PathBuf> as Optional<File> = None,
            "Unset is `/var/lib/howdah/NAME` as root, else `howdah-UID/NAME` in the folder for temporary files.";
        /// File names with these endings run as PHP.
        extensions ("extensions"): Vec<String> as List<Extension> =
            [".php", ".phtml", ".phar"].map(str::to_owned).to_vec(),
            "What Debian's Apache runs. Other names of PHP files (`.phps`, `.php5`, `.PHP`) are refused, never sent.";
    }
}

impl Config {
    /// The control socket's path: the one configured, or the usual place for who runs the server.
    pub fn control_path(&self, as_root: bool, runtime_dir: Option<&Path>) -> Option<PathBuf> {
        match &self.control {
            Some(path) => Some(path.clone()),
            None if as_root => Some(PathBuf::from("/run/howdah.sock")),
            None => runtime_dir.map(|folder| folder.join("howdah.sock")),
        }
    }

    /// Makes every relative path start at `folder`.
    pub(crate) fn anchor(&mut self, folder: &Path) {
        let optional = |path: &mut Option<PathBuf>| {
            if let Some(path) = path {
                *path = folder.join(&*path);
            }
        };
        optional(&mut self.control);
        optional(&mut self.pid_file);
        if let AccessTarget::File(path) = &mut self.log.access {
            *path = folder.join(&*path);
        }
        if let ErrorTarget::File(path) = &mut self.log.error {
            *path = folder.join(&*path);
        }
        for site in &mut self.sites {
            site.root.anchor(folder);
            if let Some(php) = &mut site.php {
                optional(&mut php.program);
                optional(&mut php.ini_file);
                optional(&mut php.state_dir);
            }
        }
    }
}

impl Site {
    /// Where the site's pool keeps its state: the folder configured, or the usual place for who
    /// runs the server. The caller makes it, for its owner alone, and must not trust one that it
    /// finds with another owner.
    pub fn state_dir(&self, as_root: bool, uid: u32, temporary: &Path) -> PathBuf {
        match self.php.as_ref().and_then(|php| php.state_dir.as_ref()) {
            Some(path) => path.clone(),
            None if as_root => Path::new("/var/lib/howdah").join(&self.name),
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

impl Php {
    /// How many workers `auto` means on a machine with this many processors.
    pub fn worker_count(&self, processors: usize) -> usize {
        self.workers.resolve(processors.saturating_mul(4))
    }
}

impl RootTemplate {
    fn anchor(&mut self, folder: &Path) {
        match self {
            RootTemplate::Fixed(path) => *path = folder.join(&*path),
            RootTemplate::PerHost { before, .. } if !before.starts_with('/') => {
                // A folder that is not UTF-8 cannot have been named in the file, only on the
                // command line.
                let folder = folder.to_string_lossy();
                let separator = if folder.is_empty() || folder.ends_with('/') {
                    ""
                } else {
                    "/"
                };
                *before = format!("{folder}{separator}{before}");
            }
            RootTemplate::PerHost { .. } => {}
        }
    }
}
