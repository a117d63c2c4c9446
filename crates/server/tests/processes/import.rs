//! `howdah import`.

use std::path::Path;
use std::process::Command;

use crate::support::{Folder, Setup};

#[test]
fn pools_of_php_fpm_become_a_configuration_that_is_good() {
    let folder = Folder::new();
    let pool = "[blog]\nuser = nobody\nlisten = /run/php.sock\npm = ondemand\n\
                pm.max_children = 5\npm.process_idle_timeout = 5s\n\
                pm.status_path = /fpm-status\nphp_admin_value[memory_limit] = 64M\n\
                request_terminate_timeout = 90\n";
    let pool = folder.file("fpm/pool.d/blog.conf", pool);
    let php_ini = folder.file("fpm/php.ini", "upload_max_filesize = 77M\n");
    let (code, config, remarks) = Setup::with(&["import", "fpm", pool.to_str().unwrap()]).run();
    assert_eq!(code, Some(0), "{remarks}");
    let expected = format!("howdah: {}:3: `listen = /run/php.sock` has no equal: ", pool.display());
    assert!(remarks.starts_with(&expected) && remarks.lines().count() == 1, "{remarks}");
    for line in [
        "mode = \"ondemand\"",
        "workers = 5",
        "idle_timeout = \"5s\"",
        "status_path = \"/fpm-status\"",
        "memory_limit = \"64M\"",
        "request_timeout = \"90s\"",
        "request_terminate_timeout = \"90s\"",
        &format!("ini_file = \"{}\"", php_ini.display()),
    ] {
        assert!(config.lines().any(|found| found == line), "{line} in {config}");
    }
    assert_good(&folder, &config);
}

/// Asserts that `howdah check` finds no mistake in an imported configuration, with places of this
/// folder.
fn assert_good(folder: &Folder, config: &str) {
    let root = folder.folder("public");
    let config = config.replace("/var/www/html", root.to_str().unwrap());
    let config = config.replace("sapi =", "state_dir = \"state\"\nsapi =");
    let file = folder.file("howdah.toml", config);
    let (code, told, errors) = Setup::with(&["check", "--config", file.to_str().unwrap()]).run();
    assert_eq!(code, Some(0), "{told}{errors}");
}

#[test]
fn the_place_of_sessions_is_named_or_kept() {
    // Debian's PHP has sessions there although its php.ini does not say so.
    let usual = "/var/lib/php/sessions";
    let line = format!("\"session.save_path\" = \"{usual}\"");
    let usual = Path::new(usual).is_dir().then_some(line.as_str());
    for (php_ini, pool, expected) in [
        ("", "", usual),
        ("; session.save_path = \"/a\"\n", "php_value[x] = 1\n", usual),
        (
            "[Session]\nsession.save_path = \"tcp://cache:6379\"\n",
            "",
            Some("\"session.save_path\" = \"tcp://cache:6379\""),
        ),
        ("session.save_path = /a\n", "php_admin_value[session.save_path] = /b\n", None),
    ] {
        let folder = Folder::new();
        folder.file("fpm/php.ini", php_ini);
        let pool = format!("[blog]\nrequest_terminate_timeout = 9\n{pool}");
        let pool = folder.file("fpm/pool.d/blog.conf", pool);
        let (code, config, remarks) = Setup::with(&["import", "fpm", pool.to_str().unwrap()]).run();
        assert_eq!((code, remarks.as_str()), (Some(0), ""));
        let of_ini = config.split("[site.php.ini]\n").nth(1).unwrap_or_default();
        let found = of_ini.lines().find(|line| line.contains("session.save_path"));
        assert_eq!(found, expected, "{config}");
        assert_good(&folder, &config);
    }
}

