//! Every key of the configuration file, each declared once.

mod http2;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use self::http2::Http2;
use crate::acme::Acme;
use crate::kinds::{
    Accel, Access, Address, AddressField, Addresses, AdminAddress, AtLeast, AutoSize, Charset,
    Ciphers, Coding, ConnectTo, Counted, DirectiveName, Environment, ErrorPages, Errors, Extension,
    FieldName, FieldRules, FieldTable, File, Flag, Format, Forwarded, FunctionName, Hosts, Include,
    Ini, Level, List, Listeners, MadeCoding, Mode, ModuleName, NameGlob, NamePattern, OldestTls,
    Optional, Overrides, PagePath, PhpTable, PlainName, Proxies, RateLimit, Root, Rules,
    SandboxLevel, SapiName, Sites, Size, Source, Span, SymlinkPolicy, Table, Text, TlsTable,
    TransportSecurity, Trusted, Try, TypeGlob, UpstreamUrl, User, Verify, Within,
};
use crate::listener::{ListenAddress, Listener, Network, SOCKET_MODE, TrustedProxies};
use crate::section::section;
use crate::system_log::{LogDaemon, SystemLog};
use crate::values::{
    AccessFormat, AccessTarget, AllowOverride, CertificateSource, CipherPolicy, ClientVerify,
    ContentCoding, Count, Destination, ErrorTarget, ForwardedField, HostPattern, Includes,
    LogLevel, Rate, RootTemplate, Sandbox, Sapi, Symlinks, TlsVersion, TryStep, Upstream, UserName,
};

/// The front's user if `user` is unset.
pub const FRONT_USER: &str = "howdah";

/// The addresses of this machine to itself.
fn loopback() -> TrustedProxies {
    TrustedProxies {
        networks: ["127.0.0.0/8", "::1"]
            .iter()
            .filter_map(|text| Network::parse(text).ok())
            .collect(),
        ..TrustedProxies::default()
    }
}

/// A pool's user if its `user` is unset, and the group of [`FRONT_USER`].
pub const POOL_USER: &str = "www-data";

section! {
    /// The server as a whole. These keys are written at the top of the file, above the first
    /// `[table]`.
    pub struct Config {
        /// Addresses to accept connections on. `"127.0.0.1:8080"` and `"[::1]:8080"` name one
        /// address each; `":80"` is port 80 on every address of both families;
        /// `"unix:/run/howdah/web.sock"` is a Unix socket. A table has settings of its own:
        /// `listen = [":80", { address = "127.0.0.1:8443", tls = true }]`. Port 443 is for TLS.
        listen ("listen"): Vec<Listener> as Listeners =
            vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)).into()],
            "A server that nobody has configured yet should not be reachable from other machines.";
        /// Further files with sites, as `["sites/*.toml"]`: `*` stands for any characters of a name,
        /// `?` for one. Paths start at the folder of the file. An included file has `[[site]]` tables
        /// and perhaps `include`; its own relative paths start at its folder. The sites of this file
        /// come first, then those of the others in the order of their names. A pattern with `*` or
        /// `?` may match no file.
        include ("include"): Includes as Include = Includes::default(),
            "One file holds a server with a few sites.";
        /// Event-loop threads of the front.
        threads ("threads"): Count as Counted = Count::Auto,
            "`auto` is one per processor. An event loop never waits, so more threads would only take turns.";
        /// The user that the front runs as when the server is started as root; ignored otherwise.
        /// No pool may have this user, because a script could then stop the front.
        user ("user"): Option<UserName> as Optional<User> = None,
            "Unset is the system user `howdah`, which `make install` creates; where it does not exist, a user number that nothing else uses.";
        /// The group that the front runs as when the server is started as root; ignored otherwise.
        group ("group"): Option<String> as Optional<Text> = None,
            "Unset is the primary group of `user`; without `user` it is `www-data`, so that the front can read the files that Debian's sites let that group read.";
        /// Whether the front confines itself after its start: Landlock and seccomp leave it the
        /// system calls that it makes, no program to execute, no file to write but temporary ones
        /// and its logs, and no connections but to the sites' `upstreams`. What the kernel does not
        /// know is left out, with a notice in the log. See [security.md](security.md).
        sandbox ("sandbox"): bool as Flag = true,
            "The front reads what strangers send, and needs little of the system for it.";
        /// Whether each PHP pool gets a control group of the kernel. Then a pool's end ends every
        /// process that its scripts have started, and `memory`, `pids` and `cpu_weight` can limit a
        /// pool. Where the system does not permit control groups, the supervisor finds such
        /// processes by their ancestry. A service of systemd needs `Delegate=yes` in its unit.
        cgroups ("cgroups"): bool as Flag = true,
            "The kernel's own list of a pool's processes is one that no process can leave.";
        /// The socket through which `howdah status`, `reload` and `stop` reach the server.
        control ("control"): Option<PathBuf> as Optional<File> = None,
            "Unset is `/run/howdah.sock` as root, else `howdah.sock` in `$XDG_RUNTIME_DIR`, else no socket.";
        /// The address for monitors: `/metrics` (OpenMetrics, and Prometheus' text format), `/status`
        /// (JSON), `/healthz`, `/readyz`, and a page for people at `/`. `"127.0.0.1:9180"`, or
        /// `"unix:/run/howdah/admin.sock"`. Everything there is read-only, and shows URLs of all
        /// sites. A request must name an IP address, `localhost` or one of `admin_hosts` as its host.
        admin ("admin"): Vec<ListenAddress> as AdminAddress = Vec::new(),
            "Who can reach it sees which URLs are being asked for.";
        /// Host names under which monitors reach `admin`, beside `localhost` and IP addresses.
        admin_hosts ("admin_hosts"): Vec<String> as List<PlainName> = Vec::new(),
            "A page of another site could otherwise reach `admin` through a visitor's browser, by a name of its own.";
        /// A file that holds the supervisor's process id while the server runs.
        pid_file ("pid_file"): Option<PathBuf> as Optional<File> = None,
            "Unset is no file: service managers follow the process itself.";
        /// Whether a request for a host that no site lists is refused with 421. Otherwise the first
        /// site answers it.
        strict_hosts ("strict_hosts"): bool as Flag = false,
            "Apache's way: the first virtual host answers. A new name or a health check by address needs no setting.";
        /// Proxies that speak for their clients: IP addresses, networks, and `"unix"` for every peer
        /// on a Unix socket. From these peers alone, fields such as X-Forwarded-For are believed:
        /// scripts, rules, logs and limits then see the client's address, scheme, host and port
        /// instead of the proxy's. See [behind-a-proxy.md](behind-a-proxy.md).
        trusted_proxies ("trusted_proxies"): TrustedProxies as Proxies = TrustedProxies::default(),
            "Anybody can send these fields: without a proxy that sets them they are a client's claim.";
        /// The fields in which trusted proxies are believed: those of the X-Forwarded family, or
        /// `Forwarded` (RFC 7239) alone. Name only fields that the proxies set or remove: what a
        /// proxy passes on unchanged is its client's claim.
        forwarded_fields ("forwarded_fields"): Vec<ForwardedField> as List<Forwarded> = vec![
            ForwardedField::For, ForwardedField::Proto, ForwardedField::Host, ForwardedField::Port,
        ],
            "What nearly all proxies send. Forwarded is not read beside them: few proxies set or remove both.";
        /// A field in which trusted proxies give the client's address, in place of the address in
        /// X-Forwarded-For or Forwarded: `"CF-Connecting-IP"`, `"X-Real-IP"`.
        client_address_header ("client_address_header"): Option<String> as Optional<AddressField> = None,
            "Unset is the address of `forwarded_fields`.";
        /// The file with the media types of file name extensions, in the format of Debian's
        /// `/etc/mime.types` and of Apache's TypesConfig. Its types come before the built-in ones;
        /// `AddType` comes before both. Read at the start and at every reload. A missing file is no
        /// error.
        mime_types ("mime_types"): PathBuf as File = PathBuf::from("/etc/mime.types"),
            "Apache on Debian has its types from there.";
        /// Whether PCRE2 translates the patterns of directives to machine code.
        pcre_jit ("pcre_jit"): bool as Flag = false,
            "Site owners write these patterns. Without it the front never makes memory executable; costly patterns take up to eight times as long.";
        /// The folder for what the server keeps for itself: the local authority of `tls =
        /// "internal"`.
        state_dir ("state_dir"): Option<PathBuf> as Optional<File> = None,
            "Unset is `/var/lib/howdah-server` as root, else `howdah` in `$XDG_STATE_HOME`, which is `~/.local/state` if unset.";
        /// Limits on what a client may send, and on the time that it may take.
        limits ("limits"): Limits as Table<Limits> = Limits::default(),
            "See `[limits]` below.";
        /// Limits of connections of HTTP/2.
        http2 ("http2"): Http2 as Table<Http2> = Http2::default(),
            "See `[http2]` below.";
        /// Where logs go.
        log ("log"): Log as Table<Log> = Log::default(),
            "See `[log]` below.";
        /// Certificates that the server orders by itself.
        acme ("acme"): Acme as Table<Acme> = Acme::default(),
            "See `[acme]` below.";
        /// The sites, one `[[site]]` each. There must be at least one.
        sites ("site"): Vec<Site> as Sites = Vec::new(),
            "A server without a site has nothing to serve, so it must be given.";
    }
}

