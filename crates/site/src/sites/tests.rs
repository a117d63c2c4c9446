use super::*;
use howdah_config::SiteSettings as SiteConfig;

fn sites(hosts: &[&[&str]]) -> Sites {
    let pattern = |text: &&str| match text.strip_prefix('*') {
        Some("") => HostPattern::Default,
        Some(suffix) => HostPattern::Wildcard(suffix[1..].to_owned()),
        None => HostPattern::Exact((*text).to_owned()),
    };
    let sites = hosts.iter().map(|hosts| SiteConfig {
        name: hosts[0].to_owned(),
        hosts: hosts.iter().map(pattern).collect(),
        root: RootTemplate::Fixed("/srv".into()),
        ..SiteConfig::default()
    });
    Sites::compile(&Config {
        sites: sites.collect(),
        strict_hosts: true,
        ..Config::default()
    })
}

#[test]
fn the_best_match_wins() {
    let sites = sites(&[
        &["*"],
        &["example.org", "www.example.org"],
        &["*.example.org"],
        &["*.deep.example.org"],
        &["[::1]", "127.0.0.1"],
        &["*.org"],
    ]);
    let rows = [
        ("example.org", "example.org"),
        ("EXAMPLE.org", "example.org"),
        ("example.org.", "example.org"),
        ("example.org:8080", "example.org"),
        ("example.org.:8080", "example.org"),
        ("www.example.org", "example.org"),
        ("a.example.org", "*.example.org"),
        ("a.b.example.org", "*.example.org"),
        ("A.Example.Org:1", "*.example.org"),
        ("x.deep.example.org", "*.deep.example.org"),
        ("deep.example.org", "*.example.org"),
        ("other.org", "*.org"),
        ("[::1]", "[::1]"),
        ("[0:0::1]:80", "[::1]"),
        ("127.0.0.1:8080", "[::1]"),
        ("[::2]", "*"),
        (".example.org", "*.org"),
        ("org", "*"),
        ("", "*"),
        ("..", "*"),
        ("notexample.com", "*"),
    ];
    for (host, expected) in rows {
        assert_eq!(sites.find(host.as_bytes()).map(Site::name), Some(expected), "{host}");
    }
    let long = "a.".repeat(200) + "example.org";
    assert_eq!(sites.find(long.as_bytes()).map(Site::name), Some("*"));
}

#[test]
fn without_a_default_a_strange_host_finds_nothing() {
    let sites = sites(&[&["example.org"], &["*.example.net"]]);
    for host in ["", "example.com", "example.net", ".example.net", "[::1]", "[", "1.2.3.4"] {
        assert!(sites.find(host.as_bytes()).is_none(), "{host}");
    }
    assert_eq!(sites.find(b"a.example.net").map(Site::number), Some(1));
}

#[test]
fn roots_follow_the_host() {
    let rows = [
        (RootTemplate::Fixed("/srv/www".into()), "any_thing", Some("/srv/www")),
        (RootTemplate::Fixed("/srv/www//".into()), "", Some("/srv/www")),
        (RootTemplate::Fixed("/".into()), "", Some("/")),
        (per_host("/srv/", "/public"), "Example.ORG.:80", Some("/srv/example.org/public")),
        (per_host("/srv/", ""), "a.b", Some("/srv/a.b")),
        (per_host("/srv/", "/"), "a.b", Some("/srv/a.b")),
        (per_host("/srv/", "/public"), "..", None),
        (per_host("/srv/", "/public"), "", None),
        (per_host("/srv/", "/public"), "a/../b", None),
        (per_host("/srv/", "/public"), "a_b", None),
        (per_host("/srv/", "/public"), "[::1]", None),
    ];
    for (root, host, expected) in rows {
        let config = SiteConfig { root, ..SiteConfig::default() };
        let site = Site::new(0, &config);
        let found = site.root(host.as_bytes(), b"left over".to_vec());
        assert_eq!(found.as_ref().ok().and_then(|path| path.root().to_str()), expected, "{host}");
        if let Ok(path) = found {
            assert_eq!(
                (path.relative(), path.url_path(), path.file_name()),
                (&b""[..], &b"/"[..], &b""[..])
            );
        }
    }
}