#[test]
fn settings_that_only_php_fpm_reads_are_named() {
    let folder = Folder::new();
    let pool = folder.file("fpm/pool.d/blog.conf", "[blog]\nrequest_terminate_timeout = 9\n");
    let own = folder.file("fpm/conf.d/99-own.ini", "memory_limit = 1G\n");
    for name in ["fpm/conf.d/10-opcache.ini", "embed/conf.d/10-opcache.ini", "fpm/conf.d/x.bak"] {
        folder.file(name, "");
    }
    let (code, _, remarks) = Setup::with(&["import", "fpm", pool.to_str().unwrap()]).run();
    assert_eq!(code, Some(0), "{remarks}");
    let expected = format!("howdah: {} is not read: ", own.display());
    assert!(remarks.starts_with(&expected) && remarks.lines().count() == 1, "{remarks}");
}

#[test]
fn a_comment_may_have_any_bytes() {
    let folder = Folder::new();
    let pool = b"; f\xfcr den Blog\n[blog]\nrequest_terminate_timeout = 9\npm.max_children = 3\n\
                 php_value[x] = \xfc\n";
    let file = folder.file("blog.conf", pool);
    let (code, config, told) = Setup::with(&["import", "fpm", file.to_str().unwrap()]).run();
    assert_eq!(code, Some(0), "{told}");
    assert!(config.contains("workers = 3\n") && !config.contains("x ="), "{config}");
    let expected = format!("howdah: {}:5: `php_value[x] = \u{fffd}` is not UTF-8", file.display());
    assert!(told.starts_with(&expected) && told.lines().count() == 1, "{told}");
}

#[test]
fn a_file_without_an_end_is_an_error() {
    let (code, config, told) = Setup::with(&["import", "fpm", "/dev/zero"]).run();
    assert_eq!((code, config.as_str()), (Some(1), ""));
    assert!(told.contains("/dev/zero: is longer than 4 MiB"), "{told}");
}

#[test]
fn files_without_a_pool_are_an_error() {
    let folder = Folder::new();
    let file = folder.file("php-fpm.conf", "[global]\ninclude = /etc/php/8.2/fpm/pool.d/*.conf\n");
    let (code, config, told) = Setup::with(&["import", "fpm", file.to_str().unwrap()]).run();
    assert_eq!((code, config.as_str()), (Some(1), ""));
    assert!(
        told.contains(":2: `include = /etc/php/8.2/fpm/pool.d/*.conf` is not followed"),
        "{told}"
    );
    assert!(told.ends_with("howdah: there is no pool in these files\n"), "{told}");
}

/// Values as they are in a file, each of which php-fpm takes.
const VALUES: &[&str] = &[
    "64M",
    "64M ; as much",
    "64M;as much",
    "\"a;b\" ; c",
    "'a;b'",
    "/usr/sbin/sendmail -t -i -f \"www@my.example\"",
    "a \"b c\" d",
    "a 'b c' d",
    "'ab'c",
    "'ab' 'c'",
    "\"ab\" \"c\"",
    "it's",
    "\"a\\\"b\"",
    "\"a\\\\b\"",
    "\"a\\nb\"",
    "a b  c",
    "on",
    "Off ",
    "yes ; x",
    "True",
    "no",
    "none",
    "null",
    "FALSE",
    "\"on\"",
    "offline",
    "",
    "\"\"",
    "a$b",
    "$x",
    "\"$x\"",
    "{a}",
    "1 # x",
    "@x<y>[z]%d,e",
    "$pool-$pool",
    "'${HOME}'",
];