section! {
    /// An item of `listen` may be a table with these keys instead of an address.
    pub struct ListenerTable {
        /// The address, as in `listen`.
        address ("address"): Vec<ListenAddress> as Address = Vec::new(),
            "A listener needs one.";
        /// Whether every connection begins with a header of the PROXY protocol, version 1 or 2,
        /// which names the client. A connection without it is closed. Peers that are not trusted
        /// are closed as well, so `trusted` or `trusted_proxies` must be given.
        proxy_protocol ("proxy_protocol"): bool as Flag = false,
            "Proxies must be told to send it: HAProxy with `send-proxy-v2`, for example.";
        /// The proxies that are believed on this listener: `true` for every peer, `false` for none,
        /// or a list as in `trusted_proxies`, which it replaces.
        trusted ("trusted"): Option<TrustedProxies> as Trusted = None,
            "Unset is `trusted_proxies`.";
        /// The permissions of a Unix socket.
        mode ("mode"): u32 as Mode = SOCKET_MODE,
            "Its owner and its group may connect. A proxy of another user must be in the group.";
        /// The owner of a Unix socket.
        owner ("owner"): Option<String> as Optional<Text> = None,
            "Unset is the user that starts the server.";
        /// The group of a Unix socket.
        group ("group"): Option<String> as Optional<Text> = None,
            "Unset is the group of the front, where root starts the server.";
        /// Whether connections are encrypted. The certificates are those of the sites that answer
        /// here: see `tls` of `[[site]]` and [https.md](https.md).
        tls ("tls"): Option<bool> as Optional<Flag> = None,
            "Unset is `true` for port 443 and `false` for all others.";
    }
}