fn per_host(before: &str, after: &str) -> RootTemplate {
    RootTemplate::PerHost {
        before: before.to_owned(),
        after: after.to_owned(),
    }
}

#[test]
fn sites_on_which_directives_mean_the_same_have_one_scope() {
    let text = "[[site]]\nhosts = \"a\"\nroot = \"/srv/a\"\n\
         [[site]]\nhosts = \"b\"\nroot = \"/srv/b\"\nhtaccess = false\n\
         [[site]]\nhosts = \"c\"\nroot = \"/srv/c\"\n\
         [[site]]\nhosts = \"d\"\nroot = \"/srv/d\"\nrules = \"DirectoryIndex a\"\n\
         [[site]]\nhosts = \"e\"\nroot = \"/srv/e\"\nhtaccess = false\n";
    let sites = Sites::compile(&Config::parse(text, "test.toml").unwrap());
    let scopes: Vec<u32> = sites.iter().map(Site::scope).collect();
    assert_eq!(scopes, [0, 1, 0, 2, 1]);
    for site in sites.iter() {
        let path = site.root(b"x", Vec::new()).unwrap();
        assert_eq!(path.scope(), site.scope());
    }
}

#[test]
fn sites_that_allow_other_directives_share_none() {
    let lines = [
        "rules = \"DirectoryIndex c\"",
        "",
        "allow_override = [\"FileInfo\"]",
        "allow_override = [\"Limit\"]",
        "allow_override = \"None\"",
        "allow_override = \"None\"\nallow_override_list = \"Redirect\"",
        "allow_override = \"None\"\nallow_override_list = \"Header\"",
        "modules = \"brotli\"",
        "rules = \"DirectoryIndex a\"",
        "rules = \"DirectoryIndex b\"",
    ];
    let text: String = (0..)
        .zip(lines)
        .map(|(number, line)| format!("[[site]]\nhosts = \"h{number}\"\nroot = \"/srv\"\n{line}\n"))
        .collect();
    let sites = Sites::compile(&Config::parse(&text, "test.toml").unwrap());
    let scopes: Vec<u32> = sites.iter().map(Site::scope).collect();
    assert_eq!(scopes, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    let reads: Vec<bool> = sites.iter().map(Site::reads_htaccess).collect();
    assert_eq!(reads, [true, true, true, true, false, true, true, true, true, true]);
}

#[test]
fn directives_are_compiled_as_their_site_says() {
    let text = "[[site]]\nname = \"a\"\nroot = \"/srv/a\"\nrules = \"DirectoryIndex x\"\n\
         charset = \"utf-8\"\nmodules = \"brotli\"\nallow_override_list = \"Redirect\"\n\
         upstreams = [\"http://127.0.0.1:3000\"]\n\
         [[site]]\nname = \"b\"\nhosts = \"b\"\nroot = \"/srv/b\"\ncharset = \"utf-8\"\n";
    let sites = Sites::compile(&Config::parse(text, "test.toml").unwrap());
    let [a, b] = [0, 1].map(|number| sites.iter().nth(number).unwrap());
    let (written, of_written) = a.written_rules(b"/srv/a/").unwrap();
    let (all, of_all) = a.rules(b"/srv/a/").unwrap();
    assert_eq!(written, "DirectoryIndex x");
    assert_eq!(all, "AddDefaultCharset utf-8\nDirectoryIndex x");
    assert_eq!((of_written.keys.len(), of_all.keys.len()), (0, 1));
    let of_file = a.htaccess_context(b"/srv/a/");
    assert_eq!(of_file.override_list, ["Redirect".into()]);
    for (context, file) in [
        (of_written, "rules of site a"),
        (of_all, "rules of site a"),
        (of_file, "/srv/a/.htaccess"),
    ] {
        assert_eq!((&*context.file, &*context.folder), (file, &b"/srv/a/"[..]));
        assert_eq!(context.modules, ["brotli".into()]);
        assert_eq!(context.upstreams, Some(vec!["http://127.0.0.1:3000".into()]));
    }
    assert_eq!(&*b.rules(b"/srv/b/").unwrap().1.file, "keys of site b");
    assert!(b.written_rules(b"/srv/b/").is_none());
}

#[test]
fn a_site_answers_on_its_own_listeners_only() {
    let text = "listen = [\"127.0.0.1:1\", \"127.0.0.1:2\", \"unix:/run/x\"]\n\
         [[site]]\nname = \"public\"\nhosts = [\"a\", \"*.a\"]\nroot = \"/srv\"\n\
         listen = [\"127.0.0.1:1\", \"unix:/run/x\"]\n\
         [[site]]\nname = \"admin\"\nhosts = \"a\"\nroot = \"/srv\"\nlisten = \"127.0.0.1:2\"\n\
         [[site]]\nname = \"both\"\nhosts = \"b\"\nroot = \"/srv\"\n";
    let rows = [
        (0, "a", "public"),
        (1, "a", "admin"),
        (2, "A:80", "public"),
        (1, "x.a", "admin"),
        (0, "b", "both"),
        (1, "b", "both"),
        (0, "elsewhere", "public"),
        (1, "elsewhere", "admin"),
    ];
    let sites = Sites::compile(&Config::parse(text, "/x.toml").unwrap());
    for (listener, host, expected) in rows {
        let found = sites.find_on(listener, host.as_bytes()).map(Site::name);
        assert_eq!(found, Some(expected), "{host} on {listener}");
    }
    let strict = format!("strict_hosts = true\n{text}");
    let sites = Sites::compile(&Config::parse(&strict, "/x.toml").unwrap());
    assert!(sites.find_on(1, b"x.a").is_none());
    assert_eq!(sites.find_anywhere(b"x.a").map(Site::name), Some("public"));
    assert!(sites.find_anywhere(b"elsewhere").is_none());
}

#[test]
fn a_file_in_another_coding_has_a_name_that_may_be_served() {
    let sites = Sites::compile(&Config {
        sites: vec![SiteConfig {
            refuse: vec!["secret.*".into(), ".ht*".into()],
            ..SiteConfig::default()
        }],
        ..Config::default()
    });
    let site = sites.iter().next().unwrap();
    let sibling = |relative: &str| {
        let mut path = site.root(b"x", Vec::new()).unwrap();
        path.push_suffix(relative.as_bytes());
        let found = site.sibling(&path, ContentCoding::Gzip);
        found.map(|found| String::from_utf8_lossy(found.relative()).into_owned())
    };
    assert_eq!(sibling("a/b.css").as_deref(), Some("a/b.css.gz"));
    assert_eq!(sibling("secret"), None);
    assert_eq!(sibling("a/.htaccess"), None);
    assert_eq!(sibling(&"x".repeat(4096)), None);
}

#[test]
fn roots_of_a_site() {
    let site = |root| SiteConfig { root, ..SiteConfig::default() };
    let fixed = site(RootTemplate::Fixed("/srv/a".into()));
    let sites = vec![fixed, site(per_host("/srv/", "/web"))];
    let sites = Sites::compile(&Config { sites, ..Config::default() });
    let rows = [
        ("/srv/a", [true, false]),
        ("/srv/a/web", [false, true]),
        ("/srv//web", [false, false]),
        ("/srv/a/b/web", [false, false]),
        ("/srv/web", [false, false]),
    ];
    for (root, expected) in rows {
        let found: Vec<bool> = sites.iter().map(|site| site.has_root(root.as_bytes())).collect();
        assert_eq!(found, expected, "{root}");
    }
    let roots: Vec<_> = sites.iter().map(|site| site.fixed_root()).collect();
    assert_eq!(roots, [Some(&b"/srv/a"[..]), None]);
}