#[test]
fn values_are_what_php_fpm_reads() {
    if !Path::new(PHP_FPM).exists() {
        return howdah_skip::skip!("no {PHP_FPM}; scripts/install-packages.sh test installs it");
    }
    let folder = Folder::new();
    let settings: Vec<String> = (0..VALUES.len())
        .map(|number| format!("php_value[x.v{number}] = {}\n", VALUES[number]))
        .collect();
    let socket = folder.path().join("socket");
    let text = format!(
        "[global]\nerror_log = /dev/null\n[www]\nuser = nobody\nlisten = {}\npm = static\n\
         pm.max_children = 1\n{}",
        socket.display(),
        settings.concat()
    );
    let file = folder.file("php-fpm.conf", text);
    let path = file.to_str().unwrap();
    let told = Command::new(PHP_FPM).args(["-n", "-tt", "-y", path]).output().unwrap();
    let told = String::from_utf8_lossy(&told.stderr).into_owned();
    let (code, config, remarks) = Setup::with(&["import", "fpm", path]).run();
    assert_eq!(code, Some(0), "{remarks}");
    let config = howdah_config::Config::parse(&config, "x.toml").unwrap();
    let ini = &config.sites[0].php.as_ref().unwrap().ini;
    for (number, value) in VALUES.iter().enumerate() {
        let name = format!("x.v{number}");
        let own = ini.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str());
        let start = format!("php_value[{name}] = ");
        let theirs = told.lines().find_map(|line| Some(line.split_once(&start)?.1));
        assert_eq!(own, theirs.or(Some("-")), "{value}\n{told}\n{remarks}");
    }
}

#[test]
fn a_file_that_is_not_there_is_an_error() {
    let (code, _, told) = Setup::with(&["import", "fpm", "/no/such/file.conf"]).run();
    assert_eq!(code, Some(1));
    assert!(told.starts_with("howdah: /no/such/file.conf: "), "{told}");
}

/// The php-fpm that says whether the directives below are its own.
const PHP_FPM: &str = "/usr/sbin/php-fpm8.2";

/// Every directive of php-fpm 8.2 as a whole, of which each has a remark.
const OF_THE_SERVER: &[&str] = &[
    "pid = /run/fpm.pid",
    "error_log = /dev/null",
    "syslog.facility = daemon",
    "syslog.ident = php-fpm",
    "log_level = notice",
    "log_limit = 4096",
    "log_buffering = no",
    "emergency_restart_threshold = 3",
    "emergency_restart_interval = 60s",
    "process_control_timeout = 10s",
    "process.max = 128",
    "process.priority = 0",
    "daemonize = no",
    "rlimit_files = 1024",
    "rlimit_core = 0",
    "events.mechanism = epoll",
    "systemd_interval = 10",
];

/// Every directive of its pools, with the line that it becomes; one without a line has a remark.
const OF_A_POOL: &[(&str, &str)] = &[
    ("prefix = /var", ""),
    ("user = nobody", "user = \"nobody\""),
    ("group = nogroup", "group = \"nogroup\""),
    ("listen = 127.0.0.1:9", ""),
    ("listen.backlog = 511", ""),
    ("listen.owner = nobody", ""),
    ("listen.group = nogroup", ""),
    ("listen.mode = 0660", ""),
    ("listen.acl_users = nobody", ""),
    ("listen.acl_groups = nogroup", ""),
    ("listen.allowed_clients = 127.0.0.1", ""),
    ("process.priority = -1", "nice = -1"),
    ("process.dumpable = yes", ""),
    ("pm = dynamic", "mode = \"dynamic\""),
    ("pm.max_children = 5", "workers = 5"),
    ("pm.start_servers = 2", "start_workers = 2"),
    ("pm.min_spare_servers = 1", "min_spare_workers = 1"),
    ("pm.max_spare_servers = 3", "max_spare_workers = 3"),
    ("pm.max_spawn_rate = 32", ""),
    ("pm.max_requests = 500", "max_requests = 500"),
    ("pm.status_path = /status", "status_path = \"/status\""),
    ("pm.status_listen = 127.0.0.1:10", ""),
    ("ping.path = /ping", "ping_path = \"/ping\""),
    ("ping.response = pong", "ping_response = \"pong\""),
    ("access.log = /dev/null", ""),
    ("access.format = \"%R\"", ""),
    ("access.suppress_path[] = /ping", ""),
    ("slowlog = /dev/null", ""),
    ("request_slowlog_timeout = 5s", "slow_after = \"5s\""),
    ("request_slowlog_trace_depth = 20", "slow_trace_depth = 20"),
    ("request_terminate_timeout = 90s", "request_terminate_timeout = \"90s\""),
    ("request_terminate_timeout_track_finished = no", ""),
    ("rlimit_files = 2048", "nofile = 2048"),
    ("rlimit_core = 0", "core = 0"),
    ("chroot = /srv", "chroot = \"/srv\""),
    ("chdir = /", "chdir = \"/\""),
    ("catch_workers_output = no", ""),
    ("decorate_workers_output = no", ""),
    ("clear_env = no", ""),
    ("security.limit_extensions = .php .phtml", "extensions = [\".php\", \".phtml\"]"),
    ("apparmor_hat = pool", ""),
    ("env[TMP] = /tmp", "TMP = \"/tmp\""),
    ("php_value[memory_limit] = 64M", "memory_limit = \"64M\""),
    ("php_flag[display_errors] = off", "display_errors = \"0\""),
    ("php_admin_value[sendmail_path] = /bin/true", "sendmail_path = \"/bin/true\""),
    ("php_admin_flag[log_errors] = on", "log_errors = \"1\""),
    ("include = /none/*.conf", ""),
];