section! {
    /// Limits on what a client may send, and on the time that it may take. Each limit names the
    /// answer to a client that exceeds it.
    pub struct Limits {
        /// Connections open at once, over all listeners. At the limit, those that have been idle
        /// for longest are closed; where none is idle, new ones wait in the kernel's queue. The
        /// limit of open files (`ulimit -n`) may make the number lower, which the error log says.
        connections ("connections"): usize as AtLeast<usize, 1> = 16_384,
            "Holds 10,000 idle browsers with room to spare, in a few dozen megabytes.";
        /// Connections of one client at once. Further ones are closed. `"auto"` is no limit until
        /// three quarters of `connections` are open; from then on a sixteenth of
        /// `connections`, but at least 256.
        client_connections ("client_connections"): Count as Counted = Count::Auto,
            "A proxy or an office behind one address is not limited, and no address alone can take all connections.";
        /// Requests of one client in a time: `"50/s"`, `"600/m"`, `"5000/h"` or `"off"`. Beyond
        /// it: 429 with Retry-After.
        client_requests ("client_requests"): Rate as RateLimit = Rate::OFF,
            "A page with its pictures is a hundred requests, and an office or a proxy is one client. `\"50/s\"` suits most sites without such clients.";
        /// Requests that one client may send at once before `client_requests` holds.
        client_burst ("client_burst"): u32 as AtLeast<u32, 1> = 200,
            "A page with its pictures, twice.";
        /// Bits of an IPv4 address that make a client: all connections from addresses with the same
        /// bits are one client's.
        client_prefix_v4 ("client_prefix_v4"): u64 as Within<1, 32> = 32,
            "An address.";
        /// Bits of an IPv6 address that make a client.
        client_prefix_v6 ("client_prefix_v6"): u64 as Within<1, 128> = 64,
            "Providers give at least 64 bits to each of their customers.";
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
        /// From the connection's start to the end of its TLS handshake. Beyond it the connection is
        /// closed. At the limit of `connections`, those in their handshake are closed as idle ones.
        handshake_timeout ("handshake_timeout"): Duration as Span = Duration::from_secs(10),
            "Two round trips take a second on the slowest line.";
        /// Between two reads of a request body. Beyond it: 408.
        body_timeout ("body_timeout"): Duration as Span = Duration::from_secs(30),
            "A stalled upload frees its place.";
        /// Bytes per second that a request body must arrive with on average, after its first 20
        /// seconds; 0 is no limit. Beyond it: 408.
        body_rate ("body_rate"): u64 as Size<u64> = 500,
            "Apache's RequestReadTimeout: no phone is slower, and a client that sends a byte now and then keeps its place no longer.";
        /// Between two writes of a response that the client takes. Beyond it the connection is
        /// closed.
        send_timeout ("send_timeout"): Duration as Span = Duration::from_secs(60),
            "nginx's send_timeout; slow readers cost no PHP worker, only memory and disk.";
        /// Bytes per second that a client must take on average while a response waits for it, after
        /// `send_timeout`; 0 is no limit. Beyond it the connection is closed.
        send_rate ("send_rate"): u64 as Size<u64> = 500,
            "A client that takes a byte now and then holds its memory and disk no longer.";
        /// How long an idle connection is kept for the next request. Beyond it the connection is
        /// closed.
        keep_alive_timeout ("keep_alive_timeout"): Duration as Span = Duration::from_secs(30),
            "An idle connection costs little, and the next click usually comes within half a minute.";
        /// Requests on one connection; 0 is no limit. The last response says `Connection: close`.
        keep_alive_requests ("keep_alive_requests"): u64 as AtLeast<u64, 0> = 10_000,
            "Spreads long-lived clients over the threads anew from time to time.";
        /// Bytes of one `.htaccess` file. Beyond it: 500 for what the file covers.
        htaccess_size ("htaccess_size"): u64 as Size<u64> = 4 << 20,
            "The longest lists of robots and addresses have some hundred kilobytes.";
        /// Work that directives may take for one request, in steps: roughly those of PCRE2, plus the
        /// rules that are tried, the bytes that are looked at, the files that are asked for and the
        /// sub-requests. `howdah explain` shows the steps of a URL. Beyond it: 500, and the place of
        /// the directive in the error log.
        htaccess_work ("htaccess_work"): u64 as AtLeast<u64, 1_000> = 50_000_000,
            "A hundred times what the costliest ordinary rules take, and at worst about a second of a processor.";
        /// On stop and reload: how long requests in flight may take to finish. Beyond it they are
        /// cut off.
        drain_timeout ("drain_timeout"): Duration as Span = Duration::from_secs(60),
            "The same as a site's `request_timeout`: all but scripts that asked for more can finish.";
        /// Bytes of one request body or of one response to a slow reader that are held in memory.
        /// Beyond it they go to an unlinked temporary file.
        spill_memory ("spill_memory"): usize as Size<usize> = 64 << 10,
            "Most forms and pages fit; a thousand slow readers still take only 64 MB.";
        /// Bytes of one response to a slow reader that are held in a temporary file; 0 is no file.
        /// Beyond it the script waits for its reader.
        spill_file ("spill_file"): u64 as Size<u64> = 1 << 30,
            "nginx's fastcgi_max_temp_file_size.";
        /// Bytes of all temporary files together: those of request bodies and of responses to slow
        /// readers. `"auto"` is half of what is free in the folder for temporary files, without
        /// these files, measured again and again. Beyond it scripts wait for their readers, and
        /// request bodies that do not fit into memory are answered with 507. While a generation
        /// drains after a reload, it and the new one count separately.
        spill_total ("spill_total"): Option<u64> as AutoSize = None,
            "Slow readers and uploads cannot fill the disk, whatever its size.";
    }
}

