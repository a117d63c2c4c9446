//! Sites, their listeners and their paths.

use super::*;

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
    let text = "control = \"c\"\n[log]\naccess = \"a\"\nerror = \"e\"\n[[site]]\n\
        root = \"public\"\n\
                [site.php]\nini_file = \"php.ini\"\nchdir = \"app\"\n\
                [[site]]\nhosts = [\"a\", \"b\"]\n\
                root = \"www/{host}\"";
    let config = Config::parse(text, "/etc/howdah/howdah.toml").unwrap();
    assert_eq!(config.control, Some("/etc/howdah/c".into()));
    assert_eq!(config.log.access, AccessTarget::File("/etc/howdah/a".into()));
    assert_eq!(config.log.error, ErrorTarget::File("/etc/howdah/e".into()));
    assert_eq!(config.sites[0].root, RootTemplate::Fixed("/etc/howdah/public".into()));
    let php = config.sites[0].php.as_ref().unwrap();
    assert_eq!(php.ini_file, Some("/etc/howdah/php.ini".into()));
    assert_eq!(php.chdir, Some("/etc/howdah/app".into()));
    assert_eq!(config.sites[1].root.expand("a"), Path::new("/etc/howdah/www/a"));
    assert_eq!(parse("[[site]]\nroot = \"{host}\"").sites[0].root.expand("a"), Path::new("a"));
}

#[test]
fn a_folder_is_served_as_the_only_site() {
    let config = Config::for_directory(Path::new("/srv/{host}"), DirectoryOptions::default());
    let tcp = |text: &str| ListenerSettings::from(text.parse::<SocketAddr>().unwrap());
    assert_eq!(config.listen, [tcp("127.0.0.1:8080")]);
    assert_eq!(config.sites.len(), 1);
    assert_eq!(config.sites[0].hosts, [HostPattern::Default]);
    assert_eq!(config.sites[0].root, RootTemplate::Fixed("/srv/{host}".into()));
    assert_eq!(config.sites[0].name, "default");
    assert!(config.sites[0].php.is_some());
    let options = DirectoryOptions {
        listen: vec![tcp("[::1]:0")],
        threads: Some(Count::Exactly(2)),
        workers: Some(Count::Exactly(3)),
        access_log: Some(AccessTarget::Off),
        php: true,
        htaccess: false,
        tls_internal: true,
    };
    let config = Config::for_directory(Path::new("/srv"), options);
    assert_eq!(config.listen, [tcp("[::1]:0")]);
    assert_eq!((config.threads, config.log.access), (Count::Exactly(2), AccessTarget::Off));
    assert_eq!(config.sites[0].php.as_ref().unwrap().worker_count(99), 3);
    assert!(!config.sites[0].htaccess);
    assert!(config.sites[0].tls.is_on() && !config.sites[0].tls.redirect);
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

#[test]
fn a_pool_within_a_folder() {
    let config = Config::parse(
        "[[site]]\nname = \"shop\"\nroot = \"jail/app/{host}\"\n[site.php]\nchroot = \"jail\"\n\
         chdir = \"app\"\n",
        "/srv/howdah.toml",
    )
    .unwrap();
    let php = config.sites[0].php.as_ref().unwrap();
    assert_eq!(php.chroot, Some("/srv/jail".into()));
    assert_eq!(php.chdir, Some("/app".into()), "a path below `chroot`");
    let state = config.sites[0].state_dir(true, 0, Path::new("/tmp"));
    assert_eq!(state, Path::new("/srv/jail/var/lib/howdah/shop"));
}

#[test]
fn listeners_have_settings_of_their_own() {
    let text = r#"
        listen = [
            ":80",
            { address = "127.0.0.1:8443", trusted = true, proxy_protocol = true },
            { address = "unix:run/web.sock", mode = "0666", owner = "root", group = "adm" },
            { address = "127.0.0.1:8081", trusted = ["10.0.0.0/8"] },
            { address = "127.0.0.1:8082", trusted = false },
        ]
        trusted_proxies = ["127.0.0.1", "2001:db8::/32", "unix"]
        client_address_header = "CF-Connecting-IP"
        forwarded_fields = "x-forwarded-proto"
        [[site]]
        root = "/srv"
        [[site]]
        hosts = "admin.example"
        listen = ["127.0.0.1:8443", "unix:run/web.sock"]
        root = "/srv/admin"
    "#;
    let config = Config::parse(text, "/etc/howdah/howdah.toml").unwrap();
    let addresses: Vec<String> =
        config.listen.iter().map(|listener| listener.address.to_string()).collect();
    let socket = "unix:/etc/howdah/run/web.sock";
    let expected =
        ["0.0.0.0:80", "[::]:80", "127.0.0.1:8443", socket, "127.0.0.1:8081", "127.0.0.1:8082"];
    assert_eq!(addresses, expected);
    let proxied: Vec<bool> = config.listen.iter().map(|listener| listener.proxy_protocol).collect();
    assert_eq!(proxied, [false, false, true, false, false, false]);
    let trusts = |number: usize, peer: Option<[u8; 4]>| {
        config.trusted_on(&config.listen[number]).trusts(peer.map(Into::into))
    };
    let here = Some([127, 0, 0, 1]);
    assert!(trusts(0, here) && !trusts(0, Some([10, 0, 0, 1])));
    assert!(trusts(2, Some([192, 0, 2, 1])));
    assert!(trusts(3, None));
    assert!(trusts(4, Some([10, 9, 8, 7])) && !trusts(4, here) && !trusts(4, None));
    assert!(!trusts(5, here));
    let listener = &config.listen[3];
    assert_eq!(
        (listener.mode, listener.owner.as_deref(), listener.group.as_deref()),
        (0o666, Some("root"), Some("adm"))
    );
    assert_eq!(config.forwarded_fields, [ForwardedField::Proto]);
    assert_eq!(config.client_address_header.as_deref(), Some("CF-Connecting-IP"));
    let listens: Vec<String> = config.sites[1].listen.iter().map(ToString::to_string).collect();
    assert_eq!(listens, ["127.0.0.1:8443", socket]);
}

#[test]
fn the_same_host_may_be_another_site_on_another_listener() {
    let text = r#"
        listen = ["127.0.0.1:1", "127.0.0.1:2"]
        [[site]]
        name = "public"
        listen = "127.0.0.1:1"
        root = "/srv/public"
        [[site]]
        name = "admin"
        listen = "127.0.0.1:2"
        root = "/srv/admin"
    "#;
    assert_eq!(Config::parse(text, "x.toml").unwrap().sites.len(), 2);
    let both = text.replace("listen = \"127.0.0.1:2\"", "");
    let error = Config::parse(&both, "x.toml").unwrap_err().to_string();
    assert!(error.contains("two sites answer for every other host"), "{error}");
}
