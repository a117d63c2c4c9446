mod mistakes;

use super::*;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

fn parse(text: &str) -> Config {
    Config::parse(text, "howdah.toml").unwrap_or_else(|errors| panic!("{errors}\nin\n{text}"))
}

#[test]
fn every_key_reaches_its_field() {
    let config = parse(
        r#"
        listen = ["0.0.0.0:80", "[::1]:81", ":82"]
        threads = 3
        user = "web"
        group = "webs"
        control = "/run/c.sock"
        pid_file = "/run/p"

        [limits]
        connections = 10
        request_line = "4K"
        field_line = 5000
        fields_total = "32K"
        field_count = 50
        body = 0
        head_timeout = "1s"
        body_timeout = "2s"
        send_timeout = "3s"
        keep_alive_timeout = "4s"
        keep_alive_requests = 5
        drain_timeout = "6m"
        spill_memory = "7K"
        spill_file = "8M"

        [log]
        access = "off"
        format = "json"
        error = "/var/log/e"
        level = "warning"

        [[site]]
        name = "one"
        hosts = ["Example.org.", "*.example.org", "*"]
        root = "/srv/{host}/public"
        index = ["a.html"]
        try = ["$uri", "$uri/", "$uri.html", "/index.php", "=404"]
        symlinks = "inside"
        dot_names = [".a", ".b*"]
        refuse = ["x"]
        htaccess = false
        allow_override = ["FileInfo", "Options=Indexes"]
        allow_override_list = "Redirect"
        upstreams = ["http://127.0.0.1:3000/", "unix:/run/app.sock|http://app"]
        upstream_timeout = "13s"
        rules = """
        DirectoryIndex x.html
        """

        [site.php]
        program = "/opt/howdah-php"
        ini_file = "/etc/php.ini"
        workers = 8
        queue = 9
        queue_timeout = "10s"
        request_timeout = "11s"
        max_requests = 12
        user = "u"
        group = "g"
        ini = { z = "1", a = 2, on = true, off = false, "x.y" = "s", n.m = -1 }
        admin_ini = { hex = 0x10 }
        env = { B = "1", A = "2" }
        state_dir = "/var/lib/one"
        extensions = [".php"]
        "#,
    );
    let addresses: Vec<String> = config.listen.iter().map(SocketAddr::to_string).collect();
    assert_eq!(addresses, ["0.0.0.0:80", "[::1]:81", "0.0.0.0:82", "[::]:82"]);
    assert_eq!(config.threads, Count::Exactly(3));
    assert_eq!((config.user.as_deref(), config.group.as_deref()), (Some("web"), Some("webs")));
    assert_eq!(config.control, Some(PathBuf::from("/run/c.sock")));
    assert_eq!(config.pid_file, Some(PathBuf::from("/run/p")));
    let seconds = Duration::from_secs;
    let limits = Limits {
        connections: 10,
        request_line: 4096,
        field_line: 5000,
        fields_total: 32 << 10,
        field_count: 50,
        body: 0,
        head_timeout: seconds(1),
        body_timeout: seconds(2),
        send_timeout: seconds(3),
        keep_alive_timeout: seconds(4),
        keep_alive_requests: 5,
        drain_timeout: seconds(360),
        spill_memory: 7 << 10,
        spill_file: 8 << 20,
    };
    assert_eq!(config.limits, limits);
    let log = Log {
        access: AccessTarget::Off,
        format: AccessFormat::Json,
        error: ErrorTarget::File("/var/log/e".into()),
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
        program: Some("/opt/howdah-php".into()),
        ini_file: Some("/etc/php.ini".into()),
        workers: Count::Exactly(8),
        queue: 9,
        queue_timeout: seconds(10),
        request_timeout: seconds(11),
        max_requests: 12,
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
        extensions: vec![".php".into()],
    };
    let site = Site {
        name: "one".into(),
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
        dot_names: vec![".a".into(), ".b*".into()],
        refuse: vec!["x".into()],
        htaccess: false,
        allow_override: AllowOverride {
            classes: vec![OverrideClass::FileInfo, OverrideClass::Options],
            options: Some(vec!["Indexes".into()]),
        },
        allow_override_list: vec!["Redirect".into()],
        rules: Some("        DirectoryIndex x.html\n        ".into()),
        upstreams: vec![
            Upstream {
                socket: None,
                host: "127.0.0.1".into(),
                port: 3000,
            },
            Upstream {
                socket: Some("/run/app.sock".into()),
                host: "app".into(),
                port: 80,
            },
        ],
        upstream_timeout: seconds(13),
        php: Some(php),
    };
    assert_eq!(config.sites, [site]);
}

#[test]
fn what_is_left_out_has_its_default() {
    let config = parse("[[site]]\nroot = \"/srv\"");
    let expected = Config {
        sites: vec![Site {
            name: "default".into(),
            root: RootTemplate::Fixed("/srv".into()),
            ..Site::default()
        }],
        ..Config::default()
    };
    assert_eq!(config, expected);
    assert_eq!(parse("[[site]]\nroot = \"/srv\"\nphp = true").sites[0].php, Some(Php::default()));
    assert_eq!(parse("[[site]]\nroot = \"/srv\"\n[site.php]").sites[0].php, Some(Php::default()));
    assert_eq!(parse("[[site]]\nroot = \"/srv\"\nphp = false").sites[0].php, None);
}