section! {
    /// Where logs go.
    pub struct Log {
        /// The access log: `"off"`, `"-"` for standard output, a file that lines are added to, or the
        /// system's log. `"syslog:FACILITY:TAG"` sends the lines to `/dev/log`, `"journald:TAG"` to
        /// systemd's journal; both parts may be left out (`"syslog:"` is `"syslog:local7:howdah"`).
        /// While the system's log does not run, lines are lost and counted.
        access ("access"): AccessTarget as Access = AccessTarget::Stdout,
            "journald and Docker collect standard output, and a server without a log is hard to operate.";
        /// How a line of the access log looks: the name of a format, or a format of your own in the
        /// words of Apache's `LogFormat`: `'%h %l %u %t "%r" %>s %b %D'`. `%{c}a` is the address of
        /// the proxy, `%v` the site. `%b` and `%B` are bytes of content; `%I` and `%O` are all bytes
        /// of the request and of the response.
        format ("format"): AccessFormat as Format = AccessFormat::Combined,
            "The format that all log analysers read.";
        /// The error log: `"-"` for standard error, a file that lines are added to, or the system's
        /// log as in `access`. PHP's errors go there too.
        error ("error"): ErrorTarget as Errors = ErrorTarget::Stderr,
            "Visible in a terminal, and collected by service managers.";
        /// The socket of the system's log, for `"syslog:…"`.
        syslog_socket ("syslog_socket"): PathBuf as File = PathBuf::from("/dev/log"),
            "Where every syslog daemon listens.";
        /// The socket of systemd's journal, for `"journald:…"`.
        journald_socket ("journald_socket"): PathBuf as File =
            PathBuf::from("/run/systemd/journal/socket"),
            "Where the journal listens for its own protocol.";
        /// The least serious lines that the error log gets: `"error"` (a request, a process or a
        /// site failed), `"warning"` (something needs attention), `"notice"` (a start, a reload) or
        /// `"info"` (mistakes of clients and other ordinary events). Ten lines of one kind are
        /// written within ten seconds for each site, and for each client; further ones are counted,
        /// and the count is written.
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
        /// The listeners that the site answers on: addresses of the top-level `listen`. Elsewhere it
        /// does not exist.
        listen ("listen"): Vec<ListenAddress> as Addresses = Vec::new(),
            "Most servers have the same sites on all addresses.";
        /// The site's certificates: `"auto"` for those that the server orders (see `[acme]`),
        /// `{ cert = "FILE", key = "FILE" }`, a list of such tables, `"internal"` for one of the
        /// local authority, or `false` for none. See `[site.tls]` below and [https.md](https.md).
        tls ("tls"): SiteTls as TlsTable = SiteTls::default(),
            "Without a key it is `\"auto\"` for a site with a name on port 443 where `terms_agreed` is set, else `false`: nobody can agree for you.";
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
        /// Whether back-ups of PHP programs are refused (403), where no directive makes PHP run them:
        /// files that editors, package managers and people leave, such as `x.php~`, `x.php.bak`,
        /// `.x.php.swp`, `x.php.dpkg-old`, `x.php.1`, `x.php.txt` and `x.phar.gz`, and `x.inc`.
        /// `x.php.html` is none.
        refuse_backups ("refuse_backups"): bool as Flag = true,
            "Their source would be sent as text, with the passwords in it.";
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
        /// Modules of Apache that `<IfModule>` finds besides the usual ones: `"brotli"`,
        /// `"substitute"`. [htaccess.md](htaccess.md) lists the usual ones.
        modules ("modules"): Vec<String> as List<ModuleName> = Vec::new(),
            "Debian's Apache has them off, and a `.htaccess` file from there was written without them.";
        /// Servers that `RewriteRule … [P]` may hand requests on to: `"http://127.0.0.1:3000"`, or
        /// on a socket `"unix:/run/app.sock|http://app"`. A rule whose URL begins with none of them
        /// is answered with 403.
        upstreams ("upstreams"): Vec<Upstream> as List<UpstreamUrl> = Vec::new(),
            "A `.htaccess` file must not be able to make the server send requests to any machine.";
        /// How long an upstream may take to be reached, to take more of a request or to send more
        /// of its response. Beyond it: 504, or where the response is on its way, its end.
        upstream_timeout ("upstream_timeout"): Duration as Span = Duration::from_secs(60),
            "Apache's own for proxied requests, its Timeout.";
        /// The pages for errors, by status: paths of the site, as
        /// `{ 404 = "/404.html", 503 = "/busy.php" }`, with every other character escaped as in a URL.
        /// A page is a file or a script. It keeps the status, and a script finds the original request
        /// in `REDIRECT_STATUS`, `REDIRECT_URL` and others, as with Apache's ErrorDocument. Errors of
        /// the server itself have them, too, such as 502, 503 and 504 of a pool. ErrorDocument in
        /// `rules` or a `.htaccess` file has precedence.
        error_pages ("error_pages"): Vec<(u16, String)> as ErrorPages = Vec::new(),
            "The server's own pages name the error and nothing else.";
        /// The charset that is added to `text/html` and `text/plain` without one: Apache's
        /// AddDefaultCharset.
        charset ("charset"): Option<String> as Optional<Charset> = None,
            "It would overrule the charset that a page names itself.";
        /// Fields of responses by name or type of the content, one `[[site.fields]]` each. All that fit
        /// act, in order. See `[[site.fields]]` below.
        fields ("fields"): Vec<FieldRule> as FieldRules = Vec::new(),
            "A file is sent with its type, date and entity tag, a script's output with its own fields.";
        /// Whether a folder without an index file is listed: as a page that can be sorted, or as JSON
        /// for a client that asks for `application/json`. Names that are not served are left out.
        /// `Options -Indexes` in a `.htaccess` file closes a folder, and with IndexOptions or any other
        /// directive of mod_autoindex it looks as with Apache.
        listing ("listing"): bool as Flag = false,
            "Nobody should publish a folder's names by forgetting an index file.";
        /// The compressed files that are looked for beside a file: `style.css.br`, `style.css.zst`,
        /// `style.css.gz`. A client that accepts the coding gets that file in place of `style.css`,
        /// with its media type. The client's preference (`q`) counts, then the order of this list. A
        /// compressed file that is older than the file itself is not used.
        precompressed ("precompressed"): Vec<ContentCoding> as List<Coding> = Vec::new(),
            "Files that only happen to have such names should not take the place of others.";
        /// The codings in which the server itself compresses files: text, scripts, style sheets, JSON,
        /// XML, SVG, uncompressed fonts and WebAssembly of at least 256 bytes. The client's preference
        /// counts, then the order of this list. Where a compressed file lies beside (`precompressed`),
        /// or where directives have chosen a filter, that one is sent. Files up to 1 MiB are
        /// compressed once and kept in memory.
        compress ("compress"): Vec<ContentCoding> as List<MadeCoding> = Vec::new(),
            "As Apache, a site compresses what its directives say; new sites want `[\"br\", \"gzip\"]`.";
        /// Whether `compress` is for the output of scripts, too. What a script sends is passed on at
        /// once wherever it pauses.
        compress_scripts ("compress_scripts"): bool as Flag = false,
            "The length of a compressed page tells whoever can put text into it about its secrets (BREACH).";
        /// Whether scripts may have the server send files below the site's own root: by their path in
        /// the field `X-Sendfile`, or by the path of a URL in `X-Accel-Redirect`. The front sends the
        /// file while the worker runs the next request. Names that are never served and sources of
        /// PHP are refused; `.htaccess` files do not count, since the script decides. The pool's user
        /// must be able to read the file. Without this key, `sendfile_roots` and `accel` both fields
        /// reach the client unchanged, for a proxy in front of Howdah.
        sendfile ("sendfile"): bool as Flag = false,
            "A script that passes on the fields of another server would let that server choose a file.";
        /// Further folders below which `X-Sendfile` may name files, whatever they are called, even
        /// sources of PHP. A relative path starts at the folder of the configuration file.
        sendfile_roots ("sendfile_roots"): Vec<PathBuf> as List<File> = Vec::new(),
            "Private files are best kept outside the root; only the operator can say where.";
        /// The folders that `X-Accel-Redirect` names by paths of URLs, as
        /// `{ "/protected/" = "/srv/files" }`: `/protected/a%20b.pdf` is then `/srv/files/a b.pdf`. The
        /// longest path that matches counts. Clients cannot ask for these paths. Files may have any
        /// name, as below `sendfile_roots`.
        accel ("accel"): Vec<(String, PathBuf)> as Accel = Vec::new(),
            "nginx's `internal` locations with `alias`, for applications that were written for them.";
        /// Requests of one client to this site in a time, as `client_requests` of `[limits]`; `"off"`
        /// is no limit. They are counted apart from those to other sites.
        client_requests ("client_requests"): Option<Rate> as Optional<RateLimit> = None,
            "Unset is the value of `[limits]`.";
        /// Requests to this site that one client may send at once, as `client_burst` of `[limits]`.
        client_burst ("client_burst"): Option<u32> as Optional<AtLeast<u32, 1>> = None,
            "Unset is the value of `[limits]`.";
        /// Bytes of the site's temporary files together, as `spill_total` of `[limits]` for all
        /// sites. `"auto"` is half of what is still free for all other sites together.
        spill_total ("spill_total"): Option<u64> as AutoSize = None,
            "A site alone may use a third; however many sites take all they may, the next one finds room.";
        /// The site's access log, as `access` of `[log]`. Sites may share a file.
        access_log ("access_log"): Option<AccessTarget> as Optional<Access> = None,
            "Unset is the server's access log.";
        /// How a line of the site's access log looks, as `format` of `[log]`.
        access_log_format ("access_log_format"): Option<AccessFormat> as Optional<Format> = None,
            "Unset is the format of `[log]`.";
        /// PHP: `false` for none, or a `[site.php]` table.
        php ("php"): Option<Php> as PhpTable = Some(Php::default()),
            "Howdah is a server for PHP sites. Without PHP its files are refused, never sent as text.";
    }
}