#[test]
fn every_directive_of_php_fpm_has_an_equal_or_a_remark() {
    let folder = Folder::new();
    let pool: Vec<&str> = OF_A_POOL.iter().map(|(line, _)| *line).collect();
    let lines = [&["[global]"], OF_THE_SERVER, &["[pool]"], &pool].concat();
    let file = folder.file("php-fpm.conf", lines.join("\n"));
    let path = file.to_str().unwrap();
    let (code, config, remarks) = Setup::with(&["import", "fpm", path]).run();
    assert_eq!(code, Some(0), "{remarks}");
    let plain = |text: &str| text.replace(['"', '[', ']'], "");
    let remarks_about = |line: &str| {
        let number = 1 + lines.iter().rposition(|known| *known == line).unwrap();
        let place = plain(&format!("howdah: {path}:{number}: `{line}` "));
        remarks.lines().filter(|remark| plain(remark).starts_with(&place)).count()
    };
    for line in OF_THE_SERVER {
        assert!(remarks.contains(&format!(": `{line}` ")), "{line} in {remarks}");
    }
    for (line, equal) in OF_A_POOL {
        assert_eq!(remarks_about(line), usize::from(equal.is_empty()), "{line} in {remarks}");
        assert!(equal.is_empty() || config.lines().any(|found| found == *equal), "{config}");
    }
    assert!(!remarks.contains("is not known"), "{remarks}");
    // php-fpm itself knows these directives.
    let Ok(known) = Command::new(PHP_FPM).args(["-n", "-t", "-y", path]).output() else {
        return howdah_skip::skip!("no {PHP_FPM}; scripts/install-packages.sh test installs it");
    };
    let said = String::from_utf8_lossy(&known.stderr);
    assert!(!said.contains("unknown entry"), "{said}");
}

#[test]
fn the_guide_names_every_directive_of_php_fpm() {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/php-fpm.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    let of_pools = OF_A_POOL.iter().map(|(line, _)| line);
    for line in OF_THE_SERVER.iter().chain(of_pools) {
        let name = line.split([' ', '[']).next().unwrap();
        assert!(guide.contains(&format!("`{name}")), "{name}");
    }
}

#[test]
fn the_pool_that_debian_installs_becomes_one_that_howdah_serves() {
    let debian = "/etc/php/8.2/fpm/pool.d/www.conf";
    if !Path::new(debian).exists() {
        return howdah_skip::skip!("no {debian}; scripts/install-packages.sh test installs it");
    }
    let (code, config, remarks) = Setup::with(&["import", "fpm", debian]).run();
    assert_eq!(code, Some(0), "{remarks}");
    for line in ["user = \"www-data\"", "mode = \"dynamic\"", "workers = 5", "start_workers = 2"] {
        assert!(config.lines().any(|found| found == line), "{line} in {config}");
    }
    assert!(!remarks.contains("is not known") && !remarks.contains("no setting"), "{remarks}");
    let folder = Folder::new();
    assert_good(&folder, &config);
}
