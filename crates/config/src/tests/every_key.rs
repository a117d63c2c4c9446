//! Keys that are written.

use super::*;

#[test]
fn every_key_reaches_its_field() {
    let config = parse(
        r#"
        listen = [
            "0.0.0.0:80", "[::1]:81", ":82",
            { address = "127.0.0.1:83", tls = true }, "127.0.0.1:443",
        ]
        threads = 3
        user = "web"
        group = "webs"
        sandbox = false
        cgroups = false
        control = "/run/c.sock"
        control_group = "watchers"
        admin = "127.0.0.1:9180"
        admin_hosts = ["monitor.example"]
        pid_file = "/run/p"
        state_dir = "/var/lib/s"

        [limits]
        connections = 10
        client_connections = 12
        client_requests = "7/m"
        client_burst = 3
        client_prefix_v4 = 24
        client_prefix_v6 = 48
        body_rate = "1K"
        send_rate = "2K"
        request_line = "4K"
        field_line = 5000
        fields_total = "32K"
        field_count = 50
        body = 0
        head_timeout = "1s"
        handshake_timeout = "14s"
        body_timeout = "2s"
        send_timeout = "3s"
        keep_alive_timeout = "4s"
        keep_alive_requests = 5
        htaccess_size = "3MB"
        htaccess_work = 7_000_000
        drain_timeout = "6m"
        spill_memory = "7K"
        client_memory = "3M"
        spill_file = "8M"
        spill_total = "9M"

        [http2]
        enabled = false
        streams = 11
        header_list = "8K"
        stream_window = "32K"
        connection_window = "1M"
        resets = 12
        pings = 13
        settings = 14
        empty_frames = 15
        continuations = 16
        window_updates = 17
        other_frames = 18

        [http3]
        enabled = false
        streams = 21
        header_list = "16K"
        stream_window = "64K"
        connection_window = "2M"
        send_buffer = "3M"
        resets = 22
        control_bytes = "23K"
        retry_from = 24
        handshakes = 25

        [log]
        access = "off"
        format = "json"
        error = "/var/log/e"
        syslog_socket = "/s/syslog"
        journald_socket = "/s/journald"
        level = "warning"

        [[site]]
        name = "one"
        hosts = ["Example.org.", "*.example.org", "*"]
        root = "/srv/{host}/public"
        index = ["a.html"]
        try = ["$uri", "$uri/", "$uri.html", "/index.php", "=404"]
        symlinks = "inside"
        encoded_slashes = "keep"
        dot_names = [".a", ".b*"]
        refuse = ["x"]
        refuse_backups = false
        modules = "brotli"
        htaccess = false
        allow_override = ["FileInfo", "Options=Indexes"]
        allow_override_list = "Redirect"
        upstreams = ["http://127.0.0.1:3000/", "unix:/run/app.sock|http://app"]
        upstream_connect_timeout = "3s"
        upstream_resolve = "18s"
        upstream_ca_file = "/c/up.pem"
        upstream_tls_name = "up.example"
        upstream_timeout = "13s"
        upstream_kept = 3
        upstream_kept_timeout = "15s"
        upstream_retry = "16s"
        tunnels = 12
        client_tunnels = 2
        tunnel_timeout = "14s"
        error_pages = { 404 = "/404.html", 503 = "/busy.php" }
        charset = "utf-8"
        fields = [{ match = "*.css", type = ["text/*"], set = { X-A = "b" }, unset = "X-C" }]
        server_timing = true
        listing = true
        precompressed = ["zstd", "br", "gzip"]
        compress = "gzip"
        compress_scripts = true
        sendfile = true
        sendfile_roots = ["/srv/files", "more"]
        accel = { "/protected/" = "/srv/files" }
        spill_total = "10M"
        access_log = "syslog:local3:shop"
        access_log_format = "json"
        client_requests = "8/m"
        client_burst = 4
        rules = """
        DirectoryIndex x.html
        """

        [site.tls]
        cert = ["/c/a.pem", "b.pem"]
        key = ["/c/a.key", "b.key"]
        min_version = "1.3"
        ciphers = "modern"
        redirect = false
        hsts = "max-age=1; preload"
        client_ca = "/c/ca.pem"
        client_verify = "optional"
        early_data = false

        [site.php]
        program = "/opt/howdah-php"
        ini_file = "/etc/php.ini"
        mode = "dynamic"
        workers = 8
        start_workers = 3
        min_spare_workers = 2
        max_spare_workers = 4
        idle_timeout = "13s"
        queue = 9
        queue_timeout = "10s"
        status_path = "/fpm-status"
        ping_path = "/fpm-ping"
        ping_response = "here"
        status_allow = ["10.0.0.0/8"]
        request_timeout = "11s"
        request_terminate_timeout = "2h"
        slow_after = "1500ms"
        slow_trace_depth = 40
        max_requests = 12
        max_memory = "48M"
        supplementary_groups = ["g2"]
        umask = "0002"
        chdir = "/srv/app"
        nice = -3
        pass_env = ["TZ"]
        standby = false
        opcache_warmup = false
        memory = "1G"
        pids = 200
        cpu_weight = 50
        user = "u"
        group = "g"
        ini = { z = "1", a = 2, on = true, off = false, "x.y" = "s", n.m = -1 }
        admin_ini = { hex = 0x10 }
        env = { B = "1", A = "2" }
        state_dir = "/var/lib/one"
        pcntl = true
        sapi = "fpm-fcgi"
        extensions = [".php"]
        disable_functions = ["exec", "system"]
        sandbox = "strict"
        readable = "/srv/shared"
        writable = ["/srv/data"]
        connect = ["127.0.0.1:3306", "*:443", "unix:/run/x.sock", "udp"]
        no_new_privs = false
        private_tmp = false
        private_ipc = true
        shm_size = "1M"
        hide_processes = false
        rlimits = { nproc = 100, core = "1M", nofile = 200, fsize = "2G", as = "3G", cpu = "4m" }

        [[site.php.lane]]
        name = "search"
        path = "/search*"
        method = "GET"
        parameter = "s"
        cookie = "a=b*"
        user_agent = "*bot*"
        address = "192.0.2.0/24"
        workers = 2
        queue = 7
        queue_timeout = "17s"
        weight = 3
        "#,
    );
    let addresses: Vec<String> =
        config.listen.iter().map(|listener| listener.address.to_string()).collect();
    assert_eq!(
        addresses,
        ["0.0.0.0:80", "[::1]:81", "0.0.0.0:82", "[::]:82", "127.0.0.1:83", "127.0.0.1:443"]
    );
    let encrypted: Vec<bool> = config.listen.iter().map(|listener| listener.tls).collect();
    assert_eq!(encrypted, [false, false, false, false, true, true]);
    assert_eq!(config.state_dir, Some(PathBuf::from("/var/lib/s")));
    assert_eq!(config.threads, Count::Exactly(3));
    assert!(!config.cgroups);
    assert_eq!((config.user.as_deref(), config.group.as_deref()), (Some("web"), Some("webs")));
    assert!(!config.sandbox);
    assert_eq!(config.control, Some(PathBuf::from("/run/c.sock")));
    assert_eq!(config.control_group.as_deref(), Some("watchers"));
    let admin = ListenAddress::Tcp(SocketAddr::from(([127, 0, 0, 1], 9180)));
    assert_eq!((config.admin, config.admin_hosts), (vec![admin], vec!["monitor.example".into()]));
    assert_eq!(config.pid_file, Some(PathBuf::from("/run/p")));
    let seconds = Duration::from_secs;
    let limits = ClientLimits {
        connections: 10,
        client_connections: Count::Exactly(12),
        client_requests: Rate::new(7, 60),
        client_burst: 3,
        client_prefix_v4: 24,
        client_prefix_v6: 48,
        body_rate: 1 << 10,
        send_rate: 2 << 10,
        request_line: 4096,
        field_line: 5000,
        fields_total: 32 << 10,
        field_count: 50,
        body: 0,
        head_timeout: seconds(1),
        handshake_timeout: seconds(14),
        body_timeout: seconds(2),
        send_timeout: seconds(3),
        keep_alive_timeout: seconds(4),
        keep_alive_requests: 5,
        htaccess_size: 3 << 20,
        htaccess_work: 7_000_000,
        drain_timeout: seconds(360),
        spill_memory: 7 << 10,
        client_memory: 3 << 20,
        spill_file: 8 << 20,
        spill_total: Some(9 << 20),
    };
    assert_eq!(config.limits, limits);
    let http2 = Http2 {
        enabled: false,
        streams: 11,
        header_list: 8 << 10,
        stream_window: 32 << 10,
        connection_window: 1 << 20,
        resets: 12,
        pings: 13,
        settings: 14,
        empty_frames: 15,
        continuations: 16,
        window_updates: 17,
        other_frames: 18,
    };
    assert_eq!(config.http2, http2);
    let http3 = Http3 {
        enabled: false,
        streams: 21,
        header_list: 16 << 10,
        stream_window: 64 << 10,
        connection_window: 2 << 20,
        send_buffer: 3 << 20,
        resets: 22,
        control_bytes: 23 << 10,
        retry_from: 24,
        handshakes: 25,
    };
    assert_eq!(config.http3, http3);
    let log = Log {
        access: AccessTarget::Off,
        format: AccessFormat::Json,
        error: ErrorTarget::File("/var/log/e".into()),
        syslog_socket: "/s/syslog".into(),
        journald_socket: "/s/journald".into(),
        level: LogLevel::Warning,
    };
    assert_eq!(config.log, log);
    let pairs = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
        pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    };
    let php = Php {
        version: None,
        program: Some("/opt/howdah-php".into()),
        ini_file: Some("/etc/php.ini".into()),
        mode: PoolMode::Dynamic,
        workers: Count::Exactly(8),
        start_workers: Some(3),
        min_spare_workers: Some(2),
        max_spare_workers: Some(4),
        idle_timeout: Some(seconds(13)),
        memory_share: 80,
        queue: 9,
        queue_timeout: seconds(10),
        status_path: Some("/fpm-status".into()),
        ping_path: Some("/fpm-ping".into()),
        ping_response: "here".into(),
        status_allow: TrustedProxies {
            networks: vec![Network::parse("10.0.0.0/8").unwrap()],
            ..TrustedProxies::default()
        },
        request_timeout: seconds(11),
        request_terminate_timeout: Some(seconds(7200)),
        slow_after: Some(Duration::from_millis(1500)),
        slow_trace_depth: 40,
        max_requests: 12,
        max_memory: Some(48 << 20),
        supplementary_groups: vec!["g2".into()],
        umask: 0o002,
        chdir: Some("/srv/app".into()),
        // Not beside `no_new_privs = false`: see `a_pool_within_a_folder`.
        chroot: None,
        nice: Some(-3),
        pass_env: vec!["TZ".into()],
        standby: false,
        opcache_warmup: false,
        memory: Some(1 << 30),
        pids: Some(200),
        cpu_weight: Some(50),
        user: Some("u".into()),
        group: Some("g".into()),
        ini: pairs(&[
            ("z", "1"),
            ("a", "2"),
            ("on", "1"),
            ("off", "0"),
            ("x.y", "s"),
            ("n.m", "-1"),
        ]),
        admin_ini: pairs(&[("hex", "16")]),
        env: pairs(&[("B", "1"), ("A", "2")]),
        state_dir: Some("/var/lib/one".into()),
        pcntl: true,
        sapi: Sapi::FpmFcgi,
        extensions: vec![".php".into()],
        disable_functions: vec!["exec".into(), "system".into()],
        sandbox: Sandbox::Strict,
        readable: vec!["/srv/shared".into()],
        writable: vec!["/srv/data".into()],
        connect: Some(vec![
            Destination::Tcp(SocketAddr::from(([127, 0, 0, 1], 3306))),
            Destination::Port(443),
            Destination::Unix("/run/x.sock".into()),
            Destination::Udp,
        ]),
        no_new_privs: false,
        private_tmp: false,
        private_ipc: true,
        shm_size: 1 << 20,
        hide_processes: false,
        lanes: vec![Lane {
            name: "search".into(),
            path: vec!["/search*".into()],
            method: vec!["GET".into()],
            parameter: vec!["s".into()],
            cookie: vec!["a=b*".into()],
            user_agent: vec!["*bot*".into()],
            address: TrustedProxies {
                networks: vec![Network::parse("192.0.2.0/24").unwrap()],
                ..TrustedProxies::default()
            },
            workers: Some(2),
            queue: Some(7),
            queue_timeout: Some(seconds(17)),
            weight: 3,
        }],
        rlimits: ResourceLimits {
            nproc: Some(100),
            core: 1 << 20,
            nofile: Some(200),
            fsize: Some(2 << 30),
            address_space: Some(3 << 30),
            cpu: Some(seconds(240)),
        },
    };
    let site = SiteSettings {
        name: "one".into(),
        listen: Vec::new(),
        tls: SiteTls {
            source: CertificateSource::Files,
            cert: vec!["/c/a.pem".into(), "b.pem".into()],
            key: vec!["/c/a.key".into(), "b.key".into()],
            min_version: TlsVersion::Tls13,
            ciphers: CipherPolicy::Modern,
            redirect: false,
            hsts: Some("max-age=1; preload".into()),
            client_ca: Some("/c/ca.pem".into()),
            client_verify: ClientVerify::Optional,
            early_data: false,
        },
        hosts: vec![
            HostPattern::Exact("example.org".into()),
            HostPattern::Wildcard("example.org".into()),
            HostPattern::Default,
        ],
        root: RootTemplate::PerHost {
            before: "/srv/".into(),
            after: "/public".into(),
        },
        index: vec!["a.html".into()],
        try_files: vec![
            TryStep::Uri,
            TryStep::UriDirectory,
            TryStep::UriSuffix(".html".into()),
            TryStep::Path("/index.php".into()),
            TryStep::Status(404),
        ],
        symlinks: Symlinks::Inside,
        encoded_slashes: EncodedSlashes::Keep,
        dot_names: vec![".a".into(), ".b*".into()],
        refuse: vec!["x".into()],
        refuse_backups: false,
        modules: vec!["brotli".into()],
        htaccess: false,
        allow_override: AllowOverride {
            classes: vec![OverrideClass::FileInfo, OverrideClass::Options],
            options: Some(vec!["Indexes".into()]),
        },
        allow_override_list: vec!["Redirect".into()],
        rules: Some("        DirectoryIndex x.html\n        ".into()),
        upstreams: vec![
            Upstream {
                scheme: UpstreamScheme::Http,
                socket: None,
                host: "127.0.0.1".into(),
                port: 3000,
            },
            Upstream {
                scheme: UpstreamScheme::Http,
                socket: Some("/run/app.sock".into()),
                host: "app".into(),
                port: 80,
            },
        ],
        upstream_connect_timeout: seconds(3),
        upstream_resolve: seconds(18),
        upstream_ca_file: Some("/c/up.pem".into()),
        upstream_tls_name: Some("up.example".into()),
        upstream_timeout: seconds(13),
        upstream_kept: 3,
        upstream_kept_timeout: seconds(15),
        upstream_retry: seconds(16),
        tunnels: 12,
        client_tunnels: 2,
        tunnel_timeout: seconds(14),
        error_pages: vec![(404, "/404.html".into()), (503, "/busy.php".into())],
        charset: Some("utf-8".into()),
        fields: vec![FieldRule {
            names: vec!["*.css".into()],
            types: vec!["text/*".into()],
            set: pairs(&[("X-A", "b")]),
            unset: vec!["X-C".into()],
        }],
        listing: true,
        server_timing: true,
        precompressed: vec![ContentCoding::Zstandard, ContentCoding::Brotli, ContentCoding::Gzip],
        compress: vec![ContentCoding::Gzip],
        compress_scripts: true,
        sendfile: true,
        sendfile_roots: vec!["/srv/files".into(), "more".into()],
        accel: vec![("/protected/".into(), "/srv/files".into())],
        spill_total: Some(10 << 20),
        client_requests: Some(Rate::new(8, 60)),
        client_burst: Some(4),
        access_log: Some(AccessTarget::System(SystemLog {
            daemon: LogDaemon::Syslog,
            facility: 19,
            tag: "shop".into(),
        })),
        access_log_format: Some(AccessFormat::Json),
        php: Some(php),
    };
    assert_eq!(config.sites, [site]);
}