section! {
    /// Fields of responses. `match` and `type` choose the responses; without both, all of the site's.
    /// Responses with an error or a redirect of the server's own are left alone. `Header` in a
    /// `.htaccess` file comes later and has precedence.
    pub struct FieldRule {
        /// Names of files as `"*.css"`, or paths as `"/assets/**"`: `*` stands for any characters but
        /// `/`, `**` for any characters, `?` for one.
        names ("match"): Vec<String> as List<NameGlob> = Vec::new(),
            "Unset is every file and script.";
        /// Media types of the content, as `"text/css"` or `"image/*"`.
        types ("type"): Vec<String> as List<TypeGlob> = Vec::new(),
            "Unset is every type.";
        /// Fields to set, in place of those that the response has:
        /// `{ Cache-Control = "public, max-age=31536000, immutable" }`.
        set ("set"): Vec<(String, String)> as FieldTable = Vec::new(),
            "A rule may do nothing but `unset` fields.";
        /// Names of fields to remove.
        unset ("unset"): Vec<String> as List<FieldName> = Vec::new(),
            "A rule may do nothing but `set` fields.";
    }
}

section! {
    /// A site's certificates, and what the site demands of encrypted connections.
    pub struct SiteTls {
        /// Where the certificates come from: `"files"` are those of `cert` and `key`; `"auto"` are
        /// ordered from the authorities of `[acme]`; `"internal"` is the local authority, which makes
        /// certificates for development. `tls = "auto"` is short for `tls = { from = "auto" }`.
        source ("from"): CertificateSource as Source = CertificateSource::Files,
            "Browsers trust the certificates of known authorities; the local one must be trusted by hand.";
        /// Files with a certificate in PEM, each followed by the certificates of the authorities
        /// between it and the root. Several certificates, for example with an ECDSA and an RSA key,
        /// stand side by side; the client's abilities choose. Changed files are read again.
        cert ("cert"): Vec<PathBuf> as List<File> = Vec::new(),
            "A site without a certificate is not reachable over https.";
        /// Files with the keys of `cert` in PEM, in the same order. The supervisor reads them
        /// before it gives up its rights; the front's user needs no right to read them.
        key ("key"): Vec<PathBuf> as List<File> = Vec::new(),
            "Each certificate has a key of its own.";
        /// The oldest version of TLS that clients of this site may use: `"1.2"` or `"1.3"`.
        min_version ("min_version"): TlsVersion as OldestTls = TlsVersion::Tls12,
            "All browsers since 2014 know TLS 1.2. Older versions are broken, and not there.";
        /// The cipher suites: `"intermediate"` are those that all clients with TLS 1.2 and forward
        /// secrecy know, `"modern"` those of TLS 1.3 and, with `min_version = "1.2"`, of TLS 1.2
        /// with ECDSA keys.
        ciphers ("ciphers"): CipherPolicy as Ciphers = CipherPolicy::Intermediate,
            "No suite of either list is known to be weak.";
        /// A file with the certificates of authorities in PEM. Clients are asked for a certificate
        /// of one of them. Rules and scripts see it in mod_ssl's variables `SSL_CLIENT_…`. The file
        /// is read with a reload.
        client_ca ("client_ca"): Option<PathBuf> as Optional<File> = None,
            "Visitors have no certificates.";
        /// With `client_ca`: `"require"` refuses clients without a certificate, also those over
        /// http; `"optional"` serves them.
        client_verify ("client_verify"): ClientVerify as Verify = ClientVerify::Require,
            "Who names authorities wants their clients alone.";
        /// Whether requests over http for a name of the site are redirected to https: with 301 for
        /// GET and HEAD, and 308 for others. Paths below `/.well-known/acme-challenge/` are not,
        /// nor requests that a trusted proxy has received over https.
        redirect ("redirect"): bool as Flag = true,
            "A site with a certificate is meant to be used over https.";
        /// The field Strict-Transport-Security of responses over https, such as `"max-age=31536000;
        /// includeSubDomains"`. For that many seconds browsers use https alone, and let nobody go
        /// on after a warning. A response that has the field already keeps its own.
        hsts ("hsts"): Option<String> as Optional<TransportSecurity> = None,
            "A browser that has seen the field cannot go back to http. That is the operator's decision.";
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
        /// The path of a page with the state of the pool, in the words of php-fpm's own: as text, and
        /// as `?json`, `?html`, `?xml` or `?openmetrics`; `&full` adds every worker with its URL.
        /// Directives that refuse or redirect the path have precedence.
        status_path ("status_path"): Option<String> as Optional<PagePath> = None,
            "Unset is no page. It is for monitors that were made for php-fpm; others find more at `admin`.";
        /// The path of a page that says `ping_response`, without PHP, as long as the site answers.
        ping_path ("ping_path"): Option<String> as Optional<PagePath> = None,
            "Unset is no page.";
        /// The content of the page at `ping_path`.
        ping_response ("ping_response"): String as Text = "pong".to_owned(),
            "php-fpm's `ping.response`.";
        /// The clients that may see the pages at `status_path` and `ping_path`: IP addresses and
        /// networks, such as `["10.0.0.0/8"]`. Others get 403.
        status_allow ("status_allow"): TrustedProxies as Proxies = loopback(),
            "The page shows the visitors' URLs. php-fpm leaves its protection to the web server, which is often forgotten.";
        /// How long a script may run without a sign of life, in wall-clock time. Output that
        /// leaves PHP's buffers is a sign of life. So is `set_time_limit()`, which gives the script
        /// the time that it names if that is longer. Beyond it the worker is killed: 504. A
        /// `max_execution_time` in a `.htaccess` or `.user.ini` file counts as if the script had set
        /// it at its start; that of `ini` and php.ini does not.
        request_timeout ("request_timeout"): Duration as Span = Duration::from_secs(60),
            "nginx's fastcgi_read_timeout. PHP's `max_execution_time` counts only processor time and ends earlier.";
        /// How long a script may run, whatever its signs of life. Beyond it the worker is killed:
        /// 504, or an end of the output that the client notices.
        request_terminate_timeout ("request_terminate_timeout"):
            Option<Duration> as Optional<Span> = None,
            "Unset is one hour, or `request_timeout` if that is longer: imports, updates and backups run as on Apache, and a worker that is stuck after `set_time_limit(0)` comes back.";
        /// Requests after which a worker is replaced by a fresh one; 0 is never.
        max_requests ("max_requests"): u64 as AtLeast<u64, 0> = 100_000,
            "Bounds what a leaking extension can take; forking a worker that seldom costs nothing measurable.";
        /// Whether a second zygote with PHP already started waits to replace the first one, or to
        /// serve under a new front. Either replacement then takes a few milliseconds instead of the
        /// time that PHP needs to start. It takes about 10 MB of memory.
        standby ("standby"): bool as Flag = true,
            "A crash should cost the requests that it hits and no others.";
        /// Bytes of memory that all processes of the pool may use together. Beyond it the kernel
        /// ends one of its workers. Needs `cgroups`; during a reload the former pool has its own.
        memory ("memory"): Option<u64> as Optional<Size<u64>> = None,
            "Unset is no limit: what a site needs is not known, and PHP's `memory_limit` bounds each script.";
        /// Processes and threads that the pool may have at once: its workers, two zygotes, and
        /// what scripts start. Beyond it starting a process fails. Needs `cgroups`.
        pids ("pids"): Option<u64> as Optional<AtLeast<u64, 1>> = None,
            "Unset is no limit besides those of the system.";
        /// The pool's share of processor time when the processors are busy, from 1 to 10000. A
        /// pool with 200 gets twice as much as one with 100. Needs `cgroups`.
        cpu_weight ("cpu_weight"): Option<u64> as Optional<Within<1, 10_000>> = None,
            "Unset is the kernel's usual weight, 100.";
        /// The user that the pool runs as when the server is started as root; ignored otherwise.
        /// It must not be the front's user, which is the server's `user`.
        user ("user"): Option<UserName> as Optional<User> = None,
            "Unset is `www-data`, Debian's user for web applications; give each site its own to keep sites from reading each other.";
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
        /// Uploaded files disappear with their request, and with their worker if it is killed.
        /// Files that scripts create in the temporary folder stay until scripts delete them.
        /// Sessions older than `session.gc_maxlifetime` are deleted about every ten minutes, by a
        /// request that has a session, unless `ini` or `admin_ini` say otherwise with
        /// `session.gc_probability` or keep sessions elsewhere with `session.save_path`.
        state_dir ("state_dir"): Option<PathBuf> as Optional<File> = None,
            "Unset is `/var/lib/howdah/NAME` as root, else `howdah-UID/NAME` in the folder for temporary files.";
        /// The name under which scripts see PHP run (`PHP_SAPI`): that of Apache's module, or that
        /// of php-fpm. Applications choose addresses and work-arounds by it.
        sapi ("sapi"): Sapi as SapiName = Sapi::Apache2handler,
            "A site that moves from Apache keeps its addresses. One that ran on php-fpm needs `\"fpm-fcgi\"`.";
        /// Gives scripts the functions of PHP's `pcntl` extension. A process that a script forks
        /// runs the rest of the script and ends; its output is discarded.
        pcntl ("pcntl"): bool as Flag = false,
            "Debian's Apache has no `pcntl`. Few scripts mean to create processes on a web server.";
        /// File names with these endings run as PHP.
        extensions ("extensions"): Vec<String> as List<Extension> =
            [".php", ".phtml", ".phar"].map(str::to_owned).to_vec(),
            "What Debian's Apache runs. Other names of PHP files (`.phps`, `.php5`, `.PHP`) are refused, never sent.";
        /// Functions that scripts cannot call. They are added to `disable_functions` of php.ini.
        disable_functions ("disable_functions"): Vec<String> as List<FunctionName> = Vec::new(),
            "php.ini decides. The sandbox does not depend on this list: it also binds the programs that scripts execute.";
        /// How much of the machine the pool is kept from, beside its user's permissions.
        /// `"standard"` hides other sites' files and processes and refuses system calls that serve
        /// attacks. `"strict"` also refuses all files but the site's and the system's, TCP
        /// listening, and signals to other workers. [security.md](security.md) has the table of both
        /// levels. `"off"` refuses nothing. What the kernel does not know is left out, with a notice
        /// in the log.
        sandbox ("sandbox"): Sandbox as SandboxLevel = Sandbox::Standard,
            "Applications run as without it, and code that breaks into one site does not reach the next.";
        /// Folders and files that scripts may read and execute beside those that `sandbox` leaves
        /// them, as far as the user's permissions go.
        readable ("readable"): Vec<PathBuf> as List<File> = Vec::new(),
            "The levels of `sandbox` leave a site what belongs to it.";
        /// As `readable`, and scripts may also write there.
        writable ("writable"): Vec<PathBuf> as List<File> = Vec::new(),
            "The levels of `sandbox` leave a site what belongs to it.";
        /// The only places that scripts and the programs that they execute may connect to:
        /// `"127.0.0.1:3306"`, `"*:443"`, `"unix:/run/mysqld/mysqld.sock"`, `"udp"` for UDP, which
        /// looking up names needs. `[]` is none. The kernel compares ports alone: a TCP port that is
        /// allowed for one address is allowed for all, and one socket in the file system allows all
        /// that the user's permissions allow. Needs `sandbox`.
        connect ("connect"): Option<Vec<Destination>> as Optional<List<ConnectTo>> = None,
            "Unset is everywhere: applications fetch updates, send mail and ask services of all kinds.";
        /// Whether set-user-ID and set-group-ID programs get no rights when scripts execute them.
        /// `mail()` then needs a `sendmail_path` that works without such rights, for example
        /// msmtp's. [security.md](security.md) says how mail is sent with and without.
        no_new_privs ("no_new_privs"): bool as Flag = true,
            "Every such program is a way to root if it has a hole. Mail can be handed over without one.";
        /// Whether the pool has `/tmp` and `/var/tmp` of its own, in its `state_dir`. Needs root's
        /// rights when the server starts. A site whose root, state or other named paths are below
        /// `/tmp` or `/var/tmp` keeps the machine's.
        private_tmp ("private_tmp"): bool as Flag = true,
            "Debian's Apache has one too. Files in a shared `/tmp` are read, guessed and replaced by other sites.";
        /// Whether the pool sees in `/proc` only the processes that it started. Needs root's rights
        /// when the server starts.
        hide_processes ("hide_processes"): bool as Flag = true,
            "Command lines of other users hold names, addresses and sometimes passwords.";
        /// Limits of the pool's processes and of the programs that scripts execute.
        rlimits ("rlimits"): ResourceLimits as Table<ResourceLimits> = ResourceLimits::default(),
            "See `[site.php.rlimits]` below.";
    }
}