#[test]
fn defaults_written_out_mean_the_same() {
    let mut text = String::new();
    for chapter in reference::chapters() {
        if !chapter.heading.is_empty() {
            text += &format!("{}\n", chapter.heading);
        }
        for key in chapter.keys {
            let written =
                key.default.starts_with(['"', '[', '{']) || key.default.parse::<u64>().is_ok();
            match key.name {
                "root" => text += "root = \"/srv\"\n",
                name if written => text += &format!("{name} = {}\n", key.default),
                _ => {}
            }
        }
    }
    assert_eq!(parse(&text), parse("[[site]]\nroot = \"/srv\""), "{text}");
}

#[test]
fn sites_are_called_by_their_first_host() {
    let rows = [
        ("\"example.org\"", "example.org"),
        ("[\"*.example.org\", \"x\"]", "example.org"),
        ("\"*\"", "default"),
        ("\"[::1]\"", "--1"),
    ];
    for (hosts, name) in rows {
        let config = parse(&format!("[[site]]\nroot = \"/srv\"\nhosts = {hosts}"));
        assert_eq!(config.sites[0].name, name);
    }
}

#[test]
fn relative_paths_start_at_the_folder_of_the_file() {
    let text = "control = \"c\"\n[log]\naccess = \"a\"\nerror = \"e\"\n[[site]]\nroot = \"public\"\n\
                [site.php]\nini_file = \"php.ini\"\n[[site]]\nhosts = [\"a\", \"b\"]\nroot = \"www/{host}\"";
    let config = Config::parse(text, "/etc/howdah/howdah.toml").unwrap();
    assert_eq!(config.control, Some("/etc/howdah/c".into()));
    assert_eq!(config.log.access, AccessTarget::File("/etc/howdah/a".into()));
    assert_eq!(config.log.error, ErrorTarget::File("/etc/howdah/e".into()));
    assert_eq!(config.sites[0].root, RootTemplate::Fixed("/etc/howdah/public".into()));
    assert_eq!(config.sites[0].php.as_ref().unwrap().ini_file, Some("/etc/howdah/php.ini".into()));
    assert_eq!(config.sites[1].root.expand("a"), Path::new("/etc/howdah/www/a"));
    assert_eq!(parse("[[site]]\nroot = \"{host}\"").sites[0].root.expand("a"), Path::new("a"));
}

#[test]
fn an_unreadable_file_is_named() {
    let missing = Config::load(Path::new("/nonexistent/howdah.toml")).unwrap_err().to_string();
    assert!(missing.starts_with("/nonexistent/howdah.toml: cannot be read: "), "{missing}");
}

#[test]
fn every_example_is_good() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples");
    let mut seen = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            Config::load(&path).unwrap_or_else(|errors| panic!("{errors}"));
            seen += 1;
        }
    }
    assert!(seen >= 4);
}

#[test]
fn the_example_in_the_manual_is_good() {
    let manual = reference::markdown();
    let block = manual
        .split("```toml\n")
        .nth(1)
        .and_then(|rest| rest.split("```").next())
        .unwrap();
    assert_eq!(parse(block).sites.len(), 1);
}

#[test]
fn a_folder_is_served_as_the_only_site() {
    let config = Config::for_directory(Path::new("/srv/{host}"), DirectoryOptions::default());
    assert_eq!(config.listen, ["127.0.0.1:8080".parse().unwrap()]);
    assert_eq!(config.sites.len(), 1);
    assert_eq!(config.sites[0].hosts, [HostPattern::Default]);
    assert_eq!(config.sites[0].root, RootTemplate::Fixed("/srv/{host}".into()));
    assert_eq!(config.sites[0].name, "default");
    assert!(config.sites[0].php.is_some());
    let options = DirectoryOptions {
        listen: vec!["[::1]:0".parse().unwrap()],
        threads: Some(Count::Exactly(2)),
        workers: Some(Count::Exactly(3)),
        access_log: Some(AccessTarget::Off),
        php: true,
        htaccess: false,
    };
    let config = Config::for_directory(Path::new("/srv"), options);
    assert_eq!(config.listen, ["[::1]:0".parse().unwrap()]);
    assert_eq!((config.threads, config.log.access), (Count::Exactly(2), AccessTarget::Off));
    assert_eq!(config.sites[0].php.as_ref().unwrap().worker_count(99), 3);
    assert!(!config.sites[0].htaccess);
    let options = DirectoryOptions {
        php: false,
        ..DirectoryOptions::default()
    };
    assert_eq!(Config::for_directory(Path::new("/srv"), options).sites[0].php, None);
}

#[test]
fn usual_places() {
    let config = parse("[[site]]\nroot = \"/srv\"\nname = \"blog\"");
    let socket =
        |as_root, runtime: Option<&str>| config.control_path(as_root, runtime.map(Path::new));
    assert_eq!(socket(true, None), Some("/run/howdah.sock".into()));
    assert_eq!(socket(false, Some("/run/user/7")), Some("/run/user/7/howdah.sock".into()));
    assert_eq!(socket(false, None), None);
    let site = &config.sites[0];
    assert_eq!(site.state_dir(true, 0, Path::new("/tmp")), Path::new("/var/lib/howdah/blog"));
    assert_eq!(site.state_dir(false, 7, Path::new("/tmp")), Path::new("/tmp/howdah-7/blog"));
    assert_eq!(Php::default().worker_count(2), 8);
}
