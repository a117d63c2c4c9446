use crate::*;

pub(super) fn errors(text: &str) -> String {
    match Config::parse(text, "howdah.toml") {
        Ok(config) => panic!("accepted: {config:#?}\nfrom\n{text}"),
        Err(errors) => errors.to_string(),
    }
}

#[test]
fn a_mistake_is_shown_where_it_is() {
    let text = "listen = [\":80\"]\n\n[[site]]\nroot = \"/srv\"\n\n[site.php]\n\
        \trequest_timout = \"60s\"\n";
    assert_eq!(
        errors(text),
        "howdah.toml:7:2: unknown key `request_timout` in [site.php]\n \
         7 | \trequest_timout = \"60s\"\n   \
           | \t^^^^^^^^^^^^^^\n   \
         help: did you mean `request_timeout`?"
    );
}

#[test]
fn all_mistakes_are_reported_at_once_in_order() {
    let found = errors(
        "lissten = 1\nthreads = 0\n[limits]\nbody = \"1X\"\nhead_timeout = 5\n[[site]]\n\
         hosts = [\"a:1\", \"b..c\"]\n\
         [site.php]\nworkers = -1\nini = { a = 1.5 }\n",
    );
    let heads: Vec<&str> = found.lines().filter(|line| line.starts_with("howdah.toml:")).collect();
    assert_eq!(
        heads,
        [
            "howdah.toml:1:1: unknown key `lissten` at the top level",
            "howdah.toml:2:11: 0 is too small",
            "howdah.toml:4:8: `1X` is not a size",
            "howdah.toml:5:16: 5 is a duration without a unit",
            "howdah.toml:6:1: the site has no root",
            "howdah.toml:7:10: `a:1` holds a port",
            "howdah.toml:7:17: `b..c` has an empty label",
            "howdah.toml:9:11: -1 is negative",
            "howdah.toml:10:13: expected a string, a whole number, `true` or `false`, \
             found a float",
        ]
    );
}

#[test]
fn no_pool_has_the_front_s_user() {
    let site = "[[site]]\nname = \"shop\"\nroot = \"/srv\"\n";
    assert_eq!(
        errors(&format!("{site}[site.php]\nuser = \"howdah\"\n")),
        "howdah.toml:5:8: the pool of site shop would run as howdah, the front's user\n \
         5 | user = \"howdah\"\n   \
           |        ^^^^^^^^\n   \
         help: name another user: a script could stop a front of its own user"
    );
    let found = errors(&format!("user = \"ann\"\n{site}[site.php]\nuser = \"ann\"\n"));
    assert!(
        found.starts_with("howdah.toml:6:8: the pool of site shop would run as ann"),
        "{found}"
    );
    let found = errors(&format!("user = \"www-data\"\n{site}"));
    assert!(found.starts_with("howdah.toml:1:8: the pool of site shop would run as www-data"));
    assert!(found.contains("leave `user` out, or set `user` in [site.php]"), "{found}");

    let good = |text: String| Config::parse(&text, "howdah.toml").unwrap();
    let named = good(format!("user = \"www-data\"\n{site}[site.php]\nuser = \"ann\"\n"));
    assert_eq!(named.user.unwrap().place(), Some("howdah.toml:1:8"));
    let pool = named.sites[0].php.as_ref().unwrap().user.as_ref().unwrap();
    assert_eq!(pool.place(), Some("howdah.toml:6:8"));
    good(format!("user = \"www-data\"\n{site}php = false\n"));
}

