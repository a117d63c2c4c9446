//! Every key of the configuration file, each declared once.

mod http2;
mod http3;
mod lane;
mod limits;
mod log;
mod php;
mod site;
mod tls;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use self::http2::Http2;
pub use self::http3::Http3;
pub use self::lane::Lane;
pub use self::limits::ClientLimits;
pub use self::log::Log;
pub use self::php::{MOST_WORKERS, Php, ResourceLimits};
pub use self::site::{FieldRule, SiteSettings};
pub use self::tls::SiteTls;
use crate::acme::Acme;
use crate::kinds::{
    Address, AddressField, AdminAddress, AutoCount, FilePath, Flag, ForwardedName, Include, List,
    Listeners, Mode, Optional, PlainName, Proxies, SiteTables, Table, Text, TimeSpanOrZero,
    TrustedValue, User, Within,
};
use crate::listener::{ListenAddress, ListenerSettings, Network, SOCKET_MODE, TrustedProxies};
use crate::section::section;
use crate::values::{AccessTarget, Count, ErrorTarget, ForwardedField, Includes, UserName};

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
        /// `listen = [":80", { address = "127.0.0.1:8443", tls = true }]`. Port 443 is for TLS. An
        /// address that cannot be had at the start is tried again while the others are served.
        listen ("listen"): Vec<ListenerSettings> as Listeners =
            vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)).into()],
            "A server that nobody has configured yet should not be reachable from other machines.";
        /// Further files with sites, as `["sites/*.toml"]`: `*` stands for any characters of a
        /// name, `?` for one. Paths start at the folder of the file. An included file has
        /// `[[site]]` tables and perhaps `include`; its own relative paths start at its folder. The
        /// sites of this file come first, then those of the others in the order of their names. A
        /// pattern with `*` or `?` may match no file.
        include ("include"): Includes as Include = Includes::default(),
            "One file holds a server with a few sites.";
        /// Event-loop threads of the front.
        threads ("threads"): Count as AutoCount = Count::Auto,
            "`auto` is one per processor. An event loop never waits, so more threads would only \
             take turns. Measured with a connection for each request on two processors, seven \
             rounds: 8 threads accept 0.91 times as many per second as 2, and take 1.19 times the \
             processor time. A connection wakes one thread.";
        /// The user that the front runs as when the server is started as root; ignored otherwise.
        /// No pool may have this user, because a script could then stop the front.
        user ("user"): Option<UserName> as Optional<User> = None,
            "Unset is the system user `howdah`, which `make install` creates; where it does not \
             exist, a user number that nothing else uses.";
        /// The group that the front runs as when the server is started as root; ignored otherwise.
        group ("group"): Option<String> as Optional<Text> = None,
            "Unset is the primary group of `user`; without `user` it is `www-data`, so that the \
             front can read the files that Debian's sites let that group read.";
        /// Whether the front confines itself after its start: Landlock and seccomp leave it the
        /// system calls that it makes, no program to execute, no file to write but temporary ones
        /// and its logs, and no connections but to the sites' `upstreams`. Measures that the kernel
        /// does not know are left out, with a notice in the log. See [security.md](security.md).
        sandbox ("sandbox"): bool as Flag = true,
            "The front reads what strangers send, and needs little of the system for it.";
        /// Whether each PHP pool gets a control group of the kernel. Then a pool's end ends every
        /// process that its scripts have started, and `memory`, `pids` and `cpu_weight` can limit a
        /// pool. Where the system does not permit control groups, the supervisor finds such
        /// processes by their ancestry. A service of systemd needs `Delegate=yes` in its unit.
        cgroups ("cgroups"): bool as Flag = true,
            "The kernel's own list of a pool's processes is one that no process can leave.";
        /// The socket through which `howdah status`, `reload` and `stop` reach the server.
        control ("control"): Option<PathBuf> as Optional<FilePath> = None,
            "Unset is `/run/howdah.sock` as root, else `howdah.sock` in `$XDG_RUNTIME_DIR`, else \
             no socket.";
        /// The group whose members may ask for the server's state at the control socket, with
        /// `howdah status` and over HTTP. They can neither reload nor stop the server.
        control_group ("control_group"): Option<String> as Optional<Text> = None,
            "Unset is nobody but root and the user that runs the server: the state has the \
             visitors' URLs.";
        /// The address for monitors: `/metrics` (OpenMetrics, and Prometheus' text format),
        /// `/status` (JSON), `/healthz`, `/readyz`, and a page for people at `/`.
        /// `"127.0.0.1:9180"`, or `"unix:/run/howdah/admin.sock"`. Everything there is read-only,
        /// and shows URLs of all sites. The socket is for root, the user that runs the server, and
        /// the members of `control_group`. Over TCP, a request that names a host must name an IP
        /// address, `localhost` or one of `admin_hosts`.
        admin ("admin"): Vec<ListenAddress> as AdminAddress = Vec::new(),
            "Everyone who can reach it sees which URLs are being asked for.";
        /// Host names under which monitors reach `admin`, beside `localhost` and IP addresses.
        admin_hosts ("admin_hosts"): Vec<String> as List<PlainName> = Vec::new(),
            "A page of another site could otherwise reach `admin` through a visitor's browser, by \
             a name of its own.";
        /// The time that a reload, or a new release behind a link, is on probation. If a site
        /// answers with server errors (5xx) meanwhile, more than `probation_errors` of at least ten
        /// responses, and has not done so before, the former configuration or release serves again,
        /// with the former php.ini where `standby` is on. The files stay as they are. `howdah
        /// reload` waits for the end of a probation of at most 30 seconds, and fails if the reload
        /// was undone. `"0s"` is none: a reload then does what it is told, whatever sites answer.
        probation ("probation"): Option<Duration> as Optional<TimeSpanOrZero> =
            Some(Duration::from_secs(5)),
            "Most mistakes show in the first requests. A longer time would keep zygotes of the \
             former generation in memory, and `howdah reload` waiting.";
        /// Percent of a site's responses that may be server errors during `probation`: of all of
        /// them, and of those that scripts and upstreams make. Each client counts once, however
        /// many requests it sends: the percentage is the average of the clients' percentages. See
        /// [pools.md](pools.md#reloads-on-probation).
        probation_errors ("probation_errors"): u64 as Within<0, 99> = 50,
            "Some errors are usual. A configuration that is wrong fails most requests of a site.";
        /// A file that holds the supervisor's process id while the server runs.
        pid_file ("pid_file"): Option<PathBuf> as Optional<FilePath> = None,
            "Unset is no file: service managers follow the process itself.";
        /// Whether a request for a host that no site lists is refused with 421. Otherwise the first
        /// site answers it.
        strict_hosts ("strict_hosts"): bool as Flag = false,
            "Apache's way: the first virtual host answers. A new name or a health check by address \
             needs no setting.";
        /// Proxies that speak for their clients: IP addresses, networks, and `"unix"` for every
        /// peer on a Unix socket. From these peers alone, fields such as X-Forwarded-For are
        /// believed: scripts, rules, logs and limits then see the client's address, scheme, host
        /// and port instead of the proxy's. See [behind-a-proxy.md](behind-a-proxy.md).
        trusted_proxies ("trusted_proxies"): TrustedProxies as Proxies = TrustedProxies::default(),
            "Anybody can send these fields: without a proxy that sets them they are a client's \
             claim.";
        /// The fields in which trusted proxies are believed: those of the X-Forwarded family, or
        /// `Forwarded` (RFC 7239) alone. Name only fields that the proxies set or remove: what a
        /// proxy passes on unchanged is its client's claim.
        forwarded_fields ("forwarded_fields"): Vec<ForwardedField> as List<ForwardedName> = vec![
            ForwardedField::For, ForwardedField::Proto, ForwardedField::Host, ForwardedField::Port,
        ],
            "Nearly all proxies send these. Forwarded is not read beside them: few proxies set or \
             remove both.";
        /// A field in which trusted proxies give the client's address, in place of the address in
        /// X-Forwarded-For or Forwarded: `"CF-Connecting-IP"`, `"X-Real-IP"`.
        client_address_header ("client_address_header"): Option<String> as Optional<AddressField> = None,
            "Unset is the address of `forwarded_fields`.";
        /// The file with the media types of file name extensions, in the format of Debian's
        /// `/etc/mime.types` and of Apache's TypesConfig. Its types come before the built-in ones;
        /// `AddType` comes before both. Read at the start and at every reload. A missing file is no
        /// error.
        mime_types ("mime_types"): PathBuf as FilePath = PathBuf::from("/etc/mime.types"),
            "Apache on Debian has its types from there.";
        /// Whether PCRE2 translates the patterns of directives to machine code.
        pcre_jit ("pcre_jit"): bool as Flag = false,
            "Site owners write these patterns. Without it the front never makes memory executable; \
             costly patterns take up to eight times as long.";
        /// The folder for what the server keeps for itself: the local authority of `tls =
        /// "internal"`.
        state_dir ("state_dir"): Option<PathBuf> as Optional<FilePath> = None,
            "Unset is `/var/lib/howdah-server` as root, else `howdah` in `$XDG_STATE_HOME`, which \
             is `~/.local/state` if unset.";
        /// Limits on what a client may send, and on the time that it may take.
        limits ("limits"): ClientLimits as Table<ClientLimits> = ClientLimits::default(),
            "See `[limits]` below.";
        /// Limits of connections of HTTP/2.
        http2 ("http2"): Http2 as Table<Http2> = Http2::default(),
            "See `[http2]` below.";
        /// HTTP/3, and limits of its connections.
        http3 ("http3"): Http3 as Table<Http3> = Http3::default(),
            "See `[http3]` below.";
        /// The destination of logs.
        log ("log"): Log as Table<Log> = Log::default(),
            "See `[log]` below.";
        /// Certificates that the server orders by itself.
        acme ("acme"): Acme as Table<Acme> = Acme::default(),
            "See `[acme]` below.";
        /// The sites, one `[[site]]` each. There must be at least one.
        sites ("site"): Vec<SiteSettings> as SiteTables = Vec::new(),
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
        trusted ("trusted"): Option<TrustedProxies> as TrustedValue = None,
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

impl Config {
    /// The control socket's path: the one configured, or the usual place for who runs the server.
    /// `None` if nothing is configured and an ordinary user has no runtime folder.
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
    pub fn trusted_on<'c>(&'c self, listener: &'c ListenerSettings) -> &'c TrustedProxies {
        listener.trusted.as_ref().unwrap_or(&self.trusted_proxies)
    }

    /// Makes every relative path start at `folder`, except those of [sites](SiteSettings::anchor).
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