section! {
    /// Limits of the pool's processes and of the programs that scripts execute, as `ulimit` sets
    /// them. Each counts per process, except `nproc`.
    pub struct ResourceLimits {
        /// Processes and threads of the pool's user. The kernel counts all processes of the user,
        /// not of this pool alone. Beyond it: no further process starts.
        nproc ("nproc"): Option<u64> as Optional<AtLeast<u64, 1>> = None,
            "Unset is the server's own: several pools and a login session may have the same user.";
        /// Bytes of a core dump. With 0 nothing is written. With more, processes of the same user
        /// may look into the pool's processes.
        core ("core"): u64 as Size<u64> = 0,
            "A core dump holds the visitors' data, and lies in the site's folder.";
        /// Files, sockets and pipes that a process may have open. The pool's own descriptors are
        /// added. Beyond it: opening fails.
        nofile ("nofile"): Option<u64> as Optional<AtLeast<u64, 16>> = None,
            "Unset is the server's own soft limit, at least 1024.";
        /// Bytes of a file that a process may write. Beyond it: writing fails.
        fsize ("fsize"): Option<u64> as Optional<Size<u64>> = None,
            "Unset is no limit: backups and databases in files may be large.";
        /// Bytes of address space, with shared libraries, opcache and its reserve for compiled code.
        /// Beyond it: allocating fails.
        address_space ("as"): Option<u64> as Optional<Size<u64>> = None,
            "Unset is no limit: PHP's `memory_limit` counts what scripts use, and address space is mostly reserve.";
        /// Processor time of a process. A worker that has used as much is replaced after its
        /// request, and killed if that request takes another minute of it. A program that a script
        /// executes is killed. Rounded up to seconds.
        cpu ("cpu"): Option<Duration> as Optional<Span> = None,
            "Unset is no limit: `request_timeout` bounds each request, and a worker serves many.";
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

    /// Returns every address that the file names.
    fn addresses(&mut self) -> impl Iterator<Item = &mut ListenAddress> {
        let listeners = self.listen.iter_mut().map(|listener| &mut listener.address);
        let admin = self.admin.iter_mut();
        listeners
            .chain(admin)
            .chain(self.sites.iter_mut().flat_map(|site| &mut site.listen))
    }

    /// Returns the proxies that are believed on a listener.
    pub fn trusted_on<'c>(&'c self, listener: &'c Listener) -> &'c TrustedProxies {
        listener.trusted.as_ref().unwrap_or(&self.trusted_proxies)
    }

    /// Makes every relative path start at `folder`, except those of [sites](Site::anchor).
    pub(crate) fn anchor(&mut self, folder: &Path) {
        let optional = |path: &mut Option<PathBuf>| {
            if let Some(path) = path {
                *path = folder.join(&*path);
            }
        };
        for address in self.addresses() {
            if let ListenAddress::Unix(path) = address {
                *path = folder.join(&*path);
            }
        }
        optional(&mut self.control);
        optional(&mut self.state_dir);
        optional(&mut self.pid_file);
        optional(&mut self.acme.ca_file);
        optional(&mut self.acme.state_dir);
        for path in
            [&mut self.mime_types, &mut self.log.syslog_socket, &mut self.log.journald_socket]
        {
            *path = folder.join(&*path);
        }
        let site_logs = self.sites.iter_mut().filter_map(|site| site.access_log.as_mut());
        for target in site_logs.chain([&mut self.log.access]) {
            if let AccessTarget::File(path) = target {
                *path = folder.join(&*path);
            }
        }
        if let ErrorTarget::File(path) = &mut self.log.error {
            *path = folder.join(&*path);
        }
    }
}

impl Log {
    /// Returns the path of the socket that a daemon listens at.
    pub fn daemon_socket(&self, daemon: LogDaemon) -> PathBuf {
        match daemon {
            LogDaemon::Syslog => self.syslog_socket.clone(),
            LogDaemon::Journald => self.journald_socket.clone(),
        }
    }

    /// Returns the system's logs that `sites` or the server write to, each with the path of its
    /// daemon's socket.
    pub fn daemon_sockets<'l>(
        &'l self,
        sites: &'l [Site],
    ) -> impl Iterator<Item = (&'l SystemLog, PathBuf)> {
        let access = sites.iter().filter_map(|site| site.access_log.as_ref());
        let access = access.chain([&self.access]).filter_map(|target| match target {
            AccessTarget::System(log) => Some(log),
            AccessTarget::Off | AccessTarget::Stdout | AccessTarget::File(_) => None,
        });
        let error = match &self.error {
            ErrorTarget::System(log) => Some(log),
            ErrorTarget::Stderr | ErrorTarget::File(_) => None,
        };
        access.chain(error).map(|log| (log, self.daemon_socket(log.daemon)))
    }
}