/// Each row a file and what must be said about it.
#[test]
fn mistakes_and_what_is_said_about_them() {
    let site = "[[site]]\nroot = \"/srv\"\n";
    let rows = [
        ("", vec!["there is no site", "add one: `[[site]]`"]),
        ("= 3", vec!["howdah.toml:1:1: this is not TOML"]),
        ("listen = [\":80\"\n[[site]]\nroot = \"/srv\"", vec!["this is not TOML"]),
        ("site = 1", vec!["the sites are not a list of tables"]),
        (
            "[site]\nroot = \"/srv\"",
            vec!["the sites are not a list of tables", "two pairs of brackets"],
        ),
        ("[[sites]]\nroot = \"/srv\"", vec!["unknown key `sites`", "did you mean `site`?"]),
        (
            &format!("workers = 3\n{site}"),
            vec!["unknown key `workers` at the top level", "belongs in [site.php]"],
        ),
        (
            &format!("tls = [{{ cert = \"a\", key = \"b\" }}]\n{site}"),
            vec!["unknown key `tls` at the top level", "belongs in [[site]]"],
        ),
        (
            &format!("tls = true\n{site}"),
            vec!["unknown key `tls` at the top level", "belongs in a table of `listen`"],
        ),
        (
            &format!("{site}tls = {{ from = \"internal\", client_verify = \"require\" }}"),
            vec!["`client_verify` without `client_ca`", "remove `client_verify`"],
        ),
        (
            &format!("{site}body = \"1M\""),
            vec!["unknown key `body` in [[site]]", "belongs in [limits]"],
        ),
        (
            &format!("{site}colour = 1"),
            vec![
                "unknown key `colour`",
                "the keys in [[site]] are: name, hosts, listen, tls, root",
            ],
        ),
        (&format!("limits = 3\n{site}"), vec!["expected a table `[limits]`, found an integer"]),
        (&format!("listen = []\n{site}"), vec!["the list of addresses is empty"]),
        (
            &format!("{site}[acme]\nterms_agreed = true\nask = \"127.0.0.1:8000\""),
            vec!["`127.0.0.1:8000` is not a URL that can be asked", "begins with `http://`"],
        ),
        (
            &format!("{site}[acme]\nemail = \"a@example.org\""),
            vec!["agree to the authority's terms", "write `terms_agreed = true`"],
        ),
        (
            &format!("{site}[acme]\ndirectory = [\"http://ca.example.org\"]"),
            vec!["is not the URL of a directory", "begins with `https://`"],
        ),
        (
            &format!("{site}[acme]\nterms_agreed = true\nchallenges = [\"dns-01\"]"),
            vec!["`dns-01` without a program", "set `dns_hook`"],
        ),
        (
            &format!("{site}[acme]\nterms_agreed = true\neab_kid = \"a\""),
            vec!["`eab_kid` without `eab_hmac`"],
        ),
        (
            &format!("{site}[acme]\nchallenges = [\"http\"]\nemail = \"mailto:a@b\""),
            vec!["`http` is not a challenge", "`mailto:a@b` is not an address for mail"],
        ),
        (
            &format!("{site}[acme]\ndirectory = []\nterms_agreed = true"),
            vec!["there is no authority"],
        ),
        (&format!("listen = [\":80\", \"[::]:80\"]\n{site}"), vec!["[::]:80 is listed twice"]),
        (
            &format!("listen = [\"unix:/a\", {{ address = \"unix:/a\" }}]\n{site}"),
            vec!["unix:/a is listed twice"],
        ),
        (&format!("listen = [{{ mode = \"0600\" }}]\n{site}"), vec!["the listener has no address"]),
        (
            &format!("listen = [{{ address = \":80\", tls = true }}]\n{site}"),
            vec!["0.0.0.0:80 is for TLS, and no site that answers there has a certificate"],
        ),
        (
            &format!("listen = [{{ address = \":80\", mode = \"0600\" }}]\n{site}"),
            vec!["`mode` of a listener that is not a Unix socket"],
        ),
        (
            &format!("listen = [{{ address = \"unix:/a\", mode = 660 }}]\n{site}"),
            vec!["no permissions in octal", "\"0660\""],
        ),
        (
            &format!("{site}\n[site.php]\numask = \"0999\""),
            vec!["no permissions in octal", "\"0022\""],
        ),
        (
            &format!("listen = [{{ address = \":80\", proxy = true }}]\n{site}"),
            vec!["unknown key `proxy` in a table of `listen`"],
        ),
        (
            &format!("listen = [{{ address = \":80\", proxy_protocol = true }}]\n{site}"),
            vec!["no peer is trusted to send the PROXY protocol on 0.0.0.0:80", "trusted = "],
        ),
        (
            &format!("{site}\nlisten = \"127.0.0.1:81\""),
            vec!["no listener has the address 127.0.0.1:81", "at the top of the file"],
        ),
        (
            &format!(
                "listen = [\"127.0.0.1:1\", \"127.0.0.1:2\"]\n{site}\nlisten = \"127.0.0.1:2\""
            ),
            vec!["no site answers on 127.0.0.1:1"],
        ),
        (&format!("trusted_proxies = [\"proxy\"]\n{site}"), vec!["`proxy` is not a network"]),
        (&format!("trusted_proxies = true\n{site}"), vec!["expected a network"]),
        (
            &format!("client_address_header = \"Forwarded\"\n{site}"),
            vec!["forwarded_fields = [\"Forwarded\"]"],
        ),
        (&format!("client_address_header = \"X Y\"\n{site}"), vec!["not the name of a field"]),
        (
            &format!("forwarded_fields = [\"X-Real-IP\"]\n{site}"),
            vec!["`X-Real-IP` is not a field that tells more", "`client_address_header`"],
        ),
        (
            &format!("forwarded_fields = [\"Forwarded\", \"X-Forwarded-For\"]\n{site}"),
            vec!["Forwarded beside other fields"],
        ),
        (
            &format!("listen = 80\n{site}"),
            vec!["expected an address such as `\"127.0.0.1:8080\"`, found an integer"],
        ),
        (&format!("threads = \"many\"\n{site}"), vec!["`many` is not a count", "`\"auto\"`"]),
        (&format!("user = \"\"\n{site}"), vec!["the name is empty"]),
        (&format!("{site}hosts = []"), vec!["the list of hosts is empty"]),
        (&format!("{site}symlinks = \"some\""), vec!["`some` is not a policy", "`\"owner\"`"]),
        (
            &format!("{site}encoded_slashes = \"on\""),
            vec!["`on` says nothing about encoded slashes", "`\"decode\"`"],
        ),
        (&format!("{site}try = []"), vec!["there is nothing to try"]),
        (&format!("{site}try = [\"=404\", \"$uri\"]"), vec!["`=404` is not the last step"]),
        (
            &format!("{site}try = [\"/index.php?$args\"]"),
            vec!["names the query string", "always kept"],
        ),
        (&format!("{site}index = [\"a/b\"]"), vec!["`a/b` is not a plain name"]),
        (&format!("{site}refuse = [\"*.bak\"]"), vec!["`*.bak` is not the name of a file"]),
        (&format!("{site}name = \"../x\""), vec!["`../x` is not a plain name"]),
        (&format!("{site}php = 3"), vec!["expected a table `[site.php]`, found an integer"]),
        (
            &format!("{site}[site.php]\nsandbox = \"strickt\""),
            vec!["`strickt` is not a level of the sandbox", "`\"standard\"`"],
        ),
        (
            &format!("{site}[site.php]\nsandbox = \"off\"\nconnect = []"),
            vec!["howdah.toml:5:11: `connect` has no effect", "leave `connect` out"],
        ),
        (
            &format!("{site}[site.php]\nnice = 20\nmax_memory = \"8M\"\npass_env = [\"A-B\"]"),
            vec![
                "howdah.toml:4:8: 20 is no scheduling priority",
                "howdah.toml:5:14: \"8M\" is too small",
                "`A-B` is not the name of an environment variable",
            ],
        ),
        (
            &format!("{site}[site.php]\nmode = \"on-demand\""),
            vec!["`on-demand` is no mode of a pool", "`\"ondemand\"`"],
        ),
        (
            &format!(
                "{site}[site.php]\nchroot = \"/srv/jail\"\nstate_dir = \"/srv/jailed\"\n\
                 no_new_privs = false"
            ),
            vec![
                "is not below `chroot` = /srv/jail",
                "howdah.toml:5:13: `state_dir` = /srv/jailed is not below `chroot` = /srv/jail",
                "howdah.toml:6:16: `no_new_privs = false` beside `chroot`",
            ],
        ),
        (
            &format!("{site}[site.php]\nmode = \"static\"\nidle_timeout = \"5s\""),
            vec!["`idle_timeout` has no effect with `mode = \"static\"`", "leave `idle_timeout`"],
        ),
        (
            &format!("{site}[site.php]\nmode = \"ondemand\"\nmin_spare_workers = 1"),
            vec!["howdah.toml:5:21: `min_spare_workers` has no effect", "`mode = \"dynamic\"`"],
        ),
        (
            &format!("{site}[site.php]\nmode = \"dynamic\"\nworkers = 3\nmax_spare_workers = 4"),
            vec!["`max_spare_workers` = 4 is more than `workers` = 3"],
        ),
        (
            &format!(
                "{site}[site.php]\nmode = \"dynamic\"\nmin_spare_workers = 3\nmax_spare_workers = 2"
            ),
            vec!["`max_spare_workers` is less than `min_spare_workers` = 3"],
        ),
        (
            &format!(
                "{site}[site.php]\nmode = \"dynamic\"\nmin_spare_workers = 2\nstart_workers = 1"
            ),
            vec!["`start_workers` = 1 is not between", "workers that start are free"],
        ),
        (
            &format!("{site}[site.php]\nconnect = \"localhost:3306\""),
            vec!["`localhost:3306` is not an address with a port", "`\"127.0.0.1:3306\"`"],
        ),
        (
            &format!("{site}[site.php]\ndisable_functions = \"exec,system\""),
            vec!["`exec,system` is not the name of a function", "each function on its own"],
        ),
        (
            &format!("{site}[site.php]\nrlimits = {{ processes = 3 }}"),
            vec!["unknown key `processes` in [site.php.rlimits]", "nproc, core, nofile"],
        ),
        (
            &format!("{site}[site.php]\nversion = \"8\""),
            vec!["`8` is not a version of PHP", "give two numbers in quotes"],
        ),
        (
            &format!("{site}[site.php]\nversion = \"8.2\"\nprogram = \"/usr/bin/x\""),
            vec!["`version` beside `program`", "leave one out"],
        ),
        (
            &format!("{site}[[site.php.lane]]\npath = \"/a\""),
            vec!["the lane has no name", "add `name = \"search\"`"],
        ),
        (
            &format!("{site}[[site.php.lane]]\nname = \"a\""),
            vec!["the lane is for every request", "say which requests it is for"],
        ),
        (
            &format!(
                "{site}[site.php]\nlane = [{{ name = \"a\", path = \"/a\" }}, {{ name = \"a\", \
                    path = \"/b\" }}]"
            ),
            vec!["two lanes of the site are called `a`"],
        ),
        (
            &format!("{site}[[site.php.lane]]\nname = \"a\"\npath = \"a\""),
            vec!["`a` is not the path of a URL"],
        ),
        (
            &format!("{site}[[site.php.lane]]\nname = \"a\"\nmethod = \"post\""),
            vec!["`post` is not a method", "in capital letters"],
        ),
        (
            &format!("{site}[[site.php.lane]]\nname = \"a\"\ncookie = \"a b\""),
            vec!["`a b` is neither a name nor `NAME=VALUE`"],
        ),
        (
            &format!("{site}[[site.php.lane]]\nname = \"a\"\naddress = \"unix\""),
            vec!["`unix` is not the address of a client"],
        ),
        (&format!("{site}[site.php]\nextensions = [\".phps\"]"), vec!["`.phps` shows source code"]),
        (
            &format!("{site}[site.php]\ncpu_weight = 0"),
            vec!["0 is too small", "a whole number from 1 to 10000"],
        ),
        (&format!("{site}[site.php]\ncpu_weight = 10001"), vec!["10001 is too large"]),
        (
            &format!("{site}[site.php]\nini = {{ \"a b\" = 1 }}"),
            vec!["`a b` is not a php.ini name"],
        ),
        (&format!("{site}[site.php]\nini = {{ a = \"1\\n2\" }}"), vec!["holds a line break"]),
        (
            &format!("{site}[site.php]\nini = \"x\""),
            vec!["expected a table of php.ini names and values"],
        ),
        (
            &format!("{site}[site.php]\nenv = {{ \"A-B\" = 1 }}"),
            vec!["is not the name of an environment variable"],
        ),
        (
            &format!("{site}tls = {{ cert = \"a.pem\" }}"),
            vec!["howdah.toml:3:7: the certificate has no key", "`tls = { cert ="],
        ),
        (&format!("{site}tls = {{ key = \"a.key\" }}"), vec!["the key has no certificate"]),
        (&format!("{site}tls = {{}}"), vec!["the table has no certificate"]),
        (
            &format!("{site}tls = {{ cert = [\"a\", \"b\"], key = \"a\" }}"),
            vec!["each certificate needs a key of its own"],
        ),
        (
            &format!("{site}tls = {{ from = \"internal\", cert = \"a\", key = \"b\" }}"),
            vec!["come from an authority, and from files as well"],
        ),
        (&format!("{site}tls = []"), vec!["the list has no certificate", "write `tls = false`"]),
        (
            &format!("{site}tls = [{{ from = \"internal\" }}]"),
            vec!["howdah.toml:3:8: a table of the list has no certificate", "tls = \"internal\""],
        ),
        (
            &format!(
                "{site}tls = [{{ cert = \"a\", key = \"a\", client_ca = \"c\", hsts = \
                 \"max-age=1\" }}, {{ cert = \"b\", key = \"b\" }}]"
            ),
            vec!["must have the same `client_ca`, `hsts`", "cert = [\"FILE\", \"FILE\"]"],
        ),
        (
            &format!(
                "{site}tls = [{{ cert = \"a\", key = \"a\", min_version = \"1.3\" }}, \
                 {{ cert = \"b\", key = \"b\", min_version = \"1.2\" }}]"
            ),
            vec!["must have the same `min_version`"],
        ),
        (&format!("{site}tls = \"interal\""), vec!["`interal` is no source of certificates"]),
        (&format!("{site}tls = true"), vec!["expected `\"auto\"`, `\"internal\"`, `false`"]),
        (
            &format!("{site}tls = {{ cert = \"a\", keys = \"b\" }}"),
            vec!["unknown key `keys` in [site.tls]", "did you mean `key`?"],
        ),
        (
            &format!("{site}tls = {{ cert = \"a\", key = \"b\", min_version = \"1.1\" }}"),
            vec!["TLS 1.1 is broken"],
        ),
        (
            &format!("{site}tls = {{ cert = \"a\", key = \"b\", ciphers = \"old\" }}"),
            vec!["`old` is no list of ciphers", "`\"modern\"`"],
        ),
        (
            &format!("{site}tls = {{ cert = \"a\", key = \"b\", hsts = \"1y\" }}"),
            vec!["`1y` is no value of Strict-Transport-Security", "max-age="],
        ),
        (
            &format!("{site}tls = {{ cert = \"a\", key = \"b\" }}"),
            vec!["answers on no listener with TLS", "add `\":443\"`"],
        ),
        (
            &format!("listen = [\":443\"]\n{site}"),
            vec!["0.0.0.0:443 is for TLS, and no site", "tls = false"],
        ),
        (
            &format!("listen = [{{ address = \"unix:/a\", tls = true }}]\n{site}"),
            vec!["`tls` on a Unix socket"],
        ),
        (&format!("[log]\nerror = \"off\"\n{site}"), vec!["the error log cannot be turned off"]),
        (&format!("[log]\nlevel = \"debug\"\n{site}"), vec!["`debug` is not a log level"]),
        (&format!("[log]\naccess = \"\"\n{site}"), vec!["the log's place is empty"]),
        (&format!("[limits]\nbody_timeout = \"0s\"\n{site}"), vec!["the duration is zero"]),
        (
            &format!("[limits]\nconnections = 9223372036854775808\n{site}"),
            vec!["9223372036854775808 is too large"],
        ),
        (
            &format!("{site}hosts = \"*.a.org\"\n{site}hosts = [\"b.org\", \"*.a.org\"]"),
            vec!["howdah.toml:6:19: the host `*.a.org` is listed twice; first at line 3"],
        ),
        (
            &format!("{site}{site}"),
            vec!["howdah.toml:3:1: two sites answer for every other host (`*`)", "at line 1"],
        ),
        (
            &format!("{site}hosts = \"*.a.org\"\n{site}hosts = \"a.org\""),
            vec!["two sites are called `a.org`; the first is at line 1", "give each site a `name`"],
        ),
        (
            &format!("{site}name = \"x\"\n{site}hosts = \"a.org\"\nname = \"x\""),
            vec!["howdah.toml:7:8: two sites are called `x`"],
        ),
        (
            "[[site]]\nhosts = \"a.org\"\nroot = \"/srv/{host}\"",
            vec!["`{host}` in the root of a site with a single host"],
        ),
    ];
    for (text, said) in rows {
        let found = errors(text);
        for words in said {
            assert!(found.contains(words), "{text}\n\n{found}\n\ndoes not say: {words}");
        }
        assert!(!found.contains("two sites answer") || !found.contains("are called"), "{found}");
    }
}

/// Broken files must be refused, never panicked at, whatever is in the way.
#[test]
fn no_damage_to_a_file_makes_a_panic() {
    const PIECES: [&str; 16] = [
        "\n",
        "[",
        "]",
        "[[site]]",
        "=",
        "\"",
        "'",
        "{host}",
        "\u{e9}",
        "\0",
        "-1",
        "9e999",
        "\r\n",
        "\u{1f418}",
        ".",
        "{",
    ];
    let example = include_str!("../../../../docs/examples/several-sites.toml");
    let mut random: u64 = 0x2545_f491_4f6c_dd1d;
    let mut below = |limit: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random >> 33) as usize % limit
    };
    for _ in 0..1500 {
        let mut text = example.to_owned();
        for _ in 0..=below(3) {
            let from = text.floor_char_boundary(below(text.len()));
            let to = text.floor_char_boundary((from + below(30)).min(text.len()));
            text.replace_range(from..to.max(from), PIECES[below(PIECES.len())]);
        }
        if let Err(errors) = Config::parse(&text, "howdah.toml") {
            assert!(!errors.0.is_empty() && errors.to_string().contains("howdah.toml"));
        }
    }
}