impl SiteTls {
    /// Whether the site has certificates.
    pub fn is_on(&self) -> bool {
        self.source != CertificateSource::Files || !self.cert.is_empty()
    }

    /// Returns the files of each certificate and of its key.
    pub fn pairs(&self) -> impl Iterator<Item = (&Path, &Path)> {
        let keys = self.key.iter().map(PathBuf::as_path);
        self.cert.iter().map(PathBuf::as_path).zip(keys)
    }
}

impl Site {
    /// Makes every relative path of the site start at `folder`, except those of listeners.
    pub(crate) fn anchor(&mut self, folder: &Path) {
        self.root.anchor(folder);
        let accel = self.accel.iter_mut().map(|(_, path)| path);
        let tls = &mut self.tls;
        let pairs = tls.cert.iter_mut().chain(&mut tls.key).chain(&mut tls.client_ca);
        for path in self.sendfile_roots.iter_mut().chain(accel).chain(pairs) {
            *path = folder.join(&*path);
        }
        if let Some(php) = &mut self.php {
            let named = [&mut php.program, &mut php.ini_file, &mut php.state_dir];
            let listed = php.readable.iter_mut().chain(&mut php.writable);
            for path in named.into_iter().flatten().chain(listed) {
                *path = folder.join(&*path);
            }
        }
    }

    /// Whether the site answers on a listener.
    pub fn answers_on(&self, listener: &Listener) -> bool {
        self.listen.is_empty() || self.listen.contains(&listener.address)
    }

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
    /// How long a script may run, whatever its signs of life.
    pub fn longest_request(&self) -> Duration {
        let usual = Duration::from_secs(3600).max(self.request_timeout);
        self.request_terminate_timeout.unwrap_or(usual)
    }

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
